/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake_gpu.h"

#include "base/base.h"
#include "support/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fake_gpu *gpu_of(const struct gpud_device *device)
{
    return device->backend;
}

/* --- memory: its bytes are behind native, not behind host ---------------------------------- */

/* Memory that has dma-bufs. */
struct shared {
    int fd;
    uint64_t size;
};

static enum gpud_status alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    if (memory->usage == GPUD_USAGE_DMABUF && gpu_of(memory->device)->no_dmabufs)
        return gpud_fail(error, GPUD_UNSUPPORTED, "this driver makes no dma-bufs");
    if (memory->usage == GPUD_USAGE_DMABUF) {
        struct shared *shared = calloc(1, sizeof(*shared));
        CHECK(shared, "out of memory");
        shared->fd = memfd_create("fake GPU", MFD_CLOEXEC);
        shared->size = (memory->size + 4095) & ~4095ul;
        CHECK(shared->fd >= 0 && ftruncate(shared->fd, (off_t)shared->size) == 0, "no memfd");
        memory->native =
            mmap(NULL, shared->size, PROT_READ | PROT_WRITE, MAP_SHARED, shared->fd, 0);
        CHECK(memory->native != MAP_FAILED, "no memory");
        memory->backend = shared;
        gpu_of(memory->device)->memories++;
        return GPUD_OK;
    }
    memory->native = memory->backend = aligned_alloc(4096, (memory->size + 4095) & ~4095ul);
    CHECK(memory->native, "out of memory");
    memset(memory->native, 0, memory->size);
    gpu_of(memory->device)->memories++;
    return GPUD_OK;
}

static enum gpud_status wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct fake_gpu *gpu = gpu_of(memory->device);
    if (gpu->refused_wraps) {
        gpu->refused_wraps--;
        return gpud_fail(error, GPUD_UNSUPPORTED, "these pages cannot be pinned");
    }
    memory->native = memory->host;
    memory->unpinned = gpu->no_pins;
    gpu->memories++;
    return GPUD_OK;
}

static void free_memory(struct gpud_memory *memory)
{
    struct fake_gpu *gpu = gpu_of(memory->device);
    pthread_mutex_lock(&gpu->lock);
    for (uint32_t i = 0; i < gpu->count; i++)
        CHECK(gpu->commands[i].kind != FAKE_COPY ||
                  (gpu->commands[i].copy.to != memory && gpu->commands[i].copy.from != memory),
              "memory freed that a copy uses");
    gpu->memories--;
    pthread_mutex_unlock(&gpu->lock);
    if (memory->usage == GPUD_USAGE_DMABUF) {
        struct shared *shared = memory->backend;
        munmap(memory->native, shared->size);
        close(shared->fd);
    }
    free(memory->backend);
    gpud_memory_freed(memory);
}

static enum gpud_status export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                      int *fd, uint64_t *offset, struct gpud_error *error)
{
    const struct fake_gpu *gpu = gpu_of(memory->device);
    const struct shared *shared = memory->backend;
    CHECK(memory->usage == GPUD_USAGE_DMABUF, "memory that was not made for that");
    if (from)
        return gpud_fail(error, GPUD_UNSUPPORTED, "no dma-buf begins in the middle");
    *fd = fcntl(shared->fd, F_DUPFD_CLOEXEC, 3);
    CHECK(*fd >= 0, "no descriptor");
    CHECK(ftruncate(*fd, (off_t)(shared->size - gpu->dmabuf_missing)) == 0, "ftruncate");
    *offset = gpu->dmabuf_offset;
    return GPUD_OK;
}

static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    struct fake_gpu *gpu = gpu_of(memory->device);
    gpu->flushes++;
    return gpu->no_flush ? gpud_fail(error, GPUD_UNSUPPORTED, "this GPU cannot flush") : GPUD_OK;
}

const unsigned char *fake_gpu_bytes(const struct gpud_memory *memory)
{
    return memory->native;
}

/* --- queues -------------------------------------------------------------------------------- */

static void run_copy(const struct gpud_copy *copy)
{
    unsigned char *to = (unsigned char *)copy->to->native + copy->to_offset;
    const unsigned char *from = (const unsigned char *)copy->from->native + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy(to + (size_t)row * copy->to_stride, from + (size_t)row * copy->from_stride,
               copy->row_bytes);
}

/* The next command to run, by its place; gpu->count: none can. */
static uint32_t choose(const struct fake_gpu *gpu)
{
    uint32_t chosen = gpu->count;
    for (uint32_t i = 0; i < gpu->count; i++) {
        const struct fake_command *command = &gpu->commands[i];
        bool ready = command->kind != FAKE_AWAIT || gpu->passed[command->fence];
        for (uint32_t before = 0; before < i && ready; before++)
            ready = gpu->commands[before].queue != command->queue;
        if (ready)
            chosen = i;
    }
    return chosen;
}

static void run(const struct fake_command *command, enum gpud_status status)
{
    if (command->kind == FAKE_CALL)
        command->fn(command->arg, status);
    else if (command->kind == FAKE_COPY && status == GPUD_OK)
        run_copy(&command->copy);
}

void fake_gpu_run(struct fake_gpu *gpu, enum gpud_status status)
{
    for (;;) {
        pthread_mutex_lock(&gpu->lock);
        uint32_t at = choose(gpu);
        bool any = at < gpu->count;
        struct fake_command command = gpu->commands[any ? at : 0];
        if (any)
            memmove(gpu->commands + at, gpu->commands + at + 1,
                    (--gpu->count - at) * sizeof(gpu->commands[0]));
        if (any && command.kind == FAKE_FENCE)
            gpu->passed[command.fence] = true;
        CHECK(any || gpu->count == 0, "the queues wait for each other");
        pthread_mutex_unlock(&gpu->lock);
        if (!any)
            return;
        run(&command, status);
    }
}

/* An application's own queue is its pointer, ours is its record. */
static const void *which(const struct gpud_queue *queue)
{
    return queue->native ? queue->native : queue;
}

static void enqueue(struct gpud_queue *queue, struct fake_command command)
{
    struct fake_gpu *gpu = gpu_of(queue->device);
    command.queue = which(queue);
    pthread_mutex_lock(&gpu->lock);
    CHECK(gpu->count < 64, "too many commands");
    gpu->commands[gpu->count++] = command;
    pthread_mutex_unlock(&gpu->lock);
    if (!gpu->manual)
        fake_gpu_run(gpu, GPUD_OK);
}

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static void destroy(struct gpud_queue *queue)
{
}

static enum gpud_status copy(struct gpud_queue *queue, const struct gpud_copy *what,
                             struct gpud_error *error)
{
    struct fake_gpu *gpu = gpu_of(queue->device);
    if (gpu->fail_copies > 0 && gpu->fail_copies--)
        return gpud_fail(error, GPUD_IO, "the copy engine fell off the bus");
    enqueue(queue, (struct fake_command){.kind = FAKE_COPY, .copy = *what});
    return GPUD_OK;
}

static enum gpud_status flush(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    struct fake_gpu *gpu = gpu_of(queue->device);
    if (gpu->fail_completes > 0 && gpu->fail_completes--)
        return gpud_fail(error, GPUD_NO_MEMORY, "no memory for a callback");
    enqueue(queue, (struct fake_command){.kind = FAKE_CALL, .fn = fn, .arg = arg});
    return GPUD_OK;
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    struct fake_gpu *gpu = gpu_of(queue->device);
    for (;;) {
        pthread_mutex_lock(&gpu->lock);
        bool done = true;
        for (uint32_t i = 0; i < gpu->count; i++)
            done &= gpu->commands[i].queue != which(queue);
        pthread_mutex_unlock(&gpu->lock);
        if (done)
            return GPUD_OK;
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the queue stands still");
        usleep(1000);
    }
}

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    enum gpud_status status = finish(queue, deadline, error);
    if (status == GPUD_OK)
        *data = (char *)memory->native + offset;
    return status;
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    return GPUD_OK;
}

/* --- fences -------------------------------------------------------------------------------- */

static enum gpud_status wrap(struct gpud_queue *queue, void *native, struct gpud_error *error)
{
    queue->native = native;
    return GPUD_OK;
}

static enum gpud_status mark(struct gpud_queue *queue, void **fence, struct gpud_error *error)
{
    struct fake_gpu *gpu = gpu_of(queue->device);
    CHECK(++gpu->last < 64, "too many fences");
    gpu->fences++;
    *fence = (void *)gpu->last;
    enqueue(queue, (struct fake_command){.kind = FAKE_FENCE, .fence = gpu->last});
    return GPUD_OK;
}

static enum gpud_status await(struct gpud_queue *queue, void *fence, struct gpud_error *error)
{
    enqueue(queue, (struct fake_command){.kind = FAKE_AWAIT, .fence = (uintptr_t)fence});
    return GPUD_OK;
}

static void drop(struct gpud_device *device, void *fence)
{
    gpu_of(device)->fences--;
}

static void close_gpu(struct gpud_device *device)
{
}

static const struct gpud_memory_ops memory_ops = {
    .alloc = alloc,
    .wrap_host = wrap_host,
    .free = free_memory,
    .flush_remote = flush_remote,
};
static const struct gpud_dmabuf_ops dmabuf_ops = {.export_part = export_dmabuf};
static const struct gpud_queue_ops queue_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .flush = flush,
    .on_complete = on_complete,
    .finish = finish,
    .map = map,
    .unmap = unmap,
};
static const struct gpud_fence_ops fence_ops = {
    .mark = mark, .await = await, .drop = drop, .wrap = wrap};
static const struct gpud_signal_ops signal_ops;
static const struct gpud_device_ops ops = {
    .name = "fake",
    .close = close_gpu,
    .memory = &memory_ops,
    .dmabuf = &dmabuf_ops,
    .queue = &queue_ops,
    .signal = &signal_ops,
};
static const struct gpud_device_ops fenced_ops = {
    .name = "fake",
    .close = close_gpu,
    .memory = &memory_ops,
    .dmabuf = &dmabuf_ops,
    .queue = &queue_ops,
    .fence = &fence_ops,
    .signal = &signal_ops,
};

void fake_gpu_open(struct fake_gpu *gpu, struct gpud_context *context)
{
    *gpu = (struct fake_gpu){.device = calloc(1, sizeof(*gpu->device))};
    CHECK(gpu->device, "out of memory");
    pthread_mutex_init(&gpu->lock, NULL);
    gpu->device->ops = &ops;
    gpu->device->context = context;
    gpu->device->references = 1;
    gpu->device->backend = gpu;
    gpud_print(gpu->device->info.name, "fake:0");
}

void fake_gpu_give_fences(struct fake_gpu *gpu)
{
    gpu->device->ops = &fenced_ops;
    gpu->device->caps |= GPUD_CAP_FENCES;
}

void fake_gpu_close(struct fake_gpu *gpu)
{
    CHECK_EQUAL(gpu->fences, 0);
    CHECK_EQUAL(gpu->memories, 0);
    CHECK_EQUAL(gpu->device->references, 1);
    free(gpu->device);
    gpu->device = NULL;
    pthread_mutex_destroy(&gpu->lock);
}

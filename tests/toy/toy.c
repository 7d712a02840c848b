/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* toy:0, a device of a vendor that does not exist. Its memory is pages of its own and its CPU
 * copies, as the host's; but it is not the host, and nothing outside this folder knows of it. What
 * passes the conformance suites here shows how little a new backend needs elsewhere: its line in
 * the table of device/device.h, which is given on the command line here, and one line in
 * meson.build. The test "toy-lines" counts them. */
#include "base/base.h"
#include "device/device.h"
#include "route/route.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- memory -------------------------------------------------------------------------------- */

struct toy_memory {
    bool ours; /* the pages are to be unmapped */
    int fd;    /* they can be exported by; -1 */
};

static enum gpud_status new_record(struct gpud_memory *memory, bool ours, int fd, void *data,
                                   struct gpud_error *error)
{
    struct toy_memory *toy = malloc(sizeof(*toy));
    if (!toy)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    *toy = (struct toy_memory){ours, fd};
    memory->native = memory->host = data;
    memory->backend = toy;
    return GPUD_OK;
}

static enum gpud_status alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    enum gpud_share share =
        memory->usage == GPUD_USAGE_TARGET ? GPUD_SHARE_WRITABLE : GPUD_SHARE_READ_ONLY;
    int fd = -1;
    void *data;
    enum gpud_status status = GPUD_OK;
    if (memory->usage == GPUD_USAGE_LOCAL) {
        data = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
            status = gpud_fail_errno(error, "no %llu bytes for %s",
                                     (unsigned long long)memory->size, memory->device->info.name);
    } else {
        status = gpud_memfd_create("toy", memory->size, share, &fd, &data, error);
    }
    return status == GPUD_OK ? new_record(memory, true, fd, data, error) : status;
}

static enum gpud_status wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    return new_record(memory, false, -1, memory->native, error);
}

static enum gpud_status wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    return new_record(memory, false, -1, memory->host, error);
}

static void free_memory(struct gpud_memory *memory)
{
    struct toy_memory *toy = memory->backend;
    if (toy->ours)
        gpud_memory_unmap_pages(memory->host, memory->size);
    gpud_fd_close(&toy->fd);
    free(toy);
    gpud_memory_freed(memory);
}

static enum gpud_status export_handle(struct gpud_memory *memory, struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    int fd = fcntl(((const struct toy_memory *)memory->backend)->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return gpud_fail_errno(error, "cannot duplicate a descriptor");
    handle->type = GPUD_HANDLE_MEMFD;
    handle->fd = fd;
    return GPUD_OK;
}

static enum gpud_status import_handle(struct gpud_memory *memory, const struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    void *data;
    if (handle->type != GPUD_HANDLE_MEMFD || handle->fd < 0)
        return gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a toy");
    enum gpud_status status =
        gpud_memfd_map(handle->fd, memory->size, memory->usage == GPUD_USAGE_TARGET, &data, error);
    return status == GPUD_OK ? new_record(memory, true, -1, data, error) : status;
}

static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    return GPUD_OK;
}

static const struct gpud_memory_ops memory_ops = {
    .alloc = alloc,
    .wrap = wrap,
    .wrap_host = wrap_host,
    .free = free_memory,
    .export_handle = export_handle,
    .import_handle = import_handle,
    .flush_remote = flush_remote,
};

/* --- queues: all is done when a call returns ----------------------------------------------- */

static enum gpud_status create_queue(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static void destroy_queue(struct gpud_queue *queue)
{
}

static enum gpud_status copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error)
{
    char *to = (char *)copy->to->host + copy->to_offset;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memmove(to + (size_t)row * copy->to_stride, from + (size_t)row * copy->from_stride,
                copy->row_bytes);
    return GPUD_OK;
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    fn(arg, GPUD_OK);
    return GPUD_OK;
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    return GPUD_OK;
}

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    *data = (char *)memory->host + offset;
    return GPUD_OK;
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    return GPUD_OK;
}

static const struct gpud_queue_ops queue_ops = {
    .create = create_queue,
    .destroy = destroy_queue,
    .copy = copy,
    .on_complete = on_complete,
    .finish = finish,
    .map = map,
    .unmap = unmap,
};

/* --- signals ------------------------------------------------------------------------------- */

static void destroy_signal(struct gpud_signal *signal)
{
}

static enum gpud_status poison(struct gpud_signal *signal, uint32_t value, struct gpud_error *error)
{
    gpud_signal_raise_word(signal, value);
    gpud_futex_wake(gpud_signal_word(signal));
    return GPUD_OK;
}

static enum gpud_status post(struct gpud_signal *signal, uint32_t value, struct gpud_queue *queue,
                             struct gpud_error *error)
{
    return poison(signal, value, error);
}

static enum gpud_status wait_host(struct gpud_signal *signal, uint32_t value, int64_t deadline,
                                  struct gpud_error *error)
{
    uint32_t seen;
    while ((seen = atomic_load(gpud_signal_word(signal))) < value) {
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the signal stands at %u, not yet at %u", seen,
                             value);
        gpud_futex_wait(gpud_signal_word(signal), seen, deadline);
    }
    return GPUD_OK;
}

static enum gpud_status wait_queue(struct gpud_signal *signal, uint32_t value,
                                   struct gpud_queue *queue, struct gpud_error *error)
{
    return wait_host(signal, value, gpud_deadline(GPUD_SEC), error);
}

static const struct gpud_signal_ops signal_ops = {
    .create = gpud_signal_create_word,
    .import = gpud_signal_import_word,
    .destroy = destroy_signal,
    .post = post,
    .wait_queue = wait_queue,
    .wait_host = wait_host,
    .poison = poison,
};

/* --- the device ---------------------------------------------------------------------------- */

static unsigned count(void)
{
    return 1;
}

static void probe(struct gpud_device *device)
{
    device->caps =
        GPUD_CAP_CPU_ADDRESSABLE | GPUD_CAP_SYNCHRONOUS | GPUD_CAP_SHARE | GPUD_CAP_SIGNALS;
    device->info.available = true;
    device->info.direct_writes = true;
    gpud_print(device->info.description, "a toy");
}

/* Called while a toy is opened, as a driver that takes its time; NULL: nothing is. */
extern void (*toy_on_open)(void);
void (*toy_on_open)(void);

static enum gpud_status open_toy(struct gpud_device *device, struct gpud_error *error)
{
    if (toy_on_open)
        toy_on_open();
    return GPUD_OK;
}

static void close_toy(struct gpud_device *device)
{
}

const struct gpud_device_ops gpud_toy_ops = {
    .name = "toy",
    .count = count,
    .probe = probe,
    .open = open_toy,
    .close = close_toy,
    .memory = &memory_ops,
    .queue = &queue_ops,
    .signal = &signal_ops,
};

/* toy: a route that no machine needs, into pages of a receiver on the host. What passes the suite
 * of the routes here shows how little a new one needs elsewhere: its line in the table of select.c,
 * by GPUD_TEST_ROUTE here, and its line in meson.build. */

/* Only where an end asks for it, so that all other tests of this core go by the others. */
static bool can_connect(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                        char why[GPUD_REASON_MAX])
{
    bool asked = strcmp(sender->route, "toy") == 0 || strcmp(receiver->route, "toy") == 0;
    if (asked && receiver->caps & GPUD_CAP_HOST &&
        memcmp(sender->host, receiver->host, sizeof(sender->host)) == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "only to a receiver on the host, on one machine, if asked for");
    return false;
}

const struct gpud_route_ops gpud_toy_route = {
    .name = "toy",
    .ring = GPUD_RING_RECEIVER_HOST,
    .direct = true,
    .can_connect = can_connect,
};

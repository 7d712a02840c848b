/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host as a device: memory is pages, a queue works synchronously, a signal is a word with a
 * futex. */
#include "device/device.h"

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct host_part {
    struct host_part *next;
    uint64_t from, size;
    int dmabuf;
};

struct host_memory {
    int fd;          /* a memfd; -1: none */
    int dmabuf;      /* of the whole memory; -1: none */
    void *base;      /* start of the mapping */
    uint64_t mapped; /* of the mapping, in bytes */
    /* The parts of shared read-only memory that have a dma-buf. The kernel makes none once the
     * memory is shared, so they are made before and kept; under map_lock. */
    struct host_part *parts;
};

/* === dmabuf ================================================================================== */
/* Host memory that has a dma-buf, from one of the kernel's exporters, best first:
 *
 *   udmabuf      pages of our own, a memfd's: any part of them can be a dma-buf that begins there
 *   a heap       pages that the kernel makes, of /dev/dma_heap/system before others
 *   a DRM node   a dumb buffer of a device that is on no PCI card, for its memory is the host's:
 * vgem, or a SoC's display. That of a card's GPU would lie in its own memory, which the CPU reads
 * slowly. */

#define HEAPS "/dev/dma_heap"
#define CARDS "/dev/dri"

/* As in the kernel's drm.h and drm_mode.h, which only libdrm installs. */
struct drm_dumb {
    uint32_t height, width, bits, flags;
    uint32_t handle, pitch; /* filled */
    uint64_t size;          /* filled */
};
struct drm_prime {
    uint32_t handle, flags;
    int32_t fd; /* filled */
};
struct drm_close {
    uint32_t handle, pad;
};
#define DRM_GEM_CLOSE _IOW('d', 0x09, struct drm_close)
#define DRM_DROP_MASTER _IO('d', 0x1f)
#define DRM_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct drm_prime)
#define DRM_CREATE_DUMB _IOWR('d', 0xb2, struct drm_dumb)
#define DUMB_WIDTH 4096u /* a row is one page */

static int host_call(int fd, unsigned long request, void *argument)
{
    int result;
    do {
        result = ioctl(fd, request, argument);
    } while (result < 0 && (errno == EINTR || errno == EAGAIN));
    return result;
}

/* --- udmabuf ------------------------------------------------------------------------------- */

/* A dma-buf of whole pages of a sealed memfd; -1 and errno on failure. */
static int make_udmabuf(int memfd, uint64_t from, uint64_t size)
{
    int maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    if (maker < 0)
        return -1;
    struct udmabuf_create create = {
        .memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .offset = from, .size = size};
    int made = host_call(maker, UDMABUF_CREATE, &create);
    int number = errno;
    close(maker);
    errno = number;
    return made;
}

static int try_udmabuf(struct host_memory *made, uint64_t size, void **data)
{
    struct gpud_error error;
    if (gpud_memfd_create("gpudirect-dmabuf", size, GPUD_SHARE_WRITABLE, &made->fd, data, &error) !=
        GPUD_OK) {
        errno = ENOMEM;
        return -1;
    }
    made->dmabuf = make_udmabuf(made->fd, 0, size);
    if (made->dmabuf >= 0)
        return 0;
    int number = errno;
    gpud_memory_unmap_pages(*data, size);
    gpud_fd_close(&made->fd);
    errno = number;
    return -1;
}

/* --- heaps and DRM nodes ------------------------------------------------------------------- */

static int map_dmabuf(struct host_memory *made, int dmabuf, uint64_t size, void **data)
{
    *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
    if (*data != MAP_FAILED) {
        made->dmabuf = dmabuf;
        return 0;
    }
    int number = errno;
    close(dmabuf);
    errno = number;
    return -1;
}

static int try_heap(const char *path, struct host_memory *made, uint64_t size, void **data)
{
    int heap = open(path, O_RDONLY | O_CLOEXEC);
    if (heap < 0)
        return -1;
    struct dma_heap_allocation_data wanted = {.len = size, .fd_flags = O_RDWR | O_CLOEXEC};
    int result = host_call(heap, DMA_HEAP_IOCTL_ALLOC, &wanted);
    int number = errno;
    close(heap);
    errno = number;
    return result < 0 ? -1 : map_dmabuf(made, (int)wanted.fd, size, data);
}

/* Whether a DRM node belongs to a PCI card: /sys/class/drm/card0/device/subsystem leads to the
 * bus. */
static bool is_on_pci(const char *name)
{
    char path[320], bus[256];
    snprintf(path, sizeof(path), "/sys/class/drm/%s/device/subsystem", name);
    ssize_t length = readlink(path, bus, sizeof(bus) - 1);
    if (length <= 0)
        return true; /* unknown: not used */
    bus[length] = '\0';
    const char *last = strrchr(bus, '/');
    return strcmp(last ? last + 1 : bus, "pci") == 0;
}

static int try_card(const char *path, struct host_memory *made, uint64_t size, void **data)
{
    int node = open(path, O_RDWR | O_CLOEXEC);
    if (node < 0)
        return -1;
    host_call(node, DRM_DROP_MASTER, NULL); /* the first to open it becomes the display's master */
    struct drm_dumb dumb = {
        .width = DUMB_WIDTH, .bits = 8, .height = (uint32_t)((size + DUMB_WIDTH - 1) / DUMB_WIDTH)};
    struct drm_prime prime = {.flags = O_RDWR | O_CLOEXEC, .fd = -1};
    int result = host_call(node, DRM_CREATE_DUMB, &dumb);
    int number = errno;
    if (result >= 0) {
        prime.handle = dumb.handle;
        result = dumb.size < size ? -1 : host_call(node, DRM_PRIME_HANDLE_TO_FD, &prime);
        number = dumb.size < size ? ENOMEM : errno;
        struct drm_close handle = {.handle = dumb.handle};
        host_call(node, DRM_GEM_CLOSE, &handle); /* the dma-buf keeps the memory alive */
    }
    close(node);
    errno = number;
    return result < 0 || prime.fd < 0 ? -1 : map_dmabuf(made, prime.fd, size, data);
}

/* Tries the nodes of a folder in turn. -1: none worked; errno is that of the last one. */
static int try_folder(const char *folder, const char *first,
                      int (*try)(const char *, struct host_memory *, uint64_t, void **),
                      struct host_memory *made, uint64_t size, void **data)
{
    char path[320];
    if (first) {
        snprintf(path, sizeof(path), "%s/%s", folder, first);
        if (try(path, made, size, data) == 0)
            return 0;
    }
    int number = first ? errno : ENODEV, result = -1;
    DIR *listed = opendir(folder);
    if (!listed)
        return -1;
    for (struct dirent *entry; result < 0 && (entry = readdir(listed));) {
        bool skip = first ? entry->d_name[0] == '.' || strcmp(entry->d_name, first) == 0
                          : strncmp(entry->d_name, "card", 4) != 0 || is_on_pci(entry->d_name);
        if (skip)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        result = try(path, made, size, data);
        number = errno;
    }
    closedir(listed);
    errno = number;
    return result;
}

/* --- both ---------------------------------------------------------------------------------- */

/* Allocates zeroed memory with a dma-buf. GPUD_UNSUPPORTED: this system cannot make one. Sets fd,
 * dmabuf, mapped. */
static enum gpud_status alloc_dmabuf(struct host_memory *made, uint64_t size, void **data,
                                     struct gpud_error *error)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int reasons[3];
    size = (size + page - 1) / page * page;
    made->mapped = size;
    if (try_udmabuf(made, size, data) == 0)
        return GPUD_OK;
    reasons[0] = errno;
    if (try_folder(HEAPS, "system", try_heap, made, size, data) == 0)
        return GPUD_OK;
    reasons[1] = errno;
    if (try_folder(CARDS, NULL, try_card, made, size, data) == 0)
        return GPUD_OK;
    reasons[2] = errno;
    char texts[3][64];
    for (int i = 0; i < 3; i++)
        gpud_print(texts[i], "%s", strerror(reasons[i]));
    return gpud_fail(
        error, GPUD_UNSUPPORTED,
        "the host has nothing that makes a dma-buf of %llu bytes: load udmabuf, or let "
        "this user open one of these (udmabuf: %s; " HEAPS ": %s; " CARDS
        "/card* that are on no PCI card: %s)",
        (unsigned long long)size, texts[0], texts[1], texts[2]);
}

static enum gpud_status duplicate(int dmabuf, int *fd, struct gpud_error *error)
{
    int made = fcntl(dmabuf, F_DUPFD_CLOEXEC, 3);
    if (made < 0)
        return gpud_fail_errno(error, "cannot duplicate a descriptor");
    *fd = made;
    return GPUD_OK;
}

/* -1: errno says why. */
static int make_part(const struct host_memory *host, uint64_t from, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return make_udmabuf(host->fd, from, (size + page - 1) / page * page);
}

static void drop_parts(struct host_memory *host)
{
    while (host->parts) {
        struct host_part *gone = host->parts;
        host->parts = gone->next;
        gpud_fd_close(&gone->dmabuf);
        free(gone);
    }
}

/* The dma-buf of these bytes, which is made if needed. */
static enum gpud_status export_part(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                    int *fd, struct gpud_error *error)
{
    struct host_memory *host = memory->backend;
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&memory->map_lock);
    struct host_part *part = host->parts;
    while (part && (part->from != from || part->size < size))
        part = part->next;
    if (!part && (part = malloc(sizeof(*part)))) {
        *part = (struct host_part){.next = host->parts, .from = from, .size = size};
        part->dmabuf = make_part(host, from, size);
        if (part->dmabuf >= 0) {
            host->parts = part;
        } else {
            int number = errno;
            free(part);
            status =
                gpud_fail_native(error, GPUD_UNSUPPORTED, "errno", number,
                                 "the host cannot make a dma-buf of %llu bytes that others read: "
                                 "load udmabuf, and let this user open /dev/udmabuf (%s)",
                                 (unsigned long long)size, strerror(number));
        }
    } else if (!part) {
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a dma-buf's record");
    }
    if (status == GPUD_OK)
        status = duplicate(part->dmabuf, fd, error);
    gpud_lock_release(&memory->map_lock);
    return status;
}

static enum gpud_status host_dmabuf_export_dmabuf(struct gpud_memory *memory, uint64_t from,
                                                  uint64_t size, int *fd, uint64_t *offset,
                                                  struct gpud_error *error)
{
    const struct host_memory *host = memory->backend;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *offset = 0;
    if (host && host->fd >= 0 && from % page == 0 && memory->usage == GPUD_USAGE_SHARE)
        return export_part(memory, from, size, fd, error);
    if (host && host->fd >= 0 && from % page == 0) {
        *fd = make_part(host, from, size);
        if (*fd < 0)
            return gpud_fail_errno(error, "/dev/udmabuf makes no dma-buf of %llu bytes",
                                   (unsigned long long)size);
        return GPUD_OK;
    }
    if (!host || host->dmabuf < 0)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "this memory of the host was not made to have a dma-buf");
    *offset = from;
    return duplicate(host->dmabuf, fd, error);
}

static enum gpud_status import_dmabuf(struct gpud_memory *memory, int fd, uint64_t offset,
                                      struct gpud_error *error)
{
    struct dma_buf_sync nothing = {.flags = DMA_BUF_SYNC_READ | DMA_BUF_SYNC_START};
    if (host_call(fd, DMA_BUF_IOCTL_SYNC, &nothing) < 0)
        return gpud_fail_native(error, GPUD_INVALID, "errno", errno,
                                "the descriptor is not a dma-buf, such as GPU drivers export");
    nothing.flags = DMA_BUF_SYNC_READ | DMA_BUF_SYNC_END;
    host_call(fd, DMA_BUF_IOCTL_SYNC, &nothing);
    off_t length = lseek(fd, 0, SEEK_END);
    if (length < 0 || offset > (uint64_t)length || memory->size > (uint64_t)length - offset)
        return gpud_fail(
            error, GPUD_INVALID, "the dma-buf has %lld bytes: %llu from %llu on are not there",
            (long long)length, (unsigned long long)memory->size, (unsigned long long)offset);
    struct host_memory *host = malloc(sizeof(*host));
    if (!host)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    /* From the beginning: DRM's shared-memory helpers ignore the offset and map from there. */
    *host = (struct host_memory){.fd = -1, .mapped = offset + memory->size};
    enum gpud_status status = duplicate(fd, &host->dmabuf, error);
    if (status != GPUD_OK) {
        free(host);
        return status;
    }
    host->base = mmap(NULL, host->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (host->base == MAP_FAILED) {
        int number = errno;
        gpud_fd_close(&host->dmabuf);
        free(host);
        return gpud_fail_native(error, GPUD_UNSUPPORTED, "errno", number,
                                "the CPU cannot map this dma-buf");
    }
    memory->backend = host;
    memory->native = memory->host = (char *)host->base + offset;
    memory->synced = true;
    return GPUD_OK;
}

static enum gpud_status sync_dmabuf(struct gpud_memory *memory, unsigned access, bool end,
                                    struct gpud_error *error)
{
    const struct host_memory *host = memory->backend;
    struct dma_buf_sync sync = {.flags = end ? DMA_BUF_SYNC_END : DMA_BUF_SYNC_START};
    if (access & GPUD_READ)
        sync.flags |= DMA_BUF_SYNC_READ;
    if (access & GPUD_WRITE)
        sync.flags |= DMA_BUF_SYNC_WRITE;
    if (host_call(host->dmabuf, DMA_BUF_IOCTL_SYNC, &sync) < 0)
        return gpud_fail_errno(error, "the CPU's access to a dma-buf cannot be ordered");
    return GPUD_OK;
}

static const struct gpud_dmabuf_ops host_dmabuf_ops = {
    .export_part = host_dmabuf_export_dmabuf,
    .import = import_dmabuf,
    .sync = sync_dmabuf,
};

/* === memory ================================================================================== */
/* Host memory: anonymous pages for ourselves, sealed memfds for others. */

static enum gpud_status alloc_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct host_memory *host = malloc(sizeof(*host));
    if (!host)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    *host = (struct host_memory){.fd = -1, .dmabuf = -1, .mapped = memory->size};
    void *data;
    if (memory->usage == GPUD_USAGE_DMABUF) {
        enum gpud_status status = alloc_dmabuf(host, memory->size, &data, error);
        if (status != GPUD_OK) {
            free(host);
            return status;
        }
        memory->synced = true;
    } else if (memory->usage == GPUD_USAGE_LOCAL) {
        data = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            free(host);
            return gpud_fail_errno(error, "no %llu bytes of host memory",
                                   (unsigned long long)memory->size);
        }
    } else {
        enum gpud_share share =
            memory->usage == GPUD_USAGE_TARGET ? GPUD_SHARE_WRITABLE : GPUD_SHARE_LATER;
        enum gpud_status status =
            gpud_memfd_create("gpudirect-ring", memory->size, share, &host->fd, &data, error);
        if (status != GPUD_OK) {
            free(host);
            return status;
        }
    }
    memory->native = memory->host = host->base = data;
    memory->backend = host;
    return GPUD_OK;
}

static enum gpud_status host_memory_wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    memory->host = memory->native;
    return GPUD_OK;
}

static enum gpud_status host_memory_wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    memory->native = memory->host;
    return GPUD_OK;
}

static void free_host(struct gpud_memory *memory)
{
    struct host_memory *host = memory->backend;
    if (host) { /* else wrapped: the application's pages */
        if (!gpud_memory_unmap_pages(host->base, host->mapped))
            gpud_log_error(&memory->device->context->log, "host",
                           "cannot unmap %llu bytes, which this process keeps: %s",
                           (unsigned long long)host->mapped, strerror(errno));
        drop_parts(host);
        gpud_fd_close(&host->dmabuf);
        gpud_fd_close(&host->fd);
        free(host);
    }
    gpud_memory_freed(memory);
}

static enum gpud_status export_handle(struct gpud_memory *memory, struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    const struct host_memory *host = memory->backend;
    enum gpud_status status =
        memory->usage == GPUD_USAGE_SHARE ? gpud_memfd_close_writing(host->fd, error) : GPUD_OK;
    if (status != GPUD_OK)
        return status;
    status = duplicate(host->fd, &handle->fd, error);
    if (status == GPUD_OK)
        handle->type = GPUD_HANDLE_MEMFD;
    return status;
}

static enum gpud_status import_handle(struct gpud_memory *memory, const struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    if (handle->type != GPUD_HANDLE_MEMFD || handle->fd < 0)
        return gpud_fail(error, GPUD_PEER, "the peer's handle is not shared host memory");
    struct host_memory *host = malloc(sizeof(*host));
    if (!host)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    *host = (struct host_memory){.fd = -1, .dmabuf = -1, .mapped = memory->size};
    enum gpud_status status = gpud_memfd_map(
        handle->fd, memory->size, memory->usage == GPUD_USAGE_TARGET, &memory->host, error);
    if (status != GPUD_OK) {
        free(host);
        return status;
    }
    memory->native = host->base = memory->host; /* the mapping is enough */
    memory->backend = host;
    return GPUD_OK;
}

static enum gpud_status host_memory_flush_remote(struct gpud_memory *memory,
                                                 struct gpud_error *error)
{
    return GPUD_OK; /* the host sees writes to its memory in order */
}

static const struct gpud_memory_ops host_memory_ops = {
    .alloc = alloc_host,
    .wrap = host_memory_wrap,
    .wrap_host = host_memory_wrap_host,
    .free = free_host,
    .export_handle = export_handle,
    .import_handle = import_handle,
    .flush_remote = host_memory_flush_remote,
};

/* === queue =================================================================================== */
/* The host's queue: each call does its work before it returns. */

static enum gpud_status host_queue_create(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static void host_queue_destroy(struct gpud_queue *queue)
{
}

static enum gpud_status host_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                        struct gpud_error *error)
{
    char *to = (char *)copy->to->host + copy->to_offset;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    enum gpud_status status = gpud_memory_begin_access(copy->from, GPUD_READ, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_memory_begin_access(copy->to, GPUD_WRITE, error);
    if (status == GPUD_OK) {
        bool linear = copy->to_stride == copy->from_stride && copy->row_bytes == copy->to_stride;
        if (linear)
            memcpy(to, from, copy->row_bytes * copy->rows);
        for (uint32_t row = 0; !linear && row < copy->rows; row++)
            memcpy(to + (size_t)row * copy->to_stride, from + (size_t)row * copy->from_stride,
                   copy->row_bytes);
        gpud_memory_end_access(copy->to, GPUD_WRITE);
    }
    gpud_memory_end_access(copy->from, GPUD_READ);
    return status;
}

static enum gpud_status host_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn,
                                               void *arg, struct gpud_error *error)
{
    fn(arg, GPUD_OK);
    return GPUD_OK;
}

static enum gpud_status host_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                          struct gpud_error *error)
{
    return GPUD_OK;
}

static enum gpud_status host_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                       uint64_t offset, uint64_t size, unsigned access,
                                       int64_t deadline, void **data, struct gpud_error *error)
{
    *data = (char *)memory->host + offset;
    return gpud_memory_begin_access(memory, access, error);
}

static enum gpud_status host_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                         void *data, struct gpud_error *error)
{
    gpud_memory_end_access(memory, GPUD_READ | GPUD_WRITE);
    return GPUD_OK;
}

static const struct gpud_queue_ops host_queue_ops = {
    .create = host_queue_create,
    .destroy = host_queue_destroy,
    .copy = host_queue_copy,
    .on_complete = host_queue_on_complete,
    .finish = host_queue_finish,
    .map = host_queue_map,
    .unmap = host_queue_unmap,
};

/* === signal ================================================================================== */
/* The host's signal: a word in memory that both sides map, and a futex on it. */

static void host_signal_destroy(struct gpud_signal *signal)
{
}

static enum gpud_status host_signal_poison(struct gpud_signal *signal, uint32_t value,
                                           struct gpud_error *error)
{
    gpud_signal_raise_word(signal, value);
    gpud_futex_wake(gpud_signal_word(signal));
    return GPUD_OK;
}

static enum gpud_status host_signal_post(struct gpud_signal *signal, uint32_t value,
                                         struct gpud_queue *queue, struct gpud_error *error)
{
    return host_signal_poison(signal, value, error);
}

static enum gpud_status host_signal_wait_host(struct gpud_signal *signal, uint32_t value,
                                              int64_t deadline, struct gpud_error *error)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(gpud_signal_word(signal), memory_order_acquire);
        if (seen >= value)
            return GPUD_OK;
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the signal stands at %u, not yet at %u", seen,
                             value);
        gpud_futex_wait(gpud_signal_word(signal), seen, deadline);
    }
}

/* The host's queue is synchronous, so the caller waits; with a deadline, like every wait. */
static enum gpud_status host_signal_wait_queue(struct gpud_signal *signal, uint32_t value,
                                               struct gpud_queue *queue, struct gpud_error *error)
{
    return host_signal_wait_host(signal, value, gpud_deadline(GPUD_SEC), error);
}

static const struct gpud_signal_ops host_signal_ops = {
    .create = gpud_signal_create_word,
    .destroy = host_signal_destroy,
    .import = gpud_signal_import_word,
    .post = host_signal_post,
    .wait_queue = host_signal_wait_queue,
    .wait_host = host_signal_wait_host,
    .poison = host_signal_poison,
};

/* === device ================================================================================== */

static unsigned host_count(void)
{
    return 1;
}

static void host_probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    device->caps = GPUD_CAP_HOST | GPUD_CAP_CPU_ADDRESSABLE | GPUD_CAP_SYNCHRONOUS |
                   GPUD_CAP_SHARE | GPUD_CAP_SIGNALS;
    info->available = true;
    info->direct_writes = true;
    /* The processor's name, as users know it. */
    gpud_print(info->description, "host memory");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof(line), file)) {
        char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (!value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        gpud_print(info->description, "host memory, %.96s", value + 2);
        break;
    }
    fclose(file);
}

static enum gpud_status open_host(struct gpud_device *device, struct gpud_error *error)
{
    return GPUD_OK;
}

static void close_host(struct gpud_device *device)
{
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_MEMFD, .attachment = true},
};

const struct gpud_device_ops gpud_host_ops = {
    .name = "host",
    .single = true,
    .count = host_count,
    .probe = host_probe,
    .open = open_host,
    .close = close_host,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .memory = &host_memory_ops,
    .dmabuf = &host_dmabuf_ops,
    .queue = &host_queue_ops,
    .signal = &host_signal_ops,
};

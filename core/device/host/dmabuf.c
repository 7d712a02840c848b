/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Host memory that has a dma-buf, from one of the kernel's exporters, best first:
 *
 *   udmabuf      pages of our own, a memfd's: any part of them can be a dma-buf that begins there
 *   a heap       pages that the kernel makes, of /dev/dma_heap/system before others
 *   a DRM node   a dumb buffer of a device that is on no PCI card, for its memory is the host's:
 * vgem, or a SoC's display. That of a card's GPU would lie in its own memory, which the CPU reads
 * slowly. */
#include "device/host/host.h"

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

static int host_dmabuf_call(int fd, unsigned long request, void *argument)
{
    int result;
    do {
        result = ioctl(fd, request, argument);
    } while (result < 0 && (errno == EINTR || errno == EAGAIN));
    return result;
}

/* --- udmabuf ------------------------------------------------------------------------------- */

int gpud_host_udmabuf(int memfd, uint64_t from, uint64_t size)
{
    int maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    if (maker < 0)
        return -1;
    struct udmabuf_create create = {
        .memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .offset = from, .size = size};
    int made = host_dmabuf_call(maker, UDMABUF_CREATE, &create);
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
    made->dmabuf = gpud_host_udmabuf(made->fd, 0, size);
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
    int result = host_dmabuf_call(heap, DMA_HEAP_IOCTL_ALLOC, &wanted);
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

static int make_dumb(int node, uint64_t size)
{
    struct drm_dumb dumb = {
        .width = DUMB_WIDTH, .bits = 8, .height = (uint32_t)((size + DUMB_WIDTH - 1) / DUMB_WIDTH)};
    if (host_dmabuf_call(node, DRM_CREATE_DUMB, &dumb) < 0)
        return -1;
    struct drm_prime prime = {.handle = dumb.handle, .flags = O_RDWR | O_CLOEXEC, .fd = -1};
    int result = dumb.size < size ? -1 : host_dmabuf_call(node, DRM_PRIME_HANDLE_TO_FD, &prime);
    int number = dumb.size < size ? ENOMEM : errno;
    struct drm_close handle = {.handle = dumb.handle};
    host_dmabuf_call(node, DRM_GEM_CLOSE, &handle); /* the dma-buf keeps the memory alive */
    errno = number;
    return result < 0 ? -1 : prime.fd;
}

static int try_card(const char *path, struct host_memory *made, uint64_t size, void **data)
{
    int node = open(path, O_RDWR | O_CLOEXEC);
    if (node < 0)
        return -1;
    host_dmabuf_call(node, DRM_DROP_MASTER,
                     NULL); /* the first to open it becomes the display's master */
    int dmabuf = make_dumb(node, size);
    int number = errno;
    close(node);
    errno = number;
    return dmabuf < 0 ? -1 : map_dmabuf(made, dmabuf, size, data);
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

enum gpud_status gpud_host_alloc_dmabuf(struct host_memory *made, uint64_t size, void **data,
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
    return gpud_host_udmabuf(host->fd, from, (size + page - 1) / page * page);
}

/* Returns the dma-buf of these bytes, and makes it if needed. */
static enum gpud_status find_part(struct host_memory *host, uint64_t from, uint64_t size,
                                  struct host_part **part, struct gpud_error *error)
{
    for (*part = host->parts; *part; *part = (*part)->next)
        if ((*part)->from == from && (*part)->size >= size)
            return GPUD_OK;
    struct host_part *made = malloc(sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a dma-buf's record");
    *made = (struct host_part){.next = host->parts, .from = from, .size = size};
    made->dmabuf = make_part(host, from, size);
    if (made->dmabuf < 0) {
        int number = errno;
        free(made);
        return gpud_fail_native(error, GPUD_UNSUPPORTED, "errno", number,
                                "the host cannot make a dma-buf of %llu bytes that others read: "
                                "load udmabuf, and let this user open /dev/udmabuf (%s)",
                                (unsigned long long)size, strerror(number));
    }
    *part = host->parts = made;
    return GPUD_OK;
}

void gpud_host_drop_parts(struct host_memory *host)
{
    while (host->parts) {
        struct host_part *gone = host->parts;
        host->parts = gone->next;
        gpud_fd_close(&gone->dmabuf);
        free(gone);
    }
}

static enum gpud_status export_part(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                    int *fd, struct gpud_error *error)
{
    struct host_part *part;
    gpud_lock_take(&memory->map_lock);
    enum gpud_status status = find_part(memory->backend, from, size, &part, error);
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
    if (host_dmabuf_call(fd, DMA_BUF_IOCTL_SYNC, &nothing) < 0)
        return gpud_fail_native(error, GPUD_INVALID, "errno", errno,
                                "the descriptor is no dma-buf");
    nothing.flags = DMA_BUF_SYNC_READ | DMA_BUF_SYNC_END;
    host_dmabuf_call(fd, DMA_BUF_IOCTL_SYNC, &nothing);
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
    host->dmabuf = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (host->dmabuf < 0) {
        free(host);
        return gpud_fail_errno(error, "cannot duplicate a descriptor");
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
    if (host_dmabuf_call(host->dmabuf, DMA_BUF_IOCTL_SYNC, &sync) < 0)
        return gpud_fail_errno(error, "the CPU's access to a dma-buf cannot be ordered");
    return GPUD_OK;
}

const struct gpud_dmabuf_ops gpud_host_dmabuf_ops = {
    .export_part = host_dmabuf_export_dmabuf,
    .import = import_dmabuf,
    .sync = sync_dmabuf,
};

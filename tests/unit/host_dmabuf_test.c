/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sources of the host's dma-bufs, on a simulated /dev: the test wraps open() and ioctl() for
 * it. A memfd replaces a dma-buf. */
#include "device/device.h"
#include "support/check.h"
#include "support/count.h"
#include "support/host.h"
#include "support/make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Wrapped. */
__typeof__(open64) __real_open64, __wrap_open64;
__typeof__(opendir) __real_opendir, __wrap_opendir;
__typeof__(readlink) __real_readlink, __wrap_readlink;
__typeof__(ioctl) __wrap_ioctl;

static char root[] = "/tmp/gpudirect-dmabuf-XXXXXX";
static unsigned starts, ends, masters_dropped, dumbs;
static bool udmabuf_refuses;
static unsigned udmabufs;
static char opened[64]; /* the last file of the made-up /dev */

static const char *inside(const char *path, char *changed, size_t size)
{
    if (strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/sys/class/drm/", 15) != 0)
        return path;
    snprintf(changed, size, "%s%s", root, path);
    return changed;
}

int __wrap_open64(const char *path, int flags, ...)
{
    char changed[256];
    const char *to = inside(path, changed, sizeof(changed));
    int fd = __real_open64(to, flags, 0);
    if (fd >= 0 && to == changed)
        snprintf(opened, sizeof(opened), "%.60s", path);
    return fd;
}

DIR *__wrap_opendir(const char *path)
{
    char changed[256];
    return __real_opendir(inside(path, changed, sizeof(changed)));
}

ssize_t __wrap_readlink(const char *path, char *text, size_t size)
{
    char changed[256];
    return __real_readlink(inside(path, changed, sizeof(changed)), text, size);
}

static int new_dmabuf(uint64_t size)
{
    int fd = memfd_create("a dma-buf", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "no memfd");
    return fd;
}

/* A part of the memfd, which is seen from its own beginning on, would need the kernel: it is copied
 * here, and its size tells which it is. */
static int make_udmabuf(const struct udmabuf_create *create)
{
    struct stat st;
    CHECK(fcntl((int)create->memfd, F_GET_SEALS) & F_SEAL_SHRINK, "not sealed against shrinking");
    CHECK(fstat((int)create->memfd, &st) == 0, "not a memfd");
    CHECK(create->offset % 4096 == 0 && create->size % 4096 == 0 && create->size > 0 &&
              create->offset + create->size <= (uint64_t)st.st_size,
          "%llu bytes at %llu of %lld", (unsigned long long)create->size,
          (unsigned long long)create->offset, (long long)st.st_size);
    CHECK(create->flags == UDMABUF_FLAGS_CLOEXEC, "it would be inherited");
    /* Like newer kernels, refuses memory that may no longer be mapped for writing. */
    if (fcntl((int)create->memfd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE) {
        errno = EINVAL;
        return -1;
    }
    udmabufs++;
    return new_dmabuf(create->size);
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    switch (_IOC_TYPE(request) << 8 | _IOC_NR(request)) {
    case 'b' << 8 | 0: { /* DMA_BUF_IOCTL_SYNC */
        const struct dma_buf_sync *sync = argument;
        CHECK(fcntl(fd, F_GETFD) >= 0, "a descriptor that is closed");
        CHECK(sync->flags & DMA_BUF_SYNC_RW, "access of no kind");
        *(sync->flags & DMA_BUF_SYNC_END ? &ends : &starts) += 1;
        return 0;
    }
    case 'u' << 8 | 0x42:
        if (!udmabuf_refuses)
            return make_udmabuf(argument);
        errno = EINVAL;
        return -1;
    case 'H' << 8 | 0: { /* DMA_HEAP_IOCTL_ALLOC */
        struct dma_heap_allocation_data *data = argument;
        CHECK(data->fd_flags == (O_RDWR | O_CLOEXEC) && data->len % 4096 == 0, "flags %x",
              data->fd_flags);
        data->fd = (uint32_t)new_dmabuf(data->len);
        return 0;
    }
    case 'd' << 8 | 0x1f:
        masters_dropped++;
        return 0;
    case 'd' << 8 | 0xb2: {
        uint32_t *dumb = argument; /* height, width, bpp, flags, handle, pitch, size */
        CHECK(dumb[2] == 8 && dumb[3] == 0, "%u bits, flags %x", dumb[2], dumb[3]);
        dumb[4] = 5;
        dumb[5] = dumb[1];
        *(uint64_t *)(dumb + 6) = (uint64_t)dumb[0] * dumb[1];
        dumbs++;
        return 0;
    }
    case 'd' << 8 | 0x2d: {
        int *prime = argument; /* handle, flags, fd */
        CHECK(prime[0] == 5 && prime[1] == (O_RDWR | O_CLOEXEC), "handle %d, flags %x", prime[0],
              prime[1]);
        prime[2] = new_dmabuf(1 << 20);
        return 0;
    }
    case 'd' << 8 | 0x09:
        CHECK(*(uint32_t *)argument == 5, "another handle is closed");
        dumbs--;
        return 0;
    default:
        errno = ENOTTY;
        return -1;
    }
}

static struct gpud_device *host;
static struct gpud_queue *queue;

/* The CPU's access is bracketed, in whatever way it comes. */
static void use(struct gpud_memory *memory)
{
    void *data;
    starts = ends = 0;
    WORKS(gpud_queue_map(queue, memory, 0, memory->size, GPUD_READ, GPUD_SEC, &data, &e));
    CHECK(starts == 1 && ends == 0, "a map is not bracketed: %u, %u", starts, ends);
    WORKS(gpud_queue_unmap(queue, memory, data, &e));
    CHECK(starts == 1 && ends == 1, "a map is not bracketed: %u, %u", starts, ends);
    struct gpud_memory *plain = NEW_MEMORY(host, memory->size);
    struct gpud_copy copy = {.to = memory, .from = plain, .row_bytes = memory->size, .rows = 1};
    WORKS(gpud_queue_copy(queue, &copy, &e));
    CHECK(starts == 2 && ends == 2, "a copy to it is not bracketed: %u, %u", starts, ends);
    copy = (struct gpud_copy){.to = plain, .from = memory, .row_bytes = 9, .rows = 1};
    WORKS(gpud_queue_copy(queue, &copy, &e));
    CHECK(starts == 3 && ends == 3, "a copy from it is not bracketed: %u, %u", starts, ends);
    gpud_memory_unref(&plain);
}

static void check_from(const char *path, bool parts)
{
    struct gpud_memory *memory = NEW_MEMORY_FOR(host, 10000, GPUD_USAGE_DMABUF);
    int fd = -1;
    uint64_t offset = 7;
    CHECK_TEXT(opened, path);
    use(memory);
    WORKS(gpud_memory_export_dmabuf(memory, 0, memory->size, &fd, &offset, &e));
    CHECK_EQUAL(offset, 0);
    CHECK(lseek(fd, 0, SEEK_END) >= 10000, "it is smaller");
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "it would be inherited");
    close(fd);
    WORKS(gpud_memory_export_dmabuf(memory, 4096, 5000, &fd, &offset, &e));
    CHECK_EQUAL(offset, parts ? 0 : 4096);
    if (parts)
        CHECK_EQUAL(lseek(fd, 0, SEEK_END), 8192);
    close(fd);
    gpud_memory_unref(&memory);
}

static void expect_none(const char *text)
{
    struct gpud_memory *memory;
    EXPECT(GPUD_UNSUPPORTED, text,
           gpud_memory_alloc_for(host, 10000, GPUD_USAGE_DMABUF, &memory, &e));
    EXPECT(GPUD_UNSUPPORTED, "load udmabuf",
           gpud_memory_alloc_for(host, 10000, GPUD_USAGE_DMABUF, &memory, &e));
}

/* Only what the test opens is counted: the descriptors of the context are there before. */
int main(void)
{
    CHECK(mkdtemp(root), "no folder");
    struct gpud_context *context = NEW_CONTEXT();
    host = OPEN_DEVICE(context, "host");
    WORKS(gpud_queue_create(host, &queue, &e));
    unsigned before = count_fds();

    expect_none("udmabuf: No such file or directory");
    set_file(root, "dev/dri/card0", "");
    set_link(root, "sys/class/drm/card0/device/subsystem", "../../bus/pci");
    expect_none("no PCI card: No such device");
    CHECK_EQUAL(dumbs + masters_dropped, 0);
    set_file(root, "dev/dri/card1", ""); /* whose location is unknown */
    set_file(root, "dev/dri/renderD128", "");
    expect_none("no PCI card: No such device");
    set_link(root, "sys/class/drm/card1/device/subsystem", "../../bus/platform");
    check_from("/dev/dri/card1", false);
    CHECK_EQUAL(masters_dropped, 1);
    CHECK_EQUAL(dumbs, 0); /* handles that are left */
    set_file(root, "dev/dma_heap/linux,cma", "");
    check_from("/dev/dma_heap/linux,cma", false);
    set_file(root, "dev/dma_heap/system", "");
    check_from("/dev/dma_heap/system", false);
    set_file(root, "dev/udmabuf", "");
    check_from("/dev/udmabuf", true);
    udmabuf_refuses = true;
    check_from("/dev/dma_heap/system", false);

    /* Memory of another kind has none, or is exported by its own way. */
    int fd = -1;
    uint64_t offset;
    struct gpud_memory *memory = NEW_MEMORY(host, 10000);
    EXPECT(GPUD_UNSUPPORTED, "not made to",
           gpud_memory_export_dmabuf(memory, 0, memory->size, &fd, &offset, &e));
    gpud_memory_unref(&memory);
    udmabuf_refuses = false;
    /* A ring's slots are made before the memory is shared, which peers can never write. */
    struct gpud_handle handle;
    WORKS(gpud_memory_alloc_for(host, 3 * 4096, GPUD_USAGE_SHARE, &memory, &e));
    unsigned made = udmabufs;
    for (unsigned round = 0; round < 2; round++) {
        for (uint64_t from = 0; from < 8192; from += 4096) {
            WORKS(gpud_memory_export_dmabuf(memory, from, 4000, &fd, &offset, &e));
            CHECK_EQUAL(offset, 0);
            CHECK_EQUAL(lseek(fd, 0, SEEK_END), 4096);
            close(fd);
        }
        CHECK_EQUAL(udmabufs, made + 2);
        WORKS(gpud_memory_export(memory, &handle, &e));
        CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, handle.fd, 0) == MAP_FAILED,
              "its receiver can write it");
        close(handle.fd);
    }
    EXPECT(GPUD_UNSUPPORTED, "load udmabuf",
           gpud_memory_export_dmabuf(memory, 8192, 4096, &fd, &offset, &e));
    gpud_memory_unref(&memory);

    CHECK_EQUAL(count_fds(), before);
    gpud_queue_unref(&queue);
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    set_file(root, "dev", NULL);
    set_file(root, "sys", NULL);
    CHECK(rmdir(root) == 0, "something is left in %s", root);
    return 0;
}

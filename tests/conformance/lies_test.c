/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* lies@DEVICE: descriptors that are not what they are said to be, as a peer's memory and as a
 * dma-buf. Each is refused with a reason, at once, and what was open before still is. */
#include "conformance.h"
#include "device/vulkan/vulkan.h"
#include "support/count.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#define SIZE (5 * PAGE)
#define NO_SHRINKING (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define HANGS_AFTER 60 /* s: no refusal waits for anything; the process is ended then */

/* A driver's calls come here, too. What is closed twice is another thread's the second time. */
static atomic_uint wrong_closes;

__attribute__((visibility("default"))) int close(int fd)
{
    static int (*_Atomic known)(int fd);
    int (*next)(int fd) = atomic_load(&known);
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "close");
        atomic_store(&known, next);
    }
    int result = next(fd);
    if (result < 0 && errno == EBADF && fd >= 0)
        atomic_fetch_add(&wrong_closes, 1);
    return result;
}

static int make_memfd(off_t size, int seals)
{
    int fd = memfd_create("lies", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0, "memfd: %s",
          strerror(errno));
    return fd;
}

struct kind {
    const char *name;
    int fd;
    bool strange; /* a memfd with these bytes is all that the host wants */
};
#define KINDS 21

static void make_kinds(struct kind kinds[KINDS])
{
    int pipes[2], sockets[2];
    sigset_t none;
    sigemptyset(&none);
    CHECK(pipe2(pipes, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "socketpair: %s",
          strerror(errno));
    close(sockets[1]);
    const struct kind made[KINDS] = {
        {"none", -1, false},
        {"an empty memfd", make_memfd(0, NO_SHRINKING), false},
        {"a memfd without seals", make_memfd(16 * SIZE, 0), false},
        {"a memfd that can shrink", make_memfd(16 * SIZE, F_SEAL_GROW), false},
        {"a memfd that is a byte short", make_memfd(SIZE - 1, NO_SHRINKING), false},
        {"a memfd of another's", make_memfd(16 * SIZE, NO_SHRINKING), true},
        {"a pipe to read", pipes[0], false},
        {"a pipe to write", pipes[1], false},
        {"a socket", sockets[0], false},
        {"a folder", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), false},
        {"a path", open("/dev/zero", O_PATH | O_CLOEXEC), false},
        {"a file on a disk", open("/proc/self/exe", O_RDONLY | O_CLOEXEC), false},
        {"this process", open("/proc/self/mem", O_RDWR | O_CLOEXEC), false},
        {"/dev/null", open("/dev/null", O_RDWR | O_CLOEXEC), false},
        {"/dev/zero", open("/dev/zero", O_RDWR | O_CLOEXEC), false},
        /* Reading it waits for ever. */
        {"a terminal", open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), false},
        {"an event", eventfd(0, EFD_CLOEXEC), false},
        {"a timer", timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), false},
        {"an epoll", epoll_create1(EPOLL_CLOEXEC), false},
        {"an inotify", inotify_init1(IN_CLOEXEC), false},
        {"signals", signalfd(-1, &none, SFD_CLOEXEC), false},
    };
    memcpy(kinds, made, sizeof(made));
}

/* --- refusing --------------------------------------------------------------------------------- */

struct before {
    unsigned fds, wrong_closes;
    bool is_open; /* the caller's descriptor */
};

static struct before look(int fd)
{
    return (struct before){count_fds(), atomic_load(&wrong_closes), is_open(fd)};
}

static void check_refusal(const char *name, int fd, struct before before, enum gpud_status status,
                          const struct gpud_error *error, const struct gpud_memory *memory)
{
    CHECK(status != GPUD_OK && !memory, "%s: it is taken for memory", name);
    CHECK(status == error->status && strlen(error->reason) > 20, "%s: no reason: \"%s\"", name,
          error->reason);
    struct before after = look(fd);
    CHECK(after.is_open == before.is_open, "%s: the caller's descriptor is closed", name);
    CHECK(after.wrong_closes == before.wrong_closes, "%s: a descriptor is closed twice", name);
    /* There may be fewer, which a thread of the side has closed meanwhile. */
    CHECK(after.fds <= before.fds, "%s: %u descriptors were open, %u are", name, before.fds,
          after.fds);
}

static void refuse_handle(struct side *side, const char *name, struct gpud_handle handle, int fd)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error error = {.reason = ""};
    struct before before = look(fd);
    handle.fd = fd;
    alarm(HANGS_AFTER);
    enum gpud_status status =
        gpud_memory_import(side->device, &handle, SIZE, GPUD_USAGE_TARGET, &memory, &error);
    alarm(0);
    check_refusal(name, fd, before, status, &error, memory);
    CHECK(status == GPUD_PEER, "%s: status %d, where the peer is to blame", name, (int)status);
}

static void refuse_dmabuf(struct side *side, const char *name, int fd, uint64_t from)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error error = {.reason = ""};
    struct before before = look(fd);
    alarm(HANGS_AFTER);
    enum gpud_status status =
        gpud_memory_import_dmabuf(side->device, fd, from, SIZE, &memory, &error);
    alarm(0);
    check_refusal(name, fd, before, status, &error, memory);
    CHECK(status == GPUD_INVALID || status == GPUD_UNSUPPORTED, "%s: status %d", name, (int)status);
}

/* A peer's handle that is good but for its descriptor, and no handle's at all. */
static void refuse_kinds(struct side *side, const struct gpud_handle *good)
{
    struct kind kinds[KINDS];
    make_kinds(kinds);
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        if (kind->fd < 0 && kind != kinds) {
            SAY("    there is no such thing here: %s", kind->name);
            continue;
        }
        if (kind->strange && is_cpu_addressable(side)) {
            close(kind->fd);
            continue;
        }
        if (good)
            refuse_handle(side, kind->name, *good, kind->fd);
        refuse_dmabuf(side, kind->name, kind->fd, 0);
        if (kind->fd >= 0)
            close(kind->fd);
    }
    if (good)
        refuse_handle(side, "a number that is not open", *good, 1000000);
    refuse_dmabuf(side, "a number that is not open", 1000000, 0);
}

/* --- memory of a software driver -------------------------------------------------------------- */

/* A peer's own memfd, as the driver would have made it but for a word, or for its size. */
static int forge(int original, off_t size, unsigned word, uint64_t value)
{
    uint64_t page[PAGE / sizeof(uint64_t)];
    int fd = make_memfd(size, 0);
    for (off_t at = 0; at < size; at += PAGE) {
        ssize_t wanted = size - at < PAGE ? (ssize_t)(size - at) : PAGE;
        CHECK(pread(original, page, (size_t)wanted, at) == wanted, "pread: %s", strerror(errno));
        if (at == 0 && word)
            page[word - 1] = value;
        CHECK(pwrite(fd, page, (size_t)wanted, at) == wanted, "pwrite: %s", strerror(errno));
    }
    CHECK(fcntl(fd, F_ADD_SEALS, NO_SHRINKING) == 0, "seals: %s", strerror(errno));
    return fd;
}

/* Where the driver keeps in its memfd how large the memory is, and where it begins, it believes
 * what is there. */
static void test_forgeries(struct side *side, const struct gpud_handle *good)
{
    struct stat file;
    CHECK(fstat(good->fd, &file) == 0, "fstat: %s", strerror(errno));
    if (!S_ISREG(file.st_mode))
        return;
    SAY("memfds that are the driver's but for what it believes of them are refused");
    off_t bytes = (off_t)good->word[GPUD_VULKAN_BYTES];
    CHECK(file.st_size >= bytes, "it has %lld bytes, and is said to have %lld",
          (long long)file.st_size, (long long)bytes);
    if (file.st_size > bytes) {
        int fd = forge(good->fd, bytes, 0, 0);
        refuse_handle(side, "no room for what the driver adds", *good, fd);
        close(fd);
    }
    static const uint64_t values[] = {0, 64, UINT64_C(1) << 20, UINT64_C(1) << 40, UINT64_MAX};
    for (unsigned word = 1; word <= 2; word++)
        for (size_t i = 0; i < COUNT(values); i++) {
            int fd = forge(good->fd, file.st_size, word, values[i]);
            refuse_handle(side, "a size or a beginning that is not there", *good, fd);
            close(fd);
        }
    int copy = forge(good->fd, file.st_size, 0, 0);
    struct gpud_handle handle = *good;
    struct gpud_memory *memory;
    handle.fd = copy;
    WORKS(gpud_memory_import(side->device, &handle, SIZE, GPUD_USAGE_TARGET, &memory, &e));
    gpud_memory_unref(&memory);
    close(copy);
}

struct mover {
    int fd;
    atomic_bool stop;
};

static void *move(void *arg)
{
    struct mover *mover = arg;
    while (!atomic_load(&mover->stop))
        lseek(mover->fd, 100, SEEK_SET);
    return NULL;
}

/* All that have the descriptor share the file's position, and move it when they import the memory,
 * too. */
static void test_position(struct side *side, const struct gpud_handle *good)
{
    SAY("memory is imported while others move the file's position");
    struct mover mover = {.fd = good->fd};
    pthread_t thread = NEW_THREAD(move, &mover);
    for (int i = 0; i < 5000; i++) {
        struct gpud_memory *memory = IMPORT_MEMORY(side->device, good, SIZE, GPUD_USAGE_TARGET);
        gpud_memory_unref(&memory);
    }
    atomic_store(&mover.stop, true);
    pthread_join(thread, NULL);
}

static void test_peer(struct side *side)
{
    SAY("descriptors that are no memory are refused, and nothing waits for them");
    AUTO(gpud_memory_unref)
    struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, SIZE, GPUD_USAGE_TARGET);
    struct gpud_handle good = EXPORT_MEMORY(memory);
    refuse_kinds(side, &good);
    if (side->device->ops->memory == &gpud_vulkan_memory_ops)
        test_forgeries(side, &good);
    test_position(side, &good);
    close_handle(&good);
}

/* Real ones, where the host makes them: the wrong size, and parts that are not there. */
static void test_dmabufs(struct side *side)
{
    struct gpud_error error;
    struct gpud_memory *small = NULL;
    uint64_t offset;
    int fd = -1;
    AUTO(side_close) struct side host = side_open("host");
    if (gpud_memory_alloc_for(host.device, SIZE - PAGE, GPUD_USAGE_DMABUF, &small, &error) !=
        GPUD_OK) {
        SAY("no dma-buf of a wrong size: %s", error.reason);
        return;
    }
    SAY("dma-bufs that are too small are refused");
    WORKS(gpud_memory_export_dmabuf(small, 0, small->size, &fd, &offset, &e));
    static const uint64_t froms[] = {0, 1, PAGE, SIZE - PAGE, SIZE, UINT64_MAX - SIZE, UINT64_MAX};
    for (size_t i = 0; i < COUNT(froms); i++)
        refuse_dmabuf(side, "a part that is not there", fd, froms[i]);
    if (side->device->caps & GPUD_CAP_SHARE) {
        AUTO(gpud_memory_unref)
        struct gpud_memory *memory = NEW_MEMORY_FOR(side->device, SIZE, GPUD_USAGE_TARGET);
        struct gpud_handle handle = EXPORT_MEMORY(memory);
        refuse_handle(side, "a dma-buf that is a page short", handle, fd);
        close(handle.fd);
    }
    close(fd);
    gpud_memory_unref(&small);
}

static void everything(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    if (side.device->caps & GPUD_CAP_SHARE)
        test_peer(&side);
    else
        refuse_kinds(&side, NULL);
    test_dmabufs(&side);
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    twice(everything, argv[1]);
    return 0;
}

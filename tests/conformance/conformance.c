/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "conformance.h"

#include "support/count.h"
#include "support/spawn_again.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- saying ----------------------------------------------------------------------------------- */

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

_Noreturn void fail_at(const char *file, int line, const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    /* Not exit(): the driver's own exit handlers may wait for the work that this failure left
     * behind. */
    _exit(1);
}

_Noreturn void skip(const char *format, ...)
{
    va_list args;
    fputs("skipped: ", stdout);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    exit(77);
}

void check_status(const char *file, int line, const char *call, enum gpud_status wanted,
                  enum gpud_status got, const struct gpud_error *error)
{
    if (got != wanted)
        fail_at(file, line, "%s gives \"%s\" where \"%s\" is right; its reason: \"%s\"", call,
                gpud_status_string(got), gpud_status_string(wanted),
                got == GPUD_OK ? "" : error->reason);
    if (got != GPUD_OK && (error->status != got || strlen(error->reason) < 10))
        fail_at(file, line, "%s refuses without a sentence: \"%s\"", call, error->reason);
}

void check_took(const char *file, int line, int64_t since, int64_t min_ms, int64_t max_ms)
{
    int64_t took = gpud_now() - since;
    if (took < min_ms * GPUD_MSEC || took > max_ms * GPUD_MSEC)
        fail_at(file, line, "it took %.3f ms, not %lld to %lld", (double)took / 1e6,
                (long long)min_ms, (long long)max_ms);
}

/* --- the device under test -------------------------------------------------------------------- */

struct side side_open(const char *device)
{
    struct side side;
    struct gpud_error error;
    WORKS(gpud_context_create(NULL, &side.context, &e));
    enum gpud_status status = gpud_device_open(side.context, device, &side.device, &error);
    if (status == GPUD_NO_DEVICE)
        skip("%s", error.reason);
    CHECK(status == GPUD_OK, "%s does not open: %s", device, error.reason);
    WORKS(gpud_queue_create(side.device, &side.queue, &e));
    return side;
}

void say_device(const char *device)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    AUTO(side_close) struct side side = side_open(device);
    gpud_device_get_info(side.device, &info);
    say("%s is %s", info.name, info.description);
}

void side_close(struct side *side)
{
    gpud_queue_unref(&side->queue);
    gpud_device_close(&side->device);
    gpud_context_destroy(&side->context);
}

/* --- host pages for words ----------------------------------------------------------------------
 */

static void drop_pages(void *user)
{
    struct gpud_memory *pages = user;
    gpud_memory_unref(&pages);
}

static struct gpud_memory *see_pages(struct side *side, struct gpud_memory *pages)
{
    struct gpud_memory *seen;
    WORKS(gpud_memory_wrap_host(side->device, pages->host, pages->size, false, drop_pages, pages,
                                &seen, &e));
    return seen;
}

static struct gpud_device *open_host(struct side *side)
{
    struct gpud_device *host;
    WORKS(gpud_device_open(side->context, "host", &host, &e));
    return host;
}

struct gpud_memory *words_make(struct side *side, uint64_t size, struct gpud_handle *handle)
{
    struct gpud_device *host = open_host(side);
    struct gpud_memory *pages;
    WORKS(gpud_memory_alloc_for(host, size, GPUD_USAGE_TARGET, &pages, &e));
    WORKS(gpud_memory_export(pages, handle, &e));
    gpud_device_close(&host);
    return see_pages(side, pages);
}

struct gpud_memory *words_open(struct side *side, const struct gpud_handle *handle, uint64_t size)
{
    struct gpud_device *host = open_host(side);
    struct gpud_memory *pages;
    WORKS(gpud_memory_import(host, handle, size, GPUD_USAGE_TARGET, &pages, &e));
    gpud_device_close(&host);
    return see_pages(side, pages);
}

/* --- content ---------------------------------------------------------------------------------- */

void fill(unsigned char *data, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        data[i] = pattern(i, seed);
}

void check_pattern_at(const char *file, int line, const unsigned char *data, uint64_t size,
                      uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (data[i] != pattern(i, seed))
            fail_at(file, line, "byte %llu of %llu is %u, not the pattern's %u",
                    (unsigned long long)i, (unsigned long long)size, data[i], pattern(i, seed));
}

unsigned char *map_whole(struct side *side, struct gpud_memory *memory, unsigned access)
{
    void *data = memory->host;
    if (!data)
        WORKS(gpud_queue_map(side->queue, memory, 0, memory->size, access,
                             gpud_deadline(10 * GPUD_SEC), &data, &e));
    return data;
}

void unmap_whole(struct side *side, struct gpud_memory *memory, unsigned char *data)
{
    if (memory->host)
        return;
    WORKS(gpud_queue_unmap(side->queue, memory, data, &e));
    WORKS(gpud_queue_finish(side->queue, gpud_deadline(10 * GPUD_SEC), &e));
}

void write_pattern(struct side *side, struct gpud_memory *memory, uint32_t seed)
{
    unsigned char *data = map_whole(side, memory, GPUD_WRITE);
    fill(data, memory->size, seed);
    unmap_whole(side, memory, data);
}

void read_pattern_at(const char *file, int line, struct side *side, struct gpud_memory *memory,
                     uint32_t seed)
{
    unsigned char *data = map_whole(side, memory, GPUD_READ);
    check_pattern_at(file, line, data, memory->size, seed);
    unmap_whole(side, memory, data);
}

static void unmake(void *data)
{
    free(data);
}

/* Host memory with the pattern, as the side's device sees it. */
static struct gpud_memory *make_source(struct side *side, uint64_t size, uint32_t seed)
{
    unsigned char *data = malloc(size);
    struct gpud_memory *source;
    CHECK(data, "out of memory");
    fill(data, size, seed);
    WORKS(gpud_memory_wrap_host(side->device, data, size, true, unmake, data, &source, &e));
    return source;
}

void send_pattern(struct side *side, struct gpud_memory *memory, uint32_t seed)
{
    struct gpud_memory *source = make_source(side, memory->size, seed);
    struct gpud_copy copy = {.to = memory, .from = source, .row_bytes = memory->size, .rows = 1};
    WORKS(gpud_queue_copy(side->queue, &copy, &e));
    WORKS(gpud_queue_finish(side->queue, gpud_deadline(10 * GPUD_SEC), &e));
    gpud_memory_unref(&source);
}

/* --- another process -------------------------------------------------------------------------- */

#define PEER_FD 3 /* where a peer finds the descriptor of the memory */

pid_t peer_start(const char *device, const struct order *order)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    /* Clear of the numbers that the peer's own descriptors get. */
    int input = fcntl(ends[0], F_DUPFD_CLOEXEC, 10), memory = -1;
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (order->memory.fd >= 0) {
        memory = fcntl(order->memory.fd, F_DUPFD_CLOEXEC, 10);
        posix_spawn_file_actions_adddup2(&actions, memory, PEER_FD);
    }
    pid_t peer;
    char *const argv[] = {"peer", (char *)device, "peer", NULL};
    int failed = spawn_again(&peer, &actions, argv, environ);
    CHECK(failed == 0, "posix_spawn: %s", strerror(failed));
    posix_spawn_file_actions_destroy(&actions);
    CHECK(write(ends[1], order, sizeof(*order)) == sizeof(*order), "the peer gets no order");
    close(input);
    if (memory >= 0)
        close(memory);
    close(ends[0]);
    close(ends[1]);
    return peer;
}

void peer_finish_at(const char *file, int line, pid_t peer)
{
    int fd = (int)syscall(SYS_pidfd_open, peer, 0);
    CHECK(fd >= 0, "pidfd_open: %s", strerror(errno));
    bool ended = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 20000) == 1;
    close(fd);
    if (!ended)
        kill(peer, SIGKILL);
    int state;
    CHECK(waitpid(peer, &state, 0) == peer, "waitpid: %s", strerror(errno));
    if (!ended)
        fail_at(file, line, "the other process hangs");
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        fail_at(file, line, "the other process failed (%s %d)",
                WIFEXITED(state) ? "status" : "signal",
                WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
}

static void obey(const char *device, struct order *order)
{
    struct gpud_memory *memory;
    struct gpud_signal *signal = NULL;
    if (order->memory.fd >= 0)
        order->memory.fd = PEER_FD;
    struct side side = side_open(device);
    if (order->task == PEER_POSTS && has_page_signals(&side))
        memory = words_open(&side, &order->memory, order->size);
    else
        WORKS(gpud_memory_import(side.device, &order->memory, order->size,
                                 order->task == PEER_READS ? GPUD_USAGE_SHARE : GPUD_USAGE_TARGET,
                                 &memory, &e));
    if (order->task == PEER_READS) {
        READ_PATTERN(&side, memory, order->seed);
    } else {
        if (order->task == PEER_POSTS)
            WORKS(gpud_signal_import(memory, order->word, &signal, &e));
        nanosleep(&(struct timespec){.tv_nsec = order->delay_ms * GPUD_MSEC}, NULL);
        if ((is_cpu_addressable(&side) || has_page_signals(&side)) && order->task == PEER_POSTS) {
            /* The word lies in the memory itself: leave it alone. */
            fill(memory->host, order->size / 2, order->seed);
        } else {
            send_pattern(&side, memory, order->seed);
        }
    }
    if (signal) {
        WORKS(gpud_signal_post(signal, order->value, side.queue, &e));
        WORKS(gpud_queue_finish(side.queue, gpud_deadline(10 * GPUD_SEC), &e));
    }
    gpud_signal_destroy(&signal);
    gpud_memory_unref(&memory);
    side_close(&side);
}

void peer_main(int argc, char **argv)
{
    struct order order;
    alarm(400); /* a hang ends here, whatever the harness does */
    if (argc < 3 || strcmp(argv[2], "peer") != 0)
        return;
    CHECK(read(STDIN_FILENO, &order, sizeof(order)) == sizeof(order), "no order for the peer");
    obey(argv[1], &order);
    exit(0);
}

/* --- leaks ------------------------------------------------------------------------------------ */

/* By what this process maps, not by what lies in /dev/shm: other tests run at the same time. */
static unsigned count_shared(void)
{
    unsigned count = 0;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file, "/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof(line), file))
        count += strstr(line, " /dev/shm/") || strstr(line, " /memfd:");
    fclose(file);
    return count;
}

struct baseline baseline_take(void)
{
    if (getenv("GPUD_TEST_NO_LEAKS"))
        return (struct baseline){0};
    return (struct baseline){.fds = count_fds(), .shared = count_shared()};
}

void baseline_check_at(const char *file, int line, struct baseline before)
{
    struct baseline now;
    int64_t deadline = gpud_deadline(5 * GPUD_SEC);
    do {
        now = baseline_take();
        if (now.fds <= before.fds && now.shared <= before.shared)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 20 * GPUD_MSEC}, NULL);
    } while (gpud_now() < deadline);
    fail_at(file, line,
            "a leak: %u descriptors where there were %u, %u shared mappings where there were %u",
            now.fds, before.fds, now.shared, before.shared);
}

void twice(void (*everything)(const char *device), const char *device)
{
    everything(device);
    struct baseline before = baseline_take();
    everything(device);
    say("nothing is left behind");
    BASELINE_CHECK(before);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "watch.h"

#include "base/base.h"
#include "support/count.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void watch_fail(const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "fuzz: %s\n", text);
    fflush(stderr);
    abort();
}

/* --- time ------------------------------------------------------------------------------------- */

#define TICK 10     /* ms */
#define GRACE 10000 /* ms: a call that hangs never comes back, a starved thread does */

static atomic_llong passed; /* ms */

static struct {
    pthread_mutex_t lock;
    const char *what; /* NULL: no call */
    int64_t timeout, until;
} call[WATCH_CALLERS];

static void *watch(void *arg)
{
    const struct timespec tick = {.tv_nsec = TICK * 1000000};
    for (;;) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &tick, NULL);
        int64_t now = atomic_fetch_add(&passed, TICK) + TICK;
        for (int i = 0; i < WATCH_CALLERS; i++) {
            pthread_mutex_lock(&call[i].lock);
            if (call[i].what && now > call[i].until)
                watch_fail("%s of %lld ms has not come back %d s after that", call[i].what,
                           (long long)call[i].timeout, GRACE / 1000);
            pthread_mutex_unlock(&call[i].lock);
        }
    }
    return arg;
}

void watch_start(void)
{
    pthread_t thread;
    for (int i = 0; i < WATCH_CALLERS; i++)
        pthread_mutex_init(&call[i].lock, NULL);
    if (pthread_create(&thread, NULL, watch, NULL) != 0)
        abort();
    pthread_detach(thread);
}

int64_t watch_time(void)
{
    return atomic_load(&passed);
}

void watch_begin(enum watch_caller caller, const char *what, int64_t timeout_ns)
{
    pthread_mutex_lock(&call[caller].lock);
    call[caller].what = what;
    call[caller].timeout = timeout_ns / GPUD_MSEC;
    call[caller].until = watch_time() + call[caller].timeout + GRACE + 2 * TICK;
    pthread_mutex_unlock(&call[caller].lock);
}

void watch_end(enum watch_caller caller)
{
    pthread_mutex_lock(&call[caller].lock);
    call[caller].what = NULL;
    pthread_mutex_unlock(&call[caller].lock);
}

/* --- processor time --------------------------------------------------------------------------- */

static int64_t cpu_time(clockid_t clock)
{
    struct timespec used;
    if (clock_gettime(clock, &used) != 0)
        return 0;
    return (int64_t)used.tv_sec * GPUD_SEC + used.tv_nsec;
}

static int64_t thread_time(pthread_t thread)
{
    clockid_t clock;
    return pthread_getcpuclockid(thread, &clock) == 0 ? cpu_time(clock) : 0;
}

/* Whether all threads together used CPU time for more than half of this period. */
static bool is_busy(int64_t ms)
{
    int64_t start = gpud_now(), used = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
    usleep((useconds_t)ms * 1000);
    used = cpu_time(CLOCK_PROCESS_CPUTIME_ID) - used;
    return used > (gpud_now() - start) / 2;
}

#define THREADS_MAX 4

void watch_quiet(const struct watch_thread *threads, unsigned count)
{
    int64_t used[THREADS_MAX];
    /* A thread may be in the middle of something at first; in the end it has to come to rest. */
    for (int64_t ms = 3; is_busy(ms); ms *= 3) {
        if (ms < 81)
            continue;
        unsigned most = 0;
        for (unsigned i = 0; i < count; i++)
            used[i] = thread_time(threads[i].thread);
        if (!is_busy(200))
            return;
        for (unsigned i = 0; i < count; i++) {
            used[i] = thread_time(threads[i].thread) - used[i];
            most = used[i] > used[most] ? i : most;
        }
        watch_fail("%s waits awake: %lld ms of processor time within 200 ms in which nothing "
                   "happened",
                   threads[most].name, (long long)(used[most] / GPUD_MSEC));
    }
}

/* --- what an input leaves behind -------------------------------------------------------------- */

/* The allocator's own count under the address sanitizer. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static int64_t heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return (int64_t)__sanitizer_get_current_allocated_bytes();
    return (int64_t)mallinfo2().uordblks;
}

static void count_maps(struct watch_baseline *baseline)
{
    char line[512];
    FILE *file = fopen("/proc/self/maps", "re");
    baseline->maps = baseline->shared = 0;
    while (file && fgets(line, sizeof(line), file)) {
        baseline->maps++;
        baseline->shared += strstr(line, "/memfd:") != NULL;
    }
    if (file)
        fclose(file);
}

struct watch_baseline watch_baseline_take(void)
{
    struct watch_baseline now = {.fds = count_fds()};
    count_maps(&now);
    now.heap = heap_bytes();
    return now;
}

/* Only on the host is everything on the heap ours: other devices have drivers, and the one of
 * tests/fakes keeps a record of whatever it has made. */
#ifdef FUZZ_DEVICE
static bool heap_is_ours(void)
{
    return strcmp(FUZZ_DEVICE, "host") == 0;
}
#else
static bool heap_is_ours(void)
{
    return true;
}
#endif

/* Allocators map, and keep, more than they hand out; the first inputs fill caches of the
 * libraries. */
#define MAPS_SLACK 24
#define HEAP_SLACK (64 * 1024)
#define WARM_UP 16

/* One input may leak a little; many must not leak much. */
static void check_growth(const struct watch_baseline *before, const struct watch_baseline *after)
{
    static unsigned inputs, maps;
    static int64_t heap;
    if (++inputs < WARM_UP)
        return;
    if (inputs == WARM_UP) {
        maps = after->maps;
        return;
    }
    if (after->maps > before->maps + MAPS_SLACK)
        watch_fail("an input leaves %u mappings", after->maps - before->maps);
    /* A search keeps what it learns, too: some mappings in many inputs. */
    if (after->maps > maps + 4 * MAPS_SLACK + inputs / 4)
        watch_fail("%u inputs leave %u mappings", inputs, after->maps - maps);
    if (after->heap > before->heap + HEAP_SLACK)
        watch_fail("an input leaves %lld bytes on the heap",
                   (long long)(after->heap - before->heap));
    heap += after->heap - before->heap;
    if (heap > 4 * HEAP_SLACK && heap_is_ours())
        watch_fail("%u inputs leave %lld bytes on the heap", inputs, (long long)heap);
}

void watch_baseline_check(const struct watch_baseline *before)
{
    struct watch_baseline after = watch_baseline_take();
    for (int64_t until = watch_time() + 4 * WATCH_PATIENCE;
         after.fds > before->fds || after.shared > before->shared;) {
        if (watch_time() > until)
            watch_fail("an input leaves %u descriptors and %u mappings of shared memory",
                       after.fds - before->fds, after.shared - before->shared);
        usleep(200);
        after = watch_baseline_take();
    }
    check_growth(before, &after);
}

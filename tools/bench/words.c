/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling of a hand-off that copies nothing: words in shared memory between two processes, one
 * there and one back a frame, as many on their way as there are slots. A side that finds nothing
 * sleeps, and is woken only then. */
#include "ceiling.h"
#include "children.h"
#include "roles.h"
#include "stats.h"

#include <errno.h>
#include <math.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 7
#define ROUND (40 * GPUD_MSEC)
#define LINE 64 /* bytes: each side has a cache line of its own */
#define SPINS 200
#define NAP (100 * GPUD_MSEC)
#define ANSWER_MAX (5 * GPUD_SEC) /* a process that was started just now takes its time */

struct side {
    _Alignas(LINE) _Atomic uint32_t word;
    atomic_bool waited_for; /* the other side sleeps until it changes */
};

struct words {
    struct side there, back;
    atomic_bool stop;
};

static struct words *map_words(int fd)
{
    struct words *words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return words == MAP_FAILED ? NULL : words;
}

static void send_word(struct side *side, uint32_t value)
{
    atomic_store(&side->word, value);
    if (atomic_load(&side->waited_for) && atomic_exchange(&side->waited_for, false))
        syscall(SYS_futex, &side->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Until it is another one, or for a nap. */
static void await_change(struct side *side, uint32_t old)
{
    const struct timespec nap = {.tv_nsec = NAP};
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&side->word, memory_order_acquire) != old)
            return;
    atomic_store(&side->waited_for, true);
    if (atomic_load(&side->word) == old)
        syscall(SYS_futex, &side->word, FUTEX_WAIT, old, &nap, NULL, 0);
    atomic_store(&side->waited_for, false);
}

/* Answers each word with one, until it is stopped; it dies with the coordinator. */
void bench_run_words(int control)
{
    struct bench_job job;
    bench_child_expect(control, BENCH_JOB, bench_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
    struct words *words = map_words(job.page);
    if (!words)
        bench_child_fail(control, GPUD_IO, "no shared page: %s", g_strerror(errno));
    for (uint32_t answered = 0; !atomic_load(&words->stop);) {
        if (atomic_load_explicit(&words->there.word, memory_order_acquire) == answered)
            await_change(&words->there, answered);
        else
            send_word(&words->back, ++answered);
    }
    struct bench_result result = {0};
    bench_send_result(control, &result, NULL);
    munmap(words, sizeof(*words));
}

/* Words a second; 0: the other side does not answer. */
static double send_for_a_while(struct words *words, uint32_t slots)
{
    int64_t start = bench_now(), now = start, last = start;
    uint32_t sent = atomic_load(&words->there.word), first = sent;
    while (now - start < ROUND || sent == first) {
        uint32_t answered = atomic_load_explicit(&words->back.word, memory_order_acquire);
        if (sent - answered == slots) {
            await_change(&words->back, answered);
        } else {
            send_word(&words->there, ++sent);
            last = now;
            if (sent % 16)
                continue;
        }
        now = bench_now();
        if (now - last > ANSWER_MAX || bench_caught_signal())
            return 0;
    }
    return (double)(sent - first) * 1e9 / (double)(now - start);
}

static bool finished(struct bench_child *children, size_t count)
{
    return children[0].finished;
}

static bool measure(const struct bench_job *job, struct words *words, double *rate,
                    struct bench_failure *failure)
{
    double rates[ROUNDS];
    struct bench_child child;
    if (!bench_child_start(&child, "words", 0, &job->page, 1, failure))
        return false;
    bool good = bench_send(child.fd, BENCH_JOB, job, sizeof(*job));
    for (int i = 0; i < ROUNDS && good; i++) {
        rates[i] = send_for_a_while(words, job->slots);
        good = rates[i] > 0;
    }
    atomic_store(&words->stop, true);
    /* Also where it does not answer: it says why. */
    good = bench_children_wait(&child, 1, bench_now() + BENCH_STEP_TIMEOUT, finished,
                               "answering words", failure) &&
           good;
    bench_child_stop(&child, good ? bench_now() + GPUD_SEC : 0);
    if (good)
        *rate = bench_median(rates, ROUNDS);
    return good;
}

bool bench_ceiling_words(const struct bench_job *wanted, double *rate,
                         struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    bool good = false;
    job.page = memfd_create("gpudirect-bench", MFD_CLOEXEC);
    struct words *words = NULL;
    if (job.page >= 0 && ftruncate(job.page, sizeof(*words)) == 0)
        words = map_words(job.page);
    if (words) {
        good = measure(&job, words, rate, failure);
        munmap(words, sizeof(*words));
    } else {
        failure->status = GPUD_IO;
        g_snprintf(failure->reason, sizeof(failure->reason),
                   "no shared memory for words to compare with: %s", g_strerror(errno));
    }
    if (job.page >= 0)
        close(job.page);
    return good;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "words.h"

#include "clock.h"
#include "stats.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MSEC 1000000
#define ROUNDS 7
#define ROUND (40 * MSEC)
#define LINE 64 /* bytes: each side has a cache line of its own */
#define SPINS 200
#define NAP (100 * MSEC)
/* A process that has just started takes its time, on a busy machine a long one. */
#define ANSWER_MAX (INT64_C(20000) * MSEC)

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

/* Waits until the word changes, or for a short while. */
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

int raw_words_open(void)
{
    int page = memfd_create("gpudirect-words", MFD_CLOEXEC);
    if (page >= 0 && ftruncate(page, sizeof(struct words)) == 0)
        return page;
    if (page >= 0)
        close(page);
    return -1;
}

bool raw_words_answer(int page)
{
    struct words *words = map_words(page);
    if (!words)
        return false;
    for (uint32_t answered = 0; !atomic_load(&words->stop);) {
        if (atomic_load_explicit(&words->there.word, memory_order_acquire) == answered)
            await_change(&words->there, answered);
        else
            send_word(&words->back, ++answered);
    }
    munmap(words, sizeof(*words));
    return true;
}

/* Words a second; 0: the other side does not answer. */
static double send_for_a_while(struct words *words, uint32_t slots, bool (*stopped)(void))
{
    int64_t start = clock_now(), now = start, last = start;
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
        now = clock_now();
        if (now - last > ANSWER_MAX || stopped())
            return 0;
    }
    return (double)(sent - first) * 1e9 / (double)(now - start);
}

double raw_words_rate(int page, uint32_t slots, bool (*stopped)(void))
{
    struct words *words = map_words(page);
    double rates[ROUNDS];
    bool answered = words != NULL;
    for (int i = 0; i < ROUNDS && answered; i++) {
        rates[i] = send_for_a_while(words, slots, stopped);
        answered = rates[i] > 0;
    }
    if (words) {
        atomic_store(&words->stop, true);
        munmap(words, sizeof(*words));
    }
    return answered ? stats_median(rates, ROUNDS) : 0;
}

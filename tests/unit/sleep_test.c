/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sleeping and waking: no wake is lost, none costs a system call that nobody needs, and every wait
 * ends. */
#include "base/sleep.h"
#include "support/check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define TURNS 20000

static void test_deadlines(void)
{
    _Atomic uint32_t word = 7;
    int64_t start = gpud_now();
    gpud_futex_wait(&word, 8, start + GPUD_SEC);
    CHECK(gpud_now() - start < GPUD_SEC / 2, "a wait for what is already so");
    start = gpud_now();
    gpud_futex_wait(&word, 7, start - GPUD_SEC);
    gpud_futex_wait(&word, 7, -5);
    gpud_futex_wait(&word, 7, 0);
    CHECK(gpud_now() - start < GPUD_SEC / 2, "a deadline that is over");
    start = gpud_now();
    gpud_futex_wait(&word, 7, start + 50 * GPUD_MSEC);
    int64_t took = gpud_now() - start;
    CHECK(took < 2 * GPUD_SEC, "a wait of 50 ms took %lld ms", (long long)(took / GPUD_MSEC));

    CHECK(gpud_deadline(INT64_MAX) == INT64_MAX, "a very long timeout overflows");
    CHECK(gpud_deadline(0) <= gpud_now(), "no timeout is a timeout");
    struct timespec past = gpud_time_left(gpud_now() - GPUD_SEC);
    CHECK(past.tv_sec == 0 && past.tv_nsec == 0, "a negative time left");
}

static void test_wakes_that_cost_nothing(void)
{
    _Atomic uint32_t sleeper = 0;
    CHECK(!gpud_wake(&sleeper), "nobody sleeps, and a system call was made");
    atomic_store(&sleeper, 1);
    CHECK(gpud_wake(&sleeper), "somebody announced itself and was not woken");
    CHECK(atomic_load(&sleeper) == 0, "the announcement stays");
    CHECK(!gpud_wake(&sleeper), "one announcement, two wakes");
}

/* --- turns: each side sleeps until the other has had its turn --------------------------------- */

struct table {
    _Atomic uint32_t turn, sleeper[2];
    atomic_ullong late;
};

static void play(struct table *table, uint32_t side)
{
    for (uint32_t i = 0; i < TURNS; i++) {
        uint32_t mine = 2 * i + side;
        int64_t deadline = gpud_now() + 5 * GPUD_SEC;
        while (atomic_load(&table->turn) != mine) {
            atomic_store(&table->sleeper[side], 1);
            if (atomic_load(&table->turn) != mine)
                gpud_futex_wait(&table->sleeper[side], 1, deadline);
            atomic_store(&table->sleeper[side], 0);
            CHECK(gpud_now() < deadline, "turn %u: a wake was lost", i);
        }
        atomic_store_explicit(&table->turn, mine + 1, memory_order_release);
        gpud_wake(&table->sleeper[1 - side]);
    }
}

static void *play_second(void *table)
{
    play(table, 1);
    return NULL;
}

static void test_turns(void)
{
    struct table *table =
        mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "no shared memory");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, play_second, table) == 0, "no thread");
    play(table, 0);
    pthread_join(thread, NULL);

    memset(table, 0, sizeof(*table));
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        play(table, 1);
        _exit(0);
    }
    play(table, 0);
    int state;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "the other process failed");
    munmap(table, sizeof(*table));
}

/* --- spinning --------------------------------------------------------------------------------- */

static bool never(void *arg)
{
    ++*(unsigned long *)arg;
    return false;
}

static bool third_time(void *arg)
{
    return ++*(unsigned long *)arg == 3;
}

static void test_spin(void)
{
    struct gpud_spin spin = {0};
    unsigned long looks = 0;
    CHECK(!gpud_spin(&spin, never, &looks) && looks == 1, "who never learned that it pays spins");
    gpud_spin_learn(&spin, 10000);
    CHECK(spin.window > 0, "a short sleep does not open the window");
    int64_t first = spin.window;
    for (int i = 0; i < 20; i++)
        gpud_spin_learn(&spin, 10000);
    CHECK(spin.window > first && spin.window <= GPUD_MSEC, "the window is %lld ns",
          (long long)spin.window);
    /* The processor may be somebody else's for as long as the window is open; not every time. */
    bool seen = false;
    for (int i = 0; i < 1000 && !seen; i++) {
        looks = 0;
        seen = gpud_spin(&spin, third_time, &looks);
    }
    CHECK(seen, "what became ready is not seen");
    looks = 0;
    int64_t best = INT64_MAX;
    for (int i = 0; i < 20; i++) {
        int64_t start = gpud_now();
        CHECK(!gpud_spin(&spin, never, &looks), "what never becomes ready is seen");
        int64_t took = gpud_now() - start;
        best = took < best ? took : best;
    }
    CHECK(best < 10 * GPUD_MSEC, "spinning took at least %lld us", (long long)(best / 1000));
    gpud_spin_learn(&spin, 10 * GPUD_MSEC);
    CHECK(spin.window == 0, "a long sleep leaves the window open");
}

int main(void)
{
    alarm(120);
    SAY("waits end");
    test_deadlines();
    SAY("a wake costs a system call only where somebody sleeps");
    test_wakes_that_cost_nothing();
    SAY("%d turns between two threads, then two processes, without a lost wake", TURNS);
    test_turns();
    SAY("spinning opens and closes its window");
    test_spin();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sleeping and waking: no wake is lost, none costs an unnecessary system call, and every wait
 * ends. */
#include "base/base.h"
#include "support/check.h"
#include "support/make.h"

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

    SAY("a wake costs a system call only if the peer sleeps");
    _Atomic uint32_t asleep = 0, kicks = 0;
    struct gpud_sleeper sleeper = {.asleep = &asleep, .kicks = &kicks};
    struct gpud_waker waker = {.asleep = &asleep, .kicks = &kicks};
    uint32_t before = 0;
    CHECK(gpud_waker_look(&waker) == 0, "no side sleeps, and one is to be woken");
    for (int i = 0; i < 3; i++) {
        gpud_sleep_begin(&sleeper, GPUD_SLEEP_FUTEX);
        uint32_t sleep = gpud_waker_look(&waker);
        CHECK(sleep && sleep != before, "a sleep that is not announced, or like the one before");
        CHECK((sleep & GPUD_SLEEP_MODES) == GPUD_SLEEP_FUTEX, "how it sleeps is not said");
        CHECK(gpud_waker_claim(&waker, sleep), "an announced sleeper is not woken");
        CHECK(!gpud_waker_claim(&waker, sleep), "two threads end the same sleep");
        CHECK(gpud_waker_look(&waker) == 0, "one sleep, two wakes");
        CHECK(atomic_load(&asleep) == sleep, "another side wrote the sleeper's word");
        gpud_sleep_end(&sleeper);
        CHECK(gpud_waker_look(&waker) == 0, "the sleep has ended");
        before = sleep;
    }
}

/* --- turns: each side sleeps until the other has had its turn --------------------------------- */

struct table {
    _Atomic uint32_t turn, asleep[2], kicks[2];
};

struct player {
    struct table *table;
    uint32_t mine;
};

static bool is_my_turn(void *arg)
{
    const struct player *player = arg;
    return atomic_load(&player->table->turn) == player->mine;
}

static void play(struct table *table, uint32_t side)
{
    struct gpud_sleeper sleeper = {.asleep = &table->asleep[side],
                                   .kicks = &table->kicks[1 - side]};
    struct gpud_waker waker = {.asleep = &table->asleep[1 - side], .kicks = &table->kicks[side]};
    for (uint32_t i = 0; i < TURNS; i++) {
        uint32_t mine = 2 * i + side;
        int64_t deadline = gpud_now() + 5 * GPUD_SEC;
        struct player player = {table, mine};
        while (!is_my_turn(&player)) {
            gpud_sleep(&sleeper, is_my_turn, &player, deadline);
            CHECK(gpud_now() < deadline, "turn %u: a wake was lost", i);
        }
        atomic_store_explicit(&table->turn, mine + 1, memory_order_release);
        uint32_t sleep = gpud_waker_look(&waker);
        if (sleep && gpud_waker_claim(&waker, sleep))
            gpud_waker_kick(&waker);
    }
}

static void *play_second(void *table)
{
    play(table, 1);
    return NULL;
}

/* --- one's own side --------------------------------------------------------------------------- */

struct doze {
    struct gpud_sleeper sleeper;
    atomic_bool stop;
};

static bool is_stopped(void *arg)
{
    return atomic_load(&((struct doze *)arg)->stop);
}

static void *doze(void *arg)
{
    struct doze *doze = arg;
    while (!is_stopped(doze))
        gpud_sleep(&doze->sleeper, is_stopped, doze, gpud_now() + 20 * GPUD_SEC);
    return NULL;
}

static void test_turns(void)
{
    struct table *table =
        mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "no shared memory");
    pthread_t thread = NEW_THREAD(play_second, table);
    play(table, 0);
    pthread_join(thread, NULL);

    memset(table, 0, sizeof(*table));
    pid_t child = fork();
    if (child == 0) {
        test_alarm(60);
        play(table, 1);
        _exit(0);
    }
    play(table, 0);
    int state;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "the other process failed");
    munmap(table, sizeof(*table));

    SAY("a thread of one's own is woken wherever it is");
    /* At whatever point on its way into the kernel a thread is when it is interrupted; the peer
     * says that it is awake, and changes its own word at will. */
    for (int i = 0; i < 500; i++) {
        _Atomic uint32_t asleep = 0, kicks = 0;
        struct doze it = {.sleeper = {.asleep = &asleep, .kicks = &kicks}};
        thread = NEW_THREAD(doze, &it);
        for (int turns = 0; turns < i * 20; turns++)
            atomic_store(&asleep, 0);
        int64_t begin = gpud_now(), start;
        atomic_store(&it.stop, true);
        do { /* again where it gave up, on a machine where that thread did not run for so long */
            start = gpud_now();
            gpud_sleeper_rouse(&it.sleeper);
        } while (gpud_now() - start >= 40 * GPUD_MSEC);
        pthread_join(thread, NULL);
        CHECK(gpud_now() - begin < 10 * GPUD_SEC, "an interrupt was lost in round %d", i);
    }
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

/* Stands in for the C library's: what it takes shows whether another thread has run. */
static struct {
    unsigned calls;
    int64_t takes;
} yielding;

int sched_yield(void)
{
    yielding.calls++;
    int64_t until = gpud_now() + yielding.takes;
    while (yielding.takes && gpud_now() < until)
        ;
    return 0;
}

static bool after_three_yields(void *arg)
{
    return yielding.calls >= 3;
}

static void test_spin(void)
{
    struct gpud_spin spin = {0};
    unsigned long looks = 0;
    CHECK(!gpud_spin(&spin, never, &looks) && looks == 1,
          "it spins without having learned that it pays");
    gpud_spin_learn(&spin, 10000);
    CHECK(spin.window > 0, "a short sleep does not open the window");
    int64_t first = spin.window;
    for (int i = 0; i < 20; i++)
        gpud_spin_learn(&spin, 10000);
    CHECK(spin.window > first && spin.window <= GPUD_MSEC, "the window is %lld ns",
          (long long)spin.window);
    /* Another process may have the CPU while the window is open, but not every time. */
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

    SAY("it yields to its peers in a fast stream, and to no other thread for long");
    spin = (struct gpud_spin){0};
    gpud_spin_learn(&spin, 100 * GPUD_USEC);
    CHECK(spin.window == 0, "a sleep of 100 us opens the window");

    /* A few other threads each have a turn meanwhile; a busy machine may give them long ones. */
    yielding.takes = 5 * GPUD_USEC;
    seen = false;
    for (int i = 0; i < 1000 && !seen; i++) {
        yielding.calls = 0;
        spin.no_yields_until = 0;
        seen = gpud_spin(&spin, after_three_yields, NULL);
    }
    CHECK(seen && yielding.calls == 3, "it sleeps although other threads need the processor");

    /* Others use the processor all the time. */
    yielding.calls = 0;
    yielding.takes = 2 * GPUD_MSEC;
    spin.no_yields_until = 0;
    int64_t start = gpud_now();
    CHECK(!gpud_spin(&spin, never, &looks) && yielding.calls == 1,
          "it yields %u times to a thread that keeps the processor", yielding.calls);
    CHECK(spin.no_yields_until > start, "it will yield to that thread again");
    spin.no_yields_until = INT64_MAX;
    CHECK(!gpud_spin(&spin, never, &looks) && yielding.calls == 1, "it yields in the pause");

    /* No other thread needs the processor. A busy machine may make that look otherwise. */
    yielding.takes = 0;
    unsigned fewest = UINT32_MAX;
    for (int i = 0; i < 1000 && fewest > 1; i++) {
        yielding.calls = 0;
        spin.no_yields_until = 0;
        CHECK(!gpud_spin(&spin, never, &looks), "what never becomes ready is seen");
        fewest = yielding.calls < fewest ? yielding.calls : fewest;
    }
    CHECK(fewest == 1, "it yields %u times and more on an idle processor", fewest);

    gpud_spin_learn(&spin, 16 * GPUD_MSEC);
    yielding.calls = 0;
    spin.no_yields_until = 0;
    CHECK(!gpud_spin(&spin, never, &looks) && yielding.calls == 0, "it yields in a paced stream");
}

int main(void)
{
    test_alarm(120);
    SAY("waits end");
    test_deadlines();
    SAY("%d turns between two threads, then two processes, without a lost wake", TURNS);
    test_turns();
    SAY("spinning opens and closes its window");
    test_spin();
    return 0;
}

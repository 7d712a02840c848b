/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page under drop-oldest: the sender takes back while the receiver claims. */
#include "base/clock.h"
#include "page_ends.h"

#include <pthread.h>
#include <sched.h>

#define RACE_FRAMES 200000

struct race {
    struct ends ends;
    atomic_bool done;
    atomic_ullong got;
    uint64_t last, gaps;
};

static void *race_receiver(void *arg)
{
    struct race *race = arg;
    struct gpud_descriptor descriptor;
    uint32_t entry;
    for (;;) {
        bool done = atomic_load(&race->done);
        if (claim(&race->ends, &entry, &descriptor) == 0) {
            if (done)
                return NULL;
            sched_yield();
            continue;
        }
        CHECK(descriptor.sequence > race->last, "frame %llu after %llu",
              (unsigned long long)descriptor.sequence, (unsigned long long)race->last);
        CHECK(descriptor.pts == ~descriptor.sequence, "a torn descriptor");
        race->gaps += descriptor.sequence - race->last - 1;
        race->last = descriptor.sequence;
        atomic_fetch_add(&race->got, 1);
        gpud_page_give_back(&race->ends.receiver, entry, &is_busy);
    }
}

static void test_race(uint32_t start)
{
    static struct race race;
    memset(&race, 0, sizeof(race));
    make(&race.ends, ENTRIES, start);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, race_receiver, &race) == 0, "no thread");
    uint64_t revoked = 0;
    /* Until both have got some. On one processor they must hand it to each other to race at all. */
    uint64_t sent = 0;
    int64_t limit = gpud_now() + 20 * GPUD_SEC;
    while (sent < RACE_FRAMES ||
           ((atomic_load(&race.got) < 1000 || revoked < 1000) && gpud_now() < limit)) {
        uint64_t i = ++sent;
        if (i % 64 == 0)
            sched_yield();
        uint32_t entry;
        int got;
        while (!gpud_page_take(&race.ends.sender, &entry)) {
            while ((got = gpud_page_reap(&race.ends.sender, &entry)) > 0)
                ;
            CHECK(got == 0, "an honest receiver is called a liar");
            if (race.ends.sender.free_count)
                continue;
            got = gpud_page_revoke(&race.ends.sender, &entry);
            CHECK(got >= 0, "an honest receiver is called a liar");
            revoked += (uint64_t)got;
        }
        race.ends.page->sender.descriptor[entry] =
            (struct gpud_descriptor){.sequence = i, .pts = ~i};
        gpud_page_publish(&race.ends.sender, entry);
    }
    atomic_store(&race.done, true);
    pthread_join(thread, NULL);
    unsigned long long got = atomic_load(&race.got);
    CHECK_EQUAL(got + revoked, sent);
    CHECK_EQUAL(race.gaps + (sent - race.last), revoked);
    CHECK(revoked >= 1000 && got >= 1000, "nothing raced: %llu claimed, %llu taken back", got,
          (unsigned long long)revoked);
    check_sum(&race.ends, 0);
    SAY("  %llu claimed, %llu taken back", got, (unsigned long long)revoked);
    unmake(&race.ends);
}

int main(void)
{
    SAY("the sender takes back while the receiver claims");
    test_race(0);
    test_race(UINT32_MAX - RACE_FRAMES / 2);
    return 0;
}

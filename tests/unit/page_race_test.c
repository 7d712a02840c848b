/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page under drop-oldest: the sender takes back while the receiver claims. And under a
 * sender that rewrites descriptors while they are read: what was checked is what the receiver has.
 * The thread sanitizer reports a plain read of such a word. */
#include "base/base.h"
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

/* --- a liar -------------------------------------------------------------------------------- */

#define LIES 20000

struct liar {
    struct ends ends;
    atomic_bool stop;
};

static void *lie(void *arg)
{
    struct liar *liar = arg;
    struct gpud_descriptor *descriptor = liar->ends.page->sender.descriptor;
    for (uint32_t turn = 0; !atomic_load(&liar->stop); turn++) {
        uint32_t size = turn % 2 ? UINT32_MAX : 8;
        for (uint32_t i = 0; i < ENTRIES; i++) {
            __atomic_store_n(&descriptor[i].meta_size, size, __ATOMIC_RELAXED);
            __atomic_store_n((uint64_t *)(void *)descriptor[i].meta, turn, __ATOMIC_RELAXED);
        }
        if (turn % 15 == 0) /* with either size */
            sched_yield();
    }
    return NULL;
}

static void test_liar(void)
{
    static struct liar liar;
    struct ends *ends = &liar.ends;
    unsigned taken = 0, refused = 0;
    pthread_t thread;
    memset(&liar, 0, sizeof(liar));
    make(ends, ENTRIES, 0);
    CHECK(pthread_create(&thread, NULL, lie, &liar) == 0, "no thread");
    int64_t limit = gpud_now() + 20 * GPUD_SEC;
    for (uint64_t i = 1; i <= LIES || ((!taken || !refused) && gpud_now() < limit); i++) {
        struct gpud_descriptor descriptor;
        struct gpud_error error;
        uint32_t entry, claimed;
        CHECK(gpud_page_take(&ends->sender, &entry), "no credit is left");
        __atomic_store_n(&ends->page->sender.descriptor[entry].sequence, i, __ATOMIC_RELAXED);
        gpud_page_publish(&ends->sender, entry);
        int got = gpud_page_claim(&ends->receiver, gpud_page_head(&ends->receiver), &claimed,
                                  &descriptor, &error);
        CHECK(got != 0, "the frame is not there");
        if (got > 0) {
            CHECK(descriptor.meta_size <= GPUD_FRAME_META_MAX, "%u bytes of meta were let through",
                  descriptor.meta_size);
            taken++;
        } else { /* the end of an honest receiver; this one goes on */
            atomic_fetch_add(&ends->receiver.held_count, 1);
            refused++;
        }
        gpud_page_give_back(&ends->receiver, entry, &is_busy);
        CHECK(gpud_page_reap(&ends->sender, &entry) == 1, "the entry does not come back");
        if (i % 16 == 0)
            sched_yield();
    }
    atomic_store(&liar.stop, true);
    pthread_join(thread, NULL);
    SAY("  %u taken, %u refused", taken, refused);
    unmake(ends);
}

int main(void)
{
    SAY("the sender takes back while the receiver claims");
    test_race(0);
    test_race(UINT32_MAX - RACE_FRAMES / 2);
    SAY("a sender that rewrites what it published");
    test_liar();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page: credits and order, drop-oldest, counters that wrap, and every violation that a
 * side must detect.
 *
 * race: under drop-oldest the sender takes back while the receiver claims; and a sender rewrites
 * descriptors while they are read: what was checked is what the receiver has. The thread sanitizer
 * reports a plain read of such a word.
 *
 * carrier: as between hosts each side has a page of its own, and sees of the other's half what was
 * published, in that order, and nothing else. */
#include "base/base.h"
#include "support/check.h"
#include "support/make.h"
#include "wire/wire.h"

#include <pthread.h>
#include <sched.h>

#define ENTRIES 4

/* What the receiving thread is about while an entry is given back. */
static const atomic_bool is_idle = true, is_busy = false;

struct ends {
    struct gpud_page *page;
    struct gpud_page_tx sender;
    struct gpud_page_rx receiver;
    uint64_t sequence;
    struct gpud_descriptor got; /* claimed last */
};

/* A fresh page whose counters stand at `start`, as after that many frames; one at a time. */
static void make(struct ends *ends, uint32_t entries, uint32_t start)
{
    static struct gpud_page page;
    memset(ends, 0, sizeof(*ends));
    memset(&page, 0, sizeof(page));
    ends->page = &page;
    gpud_page_rx_init(&ends->receiver, ends->page, NULL, entries);
    WORKS(gpud_page_tx_init(&ends->sender, ends->page, NULL, entries, entries, &e));
    ends->sender.head = ends->sender.returned = ends->receiver.returned = start;
    atomic_store(&ends->page->sender.head, start);
    atomic_store(&ends->page->sender.announced, start);
    atomic_store(&ends->page->receiver.claimed, start);
    atomic_store(&ends->page->receiver.returned, start);
}

static uint32_t publish(struct ends *ends)
{
    uint32_t entry;
    CHECK(gpud_page_take(&ends->sender, &entry), "no credit is left");
    struct gpud_descriptor *descriptor = &ends->page->sender.descriptor[entry];
    memset(descriptor, 0, sizeof(*descriptor));
    descriptor->sequence = ++ends->sequence;
    descriptor->slot = entry;
    descriptor->meta_size = 3;
    memcpy(descriptor->meta, "abc", 3);
    gpud_page_publish(&ends->sender, entry);
    return entry;
}

static int try_claim(struct ends *ends, uint32_t *entry, struct gpud_error *error)
{
    return gpud_page_claim(&ends->receiver, gpud_page_head(&ends->receiver), entry, &ends->got,
                           error);
}

static int claim(struct ends *ends, uint32_t *entry)
{
    struct gpud_error error = {.reason = ""};
    int got = try_claim(ends, entry, &error);
    CHECK(got >= 0, "a false violation: %s", error.reason);
    return got;
}

/* I6: every entry is in one state; what is neither free, nor taken, is out. */
static void check_sum(const struct ends *ends, uint32_t taken)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < ends->sender.entries; i++)
        out += ends->sender.out[i];
    CHECK_EQUAL(out + ends->sender.free_count + taken, ends->sender.entries);
}

#define HEAD_OF(page) atomic_load(&(page)->sender.head)

static void claim_refused(struct ends *ends, const char *text)
{
    struct gpud_error error = {.reason = ""};
    uint32_t entry;
    int got = try_claim(ends, &entry, &error);
    CHECK(got == -1, "claim gives %d where the lie \"%s\" must be noticed", got, text);
    CHECK_EQUAL(error.status, GPUD_PEER);
    CHECK_SAYS(error.reason, text);
}

/* --- what must work --------------------------------------------------------------------------- */

static void test_credits_and_order(uint32_t start)
{
    struct ends ends;
    uint32_t entry, held[ENTRIES];
    uint64_t next = 1;
    make(&ends, ENTRIES, start);
    for (int round = 0; round < 200; round++) {
        uint32_t fill = 1 + (uint32_t)round % ENTRIES;
        for (uint32_t i = 0; i < fill; i++)
            publish(&ends);
        if (fill == ENTRIES)
            CHECK(!gpud_page_take(&ends.sender, &entry), "a credit more than there are entries");
        for (uint32_t i = 0; i < fill; i++) {
            CHECK_EQUAL(gpud_page_count_waiting(&ends.receiver), fill - i);
            CHECK(claim(&ends, &held[i]) == 1, "a published frame is not there");
            CHECK_EQUAL(ends.got.sequence, next);
            CHECK(ends.got.meta_size == 3 && memcmp(ends.got.meta, "abc", 3) == 0,
                  "the meta is not what was sent");
            next++;
        }
        CHECK_EQUAL(claim(&ends, &entry), 0);
        CHECK_EQUAL(gpud_page_count_waiting(&ends.receiver), 0);
        CHECK(!gpud_page_has_returns(&ends.sender), "nothing was given back yet");
        /* Held frames come back in any order. */
        for (uint32_t i = 0; i < fill; i++)
            gpud_page_give_back(&ends.receiver, held[(i + (uint32_t)round) % fill], &is_busy);
        for (uint32_t i = 0; i < fill; i++) {
            CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 1);
            CHECK_EQUAL(entry, held[(i + (uint32_t)round) % fill]);
        }
        CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 0);
        check_sum(&ends, 0);
        CHECK_EQUAL(ends.sender.free_count, ENTRIES);
    }
}

static void test_revoke(uint32_t start)
{
    struct ends ends;
    uint32_t entry, first;
    make(&ends, ENTRIES, start);
    CHECK_EQUAL(gpud_page_revoke(&ends.sender, &entry), 0);
    first = publish(&ends);
    for (int i = 1; i < ENTRIES; i++)
        publish(&ends);
    CHECK_EQUAL(gpud_page_revoke(&ends.sender, &entry), 1);
    CHECK_EQUAL(entry, first);
    check_sum(&ends, 0);
    CHECK_EQUAL(publish(&ends), first);
    for (uint64_t wanted = 2; wanted <= 5; wanted++) {
        CHECK_EQUAL(claim(&ends, &entry), 1);
        CHECK_EQUAL(ends.got.sequence, wanted);
    }
    CHECK_EQUAL(gpud_page_revoke(&ends.sender, &entry), 0);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 0);
}

/* --- wakes ------------------------------------------------------------------------------------ */

/* Puts a side to sleep. */
static void begin_sleep(struct gpud_page_end *end, uint32_t wanted, struct ends *ends)
{
    if (end == &ends->sender.end)
        atomic_store(&ends->page->sender.wanted, wanted);
    gpud_sleep_begin(&end->sleeper, GPUD_SLEEP_FUTEX);
}

static void count_kick(void *kicks)
{
    ++*(int *)kicks;
}

static void test_wakes(void)
{
    struct ends ends;
    uint32_t entry[ENTRIES];
    make(&ends, ENTRIES, 0);
    for (int i = 0; i < ENTRIES; i++)
        publish(&ends);
    for (int i = 0; i < ENTRIES; i++)
        CHECK_EQUAL(claim(&ends, &entry[i]), 1);
    CHECK(!gpud_page_give_back(&ends.receiver, entry[0], &is_idle),
          "no peer sleeps, and a system call was made");
    begin_sleep(&ends.sender.end, 2, &ends);
    CHECK(gpud_page_give_back(&ends.receiver, entry[1], &is_busy),
          "two are free, as the sender wished, and it sleeps on");
    CHECK_EQUAL(atomic_load(&ends.page->receiver.kicks), 1);
    CHECK(!gpud_page_notify(&ends.receiver.end), "one sleep, two wakes");
    begin_sleep(&ends.sender.end, 4, &ends);
    CHECK(!gpud_page_give_back(&ends.receiver, entry[2], &is_busy),
          "the sender is woken for less than it wished");
    CHECK(gpud_page_give_back(&ends.receiver, entry[3], &is_idle),
          "an idle receiver lets the sender sleep");
    CHECK_EQUAL(atomic_load(&ends.page->receiver.kicks), 2);
    CHECK_EQUAL(atomic_load(&ends.page->sender.kicks), 0);

    /* A side that polls its connection is woken there, once per sleep, and not by its futex. */
    int kicks = 0;
    make(&ends, ENTRIES, 0);
    gpud_sleep_begin(&ends.receiver.end.sleeper, GPUD_SLEEP_POLL);
    publish(&ends);
    CHECK(!gpud_page_notify(&ends.sender.end), "a KICK, and no connection to send it over");
    gpud_sleep_end(&ends.receiver.end.sleeper);
    ends.sender.end.send_kick = count_kick;
    ends.sender.end.send_kick_arg = &kicks;
    for (int i = 1; i <= 3; i++) {
        CHECK(!gpud_page_notify(&ends.sender.end), "a KICK for a peer that is awake");
        gpud_sleep_begin(&ends.receiver.end.sleeper, GPUD_SLEEP_POLL);
        CHECK(gpud_page_notify(&ends.sender.end), "the poller is not woken");
        CHECK(!gpud_page_notify(&ends.sender.end), "told twice");
        gpud_sleep_end(&ends.receiver.end.sleeper);
        CHECK_EQUAL(kicks, i);
    }
    CHECK_EQUAL(atomic_load(&ends.page->sender.kicks), 0);
    /* What a liar says of its sleep costs no more than a wake. */
    const uint32_t lies[] = {1, 2, 3, 4, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        atomic_store(&ends.page->receiver.asleep, lies[i]);
        CHECK(gpud_page_notify(&ends.sender.end) && !gpud_page_notify(&ends.sender.end),
              "asleep is %u, and the other side is not woken once", lies[i]);
    }
}

/* As a sender does for all its pages. */
static bool announce(struct ends *ends, uint32_t more)
{
    bool told = gpud_page_announce(&ends->sender, more);
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t sleep = gpud_page_look_fenced(&ends->sender.end);
    return told || (sleep && gpud_page_wake(&ends->sender.end, sleep));
}

static void test_announce(uint32_t start)
{
    struct ends ends;
    make(&ends, ENTRIES, start);
    CHECK(!gpud_page_is_announced(&ends.receiver), "nothing was announced");
    CHECK(!announce(&ends, 1), "no peer sleeps, and a system call was made");
    CHECK(gpud_page_is_announced(&ends.receiver), "an announcement is not seen");
    begin_sleep(&ends.receiver.end, 0, &ends);
    CHECK(announce(&ends, 2), "a sleeper is not woken");
    CHECK_EQUAL(atomic_load(&ends.page->sender.kicks), 1);
    CHECK(atomic_load(&ends.page->receiver.asleep) != 0, "the other side's word was written");
    publish(&ends);
    CHECK(gpud_page_is_announced(&ends.receiver), "one of two is still to come");
    publish(&ends);
    CHECK(!gpud_page_is_announced(&ends.receiver), "what is there is not announced any more");
    begin_sleep(&ends.receiver.end, 0, &ends);
    announce(&ends, 1);
    begin_sleep(&ends.receiver.end, 0, &ends);
    CHECK(!gpud_page_announce(&ends.sender, 0), "woken for nothing");
    CHECK(!gpud_page_is_announced(&ends.receiver), "what was called off is still waited for");
    const uint32_t lies[] = {ENTRIES + 1, 1000, INT32_MAX, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        atomic_store(&ends.page->sender.announced, ends.sender.head + lies[i]);
        CHECK(!gpud_page_is_announced(&ends.receiver), "%u frames announced at once", lies[i]);
    }
}

/* --- lies ------------------------------------------------------------------------------------- */

static void give_back_forged(struct ends *ends, uint32_t index, uint32_t how_many)
{
    uint32_t returned = atomic_load(&ends->page->receiver.returned);
    atomic_store(&ends->page->receiver.given_back[returned % GPUD_PAGE_ENTRIES], index);
    atomic_store(&ends->page->receiver.returned, returned + how_many);
}

static void test_lies(void)
{
    struct ends ends;
    uint32_t entry;

    const uint32_t forged[] = {ENTRIES, GPUD_PAGE_ENTRIES, 0x100, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        make(&ends, ENTRIES, 0);
        publish(&ends);
        atomic_store(&ends.page->sender.published[0], forged[i]);
        claim_refused(&ends, "an entry that does not exist");
    }

    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry), 1);
    publish(&ends);
    atomic_store(&ends.page->sender.published[1], entry);
    claim_refused(&ends, "still held");

    const uint32_t ahead[] = {
        ENTRIES + 1, 1000, INT32_MAX, UINT32_C(1) << 31, (UINT32_C(1) << 31) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        make(&ends, ENTRIES, 7);
        atomic_store(&ends.page->sender.head, 7 + ahead[i]);
        claim_refused(&ends, "more frames waiting than entries");
    }

    make(&ends, ENTRIES, 0);
    uint32_t used = publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry), 1);
    gpud_page_give_back(&ends.receiver, entry, &is_busy);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 1);
    ends.sequence = 0; /* the next one has the same number */
    CHECK_EQUAL(publish(&ends), used);
    claim_refused(&ends, "went back");

    const uint32_t sizes[] = {GPUD_FRAME_META_MAX + 1, 0x10000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        make(&ends, ENTRIES, 0);
        ends.page->sender.descriptor[publish(&ends)].meta_size = sizes[i];
        claim_refused(&ends, "more meta than a frame carries");
    }

    /* Claimed moved behind the receiver's back, either way: no frame twice, none from nowhere. */
    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry), 1);
    atomic_store(&ends.page->receiver.claimed, 0);
    claim_refused(&ends, "still held");
    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry), 1);
    gpud_page_give_back(&ends.receiver, entry, &is_busy);
    atomic_store(&ends.page->receiver.claimed, 0);
    claim_refused(&ends, "went back");
    make(&ends, ENTRIES, 0);
    publish(&ends);
    atomic_store(&ends.page->receiver.claimed, 3);
    claim_refused(&ends, "more frames waiting than entries");

    SAY("lies of a receiver");
    uint32_t other;

    /* A free entry, one that does not exist, one that was published and never claimed. */
    const uint32_t returned[] = {3, ENTRIES, 255, 256, UINT32_MAX, 0};
    for (size_t i = 0; i < sizeof(returned) / sizeof(returned[0]); i++) {
        make(&ends, ENTRIES, UINT32_MAX);
        publish(&ends);
        give_back_forged(&ends, returned[i], 1);
        CHECK(gpud_page_reap(&ends.sender, &entry) == -1, "entry %u came back and was never out",
              returned[i]);
    }

    const uint32_t many[] = {ENTRIES + 1, 2, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        make(&ends, ENTRIES, 0);
        publish(&ends);
        CHECK_EQUAL(claim(&ends, &entry), 1);
        give_back_forged(&ends, entry, many[i]);
        CHECK(gpud_page_reap(&ends.sender, &entry) == -1, "%u came back where 1 was out", many[i]);
    }

    /* The same one twice, with another still out so that the count alone shows nothing. */
    make(&ends, ENTRIES, 0);
    publish(&ends);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry), 1);
    CHECK_EQUAL(claim(&ends, &other), 1);
    give_back_forged(&ends, entry, 1);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &other), 1);
    give_back_forged(&ends, entry, 1);
    CHECK(gpud_page_reap(&ends.sender, &other) == -1, "one entry came back twice");

    /* Claimed ahead of what there is, and behind what must have been claimed. */
    const int32_t shifts[] = {1, 1000, -1, -1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        make(&ends, ENTRIES, 50);
        for (int k = 0; k < ENTRIES; k++)
            publish(&ends);
        uint32_t from = shifts[i] > 0 ? HEAD_OF(ends.page) : 50;
        atomic_store(&ends.page->receiver.claimed, from + (uint32_t)shifts[i]);
        CHECK(gpud_page_revoke(&ends.sender, &entry) == -1,
              "claimed is off by %d, and this is not noticed", shifts[i]);
    }

    /* Claimed, given back, and then "not claimed" after all: the entry must not be free twice. */
    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry), 1);
    gpud_page_give_back(&ends.receiver, entry, &is_busy);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 1);
    atomic_store(&ends.page->receiver.claimed, 0);
    CHECK(gpud_page_revoke(&ends.sender, &entry) == -1, "an entry became free twice");
    check_sum(&ends, 0);

    struct gpud_page_tx view;
    make(&ends, ENTRIES, 0);
    EXPECT(GPUD_PEER, "1 to 64", gpud_page_tx_init(&view, ends.page, NULL, 0, 0, &e));
    EXPECT(GPUD_PEER, "1 to 64",
           gpud_page_tx_init(&view, ends.page, NULL, GPUD_PAGE_ENTRIES + 1, GPUD_PAGE_ENTRIES + 1,
                             &e));
    EXPECT(GPUD_PEER, "1 to 64",
           gpud_page_tx_init(&view, ends.page, NULL, UINT32_MAX, UINT32_MAX, &e));
    EXPECT(GPUD_PEER, "offers 5 entries, and its ring page has 4",
           gpud_page_tx_init(&view, ends.page, NULL, ENTRIES + 1, ENTRIES + 1, &e));
    ends.page->receiver.identity.version++;
    EXPECT(GPUD_PEER, "ring page is of version 7, and of version 6 here",
           gpud_page_tx_init(&view, ends.page, NULL, ENTRIES, ENTRIES, &e));
    ends.page->receiver.identity.version--;
    ends.page->receiver.identity.magic ^= 1;
    EXPECT(GPUD_PEER, "not a ring page",
           gpud_page_tx_init(&view, ends.page, NULL, ENTRIES, ENTRIES, &e));
    ends.page->receiver.identity.magic ^= 1;
    _Atomic uint32_t *words[] = {&ends.page->sender.head, &ends.page->receiver.claimed,
                                 &ends.page->receiver.returned};
    for (int i = 0; i < 3; i++) {
        atomic_store(words[i], 1);
        EXPECT(GPUD_PEER, "used before",
               gpud_page_tx_init(&view, ends.page, NULL, ENTRIES, ENTRIES, &e));
        atomic_store(words[i], 0);
    }
    WORKS(gpud_page_tx_init(&view, ends.page, NULL, ENTRIES, ENTRIES, &e));

    WORKS(gpud_page_check_sender(&ends.receiver, &e));
    ends.page->sender.identity.version = 7;
    EXPECT(GPUD_PEER, "the sender's ring page is of version 7, and of version 6 here",
           gpud_page_check_sender(&ends.receiver, &e));
    ends.page->sender.identity.version = GPUD_PAGE_VERSION;
    ends.page->sender.identity.entries = ENTRIES + 1;
    EXPECT(GPUD_PEER, "uses 5 entries, and 4 were offered",
           gpud_page_check_sender(&ends.receiver, &e));
    ends.page->sender.identity.magic = 0;
    EXPECT(GPUD_PEER, "not a ring page", gpud_page_check_sender(&ends.receiver, &e));
}

/* --- a race ----------------------------------------------------------------------------------- */

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
    const struct gpud_descriptor *descriptor = &race->ends.got;
    uint32_t entry;
    for (;;) {
        bool done = atomic_load(&race->done);
        if (claim(&race->ends, &entry) == 0) {
            if (done)
                return NULL;
            sched_yield();
            continue;
        }
        CHECK(descriptor->sequence > race->last, "frame %llu after %llu",
              (unsigned long long)descriptor->sequence, (unsigned long long)race->last);
        CHECK(descriptor->pts == ~descriptor->sequence, "a torn descriptor");
        race->gaps += descriptor->sequence - race->last - 1;
        race->last = descriptor->sequence;
        atomic_fetch_add(&race->got, 1);
        gpud_page_give_back(&race->ends.receiver, entry, &is_busy);
    }
}

static void test_race(uint32_t start)
{
    static struct race race;
    memset(&race, 0, sizeof(race));
    make(&race.ends, ENTRIES, start);
    pthread_t thread = NEW_THREAD(race_receiver, &race);
    uint64_t revoked = 0, sent = 0;
    /* Until both have got some. On one processor they must hand it to each other to race at all. */
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
}

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
    memset(&liar, 0, sizeof(liar));
    make(ends, ENTRIES, 0);
    pthread_t thread = NEW_THREAD(lie, &liar);
    int64_t limit = gpud_now() + 20 * GPUD_SEC;
    for (uint64_t i = 1; i <= LIES || ((!taken || !refused) && gpud_now() < limit); i++) {
        struct gpud_error error;
        uint32_t entry, claimed;
        CHECK(gpud_page_take(&ends->sender, &entry), "no credit is left");
        __atomic_store_n(&ends->page->sender.descriptor[entry].sequence, i, __ATOMIC_RELAXED);
        gpud_page_publish(&ends->sender, entry);
        int got = try_claim(ends, &claimed, &error);
        CHECK(got != 0, "the frame is not there");
        if (got > 0) {
            CHECK(ends->got.meta_size <= GPUD_FRAME_META_MAX, "%u bytes of meta were let through",
                  ends->got.meta_size);
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
}

/* --- two copies ------------------------------------------------------------------------------- */

#define FRAMES 20000

/* The page of each side. */
static struct gpud_page pages[2], *const page_of_sender = &pages[0],
                                         *const page_of_receiver = &pages[1];
static atomic_uint notices;

static void copy_range(const struct gpud_page_end *end, size_t offset, size_t size)
{
    bool sender = end->half == &page_of_sender->sender;
    size_t whole = sender ? sizeof(struct gpud_sender_half) : sizeof(struct gpud_receiver_half);
    CHECK(offset + size <= whole, "%zu bytes at %zu of a half of %zu", size, offset, whole);
    const char *from = (const char *)end->half + offset;
    char *to = sender ? (char *)&page_of_receiver->sender : (char *)&page_of_sender->receiver;
    to += offset;
    if (size > 64) {
        memcpy(to, from, size);
        return;
    }
    for (size_t at = size; at; at -= 4)
        atomic_store_explicit((_Atomic uint32_t *)(void *)(to + at - 4),
                              atomic_load((const _Atomic uint32_t *)(const void *)(from + at - 4)),
                              memory_order_release);
}

static bool count_notice(struct gpud_page_end *end)
{
    atomic_fetch_add(&notices, 1);
    return true;
}

static const struct gpud_page_carrier copies = {
    .name = "copies",
    .publish = copy_range,
    .notify = count_notice,
};

/* The handshake brings each side the other's half as it is then. */
static void connect_pages(struct gpud_page_tx *tx, struct gpud_page_rx *rx)
{
    gpud_page_carrier = &copies;
    memset(pages, 0, sizeof(pages));
    gpud_page_rx_init(rx, page_of_receiver, NULL, ENTRIES);
    WORKS(gpud_page_tx_init(tx, page_of_sender, NULL, ENTRIES, ENTRIES, &e));
    WORKS(gpud_page_check_sender(rx, &e));
    gpud_page_carrier = &gpud_page_shared;
}

/* Neither side wrote into the other's half: its copy equals the owner's. */
static void check_halves(void)
{
    const struct gpud_receiver_half *theirs = &page_of_sender->receiver,
                                    *receivers = &page_of_receiver->receiver;
    size_t behind = offsetof(struct gpud_receiver_half, padding_claimed);
    CHECK(memcmp(&theirs->identity, &receivers->identity, sizeof(theirs->identity)) == 0 &&
              memcmp((const char *)theirs + behind, (const char *)receivers + behind,
                     sizeof(*theirs) - behind) == 0,
          "the sender wrote the receiver's half");
    CHECK_EQUAL(atomic_load(&theirs->claimed), 0); /* not published there */
    const struct gpud_sender_half *ours = &page_of_sender->sender,
                                  *seen = &page_of_receiver->sender;
    CHECK(memcmp(ours, seen, offsetof(struct gpud_sender_half, descriptor)) == 0,
          "the receiver wrote the sender's half");
}

static void put(struct gpud_page_tx *tx, uint32_t entry, uint64_t sequence)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(tx, entry);
    *descriptor = (struct gpud_descriptor){.sequence = sequence, .pts = ~sequence, .meta_size = 9};
    memset(descriptor->meta, (int)(sequence & 0xff), 9);
    gpud_page_publish(tx, entry);
    gpud_page_notify(&tx->end);
}

static void *receive(void *arg)
{
    struct gpud_page_rx *rx = arg;
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    uint32_t entry;
    for (uint64_t next = 1; next <= FRAMES;) {
        int got = gpud_page_claim(rx, gpud_page_head(rx), &entry, &descriptor, &error);
        CHECK(got >= 0, "an honest sender is called a liar: %s", error.reason);
        if (got == 0) {
            sched_yield();
            continue;
        }
        CHECK_EQUAL(descriptor.sequence, next);
        CHECK(descriptor.pts == ~next && descriptor.meta[8] == (uint8_t)next, "a torn descriptor");
        next++;
        gpud_page_give_back(rx, entry, &is_busy);
    }
    return NULL;
}

static void test_carrier(void)
{
    SAY("each word reaches the other side's copy, and no other");
    struct gpud_page_tx tx;
    struct gpud_page_rx rx;
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    uint32_t entry, back;
    connect_pages(&tx, &rx);
    gpud_page_start(&tx, UINT64_C(0x123456789a));
    CHECK(gpud_page_started(&rx) == UINT64_C(0x123456789a), "the start did not arrive");
    gpud_page_count_message(&tx);
    CHECK_EQUAL(gpud_page_messages(&rx), 1);
    CHECK(gpud_page_announce(&tx, 2) && gpud_page_is_announced(&rx), "an announcement is lost");

    CHECK(gpud_page_take(&tx, &entry), "no credit");
    put(&tx, entry, 1);
    CHECK_EQUAL(gpud_page_revoke(&tx, &entry), 0); /* `claimed` is not the sender's to move */
    CHECK_EQUAL(gpud_page_claim(&rx, 1, &entry, &descriptor, &error), 1);
    CHECK(descriptor.meta[8] == 1 && descriptor.pts == ~UINT64_C(1), "a torn descriptor");
    gpud_page_tell_latency(&rx, 77);
    atomic_store(&notices, 0);
    CHECK(gpud_page_give_back(&rx, entry, &is_busy), "a credit without a notice");
    CHECK_EQUAL(atomic_load(&notices), 1);
    CHECK_EQUAL(gpud_page_latency(&tx), 77);
    CHECK_EQUAL(gpud_page_reap(&tx, &entry), 1);
    CHECK(!gpud_page_is_taken_back(&rx), "the page counts as taken back");
    gpud_page_take_all_back(&tx);
    CHECK(gpud_page_is_taken_back(&rx), "the slots are written anew, and the receiver reads on");
    check_halves();
    SAY("what the receiver counts reaches the other side once a second");
    struct gpud_link_stats stats, seen;
    connect_pages(&tx, &rx);
    memset(&stats, 0x5a, sizeof(stats));
    gpud_page_tell_stats(&rx, &stats, 100 * GPUD_SEC);
    gpud_page_get_stats(&tx, &seen);
    CHECK(memcmp(&seen, &stats, sizeof(seen)) == 0, "the first stats did not arrive");
    CHECK(!gpud_page_owes_stats(&rx, 101 * GPUD_SEC - 1), "a write for every frame");
    CHECK(gpud_page_owes_stats(&rx, 101 * GPUD_SEC), "no write after a second");
    stats.waits_device = UINT64_MAX;
    gpud_page_tell_stats(&rx, &stats, 101 * GPUD_SEC);
    gpud_page_get_stats(&tx, &seen);
    CHECK(memcmp(&seen, &stats, sizeof(seen)) == 0, "the next stats did not arrive");
    check_halves();
    SAY("%d frames between two copies of the page", FRAMES);
    connect_pages(&tx, &rx);
    pthread_t thread = NEW_THREAD(receive, &rx);
    for (uint64_t i = 1; i <= FRAMES; i++) {
        while (!gpud_page_take(&tx, &entry)) {
            int got;
            while ((got = gpud_page_reap(&tx, &back)) > 0)
                ;
            CHECK(got == 0, "an honest receiver is called a liar");
            if (!tx.free_count)
                sched_yield();
        }
        put(&tx, entry, i);
    }
    pthread_join(thread, NULL);
    while (gpud_page_reap(&tx, &back) > 0)
        ;
    CHECK_EQUAL(tx.free_count, ENTRIES);
    check_halves();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "race") == 0) {
        SAY("the sender takes back while the receiver claims");
        test_race(0);
        test_race(UINT32_MAX - RACE_FRAMES / 2);
        SAY("a sender that rewrites what it published");
        test_liar();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "carrier") == 0) {
        test_carrier();
        return 0;
    }
    SAY("credits and order, also where the counters wrap");
    test_credits_and_order(0);
    test_credits_and_order(UINT32_MAX - 100);
    test_credits_and_order((uint32_t)INT32_MAX - 100);
    SAY("messages keep their place");
    struct ends ends;
    struct gpud_error error;
    uint32_t entry;
    make(&ends, ENTRIES, UINT32_MAX - 1);
    for (int i = 0; i < 3; i++)
        publish(&ends);
    /* A message stands behind the first two frames. */
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &ends.got, &error), 1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 0), 0);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &ends.got, &error), 1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 0), 1);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &ends.got, &error), 0);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 1, &entry, &ends.got, &error), 1);
    /* A number that the sender skipped by dropping the oldest, and some that are never reached. */
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, UINT32_MAX - 5), 1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 1 + ENTRIES), 0);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 1 + ENTRIES + 1), -1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 1 + (uint32_t)INT32_MAX), -1);
    /* A limit that the sender has passed meanwhile stops nothing for good. */
    publish(&ends);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &ends.got, &error), 0);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 2, &entry, &ends.got, &error), 1);
    make(&ends, ENTRIES, 0);
    ends.sender.messages = UINT32_MAX - 1;
    gpud_page_count_message(&ends.sender);
    CHECK_EQUAL(gpud_page_messages(&ends.receiver), UINT32_MAX);
    gpud_page_count_message(&ends.sender);
    CHECK_EQUAL(gpud_page_messages(&ends.receiver), 0);
    SAY("drop-oldest");
    test_revoke(0);
    test_revoke(UINT32_MAX - 2);
    SAY("wake-ups");
    test_wakes();
    test_announce(0);
    test_announce(UINT32_MAX - 1);
    SAY("lies of a sender");
    test_lies();
    return 0;
}

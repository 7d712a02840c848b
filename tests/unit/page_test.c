/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page: credits and order, drop-oldest, counters that wrap, and every violation that a
 * side must detect. */
#include "page_ends.h"

#define HEAD_OF(page) atomic_load(&(page)->sender.head)

static void claim_refused(struct ends *ends, const char *text)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_descriptor descriptor;
    uint32_t entry;
    int got = gpud_page_claim(&ends->receiver, gpud_page_head(&ends->receiver), &entry, &descriptor,
                              &error);
    CHECK(got == -1, "claim gives %d where the lie \"%s\" must be noticed", got, text);
    CHECK(error.status == GPUD_PEER && strstr(error.reason, text), "\"%s\" does not say \"%s\"",
          error.reason, text);
}

/* --- what must work --------------------------------------------------------------------------- */

static void test_credits_and_order(uint32_t start)
{
    AUTO(unmake) struct ends ends;
    struct gpud_descriptor descriptor;
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
            CHECK(claim(&ends, &held[i], &descriptor) == 1, "a published frame is not there");
            CHECK_EQUAL(descriptor.sequence, next);
            CHECK(descriptor.meta_size == 3 && memcmp(descriptor.meta, "abc", 3) == 0,
                  "the meta is not what was sent");
            next++;
        }
        CHECK_EQUAL(claim(&ends, &entry, &descriptor), 0);
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

static void test_limit(void)
{
    AUTO(unmake) struct ends ends;
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    uint32_t entry;
    make(&ends, ENTRIES, UINT32_MAX - 1);
    for (int i = 0; i < 3; i++)
        publish(&ends);
    /* A message stands behind the first two frames. */
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &descriptor, &error), 1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 0), 0);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &descriptor, &error), 1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 0), 1);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &descriptor, &error), 0);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 1, &entry, &descriptor, &error), 1);
    /* A number that the sender skipped by dropping the oldest, and numbers that are never reached.
     */
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, UINT32_MAX - 5), 1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 1 + ENTRIES), 0);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 1 + ENTRIES + 1), -1);
    CHECK_EQUAL(gpud_page_reached(&ends.receiver, 1 + (uint32_t)INT32_MAX), -1);
    /* A limit that the sender has passed meanwhile stops nothing for good. */
    publish(&ends);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 0, &entry, &descriptor, &error), 0);
    CHECK_EQUAL(gpud_page_claim(&ends.receiver, 2, &entry, &descriptor, &error), 1);
}

static void test_revoke(uint32_t start)
{
    AUTO(unmake) struct ends ends;
    struct gpud_descriptor descriptor;
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
        CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
        CHECK_EQUAL(descriptor.sequence, wanted);
    }
    CHECK_EQUAL(gpud_page_revoke(&ends.sender, &entry), 0);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 0);
}

static void test_messages(void)
{
    AUTO(unmake) struct ends ends;
    make(&ends, ENTRIES, 0);
    ends.sender.messages = UINT32_MAX - 1;
    gpud_page_count_message(&ends.sender);
    CHECK_EQUAL(gpud_page_messages(&ends.receiver), UINT32_MAX);
    gpud_page_count_message(&ends.sender);
    CHECK_EQUAL(gpud_page_messages(&ends.receiver), 0);
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

/* A side that polls its connection is woken there, once per sleep, and not by its futex. */
static void test_polling(void)
{
    AUTO(unmake) struct ends ends;
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

static void test_wakes(void)
{
    AUTO(unmake) struct ends ends;
    struct gpud_descriptor descriptor;
    uint32_t entry[ENTRIES];
    make(&ends, ENTRIES, 0);
    for (int i = 0; i < ENTRIES; i++)
        publish(&ends);
    for (int i = 0; i < ENTRIES; i++)
        CHECK_EQUAL(claim(&ends, &entry[i], &descriptor), 1);
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
}

static void test_announce(uint32_t start)
{
    AUTO(unmake) struct ends ends;
    make(&ends, ENTRIES, start);
    CHECK(!gpud_page_is_announced(&ends.receiver), "nothing was announced");
    CHECK(!gpud_page_announce(&ends.sender, 1), "no peer sleeps, and a system call was made");
    CHECK(gpud_page_is_announced(&ends.receiver), "an announcement is not seen");
    begin_sleep(&ends.receiver.end, 0, &ends);
    CHECK(gpud_page_announce(&ends.sender, 2), "a sleeper is not woken");
    CHECK_EQUAL(atomic_load(&ends.page->sender.kicks), 1);
    CHECK(atomic_load(&ends.page->receiver.asleep) != 0, "the other side's word was written");
    publish(&ends);
    CHECK(gpud_page_is_announced(&ends.receiver), "one of two is still to come");
    publish(&ends);
    CHECK(!gpud_page_is_announced(&ends.receiver), "what is there is not announced any more");
    begin_sleep(&ends.receiver.end, 0, &ends);
    gpud_page_announce(&ends.sender, 1);
    begin_sleep(&ends.receiver.end, 0, &ends);
    CHECK(!gpud_page_announce(&ends.sender, 0), "woken for nothing");
    CHECK(!gpud_page_is_announced(&ends.receiver), "what was called off is still waited for");
    const uint32_t lies[] = {ENTRIES + 1, 1000, INT32_MAX, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        atomic_store(&ends.page->sender.announced, ends.sender.head + lies[i]);
        CHECK(!gpud_page_is_announced(&ends.receiver), "%u frames announced at once", lies[i]);
    }
}

/* --- lies of the sender ----------------------------------------------------------------------- */

static void test_sender_lies(void)
{
    struct ends ends;
    struct gpud_descriptor descriptor;
    uint32_t entry;

    const uint32_t forged[] = {ENTRIES, GPUD_PAGE_ENTRIES, 0x100, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        make(&ends, ENTRIES, 0);
        publish(&ends);
        atomic_store(&ends.page->sender.published[0], forged[i]);
        claim_refused(&ends, "an entry that does not exist");
        unmake(&ends);
    }

    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
    publish(&ends);
    atomic_store(&ends.page->sender.published[1], entry);
    claim_refused(&ends, "still held");
    unmake(&ends);

    const uint32_t ahead[] = {
        ENTRIES + 1, 1000, INT32_MAX, UINT32_C(1) << 31, (UINT32_C(1) << 31) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        make(&ends, ENTRIES, 7);
        atomic_store(&ends.page->sender.head, 7 + ahead[i]);
        claim_refused(&ends, "more frames waiting than entries");
        unmake(&ends);
    }

    make(&ends, ENTRIES, 0);
    uint32_t used = publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
    gpud_page_give_back(&ends.receiver, entry, &is_busy);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 1);
    ends.sequence = 0; /* the next one has the same number */
    CHECK_EQUAL(publish(&ends), used);
    claim_refused(&ends, "went back");
    unmake(&ends);

    const uint32_t sizes[] = {GPUD_FRAME_META_MAX + 1, 0x10000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        make(&ends, ENTRIES, 0);
        ends.page->sender.descriptor[publish(&ends)].meta_size = sizes[i];
        claim_refused(&ends, "more meta than a frame carries");
        unmake(&ends);
    }

    /* Claimed moved behind the receiver's back, either way: no frame twice, no frame from nowhere.
     */
    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
    atomic_store(&ends.page->receiver.claimed, 0);
    claim_refused(&ends, "still held");
    unmake(&ends);
    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
    gpud_page_give_back(&ends.receiver, entry, &is_busy);
    atomic_store(&ends.page->receiver.claimed, 0);
    claim_refused(&ends, "went back");
    unmake(&ends);
    make(&ends, ENTRIES, 0);
    publish(&ends);
    atomic_store(&ends.page->receiver.claimed, 3);
    claim_refused(&ends, "more frames waiting than entries");
    unmake(&ends);
}

/* --- lies of the receiver --------------------------------------------------------------------- */

static void give_back_forged(struct ends *ends, uint32_t index, uint32_t how_many)
{
    uint32_t returned = atomic_load(&ends->page->receiver.returned);
    atomic_store(&ends->page->receiver.given_back[returned % GPUD_PAGE_ENTRIES], index);
    atomic_store(&ends->page->receiver.returned, returned + how_many);
}

static void test_receiver_lies(void)
{
    struct ends ends;
    struct gpud_descriptor descriptor;
    uint32_t entry, other;

    /* A free entry, one that does not exist, one that was published and never claimed. */
    const uint32_t forged[] = {3, ENTRIES, 255, 256, UINT32_MAX, 0};
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        make(&ends, ENTRIES, UINT32_MAX);
        publish(&ends);
        give_back_forged(&ends, forged[i], 1);
        CHECK(gpud_page_reap(&ends.sender, &entry) == -1, "entry %u came back and was never out",
              forged[i]);
        unmake(&ends);
    }

    const uint32_t many[] = {ENTRIES + 1, 2, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        make(&ends, ENTRIES, 0);
        publish(&ends);
        CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
        give_back_forged(&ends, entry, many[i]);
        CHECK(gpud_page_reap(&ends.sender, &entry) == -1, "%u came back where 1 was out", many[i]);
        unmake(&ends);
    }

    /* The same one twice, with another still out so that the count alone shows nothing. */
    make(&ends, ENTRIES, 0);
    publish(&ends);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
    CHECK_EQUAL(claim(&ends, &other, &descriptor), 1);
    give_back_forged(&ends, entry, 1);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &other), 1);
    give_back_forged(&ends, entry, 1);
    CHECK(gpud_page_reap(&ends.sender, &other) == -1, "one entry came back twice");
    unmake(&ends);

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
        unmake(&ends);
    }

    /* Claimed, given back, and then "not claimed" after all: the entry must not be free twice. */
    make(&ends, ENTRIES, 0);
    publish(&ends);
    CHECK_EQUAL(claim(&ends, &entry, &descriptor), 1);
    gpud_page_give_back(&ends.receiver, entry, &is_busy);
    CHECK_EQUAL(gpud_page_reap(&ends.sender, &entry), 1);
    atomic_store(&ends.page->receiver.claimed, 0);
    CHECK(gpud_page_revoke(&ends.sender, &entry) == -1, "an entry became free twice");
    check_sum(&ends, 0);
    unmake(&ends);
}

static void test_pages_that_are_none(void)
{
    AUTO(unmake) struct ends ends;
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
    ends.page->sender.identity.version = 9;
    EXPECT(GPUD_PEER, "the sender's ring page is of version 9, and of version 6 here",
           gpud_page_check_sender(&ends.receiver, &e));
    ends.page->sender.identity.version = GPUD_PAGE_VERSION;
    ends.page->sender.identity.entries = ENTRIES + 1;
    EXPECT(GPUD_PEER, "uses 5 entries, and 4 were offered",
           gpud_page_check_sender(&ends.receiver, &e));
    ends.page->sender.identity.magic = 0;
    EXPECT(GPUD_PEER, "not a ring page", gpud_page_check_sender(&ends.receiver, &e));
}

int main(void)
{
    SAY("credits and order, also where the counters wrap");
    test_credits_and_order(0);
    test_credits_and_order(UINT32_MAX - 100);
    test_credits_and_order((uint32_t)INT32_MAX - 100);
    SAY("messages keep their place");
    test_limit();
    test_messages();
    SAY("drop-oldest");
    test_revoke(0);
    test_revoke(UINT32_MAX - 2);
    SAY("wake-ups");
    test_wakes();
    test_polling();
    test_announce(0);
    test_announce(UINT32_MAX - 1);
    SAY("lies of a sender");
    test_sender_lies();
    SAY("lies of a receiver");
    test_receiver_lies();
    test_pages_that_are_none();
    return 0;
}

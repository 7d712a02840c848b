/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring page as between hosts: each side has a page of its own, and sees of the other's half
 * what was published, in that order, and nothing else. */
#include "page_ends.h"

#include <pthread.h>
#include <sched.h>

#define FRAMES 20000

/* The page of each side. */
static struct gpud_page *page_of_sender, *page_of_receiver;
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

static struct gpud_page *new_page(void)
{
    void *page = mmap(NULL, sizeof(struct gpud_page), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED, "no memory for a page");
    return page;
}

/* The handshake brings each side the other's half as it is then. */
static void connect_pages(struct gpud_page_tx *tx, struct gpud_page_rx *rx)
{
    gpud_page_carrier = &copies;
    page_of_sender = new_page();
    page_of_receiver = new_page();
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

static void unmake_pages(void)
{
    munmap(page_of_sender, sizeof(struct gpud_page));
    munmap(page_of_receiver, sizeof(struct gpud_page));
}

static void put(struct gpud_page_tx *tx, uint32_t entry, uint64_t sequence)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(tx, entry);
    *descriptor = (struct gpud_descriptor){.sequence = sequence, .pts = ~sequence, .meta_size = 9};
    memset(descriptor->meta, (int)(sequence & 0xff), 9);
    gpud_page_publish(tx, entry);
    gpud_page_notify(&tx->end);
}

static void test_words(void)
{
    struct gpud_page_tx tx;
    struct gpud_page_rx rx;
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    uint32_t entry;
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
    unmake_pages();
}

/* What the receiver counts: published once a second. */
static void test_stats(void)
{
    struct gpud_page_tx tx;
    struct gpud_page_rx rx;
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
    unmake_pages();
}

/* --- both at once ----------------------------------------------------------------------------- */

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

static void test_stream(void)
{
    struct gpud_page_tx tx;
    struct gpud_page_rx rx;
    pthread_t thread;
    uint32_t entry, back;
    connect_pages(&tx, &rx);
    CHECK(pthread_create(&thread, NULL, receive, &rx) == 0, "no thread");
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
    unmake_pages();
}

int main(void)
{
    SAY("each word reaches the other side's copy, and no other");
    test_words();
    SAY("what the receiver counts reaches the other side once a second");
    test_stats();
    SAY("%d frames between two copies of the page", FRAMES);
    test_stream();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Flow control and waking up, over random orders of everything that can happen to two ends: no
 * sleeping end misses a notice, no message is lost, no wait is endless, no queue overflows.
 *
 * Each end sleeps until its descriptor is readable, or the test has it look for no reason. It does
 * what an end of a stream does: writes a word and notifies, sends messages, reads some of those it
 * has, and leaves the others unread for long. When nothing moves any more, all of it must have
 * arrived. */
#include "fake_card.h"

#include "support/check.h"

#include <poll.h>

#define EPISODES 3000
#define STEPS 600
#define MESSAGES (GPUD_RDMA_RECEIVES - GPUD_RDMA_NOTICES)

static uint64_t random_state;

static uint32_t any(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % limit);
}

struct side {
    struct rdma_cm_id *id;
    struct gpud_rdma *rdma;
    struct gpud_rdma_region *region;
    struct {
        uint32_t mine, theirs; /* words: what this side wrote, what the other wrote here */
    } page;
    uint32_t written, seen;
    uint32_t sent, received;
    bool urgent_only; /* how it sleeps; else for everything */
    bool blocked;     /* a message had no room */
};

struct ends {
    struct side side[2];
};

static void open_ends(struct ends *ends)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &ends->side[i];
        *side = (struct side){.id = fake_id_create(), .urgent_only = any(2)};
        WORKS(gpud_rdma_create(side->id, &side->rdma, &e));
        WORKS(gpud_rdma_register(side->rdma, &side->page, sizeof(side->page),
                                 GPUD_RDMA_REMOTE_WRITE, &side->region, &e));
    }
    fake_connect(ends->side[0].id, ends->side[1].id);
    for (int i = 0; i < 2; i++)
        gpud_rdma_set_peer_receives(ends->side[i].rdma, GPUD_RDMA_RECEIVES);
}

static void close_ends(struct ends *ends)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &ends->side[i];
        gpud_rdma_unregister(&side->region);
        gpud_rdma_end(side->rdma);
        fake_id_destroy(side->id);
        gpud_rdma_unref(&side->rdma);
    }
    CHECK(!fake_card.domains && !fake_card.channels && !fake_card.queues && !fake_card.pairs &&
              !fake_card.regions,
          "something is left");
}

static void check_alive(struct side *side)
{
    struct gpud_error error;
    CHECK(!gpud_rdma_has_failed(side->rdma, &error), "it failed: %s", error.reason);
}

static void write_word(struct side *side, const struct side *other, bool urgent)
{
    side->page.mine = side->written + 1;
    struct gpud_rdma_transfer transfer = {
        .local = side->region,
        .remote_address = gpud_rdma_region_address(other->region) + 4,
        .remote_key = gpud_rdma_region_key(other->region),
        .size = 4,
    };
    bool in_one = any(2);
    enum gpud_status status = in_one
                                  ? gpud_rdma_write_and_notify(side->rdma, &transfer, urgent, NULL)
                                  : gpud_rdma_write(side->rdma, &transfer, NULL);
    CHECK(status == GPUD_OK || status == GPUD_AGAIN, "a write");
    side->written += status == GPUD_OK;
    if (status == GPUD_OK && !in_one)
        gpud_rdma_notify(side->rdma, urgent);
}

/* Most are too large to travel with their request. */
static size_t size_of(uint32_t message)
{
    return message % 8 ? 1000 : 4;
}

static void send_message(struct side *side)
{
    char bytes[1000] = {0};
    memcpy(bytes, &side->sent, sizeof(side->sent));
    enum gpud_status status = gpud_rdma_send(side->rdma, bytes, size_of(side->sent), NULL);
    CHECK(status == GPUD_OK || status == GPUD_AGAIN, "a message");
    side->blocked = status == GPUD_AGAIN;
    if (!side->blocked)
        side->sent++;
}

static bool read_message(struct side *side)
{
    const void *bytes;
    size_t size;
    enum gpud_status status = gpud_rdma_receive(side->rdma, &bytes, &size, NULL);
    CHECK(status == GPUD_OK || status == GPUD_AGAIN, "receiving");
    if (status != GPUD_OK)
        return false;
    CHECK(memcmp(bytes, &side->received, 4) == 0, "message %u", side->received);
    CHECK_EQUAL(size, size_of(side->received));
    side->received++;
    return true;
}

/* An end that is awake arms, checks once more, and sleeps. */
static void look(struct side *side)
{
    gpud_rdma_arm(side->rdma, side->urgent_only && !side->blocked);
    gpud_rdma_progress(side->rdma);
    if (side->blocked)
        send_message(side);
    side->seen = side->page.theirs;
}

static bool is_woken(const struct side *side)
{
    struct pollfd wait = {.fd = gpud_rdma_get_fd(side->rdma), .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

/* Everything that happens by itself. Ends: all that is sent is bounded. */
static void settle(struct ends *ends, bool read)
{
    bool moved = true;
    for (unsigned rounds = 0; moved; rounds++) {
        CHECK(rounds < 100000, "the two never come to rest");
        moved = false;
        for (int i = 0; i < 2; i++) {
            struct side *side = &ends->side[i];
            moved |= fake_deliver(side->id) | fake_complete(side->id);
            if (is_woken(side)) {
                look(side);
                moved = true;
            }
            while (read && read_message(side))
                moved = true;
        }
    }
}

static void check_at_rest(struct ends *ends, bool urgent)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &ends->side[i], *other = &ends->side[1 - i];
        check_alive(side);
        CHECK_EQUAL(side->page.theirs, other->written);
        if (urgent || !side->urgent_only)
            CHECK_EQUAL(side->seen, other->written);
        CHECK_EQUAL(gpud_rdma_received(side->rdma), other->sent);
    }
}

static void run_episode(void)
{
    AUTO(close_ends) struct ends ends;
    open_ends(&ends);
    /* How likely what is: some ends read nothing, some cards are slow to say what is done. */
    uint32_t reads = any(4) * 10, delivers = 1 + any(60), completes = 1 + any(60);
    uint32_t words = any(40), messages = any(40), looks = any(10);
    uint32_t all = reads + delivers + completes + words + messages + looks;
    bool urgent = any(2), one_way = any(3) == 0;
    look(&ends.side[0]);
    look(&ends.side[1]);
    for (int step = 0; step < STEPS; step++) {
        struct side *side = &ends.side[any(2)], *other = &ends.side[side == &ends.side[0]];
        uint32_t which = any(all);
        bool active = !one_way || side == &ends.side[0];
        if (is_woken(side) && any(4) == 0)
            look(side);
        if (which < reads)
            read_message(side);
        else if ((which -= reads) < delivers)
            fake_deliver(side->id);
        else if ((which -= delivers) < completes)
            fake_complete(side->id);
        else if ((which -= completes) < words && active)
            write_word(side, other, urgent);
        else if ((which -= words) < messages && active && !side->blocked) {
            send_message(side);
            /* An end without room sleeps until any notice. */
            if (side->blocked)
                look(side);
        } else
            look(side);
    }
    settle(&ends, false);
    for (int i = 0; i < 2; i++) {
        const struct side *side = &ends.side[i], *other = &ends.side[1 - i];
        CHECK_EQUAL(side->page.theirs, other->written);
        /* The last one that was read is the reader's until it asks for the next. */
        CHECK(!side->blocked || side->sent - other->received >= MESSAGES - 1,
              "%u messages are unread, and no other is sent", side->sent - other->received);
    }
    if (urgent)
        for (int i = 0; i < 2; i++)
            CHECK_EQUAL(ends.side[i].seen, ends.side[1 - i].written);
    settle(&ends, true);
    CHECK(!ends.side[0].blocked && !ends.side[1].blocked, "a message waits for ever");
    check_at_rest(&ends, urgent);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(ends.side[i].received, ends.side[1 - i].sent);
}

/* Both have unread messages all over, and say all they can at once: the last thing that either may
 * say is needed for saying that it has heard the other. */
static void test_crossing(void)
{
    AUTO(close_ends) struct ends ends;
    open_ends(&ends);
    for (int i = 0; i < 2; i++) {
        struct side *side = &ends.side[i];
        side->urgent_only = true;
        while (side->sent < MESSAGES) {
            send_message(side);
            settle(&ends, false);
        }
        look(side);
    }
    settle(&ends, false);
    for (int i = 0; i < 2; i++)
        for (unsigned n = 1; n < GPUD_RDMA_NOTICES; n++)
            write_word(&ends.side[i], &ends.side[1 - i], true);
    for (int i = 0; i < 2; i++)
        CHECK(read_message(&ends.side[i]) && read_message(&ends.side[i]), "two are read");
    settle(&ends, false);
    for (int i = 0; i < 2; i++)
        for (unsigned n = 0; n < 100; n++)
            write_word(&ends.side[i], &ends.side[1 - i], true);
    settle(&ends, false);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(ends.side[i].seen, ends.side[1 - i].written);
    settle(&ends, true);
    check_at_rest(&ends, true);
}

int main(void)
{
    fake_card_reset();
    test_crossing();
    for (uint64_t episode = 0; episode < EPISODES; episode++) {
        random_state = episode * UINT64_C(0x9e3779b97f4a7c15) + 1;
        /* Queues of every depth that is used. */
        fake_card.queue_max = 128 << any(4);
        fake_card.inline_max = 64 << any(3);
        run_episode();
    }
    SAY("%d episodes of %d steps each: everything arrived, and woke sleeping ends", EPISODES,
        STEPS);
    return 0;
}

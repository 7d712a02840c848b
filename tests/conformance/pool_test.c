/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* pool DEVICE: a driver that refuses to make a queue wait for another one (the fake's
 * GPUD_FAKE_CUDA_FAIL). A slot that the other one still reads is not lent again, and the reason is
 * the driver's; when the reading has ended it is. And a memory of the pool that closes while its
 * last slot comes back. */
#include "conformance.h"

#include "stream/sender/sender.h"

#define SLOTS 2

static void expect_none(struct gpud_pool *pool, enum gpud_status wanted, const char *text)
{
    CHECK(!gpud_pool_take(pool), "a slot is lent that is in use, or that another queue reads");
    EXPECT(wanted, text, gpud_pool_explain(pool, &e));
}

static void add_read(struct gpud_slot *slot, struct gpud_queue *reader)
{
    struct gpud_fence fence;
    WORKS(gpud_queue_mark(reader, &fence, &e));
    gpud_slot_add_read(slot, &fence);
}

static struct gpud_slot *take_in_time(struct gpud_pool *pool)
{
    struct gpud_slot *slot;
    PEER_UNTIL("a slot is lent when nothing reads it any more", 30000,
               (slot = gpud_pool_take(pool)) != NULL);
    return slot;
}

/* A slot whose last user is between its two steps, giving it up and putting it back, is not to be
 * removed with its memory, nor listed by who opens the memory again: it would be lent twice. */
static void closes(struct side *side, const struct gpud_layout *layout)
{
    struct gpud_pool *pool;
    struct gpud_slot *slots[SLOTS];
    WORKS(gpud_pool_create(side->device, side->queue, GPUD_USAGE_LOCAL, false, NULL, layout, 1,
                           SLOTS, true, &pool, &e));
    CHECK(pool->ring.memories == SLOTS, "a memory for each slot");
    for (int i = 0; i < SLOTS; i++)
        CHECK(slots[i] = gpud_pool_take(pool), "a new pool lends its slots");
    struct gpud_slot *last = slots[slots[0]->frame.slot == SLOTS - 1 ? 0 : 1];
    gpud_slot_drop(slots[slots[0]->frame.slot == SLOTS - 1 ? 1 : 0]);
    CHECK(gpud_pool_close(pool, SLOTS - 1) == SLOTS, "a memory with a slot in use may go");
    atomic_store(&last->users, 0);
    CHECK(gpud_pool_close(pool, SLOTS - 1) == SLOTS, "a memory with a slot in use may go");
    gpud_pool_open(pool);
    atomic_store(&last->users, 1);
    gpud_slot_drop(last);
    for (int i = 0; i < SLOTS; i++)
        CHECK(slots[i] = gpud_pool_take(pool), "a slot that was put back is lent");
    CHECK(slots[0] != slots[1], "a slot is lent twice");
    CHECK(!gpud_pool_take(pool), "a slot is listed twice");

    gpud_slot_drop(last);
    CHECK(gpud_pool_close(pool, SLOTS - 1) == SLOTS - 1, "a memory that nothing uses stays");
    gpud_slot_drop(slots[0] == last ? slots[1] : slots[0]);
    gpud_pool_unref(&pool);
}

int main(int argc, char **argv)
{
    struct gpud_pool *pool;
    conformance_begin(argc, argv);
    alarm(100);
    AUTO(side_close) struct side side = side_open(argv[1]);
    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    AUTO(gpud_queue_unref) struct gpud_queue *reader = NEW_QUEUE(side.device);
    WORKS(gpud_pool_create(side.device, side.queue, GPUD_USAGE_LOCAL, false, NULL, &layout, 1,
                           SLOTS, false, &pool, &e));

    SAY("a slot that another queue reads is passed over");
    struct gpud_slot *read = gpud_pool_take(pool), *other = gpud_pool_take(pool);
    CHECK(read && other, "a new pool lends its slots");
    expect_none(pool, GPUD_TIMEOUT, "hold all 2");
    struct hold *hold = hold_queue(reader);
    add_read(read, reader);
    gpud_slot_drop(read);
    gpud_slot_drop(other);
    CHECK(gpud_pool_take(pool) == other, "the slot that nothing reads is lent");
    for (int i = 0; i < 3; i++)
        expect_none(pool, GPUD_IO, "receivers still read them: ");
    CHECK(!gpud_pool_take_old(pool, UINT64_MAX), "it is lent to be cleared");
    CHECK(gpud_pool_explain(pool, NULL) == GPUD_IO, "it was not cleared, and nothing says so");

    SAY("and lent when that has ended");
    release_queue(hold, false);
    CHECK(take_in_time(pool) == read, "another slot than the one that was read");
    gpud_slot_drop(read);

    SAY("more reads than are counted: it is never lent again");
    read = take_in_time(pool);
    hold = hold_queue(reader);
    for (int i = 0; i < GPUD_SLOT_READS + 1; i++)
        add_read(read, reader);
    gpud_slot_drop(read);
    expect_none(pool, GPUD_IO, "receivers still read them: ");
    release_queue(hold, false);
    WORKS(gpud_queue_finish(reader, gpud_deadline(30 * GPUD_SEC), &e));
    expect_none(pool, GPUD_IO, "for an unknown time");
    gpud_slot_drop(other);
    CHECK(take_in_time(pool) == other, "the other one is lent as before");
    gpud_slot_drop(other);

    SAY("a memory that closes");
    closes(&side, &layout);

    gpud_pool_unref(&pool);
    return 0;
}

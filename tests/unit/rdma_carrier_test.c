/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ring pages over a card whose queue is full most of the time: in whatever order things happen, no
 * side is ever taken for a liar, no message comes behind a frame that it was counted before, and a
 * notice follows what it is about. The card is this test's: it delivers as it pleases, in order. */
#include "support/check.h"
#include "wire/rdma/rdma.h"

#include <sys/mman.h>

#define ENTRIES 5
#define OPERATIONS 64
#define STEPS 400000
#define INLINE_MAX 64
#define SEQUENCES 64 /* more than frames can be under way */

/* --- the card --------------------------------------------------------------------------------- */

struct operation {
    bool is_notice;
    size_t offset, size;
    const char *from; /* of a large one: read when it is delivered */
    char bytes[INLINE_MAX];
};

struct side {
    struct rdma_channel channel;
    struct rdma_remote remote;
    struct side *other;
    uint32_t capacity; /* writes that the queue takes now */
    uint32_t first, count;
    struct operation queue[OPERATIONS];
    uint64_t requests, notices; /* delivered; the latter are among the former */
    uint32_t told;              /* of frames, or of credits, by a notice that was delivered */
    unsigned refused;           /* for want of room */
};

static struct side sides[2];

static struct side *side_of(const void *rdma)
{
    struct side *side = rdma == (const void *)sides[0].remote.rdma ? &sides[0] : &sides[1];
    CHECK((const void *)side->remote.rdma == rdma, "another connection");
    return side;
}

static struct operation *push(struct side *side)
{
    CHECK(side->count < OPERATIONS, "more under way than can be");
    return &side->queue[(side->first + side->count++) % OPERATIONS];
}

static enum gpud_status post(struct side *side, const struct gpud_rdma_transfer *transfer,
                             bool is_notice)
{
    CHECK(transfer->local == side->remote.published &&
              transfer->local_offset + transfer->size <= rdma_own_size(&side->remote) &&
              transfer->remote_address == side->remote.remote_address + transfer->local_offset,
          "written from, or to, another place");
    if (side->count >= side->capacity) {
        side->refused++;
        return GPUD_AGAIN;
    }
    struct operation *operation = push(side);
    *operation = (struct operation){
        .is_notice = is_notice, .offset = transfer->local_offset, .size = transfer->size};
    const char *from = rdma_published_half(&side->remote) + transfer->local_offset;
    if (transfer->size <= INLINE_MAX)
        memcpy(operation->bytes, from, transfer->size);
    else
        operation->from = from;
    return GPUD_OK;
}

__typeof__(gpud_rdma_write) __wrap_gpud_rdma_write;
enum gpud_status __wrap_gpud_rdma_write(struct gpud_rdma *rdma,
                                        const struct gpud_rdma_transfer *transfer,
                                        struct gpud_error *error)
{
    return post(side_of(rdma), transfer, false);
}

__typeof__(gpud_rdma_write_and_notify) __wrap_gpud_rdma_write_and_notify;
enum gpud_status __wrap_gpud_rdma_write_and_notify(struct gpud_rdma *rdma,
                                                   const struct gpud_rdma_transfer *transfer,
                                                   bool urgent, struct gpud_error *error)
{
    struct side *side = side_of(rdma);
    CHECK(urgent == side->remote.is_sender, "only what a sender says is urgent");
    return post(side, transfer, true);
}

__typeof__(gpud_rdma_notify) __wrap_gpud_rdma_notify;
void __wrap_gpud_rdma_notify(struct gpud_rdma *rdma, bool urgent)
{
    struct side *side = side_of(rdma);
    CHECK(urgent == side->remote.is_sender, "only what a sender says is urgent");
    *push(side) = (struct operation){.is_notice = true};
}

bool __wrap_gpud_rdma_progress(struct gpud_rdma *rdma);
bool __wrap_gpud_rdma_progress(struct gpud_rdma *rdma)
{
    return false;
}

static void deliver(struct side *side)
{
    struct operation *operation = &side->queue[side->first];
    if (side->count == 0)
        return;
    side->first = (side->first + 1) % OPERATIONS;
    side->count--;
    struct gpud_page *page = side->other->remote.base.page;
    char *half = side->remote.is_sender ? (char *)&page->sender : (char *)&page->receiver;
    memcpy(half + operation->offset, operation->from ? operation->from : operation->bytes,
           operation->size);
    side->requests++;
    if (operation->is_notice) {
        side->notices++;
        side->told =
            atomic_load(side->remote.is_sender ? &page->sender.head : &page->receiver.returned);
    }
}

/* --- both sides ------------------------------------------------------------------------------- */

static uint32_t state = 1;

static uint32_t dice(uint32_t sides_of_it)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % sides_of_it;
}

static void open_side(struct side *side, bool is_sender)
{
    struct rdma_remote *remote = &side->remote;
    size_t size = sizeof(struct gpud_page) + sizeof(struct gpud_sender_half);
    memset(side, 0, sizeof(*side));
    side->other = &sides[side == &sides[0]];
    side->capacity = OPERATIONS / 2;
    side->channel.event = -1;
    side->channel.records = remote;
    side->channel.rdma = remote->rdma = (struct gpud_rdma *)(void *)side; /* only compared */
    gpud_lock_init(&side->channel.records_lock, GPUD_RANK_RDMA_RECORDS);
    gpud_lock_init(&remote->lock, GPUD_RANK_RDMA_RECORD);
    remote->pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(remote->pages != MAP_FAILED, "no memory");
    remote->base.page = (struct gpud_page *)(void *)remote->pages;
    remote->base.ops = &gpud_rdma_remote_ops;
    remote->channel = &side->channel;
    remote->is_sender = is_sender;
    remote->event = -1;
    remote->attached = true;
    remote->remote_address = UINT64_C(0x7000000000000000);
    remote->published = (struct gpud_rdma_region *)(void *)(side + 1); /* likewise */
}

static void close_sides(void)
{
    for (int i = 0; i < 2; i++) {
        munmap(sides[i].remote.pages, sizeof(struct gpud_page) + sizeof(struct gpud_sender_half));
        gpud_lock_destroy(&sides[i].channel.records_lock);
        gpud_lock_destroy(&sides[i].remote.lock);
    }
}

struct scene {
    struct gpud_page_tx tx;
    struct gpud_page_rx rx;
    uint64_t sent, received, returned;
    uint32_t held[ENTRIES], held_count;
    uint32_t messages_before[SEQUENCES]; /* that were counted before the frame was published */
};

static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    open_side(&sides[0], true);
    open_side(&sides[1], false);
    struct gpud_remote *sender = &sides[0].remote.base, *receiver = &sides[1].remote.base;
    gpud_page_rx_init(&scene->rx, receiver->page, receiver, ENTRIES);
    while (sides[1].count)
        deliver(&sides[1]);
    WORKS(gpud_page_tx_init(&scene->tx, sender->page, sender, ENTRIES, ENTRIES, &e));
    while (sides[0].count)
        deliver(&sides[0]);
    WORKS(gpud_page_check_sender(&scene->rx, &e));
}

static void publish_frame(struct scene *scene, uint32_t entry)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&scene->tx, entry);
    *descriptor = (struct gpud_descriptor){.sequence = ++scene->sent, .slot = entry};
    descriptor->meta_size = (uint32_t)(scene->sent % (GPUD_FRAME_META_MAX + 1));
    memset(descriptor->meta, (int)(scene->sent & 0xff), descriptor->meta_size);
    scene->messages_before[scene->sent % SEQUENCES] = scene->tx.messages;
    gpud_page_hand_over(&scene->tx, entry);
}

/* As a sender does that asks for room; now and then it does not ask, or finds less than told. */
static bool send_frame(struct scene *scene)
{
    struct side *side = &sides[0];
    uint32_t entry;
    bool asks = dice(8) > 0, is_told = side->count + 6 <= side->capacity || dice(4) == 0;
    if ((asks && (!gpud_rdma_catch_up_record(&side->remote) || !is_told)) ||
        !gpud_page_take(&scene->tx, &entry))
        return false;
    publish_frame(scene, entry);
    return true;
}

/* What either side sees can be: no frame before the messages that come before it. */
static void check_order(const struct scene *scene)
{
    uint32_t head = gpud_page_head(&scene->rx), messages = gpud_page_messages(&scene->rx);
    CHECK(head <= scene->sent, "a frame that was never published");
    if (head > 0)
        CHECK(messages >= scene->messages_before[head % SEQUENCES],
              "frame %u overtook a message: %u counted, %u seen", head,
              scene->messages_before[head % SEQUENCES], messages);
}

/* Nothing is under way: each side has what the other published, and was told behind it. */
static void check_same(const struct scene *scene)
{
    const struct gpud_page *sender = sides[0].remote.base.page,
                           *receiver = sides[1].remote.base.page;
    CHECK_EQUAL(gpud_page_head(&scene->rx), scene->sent);
    CHECK_EQUAL(gpud_page_messages(&scene->rx), scene->tx.messages);
    CHECK_EQUAL(atomic_load(&sender->receiver.returned), scene->rx.returned);
    CHECK_EQUAL(sides[0].told, scene->sent);
    CHECK_EQUAL(sides[1].told, scene->rx.returned);
    CHECK_EQUAL(atomic_load(&sender->receiver.claimed), 0); /* not published there */
    CHECK(memcmp(sender->sender.published, receiver->sender.published,
                 sizeof(sender->sender.published)) == 0 &&
              memcmp(sender->receiver.given_back, receiver->receiver.given_back,
                     sizeof(sender->receiver.given_back)) == 0,
          "a side has other words than were published");
}

static void reap(struct scene *scene)
{
    uint32_t entry;
    int got;
    while ((got = gpud_page_reap(&scene->tx, &entry)) > 0)
        scene->returned++;
    CHECK(got == 0, "an honest receiver is called a liar, after %llu frames",
          (unsigned long long)scene->sent);
}

static bool take_frame(struct scene *scene)
{
    struct gpud_descriptor descriptor;
    struct gpud_error error = {.reason = ""};
    uint32_t entry, head = gpud_page_head(&scene->rx);
    int got = gpud_page_claim(&scene->rx, head, &entry, &descriptor, &error);
    CHECK(got >= 0, "an honest sender is called a liar: %s", error.reason);
    if (got == 0)
        return false;
    CHECK_EQUAL(descriptor.sequence, ++scene->received);
    CHECK_EQUAL(descriptor.meta_size, scene->received % (GPUD_FRAME_META_MAX + 1));
    for (uint32_t i = 0; i < descriptor.meta_size; i++)
        CHECK(descriptor.meta[i] == (uint8_t)scene->received, "a torn descriptor");
    scene->held[scene->held_count++] = entry;
    return true;
}

static bool give_back(struct scene *scene)
{
    static const atomic_bool is_idle = true;
    if (scene->held_count == 0)
        return false;
    uint32_t which = dice(scene->held_count), entry = scene->held[which];
    scene->held[which] = scene->held[--scene->held_count];
    gpud_page_give_back(&scene->rx, entry, &is_idle);
    return true;
}

/* --- the walk --------------------------------------------------------------------------------- */

static void step(struct scene *scene)
{
    switch (dice(12)) {
    case 0:
    case 1:
        send_frame(scene);
        break;
    case 2:
        reap(scene);
        break;
    case 3:
        take_frame(scene);
        break;
    case 4:
    case 5:
        give_back(scene);
        break;
    case 6: /* whatever has no room asked for */
        gpud_page_count_message(&scene->tx);
        break;
    case 7:
        gpud_page_announce(&scene->tx, dice(3));
        break;
    case 8:
        sides[dice(2)].capacity = dice(4) ? dice(10) : OPERATIONS / 2;
        break;
    case 9: /* any thread of a side */
        gpud_rdma_look_around(&sides[dice(2)].channel);
        break;
    default:
        for (uint32_t count = dice(6); count; count--)
            deliver(&sides[dice(2)]);
    }
    check_order(scene);
}

/* Everything in flight arrives; neither side does anything more. */
static void settle(void)
{
    for (int i = 0; i < 2; i++)
        sides[i].capacity = OPERATIONS / 2;
    while (sides[0].count || sides[1].count || atomic_load(&sides[0].channel.behind) ||
           atomic_load(&sides[1].channel.behind)) {
        for (int i = 0; i < 2; i++) {
            gpud_rdma_look_around(&sides[i].channel);
            while (sides[i].count)
                deliver(&sides[i]);
        }
    }
}

int main(void)
{
    SAY("%d steps over full queues", STEPS);
    struct scene scene;
    open_scene(&scene);
    for (unsigned i = 0; i < STEPS; i++) {
        step(&scene);
        if (i % 1000 == 999) {
            settle();
            check_order(&scene);
            check_same(&scene);
        }
    }
    settle();
    while (take_frame(&scene) || give_back(&scene))
        ;
    settle();
    reap(&scene);
    CHECK(scene.sent > STEPS / 100, "only %llu frames", (unsigned long long)scene.sent);
    CHECK(scene.received == scene.sent && scene.returned == scene.sent, "%llu, %llu, %llu",
          (unsigned long long)scene.sent, (unsigned long long)scene.received,
          (unsigned long long)scene.returned);
    CHECK(sides[0].refused > 1000 && sides[1].refused > 1000, "the queues were never full");
    SAY("  %llu frames; %u and %u writes had no room", (unsigned long long)scene.sent,
        sides[0].refused, sides[1].refused);
    close_sides();

    SAY("a card is asked for no more than a steady stream needs");
    open_scene(&scene);
    uint64_t before[2] = {0};
    for (uint32_t frame = 0; frame < 3 * GPUD_PAGE_ENTRIES; frame++) {
        if (frame == 2 * GPUD_PAGE_ENTRIES)
            for (int i = 0; i < 2; i++)
                before[i] = sides[i].requests;
        CHECK(gpud_page_take(&scene.tx, &scene.held[0]), "no credit");
        publish_frame(&scene, scene.held[0]);
        settle();
        CHECK(take_frame(&scene) && give_back(&scene), "frame %u has not come", frame);
        settle();
        reap(&scene);
    }
    CHECK_EQUAL(sides[0].requests - before[0], 2 * GPUD_PAGE_ENTRIES); /* descriptor, head */
    CHECK_EQUAL(sides[1].requests - before[1], GPUD_PAGE_ENTRIES);     /* returned */
    CHECK(sides[0].notices >= GPUD_PAGE_ENTRIES && sides[1].notices >= GPUD_PAGE_ENTRIES,
          "frames, or credits, without a notice");
    close_sides();

    SAY("an end in between");
    /* What had no room is not written, nor notified, once the other side has another page. */
    open_scene(&scene);
    CHECK(send_frame(&scene), "no room in an empty queue");
    settle();
    CHECK(take_frame(&scene), "no frame");
    settle();
    sides[1].capacity = 0;
    give_back(&scene);
    CHECK_EQUAL(atomic_load(&sides[1].channel.behind), 1);
    CHECK(!gpud_rdma_catch_up_record(&sides[1].remote), "caught up without room");
    gpud_rdma_stop_publishing(&sides[1].remote);
    CHECK_EQUAL(atomic_load(&sides[1].channel.behind), 0);
    uint64_t requests = sides[1].requests, notices = sides[1].notices;
    settle();
    gpud_page_notify(&scene.rx.end);
    settle();
    CHECK(sides[1].requests == requests && sides[1].notices == notices, "written after all");
    CHECK(!gpud_page_has_returns(&scene.tx), "given back to an old page");
    close_sides();
    return 0;
}

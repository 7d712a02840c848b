/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Cases of route@WAY in which something changes while frames flow. See route.h. */
#include "route.h"

#include "support/make.h"

static const struct peer_note *find_note(const struct peer_board *board, unsigned *from,
                                         enum gpud_event event)
{
    for (; *from < board->notes; ++*from)
        if (board->note[*from].event == event)
            return &board->note[(*from)++];
    return NULL;
}

static void send_event(struct scene *scene, uint32_t kind, uint64_t value)
{
    WORKS(gpud_sender_send_event(scene->sender, kind, &value, sizeof(value), &e));
}

/* --- events ----------------------------------------------------------------------------------- */

#define STICKY(n) (GPUD_EVENT_STICKY | (n))

void test_events(const struct way *way)
{
    struct scene scene;
    struct peer peer, late;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "UYVY", 320, 180);
    send_event(&scene, 5, 1); /* without a receiver */
    send_event(&scene, STICKY(1), 100);
    send_event(&scene, STICKY(2), 200);
    send_event(&scene, STICKY(1), 101); /* replaces the first, in its place */
    struct peer_orders orders = scene_orders(&scene);
    orders.nap = GPUD_MSEC; /* so that frames wait in the ring when an event is sent */
    peer_start(&peer, &orders);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    for (int i = 0; i < 40; i++) {
        scene_send(&scene, (unsigned)i % 4);
        send_event(&scene, 7, scene.number);
    }
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    uint64_t end_at = scene.number;
    /* The stream after the end. */
    scene_send(&scene, 3);
    send_event(&scene, 8, scene.number);
    PEER_UNTIL("the event after the last frame", 10000,
               atomic_load(&peer.board->last) == scene.number);
    peer_start(&late, &orders);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    scene_send(&scene, 2);
    WORKS(gpud_sender_send_eos(scene.sender, &e));
    PEER_UNTIL("the second end", 10000,
               atomic_load(&peer.board->ends) == 2 && atomic_load(&late.board->ends) == 1);
    PEER_FINISH(&peer);
    PEER_FINISH(&late);

    unsigned at = 0, heard = 0, ends = 0;
    const struct peer_note *note;
    const struct peer_board *board = peer.board;
    static const uint64_t sticky[][2] = {{STICKY(1), 101}, {STICKY(2), 200}};
    while ((note = find_note(board, &at, GPUD_EVENT_USER))) {
        if (heard < 2)
            CHECK(note->kind == sticky[heard][0] && note->value == sticky[heard][1] &&
                      note->after == 0,
                  "sticky event %u is kind %x, value %llu, after frame %llu", heard, note->kind,
                  (unsigned long long)note->value, (unsigned long long)note->after);
        else
            CHECK(note->after == note->value,
                  "the event sent after frame %llu came after frame %llu",
                  (unsigned long long)note->value, (unsigned long long)note->after);
        heard++;
    }
    CHECK_EQUAL(heard, 2 + 40 + 1);
    for (at = 0; (note = find_note(board, &at, (enum gpud_event)0)); ends++)
        CHECK_EQUAL(note->after, ends == 0 ? end_at : scene.number);
    CHECK_EQUAL(ends, 2);
    CHECK_EQUAL(board->frames, scene.number);
    CHECK_EQUAL(board->gaps, 0);
    CHECK_EQUAL(board->lost, 0);

    at = heard = 0;
    while ((note = find_note(late.board, &at, GPUD_EVENT_USER))) {
        CHECK(heard < 2 && note->kind == sticky[heard][0] && note->value == sticky[heard][1] &&
                  note->after == 0,
              "the late one hears kind %x, value %llu", note->kind,
              (unsigned long long)note->value);
        heard++;
    }
    CHECK_EQUAL(heard, 2);
    CHECK_EQUAL(late.board->frames, 2);
    peer_forget(&peer);
    peer_forget(&late);

    for (uint32_t i = 3; i <= 16; i++)
        send_event(&scene, STICKY(i), i);
    EXPECT(GPUD_INVALID, "16 kinds", gpud_sender_send_event(scene.sender, STICKY(17), "x", 1, &e));
    static char large[GPUD_EVENT_SIZE_MAX + 1];
    EXPECT(GPUD_INVALID, "at most",
           gpud_sender_send_event(scene.sender, 1, large, sizeof(large), &e));
    WORKS(gpud_sender_send_event(scene.sender, 1, large, GPUD_EVENT_SIZE_MAX, &e));
    WORKS(gpud_sender_send_event(scene.sender, 1, NULL, 0, &e));
    scene_close(&scene);
}

/* --- coming and going ------------------------------------------------------------------------- */

void test_reconnect(const struct way *way)
{
    struct scene scene;
    struct peer peer;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "NV12", 320, 181);
    struct peer_orders orders = scene_orders(&scene);
    orders.hold = 3; /* held over the change */
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    /* The receiver goes, another comes. */
    for (int turn = 1; turn <= 3; turn++) {
        peer_start(&peer, &orders);
        WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
        scene_send(&scene, 10);
        PEER_UNTIL("10 frames", 10000, atomic_load(&peer.board->frames) == 10);
        PEER_FINISH(&peer);
        CHECK_EQUAL(peer.board->lost, 0);
        peer_forget(&peer);
        PEER_UNTIL("the sender notices", 20000,
                   (gpud_sender_get_info(scene.sender, &info), info.receivers == 0));
        CHECK_EQUAL(info.connects, turn);
        CHECK_EQUAL(info.disconnects, turn);
        scene_send(&scene, 2); /* without a receiver: done at once */
    }

    /* The sender goes, another comes; the same receiver, which comes first. */
    gpud_sender_destroy(&scene.sender);
    gpud_device_close(&scene.host);
    gpud_context_destroy(&scene.context);
    BASELINE_CHECK(scene.before);
    peer_start(&peer, &orders);
    for (unsigned turn = 1; turn <= 3; turn++) {
        scene_open(&scene, way, GPUD_SLOW_BLOCK);
        if (turn != 2)
            scene_format(&scene, "UYVY", 320, 181);
        else
            gpud_test_nap(100); /* a sender without a format */
        if (turn == 2)
            scene_format(&scene, "UYVY", 322, 181);
        WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
        scene_send(&scene, 10);
        if (turn == 3)
            WORKS(gpud_sender_send_eos(scene.sender, &e));
        /* What was sent before the goodbye arrives, all of it. */
        scene_close(&scene);
        PEER_UNTIL("every frame and the goodbye", 20000,
                   atomic_load(&peer.board->frames) == 10 * turn &&
                       atomic_load(&peer.board->lost) == turn);
        CHECK(strstr(peer.board->reason, "goodbye"), "the reason is \"%s\"", peer.board->reason);
        CHECK_EQUAL(atomic_load(&peer.board->connected), turn);
        CHECK_EQUAL(atomic_load(&peer.board->ends), turn == 3);
    }
    PEER_FINISH(&peer);
    CHECK_EQUAL(peer.board->gaps, 0);
    CHECK_EQUAL(peer.board->info.connects, 3);
    CHECK_EQUAL(peer.board->info.disconnects, 3);
    CHECK_EQUAL(peer.board->refusals, 0);
    peer_forget(&peer);
}

/* --- several receivers ------------------------------------------------------------------------ */

#define FAN 3
#define RING 4    /* slots, unless a receiver asks for more */
#define MISSED 20 /* frames sent to receivers that rest */

/* The last two do not take anything, the first one takes it all: what does not fit into a ring is
 * lost to them, however fast the devices and the machine are. */
static void send_to_resting(struct scene *scene, struct peer *peers)
{
    for (int i = 1; i < FAN; i++)
        scene_rest(&peers[i]);
    scene_send(scene, MISSED);
    PEER_UNTIL("the one that takes frames has them", 20000,
               atomic_load(&peers[0].board->last) == scene->number);
    for (int i = 1; i < FAN; i++)
        atomic_store(&peers[i].board->paused, false);
}

static bool all_have_the_last(const struct scene *scene, const struct peer *peers)
{
    for (int i = 0; i < FAN; i++)
        if (atomic_load(&peers[i].board->last) != scene->number)
            return false;
    return true;
}

/* One more, and another if there was no room for it, until all of them have it: what was lost
 * before it shows as a gap then. */
static void send_to_all(struct scene *scene, struct peer *peers)
{
    for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; !all_have_the_last(scene, peers);) {
        CHECK(gpud_test_now() < until, "there is never room for a frame to all");
        scene_send(scene, 1);
        for (int wait = 0; wait < 200 && !all_have_the_last(scene, peers); wait++)
            gpud_test_nap(1);
    }
}

/* Each frame was taken, was lost, or waits. */
static void check_accounts(const struct scene *scene, const struct peer *peers)
{
    struct gpud_link_info links[FAN] = {GPUD_INFO_INIT(links[0])};
    CHECK_EQUAL(gpud_sender_list_links(scene->sender, links, FAN), FAN);
    for (int i = 0; i < FAN; i++) {
        const struct gpud_link_info *link = &links[i];
        uint64_t all = link->delivered + link->dropped + link->waiting;
        uint64_t by_cause = link->dropped_newest + link->dropped_oldest + link->dropped_failed +
                            link->dropped_format;
        CHECK_EQUAL(all, scene->number);
        CHECK_EQUAL(link->dropped, by_cause);
        bool found = false;
        for (int k = 0; k < FAN; k++)
            found |= link->delivered == atomic_load(&peers[k].board->frames);
        CHECK(found && link->waiting == 0, "receiver %llu took %llu frames, %llu wait",
              (unsigned long long)link->id, (unsigned long long)link->delivered,
              (unsigned long long)link->waiting);
    }
}

void test_fan_out(const struct way *way)
{
    static const enum gpud_slow_receiver policies[] = {GPUD_SLOW_DEFAULT, GPUD_SLOW_DROP_NEWEST,
                                                       GPUD_SLOW_DROP_OLDEST};
    const int frames = scene_in_guest() ? 100 : 300;
    struct scene scene;
    struct peer peers[FAN];
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "UYVY", 320, 180);
    for (int i = 0; i < FAN; i++) {
        struct peer_orders orders = scene_orders(&scene);
        orders.slow_receiver = policies[i];
        orders.hold = 1;
        orders.nap = i == 0 ? 0 : 12 * GPUD_MSEC;
        peer_start(&peers[i], &orders);
    }
    WORKS(gpud_sender_wait(scene.sender, FAN, 30 * GPUD_SEC, &e));
    send_to_resting(&scene, peers);
    for (int i = 0; i < frames; i++) {
        scene_send(&scene, 1);
        if (i % 2)
            gpud_test_nap(1);
        if (i == frames / 2) /* accounts hold over a change of caps */
            scene_format(&scene, "UYVY", 322, 180);
    }
    send_to_all(&scene, peers);
    check_accounts(&scene, peers);
    uint64_t received = 0;
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gpud_sender_get_info(scene.sender, &info);
    for (int i = 0; i < FAN; i++) {
        PEER_FINISH(&peers[i]);
        const struct peer_board *board = peers[i].board;
        SAY("  policy %d: %llu frames, %llu dropped", i, atomic_load(&board->frames),
            atomic_load(&board->gaps));
        CHECK(board->connected == 1, "receiver %d connected %llu times: %s", i,
              (unsigned long long)board->connected, board->reason);
        /* The last one loses its oldest frames, and those may be the very first. */
        unsigned long long missed = board->gaps + board->first - 1;
        CHECK(board->first == 1 || i == 2, "the first frame is %llu", atomic_load(&board->first));
        CHECK(board->frames + missed == scene.number, "I2: %llu frames and %llu gaps of %llu",
              atomic_load(&board->frames), missed, (unsigned long long)scene.number);
        CHECK_EQUAL(board->reported, missed);
        CHECK_EQUAL(board->info.dropped, missed);
        CHECK(i == 0 ? missed == 0 : missed >= MISSED - RING, "receiver %d missed %llu frames", i,
              missed);
        received += board->frames;
    }
    /* Those that lost frames had asked for it. */
    CHECK_EQUAL(info.dropped, 0);
    CHECK_EQUAL(info.delivered, received);
    for (int i = 0; i < FAN; i++)
        peer_forget(&peers[i]);
    scene_close(&scene);
}

void test_late(const struct way *way)
{
    struct scene scene;
    struct peer peers[5];
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "UYVY", 320, 180);
    struct peer_orders orders = scene_orders(&scene);
    peer_start(&peers[0], &orders);
    WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    for (int i = 1; i < 4; i++) {
        peer_start(&peers[i], &orders);
        for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; info.receivers < (unsigned)i + 1;) {
            CHECK(gpud_test_now() < until, "no receiver comes");
            scene_send(&scene, 1); /* as fast as the first one takes them */
            gpud_sender_get_info(scene.sender, &info);
        }
    }
    /* One more that comes after so many frames, and a new format before its first one. */
    peer_start(&peers[4], &orders);
    WORKS(gpud_sender_wait(scene.sender, 5, 30 * GPUD_SEC, &e));
    scene_format(&scene, "UYVY", 322, 180);
    scene_send(&scene, 50);
    for (int i = 0; i < 5; i++) {
        PEER_UNTIL("the last frame", 20000, atomic_load(&peers[i].board->last) == scene.number);
        PEER_FINISH(&peers[i]);
        const struct peer_board *board = peers[i].board;
        CHECK_EQUAL(board->gaps, 0);
        CHECK(board->info.dropped == 0,
              "nothing was dropped for receiver %d, which came at frame %llu, and it is told of "
              "%llu drops",
              i, atomic_load(&board->first), (unsigned long long)board->info.dropped);
        peer_forget(&peers[i]);
    }
    gpud_sender_get_info(scene.sender, &info);
    CHECK_EQUAL(info.dropped, 0);
    scene_close(&scene);
}

/* Each receiver has its share of the ring: one that could hold more of it must not leave the others
 * without. */
void test_many_slots(const struct way *way)
{
    struct scene scene;
    struct peer greedy, other;
    scene_open(&scene, way, GPUD_SLOW_BLOCK);
    scene_format(&scene, "UYVY", 320, 180);
    struct peer_orders orders = scene_orders(&scene);
    peer_start(&other, &orders);
    orders.slots = 64;
    orders.slow_receiver = GPUD_SLOW_DROP_NEWEST;
    peer_start(&greedy, &orders);
    WORKS(gpud_sender_wait(scene.sender, 2, 30 * GPUD_SEC, &e));
    scene_rest(&greedy);
    scene_send(&scene, 200);
    PEER_UNTIL("the other one has them all", 20000, atomic_load(&other.board->frames) == 200);
    atomic_store(&greedy.board->paused, false);
    PEER_FINISH(&greedy);
    PEER_FINISH(&other);
    CHECK_EQUAL(other.board->gaps, 0);
    peer_forget(&greedy);
    peer_forget(&other);
    scene_close(&scene);
}

/* --- changes of format ------------------------------------------------------------------------ */

static void wait_for_last(const struct scene *scene, const struct peer *peer)
{
    PEER_UNTIL("the last frame", 20000, atomic_load(&peer->board->last) == scene->number);
}

static void change_format(struct scene *scene)
{
    scene_format(scene, "UYVY", 320 + 2 * (uint32_t)(scene->number % 7), 180);
}

/* A change is no slowness: what follows it waits until the receiver is ready for it, also behind
 * frames that it has not taken yet, and an end behind it is seen. Nothing here depends on the
 * machine: a receiver that rests is as slow as can be. */
void test_formats(const struct way *way)
{
    const unsigned changes = scene_in_guest() ? 12 : 100;
    static const enum gpud_slow_receiver policies[] = {GPUD_SLOW_DROP_OLDEST,
                                                       GPUD_SLOW_DROP_NEWEST};
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        struct peer peer;
        scene_open(&scene, way, policies[i]);
        change_format(&scene);
        struct peer_orders orders = scene_orders(&scene);
        peer_start(&peer, &orders);
        WORKS(gpud_sender_wait(scene.sender, 1, 30 * GPUD_SEC, &e));
        for (unsigned change = 0; change < changes / 2; change++) {
            if (change % 3 < 2)
                scene_rest(&peer);
            if (change % 3 == 1)
                scene_send(&scene, 2);
            change_format(&scene);
            send_event(&scene, 7, scene.number);
            scene_send(&scene, 2);
            atomic_store(&peer.board->paused, false);
            wait_for_last(&scene, &peer);
        }
        struct gpud_sender_info info = INFO(sender, scene.sender);
        CHECK_EQUAL(info.dropped, 0);
        CHECK_EQUAL(info.delivered, scene.number);

        scene_rest(&peer);
        scene_send(&scene, 1);
        change_format(&scene);
        WORKS(gpud_sender_send_eos(scene.sender, &e));
        scene_close(&scene);
        atomic_store(&peer.board->paused, false);
        PEER_UNTIL("the end of the stream", 20000, atomic_load(&peer.board->ends) == 1);
        CHECK_EQUAL(atomic_load(&peer.board->last), scene.number);
        CHECK_EQUAL(atomic_load(&peer.board->gaps), 0);
        CHECK_EQUAL(atomic_load(&peer.board->discontinuities), 1); /* the first frame */
        unsigned at = 0, heard = 0;
        for (const struct peer_note *note;
             (note = find_note(peer.board, &at, GPUD_EVENT_USER)) != NULL; heard++)
            CHECK_EQUAL(note->after, note->value);
        CHECK(heard == changes / 2 || peer.board->notes == PEER_NOTES, "%u events", heard);
        PEER_FINISH(&peer);
        peer_forget(&peer);
    }
}

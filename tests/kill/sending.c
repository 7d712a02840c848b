/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The survivor sends: receivers die beside an honest one. */
#include "kill.h"

#define EVERY 4 /* frames, between two things that are not frames */

struct sending {
    const struct cell *cell;
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_sender *backup; /* of a programme, where groups die; NULL elsewhere */
    struct child_format format;
    unsigned epoch;
    unsigned long long epoch_frames; /* that the child had when the epoch began */
    uint64_t number;
    struct peer honest;
    struct peer more; /* another one, for a while */
    uint64_t joined;  /* such */
    bool blocks;
    struct children children;
};

static void new_epoch(struct sending *s)
{
    child_format(&s->format, &s->children.orders, ++s->epoch);
    s->epoch_frames = atomic_load(&s->children.child.board->frames);
    WORKS(gpud_sender_configure(s->sender, &s->format.media, &e));
    if (s->backup)
        WORKS(gpud_sender_configure(s->backup, &s->format.media, &e));
}

static void send_between(struct sending *s)
{
    switch (s->cell->point->provoke) {
    case BY_EVENTS:
        WORKS(gpud_sender_send_event(s->sender, 7, "between", 7, &e));
        if (s->backup)
            WORKS(gpud_sender_send_event(s->backup, 7, "between", 7, &e));
        break;
    case BY_ENDS:
        WORKS(gpud_sender_send_eos(s->sender, &e));
        if (s->backup)
            WORKS(gpud_sender_send_eos(s->backup, &e));
        break;
    case BY_EPOCHS:
        /* A sender that drops frames also changes its format faster than a receiver on a busy
         * machine can follow: the child has a frame of each epoch before the next one begins. */
        if (atomic_load(&s->children.child.board->frames) > s->epoch_frames)
            new_epoch(s);
        break;
    default:
        break;
    }
}

/* A frame; it may have to wait until the child that stands still is dead, and no longer. */
static void send(struct sending *s)
{
    int64_t start = gpud_test_now();
    if (++s->number, s->backup) {
        struct child_orders orders = {.sound = s->children.orders.sound};
        programme_send(s->sender, s->host, &orders, &s->format, s->number, false);
        orders.backup = true;
        programme_send(s->backup, s->host, &orders, &s->format, s->number, false);
    } else if (s->number % 3) {
        SEND_LENT(s->sender, &s->format.layout, s->number);
    } else {
        SEND_FOREIGN(s->sender, s->host, &s->format.layout, s->number);
    }
    int64_t took = gpud_test_now() - start;
    CHECK(took < AGAIN_MAX, "child %u: frame %llu took %lld ms: the sender stood still",
          s->children.number, (unsigned long long)s->number, (long long)(took / GPUD_MSEC));
    if (s->number % EVERY == 0 && atomic_load(&s->children.armed))
        send_between(s);
    gpud_test_nap(1);
}

/* Frames, until the word has come so far. */
static void send_until(struct sending *s, atomic_ullong *word, unsigned long long wanted,
                       int64_t within, const char *what)
{
    int64_t until = gpud_test_now() + within;
    while (atomic_load(word) < wanted) {
        send(s);
        if (gpud_test_now() < until)
            continue;
        struct gpud_sender_info info = INFO(sender, s->sender);
        FAIL("child %u: not within %d s: %s; %u receivers are connected, %llu connects, %llu "
             "disconnects; the child has %llu frames and has passed the point %u times; %s",
             s->children.number, (int)(within / GPUD_SEC), what, info.receivers,
             (unsigned long long)info.connects, (unsigned long long)info.disconnects,
             atomic_load(&s->children.child.board->frames),
             atomic_load(&s->children.child.board->passings), s->children.child.board->wrong);
    }
}

/* --- the honest receiver ---------------------------------------------------------------------- */

/* It lost nothing; where the oldest are dropped, nothing but what was counted (see PEER_CHECK). */
static void finish_honest(struct sending *s)
{
    struct peer_board *board = s->honest.board;
    int64_t asked = gpud_test_now();
    for (int64_t until = gpud_test_now() + AGAIN_MAX;
         atomic_load(&board->last_value) != programme_place(&s->children.orders, s->number);
         gpud_test_nap(1)) {
        CHECK(gpud_test_now() < until, "the honest receiver has frame %llu of %llu",
              atomic_load(&board->last_value), (unsigned long long)s->number);
        if (!s->blocks && gpud_test_now() > asked + 50 * GPUD_MSEC) {
            send(s); /* the newest is dropped where the device still has all others */
            asked = gpud_test_now();
        }
    }
    PEER_FINISH(&s->honest);
    CHECK_EQUAL(board->lost, 0);
    CHECK_EQUAL(board->corrupted, 0);
    if (s->blocks)
        CHECK(board->gaps == 0 && board->reported == 0,
              "I2: the honest receiver lost %llu frames by the death of another",
              atomic_load(&board->gaps));
    peer_forget(&s->honest);
}

/* --- deaths ----------------------------------------------------------------------------------- */

static void open_all(struct sending *s, enum gpud_slow_receiver policy)
{
    const struct way *way = s->cell->way;
    s->context = NEW_CONTEXT();
    s->host = OPEN_DEVICE(s->context, "host");
    s->sender = NEW_SENDER(s->context, .address = peer_address(KILL_NAME), .psk_file = peer_key(),
                           .device = way->from, .route = way->route, .slow_receiver = policy);
    s->children.orders.sound = way->bit == WAY_SOUND;
    child_format(&s->format, &s->children.orders, s->epoch);
    WORKS(gpud_sender_configure(s->sender, &s->format.media, &e));
    if (way->bit & WAYS_OF_GROUPS) {
        struct child_orders orders = {.backup = true};
        s->backup =
            NEW_SENDER(s->context, .address = child_address(&orders), .slow_receiver = policy);
        WORKS(gpud_sender_configure(s->backup, &s->format.media, &e));
    }
    honest_start(&s->honest, s->cell);
    send_until(s, &s->honest.board->frames, 1, START_MAX, "a frame at the honest receiver");
    /* No process has died yet: on a busy machine a handshake may have taken too long. */
    atomic_store(&s->honest.board->lost, 0);
    children_open(&s->children, s->cell, policy);
}

/* A new ring has room for those that are there: with one receiver more it grows, and the others
 * hear of it. */
static void join_one_more(struct sending *s)
{
    atomic_ullong *frames = &s->children.child.board->frames;
    unsigned long long wanted = atomic_load(frames) + EVERY;
    int64_t until = gpud_test_now() + AGAIN_MAX;
    new_epoch(s);
    while (atomic_load(&s->children.armed) && atomic_load(frames) < wanted) {
        send(s);
        CHECK(gpud_test_now() < until, "child %u gets no frames of the new epoch",
              s->children.number);
    }
    honest_start(&s->more, s->cell);
    s->joined++;
}

static void send_to_the_death(void *survivor)
{
    struct sending *s = survivor;
    send(s);
    if (s->more.board && atomic_load(&s->more.board->frames) > EVERY) {
        PEER_LEAVE(&s->more); /* it found the room of one that has just left */
        join_one_more(s);
    }
}

/* Until the child is dead, and then until the next one has a frame: so long did it take. */
static int64_t one_death(struct sending *s, int round)
{
    children_arm(&s->children);
    if (s->cell->point->provoke == BY_GROWTH)
        join_one_more(s);
    int64_t killed = children_die(&s->children, send_to_the_death, s);
    s->epoch_frames = 0;
    send(s); /* at once, before the death is noticed */
    send_until(s, &s->children.child.board->frames, 1, AGAIN_MAX, "a frame at the next receiver");
    int64_t took = gpud_test_now() - killed;
    if (s->more.board) {
        send_until(s, &s->more.board->frames, 1, START_MAX,
                   "a frame at the receiver that has joined");
        PEER_LEAVE(&s->more);
    }
    send_until(s, &s->children.child.board->frames, 1 + (unsigned)round % 4, AGAIN_MAX, "frames");
    return took;
}

static void check_counts(struct sending *s, int kills)
{
    enum provoke provoke = s->cell->point->provoke;
    bool twice = provoke == BY_CONNECTING || provoke == BY_LEAVING;
    /* A group connects to two senders at once, and is dead perhaps before it has come to this one;
     * and what a link's test that came too late cost it stays in the group. */
    bool exact = !twice && !s->backup;
    twice &= !s->backup;
    uint64_t children = (uint64_t)kills + 1;
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    PEER_UNTIL("only the honest receiver is connected", 20000,
               (gpud_sender_get_info(s->sender, &info), info.receivers == 1));
    PEER_UNTIL(
        "every death is counted", 5000,
        (gpud_sender_get_info(s->sender, &info),
         info.disconnects + info.refused >= children + s->joined + (twice ? (uint64_t)kills : 0)));
    CHECK(info.connects == info.disconnects + 1, "%llu connects, %llu disconnects",
          (unsigned long long)info.connects, (unsigned long long)info.disconnects);
    if (exact) {
        CHECK_EQUAL(info.disconnects, children + s->joined);
        /* On a busy machine the first test of the honest receiver's link may come too late: it is
         * told so, and tries again. */
        const struct peer_board *honest = s->honest.board;
        CHECK(info.refused == atomic_load(&honest->refusals) &&
                  (!info.refused || strstr(honest->reason, "the test frame did not arrive within")),
              "the sender refused %llu links, the honest receiver knows of %llu: %s",
              (unsigned long long)info.refused, atomic_load(&honest->refusals), honest->reason);
    }
    CHECK(strcmp(info.path, s->cell->way->route) == 0, "the route was %s", info.path);
}

int64_t survive_sending(const struct cell *cell, int kills, enum gpud_slow_receiver policy)
{
    struct sending s = {.cell = cell, .blocks = policy == GPUD_SLOW_BLOCK};
    int64_t worst = 0;
    open_all(&s, policy);
    send_until(&s, &s.children.child.board->frames, 1, START_MAX, "a frame at the first receiver");
    for (int round = 0; round < kills; round++) {
        int64_t took = one_death(&s, round);
        worst = took > worst ? took : worst;
    }
    children_dismiss(&s.children);
    int64_t until = gpud_test_now() + AGAIN_MAX;
    while (!children_gone(&s.children)) {
        send(&s);
        CHECK(gpud_test_now() < until, "the last receiver does not leave");
    }
    check_counts(&s, kills);
    finish_honest(&s);
    children_close(&s.children);
    gpud_sender_destroy(&s.sender);
    gpud_sender_destroy(&s.backup);
    gpud_device_close(&s.host);
    gpud_context_destroy(&s.context);
    return worst;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kill.h"
#include "base/base.h"

#include <poll.h>
#include <sys/syscall.h>

#define EVERY 4 /* frames, between two things that are not frames */

static struct child_board *own;

void child_format(struct child_format *format, const struct child_orders *orders, unsigned epoch)
{
    char text[128];
    if (orders->sound)
        snprintf(text, sizeof(text),
                 "audio/x-raw,format=S32LE,layout=interleaved,rate=%d,channels=%d,"
                 "samples-per-block=%d",
                 PROGRAMME_RATE, epoch % 2 ? 1 : 2, PROGRAMME_BLOCK);
    else
        snprintf(text, sizeof(text), "video/x-raw,format=UYVY,width=%d,height=91,framerate=0/1",
                 epoch % 2 ? 128 : 160);
    WORKS(gpud_media_from_string(&format->media, text, &e));
    WORKS(gpud_media_get_layout(&format->media, &format->layout, &e));
}

/* Every thread of the process stands still here, until the end. */
void gpud_stop_point(const char *name)
{
    if (!own || !atomic_load(&own->armed) || strcmp(name, own->orders.point) != 0 ||
        atomic_fetch_add(&own->passings, 1) + 1 != own->orders.passing)
        return;
    atomic_store(&own->stopped, 1);
    gpud_futex_wake(&own->stopped);
    for (;;)
        kill(getpid(), SIGSTOP);
}

/* --- sending ---------------------------------------------------------------------------------- */

const char *child_address(const struct child_orders *orders)
{
    return peer_address(orders->backup ? KILL_NAME "-backup" : KILL_NAME);
}

/* A sender that was killed may hold its address for a moment. */
static struct gpud_sender *make_sender(struct gpud_context *context)
{
    const struct gpud_sender_params params = {.size = sizeof(params),
                                              .address = child_address(&own->orders),
                                              .psk_file = peer_key(),
                                              .standby = own->orders.standby,
                                              .device = own->orders.device,
                                              .route = own->orders.route,
                                              .slow_receiver = own->orders.slow_receiver};
    struct gpud_sender *sender;
    struct gpud_error error = {.reason = ""};
    int64_t until = gpud_test_now() + AGAIN_MAX;
    while (gpud_sender_create(context, &params, &sender, &error) != GPUD_OK) {
        CHECK(gpud_test_now() < until, "no sender: %s", error.reason);
        gpud_test_nap(2);
    }
    return sender;
}

static void send_between(struct gpud_sender *sender, struct child_format *format, unsigned *epoch)
{
    switch (own->orders.provoke) {
    case BY_EVENTS:
        WORKS(gpud_sender_send_event(sender, 7, "between", 7, &e));
        break;
    case BY_ENDS:
        atomic_fetch_add(&own->ends, 1);
        WORKS(gpud_sender_send_eos(sender, &e));
        break;
    case BY_EPOCHS:
    case BY_GROWTH:
        child_format(format, &own->orders, ++*epoch);
        WORKS(gpud_sender_configure(sender, &format->media, &e));
        break;
    default:
        break;
    }
}

static void leave_and_return(struct gpud_context *context, struct gpud_sender **sender,
                             const struct child_format *format)
{
    if (own->orders.provoke != BY_LEAVING)
        return;
    gpud_sender_destroy(sender);
    *sender = make_sender(context);
    WORKS(gpud_sender_configure(*sender, &format->media, &e));
    WORKS(gpud_sender_wait(*sender, 1, 10 * GPUD_SEC, &e));
}

static void wait_for_receivers(struct gpud_sender *sender, uint32_t count)
{
    while (gpud_sender_wait(sender, count, 20 * GPUD_MSEC, NULL) != GPUD_OK)
        if (atomic_load(&own->leave))
            break;
}

/* Begins behind what was handed on, whenever that was, also for a group that is made anew: nothing
 * is lost by a slow machine, and two senders are never far apart. */
static void play_programme(struct gpud_context *context)
{
    struct child_format format;
    unsigned epoch = 0;
    struct gpud_sender *sender = make_sender(context);
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(context, "host");
    child_format(&format, &own->orders, epoch);
    WORKS(gpud_sender_configure(sender, &format.media, &e));
    /* Beside the group there is the receiver for which the last one's ring grew. */
    wait_for_receivers(sender, own->orders.provoke == BY_GROWTH && own->orders.number > 1 ? 2 : 1);
    bool jumps = false;
    for (uint64_t number = atomic_load(&own->handed) + 1; !atomic_load(&own->leave); number++) {
        if (gpud_sender_wait(sender, 1, 0, NULL) != GPUD_OK) {
            wait_for_receivers(sender, 1);
            number = atomic_load(&own->handed) + 1;
            jumps = true;
        }
        int64_t due = own->orders.programme + (int64_t)number * CHILD_INSTANT;
        while (gpud_test_now() < due && !atomic_load(&own->leave))
            gpud_test_nap(1);
        programme_send(sender, host, &own->orders, &format, number, jumps);
        jumps = false;
        if (atomic_fetch_add(&own->frames, 1) % EVERY == 0 && atomic_load(&own->armed)) {
            send_between(sender, &format, &epoch);
            leave_and_return(context, &sender, &format);
        }
    }
    gpud_sender_destroy(&sender);
}

static void play_sender(struct gpud_context *context)
{
    struct child_format format;
    unsigned epoch = 0;
    uint64_t number = (uint64_t)own->orders.number * CHILD_NUMBERS;
    struct gpud_sender *sender = make_sender(context);
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(context, "host");
    child_format(&format, &own->orders, epoch);
    WORKS(gpud_sender_configure(sender, &format.media, &e));
    if (own->orders.standby) {
        atomic_store(&own->ready, true);
        while (INFO(sender, sender).stands_by && !atomic_load(&own->leave))
            gpud_test_nap(1);
    }
    while (!atomic_load(&own->leave)) {
        /* Some frames lie in memory of the application's, and are copied on every way. */
        if (++number % 3)
            SEND_LENT(sender, &format.layout, number);
        else
            SEND_FOREIGN(sender, host, &format.layout, number);
        if (atomic_fetch_add(&own->frames, 1) % EVERY == 0 && atomic_load(&own->armed))
            send_between(sender, &format, &epoch);
        if (atomic_load(&own->armed))
            leave_and_return(context, &sender, &format);
        gpud_test_nap(1);
    }
    gpud_sender_destroy(&sender);
}

/* --- receiving -------------------------------------------------------------------------------- */

static struct gpud_receiver *make_receiver(struct gpud_context *context)
{
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = peer_address(KILL_NAME), .psk_file = peer_key(),
                     .device = own->orders.device, .slow_receiver = own->orders.slow_receiver);
    return receiver;
}

static bool connects_again(unsigned since)
{
    enum provoke provoke = own->orders.provoke;
    return since >= EVERY && atomic_load(&own->armed) &&
           (provoke == BY_CONNECTING || provoke == BY_LEAVING);
}

static void play_receiver(struct gpud_context *context, struct gpu *gpu)
{
    struct gpud_receiver *receiver = make_receiver(context);
    struct view view = {.gpu = gpu};
    unsigned since = 0;
    while (!atomic_load(&own->leave)) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
        if (status == GPUD_OK) {
            view_take(&view, frame);
            since++;
            atomic_fetch_add(&own->frames, 1);
        } else if (status != GPUD_TIMEOUT && status != GPUD_CLOSED && !view.wrong[0]) {
            snprintf(view.wrong, sizeof(view.wrong),
                     "the sender lives, and acquire says %s: %.150s", gpud_status_string(status),
                     error.reason);
        }
        if (connects_again(since)) {
            view_finish(&view); /* the sender writes again what a link that ended had */
            gpud_receiver_destroy(&receiver);
            receiver = make_receiver(context);
            view.linked = false;
            view.dropped = since = 0;
        }
        atomic_store(&own->corrupted, view.corrupted);
        if (view.wrong[0] && !own->wrong[0])
            snprintf(own->wrong, sizeof(own->wrong), "%s", view.wrong);
    }
    gpud_receiver_destroy(&receiver);
    view_finish(&view);
}

/* As a group. Pictures of the main one count. */
static void play_group(struct gpud_context *context)
{
    struct pair pair = {.sound = own->orders.sound};
    unsigned since = 0;
    pair_open(&pair, context);
    while (!atomic_load(&own->leave)) {
        if (pair_take(&pair, 20 * GPUD_MSEC) == MAIN) {
            since++;
            atomic_fetch_add(&own->frames, 1);
        }
        if (connects_again(since)) {
            pair_close(&pair);
            pair_open(&pair, context);
            since = 0;
        }
        atomic_store(&own->corrupted, pair.corrupted);
        if (pair.wrong[0] && !own->wrong[0])
            snprintf(own->wrong, sizeof(own->wrong), "%s", pair.wrong);
    }
    pair_close(&pair);
}

/* --- both ------------------------------------------------------------------------------------- */

void child_main(int argc, char **argv)
{
    own = peer_board_open("--child", argc, argv, sizeof(*own));
    if (!own)
        return;
    struct gpu gpu;
    bool on_gpu = gpu_is_behind(own->orders.device);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *device = OPEN_DEVICE(context, own->orders.device);
    if (on_gpu)
        gpu_open(&gpu, own->orders.device, VIEW_FRAME_MIN);
    if (!own->orders.standby) {
        atomic_store(&own->ready, true);
        while (!atomic_load(&own->go))
            gpud_test_nap(1);
    }
    if (own->orders.programme)
        play_programme(context);
    else if (own->orders.sends)
        play_sender(context);
    else if (own->orders.group)
        play_group(context);
    else
        play_receiver(context, on_gpu ? &gpu : NULL);
    if (on_gpu)
        gpu_close(&gpu);
    gpud_device_close(&device);
    gpud_context_destroy(&context);
    exit(0);
}

void child_start(struct child *child, const struct child_orders *orders)
{
    int fd;
    child->board = peer_board_make(sizeof(*child->board), &fd);
    child->board->orders = *orders;
    child->pid = peer_spawn("--child", fd);
}

/* --- children in turn ------------------------------------------------------------------------- */

static void start_next(struct children *children)
{
    children->orders.number++;
    children->orders.passing = 1 + children->orders.number % children->varied;
    /* Every second link may drop frames where the honest receiver's blocks. */
    if (!children->orders.sends)
        children->orders.slow_receiver =
            children->orders.number % 2 ? GPUD_SLOW_DEFAULT : GPUD_SLOW_DROP_OLDEST;
    child_start(&children->next, &children->orders);
}

/* Kills the child as soon as it stands at the point, and lets the next one go. */
static void *wait_and_kill(void *arg)
{
    struct children *children = arg;
    struct child_board *board = children->child.board;
    pid_t pid = children->child.pid;
    int state = 0;
    struct pollfd dead = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    CHECK(dead.fd >= 0, "pidfd_open: %s", strerror(errno));
    while (!atomic_load(&board->stopped)) {
        gpud_futex_wait(&board->stopped, 0, gpud_test_now() + 100 * GPUD_MSEC);
        if (!atomic_load(&board->stopped) && waitpid(pid, &state, WNOHANG) == pid)
            FAIL("the child ended by itself, before the point: state %#x", state);
    }
    kill(pid, SIGKILL);
    while (poll(&dead, 1, -1) < 1)
        ;
    close(dead.fd);
    atomic_store(&children->killed, gpud_test_now());
    atomic_store(&children->next.board->go, true);
    atomic_store(&children->armed, false);
    /* It is dead by now; to forget it takes a busy kernel seconds at times. */
    CHECK(waitpid(pid, &state, 0) == pid, "waitpid: %s", strerror(errno));
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL, "the child ended by itself: state %#x",
          state);
    return NULL;
}

static void join_killer(struct children *children)
{
    if (children->kills)
        pthread_join(children->killer, NULL);
    children->kills = false;
}

static void forget(struct child *child)
{
    if (!child->board)
        return;
    CHECK(!child->board->wrong[0], "child %u: %s", child->board->orders.number,
          child->board->wrong);
    munmap(child->board, sizeof(*child->board));
    child->board = NULL;
}

static void advance(struct children *children)
{
    if (children->child.board)
        children->ends += atomic_load(&children->child.board->ends);
    forget(&children->child);
    children->child = children->next;
    children->next = (struct child){0};
    children->number = children->child.board->orders.number;
}

void children_open(struct children *children, const struct cell *cell,
                   enum gpud_slow_receiver policy)
{
    const struct point *point = cell->point;
    bool sends = point_is_the_senders(point);
    bool rare = point->provoke != BY_FRAMES && point->provoke != BY_EVENTS;
    *children = (struct children){.varied = rare ? 3 : 5, .orders = children->orders};
    children->orders.sends = sends;
    children->orders.provoke = point->provoke;
    children->orders.slow_receiver = policy;
    children->orders.standby = cell->way->bit == WAY_STANDBY;
    children->orders.group = cell->way->bit & WAYS_OF_GROUPS;
    children->orders.sound = cell->way->bit == WAY_SOUND;
    if (point->provoke == BY_A_HELD_GPU || point->provoke == BY_GROWTH)
        children->varied = 1; /* what makes the process pass there happens once */
    snprintf(children->orders.device, sizeof(children->orders.device), "%s",
             sends ? cell->way->from : cell->way->to);
    snprintf(children->orders.route, sizeof(children->orders.route), "%s", cell->way->route);
    snprintf(children->orders.point, sizeof(children->orders.point), "%s", point->name);
    start_next(children);
    atomic_store(&children->next.board->go, true);
    advance(children);
}

void children_arm(struct children *children)
{
    join_killer(children);
    start_next(children);
    PEER_UNTIL("the next child stands by", 20000, atomic_load(&children->next.board->ready));
    atomic_store(&children->armed, true);
    atomic_store(&children->child.board->armed, true);
    CHECK(pthread_create(&children->killer, NULL, wait_and_kill, children) == 0, "no thread");
    children->kills = true;
}

int64_t children_die(struct children *children, void (*step)(void *survivor), void *survivor)
{
    int64_t until = gpud_test_now() + REACHED_MAX;
    while (atomic_load(&children->armed)) {
        step(survivor);
        CHECK(gpud_test_now() < until || !atomic_load(&children->armed),
              "the point was not reached, %u of %u times",
              atomic_load(&children->child.board->passings), children->child.board->orders.passing);
    }
    int64_t killed = atomic_load(&children->killed);
    advance(children);
    return killed;
}

void children_dismiss(struct children *children)
{
    join_killer(children);
    atomic_store(&children->child.board->leave, true);
}

bool children_gone(struct children *children)
{
    if (children->child.pid && spawned_has_ended(children->child.pid))
        children->child.pid = 0;
    return !children->child.pid;
}

void children_close(struct children *children)
{
    forget(&children->child);
}

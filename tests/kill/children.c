/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/base.h"
#include "cell.h"
#include "support/check.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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
    children_advance(children);
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

bool children_armed(struct children *children)
{
    return atomic_load(&children->armed);
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

void children_advance(struct children *children)
{
    forget(&children->child);
    children->child = children->next;
    children->next = (struct child){0};
    children->number = children->child.board->orders.number;
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

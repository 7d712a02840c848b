/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/sleep.h"
#include "cell.h"
#include "support/check.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void start_next(struct crew *crew)
{
    crew->orders.number++;
    crew->orders.passing = 1 + crew->orders.number % crew->varied;
    /* Every second link may drop frames where the honest receiver's blocks. */
    if (!crew->orders.sends)
        crew->orders.slow_receiver =
            crew->orders.number % 2 ? GPUD_SLOW_DEFAULT : GPUD_SLOW_DROP_OLDEST;
    child_start(&crew->next, &crew->orders);
}

/* Kills the child as soon as it stands at the point, and lets the next one go. */
static void *wait_and_kill(void *arg)
{
    struct crew *crew = arg;
    struct child_board *board = crew->child.board;
    pid_t pid = crew->child.pid;
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
    atomic_store(&crew->killed, gpud_test_now());
    atomic_store(&crew->next.board->go, true);
    atomic_store(&crew->armed, false);
    /* It is dead by now; to forget it takes a busy kernel seconds at times. */
    CHECK(waitpid(pid, &state, 0) == pid, "waitpid: %s", strerror(errno));
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL, "the child ended by itself: state %#x",
          state);
    return NULL;
}

static void join_killer(struct crew *crew)
{
    if (crew->kills)
        pthread_join(crew->killer, NULL);
    crew->kills = false;
}

void crew_open(struct crew *crew, const struct cell *cell, enum gpud_slow_receiver policy)
{
    const struct point *point = cell->point;
    bool sends = point_is_the_senders(point);
    bool rare = point->provoke != BY_FRAMES && point->provoke != BY_EVENTS;
    *crew = (struct crew){.varied = rare ? 3 : 5};
    crew->orders = (struct child_orders){
        .sends = sends,
        .provoke = point->provoke,
        .slow_receiver = policy,
    };
    if (point->provoke == BY_A_HELD_GPU || point->provoke == BY_GROWTH)
        crew->varied = 1; /* what makes the process pass there happens once */
    snprintf(crew->orders.device, sizeof(crew->orders.device), "%s",
             sends ? cell->way->from : cell->way->to);
    snprintf(crew->orders.route, sizeof(crew->orders.route), "%s", cell->way->route);
    snprintf(crew->orders.point, sizeof(crew->orders.point), "%s", point->name);
    start_next(crew);
    atomic_store(&crew->next.board->go, true);
    crew_advance(crew);
}

void crew_arm(struct crew *crew)
{
    join_killer(crew);
    start_next(crew);
    PEER_UNTIL("the next child stands by", 20000, atomic_load(&crew->next.board->ready));
    atomic_store(&crew->armed, true);
    atomic_store(&crew->child.board->armed, true);
    CHECK(pthread_create(&crew->killer, NULL, wait_and_kill, crew) == 0, "no thread");
    crew->kills = true;
}

bool crew_is_armed(struct crew *crew)
{
    return atomic_load(&crew->armed);
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

void crew_advance(struct crew *crew)
{
    forget(&crew->child);
    crew->child = crew->next;
    crew->next = (struct child){0};
    crew->number = crew->child.board->orders.number;
}

void crew_dismiss(struct crew *crew)
{
    join_killer(crew);
    atomic_store(&crew->child.board->leave, true);
}

bool crew_is_gone(struct crew *crew)
{
    int state = 0;
    if (crew->child.pid && waitpid(crew->child.pid, &state, WNOHANG) == crew->child.pid) {
        CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the last child failed: state %#x",
              state);
        crew->child.pid = 0;
    }
    return !crew->child.pid;
}

void crew_close(struct crew *crew)
{
    forget(&crew->child);
}

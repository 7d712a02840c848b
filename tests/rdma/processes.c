/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Peers in processes of their own, which are killed, stopped, or may not lock memory. */
#include "cases.h"

#include "support/spawn_again.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define TARGET 65536

struct peer {
    pid_t pid;
    struct end end;
};

/* What a peer says of its memory. */
struct place {
    uint64_t address;
    uint32_t key;
};

static pid_t start(const char *role, uint16_t port)
{
    pid_t pid;
    char text[16];
    gpud_print(text, "%u", port);
    char *arguments[] = {"peer", (char *)role, text, NULL};
    int number = spawn_again(&pid, NULL, arguments, environ);
    CHECK(number == 0, "no process: %s", strerror(number));
    return pid;
}

static void start_peer(struct rdma_cm_id *listener, struct peer *peer, struct place *place)
{
    const void *message;
    size_t size;
    peer->pid = start("target", port_of(listener));
    accept_end(listener, &peer->end);
    int64_t deadline = gpud_deadline(PATIENCE);
    while (gpud_rdma_receive(peer->end.rdma, &message, &size, NULL) != GPUD_OK)
        CHECK(gpud_now() < deadline && usleep(1000) == 0, "the peer says nothing");
    CHECK_EQUAL(size, sizeof(*place));
    memcpy(place, message, size);
}

/* A process that is killed is noticed, by its card's silence; one that is stopped longer than that
 * takes is alive, and its memory can be written. */
void test_deaths(void)
{
    struct peer killed, stopped;
    struct place killed_place, stopped_place;
    struct target from;
    struct gpud_error error;
    struct rdma_cm_id *listener = listen_anywhere();
    start_peer(listener, &killed, &killed_place);
    start_peer(listener, &stopped, &stopped_place);
    rdma_destroy_id(listener);
    make_target(&stopped.end, TARGET, GPUD_RDMA_LOCAL, &from);
    CHECK(kill(stopped.pid, SIGSTOP) == 0 && kill(killed.pid, SIGKILL) == 0, "kill: %m");
    CHECK(waitpid(killed.pid, NULL, 0) == killed.pid, "waitpid: %m");

    int64_t deadline = gpud_deadline(PATIENCE);
    uint64_t writes = 0;
    while (gpud_rdma_is_alive(killed.end.rdma)) {
        struct gpud_rdma_transfer transfer = {
            .local = from.region,
            .remote_address = stopped_place.address,
            .remote_key = stopped_place.key,
            .size = TARGET,
        };
        CHECK(gpud_now() < deadline, "the death is not noticed");
        CHECK(gpud_rdma_is_alive(stopped.end.rdma), "a stopped peer lives");
        if (writes++ % 10 == 0) {
            WORKS(gpud_rdma_write(stopped.end.rdma, &transfer, &e));
            gpud_rdma_notify(stopped.end.rdma, true);
            drain(&stopped.end);
        }
        usleep(20000);
    }
    CHECK(gpud_rdma_has_failed(killed.end.rdma, &error) &&
              strstr(error.reason, "does not answer any more"),
          "the killed one: %s", error.reason);
    CHECK(gpud_rdma_is_alive(stopped.end.rdma), "the stopped one lives");
    CHECK(kill(stopped.pid, SIGKILL) == 0, "kill: %m");
    CHECK(waitpid(stopped.pid, NULL, 0) == stopped.pid, "waitpid: %m");
    drop_target(&from);
    drop_end(&stopped.end);
    drop_end(&killed.end);
}

/* A process that may not lock enough memory is told how to raise the limit. */
void test_locked_memory(void)
{
    AUTO(drop_end) struct end end;
    int status;
    struct rdma_cm_id *listener = listen_anywhere();
    pid_t pid = start("limited", port_of(listener));
    accept_end(listener, &end);
    CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %m");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the limited process failed");
    rdma_destroy_id(listener);
}

/* --- in processes of their own ------------------------------------------------------------- */

static int play_target(uint16_t port)
{
    struct end end;
    struct target target;
    struct place place;
    connect_end(port, &end);
    make_target(&end, TARGET, GPUD_RDMA_REMOTE_WRITE, &target);
    place.address = gpud_rdma_region_address(target.region);
    place.key = gpud_rdma_region_key(target.region);
    WORKS(gpud_rdma_send(end.rdma, &place, sizeof(place), &e));
    while (gpud_rdma_is_alive(end.rdma))
        usleep(10000);
    return 0;
}

static int play_limited(uint16_t port)
{
    AUTO(drop_end) struct end end;
    AUTO(gpud_rdma_unregister) struct gpud_rdma_region *region = NULL;
    static char large[8 << 20];
    const struct rlimit limit = {.rlim_cur = 4 << 20, .rlim_max = 4 << 20};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: %m");
    CHECK(setuid(65534) == 0, "setuid: %m");
    connect_end(port, &end);
    EXPECT(GPUD_NO_MEMORY, "may lock 4096 kB",
           gpud_rdma_register(end.rdma, large, sizeof(large), 0, &region, &e));
    EXPECT(GPUD_NO_MEMORY, "ulimit -l",
           gpud_rdma_register(end.rdma, large, sizeof(large), 0, &region, &e));
    WORKS(gpud_rdma_register(end.rdma, large, 65536, 0, &region, &e));
    return 0;
}

int play_peer(const char *role, uint16_t port)
{
    return strcmp(role, "limited") == 0 ? play_limited(port) : play_target(port);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A program that uses the layer forks. The child may not use OpenCL, but it may exit(), and then
 * the layer's destructor runs in it, with whatever lock another thread held at the fork. And the
 * child must not keep alive what is its parent's. */

#include "common.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

enum { CHILDREN = 300, FEWEST = 10, SECONDS = 20, BUSY = 3, REAP_MS = 60000 };

/* The child exits; one that hangs is killed and fails the test. */
static void fork_and_exit(const char *which)
{
    int status = -1;
    pid_t got = 0;
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        exit(0);
    for (int ms = 0; ms < REAP_MS && (got = waitpid(pid, &status, WNOHANG)) == 0; ms++)
        sleep_ms(1);
    if (got == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        fprintf(stderr, "a child that was forked %s hung in exit()\n", which);
        _exit(1); /* no exit(): the lock may be held here too */
    }
    CHECK(got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- a lock of the layer held at the fork, for certain: these are called while it is ---- */

static atomic_bool armed;
static atomic_int forked_in_poller, forked_in_registry;

static bool called_by_layer(void *caller)
{
    Dl_info from;
    return atomic_load(&armed) && dladdr(caller, &from) && from.dli_fname &&
           strstr(from.dli_fname, "libgpudirect-dgma-layer");
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    if (called_by_layer(__builtin_return_address(0))) {
        atomic_fetch_add(&forked_in_poller, 1);
        fork_and_exit("while the layer starts its thread");
    }
    return sigprocmask(how, set, old); /* on Linux the same, for the calling thread */
}

ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
    static ssize_t (*real)(void *, size_t, unsigned);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getrandom");
    if (called_by_layer(__builtin_return_address(0))) {
        atomic_fetch_add(&forked_in_registry, 1);
        fork_and_exit("while the layer chooses an address");
    }
    return real(buffer, size, flags);
}

static void forks_under_a_lock(struct cl *cl)
{
    atomic_store(&armed, true);
    AUTO(close_pair) struct pair pair = open_pair(cl, cl, PAGE);
    OK(cl->wait_signal(cl->queue, pair.bus, 1, 0, NULL, NULL));
    atomic_store(&armed, false);
    AUTO(drop_queue) cl_command_queue other = new_queue(cl, 0, false);
    OK(cl->write_signal(other, pair.external, 1, 0, 0, NULL, NULL));
    OK(clFinish(cl->queue));
    CHECK(atomic_load(&forked_in_registry) > 0 && atomic_load(&forked_in_poller) > 0);
}

static atomic_bool stop;

static int keep_busy(void *user_data)
{
    AUTO(close_cl) struct cl cl = *(struct cl *)user_data;
    open_context(&cl);
    while (!atomic_load(&stop)) {
        struct bus_address address;
        AUTO(drop_mem) cl_mem bus = new_resident(&cl, PAGE, &address);
        OK(cl.wait_signal(cl.queue, bus, 0, 0, NULL, NULL));
        OK(clFinish(cl.queue));
    }
    return 0;
}

static void forks_among_busy_threads(struct cl *cl)
{
    thrd_t threads[BUSY];
    for (int i = 0; i < BUSY; i++)
        CHECK(thrd_create(&threads[i], keep_busy, cl) == thrd_success);
    double end = now_us() + SECONDS * 1e6; /* a sanitizer makes each fork slow */
    for (int i = 0; i < CHILDREN && (i < FEWEST || now_us() < end); i++)
        fork_and_exit("among busy threads");
    atomic_store(&stop, true);
    for (int i = 0; i < BUSY; i++)
        CHECK(thrd_join(threads[i], NULL) == thrd_success);
}

/* ---- an owner's helper lives on ---- */

struct note {
    struct bus_address address;
    pid_t helper;
};

/* In the owner: a buffer, a forked helper that sleeps, and then its end. */
static _Noreturn void child_owns(void)
{
    struct note note;
    struct cl cl = open_cl(120);
    new_resident(&cl, PAGE, &note.address);
    pid_t closes_all = fork();
    if (closes_all == 0) { /* as daemons do; what it closes is its own */
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        _exit(0);
    }
    CHECK(waitpid(closes_all, NULL, 0) == closes_all);
    note.helper = fork();
    if (note.helper == 0) {
        close(STDOUT_FILENO);
        for (;;)
            pause();
    }
    give(STDOUT_FILENO, &note, sizeof note);
    for (;;)
        pause();
}

static void helper_outlives_owner(struct cl *cl)
{
    struct note note;
    struct child owner = start("owns");
    take(owner.from, &note, sizeof note);
    OK(create(cl->context, EXTERNAL_PHYSICAL, PAGE, &note.address));
    kill_child(&owner);
    cl_int status = create(cl->context, EXTERNAL_PHYSICAL, PAGE, &note.address);
    bool helper_lived = kill(note.helper, SIGKILL) == 0;
    CHECK(helper_lived);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    CHECK(!object_exists(&note.address));
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    if (only && strcmp(only, "owns") == 0)
        child_owns();
    AUTO(close_cl) struct cl cl = open_cl(300);
    if (!only || strcmp(only, "helper") == 0)
        helper_outlives_owner(&cl);
    if (!only || strcmp(only, "lock") == 0)
        forks_under_a_lock(&cl);
    if (!only || strcmp(only, "busy") == 0)
        forks_among_busy_threads(&cl);
    return 0;
}

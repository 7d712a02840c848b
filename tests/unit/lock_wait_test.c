/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waiting for the lock of an address: every end of its holder is an event, and of many that wait
 * each gets it in turn. */
#include "base/base.h"
#include "support/run.h"
#include "wire/unix/unix.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>

#define THREADS 6
#define TURNS 20

static char path[64];

static bool is_raised(const struct gpud_lock_wait *wait, int milliseconds)
{
    struct pollfd fd = {.fd = wait->events, .events = POLLIN};
    return poll(&fd, 1, milliseconds) == 1;
}

/* A process that has the lock: it drops the lock when it is asked to by SIGTERM, and lives on. With
 * an heir: a child that it forked, and that runs no other program. */
struct holder {
    pid_t pid, heir;
};

static atomic_bool asked;
static void ask(int number)
{
    (void)number;
    atomic_store(&asked, true);
}

static void hold(void *with_heir, int ready)
{
    int lock;
    pid_t heir = 0;
    if (gpud_lock_file_take(path, &lock, NULL) != GPUD_OK)
        return;
    signal(SIGTERM, ask);
    test_alarm(60);
    if (*(bool *)with_heir && (heir = fork()) == 0) {
        test_alarm(60);
        for (;;)
            pause();
    }
    if (write(ready, &heir, sizeof(heir)) != sizeof(heir))
        return;
    while (!atomic_load(&asked))
        usleep(1000);
    gpud_lock_file_drop(path, &lock);
    for (;;)
        pause();
}

static void begin(struct gpud_lock_wait *wait)
{
    int lock;
    WORKS(gpud_lock_wait_begin(wait, &e));
    CHECK(gpud_lock_wait_try(wait, path, &lock, NULL) == GPUD_AGAIN, "taken from its holder");
    CHECK(!is_raised(wait, 0), "an event before the holder ends");
}

/* And a wait for its lock, which is not free. */
static struct holder start_holder(bool with_heir, struct gpud_lock_wait *wait)
{
    struct holder holder;
    holder.pid = start_child(hold, &with_heir, &holder.heir, sizeof(holder.heir));
    begin(wait);
    return holder;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* As gpud_lock_wait_try() is used: an event may come a moment too soon. */
static int get(struct gpud_lock_wait *wait)
{
    int64_t deadline = gpud_deadline(30 * GPUD_SEC);
    int lock;
    while (gpud_lock_wait_try(wait, path, &lock, NULL) != GPUD_OK) {
        CHECK(gpud_now() < deadline, "the lock is not free");
        is_raised(wait, 1000);
    }
    return lock;
}

/* Takes the lock upon an event, and drops it. */
static void take(struct gpud_lock_wait *wait, const char *what)
{
    CHECK(is_raised(wait, 30000), "no event when %s", what);
    int lock = get(wait);
    gpud_lock_wait_end(wait);
    CHECK(gpud_lock_find(path, false) == getpid(), "the file names another holder");
    gpud_lock_file_drop(path, &lock);
}

static atomic_bool asks;

static void *ask_all_the_time(void *arg)
{
    while (atomic_load(&asks))
        gpud_lock_is_held(path);
    return arg;
}

static void test_waits(void)
{
    struct gpud_lock_wait wait;
    SAY("a killed holder, which was stopped before");
    struct holder holder = start_holder(false, &wait);
    kill(holder.pid, SIGSTOP);
    CHECK(!is_raised(&wait, 100), "an event when the holder is stopped");
    end(holder.pid);
    take(&wait, "the holder is killed");
    SAY("one that lets go");
    holder = start_holder(false, &wait);
    kill(holder.pid, SIGTERM);
    take(&wait, "the lock is dropped");
    end(holder.pid);
    SAY("a killed one with a child");
    holder = start_holder(true, &wait);
    end(holder.pid);
    take(&wait, "the holder is killed");
    CHECK(kill(holder.heir, SIGKILL) == 0, "the child did not live on");

    SAY("queries, and two that wait");
    struct gpud_lock_wait first, second;
    holder = start_holder(false, &first);
    int lock;
    begin(&second);
    CHECK(gpud_lock_find(path, false) == holder.pid, "the holder is not found");
    CHECK(gpud_lock_wait_try(&second, path, &lock, NULL) == GPUD_AGAIN, "taken");
    CHECK(!is_raised(&first, 0), "woken by a query, or by another that waits");
    end(holder.pid);
    lock = get(&first);
    CHECK(gpud_lock_wait_try(&second, path, &(int){0}, NULL) == GPUD_AGAIN, "taken twice");
    gpud_lock_wait_end(&first);
    gpud_lock_file_drop(path, &lock);
    take(&second, "the first one that waited drops it");

    SAY("queries without a pause take nothing from the one that waits");
    pthread_t threads[THREADS];
    holder = start_holder(false, &wait);
    CHECK(gpud_lock_is_held(path), "the holder is not found");
    atomic_store(&asks, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, ask_all_the_time, NULL) == 0, "no thread");
    end(holder.pid);
    CHECK(is_raised(&wait, 30000), "no event when the holder is killed");
    for (int i = 0; i < TURNS; i++) {
        WORKS(gpud_lock_wait_try(&wait, path, &lock, &e));
        gpud_fd_close(&lock); /* as if killed */
    }
    atomic_store(&asks, false);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    gpud_lock_wait_end(&wait);

    SAY("a file that another user has put there, who could hold its lock for ever");
    char name[80];
    gpud_print(name, "%s.lock", path);
    unlink(name);
    if (geteuid() != 0) {
        SAY("  not root: left out");
        return;
    }
    int squatter = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    CHECK(squatter >= 0 && fchown(squatter, 65534, 65534) == 0 && fchmod(squatter, 0666) == 0 &&
              flock(squatter, LOCK_EX) == 0,
          "%s: %s", name, strerror(errno));
    EXPECT(GPUD_NO_ACCESS, "belongs to", gpud_lock_file_take(path, &lock, &e));
    WORKS(gpud_lock_wait_begin(&wait, &e));
    EXPECT(GPUD_NO_ACCESS, "belongs to", gpud_lock_wait_try(&wait, path, &lock, &e));
    gpud_lock_wait_end(&wait);
    close(squatter);
    unlink(name);
    CHECK(symlink("/etc/passwd", name) == 0, "symlink");
    EXPECT(GPUD_NO_ACCESS, "not a lock file", gpud_lock_file_take(path, &lock, &e));
    unlink(name);
}

static atomic_int holders, turns;

static void *take_turns(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        struct gpud_lock_wait wait;
        WORKS(gpud_lock_wait_begin(&wait, &e));
        int lock = get(&wait);
        gpud_lock_wait_end(&wait);
        CHECK(atomic_fetch_add(&holders, 1) == 0, "two have the lock");
        atomic_fetch_add(&turns, 1);
        atomic_fetch_sub(&holders, 1);
        if (i % 2)
            gpud_lock_file_drop(path, &lock);
        else
            gpud_fd_close(&lock); /* as if killed: the file stays */
    }
    return arg;
}

int main(void)
{
    char base[] = "/tmp/gpud-lockwait-XXXXXX", left[96];
    struct gpud_lock_wait wait;
    int lock;
    CHECK(mkdtemp(base), "mkdtemp");
    gpud_print(path, "%s/cam", base);
    test_waits();
    SAY("many");
    run_threads(THREADS, take_turns, NULL);
    CHECK_EQUAL(atomic_load(&turns), THREADS * TURNS);
    SAY("no file");
    WORKS(gpud_lock_wait_begin(&wait, &e));
    EXPECT(GPUD_IO, "no folder /nonexistent-directory",
           gpud_lock_wait_try(&wait, "/nonexistent-directory/x", &lock, &e));
    gpud_lock_wait_end(&wait);
    gpud_lock_wait_end(&wait); /* again: nothing */
    gpud_print(left, "%s.lock", path);
    unlink(left);
    CHECK(rmdir(base) == 0, "something is left in %s", base);
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The order of locks is checked: each violation aborts a process with a message. And a lock with
 * priority inheritance gives its waiter's priority to the thread that holds it. */
#include "base/base.h"
#include "support/check.h"
#include "support/make.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct gpud_lock sender = GPUD_LOCK_INITIALIZER(GPUD_RANK_SENDER);
static struct gpud_lock other_sender = GPUD_LOCK_INITIALIZER(GPUD_RANK_SENDER);
static struct gpud_lock context = GPUD_LOCK_INITIALIZER(GPUD_RANK_CONTEXT);
static pthread_cond_t condition;

static const char *const violations[] = {
    "lock \"sender\" is taken after \"context\"",
    "lock \"sender\" is taken after \"sender\"",
    "lock \"sender\" is taken twice",
    "lock \"sender\" is released, and not held",
    "lock \"context\" is waited under while the thread keeps",
    "lock \"sender\" is taken after \"sender\"",
    "lock \"sender\" should be held here",
    "lock \"context\" must not be held here",
};

static void violate(unsigned how)
{
    switch (how) {
    case 0:
        gpud_lock_take(&context);
        gpud_lock_take(&sender);
        break;
    case 1:
        gpud_lock_take(&sender);
        gpud_lock_take(&other_sender);
        break;
    case 2:
        gpud_lock_take(&sender);
        gpud_lock_take(&sender);
        break;
    case 3:
        gpud_lock_release(&sender);
        break;
    case 4:
        gpud_lock_take(&sender);
        gpud_lock_take(&context);
        gpud_lock_wait_until(&context, &condition, gpud_deadline(GPUD_MSEC));
        break;
    case 5: /* after a try, which may come in any order */
        gpud_lock_take(&sender);
        if (gpud_lock_try(&context))
            gpud_lock_take(&other_sender);
        break;
    case 6:
        gpud_lock_assert_held(&sender);
        break;
    case 7:
        gpud_lock_take(&context);
        gpud_lock_assert_free(GPUD_RANK_CONTEXT);
    }
}

/* Runs it in a process of its own, which is aborted with that sentence. */
static void expect_abort(unsigned how)
{
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        dup2(ends[1], STDERR_FILENO);
        violate(how);
        _exit(0);
    }
    close(ends[1]);
    char said[1024] = "";
    size_t count = 0;
    for (ssize_t got; (got = read(ends[0], said + count, sizeof(said) - 1 - count)) > 0;)
        count += (size_t)got;
    close(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child, "no child");
    CHECK_SAYS(said, violations[how]);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "it lives on after \"%s\"", said);
    SAY("%.*s", (int)strcspn(said, "\n"), said);
}

static void *looks(void *arg)
{
    CHECK(!gpud_lock_held(GPUD_RANK_SENDER), "a lock of another thread counts");
    return NULL;
}

/* The priority at which the kernel runs the thread: 20 + nice, or what it inherits. */
static int running_priority(pid_t thread)
{
    char path[64], text[1024] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "re");
    CHECK(file && fread(text, 1, sizeof(text) - 1, file) > 0, "no %s", path);
    fclose(file);
    const char *field = strrchr(text, ')');
    for (int i = 0; field && i < 16; i++)
        field = strchr(field + 1, ' ');
    CHECK(field, "%s is \"%s\"", path, text);
    return atoi(field);
}

/* The holder is niced beforehand: a change while a thread waits would undo the inheritance. */
static atomic_bool may_wait;

static void *waits_for_it(void *arg)
{
    while (!atomic_load(&may_wait))
        sched_yield();
    gpud_lock_take(arg);
    gpud_lock_release(arg);
    return NULL;
}

int main(void)
{
    test_alarm(100);
    gpud_cond_init(&condition);
    for (unsigned how = 0; how < sizeof(violations) / sizeof(violations[0]); how++)
        expect_abort(how);
    gpud_lock_take(&sender);
    gpud_lock_take(&context);
    CHECK(gpud_lock_held(GPUD_RANK_SENDER) && gpud_lock_held(GPUD_RANK_CONTEXT), "not noted");
    pthread_t thread = NEW_THREAD(looks, NULL);
    pthread_join(thread, NULL);
    gpud_lock_release(&sender); /* in any order */
    CHECK(!gpud_lock_held(GPUD_RANK_SENDER), "it was released");
    gpud_lock_assert_held(&context);
    CHECK(gpud_lock_try(&sender), "a try waits for nothing, and may come in any order");
    gpud_lock_release(&context);
    CHECK(!gpud_lock_wait_until(&sender, &condition, gpud_deadline(GPUD_MSEC)),
          "it was not signalled");
    gpud_lock_release(&sender);
    gpud_lock_assert_free(GPUD_RANK_SENDER);
    gpud_lock_assert_free(GPUD_RANK_CONTEXT);

    struct gpud_lock lock;
    gpud_lock_init_inheriting(&lock, GPUD_RANK_SENDER);
    int usual = running_priority(gettid());
    gpud_lock_take(&lock);
    thread = NEW_THREAD(waits_for_it, &lock);
    CHECK(setpriority(PRIO_PROCESS, (id_t)gettid(), 19) == 0, "no nice");
    atomic_store(&may_wait, true);
    int64_t limit = gpud_deadline(30 * GPUD_SEC);
    int priority;
    do
        priority = running_priority(gettid());
    while (priority != usual && gpud_now() < limit);
    gpud_lock_release(&lock);
    pthread_join(thread, NULL);
    CHECK(priority == usual, "the holder runs at %d, not at its waiter's %d", priority, usual);
    CHECK_EQUAL(running_priority(gettid()), 39);
    gpud_lock_destroy(&lock);
    return 0;
}

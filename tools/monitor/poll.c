/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "monitor/poll.h"

#include "monitor/expect.h"

#include <string.h>

struct monitor_poll {
    const struct channels_scope *scope;
    char *const *expect;
    monitor_poll_done done;
    void *user;
    GThread *thread;
    GMutex lock;
    GCond wake;
    bool stopping;
    GQueue answers; /* struct monitor_answer; as many calls of deliver() are under way */
};

static void answer_free(gpointer data)
{
    struct monitor_answer *answer = data;
    g_clear_pointer(&answer->folders, g_ptr_array_unref);
    g_clear_pointer(&answer->expected, g_hash_table_unref);
    g_free(answer->expect_error);
    g_free(answer);
}

/* A bare name is found by its folder, if that is searched. */
static bool has_to_be_asked(const struct channels_scope *scope, const char *address)
{
    return strchr(address, ':') || scope->folders;
}

/* The files are read each time: they may change at any time, and are small. */
static void ask(const struct monitor_poll *poll, struct monitor_answer *answer)
{
    struct channels_scope scope = *poll->scope;
    GPtrArray *more = g_ptr_array_new();
    GError *error = NULL;
    GHashTableIter iter;
    gpointer address;
    if (poll->expect && !(answer->expected = monitor_expect_read(poll->expect, &error))) {
        answer->expect_error = g_strdup(error->message);
        g_error_free(error);
    }
    for (char *const *given = scope.more; given && *given; given++)
        g_ptr_array_add(more, *given);
    if (answer->expected)
        g_hash_table_iter_init(&iter, answer->expected);
    while (answer->expected && g_hash_table_iter_next(&iter, &address, NULL))
        if (has_to_be_asked(&scope, address))
            g_ptr_array_add(more, address);
    g_ptr_array_add(more, NULL);
    scope.more = (char **)more->pdata;
    answer->folders = channels_ask(&scope, &answer->error);
    g_ptr_array_unref(more);
}

static gboolean deliver(gpointer data)
{
    struct monitor_poll *poll = data;
    g_mutex_lock(&poll->lock);
    struct monitor_answer *answer = g_queue_pop_head(&poll->answers);
    g_mutex_unlock(&poll->lock);
    poll->done(poll->user, answer);
    answer_free(answer);
    return G_SOURCE_REMOVE;
}

static gpointer run(gpointer data)
{
    struct monitor_poll *poll = data;
    g_mutex_lock(&poll->lock);
    while (!poll->stopping) {
        g_mutex_unlock(&poll->lock);
        struct monitor_answer *answer = g_new0(struct monitor_answer, 1);
        /* A late question delays the next one, since rates over a short time are but noise. */
        gint64 next = (answer->asked = g_get_monotonic_time()) + G_USEC_PER_SEC;
        ask(poll, answer);
        g_mutex_lock(&poll->lock);
        g_queue_push_tail(&poll->answers, answer);
        g_idle_add_full(G_PRIORITY_DEFAULT, deliver, poll, NULL);
        while (!poll->stopping && g_cond_wait_until(&poll->wake, &poll->lock, next))
            ;
    }
    g_mutex_unlock(&poll->lock);
    return NULL;
}

struct monitor_poll *monitor_poll_start(const struct channels_scope *scope, char *const *expect,
                                        monitor_poll_done done, void *user)
{
    struct monitor_poll *poll = g_new0(struct monitor_poll, 1);
    poll->scope = scope;
    poll->expect = expect;
    poll->done = done;
    poll->user = user;
    g_mutex_init(&poll->lock);
    g_cond_init(&poll->wake);
    poll->thread = g_thread_new("poll", run, poll);
    return poll;
}

void monitor_poll_stop(struct monitor_poll *poll)
{
    g_mutex_lock(&poll->lock);
    poll->stopping = true;
    g_cond_signal(&poll->wake);
    g_mutex_unlock(&poll->lock);
    g_thread_join(poll->thread);
    while (g_source_remove_by_user_data(poll))
        ;
    g_queue_clear_full(&poll->answers, answer_free);
    g_mutex_clear(&poll->lock);
    g_cond_clear(&poll->wake);
    g_free(poll);
}

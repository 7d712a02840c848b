/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "monitor/poll.h"

struct monitor_poll {
    const struct channels_scope *scope;
    monitor_poll_done done;
    void *user;
    GThread *thread;
    GMutex lock;
    GCond wake;
    bool stopping;
    GQueue answers; /* struct answer; as many calls of deliver() are under way */
};

struct answer {
    gint64 asked;
    GPtrArray *folders;
    struct gpud_error error;
};

static void answer_free(gpointer data)
{
    struct answer *answer = data;
    g_clear_pointer(&answer->folders, g_ptr_array_unref);
    g_free(answer);
}

static gboolean deliver(gpointer data)
{
    struct monitor_poll *poll = data;
    g_mutex_lock(&poll->lock);
    struct answer *answer = g_queue_pop_head(&poll->answers);
    g_mutex_unlock(&poll->lock);
    poll->done(poll->user, answer->asked, g_steal_pointer(&answer->folders), answer->error.reason);
    answer_free(answer);
    return G_SOURCE_REMOVE;
}

static gpointer run(gpointer data)
{
    struct monitor_poll *poll = data;
    g_mutex_lock(&poll->lock);
    while (!poll->stopping) {
        g_mutex_unlock(&poll->lock);
        struct answer *answer = g_new0(struct answer, 1);
        /* A late question delays the next one, since rates over a short time are but noise. */
        gint64 next = (answer->asked = g_get_monotonic_time()) + G_USEC_PER_SEC;
        answer->folders = channels_ask(poll->scope, &answer->error);
        g_mutex_lock(&poll->lock);
        g_queue_push_tail(&poll->answers, answer);
        g_idle_add_full(G_PRIORITY_DEFAULT, deliver, poll, NULL);
        while (!poll->stopping && g_cond_wait_until(&poll->wake, &poll->lock, next))
            ;
    }
    g_mutex_unlock(&poll->lock);
    return NULL;
}

struct monitor_poll *monitor_poll_start(const struct channels_scope *scope, monitor_poll_done done,
                                        void *user)
{
    struct monitor_poll *poll = g_new0(struct monitor_poll, 1);
    poll->scope = scope;
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

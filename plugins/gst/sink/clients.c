/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers that connect and disconnect. The core calls back on its own thread, where a callback
 * must neither block nor call the core; an application's signal handler may do both. So each change
 * goes through a queue, which a thread of GStreamer's pool empties in order.
 *
 * State changes do not wait for that thread. A handler may still run after the element has left its
 * bin, whose bus would still deliver messages, so none are posted after stop(). Stopping waits for
 * a message that is being posted, as it does in streaming threads, but never for a handler. */
#include "sink/clients.h"

#include "sink/debug.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

enum { SIGNAL_CLIENT_CONNECTED, SIGNAL_CLIENT_DISCONNECTED, SIGNAL_COUNT };
static guint signals[SIGNAL_COUNT];

struct client_event {
    gboolean connected;
    struct gpud_peer_info peer;
};

static GstStructure *peer_structure(const char *name, const struct gpud_peer_info *peer)
{
    return gst_structure_new(name, "id", G_TYPE_UINT64, peer->id, "pid", G_TYPE_INT64, peer->pid,
                             "host", G_TYPE_STRING, peer->host, "name", G_TYPE_STRING, peer->name,
                             "path", G_TYPE_STRING, peer->path, "fallback-reason", G_TYPE_STRING,
                             peer->fallback_reason, NULL);
}

static void post(struct sink_clients *clients, GstStructure *structure)
{
    GstMessage *message = gst_message_new_element(GST_OBJECT(clients->element), structure);

    g_mutex_lock(&clients->post_lock);
    if (clients->may_post)
        gst_element_post_message(clients->element, g_steal_pointer(&message));
    g_mutex_unlock(&clients->post_lock);
    g_clear_pointer(&message, gst_message_unref);
}

void sink_clients_let_post(struct sink_clients *clients, gboolean let)
{
    g_mutex_lock(&clients->post_lock);
    clients->may_post = let;
    g_mutex_unlock(&clients->post_lock);
}

static void notify(struct sink_clients *clients, const struct client_event *event)
{
    static const char *const names[] = {"gpudirect-client-disconnected",
                                        "gpudirect-client-connected"};
    GstStructure *structure = peer_structure(names[event->connected], &event->peer);

    GST_INFO_OBJECT(clients->element, "%" GST_PTR_FORMAT, structure);
    g_signal_emit(clients->element,
                  signals[event->connected ? SIGNAL_CLIENT_CONNECTED : SIGNAL_CLIENT_DISCONNECTED],
                  0, event->peer.id, structure);
    post(clients, structure);
    g_object_notify(G_OBJECT(clients->element), "num-clients");
    if (!event->connected)
        return;
    g_object_notify(G_OBJECT(clients->element), "active-path");
    g_object_notify(G_OBJECT(clients->element), "fallback-reason");
}

static void notify_all(GstElement *element, gpointer user)
{
    struct sink_clients *clients = user;

    g_mutex_lock(&clients->lock);
    struct client_event *event;
    while ((event = g_queue_pop_head(&clients->changes))) {
        g_mutex_unlock(&clients->lock);
        notify(clients, event);
        g_free(event);
        g_mutex_lock(&clients->lock);
    }
    clients->notifying = FALSE;
    g_mutex_unlock(&clients->lock);
}

static void enqueue(struct sink_clients *clients, gboolean connected,
                    const struct gpud_peer_info *peer)
{
    struct client_event *event = g_new(struct client_event, 1);

    event->connected = connected;
    event->peer = *peer;
    g_mutex_lock(&clients->lock);
    g_queue_push_tail(&clients->changes, event);
    gboolean start = !clients->notifying;
    clients->notifying = TRUE;
    g_mutex_unlock(&clients->lock);
    if (start)
        gst_element_call_async(clients->element, notify_all, clients, NULL);
}

void sink_clients_on_connect(void *user, const struct gpud_peer_info *peer)
{
    struct sink_clients *clients = user;

    g_atomic_int_inc(&clients->count);
    enqueue(clients, TRUE, peer);
}

void sink_clients_on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    struct sink_clients *clients = user;

    g_atomic_int_add(&clients->count, -1);
    enqueue(clients, FALSE, peer);
}

void sink_clients_clear(struct sink_clients *clients)
{
    g_mutex_lock(&clients->lock);
    g_queue_clear_full(&clients->changes, g_free);
    g_mutex_unlock(&clients->lock);
    g_atomic_int_set(&clients->count, 0);
}

void sink_clients_init(struct sink_clients *clients, GstElement *element)
{
    clients->element = element;
    g_mutex_init(&clients->lock);
    g_mutex_init(&clients->post_lock);
    g_queue_init(&clients->changes);
}

void sink_clients_finish(struct sink_clients *clients)
{
    sink_clients_clear(clients);
    g_mutex_clear(&clients->lock);
    g_mutex_clear(&clients->post_lock);
}

/**
 * GstGpudirectSink::client-connected:
 * @id: counts the connections from 1
 * @peer: id, pid, host, name, path and fallback-reason
 *
 * A receiver is connected and streams. Emitted from a thread that may call anything. */
void sink_clients_install_signals(GObjectClass *klass)
{
    static const gchar *const names[SIGNAL_COUNT] = {
        [SIGNAL_CLIENT_CONNECTED] = "client-connected",
        [SIGNAL_CLIENT_DISCONNECTED] = "client-disconnected",
    };

    for (guint i = 0; i < SIGNAL_COUNT; i++)
        signals[i] = g_signal_new(names[i], G_OBJECT_CLASS_TYPE(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 2, G_TYPE_UINT64,
                                  GST_TYPE_STRUCTURE | G_SIGNAL_TYPE_STATIC_SCOPE);
}

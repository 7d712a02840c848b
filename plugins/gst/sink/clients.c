/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers that come and go. The core calls back from a thread of its own, which must not be held
 * up and must not call the core; an application's signal handler may do both. So each change goes
 * through a queue, which a thread of GStreamer's pool empties in order.
 *
 * No change of state waits for that thread. A handler may still run when the element has left its
 * bin, whose bus would still pass a message on, so after stop() no message is posted. Stopping
 * waits for a message that is being posted, as it does in streaming threads, and never for a signal
 * handler. */
#include "sink/sink.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

guint gst_gpudirect_sink_signals[SIGNAL_COUNT];

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

static void post(GstGpudirectSink *self, GstStructure *structure)
{
    GstMessage *message = gst_message_new_element(GST_OBJECT(self), structure);

    g_mutex_lock(&self->post_lock);
    if (self->may_post)
        gst_element_post_message(GST_ELEMENT(self), g_steal_pointer(&message));
    g_mutex_unlock(&self->post_lock);
    g_clear_pointer(&message, gst_message_unref);
}

void gst_gpudirect_sink_let_post(GstGpudirectSink *self, gboolean let)
{
    g_mutex_lock(&self->post_lock);
    self->may_post = let;
    g_mutex_unlock(&self->post_lock);
}

static void notify(GstGpudirectSink *self, const struct client_event *event)
{
    static const char *const names[] = {"gpudirect-client-disconnected",
                                        "gpudirect-client-connected"};
    GstStructure *structure = peer_structure(names[event->connected], &event->peer);

    GST_INFO_OBJECT(self, "%" GST_PTR_FORMAT, structure);
    g_signal_emit(self,
                  gst_gpudirect_sink_signals[event->connected ? SIGNAL_CLIENT_CONNECTED
                                                              : SIGNAL_CLIENT_DISCONNECTED],
                  0, event->peer.id, structure);
    post(self, structure);
    g_object_notify(G_OBJECT(self), "num-clients");
    if (!event->connected)
        return;
    g_object_notify(G_OBJECT(self), "active-path");
    g_object_notify(G_OBJECT(self), "fallback-reason");
}

static void notify_all(GstElement *element, gpointer user)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(element);

    g_mutex_lock(&self->clients_lock);
    struct client_event *event;
    while ((event = g_queue_pop_head(&self->client_events))) {
        g_mutex_unlock(&self->clients_lock);
        notify(self, event);
        g_free(event);
        g_mutex_lock(&self->clients_lock);
    }
    self->notifying = FALSE;
    g_mutex_unlock(&self->clients_lock);
}

static void enqueue(GstGpudirectSink *self, gboolean connected, const struct gpud_peer_info *peer)
{
    struct client_event *event = g_new(struct client_event, 1);

    event->connected = connected;
    event->peer = *peer;
    g_mutex_lock(&self->clients_lock);
    g_queue_push_tail(&self->client_events, event);
    gboolean start = !self->notifying;
    self->notifying = TRUE;
    g_mutex_unlock(&self->clients_lock);
    if (start)
        gst_element_call_async(GST_ELEMENT(self), notify_all, NULL, NULL);
}

void gst_gpudirect_sink_on_connect(void *user, const struct gpud_peer_info *peer)
{
    GstGpudirectSink *self = user;

    g_atomic_int_inc(&self->num_clients);
    enqueue(self, TRUE, peer);
}

void gst_gpudirect_sink_on_disconnect(void *user, const struct gpud_peer_info *peer)
{
    GstGpudirectSink *self = user;

    g_atomic_int_add(&self->num_clients, -1);
    enqueue(self, FALSE, peer);
}

void gst_gpudirect_sink_clear_clients(GstGpudirectSink *self)
{
    g_mutex_lock(&self->clients_lock);
    g_queue_clear_full(&self->client_events, g_free);
    g_mutex_unlock(&self->clients_lock);
    g_atomic_int_set(&self->num_clients, 0);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receivers that are connected: counted, signalled to the application and reported on the bus.
 */
#ifndef GPUD_GST_SINK_CLIENTS_H
#define GPUD_GST_SINK_CLIENTS_H

#include <gpudirect/sender.h>
#include <gst/gst.h>

struct sink_clients {
    GstElement *element;
    gint count; /* atomic: connected receivers, as far as the core has called back */
    GMutex lock;
    GQueue changes; /* connects and disconnects that were not signalled yet */
    gboolean notifying;
    GMutex post_lock; /* held while a message is posted */
    gboolean may_post;
};

void sink_clients_install_signals(GObjectClass *klass);

void sink_clients_init(struct sink_clients *clients, GstElement *element);
void sink_clients_finish(struct sink_clients *clients);

/* The core's callbacks; user is the struct sink_clients. */
void sink_clients_on_connect(void *user, const struct gpud_peer_info *peer);
void sink_clients_on_disconnect(void *user, const struct gpud_peer_info *peer);

static inline guint sink_clients_count(struct sink_clients *clients)
{
    return (guint)MAX(0, g_atomic_int_get(&clients->count));
}

/* The sender is closed: forgets its receivers. */
void sink_clients_clear(struct sink_clients *clients);

/* Whether messages about receivers may be posted: from start to stop. */
void sink_clients_let_post(struct sink_clients *clients, gboolean let);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsink may wait for.
 *
 *     upstream      no receiver          a receiver is slow     the application asked for EOS
 *     live          drops frames         it loses the oldest    as before
 *     not live      waits                waits for it           waits for no connection, and for a
 *                                                               slow receiver at most SINK_WAIT
 *
 * Upstream reports whether it is live in the LATENCY query, possibly only once it has caps, or even
 * frames. A gpudirectsrc always says that it is; where it is the source, its sender's word counts,
 * so that a file is a file behind relays, too. The properties override all but the last column. */
#include "sink/policy.h"

#include "wire/event.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* --- the property ------------------------------------------------------------------------- */

static void enum_from_boolean(const GValue *from, GValue *to)
{
    to->data[0].v_long = g_value_get_boolean(from) ? WAIT_ALWAYS : WAIT_NEVER;
}

GType gst_gpudirect_wait_for_connection_get_type(void)
{
    static const GEnumValue values[] = {
        {WAIT_NEVER, "Drop frames while no receiver is connected", "false"},
        {WAIT_ALWAYS, "Block the stream while no receiver is connected", "true"},
        {WAIT_AUTO, "False if upstream is live, otherwise true", "auto"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type)) {
        GType made = g_enum_register_static("GstGpudirectWaitForConnection", values);
        /* Applications that set the property as a boolean still work. */
        g_value_register_transform_func(G_TYPE_BOOLEAN, made, enum_from_boolean);
        g_once_init_leave(&type, made);
    }
    return type;
}

/* --- the choice --------------------------------------------------------------------------- */

static gboolean is_live(GstGpudirectSink *self)
{
    return g_atomic_int_get(&self->live) == TRUE;
}

enum gpud_slow_receiver gst_gpudirect_sink_policy(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    enum gpud_slow_receiver policy = self->endpoint.settings.slow_receiver;
    GST_OBJECT_UNLOCK(self);
    if (policy != GPUD_SLOW_DEFAULT)
        return policy;
    return is_live(self) ? GPUD_SLOW_DROP_OLDEST : GPUD_SLOW_BLOCK;
}

gboolean gst_gpudirect_sink_waits(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    enum wait_for_connection wait = self->wait_for_connection;
    GST_OBJECT_UNLOCK(self);
    return wait == WAIT_ALWAYS || (wait == WAIT_AUTO && !is_live(self));
}

static void apply(GstGpudirectSink *self, enum gpud_slow_receiver policy)
{
    struct shared_sender *sender = gst_gpudirect_sink_ref_sender(self);

    if (sender)
        shared_sender_set_slow_receiver(sender, policy);
    shared_sender_unref(sender);
}

void gst_gpudirect_sink_apply_policy(GstGpudirectSink *self)
{
    apply(self, gst_gpudirect_sink_policy(self));
}

/* FALSE: there was no answer. */
static gboolean ask_latency(GstPad *pad, gboolean *live)
{
    GstQuery *query = gst_query_new_latency();
    gboolean answered = gst_pad_query(pad, query);

    if (answered)
        gst_query_parse_latency(query, live, NULL, NULL);
    gst_query_unref(query);
    return answered;
}

/* Of a source's pad. */
static gboolean is_source_live(GstPad *pad)
{
    GstQuery *query = query_new_sender_live();
    gboolean live = TRUE;

    if (!gst_pad_query(pad, query) || !query_get_sender_live(query, &live))
        ask_latency(pad, &live);
    gst_query_unref(query);
    return live;
}

/* Elements between a source and the sink, at most; it also ends where pads form a circle. */
#define DEPTH_MAX 64

/* Whether any of the sources behind a source pad is live. Each is asked by itself, because elements
 * with several inputs know nothing of our query. */
static gboolean has_live_source(GstPad *pad, guint depth)
{
    GstIterator *links = gst_pad_iterate_internal_links(pad);
    gboolean live = links == NULL || depth == 0, is_source = TRUE;
    GstIteratorResult result = GST_ITERATOR_DONE;
    GValue link = G_VALUE_INIT;

    while (!live && (result = gst_iterator_next(links, &link)) == GST_ITERATOR_OK) {
        GstPad *peer = gst_pad_get_peer(g_value_get_object(&link));
        is_source = FALSE;
        live = peer && has_live_source(peer, depth - 1);
        gst_clear_object(&peer);
        g_value_reset(&link);
    }
    g_value_unset(&link);
    g_clear_pointer(&links, gst_iterator_free);
    if (result == GST_ITERATOR_RESYNC || result == GST_ITERATOR_ERROR)
        return TRUE; /* the pipeline is being changed */
    return is_source && !live ? is_source_live(pad) : live;
}

gboolean gst_gpudirect_sink_query_live(GstGpudirectSink *self)
{
    GstPad *upstream = gst_pad_get_peer(GST_BASE_SINK_PAD(self));
    gboolean live = FALSE, answered = upstream && ask_latency(upstream, &live);

    live = live && has_live_source(upstream, DEPTH_MAX);
    gst_clear_object(&upstream);
    if (!answered || g_atomic_int_get(&self->live) == !!live)
        return answered;
    g_atomic_int_set(&self->live, !!live);
    enum gpud_slow_receiver policy = gst_gpudirect_sink_policy(self);
    apply(self, policy);
    GST_INFO_OBJECT(self, "upstream is %s: a receiver that is slow %s, the first one is %s",
                    live ? "live" : "not live",
                    policy == GPUD_SLOW_BLOCK ? "is waited for" : "loses frames",
                    gst_gpudirect_sink_waits(self) ? "waited for" : "not waited for");
    return TRUE;
}

void gst_gpudirect_sink_set_ending(GstGpudirectSink *self, gboolean ending)
{
    g_atomic_int_set(&self->ending, ending);
    if (!ending)
        gst_gpudirect_sink_apply_policy(self);
}

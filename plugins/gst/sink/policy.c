/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsink may wait for.
 *
 *     upstream      nobody connected     a receiver is slow     the application asked for an end
 *     live          frames go by         it loses the oldest    as before
 *     not live      waits                waits for it           waits for nobody to come, and for a
 *                                                               slow one no more than SINK_WAIT
 *
 * Whether upstream is live is known by its answer to a LATENCY query, which it may not have before
 * it has caps, or even frames. The properties overrule all but the last column. */
#include "errors.h"
#include "sink/sink.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* After about a second without a receiver an INFO message says so. */
#define WAITS_UNTIL_TOLD 5

/* --- the property ------------------------------------------------------------------------- */

static void enum_from_boolean(const GValue *from, GValue *to)
{
    to->data[0].v_long = g_value_get_boolean(from) ? WAIT_ALWAYS : WAIT_NEVER;
}

GType gst_gpudirect_wait_for_connection_get_type(void)
{
    static const GEnumValue values[] = {
        {WAIT_NEVER, "Frames go by while nobody is connected", "false"},
        {WAIT_ALWAYS, "The stream stands still until somebody is connected", "true"},
        {WAIT_AUTO, "False where upstream is live, else true", "auto"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type)) {
        GType made = g_enum_register_static("GstGpudirectWaitForConnection", values);
        /* So that applications which set it as a boolean still work. */
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
    enum gpud_slow_receiver policy = self->settings.slow_receiver;
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

gboolean gst_gpudirect_sink_query_live(GstGpudirectSink *self)
{
    GstQuery *query = gst_query_new_latency();
    gboolean live = FALSE, answered = gst_pad_peer_query(GST_BASE_SINK_PAD(self), query);

    if (answered)
        gst_query_parse_latency(query, &live, NULL, NULL);
    gst_query_unref(query);
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

/* --- waiting ------------------------------------------------------------------------------ */

GstFlowReturn gst_gpudirect_sink_may_retry(GstGpudirectSink *self, enum gpud_status status)
{
    if (status != GPUD_AGAIN && status != GPUD_TIMEOUT)
        return GST_FLOW_ERROR;
    if (status == GPUD_AGAIN || shared_sender_is_interrupted(self->sender))
        return gst_base_sink_wait_preroll(GST_BASE_SINK(self));
    if (g_atomic_int_get(&self->ending)) {
        GST_INFO_OBJECT(self, "the stream is to end, and a receiver does not take its frames: "
                              "they are dropped");
        apply(self, GPUD_SLOW_DROP_NEWEST);
    }
    return GST_FLOW_OK;
}

/* So that a user sees why a file does not play. */
static void tell_waiting(GstGpudirectSink *self)
{
    gchar *text = g_strdup_printf("Waiting for the first receiver on \"%s\", so that it gets "
                                  "every frame: start gpudirectsrc with this address, or set "
                                  "wait-for-connection=false.",
                                  self->running.address);

    /* Twice: gst-launch-1.0 prints the second one of these only. */
    GST_ELEMENT_INFO_WITH_DETAILS(self, RESOURCE, OPEN_WRITE, ("%s", text), ("%s", text),
                                  ("address", G_TYPE_STRING, self->running.address, NULL));
    g_free(text);
}

GstFlowReturn gst_gpudirect_sink_wait_for_client(GstGpudirectSink *self)
{
    GstFlowReturn flow = GST_FLOW_OK;
    guint waits = 0;

    while (flow == GST_FLOW_OK && gst_gpudirect_sink_waits(self) &&
           !g_atomic_int_get(&self->ending) && g_atomic_int_get(&self->num_clients) <= 0) {
        struct gpud_error error;
        enum gpud_status status =
            gpud_sender_wait(shared_sender_core(self->sender), 1, SINK_WAIT, &error);
        if (status == GPUD_OK)
            break;
        if (status == GPUD_TIMEOUT) {
            struct gpud_sender_info info = GPUD_INFO_INIT(info);
            gpud_sender_get_info(shared_sender_core(self->sender), &info);
            gst_gpudirect_sink_report_lack(self, &info);
            if (++waits == WAITS_UNTIL_TOLD)
                tell_waiting(self);
        }
        flow = gst_gpudirect_sink_may_retry(self, status);
        if (flow == GST_FLOW_ERROR)
            gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error,
                                "Nobody can be waited for");
    }
    return flow;
}

void gst_gpudirect_sink_set_ending(GstGpudirectSink *self, gboolean ending)
{
    g_atomic_int_set(&self->ending, ending);
    if (!ending)
        gst_gpudirect_sink_apply_policy(self);
}

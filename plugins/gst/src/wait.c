/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsrc does without a frame: it waits for a sender and reports that, ends the stream,
 * or fails. */
#include "src/wait.h"

#include "base/channels.h"
#include "base/errors.h"
#include "src/device.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* The longest wait, after which changed properties are noticed. Everything else wakes the wait. */
#define MAX_WAIT (1 * GST_SECOND)

/* How long to wait for answers of other channels, which the message lists in any case. */
#define CHANNELS_TIMEOUT (GPUD_SEC / 4)

/* How long there must be no sender before a message says so. */
#define WAIT_REPORTED_AFTER (1 * G_TIME_SPAN_SECOND)

/* The time between attempts to connect; the longer one after this side has cut the link, as the
 * next link would probably end in the same way. */
#define HOLD_OFF (100 * G_TIME_SPAN_MILLISECOND)
#define HOLD_OFF_CUT (500 * G_TIME_SPAN_MILLISECOND)

#define REFUSAL_REPORTED_EVERY (10 * G_TIME_SPAN_SECOND)

/* The base class asked create() to return, and will not ask again. */
static gboolean must_leave(GstGpudirectSrc *self)
{
    return g_atomic_int_get(&self->ending) || GST_PAD_IS_FLUSHING(GST_BASE_SRC_PAD(self));
}

/* The pipeline goes to PAUSED, where a live source waits without a frame. GST_FLOW_FLUSHING, as for
 * other reasons, would end the task, perhaps after PLAYING has restarted it (GStreamer 1.26
 * interrupts here too, 1.22 does not). */
static GstFlowReturn interrupted(GstGpudirectSrc *self)
{
    feed_set_flushing(&self->feed, FALSE);
    if (must_leave(self)) /* asked for meanwhile */
        return GST_FLOW_FLUSHING;
    GstFlowReturn flow = gst_base_src_wait_playing(GST_BASE_SRC(self));
    src_signal_resume(&self->signal);
    return flow;
}

/* The addresses on which senders listen now. */
static gchar *join_channels(void)
{
    GPtrArray *channels = channels_ask(NULL, CHANNELS_TIMEOUT, NULL);
    GString *names = g_string_new(NULL);

    for (guint i = 0; i < channels->len; i++) {
        const struct channel *channel = channels->pdata[i];
        g_string_append_printf(names, "%s%s", names->len ? ", " : "", channel->address);
    }
    g_ptr_array_unref(channels);
    return g_string_free(names, FALSE);
}

/* Posted once per wait, to explain the black window to the user. */
static void report_waiting(GstGpudirectSrc *self, const struct gpud_error *error)
{
    gchar *names = join_channels();
    gchar *text =
        g_strdup_printf("Waiting for a sender on \"%s\": %s; sending now: %s.",
                        self->endpoint.running.address, error->reason, names[0] ? names : "none");

    self->link.wait_reported = TRUE;
    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(self, RESOURCE, OPEN_READ, ("%s", text), ("%s", text),
                                  ("address", G_TYPE_STRING, self->endpoint.running.address,
                                   "reason", G_TYPE_STRING, error->reason, "sending", G_TYPE_STRING,
                                   names, NULL));
    g_free(text);
    g_free(names);
}

/* When check_timeout() is due, in monotonic µs. The time without a sender begins with the first
 * wait for one. */
static gint64 sender_due(GstGpudirectSrc *self)
{
    gint64 due = G_MAXINT64;

    if (self->link.linked || self->feed.input->ops->configure)
        return due;
    guint timeout = src_options_read(&self->options, self).connection_timeout;
    if (!self->link.waiting_since)
        self->link.waiting_since = g_get_monotonic_time();
    if (!self->link.wait_reported)
        due = self->link.waiting_since + WAIT_REPORTED_AFTER;
    return timeout ? MIN(due, self->link.waiting_since + (gint64)timeout * G_TIME_SPAN_SECOND)
                   : due;
}

gint64 gst_gpudirect_src_max_wait(GstGpudirectSrc *self, GstClockTime now)
{
    GstClockTime due =
        MIN(src_signal_next(&self->signal, now, self->feed.input->ops->has_signal), now + MAX_WAIT);
    gint64 sender = sender_due(self);

    if (sender < (gint64)(due / GPUD_USEC))
        due = (GstClockTime)sender * GPUD_USEC;
    return due > now ? (gint64)(due - now) : 0;
}

static GstFlowReturn check_timeout(GstGpudirectSrc *self, const struct gpud_error *error)
{
    gint64 now = g_get_monotonic_time();
    guint timeout = src_options_read(&self->options, self).connection_timeout;

    if (self->link.linked || self->feed.input->ops->configure)
        return GST_FLOW_OK;
    if (!self->link.waiting_since)
        self->link.waiting_since = now;
    if (!self->link.wait_reported && now - self->link.waiting_since >= WAIT_REPORTED_AFTER)
        report_waiting(self, error);
    if (timeout == 0 || now - self->link.waiting_since < (gint64)timeout * G_TIME_SPAN_SECOND)
        return GST_FLOW_OK;
    GST_ELEMENT_ERROR(
        self, RESOURCE, OPEN_READ,
        ("No sender on \"%s\" within %u s: start gpudirectsink with this address, or raise "
         "connection-timeout.",
         self->endpoint.running.address, timeout),
        ("%s", error->reason));
    return GST_FLOW_ERROR;
}

/* Avoids a busy loop when a peer refuses every attempt at once. */
static void hold_off(GstGpudirectSrc *self, gint64 time)
{
    self->link.held_off_until = g_get_monotonic_time() + time;
}

gboolean gst_gpudirect_src_is_held_off(GstGpudirectSrc *self)
{
    if (self->link.held_off_until == 0)
        return FALSE;
    /* Only a stand-in can be due before: all else is handled by the next attempt to connect. */
    GstClockTime due = src_signal_next_stand_in(&self->signal);
    gint64 until = (gint64)MIN((GstClockTime)self->link.held_off_until, due / GPUD_USEC);
    gboolean over = feed_sleep_until(&self->feed, until) || until == self->link.held_off_until;
    if (over)
        self->link.held_off_until = 0;
    return !over;
}

static guint cause_of(const struct gpud_error *error)
{
    return g_str_hash(error->reason) | 1;
}

/* Reports each cause once, and another only after a while, as a peer may vary its reasons with each
 * attempt. */
static void report_refusal(GstGpudirectSrc *self, const struct gpud_error *error)
{
    guint cause = cause_of(error);
    gint64 now = g_get_monotonic_time();

    if (self->link.refusal_cause == cause ||
        (self->link.refusal_cause && now - self->link.refusal_at < REFUSAL_REPORTED_EVERY))
        return;
    self->link.refusal_cause = cause;
    self->link.refusal_at = now;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, error,
                        "No connection to the sender, trying again");
}

/* A sender listens, but refuses the connection. */
static GstFlowReturn not_connected(GstGpudirectSrc *self, const struct gpud_error *error)
{
    report_refusal(self, error);
    hold_off(self, HOLD_OFF);
    return check_timeout(self, error);
}

/* Reports each silence of a card once. */
static void report_silence(GstGpudirectSrc *self, const struct gpud_error *error)
{
    struct input_info info;

    feed_get_info(&self->feed, &info);
    if (info.no_signal)
        src_signal_gone(&self->signal, info.signal_reason);
    if (src_signal_note_silence(&self->signal))
        gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                            "The capture card gives no frames");
}

/* The sender ended its stream; it may start another one. */
static GstFlowReturn stream_ended(GstGpudirectSrc *self)
{
    src_signal_gone(&self->signal, "the sender ended its stream");
    if (src_options_read(&self->options, self).on_eos == ON_EOS_EOS)
        return GST_FLOW_EOS;
    self->link.ended = TRUE;
    gst_gpudirect_src_break_stream(self); /* the next stream has times of its own */
    GST_INFO_OBJECT(self, "the sender ended its stream, waiting for the next one");
    gst_element_post_message(
        GST_ELEMENT(self),
        gst_message_new_element(GST_OBJECT(self),
                                gst_structure_new_empty("gpudirect-stream-ended")));
    return GST_FLOW_OK;
}

/* The sender vanished, which does not end its stream. */
static GstFlowReturn sender_lost(GstGpudirectSrc *self, const struct gpud_error *error)
{
    link_state_renew(&self->link);
    self->link.wait_reported = FALSE;
    src_signal_gone(&self->signal, error->reason);
    if (self->link.ended) { /* it had ended its stream, so nothing is lost */
        g_object_notify(G_OBJECT(self), "active-path");
        return GST_FLOW_OK;
    }
    enum on_disconnect mode = src_options_read(&self->options, self).on_disconnect;
    if (mode == ON_DISCONNECT_EOS)
        return GST_FLOW_EOS;
    if (mode == ON_DISCONNECT_ERROR) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_READ, error, "The sender is lost");
        return GST_FLOW_ERROR;
    }
    self->link.refusal_cause = cause_of(error); /* by the warning below */
    self->link.refusal_at = 0;                  /* report another cause at once */
    GstStructure *structure =
        gst_structure_new("gpudirect-sender-lost", "reason", G_TYPE_STRING, error->reason, NULL);
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                        "The sender is lost, waiting for it to come back");
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
    return GST_FLOW_OK;
}

/* Whether a sender that refuses this receiver, or is unusable, is treated as lost: another one may
 * follow, or the same one with another format. A receiver that requires a direct route, and never
 * had one here, gets an error. */
static gboolean may_follow_refusal(GstGpudirectSrc *self, enum gpud_status status)
{
    if (self->feed.input->ops != &link_input_ops ||
        (status != GPUD_UNSUPPORTED && status != GPUD_NO_ACCESS))
        return FALSE;
    if (status == GPUD_UNSUPPORTED && self->endpoint.running.require_direct && self->frames == 0)
        return FALSE;
    return self->link.linked || src_options_wait_for_senders(&self->options);
}

static void report_card(GstGpudirectSrc *self, const gchar *name, const gchar *reason)
{
    GstStructure *structure = gst_structure_new(name, "reason", G_TYPE_STRING, reason, NULL);

    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), structure));
    g_object_notify(G_OBJECT(self), "active-path");
}

/* The card was unplugged. */
static GstFlowReturn card_lost(GstGpudirectSrc *self, const struct gpud_error *error)
{
    src_signal_gone(&self->signal, error->reason);
    enum on_disconnect mode = src_options_read(&self->options, self).on_disconnect;
    if (mode == ON_DISCONNECT_EOS)
        return GST_FLOW_EOS;
    if (mode == ON_DISCONNECT_ERROR) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_READ, error, "The capture card is lost");
        return GST_FLOW_ERROR;
    }
    self->link.card_lost = TRUE;
    gpud_gst_error_warn(GST_ELEMENT(self), GPUD_GST_READ, error,
                        "The capture card is lost, waiting for it to come back");
    report_card(self, "gpudirect-card-lost", error->reason);
    return GST_FLOW_OK;
}

void gst_gpudirect_src_card_back(GstGpudirectSrc *self)
{
    self->link.card_lost = FALSE;
    src_signal_end_silence(&self->signal);
    GST_INFO_OBJECT(self, "the capture card is back");
    report_card(self, "gpudirect-card-back", "");
}

GstFlowReturn gst_gpudirect_src_no_frame(GstGpudirectSrc *self, enum gpud_status status,
                                         const struct gpud_error *error)
{
    gchar *what;

    /* The end of a stream is reported only once, so it must be handled. */
    if (status != GPUD_CLOSED && must_leave(self))
        return GST_FLOW_FLUSHING;
    if (status == GPUD_AGAIN)
        return interrupted(self);
    if (status == GPUD_UNSUPPORTED && gst_gpudirect_src_fall_back(self))
        return GST_FLOW_OK;
    if (may_follow_refusal(self, status))
        status = GPUD_PEER;
    switch (status) {
    case GPUD_TIMEOUT:
        src_signal_watch(&self->signal, self->feed.input->ops->what);
        if (self->feed.input->ops->has_signal && !self->link.card_lost)
            report_silence(self, error);
        return check_timeout(self, error);
    case GPUD_CLOSED:
        self->discont = TRUE;
        endpoint_post_stats(&self->endpoint);
        return stream_ended(self);
    case GPUD_PEER:
        return self->link.linked ? sender_lost(self, error) : not_connected(self, error);
    case GPUD_NO_DEVICE:
        if (self->feed.input->ops->wait)
            return card_lost(self, error);
        /* fall through */
    default:
        what = g_strdup_printf("Cannot receive from %s at \"%s\"", self->feed.input->ops->what,
                               self->endpoint.running.address);
        gpud_gst_error_post(GST_ELEMENT(self), self->frames ? GPUD_GST_READ : GPUD_GST_OPEN_SOURCE,
                            error, what);
        g_free(what);
        return GST_FLOW_ERROR;
    }
}

/* The core has no call to cut a link, so the receiver is replaced. */
GstFlowReturn gst_gpudirect_src_cut_link(GstGpudirectSrc *self)
{
    struct gpud_error why, error;

    updates_take_reason(&self->updates, &why);
    gboolean renewed = feed_replace(&self->feed, NULL, &error);
    if (!renewed) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_OPEN_SOURCE, &error,
                            "The sender breaks the protocol, and no new link can be made");
        return GST_FLOW_ERROR;
    }
    updates_clear(&self->updates);
    GstFlowReturn flow = self->link.linked ? sender_lost(self, &why) : not_connected(self, &why);
    if (flow == GST_FLOW_OK)
        hold_off(self, HOLD_OFF_CUT);
    return flow;
}

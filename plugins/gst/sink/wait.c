/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waits for receivers, for the first one and for slow ones, and for writers of dma-bufs. */
#include "sink/wait.h"

#include "base/errors.h"
#include "memory/dmabuf.h"
#include "sink/policy.h"
#include "sink/report.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* After about a second without a receiver an INFO message says so. */
#define WAITS_UNTIL_REPORTED 5

/* How long an EOS of the application's waits behind frames for a receiver that takes none of them.
 */
#define END_PATIENCE 5

/* GstBaseSink holds its lock while it renders, and needs it to go to PLAYING. With async=false the
 * two meet: render() must not wait under it for what may never come. */
#define YIELD 1000 /* µs */

static GstFlowReturn yield_to_state_change(GstGpudirectSink *self)
{
    GstBaseSink *base = GST_BASE_SINK(self);

    GST_BASE_SINK_PREROLL_UNLOCK(self);
    g_usleep(YIELD); /* the lock is not fair */
    GST_BASE_SINK_PREROLL_LOCK(self);
    /* A change of state that took the lock meanwhile may have left these. The one to PLAYING finds
     * no preroll, asks for one, and never signals its end: only a commit of the state tells that
     * there is nothing to wait for. No object: this class has no preroll(). */
    if (base->flushing)
        return GST_FLOW_FLUSHING;
    return gst_base_sink_do_preroll(base, NULL);
}

static struct gpud_sender_info sender_info(GstGpudirectSink *self)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    gpud_sender_get_info(shared_sender_core(self->sender), &info);
    return info;
}

/* What was submitted before the EOS goes out first, as long as receivers take it. */
static void wait_at_end(GstGpudirectSink *self)
{
    struct sink_end *end = &self->end;
    struct gpud_sender_info info = sender_info(self);
    gint64 now = g_get_monotonic_time();

    if (end->since == 0 || info.delivered != end->delivered) {
        end->since = now;
        end->delivered = info.delivered;
    } else if (!end->given_up && now - end->since >= END_PATIENCE * G_TIME_SPAN_SECOND) {
        end->given_up = TRUE;
        end->dropped = info.dropped;
        shared_sender_set_slow_receiver(self->sender, GPUD_SLOW_DROP_NEWEST);
    }
}

void gst_gpudirect_sink_report_end(GstGpudirectSink *self)
{
    guint64 lost = self->sender ? sender_info(self).dropped - self->end.dropped : 0;

    if (self->end.given_up && lost > 0)
        GST_ELEMENT_WARNING(self, RESOURCE, WRITE,
                            ("%" G_GUINT64_FORMAT
                             " frames before the end of the stream are lost: a "
                             "receiver took none for %d s after EOS was asked for.",
                             lost, END_PATIENCE),
                            (NULL));
    self->end = (struct sink_end){0};
}

GstFlowReturn gst_gpudirect_sink_may_retry(GstGpudirectSink *self, enum gpud_status status)
{
    if (status != GPUD_AGAIN && status != GPUD_TIMEOUT)
        return GST_FLOW_ERROR;
    if (status == GPUD_AGAIN || shared_sender_is_interrupted(self->sender))
        return gst_base_sink_wait_preroll(GST_BASE_SINK(self));
    if (g_atomic_int_get(&self->ending))
        wait_at_end(self);
    return yield_to_state_change(self);
}

/* Shows the user why a file does not play. */
static void report_waiting(GstGpudirectSink *self)
{
    gchar *text = g_strdup_printf("Waiting for the first receiver on \"%s\", so that it gets "
                                  "every frame: start gpudirectsrc with this address, or set "
                                  "wait-for-connection=false.",
                                  self->endpoint.running.address);

    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(self, RESOURCE, OPEN_WRITE, ("%s", text), ("%s", text),
                                  ("address", G_TYPE_STRING, self->endpoint.running.address, NULL));
    g_free(text);
}

GstFlowReturn gst_gpudirect_sink_wait_for_client(GstGpudirectSink *self)
{
    GstFlowReturn flow = GST_FLOW_OK;
    guint waits = 0;

    while (flow == GST_FLOW_OK && gst_gpudirect_sink_waits(self) &&
           !g_atomic_int_get(&self->ending) && sink_clients_count(&self->clients) == 0) {
        struct gpud_error error;
        enum gpud_status status =
            gpud_sender_wait(shared_sender_core(self->sender), 1, SINK_WAIT, &error);
        if (status == GPUD_OK)
            break;
        if (status == GPUD_TIMEOUT) {
            struct gpud_sender_info info = GPUD_INFO_INIT(info);
            gpud_sender_get_info(shared_sender_core(self->sender), &info);
            gst_gpudirect_sink_report_lack(self, &info);
            if (++waits == WAITS_UNTIL_REPORTED)
                report_waiting(self);
        }
        flow = gst_gpudirect_sink_may_retry(self, status);
        if (flow == GST_FLOW_ERROR)
            gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error,
                                "Cannot wait for a receiver");
    }
    return flow;
}

/* --- writers of dma-bufs ------------------------------------------------------------------ */

/* Longer than any picture takes to be made. */
#define WRITES_TIMEOUT (2 * GPUD_SEC)
#define WRITES_SLICE (20 * GPUD_MSEC) /* after which the element checks for a state change */

GstFlowReturn gst_gpudirect_sink_await_writes(GstGpudirectSink *self, GstBuffer *buffer,
                                              gboolean *written)
{
    gint64 until = g_get_monotonic_time() + WRITES_TIMEOUT / 1000;
    GstFlowReturn flow = GST_FLOW_OK;

    *written = FALSE;
    while (flow == GST_FLOW_OK && !(*written = dmabuf_wait_for_buffer(buffer, WRITES_SLICE))) {
        flow = gst_gpudirect_sink_may_retry(self, GPUD_TIMEOUT);
        if (flow != GST_FLOW_OK || g_get_monotonic_time() < until)
            continue;
        if (__atomic_fetch_add(&self->malformed, 1, __ATOMIC_RELAXED) == 0)
            GST_ELEMENT_WARNING(
                self, STREAM, FAILED,
                ("A picture in a dma-buf is not finished after two seconds, and is dropped: has "
                 "the device that writes it stopped? The stats count those that follow "
                 "(dropped-malformed)."),
                (NULL));
        return GST_FLOW_OK;
    }
    return flow;
}

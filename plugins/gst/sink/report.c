/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the application is told while frames go by: what slow receivers lost, an element upstream
 * that writes where it said that it would read, and why nobody gets a frame. */
#include "errors.h"
#include "sink/sink.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* How often the core is asked, in frames. */
#define FRAMES_BETWEEN_LOOKS 32

/* --- drops -------------------------------------------------------------------------------- */

static void report_drops(GstGpudirectSink *self, GstBuffer *buffer,
                         const struct gpud_sender_info *info)
{
    GstBaseSink *base = GST_BASE_SINK(self);
    GstClockTime pts = GST_BUFFER_PTS(buffer);

    if (info->dropped <= self->drops_reported)
        return;
    self->drops_reported = info->dropped;
    GstMessage *message = gst_message_new_qos(
        GST_OBJECT(self), gst_base_sink_get_sync(base), gst_gpudirect_sink_running_time(self, pts),
        gst_segment_to_stream_time(&base->segment, base->segment.format, pts), pts,
        GST_BUFFER_DURATION(buffer));
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, info->delivered, info->dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

/* --- an element upstream ------------------------------------------------------------------ */

/* Elements that hand buffers on as they are: queues, tees, capsfilters. */
static gboolean is_generic(GstElement *element)
{
    const gchar *klass = gst_element_get_metadata(element, GST_ELEMENT_METADATA_KLASS);

    return klass && strstr(klass, "Generic");
}

static gchar *name_of_parent(GstPad *pad)
{
    GstElement *element = pad ? gst_pad_get_parent_element(pad) : NULL;
    gchar *name = NULL;

    if (element && is_generic(element)) {
        GstPad *sink = gst_element_get_static_pad(element, "sink");
        GstPad *peer = sink ? gst_pad_get_peer(sink) : NULL;
        name = name_of_parent(peer);
        gst_clear_object(&peer);
        gst_clear_object(&sink);
    } else if (element) {
        name = gst_object_get_name(GST_OBJECT(element));
    }
    gst_clear_object(&element);
    return name;
}

static void report_misuse(GstGpudirectSink *self)
{
    if (self->misuse_reported || counter_read(&self->counters->misuses) == 0)
        return;
    self->misuse_reported = TRUE;
    GstPad *peer = gst_pad_get_peer(GST_BASE_SINK_PAD(self));
    gchar *name = name_of_parent(peer);
    GST_ELEMENT_WARNING(
        self, STREAM, FORMAT,
        ("An element upstream, probably \"%s\", writes into buffers that it mapped for reading. "
         "What it writes is copied to the device all the same, so that pictures are right; that "
         "costs a copy from the device for each. The element should map them with "
         "GST_MAP_WRITE.",
         name ? name : "unknown"),
        (NULL));
    g_free(name);
    gst_clear_object(&peer);
}

/* ------------------------------------------------------------------------------------------ */

void gst_gpudirect_sink_report(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    report_misuse(self);
    if (++self->renders % FRAMES_BETWEEN_LOOKS != 0)
        return;
    gpud_sender_get_info(shared_sender_core(self->sender), &info);
    report_drops(self, buffer, &info);
}

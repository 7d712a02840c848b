/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "endstats.h"
#include "context.h"

void end_stats_post(GstElement *element, gint *due, GstStructure *(*make)(GstElement *element))
{
    if (!__atomic_exchange_n(due, FALSE, __ATOMIC_RELAXED))
        return;
    GstStructure *stats = make(element);
    GST_CAT_INFO_OBJECT(gpud_gst_debug, element, "at the end: %" GST_PTR_FORMAT, stats);
    gst_element_post_message(element, gst_message_new_element(GST_OBJECT(element), stats));
}

static GstPadProbeReturn see_event(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    void (*post)(GstElement * element) = (void (*)(GstElement *))user;
    GstElement *element = gst_pad_get_parent_element(pad);

    if (element && GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_EOS)
        post(element);
    gst_clear_object(&element);
    return GST_PAD_PROBE_OK;
}

void end_stats_watch(GstPad *pad, void (*post)(GstElement *element))
{
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, see_event, (gpointer)post, NULL);
}

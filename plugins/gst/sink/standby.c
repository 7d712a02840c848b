/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sink/standby.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

static gboolean core_stands_by(GstGpudirectSink *self)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);

    gpud_sender_get_info(shared_sender_core(self->sender), &info);
    return info.stands_by;
}

static void report(GstGpudirectSink *self, gboolean stands_by)
{
    const gchar *address = self->endpoint.running.address;
    gchar *text =
        stands_by ? g_strdup_printf("Another sender has the address \"%s\": standing by, frames "
                                    "are dropped until it ends.",
                                    address)
                  : g_strdup_printf("The address \"%s\" is taken over.", address);

    endpoint_note_stats(&self->endpoint);
    /* The text is given twice, because gst-launch-1.0 prints only the second. */
    GST_ELEMENT_INFO_WITH_DETAILS(
        self, RESOURCE, OPEN_WRITE, ("%s", text), ("%s", text),
        ("address", G_TYPE_STRING, address, "stands-by", G_TYPE_BOOLEAN, stands_by, NULL));
    g_free(text);
}

void gst_gpudirect_sink_begin_standby(GstGpudirectSink *self)
{
    self->standby.waits = core_stands_by(self);
    if (self->standby.waits)
        report(self, TRUE);
}

gboolean gst_gpudirect_sink_stands_by(GstGpudirectSink *self)
{
    if (!self->standby.waits)
        return FALSE;
    if (core_stands_by(self)) {
        __atomic_fetch_add(&self->standby.dropped, 1, __ATOMIC_RELAXED);
        return TRUE;
    }
    self->standby.waits = FALSE;
    report(self, FALSE);
    return FALSE;
}

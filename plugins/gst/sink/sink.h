/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of gpudirectsink. Each file stands above those that it uses:
 *   element.c   class, properties, states
 *   render.c    a buffer on its way: prepare, render, caps
 *   device.c    on which device the ring lies, and what that means for caps
 *   open.c      the sender: opened on a device, and closed
 *   wait.c      waiting for receivers
 *   report.c    messages to the application while frames go by
 *   events.c    what travels beside buffers, also to receivers that connect late
 *   copy.c      buffers that are no slots: the one copy
 *   dmabufs.c   buffers that a driver upstream writes by itself
 *   stats.c     the property "stats"
 *   policy.c    whether upstream is live, and what that decides
 *   clients.c   receivers that come and go: signals, messages */
#ifndef GPUD_GST_SINK_SINK_H
#define GPUD_GST_SINK_SINK_H

#include "base/endpoint.h"
#include "memory/memory.h"
#include "memory/sender.h"
#include "sink/clients.h"
#include "sink/debug.h"
#include "wire/timing.h"

#include <gst/base/gstbasesink.h>
#include <gst/video/video.h>

#define GST_TYPE_GPUDIRECT_SINK (gst_gpudirect_sink_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectSink, gst_gpudirect_sink, GST, GPUDIRECT_SINK, GstBaseSink)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsink)

/* The property was a boolean once: `true` and `false` are still words for it, with the same
 * numbers. */
enum wait_for_connection { WAIT_NEVER, WAIT_ALWAYS, WAIT_AUTO };

struct _GstGpudirectSink {
    GstBaseSink parent;

    struct endpoint endpoint;
    enum wait_for_connection wait_for_connection; /* a property; under the object lock */
    struct sink_clients clients;

    struct shared_sender *sender; /* from start to stop; changed under the object lock */
    struct gpud_device *host, *ring_device;
    gboolean reads_buffers; /* the ring's device reads what the CPU wrote by itself */
    gint live;              /* atomic: TRUE or FALSE, as upstream answered; -1: not known yet */
    gint ending;   /* atomic: the application asked for EOS, and the event has not come yet */
    gint unlocked; /* atomic: unlock() was called, unlock_stop() not yet */

    /* The streaming thread's. */
    GstVideoInfo info;
    GstVideoInfo slot_info;  /* the same with the slots' strides */
    struct gpu *gpu;         /* the caps are of memory of this GPU; NULL: of memory of the CPU's */
    struct gpud_media media; /* of the caps */
    gboolean configured;
    gboolean live_known;     /* upstream has answered */
    gboolean broken_off;     /* an error ended the stream: ignore the EOS that follows it */
    gboolean dmabufs;        /* upstream's driver writes into dma-bufs that it is given */
    gboolean moved;          /* to a new sender, which has no events yet */
    GPtrArray *sticky_names; /* of the custom events that the sender got, by their index */
    GstBufferPool *copies;   /* slots to copy into */
    GstBuffer *prepared;     /* a slot with a copy of ... */
    GstBuffer *prepared_of;  /* ... this buffer */
    guint64 drops_reported;
    guint64 refusals_seen;
    gboolean misuse_reported, lack_reported;
    guint renders;

    guint64 malformed;  /* relaxed atomic */
    gint lends_dmabufs; /* atomic: slots are dma-bufs that upstream's driver writes */
};

/* A reference on the sender: another thread may close it meanwhile, but not free it. NULL: closed.
 */
static inline struct shared_sender *gst_gpudirect_sink_ref_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = self->sender ? shared_sender_ref(self->sender) : NULL;
    GST_OBJECT_UNLOCK(self);
    return sender;
}

#endif

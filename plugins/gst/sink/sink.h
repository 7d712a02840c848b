/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The internals of gpudirectsink. Each file is listed above those that it uses:
 *   element.c   class, properties, states
 *   render.c    the path of a buffer: prepare, render, caps
 *   blocks.c    the same of sound and data
 *   device.c    the device of the ring, and its consequences for caps
 *   open.c      opens and closes the sender
 *   wait.c      waiting for receivers, and for writers of dma-bufs
 *   standby.c   waiting for another sender's address
 *   events.c    events, also for receivers that connect late
 *   report.c    messages to the application during streaming
 *   copy.c      the copy of buffers that are not slots
 *   dmabufs.c   pictures in dma-bufs: slots that upstream writes, and others
 *   stats.c     the property "stats"
 *   policy.c    whether upstream is live, and what that decides
 *   clients.c   receivers that connect and disconnect: signals, messages */
#ifndef GPUD_GST_SINK_SINK_H
#define GPUD_GST_SINK_SINK_H

#include "element/endpoint.h"
#include "memory/memory.h"
#include "memory/sender.h"
#include "sink/clients.h"
#include "sink/debug.h"
#include "wire/meta.h"
#include "wire/timing.h"

#include <gst/audio/audio.h>
#include <gst/base/gstbasesink.h>
#include <gst/video/video.h>

#define GST_TYPE_GPUDIRECT_SINK (gst_gpudirect_sink_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectSink, gst_gpudirect_sink, GST, GPUDIRECT_SINK, GstBaseSink)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsink)

/* The property was once a boolean, so `true` and `false` keep their names and values. */
enum wait_for_connection { WAIT_NEVER, WAIT_ALWAYS, WAIT_AUTO };

/* What is sent now, as the caps say. */
struct sink_format {
    gboolean configured;
    struct gpud_media media;
    GstVideoInfo info;      /* of a picture */
    GstVideoInfo slot_info; /* the same with the slots' strides; of a block: its size alone */
    GstAudioInfo audio;     /* of sound */
    struct gpu *gpu;        /* the GPU of the caps' memory; NULL: the CPU */
    gboolean in_dmabufs;    /* the caps are of pictures in dma-bufs */
    gboolean dmabufs;       /* upstream wants dma-bufs to write into */
};

/* Buffers that are no slots are copied into one. */
struct sink_copies {
    GstBufferPool *pool;
    GstBuffer *slot; /* has a copy of ... */
    GstBuffer *of;   /* ... this buffer; NULL: of none */
};

/* What messages have said already. */
struct sink_reported {
    guint64 drops;
    GstClockTime pts, duration; /* of the last buffer */
    guint64 refusals;
    gboolean misuse, lack, large_metas;
};

/* With slow receivers of a live stream, by the system's monotonic clock, in µs. */
struct sink_patience {
    gint64 since, until; /* 0: not waiting */
    gint64 none_until;   /* because it was in vain */
    guint in_vain;       /* how often in a row */
};

struct sink_standby {
    gboolean wanted; /* a property; under the object lock */
    gboolean waits;  /* the streaming thread's: another sender had the address so far */
    guint64 dropped; /* relaxed atomic: frames */
};

/* Frames that wait for a receiver when the application asks for EOS. */
struct sink_end {
    gint64 since; /* when a receiver took one last, in µs; 0: not known yet */
    guint64 delivered;
    gboolean given_up; /* they are dropped from here on; `dropped`: how many were before */
    guint64 dropped;
};

struct _GstGpudirectSink {
    GstBaseSink parent;

    struct endpoint endpoint;
    enum wait_for_connection wait_for_connection; /* a property; under the object lock */
    struct sink_clients clients;
    struct sink_standby standby;

    struct shared_sender *sender; /* from start to stop; changed under the object lock */
    struct gpud_device *host, *ring_device;
    gboolean reads_buffers; /* the ring's device reads host buffers itself */
    gint live;              /* atomic: TRUE or FALSE, as upstream answered; -1: not known yet */
    gint ending;         /* atomic: the application asked for EOS, the event has not arrived yet */
    struct sink_end end; /* of what waits meanwhile; the streaming thread's */
    gint unlocked;       /* atomic: unlock() was called, unlock_stop() not yet */
    gint lends_dmabufs;  /* atomic: slots are dma-bufs that upstream's driver writes */
    gint copied_dmabufs; /* atomic: pictures were copied from dma-bufs of upstream's */
    guint64 malformed;   /* relaxed atomic: buffers that held no picture of the caps */

    /* The streaming thread's. */
    struct sink_format format;
    struct sink_copies copies;
    struct sink_reported reported;
    struct sink_patience patience;
    guint frames;           /* rendered since the format was set */
    gboolean live_known;    /* upstream has answered */
    gboolean failed;        /* an error ended the stream: ignore the EOS that follows it */
    gboolean sender_is_new; /* it has no events yet */
    guint opened;           /* addresses between hosts, as its receivers know; see events.h */
    struct meta_large large_metas;
    GQueue unsent;           /* events that wait for the first receiver */
    GPtrArray *sticky_names; /* names of the custom events that the sender got, by their index */
};

/* Of a time in the current segment; GPUD_TIME_NONE: it has none. The streaming thread's. */
static inline guint64 gst_gpudirect_sink_running_time(GstGpudirectSink *self, GstClockTime time)
{
    const GstSegment *segment = &GST_BASE_SINK(self)->segment;

    if (!GST_CLOCK_TIME_IS_VALID(time) || segment->format != GST_FORMAT_TIME)
        return GPUD_TIME_NONE;
    return gst_segment_to_running_time(segment, GST_FORMAT_TIME, time);
}

/* A reference to the sender, which another thread may close, but not free. NULL: it is closed. */
static inline struct shared_sender *gst_gpudirect_sink_ref_sender(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    struct shared_sender *sender = self->sender ? shared_sender_ref(self->sender) : NULL;
    GST_OBJECT_UNLOCK(self);
    return sender;
}

#endif

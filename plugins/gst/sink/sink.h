/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsink: what its files share. */
#ifndef GPUD_SINK_SINK_H
#define GPUD_SINK_SINK_H

#include "element/endpoint.h"
#include "memory/memory.h"
#include "wire/codec.h"
#include <gpudirect/channel.h>
#include <gpudirect/frame.h>
#include <gpudirect/sender.h>
#include <gst/audio/audio.h>
#include <gst/base/gstbasesink.h>
#include <gst/gst.h>
#include <gst/video/video.h>

/* === clients ================================================================================= */
/* The receivers that are connected: counted, signalled to the application and reported on the bus.
 */

struct sink_clients {
    GstElement *element;
    gint count; /* atomic: connected receivers, as far as the core has called back */
    GMutex lock;
    GQueue changes; /* connects and disconnects that were not signalled yet */
    gboolean notifying;
    GMutex post_lock; /* held while a message is posted */
    gboolean may_post;
};

static inline guint sink_clients_count(struct sink_clients *clients)
{
    return (guint)MAX(0, g_atomic_int_get(&clients->count));
}

/* === debug =================================================================================== */

/* The log category of gpudirectsink, created in its class_init. */
GST_DEBUG_CATEGORY_EXTERN(gst_gpudirect_sink_debug);

/* === sink ==================================================================================== */
/* The internals of gpudirectsink:
 *
 *     element.c  class, properties, states; the sender and its device, policy, standby, receivers,
 *                stats
 *     render.c   the path of a buffer: prepare, copy, render; pictures in dma-bufs, sound and data;
 *                waits, events, messages */

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
    GstVideoInfo slot_info; /* the same with the slots' strides; for blocks only .size is set */
    GstAudioInfo audio;     /* of sound */
    struct gpu *gpu;        /* the GPU of the caps' memory; NULL: the CPU */
    gboolean in_dmabufs;    /* the caps are of pictures in dma-bufs */
    struct caps_rest *rest; /* of the caps of data; NULL: none yet */
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
    /* The time of the last buffer of data, or NONE, and how long after the one before that was. */
    GstClockTime burst, spacing;
};

struct sink_standby {
    gboolean wanted; /* a property; under the object lock */
    gboolean waits;  /* the streaming thread's: another sender had the address so far */
    guint64 dropped; /* relaxed atomic: frames */
};

/* What receivers, or what this sink drops for them, need of upstream's encoder. */
struct sink_keys {
    struct gpud_key_request request; /* not passed on yet; size 0: no request */
    gint64 passed_at;                /* the last one; monotonic µs */
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
    enum wait_for_connection wait_for_connection; /* a property; relaxed atomic */
    struct sink_clients clients;
    struct sink_standby standby;
    gboolean announce; /* a property; under the object lock */

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
    gint64 held_since; /* when a call of the core's for this buffer first timed out; 0: none has */
    gboolean held_told;
    struct sink_keys keys;
    guint frames;           /* rendered since the format was set */
    gboolean live_known;    /* upstream has answered */
    gboolean failed;        /* an error ended the stream: ignore the EOS that follows it */
    gboolean sender_is_new; /* it has no events yet */
    guint opened;           /* addresses between hosts, as its receivers know; see note_opened() */
    struct meta_large large_metas;
    GQueue unsent;           /* events that wait for the first receiver */
    GPtrArray *sticky_names; /* names of the custom events that the sender got, by their index */
};

/* Whether the address is one for other hosts. */
static inline gboolean gst_gpudirect_sink_is_between_hosts(GstGpudirectSink *self)
{
    return gpud_address_get_host(self->endpoint.running.address) != NULL;
}

/* === what element.c offers =================================================================== */

/* Prepares for pictures in memory of this vendor's GPUs, or (NULL) of the CPU: moves the sender to
 * a device that can send them, and sets self->format.gpu. FALSE: it cannot, and an error was
 * posted. */
gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, const struct gpu_vendor *vendor);

/* Asks upstream whether it is live, which decides the meaning of `auto`. TRUE: it answered. From
 * any thread. */
gboolean gst_gpudirect_sink_query_live(GstGpudirectSink *self);

/* The policy for slow receivers, by the property or the meaning of `auto`; applying it to the
 * sender. */
enum gpud_slow_receiver gst_gpudirect_sink_policy(GstGpudirectSink *self);
void gst_gpudirect_sink_apply_policy(GstGpudirectSink *self);

/* Whether the stream waits while no receiver is connected. */
gboolean gst_gpudirect_sink_waits(GstGpudirectSink *self);

/* TRUE: the application asked for EOS, and the sink stops waiting. FALSE: the EOS arrived, or a
 * flush cancelled it. */
void gst_gpudirect_sink_set_ending(GstGpudirectSink *self, gboolean ending);

/* Whether the streaming thread's frame is dropped, and counted, because another sender has the
 * address, which this one waits for. */
gboolean gst_gpudirect_sink_stands_by(GstGpudirectSink *self);

/* === what render.c offers ==================================================================== */

void gst_gpudirect_sink_class_init_render(GstBaseSinkClass *klass);

/* Between hosts, receivers of a programme only ask for its streams now and then. A sink that opens
 * an address there notes that, and the other sinks of the process tell their receivers before their
 * next frame, so that these ask at once. */
void gst_gpudirect_sink_note_opened(GstGpudirectSink *self);

/* Reports the drops since the last report; at the end of the stream. */
void gst_gpudirect_sink_report_rest(GstGpudirectSink *self);

/* Drops the state of the stream: caps, slots, the prepared copy, events that wait. */
void gst_gpudirect_sink_end_stream(GstGpudirectSink *self);

#endif

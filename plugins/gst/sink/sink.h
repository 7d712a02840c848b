/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of gpudirectsink:
 *   element.c   class, properties, states
 *   device.c    on which device the ring lies, and what that means for caps and contexts
 *   render.c    a buffer on its way: prepare, render, caps
 *   copy.c      buffers that are no slots: the one copy
 *   dmabufs.c   buffers that a driver upstream writes by itself
 *   events.c    what travels beside buffers, and who is told of it late
 *   policy.c    whether upstream is live, and what may be waited for
 *   report.c    what the application is told while frames go by
 *   clients.c   receivers that come and go: signals, messages
 *   stats.c     what is counted */
#ifndef GPUD_GST_SINK_SINK_H
#define GPUD_GST_SINK_SINK_H

#include "memory/gpu.h"
#include "memory/memory.h"
#include "memory/sender.h"
#include "settings.h"
#include "wire/lostmetas.h"
#include "wire/timing.h"

#include <gst/base/gstbasesink.h>
#include <gst/video/video.h>

#define GST_TYPE_GPUDIRECT_SINK (gst_gpudirect_sink_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectSink, gst_gpudirect_sink, GST, GPUDIRECT_SINK, GstBaseSink)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsink)

GST_DEBUG_CATEGORY_EXTERN(gst_gpudirect_sink_debug);

/* The longest that a call into the core waits before the element checks what else is to be done. */
#define SINK_WAIT (200 * GPUD_MSEC)

/* The property was a boolean once: `true` and `false` are still words for it, with the same
 * numbers. */
enum wait_for_connection { WAIT_NEVER, WAIT_ALWAYS, WAIT_AUTO };

struct _GstGpudirectSink {
    GstBaseSink parent;

    /* Properties; under the object lock. */
    struct settings settings;
    enum wait_for_connection wait_for_connection;
    gboolean started; /* from the beginning of start() to the end of stop() */

    struct settings running; /* the copy of the settings that the element runs by */

    struct shared_sender *sender; /* from start to stop; changed under the object lock */
    struct gpud_device *host, *ring_device;
    gint opened_on;               /* atomic: the GPU that the sender lies on, or -1 */
    gboolean reads_buffers;       /* the ring's device reads what the CPU wrote by itself */
    struct gpu_contexts contexts; /* under the object lock */
    gchar *device_reason;         /* under it: what device=auto came to, and why; or NULL */
    gint live;     /* atomic: TRUE or FALSE, as upstream answered; -1: not known yet */
    gint ending;   /* atomic: the application asked for EOS, and the event has not come yet */
    gint unlocked; /* atomic: unlock() was called, unlock_stop() not yet */

    /* The streaming thread's. */
    GstVideoInfo info;
    GstVideoInfo slot_info; /* the same with the slots' strides */
    struct gpu *gpu;        /* the caps are of memory of this GPU; NULL: of memory of the CPU's */
    uint8_t media[GPUD_MEDIA_MAX];
    size_t media_size;
    gboolean configured;
    gboolean live_known;     /* upstream has answered */
    gboolean broken_off;     /* an error ended the stream: the EOS behind it is none */
    gboolean dmabufs;        /* upstream's driver writes into dma-bufs that it is given */
    gboolean moved;          /* to a new sender, which has got no event yet */
    GPtrArray *sticky_names; /* of the custom events that the sender got, by their index */
    GstBufferPool *copies;   /* slots to copy into */
    GstBuffer *prepared;     /* a slot with a copy of ... */
    GstBuffer *prepared_of;  /* ... this buffer */
    guint64 drops_reported;
    guint64 refusals_seen;
    gboolean misuse_reported, lack_reported;
    guint renders;

    gint clock_kind;  /* atomic: enum clock_kind of the pipeline's clock */
    gint num_clients; /* atomic */
    struct counters *counters;
    struct lost_metas *lost_metas;
    guint64 copies_cpu, malformed; /* relaxed atomics */
    gint stats_due;                /* see endstats.h */
    gint lends_dmabufs;            /* atomic: slots are dma-bufs that upstream's driver writes */

    /* Receivers that came or went, still to be signalled to the application. */
    GMutex clients_lock;
    GQueue client_events;
    gboolean notifying;
    GMutex post_lock; /* held while a message is posted */
    gboolean may_post;
};

/* --- element.c ---------------------------------------------------------------------------- */

gboolean gst_gpudirect_sink_open_sender(GstGpudirectSink *self, const gchar *device);
void gst_gpudirect_sink_close_sender(GstGpudirectSink *self);

/* A reference on the sender: another thread may close it meanwhile, but not free it. NULL: closed.
 */
struct shared_sender *gst_gpudirect_sink_ref_sender(GstGpudirectSink *self);

/* --- policy.c ----------------------------------------------------------------------------- */

#define GST_TYPE_GPUDIRECT_WAIT_FOR_CONNECTION (gst_gpudirect_wait_for_connection_get_type())
GType gst_gpudirect_wait_for_connection_get_type(void);

/* Asks upstream whether it is live, on which the meaning of `auto` depends. TRUE: it answered. From
 * any thread. */
gboolean gst_gpudirect_sink_query_live(GstGpudirectSink *self);

/* What happens to a slow receiver: the property, or what `auto` stands for. */
enum gpud_slow_receiver gst_gpudirect_sink_policy(GstGpudirectSink *self);

/* Applies a change of the property to the sender. */
void gst_gpudirect_sink_apply_policy(GstGpudirectSink *self);

/* Whether the stream waits while no receiver is connected. */
gboolean gst_gpudirect_sink_waits(GstGpudirectSink *self);

/* Waits for a receiver, where one is to be waited for. */
GstFlowReturn gst_gpudirect_sink_wait_for_client(GstGpudirectSink *self);

/* After a call into the core that timed out, was interrupted or failed: GST_FLOW_OK means that it
 * may be made again. After an interruption this waits for PLAYING, as GstBaseSink requires. */
GstFlowReturn gst_gpudirect_sink_may_retry(GstGpudirectSink *self, enum gpud_status status);

/* The application asked for an end of the stream: from now on nothing is waited for. FALSE: the end
 * came, or was cancelled by a flush. */
void gst_gpudirect_sink_set_ending(GstGpudirectSink *self, gboolean ending);

/* --- device.c ----------------------------------------------------------------------------- */

void gst_gpudirect_sink_class_init_device(GstBaseSinkClass *klass);

/* The device to begin with; g_free it. */
gchar *gst_gpudirect_sink_choose_device(GstGpudirectSink *self);

/* Pictures in memory of this vendor's GPUs, or (NULL) in the CPU's, are about to come: sees to it
 * that the sender lies where they can be sent from, and sets self->gpu. FALSE: it cannot, and an
 * error was posted. */
gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, const struct gpu_vendor *vendor);

/* --- render.c ----------------------------------------------------------------------------- */

void gst_gpudirect_sink_class_init_render(GstBaseSinkClass *klass);

/* Drops what belongs to the stream: caps, slots, the prepared copy. */
void gst_gpudirect_sink_reset_stream(GstGpudirectSink *self);

/* GPUD_TIME_NONE: it has none. */
guint64 gst_gpudirect_sink_running_time(GstGpudirectSink *self, GstClockTime time);

/* --- report.c ----------------------------------------------------------------------------- */

/* After each frame, which this buffer was. */
void gst_gpudirect_sink_report(GstGpudirectSink *self, GstBuffer *buffer);

/* Why receivers are refused, if there is no memory for their frames; once a format. info: as it is
 * now; NULL: the core was not asked. */
void gst_gpudirect_sink_report_lack(GstGpudirectSink *self, const struct gpud_sender_info *info);

/* --- dmabufs.c ---------------------------------------------------------------------------- */

/* Whether upstream wants dma-bufs, and there are any. */
gboolean gst_gpudirect_sink_wants_dmabufs(GstGpudirectSink *self);

/* Tells the application whether pictures have to be copied from these. */
void gst_gpudirect_sink_tell_dmabufs(GstGpudirectSink *self);

/* --- events.c ----------------------------------------------------------------------------- */

void gst_gpudirect_sink_class_init_events(GstBaseSinkClass *klass);

/* The head of everything that travels. */
void gst_gpudirect_sink_fill_head(GstGpudirectSink *self, struct wire_head *head);

/* Tells a new sender the sticky events that the one before it was told. */
void gst_gpudirect_sink_repeat_events(GstGpudirectSink *self);

/* --- copy.c ------------------------------------------------------------------------------- */

/* FALSE: the buffer does not hold a picture of the caps. To be called once for each buffer: it is
 * counted, and with the first one the application gets a warning. */
gboolean gst_gpudirect_sink_check(GstGpudirectSink *self, GstBuffer *buffer);

/* A slot holding a copy of the buffer, in self->prepared. timeout: for the slot. GPUD_TIMEOUT and
 * GPUD_AGAIN post nothing, everything else did. */
enum gpud_status gst_gpudirect_sink_copy(GstGpudirectSink *self, GstBuffer *buffer, gint64 timeout);

/* A frame over the buffer's own memory, from which the core copies. NULL: the buffer consists of
 * several blocks, or its rows run backwards. */
struct gpud_frame *gst_gpudirect_sink_wrap(GstGpudirectSink *self, GstBuffer *buffer);

/* Whether the buffer is a slot of another ring in a device's memory, as gpudirectsrc hands it out,
 * so that the device itself can copy it; and a frame over the bytes of such a slot, or of one of
 * the sink's own, which holds the buffer. */
gboolean gst_gpudirect_sink_may_pass(GstGpudirectSink *self, GstBuffer *buffer);
struct gpud_frame *gst_gpudirect_sink_pass(GstGpudirectSink *self, GstBuffer *buffer);

void gst_gpudirect_sink_drop_prepared(GstGpudirectSink *self);

/* --- clients.c ---------------------------------------------------------------------------- */

enum client_signal { SIGNAL_CLIENT_CONNECTED, SIGNAL_CLIENT_DISCONNECTED, SIGNAL_COUNT };
extern guint gst_gpudirect_sink_signals[SIGNAL_COUNT];

/* The core's callbacks; user is the element. */
void gst_gpudirect_sink_on_connect(void *user, const struct gpud_peer_info *peer);
void gst_gpudirect_sink_on_disconnect(void *user, const struct gpud_peer_info *peer);

void gst_gpudirect_sink_clear_clients(GstGpudirectSink *self);

/* Whether messages about receivers may be posted: from start to stop. */
void gst_gpudirect_sink_let_post(GstGpudirectSink *self, gboolean let);

/* --- stats.c ------------------------------------------------------------------------------ */

/* From any thread; also where there is no sender. */
void gst_gpudirect_sink_get_info(GstGpudirectSink *self, struct gpud_sender_info *info);
GstStructure *gst_gpudirect_sink_make_stats(GstGpudirectSink *self);

/* Posts them as an element message, at the end of the stream. */
void gst_gpudirect_sink_post_stats(GstElement *element);
void gst_gpudirect_sink_class_init_stats(GstElementClass *klass);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of gpudirectsrc. Five files:
 *   gpudirectsrc.c   class, properties, states, queries
 *   srcplace.c       where frames shall arrive: devices, CUDA's caps and contexts
 *   srccreate.c      the loop: a frame becomes a buffer; what to do when there is none
 *   srcformat.c      caps, the pool, allocation; events that came along
 *   input.h          where frames come from */
#ifndef GPUD_GST_GPUDIRECTSRC_H
#define GPUD_GST_GPUDIRECTSRC_H

#include "gpu.h"
#include "input.h"
#include "layoutcaps.h"
#include "settings.h"
#include "timing.h"

#include <gst/base/gstpushsrc.h>
#include <gst/video/video.h>

#define GST_TYPE_GPUDIRECT_SRC (gst_gpudirect_src_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectSrc, gst_gpudirect_src, GST, GPUDIRECT_SRC, GstPushSrc)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsrc)

GST_DEBUG_CATEGORY_EXTERN(gst_gpudirect_src_debug);

/* The longest that a call into the core waits before the element looks around. */
#define SRC_WAIT (200 * GPUD_MSEC)

enum on_disconnect { ON_DISCONNECT_WAIT, ON_DISCONNECT_EOS, ON_DISCONNECT_ERROR };

struct _GstGpudirectSrc {
    GstPushSrc parent;

    /* Properties; under the object lock. */
    struct settings settings;
    enum on_disconnect on_disconnect;
    guint connection_timeout; /* s */
    GstClockTime processing_deadline;
    guint busy_poll; /* µs */

    /* From start to stop. Replaced under input_lock, which is held to look at it from other
     * threads. */
    GMutex input_lock;
    struct input *input;

    gint opened_on;   /* atomic: N where frames arrive on cuda:N, else -1 */
    GstObject *given; /* a GstCudaContext from outside; under the object lock */

    gint monotonic; /* atomic: the pipeline's clock is CLOCK_MONOTONIC */
    gint ending;    /* atomic: the application asked for an end of the stream */
    gint flushing;  /* atomic: create() is to come back */
    GMutex pause_lock;
    GCond pause_cond; /* flushing changed */

    /* The streaming thread's. */
    GQueue news;    /* struct news: what the link said, in order */
    GQueue waiting; /* struct wire_event that wait for a frame to tell the time */
    GstVideoInfo info;
    struct gpud_layout layout; /* that caps and pool were made for */
    GstBufferPool *pool;       /* wraps frames of the current epoch; NULL: no format yet */
    gboolean planes_default;
    gboolean downstream_video_meta;
    struct time_map map;
    gboolean discont;
    gboolean linked;       /* a sender is there, or was and its loss is not told yet */
    gboolean refusal_told; /* since the last connection */
    gint64 waiting_since;  /* monotonic µs: without a sender */
    guint64 dropped_seen;  /* of this connection */
    guint64 dropped_total; /* of all connections */
    guint64 frames;
    guint settling;      /* frames until latency is measured again */
    gint64 latency_told; /* monotonic µs of the last message */
    struct gpu *gpu;     /* buffers are memory of this GPU; NULL: of the CPU's */
    struct tally *tally;
    guint64 copies_cpu, lost_metas; /* relaxed atomics */

    /* Under the object lock: for the latency query. */
    GstClockTime transfer, frame_duration;
};

/* --- srcplace.c --------------------------------------------------------------------------- */

/* Why downstream may have refused these caps, and what to do. */
const gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps);

void gst_gpudirect_src_class_init_place(GstElementClass *klass);

/* Answers a query for a context of the GPU. */
gboolean gst_gpudirect_src_share_context(GstGpudirectSrc *self, GstQuery *query);

/* The device that frames shall arrive on; g_free it. Sets self->opened_on. */
gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops);

/* What of the pad's caps the device can give. Takes the caps. */
GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps);

/* The sender's caps as downstream takes them: of CUDA memory, in which case *gpu is set, or as they
 * are. Takes the caps. NULL: downstream does not take them. */
GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu);

/* --- srccreate.c -------------------------------------------------------------------------- */

GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer);

/* The property "stats"; also posted as an element message when the stream ends. */
GstStructure *gst_gpudirect_src_make_stats(GstGpudirectSrc *self);

/* --- srcformat.c -------------------------------------------------------------------------- */

/* What the link says, from inside acquire. user is the element. */
void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data);

/* Takes up what was said: new caps at once, events as soon as their time is known. */
GstFlowReturn gst_gpudirect_src_handle_news(GstGpudirectSrc *self);
void gst_gpudirect_src_push_events(GstGpudirectSrc *self);

/* From now on frames of this shape come. */
gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout);

void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass);

/* Whether create() is to come back, from where it waits. */
void gst_gpudirect_src_set_flushing(GstGpudirectSrc *self, gboolean flushing);

/* Forgets the stream. */
void gst_gpudirect_src_reset_stream(GstGpudirectSrc *self);

#endif

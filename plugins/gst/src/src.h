/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of gpudirectsrc. What it knows is in structs, each with the file that owns it; below
 * are the functions of the element itself. Each file stands above those that it uses:
 *   element.c   class, properties, states, queries
 *   open.c      the input: opened and closed, and a card kept open in READY
 *   create.c    the loop: a frame becomes a buffer
 *   wait.c      what to do when no frame comes
 *   apply.c     what the link says beside frames is applied
 *   events.c    the sender's events go downstream
 *   format.c    caps and allocation
 *   device.c    on which device frames shall arrive, and what that means for caps
 *   stats.c     the property "stats"
 * The structs:
 *   signal.h    whether pictures come, and what is shown while none do
 *   times.h     when: the times of buffers
 *   latency.h   how late they are, and what of that is reported
 *   pictures.h  their shape, and the buffers that hold them
 *   updates.h   what came over the link beside frames, and waits to be applied
 *   linkstate.h whether a sender is connected, and what was reported of that
 *   kept.h      by what a card was opened in READY
 *   card.h      what a capture card is set to: its input, its controls
 *   options.h   the element's own properties
 *   feed.h      the input that is open now; input.h: its kinds, in link.c, capture.c and target.c
 */
#ifndef GPUD_GST_SRC_SRC_H
#define GPUD_GST_SRC_SRC_H

#include "base/endpoint.h"
#include "src/card.h"
#include "src/debug.h"
#include "src/feed.h"
#include "src/kept.h"
#include "src/latency.h"
#include "src/linkstate.h"
#include "src/options.h"
#include "src/pictures.h"
#include "src/signal.h"
#include "src/times.h"
#include "src/updates.h"

#include <gst/base/gstpushsrc.h>

#define GST_TYPE_GPUDIRECT_SRC (gst_gpudirect_src_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectSrc, gst_gpudirect_src, GST, GPUDIRECT_SRC, GstPushSrc)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsrc)

/* Frames arrive where the sender has them, if downstream can take that. */
struct src_follow {
    gboolean enabled;
    guint moves; /* from device to device since the last frame */
};

/* Frames that are stale are skipped after connecting and after a pause. */
struct src_beginning {
    gint resumed;            /* atomic: PLAYING again, and create() has not noticed yet */
    GstClockTime resumed_at; /* monotonic: what was captured before is stale */
    gboolean pending;        /* the next frame is the first one, or the first after a pause */
    guint skipped_in_row;    /* since then */
};

struct _GstGpudirectSrc {
    GstPushSrc parent;

    struct endpoint endpoint;
    struct src_options options; /* properties; under the object lock */
    struct card_settings card;  /* likewise */
    struct kept_card kept;
    struct feed feed;
    gint ending; /* atomic: the application asked for an end of the stream */

    /* The streaming thread's. */
    struct updates updates;
    struct link_state link;
    struct src_follow follow;
    struct pictures pictures;
    struct times times;
    struct latency latency;
    struct src_signal signal;
    struct src_beginning beginning;
    struct names *names;        /* of the address */
    GPtrArray *sticky_names;    /* interned: of custom events that the pad keeps */
    gboolean discont;           /* of the next buffer */
    gboolean follows_signal;    /* the caps are another signal's: nothing is to be negotiated */
    guint64 frames;             /* that were pushed */
    guint64 dropped;            /* of all inputs, as QoS messages say */
    guint64 skipped_unreported; /* frames that are in no QoS message yet */
};

/* Whether a card is open that serves the properties as they are. Under the object lock. */
static inline gboolean gst_gpudirect_src_keeps_card(GstGpudirectSrc *self)
{
    return self->feed.input &&
           kept_card_serves(&self->kept, &self->endpoint.settings, self->options.io_mode);
}

/* Another stream follows, or the pipeline was paused. */
static inline void gst_gpudirect_src_break_stream(GstGpudirectSrc *self)
{
    times_break(&self->times);
    latency_break(&self->latency);
}

#endif

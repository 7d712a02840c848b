/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The internals of gpudirectsrc. Its state is in structs, each owned by a file. The files of the
 * element itself, each above those that it uses:
 *   element.c   class, properties, states, queries
 *   open.c      opens and closes the input, and keeps a card open in READY
 *   create.c    the loop: a frame becomes a buffer
 *   wait.c      what to do when no frame comes
 *   apply.c     applies the link's events
 *   events.c    the sender's events go downstream
 *   format.c    caps and allocation
 *   device.c    the device on which frames arrive, and its consequences for caps
 *   stats.c     the property "stats"
 * The structs:
 *   signal.h    whether pictures arrive, and what is shown while none do
 *   times.h     the times of buffers
 *   latency.h   the lateness of pictures, and the latency reported for it
 *   pictures.h  the format of pictures, and the buffers that hold them
 *   blocks.h    the same of sound and data
 *   updates.h   events of the link that wait to be applied
 *   linkstate.h whether a sender is connected, and what was reported about it
 *   kept.h      the properties with which a card was opened in READY
 *   card.h      the input and the controls of a capture card
 *   options.h   the element's own properties
 *   feed.h      the current input; input.h: its kinds, in link.c, capture.c and target.c
 *   group.h     sources that pass on the same instant; instant.h: which one
 */
#ifndef GPUD_GST_SRC_SRC_H
#define GPUD_GST_SRC_SRC_H

#include "element/endpoint.h"
#include "src/blocks.h"
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

/* Frames arrive on the sender's device, if downstream accepts its memory. */
struct src_follow {
    gboolean enabled;
    guint moves; /* from device to device since the last frame */
};

/* Frames that are stale are skipped after connecting and after a pause. */
struct src_beginning {
    gint resumed;            /* atomic: PLAYING again, and create() has not noticed yet */
    GstClockTime resumed_at; /* monotonic: frames captured earlier are stale */
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
    gint ending; /* atomic: the application asked for EOS */

    /* The streaming thread's. */
    struct updates updates;
    struct link_state link;
    struct src_follow follow;
    struct pictures pictures;
    struct blocks blocks;
    struct times times;
    struct latency latency;
    struct src_signal signal;
    struct src_beginning beginning;
    struct names *names;          /* those accepted from the address's senders */
    GPtrArray *sticky_names;      /* interned names of custom events that the pad keeps */
    gboolean discont;             /* of the next buffer */
    gboolean follows_signal;      /* the caps follow a change of signal, and need no negotiation */
    GstClockTime slots_seen;      /* when the number of slots was looked up; monotonic */
    GstClockTime returned_at;     /* when downstream got the last buffer; monotonic; 0: none yet */
    GstClockTime blocked_longest; /* that downstream took for a buffer since the last but one */
    gboolean loss_reported;       /* a warning said that pictures are lost */
    gint sender_live;             /* atomic: as the sender says; -1: it has not said */
    guint64 frames;               /* pushed buffers */
    guint64 dropped;              /* frames dropped by all inputs, as QoS messages report */
    guint64 skipped_unreported;   /* frames that are in no QoS message yet */
};

/* Whether an open card serves the current properties. Under the object lock. */
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

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The delivery of one frame to several receivers, as submit.c fills it in. It belongs to the thread
 * that delivers it, then to the completion of its copies, so it needs no lock. */
#ifndef GPUD_STREAM_SENDER_TARGETS_H
#define GPUD_STREAM_SENDER_TARGETS_H

#include "stream/sender/link.h"

#define GPUD_NO_ENTRY UINT32_MAX
struct gpud_delivery_target {
    struct gpud_link *link;
    struct gpud_transport *transport; /* a reference; NULL: of no ring yet, see waiting.c */
    uint32_t entry;                   /* taken, or GPUD_NO_ENTRY if none was free, see waiting.c */
    bool failed;                      /* its device did not accept the frame */
    bool early;                       /* published while the frame is still written */
    bool stepwise;                    /* early, and the frame is copied for it in steps */
};

struct gpud_delivery {
    struct gpud_frame
        *frame; /* the caller's until the delivery is done, then released if `consume` */
    const struct gpud_frame_info *info; /* of the frame, as it is sent; until gpud_deliver() ends */
    uint64_t submitted;                 /* likewise; 0: now */
    bool consume;
    bool canary;                   /* a link's test frame: not counted */
    bool by_lines;                 /* the frame is still being written: see lines.h */
    bool corrupted;                /* its bytes never came, or were lost */
    struct gpud_slot *device_slot; /* the slot that the shared routes publish: the frame's own, or
                                      one to copy into */
    struct gpud_slot *host_slot;   /* likewise for host pages, if the device is not the host */
    /* Filled by gpud_deliver() for the copies, which are made without the lock: the application may
     * configure the sender anew during a link's test. */
    struct gpud_layout layout; /* of the device's slots */
    struct gpud_layout rows;   /* of all other rings */
    struct gpud_slot *ordered; /* by gpud_copies_are_stream_ordered() */
    bool copies, is_late;      /* some target needs one; some has no entry */
    /* Of a frame that is still being written: the rows that earlier steps copy for its stepwise
     * targets. lines: this is one of these steps, which copies the rows before this one; 0: it is
     * the frame, and copies the rest. */
    uint32_t copied, lines;
    uint64_t sequence;
    uint32_t count;
    struct gpud_delivery_target target[GPUD_RECEIVERS_MAX];
};

/* Whether a target is published only when a queue is done; a frame that is copied in steps has no
 * signal for each. */
static inline bool gpud_target_waits(const struct gpud_delivery_target *target)
{
    return !target->transport || target->transport->place == GPUD_SIGNAL_NONE || target->stepwise;
}

/* The row before which its copies end. */
static inline uint32_t gpud_delivery_end(const struct gpud_delivery *delivery)
{
    return delivery->lines ? delivery->lines : delivery->layout.height;
}

#endif

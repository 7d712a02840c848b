/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of a capture share. Each calls only those before it: publish.c tells get_info,
 * watch.c shows events to an event loop, setup.c selects the input, negotiate.c agrees with the
 * driver on a format, stream.c starts and ends a ring, follow.c keeps up with the signal, lost.c
 * waits for a card that was unplugged. The calls are above them: configure.c, acquire.c, capture.c.
 */
#ifndef GPUD_CAPTURE_STATE_H
#define GPUD_CAPTURE_STATE_H

#include "capture/controls.h"
#include "capture/input.h"
#include "capture/machine.h"
#include "capture/ring_state.h"
#include <gpudirect/capture.h>

/* How often a driver is asked for its signal that has no event for it, or no signal now. */
#define GPUD_CAPTURE_LOOK (500 * GPUD_MSEC)

struct gpud_capture {
    struct gpud_context *context;
    struct gpud_device *device; /* where the frames shall arrive */
    struct gpud_device *host;
    struct gpud_v4l2 node;
    char home[sizeof(((struct gpud_v4l2 *)0)->path)]; /* the node that was asked for */
    struct gpud_v4l2 known;                           /* the card when it was opened last */
    struct gpud_lock node_lock; /* around closing and opening it, and what other threads ask it */
    uint32_t slots;
    char method[16]; /* the only one to take, or "" */
    bool direct;     /* only methods that need no copy */

    struct gpud_lock interrupt_lock; /* around changing both, so that they agree */
    atomic_bool interrupted;
    int interrupt_fd; /* readable while interrupted */
    int watch_fd;     /* an epoll, for event loops; -1: none was asked for */

    /* What was configured. From here on one thread at a time. */
    struct gpud_capture_mode wanted; /* the last configure; a size of 0x0: the signal's own */
    uint32_t fourcc;                 /* of that format; 0: to be looked for */
    bool scales;                     /* that size is another one than the signal's */
    bool interlaced;                 /* the signal was, when that scan was asked for */
    char input[64];                  /* that was asked for; "": none was */
    int next_input;                  /* to be selected when no frame is held; -1: none */
    struct gpud_error input_refused; /* why it was not */
    struct gpud_controls controls;   /* with node_lock held */

    /* The signal. */
    struct gpud_input source; /* as it was detected last */
    bool has_change_event;    /* the driver has an event for a change of it */
    int64_t look_at;          /* when it is looked at next without an event */

    /* The stream. */
    struct gpud_capture_state state;
    struct gpud_capture_ring *ring; /* NULL: not configured, deferred, or unplugged */
    struct gpud_error failure;      /* in phase FAILED: why */
    bool alternate;                 /* frames are single fields */
    uint32_t driver_second;         /* the last frame was the second field of its two */
    uint64_t frame_duration;        /* ns, or GPUD_TIME_NONE */
    int64_t began;                  /* when the driver was started */
    int64_t last_frame;             /* when the last frame was acquired */
    bool said_full;                 /* logged: the application holds all frames */
    bool said_clock;                /* logged: which clock the driver uses */

    /* A card that was unplugged. */
    struct gpud_error absence; /* why it is not there yet */
    int nodes_fd;              /* an inotify, for nodes that appear; -1 */
    /* When to look for the card, or the signal, again. Expired as well if there is an error to
     * report, and no ring that would show it. -1: not armed */
    int timer_fd;

    /* Frames so far. */
    uint64_t sequence;        /* of the last frame, counted from 1 */
    uint32_t driver_sequence; /* the driver's number for it */
    uint64_t driver_count;    /* the same, beyond 32 bits */
    bool numbered;            /* driver_sequence is known */
    bool discontinuity;       /* the next frame does not follow the last one */
    uint32_t epoch;

    struct gpud_lock lock; /* around info, which other threads read */
    struct gpud_capture_info info;
};

#endif

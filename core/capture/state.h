/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* What the files of a capture share. Each calls only those before it:
 *
 *   machine.c     what happens next: a table
 *   publish.c     tells get_info
 *   watch.c       shows events to an event loop
 *   card.c        sets up the card, and finds one that was unplugged
 *   negotiate.c   agrees with the driver on a format
 *   stream.c      starts and ends a ring
 *   actions.c     carries out what the machine says
 *   follow.c      keeps up with the signal
 *   configure.c, acquire.c, wait.c, capture.c: the calls */
/* clang-format on */
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
    uint32_t slots;
    char method[16]; /* the only one to take, or "" */
    bool direct;     /* only methods that need no copy */

    struct gpud_v4l2 node;
    struct gpud_lock node_lock; /* around closing and opening it, and what other threads ask it */
    struct gpud_capture_state state;
    struct gpud_capture_ring *ring; /* NULL: not configured, deferred, or unplugged */
    struct gpud_error failure;      /* in phase FAILED: why */

    int watch_fd; /* an epoll, for event loops; -1: none was asked for */
    /* When to look for the card, or the signal, again. Expired as well if there is an error to
     * report, and no ring that would show it. -1: not armed */
    int timer_fd;
    struct {
        struct gpud_lock lock; /* around changing both, so that they agree */
        atomic_bool set;
        int fd; /* readable while it is set */
    } interrupt;

    struct gpud_lock lock; /* around info, which other threads read */
    struct gpud_capture_info info;

    /* One thread's at a time, as all below. configure.c */
    struct {
        struct gpud_capture_mode mode;   /* the last configure; a size of 0x0: the signal's own */
        uint32_t fourcc;                 /* of that format; 0: to be looked for */
        bool scales;                     /* that size is another one than the signal's */
        bool interlaced;                 /* the signal was, when that scan was asked for */
        char input[64];                  /* that was asked for; "": none was */
        int next_input;                  /* to be selected when no frame is held; -1: none */
        struct gpud_error input_refused; /* why it was not */
        struct gpud_controls controls;   /* with node_lock held */
    } wanted;

    /* card.c */
    struct {
        char home[sizeof(((struct gpud_v4l2 *)0)->path)]; /* the node that was asked for */
        struct gpud_v4l2 known;                           /* the card when it was opened last */
        int nodes_fd;              /* an inotify, for nodes that appear; -1 */
        struct gpud_error absence; /* why it is not there yet */
    } card;

    /* follow.c */
    struct {
        struct gpud_input now; /* as it was detected last */
        bool has_event;        /* the driver has one for a change of it */
        int64_t look_at;       /* when it is looked at next without an event */
    } signal;

    /* stream.c */
    struct {
        bool alternate;          /* frames are single fields */
        uint64_t frame_duration; /* ns, or GPUD_TIME_NONE */
        int64_t began;           /* when the driver was started */
        int64_t last_frame;      /* when the last frame was acquired */
        bool said_full;          /* logged: the application holds all frames */
        bool said_clock;         /* logged: which clock the driver uses */
    } stream;

    /* arrival.c */
    struct {
        uint64_t sequence;        /* of the last frame, counted from 1 */
        uint32_t driver_sequence; /* the driver's number for it */
        uint32_t driver_second;   /* it was the second field of its two */
        uint64_t driver_count;    /* driver_sequence beyond 32 bits */
        bool numbered;            /* driver_sequence is known */
        bool discontinuity;       /* the next frame does not follow the last one */
        uint32_t epoch;
    } count;
};

#endif

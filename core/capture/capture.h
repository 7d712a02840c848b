/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a capture. capture.c makes, and ends it, configure.c sets it up, follow.c keeps up
 * with its signal, lost.c waits for a card that was unplugged, acquire.c waits for frames and
 * judges them, watch.c shows them to an event loop, modes.c lists what the driver offers; ring.h is
 * one configuration's buffers. */
#ifndef GPUD_CAPTURE_CAPTURE_H
#define GPUD_CAPTURE_CAPTURE_H

#include "capture/ring.h"
#include "capture/controls.h"
#include "capture/input.h"
#include <gpudirect/capture.h>

/* How often a driver without an event is asked for its signal, and any while there is none. */
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
    int watch_fd;     /* an epoll, for event loops; -1: nobody has asked */

    /* The configuration. One thread at a time is here. */
    struct gpud_capture_mode wanted; /* the last configure; a size of 0x0: the signal's own */
    uint32_t fourcc;                 /* of that format; 0: to be looked for */
    bool scales;                     /* that size is another one than the signal's */
    bool interlaced;                 /* the signal was, when that scan was asked for */
    char input[64];                  /* that was asked for; "": none was */
    int next_input;                  /* to be selected when nobody holds a frame; -1: none */
    struct gpud_error input_refused; /* why it was not */
    struct gpud_controls controls;   /* with node_lock held */
    struct gpud_input source;        /* as it was detected last */
    bool tells;                      /* the driver has an event for a change of it */
    bool told;                       /* something, by poll(); or else a look is due */
    int64_t last_frame;              /* when the last frame was acquired */
    int64_t began;                   /* when the driver was started */
    bool changed;                    /* it told of one, and that is not followed yet */
    int64_t look_at;                 /* when the signal is looked at next without an event */
    bool alternate;                  /* frames are single fields */
    uint32_t driver_second;          /* the last frame was the second field of its two */
    struct gpud_capture_ring *ring;  /* NULL: not configured */
    uint64_t frame_duration;         /* ns, or GPUD_TIME_NONE */
    struct gpud_error
        failure;      /* what ended the stream: every acquire says so until the next configure */
    bool poll_failed; /* poll() saw an error that the next dequeue shall explain */
    bool gone;        /* unplugged: the node must be opened again */
    bool waits;       /* for the card */
    struct gpud_error absence; /* why it is not there yet */
    int nodes_fd;              /* an inotify, for nodes that appear; -1 */
    /* When to look for the card, or the signal, again; expired, too, where there is an error to
     * tell, and no ring that would show it; -1 */
    int timer_fd;
    bool unstarted;  /* configured, and the driver does not start without a signal */
    bool said_full;  /* that the application holds all frames */
    bool said_clock; /* which clock the driver uses */

    /* The stream so far. */
    uint64_t sequence;        /* of the last frame, counted from 1 */
    uint32_t driver_sequence; /* the driver's number for it */
    uint64_t driver_count;    /* the same, beyond 32 bits */
    bool numbered;            /* driver_sequence is known */
    bool discontinuity;       /* the next frame does not follow the last one */
    uint32_t epoch;

    struct gpud_lock lock; /* around info, which other threads read */
    struct gpud_capture_info info;
};

/* The card behind a node, "/dev/video0": its place on the PCI bus; "": it has none. */
void gpud_capture_find_card(const char *node, char *pci, size_t size);

/* What gpud_capture_create() does with the devices opened and the kernel as the system. Takes
 * references. */
enum gpud_status gpud_capture_open(struct gpud_device *device, struct gpud_device *host,
                                   const struct gpud_capture_params *params,
                                   const struct gpud_v4l2_system *system,
                                   struct gpud_capture **capture, struct gpud_error *error);

/* The ring's method turned out not to work, as why says: the stream goes on by the next one. On
 * failure there is no ring, or one that has ended. */
enum gpud_status gpud_capture_fall_back(struct gpud_capture *capture, const struct gpud_error *why,
                                        struct gpud_error *error);

/* The ring's method is known to work: info says which it is. */
void gpud_capture_publish_path(struct gpud_capture *capture);

/* Held frames live on. GPUD_IO: the driver keeps its buffers, and the ring is still there. must:
 * drop it whatever the driver says. */
enum gpud_status gpud_capture_drop_ring(struct gpud_capture *capture, bool must,
                                        struct gpud_error *error);

/* Sets the card to its signal and to what is wanted, and starts streaming. The ring is NULL, and is
 * again on failure. */
enum gpud_status gpud_capture_begin(struct gpud_capture *capture, struct gpud_error *error);

/* What was detected, for get_info. */
void gpud_capture_publish_signal(struct gpud_capture *capture);
/* What the driver says now of the colours and rate of what it captures. True: something else. */
bool gpud_capture_publish_format(struct gpud_capture *capture);

/* Looks at the signal, and follows it if it has changed. Where the driver tells of a change, and
 * has told of none, it is only looked at while it is lost. *held: the driver keeps buffers that the
 * application holds, and it is not followed before they are released. On another failure there is
 * no ring. */
enum gpud_status gpud_capture_follow(struct gpud_capture *capture, bool *held,
                                     struct gpud_error *error);

/* The card was unplugged, as some call has said. */
void gpud_capture_note_gone(struct gpud_capture *capture);

/* Opens the card again, wherever it is. */
enum gpud_status gpud_capture_reopen(struct gpud_capture *capture, struct gpud_error *error);
/* It is back, and nobody waits for it any more. */
void gpud_capture_note_return(struct gpud_capture *capture);

void gpud_capture_end_wait(struct gpud_capture *capture);

/* timer_fd expires after that long, and then again every so often (0: not again). False: errno. */
bool gpud_capture_arm(struct gpud_capture *capture, int64_t after, int64_t every);
/* Whether it has; that is forgotten then. */
bool gpud_capture_is_time(struct gpud_capture *capture);
void gpud_capture_disarm(struct gpud_capture *capture);
/* Event loops see this descriptor as well, until it is closed; -1 is nothing. False: errno. */
bool gpud_capture_watch_too(struct gpud_capture *capture, int fd);
void gpud_capture_close_watched(struct gpud_capture *capture, int *fd);

/* Without a ring, for the driver does not start without a signal: waits until it does. */
enum gpud_status gpud_capture_await_start(struct gpud_capture *capture, int64_t deadline,
                                          struct gpud_error *error);

/* Selects the input and sets the controls that were asked for; the card was just opened, and its
 * signal is detected then. */
enum gpud_status gpud_capture_set_up(struct gpud_capture *capture, struct gpud_error *error);

/* Before each look for a frame: follows the signal. *held: it has changed, and the driver waits for
 * frames. */
enum gpud_status gpud_capture_keep_up(struct gpud_capture *capture, bool *held,
                                      struct gpud_error *error);

/* The driver's format of this name; 0: it has none. Frames of a card that fills no alpha in are
 * called by the name without. */
uint32_t gpud_capture_find_format(const struct gpud_v4l2 *node, const char *name);

/* gpud_capture_list_modes_of() of an open node with this signal at its input; format NULL: all.
 * Nothing is set. */
size_t gpud_capture_modes_of(const struct gpud_v4l2 *node, const struct gpud_input *source,
                             const char *format, struct gpud_capture_mode *modes, size_t max);

/* What frames of this format are called; NULL: frames of it cannot be captured. */
const char *gpud_capture_name_format(const struct gpud_v4l2 *node, uint32_t fourcc);

/* "UYVY, YUY2, NV12": what the driver has, for a sentence. */
void gpud_capture_name_formats(const struct gpud_v4l2 *node, char *text, size_t size);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A V4L2 driver in this process, behind the capture's system calls. It knows the rules of videobuf2
 * and is never laxer: a buffer that is queued twice, a format set while buffers exist, a wrong type
 * or kind of memory is an error here as there. One at a time. */
#ifndef GPUD_TESTS_FAKE_DRIVER_H
#define GPUD_TESTS_FAKE_DRIVER_H

#include "capture/internal.h"

#include <linux/videodev2.h>
#include <pthread.h>

#define FAKE_BUFFERS 32
#define FAKE_AREA_MAX (1024 * 1024) /* of a buffer in the driver's memory */

enum fake_sizes {
    FAKE_DISCRETE, /* 320x180 at up to 60, 640x360 at up to 30 frames a second */
    FAKE_STEPWISE, /* 64x32 to 640x360 in steps of 16x4 */
    FAKE_SILENT,   /* no list: 320x180 is what there is */
};

/* A call that fails. */
struct fake_fault {
    unsigned long request; /* 0: any */
    uint32_t memory;       /* enum v4l2_memory of the buffer; 0: any */
    uint32_t after;        /* that many calls pass first */
    uint32_t times;        /* then this many fail */
    int error;
};

struct fake_buffer {
    bool queued, done;
    uint32_t flags, sequence, bytesused[GPUD_PLANES_MAX], data_offset[GPUD_PLANES_MAX];
    uint64_t timestamp;
    unsigned char *area[GPUD_PLANES_MAX]; /* where the driver writes */
    uint32_t attached[GPUD_PLANES_MAX];   /* bytes of a dma-buf that are mapped there; 0: none */
};

/* Its controls, in the order of their numbers. */
enum {
    FAKE_BRIGHTNESS, /* 0 to 250 in steps of 5 */
    FAKE_ALPHA,
    FAKE_BITS,     /* 2 and 4 */
    FAKE_SERIAL,   /* a text of 1 to 8 */
    FAKE_LONG,     /* 64 bits */
    FAKE_GAIN,     /* can only be read */
    FAKE_TABLE,    /* an array */
    FAKE_AUTO,     /* a menu, whose entry 2 is missing */
    FAKE_EXPOSURE, /* inactive unless FAKE_AUTO is 1 */
    FAKE_CONTROLS,
};

struct fake_driver {
    /* What it is; set before use. */
    bool multiplanar;
    uint32_t memories;     /* V4L2_BUF_CAP_…; 0: it does not say */
    uint32_t capabilities; /* beside those that it always has */
    enum fake_sizes sizes;
    uint32_t padding;  /* of each row */
    uint32_t fewer;    /* buffers than asked for */
    bool keeps_mapped; /* REQBUFS(0) is refused while buffers are mapped (no
                          V4L2_BUF_CAP_SUPPORTS_ORPHANED_BUFS) */
    bool takes_dmabufs;
    bool writes_elsewhere; /* than into the dma-bufs that it takes; from the buffer on that: */
    uint32_t elsewhere_from;
    const char *bus;   /* NULL: "pci" */
    const char *node;  /* where it is; NULL: "/dev/fake" */
    const char *place; /* V4L2's bus_info; NULL: "" */
    const char *other; /* a node of another card, which can be opened and no more; NULL: none */
    int other_fd;
    bool substitutes;     /* S_FMT gives UYVY whatever is asked for */
    uint32_t more_format; /* one that it has beside the others; 0: none */
    uint32_t field;
    struct {
        uint32_t space, transfer, encoding, quantization;
    } colors;
    bool has_hdr;                 /* the controls for it */
    bool has_controls, has_alpha; /* the others */
    bool old_controls;            /* no VIDIOC_QUERY_EXT_CTRL */
    const char *inputs[4];        /* their names; the first NULL: it has no inputs */
    uint32_t widths[4];           /* of their signals, 16:9; 0: the one that is there */
    /* A digital input: pictures have the size of the timings that are set. */
    bool digital, tells; /* by an event when the signal changes */
    bool needs_signal;   /* to start */
    int detects;         /* errno of QUERY_DV_TIMINGS, or 0: */
    struct v4l2_bt_timings detected, timings;
    v4l2_std_id standard; /* of an analogue input; 0: digital */
    struct v4l2_fract aspect;
    uint32_t events;       /* that wait */
    uint32_t buffer_field; /* of each buffer; 0: the format's */
    uint32_t stamp;        /* V4L2_BUF_FLAG_TIMESTAMP_… and _TSTAMP_SRC_… */
    int64_t stamp_shift;   /* ns from the monotonic clock to the one that it stamps with */
    uint64_t stamped;      /* the last frame */
    int open_error;
    unsigned long stop_at; /* the next call of this request stops until fake_go_on() */
    struct fake_fault fault;
    uint32_t lies_index; /* added to the index that DQBUF gives */

    /* What it does. */
    pthread_mutex_t lock;
    int fd;      /* the node, while it is open: another number for pipe[0], which stays open as a
                    forked process would keep it */
    int pipe[2]; /* a byte a frame that is done; [1] is -1 while poll() shows an error */
    int memfd, opened;
    uint32_t opens; /* so far */
    bool unplugged, poll_error;
    struct gpud_v4l2_format format;
    struct v4l2_fract interval;
    int64_t controls[FAKE_CONTROLS];
    uint32_t controls_set; /* how often */
    char serial[9];
    int input;
    bool streaming;
    uint32_t memory, count, mapped;
    struct fake_buffer buffers[FAKE_BUFFERS];
    uint32_t queue[FAKE_BUFFERS], queue_length, done[FAKE_BUFFERS], done_length;
    uint32_t calls, polls, dequeues; /* system calls; of these, to wait, and DQBUF */
    uint32_t polled;                 /* descriptors, in all polls */
    uint32_t size_lists;             /* that were asked for from their start */
    uint32_t format_calls;           /* for an entry of its list of formats */
    uint32_t changes;                /* calls that another program with the node would notice */
    uint32_t inside;                 /* calls under way */
    bool stopped;                    /* one is, at stop_at */
    pthread_cond_t change;
};

extern const struct gpud_v4l2_system fake_system;

/* Where in memfd a buffer's area lies. */
uint32_t fake_area_offset(uint32_t index, uint32_t area);

/* Makes this the driver behind fake_system. */
void fake_install(struct fake_driver *driver);
void fake_remove(struct fake_driver *driver);

/* A frame arrives: the oldest queued buffer is filled with the byte and is done. False: it had
 * none, so the frame is lost. bytesused is complete, data_offset 0, flags the driver's. */
bool fake_frame(struct fake_driver *driver, uint32_t sequence, unsigned char byte);

/* The same, with the driver's word about it changed. */
struct fake_word {
    uint32_t flags;       /* added */
    uint32_t missing;     /* bytes that are not there */
    uint32_t data_offset; /* of the first area */
};
bool fake_frame_with(struct fake_driver *driver, uint32_t sequence, unsigned char byte,
                     const struct fake_word *word);

/* Another signal is there; width 0: none, and this is why. The driver tells, if it can. */
void fake_signal(struct fake_driver *driver, uint32_t width, uint32_t height, bool interlaced,
                 int why);

/* poll() shows an error that no call explains. */
void fake_fail_poll(struct fake_driver *driver);

/* The card is pulled out of its slot, and put in again. */
void fake_unplug(struct fake_driver *driver, bool unplugged);

/* Makes poll() show what the driver is in: an error if it is unplugged or does not stream, and, as
 * older kernels have it, while it has no buffer. With the lock held. */
void fake_show(struct fake_driver *driver);

/* What a buffer's area of dma-buf memory is to the card's DMA engine, which keeps its way to it
 * when the descriptor is closed, until all are detached. Gives an errno or 0. With the lock held.
 */
int fake_attach(struct fake_driver *driver, uint32_t index, uint32_t area, int fd, uint32_t length);
void fake_detach(struct fake_driver *driver);

/* Whether this call is one that fails, which is counted. With the lock held. */
bool fake_fault_hits(struct fake_driver *driver, unsigned long request_code, const void *argument);

uint32_t fake_queued(struct fake_driver *driver);

/* Waits until a call has stopped at stop_at; and lets it go on. */
void fake_await_stop(struct fake_driver *driver);
void fake_go_on(struct fake_driver *driver);

#endif

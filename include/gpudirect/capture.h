/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* A V4L2 capture driver as the writer of a ring.
 *
 *   gpud_capture_create
 *     → gpud_capture_list_modes → gpud_capture_configure
 *     → { gpud_capture_acquire → use → gpud_frame_release }…
 *             GPUD_NO_DEVICE: gpud_capture_wait, and on
 *     → gpud_capture_destroy
 *
 * Thread-safety: acquire, configure, configure_mode, configure_input, stop, wait and get_fd come
 * from one thread at a time; list_modes, configure_controls, get_info and interrupt may be called
 * from any thread, also during those, and the descriptor of get_fd be watched in any; frames may be
 * released from any thread, also after destroy, which comes when no other call is under way. */
/* clang-format on */
#ifndef GPUDIRECT_CAPTURE_H
#define GPUDIRECT_CAPTURE_H

#include <gpudirect/frame.h>
#include <gpudirect/media.h>

GPUD_BEGIN_DECLS

struct gpud_capture;

#define GPUD_CAPTURE_CONTROLS_MAX 64

/* A control of the card's, and what it shall be set to. */
struct gpud_capture_control {
    /* As the driver or v4l2-ctl calls it: "Exposure, Auto" is exposure_auto, too; or its number. */
    const char *name;
    int64_t value;
    const char *text; /* of a control that takes a text, or the name of a menu's entry; else NULL */
};

struct gpud_capture_params {
    size_t size;
    const char *address; /* required: "v4l2:///dev/video0" */
    /* Where the frames shall arrive; a kind alone, "cuda": on that one of them which is nearest to
     * the card; "auto": on the nearest GPU of any kind, or on "host" where there is none that
     * others write directly; NULL: "host". */
    const char *device;
    uint32_t slots; /* 0: 4 */
    /* "dmabuf", "userptr" or "mmap"; NULL: the best that works, in this order. On "host", where the
     * others copy as little, dmabuf is taken only if it is asked for. */
    const char *method;
    bool require_direct; /* fail rather than copy each frame to the device */
    const char *input;   /* its number, or its name; NULL: the one that the card is set to */
    /* Set in this order, but for those that another one of them switches on; again after the card
     * was unplugged, too. */
    const struct gpud_capture_control *controls;
    uint32_t control_count;
};

#define GPUD_CAPTURE_RATES_MAX 32

struct gpud_capture_rate {
    uint32_t num, den; /* pictures a second */
};

/* One format in one size, or in a range of sizes (min and max differ then, and step is not 0). */
struct gpud_capture_mode {
    size_t size;
    char format[16];
    uint32_t width_min, width_max, width_step;
    uint32_t height_min, height_max, height_step;
    uint32_t fps_num, fps_den;           /* the fastest; 0/1: the driver does not say */
    struct gpud_colorimetry colorimetry; /* unknown where it depends on the size */
    enum gpud_scan scan;
    uint32_t aspect_x, aspect_y; /* of a pixel */
    /* The rates that the driver has at this size, or at the largest of a range; of more than fit
     * the last ones are missing. 0 of them, and slowest known: any from that to the fastest. 0 and
     * 0/1: the driver does not say. */
    uint32_t rate_count;
    struct gpud_capture_rate rates[GPUD_CAPTURE_RATES_MAX];
    struct gpud_capture_rate slowest;
};

struct gpud_capture_info {
    size_t size;
    /* "v4l2-dmabuf", "v4l2-userptr", "v4l2-mmap", or "none": that includes dma-bufs until a first
     * frame has shown that the driver writes into them. */
    char path[32];
    char fallback_reason[GPUD_REASON_MAX];
    char driver[32], card[64];
    /* What the frames are from now on, as far as the driver and the signal say it: a picture, with
     * the order of its fields where a frame does not say it. A rate of 0/1: not known. */
    struct gpud_media media;
    bool monotonic; /* the driver stamps with the monotonic clock, as far as its stamps are
                       possible; else frames carry no pts_ns */
    uint64_t frames;
    uint64_t dropped;   /* gaps in the driver's sequence */
    uint64_t corrupted; /* buffers the driver flagged as such; they are handed on with CORRUPTED */
    uint64_t copies_cpu, copies_gpu;
    char device[32];                     /* where the frames arrive */
    char device_reason[GPUD_REASON_MAX]; /* why that one of its kind; "": it was named */
    /* The signal at the input: whether it is there (true as well where the driver cannot tell), why
     * it is not, and what a picture of it has; 0x0: the card makes pictures of any size. */
    bool signal;
    char signal_reason[160];
    uint32_t signal_width, signal_height;
    uint64_t signal_changes; /* how often another one came since create */
    bool unplugged;          /* the card is gone: see gpud_capture_wait() */
    uint64_t returns;        /* how often it came back since create */
    uint64_t started_ns; /* monotonic, ns: when the driver was last told to stream; 0: not yet */
    bool stamps_start;   /* a frame's pts_ns is when its exposure began, else when it had ended */
    char input[32];    /* the name of the one that is selected; "": it has none */
    /* The format that the card is set to, by the name that configure takes; "": one that is not
     * captured here, as a compressed one. */
    char card_format[16];
};

GPUD_API enum gpud_status gpud_capture_create(struct gpud_context *context,
                                              const struct gpud_capture_params *params,
                                              struct gpud_capture **capture,
                                              struct gpud_error *error);
GPUD_API void gpud_capture_destroy(struct gpud_capture **capture);

/* Asks the driver: the list of a card that follows its signal is another one once that changes.
 * Writes up to max modes and returns how many there are; 0 while the card is unplugged.
 * modes[0].size is that of each. */
GPUD_API size_t gpud_capture_list_modes(struct gpud_capture *capture,
                                        struct gpud_capture_mode *modes, size_t max);

/* The same of one format. A driver is asked about each size of each format that is listed, and some
 * need milliseconds for each answer. */
GPUD_API size_t gpud_capture_list_modes_of(struct gpud_capture *capture, const char *format,
                                           struct gpud_capture_mode *modes, size_t max);

/* Sets format, size and rate (0/1: the driver's) and starts streaming. The driver may round:
 * get_info tells. */
GPUD_API enum gpud_status gpud_capture_configure(struct gpud_capture *capture, const char *format,
                                                 uint32_t width, uint32_t height, uint32_t fps_num,
                                                 uint32_t fps_den, struct gpud_error *error);

/* The same with an entry of the list, whose _min are taken where it is a range, and whose fps may
 * be 0/1; its scan counts, too. Sizes are those of pictures, both fields together. A size of 0x0 is
 * the signal's own. */
GPUD_API enum gpud_status gpud_capture_configure_mode(struct gpud_capture *capture,
                                                      const struct gpud_capture_mode *mode,
                                                      struct gpud_error *error);

/* Stops capturing: everything is as before configure, and held frames live on. */
GPUD_API void gpud_capture_stop(struct gpud_capture *capture);

/* Selects another input, by its number or name, before configure or while frames are captured: that
 * is another signal then, which is followed as one, in its own size unless the card was asked to
 * scale. Where a
 * driver waits for frames that are held, it is done when they are released; acquire says so
 * meanwhile. Where it is refused the card stays at the input that it had; where the new signal
 * cannot be captured in the format that was asked for, the stream ends. */
GPUD_API enum gpud_status gpud_capture_configure_input(struct gpud_capture *capture,
                                                       const char *input, struct gpud_error *error);

/* Sets controls, as params say; any thread may do it, also while frames are captured: the driver
 * decides what can be changed then. Those before one that is refused stay set.
 *
 *   GPUD_INVALID      the card has none of this name, or it does not take this value
 *   GPUD_UNSUPPORTED  it can only be read, or another control switches it off
 *   GPUD_NO_DEVICE    the card is unplugged */
GPUD_API enum gpud_status gpud_capture_configure_controls(
    struct gpud_capture *capture, const struct gpud_capture_control *controls, uint32_t count,
    struct gpud_error *error);

/* clang-format off */
/* The next frame; pts_ns is the driver's monotonic time. It is the driver's own buffer where that is
 * memory of the device that the frames shall arrive on: released, it goes back to the driver after
 * the queues that gpud_frame_post() was called for.
 *
 * Another signal at the input is followed: the frame's epoch is another one, its layout may be, and
 * get_info tells the rest. While there is no signal there are no frames, whatever the driver
 * captures.
 *
 *   GPUD_TIMEOUT    no frame until then, or all are held
 *   GPUD_AGAIN      gpud_capture_interrupt() is in effect
 *   GPUD_NO_DEVICE  the card was unplugged: wait for it, or configure again when it is back
 *   GPUD_UNSUPPORTED
 *                   the driver wrote elsewhere than into the memory that it took, and no other
 *                   method may be taken
 *   GPUD_IO         the driver failed: configure again, or destroy
 */
/* clang-format on */
GPUD_API enum gpud_status gpud_capture_acquire(struct gpud_capture *capture, int64_t timeout_ns,
                                               struct gpud_frame **frame, struct gpud_error *error);

/* clang-format off */
/* After an acquire that gave GPUD_NO_DEVICE, and while nothing is captured: where the card is gone,
 * lets go of it, waits for it to come back, at the node that it had or at another one (known by
 * where V4L2 says that it is), or for another card at that node, and streams again what was
 * configured last; frames are of another epoch then. Nobody need tell that it is back: the kernel
 * tells when nodes appear.
 *
 *   GPUD_OK           it is there, and was perhaps never gone
 *   GPUD_TIMEOUT      not yet
 *   GPUD_AGAIN        gpud_capture_interrupt() is in effect
 *   GPUD_UNSUPPORTED, GPUD_INVALID
 *                     a card is there that cannot do what was configured: configure anew
 */
/* clang-format on */
GPUD_API enum gpud_status gpud_capture_wait(struct gpud_capture *capture, int64_t timeout_ns,
                                            struct gpud_error *error);

/* clang-format off */
/* A descriptor for an event loop (epoll, GMainLoop, io_uring), readable when acquire with timeout 0
 * would not give GPUD_TIMEOUT:
 *
 *   a frame waits, and the application may take another one
 *   the driver failed, or the card was unplugged: until configure, or wait
 *   after wait has said GPUD_TIMEOUT: the card may be back, call wait again
 *   gpud_capture_interrupt() is in effect: until it is cleared
 *
 * It is readable, too, when the driver runs out of buffers and a device has finished with some:
 * acquire gives them back to the driver, and returns GPUD_TIMEOUT. So call acquire whenever it is
 * readable. While the application holds all frames, some drivers show a failure only after one is
 * released. While nothing is configured, only an interrupt makes it readable.
 *
 * It is the capture's: watch it for input, level-triggered, and do not read or close it. It stays
 * the same number, across configure, until destroy. Made when first asked for. */
/* clang-format on */
GPUD_API enum gpud_status gpud_capture_get_fd(struct gpud_capture *capture, int *fd,
                                              struct gpud_error *error);

GPUD_API void gpud_capture_get_info(struct gpud_capture *capture, struct gpud_capture_info *info);
GPUD_API void gpud_capture_interrupt(struct gpud_capture *capture, bool interrupted);

GPUD_END_DECLS

#endif

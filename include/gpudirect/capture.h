/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * A V4L2 capture driver as the writer of a ring.
 *
 * @verbatim
 *   gpud_capture_create
 *     → gpud_capture_list_modes → gpud_capture_configure
 *     → { gpud_capture_acquire → use → gpud_frame_release }…
 *             GPUD_NO_DEVICE: gpud_capture_wait, and on
 *     → gpud_capture_destroy
 * @endverbatim
 *
 * Thread-safety: acquire, configure, stop, wait and get_fd come from one thread at a time;
 * list_modes, configure with controls alone, get_info and interrupt may be called from any thread,
 * also during those, and any thread may poll the descriptor of get_fd; frames may be released from
 * any thread, also after destroy, which must not run beside another call.
 */
/* clang-format on */
#ifndef GPUDIRECT_CAPTURE_H
#define GPUDIRECT_CAPTURE_H

#include <gpudirect/frame.h>
#include <gpudirect/media.h>

GPUD_BEGIN_DECLS

struct gpud_capture;

/** Most controls that one call sets. */
#define GPUD_CAPTURE_CONTROLS_MAX 64

/** A control of the card, and its new value. */
struct gpud_capture_control {
    /** required: the driver's or v4l2-ctl's name for it ("Exposure, Auto" or exposure_auto), or its
     * number */
    const char *name;
    int64_t value; /**< of a number, a switch or a menu's entry */
    /** of a control that takes a text, or the name of a menu's entry; else NULL */
    const char *text;
};

/** How a capture is made. */
struct gpud_capture_params {
    size_t size;         /**< sizeof(the struct), as the caller knows it */
    const char *address; /**< required: "v4l2:///dev/video0" */
    /** where the frames shall arrive; NULL: "host"; see device.h for kinds and "auto" */
    const char *device;
    uint32_t slots; /**< 0: 4 */
    /** how the driver's buffers are used: "dmabuf", "userptr" or "mmap"; NULL: the best that works,
     * in this order, but dmabuf not on "host", where the others copy as little;
     * gpud_capture_info.path has the choice */
    const char *method;
    bool require_direct; /**< fail rather than copy each frame to the device */
    const char *input;   /**< its number or name; NULL, "": the one that the card is set to */
    /** Set in this order, except that one which another enables is set after that; set again when
     * the card comes back after it was unplugged */
    const struct gpud_capture_control *controls;
    uint32_t control_count; /**< length of controls */
};

/** Most entries of gpud_capture_mode.rates. */
#define GPUD_CAPTURE_RATES_MAX 32

/** A rate. */
struct gpud_capture_rate {
    uint32_t num; /**< pictures per den seconds */
    uint32_t den; /**< seconds */
};

/** One format in one size, or in a range of sizes (min and max differ then, and step is not 0). */
struct gpud_capture_mode {
    size_t size;          /**< sizeof(the struct), as the caller knows it */
    char format[16];      /**< the name of the format */
    uint32_t width_min;   /**< pixels */
    uint32_t width_max;   /**< pixels */
    uint32_t width_step;  /**< pixels; 0: one width */
    uint32_t height_min;  /**< rows of a picture, both fields together */
    uint32_t height_max;  /**< rows */
    uint32_t height_step; /**< rows; 0: one height */
    /** the fastest rate, pictures per fps_den seconds; 0/1: the driver does not say */
    uint32_t fps_num;
    uint32_t fps_den;                    /**< see fps_num */
    struct gpud_colorimetry colorimetry; /**< unknown where it depends on the size */
    enum gpud_scan scan;                 /**< how the rows come */
    uint32_t aspect_x;                   /**< of a pixel: its width, by aspect_y */
    uint32_t aspect_y;                   /**< of a pixel: its height */
    /** entries of rates; 0: if slowest is known, any rate from that to the fastest; else the driver
     * does not say */
    uint32_t rate_count;
    /** the rates at this size, or at the largest of a range; those beyond the array are missing */
    struct gpud_capture_rate rates[GPUD_CAPTURE_RATES_MAX];
    struct gpud_capture_rate slowest; /**< the slowest rate of a range; 0/1: not known */
};

/** The state and counters of a capture. */
struct gpud_capture_info {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** "v4l2-dmabuf", "v4l2-userptr", "v4l2-mmap", or "none": that includes dma-bufs until a first
     * frame has shown that the driver writes into them. */
    char path[32];
    char fallback_reason[GPUD_REASON_MAX]; /**< why no better path is taken, or "" */
    char driver[32];                       /**< the driver's name */
    char card[64];                         /**< the card's name */
    /** What the frames are from now on, as far as the driver and the signal tell: a picture, with
     * its field order unless each frame's flags have that. A rate of 0/1: not known. */
    struct gpud_media media;
    /** the driver stamps frames with the monotonic clock, and plausibly; if not, frames have no
     * pts_ns */
    bool monotonic;
    uint64_t frames;  /**< handed out */
    uint64_t dropped; /**< gaps in the driver's sequence */
    /** frames that the driver flagged so; they are handed out as GPUD_FRAME_CORRUPTED */
    uint64_t corrupted;
    uint64_t copies_cpu;                 /**< whole frames that the CPU copied */
    uint64_t copies_gpu;                 /**< whole frames that a GPU copied */
    char device[32];                     /**< where the frames arrive */
    char device_reason[GPUD_REASON_MAX]; /**< why that one of its kind; "": it was named */
    bool signal; /**< there is a signal at the input; also true where the driver cannot tell */
    char signal_reason[160]; /**< why there is no signal */
    /** width of the input signal in pixels; 0: the card scales to any size */
    uint32_t signal_width;
    uint32_t signal_height;  /**< and its rows; 0: as signal_width */
    uint64_t signal_changes; /**< changes of the signal since create */
    bool unplugged;          /**< the card is gone: see gpud_capture_wait() */
    uint64_t returns;        /**< times that it came back since create */
    uint64_t started_ns; /**< monotonic, ns: when the driver was last told to stream; 0: not yet */
    bool stamps_start;   /**< a frame's pts_ns is when its exposure began, else when it had ended */
    char input[32];      /**< the name of the selected input; "": it has none */
    /** The format that the card is set to, by the name that configure takes; "": one that cannot be
     * captured, such as a compressed one. */
    char card_format[16];
};

/** Opens a capture card. Nothing is captured before gpud_capture_configure().
 *
 * @param context  must outlive the capture
 * @param params  copied
 * @param capture  set to the capture, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_DEVICE  there is no such node, it captures no video, or the device is not there
 * @retval GPUD_NO_ACCESS  this user may not open it
 * @retval GPUD_INVALID  a parameter is wrong
 */
GPUD_API enum gpud_status gpud_capture_create(struct gpud_context *context,
                                              const struct gpud_capture_params *params,
                                              struct gpud_capture **capture,
                                              struct gpud_error *error);

/** Stops and closes the card. No other call may be under way. Frames that are held live on.
 *
 * @param capture  set to NULL
 */
GPUD_API void gpud_capture_destroy(struct gpud_capture **capture);

/** Lists the formats, sizes and rates that the driver offers now. The list of a card that follows
 * its signal changes with the signal. The driver is asked about each size of each format that is
 * listed, and some take milliseconds for each answer. Any thread.
 *
 * @param capture  the capture
 * @param format  the name of the only format to list; NULL: all
 * @param modes  an array of max entries, filled from the start; modes[0].size is the size of each
 * @param max  entries that modes has room for
 * @return how many modes there are, which may be more than max; 0 while the card is unplugged
 */
GPUD_API size_t gpud_capture_list_modes(struct gpud_capture *capture, const char *format,
                                        struct gpud_capture_mode *modes, size_t max);

/** What gpud_capture_configure() sets. What is NULL stays as it is. */
struct gpud_capture_config {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    /** The number or name of another input. The change is followed as a change of signal is, in the
     * new signal's size unless the card was asked to scale. A driver that must wait for held frames
     * switches when they are released; gpud_capture_acquire() says so meanwhile. After a refusal
     * the card stays at its input; where the new signal cannot be captured in the format asked for,
     * the stream ends. */
    const char *input;
    /** Controls, set in this order. The driver decides what can be changed while it captures. Those
     * before one that is refused stay set. */
    const struct gpud_capture_control *controls;
    uint32_t control_count; /**< length of controls */
    /** Format, size and rate, which start the capture: an entry of gpud_capture_list_modes(),
     * perhaps changed. What counts is its format, the smallest of its sizes (0x0: the signal's
     * own), its fastest rate (0/1: the driver's) and its scan. The driver may round them:
     * gpud_capture_get_info() has the result. */
    const struct gpud_capture_mode *mode;
};

/** Selects an input, sets controls and starts capturing in a mode, in this order. Each may be done
 * at any time, alone or with the others. What was set before a refusal stays set. With controls
 * alone any thread may call it.
 *
 * @param capture  the capture
 * @param config  copied
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the card has no such input or control, a control does not take the value, a
 *     mode is wrong, or nothing is to be set
 * @retval GPUD_UNSUPPORTED  the card or the device cannot, a control can only be read, or another
 *     one disables it
 * @retval GPUD_NO_DEVICE  the card is unplugged
 * @retval GPUD_IO  the driver failed
 */
GPUD_API enum gpud_status gpud_capture_configure(struct gpud_capture *capture,
                                                 const struct gpud_capture_config *config,
                                                 struct gpud_error *error);

/** Stops capturing. The capture is as before gpud_capture_configure(); held frames live on. Some
 * drivers keep their buffers until such frames are released: until then no program can set a mode,
 * and gpud_capture_configure() fails with GPUD_IO, and says how many frames are held.
 *
 * @param capture  the capture
 */
GPUD_API void gpud_capture_stop(struct gpud_capture *capture);

/** Takes the next frame; its pts_ns is the driver's monotonic time. The frame is the driver's own
 * buffer where that is memory of the wanted device; released, it returns to the driver after the
 * queues that gpud_frame_post() was called for.
 *
 * A change of signal at the input is followed: the frame has another epoch, perhaps another layout,
 * and gpud_capture_get_info() has the rest. Without a signal there are no frames, whatever the
 * driver captures.
 *
 * @param capture  a configured capture
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param frame  set to the frame: release it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_TIMEOUT  no frame in time, or all are held
 * @retval GPUD_AGAIN  gpud_capture_interrupt() is in effect
 * @retval GPUD_NO_DEVICE  the card was unplugged: wait for it, or configure again when it is back
 * @retval GPUD_UNSUPPORTED  the driver wrote elsewhere than into the memory it was given, and no
 *     other method may be used
 * @retval GPUD_IO  the driver failed: configure again, or destroy
 * @retval GPUD_INVALID  the capture is not configured
 */
GPUD_API enum gpud_status gpud_capture_acquire(struct gpud_capture *capture, int64_t timeout_ns,
                                               struct gpud_frame **frame, struct gpud_error *error);

/** Waits for a card to come back, after gpud_capture_acquire() returned GPUD_NO_DEVICE and while
 * nothing is captured. It closes the node, waits for the card at its former node or another one
 * (recognised by the place that V4L2 gives it) or for another card at that node, and resumes with
 * the last configuration; frames are of another epoch then. The kernel reports when nodes appear.
 *
 * @param capture  the capture
 * @param timeout_ns  how long to wait at most, in ns; 0: not at all
 * @param error  says why not; may be NULL; written on failure only
 * @return one of:
 * @retval GPUD_OK  the card is there, and was perhaps never gone
 * @retval GPUD_TIMEOUT  it is not back yet
 * @retval GPUD_AGAIN  gpud_capture_interrupt() is in effect
 * @retval GPUD_UNSUPPORTED  a card is there that cannot do what was configured: configure anew
 * @retval GPUD_INVALID  a card is there that cannot do what was configured: configure anew
 */
GPUD_API enum gpud_status gpud_capture_wait(struct gpud_capture *capture, int64_t timeout_ns,
                                            struct gpud_error *error);

/** A descriptor for epoll, GMainLoop or io_uring, level-triggered, readable when
 * gpud_capture_acquire() with a timeout of 0 would not return GPUD_TIMEOUT, that is when:
 *
 * - a frame waits, and the application may take another one
 * - the driver failed or the card was unplugged: until configure, or wait
 * - after gpud_capture_wait() returned GPUD_TIMEOUT: the card may be back, call it again
 * - gpud_capture_interrupt() is in effect: until it is cleared
 *
 * It is also readable when the driver runs out of buffers and a device has finished with some:
 * acquire returns them to the driver, and GPUD_TIMEOUT. So call acquire whenever it is readable.
 * While the application holds all frames, some drivers show a failure only after one is released.
 * While nothing is configured, only an interrupt makes it readable. It is made at the first call,
 * and stays the same until the capture is destroyed.
 *
 * @param capture  the capture
 * @param fd  set to the descriptor, which is the capture's: poll it, do not read or close it
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_IO  no descriptor could be made
 */
GPUD_API enum gpud_status gpud_capture_get_fd(struct gpud_capture *capture, int *fd,
                                              struct gpud_error *error);

/** The state and counters of a capture. Any thread.
 *
 * @param capture  the capture
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_capture_get_info(struct gpud_capture *capture, struct gpud_capture_info *info);

/** Interrupts waiting calls. Any thread.
 *
 * @param capture  the capture
 * @param interrupted  true: waiting calls return GPUD_AGAIN at once, until false is set
 */
GPUD_API void gpud_capture_interrupt(struct gpud_capture *capture, bool interrupted);

GPUD_END_DECLS

#endif

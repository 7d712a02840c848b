/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of a capture share. */
#ifndef GPUD_CAPTURE_INTERNAL_H
#define GPUD_CAPTURE_INTERNAL_H

#include "base/base.h"
#include "frame/frame.h"
#include <gpudirect/capture.h>
#include <gpudirect/layout.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/types.h>
#include <time.h>

/* === v4l2 ==================================================================================== */
/* A V4L2 node: its system calls, restarted after Unix signals, with one interface for the single-
 * and the multi-planar API. Results are the driver's unchecked values: callers check them. */

/* The system calls that reach a driver; tests replace them by a fake driver. As in libc, errors are
 * in errno. */
struct gpud_v4l2_system {
    const char *folder; /* where nodes appear: "/dev" */
    int (*open)(const char *path, int flags);
    int (*close)(int fd);
    int (*ioctl)(int fd, unsigned long request, void *argument);
    void *(*mmap)(void *address, size_t length, int protection, int flags, int fd, off_t offset);
    int (*ppoll)(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
    /* The bus that the node's device is on, as in sysfs: "pci", "usb", "platform"; "" if
     * unknown. */
    void (*bus)(int fd, char *bus, size_t size);
    /* The index of the node among its card's nodes. */
    uint32_t (*index)(int fd);
};

extern const struct gpud_v4l2_system gpud_v4l2_kernel;

struct gpud_v4l2 {
    const struct gpud_v4l2_system *system;
    int fd;        /* -1: closed */
    uint32_t type; /* enum v4l2_buf_type: one memory plane for each buffer, or several */
    char path[108];
    char driver[32], card[64];
    char bus[16];   /* the card's: "pci" */
    char place[32]; /* on that bus, as the driver says: "PCI:0000:03:00.0"; "": unknown */
    uint32_t index; /* among the card's nodes */
};

/* One memory plane may hold several planes of the picture. */
struct gpud_v4l2_format {
    uint32_t fourcc, width, height;
    uint32_t field; /* enum v4l2_field */
    /* enum v4l2_colorspace, _xfer_func, _ycbcr_encoding, _quantization; from the driver only */
    uint32_t colorspace, transfer, encoding, quantization;
    uint32_t planes;
    struct {
        uint32_t stride; /* bytesperline */
        uint32_t size;   /* sizeimage */
    } plane[GPUD_PLANES_MAX];
};

struct gpud_v4l2_buffer {
    uint32_t index;
    uint32_t memory; /* enum v4l2_memory */
    uint32_t flags;
    uint32_t sequence;
    uint32_t field;     /* enum v4l2_field */
    uint64_t timestamp; /* ns, of the clock in flags */
    uint32_t planes;
    struct v4l2_plane plane[GPUD_PLANES_MAX];
};

/* Opens the node in node->path; node->system is set. GPUD_NO_DEVICE, GPUD_NO_ACCESS, or
 * GPUD_UNSUPPORTED for a node that cannot stream captured video. */
enum gpud_status gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error);
void gpud_v4l2_close(struct gpud_v4l2 *node);

/* Whether the card is still there. While it is idle, only a query reveals its removal. False:
 * errno.
 */
bool gpud_v4l2_is_alive(const struct gpud_v4l2 *node);

/* These return 0, or -1 with errno. */
int gpud_v4l2_call(const struct gpud_v4l2 *node, unsigned long request, void *argument);
int gpud_v4l2_get_format(const struct gpud_v4l2 *node, struct gpud_v4l2_format *format);

/* VIDIOC_TRY_FMT or VIDIOC_S_FMT. The driver may change any field. */
int gpud_v4l2_call_format(const struct gpud_v4l2 *node, unsigned long request,
                          struct gpud_v4l2_format *format);
int gpud_v4l2_query(const struct gpud_v4l2 *node, struct gpud_v4l2_buffer *buffer);
int gpud_v4l2_queue(const struct gpud_v4l2 *node, const struct gpud_v4l2_buffer *buffer);

/* buffer->memory is set. Never waits: EAGAIN. */
int gpud_v4l2_dequeue(const struct gpud_v4l2 *node, struct gpud_v4l2_buffer *buffer);

/* Sets the rate if *num is not 0 and the driver can, and returns the current one; 0/1 if the driver
 * does not say. */
void gpud_v4l2_rate(const struct gpud_v4l2 *node, uint32_t *num, uint32_t *den);

/* === controls ================================================================================ */

/* The controls to set again when a card returns. */
struct gpud_controls {
    struct gpud_capture_control control[GPUD_CAPTURE_CONTROLS_MAX];
    uint32_t count;
};

/* Sets these, in this order, except those that another one must enable first. If one is refused,
 * earlier ones stay set. */
enum gpud_status gpud_controls_set(const struct gpud_v4l2 *node,
                                   const struct gpud_capture_control *controls, uint32_t count,
                                   struct gpud_error *error);

/* Makes the card fill in an opaque alpha. False: it has no control for that. */
bool gpud_controls_make_opaque(const struct gpud_v4l2 *node);

/* Whether it has such a control; without one, the alpha in its frames is meaningless. */
bool gpud_controls_have_alpha(const struct gpud_v4l2 *node);

/* Whether the application has set the alpha itself. */
bool gpud_controls_set_alpha(const struct gpud_controls *kept);

/* === input =================================================================================== */
/* The signal at a card's input: its properties, its presence, and the driver's events of changes.
 */

struct gpud_input {
    char name[32];               /* of the input; "": the card has none */
    bool present;                /* also true if the driver cannot tell */
    char reason[160];            /* why not */
    uint32_t width, height;      /* of a picture, both fields; 0: there is no size of its own */
    uint32_t fps_num, fps_den;   /* pictures a second; 0/1: not known */
    bool interlaced;             /* not progressive */
    bool bottom_first;           /* of the two fields, where the driver does not say it */
    uint32_t aspect_x, aspect_y; /* of a pixel; 1/1 if unknown */
    bool digital;                /* timings hold what was detected */
    struct v4l2_dv_timings timings;
    v4l2_std_id standard; /* of an analogue input; 0: it has none */
};

/* What the driver detects. Nothing is set. */
void gpud_input_detect(const struct gpud_v4l2 *node, struct gpud_input *signal);

/* The number of the input that the user means, by number or name; GPUD_INVALID: *error has what
 * there is. */
enum gpud_status gpud_input_find(const struct gpud_v4l2 *node, const char *wanted, int *number,
                                 struct gpud_error *error);

/* Whether the card is set to another signal than this one, and setting it: no buffers may exist.
 * Not being able to is not an error: the card then goes on as it is. */
bool gpud_input_is_set(const struct gpud_v4l2 *node, const struct gpud_input *signal);
void gpud_input_set(const struct gpud_v4l2 *node, const struct gpud_input *signal);

/* V4L2's fields as a scan; GPUD_SCAN_ANY: no frame can be that. A card that delivers only top or
 * only bottom fields makes progressive pictures of half the height. */
enum gpud_scan gpud_scan_of_field(uint32_t field);
/* The aspect of a pixel where the card scales the signal's picture to this format's size. */
void gpud_input_aspect(const struct gpud_input *signal, const struct gpud_v4l2_format *format,
                       uint32_t *x, uint32_t *y);

/* === machine ================================================================================= */
/* clang-format off */
/* The state machine of a capture. capture.c feeds it with events, and carries out what it answers.
 * After a colon: the outcome of the action.
 *
 *               START: STARTED
 *   ┌──────┐ ─────────────────────▶ ┌───────────┐
 *   │ IDLE │                        │ STREAMING │ ── CHANGED, INPUT ──┐
 *   └──────┘ ───┐       ┌─────────▶ └───────────┘                     ▼
 *    ▲          │ START:│ SIGNAL:    ▲                         ┌──────────┐ ──┐ RELEASED:
 *    │       NO_SIGNAL  │ STARTED    └─────── STARTED ──────── │ DRAINING │   │ HELD
 *    │          ▼       │                                      └──────────┘ ◀─┘
 *    │        ┌──────────┐                                        │
 *    │        │ DEFERRED │ ◀──────────────── NO_SIGNAL ───────────┘
 *    │        └──────────┘
 *   STOP or CONFIGURE, in any phase
 *
 *   FAILED follows STREAMING, DRAINING and DEFERRED by FAILED or UNPLUGGED; it follows a CONFIGURE
 *   if frames are HELD.
 *
 * The card. If it is not PRESENT, the phase is IDLE or FAILED.
 *
 *                            CONFIGURE: RETURNED
 *        ┌──────────────────────────┬─────────────────────────────┐
 *        ▼                          │                             │
 *   ┌─────────┐  UNPLUGGED   ┌───────────┐  WAIT: WATCHED   ┌─────────┐ ──┐ DUE:
 *   │ PRESENT │ ───────────▶ │ UNPLUGGED │ ───────────────▶ │ AWAITED │   │ ABSENT
 *   └─────────┘              └───────────┘                  └─────────┘ ◀─┘
 *        ▲                                                        │
 *        └── DUE: RETURNED, or its stream STARTED, NO_SIGNAL, FAILED */
/* clang-format on */

enum gpud_capture_phase {
    GPUD_CAPTURE_IDLE,      /* not configured: no ring */
    GPUD_CAPTURE_DEFERRED,  /* configured; the driver does not start without a signal: no ring */
    GPUD_CAPTURE_STREAMING, /* the driver fills a ring */
    GPUD_CAPTURE_DRAINING,  /* another ring follows when held frames of this one are released */
    GPUD_CAPTURE_FAILED,    /* every acquire reports why; a ring, if there is one, has ended */
    GPUD_CAPTURE_PHASES
};

enum gpud_capture_card {
    GPUD_CARD_PRESENT,   /* its node is open */
    GPUD_CARD_UNPLUGGED, /* its node must be opened again */
    GPUD_CARD_AWAITED,   /* the folders in which its node can appear are watched */
    GPUD_CARD_STATES
};

struct gpud_capture_state {
    enum gpud_capture_phase phase;
    enum gpud_capture_card card;
};

enum gpud_capture_event {
    /* The application's calls. */
    GPUD_CAPTURE_ON_CONFIGURE, /* a mode is about to be set */
    GPUD_CAPTURE_ON_START,     /* it is set */
    GPUD_CAPTURE_ON_INPUT,     /* another input is wanted */
    GPUD_CAPTURE_ON_STOP,
    GPUD_CAPTURE_ON_WAIT, /* for a card that was unplugged */
    /* Noticed. */
    GPUD_CAPTURE_ON_CHANGED,       /* the signal: it needs another ring */
    GPUD_CAPTURE_ON_RELEASED,      /* held frames, perhaps all of them */
    GPUD_CAPTURE_ON_SIGNAL,        /* there is one again */
    GPUD_CAPTURE_ON_METHOD_FAILED, /* the card's writes do not arrive */
    GPUD_CAPTURE_ON_DUE,           /* a node appeared, or time has passed */
    /* Noticed, or the outcome of an action. */
    GPUD_CAPTURE_ON_FAILED, /* the driver, a device, or a new ring */
    GPUD_CAPTURE_ON_UNPLUGGED,
    /* Outcomes of actions. */
    GPUD_CAPTURE_ON_HELD,      /* the driver keeps its buffers, for frames are held */
    GPUD_CAPTURE_ON_STARTED,   /* the driver streams */
    GPUD_CAPTURE_ON_NO_SIGNAL, /* it does not start without one */
    GPUD_CAPTURE_ON_WATCHED,   /* the folders of nodes are */
    GPUD_CAPTURE_ON_RETURNED,  /* the card is open again */
    GPUD_CAPTURE_ON_ABSENT,    /* it cannot be used yet */
    GPUD_CAPTURE_EVENTS        /* none */
};

/* With the events that may come of each. */
enum gpud_capture_action {
    GPUD_CAPTURE_DO_NOTHING,
    GPUD_CAPTURE_DO_REFUSE,    /* the call: the card is unplugged */
    GPUD_CAPTURE_DO_RELEASE,   /* end the stream, if frames are not held: HELD */
    GPUD_CAPTURE_DO_DROP,      /* end the stream in any case */
    GPUD_CAPTURE_DO_REOPEN,    /* the same, and open the card: RETURNED, ABSENT */
    GPUD_CAPTURE_DO_START,     /* STARTED, NO_SIGNAL, FAILED, UNPLUGGED */
    GPUD_CAPTURE_DO_REPLACE,   /* the ring, and the input if asked for: HELD, and as START */
    GPUD_CAPTURE_DO_FALL_BACK, /* to the next method: STARTED, HELD, FAILED, UNPLUGGED */
    GPUD_CAPTURE_DO_SELECT,    /* the other input */
    GPUD_CAPTURE_DO_END,       /* keep the failure, and show it to event loops */
    GPUD_CAPTURE_DO_PROBE,     /* ask the driver whether it is still there: UNPLUGGED */
    GPUD_CAPTURE_DO_WATCH,     /* the folders of nodes: WATCHED */
    GPUD_CAPTURE_DO_LET_GO,    /* close the node: otherwise its number stays in use */
    GPUD_CAPTURE_DO_RETURN,    /* open and start: RETURNED, STARTED, NO_SIGNAL, FAILED, ABSENT */
    GPUD_CAPTURE_DO_WELCOME,   /* stop watching for the card */
    GPUD_CAPTURE_ACTIONS
};

struct gpud_capture_step {
    struct gpud_capture_state state;
    enum gpud_capture_action action;
};

/* What an event leads to. An event that means nothing in this state changes nothing. */
struct gpud_capture_step gpud_capture_next(struct gpud_capture_state state,
                                           enum gpud_capture_event event);

/* === formats ================================================================================= */
/* V4L2's pixel formats by our names, and where a driver places the planes of a picture. Strides and
 * sizes are always the driver's own, and are checked. */

/* The placement of a picture in a driver's buffer. The driver has 1 to 4 areas of memory, each with
 * one or more planes of the picture; a buffer's areas follow each other in one memory, on page
 * boundaries. */
struct gpud_placement {
    struct gpud_layout layout; /* as if every data_offset were 0 */
    uint32_t areas;
    struct {
        uint64_t start;
        uint32_t size;   /* as the driver requires */
        uint32_t filled; /* the part that a whole picture uses */
    } area[GPUD_PLANES_MAX];
    uint8_t area_of[GPUD_PLANES_MAX]; /* a plane's */
};

/* "UYVY"; NULL: the format is compressed, or has no name here. */
const char *gpud_format_name(uint32_t fourcc);

/* V4L2 may have several formats of one name: this one, counted from 0, the simplest first; 0: no
 * more. */
uint32_t gpud_format_fourcc(const char *name, size_t place);

/* GPUD_UNSUPPORTED where the driver contradicts itself or what V4L2 says of the format. */
enum gpud_status gpud_format_place(const struct gpud_v4l2_format *format,
                                   struct gpud_placement *placement, struct gpud_error *error);

/* === ring_state ============================================================================== */
/* clang-format off */
/* The ring of one configuration: the driver's buffers, and the frames that they become.
 *
 *   in place  driver ──dequeued──▶ buffer = frame ──▶ application ──released──▶ driver
 *                                                        └──a queue is done with it──▶ driver
 *   copied    driver ──dequeued──▶ buffer ──copy──▶ slot = frame ──▶ application ──▶ free slot
 *                                    └──the copy is done──▶ driver
 *
 * The frame is the buffer itself, in place, where the driver writes into memory of the device that
 * the frames are wanted on. Frames may outlive the capture, and so does the ring; once it was
 * stopped the driver is called only to give it back the buffers that it kept. */
/* clang-format on */

/* One bit a buffer in a word; V4L2's own limit was 32 for long. */
#define GPUD_CAPTURE_BUFFERS_MAX 64

/* What the driver has beyond the frames that may be acquired at once: one that it fills, one to go
 * on with. */
#define GPUD_CAPTURE_SPARE 2

struct gpud_capture_buffer {
    struct gpud_capture_ring *ring;
    bool posted; /* in place: the frame's queue comes after one of the application's */
    struct gpud_v4l2_buffer raw; /* as it is queued */
    struct gpud_memory *memory;  /* that the driver writes */
    int dmabuf[GPUD_PLANES_MAX]; /* of each area of memory, as the driver was given it; -1: none */
    struct gpud_memory
        *bounce; /* pages that the device can read where it cannot read the driver's; else NULL */
    struct gpud_memory
        *source; /* what the device copies from: bounce or memory as it sees them; NULL: in place */
};

struct gpud_capture_ring {
    const struct gpud_log *log;
    struct gpud_v4l2 *node;     /* the capture's: touched after the stop only while `kept` */
    struct gpud_device *device; /* where the frames shall arrive */
    struct gpud_device *host;
    struct gpud_placement placement;
    const struct gpud_capture_method *method;
    char fallback_reason[GPUD_REASON_MAX];

    uint32_t buffer_count;
    struct gpud_capture_buffer *buffers;
    uint64_t unproven; /* a bit a buffer: the canary was not yet seen gone from it */
    bool proven;       /* it was, from one at least, or the method needs none */
    bool in_place;
    uint32_t frame_count; /* in place: one a buffer; copied: one a slot */
    /* Each slot has a queue of its own, for a queue is one thread's at a time: the application
     * may map one frame while the next one is being copied. */
    struct gpud_frame *frames;
    uint32_t limit;         /* frames that may be acquired at once */
    int wake_fd;            /* readable: a buffer came back while a thread waited */
    atomic_uint references; /* the capture, and each acquired frame */

    /* Around calls that give the driver buffers or stop it, so that none comes after the stop. */
    struct gpud_lock driver_lock;
    bool streaming;
    atomic_bool kept; /* it was stopped, and the driver keeps its buffers, which held frames map */

    /* Never held while calling a driver or the application. */
    struct gpud_lock lock;
    pthread_cond_t complete; /* a device is done with a buffer */
    uint64_t queued;         /* a bit a buffer: the driver has it */
    uint64_t to_queue;       /* a bit a buffer: ours, to be queued */
    uint64_t acquired;       /* a bit a frame: the application has it */
    uint32_t pending;        /* buffers given back that a device still works on */
    bool failed;             /* a device did not do what was enqueued */
    bool stopped;            /* for good: what becomes pending is not waited for */
    bool waiting, woken;     /* a thread waits for a frame; wake_fd was written */
    bool blind;              /* and not for the node, for the driver had no buffer then */
    bool returned; /* a device was done with a buffer since buffers were last queued, or the driver
                      took none and has none: an acquire shall come */
    bool ended;    /* acquire gives nothing but an error */

    /* For event loops. Both are written with both locks held, and read with either. */
    int watch_fd;    /* the capture's epoll; -1: none */
    int watch_error; /* errno of why it does not watch the node as it should, or 0 */
    /* With driver_lock held. */
    bool node_watched;
    uint32_t watched_events;
};

/* === state =================================================================================== */
/* The files of a capture; each calls only those before it, but for ring.c, which reports to
 * capture.c what it notices:
 *
 *   v4l2.c      a card's node: its system calls
 *   controls.c  its controls, its inputs and the signal there
 *   formats.c   its formats and modes; agrees with the driver on one
 *   method.c    the ways of giving memory to the driver
 *   ring.c      buffers and frames
 *   capture.c   the public object, its state machine, the card and its stream
 *   cards.c     lists cards */

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
    struct gpud_capture_ring *kept; /* of a stream that is over: the driver keeps its buffers */
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

    /* One thread's at a time, as all below. */
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

    struct {
        char home[sizeof(((struct gpud_v4l2 *)0)->path)]; /* the node that was asked for */
        struct gpud_v4l2 known;                           /* the card when it was opened last */
        int nodes_fd;              /* an inotify, for nodes that appear; -1 */
        struct gpud_error absence; /* why it is not there yet */
    } card;

    struct {
        struct gpud_input now; /* as it was detected last */
        bool has_event;        /* the driver has one for a change of it */
        int64_t look_at;       /* when it is looked at next without an event */
    } signal;

    struct {
        bool alternate;          /* frames are single fields */
        uint64_t frame_duration; /* ns, or GPUD_TIME_NONE */
        int64_t began;           /* when the driver was started */
        int64_t last_frame;      /* when the last frame was acquired */
        bool said_full;          /* logged: the application holds all frames */
        bool said_clock;         /* logged: which clock the driver uses */
    } stream;

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

/* === capture ================================================================================= */
/* What capture.c does for a ring. */

/* Moves the state machine by this event, and carries out what follows. why: of a failure, else
 * NULL; one with GPUD_NO_DEVICE is that the card was unplugged. Not GPUD_OK: that failure, or why
 * what was to be done failed; capture->state tells what this means for the stream. */
enum gpud_status gpud_capture_report(struct gpud_capture *capture, enum gpud_capture_event event,
                                     const struct gpud_error *why, struct gpud_error *error);

/* The ring's method is known to work: tells get_info. */
void gpud_capture_publish_path(struct gpud_capture *capture);

/* Follows the signal, before each check for a frame. look: it may have changed. True: the state, or
 * the ring, is perhaps another one. */
bool gpud_capture_follow(struct gpud_capture *capture, bool look);

/* In phase DEFERRED: waits until there is a signal, and then starts. GPUD_OK: the phase is another
 * one. */
enum gpud_status gpud_capture_await_signal(struct gpud_capture *capture, int64_t deadline,
                                           struct gpud_error *error);

/* === method ================================================================================== */
/* The methods of giving memory to a driver's DMA engine, best first. The first that works is used:
 * a driver accepts or refuses a kind of memory with the first buffer. A method is a few functions
 * in method.c, and a line of the table in methods.c, which a test replaces. */

struct gpud_capture_method {
    const char *name;
    uint32_t memory;     /* enum v4l2_memory */
    uint32_t capability; /* V4L2_BUF_CAP_SUPPORTS_…, which a driver with support reports, if it
                            reports any */
    const char *refusal; /* the reason if it reports no support */
    bool on_device;      /* the memory is the device's own, of any kind: frames need no copy */
    bool by_name;        /* on the host only on request: other methods copy no more there */
    bool canary;         /* a driver may accept the memory and write elsewhere: it is trusted once
                            a pattern in each buffer was overwritten */
    bool by_cpu;         /* the device need not access the memory: the CPU copies each frame */
    /* Gives each of ring->buffers its memory, of placement.layout.size bytes, and completes raw. On
     * failure the caller drops the memories. */
    enum gpud_status (*setup)(struct gpud_capture_ring *ring, struct gpud_error *error);
};

/* The last two have one name. */
extern const struct gpud_capture_method gpud_capture_dmabuf, gpud_capture_userptr,
    gpud_capture_mmap, gpud_capture_mmap_by_cpu;

/* Whether a card on this bus ("pci") may import the device's dma-bufs. GPUD_UNSUPPORTED, with the
 * reason. */
enum gpud_status gpud_capture_check_bus(const struct gpud_device *device, const char *bus,
                                        struct gpud_error *error);

/* Best first, NULL at the end. */
extern const struct gpud_capture_method *const gpud_capture_methods[];

/* === modes =================================================================================== */
/* What the driver offers, and what is agreed on. */

/* Reads a format's colours. Fields that the driver leaves to its colorspace's default are filled in
 * by V4L2's rules; unspecified ones stay unknown. */
void gpud_capture_read_colors(const struct gpud_v4l2_format *format,
                              struct gpud_colorimetry *colorimetry);

/* gpud_capture_list_modes() of an open node with this signal at its input. Nothing is set. */
size_t gpud_capture_modes_of(const struct gpud_v4l2 *node, const struct gpud_input *source,
                             const char *format, struct gpud_capture_mode *modes, size_t max);

/* The name of frames in this format; NULL: they cannot be captured. */
const char *gpud_capture_name_format(const struct gpud_v4l2 *node, uint32_t fourcc);

/* Sets the card to what is wanted of its signal. *format is what the driver made of it, checked,
 * and *placement where its planes lie. */
enum gpud_status gpud_capture_negotiate(struct gpud_capture *capture,
                                        struct gpud_v4l2_format *format,
                                        struct gpud_placement *placement, struct gpud_error *error);

/* === ring ==================================================================================== */

/* Which methods may be taken. */
struct gpud_capture_choice {
    const char *method;                      /* the only one; NULL: any */
    bool direct;                             /* only those that need no copy */
    const struct gpud_capture_method *below; /* only those after this one, which was found not to
                                                work; NULL: all */
    const char *reason;                      /* why that one does not */
};

/* Creates and queues the buffers by the first method that works. fallback_reason holds the reasons
 * against the better ones. */
enum gpud_status gpud_capture_ring_create(struct gpud_v4l2 *node, struct gpud_device *device,
                                          struct gpud_device *host,
                                          const struct gpud_placement *placement, uint32_t slots,
                                          const struct gpud_capture_choice *choice,
                                          struct gpud_capture_ring **ring,
                                          struct gpud_error *error);
enum gpud_status gpud_capture_ring_start(struct gpud_capture_ring *ring, struct gpud_error *error);

/* Stops the driver, waits for devices to finish with its buffers, and frees the driver's buffers.
 * GPUD_IO: it keeps them, because acquired frames use them. It gets them back when the last of
 * those is released, until the ring is dropped; another stop looks whether that was so. */
enum gpud_status gpud_capture_ring_stop(struct gpud_capture_ring *ring, struct gpud_error *error);

/* From now on the epoll watch_fd is readable when an acquire without a wait would have something to
 * report; until the ring is dropped, which comes before watch_fd is closed. */
enum gpud_status gpud_capture_ring_watch(struct gpud_capture_ring *ring, int watch_fd,
                                         struct gpud_error *error);

/* The stream has ended, and acquire says why. */
void gpud_capture_ring_end(struct gpud_capture_ring *ring);

/* Ends the capture's use of it; held frames live on. The driver is not called. */
void gpud_capture_ring_drop(struct gpud_capture_ring *ring);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc: what its files share. */
#ifndef GPUD_SRC_SRC_H
#define GPUD_SRC_SRC_H

#include "base/plugin.h"
#include "element/endpoint.h"
#include "memory/memory.h"
#include "wire/codec.h"
#include <glib.h>
#include <gpudirect/capture.h>
#include <gpudirect/gpudirect.h>
#include <gpudirect/receiver.h>
#include <gst/audio/audio.h>
#include <gst/base/gstbasesrc.h>
#include <gst/base/gstpushsrc.h>
#include <gst/gst.h>

/* === debug =================================================================================== */

/* The log category of gpudirectsrc, created in its class_init. */
GST_DEBUG_CATEGORY_EXTERN(gst_gpudirect_src_debug);

/* === options ================================================================================= */
/* The properties of gpudirectsrc alone, except those of capture cards. */

/* Ids of the properties. */
enum {
    OPTION_ON_DISCONNECT = SETTING_COUNT,
    OPTION_ON_EOS,
    OPTION_START,
    OPTION_CONNECTION_TIMEOUT,
    OPTION_PROCESSING_DEADLINE,
    OPTION_LATENCY,
    OPTION_BUSY_POLL,
    OPTION_ADD_REFERENCE_TIMESTAMP_META,
    OPTION_IO_MODE,
    OPTION_GROUP,
    OPTION_GROUP_LATENCY,
    OPTION_BACKUP_ADDRESS,
    OPTION_PREFERRED,
    OPTION_FREEZE_TIMEOUT,
    OPTION_MAX_FRAME_SIZE,
    OPTION_COUNT,
};

enum io_mode { IO_MODE_AUTO, IO_MODE_MMAP, IO_MODE_USERPTR, IO_MODE_DMABUF };

enum on_disconnect {
    ON_DISCONNECT_WAIT,
    ON_DISCONNECT_EOS,
    ON_DISCONNECT_ERROR,
    ON_DISCONNECT_FREEZE,
    ON_DISCONNECT_BLACK,
};

enum start { START_NEWEST, START_OLDEST };

enum preferred { PREFERRED_MAIN, PREFERRED_BACKUP };

enum on_eos { ON_EOS_EOS, ON_EOS_WAIT };

/* Under the object lock. Those read for each frame are also atomic. */
struct src_options {
    enum on_disconnect on_disconnect; /* atomic */
    enum on_eos on_eos;
    enum start start;
    guint connection_timeout; /* s */
    GstClockTime processing_deadline;
    gint latency;              /* ms, atomic; -1: it is measured */
    guint busy_poll;           /* µs, of one link alone; does not change while the element runs */
    gboolean adds_submit_time; /* atomic */
    enum io_mode io_mode;      /* does not change while the element runs */
    const gchar *group;        /* interned; NULL: none; does not change while the element runs */
    GstClockTime group_latency;
    const gchar *backup_address; /* interned; NULL: none; does not change while the element runs */
    gint preferred;              /* atomic: enum preferred */
    GstClockTime freeze_timeout; /* 0: none; does not change while the element runs */
    guint64 max_frame_size;      /* likewise; 0: by the picture */
};

void src_options_install(GObjectClass *klass);
void src_options_init(struct src_options *options);

/* FALSE: another property's id. Under the object lock. */
gboolean src_options_get(const struct src_options *options, guint id, GValue *value);
gboolean src_options_set(struct src_options *options, guint id, const GValue *value);

/* A copy of the current options. Takes the owner's object lock. */
struct src_options src_options_read(const struct src_options *options, gpointer owner);

static inline enum on_disconnect src_options_on_disconnect(const struct src_options *options)
{
    return (enum on_disconnect)g_atomic_int_get(&options->on_disconnect);
}

/* Whether the element waits for the next sender when one is lost. */
static inline gboolean src_options_wait_for_senders(const struct src_options *options)
{
    enum on_disconnect mode = src_options_on_disconnect(options);

    return mode != ON_DISCONNECT_EOS && mode != ON_DISCONNECT_ERROR;
}

/* How long a picture may wait for others of its group; 0: no group. Under the object lock. */
static inline GstClockTime src_options_group_latency(const struct src_options *options)
{
    return options->group && options->group[0] ? options->group_latency : 0;
}

/* Under the object lock, or of a copy. */
static inline gboolean src_options_have_backup(const struct src_options *options)
{
    return options->backup_address && options->backup_address[0];
}

/* The user's latency in ns; 0: it is measured. */
static inline gint64 src_options_late_max(const struct src_options *options)
{
    return MAX(0, g_atomic_int_get(&options->latency)) * (gint64)GST_MSECOND;
}

/* The properties input and extra-controls of a capture card. */
struct card_settings {
    gchar *input;           /* NULL: the card's current one */
    GstStructure *controls; /* NULL: none */
    gint input_changed;     /* atomic: the streaming thread has not selected it yet */
};

/* A capture card is opened in READY, where its formats are queried, and stays open until NULL. The
 * properties that it was opened with are kept, to reopen it when they have changed. */
struct kept_card {
    struct settings settings;
    enum io_mode io_mode;
};

/* === blocks ================================================================================== */
/* Blocks of sound and data, and the buffers that hold them. Each is copied, so that downstream may
 * keep as many as it likes without a slot of the ring. */

/* The streaming thread's. */
struct blocks {
    gboolean expected;  /* the stream is one of blocks */
    gboolean are_sound; /* and info is theirs */
    gboolean are_coded; /* they are a codec's pictures */
    GstAudioInfo info;
    struct gpud_tensors tensors; /* count 0: they are none */
};

/* === capturechoice =========================================================================== */
/* A capture card's modes as caps, which of them is chosen, and the message when none can be. */

GstCaps *capture_caps_of_modes(const struct gpud_capture_mode *modes, gsize count);

struct capture_wish {
    gint width, height; /* the signal's own size; 0: it has none */
    gchar format[16];   /* the card's current format; "": none that GStreamer knows */
};

/* The best of these modes, fixated. Takes caps; empty ones stay empty. The criteria, in this order:
 * raw video before Bayer, the signal's own size, the card's current format, a rate of 30 or the
 * nearest below, a size near 1920x1080, the card's own order. The rate is the mode's highest. */
GstCaps *capture_choose(GstCaps *caps, const struct capture_wish *wish);

/* Why downstream accepts (wanted) none of the card's modes (has), and what the card offers instead:
 * one sentence without a full stop (g_free it). */
gchar *capture_explain_refusal(const GstCaps *has, const GstCaps *wanted);

/* === input =================================================================================== */
/* The sources of gpudirectsrc's frames: a link to a sender, links to a main and a backup sender, a
 * third-party writer (input.c), or a capture card (capture.c). */

struct input_params {
    const struct settings *settings;   /* the running ones */
    const struct src_options *options; /* a copy */
    const gint *preferred;             /* of a pair: the live option, which outlives the input */
    const gchar *device;
    const gchar *name;                 /* for the sender; NULL: the program's */
    const gchar *card_input;           /* NULL: the card's current one */
    const GstStructure *card_controls; /* NULL: none */
    /* Events of a link, called inside acquire; a capture card has none. */
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    /* Whether a link may switch to a sender of such frames; likewise. */
    enum gpud_status (*admit)(void *user, const struct gpud_media *media, struct gpud_error *error);
    /* The application is to be warned; called inside acquire. */
    void (*on_notice)(void *user, const gchar *text);
    void *user;
};

struct input_info {
    gboolean connected;
    gchar path[32];
    gchar device[32]; /* the device that frames arrive on; filled by the element */
    gchar fallback_reason[GPUD_REASON_MAX];
    gchar encrypted[64]; /* how the connection is; "": it crosses no network */
    gchar address[120];  /* of the sender whose frames come; filled by a link */
    guint64 frames, dropped, corrupted, connects, disconnects;
    guint64 copies_cpu, copies_gpu, waits_cpu, waits_device, kicks;
    guint64 switches;
    guint64 latency_p50, latency_p99, latency_max;
    gboolean no_signal; /* at a card's input, and why */
    gchar signal_reason[160];
    gchar card_input[32];  /* the name of a card's input; "": it has none */
    const gchar *stamps;   /* the moment of a card driver's timestamps, as text; NULL: no card */
    gboolean stamps_start; /* it is the start of exposure */
    guint slots;           /* of a link's ring; 0: not connected yet */
    guint slots_max;       /* the most that the sender gives; 0: not known, or it cannot be asked */
    guint64 hold;          /* how long a pair may hold a frame, ns */
};

struct input {
    const struct input_ops *ops;
    guint skip; /* of the acquired block of sound: samples that were passed on before */
};

enum input_kind {
    INPUT_LINK,   /* a sender */
    INPUT_PAIR,   /* a main sender and a backup, which look like one that stays */
    INPUT_CARD,   /* a capture card: its signal may be lost, or change with a frame's epoch */
    INPUT_TARGET, /* a ring for a third-party writer */
};

/* All functions of a kind are there. */
struct input_ops {
    enum input_kind kind;
    const gchar *what; /* "the sender", "the capture card": for messages */

    enum gpud_status (*open)(const struct input_params *params, struct input **input,
                             struct gpud_error *error);
    void (*close)(struct input *input); /* frames that are held stay valid */
    enum gpud_status (*acquire)(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                struct gpud_error *error);
    void (*interrupt)(struct input *input, gboolean interrupted);   /* from any thread */
    void (*get_info)(struct input *input, struct input_info *info); /* from any thread */

    /* LINK, PAIR: the sender decides the format, and announces it by GPUD_EVENT_FORMAT. */
    guint (*count_frames)(struct input *input); /* that wait */
    /* Reports the latency of the last acquired frame to the other side. */
    void (*set_latency)(struct input *input, guint64 latency);
    /* Asks the sender for so many slots; from any thread. */
    void (*want_slots)(struct input *input, guint slots);
    /* Asks the sender for a key unit; from any thread. A pair asks both, and at once. */
    void (*request_key)(struct input *input, const struct gpud_key_request *request);

    /* LINK: changes to the sender at that address while frames flow; from any thread. */
    enum gpud_status (*switch_to)(struct input *input, const gchar *address,
                                  const struct settings *settings, gint64 timeout,
                                  struct gpud_error *error);

    /* PAIR. place puts a frame on the time line that both senders share; get_active: "main",
     * "backup", or "none" yet. */
    void (*place)(struct input *input, struct gpud_frame_info *info, struct wire_head *head);
    void (*add_stats)(struct input *input, GstStructure *stats);
    const gchar *(*get_active)(struct input *input);

    /* CARD, TARGET: downstream chooses the format; of a target it has to state one, as that has
     * none of its own.
     * get_caps: the formats that the input offers; filter (or NULL) says which of them matter.
     * configure: sets one of them, adds what the driver knows to *caps, and returns the frames'
     * *layout. */
    GstCaps *(*get_caps)(struct input *input, const GstCaps *filter);
    enum gpud_status (*configure)(struct input *input, GstCaps **caps, struct gpud_layout *layout,
                                  struct gpud_error *error);

    /* CARD; the controls from any thread. */
    enum gpud_status (*set_input)(struct input *input, const gchar *name, struct gpud_error *error);
    enum gpud_status (*set_controls)(struct input *input, const GstStructure *controls,
                                     struct gpud_error *error);
    /* Stops the capture in READY, where the card stays open because its formats are queried. */
    void (*stop)(struct input *input);
    /* After an acquire has returned GPUD_NO_DEVICE, until this returns GPUD_OK: waits for the
     * unplugged card. */
    enum gpud_status (*wait)(struct input *input, gint64 timeout, struct gpud_error *error);
    /* The caps and layout of the current signal's frames; NULL: *reason says why GStreamer has no
     * caps for it (g_free it). */
    GstCaps *(*get_current)(struct input *input, struct gpud_layout *layout, gchar **reason);
    /* The preferences by which one of the formats is chosen. */
    void (*get_wish)(struct input *input, struct capture_wish *wish);
};

extern const struct input_ops link_input_ops, pair_input_ops, capture_input_ops, target_input_ops;

/* The scheme of addresses of rings for third-party writers. */
#define TARGET_SCHEME "target:"

/* By the address's scheme. */
const struct input_ops *input_ops_for(const gchar *address);

static inline gboolean input_is_of_sender(const struct input_ops *ops)
{
    return ops->kind == INPUT_LINK || ops->kind == INPUT_PAIR;
}

struct group_member;

/* === feed ==================================================================================== */
/* The current input: opened, replaced, counted and interrupted. */

/* Opens an input on a device. */
typedef enum gpud_status (*feed_open_input)(void *user, const gchar *device, struct input **input,
                                            struct gpud_error *error);

struct feed {
    feed_open_input open_input;
    void *user;
    /* NULL: it is closed. Replaced by the streaming thread, and between states; other threads hold
     * the lock to use it. */
    struct input *input;
    struct group_member *group; /* NULL: none; under the lock */
    gchar *device;              /* the device that it was opened on; under the lock */

    GMutex lock;
    GCond flushed;
    struct input_info past; /* under the lock: the counts of the inputs before this one */
    gboolean interrupted;   /* under the lock: acquire must not wait */
    guint slots_wanted;     /* under the lock; 0: as many as the input was opened with */
    gint flushing;          /* atomic: create() must return from any wait */
    guint64 skipped;        /* relaxed atomic: acquired frames that are not shown */
    guint64 dropped_seen;   /* the streaming thread's: this input's count, up to the last frame */
};

/* Opens the input on a device and counts from 0. FALSE: *error says why not. */
gboolean feed_open(struct feed *feed, const gchar *device, struct gpud_error *error);
void feed_close(struct feed *feed);

/* Replaces the input by a new one; the old one's link ends, and its frames stay valid. device NULL:
 * the same as before. FALSE: *error says why, and the old input remains. */
gboolean feed_replace(struct feed *feed, const gchar *device, struct gpud_error *error);

/* Restarts the element's counts from 0, while the input's continue. */
void feed_count_anew(struct feed *feed);

/* The counts of this input and of those before it; from any thread. */
void feed_get_info(struct feed *feed, struct input_info *info);

/* What a group of sources, and only this kind of input, counts; from any thread. */
void feed_add_stats(struct feed *feed, GstStructure *stats);

/* Joins a group of sources; name NULL: leaves it. */
void feed_set_group(struct feed *feed, const gchar *name, GstElement *element);

/* Makes acquire and waiting for the group return at once, until FALSE is set. From any thread. */
void feed_interrupt(struct feed *feed, gboolean interrupted);

/* Changes to the sender at that address, if the input is a link; settings: with their keys. From
 * any thread. */
enum gpud_status feed_switch(struct feed *feed, const gchar *address,
                             const struct settings *settings, gint64 timeout,
                             struct gpud_error *error);

/* Asks the sender for so many slots, now and whenever the input is replaced. From any thread. */
void feed_want_slots(struct feed *feed, guint slots);

/* Asks the sender for a key unit. From any thread. */
void feed_request_key(struct feed *feed, const struct gpud_key_request *request);

/* After the element interrupted its own acquire: lets it wait again, unless another thread has
 * interrupted it, too. */
void feed_resume(struct feed *feed);

/* Makes create() return from any wait, or lets it wait again. From any thread. */
void feed_set_flushing(struct feed *feed, gboolean flushing);

static inline gboolean feed_is_flushing(struct feed *feed)
{
    return g_atomic_int_get(&feed->flushing);
}

/* Sleeps until that time, in monotonic µs. TRUE: it is flushing now. */
gboolean feed_sleep_until(struct feed *feed, gint64 time);

/* === latency ================================================================================= */
/* The latency that gpudirectsrc reports.
 *
 *     lateness   arrival of a picture minus its own time
 *     min        the user's value, or the measured lateness, limited by what the ring can hold;
 *                plus the processing deadline, and what a group may add
 *     max        the least lateness, plus the time for which the ring can hold pictures if it grows
 *
 * A picture arrives when it is submitted or, if this element waited for it, when it is acquired.
 * The time that it spends in the ring while downstream blocks this thread (a sink without a queue,
 * until the previous picture is due) does not count: that would raise the latency, hence the time
 * for which downstream blocks, and so on. */

struct latency_figures {
    GstClockTime least, most; /* lateness of pictures */
    gboolean sender_waits;    /* for slow receivers: no frame is lost, however long it waits */
    guint slots;              /* of the ring */
    guint slots_max;          /* which the sender lets it have */
    GstClockTime hold;        /* for which a pair of senders may hold a picture */
};

struct latency {
    GstElement *element;
    const struct src_options *options;
    /* The streaming thread's; written under the object lock, for the LATENCY query. */
    struct latency_figures figures;
    GstClockTime interval; /* between pictures; GST_CLOCK_TIME_NONE: the caps do not say */
    GstClockTime pipeline; /* the pipeline's latency; any thread's, under the object lock */
    /* The streaming thread's. */
    struct lateness lateness;
    guint unmeasured;   /* frames until lateness is measured again */
    gint64 reported_at; /* monotonic µs of the last message; 0: none yet */
};

/* For a LATENCY query. From any thread. */
void latency_get(struct latency *latency, GstClockTime *min, GstClockTime *max);

/* Notes a picture's lateness on arrival, and the monotonic time of its acquire. late_max: later
 * pictures are ignored; G_MAXINT64 if that bound is unknown. */
void latency_measure(struct latency *latency, gint64 late, gint64 late_max,
                     GstClockTime acquired_at, gboolean sender_waits);

/* Replaces the figures and the interval; posts a message, and returns TRUE, if that changes the
 * latency. */
gboolean latency_replace(struct latency *latency, const struct latency_figures *with,
                         GstClockTime interval);

/* How many slots the ring needs, so that pictures which come at this interval can wait until they
 * are shown, `later` than by the pipeline's latency. 0: it is not known. From any thread. */
guint latency_slots(struct latency *latency, GstClockTime interval, GstClockTime later);

/* Forgets everything. card: pictures come from a capture card. */
void latency_reset(struct latency *latency, guint slots, gboolean card);

/* === linkstate =============================================================================== */
/* The streaming thread's state of the connection to a sender, or to a card. */

/* Times are monotonic, in µs. Zeroed: there was no connection yet. */
struct link_state {
    gboolean linked;        /* a sender is connected, or was and its loss was not reported */
    gboolean ended;         /* the sender ended its stream; the next stream is waited for */
    gboolean card_lost;     /* the card was unplugged, and is waited for */
    gint64 waiting_since;   /* the start of the time without a sender; 0: not known yet */
    gboolean wait_reported; /* a message reported that wait */
    guint refusal_cause;    /* a hash of the cause reported last; 0: none since the last link */
    gint64 refusal_at;
    gint64 held_off_until; /* the next attempt to connect; 0: at once */
};

/* The input was replaced: its sender connects anew. */
static inline void link_state_renew(struct link_state *link)
{
    link->linked = FALSE;
    link->waiting_since = 0;
}

/* === pictures ================================================================================ */
/* The format of the pictures, and the buffers that hold them.
 *
 * Normally a buffer is the slot itself. Three things force a copy: downstream cannot read strides,
 * needs memory of its own allocator, or holds so many buffers that the ring is nearly empty: it
 * then gets copies until it holds fewer, because the stream would lose pictures, or stop.
 *
 * Where the caps are of dma-bufs, buffers are the ring's, if its memory has some: that of a card or
 * a third-party writer has, and that which a sender writes to. Memory that a sender lends for
 * reading has none, because a dma-buf could be written to; its pictures are copied into others. */

enum dmabuf_use { DMABUFS_UNUSED, DMABUFS_SLOTS, DMABUFS_COPIES };

/* The streaming thread's. */
struct pictures {
    GstBaseSrc *src;
    struct counters *counters; /* the endpoint's */
    GstVideoInfo info;
    struct gpud_layout layout; /* that of caps and pool */
    GstBufferPool *pool;       /* wraps frames of the current epoch; NULL: no format yet */
    GstBufferPool *dmabufs;    /* wraps them as dma-bufs, if the caps are of those; else NULL */
    gint dmabuf_use;           /* atomic: enum dmabuf_use */
    struct outstanding *outstanding; /* the slots of this format that downstream holds */
    guint slots;                     /* of the ring, which downstream may hold */
    gboolean is_hoarded;             /* downstream has shown that it holds all that it can get */
    GstCaps *caps;                   /* those of the pool */
    const struct gpu *caps_gpu;      /* and the GPU */
    struct gpu *gpu;        /* the GPU of the buffers' memory; NULL: the CPU; set by its owner */
    guint32 epoch;          /* that of the card's frames that the pool has wrapped; 0: none yet */
    gboolean is_default;    /* planes have GStreamer's default layout */
    gboolean reads_strides; /* downstream does; set by its owner */
    gint fills_files;       /* atomic: buffers are memory of downstream's allocator; set likewise */
};

/* Sets the format of the following pictures. FALSE: there can be no buffers for them. */
gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout);

/* Whether these caps, in the memory that the owner has set, are the format already. */
gboolean pictures_have_format(const struct pictures *pictures, const GstCaps *caps);

/* There is no format. */
void pictures_reset(struct pictures *pictures);

/* === latencies =============================================================================== */
/* The latencies of the last 4096 frames from another host, if both ends follow one clock, or from a
 * capture card, by its driver's timestamps. Between two ends on one host the core counts them.
 * Thread-safe. */

struct latencies;

/* FALSE: there were none. */
gboolean latencies_get(struct latencies *latencies, guint64 *p50, guint64 *p99, guint64 *max);

/* === times =================================================================================== */
/* The times of gpudirectsrc's buffers, and how the sender's clock relates to the pipeline's. */

/* How the clock of the last sender, or of the capture card, relates to ours; for the stats. */
enum clock_relation { RELATION_NONE, RELATION_UNKNOWN, RELATION_SAME_HOST, RELATION_COMMON };

struct times {
    struct endpoint *endpoint;
    /* From a time of a pushed buffer to the sender's running time; atomic. */
    gint64 to_sender;
    gint relation; /* atomic: enum clock_relation */
    gint64 offset; /* atomic: added to the sender's running times, if clocks are not common */
    struct latencies *latencies; /* of frames, where the core does not count them */
    gchar sender_host[64];       /* the last sender's, "": this host; under the object lock */
    struct shared_part shared;   /* with the programme's other streams */
    /* The streaming thread's. */
    struct time_map map;
    struct timeline line;
    struct arrivals arrivals;
    gboolean same_clock;       /* the sender has this host's clock */
    gboolean by_dts;           /* data come in the order of their decoding times */
    gboolean reorders;         /* and buffers that depend on others are among them */
    gboolean waited;           /* acquiring the last frame had to wait */
    GstClockTime acquired_at;  /* when it was acquired, by CLOCK_MONOTONIC */
    GstClockTime stamped_at;   /* when it was stamped, in running time; NONE: not known */
    GstClockTime running;      /* when a frame was last asked whether it is past */
    GstClockTime stands_since; /* how long the clock has shown that time, by CLOCK_MONOTONIC */
};

/* The times of one frame of a link. */
struct times_frame {
    struct time_frame frame;
    struct time_now now;
    gint64 arrived; /* in running time; or TIMELINE_UNKNOWN */
};

void times_init(struct times *times, struct endpoint *endpoint);
void times_finish(struct times *times);

/* Before the element starts: its times are converted as those of other streams that share it. */
void times_share(struct times *times, struct shared_map *shared);

/* Another sender is connected. same_line: its frames are on the time line of the one before. */
void times_meet_sender(struct times *times, const struct gpud_peer_info *peer, gboolean same_line);

/* The time of a gap; between frames this also learns about the sender's clock. */
GstClockTime times_stamp_gap(struct times *times, const struct wire_event *event,
                             gboolean with_frame);

/* Whether a live frame belongs before this pipeline's start. */
gboolean times_is_past(struct times *times, const struct gpud_frame_info *info,
                       const struct wire_head *head);

/* Whether a live frame may have waited for an unknown time, while the sender's clock is known only
 * from the arrival of frames. */
gboolean times_is_arrival_unknown(struct times *times, const struct gpud_frame_info *info,
                                  const struct wire_head *head);

/* Sets a buffer's times, which never go back. */
void times_stamp_linked(struct times *times, struct input *input,
                        const struct gpud_frame_info *info, const struct wire_head *head,
                        GstBuffer *buffer, struct times_frame *frame);

/* Called after that, and after events were pushed: learns about the clocks. Returns the frame's
 * lateness, or TIMELINE_UNKNOWN. */
gint64 times_learn(struct times *times, struct input *input, const struct wire_head *head,
                   const struct times_frame *frame, const GstBuffer *buffer);

/* Stamps a frame of a card. FALSE: its lateness is not known. */
gboolean times_stamp_captured(struct times *times, const struct gpud_frame_info *info,
                              GstBuffer *buffer, gint64 *late);

/* Forgets everything: no buffer was pushed yet. */
void times_reset(struct times *times, gboolean card);

/* === signal ================================================================================== */
/* Whether pictures arrive, and what downstream gets while none do.
 *
 * The signal is present from a picture until the sender is lost, ends its stream, or sends nothing
 * for half a second (or three frames, if that is longer). With on-disconnect=freeze or black the
 * stream then continues at its last rate, in real time, with the last picture or a black one.
 *
 * For `freeze` each picture is kept until the next one arrives, which occupies one slot of the
 * ring. When the signal is lost the picture is copied, and the slot released. */

/* The streaming thread's. Times are monotonic. */
struct src_signal {
    gboolean may_be_silent;    /* a stream of data: long silence is normal */
    gint present;              /* atomic: the property */
    GstClockTime seen;         /* when the last picture arrived */
    GstClockTime due;          /* when the next stand-in is due */
    GstClockTime pts;          /* that of the last buffer, the sender's or a stand-in */
    gint64 lag;                /* from a picture's time to its arrival */
    GstBuffer *last;           /* the last picture; NULL: it is not needed */
    GstBuffer *stand_in;       /* the picture shown without a signal; NULL: not made yet */
    guint64 count;             /* relaxed atomic: stand-ins that were pushed */
    GstClockTime silent_since; /* since when a card gives no frames; 0: it does */
    gboolean silence_reported; /* a message reported it */
};

/* The format changes: earlier pictures cannot stand in. */
void src_signal_forget_pictures(struct src_signal *signal);
void src_signal_forget(struct src_signal *signal);

/* === updates ================================================================================= */
/* Events of the link other than frames: noted inside acquire, applied after it.
 *
 * Only the last format and the last connection count. Other events wait for a frame, which gives
 * their time, and later ones replace earlier ones:
 *
 *     segment, flush   the last one
 *     tags             one list for each scope, merged: later values win
 *     gap              none before the first frame: there is nothing to bridge
 *     custom           all of them; of sticky ones the last of each name
 *
 * The number of waiting events is bounded, at more than an honest sender needs. Once frames flow, a
 * larger burst only ends the acquire: downstream gets the events so far, and the rest stays with
 * the sender. Before the first frame nothing can be passed on, so the link is cut. */

/* The streaming thread's. */
struct updates {
    struct gpud_format_event *format; /* the last one; NULL: it was applied */
    struct caps_rest rest;            /* what belongs to the caps of the last format */
    struct gpud_peer_info *peer;      /* a sender that connected; NULL: that was handled */
    gchar *switched;                  /* an address that was switched to; NULL: none */
    struct gpud_error not_switched;   /* why it was not, to that address; GPUD_OK: it was */
    GQueue events;                    /* of struct update_event */
    gsize event_bytes;                /* their total size */
    gboolean flooded;                 /* more events arrived than may wait: cut the link */
    gchar *unusable;                  /* why the sender's format is unusable: cut the link */
    gboolean yielding;                /* acquire was interrupted by its own callback */
};

/* Drops what was not applied. */
void updates_clear(struct updates *updates);

/* Whether the link must be cut. */
static inline gboolean updates_end_link(const struct updates *updates)
{
    return updates->flooded || updates->unusable;
}

/* Returns the reason for that, and forgets it. */
void updates_take_reason(struct updates *updates, struct gpud_error *why);

/* === src ===================================================================================== */
/* The internals of gpudirectsrc. Its state is in structs, each owned by a file:
 *   element.c  class, properties, states, queries, stats; opens and closes the input
 *   create.c   the loop: a frame becomes a buffer; what to do, and what is shown, when none comes
 *   format.c   device, caps and allocation; what the sender says between frames
 *   times.c    the times of buffers, the lateness of pictures, and the latency reported for it
 *   input.c    the current input, and its kinds; capture.c is that of cards
 *   group.c    sources that pass on pictures of the same instant */

#define GST_TYPE_GPUDIRECT_SRC (gst_gpudirect_src_get_type())

G_DECLARE_FINAL_TYPE(GstGpudirectSrc, gst_gpudirect_src, GST, GPUDIRECT_SRC, GstPushSrc)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsrc)

/* Frames arrive on the sender's device, if downstream accepts its memory. */
struct src_follow {
    gboolean enabled;
    guint moves; /* from device to device since the last frame */
};

/* How many pictures are lost on the way from the sender, in the present second. The streaming
 * thread's. */
struct way {
    GstClockTime since; /* monotonic */
    guint64 taken, lost;
    gboolean is_blocked; /* downstream takes longer than a picture lasts */
    guint seconds;       /* in a row before this one in which the way was too slow */
};

/* Frames that are stale are skipped after connecting and after a pause. */
struct src_beginning {
    gint resumed;            /* atomic: PLAYING again, and create() has not noticed yet */
    GstClockTime resumed_at; /* monotonic: frames captured earlier are stale */
    gboolean pending;        /* the next frame is the first one, or the first after a pause */
    gboolean switched;       /* it is the first one of another sender, which followed at once */
    guint skipped_in_row;    /* since then */
};

struct _GstGpudirectSrc {
    GstPushSrc parent;

    struct endpoint endpoint;
    struct src_options options; /* properties; under the object lock */
    struct card_settings card;  /* likewise */
    struct kept_card kept;
    struct feed feed;
    gint ending;       /* atomic: the application asked for EOS */
    struct gate *gate; /* of a change of address; NULL: it changes alone; under the object lock */
    gboolean is_main;  /* likewise: the gate is for streams of a channel, and this its own one */

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
    struct names *names;     /* those accepted from the address's senders */
    GPtrArray *sticky_names; /* interned names of custom events that the pad keeps */
    struct gate *arrived;    /* the gate that this has arrived at; NULL: none */
    gboolean discont;        /* of the next buffer */
    enum { KEY_THERE, KEY_MISSING, KEY_ASKED } awaits_key; /* after a frame was skipped */
    gboolean follows_signal;      /* the caps follow a change of signal, and need no negotiation */
    GstClockTime slots_seen;      /* when the number of slots was looked up; monotonic */
    GstClockTime returned_at;     /* when downstream got the last buffer; monotonic; 0: none yet */
    GstClockTime blocked_longest; /* that downstream took for a buffer since the last but one */
    gboolean loss_reported;       /* a warning said that pictures are lost */
    struct way way;
    gint sender_live;           /* atomic: as the sender says; -1: it has not said */
    guint64 frames;             /* pushed buffers */
    guint64 dropped;            /* frames dropped by all inputs, as QoS messages report */
    guint64 skipped_unreported; /* frames that are in no QoS message yet */
};

/* Whether an open card serves the current properties. Under the object lock. */
gboolean gst_gpudirect_src_keeps_card(const GstGpudirectSrc *self);

/* Another stream follows, or the pipeline was paused. */
void gst_gpudirect_src_break_stream(GstGpudirectSrc *self);

/* Switches to the sender at the property `address`; if_other: unless its frames come already. From
 * any thread. */
void gst_gpudirect_src_follow_address(GstGpudirectSrc *self, gboolean if_other);

/* The next change of the property `address` is made with those of other sources. From any thread.
 */
void gst_gpudirect_src_set_gate(GstGpudirectSrc *self, struct gate *gate, gboolean is_main);

/* The gate of the change that is under way; unref it. NULL: none. */
struct gate *gst_gpudirect_src_get_gate(GstGpudirectSrc *self);

/* That address's frames come from here on. The streaming thread's. */
void gst_gpudirect_src_take_address(GstGpudirectSrc *self, const gchar *address);

/* It stays with its sender: posts a warning, and sets the property back. From any thread. */
void gst_gpudirect_src_keep_sender(GstGpudirectSrc *self, const gchar *address,
                                   const struct gpud_error *why);

/* What create.c offers: GstPushSrc's method. */
GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer);

/* --- what format.c offers ----------------------------------------------------------------- */

/* Receives the link's events, inside acquire. user is the element. */
void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data);

/* Whether the elements downstream take such frames, likewise. */
enum gpud_status gst_gpudirect_src_admit(void *user, const struct gpud_media *media,
                                         struct gpud_error *error);

/* After acquire: applies a format or a connection noted since the last call. *yielded: the event
 * callback interrupted it, and it may be called again. *moved: the input was replaced. */
GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean has_frame,
                                             gboolean *yielded, gboolean *moved);

/* The ring has so many slots now. */
void gst_gpudirect_src_note_slots(GstGpudirectSrc *self, const struct input_info *info);

/* Moves back to the host, after the sender has refused the device that was followed. FALSE: the
 * refusal has another cause. */
gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self);

/* Pushes waiting events downstream: with_frame, all, before the frame that was just stamped; else
 * all but segments. */
void gst_gpudirect_src_push_events(GstGpudirectSrc *self, gboolean with_frame);

/* Follows a change of a card's signal to other caps. FALSE: an error was posted, or downstream
 * flushes. */
gboolean gst_gpudirect_src_follow_signal(GstGpudirectSrc *self);

/* Sets the format of the following frames. */
gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout);
void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass);

/* The same, with a new latency of the pipeline. */
void gst_gpudirect_src_note_latency(GstGpudirectSrc *self, GstClockTime latency);

/* === instant ================================================================================= */
/* Which instant a group of sources passes on, as a pure function of the frames that they have.
 *
 *     the newest frame decides the instant; frames within half an interval before it belong to it
 *     an older frame is dropped: no frame that is still to come can complete its instant
 *     an instant goes out when each source that is expected has a frame of it, or when a frame
 * since the last instant, also a dropped one, has waited for its source's latency: sources without
 * a frame are left out then, and not expected again before they have one */

/* Times are in ns; before the first instant, and while no frame waits. */
#define INSTANT_NONE G_MININT64
#define INSTANT_NEVER G_MAXINT64

enum instant_state {
    INSTANT_EXPECTED, /* its next frame is waited for */
    INSTANT_MISSING,  /* it was left out, and has shown no frame since */
    INSTANT_OFFERED,  /* it has a frame, which it holds */
};

enum instant_verdict { INSTANT_HOLD, INSTANT_SEND, INSTANT_DROP };

/* One source. */
struct instant_part {
    enum instant_state state;
    /* The frame that it offers. */
    gint64 time;     /* on the clock that the group shares */
    gint64 interval; /* between its frames, as far as is known; 0: not at all */
    gint64 arrived;  /* by the monotonic clock */
    gint64 latency;  /* for which it may be held from then on */
    /* Set by instant_decide(). */
    enum instant_verdict verdict; /* of the frame that it offered last */
    gboolean left_out;            /* the instant that goes out lacks it */
};

/* What has gone out. */
struct instant_past {
    gint64 last;     /* the newest instant; INSTANT_NONE: none yet */
    gint64 deadline; /* until when the next one must go; INSTANT_NEVER: no frame waits for it */
};

struct instant_outcome {
    gboolean concluded; /* frames got a verdict other than HOLD */
    gboolean went;      /* an instant goes out, and left_out is set in each part */
    gint64 next;        /* when to decide again; INSTANT_NEVER: when a frame is offered */
};

/* Decides at the monotonic time `now`. Sources whose frames are not held any more are expected to
 * offer the next. */
struct instant_outcome instant_decide(struct instant_part *const *parts, guint count,
                                      struct instant_past *past, gint64 now);

/* === group =================================================================================== */
/* The sources of this process with one group name pass on frames of the same instant: each offers
 * its frame, and waits until the instant is decided. */

/* Joins the group of that name, as `element`; it is expected to offer a frame from now on. */
struct group_member *group_join(const gchar *name, GstElement *element);
void group_leave(struct group_member *member);

struct group_frame {
    GstClockTime running;  /* the frame's running time */
    GstClockTime now;      /* the current one */
    GstClockTime interval; /* between frames; GST_CLOCK_TIME_NONE: not known */
    GstClockTime acquired; /* by CLOCK_MONOTONIC */
    gboolean waited;       /* for its arrival, until then */
    GstClockTime latency;  /* for which it may be held */
};

enum group_answer {
    GROUP_SEND,        /* its instant goes out now */
    GROUP_DROP,        /* its instant went out, or cannot be complete */
    GROUP_INTERRUPTED, /* by group_interrupt() */
};

/* For the streaming thread: waits until the group has decided. Posts a message when sources begin
 * to be left out. A source whose pipeline has another clock than the others' is not held, nor is a
 * frame that is ahead of its clock by more than the latency: others would be dropped until they
 * reach it. */
enum group_answer group_offer(struct group_member *member, const struct group_frame *frame);

/* Makes group_offer() return, until FALSE is set. From any thread. */
void group_interrupt(struct group_member *member, gboolean interrupted);

/* How many frames the group has dropped, and how many instants went out without this source. From
 * any thread. */
void group_get_counts(const struct group_member *member, guint64 *dropped, guint64 *missed);

/* === gate ==================================================================================== */
/* Sources that change to the streams of another channel together. Each arrives when its first frame
 * of that channel is here; the gate opens when all have arrived, or GATE_WAIT after the channel's
 * own stream has (if that is not one of them: after the first one): a channel may lack a stream. It
 * is closed when the channel's own stream cannot change. From any thread. */

struct gate;

enum gate_state { GATE_WAITS, GATE_OPEN, GATE_CLOSED };

/* Refers to the gate once. expected: sources that are to arrive; needs_main: the channel's own is
 * one of them; timeout: how long each may take, ns, instead of its connection-timeout. */
struct gate *gate_new(guint expected, gboolean needs_main, gint64 timeout);
struct gate *gate_ref(struct gate *gate);
void gate_unref(struct gate *gate);

void gate_arrive(struct gate *gate, gboolean main);
void gate_close(struct gate *gate);
enum gate_state gate_get_state(struct gate *gate);
gint64 gate_get_timeout(const struct gate *gate);

/* === pairtime ================================================================================ */
/* By which times frames of a main and a backup sender are matched. */

/* From the most exact one on. */
enum pair_match {
    PAIR_MATCH_NONE,      /* no sender is known yet */
    PAIR_MATCH_CLOCK,     /* both follow one named clock, as PTP */
    PAIR_MATCH_MONOTONIC, /* both follow the monotonic clock of one host */
    PAIR_MATCH_PTS,   /* neither is live, or neither has a clock: their timestamps are the contents'
                       */
    PAIR_MATCH_APART, /* live, by different clocks: nothing says which frames are of one instant */
};

/* What a sender's frames say of its clock. */
struct pair_clock {
    gboolean known, live;
    guint64 monotonic, name; /* as in struct wire_head */
};

enum pair_match pair_match_of(const struct pair_clock *main, const struct pair_clock *backup);

#endif

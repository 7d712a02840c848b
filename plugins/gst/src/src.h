/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of gpudirectsrc:
 *   element.c   class, properties, states, queries
 *   input.c     the input: opened, replaced, asked, interrupted
 *   device.c    on which device frames shall arrive, and what that means for caps and contexts
 *   create.c    the loop: a frame becomes a buffer
 *   wait.c      what to do when there is none
 *   signal.c    whether pictures come, and what is shown while none do
 *   times.c     when: the times of buffers
 *   latency.c   how late they are, and what of that is reported
 *   format.c    caps, the pool, allocation
 *   events.c    what the link says beside frames: bounded, in order, mapped in time
 *   iomode.c    how a capture card's buffers are had
 *   card.c      what a capture card is set to: its input, its controls
 *   enums.c     the types of properties that are a choice
 *   input.h     where frames come from: link.c, a sender; capture.c, a capture card */
#ifndef GPUD_GST_SRC_SRC_H
#define GPUD_GST_SRC_SRC_H

#include "memory/gpu.h"
#include "settings.h"
#include "src/card.h"
#include "src/input.h"
#include "src/iomode.h"
#include "src/latencies.h"
#include "wire/arrivals.h"
#include "wire/caps.h"
#include "wire/clock.h"
#include "wire/lateness.h"
#include "wire/lostmetas.h"
#include "wire/timeline.h"
#include "wire/timing.h"

#include <gst/base/gstpushsrc.h>
#include <gst/video/video.h>

#define GST_TYPE_GPUDIRECT_SRC (gst_gpudirect_src_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectSrc, gst_gpudirect_src, GST, GPUDIRECT_SRC, GstPushSrc)

GST_ELEMENT_REGISTER_DECLARE(gpudirectsrc)

GST_DEBUG_CATEGORY_EXTERN(gst_gpudirect_src_debug);

/* A format that came over the link, and is not in use yet. */
struct src_format {
    struct gpud_layout layout;
    GBytes *media;
};
void src_format_free(struct src_format *format);

enum on_disconnect {
    ON_DISCONNECT_WAIT,
    ON_DISCONNECT_EOS,
    ON_DISCONNECT_ERROR,
    ON_DISCONNECT_FREEZE,
    ON_DISCONNECT_BLACK,
};
enum start { START_NEWEST, START_OLDEST };
enum on_eos { ON_EOS_EOS, ON_EOS_WAIT };

/* The source's own properties. */
struct src_options {
    enum on_disconnect on_disconnect; /* atomic, too: it is read for each frame */
    enum on_eos on_eos;
    enum start start;
    guint connection_timeout; /* s */
    GstClockTime processing_deadline;
    gint latency;               /* ms; -1: it is measured; atomic, too */
    guint busy_poll;            /* µs */
    gboolean tells_submit_time; /* likewise */
    enum io_mode io_mode;       /* does not change while the element runs */
};

/* Whether pictures come; the streaming thread's. */
struct src_signal {
    gint present;        /* atomic: the property */
    GstClockTime seen;   /* monotonic: when the last picture came */
    GstClockTime due;    /* monotonic: when the next stand-in is due */
    GstClockTime pts;    /* of the last buffer, be it the sender's or a stand-in */
    gint64 lag;          /* from a picture's time to its arrival */
    GstBuffer *last;     /* the last picture; NULL: it is not needed */
    GstBuffer *stand_in; /* what is shown now; NULL: not made yet */
    guint64 count;       /* relaxed atomic: stand-ins that were pushed */
};

/* What the latency is computed from. */
struct src_latency {
    GstClockTime least, most; /* lateness of pictures */
    gboolean
        sender_waits; /* for slow receivers: no frame is lost, however long it waits in the ring */
    guint slots;      /* of it */
};

/* What the clock of the last sender, or of the capture card, is to ours, for people. */
enum src_relation { RELATION_NONE, RELATION_UNKNOWN, RELATION_HERE, RELATION_COMMON };

struct _GstGpudirectSrc {
    GstPushSrc parent;

    /* Properties; under the object lock. */
    struct settings settings;
    struct src_options options;
    struct card_settings card;
    gboolean started; /* from the beginning of start() to the end of stop() */

    struct settings running; /* the copy of the settings that the element runs by */

    /* From start to stop. Replaced under input_lock; other threads hold that to read it. */
    GMutex input_lock;
    struct input *input;
    struct input_info past; /* under input_lock: the counts of the inputs before this one */
    gboolean interrupted;   /* under input_lock: acquire is to return, and not to wait */
    gchar *opened;          /* under input_lock: the device that it was opened on */
    struct settings kept;   /* of the card that was opened in READY */
    enum io_mode kept_mode;

    gint opened_on;               /* atomic: the GPU that frames arrive on, or -1 */
    struct gpu_contexts contexts; /* under the object lock */
    gchar *device_reason;         /* under it: what device=auto came to, and why; or NULL */

    gint clock_kind; /* atomic: enum clock_kind of the pipeline's clock */
    gint relation;   /* atomic: enum src_relation */
    gint resumed;    /* atomic: PLAYING again, and create() has not noticed yet */
    gint ending;     /* atomic: the application asked for an end of the stream */
    gint flushing;   /* atomic: create() is to return */
    gint stats_due;  /* see endstats.h */
    GMutex pause_lock;
    GCond pause_cond; /* flushing changed */

    /* The streaming thread's. */
    struct src_format *format;      /* the last one that came over the link; NULL: it is in use */
    struct gpud_peer_info *arrived; /* a sender that connected; NULL: that was handled */
    GQueue waiting;                 /* events that wait for a frame, whose time they need */
    gsize waiting_bytes;            /* of them, as they travelled */
    GPtrArray *sticky_names;        /* interned: of custom events that the pad keeps */
    gboolean flooded;               /* more events came than may wait: the link is to be cut */
    gchar *unusable;                /* why the sender's format is of no use: likewise; or NULL */
    gboolean yielding;              /* acquire was interrupted by its own callback */
    GstVideoInfo info;
    struct gpud_layout layout;       /* for which caps and pool were made */
    GstBufferPool *pool;             /* wraps frames of the current epoch; NULL: no format yet */
    struct outstanding *outstanding; /* the pool's */
    guint32 card_epoch; /* of the card's frames that the pool has wrapped; 0: none yet */
    gboolean planes_default;
    gboolean downstream_video_meta;
    struct time_map map;
    struct timeline line;
    gboolean here;      /* the sender has this host's clock */
    gboolean waited;    /* the last frame had to be waited for */
    GstClockTime taken; /* and when it was taken, by CLOCK_MONOTONIC */
    GstClockTime came;  /* when the last frame was stamped, in running time; NONE: not known */
    struct arrivals arrivals;
    gboolean discont;
    gboolean follows_signal;    /* the caps are another signal's: nothing is to be negotiated */
    GstClockTime resumed_at;    /* monotonic: what was captured before is stale */
    GstClockTime silent_since;  /* monotonic: a card gives no frames; 0: it does */
    gboolean silence_told;      /* that a card gives no frames */
    gboolean card_lost;         /* it was unplugged, and is waited for */
    gboolean starting;          /* the next frame is the first one, or the first after a pause */
    guint skipped_in_row;       /* frames that were skipped since then */
    guint64 skipped_unreported; /* of these, not yet in a QoS message */
    gboolean linked; /* a sender is connected, or was and its loss has not been reported */
    gboolean ended;  /* the sender ended its stream; the next one, its own or another sender's, is
                        waited for */
    guint refusal_told; /* a hash of the cause that was told last; 0: none since the last link */
    gint64 refusal_told_at; /* monotonic µs */
    gint64 waiting_since;   /* monotonic µs: since when there is no sender */
    gboolean waiting_told;  /* that it waits */
    gint64 held_off_until;  /* monotonic µs: the next attempt to connect */
    struct src_signal signal;
    guint64 dropped_seen;  /* the count of this input, over its connections */
    guint64 dropped_total; /* of all inputs */
    guint64 frames;
    gboolean follows; /* frames arrive where the sender has them, if downstream can take that */
    guint moves;      /* from device to device since the last frame */
    struct lateness lateness;
    guint unmeasured;    /* frames until lateness is measured again */
    gint64 latency_told; /* monotonic µs of the last message */
    struct gpu *gpu;     /* buffers are memory of this GPU; NULL: of the CPU's */
    struct counters *counters;
    struct lost_metas *lost_metas;
    struct names *names; /* of the address */
    struct latencies *latencies;
    guint64 copies_cpu, skipped; /* relaxed atomics */
    gchar sender_host[64]; /* under the object lock: where the last one was; "": on this host */

    /* Written under the object lock: for the latency query. */
    struct src_latency latency;
    GstClockTime frame_duration;
};

/* --- device.c ----------------------------------------------------------------------------- */

/* Why downstream may have refused these caps, and what to do; g_free it. */
gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps);

void gst_gpudirect_src_class_init_device(GstElementClass *klass);

/* Answers a query for a context of the GPU. */
gboolean gst_gpudirect_src_share_context(GstGpudirectSrc *self, GstQuery *query);

/* Chooses the device that frames shall arrive on; g_free it. Sets self->opened_on. */
gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops);

/* Whether gst_gpudirect_src_follow() has to look at a stream with these media bytes. */
gboolean gst_gpudirect_src_may_follow(GstGpudirectSrc *self, const void *media, size_t size);

/* Moves the input to the device that the sender has its frames on. FALSE: it stays. */
gboolean gst_gpudirect_src_follow(GstGpudirectSrc *self, const struct src_format *format);

/* The sender refuses the device to which its stream was followed: back to the host. FALSE: that is
 * no way out. */
gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self);

/* Those of the pad's caps that the device can provide. Takes the caps. */
GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps);

/* What a card or a writer outside can give, in memory of the GPU that frames arrive on first. Takes
 * the caps. And the GPU whose memory negotiated caps are of; NULL: the CPU's. */
GstCaps *gst_gpudirect_src_offer_card(GstGpudirectSrc *self, GstCaps *caps);
struct gpu *gst_gpudirect_src_gpu_of_caps(GstGpudirectSrc *self, const GstCaps *caps);

/* The sender's, or the signal's, caps as downstream takes them: of a GPU's memory, in which case
 * *gpu is set, or as they are. Takes the caps. NULL: downstream does not take them. */
GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu);

/* --- create.c ----------------------------------------------------------------------------- */

GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer);

/* Memory, not of the ring, for a picture of this format. */
GstFlowReturn gst_gpudirect_src_new_picture(GstGpudirectSrc *self, GstBuffer **buffer);

/* A copy of a slot's picture in such memory; posts nothing. */
GstFlowReturn gst_gpudirect_src_copy_picture(GstGpudirectSrc *self, GstBuffer *slot,
                                             GstBuffer **buffer);

/* --- card.c ------------------------------------------------------------------------------- */

/* Sets the card's controls, or posts a warning. */
void gst_gpudirect_src_set_controls(GstGpudirectSrc *self);

/* Selects another input, if one was asked for, or posts a warning. */
void gst_gpudirect_src_select_input(GstGpudirectSrc *self);

/* --- wait.c ------------------------------------------------------------------------------- */

/* How long create() may wait for a frame before something else is due, ns. now: monotonic. */
gint64 gst_gpudirect_src_max_wait(GstGpudirectSrc *self, GstClockTime now);

/* After an acquire that brought no frame: GST_FLOW_OK to call it again. */
GstFlowReturn gst_gpudirect_src_no_frame(GstGpudirectSrc *self, enum gpud_status status,
                                         const struct gpud_error *error);

/* A card that was unplugged is back. */
void gst_gpudirect_src_card_back(GstGpudirectSrc *self);

/* Cuts the link to a sender that sends too much; what follows is as when the sender vanishes. */
GstFlowReturn gst_gpudirect_src_cut_link(GstGpudirectSrc *self);

/* Whether on-disconnect says to wait for the next sender. */
gboolean gst_gpudirect_src_waits_for_senders(GstGpudirectSrc *self);

/* TRUE: it is still too early to connect again; this waited until then, or until something else is
 * due. */
gboolean gst_gpudirect_src_is_held_off(GstGpudirectSrc *self);

/* --- signal.c ----------------------------------------------------------------------------- */

/* The picture that was taken last. */
void gst_gpudirect_src_signal_here(GstGpudirectSrc *self, GstBuffer *buffer);

/* The signal is lost: the sender is gone, ended its stream, or sends nothing. reason: for people.
 */
void gst_gpudirect_src_signal_gone(GstGpudirectSrc *self, const gchar *reason);

/* None came in an acquire. */
void gst_gpudirect_src_watch_signal(GstGpudirectSrc *self);

/* After a pause, in which no picture was asked for. */
void gst_gpudirect_src_signal_resume(GstGpudirectSrc *self);

/* A picture that stands in for one that does not come, if one is due. */
gboolean gst_gpudirect_src_stand_in(GstGpudirectSrc *self, GstBuffer **buffer);

/* Monotonic: when the next one is due, or a look whether pictures still come. */
GstClockTime gst_gpudirect_src_signal_due(GstGpudirectSrc *self, GstClockTime now);

void gst_gpudirect_src_forget_signal(GstGpudirectSrc *self);

/* --- times.c ------------------------------------------------------------------------------ */

void gst_gpudirect_src_class_init_times(GstElementClass *klass);

/* The pipeline's clock, now, beside that of the sender of frames and events. */
void gst_gpudirect_src_time_now(GstGpudirectSrc *self, struct time_now *now);

/* Another sender is connected. */
void gst_gpudirect_src_meet_clock(GstGpudirectSrc *self, const struct gpud_peer_info *peer);

/* A frame was taken from the input, at that monotonic time; and it is not shown. */
void gst_gpudirect_src_note_taken(GstGpudirectSrc *self, GstClockTime now);
void gst_gpudirect_src_note_skipped(GstGpudirectSrc *self);

/* Whether a live frame belongs before this pipeline's start; and whether it may have waited, for as
 * long as nobody knows, where the arrival of frames is all that tells the sender's clock. */
gboolean gst_gpudirect_src_is_past(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                   const struct wire_head *head);
gboolean gst_gpudirect_src_is_arrival_unknown(GstGpudirectSrc *self,
                                              const struct gpud_frame_info *info,
                                              const struct wire_head *head);

/* Sets a buffer's times, which never go back, and pushes the events that waited for it. */
void gst_gpudirect_src_stamp_linked(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                    const struct wire_head *head, GstBuffer *buffer);
void gst_gpudirect_src_stamp_captured(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                      GstBuffer *buffer);

/* Whether a card's frame was captured before the pipeline played. */
gboolean gst_gpudirect_src_is_stale_capture(GstGpudirectSrc *self, struct gpud_frame *frame);

/* Another stream follows, or the pipeline was paused. */
void gst_gpudirect_src_break_times(GstGpudirectSrc *self);
void gst_gpudirect_src_reset_times(GstGpudirectSrc *self);

/* --- latency.c ---------------------------------------------------------------------------- */

/* The property, and its default. */
void latency_install(GObjectClass *klass, guint id);
void latency_init(GstGpudirectSrc *self);

/* How late pictures may be by the property; 0: it says nothing. */
gint64 gst_gpudirect_src_late_max(GstGpudirectSrc *self);

/* For a LATENCY query. */
void gst_gpudirect_src_get_latency(GstGpudirectSrc *self, GstClockTime *min, GstClockTime *max);

/* A picture was that late when it was here; TIMELINE_UNKNOWN: nobody knows. */
void gst_gpudirect_src_measure(GstGpudirectSrc *self, gint64 late, gboolean sender_waits);

/* How many slots the ring has: both sides asked for a number, and the smaller one counts. */
void gst_gpudirect_src_note_slots(GstGpudirectSrc *self, guint slots);

/* The time between pictures; GST_CLOCK_TIME_NONE: the caps do not say. */
void gst_gpudirect_src_note_interval(GstGpudirectSrc *self, GstClockTime interval);

/* A card was set up: of when its driver's stamps are. */
void gst_gpudirect_src_note_stamps(GstGpudirectSrc *self);

/* Other pictures follow; and: nothing is known any more. */
void gst_gpudirect_src_break_latency(GstGpudirectSrc *self);
void gst_gpudirect_src_reset_latency(GstGpudirectSrc *self, gboolean card);

/* --- input.c ------------------------------------------------------------------------------ */

/* As they are now: all but busy_poll and io_mode may change at any time. */
struct src_options gst_gpudirect_src_get_options(GstGpudirectSrc *self);

/* Opens an input on a device by the properties, and closes it. FALSE: an error was posted. */
gboolean gst_gpudirect_src_open(GstGpudirectSrc *self);
void gst_gpudirect_src_close(GstGpudirectSrc *self);

/* A card is opened in READY, and open until NULL. Whether it is, and by the properties as they are;
 * FALSE of open_card() and restart(): an error was posted. stop_input() closes any other. */
gboolean gst_gpudirect_src_open_card(GstGpudirectSrc *self);
gboolean gst_gpudirect_src_is_kept(GstGpudirectSrc *self);
gboolean gst_gpudirect_src_restart(GstGpudirectSrc *self);
void gst_gpudirect_src_stop_input(GstGpudirectSrc *self);

/* The counts of this input and of those before it; from any thread. */
void gst_gpudirect_src_get_info(GstGpudirectSrc *self, struct input_info *info);

/* The property "stats"; and posts it as an element message, at the end of the stream. */
GstStructure *gst_gpudirect_src_make_stats(GstGpudirectSrc *self);
void gst_gpudirect_src_post_stats(GstElement *element);
void gst_gpudirect_src_class_init_stats(GstElementClass *klass);

/* Makes acquire return at once, until FALSE is set. */
void gst_gpudirect_src_interrupt(GstGpudirectSrc *self, gboolean interrupted);

/* Replaces the input by a new one; the old one's link ends, and its frames stay valid. elsewhere:
 * on this device; NULL: on the same. FALSE: *error says why there is none, and the old one is still
 * there. */
gboolean gst_gpudirect_src_reopen(GstGpudirectSrc *self, const gchar *elsewhere,
                                  struct gpud_error *error);

/* After the element interrupted its own acquire: allows it to wait again, unless others interrupted
 * it, too. */
void gst_gpudirect_src_resume(GstGpudirectSrc *self);

/* Whether create() is to return from wherever it waits. */
void gst_gpudirect_src_set_flushing(GstGpudirectSrc *self, gboolean flushing);

/* --- events.c ----------------------------------------------------------------------------- */

/* The link's events, called inside acquire. user is the element. */
void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data);

/* After acquire. TRUE: its own callback interrupted it, and it may be called again. */
gboolean gst_gpudirect_src_end_yield(GstGpudirectSrc *self);

/* Applies what came since the last call: a format, a connection. *moved: there is another input. */
GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean *moved);

/* Whether what came over the link ends it: gst_gpudirect_src_cut_link(). */
gboolean gst_gpudirect_src_must_cut(GstGpudirectSrc *self);

/* Cuts the link to a sender that sends too many events, or what cannot be used; *why says which.
 * FALSE: no new receiver can be made, *error says why. */
gboolean gst_gpudirect_src_cut(GstGpudirectSrc *self, struct gpud_error *why,
                               struct gpud_error *error);

/* Pushes waiting events: before_frame, all, before the frame that was just stamped; else all but
 * segments. */
void gst_gpudirect_src_push_events(GstGpudirectSrc *self, gboolean before_frame);

/* Drops what came over the link and was not applied. */
void gst_gpudirect_src_drop_updates(GstGpudirectSrc *self);

/* --- format.c ----------------------------------------------------------------------------- */

GstFlowReturn gst_gpudirect_src_take_format(GstGpudirectSrc *self, const struct src_format *format);

/* A card's signal became another one: frames of other caps come. FALSE: an error was posted, or
 * downstream flushes. */
gboolean gst_gpudirect_src_follow_signal(GstGpudirectSrc *self);

/* From now on frames of this shape come. */
gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout);

void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass);

/* Drops what belongs to the stream. */
void gst_gpudirect_src_reset_stream(GstGpudirectSrc *self);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What travels beside the frames, as bytes and back: caps, times, events, flags and metas. */
#ifndef GPUD_WIRE_CODEC_H
#define GPUD_WIRE_CODEC_H

#include "wire/layout.h"
#include <glib.h>
#include <gpudirect/frame.h>
#include <gpudirect/media.h>
#include <gpudirect/sender.h>
#include <gst/audio/audio.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <stdint.h>

/* === arrivals ================================================================================ */
/* The arrival times of frames that wait in the ring: at each acquire, the number of waiting frames
 * shows how many arrived since the last one. Times are CLOCK_MONOTONIC's. */

/* Zeroed: there are none. */
struct arrivals {
    guint first, count;
    GstClockTime
        seen[GPUD_SLOTS_MAX]; /* from `first` on, round: the frames in the ring, in order */
};

/* Notes how many frames are in the ring now. */
void arrivals_see(struct arrivals *arrivals, guint waiting, GstClockTime now);

/* Takes the next frame; returns the time by which it had arrived. */
GstClockTime arrivals_take(struct arrivals *arrivals, GstClockTime now);

/* Frames are missing, or another ring follows. */
void arrivals_clear(struct arrivals *arrivals);

/* === blocks ================================================================================== */
/* Streams that are no pictures: blocks of sound, ancillary data, or other data, which a codec's
 * pictures are, too. */

/* The caps of those that are known; the caller unrefs them. */
GstCaps *blocks_known_caps(void);

/* Those of the caps that are of data of any type, known or not. The caller unrefs them. */
GstCaps *blocks_pick_data(const GstCaps *caps);

/* Whether caps of blocks are of pictures that a codec has made. */
gboolean blocks_are_coded_pictures(const GstCaps *caps);

static inline gboolean blocks_are_sound(const struct gpud_media *media)
{
    return media->kind == GPUD_MEDIA_AUDIO;
}

/* Whether an address is that of a stream of a channel: NAME/STREAM, the path of its socket, or
 * tcp://HOST:PORT/NAME/STREAM. */
gboolean blocks_is_stream(const gchar *address);

gboolean blocks_are_caps(const GstCaps *caps);

/* Removes the caps of pictures if these others are caps of blocks, else those of blocks. Takes
 * `caps`. */
GstCaps *blocks_keep_like(GstCaps *caps, const GstCaps *others);

/* Where the samples of a buffer lie: how many there are of a channel, and the offset of each plane.
 * FALSE: the buffer does not hold whole samples of these caps. */
gboolean blocks_find_samples(const GstAudioInfo *info, GstBuffer *buffer, gsize *samples,
                             gsize offsets[GPUD_AUDIO_CHANNELS_MAX]);

/* === names =================================================================================== */
/* Limits the new names from peers, of fields, structures and regions, because GLib keeps each name
 * until the process ends.
 *
 * Each address has its own account, so that no sender can exhaust another's, for the life of the
 * process, so that restarting a pipeline does not renew it. A name that the process knows already
 * costs nothing. Thread-safe. */

#define NAMES_MAX 256

struct names;

/* The account of an address, which is never freed. NULL, here and in a struct unpack, means the
 * account that all others share. */
struct names *names_of(const gchar *address);

/* Whether a name may be used: it is known, or was charged to the account. */
gboolean names_take(struct names *names, const gchar *name);

/* How many names were refused. */
guint64 names_count_left_out(struct names *names);

/* === videoinfo =============================================================================== */
/* The GstVideoInfo of all that frames can be, video/x-bayer too: what a sensor with a mosaic of
 * colour filters makes, which GStreamer knows as caps of their own and not as a video format. Its
 * info is that of a grey picture, whose geometry is the same, under the mosaic's name: planes,
 * strides and copies need no case for it. */

#define VIDEO_RAW "video/x-raw"
#define VIDEO_BAYER "video/x-bayer"

/* As GStreamer 1.24 names them; before, it has those of 8 bits. */
#define VIDEO_BAYER_FORMATS                                                  \
    "{ bggr, gbrg, grbg, rggb, bggr10le, gbrg10le, grbg10le, rggb10le, "     \
    "bggr12le, gbrg12le, grbg12le, rggb12le, bggr14le, gbrg14le, grbg14le, " \
    "rggb14le, bggr16le, gbrg16le, grbg16le, rggb16le }"

/* FALSE: the caps describe no picture. */
gboolean video_info_from_caps(GstVideoInfo *info, const GstCaps *caps);

/* Of which kind the caps of a format are; NULL: GStreamer does not know it. */
const gchar *video_media_type(const gchar *format);

/* === caps ==================================================================================== */
/* GStreamer's caps and GstVideoInfo on one side, the core's layout and media on the other. */

/* The caps of both elements: any raw video that a frame can hold. */
#define SLOT_SIZES \
    ", width = (int) [ 1, 32768 ], height = (int) [ 1, 32768 ], framerate = (fraction) [ 0, max ]"
#define SLOT_VIDEO_FIELDS ", format = (string) " GST_VIDEO_FORMATS_ALL SLOT_SIZES
#define SLOT_VIDEO_CAPS                                                               \
    VIDEO_RAW SLOT_VIDEO_FIELDS "; " VIDEO_RAW "(" GST_CAPS_FEATURE_FORMAT_INTERLACED \
                                ")" SLOT_VIDEO_FIELDS                                 \
                                ", interlace-mode = (string) alternate; " VIDEO_BAYER \
                                ", format = (string) " VIDEO_BAYER_FORMATS SLOT_SIZES

G_STATIC_ASSERT(GPUD_DIMENSION_MAX == 32768);

/* What gpud_media.extra has no place for of the caps of data: a codec's headers, lists, long texts.
 * It is packed, and travels in events, EVENT_CAPS, of which each has a part. The extra field
 * MEDIA_REST of the media is its hash, so that both are known to belong together, and other headers
 * make another media. */
#define MEDIA_REST "gpudirect-caps"
#define CAPS_PART_SIZE 1984
#define CAPS_PARTS_MAX 8
#define CAPS_REST_MAX (CAPS_PART_SIZE * CAPS_PARTS_MAX)

struct caps_rest {
    guint32 hash; /* 0: nothing is left over */
    gsize size;
    guint parts; /* a receiver's: bits of those that are there */
    uint8_t data[CAPS_REST_MAX];
};

/* The hash of what belongs to a media; 0: nothing does. */
guint32 media_rest_hash(const struct gpud_media *media);

/* Adds what has come to the caps. FALSE: it is not whole, or malformed. */
gboolean caps_add_rest(GstCaps *caps, const struct caps_rest *rest, struct names *names);

static inline guint caps_rest_parts(const struct caps_rest *rest)
{
    return (guint)((rest->size + CAPS_PART_SIZE - 1) / CAPS_PART_SIZE);
}

/* Whether all of its parts are there, or it needs none. */
static inline gboolean caps_rest_is_whole(const struct caps_rest *rest)
{
    return rest->hash == 0 || (rest->size > 0 && rest->parts == (1u << caps_rest_parts(rest)) - 1);
}

/* All that the caps say of a stream, except a picture's layout (see layout_from_info()). Of data
 * all fields are taken: what does not fit goes to *rest. Of pictures and sound fields that are not
 * plain values are dropped silently; others are dropped, the longest first, until the others fit,
 * and counted in *left_out, as are parts of data's fields that cannot be sent. FALSE: these are not
 * caps that can be sent, or (*left_out is not 0) too much of them does not fit. */
gboolean media_from_caps(struct gpud_media *media, const GstCaps *caps, struct caps_rest *rest,
                         guint *left_out);

/* The caps, and their info, of a peer's stream. names: the account for new names; fields beyond it
 * are left out. NULL: no element accepts that, or the peer's media contradicts itself; *reason
 * (which was NULL) says how (g_free it). */
GstCaps *media_to_caps(const struct gpud_media *media, struct names *names, GstVideoInfo *info,
                       gchar **reason);

/* The same without extra fields, for trusted media; NULL: it is not valid. */
GstCaps *media_known_caps(const struct gpud_media *media);

/* === clock =================================================================================== */
/* Pipelines' clocks, and the names by which pipelines in other processes and on other hosts
 * recognise the same clock:
 *
 *     ptp:00-1B-19-FF-FE-00-00-01:0   GstPtpClock: the grandmaster that it follows, and the domain
 *     net:10.0.0.1:5637               GstNetClientClock: the provider's address
 *     ntp:ntp.example.org:123         GstNtpClock: the server's
 *     named:studio                    any, as the user says (the property common-clock)
 *
 * A clock that is not synchronised yet has no name, nor has any other kind: the system's clock and
 * a sound card's are local to one host. */

enum clock_kind {
    CLOCK_KIND_OTHER,
    CLOCK_KIND_MONOTONIC, /* its times are CLOCK_MONOTONIC's */
    CLOCK_KIND_PTP,
    CLOCK_KIND_NET,
    CLOCK_KIND_NTP,
};

/* NULL: OTHER. */
enum clock_kind clock_kind_of(GstClock *clock);

/* Of this process's CLOCK_MONOTONIC: equal in all processes of the host that read the same,
 * whatever addresses they are reached by. */
guint64 clock_monotonic_id(void);

#define CLOCK_NAME_MAX 128

struct clock_name {
    gchar text[CLOCK_NAME_MAX]; /* readable; "": it has none */
    guint64 id;                 /* a hash of the text; 0: it has none */
    gboolean local;             /* the same name on another host means another clock */
};

/* The current name of a clock of this kind; common: the user's name for it, or NULL. */
void clock_name_take(struct clock_name *name, GstClock *clock, enum clock_kind kind,
                     const gchar *common);

/* The same for an element's clock, which may be missing. */
void clock_name_of(struct clock_name *name, GstElement *element, enum clock_kind kind,
                   const gchar *common);

/* "monotonic", the name, or "unknown". */
const gchar *clock_name_text(const struct clock_name *name, enum clock_kind kind);
void clock_name_set_ptp(struct clock_name *name, guint64 grandmaster, guint domain);
void clock_name_set_server(struct clock_name *name, const gchar *scheme, const gchar *address,
                           gint port);

/* === datetime ================================================================================ */
/* Dates and times as texts (ISO 8601) that every GStreamer can read. */

/* Parses a peer's text. NULL: it is not a date. */
GstDateTime *date_time_from_text(const gchar *text);

/* === dmabufcaps ============================================================================== */
/* Caps of pictures in dma-bufs: video/x-raw(memory:DMABuf). They name a plain format, or, from
 * GStreamer 1.24 on, format=DMA_DRM with a drm-format, which adds a modifier. The elements support
 * linear pictures only. Such caps say the same as those of pictures in the CPU's memory, and these
 * functions translate between the two. */

/* Whether the first of these caps are of pictures in dma-bufs. */
gboolean caps_are_dmabufs(const GstCaps *caps);

/* Fixed caps as those of the CPU's memory. NULL: their format is unknown, or not linear. */
GstCaps *caps_out_of_dmabufs(const GstCaps *caps);

/* Caps of the CPU's memory as those of dma-bufs: all spellings, the one with the modifier first.
 * Empty: GStreamer has no such caps, as for single fields. */
GstCaps *caps_into_dmabufs(const GstCaps *caps);

/* The same for fixed caps, in the spelling of `model`. NULL: there are no such caps. */
GstCaps *caps_into_dmabufs_like(const GstCaps *caps, const GstCaps *model);

/* Drops caps of dma-bufs, unless the filter accepts nothing else: elements that name several kinds
 * of memory often fail with a foreign driver's dma-bufs only when the first picture is there. Takes
 * the caps. */
GstCaps *caps_filter_dmabufs(GstCaps *caps, const GstCaps *filter);

/* === drift =================================================================================== */
/* Tracks the drift of a sender's clock against this pipeline's, from the arrivals of frames alone.
 *
 * A frame's lateness is the difference of the clocks plus its transit time, which varies. The least
 * lateness in a period belongs to the frame with the shortest transit. Its first value is kept as
 * the level: when the least lateness leaves the level, the clocks have drifted, and the map follows
 * slowly, so that the change of the frames' intervals is not visible.
 *
 *     settling    10 s: each frame that is less late than all before lowers the level, or the map:
 *                 by little only slowly, as when following, because other streams' frames of the
 *                 same moment may be mapped before and after that
 *     following   every 2 s the map's speed is set by the least lateness' distance from the level
 *     a step      of more than a second is not a drift: the map follows at once
 *
 * A frame's arrival is not always known: one that was in the ring before its acquire may have
 * waited there while downstream blocked this thread. As an upper bound, that time may show that
 * frames are early, but never that they are late; otherwise delays caused by downstream would count
 * as lateness, and grow. */

/* Zeroed: nothing known. */
struct drift {
    gboolean begun;
    gboolean keeps;               /* while it settles, the level falls rather than the map */
    gint64 level;                 /* how late the least late frames are, */
    gint64 owed;                  /* but for that, by which the map is still to fall: 0 or less */
    gint64 rate;                  /* of the map against the sender's times, ns in a second */
    GstClockTime since;           /* when it began; times are CLOCK_MONOTONIC's */
    GstClockTime last;            /* of the last frame */
    GstClockTime window;          /* when this window began */
    gint64 least;                 /* in this window, over the level */
    guint frames, certain_frames; /* in this window; and those whose arrival is known */
};

/* === pack ==================================================================================== */
/* Bounded little-endian serialisation: everything that is sent beside the picture is written with a
 * struct pack and read with a struct unpack. Input is untrusted: a reader that would pass its end
 * is `bad` from then on, and returns zeros. */

struct pack {
    uint8_t *data;
    size_t size, used;
    gboolean full; /* something did not fit; everything written since is invalid */
    guint depth;   /* of the value that is being written, in others */
};

struct unpack {
    const uint8_t *data;
    size_t left;
    struct names *names; /* the account for the peer's new names */
    gboolean bad;
    guint depth; /* of the value that is being read, in others */
};

void pack_u8(struct pack *pack, uint8_t value);
void pack_u16(struct pack *pack, uint16_t value);
void pack_u32(struct pack *pack, uint32_t value);
void pack_u64(struct pack *pack, uint64_t value);
void pack_bytes(struct pack *pack, const void *bytes, size_t size);
uint8_t unpack_u8(struct unpack *unpack);
uint16_t unpack_u16(struct unpack *unpack);
uint32_t unpack_u32(struct unpack *unpack);
uint64_t unpack_u64(struct unpack *unpack);

/* Its bits: any, also not a number. */
void pack_float(struct pack *pack, gfloat value);
gfloat unpack_float(struct unpack *unpack);

/* The bytes of a buffer behind their number (u32). FALSE: it cannot be read, and zeros are written,
 * or it does not fit; NULL: fewer bytes are left. */
gboolean pack_data(struct pack *pack, GstBuffer *buffer);
GstBuffer *unpack_data(struct unpack *unpack);

/* The next size bytes, in place; NULL: fewer are left. */
const uint8_t *unpack_bytes(struct unpack *unpack, size_t size);

/* Text as it is sent: a space for each control character, "" for invalid UTF-8; and as it is
 * accepted from a peer: the same, or NULL if it is not UTF-8 or has a control character that is no
 * blank. g_free them. */
gchar *pack_spaced_text(const gchar *text);
gchar *pack_clean_text(const gchar *text);

/* A short text that becomes a quark, such as the type of a region: at most 128 bytes, written and
 * read like a structure's texts; 0 is the empty one. Too many new ones make a reader bad. */
void pack_quark(struct pack *pack, GQuark quark);
GQuark unpack_quark(struct unpack *unpack);

/* A GstStructure of numbers, ranges, booleans, strings, fractions, flag sets, date-times, the bytes
 * and times of buffers, caps, and structures, arrays and lists of these, in a depth of
 * PACK_DEPTH_MAX. A field of another type is left out and counted in *skipped (may be NULL). Texts
 * are written and read without control characters: a tab or the end of a line is a space on the
 * other side. */
#define PACK_DEPTH_MAX 8

void pack_structure(struct pack *pack, const GstStructure *structure, guint *skipped);

/* NULL: the bytes are no structure, and unpack->bad is set; or its name exceeds the account of new
 * names. Fields that exceed it are left out. Types are chosen from that list, never by name; texts
 * must be UTF-8 without control characters (C0, DEL, C1). */
GstStructure *unpack_structure(struct unpack *unpack);

/* === timing ================================================================================== */
/* The conversion of times from the sender's pipeline to the receiver's.
 *
 * Running times are sent, and with each frame and event the sender's base time and its clock's
 * identity. They give one of these relations between the two pipelines' clocks:
 *
 *     shared      the same: the host's monotonic clock, or a named one that both follow, also on
 *                 two hosts. Running time + base time is one time line for both
 *     followed    the sender's is the host's monotonic clock, this pipeline has its own
 *     unknown     running times are kept if the two pipelines started together, or begin now if the
 *                 stream is older; then frames keep their distance to the clock: see struct drift
 */

/* Before the metas of a frame and the payload of an event. */
struct wire_head {
    gboolean drops;         /* the sender does not wait for slow receivers */
    gboolean live;          /* its frames are produced in real time */
    guint64 monotonic;      /* its clock is the monotonic one of this id; 0: it is another */
    guint64 clock;          /* it has a name: clock_name.id; 0: none */
    GstClockTime base_time; /* the sender's; 0: of a clock that is not known here */
    GstClockTime sent;      /* when this was sent, by a clock with a name; else NONE */
    guint64 run;            /* another number after each pause of the sender */
};

void wire_head_pack(struct pack *pack, const struct wire_head *head);

/* FALSE: the bytes are no head, and *head is undefined. */
gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head);

GstClockTime monotonic_now(void);

/* Validates a peer's time; GST_CLOCK_TIME_NONE if it exceeds gint64, in which GStreamer computes.
 */
GstClockTime wire_time(guint64 said);

/* The receiver's clock, beside the system's monotonic one. */
struct time_now {
    gboolean monotonic;   /* they are the same */
    guint64 clock;        /* clock_name.id of the former; 0: it has none */
    gboolean local;       /* that name is valid only on this host */
    gboolean same_clock;  /* the sender is on this host: its CLOCK_MONOTONIC is this one */
    GstClockTime base;    /* its pipeline's base time, by its own clock */
    GstClockTime running; /* its pipeline's running time; NONE: it has none */
    GstClockTime system;  /* CLOCK_MONOTONIC at that moment */
};

/* The running time here when CLOCK_MONOTONIC was `then`, a peer's number; NONE and future times
 * mean now. */
gint64 time_now_at(const struct time_now *now, GstClockTime then);

enum time_relation { TIME_UNKNOWN, TIME_FOLLOWED, TIME_SHARED };

enum time_relation time_relation(const struct wire_head *head, const struct time_now *now);

/* A frame's times, by CLOCK_MONOTONIC. */
struct time_frame {
    GstClockTime running;   /* on the sender's time line; NONE: it has none */
    GstClockTime submitted; /* NONE: unknown, because another host's clock measured it */
    GstClockTime arrived;   /* the latest possible arrival */
    gboolean waited_for;    /* it is also the earliest */
};

/* The receiver's view. Zeroed: nothing known. */
struct time_map {
    gboolean anchored;  /* shift was found */
    gboolean before;    /* shift had been found before */
    gint64 shift;       /* added to the sender's running times */
    guint64 run;        /* the sender's, when shift was found */
    GstClockTime moved; /* FOLLOWED: when shift was, by CLOCK_MONOTONIC */
    struct drift drift; /* UNKNOWN */
};

/* Learns from the head of a frame, or of an event (frame is NULL), which only shows the clocks. */
void time_map_update(struct time_map *map, const struct wire_head *head,
                     const struct time_frame *frame, const struct time_now *now);

/* The comparison no longer holds: one of the two pipelines was paused, or starts again. */
void time_map_lose(struct time_map *map);

/* The sender's running time on the receiver's time line, where it may lie before the start. */
gint64 time_map_apply(const struct time_map *map, GstClockTime running);

/* When a frame was submitted, on the receiver's time line. FALSE: that is not known. */
gboolean time_map_sent(const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now, gint64 *running);

/* Its arrival on the receiver's time line, as far as it is known: its submission, its arrival, or
 * its expected arrival by the frames before it. */
gint64 time_map_arrival(const struct time_map *map, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now);

/* === event =================================================================================== */
/* Events that are sent in order with the frames: converts a GstEvent to the bytes of a user event
 * and back. The decoder accepts untrusted bytes. */

/* The kinds of user events; they are part of the protocol between two plugins. */
enum event_kind {
    EVENT_SEGMENT = 1,
    EVENT_TAGS,
    EVENT_GAP,
    EVENT_FLUSH,
    EVENT_CUSTOM,
    EVENT_CUSTOM_STICKY,
    EVENT_CAPS,
};

/* A late receiver gets the last sticky event of each kind. If several of a kind are in force at
 * once, each has an index: tags by scope, custom events by name, parts of caps. The kind of a user
 * event combines both numbers. The sender keeps 24: a segment, two lists of tags, eight parts of
 * caps, and these. */
#define EVENT_STICKY_NAMES_MAX 13

static inline uint32_t event_make_kind(enum event_kind kind, guint index)
{
    return (uint32_t)kind | (uint32_t)index << 8;
}

static inline gboolean event_is_sticky(enum event_kind kind)
{
    return kind == EVENT_SEGMENT || kind == EVENT_TAGS || kind == EVENT_CUSTOM_STICKY;
}

/* Serialises a part of the rest of caps; returns the number of bytes. */
size_t event_encode_caps(const struct caps_rest *rest, guint index, const struct wire_head *head,
                         uint8_t bytes[GPUD_EVENT_SIZE_MAX]);

/* Takes such a part, if it belongs to *rest, whose hash says what is waited for. said: the kind of
 * the user event. FALSE: it is another event. */
gboolean event_take_caps(uint32_t said, const void *bytes, size_t size, struct caps_rest *rest);

GstTagScope event_tag_scope(GstEvent *event);

/* How long something of this duration takes where the segment is played at its rate. */
GstClockTime event_running_duration(const GstSegment *segment, GstClockTime duration);

/* Serialises an event; segment is the sink's current one. Returns the number of bytes; 0: it cannot
 * be sent. *lost counts fields that were left out. */
size_t event_encode(GstEvent *event, const GstSegment *segment, const struct wire_head *head,
                    uint8_t bytes[GPUD_EVENT_SIZE_MAX], enum event_kind *kind, guint *lost);

/* An event as it arrived; times are the sender's running times, none of them beyond G_MAXINT64. */
struct wire_event {
    enum event_kind kind;
    struct wire_head head;
    GstClockTime time, duration; /* segment: where it begins; gap */
    GstClockTime stream_time;    /* segment: the stream time there */
    gdouble rate;                /* segment: stream time per running time */
    GstTagList *tags;            /* tags */
    GstTagScope scope;
    GstStructure *structure; /* custom */
};

/* said: the kind of the user event; names: the account for new names. FALSE: it is of an unknown
 * kind, or malformed, or its name exceeds the account. */
gboolean event_decode(uint32_t said, const void *bytes, size_t size, struct names *names,
                      struct wire_event *event);
void wire_event_clear(struct wire_event *event);

/* An event inside a pipeline: the EOS that follows is due to an error, not to the stream. */
GstEvent *event_new_broken_off(void);
gboolean event_is_broken_off(GstEvent *event);

/* Whether the frames that gpudirectsrc passes on are those of a live sender: a query that each
 * answers, and an event that follows a change. To GStreamer every gpudirectsrc is live. */
GstQuery *query_new_sender_live(void);
gboolean query_is_sender_live(GstQuery *query);
void query_set_sender_live(GstQuery *query, gboolean live);
gboolean query_get_sender_live(GstQuery *query, gboolean *live); /* FALSE: not answered */
GstEvent *event_new_sender_live(void);
gboolean event_is_sender_live(GstEvent *event);

/* An event to other hosts: the sender's process has opened another address there. */
GstEvent *event_new_opened(void);
gboolean event_is_opened(GstEvent *event);

/* === flags =================================================================================== */
/* GstBuffer's flags in the application's bits of a frame's flags. The bits are part of the
 * protocol. */

uint32_t frame_flags_from_buffer(GstBuffer *buffer);
void frame_flags_to_buffer(uint32_t flags, GstBuffer *buffer);

/* === lateness ================================================================================ */
/* The lateness of pictures, from which the latency is computed.
 *
 *     least   the lowest lateness in the last ten seconds
 *     most    the highest, except for one picture in a hundred, and at least one
 *
 * Each change makes the whole pipeline reconfigure. So they change at most once a second, and by at
 * least a step, a quarter of the interval between pictures: they widen at once, and narrow after
 * ten seconds in which two steps could be gained. */

#define LATENESS_SEEN 1024

/* Times are CLOCK_MONOTONIC's. */
struct lateness {
    GstClockTime least, most; /* in force, in whole ms */
    gboolean measured;        /* and not a guess */
    GstClockTime since;       /* when the first picture was noted; 0: none yet */
    GstClockTime judged;      /* the last evaluation; 0: none yet */
    guint next, count;        /* of the pictures that were seen last, round */
    struct {
        GstClockTime at, late;
    } seen[LATENESS_SEEN];
};

/* Starts without measurements, and assumes this lateness until there are some. */
void lateness_begin(struct lateness *lateness, GstClockTime guess);

/* Discards the measurements, and keeps the values in force until there are new ones. */
void lateness_break(struct lateness *lateness);

/* Notes a picture's lateness. interval: between pictures, or NONE. */
void lateness_note(struct lateness *lateness, GstClockTime late, GstClockTime now,
                   GstClockTime interval);

/* === lostmetas =============================================================================== */
/* Metas that could not be transmitted, counted by their type for an element's stats; the log names
 * each type once (at the level INFO). Thread-safe. */

struct lost_metas;

/* category: for the log; NULL: none is written. */
struct lost_metas *lost_metas_new(GstDebugCategory *category);
void lost_metas_free(struct lost_metas *lost);

/* Counts one of this type. owner (may be NULL): the element in the log. */
void lost_metas_note(struct lost_metas *lost, GstElement *owner, const gchar *type,
                     const gchar *why);
guint64 lost_metas_count(struct lost_metas *lost);

/* Adds "lost-metas", the total, and "lost-meta-types", a structure with a count for each type. */
void lost_metas_tell(struct lost_metas *lost, GstStructure *stats);

/* === analytics =============================================================================== */
/* The metas of inference, from GStreamer's analytics library (1.26): a picture's tensors
 * (GstTensorMeta), and its objects, classes and trackings (GstAnalyticsRelationMeta). They exist
 * only in a build with that library, WIRE_ANALYTICS. Writers and readers are as in meta.c. */

/* 0: nothing in the process has registered the type, so that no buffer has such a meta. */
GType analytics_tensors_type(void);
GType analytics_relations_type(void);

gboolean analytics_write_tensors(struct pack *pack, const GstMeta *meta, guint *skipped);
gboolean analytics_read_tensors(struct unpack *item, GstBuffer *buffer, const gchar **why);
gboolean analytics_write_relations(struct pack *pack, const GstMeta *meta, guint *skipped);
gboolean analytics_read_relations(struct unpack *item, GstBuffer *buffer, const gchar **why);

/* === meta ==================================================================================== */
/* A buffer's metas as the bytes that are sent with a frame, in our own versioned format, because
 * GStreamer 1.22 has none. The decoder accepts untrusted bytes. */

/* The counter of metas that cannot be transmitted, the element for the log (may be NULL), and, on a
 * receiver, the account for new names. */
struct meta_loss {
    struct lost_metas *lost;
    GstElement *owner;
    struct names *names;
};

/* Metas that do not fit into the small bytes, of one buffer after the other. Starts zeroed. */
#define META_LARGE_DEFAULT 65536

struct meta_large {
    uint8_t *data; /* `max` of them, made when first needed; g_free() it */
    uint32_t used;
    uint32_t max;       /* 0: META_LARGE_DEFAULT; at most GPUD_LARGE_META_MAX */
    gboolean overflown; /* not all of the last buffer's did fit */
};

/* Writes head and the buffer's metas; returns the number of bytes. From the first one on that does
 * not fit, metas are in *large. Those of unknown kinds, and those for which that is too small, are
 * left out. */
uint32_t meta_encode(GstBuffer *buffer, const struct wire_head *head,
                     uint8_t bytes[GPUD_FRAME_META_MAX], struct meta_large *large,
                     const struct meta_loss *loss);

/* Adds the metas in the bytes to the buffer. FALSE: the bytes are not this plugin's, or malformed;
 * metas before the fault are added. */
gboolean meta_decode(const uint8_t *bytes, uint32_t size, struct wire_head *head, GstBuffer *buffer,
                     const struct meta_loss *loss);

/* The same for those in *large. */
gboolean meta_decode_large(const uint8_t *bytes, size_t size, GstBuffer *buffer,
                           const struct meta_loss *loss);

/* Caps of the reference timestamp that the source optionally adds: the monotonic time of the
 * submit. Owned by the plugin. */
GstCaps *meta_submit_reference(void);

/* Adds that timestamp, last. */
void meta_add_submit_time(GstBuffer *buffer, GstClockTime time);

/* The same for frames of a capture card: timestamp/x-gpudirect-capture, its driver's monotonic time
 * of the start of exposure, or of the end of the frame. */
void meta_add_capture_time(GstBuffer *buffer, GstClockTime time);

/* === timeline ================================================================================ */
/* The running times that gpudirectsrc pushes: they never go back, whatever the sender, its times or
 * the clocks do. Muxers, videorate and compositor rely on that.
 *
 * The time map says when a frame is to be shown. Its times go back when the receiver was paused and
 * finds frames that waited meanwhile, when a sender that is ahead of the clock is flushed or
 * restarted, or when a file's sender had to wait for this receiver. Then frames follow the last one
 * at the distance that they had, later than the map says, until the map's times are later again: a
 * live stream catches up, another one keeps the delay.
 *
 * A live stream whose frames arrive more than a second (or the user's latency) after their time
 * does not follow this pipeline's clock. Its first frame gets its time of arrival, and the others
 * follow at their intervals. */

/* Zeroed: nothing was pushed yet. */
struct timeline {
    gboolean begun;
    gboolean broken; /* the next frame does not belong to the last one */
    gint64 mapped;   /* the last frame's time by the map */
    gint64 last;     /* no time may be before this: that of the last frame, or of a gap behind it */
    gint64 before;   /* what `last` was before the last frame */
    gint64 delay;    /* how much later than by the map the last frame is; never negative */
    gint64 spacing;  /* between the last two frames; 0: unknown */
    gint64 late_since;    /* since when all live frames are too late; 0: they are not */
    gboolean out_of_step; /* a live stream was put at its arrival, and has a delay since */
    gint64 late_max;      /* the owner's: how late live ones may be; 1 s at the least */
};

#define TIMELINE_UNKNOWN G_MAXINT64

/* Running times, which may lie before 0. */
struct timeline_frame {
    gint64 mapped;  /* the frame's time by the map */
    gint64 arrived; /* or TIMELINE_UNKNOWN */
    GstClockTime duration;
    gboolean live; /* a delay is caught up; otherwise no time between frames is cut */
};

/* How late a live frame may be and still keep its own time. */
gint64 timeline_late_max(const struct timeline *line);

/* The running time to push the frame with. */
GstClockTime timeline_stamp(struct timeline *line, const struct timeline_frame *frame);

/* Whether a frame belongs before this pipeline's start, so that no running time is right for it,
 * or is late. `arrived` is known, or a later time. */
gboolean timeline_is_past(const struct timeline *line, const struct timeline_frame *frame);

/* Another stream follows, or the same one from another position: the time between its frames and
 * the last one belongs to neither. */
void timeline_break(struct timeline *line);

/* The same for a gap. comes_before: it belongs before the last frame. */
GstClockTime timeline_stamp_gap(struct timeline *line, gint64 mapped, gboolean comes_before);

/* The segment of the last frame, and of those after it. Buffers' times are running times here, so
 * it only gives their stream time. It begins at `mapped` by the map, where the stream time is
 * `stream_time` (or NONE: 0) and advances `rate` times as fast. */
void timeline_segment(const struct timeline *line, gint64 mapped, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment);

/* === sharedmap =============================================================================== */
/* One conversion of times for all streams of a sender's pipeline, so that picture and sound keep
 * their times to each other. If the two pipelines share a clock, each stream computes the same
 * conversion. Otherwise it is measured, and depends on the stream: so one of them measures, and the
 * others use its result. If that one stops, another one continues from there.
 *
 * In the same way they share a delay: if one of them is so late that it is put at its arrival (see
 * struct timeline), the others are put later by as much. */

struct shared_map;

struct shared_map *shared_map_new(void);
struct shared_map *shared_map_ref(struct shared_map *shared);
void shared_map_unref(struct shared_map *shared);

/* One stream's part. */
struct shared_part {
    struct shared_map *map; /* NULL: the stream is alone */
    gint64 process;         /* that sends it, as the system says: only a run of its own is shared */
};

/* As time_map_update(). From any thread. */
void shared_map_update(const struct shared_part *part, struct time_map *map,
                       const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now);

/* The same on a copy of the stream's map, from which no other one learns. */
void shared_map_try(const struct shared_part *part, struct time_map *copy,
                    const struct wire_head *head, const struct time_frame *frame,
                    const struct time_now *now);

/* Puts the stream's last frame where it belongs beside the frames of the others. Returns its
 * running time. */
GstClockTime shared_map_delay(const struct shared_part *part, const struct wire_head *head,
                              const struct time_now *now, struct timeline *line);

/* What the stream has measured no longer holds. */
void shared_map_leave(const struct shared_part *part);

/* === signedtime ============================================================================== */
/* Arithmetic with signed times, for untrusted numbers: results saturate, and can be negated. */

static inline gint64 signed_time(GstClockTime time)
{
    return (gint64)MIN(time, (GstClockTime)G_MAXINT64);
}

static inline gint64 time_sum(gint64 a, gint64 b)
{
    gint64 result;

    if (__builtin_add_overflow(a, b, &result))
        return b < 0 ? -G_MAXINT64 : G_MAXINT64;
    return MAX(result, -G_MAXINT64);
}

static inline gint64 time_difference(gint64 a, gint64 b)
{
    return time_sum(a, -b);
}

#endif

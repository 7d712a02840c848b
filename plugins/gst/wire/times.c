/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times: clocks of both ends and their drift, arrivals, and the time line that frames are put on.
 */
#include "wire/codec.h"

#include <arpa/inet.h>
#include <gst/gst.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* === clock =================================================================================== */

/* --- names -------------------------------------------------------------------------------- */

static gboolean is_local_v4(struct in_addr address)
{
    guint32 bits = ntohl(address.s_addr);

    return bits >> 24 == 127 || bits >> 16 == 0xa9fe || bits == INADDR_ANY;
}

/* Loopback and link-local addresses: 169.254.1.1 is a different machine on each link. */
static gboolean is_local(const gchar *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    gchar plain[INET6_ADDRSTRLEN];

    g_strlcpy(plain, address, sizeof(plain));
    plain[strcspn(plain, "%")] = '\0'; /* an interface's name */
    if (inet_aton(plain, &v4))
        return is_local_v4(v4);
    if (inet_pton(AF_INET6, plain, &v6) != 1)
        return g_ascii_strncasecmp(address, "localhost", strlen("localhost")) == 0;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
        return is_local_v4(v4);
    }
    return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6);
}

/* FNV-1a, never 0. It need not resist attacks: a peer that lies could as well claim the name. */
static guint64 hash_of(const gchar *text)
{
    guint64 hash = G_GUINT64_CONSTANT(14695981039346656037);

    for (const gchar *c = text; *c; c++)
        hash = (hash ^ (guint8)*c) * G_GUINT64_CONSTANT(1099511628211);
    return MAX(hash, 1);
}

guint64 clock_monotonic_id(void)
{
    static gsize once;
    static guint64 id;

    if (g_once_init_enter(&once)) {
        g_autofree gchar *host = NULL, *container = NULL, *both = NULL;
        /* Where there is no /proc another process's is another clock. */
        if (!g_file_get_contents("/proc/sys/kernel/random/boot_id", &host, NULL, NULL))
            host = g_uuid_string_random();
        container = g_file_read_link("/proc/self/ns/time", NULL); /* NULL: there is one */
        both = g_strconcat(host, container, NULL);
        id = hash_of(both);
        g_once_init_leave(&once, 1);
    }
    return id;
}

/* Sets no name if it is too long. */
G_GNUC_PRINTF(3, 4)

static void set_name(struct clock_name *name, gboolean local, const gchar *format, ...)
{
    va_list args;

    memset(name, 0, sizeof(*name));
    va_start(args, format);
    gint length = g_vsnprintf(name->text, sizeof(name->text), format, args);
    va_end(args);
    if (length >= (gint)sizeof(name->text)) {
        name->text[0] = '\0';
        return;
    }
    name->id = hash_of(name->text);
    name->local = local;
}

void clock_name_set_ptp(struct clock_name *name, guint64 grandmaster, guint domain)
{
    guint byte[8];

    for (guint i = 0; i < 8; i++)
        byte[i] = (guint)(grandmaster >> (56 - 8 * i) & 0xff);
    set_name(name, FALSE, "ptp:%02X-%02X-%02X-%02X-%02X-%02X-%02X-%02X:%u", byte[0], byte[1],
             byte[2], byte[3], byte[4], byte[5], byte[6], byte[7], domain);
}

void clock_name_set_server(struct clock_name *name, const gchar *scheme, const gchar *address,
                           gint port)
{
    if (address && address[0])
        set_name(name, is_local(address), "%s:%s:%d", scheme, address, port);
    else
        memset(name, 0, sizeof(*name));
}

/* --- clocks ------------------------------------------------------------------------------- */

/* The application changed its times, or slaved it to another clock. */
static gboolean is_calibrated(GstClock *clock)
{
    GstClockTime internal, external, numerator, denominator;

    gst_clock_get_calibration(clock, &internal, &external, &numerator, &denominator);
    return internal != external || numerator != denominator;
}

/* Looks the type up by name, to avoid linking its library: if a clock exists, so does its type. */
static gboolean is_a(GstClock *clock, const gchar *type)
{
    GType known = g_type_from_name(type);

    return known && g_type_is_a(G_OBJECT_TYPE(clock), known);
}

enum clock_kind clock_kind_of(GstClock *clock)
{
    GstClockType type = GST_CLOCK_TYPE_OTHER;

    if (!clock)
        return CLOCK_KIND_OTHER;
    /* Audio and network clocks derive from GstSystemClock, and are no system clocks. */
    if (G_OBJECT_TYPE(clock) == GST_TYPE_SYSTEM_CLOCK)
        g_object_get(clock, "clock-type", &type, NULL);
    if (type == GST_CLOCK_TYPE_MONOTONIC && !is_calibrated(clock))
        return CLOCK_KIND_MONOTONIC;
    if (is_a(clock, "GstPtpClock"))
        return CLOCK_KIND_PTP;
    if (is_a(clock, "GstNtpClock")) /* derives from the next one */
        return CLOCK_KIND_NTP;
    return is_a(clock, "GstNetClientClock") ? CLOCK_KIND_NET : CLOCK_KIND_OTHER;
}

#define NO_GRANDMASTER G_MAXUINT64

void clock_name_take(struct clock_name *name, GstClock *clock, enum clock_kind kind,
                     const gchar *common)
{
    memset(name, 0, sizeof(*name));
    if (common && common[0]) {
        set_name(name, FALSE, "named:%s", common);
    } else if (kind < CLOCK_KIND_PTP || !gst_clock_is_synced(clock) || is_calibrated(clock)) {
        return;
    } else if (kind == CLOCK_KIND_PTP) {
        guint64 grandmaster = NO_GRANDMASTER;
        guint domain = 0;
        g_object_get(clock, "grandmaster-clock-id", &grandmaster, "domain", &domain, NULL);
        if (grandmaster != NO_GRANDMASTER)
            clock_name_set_ptp(name, grandmaster, domain);
    } else {
        gchar *address = NULL;
        gint port = 0;
        g_object_get(clock, "address", &address, "port", &port, NULL);
        clock_name_set_server(name, kind == CLOCK_KIND_NTP ? "ntp" : "net", address, port);
        g_free(address);
    }
}

void clock_name_of(struct clock_name *name, GstElement *element, enum clock_kind kind,
                   const gchar *common)
{
    /* Most clocks have no name, which saves a query per frame. */
    GstClock *clock = kind >= CLOCK_KIND_PTP || common ? gst_element_get_clock(element) : NULL;

    memset(name, 0, sizeof(*name));
    if (clock)
        clock_name_take(name, clock, kind, common);
    gst_clear_object(&clock);
}

const gchar *clock_name_text(const struct clock_name *name, enum clock_kind kind)
{
    if (name->text[0])
        return name->text;
    return kind == CLOCK_KIND_MONOTONIC ? "monotonic" : "unknown";
}

/* === drift =================================================================================== */
/* In each window a quarter of the previous window's error is corrected; because of that delay, a
 * larger share would oscillate. A drift of 100 ppm leaves an error of 0.8 ms. */

/* While it settles, a larger fall is one at once. */
#define DRIFT_FALL (20 * (gint64)GST_MSECOND)

/* A larger difference is a new lateness or time line, not drift. */
#define DRIFT_STEP (1 * (gint64)GST_SECOND)

/* The largest speed of the map, in ns per second. Real clocks drift by a fiftieth of that. */
#define DRIFT_RATE_MAX (5 * (gint64)GST_MSECOND)
#define SETTLING (10 * GST_SECOND)
#define DRIFT_WINDOW (2 * GST_SECOND)
#define WINDOW_FRAMES 8 /* at least */
#define GAIN 4

static void begin_window(struct drift *drift, GstClockTime now)
{
    drift->window = now;
    drift->least = G_MAXINT64;
    drift->frames = drift->certain_frames = 0;
}

/* Starts with this lateness as the level. keeps: the map does not depend on it, and is kept. */
static void drift_begin(struct drift *drift, gint64 late, gboolean keeps, GstClockTime now)
{
    *drift = (struct drift){
        .begun = TRUE, .keeps = keeps, .level = late, .since = now, .last = now, .window = now};
    begin_window(drift, now);
}

/* Ends a window. Returns the correction to add at once. */
static gint64 conclude(struct drift *drift, GstClockTime now)
{
    GstClockTime length = now - drift->window;
    gint64 error = drift->least;

    if (length < DRIFT_WINDOW || drift->frames < WINDOW_FRAMES)
        return 0;
    if (error > 0 && 2 * drift->certain_frames < drift->frames)
        error = 0;
    begin_window(drift, now);
    if (error > DRIFT_STEP) {
        drift->rate = 0;
        return error;
    }
    drift->rate = error * (gint64)GST_SECOND / (gint64)length / GAIN;
    drift->rate = CLAMP(drift->rate, -DRIFT_RATE_MAX, DRIFT_RATE_MAX);
    return 0;
}

/* Notes the next frame's lateness by the map, which is an upper bound unless certain. Returns the
 * correction to add to the map. */
static gint64 drift_track(struct drift *drift, gint64 late, gboolean certain, GstClockTime now)
{
    /* How far the map has moved by its speed until now, and by what it owes. */
    GstClockTime passed = MIN(now - MIN(drift->last, now), 2 * DRIFT_WINDOW);
    gint64 most = DRIFT_RATE_MAX * (gint64)passed / (gint64)GST_SECOND;
    gint64 paid = MAX(drift->owed, -most);
    gint64 moved = paid + drift->rate * (gint64)passed / (gint64)GST_SECOND;
    drift->last = now;
    drift->owed -= paid;

    gint64 error =
        time_difference(time_difference(late, moved), time_sum(drift->level, drift->owed));
    gboolean settling = now - drift->since < SETTLING;

    if (error < -DRIFT_STEP ||
        (settling && error < 0 && !drift->keeps && drift->owed + error < -DRIFT_FALL)) {
        moved = time_sum(moved, time_sum(drift->owed, error));
        drift->owed = error = 0;
    } else if (settling && error < 0 && !drift->keeps) {
        drift->owed += error;
        error = 0;
    } else if (settling && error < 0) {
        drift->level = time_sum(drift->level, error);
        error = 0;
    }
    drift->least = MIN(drift->least, error);
    drift->frames++;
    drift->certain_frames += certain;
    return time_sum(moved, conclude(drift, now));
}

/* === arrivals ================================================================================ */

void arrivals_see(struct arrivals *arrivals, guint waiting, GstClockTime now)
{
    waiting = MIN(waiting, GPUD_SLOTS_MAX);
    while (arrivals->count < waiting)
        arrivals->seen[(arrivals->first + arrivals->count++) % GPUD_SLOTS_MAX] = now;
}

GstClockTime arrivals_take(struct arrivals *arrivals, GstClockTime now)
{
    if (arrivals->count == 0)
        return now;
    GstClockTime seen = arrivals->seen[arrivals->first];
    arrivals->first = (arrivals->first + 1) % GPUD_SLOTS_MAX;
    arrivals->count--;
    return MIN(seen, now);
}

void arrivals_clear(struct arrivals *arrivals)
{
    arrivals->count = 0;
}

/* === lateness ================================================================================ */

#define LATENESS_WINDOW (10 * GST_SECOND)
#define LOOK (1 * GST_SECOND)

/* Fewer pictures are not significant. */
#define PICTURES_MIN 8
#define STEP_MIN (1 * GST_MSECOND)
#define STEP_MAX (50 * GST_MSECOND)
#define STEP_DEFAULT (10 * GST_MSECOND)

void lateness_begin(struct lateness *lateness, GstClockTime guess)
{
    *lateness = (struct lateness){.least = guess, .most = guess};
}

void lateness_break(struct lateness *lateness)
{
    lateness->count = lateness->next = 0;
    lateness->since = 0;
}

static gint lateness_compare(gconstpointer a, gconstpointer b)
{
    GstClockTime x = *(const GstClockTime *)a, y = *(const GstClockTime *)b;

    return x < y ? -1 : x > y;
}

static void lateness_judge(struct lateness *lateness, GstClockTime now, GstClockTime step)
{
    GstClockTime sorted[LATENESS_SEEN];
    guint count = 0;
    gboolean first = !lateness->measured, whole = now - lateness->since >= LATENESS_WINDOW;

    for (guint i = 0; i < lateness->count; i++)
        if (now - MIN(lateness->seen[i].at, now) <= LATENESS_WINDOW)
            sorted[count++] = lateness->seen[i].late;
    if (count < PICTURES_MIN)
        return;
    qsort(sorted, count, sizeof(*sorted), lateness_compare);
    guint left_out = MAX(1, count / 100);
    GstClockTime least = sorted[0] / GST_MSECOND * GST_MSECOND;
    GstClockTime most =
        (sorted[count - 1 - left_out] + GST_MSECOND - 1) / GST_MSECOND * GST_MSECOND;
    if (most > lateness->most)
        lateness->most = MAX(most, lateness->most + step);
    else if ((first || whole) && most + 2 * step <= lateness->most)
        lateness->most = most;
    if (least < lateness->least)
        lateness->least = MIN(least, lateness->least - MIN(step, lateness->least));
    else if (whole && least >= lateness->least + 2 * step)
        lateness->least = least;
    lateness->least = MIN(lateness->least, lateness->most);
    lateness->measured = TRUE;
    lateness->judged = now;
}

void lateness_note(struct lateness *lateness, GstClockTime late, GstClockTime now,
                   GstClockTime interval)
{
    GstClockTime step =
        GST_CLOCK_TIME_IS_VALID(interval) ? CLAMP(interval / 4, STEP_MIN, STEP_MAX) : STEP_DEFAULT;

    lateness->seen[lateness->next].at = now;
    lateness->seen[lateness->next].late = late;
    lateness->next = (lateness->next + 1) % LATENESS_SEEN;
    lateness->count = MIN(lateness->count + 1, LATENESS_SEEN);
    if (lateness->since == 0)
        lateness->since = now;
    if (!lateness->measured || now - MIN(lateness->judged, now) >= LOOK)
        lateness_judge(lateness, now, step);
}

/* === timeline ================================================================================ */
/* The running times that gpudirectsrc pushes, all from 0 to G_MAXINT64. Mapped times may lie before
 * 0. */

/* How late a live frame may be and still keep its own time, unless the user allows more. Later
 * frames belong to a sender whose times do not follow the clock. */
#define LATE_MAX (1 * (gint64)GST_SECOND)

/* The longest time that counts as the one between frames: longer is a pause. */
#define SPACING_MAX (1 * (gint64)GST_SECOND)

/* A live stream that is late shortens the time between its frames by this part of it. */
#define CATCH_UP 4

gint64 timeline_late_max(const struct timeline *line)
{
    return MAX(line->late_max, LATE_MAX);
}

/* The usual interval between two frames, if it is known. */
static gint64 usual_step(const struct timeline *line, const struct timeline_frame *frame)
{
    gint64 usual = GST_CLOCK_TIME_IS_VALID(frame->duration) ? signed_time(frame->duration) : 0;

    return line->spacing > 0 && (usual == 0 || usual > line->spacing) ? line->spacing : usual;
}

/* Whether a live stream is out of step from this frame on. A single late frame after others on time
 * is not enough, since a process may have been stopped. */
static gboolean leaves_step(struct timeline *line, const struct timeline_frame *frame, gint64 time)
{
    gint64 before = line->late_since;
    gboolean begins = !line->begun || line->broken;

    line->late_since = 0;
    if (time_difference(frame->arrived, time) <= timeline_late_max(line))
        return FALSE;
    line->late_since = before ? before : frame->arrived;
    return begins || time_difference(frame->arrived, line->late_since) >= LATE_MAX;
}

/* The first live frame that is out of step is put at its arrival. The others keep their distance to
 * it, and those that arrive earlier than that are put earlier. */
static gint64 keep_step(struct timeline *line, const struct timeline_frame *frame, gint64 time)
{
    gboolean follows = line->begun && !line->broken && line->delay > timeline_late_max(line);

    if (!frame->live || frame->arrived == TIMELINE_UNKNOWN)
        return time;
    if (leaves_step(line, frame, follows ? time : frame->mapped)) {
        line->out_of_step = TRUE;
        return MAX(frame->arrived, time);
    }
    if (!follows || time <= frame->arrived)
        return time;
    gint64 usual = usual_step(line, frame);
    return MAX(MAX(frame->arrived, frame->mapped), time_sum(line->last, usual - usual / 4));
}

GstClockTime timeline_stamp(struct timeline *line, const struct timeline_frame *frame)
{
    gint64 mapped = frame->mapped, time = MAX(mapped, line->last);

    /* The map cannot be used: the interval from the last frame counts. */
    if (line->begun && (line->delay > 0 || mapped < line->last)) {
        gboolean catches_up = frame->live && line->delay <= timeline_late_max(line);
        gint64 since = time_difference(mapped, line->mapped), usual = usual_step(line, frame);
        if (since <= 0 || line->broken)
            since = usual;
        else if (catches_up && usual > 0) /* the stream is late already: it need not wait longer */
            since = MIN(since, usual);
        if (catches_up)
            since -= since / CATCH_UP;
        time = MAX(mapped, time_sum(line->last, since));
    }
    time = keep_step(line, frame, time);
    if (line->begun && !line->broken && mapped > line->mapped)
        line->spacing = MIN(time_difference(mapped, line->mapped), SPACING_MAX);
    line->begun = TRUE;
    line->broken = FALSE;
    line->mapped = mapped;
    line->before = line->last;
    line->last = time;
    line->delay = time_difference(time, mapped);
    line->out_of_step &= line->delay > 0;
    return (GstClockTime)time;
}

gboolean timeline_is_past(const struct timeline *line, const struct timeline_frame *frame)
{
    return frame->live && frame->mapped < 0 &&
           time_difference(frame->arrived, frame->mapped) <= timeline_late_max(line);
}

void timeline_break(struct timeline *line)
{
    line->broken = TRUE;
}

GstClockTime timeline_stamp_gap(struct timeline *line, gint64 mapped, gboolean comes_before)
{
    gint64 time = time_sum(mapped, line->delay);

    if (comes_before)
        return (GstClockTime)CLAMP(time, line->before, line->last);
    line->last = MAX(line->last, time);
    return (GstClockTime)line->last;
}

void timeline_segment(const struct timeline *line, gint64 mapped, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment)
{
    gint64 start = MIN(time_sum(mapped, line->delay), line->last);
    gint64 cut = start < 0 ? -start : 0; /* what lies before this pipeline's start */
    gint64 there = GST_CLOCK_TIME_IS_VALID(stream_time) ? signed_time(stream_time) : 0;
    gdouble skipped = (gdouble)cut * rate; /* may be out of the range of times */

    if (skipped >= (gdouble)G_MAXINT64)
        there = time_sum(there, G_MAXINT64);
    else
        there = time_sum(there, skipped > -(gdouble)G_MAXINT64 ? (gint64)skipped : -G_MAXINT64);
    gst_segment_init(segment, GST_FORMAT_TIME);
    segment->applied_rate = rate;
    segment->start = segment->base = segment->position = (guint64)MAX(start, 0);
    segment->time = there < 0 ? 0 : (guint64)there;
}

/* === timing ================================================================================== */
/*     head  = u8 version, u8 flags, u64 base time; with a monotonic clock: u64 whose it is; with a
 *             clock that has a name: u64 its id, u64 the time by it
 *     flags = 1: the clock is the monotonic one
 *             2: slow receivers lose frames
 *             4: the stream is live
 *             8: the clock has a name */

/* GStreamer computes in gint64: nothing later is a time. */
#define TIME_MAX ((GstClockTime)G_MAXINT64)
#define HEAD_VERSION 3
#define HEAD_MONOTONIC 1
#define HEAD_DROPS 2
#define HEAD_LIVE 4
#define HEAD_NAMED 8

/* Pipelines whose running times differ by less were started together; live frames that are later
 * than this stay late. */
#define OUT_OF_STEP DRIFT_STEP

/* If a followed clock is off by this, it has jumped rather than drifted. */
#define CLOCKS_APART (10 * (gint64)GST_MSECOND)

/* --- the head ----------------------------------------------------------------------------- */

void wire_head_pack(struct pack *pack, const struct wire_head *head)
{
    pack_u8(pack, HEAD_VERSION);
    pack_u8(pack,
            (uint8_t)((head->monotonic ? HEAD_MONOTONIC : 0) | (head->drops ? HEAD_DROPS : 0) |
                      (head->live ? HEAD_LIVE : 0) | (head->clock ? HEAD_NAMED : 0)));
    pack_u64(pack, head->base_time);
    if (head->monotonic)
        pack_u64(pack, head->monotonic);
    if (!head->clock)
        return;
    pack_u64(pack, head->clock);
    pack_u64(pack, head->sent);
}

gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head)
{
    struct wire_head none = {.sent = GST_CLOCK_TIME_NONE};
    uint8_t version = unpack_u8(unpack), flags = unpack_u8(unpack);

    *head = none;
    head->drops = (flags & HEAD_DROPS) != 0;
    head->live = (flags & HEAD_LIVE) != 0;
    head->run = unpack_u64(unpack);
    if (flags & HEAD_MONOTONIC)
        head->monotonic = unpack_u64(unpack);
    if (flags & HEAD_NAMED) {
        head->clock = unpack_u64(unpack);
        head->sent = wire_time(unpack_u64(unpack));
    }
    head->base_time = head->monotonic || head->clock ? wire_time(head->run) : 0;
    if (version == HEAD_VERSION && !unpack->bad && GST_CLOCK_TIME_IS_VALID(head->base_time))
        return TRUE;
    *head = none;
    return FALSE;
}

GstClockTime monotonic_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return GST_TIMESPEC_TO_TIME(now);
}

GstClockTime wire_time(guint64 said)
{
    return said <= TIME_MAX ? said : GST_CLOCK_TIME_NONE;
}

/* --- clocks ------------------------------------------------------------------------------- */

gint64 time_now_at(const struct time_now *now, GstClockTime then)
{
    GstClockTime at = MIN(then, now->system); /* NONE is later than all */

    if (now->monotonic)
        return signed_time(at) - signed_time(now->base);
    return signed_time(now->running) - signed_time(now->system - at);
}

static gboolean is_of_name(const struct wire_head *head, const struct time_now *now)
{
    return head->clock && head->clock == now->clock && (now->same_clock || !now->local);
}

enum time_relation time_relation(const struct wire_head *head, const struct time_now *now)
{
    gboolean seen_here = head->monotonic && now->same_clock;

    if (is_of_name(head, now) || (seen_here && now->monotonic))
        return TIME_SHARED;
    return seen_here ? TIME_FOLLOWED : TIME_UNKNOWN;
}

/* --- mapping ------------------------------------------------------------------------------ */

/* Clocks drift slowly, and are not read at the same instant, so the map follows slowly, too. */
static void timing_follow(struct time_map *map, const struct wire_head *head,
                          const struct time_now *now)
{
    if (!GST_CLOCK_TIME_IS_VALID(now->running))
        return;
    gint64 offset = signed_time(now->running) - signed_time(now->system);
    gint64 shift = time_sum(offset, signed_time(head->base_time));
    gint64 apart = time_difference(shift, map->shift);
    gint64 passed = signed_time(now->system - MIN(map->moved, now->system));
    if (map->anchored && ABS(apart) < CLOCKS_APART) {
        gint64 most = MIN(passed, (gint64)GST_SECOND) / ((gint64)GST_SECOND / DRIFT_RATE_MAX);
        map->shift = time_sum(map->shift, CLAMP(apart, -most, most));
    } else {
        map->shift = shift;
    }
    map->moved = now->system;
    map->anchored = map->before = TRUE;
}

static void anchor(struct time_map *map, const struct wire_head *head, gint64 apart,
                   const struct time_now *now)
{
    gboolean together = !map->before && ABS(apart) < OUT_OF_STEP;

    map->run = head->run;
    map->shift = together ? 0 : apart;
    map->anchored = map->before = TRUE;
    drift_begin(&map->drift, time_difference(apart, map->shift), together, now->system);
}

/* The times of streams that are not live do not belong to a clock. */
static void timing_compare(struct time_map *map, const struct wire_head *head,
                           const struct time_frame *frame, const struct time_now *now)
{
    if (!frame || !GST_CLOCK_TIME_IS_VALID(now->running) ||
        !GST_CLOCK_TIME_IS_VALID(frame->running))
        return;
    gboolean submitted = GST_CLOCK_TIME_IS_VALID(frame->submitted);
    gint64 came = time_now_at(now, submitted ? frame->submitted : frame->arrived);
    gint64 apart = time_difference(came, signed_time(frame->running));
    gint64 late = time_difference(apart, map->shift);
    if (!map->anchored || map->run != head->run) {
        anchor(map, head, apart, now);
    } else if (!head->live) {
        return;
    } else if (!map->drift.begun) { /* the clock has lost its name */
        drift_begin(&map->drift, late, TRUE, now->system);
    } else if (submitted && time_difference(late, map->drift.level) > OUT_OF_STEP) {
        anchor(map, head, apart, now); /* one of the clocks stood still */
    } else {
        gboolean certain = submitted || frame->waited_for;
        map->shift = time_sum(map->shift, drift_track(&map->drift, late, certain, now->system));
    }
}

void time_map_update(struct time_map *map, const struct wire_head *head,
                     const struct time_frame *frame, const struct time_now *now)
{
    switch (time_relation(head, now)) {
    case TIME_SHARED:
        map->shift = signed_time(head->base_time) - signed_time(now->base);
        map->run = head->run;
        map->anchored = map->before = TRUE;
        map->drift.begun = FALSE;
        break;
    case TIME_FOLLOWED:
        timing_follow(map, head, now);
        break;
    case TIME_UNKNOWN:
        timing_compare(map, head, frame, now);
        break;
    }
}

void time_map_lose(struct time_map *map)
{
    map->anchored = FALSE;
}

gint64 time_map_apply(const struct time_map *map, GstClockTime running)
{
    return time_sum(signed_time(running), map->shift);
}

/* --- arrival ------------------------------------------------------------------------------ */

gboolean time_map_sent(const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now, gint64 *running)
{
    if (GST_CLOCK_TIME_IS_VALID(frame->submitted))
        *running = time_now_at(now, frame->submitted);
    else if (is_of_name(head, now) && GST_CLOCK_TIME_IS_VALID(head->sent))
        *running = signed_time(head->sent) - signed_time(now->base);
    else
        return FALSE;
    return TRUE;
}

gint64 time_map_arrival(const struct time_map *map, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now)
{
    gint64 arrived = time_now_at(now, frame->arrived), usual;

    if (time_map_sent(head, frame, now, &usual))
        return MIN(usual, arrived);
    if (frame->waited_for || !map->drift.begun || !GST_CLOCK_TIME_IS_VALID(frame->running))
        return arrived;
    usual =
        time_sum(time_map_apply(map, frame->running), time_sum(map->drift.level, map->drift.owed));
    return MIN(usual, arrived);
}

/* === sharedmap =============================================================================== */

/* A stream that has measured nothing for that long has stopped. */
#define SILENCE_MAX (1 * GST_SECOND)

/* The stream that measures for a run of a sender's pipeline, or is the one that is late. */
struct leader {
    const struct shared_part *part;
    gint64 process;
    guint64 run;       /* the sender's, see wire_head */
    GstClockTime base; /* the receiver's base time: another one after each pause */
    gint64 shift;      /* as time_map has it */
    gint64 mapped;     /* of the frame that had the delay, as timeline has both */
    gint64 delay;
    GstClockTime at; /* by CLOCK_MONOTONIC */
};

struct shared_map {
    gint refs; /* atomic */
    GMutex lock;
    GArray *measuring, *late; /* leaders; under the lock */
    gint late_count;          /* atomic */
};

struct shared_map *shared_map_new(void)
{
    struct shared_map *shared = g_new0(struct shared_map, 1);

    shared->refs = 1;
    g_mutex_init(&shared->lock);
    shared->measuring = g_array_new(FALSE, FALSE, sizeof(struct leader));
    shared->late = g_array_new(FALSE, FALSE, sizeof(struct leader));
    return shared;
}

struct shared_map *shared_map_ref(struct shared_map *shared)
{
    g_atomic_int_inc(&shared->refs);
    return shared;
}

void shared_map_unref(struct shared_map *shared)
{
    if (!shared || !g_atomic_int_dec_and_test(&shared->refs))
        return;
    g_array_unref(shared->measuring);
    g_array_unref(shared->late);
    g_mutex_clear(&shared->lock);
    g_free(shared);
}

/* --- under the lock ----------------------------------------------------------------------- */

/* A run is only the sender's word: another process must not move this stream's times by it. */
static gboolean measures_for(const struct leader *leader, const struct shared_part *part,
                             guint64 run)
{
    return leader->run == run && leader->process == part->process;
}

/* Another stream that leads the same run, or NULL. */
static const struct leader *find_other(const GArray *leaders, const struct shared_part *part,
                                       const struct wire_head *head, const struct time_now *now)
{
    for (guint i = 0; i < leaders->len; i++) {
        const struct leader *leader = &g_array_index(leaders, struct leader, i);
        if (leader->part != part && measures_for(leader, part, head->run) &&
            leader->base == now->base && now->system < leader->at + SILENCE_MAX)
            return leader;
    }
    return NULL;
}

static void remove_leaders(GArray *leaders, const struct shared_part *part,
                           const struct wire_head *head)
{
    for (guint i = leaders->len; i-- > 0;) {
        const struct leader *leader = &g_array_index(leaders, struct leader, i);
        if (leader->part == part || (head && measures_for(leader, part, head->run)))
            g_array_remove_index_fast(leaders, i);
    }
}

static struct leader leader_of(const struct shared_part *part, const struct wire_head *head,
                               const struct time_now *now)
{
    return (struct leader){.part = part,
                           .process = part->process,
                           .run = head->run,
                           .base = now->base,
                           .at = now->system};
}

/* FALSE: no other stream is late, or this one is much later than it. */
static gboolean sharedmap_follow(const struct leader *other, struct timeline *line)
{
    if (!other)
        return FALSE;
    /* What is left of its delay after that much of its time, which may be negative. */
    gint64 since = time_difference(line->mapped, other->mapped), delay = other->delay;
    if (delay <= timeline_late_max(line))
        delay = MAX(time_difference(delay, since / CATCH_UP), 0);
    if (time_difference(line->delay, delay) > timeline_late_max(line))
        return FALSE;
    line->last = MAX(time_sum(line->mapped, delay), line->before);
    line->delay = time_difference(line->last, line->mapped);
    return TRUE;
}

/* --- streams ------------------------------------------------------------------------------ */

static void update(const struct shared_part *part, struct time_map *map,
                   const struct wire_head *head, const struct time_frame *frame,
                   const struct time_now *now, gboolean measures)
{
    if (!part->map || time_relation(head, now) == TIME_SHARED) {
        time_map_update(map, head, frame, now);
        return;
    }
    g_mutex_lock(&part->map->lock);
    const struct leader *other = find_other(part->map->measuring, part, head, now);
    if (other) {
        map->shift = other->shift;
        map->run = other->run;
        map->moved = now->system;
        map->anchored = map->before = TRUE;
        map->drift.begun = FALSE; /* begins where this stream becomes the leader */
    } else {
        time_map_update(map, head, frame, now);
    }
    if (!other && measures && map->anchored) {
        struct leader leader = leader_of(part, head, now);
        leader.shift = map->shift;
        remove_leaders(part->map->measuring, part, head);
        g_array_append_val(part->map->measuring, leader);
    }
    g_mutex_unlock(&part->map->lock);
}

void shared_map_update(const struct shared_part *part, struct time_map *map,
                       const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now)
{
    update(part, map, head, frame, now, TRUE);
}

void shared_map_try(const struct shared_part *part, struct time_map *copy,
                    const struct wire_head *head, const struct time_frame *frame,
                    const struct time_now *now)
{
    update(part, copy, head, frame, now, FALSE);
}

GstClockTime shared_map_delay(const struct shared_part *part, const struct wire_head *head,
                              const struct time_now *now, struct timeline *line)
{
    struct shared_map *map = part->map;

    if (!map || !head->live || (!line->out_of_step && !g_atomic_int_get(&map->late_count)))
        return (GstClockTime)line->last;
    g_mutex_lock(&map->lock);
    if (!sharedmap_follow(find_other(map->late, part, head, now), line)) {
        struct leader leader = leader_of(part, head, now);
        leader.mapped = line->mapped;
        leader.delay = line->delay;
        remove_leaders(map->late, part, head);
        if (line->out_of_step)
            g_array_append_val(map->late, leader);
        g_atomic_int_set(&map->late_count, (gint)map->late->len);
    }
    g_mutex_unlock(&map->lock);
    return (GstClockTime)line->last;
}

void shared_map_leave(const struct shared_part *part)
{
    if (!part->map)
        return;
    g_mutex_lock(&part->map->lock);
    remove_leaders(part->map->measuring, part, NULL);
    remove_leaders(part->map->late, part, NULL);
    g_atomic_int_set(&part->map->late_count, (gint)part->map->late->len);
    g_mutex_unlock(&part->map->lock);
}

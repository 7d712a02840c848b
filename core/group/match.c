/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which frames are of one instant, and when a picture stands still. */
#include "group/group.h"

#include "frame/frame.h"

#include <string.h>

/* === freeze ================================================================================== */
/* What is compared of a picture: pieces of so many bytes, which are spread over it. */
#define PIECES 4096
#define PIECE 64

#if GPUD_WITH_XXHASH

#define XXH_INLINE_ALL
#include <xxhash.h>

enum gpud_status gpud_freeze_check_device(const struct gpud_device *device,
                                          struct gpud_error *error)
{
    if (device->caps & GPUD_CAP_HOST)
        return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "a frozen picture on %s is not noticed, because the CPU would have to copy "
                     "each picture to the host: receive on the host, or set no freeze timeout",
                     device->info.name);
}

/* Pieces of every row, as far as there are enough: in each row at other columns, so that what is
 * small is met, too. Memory that a sender made large is not read as a whole. */
static uint64_t hash_of(const char *data, const struct gpud_layout *layout)
{
    uint64_t hash = 0, pieces = PIECES / layout->planes;
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        uint64_t step = (plane->rows - 1) / pieces + 1;
        step |= step > 1; /* odd: of both fields */
        uint64_t in_row = pieces / ((plane->rows - 1) / step + 1);
        uint64_t every = (plane->row_bytes / in_row / PIECE + 1) * PIECE, shift = 0;
        for (uint64_t row = 0; row < plane->rows; row += step, shift += PIECE) {
            const char *start = data + plane->offset + row * plane->stride;
            for (uint64_t at = shift % every; at < plane->row_bytes; at += every) {
                uint64_t left = plane->row_bytes - at;
                hash = XXH3_64bits_withSeed(start + at, left < PIECE ? left : PIECE, hash);
            }
        }
    }
    return hash;
}

bool gpud_freeze_note(struct gpud_freeze *freeze, struct gpud_frame *frame, uint64_t time,
                      int64_t timeout)
{
    const struct gpud_layout *layout = &frame->info.layout;
    void *data;
    if (frame->queue || layout->planes == 0 || (frame->info.flags & GPUD_FRAME_CORRUPTED) ||
        gpud_frame_map(frame, GPUD_READ, 0, &data, NULL) != GPUD_OK)
        return false;
    uint64_t hash = hash_of(data, layout);
    gpud_frame_unmap(frame);
    if (!freeze->begun || hash != freeze->hash || time < freeze->since)
        *freeze = (struct gpud_freeze){.begun = true, .hash = hash, .since = time};
    return time - freeze->since >= (uint64_t)timeout;
}

#else

enum gpud_status gpud_freeze_check_device(const struct gpud_device *device,
                                          struct gpud_error *error)
{
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "a frozen picture is not noticed, because the library was built without "
                     "xxhash: install it (Debian: apt install libxxhash-dev), and build it again");
}

bool gpud_freeze_note(struct gpud_freeze *freeze, struct gpud_frame *frame, uint64_t time,
                      int64_t timeout)
{
    return false;
}

#endif

/* === match =================================================================================== */
/* What it is for, and its words, are in group.h. Model: group.pml in tests/model. */

/* Instants in a row after which a member is not waited for any more. */
#define MISSES_MAX 3

/* How long an instant waits for a member where it, or ones before it, would be lost otherwise. */
#define GAP_DURATIONS 10

/* DATA: how long the first packet of a member that has joined, or joined again, waits for packets
 * before it of a member that was there meanwhile. Nothing says whether there are any. */
#define JOIN_PATIENCE (GPUD_SEC / 2)

/* How long the member whose frames are handed on is waited for, where frames depend on others. */
#define CHAIN_PATIENCE (GPUD_SEC / 2)

/* Without a rate or durations. */
#define LATENCY_ALL (40 * GPUD_MSEC)
#define LATENCY_ANY (10 * GPUD_MSEC)

/* Of what follows from a rate, which a sender may choose as it likes. */
#define LATENCY_MOST GPUD_SEC

/* Times that differ by more are of two time lines, unless the member's frames last longer. */
#define REACH GPUD_SEC

/* Of a picture or a packet, as far as a member is believed. */
#define DURATION_LEAST (10 * UINT64_C(1000))
#define DURATION_MOST (10 * (uint64_t)GPUD_SEC)

/* A member's next block of sound follows the one before, if none is missing and its time says so as
 * exactly as this. */
#define JITTER (20 * GPUD_MSEC)

/* Pictures in a row between another member's, by which two members are found to be out of step. */
#define OUT_OF_STEP 8

static struct gpud_match_member *members_end(struct gpud_match *match)
{
    return match->members + match->count;
}

static struct gpud_match_entry *entries_end(struct gpud_match_member *member)
{
    return member->entries + member->count;
}

/* --- times --------------------------------------------------------------------------------- */

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Of two durations; 0: unknown. */
static uint64_t shorter(uint64_t a, uint64_t b)
{
    return a && (!b || a < b) ? a : b;
}

static uint64_t longer(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int64_t tolerance(const struct gpud_match *match, uint64_t duration)
{
    if (match->wanted_tolerance)
        return match->wanted_tolerance;
    return duration ? (int64_t)((duration - 1) / 2) : 0;
}

int64_t gpud_match_tolerance(const struct gpud_match *match)
{
    uint64_t least = 0;
    for (uint32_t i = 0; i < match->count; i++)
        least = shorter(least, match->members[i].duration);
    return tolerance(match, least);
}

/* Of an instant of one of these durations, for a frame of the other. A block of sound is complete
 * only when its last sample is there. */
static int64_t latency(const struct gpud_match *match, enum gpud_match_kind kind, uint64_t duration)
{
    bool all = match->mode == GPUD_GROUP_ALL;
    if (match->wanted_latency)
        return match->wanted_latency;
    if (!duration)
        return all ? LATENCY_ALL : LATENCY_ANY;
    uint64_t time = all                        ? 2 * duration
                    : kind == GPUD_MATCH_SOUND ? duration + (uint64_t)LATENCY_ANY
                                               : duration / 2;
    return time < (uint64_t)LATENCY_MOST ? (int64_t)time : LATENCY_MOST;
}

int64_t gpud_match_latency(const struct gpud_match *match)
{
    const struct gpud_match_member *preferred = &match->members[match->preferred];
    uint64_t most = 0;
    if (match->mode == GPUD_GROUP_ANY && preferred->duration)
        return latency(match, preferred->kind, preferred->duration);
    for (uint32_t i = 0; i < match->count; i++)
        most = longer(most, match->members[i].duration);
    return latency(match, preferred->kind, most);
}

static uint64_t end_of(const struct gpud_match_entry *entry)
{
    return entry->time + entry->duration;
}

/* Half a sample. */
static uint64_t slack(const struct gpud_match_entry *sound)
{
    return (uint64_t)GPUD_SEC / 2 / sound->rate;
}

static bool is_one(const struct gpud_match *match, const struct gpud_match_entry *entry,
                   uint64_t time, uint64_t duration)
{
    uint64_t most = (uint64_t)tolerance(match, shorter(entry->duration, duration));
    if (entry->kind == GPUD_MATCH_SOUND)
        return entry->time <= time + slack(entry) && end_of(entry) > time + slack(entry);
    return distance(entry->time, time) <= most;
}

/* How far from another time a member's times may be. */
static uint64_t reach(const struct gpud_match *match, const struct gpud_match_member *m)
{
    uint64_t most = longer(4 * m->duration, 2 * (uint64_t)match->wanted_latency);
    uint64_t end = longer(2 * DURATION_MOST, 2 * (uint64_t)match->wanted_latency);
    most = longer(most, REACH);
    return most < end ? most : end;
}

static bool is_apart(const struct gpud_match *match, const struct gpud_match_member *m,
                     uint64_t time)
{
    return match->begun && distance(time, match->last) > reach(match, m);
}

/* Whether a member's frame is on the time line that is handed on, which it shared, where it has
 * fallen behind, however far: it may be slower, as a second file is, or have been stopped. */
static bool has_fallen_behind(const struct gpud_match *match, const struct gpud_match_member *m,
                              uint64_t time)
{
    return match->begun && m->delivers && m->in_line && time >= m->newest &&
           time - m->newest <= reach(match, m) && time <= match->last;
}

/* How many members deliver frames around that time. */
static uint32_t count_around(const struct gpud_match *match, uint64_t time, int64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < match->count; i++) {
        const struct gpud_match_member *m = &match->members[i];
        count += m->alive && m->known && now - m->newest_at <= (int64_t)reach(match, m) &&
                 distance(m->newest, time) <= reach(match, m);
    }
    return count;
}

/* Whether the time line of a frame that is apart is the one to follow now. The preferred member is
 * followed to its own, unless it has left the other one. */
static bool is_followed(const struct gpud_match *match, const struct gpud_match_member *m,
                        uint64_t time, int64_t now)
{
    uint32_t preferred = match->preferred;
    uint32_t staying = match->begun ? count_around(match, match->last, now) : 0;
    if (match->mode == GPUD_GROUP_ANY && m == &match->members[preferred] &&
        !(match->sharers & 1u << preferred))
        return true;
    return staying == 0 || count_around(match, time, now) > staying;
}

/* --- what comes and goes ------------------------------------------------------------------- */

/* The first frame that came for that instant: its arrival, or INT64_MAX, and its time. Of sound:
 * the first one that has as much. */
static int64_t find_first(struct gpud_match *match, const struct gpud_match_entry *of,
                          uint64_t *its_time)
{
    bool sound = of->kind == GPUD_MATCH_SOUND;
    int64_t first = INT64_MAX;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
            if (e->arrival < first &&
                (sound ? e->kind == of->kind && end_of(e) + slack(of) >= end_of(of)
                       : is_one(match, of, e->time, e->duration))) {
                first = e->arrival;
                *its_time = sound ? of->time : e->time;
            }
    for (uint32_t i = 0; i < match->recorded && i < GPUD_MATCH_RECORDS; i++) {
        uint64_t time = match->records[i].time;
        if (match->records[i].arrival < first &&
            (sound ? time + slack(of) >= end_of(of) && distance(time, end_of(of)) <= REACH
                   : is_one(match, of, time, match->records[i].duration))) {
            first = match->records[i].arrival;
            *its_time = sound ? of->time : time;
        }
    }
    return first;
}

/* DATA: whether the packet is one that another member's was handed on for; it is that one's from
 * now on. */
static bool take_record(struct gpud_match *match, uint32_t member,
                        const struct gpud_match_entry *entry)
{
    uint32_t count = match->recorded, nearest = GPUD_MATCH_RECORDS;
    for (uint32_t i = count > GPUD_MATCH_RECORDS ? count - GPUD_MATCH_RECORDS : 0; i < count; i++) {
        uint32_t at = i % GPUD_MATCH_RECORDS;
        if (!(match->records[at].takers & 1u << member) &&
            is_one(match, entry, match->records[at].time, match->records[at].duration) &&
            (nearest == GPUD_MATCH_RECORDS ||
             distance(match->records[at].time, entry->time) <
                 distance(match->records[nearest].time, entry->time)))
            nearest = at;
    }
    if (nearest == GPUD_MATCH_RECORDS)
        return false;
    match->records[nearest].takers |= 1u << member;
    return true;
}

/* Whether a packet that no record is of was passed over: one from before all records may have been
 * handed on. */
static bool is_late(const struct gpud_match *match, const struct gpud_match_entry *entry)
{
    uint32_t count = match->recorded < GPUD_MATCH_RECORDS ? match->recorded : GPUD_MATCH_RECORDS;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++)
        oldest = shorter(oldest, match->records[i].time);
    return entry->kind == GPUD_MATCH_DATA && entry->time < match->last && entry->time > oldest;
}

/* Whether the frame's instant was handed on or passed over. */
static bool match_is_over(const struct gpud_match *match, const struct gpud_match_entry *entry)
{
    if (entry->kind == GPUD_MATCH_SOUND)
        return end_of(entry) <= match->last + slack(entry);
    if (entry->kind == GPUD_MATCH_DATA)
        return entry->time < match->last;
    return entry->time <= match->last || is_one(match, entry, match->last, match->last_duration);
}

/* Fits the frame to those of its member that came before, and takes what it says of itself as far
 * as that can be. */
static bool take_word(struct gpud_match_member *m, struct gpud_match_entry *entry)
{
    bool same = m->known && m->delivers && m->kind == entry->kind;
    uint64_t said = entry->duration;
    if (entry->kind == GPUD_MATCH_SOUND) {
        uint64_t off = distance(entry->time, m->newest);
        if (same && !entry->gap && off > slack(entry) && off <= (uint64_t)JITTER)
            entry->time = m->newest;
        m->duration = said < DURATION_MOST ? said : DURATION_MOST;
        return true;
    }
    if (said > DURATION_MOST)
        entry->duration = DURATION_MOST;
    else if (said < DURATION_LEAST)
        entry->duration = 0;
    m->duration = entry->duration;
    if (entry->kind == GPUD_MATCH_DATA) {
        if (!same)
            m->spacing = 0;
        else if (entry->time > m->newest)
            m->spacing = shorter(m->spacing, entry->time - m->newest);
        entry->duration = entry->duration ? shorter(entry->duration, m->spacing) : 0;
    }
    return entry->duration == said || entry->kind == GPUD_MATCH_DATA;
}

/* Whether a picture is between those of the member that is handed on, rather than beside one. */
static bool is_between(const struct gpud_match *match, uint32_t member,
                       const struct gpud_match_entry *entry)
{
    uint32_t last = match->last_member;
    const struct gpud_match_member *l = &match->members[last];
    if (match->mode != GPUD_GROUP_ANY || !match->begun || member == last || !l->duration ||
        entry->kind != GPUD_MATCH_PICTURE || l->kind != GPUD_MATCH_PICTURE)
        return false;
    uint64_t phase = distance(entry->time, match->last) % l->duration;
    return phase > l->duration / 4 && phase < l->duration - l->duration / 4;
}

static void match_judge(struct gpud_match *match, uint32_t member,
                        const struct gpud_match_entry *entry, bool believed, bool apart)
{
    struct gpud_match_member *m = &match->members[member];
    const struct gpud_match_member *p = &match->members[match->preferred];
    m->out_of_step = is_between(match, member, entry) ? m->out_of_step + 1 : 0;
    if (!believed)
        m->fault = GPUD_MATCH_ABSURD;
    else if (apart)
        m->fault = m->ignored ? GPUD_MATCH_OTHER_LINE : m->fault;
    else if (match->mode == GPUD_GROUP_ANY && m != p && p->delivers && p->duration &&
             entry->time > p->newest + GAP_DURATIONS * p->duration &&
             entry->arrival - p->advanced_at <= GAP_DURATIONS * (int64_t)p->duration)
        m->fault = GPUD_MATCH_AHEAD;
    else
        m->fault = m->out_of_step >= OUT_OF_STEP ? GPUD_MATCH_OUT_OF_STEP : GPUD_MATCH_NO_FAULT;
}

void gpud_match_add(struct gpud_match *match, uint32_t member, struct gpud_match_entry entry)
{
    struct gpud_match_member *m = &match->members[member];
    if (match->mode == GPUD_GROUP_ALL && entry.kind == GPUD_MATCH_SOUND)
        entry.kind = GPUD_MATCH_PICTURE;
    bool believed = take_word(m, &entry);
    bool apart = is_apart(match, m, entry.time) && !has_fallen_behind(match, m, entry.time);
    entry.joined = !m->delivers;
    entry.step = m->delivers && entry.time > m->newest ? entry.time - m->newest : 0;
    uint64_t newest = entry.kind == GPUD_MATCH_SOUND ? end_of(&entry) : entry.time;
    match_judge(match, member, &entry, believed, apart);
    bool recorded = match->begun && !apart && entry.kind == GPUD_MATCH_DATA &&
                    take_record(match, member, &entry);
    if (match->begun && !apart && !recorded && is_late(match, &entry)) {
        m->late++;
        match->lost = true;
    }
    entry.passed = recorded || (match->begun && !apart && match_is_over(match, &entry));
    match->keyed |= match->mode == GPUD_GROUP_ANY && entry.delta;
    if (entry.passed && match->chain == member + 1)
        match->chain = 0;
    if (!entry.passed && (!m->known || newest > m->newest))
        m->advanced_at = entry.arrival;
    if (match->begun && !apart)
        match->sharers |= 1u << member;
    m->alive = m->delivers = m->known = true;
    m->in_line = !apart;
    m->ended = m->quiet = false;
    m->frozen = entry.frozen;
    m->kind = entry.kind;
    m->newest = newest;
    m->newest_at = entry.arrival;
    entry.generation = m->generation;
    match->at_end &= entry.passed;
    uint64_t its_time = entry.time;
    int64_t first = find_first(match, &entry, &its_time);
    m->behind = first < entry.arrival ? entry.arrival - first : 0;
    m->offset = (int64_t)(entry.time - its_time);
    if (!entry.passed || m->behind <= gpud_match_latency(match))
        m->misses = 0;
    m->entries[m->count++] = entry;
}

void gpud_match_join(struct gpud_match *match, uint32_t member)
{
    struct gpud_match_member *m = &match->members[member];
    m->quiet &= m->alive;
    m->alive = true;
    m->ended = false;
}

bool gpud_match_has_room(const struct gpud_match *match, uint32_t member, int64_t now)
{
    const struct gpud_match_member *m = &match->members[member];
    if (m->count < m->room || match->keeps_newest)
        return true;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->entries[i].passed || (is_apart(match, m, m->entries[i].time) &&
                                     !is_followed(match, m, m->entries[i].time, now)))
            return true;
    return false;
}

void gpud_match_renew(struct gpud_match *match, uint32_t member)
{
    match->members[member].generation++;
}

void gpud_match_leave(struct gpud_match *match, uint32_t member, bool ended)
{
    struct gpud_match_member *m = &match->members[member];
    match->at_end |= ended && m->alive;
    m->alive = m->delivers = m->frozen = false;
    m->ended = ended;
    m->duration = m->spacing = 0; /* what it said counts for others no longer */
    m->out_of_step = 0;
    m->fault = GPUD_MATCH_NO_FAULT;
    gpud_match_renew(match, member);
}

static struct gpud_match_entry *find_dropped(const struct gpud_match *match,
                                             struct gpud_match_member *m)
{
    bool full = m->count > m->room;
    for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
        if (e->passed && (full || m->count > match->history || e->generation != m->generation))
            return e;
    /* A frame that is apart is of a line to come, if it is of any: not one that waited for long, as
     * those that a stopped sender had in its ring. */
    for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
        if (is_apart(match, m, e->time) &&
            (full || m->newest_at - e->arrival > (int64_t)reach(match, m)))
            return e;
    return full ? m->entries : NULL;
}

void *gpud_match_drop(struct gpud_match *match)
{
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++) {
        struct gpud_match_entry *entry = find_dropped(match, m);
        if (!entry)
            continue;
        void *what = entry->what;
        if (!entry->passed && match->chain == (uint32_t)(m - match->members) + 1)
            match->chain = 0;
        m->ignored += !entry->passed && is_apart(match, m, entry->time);
        size_t behind = (size_t)(m->entries + m->count - (entry + 1));
        memmove(entry, entry + 1, behind * sizeof(*entry));
        m->count--;
        return what;
    }
    return NULL;
}

/* --- an instant ---------------------------------------------------------------------------- */

/* The member's frame for an instant of that duration: the nearest in time. */
static struct gpud_match_entry *match_find(struct gpud_match *match, struct gpud_match_member *m,
                                           uint64_t time, uint64_t duration, bool passed_too)
{
    struct gpud_match_entry *nearest = NULL;
    for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
        if ((passed_too || !e->passed) && is_one(match, e, time, duration) &&
            (!nearest || distance(e->time, time) < distance(nearest->time, time)))
            nearest = e;
    return nearest;
}

/* Whether it may still deliver that instant, or one before it. */
static bool is_behind(const struct gpud_match *match, const struct gpud_match_member *m,
                      uint64_t time, uint64_t duration)
{
    if (!m->alive || !m->known)
        return m->alive;
    if (m->newest > time || (m->newest == time && m->kind == GPUD_MATCH_PICTURE))
        return false;
    if (time - m->newest > reach(match, m))
        return false;
    return m->kind != GPUD_MATCH_PICTURE ||
           time - m->newest > (uint64_t)tolerance(match, shorter(m->duration, duration));
}

static enum gpud_group_state state_of(const struct gpud_match *match,
                                      const struct gpud_match_member *m, uint64_t time,
                                      uint64_t duration)
{
    if (!m->alive)
        return m->ended ? GPUD_GROUP_ENDED : GPUD_GROUP_ABSENT;
    if (m->known && distance(m->newest, time) > reach(match, m))
        return GPUD_GROUP_APART;
    return is_behind(match, m, time, duration) ? GPUD_GROUP_LATE : GPUD_GROUP_SKIPPED;
}

/* The member whose frames are waited for: one whose picture stands still is preferred to none that
 * moves. */
static uint32_t find_favourite(const struct gpud_match *match,
                               const struct gpud_match_request *request)
{
    if (!match->members[request->preferred].frozen)
        return request->preferred;
    for (uint32_t i = 0; i < match->count; i++)
        if (match->members[i].delivers && !match->members[i].frozen)
            return i;
    return request->preferred;
}

static bool goes_on_after(const struct gpud_match_member *m, uint64_t time)
{
    return m->alive && m->known && m->newest > time;
}

/* Whether handing it on would break a stream whose frames depend on each other: it depends on one
 * that was not handed on, or takes the place of a member that goes on without this instant. */
static bool is_useless(const struct gpud_match *match, uint32_t member,
                       const struct gpud_match_entry *entry)
{
    if (!match->keyed || match->chain == member + 1)
        return false;
    return entry->delta || (member != match->preferred && match->chain &&
                            goes_on_after(&match->members[match->chain - 1], entry->time));
}

static int badness(const struct gpud_match *match, uint32_t member,
                   const struct gpud_match_entry *entry)
{
    return 4 * is_useless(match, member, entry) + 2 * entry->corrupted + entry->frozen;
}

/* ANY: the best frame; ALL: the first. */
static uint32_t match_choose(const struct gpud_match *match,
                             const struct gpud_match_request *request,
                             struct gpud_match_entry *const entries[])
{
    uint32_t best = match->count, favourite = find_favourite(match, request);
    for (uint32_t i = 0; i < match->count; i++) {
        if (!entries[i])
            continue;
        int worse = best < match->count
                        ? badness(match, best, entries[best]) - badness(match, i, entries[i])
                        : 1;
        if (best == match->count ||
            (match->mode == GPUD_GROUP_ANY && (worse > 0 || (worse == 0 && i == favourite))))
            best = i;
    }
    return best;
}

/* Whether instants are missing between the last one and this, as far as its frame or the last one
 * say how long they last. */
static bool is_gap(const struct gpud_match *match, uint64_t time,
                   const struct gpud_match_entry *best, uint64_t duration)
{
    if (!match->begun || time <= match->last)
        return false;
    if (best->kind == GPUD_MATCH_SOUND)
        return time - match->last > slack(best);
    /* Packets may come at any time: its receiver says that some are missing, and no other member's
     * came instead. */
    if (best->kind == GPUD_MATCH_DATA)
        return best->gap && best->step && best->time - best->step >= match->last;
    return duration && time - match->last > duration + (uint64_t)tolerance(match, duration);
}

/* The duration by which frames are missed before a frame ahead. */
static uint64_t match_pace(const struct gpud_match *match, const struct gpud_match_entry *best)
{
    uint64_t duration = shorter(best->duration, match->last_duration);
    return duration ? duration : match->members[match->preferred].duration;
}

/* Whether instants would be lost by handing this one on too early: those before it that a member
 * may still deliver, or itself, of which there is only a broken frame. */
static bool may_lose(const struct gpud_match *match, const struct gpud_match_request *request,
                     const struct gpud_match_decision *found)
{
    const struct gpud_match_entry *best = found->entries[found->member];
    return match->mode == GPUD_GROUP_ANY && request->select == GPUD_GROUP_NEXT &&
           !found->new_line &&
           (is_gap(match, found->time, best, match_pace(match, best)) || best->corrupted);
}

/* How long that instant waits for a member that does not have it, from its first frame on; 0: not
 * at all. */
static int64_t patience(const struct gpud_match *match, const struct gpud_match_request *request,
                        const struct gpud_match_decision *found, uint32_t member)
{
    const struct gpud_match_member *m = &match->members[member];
    const struct gpud_match_entry *best = found->entries[found->member];
    bool any = match->mode == GPUD_GROUP_ANY;
    if (found->entries[member] || !is_behind(match, m, found->time, best->duration))
        return 0;
    /* A change costs more than a wait. */
    if (match->keyed && match->chain == member + 1)
        return CHAIN_PATIENCE;
    uint64_t own = any || !best->duration ? m->duration : 0;
    int64_t waits = latency(match, best->kind, longer(best->duration, own));
    if (any && best->kind == GPUD_MATCH_DATA && best->joined && match->begun && m->delivers)
        return JOIN_PATIENCE;
    if (may_lose(match, request, found) && !m->quiet) {
        uint64_t duration = best->corrupted ? best->duration : match_pace(match, best);
        int64_t more = GAP_DURATIONS * (int64_t)longer(duration, own);
        more = more < LATENCY_MOST ? more : LATENCY_MOST;
        return more > waits ? more : waits;
    }
    bool better =
        best->corrupted || (member == find_favourite(match, request) && found->member != member);
    return m->misses < MISSES_MAX && (!any || better) ? waits : 0;
}

/* ALL: whether as many members go on below a frame that is ahead of them as have got there. */
static bool most_are_behind(const struct gpud_match *match, const struct gpud_match_decision *found)
{
    const struct gpud_match_entry *best = found->entries[found->member];
    uint32_t behind = 0, others = 0;
    for (uint32_t i = 0; i < match->count; i++) {
        const struct gpud_match_member *m = &match->members[i];
        bool lacks = !found->entries[i] && is_behind(match, m, found->time, best->duration);
        behind += lacks && m->known;
        others += m->alive && !lacks;
    }
    return behind >= others;
}

/* A member that goes on below a frame that is ahead of it outranks that one: until when the instant
 * waits for its next frames, of which each is waited for as long; 0: it does not. In mode ANY this
 * is so for the preferred member and the one that was handed on last. */
static int64_t outranked(const struct gpud_match *match, const struct gpud_match_request *request,
                         const struct gpud_match_decision *found, int64_t waits, int64_t first,
                         uint32_t member)
{
    const struct gpud_match_member *m = &match->members[member];
    const struct gpud_match_entry *best = found->entries[found->member];
    bool any = match->mode == GPUD_GROUP_ANY, is_last = any && member == match->last_member;
    if (!match->begun || found->new_line || request->select != GPUD_GROUP_NEXT || !m->known ||
        found->entries[member] || !is_behind(match, m, found->time, best->duration) ||
        best->kind == GPUD_MATCH_DATA)
        return 0;
    if (any ? found->entries[match->preferred] || (!is_last && member != match->preferred)
            : !most_are_behind(match, found))
        return 0;
    int64_t until = 0, next = m->advanced_at + (int64_t)m->duration;
    if (is_last && !waits) /* it is on time */
        waits = latency(match, best->kind, m->duration);
    uint64_t ahead = found->time > match->last ? found->time - match->last : 0;
    uint64_t whole = m->duration + (uint64_t)tolerance(match, m->duration);
    if (is_gap(match, found->time, best, match_pace(match, best)))
        until = m->advanced_at + waits;
    else if (best->kind == GPUD_MATCH_PICTURE && is_last && ahead < whole - whole / 2)
        until = next + (int64_t)m->duration; /* out of step */
    else if (best->kind == GPUD_MATCH_PICTURE && m->duration && waits &&
             (!best->step || best->step > whole))
        until = next + waits; /* a lone frame */
    int64_t end = first + 4 * (int64_t)ahead + LATENCY_MOST;
    return until < end ? until : end;
}

/* Fills the decision with the frames of an instant. TAKE: it is complete, or has waited long
 * enough. */
static void look_at(struct gpud_match *match, const struct gpud_match_request *request,
                    uint64_t time, uint64_t duration, bool new_line, int64_t now,
                    struct gpud_match_decision *found)
{
    int64_t first = INT64_MAX;
    *found = (struct gpud_match_decision){.time = time, .until = INT64_MAX};
    for (uint32_t i = 0; i < match->count; i++) {
        struct gpud_match_member *m = &match->members[i];
        struct gpud_match_entry *entry =
            match_find(match, m, time, duration, request->select == GPUD_GROUP_AT);
        found->entries[i] = entry;
        found->states[i] = entry ? GPUD_GROUP_PRESENT : state_of(match, m, time, duration);
        found->missing += !entry;
        if (entry && entry->arrival < first)
            first = entry->arrival;
    }
    found->member = match_choose(match, request, found->entries);
    if (found->member == match->count)
        return;
    const struct gpud_match_entry *best = found->entries[found->member];
    found->new_line = new_line;
    found->gap =
        request->select != GPUD_GROUP_AT && !new_line &&
        (match->lost || is_gap(match, time, best, shorter(best->duration, match->last_duration)));
    if (best->kind == GPUD_MATCH_SOUND && request->select != GPUD_GROUP_AT && time > best->time)
        found->skip = (uint32_t)(((time - best->time) * best->rate + GPUD_SEC / 2) / GPUD_SEC);
    int64_t until = first;
    for (uint32_t i = 0; i < match->count; i++) {
        int64_t waits = patience(match, request, found, i);
        int64_t later = outranked(match, request, found, waits, first, i);
        later = later > first + waits ? later : first + waits;
        until = later > until ? later : until;
    }
    bool useless = request->select != GPUD_GROUP_AT && is_useless(match, found->member, best);
    found->verdict = now < until ? GPUD_MATCH_WAIT : useless ? GPUD_MATCH_SKIP : GPUD_MATCH_TAKE;
    found->until = until;
}

/* An instant that is looked for. */
struct instant {
    uint64_t time, duration;
};

/* The pending instant next to a time: after it, or (backwards) before it. */
static bool find_next(struct gpud_match *match, uint64_t around, bool new_line, bool backwards,
                      const uint64_t *beyond, struct instant *next)
{
    bool found = false;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++) {
            if (e->passed || distance(e->time, around) > reach(match, m))
                continue;
            bool begun_before = e->kind == GPUD_MATCH_SOUND && !new_line && match->begun;
            uint64_t time = begun_before ? longer(e->time, match->last) : e->time;
            if (begun_before && time - match->last <= slack(e))
                time = match->last;
            if (beyond && (backwards ? time >= *beyond : time <= *beyond))
                continue;
            if (!found || (backwards ? time > next->time : time < next->time))
                *next = (struct instant){time, e->duration};
            found = true;
        }
    return found;
}

/* The next picture of the member that was handed on last outranks those of others between the two:
 * members that are out of step are not handed on in turn. */
static void continue_with_last(struct gpud_match *match, struct instant *next)
{
    struct gpud_match_member *m = &match->members[match->last_member];
    if (match->mode != GPUD_GROUP_ANY || !match->begun || m->kind != GPUD_MATCH_PICTURE)
        return;
    for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
        if (!e->passed && e->time > match->last &&
            e->time - match->last <= m->duration + (uint64_t)tolerance(match, m->duration)) {
            *next = (struct instant){e->time, e->duration};
            return;
        }
}

/* A time line with frames to hand on: that of the last instant, else a new one. */
static bool find_line(struct gpud_match *match, int64_t now, uint64_t *around, bool *new_line)
{
    const struct gpud_match_entry *oldest = NULL;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++) {
            if (match->begun && !e->passed && !is_apart(match, m, e->time)) {
                *around = match->last;
                *new_line = false;
                return true;
            }
            if (!e->passed && is_followed(match, m, e->time, now) &&
                (!oldest || e->arrival < oldest->arrival))
                oldest = e;
        }
    *new_line = true;
    if (oldest)
        *around = oldest->time;
    return oldest != NULL;
}

/* Without a frame to hand on: whether the streams are over, or when to look again because a member
 * has been silent for long. */
static void judge_silence(const struct gpud_match *match, int64_t now,
                          struct gpud_match_decision *decision)
{
    bool delivers = false;
    for (uint32_t i = 0; i < match->count; i++) {
        const struct gpud_match_member *m = &match->members[i];
        int64_t silent_at = m->newest_at + (int64_t)reach(match, m) + 1;
        if (!m->alive || silent_at <= now)
            continue;
        delivers = true;
        if (silent_at < decision->until)
            decision->until = silent_at;
    }
    if (match->at_end && !delivers)
        decision->verdict = GPUD_MATCH_CLOSED;
}

static void decide_in_order(struct gpud_match *match, const struct gpud_match_request *request,
                            int64_t now, struct gpud_match_decision *decision)
{
    struct instant next = {0};
    uint64_t around, beyond = 0;
    bool new_line, backwards = request->select == GPUD_GROUP_NEWEST;
    int64_t until = INT64_MAX;
    if (!find_line(match, now, &around, &new_line)) {
        judge_silence(match, now, decision);
        return;
    }
    for (bool more = find_next(match, around, new_line, backwards, NULL, &next); more;
         more = backwards && find_next(match, around, new_line, true, &beyond, &next)) {
        if (!backwards && !new_line)
            continue_with_last(match, &next);
        look_at(match, request, next.time, next.duration, new_line, now, decision);
        if (decision->verdict != GPUD_MATCH_WAIT)
            return;
        if (decision->until < until)
            until = decision->until;
        beyond = next.time;
    }
    decision->verdict = GPUD_MATCH_WAIT;
    decision->until = until;
}

void gpud_match_decide(struct gpud_match *match, const struct gpud_match_request *request,
                       int64_t now, struct gpud_match_decision *decision)
{
    *decision = (struct gpud_match_decision){.until = INT64_MAX};
    match->keeps_newest = request->select != GPUD_GROUP_NEXT;
    match->preferred = request->preferred;
    if (request->select != GPUD_GROUP_AT) {
        decide_in_order(match, request, now, decision);
        return;
    }
    look_at(match, request, request->time, 0, false, now, decision);
    if (decision->member < match->count)
        return;
    bool delivers = false, passed = false;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++) {
        delivers |= m->alive;
        passed |= is_behind(match, m, request->time, 0);
    }
    decision->verdict = delivers && !passed ? GPUD_MATCH_GONE : GPUD_MATCH_WAIT;
}

/* Whom the instant waited for in vain. */
static void note_misses(struct gpud_match *match, const struct gpud_match_request *request,
                        const struct gpud_match_decision *decision)
{
    bool loses = may_lose(match, request, decision);
    for (uint32_t i = 0; i < match->count; i++) {
        struct gpud_match_member *m = &match->members[i];
        bool waited = patience(match, request, decision, i) > 0;
        if (waited && loses)
            m->quiet = true;
        else if (waited)
            m->misses++;
        if (waited || (match->mode == GPUD_GROUP_ALL && m->alive && !decision->entries[i]))
            m->missed++;
    }
}

/* Which members are on the time line of an instant that begins one, or is beyond the others' reach.
 */
static void note_sharers(struct gpud_match *match, const struct gpud_match_decision *decision,
                         uint64_t before)
{
    const struct gpud_match_member *p = &match->members[match->preferred];
    bool jump = distance(match->last, before) > reach(match, p);
    if (decision->new_line || jump)
        match->sharers = 0;
    for (uint32_t i = 0; i < match->count; i++) {
        struct gpud_match_member *m = &match->members[i];
        bool shares = m->delivers && distance(m->newest, match->last) <= reach(match, m);
        if (decision->new_line || jump)
            m->in_line = shares;
        if (shares)
            match->sharers |= 1u << i;
    }
}

void gpud_match_commit(struct gpud_match *match, const struct gpud_match_request *request,
                       const struct gpud_match_decision *decision)
{
    struct gpud_match_entry *best = decision->entries[decision->member];
    bool any = match->mode == GPUD_GROUP_ANY, sound = best->kind == GPUD_MATCH_SOUND;
    uint64_t its_time;
    uint32_t at = match->recorded++ % GPUD_MATCH_RECORDS;
    match->records[at].arrival = find_first(match, best, &its_time);
    match->records[at].time = sound ? end_of(best) : decision->time;
    match->records[at].duration = best->duration;
    match->records[at].takers = 0;
    note_misses(match, request, decision);
    for (uint32_t i = 0; i < match->count; i++)
        if (decision->entries[i] && best->kind == GPUD_MATCH_DATA) {
            decision->entries[i]->passed = true;
            match->records[at].takers |= 1u << i;
        }
    uint64_t before = match->last;
    match->last = sound ? end_of(best) : any ? best->time : decision->time;
    note_sharers(match, decision, match->begun ? before : match->last);
    match->begun = true;
    match->lost = false;
    match->last_duration = best->duration;
    match->last_member = decision->member;
    match->chain = decision->member + 1;
    match->key_asked &= best->delta;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
            if (e->kind != GPUD_MATCH_DATA || request->select == GPUD_GROUP_NEWEST)
                e->passed |= !is_apart(match, m, e->time) && match_is_over(match, e);
}

bool gpud_match_skip(struct gpud_match *match, const struct gpud_match_decision *decision)
{
    bool goes_on = match->chain && goes_on_after(&match->members[match->chain - 1], decision->time);
    bool asks = !goes_on && !match->key_asked;
    for (uint32_t i = 0; i < match->count; i++)
        if (decision->entries[i])
            decision->entries[i]->passed = true;
    match->lost |= !goes_on;
    match->key_asked |= asks;
    return asks;
}

const char *gpud_match_describe(enum gpud_match_fault fault)
{
    static const char *const texts[] = {
        [GPUD_MATCH_NO_FAULT] = "",
        [GPUD_MATCH_ABSURD] = "its rate, or its frames' duration, is not believed: a frame can "
                              "last 10 us to 10 s",
        [GPUD_MATCH_OTHER_LINE] =
            "its times are more than a second off those that are handed on, so its frames are left "
            "out: let all senders follow one clock, or restart this one",
        [GPUD_MATCH_AHEAD] = "its times are ahead of those of the preferred member, which is "
                             "waited for: let both senders follow one clock",
        [GPUD_MATCH_OUT_OF_STEP] =
            "its pictures come between those of the member that is handed on, so that a change "
            "from one to the other is a step of a part of a frame: lock both senders to one signal "
            "or clock",
    };
    return texts[fault];
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "group/match.h"

#include <string.h>

/* Instants in a row after which a member is not waited for any more. */
#define MISSES_MAX 3
/* How long an instant waits for a member where it, or ones before it, would be lost otherwise. */
#define GAP_DURATIONS 10
/* Without a rate or durations. */
#define LATENCY_ALL (40 * GPUD_MSEC)
#define LATENCY_ANY (10 * GPUD_MSEC)
/* Of what follows from a rate, which a sender may choose as it likes. */
#define LATENCY_MOST GPUD_SEC
/* Times that differ by more are of two time lines, unless frames last longer. */
#define REACH GPUD_SEC

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

static uint64_t shortest(const struct gpud_match *match)
{
    uint64_t least = 0;
    for (uint32_t i = 0; i < match->count; i++) {
        uint64_t duration = match->members[i].duration;
        if (duration && (!least || duration < least))
            least = duration;
    }
    return least;
}

static uint64_t longest(const struct gpud_match *match)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < match->count; i++)
        if (match->members[i].duration > most)
            most = match->members[i].duration;
    return most;
}

int64_t gpud_match_tolerance(const struct gpud_match *match)
{
    uint64_t duration = shortest(match);
    if (match->wanted_tolerance)
        return match->wanted_tolerance;
    return duration ? (int64_t)((duration - 1) / 2) : 0;
}

int64_t gpud_match_latency(const struct gpud_match *match)
{
    bool all = match->mode == GPUD_GROUP_ALL;
    uint64_t duration = longest(match);
    if (match->wanted_latency)
        return match->wanted_latency;
    if (!duration)
        return all ? LATENCY_ALL : LATENCY_ANY;
    uint64_t latency = all ? 2 * duration : duration / 2;
    return latency < LATENCY_MOST ? (int64_t)latency : LATENCY_MOST;
}

static bool is_one(const struct gpud_match *match, uint64_t a, uint64_t b)
{
    return distance(a, b) <= (uint64_t)gpud_match_tolerance(match);
}

/* a is an earlier instant than b. */
static bool is_before(const struct gpud_match *match, uint64_t a, uint64_t b)
{
    return a < b && !is_one(match, a, b);
}

static uint64_t reach(const struct gpud_match *match)
{
    uint64_t longer = 4 * longest(match), latency = 2 * (uint64_t)gpud_match_latency(match);
    uint64_t most = longer > latency ? longer : latency;
    return most > REACH ? most : REACH;
}

static bool is_apart(const struct gpud_match *match, uint64_t time)
{
    return match->begun && distance(time, match->last) > reach(match);
}

static bool is_pending(const struct gpud_match *match, const struct gpud_match_entry *entry)
{
    return !entry->passed && !is_apart(match, entry->time);
}

/* How many members deliver frames around that time. */
static uint32_t count_around(const struct gpud_match *match, uint64_t time, int64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < match->count; i++) {
        const struct gpud_match_member *m = &match->members[i];
        count += m->alive && m->known && now - m->newest_at <= (int64_t)reach(match) &&
                 distance(m->newest, time) <= reach(match);
    }
    return count;
}

/* Whether the time line of a frame that is apart is the one to follow now. */
static bool is_followed(const struct gpud_match *match, uint64_t time, int64_t now)
{
    uint32_t staying = match->begun ? count_around(match, match->last, now) : 0;
    return staying == 0 || count_around(match, time, now) > staying;
}

/* --- what comes and goes ------------------------------------------------------------------- */

/* The first frame that came for that instant: its arrival, or INT64_MAX, and its time. */
static int64_t find_first(struct gpud_match *match, uint64_t time, uint64_t *its_time)
{
    int64_t first = INT64_MAX;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
            if (is_one(match, e->time, time) && e->arrival < first) {
                first = e->arrival;
                *its_time = e->time;
            }
    for (uint32_t i = 0; i < match->recorded && i < GPUD_MATCH_RECORDS; i++)
        if (is_one(match, match->records[i].time, time) && match->records[i].arrival < first) {
            first = match->records[i].arrival;
            *its_time = match->records[i].time;
        }
    return first;
}

void gpud_match_add(struct gpud_match *match, uint32_t member, struct gpud_match_entry entry)
{
    struct gpud_match_member *m = &match->members[member];
    m->alive = m->delivers = m->known = true;
    m->ended = m->quiet = false;
    m->frozen = entry.frozen;
    m->newest = entry.time;
    m->newest_at = entry.arrival;
    m->duration = entry.duration;
    entry.passed =
        match->begun && !is_apart(match, entry.time) && !is_before(match, match->last, entry.time);
    entry.generation = m->generation;
    match->at_end &= entry.passed;
    uint64_t its_time = entry.time;
    int64_t first = find_first(match, entry.time, &its_time);
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
        if (m->entries[i].passed ||
            (is_apart(match, m->entries[i].time) && !is_followed(match, m->entries[i].time, now)))
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
        if (is_apart(match, e->time) && (full || m->newest_at - e->arrival > (int64_t)reach(match)))
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
        size_t behind = (size_t)(m->entries + m->count - (entry + 1));
        memmove(entry, entry + 1, behind * sizeof(*entry));
        m->count--;
        return what;
    }
    return NULL;
}

/* --- an instant ---------------------------------------------------------------------------- */

/* The member's frame for an instant: the nearest in time. */
static struct gpud_match_entry *find(struct gpud_match *match, struct gpud_match_member *m,
                                     uint64_t time, bool passed_too)
{
    struct gpud_match_entry *nearest = NULL;
    for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
        if ((passed_too || !e->passed) && is_one(match, e->time, time) &&
            (!nearest || distance(e->time, time) < distance(nearest->time, time)))
            nearest = e;
    return nearest;
}

/* Whether it may still deliver that instant, or one before it. */
static bool is_behind(const struct gpud_match *match, const struct gpud_match_member *m,
                      uint64_t time)
{
    if (!m->alive || !m->known)
        return m->alive;
    return is_before(match, m->newest, time) && time - m->newest <= reach(match);
}

static enum gpud_group_state state_of(const struct gpud_match *match,
                                      const struct gpud_match_member *m, uint64_t time)
{
    if (!m->alive)
        return m->ended ? GPUD_GROUP_ENDED : GPUD_GROUP_ABSENT;
    if (m->known && distance(m->newest, time) > reach(match))
        return GPUD_GROUP_APART;
    return is_behind(match, m, time) ? GPUD_GROUP_LATE : GPUD_GROUP_SKIPPED;
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

static int badness(const struct gpud_match_entry *entry)
{
    return 2 * entry->corrupted + entry->frozen;
}

/* ANY: the best frame; ALL: the first. */
static uint32_t choose(const struct gpud_match *match, const struct gpud_match_request *request,
                       struct gpud_match_entry *const entries[])
{
    uint32_t best = match->count, favourite = find_favourite(match, request);
    for (uint32_t i = 0; i < match->count; i++) {
        if (!entries[i])
            continue;
        int worse = best < match->count ? badness(entries[best]) - badness(entries[i]) : 1;
        if (best == match->count ||
            (match->mode == GPUD_GROUP_ANY && (worse > 0 || (worse == 0 && i == favourite))))
            best = i;
    }
    return best;
}

/* Whether instants are missing between the last one and this. */
static bool is_gap(const struct gpud_match *match, uint64_t time, uint64_t duration)
{
    return match->begun && duration && time > match->last &&
           time - match->last > duration + (uint64_t)gpud_match_tolerance(match);
}

/* Whether instants would be lost by handing this one on too early: those before it that a member
 * may still deliver, or itself, of which there is only a broken frame. */
static bool may_lose(const struct gpud_match *match, const struct gpud_match_request *request,
                     const struct gpud_match_decision *found)
{
    return match->mode == GPUD_GROUP_ANY && request->select == GPUD_GROUP_NEXT &&
           (found->gap || found->entries[found->member]->corrupted);
}

/* How long that instant waits for a member that does not have it, from its first frame on; 0: not
 * at all. */
static int64_t patience(const struct gpud_match *match, const struct gpud_match_request *request,
                        const struct gpud_match_decision *found, uint32_t member)
{
    const struct gpud_match_member *m = &match->members[member];
    const struct gpud_match_entry *best = found->entries[found->member];
    int64_t latency = gpud_match_latency(match);
    bool any = match->mode == GPUD_GROUP_ANY;
    if (found->entries[member] || !is_behind(match, m, found->time))
        return 0;
    if (may_lose(match, request, found) && !m->quiet) {
        int64_t longer = GAP_DURATIONS * (int64_t)best->duration;
        longer = longer < LATENCY_MOST ? longer : LATENCY_MOST;
        return longer > latency ? longer : latency;
    }
    bool better =
        best->corrupted || (member == find_favourite(match, request) && found->member != member);
    return m->misses < MISSES_MAX && (!any || better) ? latency : 0;
}

/* Fills the decision with the frames of an instant. TAKE: it is complete, or has waited long
 * enough. */
static void look_at(struct gpud_match *match, const struct gpud_match_request *request,
                    uint64_t time, bool new_line, int64_t now, struct gpud_match_decision *found)
{
    int64_t first = INT64_MAX;
    *found = (struct gpud_match_decision){.time = time, .until = INT64_MAX};
    for (uint32_t i = 0; i < match->count; i++) {
        struct gpud_match_member *m = &match->members[i];
        struct gpud_match_entry *entry = find(match, m, time, request->select == GPUD_GROUP_AT);
        found->entries[i] = entry;
        found->states[i] = entry ? GPUD_GROUP_PRESENT : state_of(match, m, time);
        found->missing += !entry;
        if (entry && entry->arrival < first)
            first = entry->arrival;
    }
    found->member = choose(match, request, found->entries);
    if (found->member == match->count)
        return;
    found->new_line = new_line;
    found->gap = request->select != GPUD_GROUP_AT && !new_line &&
                 is_gap(match, time, found->entries[found->member]->duration);
    int64_t until = first;
    for (uint32_t i = 0; i < match->count; i++) {
        int64_t longer = first + patience(match, request, found, i);
        until = longer > until ? longer : until;
    }
    found->verdict = now >= until ? GPUD_MATCH_TAKE : GPUD_MATCH_WAIT;
    found->until = until;
}

/* The pending instant next to a time: after it, or (backwards) before it. */
static bool find_next(struct gpud_match *match, uint64_t around, bool backwards,
                      const uint64_t *beyond, uint64_t *time)
{
    bool found = false;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++) {
            if (e->passed || distance(e->time, around) > reach(match))
                continue;
            if (beyond && (backwards ? e->time >= *beyond : e->time <= *beyond))
                continue;
            if (!found || (backwards ? e->time > *time : e->time < *time))
                *time = e->time;
            found = true;
        }
    return found;
}

/* A time line with frames to hand on: that of the last instant, else a new one. */
static bool find_line(struct gpud_match *match, int64_t now, uint64_t *around, bool *new_line)
{
    const struct gpud_match_entry *oldest = NULL;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++) {
            if (match->begun && is_pending(match, e)) {
                *around = match->last;
                *new_line = false;
                return true;
            }
            if (!e->passed && is_followed(match, e->time, now) &&
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
        int64_t silent_at = m->newest_at + (int64_t)reach(match) + 1;
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
    uint64_t around, time, beyond = 0;
    bool new_line, backwards = request->select == GPUD_GROUP_NEWEST;
    int64_t until = INT64_MAX;
    if (!find_line(match, now, &around, &new_line)) {
        judge_silence(match, now, decision);
        return;
    }
    for (bool more = find_next(match, around, backwards, NULL, &time); more;
         more = backwards && find_next(match, around, true, &beyond, &time)) {
        look_at(match, request, time, new_line, now, decision);
        if (decision->verdict == GPUD_MATCH_TAKE)
            return;
        if (decision->until < until)
            until = decision->until;
        beyond = time;
    }
    decision->verdict = GPUD_MATCH_WAIT;
    decision->until = until;
}

static void decide_at(struct gpud_match *match, const struct gpud_match_request *request,
                      int64_t now, struct gpud_match_decision *decision)
{
    look_at(match, request, request->time, false, now, decision);
    if (decision->member < match->count)
        return;
    bool delivers = false, passed = false;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++) {
        delivers |= m->alive;
        passed |= is_behind(match, m, request->time);
    }
    decision->verdict = delivers && !passed ? GPUD_MATCH_GONE : GPUD_MATCH_WAIT;
}

void gpud_match_decide(struct gpud_match *match, const struct gpud_match_request *request,
                       int64_t now, struct gpud_match_decision *decision)
{
    *decision = (struct gpud_match_decision){.until = INT64_MAX};
    match->keeps_newest = request->select != GPUD_GROUP_NEXT;
    if (request->select == GPUD_GROUP_AT)
        decide_at(match, request, now, decision);
    else
        decide_in_order(match, request, now, decision);
}

/* Whom the instant waited for in vain. */
static void note_misses(struct gpud_match *match, const struct gpud_match_request *request,
                        const struct gpud_match_decision *decision)
{
    for (uint32_t i = 0; i < match->count; i++) {
        struct gpud_match_member *m = &match->members[i];
        int64_t waited = patience(match, request, decision, i);
        if (waited > 0 && may_lose(match, request, decision))
            m->quiet = true;
        else if (waited > 0)
            m->misses++;
        if (waited > 0 || (match->mode == GPUD_GROUP_ALL && m->alive && !decision->entries[i]))
            m->missed++;
    }
}

void gpud_match_commit(struct gpud_match *match, const struct gpud_match_request *request,
                       const struct gpud_match_decision *decision)
{
    uint64_t its_time;
    int64_t first = find_first(match, decision->time, &its_time);
    uint32_t at = match->recorded++ % GPUD_MATCH_RECORDS;
    match->records[at].time = decision->time;
    match->records[at].arrival = first;
    note_misses(match, request, decision);
    match->begun = true;
    match->last = decision->time;
    for (struct gpud_match_member *m = match->members; m < members_end(match); m++)
        for (struct gpud_match_entry *e = m->entries; e < entries_end(m); e++)
            e->passed |= !is_apart(match, e->time) && !is_before(match, match->last, e->time);
}

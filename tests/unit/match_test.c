/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state machine of a group, walked exhaustively: every order in which a few members deliver,
 * lose, die, come back and end, and in which time passes and the application asks. In every state
 * that is reached the rules of group.h hold. */
#include "support/check.h"

#include "group/group.h"

#define DURATION (20 * GPUD_MSEC)
#define GAP_PATIENCE (10 * DURATION)
#define OFFSET (3 * GPUD_MSEC) /* of each member's times to those of the one before */
#define MEMBERS 3
#define INSTANTS_MAX 5
#define ROOM 2

/* What is walked. */
struct limits {
    enum gpud_group_mode mode;
    uint32_t members;
    unsigned instants, losses, deaths, ends, ticks, flips;
    int64_t tick;
};
static struct limits limits;

/* A state: the machine, and what the test knows besides. */
struct world {
    struct gpud_match match;
    int64_t now;
    struct {
        bool alive, ended;
        unsigned at;        /* the instant that it sends next */
        unsigned delivered; /* the last one */
        bool gave_up;       /* a wait for it at a gap was in vain, and nothing came since */
        int64_t advanced;   /* when its last new frame came */
    } members[MEMBERS];
    int64_t arrival[INSTANTS_MAX + 1]; /* of the first frame; 0: none came */
    unsigned last, newest;
    uint32_t preferred;
    unsigned losses, deaths, ends, ticks, flips;
    bool end_due; /* a member ended, and no other went on */
    unsigned added, taken, dropped;
};

static uint64_t states, handed_on;

/* --- states that were seen -------------------------------------------------------------------- */

#define SEEN_MAX (1u << 21)
static uint64_t *seen;

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash ^= word + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 32);
}

static uint64_t hash_of(const struct world *w)
{
    uint64_t hash = mix(17, (uint64_t)w->now);
    for (uint32_t i = 0; i < limits.members; i++) {
        const struct gpud_match_member *m = &w->match.members[i];
        hash = mix(hash, m->count | (uint64_t)m->alive << 8 | (uint64_t)m->delivers << 9 |
                             (uint64_t)m->known << 10 | (uint64_t)m->quiet << 11 |
                             (uint64_t)m->ended << 12 | (uint64_t)m->misses << 16);
        hash = mix(mix(hash, m->newest), (uint64_t)m->newest_at);
        for (uint32_t k = 0; k < m->count; k++) {
            const struct gpud_match_entry *e = &m->entries[k];
            hash = mix(mix(hash, e->time), (uint64_t)e->arrival);
            hash = mix(hash, (uint64_t)e->passed << 1 | (e->generation == m->generation));
        }
        hash =
            mix(hash, w->members[i].at | (uint64_t)w->members[i].delivered << 16 |
                          (uint64_t)w->members[i].alive << 8 | (uint64_t)w->members[i].ended << 9 |
                          (uint64_t)w->members[i].gave_up << 10);
        hash = mix(hash, (uint64_t)w->members[i].advanced);
    }
    for (uint32_t i = 0; i < w->match.recorded; i++)
        hash = mix(mix(hash, w->match.records[i].time), (uint64_t)w->match.records[i].arrival);
    for (unsigned i = 0; i <= limits.instants; i++)
        hash = mix(hash, (uint64_t)w->arrival[i]);
    hash = mix(hash, w->last | (uint64_t)w->newest << 8 | (uint64_t)w->preferred << 16 |
                         (uint64_t)w->match.at_end << 24);
    hash = mix(hash, w->losses | (uint64_t)w->deaths << 8 | (uint64_t)w->ends << 16 |
                         (uint64_t)w->ticks << 24 | (uint64_t)w->flips << 32 |
                         (uint64_t)w->end_due << 40);
    return hash ? hash : 1;
}

static bool is_new(const struct world *w)
{
    uint64_t hash = hash_of(w);
    for (uint64_t i = hash % SEEN_MAX;; i = (i + 1) % SEEN_MAX) {
        if (seen[i] == hash)
            return false;
        if (seen[i])
            continue;
        seen[i] = hash;
        CHECK(++states < SEEN_MAX / 4 * 3, "too many states");
        return true;
    }
}

/* --- what the machine is asked, and what it may say ------------------------------------------- */

static unsigned instant_of(uint64_t time)
{
    return (unsigned)((time - (uint64_t)GPUD_SEC) / (uint64_t)DURATION);
}

static void drop(struct world *w)
{
    while (gpud_match_drop(&w->match))
        w->dropped++;
    unsigned held = 0;
    for (uint32_t i = 0; i < limits.members; i++) {
        CHECK(w->match.members[i].count <= ROOM, "member %u holds more than it may", i);
        held += w->match.members[i].count;
    }
    CHECK_EQUAL(held + w->taken + w->dropped, w->added);
}

/* Whether the member may deliver an instant, as far as can be known. */
static bool may_deliver(const struct world *w, uint32_t member, unsigned instant)
{
    return w->members[member].alive && w->members[member].delivered < instant;
}

static bool has_pending(const struct world *w, uint32_t member, unsigned instant)
{
    const struct gpud_match_member *m = &w->match.members[member];
    for (uint32_t k = 0; k < m->count; k++)
        if (!m->entries[k].passed && instant_of(m->entries[k].time) == instant)
            return true;
    return false;
}

static unsigned first_pending(const struct world *w)
{
    for (unsigned k = 1; k <= limits.instants; k++)
        for (uint32_t i = 0; i < limits.members; i++)
            if (has_pending(w, i, k))
                return k;
    return 0;
}

/* No instant that a member may still deliver is passed over before the wait for it is over. */
static void check_gap(struct world *w, unsigned instant)
{
    int64_t waited = w->now - w->arrival[instant];
    for (unsigned k = w->last + 1; w->last && k < instant; k++)
        for (uint32_t i = 0; i < limits.members; i++) {
            if (!w->members[i].alive || w->members[i].at > k || w->members[i].gave_up)
                continue; /* it will not deliver it */
            CHECK(waited >= GAP_PATIENCE,
                  "instant %u is lost, which member %u had still to deliver", k, i);
            w->members[i].gave_up = true;
        }
}

static void check_any(struct world *w, const struct gpud_match_decision *d, unsigned instant)
{
    uint32_t preferred = w->preferred;
    check_gap(w, instant);
    CHECK(has_pending(w, d->member, instant), "a frame that was not there");
    if (has_pending(w, preferred, instant))
        CHECK(d->member == preferred, "instant %u is there from the preferred member", instant);
    else if (may_deliver(w, preferred, instant))
        CHECK(w->ticks || w->flips, "instant %u does not wait for the preferred member", instant);
    CHECK_EQUAL(d->gap, w->last && instant > w->last + 1);
}

static void check_all(struct world *w, const struct gpud_match_decision *d, unsigned instant)
{
    int64_t waited = w->now - w->arrival[instant];
    for (uint32_t i = 0; i < limits.members; i++) {
        CHECK_EQUAL(d->entries[i] != NULL, has_pending(w, i, instant));
        CHECK_EQUAL(d->states[i] == GPUD_GROUP_PRESENT, d->entries[i] != NULL);
        if (d->entries[i] || !may_deliver(w, i, instant)) {
            CHECK(d->entries[i] || d->states[i] == (w->members[i].alive   ? GPUD_GROUP_SKIPPED
                                                    : w->members[i].ended ? GPUD_GROUP_ENDED
                                                                          : GPUD_GROUP_ABSENT),
                  "member %u is missing for a wrong reason: %d", i, d->states[i]);
            continue;
        }
        CHECK_EQUAL(d->states[i], GPUD_GROUP_LATE);
        CHECK(waited >= gpud_match_latency(&w->match) || w->match.members[i].misses >= 3,
              "instant %u does not wait for member %u", instant, i);
    }
}

/* Nothing waits longer than it must. */
static void check_wait(const struct world *w, const struct gpud_match_decision *d)
{
    unsigned instant = first_pending(w);
    bool lives = false;
    for (uint32_t i = 0; i < limits.members; i++)
        lives |= w->members[i].alive;
    CHECK(instant || lives || !w->end_due, "the end is not told");
    if (!instant)
        return;
    bool skips = w->last && instant > w->last + 1, gap = skips && limits.mode == GPUD_GROUP_ANY;
    int64_t since = w->arrival[instant], latency = gpud_match_latency(&w->match);
    /* A member that goes on below the instant makes it wait for its next frame. */
    for (uint32_t i = 0; i < limits.members && w->last; i++)
        if (may_deliver(w, i, instant)) {
            int64_t next = w->members[i].advanced + (skips ? 0 : DURATION);
            since = next > since ? next : since;
        }
    int64_t waited = w->now - since;
    CHECK(d->until > w->now && d->until < INT64_MAX, "a wait without an end");
    CHECK(waited < (gap ? GAP_PATIENCE : latency), "instant %u waits on", instant);
    bool worth = false;
    for (uint32_t i = 0; i < limits.members; i++)
        worth |= may_deliver(w, i, instant) && !has_pending(w, i, instant) &&
                 (gap || limits.mode == GPUD_GROUP_ALL || i == w->preferred ||
                  i == w->match.last_member);
    CHECK(worth, "instant %u waits for a member that will not deliver it", instant);
}

static void ask(struct world *w)
{
    struct gpud_match_request next = {.select = GPUD_GROUP_NEXT, .preferred = w->preferred};
    struct gpud_match_decision d;
    gpud_match_decide(&w->match, &next, w->now, &d);
    if (d.verdict == GPUD_MATCH_CLOSED) {
        CHECK(!first_pending(w) && w->end_due, "the end is told before the last instant, or twice");
        w->end_due = false;
        w->match.at_end = false;
        return;
    }
    if (d.verdict == GPUD_MATCH_WAIT) {
        check_wait(w, &d);
        return;
    }
    unsigned instant = instant_of(d.time);
    CHECK(d.verdict == GPUD_MATCH_TAKE && instant == first_pending(w), "not the next instant");
    CHECK(instant > w->last, "instant %u after %u", instant, w->last);
    CHECK_EQUAL(d.new_line, w->last == 0);
    if (limits.mode == GPUD_GROUP_ANY)
        check_any(w, &d, instant);
    else
        check_all(w, &d, instant);
    gpud_match_commit(&w->match, &next, &d);
    handed_on++;
    w->last = instant;
    drop(w);
}

/* --- what may happen -------------------------------------------------------------------------- */

static void deliver(struct world *w, uint32_t member)
{
    unsigned instant = w->members[member].at++;
    w->members[member].delivered = instant;
    if (!w->arrival[instant])
        w->arrival[instant] = w->now;
    if (instant > w->newest)
        w->newest = instant;
    w->members[member].gave_up = false;
    if (instant > w->last)
        w->members[member].advanced = w->now;
    w->end_due &= instant <= w->last;
    w->added++;
    gpud_match_add(&w->match, member,
                   (struct gpud_match_entry){
                       .time = (uint64_t)(GPUD_SEC + instant * DURATION + member * OFFSET),
                       .duration = (uint64_t)DURATION,
                       .arrival = w->now,
                       .what = w});
    drop(w);
}

/* What can happen in a state: to each member, or to all. false: it cannot, or changes nothing. */
enum {
    DELIVER,
    LOSE,
    DIE,
    RETURN,
    RETURN_LATER,
    END,
    OF_MEMBERS,
    ASK = OF_MEMBERS,
    TICK,
    FLIP,
    ALL
};

static bool happen(struct world *w, unsigned what, uint32_t i)
{
    bool sends = i < limits.members && w->members[i].alive && w->members[i].at <= limits.instants;
    switch (what) {
    case DELIVER:
        if (!sends || !gpud_match_has_room(&w->match, i, w->now))
            return false;
        deliver(w, i);
        return true;
    case LOSE:
        if (!sends || w->losses == limits.losses)
            return false;
        w->losses++;
        w->members[i].at++;
        return true;
    case DIE:
    case END:
        if (!w->members[i].alive ||
            (what == DIE ? w->deaths == limits.deaths : w->ends == limits.ends))
            return false;
        w->deaths += what == DIE;
        w->ends += what == END;
        w->members[i].alive = false;
        w->members[i].ended = what == END;
        w->end_due |= what == END;
        gpud_match_leave(&w->match, i, what == END);
        drop(w);
        return true;
    case RETURN:
    case RETURN_LATER:
        if (w->members[i].alive)
            return false;
        w->members[i].alive = true;
        w->members[i].ended = w->members[i].gave_up = false;
        w->members[i].at = w->newest + 1 + (what == RETURN_LATER);
        gpud_match_join(&w->match, i);
        gpud_match_renew(&w->match, i);
        drop(w);
        return true;
    case ASK:
        ask(w);
        return true;
    case TICK:
        if (w->ticks == limits.ticks)
            return false;
        w->ticks++;
        w->now += limits.tick;
        return true;
    case FLIP:
        if (w->flips == limits.flips)
            return false;
        w->flips++;
        w->preferred = (w->preferred + 1) % limits.members;
        return true;
    default:
        return false;
    }
}

/* From the state at this depth of the walk. */
#define DEPTH_MAX 64
static struct world path[DEPTH_MAX];

static void walk(unsigned depth)
{
    size_t used =
        offsetof(struct gpud_match, members) + limits.members * sizeof(struct gpud_match_member);
    size_t rest = offsetof(struct gpud_match, members) + sizeof(path[0].match.members);
    CHECK(depth + 1 < DEPTH_MAX, "a walk without end");
    for (unsigned what = 0; what < ALL; what++)
        for (uint32_t i = 0; i < (what < OF_MEMBERS ? limits.members : 1); i++) {
            /* Without the parts that no member uses. */
            memcpy(&path[depth + 1], &path[depth], used);
            memcpy((char *)&path[depth + 1] + rest, (char *)&path[depth] + rest,
                   sizeof(path[0]) - rest);
            if (happen(&path[depth + 1], what, i) && is_new(&path[depth + 1]))
                walk(depth + 1);
        }
}

/* clang-format off */
static const struct limits searches[] = {
    /* mode, members, instants, losses, deaths, ends, ticks, flips, tick */
    {GPUD_GROUP_ANY, 2, 4, 1, 2, 0, 0, 0, 0},
    {GPUD_GROUP_ANY, 2, 3, 1, 1, 0, 2, 1, DURATION / 2},
    {GPUD_GROUP_ANY, 2, 3, 1, 1, 0, 2, 0, GAP_PATIENCE},
    {GPUD_GROUP_ANY, 2, 3, 0, 1, 1, 1, 0, GAP_PATIENCE},
    {GPUD_GROUP_ANY, 3, 2, 1, 1, 0, 0, 0, 0},
    {GPUD_GROUP_ALL, 2, 3, 1, 1, 1, 1, 0, 2 * DURATION},
    {GPUD_GROUP_ALL, 3, 2, 1, 1, 0, 1, 0, 2 * DURATION},
};
/* clang-format on */

int main(void)
{
    test_alarm(110);
    seen = malloc(SEEN_MAX * sizeof(*seen));
    CHECK(seen, "out of memory");
    struct world *first = &path[0];
    for (unsigned i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
        limits = searches[i];
        memset(path, 0, sizeof(path));
        memset(seen, 0, SEEN_MAX * sizeof(*seen));
        states = handed_on = 0;
        first->now = GPUD_SEC;
        first->match.mode = limits.mode;
        first->match.count = limits.members;
        for (uint32_t m = 0; m < limits.members; m++) {
            first->match.members[m].room = ROOM;
            first->members[m].at = 1;
        }
        walk(0);
        CHECK(states > 1000 && handed_on > 1000, "only %llu states", (unsigned long long)states);
        SAY("%8llu states, %8llu instants handed on: %s, %u members, %u instants, %u losses, "
            "%u deaths, %u ends, %u times of %d ms, %u changes of the preferred one",
            (unsigned long long)states, (unsigned long long)handed_on,
            limits.mode == GPUD_GROUP_ANY ? "ANY" : "ALL", limits.members, limits.instants,
            limits.losses, limits.deaths, limits.ends, limits.ticks, (int)(limits.tick / GPUD_MSEC),
            limits.flips);
    }
    free(seen);
    return 0;
}

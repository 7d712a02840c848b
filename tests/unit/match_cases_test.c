/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state machine of a group, case by case: time lines that begin anew, members that are late,
 * frames that are broken, history, rates that are no whole milliseconds. */
#include "support/check.h"

#include "group/match.h"

#define DURATION (20 * GPUD_MSEC)
#define HOUR (3600 * GPUD_SEC)

static struct gpud_match match;
static int64_t now;
static int marks[8]; /* what the frames of each member are */

static void open_match(enum gpud_group_mode mode, uint32_t count, uint32_t history)
{
    memset(&match, 0, sizeof(match));
    match.mode = mode;
    match.count = count;
    match.history = history;
    for (uint32_t i = 0; i < count; i++)
        match.members[i].room = 4;
    now = HOUR;
}

static void drop(void)
{
    while (gpud_match_drop(&match))
        continue;
}

static void add_as(uint32_t member, int64_t time, uint64_t duration, bool corrupted)
{
    gpud_match_add(&match, member,
                   (struct gpud_match_entry){.time = (uint64_t)time,
                                             .duration = duration,
                                             .arrival = now,
                                             .what = &marks[member],
                                             .corrupted = corrupted});
    drop();
}

static void add(uint32_t member, int64_t time)
{
    add_as(member, time, (uint64_t)DURATION, false);
}

static struct gpud_match_decision decide(enum gpud_group_select select, int64_t time,
                                         uint32_t preferred)
{
    struct gpud_match_request request = {select, preferred, (uint64_t)time};
    struct gpud_match_decision decision;
    gpud_match_decide(&match, &request, now, &decision);
    if (decision.verdict == GPUD_MATCH_TAKE && select != GPUD_GROUP_AT) {
        gpud_match_commit(&match, &request, &decision);
        drop();
    }
    return decision;
}

static struct gpud_match_decision next(void)
{
    return decide(GPUD_GROUP_NEXT, 0, 0);
}

static void takes_at(int line, struct gpud_match_decision decision, int64_t time, uint32_t member,
                     uint32_t missing, bool discontinuity)
{
    if (decision.verdict != GPUD_MATCH_TAKE)
        FAIL("(line %d) nothing is taken: %d", line, decision.verdict);
    if (decision.time != (uint64_t)time || decision.member != member ||
        decision.missing != missing || (decision.gap || decision.new_line) != discontinuity)
        FAIL("(line %d) the instant %llu of member %u, %u missing, %scontinuous", line,
             (unsigned long long)decision.time, decision.member, decision.missing,
             decision.gap || decision.new_line ? "dis" : "");
}
#define TAKES(...) takes_at(__LINE__, __VA_ARGS__)

static void waits_at(int line, struct gpud_match_decision decision, int64_t until)
{
    if (decision.verdict != GPUD_MATCH_WAIT || decision.until != until)
        FAIL("(line %d) verdict %d until %lld, not a wait until %lld", line, decision.verdict,
             (long long)(decision.until - now), (long long)(until - now));
}
#define WAITS(...) waits_at(__LINE__, __VA_ARGS__)

/* --- two senders of one programme ------------------------------------------------------------- */

/* Both go on in step until an instant is handed on. */
static int64_t in_step(enum gpud_group_mode mode, uint32_t count, int64_t from)
{
    open_match(mode, count, 0);
    for (int64_t time = from; time < from + 3 * DURATION; time += DURATION, now += DURATION) {
        for (uint32_t i = 0; i < count; i++)
            add(i, time);
        TAKES(next(), time, 0, 0, time == from);
    }
    return from + 2 * DURATION;
}

static void frozen_main(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0), latency = gpud_match_latency(&match);
    CHECK_EQUAL(latency, DURATION / 2);
    /* It is waited for three times, then not any more. */
    for (int i = 1; i <= 5; i++) {
        add(1, last + i * DURATION);
        if (i <= 3) {
            WAITS(next(), now + latency);
            now += latency;
        }
        TAKES(next(), last + i * DURATION, 1, 1, false);
        now += DURATION;
    }
    CHECK_EQUAL(match.members[0].missed, 3);
    /* What it has in store is old, and too late. */
    for (int i = 1; i <= 4; i++)
        add(0, last + i * DURATION);
    WAITS(next(), now - DURATION + GPUD_SEC + 1);
    /* In time again: from the next instant on it is waited for. */
    add(0, last + 6 * DURATION);
    TAKES(next(), last + 6 * DURATION, 0, 1, false);
    add(1, last + 6 * DURATION);
    add(1, last + 7 * DURATION);
    WAITS(next(), now + latency);
    add(0, last + 7 * DURATION);
    TAKES(next(), last + 7 * DURATION, 0, 0, false);
}

/* What a main had in store while it stood still for seconds: it does not keep its slots. */
static void old_store(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0);
    for (int i = 1; i <= 100; i++, now += DURATION) {
        add(1, last + i * DURATION);
        now += gpud_match_latency(&match);
        TAKES(next(), last + i * DURATION, 1, 1, false);
        now -= gpud_match_latency(&match);
    }
    for (int i = 1; i <= 3; i++)
        add(0, last + i * DURATION);
    CHECK_EQUAL(match.members[0].count, 3);
    for (int i = 101; i <= 160; i++, now += DURATION) {
        add(1, last + i * DURATION);
        add(0, last + i * DURATION);
        TAKES(next(), last + i * DURATION, 0, 0, false);
    }
    CHECK_EQUAL(match.members[0].count, 0);
}

static void add_frozen(uint32_t member, int64_t time)
{
    gpud_match_add(&match, member,
                   (struct gpud_match_entry){.time = (uint64_t)time,
                                             .duration = DURATION,
                                             .arrival = now,
                                             .what = &marks[member],
                                             .frozen = true});
    drop();
}

/* A picture that stands still: the other one is taken and waited for, no longer than any preferred
 * one, and where there is no other one, this one is not waited with. */
static void still_main(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0), latency = gpud_match_latency(&match);
    add_frozen(0, last + DURATION);
    WAITS(next(), now + latency);
    add(1, last + DURATION);
    TAKES(next(), last + DURATION, 1, 0, false);
    add(1, last + 2 * DURATION);
    TAKES(next(), last + 2 * DURATION, 1, 1, false);
    add_frozen(0, last + 3 * DURATION);
    now += latency;
    TAKES(next(), last + 3 * DURATION, 0, 1, false);
    /* Both: the preferred one again. */
    add_frozen(1, last + 4 * DURATION);
    WAITS(next(), now + latency);
    add_frozen(0, last + 4 * DURATION);
    TAKES(next(), last + 4 * DURATION, 0, 0, false);
    /* A broken frame is worse than one that stands still. */
    add_frozen(0, last + 5 * DURATION);
    add_as(1, last + 5 * DURATION, DURATION, true);
    TAKES(next(), last + 5 * DURATION, 0, 0, false);
    add_frozen(1, last + 6 * DURATION);
    add(0, last + 6 * DURATION);
    TAKES(next(), last + 6 * DURATION, 0, 0, false);
    gpud_match_leave(&match, 1, false);
    add_frozen(0, last + 7 * DURATION);
    TAKES(next(), last + 7 * DURATION, 0, 1, false);
}

/* A frame after its instant was handed on, but in time: it is waited for again. */
static void late_main(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0), latency = gpud_match_latency(&match);
    for (int i = 1; i <= 4; i++) {
        add(1, last + i * DURATION);
        now += i <= 3 ? latency : 0;
        TAKES(next(), last + i * DURATION, 1, 1, false);
    }
    now += latency;
    add(0, last + 4 * DURATION);
    CHECK_EQUAL(match.members[0].behind, latency);
    add(1, last + 5 * DURATION);
    WAITS(next(), now + latency);
    now += latency;
    TAKES(next(), last + 5 * DURATION, 1, 1, false);
    now += 1;
    add(0, last + 5 * DURATION); /* one ns too late */
    CHECK_EQUAL(match.members[0].misses, 1);
}

static void broken_frames(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0), patience = 10 * DURATION;
    add_as(0, last + DURATION, (uint64_t)DURATION, true);
    WAITS(next(), now + patience);
    add(1, last + DURATION);
    TAKES(next(), last + DURATION, 1, 0, false);
    add(0, last + DURATION);
    add_as(1, last + 2 * DURATION, (uint64_t)DURATION, true);
    add(0, last + 2 * DURATION);
    TAKES(decide(GPUD_GROUP_NEXT, 0, 1), last + 2 * DURATION, 0, 0, false);
    last += DURATION;
    /* Better a broken one than none. */
    add_as(0, last + 2 * DURATION, (uint64_t)DURATION, true);
    now += patience;
    TAKES(next(), last + 2 * DURATION, 0, 1, false);
    /* And of two broken ones the preferred. */
    add_as(1, last + 3 * DURATION, (uint64_t)DURATION, true);
    add_as(0, last + 3 * DURATION, (uint64_t)DURATION, true);
    TAKES(next(), last + 3 * DURATION, 0, 0, false);
}

/* The main begins a time line of its own: the backup goes on, and the main is not taken until it
 * alone is left. */
static void main_restarts_at_zero(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, HOUR);
    gpud_match_leave(&match, 0, false);
    gpud_match_join(&match, 0);
    gpud_match_renew(&match, 0);
    for (int i = 1; i <= 20; i++, now += DURATION) {
        CHECK(gpud_match_has_room(&match, 0, now), "frames that are apart are kept for ever");
        add(0, i * DURATION);
        add(1, last + i * DURATION);
        TAKES(next(), last + i * DURATION, 1, 1, false);
        CHECK(decide(GPUD_GROUP_NEXT, 0, 0).verdict == GPUD_MATCH_WAIT, "two time lines at once");
    }
    gpud_match_leave(&match, 1, false);
    add(0, 21 * DURATION);
    struct gpud_match_decision first = next();
    CHECK(first.verdict == GPUD_MATCH_TAKE && first.new_line && first.member == 0,
          "the main alone is not followed");
    /* What it had in store on the way, in order. */
    for (uint64_t time = first.time + (uint64_t)DURATION; time <= 21 * (uint64_t)DURATION;
         time += (uint64_t)DURATION)
        TAKES(next(), (int64_t)time, 0, 1, false);
    /* The backup comes back with the old time line: nothing steps back to it. */
    gpud_match_join(&match, 1);
    add(1, last + 25 * DURATION);
    add(0, 22 * DURATION);
    TAKES(next(), 22 * DURATION, 0, 1, false);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "a step back to the old time line");
}

/* What waits to be handed on does not make room for frames that are apart. */
static void apart_and_pending(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, HOUR);
    add(0, last + DURATION);
    for (int i = 0; i < 6; i++) {
        CHECK(gpud_match_has_room(&match, 0, now), "frames that are apart are kept for ever");
        add(0, i * DURATION);
    }
    add(1, last + DURATION);
    TAKES(next(), last + DURATION, 0, 0, false);
    /* Nor do those before what has passed, where there is less room than the history wants. */
    match.history = 4;
    match.members[0].room = 2;
    drop();
    add(0, last + 2 * DURATION);
    add(1, last + 2 * DURATION);
    TAKES(next(), last + 2 * DURATION, 0, 0, false);
    add(0, 6 * DURATION);
    CHECK_EQUAL(match.members[0].count, 2);
    CHECK(!match.members[0].entries[0].passed, "what has passed stays, and others go");
    /* The first time line is that of the first frame. */
    open_match(GPUD_GROUP_ANY, 2, 0);
    add(0, HOUR);
    now++;
    add(1, 0);
    TAKES(next(), HOUR, 0, 1, true);
}

/* Both begin anew, the one a little earlier: the instants before the other's first are not lost. */
static void both_restart_at_zero(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, HOUR);
    add(0, 0);
    add(0, DURATION);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "followed while the other is in step");
    add(1, last + DURATION);
    TAKES(next(), last + DURATION, 1, 1, false);
    add(1, 0);
    TAKES(next(), 0, 0, 0, true);
    TAKES(next(), DURATION, 0, 1, false);
}

/* A frozen member does not hold up a new time line for longer than a second. */
static void restart_beside_a_frozen_one(void)
{
    in_step(GPUD_GROUP_ANY, 2, HOUR);
    int64_t newest = now - DURATION;
    add(0, 0);
    WAITS(next(), newest + GPUD_SEC + 1);
    now = newest + GPUD_SEC + 1;
    TAKES(next(), 0, 0, 1, true);
}

/* A pause of ten seconds is no reason to wait. */
static void pause_of_both(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0);
    now += 10 * GPUD_SEC;
    add(1, last + 10 * GPUD_SEC);
    struct gpud_match_decision first = next();
    TAKES(first, last + 10 * GPUD_SEC, 1, 1, true);
    add(0, last + 10 * GPUD_SEC);
    add(0, last + 10 * GPUD_SEC + DURATION);
    TAKES(next(), last + 10 * GPUD_SEC + DURATION, 0, 1, false);
}

/* An instant behind missing ones waits for a member that may have them, but once only. */
static void gaps_beside_a_frozen_one(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0), patience = 10 * DURATION;
    for (int round = 0; round < 3; round++) {
        last += 2 * DURATION;
        add(0, last);
        WAITS(next(), now + patience);
        now += patience;
        TAKES(next(), last, 0, 1, true);
        last += 2 * DURATION;
        add(0, last);
        TAKES(next(), last, 0, 1, true);
        /* It lives, or connects again. */
        if (round == 0) {
            add(1, 3 * DURATION);
        } else {
            gpud_match_leave(&match, 1, false);
            gpud_match_join(&match, 1);
        }
    }
}

static void ends(void)
{
    in_step(GPUD_GROUP_ANY, 2, 0);
    gpud_match_leave(&match, 0, true);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "the end, and the backup sends on");
    gpud_match_leave(&match, 1, false);
    CHECK(next().verdict == GPUD_MATCH_CLOSED, "no end after the last one is gone");
    match.at_end = false;
    CHECK(next().verdict == GPUD_MATCH_WAIT, "the end is told twice");
    /* The stream does not end by a death, nor by an EOS while another member delivers. */
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0);
    gpud_match_leave(&match, 1, true);
    add(0, last + DURATION);
    TAKES(next(), last + DURATION, 0, 1, false);
    gpud_match_leave(&match, 0, false);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "a death is told as the end");
    /* One that is stopped does not keep the end of the other for ever. */
    in_step(GPUD_GROUP_ANY, 2, 0);
    gpud_match_leave(&match, 0, true);
    now += 2 * GPUD_SEC;
    CHECK(next().verdict == GPUD_MATCH_CLOSED, "a stopped member holds up the end");
}

/* Ten minutes of 59.94 pictures a second, with times that are cut to µs by the one and to ms by the
 * other, which is up to 5 ms off. */
static void uneven_rate(void)
{
    uint64_t duration = 1001 * (uint64_t)GPUD_SEC / 60000;
    open_match(GPUD_GROUP_ANY, 2, 0);
    for (uint64_t n = 0; n < 36000; n++, now += (int64_t)duration) {
        uint64_t exact = n * 1001 * (uint64_t)GPUD_SEC / 60000;
        uint64_t jitter = n * 7919 % (5 * (uint64_t)GPUD_MSEC);
        add_as(1, (int64_t)((exact + jitter) / 1000000 * 1000000), duration, false);
        if (n / 1000 % 2 == 0)
            add_as(0, (int64_t)(exact / 1000 * 1000), duration, false);
        else if (n % 1000 == 0)
            gpud_match_leave(&match, 0, false);
        struct gpud_match_decision decision = next();
        CHECK(decision.verdict == GPUD_MATCH_TAKE, "picture %llu is lost", (unsigned long long)n);
        CHECK(n == 0 || (!decision.gap && !decision.new_line), "a gap at picture %llu",
              (unsigned long long)n);
        CHECK_EQUAL(decision.member, n / 1000 % 2);
        CHECK(next().verdict == GPUD_MATCH_WAIT, "picture %llu comes twice", (unsigned long long)n);
    }
}

/* --- cameras in step -------------------------------------------------------------------------- */

static void tolerance(void)
{
    open_match(GPUD_GROUP_ALL, 2, 0);
    add(0, 0);
    add(1, DURATION / 2); /* as near to the next instant */
    CHECK_EQUAL(gpud_match_tolerance(&match), DURATION / 2 - 1);
    TAKES(next(), 0, 0, 1, true);
    add(0, DURATION);
    TAKES(next(), DURATION / 2, 1, 1, false);
    open_match(GPUD_GROUP_ALL, 2, 0);
    add(0, 0);
    add(1, DURATION / 2 - 1);
    TAKES(next(), 0, 0, 0, true);
    CHECK_EQUAL(match.members[1].offset, DURATION / 2 - 1);
    /* A frame belongs to one instant only, however near the next one is. */
    open_match(GPUD_GROUP_ALL, 2, 2);
    add(0, 0);
    add(1, 9 * GPUD_MSEC);
    TAKES(next(), 0, 0, 0, true);
    add(0, 11 * GPUD_MSEC);
    now += 2 * DURATION;
    TAKES(next(), 11 * GPUD_MSEC, 0, 1, false);
    /* Without a rate only equal times are one instant. */
    open_match(GPUD_GROUP_ALL, 2, 0);
    add_as(0, 5, 0, false);
    add_as(1, 5, 0, false);
    TAKES(next(), 5, 0, 0, true);
    CHECK_EQUAL(gpud_match_latency(&match), 40 * GPUD_MSEC);
    /* Of a rate that a sender made up nothing waits for long. */
    open_match(GPUD_GROUP_ANY, 2, 0);
    add_as(0, 5, (uint64_t)HOUR, false);
    CHECK_EQUAL(gpud_match_latency(&match), GPUD_SEC);
}

/* Half the rate: every second instant has both. */
static void two_rates(void)
{
    open_match(GPUD_GROUP_ALL, 2, 0);
    for (int i = 0; i < 10; i++, now += DURATION) {
        if (i % 2 == 0)
            add_as(1, i * DURATION, 2 * (uint64_t)DURATION, false);
        add(0, i * DURATION);
        struct gpud_match_decision decision = next();
        if (i % 2 && decision.verdict == GPUD_MATCH_WAIT) {
            now = decision.until;
            decision = next();
        }
        CHECK(decision.verdict == GPUD_MATCH_TAKE, "instant %d is not handed on", i);
        CHECK_EQUAL(decision.missing, i % 2);
    }
}

/* Three go over to other times: a member whose clock was wrong from the start is left behind. */
static void majority(void)
{
    open_match(GPUD_GROUP_ALL, 4, 0);
    add(0, HOUR);
    TAKES(next(), HOUR, 0, 3, true);
    for (uint32_t i = 1; i < 4; i++)
        add(i, 0);
    struct gpud_match_decision decision = next();
    TAKES(decision, 0, 1, 1, true);
    CHECK_EQUAL(decision.states[0], GPUD_GROUP_APART);
    for (int i = 1; i < 10; i++, now += DURATION) {
        for (uint32_t m = 0; m < 4; m++)
            add(m, (m == 0 ? HOUR : 0) + i * DURATION);
        TAKES(next(), i * DURATION, 1, 1, false);
        CHECK(next().verdict == GPUD_MATCH_WAIT, "the wrong clock is followed");
    }
}

static void newest(void)
{
    open_match(GPUD_GROUP_ALL, 2, 0);
    for (int i = 0; i < 4; i++)
        add(0, i * DURATION);
    for (int i = 0; i < 3; i++)
        add(1, i * DURATION);
    /* The third is complete, the fourth may become so. */
    TAKES(decide(GPUD_GROUP_NEWEST, 0, 0), 2 * DURATION, 0, 0, true);
    CHECK_EQUAL(match.members[1].count, 0);
    WAITS(decide(GPUD_GROUP_NEWEST, 0, 0), now + 2 * DURATION);
    /* Frames make room for newer ones. */
    for (int i = 4; i < 9; i++) {
        CHECK(gpud_match_has_room(&match, 0, now), "a full member takes no newer frame");
        add(0, i * DURATION);
    }
    now += 2 * DURATION;
    TAKES(decide(GPUD_GROUP_NEWEST, 0, 0), 8 * DURATION, 0, 1, true);
    /* In order, its frames wait at the sender. */
    next();
    for (int i = 9; i < 13; i++)
        add(0, i * DURATION);
    CHECK(!gpud_match_has_room(&match, 0, now), "a full member takes a frame, and loses one");
}

static void history(void)
{
    open_match(GPUD_GROUP_ALL, 2, 3);
    for (int i = 0; i < 8; i++, now += DURATION) {
        add(0, i * DURATION);
        add(1, i * DURATION + 1000);
        TAKES(next(), i * DURATION, 0, 0, i == 0);
    }
    CHECK_EQUAL(match.members[0].count, 3);
    for (int again = 0; again < 2; again++)
        for (int i = 5; i < 8; i++)
            TAKES(decide(GPUD_GROUP_AT, i * DURATION + 5000, 0), i * DURATION + 5000, 0, 0, false);
    CHECK(decide(GPUD_GROUP_AT, 4 * DURATION, 0).verdict == GPUD_MATCH_GONE, "an old instant");
    CHECK(decide(GPUD_GROUP_AT, 8 * DURATION, 0).verdict == GPUD_MATCH_WAIT, "one to come");
    add(0, 8 * DURATION);
    WAITS(decide(GPUD_GROUP_AT, 8 * DURATION, 0), now + 2 * DURATION);
    now += 2 * DURATION;
    TAKES(decide(GPUD_GROUP_AT, 8 * DURATION, 0), 8 * DURATION, 0, 1, false);
    /* It was read, and is still to be handed on. */
    TAKES(next(), 8 * DURATION, 0, 1, false);
    /* The nearest one. */
    match.wanted_tolerance = 15 * GPUD_MSEC;
    struct gpud_match_decision between = decide(GPUD_GROUP_AT, 7 * DURATION + 8 * GPUD_MSEC, 0);
    CHECK(between.verdict == GPUD_MATCH_TAKE && between.entries[0]->time == 7 * (uint64_t)DURATION,
          "not the nearest frame");
    match.wanted_tolerance = 0;
    /* Another format: what has passed goes. */
    gpud_match_renew(&match, 0);
    drop();
    CHECK_EQUAL(match.members[0].count, 0);
    CHECK_EQUAL(match.members[1].count, 3);
    /* A history as long as there is room makes room. */
    open_match(GPUD_GROUP_ALL, 1, 4);
    for (int i = 0; i < 9; i++) {
        CHECK(gpud_match_has_room(&match, 0, now), "history keeps new frames out");
        add(0, i * DURATION);
        TAKES(next(), i * DURATION, 0, 0, i == 0);
    }
}

int main(void)
{
    frozen_main();
    old_store();
    still_main();
    late_main();
    broken_frames();
    main_restarts_at_zero();
    apart_and_pending();
    both_restart_at_zero();
    restart_beside_a_frozen_one();
    pause_of_both();
    gaps_beside_a_frozen_one();
    ends();
    uneven_rate();
    tolerance();
    two_rates();
    majority();
    newest();
    history();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state machine of a group, case by case: time lines that begin anew, members that are late,
 * frames that are broken, history, rates that are no whole milliseconds. */
#include "support/check.h"

#include "group/group.h"

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

/* It arrives now. */
static void put(uint32_t member, struct gpud_match_entry entry)
{
    entry.arrival = now;
    entry.what = entry.what ? entry.what : &marks[member];
    gpud_match_add(&match, member, entry);
    drop();
}

static void add_as(uint32_t member, int64_t time, uint64_t duration, bool corrupted)
{
    put(member, (struct gpud_match_entry){
                    .time = (uint64_t)time, .duration = duration, .corrupted = corrupted});
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
/* A frame that is handed on as it comes. */
#define PASSES(member, time, missing, discontinuity) \
    (add(member, time), TAKES(next(), time, member, missing, discontinuity))

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

static void add_frozen(uint32_t member, int64_t time)
{
    put(member,
        (struct gpud_match_entry){.time = (uint64_t)time, .duration = DURATION, .frozen = true});
}

/* It goes on with what comes after the last instant, and repeats none, though it is more than a
 * second behind. */
static void late_and_broken(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, 0), end = last + 2 * GPUD_SEC, time = last;
    while (last < end) {
        last += DURATION;
        PASSES(0, last, 1, false);
    }
    gpud_match_leave(&match, 0, true);
    now += GPUD_SEC;
    while (time < end) {
        time += DURATION;
        add(1, time);
        CHECK(next().verdict != GPUD_MATCH_TAKE, "%lld is handed on twice", (long long)time);
    }
    PASSES(1, end + DURATION, 1, false);

    last = in_step(GPUD_GROUP_ANY, 2, 0);
    int64_t latency = gpud_match_latency(&match);
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
    PASSES(0, last + 6 * DURATION, 1, false);
    add(1, last + 6 * DURATION);
    add(1, last + 7 * DURATION);
    WAITS(next(), now + latency);
    PASSES(0, last + 7 * DURATION, 0, false);

    /* What a main had in store while it stood still for seconds: it does not keep its slots. */
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    for (int i = 1; i <= 100; i++, now += DURATION) {
        add(1, last + i * DURATION);
        now += gpud_match_latency(&match);
        TAKES(next(), last + i * DURATION, 1, 1, false);
        now -= gpud_match_latency(&match);
    }
    for (int i = 1; i <= 3; i++)
        add(0, last + i * DURATION);
    CHECK_EQUAL(match.members[0].count, 0);
    for (int i = 101; i <= 160; i++, now += DURATION) {
        add(1, last + i * DURATION);
        PASSES(0, last + i * DURATION, 0, false);
    }
    CHECK_EQUAL(match.members[0].count, 0);

    /* A picture that stands still: the other one is taken and waited for, no longer than any
     * preferred one, and where there is no other one, this one is not waited with. */
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    latency = gpud_match_latency(&match);
    add_frozen(0, last + DURATION);
    WAITS(next(), now + latency);
    PASSES(1, last + DURATION, 0, false);
    PASSES(1, last + 2 * DURATION, 1, false);
    add_frozen(0, last + 3 * DURATION);
    now += latency;
    TAKES(next(), last + 3 * DURATION, 0, 1, false);
    /* Both: the preferred one again. */
    now += DURATION - latency;
    add_frozen(1, last + 4 * DURATION);
    WAITS(next(), now + latency);
    add_frozen(0, last + 4 * DURATION);
    TAKES(next(), last + 4 * DURATION, 0, 0, false);
    /* A broken frame is worse than one that stands still. */
    add_frozen(0, last + 5 * DURATION);
    add_as(1, last + 5 * DURATION, DURATION, true);
    TAKES(next(), last + 5 * DURATION, 0, 0, false);
    add_frozen(1, last + 6 * DURATION);
    PASSES(0, last + 6 * DURATION, 0, false);
    gpud_match_leave(&match, 1, false);
    add_frozen(0, last + 7 * DURATION);
    TAKES(next(), last + 7 * DURATION, 0, 1, false);

    /* A frame after its instant was handed on, but in time: it is waited for again. */
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    latency = gpud_match_latency(&match);
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

    int64_t patience = 10 * DURATION;
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    add_as(0, last + DURATION, (uint64_t)DURATION, true);
    WAITS(next(), now + patience);
    PASSES(1, last + DURATION, 0, false);
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
static void time_lines(void)
{
    int64_t last = in_step(GPUD_GROUP_ANY, 2, HOUR);
    gpud_match_leave(&match, 0, false);
    gpud_match_join(&match, 0);
    gpud_match_renew(&match, 0);
    for (int i = 1; i <= 20; i++, now += DURATION) {
        CHECK(gpud_match_has_room(&match, 0, now), "frames that are apart are kept for ever");
        add(0, i * DURATION);
        PASSES(1, last + i * DURATION, 1, false);
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
    PASSES(0, 22 * DURATION, 1, false);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "a step back to the old time line");

    /* What waits to be handed on does not make room for frames that are apart. */
    last = in_step(GPUD_GROUP_ANY, 2, HOUR);
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

    /* Both begin anew, the one a little earlier: the instants before the other's first are not
     * lost. */
    last = in_step(GPUD_GROUP_ANY, 2, HOUR);
    add(0, 0);
    add(0, DURATION);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "followed while the other is in step");
    PASSES(1, last + DURATION, 1, false);
    add(1, 0);
    TAKES(next(), 0, 0, 0, true);
    TAKES(next(), DURATION, 0, 1, false);

    /* A frozen member does not hold up a new time line for longer than a second. */
    in_step(GPUD_GROUP_ANY, 2, HOUR);
    int64_t newest = now - DURATION;
    add(0, 0);
    WAITS(next(), newest + GPUD_SEC + 1);
    now = newest + GPUD_SEC + 1;
    TAKES(next(), 0, 0, 1, true);

    /* A pause of ten seconds is no reason to wait. */
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    now += 10 * GPUD_SEC;
    add(1, last + 10 * GPUD_SEC);
    first = next();
    TAKES(first, last + 10 * GPUD_SEC, 1, 1, true);
    add(0, last + 10 * GPUD_SEC);
    PASSES(0, last + 10 * GPUD_SEC + DURATION, 1, false);

    /* An instant behind missing ones waits for a member that may have them, but once only. */
    int64_t patience = 10 * DURATION;
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    for (int round = 0; round < 3; round++) {
        last += 2 * DURATION;
        add(0, last);
        WAITS(next(), now + patience);
        now += patience;
        TAKES(next(), last, 0, 1, true);
        last += 2 * DURATION;
        PASSES(0, last, 1, true);
        /* It lives, or connects again. */
        if (round == 0) {
            add(1, 3 * DURATION);
        } else {
            gpud_match_leave(&match, 1, false);
            gpud_match_join(&match, 1);
        }
    }

    in_step(GPUD_GROUP_ANY, 2, 0);
    gpud_match_leave(&match, 0, true);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "the end, and the backup sends on");
    gpud_match_leave(&match, 1, false);
    CHECK(next().verdict == GPUD_MATCH_CLOSED, "no end after the last one is gone");
    match.at_end = false;
    CHECK(next().verdict == GPUD_MATCH_WAIT, "the end is told twice");
    /* The stream does not end by a death, nor by an EOS while another member delivers. */
    last = in_step(GPUD_GROUP_ANY, 2, 0);
    gpud_match_leave(&match, 1, true);
    PASSES(0, last + DURATION, 1, false);
    gpud_match_leave(&match, 0, false);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "a death is told as the end");
    /* One that is stopped does not keep the end of the other for ever. */
    in_step(GPUD_GROUP_ANY, 2, 0);
    gpud_match_leave(&match, 0, true);
    now += 2 * GPUD_SEC;
    CHECK(next().verdict == GPUD_MATCH_CLOSED, "a stopped member holds up the end");

    /* Ten minutes of 59.94 pictures a second, with times that are cut to µs by the one and to ms by
     * the other, which is up to 5 ms off. */
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

/* A clock that runs, with senders that each say when they send what. */
struct sender {
    int64_t every, phase; /* between frames; of the first one's arrival and time */
    int64_t ahead;        /* its times are */
    uint64_t duration;    /* what it says */
    int64_t from, until;  /* when it sends */
    unsigned handed, jumps;
};

/* Runs for so long; each ms frames arrive and the application asks. */
static void run(struct sender *senders, uint32_t count, int64_t until, uint32_t preferred)
{
    int64_t begun = now, last = -1;
    for (; now < begun + until; now += GPUD_MSEC) {
        int64_t at = now - begun;
        for (uint32_t i = 0; i < count; i++) {
            struct sender *s = &senders[i];
            if (at < s->from || at >= s->until || (at - s->phase) % s->every)
                continue;
            if (gpud_match_has_room(&match, i, now))
                add_as(i, HOUR + at + s->ahead, s->duration, false);
        }
        for (;;) {
            struct gpud_match_decision got = decide(GPUD_GROUP_NEXT, 0, preferred);
            if (got.verdict != GPUD_MATCH_TAKE)
                break;
            senders[got.member].handed++;
            senders[got.member].jumps += got.gap || (got.new_line && last >= 0);
            last = got.member;
        }
    }
}

#define MS(n) ((n)*GPUD_MSEC)
#define ALWAYS .until = 100 * GPUD_SEC

/* A backup without a rate, or with one that is not its own, that sends one picture a second ahead
 * of the main's: it takes none of them away. */
static void by_a_clock(void)
{
    static const int64_t leads[] = {MS(10), MS(50), MS(300), MS(310), MS(950)};
    for (unsigned i = 0; i < 2 * sizeof(leads) / sizeof(leads[0]); i++) {
        struct sender senders[] = {
            {.every = MS(40), .duration = MS(40), ALWAYS},
            {.every = MS(1000), .ahead = leads[i / 2], .from = MS(100), ALWAYS}};
        senders[1].duration = i % 2 ? GPUD_SEC : 0;
        open_match(GPUD_GROUP_ANY, 2, 0);
        run(senders, 2, 10 * GPUD_SEC, 0);
        CHECK(senders[0].handed >= 249, "%u of the main's 250 frames beside a slate %d ms ahead",
              senders[0].handed, (int)(leads[i / 2] / GPUD_MSEC));
        CHECK(senders[1].handed <= 10, "%u of the slate", senders[1].handed);
    }

    /* The main says nothing for two seconds; the backup is on another time line. */
    open_match(GPUD_GROUP_ANY, 2, 0);
    struct sender senders[] = {
        {.every = MS(20), .duration = MS(20), .until = 2 * GPUD_SEC},
        {.every = MS(20), .duration = MS(20), .ahead = 20 * GPUD_SEC, ALWAYS}};
    run(senders, 2, 2 * GPUD_SEC, 0);
    CHECK_EQUAL(senders[0].handed, 100);
    CHECK_EQUAL(senders[1].handed, 0);
    senders[0].until = 0;
    for (int i = 0; i < 2; i++)
        senders[i].ahead += 2 * GPUD_SEC;
    run(senders, 2, 2 * GPUD_SEC, 0);
    CHECK(senders[1].handed >= 40, "the backup is not followed");
    senders[0] =
        (struct sender){.every = MS(20), .duration = MS(20), .ahead = 4 * GPUD_SEC, ALWAYS};
    senders[1].ahead += 2 * GPUD_SEC;
    senders[1].handed = 0;
    run(senders, 2, 2 * GPUD_SEC, 0);
    CHECK_EQUAL(senders[0].handed, 100);
    CHECK(senders[1].handed <= 1, "%u frames of the backup's line", senders[1].handed);
    CHECK_EQUAL(match.members[1].fault, GPUD_MATCH_OTHER_LINE);

    /* Pictures of the one are between those of the other: one sender is handed on, not both in
     * turn. */
    static const int64_t shifts[] = {MS(9), MS(10), MS(11)};
    for (unsigned i = 0; i < 6; i++) {
        struct sender pair[] = {
            {.every = MS(20), .duration = MS(20), ALWAYS},
            {.every = MS(20), .phase = shifts[i / 2], .duration = MS(20), ALWAYS}};
        open_match(GPUD_GROUP_ANY, 2, 0);
        run(pair, 2, 10 * GPUD_SEC, i % 2);
        CHECK(pair[0].handed + pair[1].handed <= 501, "%u and %u of 500 pictures", pair[0].handed,
              pair[1].handed);
        CHECK(pair[0].handed >= 499 || pair[1].handed >= 499, "both in turn: %u and %u",
              pair[0].handed, pair[1].handed);
        uint32_t other = pair[0].handed > pair[1].handed;
        CHECK_EQUAL(match.members[other].fault, GPUD_MATCH_OUT_OF_STEP);
        /* It goes on where that one ends. */
        unsigned before = pair[other].handed;
        pair[1 - other].until = 0;
        gpud_match_leave(&match, 1 - other, false);
        run(pair, 2, GPUD_SEC, i % 2);
        CHECK(pair[other].handed >= before + 49, "the other does not go on");
    }
    /* Beside each other there is nothing to say. */
    open_match(GPUD_GROUP_ANY, 2, 0);
    struct sender near[] = {{.every = MS(20), .duration = MS(20), ALWAYS},
                            {.every = MS(20), .phase = MS(3), .duration = MS(20), ALWAYS}};
    run(near, 2, 2 * GPUD_SEC, 0);
    CHECK_EQUAL(match.members[1].fault, GPUD_MATCH_NO_FAULT);

    /* A member that lies about its times, durations and rate costs the others nothing: in both
     * modes, first or later, alive or gone. */
    static const struct {
        uint64_t duration;
        int64_t ahead, every;
    } lies[] = {
        {UINT64_C(15) * 366 * 24 * HOUR / GPUD_SEC * GPUD_SEC, 55 * 366 * 24 * HOUR, MS(40)},
        {INT64_MAX / 8, 30 * GPUD_SEC, MS(40)},
        {10 * GPUD_SEC, 15 * GPUD_SEC, MS(500)},
        {10 * GPUD_SEC, MS(900), MS(1000)},
        {MS(40), MS(950), MS(1000)},
        {1, 0, MS(7)},
        {1, MS(900), MS(3)},
        {0, MS(13), MS(100)},
    };
    for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        for (unsigned how = 0; how < 12; how++) {
            bool all = how % 2, later = how / 2 % 2, honest_gone = how / 4 == 1,
                 gone = how / 4 == 2;
            struct sender three[] = {{.every = MS(40), .duration = MS(40), ALWAYS},
                                     {.every = MS(40), .duration = MS(40), ALWAYS},
                                     {.every = lies[i].every,
                                      .duration = lies[i].duration,
                                      .ahead = lies[i].ahead,
                                      .from = later ? MS(1000) : 0,
                                      ALWAYS}};
            if (gone)
                three[2].until = 3 * GPUD_SEC;
            open_match(all ? GPUD_GROUP_ALL : GPUD_GROUP_ANY, 3, 0);
            if (gone)
                gpud_match_leave(&match, 2, false);
            run(three, 3, 4 * GPUD_SEC, 0);
            if (gone)
                gpud_match_leave(&match, 2, false);
            if (honest_gone)
                gpud_match_leave(&match, 0, false);
            uint32_t honest = honest_gone && !all;
            for (int k = 0; k < 3; k++)
                three[k].ahead += 4 * GPUD_SEC;
            three[0].until = honest_gone ? 0 : three[0].until;
            three[2].until = gone ? 0 : three[2].until;
            three[0].handed = three[1].handed = 0;
            run(three, 3, 4 * GPUD_SEC, 0);
            unsigned handed = three[0].handed + three[1].handed;
            CHECK(handed >= 97, "lie %u, case %u: %u of 100 instants of member %u", i, how, handed,
                  honest);
            CHECK(gpud_match_tolerance(&match) >= 1, "no tolerance is left");
        }
}

/* --- packets of data -------------------------------------------------------------------------- */

static unsigned packet_marks[2][512];

static void add_packet(uint32_t member, int64_t time, uint64_t duration, unsigned number)
{
    put(member, (struct gpud_match_entry){.kind = GPUD_MATCH_DATA,
                                          .time = (uint64_t)time,
                                          .duration = duration,
                                          .what = &packet_marks[member][number]});
}

/* Packets that are handed on, each once and in their order; they are numbered from `next`. */
static unsigned take_packets(unsigned number)
{
    const struct gpud_match_request request = {GPUD_GROUP_NEXT, 0, 0};
    for (;; number++) {
        struct gpud_match_decision got;
        gpud_match_decide(&match, &request, now, &got);
        if (got.verdict == GPUD_MATCH_WAIT && got.until < INT64_MAX) {
            now = got.until;
            gpud_match_decide(&match, &request, now, &got);
        }
        if (got.verdict != GPUD_MATCH_TAKE)
            return number;
        unsigned *mark = got.entries[got.member]->what;
        CHECK(mark == &packet_marks[got.member][number], "packet %u instead of %u",
              (unsigned)(mark - packet_marks[got.member]), number);
        gpud_match_commit(&match, &request, &got);
        drop();
    }
}

/* Four packets a frame, all with its time, and packets at irregular times; of one sender, of two in
 * either order, and of two of which one dies amid a frame. */
static void packets(void)
{
    for (unsigned how = 0; how < 24; how++) {
        unsigned senders = how % 3 == 0 ? 1 : 2, first = how % 3 == 2, sent = 0, got = 0;
        bool irregular = how / 3 % 2;
        uint64_t duration = how / 6 % 2 ? (uint64_t)DURATION : 0;
        bool dies = how / 12 && senders == 2, died = false;
        int64_t time = HOUR;
        open_match(GPUD_GROUP_ANY, senders, 0);
        for (uint32_t i = 0; i < senders; i++)
            match.members[i].room = 16;
        for (; sent < 400; now += 5 * GPUD_MSEC) {
            unsigned from = sent, lost = 0;
            time += irregular ? (int64_t)(3 + sent * 7919 % 41) * GPUD_MSEC : DURATION;
            unsigned more = irregular ? 1 + sent * 31 % 3 : 4;
            if (dies && sent > 200 && !died) {
                died = true;
                lost = more / 2; /* that the main had still to send */
            }
            for (unsigned side = 0; side < senders; side++) {
                uint32_t member = side ^ first;
                unsigned count = member == 0 && lost ? more - lost : more;
                if (member == 0 && died && !lost)
                    continue;
                for (unsigned k = 0; k < count; k++)
                    add_packet(member, time, duration, from + k);
                if (how % 2)
                    got = take_packets(got);
            }
            if (lost)
                gpud_match_leave(&match, 0, false);
            sent += more;
            got = take_packets(got);
            CHECK(got == sent, "case %u: %u of %u packets", how, got, sent);
        }
    }

    /* A main sender that ended, and sends again while the backup has still to send what was
     * between: that is waited for, and what comes too late all the same is counted and said. */
    for (unsigned late = 0; late < 2; late++) {
        struct gpud_match_request request = {GPUD_GROUP_NEXT, 0, 0};
        struct gpud_match_decision got;
        open_match(GPUD_GROUP_ANY, 2, 0);
        match.members[0].room = match.members[1].room = 16;
        for (unsigned i = 0; i < 10; i++, now += DURATION)
            for (unsigned member = 0; member < 2; member++) {
                add_packet(member, HOUR + i * DURATION, 0, i);
                CHECK_EQUAL(take_packets(i + member), i + 1);
            }
        gpud_match_leave(&match, 0, true);
        add_packet(1, HOUR + 10 * DURATION, 0, 10);
        CHECK_EQUAL(take_packets(10), 11);
        now += 5 * DURATION;
        add_packet(0, HOUR + 15 * DURATION, 0, 15);
        gpud_match_decide(&match, &request, now, &got);
        CHECK(got.verdict == GPUD_MATCH_WAIT && got.until > now + 10 * DURATION,
              "the packet of a sender that has joined does not wait for those before it");
        if (late)
            CHECK_EQUAL(take_packets(15), 16);
        for (unsigned i = 11; i <= 15; i++)
            add_packet(1, HOUR + i * DURATION, 0, i);
        if (!late)
            CHECK_EQUAL(take_packets(11), 16);
        CHECK_EQUAL(match.members[1].late, late ? 4 : 0);
        add_packet(1, HOUR + 16 * DURATION, 0, 16);
        gpud_match_decide(&match, &request, now + GPUD_SEC, &got);
        CHECK(got.verdict == GPUD_MATCH_TAKE && got.gap == (late > 0), "packets are lost unsaid");
        CHECK_EQUAL(take_packets(16), 17);
    }
}

/* --- blocks of sound -------------------------------------------------------------------------- */

#define RATE 48000

/* A sender of samples, in blocks of its own length and phase. */
struct sound {
    uint64_t block, next; /* in samples */
    int64_t delay;        /* of a block, from when its last sample is there */
    bool alive, stopped;
};

static int64_t time_of_sample(uint64_t sample)
{
    return HOUR + (int64_t)(sample / RATE) * GPUD_SEC +
           (int64_t)(sample % RATE * (uint64_t)GPUD_SEC / RATE);
}

struct block {
    uint64_t first, count;
    bool used;
};
static struct block blocks[2][64];

static void add_sound(uint32_t member, uint64_t first, uint64_t count)
{
    struct block *block = NULL;
    for (int i = 0; i < 64 && !block; i++)
        block = blocks[member][i].used ? NULL : &blocks[member][i];
    *block = (struct block){first, count, true};
    gpud_match_add(&match, member,
                   (struct gpud_match_entry){.kind = GPUD_MATCH_SOUND,
                                             .time = (uint64_t)time_of_sample(first),
                                             .duration = (uint64_t)GPUD_SEC * count / RATE,
                                             .rate = RATE,
                                             .arrival = now,
                                             .what = block});
    for (struct block *gone; (gone = gpud_match_drop(&match));)
        gone->used = false;
}

/* Takes what is due: each sample once. */
static uint64_t take_sound(uint64_t at, unsigned *switches)
{
    static uint32_t last;
    for (;;) {
        struct gpud_match_request request = {GPUD_GROUP_NEXT, 0, 0};
        struct gpud_match_decision got;
        gpud_match_decide(&match, &request, now, &got);
        if (got.verdict != GPUD_MATCH_TAKE)
            return at;
        const struct block *block = got.entries[got.member]->what;
        uint64_t first = block->first + got.skip;
        CHECK(at == UINT64_MAX || first == at, "sample %llu instead of %llu, of member %u",
              (unsigned long long)first, (unsigned long long)at, got.member);
        CHECK(got.skip < block->count, "a block without a new sample");
        CHECK(at == UINT64_MAX || !got.gap, "a gap, and none is missing");
        at = block->first + block->count;
        *switches += got.member != last;
        last = got.member;
        gpud_match_commit(&match, &request, &got);
        for (struct block *gone; (gone = gpud_match_drop(&match));)
            gone->used = false;
    }
}

/* Two senders of the same samples, whose blocks are of other lengths and phases; the main is late,
 * dies, stops, and comes back. */
static void blocks_of_sound(void)
{
    static const uint64_t lengths[] = {4800, 2400, 480, 1024, 960, 441, 37};
    unsigned total = sizeof(lengths) / sizeof(lengths[0]);
    for (unsigned how = 0; how < total * total * 8; how++) {
        struct sound senders[2] = {{.block = lengths[how % total], .alive = true},
                                   {.block = lengths[how / total % total], .alive = true}};
        unsigned kind = how / total / total, switches = 0;
        senders[1].next = kind % 2 ? 0 : senders[1].block / 3 + 1;
        senders[kind / 2 % 2].delay = 3 * GPUD_MSEC;
        bool stops = kind / 4;
        uint64_t at = UINT64_MAX;
        memset(blocks, 0, sizeof(blocks));
        open_match(GPUD_GROUP_ANY, 2, 0);
        match.members[0].room = match.members[1].room = 40;
        for (int64_t begun = now; now < begun + 3 * GPUD_SEC; now += GPUD_MSEC) {
            int64_t t = now - begun;
            /* The main dies or stops within each second, and is back after 300 ms. */
            bool away = t % GPUD_SEC >= MS(613) && t % GPUD_SEC < MS(913) && t > GPUD_SEC;
            if (away && senders[0].alive) {
                senders[0].alive = false;
                if (!stops)
                    gpud_match_leave(&match, 0, false);
            }
            for (uint32_t i = 0; i < 2; i++) {
                struct sound *s = &senders[i];
                int64_t ready = now - s->delay;
                while (time_of_sample(s->next + s->block) <= ready &&
                       gpud_match_has_room(&match, i, now)) {
                    if (i == 1 || s->alive || stops || !away)
                        if (i == 1 || s->alive)
                            add_sound(i, s->next, s->block);
                    s->next += s->block;
                }
            }
            if (!away && !senders[0].alive) {
                senders[0].alive = true;
                if (!stops)
                    gpud_match_join(&match, 0);
                gpud_match_renew(&match, 0);
            }
            at = take_sound(at, &switches);
        }
        CHECK(at != UINT64_MAX && time_of_sample(at) > now - MS(450), "case %u: the sound stops",
              how);
        CHECK(switches <= 12, "case %u: %u changes of the sender", how, switches);
    }
}

/* --- cameras in step -------------------------------------------------------------------------- */

static void cameras_in_step(void)
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

    /* Half the rate: every second instant has both. */
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

    /* Three go over to other times: a member whose clock was wrong from the start is left. */
    open_match(GPUD_GROUP_ALL, 4, 0);
    PASSES(0, HOUR, 3, true);
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

/* --- frames that depend on others --------------------------------------------------------------
 */

static void add_coded(uint32_t member, int64_t time, bool key)
{
    put(member, (struct gpud_match_entry){.kind = GPUD_MATCH_DATA,
                                          .time = (uint64_t)time,
                                          .duration = (uint64_t)DURATION,
                                          .delta = !key});
}

/* A frame that is of no use is passed over; whether a key frame is asked for. */
static void skips_at(int line, bool asks)
{
    struct gpud_match_decision decision = next();
    if (decision.verdict != GPUD_MATCH_SKIP)
        FAIL("(line %d) verdict %d, and the frame is of no use", line, decision.verdict);
    if (gpud_match_skip(&match, &decision) != asks)
        FAIL("(line %d) a key frame is %sasked for", line, asks ? "not " : "");
    drop();
}
#define SKIPS(asks) skips_at(__LINE__, asks)

static void coded(void)
{
    /* In step: those of one, however the other one's come. */
    open_match(GPUD_GROUP_ANY, 2, 0);
    int64_t time = 0;
    for (; time < 4 * DURATION; time += DURATION, now += DURATION) {
        add_coded(1, time, time == 0);
        add_coded(0, time, time == 0);
        TAKES(next(), time, 0, 0, time == 0);
    }
    /* The first one is late, and waited for. */
    add_coded(1, time, false);
    WAITS(next(), now + GPUD_SEC / 2);
    now += GPUD_SEC / 4;
    add_coded(0, time, false);
    TAKES(next(), time, 0, 0, false);
    /* It is gone: a change to the other one begins with a key frame, which is asked for once. */
    gpud_match_leave(&match, 0, false);
    add_coded(1, time += DURATION, false);
    SKIPS(true);
    add_coded(1, time += DURATION, false);
    SKIPS(false);
    CHECK(next().verdict == GPUD_MATCH_WAIT, "there is no frame");
    add_coded(1, time += DURATION, true);
    add_coded(1, time + DURATION, false);
    TAKES(next(), time, 1, 1, true);
    TAKES(next(), time += DURATION, 1, 1, false);
    /* It is back, and preferred: from its key frame on, which breaks nothing. */
    gpud_match_join(&match, 0);
    add_coded(1, time += DURATION, false);
    add_coded(0, time, false);
    TAKES(next(), time, 1, 0, false);
    add_coded(1, time += DURATION, false);
    add_coded(0, time, true);
    TAKES(next(), time, 0, 0, false);
    add_coded(1, time += DURATION, false);
    add_coded(0, time, false);
    TAKES(next(), time, 0, 0, false);
    /* It stands still, while the other one has a key frame. */
    add_coded(1, time += DURATION, true);
    WAITS(next(), now + GPUD_SEC / 2);
    now += GPUD_SEC / 2;
    TAKES(next(), time, 1, 1, false);
    add_coded(0, time, false);
    add_coded(1, time += DURATION, false);
    WAITS(next(), now + DURATION / 2); /* as for any member that is preferred */
    now += DURATION / 2;
    TAKES(next(), time, 1, 1, false);

    /* Out of step: frames between those of the one that goes on are of no use, key or not. */
    open_match(GPUD_GROUP_ANY, 2, 0);
    add_coded(0, 0, true);
    TAKES(next(), 0, 0, 1, true);
    for (int i = 1; i < 5; i++) {
        add_coded(1, i * DURATION - DURATION / 2, i % 2);
        add_coded(0, i * DURATION, false);
        SKIPS(false);
        TAKES(next(), i * DURATION, 0, 1, false);
    }
    /* What is lost of the one that is handed on: up to a key frame of either. */
    add_coded(0, 3 * DURATION, false);
    add_coded(0, 5 * DURATION, false);
    SKIPS(true);
    add_coded(0, 6 * DURATION, true);
    TAKES(next(), 6 * DURATION, 0, 1, true);
}

int main(void)
{
    coded();
    late_and_broken();
    time_lines();
    by_a_clock();
    packets();
    blocks_of_sound();
    cameras_in_step();
    return 0;
}

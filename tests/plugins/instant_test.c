/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which instant a group of sources passes on: every combination of up to three sources, and sources
 * that are late, stop and come back, over time. */
#include "src/src.h"
#include "support/check.h"

#define PARTS 3
#define MS G_GINT64_CONSTANT(1000000)

/* What a source may be: expected, missing, or a frame of one of some times, arrivals, latencies and
 * intervals. */
#define TIMES 5
#define KINDS (2 + TIMES * 2 * 2 * 2)

static struct instant_part make(guint kind)
{
    struct instant_part part = {.state = kind == 0 ? INSTANT_EXPECTED : INSTANT_MISSING};

    if (kind < 2)
        return part;
    kind -= 2;
    part.state = INSTANT_OFFERED;
    part.time = kind % TIMES * 5 * MS;
    kind /= TIMES;
    part.arrived = (kind & 1) * 10 * MS;
    part.latency = (kind & 2) * 10 * MS;
    part.interval = (kind & 4) * 5 * MS;
    return part;
}

static gboolean is_same(const struct instant_part *a, const struct instant_part *b)
{
    return a->state == b->state && a->verdict == b->verdict && a->left_out == b->left_out;
}

/* The outcome, by the rules that the header states. */
static void check_outcome(const struct instant_part *before, const struct instant_part *after,
                          guint count, struct instant_past past, struct instant_past past_after,
                          gint64 now, struct instant_outcome outcome)
{
    gint64 interval = 0, newest = INSTANT_NONE, deadline = past.deadline, last = past.last;
    gboolean expects = FALSE;
    guint sent = 0, held = 0, dropped = 0;

    for (guint i = 0; i < count; i++) {
        if (before[i].interval && (!interval || before[i].interval < interval))
            interval = before[i].interval;
        if (before[i].state == INSTANT_OFFERED && before[i].time > last)
            newest = MAX(newest, before[i].time);
    }
    gint64 tolerance = interval ? interval / 2 : 5 * MS;
    for (guint i = 0; i < count; i++) {
        if (before[i].state == INSTANT_OFFERED) {
            gboolean belongs = before[i].time > last && before[i].time >= newest - tolerance;
            CHECK((after[i].verdict == INSTANT_DROP) == !belongs, "a frame that is not dropped");
            CHECK((after[i].state == INSTANT_OFFERED) == (after[i].verdict == INSTANT_HOLD),
                  "a frame that is not held any more is offered");
            sent += after[i].verdict == INSTANT_SEND;
            held += after[i].verdict == INSTANT_HOLD;
            dropped += after[i].verdict == INSTANT_DROP;
            if (before[i].time > last)
                deadline = MIN(deadline, before[i].arrived + before[i].latency);
        }
        expects |= before[i].state == INSTANT_EXPECTED || after[i].verdict == INSTANT_DROP;
    }
    CHECK(sent == 0 || held == 0, "frames of an instant are sent and held");
    CHECK_EQUAL(outcome.went, sent > 0);
    CHECK_EQUAL(outcome.concluded, sent + dropped > 0);
    CHECK_EQUAL(past_after.last, sent ? newest : last);
    CHECK_EQUAL(past_after.deadline, held ? deadline : INSTANT_NEVER);
    CHECK_EQUAL(outcome.next, held ? deadline : INSTANT_NEVER);
    if (held)
        CHECK(expects && now < deadline, "held without a reason");
    if (newest != INSTANT_NONE && (!expects || now >= deadline))
        CHECK(sent > 0, "not sent without a reason");
    for (guint i = 0; i < count && sent; i++) {
        CHECK_EQUAL(after[i].left_out,
                    after[i].verdict != INSTANT_SEND || before[i].state != INSTANT_OFFERED);
        CHECK_EQUAL(after[i].state, after[i].left_out ? INSTANT_MISSING : INSTANT_EXPECTED);
    }
}

static void check_combination(const guint *kinds, guint count, struct instant_past past, gint64 now)
{
    struct instant_part before[PARTS], after[PARTS], turned[PARTS];
    struct instant_part *parts[PARTS] = {NULL}, *others[PARTS] = {NULL};
    struct instant_past past_after = past, past_turned = past;

    for (guint i = 0; i < count; i++) {
        before[i] = after[i] = turned[i] = make(kinds[i]);
        parts[i] = &after[i];
        others[count - 1 - i] = &turned[i];
    }
    struct instant_outcome outcome = instant_decide(parts, count, &past_after, now);
    check_outcome(before, after, count, past, past_after, now, outcome);

    /* The order of sources does not matter. */
    instant_decide(others, count, &past_turned, now);
    CHECK_EQUAL(past_turned.last, past_after.last);
    for (guint i = 0; i < count; i++)
        CHECK(is_same(&after[i], &turned[i]), "the order matters");

    /* Nothing new: nothing else happens, until it is time to. */
    if (outcome.next == INSTANT_NEVER)
        return;
    struct instant_outcome again = instant_decide(parts, count, &past_after, now);
    CHECK(!again.concluded && again.next == outcome.next, "another outcome");
    CHECK(instant_decide(parts, count, &past_after, outcome.next).went, "held for too long");
}

static void test_all(void)
{
    static const struct instant_past pasts[] = {
        {INSTANT_NONE, INSTANT_NEVER}, {0, INSTANT_NEVER},      {10 * MS, INSTANT_NEVER},
        {30 * MS, INSTANT_NEVER},      {INSTANT_NONE, 20 * MS}, {0, 20 * MS},
    };
    guint kinds[PARTS], combinations = 0;

    for (guint count = 0; count <= PARTS; count++) {
        guint all = 1;
        for (guint i = 0; i < count; i++)
            all *= KINDS;
        for (guint number = 0; number < all; number++) {
            guint rest = number;
            for (guint i = 0; i < count; i++, rest /= KINDS)
                kinds[i] = rest % KINDS;
            for (guint i = 0; i < G_N_ELEMENTS(pasts); i++)
                for (gint64 now = 5 * MS; now < 40 * MS; now += 10 * MS) {
                    check_combination(kinds, count, pasts[i], now);
                    combinations++;
                }
        }
    }
    SAY("  %u combinations", combinations);
}

/* --- over time ---------------------------------------------------------------------------- */

#define CAMERAS 4
#define FRAMES 200
#define INTERVAL (20 * MS)
#define LATENCY (40 * MS)

/* A camera whose frames arrive `late`; none arrive between `stops` and `returns`. only: every other
 * one does, the even ones (1) or the odd ones (2). */
struct camera {
    gint64 late;
    guint stops, returns, only;
    struct instant_part part;
    guint next; /* frame */
    gboolean has_offered;
    guint sent, dropped;
};

static gint64 arrival(const struct camera *camera, guint frame)
{
    return frame * INTERVAL + camera->late;
}

/* Runs all of them, and says how long a frame was held after its arrival. */
static gint64 run(struct camera *cameras)
{
    struct instant_part *parts[CAMERAS];
    struct instant_past past = {INSTANT_NONE, INSTANT_NEVER};
    gint64 longest = 0;

    for (guint i = 0; i < CAMERAS; i++)
        parts[i] = &cameras[i].part;
    for (gint64 now = 0; now < (FRAMES + 20) * INTERVAL; now += MS) {
        gboolean again = TRUE;
        while (again) {
            again = FALSE;
            for (guint i = 0; i < CAMERAS; i++) {
                struct camera *camera = &cameras[i];
                while ((camera->next >= camera->stops && camera->next < camera->returns) ||
                       (camera->only && camera->next % 2 != camera->only - 1))
                    camera->next++;
                if (camera->part.state == INSTANT_OFFERED || camera->next >= FRAMES ||
                    now < arrival(camera, camera->next))
                    continue;
                camera->part = (struct instant_part){
                    .state = INSTANT_OFFERED,
                    .time = camera->next * INTERVAL,
                    .interval = INTERVAL,
                    .arrived = arrival(camera, camera->next),
                    .latency = LATENCY,
                };
                camera->has_offered = TRUE;
                camera->next++;
            }
            again = instant_decide(parts, CAMERAS, &past, now).concluded;
            for (guint i = 0; i < CAMERAS; i++) {
                struct camera *camera = &cameras[i];
                if (!camera->has_offered || camera->part.verdict == INSTANT_HOLD)
                    continue;
                camera->has_offered = FALSE;
                camera->sent += camera->part.verdict == INSTANT_SEND;
                camera->dropped += camera->part.verdict == INSTANT_DROP;
                longest = MAX(longest, now - camera->part.arrived);
            }
        }
    }
    return longest;
}

static void test_late(void)
{
    struct camera cameras[CAMERAS] = {[2] = {.late = 30 * MS}};

    gint64 longest = run(cameras);
    for (guint i = 0; i < CAMERAS; i++) {
        CHECK_EQUAL(cameras[i].sent, FRAMES);
        CHECK_EQUAL(cameras[i].dropped, 0);
    }
    CHECK_EQUAL(longest, 30 * MS);
}

/* The others lose nothing, and go on at their pace. */
static void test_too_late(void)
{
    struct camera cameras[CAMERAS] = {[2] = {.late = 150 * MS}};

    gint64 longest = run(cameras);
    for (guint i = 0; i < CAMERAS; i++)
        if (i != 2)
            CHECK_EQUAL(cameras[i].sent, FRAMES);
    CHECK(longest <= LATENCY, "held for %" G_GINT64_FORMAT " ns", longest);
    CHECK(cameras[2].sent <= 8, "%u frames are too late", cameras[2].sent); /* those of the end */
    CHECK_EQUAL(cameras[2].sent + cameras[2].dropped, FRAMES);
}

/* Two that have every other frame, never the same: some go out, each within its time. */
static void test_disjoint(void)
{
    struct camera cameras[CAMERAS] = {
        {.only = 1}, {.only = 2}, {.stops = 0, .returns = FRAMES}, {.stops = 0, .returns = FRAMES}};

    gint64 longest = run(cameras);
    guint sent = cameras[0].sent + cameras[1].sent;
    CHECK(sent >= FRAMES / 4, "%u frames of %d were sent", sent, FRAMES);
    CHECK(longest <= LATENCY, "held for %" G_GINT64_FORMAT " ns", longest);
}

/* It is in step again with its first frame, also if it is late. */
static void test_stops(void)
{
    for (gint64 late = 0; late <= 30 * MS; late += 10 * MS) {
        struct camera cameras[CAMERAS] = {[1] = {.late = late, .stops = 50, .returns = 100}};
        gint64 longest = run(cameras);
        for (guint i = 0; i < CAMERAS; i++)
            if (i != 1)
                CHECK_EQUAL(cameras[i].sent, FRAMES);
        CHECK(longest <= LATENCY, "held for %" G_GINT64_FORMAT " ns", longest);
        CHECK(cameras[1].sent >= FRAMES - 50 - 3, "%u frames were sent", cameras[1].sent);
    }
}

int main(void)
{
    SAY("every combination");
    test_all();
    SAY("one that is late");
    test_late();
    test_too_late();
    SAY("two without a common instant");
    test_disjoint();
    SAY("one that stops and comes back");
    test_stops();
    return 0;
}

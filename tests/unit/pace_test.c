/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether steady events are expected when they come, at little cost, and others not at all. The
 * times are made up: nothing here depends on the machine. */
#include "base/base.h"
#include "support/check.h"

#define USEC INT64_C(1000)
#define SEC INT64_C(1000000000)
#define START (77 * SEC)

struct outcome {
    int events, expected, met; /* met: in the window */
    int64_t awake;             /* longest, before the event or the window's end */
};

static uint32_t seed = 1;

static int64_t noise(int64_t up_to)
{
    seed = seed * 1664525 + 1013904223;
    return (int64_t)((uint64_t)(seed >> 8) * (uint64_t)up_to >> 24);
}

/* One event, and what was thought of it before. */
static void tell(struct gpud_pace *pace, int64_t limit, int64_t when, struct outcome *outcome)
{
    int64_t from, until;
    outcome->events++;
    if (gpud_pace_window(pace, limit, &from, &until)) {
        CHECK(from < until, "a window that ends before it begins");
        int64_t awake = from + pace->lag, end = when < until ? when : until;
        CHECK(until - awake <= limit, "%lld ns awake, %lld at most were allowed",
              (long long)(until - awake), (long long)limit);
        outcome->expected++;
        outcome->met += when >= awake && when <= until;
        outcome->awake = end - awake > outcome->awake ? end - awake : outcome->awake;
    }
    gpud_pace_learn(pace, when);
}

/* A beat that starts at *when; every fourth event is late by `late` at most, all by a little. */
static struct outcome play(struct gpud_pace *pace, int64_t limit, int64_t *when, int64_t period,
                           int64_t late, int count)
{
    struct outcome outcome = {0};
    for (int i = 0; i < count; i++, *when += period)
        tell(pace, limit, *when + noise(20 * USEC) + (i % 4 ? 0 : noise(late)), &outcome);
    return outcome;
}

int main(void)
{
    test_alarm(60);
    SAY("steady events are expected, and come when they are");
    static const int64_t rates[] = {24, 25, 30, 50, 60, 120};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct gpud_pace pace = {0};
        int64_t when = START, period = SEC / rates[i] + 333;
        struct outcome first = play(&pace, 250 * USEC, &when, period, 200 * USEC, 3);
        CHECK_EQUAL(first.expected, 0);
        play(&pace, 250 * USEC, &when, period, 200 * USEC, 200);
        struct outcome later = play(&pace, 250 * USEC, &when, period, 200 * USEC, 1000);
        CHECK(later.expected > 900 && later.met > later.expected * 3 / 4,
              "%lld a second: %d of %d expected, %d met", (long long)rates[i], later.expected,
              later.events, later.met);
        CHECK(llabs(pace.period - period) < 20 * USEC, "a period of %lld ns is taken for %lld",
              (long long)period, (long long)pace.period);
    }

    SAY("what comes anyhow, too often, or is not to be waited for awake is not");
    /* What is gained by being awake is less than what it costs. */
    struct gpud_pace pace = {0};
    struct outcome outcome = {0};
    int64_t when = START;
    for (int i = 0; i < 2000; i++, when += noise(33 * SEC / 1000))
        tell(&pace, 250 * USEC, when, &outcome);
    CHECK(outcome.expected < outcome.events / 20, "%d of %d expected, which came as they liked",
          outcome.expected, outcome.events);

    pace = (struct gpud_pace){0};
    outcome = play(&pace, 250 * USEC, &when, 40 * USEC, 10 * USEC, 2000);
    CHECK(outcome.awake <= 40 * USEC / 32, "of 40 us between two, %lld ns are spent awake",
          (long long)outcome.awake);

    pace = (struct gpud_pace){0};
    outcome = play(&pace, -1, &when, SEC / 60, 50 * USEC, 500);
    CHECK_EQUAL(outcome.expected, 0);

    SAY("one left out, a pause, another rate");
    pace = (struct gpud_pace){0};
    when = START;
    play(&pace, 250 * USEC, &when, SEC / 60, 50 * USEC, 300);
    when += SEC / 60; /* one is left out */
    outcome = play(&pace, 250 * USEC, &when, SEC / 60, 50 * USEC, 20);
    CHECK(outcome.met >= 12, "after one that was left out %d of 20 are met", outcome.met);
    when += 5 * SEC; /* a pause */
    outcome = play(&pace, 250 * USEC, &when, SEC / 60, 50 * USEC, 20);
    CHECK(outcome.met >= 10, "after a pause %d of 20 are met", outcome.met);
    play(&pace, 250 * USEC, &when, SEC / 50, 50 * USEC, 200); /* another rate */
    outcome = play(&pace, 250 * USEC, &when, SEC / 50, 50 * USEC, 200);
    CHECK(outcome.met > 150, "at another rate %d of 200 are met", outcome.met);
    CHECK(llabs(pace.period - SEC / 50) < 20 * USEC, "the new period is taken for %lld ns",
          (long long)pace.period);

    SAY("timers that are late; one that was very late does not spoil the rest");
    pace = (struct gpud_pace){0};
    int64_t from, until, before;
    when = START;
    play(&pace, 250 * USEC, &when, SEC / 60, 20 * USEC, 300);
    CHECK(gpud_pace_window(&pace, 250 * USEC, &before, &until), "a steady pace is not known");
    for (int i = 0; i < 30; i++)
        gpud_pace_overslept(&pace, 80 * USEC);
    CHECK(gpud_pace_window(&pace, 250 * USEC, &from, &until), "a late timer ends it");
    CHECK(before - from > 60 * USEC && before - from <= 80 * USEC, "%lld ns earlier for 80 us late",
          (long long)(before - from));
    gpud_pace_overslept(&pace, 10 * SEC);
    CHECK(gpud_pace_window(&pace, 250 * USEC, &from, &until), "one very late timer ends it");
    CHECK(before - from < 250 * USEC, "%lld ns earlier for one very late timer",
          (long long)(before - from));
    return 0;
}

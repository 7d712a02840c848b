/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The evaluation of the pictures' lateness: it follows a machine that gets busy, recovers when that
 * is over, and changes rarely, and never by little. Time is simulated. */
#include "support/check.h"
#include "wire/codec.h"

#define MS GST_MSECOND
#define GUESS (25 * MS)

struct sim {
    struct lateness lateness;
    GstClockTime now, interval;
    GstClockTime least, most;     /* as they were last */
    GstClockTime changed;         /* when */
    GstClockTime lowest, highest; /* of most, since sim_run() began */
    guint64 pictures;
    guint changes;
};

static void begin(struct sim *sim, GstClockTime interval)
{
    *sim =
        (struct sim){.now = 1000 * GST_SECOND, .interval = interval, .least = GUESS, .most = GUESS};
    lateness_begin(&sim->lateness, GUESS);
}

static GstClockTime apart(GstClockTime a, GstClockTime b)
{
    return a > b ? a - b : b - a;
}

static void check_change(struct sim *sim)
{
    const struct lateness *lateness = &sim->lateness;
    GstClockTime least = apart(lateness->least, sim->least),
                 most = apart(lateness->most, sim->most);

    if (least == 0 && most == 0)
        return;
    CHECK(least == 0 || least >= sim->interval / 4 || lateness->least == 0 || sim->changes == 0,
          "least changes by %" G_GUINT64_FORMAT, least);
    CHECK(most == 0 || most >= sim->interval / 4, "most changes by %" G_GUINT64_FORMAT, most);
    CHECK(sim->changes == 0 || sim->now - sim->changed >= GST_SECOND, "two changes in a second");
    sim->least = lateness->least;
    sim->most = lateness->most;
    sim->changed = sim->now;
    sim->changes++;
}

/* Pictures as late as `usual`, and each nth of them as late as `late`. Returns how many changes. */
static guint run(struct sim *sim, guint seconds, GstClockTime usual, guint nth, GstClockTime late)
{
    guint before = sim->changes;
    GstClockTime until = sim->now + seconds * GST_SECOND;

    sim->lowest = sim->highest = sim->lateness.most;
    for (; sim->now < until; sim->now += sim->interval) {
        gboolean is_late = nth && sim->pictures % nth == nth - 1;
        /* Half a millisecond of noise. */
        GstClockTime noise = sim->pictures * 7919 % 500 * GST_USECOND;
        sim->pictures++;
        lateness_note(&sim->lateness, (is_late ? late : usual) + noise, sim->now, sim->interval);
        check_change(sim);
        sim->lowest = MIN(sim->lowest, sim->lateness.most);
        sim->highest = MAX(sim->highest, sim->lateness.most);
    }
    return sim->changes - before;
}

static const GstClockTime intervals[] = {4 * MS, 20 * MS, 40 * MS};

/* The guess is as good as what comes; or far too high, and given up at the first picture. */
static void first_pictures(void)
{
    struct sim sim;

    for (guint i = 0; i < G_N_ELEMENTS(intervals); i++) {
        begin(&sim, intervals[i]);
        CHECK(run(&sim, 30, 24 * MS, 0, 0) <= 1, "%u changes", sim.changes);
        CHECK_EQUAL(sim.lateness.most, GUESS);
        begin(&sim, intervals[i]);
        CHECK_EQUAL(run(&sim, 30, 1 * MS, 0, 0), 1);
        CHECK_EQUAL(sim.lateness.most, 2 * MS);
        CHECK_EQUAL(sim.lateness.least, 1 * MS);
    }
}

/* A picture that is 200 ms late, twice a minute, is lost, and does not change the latency. */
static void single_pictures(void)
{
    struct sim sim;

    for (guint i = 0; i < G_N_ELEMENTS(intervals); i++) {
        begin(&sim, intervals[i]);
        run(&sim, 10, 20 * MS, 0, 0);
        guint changes = run(&sim, 600, 20 * MS, (guint)(30 * GST_SECOND / intervals[i]), 200 * MS);
        CHECK_EQUAL(changes, 0);
    }
}

/* A machine that is busy for 12 s, when each tenth picture comes 50 ms later, and then for a minute
 * each second one: covered within 2 s, and over 12 s after it. */
static void busy_phases(void)
{
    struct sim sim;

    for (guint i = 0; i < G_N_ELEMENTS(intervals); i++) {
        begin(&sim, intervals[i]);
        run(&sim, 20, 20 * MS, 0, 0);
        GstClockTime quiet = sim.lateness.most;
        for (guint phase = 0; phase < 2; phase++) {
            guint up = run(&sim, phase ? 60 : 12, 20 * MS, phase ? 2 : 10, 70 * MS);
            CHECK(sim.lateness.most >= 70 * MS, "%" G_GUINT64_FORMAT " in a busy phase",
                  sim.lateness.most);
            CHECK(up <= 2, "%u changes in a busy phase", up);
            guint down = run(&sim, 24, 20 * MS, 0, 0);
            CHECK(sim.lateness.most <= quiet + intervals[i] / 2, "%" G_GUINT64_FORMAT " after it",
                  sim.lateness.most);
            CHECK(down <= 2, "%u changes after a busy phase", down);
        }
    }
}

/* It gets a little worse, and a little better, for an hour: no more than a step either way. */
static void unrest(void)
{
    struct sim sim;

    begin(&sim, 20 * MS);
    run(&sim, 20, 20 * MS, 0, 0);
    guint changes = 0;
    for (guint i = 0; i < 180; i++)
        changes += run(&sim, 20, (20 + i % 6) * MS, 0, 0);
    CHECK(changes <= 2, "%u changes in an hour", changes);
}

/* Another sender: what is in force holds until eight pictures of its have come, and what the one
 * before did is forgotten. */
static void another_sender(void)
{
    struct sim sim;

    begin(&sim, 20 * MS);
    run(&sim, 20, 60 * MS, 0, 0);
    GstClockTime most = sim.lateness.most;
    lateness_break(&sim.lateness);
    for (guint i = 0; i < 7; i++, sim.now += sim.interval)
        lateness_note(&sim.lateness, 500 * MS, sim.now, sim.interval);
    CHECK_EQUAL(sim.lateness.most, most);
    lateness_break(&sim.lateness);
    run(&sim, 12, 5 * MS, 0, 0);
    CHECK_EQUAL(sim.lateness.most, 6 * MS);
    CHECK_EQUAL(sim.lateness.least, 5 * MS);
}

int main(void)
{
    first_pictures();
    single_pictures();
    busy_phases();
    unrest();
    another_sender();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two hosts without a common clock, simulated: frames of a sender whose clock runs faster or slower
 * than this one's keep their distance to the clock here indefinitely, their intervals do not
 * visibly change, and the ring does not fill up; whether frames are taken as they arrive, or by a
 * thread that its sink blocks until each is due. */
#include "support/check.h"
#include "wire/codec.h"

#define PERIOD (20 * (gint64)GST_MSECOND)
#define MINUTE_FRAMES 3000
#define SLOTS 6
#define TRANSIT (5 * (gint64)GST_MSECOND)
#define SINK_LATENCY (45 * (gint64)GST_MSECOND)
#define WAY_MAX 1024
#define OFFSET (5000 * (gint64)GST_SECOND) /* from running time to CLOCK_MONOTONIC here */

struct sim {
    /* What is so. */
    gint ppm;          /* the sender's clock is faster by that */
    gint64 jitter;     /* of the way, at most */
    gint64 ahead;      /* the sender's running time when the receiver's is 0 */
    gboolean held;     /* a sink holds the thread that takes frames */
    gboolean not_live; /* the sender */
    /* What happens, from the frame with this number on. */
    guint at;
    gint64 jump;    /* the sender's clock is set, by that */
    gint64 stopped; /* the receiver's process is, for so long */
    gint64 longer;  /* the way is, from then on */
    gboolean holds; /* a sink does so from then on */
    /* The state. */
    guint32 random;
    gint64 sent;    /* real time, which is the receiver's running time, of the last frame */
    gint64 running; /* the same on the sender's time line */
    struct {
        gint64 running, arrival;
    } way[WAY_MAX]; /* frames that were sent, and not taken yet; round */
    guint sent_count, taken_count;
    gint64 free_at; /* when the thread is */
    struct arrivals arrivals;
    struct time_map map;
    struct timeline line;
    /* What came out. */
    gint64 pts, spacing; /* of the last frame, and from the one before */
    gint64 late;         /* its arrival, after its time */
    gint64 apart;        /* its time, from what it was at the sender */
    guint waiting;       /* frames in the ring, behind it */
};

static gint64 random_below(struct sim *sim, gint64 limit)
{
    sim->random = sim->random * 1664525 + 1013904223;
    return limit * (sim->random >> 16) / 65536;
}

/* The next frame leaves, by the sender's clock, a period after the last, and arrives in order. */
static void send_next(struct sim *sim)
{
    guint number = sim->sent_count++;
    gint64 before = number > 0 ? sim->way[(number - 1) % WAY_MAX].arrival : 0;

    sim->sent += PERIOD - PERIOD * sim->ppm / 1000000;
    sim->running += PERIOD + (number == sim->at ? sim->jump : 0);
    gint64 arrival = sim->sent + TRANSIT + random_below(sim, sim->jitter + 1);
    if (number >= sim->at)
        arrival += sim->longer;
    sim->way[number % WAY_MAX].running = sim->running;
    sim->way[number % WAY_MAX].arrival = MAX(arrival, before);
}

/* How many frames have arrived by then and are not taken. */
static guint count_waiting(struct sim *sim, gint64 by)
{
    guint at = sim->taken_count;

    for (; at < sim->sent_count && sim->way[at % WAY_MAX].arrival <= by; at++)
        CHECK(at - sim->taken_count < WAY_MAX - 2, "a test of more frames on their way");
    return at - sim->taken_count;
}

/* The next frame is taken. */
static void step(struct sim *sim)
{
    const struct wire_head head = {.live = !sim->not_live};
    guint number = sim->taken_count++;
    gint64 stopped = number == sim->at ? sim->stopped : 0;

    if (number == 0) {
        sim->random = 1;
        sim->sent = 100 * GST_MSECOND;
        sim->running = sim->sent + sim->ahead;
    }
    while (sim->sent_count <= number + SLOTS + stopped / PERIOD)
        send_next(sim);
    gint64 arrival = sim->way[number % WAY_MAX].arrival;
    gint64 running = sim->way[number % WAY_MAX].running;
    gboolean waited = arrival > sim->free_at;
    gint64 taken = MAX(arrival, sim->free_at) + stopped;
    if (waited)
        arrivals_clear(&sim->arrivals);
    GstClockTime system = (GstClockTime)(taken + OFFSET);
    struct time_now now = {.running = (GstClockTime)taken, .system = system};
    struct time_frame frame = {
        .running = (GstClockTime)running,
        .submitted = GST_CLOCK_TIME_NONE,
        .arrived = arrivals_take(&sim->arrivals, system),
        .waited_for = waited,
    };
    sim->waiting = count_waiting(sim, taken);
    arrivals_see(&sim->arrivals, sim->waiting, system);
    time_map_update(&sim->map, &head, &frame, &now);
    gint64 mapped = time_map_apply(&sim->map, frame.running);
    struct timeline_frame placed = {.mapped = mapped,
                                    .arrived = waited ? taken : TIMELINE_UNKNOWN,
                                    .duration = (GstClockTime)PERIOD,
                                    .live = head.live};
    gint64 pts = (gint64)timeline_stamp(&sim->line, &placed);
    sim->spacing = pts - sim->pts;
    sim->pts = pts;
    sim->late = arrival - pts;
    sim->apart = pts - running;
    sim->held |= sim->holds && number >= sim->at;
    sim->free_at = sim->held ? MAX(taken, pts + SINK_LATENCY) : taken;
}

/* The mean lateness of so many frames. */
static gint64 run(struct sim *sim, guint frames, gboolean settled)
{
    gint64 sum = 0;

    for (guint i = 0; i < frames; i++) {
        step(sim);
        sum += sim->late;
        if (!settled)
            continue;
        CHECK(ABS(sim->spacing - PERIOD) <= PERIOD / 100,
              "frame %u comes %" G_GINT64_FORMAT " ns after the one before", sim->taken_count,
              sim->spacing);
        CHECK(sim->waiting < SLOTS - 1, "%u frames wait in the ring behind frame %u", sim->waiting,
              sim->taken_count);
    }
    return sum / frames;
}

static void drift(gint ppm, gint64 jitter, gint64 ahead, gboolean held)
{
    struct sim sim = {.ppm = ppm, .jitter = jitter, .ahead = ahead, .held = held, .at = G_MAXUINT};

    run(&sim, MINUTE_FRAMES / 4, FALSE);
    gint64 first = run(&sim, MINUTE_FRAMES, TRUE), last = 0;
    for (guint minute = 2; minute <= 60; minute++) {
        last = run(&sim, MINUTE_FRAMES, TRUE);
        /* What waits for a thread that is held is seen once in a period. */
        gint64 most = held ? PERIOD : GST_MSECOND;
        CHECK(ABS(last - first) < most,
              "%d ppm: %" G_GINT64_FORMAT " µs late in the first minute, %" G_GINT64_FORMAT
              " in minute %u",
              ppm, first / 1000, last / 1000, minute);
    }
    SAY("  %4d ppm, %s, %s: %6.2f ms late, an hour later %6.2f", ppm, ahead ? "joined" : "together",
        held ? "held" : "free", (gdouble)first / 1e6, (gdouble)last / 1e6);
    if (!ahead)
        CHECK(ABS(sim.apart) < 2 * ABS(ppm) * 3600 * (gint64)GST_USECOND + SINK_LATENCY,
              "the running time is not kept: %" G_GINT64_FORMAT, sim.apart);
}

static void drifts(void)
{
    static const gint ppm[] = {100, -100, 200, -200, 0};

    for (guint i = 0; i < G_N_ELEMENTS(ppm); i++) {
        for (guint way = 0; way < 4; way++)
            drift(ppm[i], 3 * GST_MSECOND, way & 1 ? 70 * (gint64)GST_SECOND : 0, (way & 2) != 0);
        drift(ppm[i], 0, 0, FALSE);
    }
}

/* From the second frame on, while the source still finds out how late frames are: the intervals do
 * not visibly change, and after it frames are no later than the shortest way. */
static void settles(void)
{
    struct sim sim = {
        .jitter = 15 * GST_MSECOND, .ahead = 70 * (gint64)GST_SECOND, .at = G_MAXUINT};

    run(&sim, 1, FALSE);
    run(&sim, MINUTE_FRAMES, TRUE);
    gint64 least = G_MAXINT64;
    for (guint i = 0; i < MINUTE_FRAMES; i++)
        least = MIN(least, run(&sim, 1, TRUE));
    CHECK(ABS(least) < GST_MSECOND, "the least late frame is %" G_GINT64_FORMAT " µs late",
          least / 1000);
}

/* --- what is no drift ----------------------------------------------------------------------- */

/* Afterwards frames are as late as before, and have kept their intervals. */
static void check_steady(struct sim *sim, const gchar *what, gint64 late)
{
    gint64 now = run(sim, MINUTE_FRAMES, TRUE);

    CHECK(ABS(now - late) < (sim->held ? PERIOD : GST_MSECOND),
          "%s: %" G_GINT64_FORMAT " µs late, and %" G_GINT64_FORMAT " before", what, now / 1000,
          late / 1000);
}

/* One of the clocks is set, or the receiver is stopped for a while. */
static void check_step(const gchar *what, gint64 jump, gint64 stopped, gboolean held)
{
    struct sim sim = {.jitter = GST_MSECOND, .held = held, .at = 2 * MINUTE_FRAMES};

    sim.jump = jump;
    sim.stopped = stopped;
    run(&sim, MINUTE_FRAMES, FALSE);
    gint64 late = run(&sim, MINUTE_FRAMES, TRUE);
    run(&sim, MINUTE_FRAMES / 4, FALSE);
    check_steady(&sim, what, late);
}

static void steps(void)
{
    const gint64 much = 5 * (gint64)GST_SECOND;

    for (guint held = 0; held < 2; held++) {
        check_step("the sender's clock is set ahead", much, 0, held != 0);
        check_step("the sender's clock is set back", -much, 0, held != 0);
        check_step("the receiver is stopped", 0, much, held != 0);
    }
}

/* The transit time changes: the map follows, and does not oscillate. */
static void other_way(gint64 longer)
{
    const gint64 little = GST_MSECOND / 2;
    struct sim sim = {.at = 2 * MINUTE_FRAMES, .longer = longer};

    run(&sim, MINUTE_FRAMES, FALSE);
    gint64 late = run(&sim, MINUTE_FRAMES, TRUE);
    for (guint i = 0; i < MINUTE_FRAMES; i++) {
        gint64 off = run(&sim, 1, TRUE) - late;
        CHECK(longer > 0 ? off > -little : off < little, "%" G_GINT64_FORMAT " ns too far", off);
        CHECK(i < MINUTE_FRAMES / 2 || ABS(off) < little, "still %" G_GINT64_FORMAT " ns off", off);
    }
}

/* Downstream begins to block the thread that takes frames, which arrive as before. */
static void begins_to_hold(void)
{
    struct sim sim = {.jitter = GST_MSECOND, .at = 2 * MINUTE_FRAMES, .holds = TRUE};

    run(&sim, MINUTE_FRAMES, FALSE);
    gint64 late = run(&sim, MINUTE_FRAMES, TRUE);
    for (guint minute = 0; minute < 10; minute++) {
        gint64 now = run(&sim, MINUTE_FRAMES, TRUE);
        CHECK(ABS(now - late) < GST_MSECOND,
              "%" G_GINT64_FORMAT " ns late, and %" G_GINT64_FORMAT " before", now, late);
    }
}

/* A receiver that was stopped when its first frame came: that was not 5 s on its way. */
static void first_frame(void)
{
    struct sim sim = {.ahead = 70 * (gint64)GST_SECOND, .stopped = 5 * (gint64)GST_SECOND};

    run(&sim, MINUTE_FRAMES, FALSE);
    check_steady(&sim, "stopped at the first frame", 0);
}

/* A clock loses its name: the frames' times on the time line are kept. */
static void lost_name(void)
{
    const struct wire_head named = {
        .live = TRUE, .clock = 77, .base_time = 10 * GST_SECOND, .run = 10 * GST_SECOND};
    const gint64 before = 10 * (gint64)GST_MSECOND; /* frames are that early by the shared clock */
    struct sim sim = {.jitter = GST_MSECOND, .ahead = before, .at = G_MAXUINT};
    struct time_now now = {.clock = 77, .base = 10 * GST_SECOND, .running = GST_SECOND};

    time_map_update(&sim.map, &named, NULL, &now);
    sim.map.run = 0; /* as those heads have it that follow */
    run(&sim, 1, FALSE);
    gint64 late = run(&sim, MINUTE_FRAMES, TRUE);
    CHECK(late < -before + TRANSIT + GST_MSECOND, "%" G_GINT64_FORMAT " ns late", late);
    check_steady(&sim, "without a name", late);
}

/* --- what is not live ----------------------------------------------------------------------- */

/* A file that is read as fast as it can be, or is not: its times are its own. */
static void files(void)
{
    static const gint ppm[] = {-500000, 0, 900000};

    for (guint i = 0; i < G_N_ELEMENTS(ppm); i++) {
        struct sim sim = {
            .ppm = ppm[i], .jitter = 30 * GST_MSECOND, .not_live = TRUE, .at = G_MAXUINT};
        run(&sim, 1, FALSE);
        for (guint frame = 1; frame < MINUTE_FRAMES; frame++) {
            step(&sim);
            CHECK_EQUAL(sim.spacing, PERIOD);
            CHECK_EQUAL(sim.apart, 0);
        }
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    SAY("an hour of drift");
    drifts();
    settles();
    SAY("steps");
    steps();
    other_way(4 * GST_MSECOND);
    other_way(-4 * (gint64)GST_MSECOND);
    begins_to_hold();
    first_frame();
    lost_name();
    SAY("files");
    files();
    return 0;
}

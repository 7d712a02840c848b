/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A log is not flooded: the lines per second are limited, and suppressed lines are counted, each
 * once, with any number of threads. Errors are always printed. */
#include "base/base.h"
#include "support/run.h"

#define MAX GPUD_LOG_LINES_MAX

static atomic_uint printed, told, left_out, errors;

static void count(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    if (strcmp(area, "log") == 0) {
        CHECK(level == GPUD_LOG_WARNING && strstr(text, "more lines were left out"), "%s", text);
        atomic_fetch_add(&left_out, (unsigned)atoi(text));
        atomic_fetch_add(&told, 1);
    } else {
        atomic_fetch_add(level == GPUD_LOG_ERROR ? &errors : &printed, 1);
    }
}

static void start(struct gpud_log *log, enum gpud_log_level level)
{
    gpud_log_init(log, count, NULL, level);
    printed = told = left_out = errors = 0;
}

/* So many lines at that time: how many of them may be printed, and what the first has to tell. */
static void expect(struct gpud_log *log, int64_t now, unsigned lines, unsigned print, unsigned tell)
{
    unsigned may = 0;
    for (unsigned i = 0; i < lines; i++) {
        uint32_t before = 77;
        may += gpud_log_count(log, now, &before);
        CHECK(before == (i == 0 ? tell : 0), "line %u of %u at %lld ms is told of %u lines", i,
              lines, (long long)(now / GPUD_MSEC), before);
    }
    CHECK(may == print, "%u of %u lines at %lld ms are printed, and %u should be", may, lines,
          (long long)(now / GPUD_MSEC), print);
}

#define THREADS 4
#define LINES 50000

static void *flood(void *arg)
{
    struct gpud_log *log = arg;
    for (int i = 0; i < LINES; i++) {
        gpud_log_info(log, "test", "line %d", i);
        gpud_log_debug(log, "test", "below the level");
        if (i % 100 == 0)
            gpud_log_error(log, "test", "error %d", i);
    }
    return NULL;
}

int main(void)
{
    SAY("seconds");
    struct gpud_log log;
    const int64_t at = 1000000 * GPUD_SEC;
    start(&log, GPUD_LOG_INFO);
    expect(&log, at, MAX, MAX, 0);
    expect(&log, at + 999 * GPUD_MSEC, 5, 0, 0);
    expect(&log, at + GPUD_SEC, 1, 1, 5); /* told once */
    expect(&log, at + GPUD_SEC, 10, 10, 0);
    expect(&log, at + 2 * GPUD_SEC, 1, 1, 0);
    expect(&log, at + 2 * GPUD_SEC, 1450000, MAX - 1, 0);
    /* A thread that read the clock before. */
    expect(&log, at + GPUD_SEC, 3, 0, 0);
    expect(&log, at + 3600 * GPUD_SEC, 2 * MAX, MAX, 1450000 + 3 - (MAX - 1));
    gpud_log_finish(&log);
    CHECK(told == 1 && left_out == MAX, "%u lines at the end", atomic_load(&left_out));
    gpud_log_finish(&log);
    CHECK_EQUAL(told, 1);
    /* From the very start of the clock. */
    start(&log, GPUD_LOG_INFO);
    expect(&log, 0, MAX + 1, MAX, 0);
    expect(&log, GPUD_SEC, 1, 1, 1);
    gpud_log_finish(&log);
    CHECK_EQUAL(told, 0);
    SAY("threads");
    start(&log, GPUD_LOG_INFO);
    int64_t before = gpud_now() / GPUD_SEC;
    run_threads(THREADS, flood, &log);
    unsigned seconds = (unsigned)(gpud_now() / GPUD_SEC - before) + 1;
    gpud_log_finish(&log);
    SAY("  %u of %u lines in %u seconds of the clock, %u times told of more", atomic_load(&printed),
        THREADS * LINES, seconds, atomic_load(&told));
    CHECK(printed >= MAX && printed <= seconds * MAX, "%u lines in %u seconds",
          atomic_load(&printed), seconds);
    CHECK(told <= seconds, "told %u times in %u seconds", atomic_load(&told), seconds);
    CHECK_EQUAL(printed + left_out, THREADS * LINES);
    CHECK_EQUAL(errors, THREADS * LINES / 100);
    return 0;
}

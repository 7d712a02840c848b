/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The kill matrix: at each named point of the hand-off, on each way of a frame, processes are
 * killed exactly there. The survivors stream again, a crash is told as one, nothing is lost without
 * a word (I1, I2, I3), nothing leaks (I4). Every cell runs in a process of its own, some at a time;
 * at the end a table says how often each point was died at, and after how many ms at most frames
 * came again. */
#include "cell.h"
#include "support/check.h"
#include "support/copies.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define JOBS_MAX 16
#define POINTS_MAX 64

enum result { NOT_RUN, ABSENT, DONE, FAILED, SKIPPED };

static struct table {
    struct {
        enum result result;
        int output; /* of a cell that failed */
        struct cell cell;
    } at[POINTS_MAX][WAYS];
} * table; /* shared with the cells */

static struct job {
    pid_t pid;
    int point, way, output;
} jobs[JOBS_MAX];
static int running, failed;

/* --- one cell --------------------------------------------------------------------------------- */

/* Whether the way's devices are there at all; in a process of its own, as drivers do not like to be
 * forked. */
static bool is_there(const struct way *way)
{
    int state = 0;
#ifdef __SANITIZE_THREAD__
    if (way->bit == WAY_DIRECTGMA) {
        SAY("%s is skipped: OpenCL's runtime was not built for this sanitizer", way->name);
        return false;
    }
#endif
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        struct gpud_context *context;
        struct gpud_device *device;
        struct gpud_error error = {.reason = ""};
        const char *names[] = {way->from, way->to};
        WORKS(gpud_context_create(NULL, &context, &e));
        for (int i = 0; i < 2; i++) {
            enum gpud_status status = gpud_device_open(context, names[i], &device, &error);
            if (status == GPUD_NO_DEVICE) {
                SAY("%s is skipped: %s", way->name, error.reason);
                _exit(77);
            }
            CHECK(status == GPUD_OK, "%s: %s", names[i], error.reason);
            gpud_device_close(&device);
        }
        gpud_context_destroy(&context);
        _exit(0);
    }
    waitpid(pid, &state, 0);
    CHECK(WIFEXITED(state) && (WEXITSTATUS(state) == 0 || WEXITSTATUS(state) == 77),
          "%s cannot be opened: state %#x", way->name, state);
    return WEXITSTATUS(state) == 0;
}

static void start(int point, int way)
{
    struct job *job = jobs;
    while (job->pid)
        job++;
    struct cell *cell = &table->at[point][way].cell;
    *job = (struct job){.point = point, .way = way};
    job->output = memfd_create("output", MFD_CLOEXEC);
    CHECK(job->output >= 0, "memfd_create: %s", strerror(errno));
    job->pid = fork();
    CHECK(job->pid >= 0, "fork: %s", strerror(errno));
    if (job->pid == 0) {
        dup2(job->output, 1);
        dup2(job->output, 2);
        alarm(CELL_MAX(cell->kills));
        cell_run(cell);
        exit(0);
    }
    running++;
}

static void wait_for_one(void)
{
    int state = 0;
    pid_t pid = waitpid(-1, &state, 0);
    for (struct job *job = jobs; job < jobs + JOBS_MAX; job++) {
        if (job->pid != pid)
            continue;
        bool good = WIFEXITED(state) && WEXITSTATUS(state) == 0;
        table->at[job->point][job->way].result = good ? DONE : FAILED;
        if (!good) {
            failed++;
            SAY("FAILED: %s, %s (%s %d): see below", points[job->point].name, ways[job->way].name,
                WIFEXITED(state) ? "status" : "signal",
                WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
            table->at[job->point][job->way].output = job->output;
        } else {
            close(job->output);
        }
        job->pid = 0;
        running--;
    }
}

/* --- the table -------------------------------------------------------------------------------- */

static void print_cell(int point, int way)
{
    const struct cell *cell = &table->at[point][way].cell;
    char text[32];
    switch (table->at[point][way].result) {
    case DONE:
        snprintf(text, sizeof(text), "%d  %lld ms", cell->kills,
                 (long long)(cell->worst / GPUD_MSEC));
        break;
    case FAILED:
        snprintf(text, sizeof(text), "FAILED");
        break;
    case SKIPPED:
        snprintf(text, sizeof(text), "skipped");
        break;
    case ABSENT:
        snprintf(text, sizeof(text), "-");
        break;
    default:
        snprintf(text, sizeof(text), " ");
    }
    printf("  %14s", text);
}

static void print_table(void)
{
    long long kills = 0;
    SAY("\nkills, and the longest time until frames came again; -: the way has no such point");
    printf("%-40s", "killed at");
    for (int way = 0; way < WAYS; way++)
        printf("  %14s", ways[way].name);
    putchar('\n');
    for (int point = 0; point < point_count; point++) {
        printf("%-40s", points[point].name);
        for (int way = 0; way < WAYS; way++) {
            print_cell(point, way);
            if (table->at[point][way].result == DONE)
                kills += table->at[point][way].cell.kills;
        }
        putchar('\n');
    }
    SAY("%lld kills, each exactly at its point", kills);
}

static void print_output(int fd)
{
    char bytes[4096];
    ssize_t got;
    lseek(fd, 0, SEEK_SET);
    fflush(stdout);
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        fwrite(bytes, 1, (size_t)got, stdout);
    fflush(stdout);
}

/* At the very end: of a long log it is the end that people see. */
static void print_failures(void)
{
    for (int point = 0; point < point_count; point++)
        for (int way = 0; way < WAYS; way++)
            if (table->at[point][way].result == FAILED) {
                SAY("\n%s, %s:", points[point].name, ways[way].name);
                print_output(table->at[point][way].output);
            }
}

/* --- how long it takes ------------------------------------------------------------------------ */

/* What else runs on the machine decides how long a stream stays away, so that a limit holds for an
 * idle one alone. 0: no limit. */
static int64_t find_limit(void)
{
    const char *text = getenv("GPUD_TEST_AGAIN_MS");
    double load = 0;
    if (!text)
        return 0;
    CHECK(getloadavg(&load, 1) == 1, "no load average");
    if (load < 0.5 * (double)sysconf(_SC_NPROCESSORS_ONLN))
        return atoi(text) * GPUD_MSEC;
    SAY("the machine is not idle (load %.1f): times are printed, not judged", load);
    return 0;
}

static void judge_times(int64_t limit)
{
    for (int point = 0; point < point_count; point++)
        for (int way = 0; way < WAYS; way++) {
            const struct cell *cell = &table->at[point][way].cell;
            if (table->at[point][way].result != DONE || cell->worst <= limit)
                continue;
            SAY("TOO LATE: %s, %s: %lld ms", points[point].name, ways[way].name,
                (long long)(cell->worst / GPUD_MSEC));
            failed++;
        }
}

/* --- all of it -------------------------------------------------------------------------------- */

static int kills_on(const struct way *way, int on_host, int elsewhere)
{
    return way->bit == WAY_HOST ? on_host : elsewhere;
}

/* A sample has every point on the host and, where it exists there, on one way in four, another four
 * at each point: all points and all ways are met. */
static bool is_in_sample(int point, int way)
{
    return ways[way].bit == WAY_HOST || (point + way) % 4 == 0;
}

/* A kind of points: one side passes them for one cause. */
static bool is_of_kind(int point, int other)
{
    return points[point].provoke == points[other].provoke &&
           point_is_the_senders(&points[point]) == point_is_the_senders(&points[other]);
}

static bool is_first_of_kind(int point)
{
    for (int i = 0; i < point; i++)
        if (is_of_kind(i, point))
            return false;
    return true;
}

static bool is_last_of_kind(int point)
{
    for (int i = point + 1; i < point_count; i++)
        if (is_of_kind(i, point))
            return false;
    return true;
}

/* The n-th of the ways on which the point exists, counted round and round. */
static bool is_nth_way(int point, int way, int n)
{
    int before = 0, all = 0;
    for (int i = 0; i < WAYS; i++) {
        bool exists = points[point].ways & ways[i].bit;
        before += exists && i < way;
        all += exists;
    }
    return (points[point].ways & ways[way].bit) && n % all == before;
}

/* Of each kind the first point and the last one, where those are two, on one way each, another one
 * for each kind: so that all ways but the group's are met, too. */
static bool is_among_kinds(int point, int way)
{
    int kind = 0;
    for (int i = 0; i < point && !is_of_kind(i, point); i++)
        kind += is_first_of_kind(i);
    return (is_first_of_kind(point) && is_nth_way(point, way, kind)) ||
           (is_last_of_kind(point) && !is_first_of_kind(point) && is_nth_way(point, way, kind + 5));
}

static bool is_any(int point, int way)
{
    return true;
}

/* Everything, except in the columns of a standby and of groups, which vary the sender and the
 * receiver and not the way, and of two ways that are made of others' parts: one cell of each
 * kind. */
static bool is_in_short_run(int point, int way)
{
    return !(ways[way].bit & (WAY_STANDBY | WAYS_OF_GROUPS | WAY_UP | WAY_DOWN)) ||
           is_first_of_kind(point);
}

/* kill-matrix [kills on the host [kills on other ways [part of a way's name [part of a point's
 * name]]]]              with one kill on other ways not all cells of some ways
 * kill-matrix sample     two kills in each cell of a sample
 * kill-matrix kinds      two kills in a cell or two of each kind
 *
 * With GPUD_TEST_AGAIN_MS set, and nothing else to do on the machine, one cell at a time, and none
 * may take longer than that until frames come again. */
int main(int argc, char **argv)
{
    copies_install_if_asked();
    peer_main(argc, argv);
    child_main(argc, argv);
    int on_host = argc > 1 ? atoi(argv[1]) : 50, elsewhere = argc > 2 ? atoi(argv[2]) : 5;
    bool (*is_chosen)(int point, int way) = is_any;
    if (argc > 1 && strcmp(argv[1], "sample") == 0)
        is_chosen = is_in_sample;
    else if (argc > 1 && strcmp(argv[1], "kinds") == 0)
        is_chosen = is_among_kinds;
    if (is_chosen != is_any)
        on_host = elsewhere = 2;
    else if (elsewhere == 1)
        is_chosen = is_in_short_run;
    CHECK(on_host > 0 && elsewhere > 0, "no kills: give numbers");
    const char *only_way = argc > 3 ? argv[3] : "", *only_point = argc > 4 ? argv[4] : "";
    /* They wait more than they work. */
    int most = 2 * (int)sysconf(_SC_NPROCESSORS_ONLN);
    most = most < JOBS_MAX ? most : JOBS_MAX;
    int64_t limit = find_limit();
    if (limit)
        most = 1;
    setenv("GPUDIRECT_LOG", "info", 1); /* seen only where a cell fails */
    CHECK(point_count <= POINTS_MAX, "the table has room for %d points", POINTS_MAX);
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "mmap: %s", strerror(errno));
    for (int way = 0; way < WAYS; way++) {
        bool wanted = strstr(ways[way].name, only_way), there = wanted && is_there(&ways[way]);
        for (int point = 0; point < point_count; point++) {
            table->at[point][way].cell = (struct cell){
                .point = &points[point],
                .way = &ways[way],
                .kills = kills_on(&ways[way], on_host, elsewhere),
            };
            if (!(points[point].ways & ways[way].bit)) {
                table->at[point][way].result = ABSENT;
                continue;
            }
            if (!there && wanted)
                table->at[point][way].result = SKIPPED;
            if (!there || !strstr(points[point].name, only_point) || !is_chosen(point, way))
                continue;
            if (running == most)
                wait_for_one();
            start(point, way);
        }
    }
    while (running)
        wait_for_one();
    print_table();
    print_failures();
    if (limit)
        judge_times(limit);
    if (failed)
        FAIL("%d cells of the matrix failed", failed);
    return 0;
}

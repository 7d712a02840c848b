/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --channels: what many channels cost at a pace, in two processes or in two each. */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Without frames: how long until sides sleep for good, and how long wake-ups are counted then. */
#define SETTLE (3 * GPUD_SEC)
#define QUIET GPUD_SEC

/* === what a process has ====================================================================== */

static unsigned count_entries(const char *path)
{
    unsigned count = 0;
    GDir *directory = g_dir_open(path, 0, NULL);
    while (directory && g_dir_read_name(directory))
        count++;
    if (directory)
        g_dir_close(directory);
    return count;
}

/* A number of a status file of /proc; 0: it is not there. */
static uint64_t read_status(const char *path, const char *key)
{
    gchar *text = NULL;
    uint64_t value = 0;
    if (g_file_get_contents(path, &text, NULL, NULL)) {
        const char *line = strstr(text, key);
        value = line ? strtoull(line + strlen(key), NULL, 10) : 0;
    }
    g_free(text);
    return value;
}

/* How often this process's threads have gone to sleep by themselves. */
static uint64_t count_sleeps(void)
{
    uint64_t sum = 0;
    const char *name;
    GDir *tasks = g_dir_open("/proc/self/task", 0, NULL);
    while (tasks && (name = g_dir_read_name(tasks))) {
        gchar *path = g_strdup_printf("/proc/self/task/%s/status", name);
        sum += read_status(path, "\nvoluntary_ctxt_switches:");
        g_free(path);
    }
    if (tasks)
        g_dir_close(tasks);
    return sum;
}

static void note_process(struct bench_channels *noted)
{
    noted->threads = count_entries("/proc/self/task");
    noted->descriptors = count_entries("/proc/self/fd");
    noted->kilobytes = read_status("/proc/self/status", "\nRssAnon:");
}

/* Both sides, at the same time: no frame comes. */
static void count_wakes(struct bench_channels *noted)
{
    clock_sleep_until(clock_now() + SETTLE);
    uint64_t before = count_sleeps();
    clock_sleep_until(clock_now() + QUIET);
    noted->wakes = count_sleeps() - before;
    noted->wakes -= noted->wakes > 0; /* this thread's sleep */
}

/* === the children ============================================================================ */

static const char *name_channel(uint32_t index, char address[300])
{
    g_snprintf(address, 300, "%s%u", bench_job.address, bench_job.number + index);
    return address;
}

void bench_run_channel_senders(void)
{
    const struct bench_job *job = &bench_job;
    struct bench_result result = {0};
    struct gpud_context *context = bench_create_context();
    struct gpud_sender **senders = g_new0(struct gpud_sender *, job->channels);
    for (uint32_t i = 0; i < job->channels; i++) {
        char address[300];
        senders[i] = bench_create_sender(context, name_channel(i, address));
    }
    bench_say(BENCH_LISTENING);
    for (uint32_t i = 0; i < job->channels; i++)
        bench_must("connecting", gpud_sender_wait(senders[i], 1, job->patience, &bench_error));
    bench_say(BENCH_READY);
    bench_expect(BENCH_GO, job->patience, NULL, 0);

    int64_t first = clock_now(), cpu = 0;
    for (uint32_t frame = 0; frame < job->warmup + job->frames; frame++) {
        clock_sleep_until(first + bench_paced_time(job, frame));
        if (frame == job->warmup) {
            cpu = clock_cpu_time();
            result.start = clock_now();
        }
        for (uint32_t i = 0; i < job->channels; i++) {
            struct gpud_frame *slot;
            bool sent = gpud_sender_acquire(senders[i], 0, &slot, NULL) == GPUD_OK;
            if (sent && gpud_sender_submit(senders[i], &slot, 0, NULL) != GPUD_OK) {
                gpud_frame_release(&slot);
                sent = false;
            }
            if (!sent)
                result.channels.late++;
            else if (frame >= job->warmup)
                result.frames++;
        }
    }
    result.cpu_ns = clock_cpu_time() - cpu;
    result.end = clock_now();
    note_process(&result.channels);
    count_wakes(&result.channels);
    bench_send_result(&result, NULL);
    bench_expect(BENCH_STOP, job->patience, NULL, 0);
    for (uint32_t i = 0; i < job->channels; i++)
        gpud_sender_destroy(&senders[i]);
    gpud_context_destroy(&context);
    g_free(senders);
}

static struct {
    struct gpud_receiver **receivers;
    uint64_t *last; /* sequence of each */
    struct bench_result result;
    int64_t *latencies;
    uint64_t latencies_max;
    int64_t cpu;
} taker;

/* Takes what has come for one channel. false: an error. */
static bool take(uint32_t index)
{
    struct gpud_frame *frame;
    struct bench_result *result = &taker.result;
    enum gpud_status status;
    while ((status = gpud_receiver_acquire(taker.receivers[index], 0, &frame, &bench_error)) ==
           GPUD_OK) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        gpud_frame_get_info(frame, &info);
        int64_t now = clock_now();
        gpud_frame_release(&frame);
        result->channels.lost += info.sequence - taker.last[index] - 1;
        taker.last[index] = info.sequence;
        if (info.sequence <= bench_job.warmup)
            continue;
        if (result->frames++ == 0) {
            taker.cpu = clock_cpu_time();
            result->start = now;
        }
        if (result->latencies < taker.latencies_max)
            taker.latencies[result->latencies++] = now - (int64_t)info.submitted_ns;
        result->end = now;
    }
    return status == GPUD_TIMEOUT;
}

void bench_run_channel_receivers(void)
{
    const struct bench_job *job = &bench_job;
    struct bench_result *result = &taker.result;
    struct gpud_context *context = bench_create_context();
    uint64_t late = 0, expected = (uint64_t)job->channels * job->frames;
    taker.receivers = g_new0(struct gpud_receiver *, job->channels);
    taker.last = g_new0(uint64_t, job->channels);
    taker.latencies_max = MIN(expected, 1 << 20);
    taker.latencies = g_new(int64_t, taker.latencies_max);
    int loop = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < job->channels; i++) {
        char address[300];
        struct epoll_event readable = {.events = EPOLLIN, .data.u32 = i};
        int fd;
        taker.receivers[i] =
            bench_create_receiver(context, name_channel(i, address), job->to, NULL);
        bench_must("its descriptor", gpud_receiver_get_fd(taker.receivers[i], &fd, &bench_error));
        epoll_ctl(loop, EPOLL_CTL_ADD, fd, &readable);
    }
    bench_say(BENCH_READY);
    int64_t deadline =
        clock_now() + 2 * job->patience + bench_paced_time(job, (double)job->warmup + job->frames);
    while (result->frames + late < expected) {
        struct epoll_event events[64];
        int count = epoll_wait(loop, events, G_N_ELEMENTS(events), 500);
        for (int i = 0; i < count; i++)
            if (!take(events[i].data.u32))
                bench_die(bench_error.status, "receiving: %s", bench_error.reason);
        /* Frames that the sender could not send do not come. */
        if (count == 0 && result->frames && clock_now() - result->end > GPUD_SEC)
            late = expected - result->frames;
        if (clock_now() > deadline)
            bench_die(GPUD_TIMEOUT, "the frames did not come in time");
    }
    result->cpu_ns = clock_cpu_time() - taker.cpu;
    note_process(&result->channels);
    for (uint32_t i = 0; i < job->channels; i++)
        take(i); /* arms the descriptors for the time without frames */
    count_wakes(&result->channels);
    bench_send_result(result, taker.latencies);
    bench_expect(BENCH_STOP, job->patience, NULL, 0);
    for (uint32_t i = 0; i < job->channels; i++)
        gpud_receiver_destroy(&taker.receivers[i]);
    close(loop);
    gpud_context_destroy(&context);
}

/* === the coordinator ========================================================================= */

/* The sum over the processes of a side. */
struct side {
    double cpu;      /* percent of a processor */
    double frame_us; /* CPU time a frame */
    struct bench_channels has;
};

/* One line of the report. */
struct row {
    uint32_t channels, processes;
    uint64_t frames, late, lost;
    struct stats_latency latency;
    struct side side[2];
};

static const struct bench_field row_fields[] = {
    {"channels", BENCH_INT32, offsetof(struct row, channels)},
    {"processes", BENCH_INT32, offsetof(struct row, processes)},
    {"frames", BENCH_INT, offsetof(struct row, frames)},
    {"late", BENCH_INT, offsetof(struct row, late)},
    {"lost", BENCH_INT, offsetof(struct row, lost)},
    {"latency_us_p50", BENCH_NUMBER, offsetof(struct row, latency.p50)},
    {"latency_us_p99", BENCH_NUMBER, offsetof(struct row, latency.p99)},
    {NULL},
};

static const struct bench_field side_fields[] = {
    {"cpu_percent", BENCH_NUMBER, offsetof(struct side, cpu)},
    {"cpu_us_per_frame", BENCH_NUMBER, offsetof(struct side, frame_us)},
    {"threads", BENCH_INT, offsetof(struct side, has.threads)},
    {"descriptors", BENCH_INT, offsetof(struct side, has.descriptors)},
    {"kilobytes", BENCH_INT, offsetof(struct side, has.kilobytes)},
    {"idle_wakes", BENCH_INT, offsetof(struct side, has.wakes)},
    {NULL},
};

static void sum_up(struct bench_child *children, size_t count, struct row *row)
{
    GArray *latencies = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (size_t i = 0; i < count; i++) {
        const struct bench_result *result = &children[i].result;
        const struct bench_channels *has = &result->channels;
        size_t side = i < count / 2 ? 0 : 1;
        double seconds = (double)(result->end - result->start) / 1e9;
        row->side[side].cpu += seconds > 0 ? (double)result->cpu_ns / 1e7 / seconds : 0;
        row->side[side].frame_us += (double)result->cpu_ns / 1e3;
        row->side[side].has.threads += has->threads;
        row->side[side].has.descriptors += has->descriptors;
        row->side[side].has.kilobytes += has->kilobytes;
        row->side[side].has.wakes += has->wakes;
        row->late += has->late;
        row->lost += has->lost;
        if (side == 1) {
            row->frames += result->frames;
            g_array_append_vals(latencies, children[i].latencies, (guint)result->latencies);
        }
    }
    for (int side = 0; side < 2; side++)
        row->side[side].frame_us /= (double)MAX(row->frames, 1);
    row->latency = stats_latency_of((const int64_t *)(void *)latencies->data, latencies->len);
    g_array_unref(latencies);
}

/* The first half of the children sends, the second one receives. */
static bool run_children(struct bench_child *children, size_t count, struct bench_job *job,
                         int64_t deadline)
{
    size_t half = count / 2;
    for (size_t i = 0; i < count; i++) {
        if (i == half) {
            if (!bench_wait(children, half, 0, half, BENCH_IS_READY, deadline,
                            "opening" BENCH_TOO_LONG))
                return false;
            for (size_t sender = 0; sender < half; sender++)
                children[sender].ready = false; /* it listens; ready when it is connected */
        }
        job->number = (uint32_t)(i % half) * job->channels;
        if (!bench_start(&children[i], i < half ? "channel-senders" : "channel-receivers", 0, job))
            return false;
    }
    if (!bench_wait(children, count, 0, count, BENCH_IS_READY, deadline,
                    "connecting" BENCH_TOO_LONG))
        return false;
    for (size_t i = 0; i < half; i++)
        if (!bench_send(children[i].fd, BENCH_GO, NULL, 0))
            return false;
    return bench_wait(children, count, 0, count, BENCH_IS_FINISHED, deadline,
                      "sending" BENCH_TOO_LONG);
}

static bool measure(const struct bench_options *options, uint32_t channels, struct row *row)
{
    struct bench_job job = options->ours;
    size_t count = options->apart ? 2 * (size_t)channels : 2;
    char *directory = bench_make_directory();
    if (!directory)
        return false;
    struct bench_child *children = g_new0(struct bench_child, count);
    job.channels = options->apart ? 1 : channels;
    g_snprintf(job.address, sizeof(job.address), "unix:%s/c", directory);
    *row = (struct row){.channels = channels, .processes = (uint32_t)count};
    bool good = run_children(children, count, &job, clock_now() + options->timeout);
    if (good)
        sum_up(children, count, row);
    for (size_t i = 0; good && i < count; i++)
        bench_send(children[i].fd, BENCH_STOP, NULL, 0);
    bench_stop_all(children, count, good, 0);
    g_free(children);
    bench_remove_directory(directory);
    g_free(directory);
    return good;
}

static void print_text(const struct bench_job *job, const struct row *rows, size_t count)
{
    printf("%s to %s, %ux%u %s at %.4g/s a channel; sender + receiver of all channels together\n",
           job->from, job->to, job->width, job->height, job->format,
           (double)job->fps_num / job->fps_den);
    printf("%8s %9s %15s %17s %15s %11s %13s %15s %11s %5s %5s\n", "channels", "processes", "CPU %",
           "CPU us a frame", "p50, p99 us", "threads", "descriptors", "own memory, MB",
           "idle wakes", "late", "lost");
    for (const struct row *row = rows; row < rows + count; row++) {
        const struct bench_channels *a = &row->side[0].has, *b = &row->side[1].has;
        printf("%8u %9u %6.1f + %6.1f %7.2f + %7.2f %7.0f %7.0f %4" PRIu64 " + %4" PRIu64
               " %5" PRIu64 " + %5" PRIu64 " %6.1f + %6.1f %4" PRIu64 " + %4" PRIu64 " %5" PRIu64
               " %5" PRIu64 "\n",
               row->channels, row->processes, row->side[0].cpu, row->side[1].cpu,
               row->side[0].frame_us, row->side[1].frame_us, row->latency.p50, row->latency.p99,
               a->threads, b->threads, a->descriptors, b->descriptors, (double)a->kilobytes / 1e3,
               (double)b->kilobytes / 1e3, a->wakes, b->wakes, row->late, row->lost);
    }
}

static void print_json(const struct row *rows, size_t count)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_begin_array(builder, "channels");
    for (size_t i = 0; i < count; i++) {
        json_builder_begin_object(builder);
        bench_put_fields(builder, row_fields, &rows[i]);
        for (int side = 0; side < 2; side++) {
            json_begin_object(builder, side == 0 ? "sender" : "receiver");
            bench_put_fields(builder, side_fields, &rows[i].side[side]);
            json_builder_end_object(builder);
        }
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    json_print(builder, true);
}

int bench_channels_measure(const struct bench_options *options)
{
    struct row rows[BENCH_CHANNEL_ROWS];
    size_t count = options->channel_rows, done = 0;
    uint64_t lost = 0;
    for (; done < count; done++) {
        bench_show_progress((uint32_t)done + 1, (uint32_t)count);
        if (!measure(options, options->channels[done], &rows[done]))
            break;
        lost += rows[done].lost;
    }
    bench_show_progress(0, (uint32_t)count);
    if (options->json && done)
        print_json(rows, done);
    else if (done)
        print_text(&options->ours, rows, done);
    if (done < count)
        fprintf(stderr, "gpudirect-bench: %u channels: %s\n", options->channels[done],
                bench_failure.reason);
    return done < count ? EXIT_FAILURE : lost ? BENCH_EXIT_DAMAGE : EXIT_SUCCESS;
}

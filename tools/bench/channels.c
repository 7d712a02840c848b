/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --channels: what many channels cost at a pace, in two processes or in two each. */
#include "bench.h"

#include "ceilings/ceilings.h"
#include "json.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* Without frames: how long until sides sleep for good, and how long wake-ups are counted then. */
#define SETTLE (3 * GPUD_SEC)
#define QUIET GPUD_SEC

/* --- what a process has ----------------------------------------------------------------------- */

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

static int64_t cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * GPUD_SEC + t.tv_nsec;
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

/* --- the children ----------------------------------------------------------------------------- */

static void channels_works(int control, const char *what, enum gpud_status status,
                           const struct gpud_error *error)
{
    if (status != GPUD_OK)
        bench_child_fail(control, status, "%s: %s", what, error->reason);
}

static void name_channel(const struct bench_job *job, uint32_t index, char address[300])
{
    g_snprintf(address, 300, "%s%u", job->address, job->number + index);
}

static struct gpud_context *channels_start(int control, struct bench_job *job)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context;
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, job, sizeof(*job));
    channels_works(control, "a context", gpud_context_create(NULL, &context, &error), &error);
    return context;
}

static struct gpud_sender *channels_open_sender(int control, const struct bench_job *job,
                                                struct gpud_context *context, uint32_t index)
{
    char address[300];
    struct gpud_error error = {.reason = ""};
    struct gpud_sender *sender;
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    name_channel(job, index, address);
    params.address = address;
    params.device = job->from;
    params.slots = job->slots;
    params.slow_receiver = GPUD_SLOW_BLOCK;
    channels_works(control, "a sender", gpud_sender_create(context, &params, &sender, &error),
                   &error);
    channels_works(
        control, "the format",
        gpud_layout_init(&media.picture.layout, job->format, job->width, job->height, 0, &error),
        &error);
    channels_works(control, "the format", gpud_sender_configure(sender, &media, &error), &error);
    return sender;
}

void bench_run_channel_senders(int control)
{
    struct bench_job job;
    struct bench_result result = {0};
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context = channels_start(control, &job);
    struct gpud_sender **senders = g_new0(struct gpud_sender *, job.channels);
    for (uint32_t i = 0; i < job.channels; i++)
        senders[i] = channels_open_sender(control, &job, context, i);
    bench_send(control, BENCH_LISTENING, NULL, 0);
    for (uint32_t i = 0; i < job.channels; i++)
        channels_works(control, "connecting", gpud_sender_wait(senders[i], 1, job.patience, &error),
                       &error);
    bench_send(control, BENCH_READY, NULL, 0);
    bench_child_expect(control, BENCH_GO, clock_now() + job.patience, NULL, 0);

    int64_t first = clock_now(), cpu = 0;
    for (uint32_t frame = 0; frame < job.warmup + job.frames; frame++) {
        clock_sleep_until(first + bench_paced_time(&job, frame));
        if (frame == job.warmup) {
            cpu = cpu_time();
            result.start = clock_now();
        }
        for (uint32_t i = 0; i < job.channels; i++) {
            struct gpud_frame *slot;
            bool sent = gpud_sender_acquire(senders[i], 0, &slot, NULL) == GPUD_OK;
            if (sent && gpud_sender_submit(senders[i], &slot, 0, NULL) != GPUD_OK) {
                gpud_frame_release(&slot);
                sent = false;
            }
            if (!sent)
                result.channels.late++;
            else if (frame >= job.warmup)
                result.frames++;
        }
    }
    result.cpu_ns = cpu_time() - cpu;
    result.end = clock_now();
    note_process(&result.channels);
    count_wakes(&result.channels);
    bench_send_result(control, &result, NULL);
    bench_child_expect(control, BENCH_STOP, clock_now() + job.patience, NULL, 0);
    for (uint32_t i = 0; i < job.channels; i++)
        gpud_sender_destroy(&senders[i]);
    gpud_context_destroy(&context);
    g_free(senders);
}

struct taker {
    struct bench_job job;
    struct gpud_receiver **receivers;
    uint64_t *last; /* sequence of each */
    struct bench_result result;
    int64_t *latencies;
    uint64_t latencies_max, frames_expected;
    int64_t cpu;
};

/* Takes what has come for one channel. false: an error. */
static bool channels_take(struct taker *taker, uint32_t index, struct gpud_error *error)
{
    struct gpud_frame *frame;
    enum gpud_status status;
    while ((status = gpud_receiver_acquire(taker->receivers[index], 0, &frame, error)) == GPUD_OK) {
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        gpud_frame_get_info(frame, &info);
        int64_t now = clock_now();
        gpud_frame_release(&frame);
        taker->result.channels.lost += info.sequence - taker->last[index] - 1;
        taker->last[index] = info.sequence;
        if (info.sequence <= taker->job.warmup)
            continue;
        if (taker->result.frames++ == 0) {
            taker->cpu = cpu_time();
            taker->result.start = now;
        }
        if (taker->result.latencies < taker->latencies_max)
            taker->latencies[taker->result.latencies++] = now - (int64_t)info.submitted_ns;
        taker->result.end = now;
    }
    return status == GPUD_TIMEOUT;
}

void bench_run_channel_receivers(int control)
{
    struct taker taker = {0};
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context = channels_start(control, &taker.job);
    const struct bench_job *job = &taker.job;
    taker.receivers = g_new0(struct gpud_receiver *, job->channels);
    taker.last = g_new0(uint64_t, job->channels);
    taker.frames_expected = (uint64_t)job->channels * job->frames;
    taker.latencies_max = MIN(taker.frames_expected, 1 << 20);
    taker.latencies = g_new(int64_t, taker.latencies_max);
    int loop = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < job->channels; i++) {
        char address[300];
        struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
        struct epoll_event readable = {.events = EPOLLIN, .data.u32 = i};
        name_channel(job, i, address);
        params.address = address;
        params.device = job->to;
        params.slots = job->slots;
        channels_works(control, "a receiver",
                       gpud_receiver_create(context, &params, &taker.receivers[i], &error), &error);
        int fd;
        channels_works(control, "its descriptor",
                       gpud_receiver_get_fd(taker.receivers[i], &fd, &error), &error);
        epoll_ctl(loop, EPOLL_CTL_ADD, fd, &readable);
    }
    bench_send(control, BENCH_READY, NULL, 0);
    int64_t deadline =
        clock_now() + 2 * job->patience + bench_paced_time(job, (double)job->warmup + job->frames);
    uint64_t late = 0;
    while (taker.result.frames + late < taker.frames_expected) {
        struct epoll_event events[64];
        int count = epoll_wait(loop, events, G_N_ELEMENTS(events), 500);
        for (int i = 0; i < count; i++)
            if (!channels_take(&taker, events[i].data.u32, &error))
                bench_child_fail(control, error.status, "receiving: %s", error.reason);
        /* Frames that the sender could not send do not come. */
        if (count == 0 && taker.result.frames && clock_now() - taker.result.end > GPUD_SEC)
            late = taker.frames_expected - taker.result.frames;
        if (clock_now() > deadline)
            bench_child_fail(control, GPUD_TIMEOUT, "the frames did not come in time");
    }
    taker.result.cpu_ns = cpu_time() - taker.cpu;
    note_process(&taker.result.channels);
    for (uint32_t i = 0; i < job->channels; i++)
        channels_take(&taker, i, &error); /* arms the descriptors for the time without frames */
    count_wakes(&taker.result.channels);
    bench_send_result(control, &taker.result, taker.latencies);
    bench_child_expect(control, BENCH_STOP, clock_now() + job->patience, NULL, 0);
    for (uint32_t i = 0; i < job->channels; i++)
        gpud_receiver_destroy(&taker.receivers[i]);
    close(loop);
    gpud_context_destroy(&context);
}

/* --- the coordinator -------------------------------------------------------------------------- */

/* One line of the report: of each side the sum over its processes. */
struct row {
    uint32_t channels, processes;
    uint64_t frames, late, lost;
    double seconds;
    double cpu[2];      /* percent of a processor */
    double frame_us[2]; /* CPU time a frame */
    double p50_us, p99_us;
    struct bench_channels side[2];
};

static bool all_listen(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i += 2)
        if (!children[i].ready)
            return false;
    return true;
}

static bool all_ready(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!children[i].ready)
            return false;
    return true;
}

static bool channels_all_finished(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!children[i].finished)
            return false;
    return true;
}

static bool start_children(struct bench_child *children, size_t count, const struct bench_job *job,
                           size_t first, const char *role, struct bench_failure *failure)
{
    for (size_t i = first; i < count; i += 2) {
        struct bench_job own = *job;
        own.number = (uint32_t)(i / 2) * job->channels;
        if (!bench_child_start(&children[i], role, 0, NULL, 0, failure) ||
            !bench_send(children[i].fd, BENCH_JOB, &own, sizeof(own)))
            return false;
    }
    return true;
}

static void channels_add(struct row *row, int side, const struct bench_result *result)
{
    double seconds = (double)(result->end - result->start) / 1e9;
    row->cpu[side] += seconds > 0 ? (double)result->cpu_ns / 1e7 / seconds : 0;
    row->frame_us[side] += (double)result->cpu_ns / 1e3;
    row->side[side].threads += result->channels.threads;
    row->side[side].descriptors += result->channels.descriptors;
    row->side[side].kilobytes += result->channels.kilobytes;
    row->side[side].wakes += result->channels.wakes;
    row->late += result->channels.late;
    row->lost += result->channels.lost;
    if (side == 1) {
        row->frames += result->frames;
        row->seconds = MAX(row->seconds, seconds);
    }
}

static void sum_up(struct bench_child *children, size_t count, struct row *row)
{
    GArray *latencies = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (size_t i = 0; i < count; i++) {
        channels_add(row, (int)(i % 2), &children[i].result);
        if (i % 2)
            g_array_append_vals(latencies, children[i].latencies,
                                (guint)children[i].result.latencies);
    }
    for (int side = 0; side < 2; side++)
        row->frame_us[side] /= (double)MAX(row->frames, 1);
    struct stats_latency stats =
        stats_latency_of((const int64_t *)(void *)latencies->data, latencies->len);
    row->p50_us = stats.p50;
    row->p99_us = stats.p99;
    g_array_unref(latencies);
}

/* Children come in pairs: a sending process, a receiving one. */
static bool channels_measure(const struct bench_options *options, const char *directory,
                             uint32_t channels, struct row *row, struct bench_failure *failure)
{
    struct bench_job job = options->ours;
    size_t count = options->apart ? 2 * (size_t)channels : 2;
    struct bench_child *children = g_new0(struct bench_child, count);
    int64_t deadline = clock_now() + options->timeout;
    for (size_t i = 0; i < count; i++)
        children[i].pid = children[i].fd = -1;
    job.channels = options->apart ? 1 : channels;
    g_snprintf(job.address, sizeof(job.address), "unix:%s/c", directory);
    *row = (struct row){.channels = channels, .processes = (uint32_t)count};
    bool good = start_children(children, count, &job, 0, "channel-senders", failure) &&
                bench_children_wait(children, count, deadline, all_listen, "opening", failure);
    for (size_t i = 0; good && i < count; i += 2)
        children[i].ready = false; /* it listens; ready when it is connected */
    good = good && start_children(children, count, &job, 1, "channel-receivers", failure) &&
           bench_children_wait(children, count, deadline, all_ready, "connecting", failure);
    for (size_t i = 0; good && i < count; i += 2)
        good = bench_send(children[i].fd, BENCH_GO, NULL, 0);
    good = good && bench_children_wait(children, count, deadline, channels_all_finished, "sending",
                                       failure);
    if (good)
        sum_up(children, count, row);
    else if (!bench_caught_signal())
        bench_children_find_death(children, count, failure);
    for (size_t i = 0; good && i < count; i++)
        bench_send(children[i].fd, BENCH_STOP, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        if (children[i].fd >= 0)
            bench_child_stop(&children[i], good ? clock_now() + BENCH_STEP_TIMEOUT : 0);
        g_free(children[i].latencies);
    }
    g_free(children);
    return good;
}

static void print_json(const struct row *rows, size_t count)
{
    static const char *const sides[] = {"sender", "receiver"};
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_begin_array(builder, "channels");
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        json_builder_begin_object(builder);
        json_put_int(builder, "channels", row->channels);
        json_put_int(builder, "processes", row->processes);
        json_put_int(builder, "frames", (gint64)row->frames);
        json_put_int(builder, "late", (gint64)row->late);
        json_put_int(builder, "lost", (gint64)row->lost);
        json_put_number(builder, "latency_us_p50", row->p50_us);
        json_put_number(builder, "latency_us_p99", row->p99_us);
        for (int side = 0; side < 2; side++) {
            json_begin_object(builder, sides[side]);
            json_put_number(builder, "cpu_percent", row->cpu[side]);
            json_put_number(builder, "cpu_us_per_frame", row->frame_us[side]);
            json_put_int(builder, "threads", row->side[side].threads);
            json_put_int(builder, "descriptors", row->side[side].descriptors);
            json_put_int(builder, "kilobytes", (gint64)row->side[side].kilobytes);
            json_put_int(builder, "idle_wakes", (gint64)row->side[side].wakes);
            json_builder_end_object(builder);
        }
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    json_print(builder, true);
}

static void channels_print_text(const struct bench_job *job, const struct row *rows, size_t count)
{
    printf("%s to %s, %ux%u %s at %.4g/s a channel; sender + receiver of all channels together\n",
           job->from, job->to, job->width, job->height, job->format,
           (double)job->fps_num / job->fps_den);
    printf("%8s %9s %15s %17s %15s %11s %13s %15s %11s %5s %5s\n", "channels", "processes", "CPU %",
           "CPU us a frame", "p50, p99 us", "threads", "descriptors", "own memory, MB",
           "idle wakes", "late", "lost");
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        const struct bench_channels *a = &row->side[0], *b = &row->side[1];
        printf("%8u %9u %6.1f + %6.1f %7.2f + %7.2f %7.0f %7.0f %4u + %4u %5u + %5u %6.1f + %6.1f "
               "%4" PRIu64 " + %4" PRIu64 " %5" PRIu64 " %5" PRIu64 "\n",
               row->channels, row->processes, row->cpu[0], row->cpu[1], row->frame_us[0],
               row->frame_us[1], row->p50_us, row->p99_us, a->threads, b->threads, a->descriptors,
               b->descriptors, (double)a->kilobytes / 1e3, (double)b->kilobytes / 1e3, a->wakes,
               b->wakes, row->late, row->lost);
    }
}

int bench_channels_measure(const struct bench_options *options)
{
    struct bench_failure failure = {.status = GPUD_IO};
    struct row rows[BENCH_CHANNEL_ROWS];
    size_t count = options->channel_rows, done = 0;
    uint64_t lost = 0;
    for (; done < count; done++) {
        bench_show_progress((uint32_t)done + 1, (uint32_t)count);
        char *directory = bench_make_directory(&failure);
        bool good = directory && channels_measure(options, directory, options->channels[done],
                                                  &rows[done], &failure);
        if (directory)
            bench_remove_directory(directory);
        g_free(directory);
        if (!good)
            break;
        lost += rows[done].lost;
    }
    bench_show_progress(0, (uint32_t)count);
    if (options->json && done)
        print_json(rows, done);
    else if (done)
        channels_print_text(&options->ours, rows, done);
    if (done < count)
        fprintf(stderr, "gpudirect-bench: %u channels: %s\n", options->channels[done],
                failure.reason);
    return done < count ? EXIT_FAILURE : lost ? BENCH_EXIT_DAMAGE : EXIT_SUCCESS;
}

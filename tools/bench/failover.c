/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --failover: the main sender of a programme is killed, and its backup takes over. */
#include "bench.h"

#include "ceilings/ceilings.h"
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAIN, BACKUP, RECEIVER, CHILDREN };

/* --- the children ----------------------------------------------------------------------------- */

static void failover_works(int control, const char *what, enum gpud_status status,
                           const struct gpud_error *error)
{
    if (status != GPUD_OK)
        bench_child_fail(control, status, "%s: %s", what, error->reason);
}

/* A sender that stands by has the address of the other. */
static void name_sender(const struct bench_job *job, uint32_t number, char address[300])
{
    g_snprintf(address, 300, "%s%u", job->address, job->failover_standby ? MAIN : number);
}

static struct gpud_sender *failover_open_sender(int control, const struct bench_job *job,
                                                struct gpud_context *context)
{
    char address[300];
    struct gpud_error error = {.reason = ""};
    struct gpud_sender *sender;
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    name_sender(job, job->number, address);
    params.address = address;
    params.device = job->from;
    params.slots = job->slots;
    params.slow_receiver = GPUD_SLOW_DROP_OLDEST;
    params.standby = job->failover_standby && job->number == BACKUP;
    failover_works(control, "a sender", gpud_sender_create(context, &params, &sender, &error),
                   &error);
    failover_works(
        control, "the format",
        gpud_layout_init(&media.picture.layout, job->format, job->width, job->height, 0, &error),
        &error);
    media.picture.rate = (struct gpud_fraction){job->fps_num, job->fps_den};
    failover_works(control, "the format", gpud_sender_configure(sender, &media, &error), &error);
    return sender;
}

/* Both senders send the same instants, at the same times. The main one dies with a slot in its
 * hand, halfway. */
void bench_run_failover_sender(int control)
{
    struct bench_job job;
    struct bench_result result = {0};
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context;
    int64_t first;
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
    failover_works(control, "a context", gpud_context_create(NULL, &context, &error), &error);
    struct gpud_sender *sender = failover_open_sender(control, &job, context);
    bench_send(control, BENCH_LISTENING, NULL, 0);
    if (job.number == MAIN || !job.failover_standby)
        failover_works(control, "connecting", gpud_sender_wait(sender, 1, job.patience, &error),
                       &error);
    bench_send(control, BENCH_READY, NULL, 0);
    bench_child_expect(control, BENCH_GO, clock_now() + job.patience, &first, sizeof(first));
    for (uint32_t i = 0; i < job.warmup + job.frames; i++) {
        struct gpud_frame *frame;
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        clock_sleep_until(first + bench_paced_time(&job, i));
        /* On a busy machine a receiver may connect to the backup later than all of these. */
        if (job.number == BACKUP && i + 1 == job.warmup + job.frames)
            failover_works(control, "connecting", gpud_sender_wait(sender, 1, job.patience, &error),
                           &error);
        failover_works(control, "a slot",
                       gpud_sender_acquire(sender, BENCH_STEP_TIMEOUT, &frame, &error), &error);
        if (job.number == MAIN && i == job.warmup + job.frames / 2)
            raise(SIGKILL);
        gpud_frame_get_info(frame, &info);
        info.pts_ns = (uint64_t)bench_paced_time(&job, i);
        failover_works(control, "a time", gpud_frame_set_info(frame, &info, &error), &error);
        failover_works(control, "sending",
                       gpud_sender_submit(sender, &frame, BENCH_STEP_TIMEOUT, &error), &error);
        result.frames++;
    }
    failover_works(control, "the end", gpud_sender_send_eos(sender, &error), &error);
    bench_send_result(control, &result, NULL);
    bench_child_expect(control, BENCH_STOP, clock_now() + job.patience, NULL, 0);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
}

struct taker {
    struct bench_job job;
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;     /* NULL: with a sender that stands by */
    uint32_t connects;            /* of the only receiver */
    int64_t last_number, last_at; /* of the last instant; -1: none yet */
    struct bench_result result;
    GArray *intervals;
};

static void count_connects(void *user, enum gpud_event event, const void *data)
{
    struct taker *taker = user;
    taker->connects += event == GPUD_EVENT_CONNECTED;
}

static struct gpud_receiver *open_receiver(int control, struct taker *taker,
                                           struct gpud_context *context, uint32_t number)
{
    char address[300];
    struct gpud_error error = {.reason = ""};
    struct gpud_receiver *receiver;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    name_sender(&taker->job, number, address);
    params.address = address;
    params.device = taker->job.to;
    params.slots = taker->job.slots;
    params.on_event = count_connects;
    params.user = taker;
    failover_works(control, "a receiver", gpud_receiver_create(context, &params, &receiver, &error),
                   &error);
    return receiver;
}

/* Of the frame that is in *frame, if any; *backup: it is the backup's. */
static enum gpud_status failover_take(struct taker *taker, struct gpud_frame **frame, bool *backup,
                                      struct gpud_error *error)
{
    enum gpud_status status;
    if (taker->group) {
        struct gpud_group_instant instant = GPUD_INFO_INIT(instant);
        status = gpud_group_acquire(taker->group, NULL, BENCH_STEP_TIMEOUT, &instant, error);
        *frame = status == GPUD_OK ? instant.frames[instant.member] : NULL;
        *backup = instant.member == BACKUP;
    } else {
        status = gpud_receiver_acquire(taker->receivers[MAIN], BENCH_STEP_TIMEOUT, frame, error);
        *backup = taker->connects > 1;
    }
    return status;
}

static void note_instant(struct taker *taker, const struct gpud_frame_info *info, bool backup)
{
    struct bench_result *result = &taker->result;
    int64_t now = clock_now();
    int64_t number = llround((double)info->pts_ns / (double)bench_paced_time(&taker->job, 1));
    if (taker->last_number >= 0) {
        int64_t interval = now - taker->last_at;
        result->torn += number <= taker->last_number;
        if (number > taker->job.warmup)
            result->missing += (uint64_t)MAX(number - taker->last_number - 1, 0);
        if (backup && result->measured == 0) { /* the first of the backup's */
            result->start = taker->last_at;
            result->end = now;
        }
        if (number >= taker->job.warmup)
            g_array_append_val(taker->intervals, interval);
    }
    result->frames++;
    result->measured += backup;
    taker->last_number = number;
    taker->last_at = now;
}

void bench_run_failover_receiver(int control)
{
    struct taker taker = {.last_number = -1};
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context;
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, &taker.job,
                       sizeof(taker.job));
    int64_t deadline = clock_now() + 2 * taker.job.patience +
                       bench_paced_time(&taker.job, (double)taker.job.warmup + taker.job.frames);
    taker.intervals = g_array_new(FALSE, FALSE, sizeof(int64_t));
    failover_works(control, "a context", gpud_context_create(NULL, &context, &error), &error);
    for (uint32_t i = 0; i < (taker.job.failover_standby ? 1 : 2); i++)
        taker.receivers[i] = open_receiver(control, &taker, context, i);
    if (!taker.job.failover_standby) {
        struct gpud_group_params params = GPUD_PARAMS_INIT(params);
        params.mode = GPUD_GROUP_ANY;
        failover_works(
            control, "a group",
            gpud_group_create(context, &params, taker.receivers, 2, &taker.group, &error), &error);
    }
    for (enum gpud_status status = GPUD_OK; status != GPUD_CLOSED;) {
        struct gpud_frame *frame = NULL;
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        bool backup = false;
        if (clock_now() > deadline)
            bench_child_fail(control, GPUD_TIMEOUT, "the frames did not come in time");
        status = failover_take(&taker, &frame, &backup, &error);
        if (status == GPUD_OK) {
            gpud_frame_get_info(frame, &info);
            gpud_frame_release(&frame);
            note_instant(&taker, &info, backup);
        } else if (status != GPUD_CLOSED && status != GPUD_TIMEOUT && status != GPUD_PEER) {
            failover_works(control, "receiving", status, &error);
        }
    }
    if (taker.result.measured == 0)
        bench_child_fail(control, GPUD_PEER, "no frame of the backup came");
    taker.result.intervals = taker.intervals->len;
    bench_send_result(control, &taker.result, (int64_t *)(void *)taker.intervals->data);
    bench_child_expect(control, BENCH_STOP, clock_now() + taker.job.patience, NULL, 0);
    gpud_group_destroy(&taker.group);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&taker.receivers[i]);
    gpud_context_destroy(&context);
    g_array_unref(taker.intervals);
}

/* --- the coordinator -------------------------------------------------------------------------- */

struct outcome {
    struct bench_result result; /* the receiver's */
    struct stats_latency interval;
};

static bool first_is_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool failover_all_finished(struct bench_child *children, size_t count)
{
    return children[0].finished && children[1].finished;
}

/* Until it listens; then ready is for its receiver. */
static bool start_sender(struct bench_child *child, const struct bench_job *job, uint32_t number,
                         int64_t deadline, struct bench_failure *failure)
{
    struct bench_job own = *job;
    own.number = number;
    bool good = bench_child_start(child, "failover-sender", number + 1, NULL, 0, failure) &&
                bench_send(child->fd, BENCH_JOB, &own, sizeof(own)) &&
                bench_children_wait(child, 1, deadline, first_is_ready, "opening", failure);
    child->ready = false;
    return good;
}

static bool failover_measure(const struct bench_options *options, const char *directory,
                             struct outcome *outcome, struct bench_failure *failure)
{
    struct bench_child children[CHILDREN] = {{0}};
    struct bench_job job = options->ours;
    int64_t deadline = clock_now() + options->timeout;
    g_snprintf(job.address, sizeof(job.address), "unix:%s/c", directory);
    for (size_t i = 0; i < CHILDREN; i++)
        children[i].pid = children[i].fd = -1;
    bool good =
        start_sender(&children[MAIN], &job, MAIN, deadline, failure) &&
        start_sender(&children[BACKUP], &job, BACKUP, deadline, failure) &&
        bench_child_start(&children[RECEIVER], "failover-receiver", 0, NULL, 0, failure) &&
        bench_send(children[RECEIVER].fd, BENCH_JOB, &job, sizeof(job)) &&
        bench_children_wait(&children[MAIN], 1, deadline, first_is_ready, "connecting", failure) &&
        bench_children_wait(&children[BACKUP], 1, deadline, first_is_ready, "connecting", failure);
    int64_t first = clock_now() + 100 * GPUD_MSEC;
    good = good && bench_send(children[MAIN].fd, BENCH_GO, &first, sizeof(first)) &&
           bench_send(children[BACKUP].fd, BENCH_GO, &first, sizeof(first)) &&
           bench_children_wait(&children[BACKUP], 2, deadline, failover_all_finished, "sending",
                               failure);
    if (good) {
        outcome->result = children[RECEIVER].result;
        outcome->interval =
            stats_latency_of(children[RECEIVER].latencies, outcome->result.intervals);
    } else if (!bench_caught_signal()) {
        bench_children_find_death(&children[BACKUP], 2, failure);
    }
    for (size_t i = 0; i < CHILDREN; i++) {
        if (good && i != MAIN)
            bench_send(children[i].fd, BENCH_STOP, NULL, 0);
        if (children[i].fd >= 0)
            bench_child_stop(&children[i], good ? clock_now() + BENCH_STEP_TIMEOUT : 0);
    }
    return good;
}

static double gap_us(const struct outcome *outcome)
{
    return (double)(outcome->result.end - outcome->result.start) / 1e3;
}

static const char *shape_of(const struct bench_job *job)
{
    return job->failover_standby ? "standby" : "group";
}

static void failover_print_json(const struct bench_job *job, const struct outcome *outcome)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_text(builder, "failover", shape_of(job));
    json_put_number(builder, "fps", (double)job->fps_num / job->fps_den);
    json_put_int(builder, "width", job->width);
    json_put_int(builder, "height", job->height);
    json_put_int(builder, "frames", (gint64)outcome->result.frames);
    json_put_int(builder, "frames_of_backup", (gint64)outcome->result.measured);
    json_put_int(builder, "missing", (gint64)outcome->result.missing);
    json_put_int(builder, "repeated", (gint64)outcome->result.torn);
    json_put_number(builder, "gap_us", gap_us(outcome));
    json_put_number(builder, "interval_us_p50", outcome->interval.p50);
    json_put_number(builder, "interval_us_max", outcome->interval.max);
    json_builder_end_object(builder);
    json_print(builder, true);
}

static void failover_print_text(const struct bench_job *job, const struct outcome *outcome)
{
    printf("the main sender is killed, by %s: %ux%u %s at %.4g/s\n", shape_of(job), job->width,
           job->height, job->format, (double)job->fps_num / job->fps_den);
    printf("  %-44s %10" PRIu64 "\n", "instants received", outcome->result.frames);
    printf("  %-44s %10" PRIu64 "\n", "of these from the backup", outcome->result.measured);
    printf("  %-44s %10" PRIu64 "\n", "missing", outcome->result.missing);
    printf("  %-44s %10" PRIu64 "\n", "repeated", outcome->result.torn);
    printf("  %-44s %10.2f\n", "from the main's last to the backup's first, ms",
           gap_us(outcome) / 1e3);
    printf("  %-44s %10.2f\n", "between two instants, p50, ms", outcome->interval.p50 / 1e3);
    printf("  %-44s %10.2f\n", "between two instants, max, ms", outcome->interval.max / 1e3);
}

int bench_failover_measure(const struct bench_options *options)
{
    struct bench_failure failure = {.status = GPUD_IO};
    struct outcome outcome = {0};
    char *directory = bench_make_directory(&failure);
    bool good = directory && failover_measure(options, directory, &outcome, &failure);
    if (directory)
        bench_remove_directory(directory);
    g_free(directory);
    if (!good)
        fprintf(stderr, "gpudirect-bench: %s\n", failure.reason);
    else if (options->json)
        failover_print_json(&options->ours, &outcome);
    else
        failover_print_text(&options->ours, &outcome);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

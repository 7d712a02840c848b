/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --failover: the main sender of a programme is killed, and its backup takes over. */
#include "bench.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAIN, BACKUP, RECEIVER, CHILDREN };

/* A sender that stands by has the address of the other. */
static const char *name_sender(uint32_t number, char address[300])
{
    g_snprintf(address, 300, "%s%u", bench_job.address, bench_job.failover_standby ? MAIN : number);
    return address;
}

/* === the children ============================================================================ */

/* Both senders send the same instants, at the same times. The main one dies with a slot in its
 * hand, halfway. */
void bench_run_failover_sender(void)
{
    const struct bench_job *job = &bench_job;
    struct bench_result result = {0};
    struct gpud_context *context = bench_create_context();
    char address[300];
    struct gpud_sender *sender = bench_create_sender(context, name_sender(job->number, address));
    int64_t first;
    bench_say(BENCH_LISTENING);
    if (job->number == MAIN || !job->failover_standby)
        bench_must("connecting", gpud_sender_wait(sender, 1, job->patience, &bench_error));
    bench_say(BENCH_READY);
    bench_expect(BENCH_GO, job->patience, &first, sizeof(first));
    for (uint32_t i = 0; i < job->warmup + job->frames; i++) {
        struct gpud_frame *frame;
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        clock_sleep_until(first + bench_paced_time(job, i));
        /* On a busy machine a receiver may connect to the backup later than all of these. */
        if (job->number == BACKUP && i + 1 == job->warmup + job->frames)
            bench_must("connecting", gpud_sender_wait(sender, 1, job->patience, &bench_error));
        bench_must("a slot", gpud_sender_acquire(sender, BENCH_STEP_TIMEOUT, &frame, &bench_error));
        if (job->number == MAIN && i == job->warmup + job->frames / 2)
            raise(SIGKILL);
        gpud_frame_get_info(frame, &info);
        info.pts_ns = (uint64_t)bench_paced_time(job, i);
        bench_must("a time", gpud_frame_set_info(frame, &info, &bench_error));
        bench_must("sending", gpud_sender_submit(sender, &frame, BENCH_STEP_TIMEOUT, &bench_error));
        result.frames++;
    }
    bench_must("the end", gpud_sender_send_eos(sender, &bench_error));
    bench_send_result(&result, NULL);
    bench_expect(BENCH_STOP, job->patience, NULL, 0);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
}

static struct {
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;     /* NULL: with a sender that stands by */
    uint32_t connects;            /* of the only receiver */
    int64_t last_number, last_at; /* of the last instant; -1: none yet */
    struct bench_result result;
    GArray *intervals;
} taker = {.last_number = -1};

static void count_connects(void *user, enum gpud_event event, const void *data)
{
    taker.connects += event == GPUD_EVENT_CONNECTED;
}

static void note_instant(const struct gpud_frame_info *info, bool backup)
{
    struct bench_result *result = &taker.result;
    int64_t now = clock_now();
    int64_t number = llround((double)info->pts_ns / (double)bench_paced_time(&bench_job, 1));
    if (taker.last_number >= 0) {
        int64_t interval = now - taker.last_at;
        result->torn += number <= taker.last_number;
        if (number > bench_job.warmup)
            result->missing += (uint64_t)MAX(number - taker.last_number - 1, 0);
        if (backup && result->of_backup == 0) { /* the first of the backup's */
            result->start = taker.last_at;
            result->end = now;
        }
        if (number >= bench_job.warmup)
            g_array_append_val(taker.intervals, interval);
    }
    result->frames++;
    result->of_backup += backup;
    taker.last_number = number;
    taker.last_at = now;
}

static enum gpud_status take_instant(void)
{
    struct gpud_frame *frame = NULL;
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_group_instant instant = GPUD_INFO_INIT(instant);
    enum gpud_status status =
        taker.group
            ? gpud_group_acquire(taker.group, NULL, BENCH_STEP_TIMEOUT, &instant, &bench_error)
            : gpud_receiver_acquire(taker.receivers[MAIN], BENCH_STEP_TIMEOUT, &frame,
                                    &bench_error);
    if (status == GPUD_CLOSED || status == GPUD_TIMEOUT || status == GPUD_PEER)
        return status;
    bench_must("receiving", status);
    if (taker.group)
        frame = instant.frames[instant.member];
    gpud_frame_get_info(frame, &info);
    gpud_frame_release(&frame);
    note_instant(&info, taker.group ? instant.member == BACKUP : taker.connects > 1);
    return status;
}

void bench_run_failover_receiver(void)
{
    const struct bench_job *job = &bench_job;
    struct gpud_context *context = bench_create_context();
    uint32_t count = job->failover_standby ? 1 : 2;
    int64_t deadline =
        clock_now() + 2 * job->patience + bench_paced_time(job, (double)job->warmup + job->frames);
    taker.intervals = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (uint32_t i = 0; i < count; i++) {
        char address[300];
        taker.receivers[i] =
            bench_create_receiver(context, name_sender(i, address), job->to, count_connects);
    }
    if (count == 2) {
        struct gpud_group_params params = GPUD_PARAMS_INIT(params);
        params.mode = GPUD_GROUP_ANY;
        bench_must("a group", gpud_group_create(context, &params, taker.receivers, 2, &taker.group,
                                                &bench_error));
    }
    while (take_instant() != GPUD_CLOSED)
        if (clock_now() > deadline)
            bench_die(GPUD_TIMEOUT, "the frames did not come in time");
    if (taker.result.of_backup == 0)
        bench_die(GPUD_PEER, "no frame of the backup came");
    taker.result.latencies = taker.intervals->len;
    bench_send_result(&taker.result, (int64_t *)(void *)taker.intervals->data);
    bench_expect(BENCH_STOP, job->patience, NULL, 0);
    gpud_group_destroy(&taker.group);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&taker.receivers[i]);
    gpud_context_destroy(&context);
    g_array_unref(taker.intervals);
}

/* === the coordinator ========================================================================= */

struct outcome {
    const char *shape;
    double fps;
    uint32_t width, height;
    uint64_t frames, frames_of_backup, missing, repeated;
    double gap_us;
    struct stats_latency interval;
};

static const struct bench_field outcome_fields[] = {
    {"failover", BENCH_STRING, offsetof(struct outcome, shape)},
    {"fps", BENCH_NUMBER, offsetof(struct outcome, fps)},
    {"width", BENCH_INT32, offsetof(struct outcome, width)},
    {"height", BENCH_INT32, offsetof(struct outcome, height)},
    {"frames", BENCH_INT, offsetof(struct outcome, frames), "instants received"},
    {"frames_of_backup", BENCH_INT, offsetof(struct outcome, frames_of_backup),
     "of these from the backup"},
    {"missing", BENCH_INT, offsetof(struct outcome, missing), "missing"},
    {"repeated", BENCH_INT, offsetof(struct outcome, repeated), "repeated"},
    {"gap_us", BENCH_NUMBER, offsetof(struct outcome, gap_us),
     "from the main's last to the backup's first", "us"},
    {"interval_us_p50", BENCH_NUMBER, offsetof(struct outcome, interval.p50),
     "between two instants, p50", "us"},
    {"interval_us_max", BENCH_NUMBER, offsetof(struct outcome, interval.max),
     "between two instants, max", "us"},
    {NULL},
};

/* A sender listens before the next one starts; then ready is for its receiver. */
static bool run_children(struct bench_child *child, struct bench_job *job, int64_t deadline)
{
    for (job->number = MAIN; job->number <= BACKUP; job->number++) {
        struct bench_child *own = &child[job->number];
        job->standby = job->failover_standby && job->number == BACKUP;
        if (!bench_start(own, "failover-sender", job->number + 1, job) ||
            !bench_wait(own, 1, 0, 1, BENCH_IS_READY, deadline, "opening" BENCH_TOO_LONG))
            return false;
        own->ready = false;
    }
    if (!bench_start(&child[RECEIVER], "failover-receiver", 0, job) ||
        !bench_wait(child, BACKUP + 1, MAIN, 2, BENCH_IS_READY, deadline,
                    "connecting" BENCH_TOO_LONG))
        return false;
    int64_t first = clock_now() + 100 * GPUD_MSEC;
    return bench_send(child[MAIN].fd, BENCH_GO, &first, sizeof(first)) &&
           bench_send(child[BACKUP].fd, BENCH_GO, &first, sizeof(first)) &&
           bench_wait(&child[BACKUP], 2, 0, 2, BENCH_IS_FINISHED, deadline,
                      "sending" BENCH_TOO_LONG);
}

int bench_failover_measure(const struct bench_options *options)
{
    struct bench_child child[CHILDREN] = {{.pid = 0}};
    struct bench_job job = options->ours;
    char *directory = bench_make_directory();
    if (directory)
        g_snprintf(job.address, sizeof(job.address), "unix:%s/c", directory);
    bool good = directory && run_children(child, &job, clock_now() + options->timeout);
    const struct bench_result *result = &child[RECEIVER].result;
    struct outcome outcome = {
        .shape = job.failover_standby ? "standby" : "group",
        .fps = (double)job.fps_num / job.fps_den,
        .width = job.width,
        .height = job.height,
        .frames = result->frames,
        .frames_of_backup = result->of_backup,
        .missing = result->missing,
        .repeated = result->torn,
        .gap_us = (double)(result->end - result->start) / 1e3,
        .interval = stats_latency_of(child[RECEIVER].latencies, result->latencies),
    };
    for (size_t i = BACKUP; good && i < CHILDREN; i++)
        bench_send(child[i].fd, BENCH_STOP, NULL, 0);
    /* The main sender's death explains nothing. */
    bench_stop_all(&child[BACKUP], 2, good, 0);
    bench_stop(&child[MAIN], 0);
    if (directory)
        bench_remove_directory(directory);
    g_free(directory);
    if (!good) {
        fprintf(stderr, "gpudirect-bench: %s\n", bench_failure.reason);
    } else if (options->json) {
        JsonBuilder *builder = json_builder_new();
        json_builder_begin_object(builder);
        bench_put_fields(builder, outcome_fields, &outcome);
        json_builder_end_object(builder);
        json_print(builder, true);
    } else {
        printf("the main sender is killed, by %s: %ux%u %s at %.4g/s\n", outcome.shape, job.width,
               job.height, job.format, outcome.fps);
        bench_print_fields(outcome_fields, &outcome, 46);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

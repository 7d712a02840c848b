/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --migrate: the benefit of moving a frame to another OpenCL device as soon as it is submitted.
 * Both ends are in one process, the child with the role `moves`. */
#include "bench.h"

#include "ceilings/ceilings.h"
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the child: a stream inside one process --------------------------------------------------- */

struct stream {
    int control;
    const struct bench_job *job;
    struct gpud_receiver *receiver;
    uint64_t taken;
};

static void moves_works(int control, const char *what, enum gpud_status status,
                        const struct gpud_error *error)
{
    if (status != GPUD_OK)
        bench_child_fail(control, status, "%s: %s", what, error->reason);
}

/* Reads a frame's first and last byte, so that the devices have to deliver both. */
static void *take_all(void *arg)
{
    struct stream *stream = arg;
    for (;;) {
        struct gpud_frame *frame;
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        struct gpud_error error = {.reason = ""};
        uint8_t *data;
        enum gpud_status status =
            gpud_receiver_acquire(stream->receiver, BENCH_STEP_TIMEOUT, &frame, &error);
        if (status == GPUD_CLOSED)
            return NULL;
        moves_works(stream->control, "receiving", status, &error);
        moves_works(stream->control, "mapping a frame",
                    gpud_frame_map(frame, GPUD_READ, BENCH_STEP_TIMEOUT, (void **)&data, &error),
                    &error);
        gpud_frame_get_info(frame, &info);
        if (data[0] != (uint8_t)info.sequence ||
            data[info.layout.size - 1] != (uint8_t)info.sequence)
            bench_child_fail(stream->control, GPUD_IO, "frame %" PRIu64 " is another one",
                             info.sequence);
        gpud_frame_unmap(frame);
        gpud_frame_release(&frame);
        stream->taken++;
    }
}

static void send_one(const struct stream *stream, struct gpud_sender *sender, uint64_t size,
                     uint64_t sequence)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_frame *frame;
    uint8_t *data;
    moves_works(stream->control, "a slot",
                gpud_sender_acquire(sender, BENCH_STEP_TIMEOUT, &frame, &error), &error);
    moves_works(stream->control, "mapping a slot",
                gpud_frame_map(frame, GPUD_WRITE, BENCH_STEP_TIMEOUT, (void **)&data, &error),
                &error);
    data[0] = data[size - 1] = (uint8_t)sequence;
    gpud_frame_unmap(frame);
    moves_works(stream->control, "sending",
                gpud_sender_submit(sender, &frame, BENCH_STEP_TIMEOUT, &error), &error);
}

/* Frames a second by this route. */
static double run_stream(int control, const struct bench_job *job, const char *route)
{
    struct stream stream = {.control = control, .job = job};
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    struct gpud_error error = {.reason = ""};
    struct gpud_sender_params to = GPUD_PARAMS_INIT(to);
    struct gpud_receiver_params from = GPUD_PARAMS_INIT(from);
    moves_works(control, "a context", gpud_context_create(NULL, &context, &error), &error);
    to.address = from.address = job->address;
    to.device = job->from;
    to.route = route;
    to.slots = from.slots = job->slots;
    from.device = job->to;
    moves_works(control, "the sender", gpud_sender_create(context, &to, &sender, &error), &error);
    moves_works(
        control, "the format",
        gpud_layout_init(&media.picture.layout, job->format, job->width, job->height, 0, &error),
        &error);
    moves_works(control, "the format", gpud_sender_configure(sender, &media, &error), &error);
    moves_works(control, "the receiver",
                gpud_receiver_create(context, &from, &stream.receiver, &error), &error);
    GThread *thread = g_thread_new("receiver", take_all, &stream);
    moves_works(control, "connecting", gpud_sender_wait(sender, 1, BENCH_STEP_TIMEOUT, &error),
                &error);
    int64_t start = 0;
    for (uint32_t i = 1; i <= job->warmup + job->frames; i++) {
        if (i == job->warmup + 1)
            start = clock_now();
        send_one(&stream, sender, media.picture.layout.size, i);
    }
    moves_works(control, "the end", gpud_sender_send_eos(sender, &error), &error);
    g_thread_join(thread);
    double took = (double)(clock_now() - start) / 1e9;
    if (stream.taken != job->warmup + job->frames)
        bench_child_fail(control, GPUD_IO, "%" PRIu64 " frames of %u arrived by %s", stream.taken,
                         job->warmup + job->frames, route);
    gpud_receiver_destroy(&stream.receiver);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return job->frames / took;
}

void bench_run_moves(int control)
{
    struct bench_job job;
    struct bench_result result = {0};
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
#ifdef GPUD_WITH_OPENCL
    const struct raw_caller caller = bench_child_caller(&control);
    raw_opencl_measure(
        &(struct raw_opencl_job){
            .from = job.from, .to = job.to, .size = bench_frame_bytes(&job), .frames = job.frames},
        &caller, &result.moves.raw);
#endif
    result.moves.migrate = run_stream(control, &job, "migrate");
    result.moves.staged = run_stream(control, &job, "staged");
    bench_send_result(control, &result, NULL);
}

/* --- the coordinator -------------------------------------------------------------------------- */

static bool run_child(const struct bench_options *options, const char *directory,
                      struct bench_moves *moves, struct bench_failure *failure)
{
    struct bench_job job = options->ours;
    struct bench_result result;
    g_snprintf(job.address, sizeof(job.address), "unix:%s/link", directory);
    bool good = bench_child_run(&job, "moves", options->timeout, "moving frames", &result, failure);
    *moves = result.moves;
    return good;
}

static const struct {
    const char *key, *what, *unit;
    size_t offset;
} rows[] = {
    {"explicit_us", "first use, explicit early move", "us",
     offsetof(struct bench_moves, raw.early)},
    {"implicit_us", "first use, implicit move", "us", offsetof(struct bench_moves, raw.implicit)},
    {"migrate_fps", "gpudirect by migrate", "frames/s", offsetof(struct bench_moves, migrate)},
    {"staged_fps", "gpudirect by staged", "frames/s", offsetof(struct bench_moves, staged)},
};

static double value_of(const struct bench_moves *moves, size_t row)
{
    return *(const double *)((const char *)moves + rows[row].offset);
}

static void moves_print_json(const struct bench_moves *moves)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        json_put_number(builder, rows[i].key, value_of(moves, i));

    json_put_number(builder, "explicit_to_implicit", moves->raw.early / moves->raw.implicit);
    json_put_number(builder, "migrate_to_staged", moves->migrate / moves->staged);
    json_builder_end_object(builder);
    json_print(builder, true);
}

static void moves_print_text(const struct bench_job *job, const struct bench_moves *moves)
{
    printf("%s to %s in one process, %ux%u %s, %.1f MB a frame\n", job->from, job->to, job->width,
           job->height, job->format, (double)bench_frame_bytes(job) / 1e6);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        printf("  %-32s%12.1f %s\n", rows[i].what, value_of(moves, i), rows[i].unit);
    printf("  %-32s%12.2f\n", "explicit to implicit", moves->raw.early / moves->raw.implicit);
    printf("  %-32s%12.2f\n", "migrate to staged", moves->migrate / moves->staged);
}

int bench_moves_measure(const struct bench_options *options)
{
    struct bench_failure failure = {.status = GPUD_IO};
    struct bench_moves moves = {0};
    char *directory = bench_make_directory(&failure);
    bool good = directory && run_child(options, directory, &moves, &failure);
    if (directory)
        bench_remove_directory(directory);
    g_free(directory);
    if (!good)
        fprintf(stderr, "gpudirect-bench: %s\n", failure.reason);
    else if (options->json)
        moves_print_json(&moves);
    else
        moves_print_text(&options->ours, &moves);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

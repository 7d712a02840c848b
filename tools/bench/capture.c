/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Measures from the card to the point where a frame can be shown: acquired and mapped. */
#include "capture.h"

#include "capturereport.h"
#include "control.h"
#include "pictureclock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODES_MAX 1024

/* What is noted for each frame. */
struct samples {
    size_t count;
    int64_t *stamps, *came, *shown; /* monotonic ns; stamps: -1 if the driver's is unknown */
    uint32_t *numbers;
    struct bench_clock_text *texts;
    const char *no_text; /* why there is no text */
};

static void samples_init(struct samples *samples, size_t count)
{
    *samples = (struct samples){
        .stamps = g_new0(int64_t, count),
        .came = g_new0(int64_t, count),
        .shown = g_new0(int64_t, count),
        .numbers = g_new0(uint32_t, count),
        .texts = g_new0(struct bench_clock_text, count),
    };
}

static void samples_clear(struct samples *samples)
{
    g_free(samples->stamps);
    g_free(samples->came);
    g_free(samples->shown);
    g_free(samples->numbers);
    g_free(samples->texts);
}

static struct gpud_capture_info info_of(struct gpud_capture *capture)
{
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    gpud_capture_get_info(capture, &info);
    return info;
}

/* --- setting the card up -------------------------------------------------------------------- */

static double rate_of(uint32_t num, uint32_t den)
{
    return den ? (double)num / den : 0;
}

/* The fastest mode, and the largest of these, because latency is measured. */
static bool is_better(const struct gpud_capture_mode *mode, const struct gpud_capture_mode *best)
{
    double fps = rate_of(mode->fps_num, mode->fps_den);
    double best_fps = rate_of(best->fps_num, best->fps_den);
    uint64_t size = (uint64_t)mode->width_min * mode->height_min;
    return fps > best_fps ||
           (fps == best_fps && size > (uint64_t)best->width_min * best->height_min);
}

/* A mode of the requested format, else of UYVY, else of the card's first. */
static bool choose_mode(struct gpud_capture *capture, const struct bench_job *job,
                        struct gpud_capture_mode *mode)
{
    struct gpud_capture_mode *modes = g_new0(struct gpud_capture_mode, MODES_MAX);
    modes[0].size = sizeof(modes[0]);
    size_t count = MIN(gpud_capture_list_modes(capture, NULL, modes, MODES_MAX), MODES_MAX);
    const char *format = job->format[0] ? job->format : count ? modes[0].format : "UYVY";
    for (size_t i = 0; i < count && !job->format[0]; i++)
        if (strcmp(modes[i].format, "UYVY") == 0)
            format = modes[i].format;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(modes[i].format, format) != 0 || (found && !is_better(&modes[i], mode)))
            continue;
        *mode = modes[i];
        found = true;
    }
    g_strlcpy(mode->format, format, sizeof(mode->format));
    mode->size = sizeof(*mode);
    g_free(modes);
    return found;
}

static enum gpud_status configure(struct gpud_capture *capture, const struct bench_job *job,
                                  struct gpud_error *error)
{
    struct gpud_capture_info info = info_of(capture);
    struct gpud_capture_mode mode = GPUD_INFO_INIT(mode);
    bool found = choose_mode(capture, job, &mode);
    mode.scan = GPUD_SCAN_ANY;
    if (job->width) {
        mode.width_min = job->width;
        mode.height_min = job->height;
    } else if (info.signal_width || !found) {
        mode.width_min = mode.height_min = 0; /* the signal's own */
    }
    mode.fps_num = job->fps_num ? job->fps_num : job->width ? 0 : mode.fps_num;
    mode.fps_den = job->fps_num ? job->fps_den : job->width || !mode.fps_den ? 1 : mode.fps_den;
    const struct gpud_capture_config config = {.size = sizeof(config), .mode = &mode};
    return gpud_capture_configure(capture, &config, error);
}

/* --- measuring ----------------------------------------------------------------------------- */

static enum gpud_status take(struct gpud_capture *capture, int64_t timeout, struct samples *samples,
                             struct gpud_error *error)
{
    struct gpud_frame *frame = NULL;
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;
    size_t i = samples->count;
    enum gpud_status status = gpud_capture_acquire(capture, timeout, &frame, error);
    if (status != GPUD_OK)
        return status;
    gpud_frame_get_info(frame, &info);
    status = gpud_frame_map(frame, GPUD_READ, timeout, &data, error);
    if (status == GPUD_OK) {
        samples->shown[i] = clock_now();
        samples->came[i] = (int64_t)info.submitted_ns;
        samples->stamps[i] = info.pts_ns == GPUD_TIME_NONE ? -1 : (int64_t)info.pts_ns;
        samples->numbers[i] = (uint32_t)info.offset;
        if (!samples->no_text &&
            !bench_clock_read(&info.layout, data, &samples->texts[i], &samples->no_text))
            memset(&samples->texts[i], 0, sizeof(samples->texts[i]));
        samples->count++;
        gpud_frame_unmap(frame);
    }
    gpud_frame_release(&frame);
    return status;
}

static enum gpud_status take_all(struct gpud_capture *capture, const struct bench_job *job,
                                 int64_t timeout, struct samples *samples,
                                 struct bench_capture *result, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < job->warmup && status == GPUD_OK; i++) {
        status = take(capture, timeout, samples, error);
        samples->count = 0;
    }
    struct gpud_capture_info before = info_of(capture);
    int64_t begin = clock_now(), cpu = clock_cpu_time();
    while (status == GPUD_OK && samples->count < job->frames)
        status = take(capture, timeout, samples, error);
    if (status != GPUD_OK)
        return status;
    result->seconds = (double)(clock_now() - begin) / (double)GPUD_SEC;
    result->cpu = (double)(clock_cpu_time() - cpu) / (double)job->frames / 1000;
    result->info = info_of(capture);
    result->frames = samples->count;
    result->dropped = result->info.dropped - before.dropped;
    result->corrupted = result->info.corrupted - before.corrupted;
    result->copies_cpu = result->info.copies_cpu - before.copies_cpu;
    result->copies_gpu = result->info.copies_gpu - before.copies_gpu;
    return GPUD_OK;
}

/* --- figures -------------------------------------------------------------------------------- */

static void compare_stamps(const struct samples *samples, struct bench_capture *result)
{
    int64_t *ages = g_new0(int64_t, samples->count);
    result->stamped = true;
    for (size_t i = 0; i < samples->count; i++) {
        result->stamped = result->stamped && samples->stamps[i] >= 0;
        ages[i] = samples->shown[i] - samples->stamps[i];
    }
    if (result->stamped)
        result->stamp = stats_latency_of(ages, samples->count);
    g_free(ages);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The driver is asked to stream before the card's clock begins, and a picture is drawn before it
 * arrives. The clock's start is unknown between these times. */
static void compare_pictures(const struct samples *samples, struct bench_capture *result)
{
    struct bench_clock clock;
    int64_t *ages = g_new0(int64_t, samples->count);
    int64_t began = (int64_t)result->info.started_ns, slack = INT64_MAX, step = 0;
    if (samples->no_text)
        result->no_clock = samples->no_text;
    else if (!bench_clock_learn(&clock, samples->texts, samples->numbers, samples->count))
        result->no_clock = "the pictures carry no clock: vivid draws one after v4l2-ctl -d NODE -c "
                           "osd_text_mode=1";
    for (size_t i = 0; i < samples->count && !result->no_clock; i++) {
        bool right;
        int64_t ms = bench_clock_time(&clock, &samples->texts[i], samples->numbers[i], &right);
        result->right += right;
        if (ms < 0)
            continue;
        int64_t drawn = began + ms * GPUD_MSEC;
        slack = MIN(slack, samples->came[i] - drawn);
        step = common_divisor(step, ms);
        ages[result->timed++] = samples->shown[i] - drawn;
    }
    if (!result->no_clock && !result->timed)
        result->no_clock = "it shows digits that appeared in no number: measure more --frames";
    if (!result->no_clock) {
        result->slack = (double)MAX(slack, 0) / 1000;
        result->step = (double)step * 1000;
        result->at_most = stats_latency_of(ages, (size_t)result->timed);
    }
    g_free(ages);
}

/* --- a run --------------------------------------------------------------------------------- */

static enum gpud_status measure(const struct bench_options *options, struct bench_capture *result,
                                struct gpud_error *error)
{
    const struct bench_job *job = &options->ours;
    struct gpud_context *context = NULL;
    struct gpud_capture *capture = NULL;
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct samples samples;
    params.address = job->address;
    params.device = job->to;
    params.slots = job->slots;
    params.method = job->route[0] ? job->route : NULL;
    samples_init(&samples, MAX(job->frames, 1));
    enum gpud_status status = gpud_context_create(NULL, &context, error);
    if (status == GPUD_OK)
        status = gpud_capture_create(context, &params, &capture, error);
    if (status == GPUD_OK)
        status = configure(capture, job, error);
    if (status == GPUD_OK)
        status = take_all(capture, job, options->timeout, &samples, result, error);
    if (status == GPUD_OK) {
        compare_stamps(&samples, result);
        compare_pictures(&samples, result);
    }
    gpud_capture_destroy(&capture);
    gpud_context_destroy(&context);
    samples_clear(&samples);
    return status;
}

int bench_capture_run(const struct bench_options *options)
{
    struct bench_capture *result = g_new0(struct bench_capture, 1);
    struct gpud_error error = {.reason = ""};
    int exit_status = EXIT_SUCCESS;
    enum gpud_status status = measure(options, result, &error);
    if (status != GPUD_OK) {
        fprintf(stderr, "gpudirect-bench: %s\n", error.reason);
        if (status == GPUD_NO_DEVICE)
            fputs("gpudirect-bench: without a capture card, use the kernel's test card: as root, "
                  "modprobe vivid; v4l2-ctl --list-devices says which node it is\n",
                  stderr);
        exit_status = status == GPUD_INVALID ? BENCH_EXIT_USAGE : EXIT_FAILURE;
    } else if (options->json) {
        bench_capture_print_json(&options->ours, result);
    } else {
        bench_capture_print_text(&options->ours, result);
    }
    if (status == GPUD_OK &&
        (result->corrupted || (!result->no_clock && result->right < result->frames))) {
        fputs("gpudirect-bench: frames were damaged, or are not the ones that the driver says\n",
              stderr);
        exit_status = BENCH_EXIT_DAMAGE;
    }
    g_free(result);
    return exit_status;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capturereport.h"

#include "json.h"

#include <math.h>
#include <stdio.h>

static const char *stamps_of(const struct bench_capture *result)
{
    return !result->stamped            ? "unknown"
           : result->info.stamps_start ? "start-of-exposure"
                                       : "end-of-frame";
}

/* --- text --------------------------------------------------------------------------------- */

static void print_latency(const char *label, const struct stats_latency *latency, double less)
{
    printf("  %-44s %10.3f %10.3f %10.3f\n", label, (latency->p50 - less) / 1000,
           (latency->p99 - less) / 1000, (latency->max - less) / 1000);
}

static void print_stamps(const struct bench_capture *result)
{
    char label[64];
    if (!result->stamped) {
        puts("  by the driver's stamps: not known, they are not the monotonic clock's");
        return;
    }
    g_snprintf(label, sizeof(label), "by the driver's stamps, %s", stamps_of(result));
    print_latency(label, &result->stamp, 0);
    if (result->stamp.p50 < 0)
        puts("    (negative: the driver stamps a frame at its start with its estimated end)");
}

static void print_clock(const struct bench_capture *result)
{
    if (result->no_clock) {
        printf("  by the pictures' own clock: not known, %s\n", result->no_clock);
        return;
    }
    print_latency("by the pictures' own clock, at most", &result->at_most, 0);
    print_latency("                            at least", &result->at_most, result->slack);
    printf(
        "    (it goes in steps of %.0f ms, and was read from %llu frames; the numbers of %llu are "
        "the driver's)\n",
        result->step / 1000, (unsigned long long)result->timed, (unsigned long long)result->right);
}

void bench_capture_print_text(const struct bench_job *job, const struct bench_capture *result)
{
    const struct gpud_capture_info *info = &result->info;
    const struct gpud_picture *picture = &info->media.picture;
    printf("%s (%s, %s), %s %ux%u, %u/%u a second, to %s\n", job->address, info->card, info->driver,
           picture->layout.format, picture->layout.width, picture->layout.height, picture->rate.num,
           picture->rate.den, info->device);
    printf("  %-44s %s\n", "active path", info->path);
    if (info->fallback_reason[0])
        printf("  %-44s %s\n", "not better, because", info->fallback_reason);
    printf("  %-44s %10llu\n", "frames", (unsigned long long)result->frames);
    printf("  %-44s %10.2f\n", "frames a second", (double)result->frames / result->seconds);
    printf("  %-44s %10llu\n", "dropped", (unsigned long long)result->dropped);
    printf("  %-44s %10llu\n", "marked as damaged", (unsigned long long)result->corrupted);
    printf("  %-44s %10.1f\n", "CPU, us a frame", result->cpu);
    printf("  %-44s %10llu\n", "copies by the CPU", (unsigned long long)result->copies_cpu);
    printf("  %-44s %10llu\n", "copies by the device", (unsigned long long)result->copies_gpu);
    printf("  %-44s %10s %10s %10s\n", "capture to display (mapped, readable), ms", "p50", "p99",
           "max");
    print_clock(result);
    print_stamps(result);
}

/* --- JSON --------------------------------------------------------------------------------- */

/* us, as in the other reports; null: unknown. */
static void add_latency(JsonBuilder *builder, const char *key, bool known,
                        const struct stats_latency *latency, double less)
{
    if (!known) {
        json_put_string(builder, key, NULL);
        return;
    }
    json_begin_object(builder, key);
    json_put_number(builder, "p50", latency->p50 - less);
    json_put_number(builder, "p99", latency->p99 - less);
    json_put_number(builder, "max", latency->max - less);
    json_put_number(builder, "jitter", latency->jitter);
    json_builder_end_object(builder);
}

void bench_capture_print_json(const struct bench_job *job, const struct bench_capture *result)
{
    const struct gpud_capture_info *info = &result->info;
    bool clock = !result->no_clock;
    JsonBuilder *builder = json_builder_new();
    const struct gpud_picture *picture = &info->media.picture;
    json_builder_begin_object(builder);
    json_put_text(builder, "capture", job->address);
    json_put_text(builder, "card", info->card);
    json_put_text(builder, "driver", info->driver);
    json_put_text(builder, "device", info->device);
    json_put_text(builder, "format", picture->layout.format);
    json_put_int(builder, "width", picture->layout.width);
    json_put_int(builder, "height", picture->layout.height);
    json_put_number(builder, "fps",
                    picture->rate.num ? (double)picture->rate.num / picture->rate.den : 0);
    json_put_text(builder, "path", info->path);
    json_put_text(builder, "fallback_reason", info->fallback_reason);
    json_put_int(builder, "frames", result->frames);
    json_put_number(builder, "seconds", result->seconds);
    json_put_int(builder, "dropped", result->dropped);
    json_put_int(builder, "corrupted", result->corrupted);
    json_put_number(builder, "cpu_us_per_frame", result->cpu);
    json_put_int(builder, "copies_cpu", result->copies_cpu);
    json_put_int(builder, "copies_gpu", result->copies_gpu);
    json_put_text(builder, "stamps", stamps_of(result));
    add_latency(builder, "latency_stamps_us", result->stamped, &result->stamp, 0);
    json_put_text(builder, "no_picture_clock", result->no_clock);
    add_latency(builder, "latency_picture_at_most_us", clock, &result->at_most, 0);
    add_latency(builder, "latency_picture_at_least_us", clock, &result->at_most, result->slack);
    json_put_number(builder, "picture_clock_step_us", result->step);
    json_put_int(builder, "pictures_timed", result->timed);
    json_put_int(builder, "pictures_right", result->right);
    json_builder_end_object(builder);

    json_print(builder, true);
}

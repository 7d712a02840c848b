/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What --capture prints. */
#include "capture.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <stdio.h>

static const char *stamps_of(const struct bench_capture *result)
{
    return !result->stamped            ? "unknown"
           : result->info.stamps_start ? "start-of-exposure"
                                       : "end-of-frame";
}

/* --- text --------------------------------------------------------------------------------- */

static void print_latency(const char *label, const struct bench_latency *latency, double less)
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
        puts("    (less than nothing: the driver says at a frame's start when it will end)");
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

static void add_text(JsonBuilder *builder, const char *key, const char *value)
{
    json_builder_set_member_name(builder, key);
    if (value && value[0])
        json_builder_add_string_value(builder, value);
    else
        json_builder_add_null_value(builder);
}

static void add_count(JsonBuilder *builder, const char *key, uint64_t value)
{
    json_builder_set_member_name(builder, key);
    json_builder_add_int_value(builder, (gint64)value);
}

static void add_number(JsonBuilder *builder, const char *key, double value)
{
    json_builder_set_member_name(builder, key);
    json_builder_add_double_value(builder, value);
}

/* us, as in the other reports; null: not known. */
static void add_latency(JsonBuilder *builder, const char *key, bool known,
                        const struct bench_latency *latency, double less)
{
    json_builder_set_member_name(builder, key);
    if (!known) {
        json_builder_add_null_value(builder);
        return;
    }
    json_builder_begin_object(builder);
    add_number(builder, "p50", latency->p50 - less);
    add_number(builder, "p99", latency->p99 - less);
    add_number(builder, "max", latency->max - less);
    add_number(builder, "jitter", latency->jitter);
    json_builder_end_object(builder);
}

void bench_capture_print_json(const struct bench_job *job, const struct bench_capture *result)
{
    const struct gpud_capture_info *info = &result->info;
    bool clock = !result->no_clock;
    JsonBuilder *builder = json_builder_new();
    const struct gpud_picture *picture = &info->media.picture;
    json_builder_begin_object(builder);
    add_text(builder, "capture", job->address);
    add_text(builder, "card", info->card);
    add_text(builder, "driver", info->driver);
    add_text(builder, "device", info->device);
    add_text(builder, "format", picture->layout.format);
    add_count(builder, "width", picture->layout.width);
    add_count(builder, "height", picture->layout.height);
    add_number(builder, "fps",
               picture->rate.num ? (double)picture->rate.num / picture->rate.den : 0);
    add_text(builder, "path", info->path);
    add_text(builder, "fallback_reason", info->fallback_reason);
    add_count(builder, "frames", result->frames);
    add_number(builder, "seconds", result->seconds);
    add_count(builder, "dropped", result->dropped);
    add_count(builder, "corrupted", result->corrupted);
    add_number(builder, "cpu_us", result->cpu);
    add_count(builder, "copies_cpu", result->copies_cpu);
    add_count(builder, "copies_gpu", result->copies_gpu);
    add_text(builder, "stamps", stamps_of(result));
    add_latency(builder, "latency_stamps", result->stamped, &result->stamp, 0);
    add_text(builder, "no_picture_clock", result->no_clock);
    add_latency(builder, "latency_picture_at_most", clock, &result->at_most, 0);
    add_latency(builder, "latency_picture_at_least", clock, &result->at_most, result->slack);
    add_number(builder, "picture_clock_step_us", result->step);
    add_count(builder, "pictures_timed", result->timed);
    add_count(builder, "pictures_right", result->right);
    json_builder_end_object(builder);

    JsonGenerator *generator = json_generator_new();
    JsonNode *root = json_builder_get_root(builder);
    json_generator_set_root(generator, root);
    json_generator_set_pretty(generator, TRUE);
    gchar *text = json_generator_to_data(generator, NULL);
    puts(text);
    g_free(text);
    json_node_unref(root);
    g_object_unref(generator);
    g_object_unref(builder);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report, as text and as JSON.
 *
 *     one run     the run's object
 *     --runs N    {"runs": […], "summary": {KEY: {"median", "min", "max"}}}
 *     --compare   {"ours": {as above}, "peer": {as above}, "ratio": {KEY: NUMBER}}
 *
 * What is unknown is null. tools/schema/bench.json describes all keys: a new one needs an entry
 * there, and a test compares them. From 0.2.0 on no key goes, or changes its name, type, unit or
 * meaning. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LABEL 30

/* === fields ================================================================================== */

#define AT(member) offsetof(struct bench_run, member)
#define RECEIVER(member) offsetof(struct bench_receiver_run, member)

static const struct bench_field run_fields[] = {
    {"route", BENCH_TEXT, AT(route)},
    {"fallback_reason", BENCH_TEXT, AT(fallback_reason)},
    {"frames", BENCH_INT, AT(frames)},
    {"lost", BENCH_INT, AT(lost)},
    {"torn", BENCH_INT, AT(torn)},
    {"dropped", BENCH_INT, AT(dropped)},
    {"fps", BENCH_NUMBER, AT(fps), "throughput", "frames/s"},
    {"gigabytes_per_second", BENCH_NUMBER, AT(gigabytes_per_second), "to all receivers", "GB/s"},
    {"ceiling.key", BENCH_STRING, AT(ceiling.key)},
    {"ceiling.what", BENCH_STRING, AT(ceiling.what)},
    {"ceiling.value", BENCH_NUMBER, AT(ceiling.value), "ceiling", "", "ceiling"},
    {"ceiling.unit", BENCH_STRING, AT(ceiling.unit)},
    {"ceiling.p99", BENCH_NUMBER, AT(ceiling.p99)},
    {"ceiling.cpu_us_per_frame.sender", BENCH_NUMBER, AT(ceiling.cpu_sender), "CPU of it, sender",
     "us/frame", "ceiling_cpu_us_per_frame_sender"},
    {"ceiling.cpu_us_per_frame.receiver", BENCH_NUMBER, AT(ceiling.cpu_receiver),
     "CPU of it, receiver", "us/frame", "ceiling_cpu_us_per_frame_receiver"},
    {"ceiling_ratio", BENCH_NUMBER, AT(ceiling.ratio), "ratio to it", ""},
    {"ceiling_ratio_p99", BENCH_NUMBER, AT(ceiling_ratio_p99), "ratio of p99", ""},
    {"ceiling_ratio_cpu", BENCH_NUMBER, AT(ceiling_ratio_cpu), "ratio of CPU time", ""},
    {"latency_us.p50", BENCH_NUMBER, AT(latency.p50), "latency p50", "us"},
    {"latency_us.p90", BENCH_NUMBER, AT(latency.p90), "latency p90", "us"},
    {"latency_us.p99", BENCH_NUMBER, AT(latency.p99), "latency p99", "us"},
    {"latency_us.p999", BENCH_NUMBER, AT(latency.p999), "latency p99.9", "us"},
    {"latency_us.max", BENCH_NUMBER, AT(latency.max), "latency max", "us"},
    {"latency_us.jitter", BENCH_NUMBER, AT(latency.jitter), "jitter", "us"},
    {"latency_us.of", BENCH_STRING, AT(meaning)},
    {"latency_cpu_us.", BENCH_LATENCY, AT(latency_cpu)},
    {"latency_cpu_us.of", BENCH_STRING, AT(meaning_cpu)},
    {NULL, BENCH_NUMBER, AT(latency_cpu.p50), "until the CPU p50", "us", "latency_cpu_us_p50"},
    {NULL, BENCH_NUMBER, AT(latency_cpu.p99), "until the CPU p99", "us", "latency_cpu_us_p99"},
    {"cpu_us_per_frame.sender", BENCH_NUMBER, AT(cpu_sender), "CPU sender", "us/frame"},
    {"cpu_us_per_frame.receiver", BENCH_NUMBER, AT(cpu_receiver), "CPU receiver", "us/frame"},
    {"marking_us_per_frame.sender", BENCH_NUMBER, AT(marking_sender), "of it marking", "us/frame"},
    {"marking_us_per_frame.receiver", BENCH_NUMBER, AT(marking_receiver), "of it marking, receiver",
     "us/frame"},
    {"copies.cpu", BENCH_NUMBER, AT(copies_cpu), "copies by CPUs", "/frame"},
    {"copies.gpu", BENCH_NUMBER, AT(copies_gpu), "copies by devices", "/frame"},
    {"lent", BENCH_NUMBER, AT(lent), "lent by the far side", "of 1"},
    {"wakes_per_frame.sender.kicks", BENCH_NUMBER, AT(kicks_sender), "wakes by sender", "/frame",
     "kicks_sender"},
    {"wakes_per_frame.sender.waits", BENCH_NUMBER, AT(waits_sender), "sleeps of sender", "/frame",
     "waits_sender"},
    {"wakes_per_frame.receiver.kicks", BENCH_NUMBER, AT(kicks_receiver), "wakes by receiver",
     "/frame", "kicks_receiver"},
    {"wakes_per_frame.receiver.waits", BENCH_NUMBER, AT(waits_receiver), "sleeps of receiver",
     "/frame", "waits_receiver"},
    {"setup_ms.sender", BENCH_NUMBER, AT(setup_sender), "ring made in", "ms", "setup_ms_sender"},
    {"setup_ms.receiver", BENCH_NUMBER, AT(setup_receiver), "connected in", "ms",
     "setup_ms_receiver"},
    {"device_waits_per_frame.sender", BENCH_NUMBER, AT(waits_device_sender),
     "device waits of sender", "/frame", "waits_device_sender"},
    {"device_waits_per_frame.receiver", BENCH_NUMBER, AT(waits_device_receiver),
     "device waits of receiver", "/frame", "waits_device_receiver"},
    {NULL},
};

/* As text each is a column. */
static const struct bench_field receiver_fields[] = {
    {"frames", BENCH_INT, RECEIVER(frames), "frames"},
    {"missing", BENCH_INT, RECEIVER(missing), "missing"},
    {"dropped", BENCH_INT, RECEIVER(dropped), "dropped"},
    {"torn", BENCH_INT, RECEIVER(torn), "torn"},
    {"fps", BENCH_NUMBER, RECEIVER(fps), "frames/s"},
    {"latency_us.", BENCH_LATENCY, RECEIVER(latency)},
    {"latency_us.of", BENCH_STRING, RECEIVER(meaning)},
    {"latency_cpu_us.", BENCH_LATENCY, RECEIVER(latency_cpu)},
    {"latency_cpu_us.of", BENCH_STRING, RECEIVER(meaning_cpu)},
    {NULL, BENCH_NUMBER, RECEIVER(latency.p50), "p50 us"},
    {NULL, BENCH_NUMBER, RECEIVER(latency.p99), "p99 us"},
    {"cpu_us_per_frame", BENCH_NUMBER, RECEIVER(cpu_us), "CPU us/fr"},
    {NULL},
};

static const struct bench_field ceiling_fields[] = {
    {"key", BENCH_STRING, offsetof(struct bench_ceiling, key)},
    {"what", BENCH_STRING, offsetof(struct bench_ceiling, what)},
    {"value", BENCH_NUMBER, offsetof(struct bench_ceiling, value)},
    {"unit", BENCH_STRING, offsetof(struct bench_ceiling, unit)},
    {"p99", BENCH_NUMBER, offsetof(struct bench_ceiling, p99)},
    {"ratio", BENCH_NUMBER, offsetof(struct bench_ceiling, ratio)},
    {"cpu_us_per_frame.sender", BENCH_NUMBER, offsetof(struct bench_ceiling, cpu_sender)},
    {"cpu_us_per_frame.receiver", BENCH_NUMBER, offsetof(struct bench_ceiling, cpu_receiver)},
    {NULL},
};

static bool is_last(const struct bench_field *field)
{
    return !field->path && !field->label;
}

/* Of a number. */
static double value_of(const struct bench_field *field, const void *of)
{
    const void *at = (const char *)of + field->offset;
    return field->kind == BENCH_INT     ? (double)*(const uint64_t *)at
           : field->kind == BENCH_INT32 ? *(const uint32_t *)at
                                        : *(const double *)at;
}

static void put_latency(JsonBuilder *builder, const struct stats_latency *latency)
{
    json_put_number(builder, "p50", latency->p50);
    json_put_number(builder, "p90", latency->p90);
    json_put_number(builder, "p99", latency->p99);
    json_put_number(builder, "p999", latency->p999);
    json_put_number(builder, "max", latency->max);
    json_put_number(builder, "jitter", latency->jitter);
}

void bench_put_fields(JsonBuilder *builder, const struct bench_field *fields, const void *of)
{
    gchar **open = g_new0(gchar *, 1); /* the names of the objects that are open, then one member */
    for (const struct bench_field *field = fields;; field++) {
        if (!field->path && !is_last(field))
            continue;
        gchar **path = g_strsplit(field->path ? field->path : "", ".", -1);
        guint same = 0, depth = g_strv_length(open), wanted = g_strv_length(path);
        while (same + 1 < depth && same + 1 < wanted && strcmp(open[same], path[same]) == 0)
            same++;
        for (guint i = same; i + 1 < depth; i++)
            json_builder_end_object(builder);
        for (guint i = same; i + 1 < wanted; i++)
            json_begin_object(builder, path[i]);
        g_strfreev(open);
        open = path;
        if (is_last(field))
            break;
        const void *at = (const char *)of + field->offset;
        if (field->kind == BENCH_LATENCY)
            put_latency(builder, at);
        else if (field->kind == BENCH_TEXT)
            json_put_text(builder, path[wanted - 1], at);
        else if (field->kind == BENCH_STRING)
            json_put_text(builder, path[wanted - 1], *(const char *const *)at);
        else if (field->kind == BENCH_NUMBER)
            json_put_number(builder, path[wanted - 1], value_of(field, of));
        else
            json_put_int(builder, path[wanted - 1], (gint64)value_of(field, of));
    }
    g_strfreev(open);
}

static void print_number(double value)
{
    if (isnan(value))
        printf("%12s", "-");
    else if (fabs(value) >= 1000)
        printf("%12.0f", value);
    else if (fabs(value) >= 10)
        printf("%12.1f", value);
    else
        printf("%12.3f", value);
}

static void print_value(const struct bench_field *field, const void *of)
{
    if (field->kind == BENCH_NUMBER)
        print_number(value_of(field, of));
    else
        printf("%12.0f", value_of(field, of));
}

static void print_label(const char *label, const char *unit, int width)
{
    char text[64];
    g_snprintf(text, sizeof(text), "%s%s%s", label, unit && unit[0] ? ", " : "", unit ? unit : "");
    printf("  %-*s", width, text);
}

void bench_print_fields(const struct bench_field *fields, const void *of, int width)
{
    for (const struct bench_field *field = fields; !is_last(field); field++) {
        if (!field->label || isnan(value_of(field, of)))
            continue;
        print_label(field->label, field->unit, width);
        print_value(field, of);
        putchar('\n');
    }
}

/* === several runs ============================================================================ */

struct spread {
    double median, min, max; /* NAN where unknown */
};

static struct spread spread_of(const struct bench_series *series, const struct bench_field *field)
{
    double *values = g_new0(double, series->count);
    for (uint32_t i = 0; i < series->count; i++)
        values[i] = value_of(field, &series->runs[i]);
    struct spread spread = {.median = stats_median(values, series->count)};
    bool known = !isnan(spread.median); /* stats_median() has sorted them then */
    spread.min = known ? values[0] : NAN;
    spread.max = known ? values[series->count - 1] : NAN;
    g_free(values);
    return spread;
}

/* The key of a field that is shown; to be freed with g_free(). */
static gchar *key_of(const struct bench_field *field)
{
    return field->key ? g_strdup(field->key) : g_strdelimit(g_strdup(field->path), ".", '_');
}

/* === text ==================================================================================== */

/* A copy of the bytes is the hardware's limit. What processes do with words and wake-ups is done by
 * another program, not at best: ours may pass it. */
static const char *noun_of(const struct bench_ceiling *ceiling)
{
    static const char *const limits[] = {"copy",   "peer",  "fan_out", "download",
                                         "upload", "write", "tcp"};
    for (size_t i = 0; i < G_N_ELEMENTS(limits); i++)
        if (strcmp(ceiling->key, limits[i]) == 0)
            return "ceiling";
    return "reference";
}

/* A line for each figure, of one run, of several, or of ours beside a peer's. */
static void print_figures(const struct bench_series *ours, const struct bench_series *peer)
{
    static const char *const headings[][3] = {{"median", "min", "max"},
                                              {"ours", "peer", "ours/peer"}};
    const struct bench_ceiling *ceiling = &ours->runs[0].ceiling;
    bool three = peer || ours->count > 1;
    if (three)
        printf("  %-*s%12s%12s%12s\n", LABEL, "", headings[peer != NULL][0],
               headings[peer != NULL][1], headings[peer != NULL][2]);
    for (const struct bench_field *field = run_fields; !is_last(field); field++) {
        if (!field->label)
            continue;
        struct spread mine = spread_of(ours, field);
        double theirs = peer ? spread_of(peer, field).median : NAN;
        if (isnan(mine.median) && isnan(theirs))
            continue;
        if (field->offset == AT(ceiling.value))
            print_label(noun_of(ceiling), ceiling->unit, LABEL);
        else
            print_label(field->label, field->unit, LABEL);
        print_number(mine.median);
        if (three) {
            print_number(peer ? theirs : mine.min);
            print_number(!peer ? mine.max : theirs != 0 ? mine.median / theirs : NAN);
        }
        putchar('\n');
    }
}

static void print_path(const char *who, const struct bench_series *series)
{
    const struct bench_job *job = series->job;
    const struct bench_run *last = &series->runs[series->count - 1];
    int indent = (int)g_utf8_strlen(who, -1);
    if (!job->elements)
        printf("%s%s → %s%s%s, %s%s\n", who, job->from, job->to, job->network[0] ? " over " : "",
               job->network, job->only_ceilings ? "only ceilings" : "route ", last->route);
    else
        printf("%s%s\n%*s→ %s\n", who, job->sink, indent, "", job->src);
    if (job->elements && last->route[0])
        printf("%*sroute %s\n", indent, "", last->route);
    if (last->fallback_reason[0])
        printf("%*s(%s)\n", indent, "", last->fallback_reason);
}

static void print_setting(const struct bench_job *job, uint32_t runs)
{
    char *size = g_format_size_full(bench_layout_of(job).size, G_FORMAT_SIZE_IEC_UNITS);
    if (job->tensor_bytes)
        printf("a tensor");
    else
        printf("%ux%u %s", job->width, job->height, job->format);
    printf(" (%s), %s, %u slots, %u receiver%s, %u frames ", size,
           job->foreign ? "foreign" : "lent", job->slots, job->receivers,
           job->receivers == 1 ? "" : "s", job->frames);
    g_free(size);
    if (job->fps_num)
        printf("at %g/s", (double)job->fps_num / job->fps_den);
    else
        printf("unpaced");
    if (runs > 1)
        printf(", %u runs", runs);
    putchar('\n');
}

static void print_counts(const char *who, const struct bench_series *series)
{
    uint64_t lost = 0, torn = 0, dropped = 0;
    for (uint32_t i = 0; i < series->count; i++) {
        const struct bench_run *run = &series->runs[i];
        lost += run->lost;
        torn += run->torn;
        dropped += run->dropped;
    }
    printf("%slost %llu, torn %llu, dropped %llu\n", who, (unsigned long long)lost,
           (unsigned long long)torn, (unsigned long long)dropped);
}

static void print_receivers(const struct bench_run *run)
{
    printf("  receiver");
    for (const struct bench_field *field = receiver_fields; !is_last(field); field++)
        if (field->label)
            printf("%12s", field->label);
    putchar('\n');
    for (uint32_t i = 0; i < run->receivers; i++) {
        printf("  %8u", i + 1);
        for (const struct bench_field *field = receiver_fields; !is_last(field); field++)
            if (field->label)
                print_value(field, &run->receiver[i]);
        putchar('\n');
    }
}

/* The medians of all ceilings but the main one. */
static void print_ceilings(const struct bench_series *series)
{
    const struct bench_ceilings *list = &series->runs[0].ceilings;
    double *values = g_new0(double, series->count), *ratios = g_new0(double, series->count);
    for (unsigned i = 0; i < list->count; i++) {
        if (i == list->main)
            continue;
        for (uint32_t run = 0; run < series->count; run++) {
            values[run] = series->runs[run].ceilings.ceiling[i].value;
            ratios[run] = series->runs[run].ceilings.ceiling[i].ratio;
        }
        const struct bench_ceiling *ceiling = &list->ceiling[i];
        double ratio = stats_median(ratios, series->count);
        printf("           %s: ", ceiling->what);
        printf("%.6g %s", stats_median(values, series->count), ceiling->unit);
        if (!isnan(ceiling->cpu_sender))
            printf(", CPU %.0f + %.0f us/frame", ceiling->cpu_sender, ceiling->cpu_receiver);
        if (!isnan(ratio))
            printf(", ratio to it %.3f", ratio);
        putchar('\n');
    }
    g_free(values);
    g_free(ratios);
}

struct machine {
    char cpu[128], kernel[256];
    long cores;
};

static struct machine describe_machine(void)
{
    struct machine machine = {.cpu = "unknown", .cores = sysconf(_SC_NPROCESSORS_ONLN)};
    struct utsname name;
    gchar *text = NULL;
    if (uname(&name) == 0)
        g_snprintf(machine.kernel, sizeof(machine.kernel), "%s %s %s", name.sysname, name.release,
                   name.machine);
    g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL);
    const char *model = text ? strstr(text, "model name") : NULL;
    const char *colon = model ? strchr(model, ':') : NULL;
    if (colon) {
        g_strlcpy(machine.cpu, colon + 1, sizeof(machine.cpu));
        machine.cpu[strcspn(machine.cpu, "\n")] = '\0';
        g_strstrip(machine.cpu);
    }
    g_free(text);
    return machine;
}

static void print_text(const struct bench_series *ours, const struct bench_series *peer)
{
    const struct bench_run *run = &ours->runs[0];
    print_path(peer ? "ours  " : "", ours);
    if (peer)
        print_path("peer  ", peer);
    print_setting(ours->job, ours->count);
    print_figures(ours, peer);
    if (!ours->job->only_ceilings)
        print_counts(peer ? "  ours: " : "  ", ours);
    if (peer)
        print_counts("  peer: ", peer);
    else if (ours->count == 1 && run->receivers > 1)
        print_receivers(run);
    printf("  %s: %s\n", noun_of(&run->ceiling), run->ceiling.what);
    if (peer && strcmp(peer->runs[0].ceiling.key, run->ceiling.key) != 0)
        printf("  %s of the peer: %s\n", noun_of(&peer->runs[0].ceiling),
               peer->runs[0].ceiling.what);
    print_ceilings(ours);
    if (ours->job->remote && isnan(run->latency.p50))
        puts("  latency: unknown, the hosts have different clocks");
    else if (!ours->job->only_ceilings)
        printf("  latency: %s\n", run->meaning);
    if (peer && ours->job->elements != peer->job->elements)
        printf("  latency of the peer: %s\n", peer->runs[0].meaning);
    struct machine machine = describe_machine();
    printf("  machine: %s, %ld cores, %s\n", machine.cpu, machine.cores, machine.kernel);
}

/* === JSON ==================================================================================== */

static void put_parameters(JsonBuilder *builder, const struct bench_job *job)
{
    static const char *const policies[] = {
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };
    /* With elements only if the ends say in whose memory frames are. */
    bool named = !job->elements || bench_uses_gpu(job);
    json_begin_object(builder, "parameters");
    json_put_text(builder, "from", named ? job->from : NULL);
    json_put_text(builder, "to", named ? job->to : NULL);
    json_put_text(builder, "network", job->network);
    json_put_bool(builder, "remote", job->remote);
    json_put_text(builder, "route", job->route);
    json_put_text(builder, "sink", job->sink);
    json_put_text(builder, "src", job->src);
    json_put_text(builder, "media", job->tensor_bytes ? "tensor" : "picture");
    json_put_text(builder, "format", job->format);
    json_put_int(builder, "width", job->width);
    json_put_int(builder, "height", job->height);
    json_put_int(builder, "frame_bytes", (gint64)bench_layout_of(job).size);
    json_put_int(builder, "frames", job->frames);
    json_put_int(builder, "warmup", job->warmup);
    json_put_number(builder, "fps", job->fps_num ? (double)job->fps_num / job->fps_den : NAN);
    json_put_int(builder, "receivers", job->receivers);
    json_put_int(builder, "slots", job->slots);
    json_put_text(builder, "slow_receiver", job->elements ? NULL : policies[job->slow_receiver]);
    json_put_text(builder, "source", job->foreign ? "foreign" : "lent");
    json_put_text(builder, "verify", job->full ? "full" : "marks");
    json_builder_end_object(builder);
}

/* An object of an array. */
static void put_object(JsonBuilder *builder, const struct bench_field *fields, const void *of)
{
    json_builder_begin_object(builder);
    bench_put_fields(builder, fields, of);
    json_builder_end_object(builder);
}

static void put_run(JsonBuilder *builder, const struct bench_job *job, const struct bench_run *run)
{
    json_builder_begin_object(builder);
    bench_put_fields(builder, run_fields, run);
    if (job->distribution) {
        json_begin_array(builder, "distribution");
        for (size_t i = 0; i < run->distribution_points; i++) {
            json_builder_begin_object(builder);
            json_put_number(builder, "share", run->distribution[i].share);
            json_put_number(builder, "us", run->distribution[i].us);
            json_builder_end_object(builder);
        }
        json_builder_end_array(builder);
    } else {
        json_put_text(builder, "distribution", NULL);
    }
    json_begin_array(builder, "ceilings");
    for (unsigned i = 0; i < run->ceilings.count; i++)
        put_object(builder, ceiling_fields, &run->ceilings.ceiling[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "receivers");
    for (uint32_t i = 0; i < run->receivers; i++)
        put_object(builder, receiver_fields, &run->receiver[i]);
    json_builder_end_array(builder);
    put_parameters(builder, job);
    struct machine machine = describe_machine();
    json_begin_object(builder, "machine");
    json_put_text(builder, "cpu", machine.cpu);
    json_put_int(builder, "cores", machine.cores);
    json_put_text(builder, "kernel", machine.kernel);
    json_put_text(builder, "version", gpud_version_string());
    json_builder_end_object(builder);
    json_builder_end_object(builder);
}

static void put_series(JsonBuilder *builder, const struct bench_series *series)
{
    json_builder_begin_object(builder);
    json_begin_array(builder, "runs");
    for (uint32_t i = 0; i < series->count; i++)
        put_run(builder, series->job, &series->runs[i]);
    json_builder_end_array(builder);
    json_begin_object(builder, "summary");
    for (const struct bench_field *field = run_fields; !is_last(field); field++) {
        if (!field->label)
            continue;
        struct spread spread = spread_of(series, field);
        gchar *key = key_of(field);
        json_begin_object(builder, key);
        json_put_number(builder, "median", spread.median);
        json_put_number(builder, "min", spread.min);
        json_put_number(builder, "max", spread.max);
        json_builder_end_object(builder);
        g_free(key);
    }
    json_builder_end_object(builder);
    json_builder_end_object(builder);
}

static void print_json(const struct bench_series *ours, const struct bench_series *peer)
{
    JsonBuilder *builder = json_builder_new();
    if (peer) {
        json_builder_begin_object(builder);
        json_builder_set_member_name(builder, "ours");
        put_series(builder, ours);
        json_builder_set_member_name(builder, "peer");
        put_series(builder, peer);
        json_begin_object(builder, "ratio");
        for (const struct bench_field *field = run_fields; !is_last(field); field++) {
            if (!field->label)
                continue;
            double theirs = spread_of(peer, field).median;
            gchar *key = key_of(field);
            json_put_number(builder, key,
                            theirs != 0 ? spread_of(ours, field).median / theirs : NAN);
            g_free(key);
        }
        json_builder_end_object(builder);
        json_builder_end_object(builder);
    } else if (ours->count > 1) {
        put_series(builder, ours);
    } else {
        put_run(builder, ours->job, &ours->runs[0]);
    }
    json_print(builder, true);
}

int bench_report(bool json, const struct bench_series *ours, const struct bench_series *peer)
{
    bool damaged = false;
    if (json)
        print_json(ours, peer);
    else
        print_text(ours, peer);
    for (uint32_t i = 0; i < ours->count; i++)
        damaged = damaged || ours->runs[i].lost || ours->runs[i].torn ||
                  (peer && (peer->runs[i].lost || peer->runs[i].torn));
    if (damaged)
        fputs("gpudirect-bench: frames were lost or torn\n", stderr);
    return damaged ? BENCH_EXIT_DAMAGE : EXIT_SUCCESS;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "descriptions.h"

#include "help.h"

#include <string.h>

/* The caps, with CUDA's memory feature for a CUDA device. */
static char *with_memory(const char *caps, const char *device)
{
    const char *fields = strchr(caps, ',');
    if (!g_str_has_prefix(device, "cuda") || !fields)
        return g_strdup(caps);
    return g_strdup_printf("video/x-raw(memory:CUDAMemory)%s", fields);
}

void bench_describe_caps(struct bench_job *job)
{
    g_snprintf(job->caps, sizeof(job->caps),
               "video/x-raw,format=%s,width=%u,height=%u,framerate=%u/%u", job->format, job->width,
               job->height, job->fps_num ? job->fps_num : 60, job->fps_num ? job->fps_den : 1);
}

bool bench_describe(struct bench_job *job, const char *sink, const char *src)
{
    struct gpud_layout layout;
    char bytes[32];
    char *fields[] = {job->sink, job->src};
    const char *texts[] = {sink, src}, *names[] = {"the sink", "the source"};
    gpud_layout_init(&layout, job->format, job->width, job->height, 0, NULL);
    g_snprintf(bytes, sizeof(bytes), "%llu",
               (unsigned long long)(layout.size + 4096) * 2 * job->slots);
    for (int i = 0; i < 2; i++) {
        GString *text = g_string_new(texts[i]);
        g_strstrip(text->str);
        text->len = strlen(text->str);
        /* The sink takes the sender's memory, the source delivers the receivers'. */
        const char *device = i == 0 ? job->from : job->to;
        char *caps = with_memory(job->caps, device);
        g_string_replace(text, "{caps}", caps, 0);
        g_free(caps);
        g_string_replace(text, "{bytes}", bytes, 0);
        bool fits = bench_usage_text(fields[i], sizeof(job->sink), names[i], text->str);
        if (fits && !fields[i][0])
            fits = bench_usage_error("%s is empty", names[i]);
        g_string_free(text, TRUE);
        if (!fits)
            return false;
    }
    return true;
}

/* Quotes a value for the parser of descriptions. */
static void add_quoted(GString *text, const char *value)
{
    g_string_append_c(text, '"');
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            g_string_append_c(text, '\\');
        g_string_append_c(text, *value);
    }
    g_string_append_c(text, '"');
}

/* Adds the address and its options. */
static void add_address(GString *text, const struct bench_job *job, bool sink)
{
    if (!job->network[0]) {
        g_string_append(text, " address=unix:{dir}/link");
        return;
    }
    g_string_append(text, " address=");
    add_quoted(text, job->network);
    if (job->allow_unauthenticated)
        g_string_append(text, sink ? " allow-unauthenticated=true" : "");
    const char *own = job->remote || job->allow_unauthenticated ? "" : "{dir}/" BENCH_KEY_FILE;
    const char *key = job->psk_file[0] ? job->psk_file : own;
    if (!key[0])
        return;
    g_string_append(text, " psk-file=");
    add_quoted(text, key);
}

bool bench_describe_ours(struct bench_job *job)
{
    GString *sink = g_string_new("gpudirectsink"), *src = g_string_new("gpudirectsrc");
    add_address(sink, job, true);
    g_string_append_printf(sink, " device=%s slots=%u sync=false", job->from, job->slots);
    add_address(src, job, false);
    g_string_append_printf(src, " device={device} slots=%u%s", job->slots,
                           strstr(job->to, "cuda") ? " ! {caps}" : "");
    bool filled = bench_describe(job, sink->str, src->str);
    g_string_free(sink, TRUE);
    g_string_free(src, TRUE);
    return filled;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "status.h"

#include <inttypes.h>

#define PERIOD (GPUD_SEC / 2)

static void begin(struct status *status, const struct source *source, uint64_t now_ns)
{
    status->since_ns = now_ns;
    status->frames = source->frames;
    status->shown = status->age_sum_ns = 0;
}

void status_start(struct status *status, const struct source *source, uint64_t now_ns)
{
    *status = (struct status){.rate = -1, .age_ns = -1};
    begin(status, source, now_ns);
}

void status_count_shown(struct status *status, uint64_t submitted_ns, uint64_t now_ns)
{
    if (submitted_ns == 0 || submitted_ns > now_ns)
        return;
    status->shown++;
    status->age_sum_ns += now_ns - submitted_ns;
}

void status_update(struct status *status, const struct source *source, uint64_t now_ns)
{
    uint64_t passed = now_ns - status->since_ns;
    if (passed < (uint64_t)PERIOD)
        return;
    status->rate = (double)(source->frames - status->frames) * 1e9 / (double)passed;
    status->age_ns = status->shown ? (int64_t)(status->age_sum_ns / status->shown) : -1;
    begin(status, source, now_ns);
}

void status_describe(const struct status *status, const struct source *source, bool converted,
                     GString *text)
{
    const struct gpud_picture *picture = &source->media.picture;
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(source->receiver, &info);
    g_string_append_printf(text, "%s %u × %u", picture->layout.format, picture->layout.width,
                           picture->layout.height);
    if (picture->rate.num && picture->rate.den)
        g_string_append_printf(text, ", %.5g/s",
                               (double)picture->rate.num / (double)picture->rate.den);
    g_string_append_printf(text, ", on %s%s\n", source->device,
                           converted ? "; converted by the CPU" : "");
    g_string_append_printf(text, "path %s%s%s\n", info.path,
                           info.fallback_reason[0] ? "; not better, because " : "",
                           info.fallback_reason);
    if (status->rate >= 0)
        g_string_append_printf(text, "%.1f frames/s, ", status->rate);
    if (status->age_ns >= 0)
        g_string_append_printf(text, "age %.1f ms, ", (double)status->age_ns / 1e6);
    g_string_append_printf(text, "%" PRIu64 " dropped, %" PRIu64 " skipped", info.dropped,
                           source->skipped);
}

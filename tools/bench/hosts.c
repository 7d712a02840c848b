/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "hosts.h"

#include "descriptions.h"
#include "frames.h"
#include "options.h"
#include "rows.h"

#include <string.h>

#define MAGIC UINT64_C(0x6763686568626770)
#define GREETING (5 * GPUD_SEC)

struct hello {
    uint64_t magic, sizes; /* of the following structures */
    char version[32], device[32];
};

void bench_hosts_take_failure(const struct bench_packet *packet, const char *who,
                              struct bench_failure *failure)
{
    struct bench_failure theirs;
    if (packet->size != sizeof(theirs)) {
        bench_fail(failure, GPUD_PEER, "%s sent nonsense", who);
        return;
    }
    memcpy(&theirs, packet->data, sizeof(theirs));
    bench_clean_text(theirs.reason, sizeof(theirs.reason));
    bench_fail(failure, GPUD_PEER, "%s: %s", who, theirs.reason);
}

/* --- greeting --------------------------------------------------------------------------------- */

static uint64_t sizes(void)
{
    return sizeof(struct bench_order) << 32 | sizeof(struct bench_summary) << 16 |
           sizeof(struct bench_failure);
}

bool bench_hosts_greet(int fd, char device[32], struct bench_failure *failure)
{
    struct bench_packet packet;
    struct hello ours = {.magic = MAGIC, .sizes = sizes()}, theirs;
    g_strlcpy(ours.version, gpud_version_string(), sizeof(ours.version));
    g_strlcpy(ours.device, device, sizeof(ours.device));
    if (!bench_send(fd, BENCH_HELLO, &ours, sizeof(ours)))
        return bench_fail(failure, GPUD_PEER, "the other side hung up");
    enum bench_receipt got = bench_receive(fd, clock_now() + GREETING, sizeof(theirs), &packet);
    if (got != BENCH_RECEIVED)
        return bench_fail(failure, GPUD_PEER, "the other side %s",
                          got == BENCH_TIMED_OUT ? "says nothing"
                                                 : "hung up, or is not a gpudirect-bench");
    bool good = packet.type == BENCH_HELLO && packet.size == sizeof(theirs);
    if (good)
        memcpy(&theirs, packet.data, sizeof(theirs));
    g_free(packet.data);
    if (!good || theirs.magic != MAGIC)
        return bench_fail(failure, GPUD_PEER,
                          "the other side is not a gpudirect-bench of this kind of machine");
    bench_clean_text(theirs.version, sizeof(theirs.version));
    bench_clean_text(theirs.device, sizeof(theirs.device));
    if (strcmp(theirs.version, ours.version) != 0 || theirs.sizes != ours.sizes)
        return bench_fail(
            failure, GPUD_UNSUPPORTED,
            "gpudirect-bench is version %s there and %s here: both hosts need the same",
            theirs.version, ours.version);
    g_strlcpy(device, theirs.device, sizeof(theirs.device));
    return true;
}

/* --- orders ----------------------------------------------------------------------------------- */

void bench_hosts_order(const struct bench_job *job, uint32_t runs, struct bench_order *order)
{
    memset(order, 0, sizeof(*order));
    order->runs = runs;
    memcpy(order->from, job->from, sizeof(order->from));
    memcpy(order->format, job->format, sizeof(order->format));
    memcpy(order->route, job->route, sizeof(order->route));
    order->width = job->width;
    order->height = job->height;
    order->fps_num = job->fps_num;
    order->fps_den = job->fps_den;
    order->frames = job->frames;
    order->warmup = job->warmup;
    order->slots = job->slots;
    order->slow_receiver = job->slow_receiver;
    order->foreign = job->foreign;
    order->full = job->full;
    order->elements = bench_uses_elements(job);
    order->idle = job->idle;
}

static bool in_range(const struct bench_order *order)
{
    double rate = order->fps_den ? (double)order->fps_num / order->fps_den : -1;
    return order->runs >= 1 && order->runs <= BENCH_RUNS_MAX && order->frames >= BENCH_FRAMES_MIN &&
           order->frames <= BENCH_FRAMES_MAX && order->warmup <= BENCH_WARMUP_MAX &&
           order->slots >= 1 && order->slots <= GPUD_SLOTS_MAX && rate >= 0 &&
           rate <= BENCH_RATE_MAX && (order->fps_num == 0 || rate >= BENCH_RATE_MIN) &&
           order->idle >= 0 && order->idle <= BENCH_IDLE_MAX * GPUD_SEC &&
           order->slow_receiver >= GPUD_SLOW_BLOCK && order->slow_receiver <= GPUD_SLOW_DROP_OLDEST;
}

bool bench_hosts_take_order(struct bench_order *order, struct bench_job *job,
                            struct bench_failure *failure)
{
    struct gpud_layout layout;
    struct gpud_error error;
    bench_clean_text(order->from, sizeof(order->from));
    bench_clean_text(order->format, sizeof(order->format));
    bench_clean_text(order->route, sizeof(order->route));
    if (!in_range(order))
        return bench_fail(failure, GPUD_PEER,
                          "the sending bench asks for what it would refuse itself");
    if (gpud_layout_init(&layout, order->format, order->width, order->height, 0, &error) != GPUD_OK)
        return bench_fail(failure, GPUD_PEER, "the sending bench asks for %s %ux%u: %s",
                          order->format, order->width, order->height, error.reason);
    if (layout.size < BENCH_FRAME_MIN || layout.size > BENCH_FRAME_MAX)
        return bench_fail(failure, GPUD_PEER, "the sending bench asks for frames of %llu bytes",
                          (unsigned long long)layout.size);
    memcpy(job->from, order->from, sizeof(job->from));
    memcpy(job->format, order->format, sizeof(job->format));
    memcpy(job->route, order->route, sizeof(job->route));
    job->width = order->width;
    job->height = order->height;
    job->fps_num = order->fps_num;
    job->fps_den = order->fps_den;
    job->frames = order->frames;
    job->warmup = order->warmup;
    job->slots = order->slots;
    job->slow_receiver = order->slow_receiver;
    job->foreign = order->foreign;
    job->full = order->full;
    job->idle = order->idle;
    job->receivers = job->number = 1;
    job->sink[0] = job->src[0] = '\0';
    bench_describe_caps(job);
    if (bench_uses_rows(job) && !bench_rows_fit(&layout))
        return bench_fail(failure, GPUD_UNSUPPORTED, BENCH_ROWS_UNFIT, job->width, job->height);
    /* The description is made here: one from another host could start any element. */
    if (order->elements && !bench_describe_ours(job))
        return bench_fail(failure, GPUD_INVALID, "the elements cannot be described");
    return true;
}

size_t bench_hosts_result_max(const struct bench_job *job)
{
    return sizeof(struct bench_result) + 3 * (size_t)job->frames * sizeof(int64_t);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether a receiver that connects delays the others' frames: while a sender sends at a pace to one
 * receiver that stays, others connect in turn, take a few frames and leave. Shown are the times
 * from one frame to the next, at the sender between returns of submit, and at the receiver that
 * stays between hand-overs; then what this process takes of a processor while no frame comes. That
 * every frame is whole and none is missing is checked. */
#include "clock.h"
#include "folder.h"
#include "stats.h"

#include <glib.h>
#include <gpudirect/gpudirect.h>
#include <gpudirect/layout.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (30 * GPUD_SEC)
#define TAKEN 5 /* by each receiver that leaves */

/* The intervals of one end, of which the first ones are not counted. */
struct intervals {
    GArray *ns;
    int64_t last; /* 0: none yet */
    unsigned warmup;
};

static const char *address;
static gchar *from, *to;
static gint joins = 20, width = 1920, height = 1080;
static gdouble fps = 200;
static struct gpud_layout layout;
static struct gpud_sender *sender;
static struct intervals sent = {.warmup = 32}, received = {.warmup = 32};
static _Atomic uint64_t frames_sent;
static atomic_bool stop; /* all have left */

static void add_interval(struct intervals *intervals)
{
    int64_t now = clock_now(), passed = now - intervals->last;
    if (intervals->warmup > 0)
        intervals->warmup--;
    else
        g_array_append_val(intervals->ns, passed);
    intervals->last = now;
}

/* The number of a frame stands at its beginning and at its end. */
static uint64_t number_at(const void *data, uint64_t offset)
{
    uint64_t number;
    memcpy(&number, (const char *)data + offset, sizeof(number));
    return number;
}

static void *send_all(void *user)
{
    struct gpud_error error = {.reason = ""};
    int64_t start = clock_now();
    for (uint64_t number = 1; !atomic_load(&stop); frames_sent = number++) {
        struct gpud_frame *frame;
        void *data;
        clock_sleep_until(start + (int64_t)((double)number * 1e9 / fps));
        must("a slot", gpud_sender_acquire(sender, PATIENCE, &frame, &error), &error);
        must("a slot", gpud_frame_map(frame, GPUD_WRITE, PATIENCE, &data, &error), &error);
        memcpy(data, &number, sizeof(number));
        memcpy((char *)data + layout.size - sizeof(number), &number, sizeof(number));
        gpud_frame_unmap(frame);
        must("sending", gpud_sender_submit(sender, &frame, PATIENCE, &error), &error);
        add_interval(&sent);
    }
    return NULL;
}

/* false: the sender has ended. next: the number of the frame that is due; 0: any. */
static bool take(struct gpud_receiver *receiver, uint64_t *next)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_frame *frame;
    void *data;
    enum gpud_status status = gpud_receiver_acquire(receiver, PATIENCE, &frame, &error);
    if (status == GPUD_CLOSED)
        return false;
    must("receiving", status, &error);
    must("reading", gpud_frame_map(frame, GPUD_READ, PATIENCE, &data, &error), &error);
    uint64_t number = number_at(data, 0);
    if (number != number_at(data, layout.size - sizeof(number)))
        die("frame %llu is torn", (unsigned long long)number);
    if (*next && number != *next)
        die("frame %llu comes where %llu is due", (unsigned long long)number,
            (unsigned long long)*next);
    *next = number + 1;
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
    return true;
}

static struct gpud_receiver *open_receiver(struct gpud_context *context, unsigned number)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_receiver *receiver;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    gchar **devices = g_strsplit(to, ",", -1);
    params.address = address;
    params.device = devices[number % g_strv_length(devices)];
    must("a receiver", gpud_receiver_create(context, &params, &receiver, &error), &error);
    g_strfreev(devices);
    return receiver;
}

/* From the first frame to the last. */
static void *stay(void *user)
{
    uint64_t next = 1;
    while (take(user, &next))
        add_interval(&received);
    uint64_t count = atomic_load(&frames_sent);
    if (next != count + 1)
        die("%llu frames came of %llu", (unsigned long long)next - 1, (unsigned long long)count);
    return NULL;
}

/* Once frames have come by it. */
static void add_route(GString *routes, struct gpud_receiver *receiver)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(receiver, &info);
    g_string_append_printf(routes, "%s%s", routes->len ? "," : "", info.path);
}

/* Percent of a processor that all threads of this process take. */
static double measure_idle(void)
{
    clock_sleep_until(clock_now() + GPUD_SEC / 2);
    int64_t start = clock_now(), cpu = clock_cpu_time();
    clock_sleep_until(start + 2 * GPUD_SEC);
    return 100 * (double)(clock_cpu_time() - cpu) / (double)(clock_now() - start);
}

static void print_row(const char *who, const struct intervals *intervals)
{
    struct stats_latency latency =
        stats_latency_of((const int64_t *)(void *)intervals->ns->data, intervals->ns->len);
    printf("  %-20s%10.0f%10.0f%10.0f%10.0f\n", who, latency.p50, latency.p99, latency.p999,
           latency.max);
    g_array_unref(intervals->ns);
}

int main(int argc, char **argv)
{
    const GOptionEntry entries[] = {
        {"from", 0, 0, G_OPTION_ARG_STRING, &from, "The sender's device (host)", "DEVICE"},
        {"to", 0, 0, G_OPTION_ARG_STRING, &to, "The receivers' devices, in turn (host)", "DEVICES"},
        {"join", 0, 0, G_OPTION_ARG_INT, &joins, "Receivers that join and leave (20)", "N"},
        {"width", 0, 0, G_OPTION_ARG_INT, &width, "(1920)", "PIXELS"},
        {"height", 0, 0, G_OPTION_ARG_INT, &height, "(1080)", "PIXELS"},
        {"fps", 0, 0, G_OPTION_ARG_DOUBLE, &fps, "Frames a second (200)", "RATE"},
        {NULL},
    };
    struct gpud_error error = {.reason = ""};
    GError *wrong = NULL;
    GOptionContext *options = g_option_context_new("— receivers that come and go");
    g_option_context_add_main_entries(options, entries, NULL);
    if (!g_option_context_parse(options, &argc, &argv, &wrong))
        die("%s", wrong->message);
    g_option_context_free(options);
    from = from ? from : g_strdup("host");
    to = to ? to : g_strdup("host");
    if (joins < 1 || !(fps > 0))
        die("--join and --fps are more than 0");
    address = folder_open();
    sent.ns = g_array_new(FALSE, FALSE, sizeof(int64_t));
    received.ns = g_array_new(FALSE, FALSE, sizeof(int64_t));

    struct gpud_context *context[3]; /* of the sender, of the receiver that stays, of the others */
    for (size_t i = 0; i < G_N_ELEMENTS(context); i++)
        must("a context", gpud_context_create(NULL, &context[i], &error), &error);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = address;
    params.device = from;
    must("the format",
         gpud_layout_init(&layout, "UYVY", (uint32_t)width, (uint32_t)height, 0, &error), &error);
    const struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE, .picture.layout = layout};
    must("the sender", gpud_sender_create(context[0], &params, &sender, &error), &error);
    must("the format", gpud_sender_configure(sender, &media, &error), &error);
    struct gpud_receiver *staying = open_receiver(context[1], 0);
    GThread *receiving = g_thread_new("stay", stay, staying);
    must("connecting", gpud_sender_wait(sender, 1, PATIENCE, &error), &error);
    GThread *sending = g_thread_new("send", send_all, NULL);
    clock_sleep_until(clock_now() + (int64_t)(40 * 1e9 / fps)); /* the warm-up */
    gchar **devices = g_strsplit(to, ",", -1);
    GString *routes = g_string_new(NULL); /* by device */
    add_route(routes, staying);
    for (gint i = 0; i < joins; i++) {
        uint64_t next = 0;
        struct gpud_receiver *guest = open_receiver(context[2], (unsigned)i + 1);
        for (int taken = 0; taken < TAKEN; taken++)
            if (!take(guest, &next))
                die("the sender has ended");
        if (i + 1 < (gint)g_strv_length(devices))
            add_route(routes, guest);
        gpud_receiver_destroy(&guest);
    }
    atomic_store(&stop, true);
    g_thread_join(sending);
    double idle = measure_idle();
    must("the end", gpud_sender_send_eos(sender, &error), &error);
    g_thread_join(receiving);
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gpud_sender_get_info(sender, &info);
    if (info.dropped > 0)
        die("%llu frames were dropped", (unsigned long long)info.dropped);
    printf("%s to %s by %s, %dx%d UYVY at %g/s: %d joined and left\n", from, to, routes->str, width,
           height, fps, joins);
    printf("  %-20s%10s%10s%10s%10s\n", "intervals, us", "p50", "p99", "p99.9", "max");
    print_row("sender", &sent);
    print_row("receiver that stays", &received);
    printf("  without frames: %.2f %% of a processor\n", idle);
    g_strfreev(devices);
    g_string_free(routes, TRUE);
    gpud_receiver_destroy(&staying);
    gpud_sender_destroy(&sender);
    for (size_t i = 0; i < G_N_ELEMENTS(context); i++)
        gpud_context_destroy(&context[i]);
    folder_remove();
    return EXIT_SUCCESS;
}

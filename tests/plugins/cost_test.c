/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a frame of the kernel's test card costs, by gpudirectsrc and by v4l2src beside it, in turn
 * in one guest: cost_test ROUNDS FRAMES. Prints one table, and judges nothing but that frames come:
 * times of an emulated machine are no figures to fail by. */
#include "card.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS_MAX 64
#define WARM_UP 20 /* frames */

static guint rounds, frames;

/* --- one pipeline ------------------------------------------------------------------------- */

struct cost {
    gdouble cpu, latency; /* µs a frame, of all threads; p50 from the driver's stamp to the sink */
};

struct watch {
    guint seen;
    gint64 cpu;    /* ns at the end of the warm-up, then of all frames after it */
    gdouble *ages; /* ns */
};

static gint64 clock_ns(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (gint64)time.tv_sec * (gint64)GST_SECOND + time.tv_nsec;
}

static void on_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct watch *watch)
{
    guint seen = watch->seen++;

    if (seen == WARM_UP)
        watch->cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (seen < WARM_UP || seen >= WARM_UP + frames)
        return;
    GstClockTime captured = gst_element_get_base_time(sink) + GST_BUFFER_PTS(buffer);
    watch->ages[seen - WARM_UP] = (gdouble)(clock_ns(CLOCK_MONOTONIC) - (gint64)captured);
    if (seen < WARM_UP + frames - 1)
        return;
    watch->cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - watch->cpu;
    gst_element_post_message(
        sink, gst_message_new_application(GST_OBJECT(sink), gst_structure_new_empty("enough")));
}

static gint compare_values(gconstpointer a, gconstpointer b)
{
    gdouble x = *(const gdouble *)a, y = *(const gdouble *)b;

    return x < y ? -1 : x > y;
}

/* The clock is the system's for both, so that a picture's time is the driver's stamp. */
static void measure(const gchar *source, struct cost *cost)
{
    GError *error = NULL;
    g_autoptr(GstElement) pipeline =
        launch("%s ! video/x-raw,format=UYVY,width=320,height=180,framerate=60/1 ! fakesink "
               "name=sink sync=false signal-handoffs=true enable-last-sample=false",
               source);
    struct watch watch = {.ages = g_new0(gdouble, frames)};
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_autoptr(GstClock) clock = gst_system_clock_obtain();
    gst_pipeline_use_clock(GST_PIPELINE(pipeline), clock);
    g_signal_connect(sink, "handoff", G_CALLBACK(on_frame), &watch);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(GST_ELEMENT_BUS(pipeline), CARD_WAIT + frames * GST_SECOND / 10,
                                   GST_MESSAGE_APPLICATION | GST_MESSAGE_ERROR);
    if (message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    check(message && !error, "%s: %s", source, error ? error->message : "no frames");
    gst_element_set_state(pipeline, GST_STATE_NULL);
    qsort(watch.ages, frames, sizeof(*watch.ages), compare_values);
    cost->cpu = (gdouble)watch.cpu / frames / 1000;
    cost->latency = watch.ages[frames / 2] / 1000;
    g_free(watch.ages);
}

/* --- the table ---------------------------------------------------------------------------- */

static struct cost median(const struct cost *of)
{
    gdouble cpu[ROUNDS_MAX], latency[ROUNDS_MAX];

    for (guint i = 0; i < rounds; i++) {
        cpu[i] = of[i].cpu;
        latency[i] = of[i].latency;
    }
    qsort(cpu, rounds, sizeof(*cpu), compare_values);
    qsort(latency, rounds, sizeof(*latency), compare_values);
    return (struct cost){cpu[rounds / 2], latency[rounds / 2]};
}

static void print_row(const gchar *mode, const gchar *what, gdouble ours, gdouble theirs)
{
    g_print("%-13s  %-22s  %12.1f  %12.1f  %6.2f\n", mode, what, ours, theirs, ours / theirs);
}

int main(int argc, char **argv)
{
    /* v4l2src has no pointers of its own: its best beside ours. */
    static const struct {
        const gchar *name, *ours, *theirs;
    } modes[] = {
        {"mmap", "mmap", "mmap"},
        {"dmabuf", "dmabuf", "dmabuf"},
        {"userptr, mmap", "userptr", "mmap"},
    };
    static struct cost ours[G_N_ELEMENTS(modes)][ROUNDS_MAX];
    static struct cost theirs[G_N_ELEMENTS(modes)][ROUNDS_MAX];

    gst_init(&argc, &argv);
    check(argc == 3 && atoi(argv[1]) > 0 && atoi(argv[1]) <= ROUNDS_MAX && atoi(argv[2]) > 0,
          "usage: cost_test ROUNDS FRAMES");
    rounds = (guint)atoi(argv[1]);
    frames = (guint)atoi(argv[2]);
    card_set("Timestamp Source", 1); /* when the frame is there, not when it would have ended */
    for (guint round = 0; round < rounds; round++)
        for (guint i = 0; i < G_N_ELEMENTS(modes); i++) {
            gchar *our =
                g_strdup_printf("gpudirectsrc address=v4l2://" CARD " io-mode=%s", modes[i].ours);
            gchar *their = g_strdup_printf("v4l2src device=" CARD " io-mode=%s", modes[i].theirs);
            measure(our, &ours[i][round]);
            measure(their, &theirs[i][round]);
            g_free(our);
            g_free(their);
        }
    g_print("%-13s  %-22s  %12s  %12s  %6s\n", "io-mode", "a frame (median)", "gpudirectsrc",
            "v4l2src", "ratio");
    for (guint i = 0; i < G_N_ELEMENTS(modes); i++) {
        struct cost our = median(ours[i]), their = median(theirs[i]);
        print_row(modes[i].name, "CPU, us", our.cpu, their.cpu);
        print_row(modes[i].name, "stamp to sink p50, us", our.latency, their.latency);
    }
    return 0;
}

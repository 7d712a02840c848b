/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How old a frame is when the receiver's sink has it, and what each default costs: prints a table,
 * and fails only if frames do not come at all. The sender is a process of its own, the age that of
 * the live source's time stamp.
 *
 * "hand-off" is what gpudirect-bench measures, too: from submit to acquire, of the same frames. */
#include "ends.h"

#include <string.h>

#define DEADLINE 40 /* s; of every wait */
#define FRAMES 120
#define SETTLED 40 /* of these, the first ones, which the latency is told by */

#define CAPS "video/x-raw,format=UYVY,width=1280,height=720,framerate=50/1"

static const struct row {
    const gchar *what, *send, *receive, *behind;
} rows[] = {
    {"lowest latency", "sync=false slots=3", "slots=3", "! fakesink name=end sync=false"},
    {"2 slots", "sync=false slots=2", "slots=2", "! fakesink name=end sync=false"},
    {"6 slots", "sync=false", "", "! fakesink name=end sync=false"},
    {"a queue", "sync=false", "", "! queue ! fakesink name=end sync=false"},
    {"the sender's sync=true", "", "", "! fakesink name=end sync=false"},
    {"the same, processing-deadline=0", "processing-deadline=0", "",
     "! fakesink name=end sync=false"},
    {"the receiver's sync=true", "sync=false", "", "! fakesink name=end sync=true"},
    {"the same, processing-deadline=0", "sync=false", "",
     "! fakesink name=end sync=true processing-deadline=0"},
    {"all defaults", "", "", "! fakesink name=end sync=true"},
    {"too slow a sink, 3 slots", "sync=false slots=3", "slots=3", "! fakesink name=end sync=false"},
    {"too slow a sink, 6 slots", "sync=false", "", "! fakesink name=end sync=false"},
};

struct ages {
    GstElement *src;
    gboolean slow;
    guint count; /* atomic */
    gint64 age[FRAMES];
};

/* When the sink renders it: behind what it waits for. */
static void render(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    struct ages *ages = user;
    guint count = g_atomic_int_get(&ages->count);

    if (count >= FRAMES)
        return;
    ages->age[count] =
        GST_CLOCK_DIFF(GST_BUFFER_PTS(buffer), gst_element_get_current_running_time(ages->src));
    g_atomic_int_set(&ages->count, count + 1);
    if (ages->slow)
        g_usleep(50000);
}

static void follow_latency(GstElement *pipeline)
{
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(GST_ELEMENT_BUS(pipeline), 10 * GST_MSECOND,
                                   GST_MESSAGE_LATENCY | GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);

    if (!message)
        return;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) {
        g_autoptr(GError) error = NULL;
        gst_message_parse_warning(message, &error, NULL);
        /* A receiver that takes longer than a picture lasts loses some, and is told so. */
        if (strstr(error->message, "Pictures are lost"))
            return;
    }
    fail_unless(GST_MESSAGE_TYPE(message) == GST_MESSAGE_LATENCY, "the receiver complains");
    gst_bin_recalculate_latency(GST_BIN(pipeline));
}

static gint compare(gconstpointer a, gconstpointer b)
{
    gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;

    return x < y ? -1 : x > y;
}

TEST(test_age, .times = G_N_ELEMENTS(rows))
{
    const struct row *row = &rows[__i__];
    struct ages ages = {.slow = g_str_has_prefix(row->what, "too slow")};
    g_autoptr(EndsPipeline) pipeline = ends_pipeline("gpudirectsrc name=src address=%s %s %s",
                                                     ends_own(), row->receive, row->behind);

    if (__i__ == 0)
        g_print("%-34s %12s %12s %12s\n", "age of a frame at the sink", "p50", "p99", "hand-off");
    ages.src = ends_in(pipeline, "src");
    ends_on_buffer(pipeline, "end", G_CALLBACK(render), &ages);
    ends_play(pipeline);
    GPid sender = ends_spawn("videotestsrc is-live=true ! " CAPS " ! gpudirectsink address=%s %s",
                             ends_own(), row->send);
    for (int i = 0; i < DEADLINE * 100 && g_atomic_int_get(&ages.count) < FRAMES; i++)
        follow_latency(pipeline);
    fail_unless_equals_int(g_atomic_int_get(&ages.count), FRAMES);
    gint64 *age = ages.age + SETTLED;
    const guint count = FRAMES - SETTLED;
    qsort(age, count, sizeof(*age), compare);
    g_print("%-34s %9.3f ms %9.3f ms %9.3f ms\n", row->what, (gdouble)age[count / 2] / 1e6,
            (gdouble)age[count * 99 / 100] / 1e6,
            (gdouble)ends_stat_of(ages.src, "latency-p50") / 1e6);
    ends_kill(sender);
}

ENDS_MAIN(90)

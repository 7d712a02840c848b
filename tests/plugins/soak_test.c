/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme for hours: a process sends picture, sound and data in real time, and each second a
 * flash, a beep and a mark that were made together. Three pipelines receive it: by the clock of the
 * sender's pipeline, by a clock of their own, and behind sinks that show each buffer at its time.
 * Nothing is lost, the beep and the mark stay where they were to the flash, and neither process
 * grows. Prints a table.
 *     soak_test [seconds] */
#include "ends.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RATE 48000
#define BLOCK 480 /* samples: 10 ms */
#define TICK (10 * GST_MSECOND)
#define TICKS_PICTURE 4 /* 25 pictures a second */
#define TICKS_SECOND 100
#define BEEP 96 /* samples */
#define WIDTH 320
#define HEIGHT 180
#define STREAMS 3
#define DRIFT_MAX (100 * 1000.) /* ns, over the whole run */
#define GROWTH_MAX 4096         /* KiB */
#define SAMPLES 400             /* of the memory, over the run */

enum kind { PICTURE, SOUND, DATA };

static guint seconds = 20;

/* --- the sender, a process of its own ------------------------------------------------------- */

static void push(GstElement *source, GstBuffer *buffer, GstClockTime time, GstClockTime duration)
{
    GstFlowReturn flow;

    GST_BUFFER_PTS(buffer) = time;
    GST_BUFFER_DURATION(buffer) = duration;
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    gst_buffer_unref(buffer);
    if (flow != GST_FLOW_OK)
        exit(1);
}

static void push_picture(GstElement *source, guint64 tick)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, WIDTH * HEIGHT, NULL);

    gst_buffer_memset(buffer, 0, tick % TICKS_SECOND == 0 ? 255 : 16, WIDTH * HEIGHT);
    push(source, buffer, tick * TICK, TICKS_PICTURE * TICK);
}

static void push_sound(GstElement *source, guint64 tick)
{
    gint16 samples[BLOCK] = {0};

    for (guint i = 0; i < BEEP && tick % TICKS_SECOND == 0; i++)
        samples[i] = 20000;
    push(source, gst_buffer_new_memdup(samples, sizeof(samples)), tick * TICK, TICK);
}

static int send_programme(const gchar *address)
{
    g_autofree gchar *line = g_strdup_printf(
        "appsrc name=picture format=time block=true is-live=true caps=\"video/x-raw,format=GRAY8,"
        "width=%d,height=%d,framerate=25/1\" ! gpudirectsink async=false sync=false slots=16 "
        "slow-receiver=block address=%s "
        "appsrc name=sound format=time block=true is-live=true caps=\"audio/x-raw,format=S16LE,"
        "layout=interleaved,rate=%d,channels=1\" ! gpudirectsink async=false sync=false slots=32 "
        "slow-receiver=block address=%s/audio "
        "appsrc name=data format=time block=true is-live=true caps=\"application/octet-stream\" "
        "! gpudirectsink async=false sync=false slots=16 slow-receiver=block address=%s/data",
        WIDTH, HEIGHT, address, RATE, address, address);
    GstElement *pipeline = gst_parse_launch(line, NULL);
    GstElement *sources[] = {gst_bin_get_by_name(GST_BIN(pipeline), "picture"),
                             gst_bin_get_by_name(GST_BIN(pipeline), "sound"),
                             gst_bin_get_by_name(GST_BIN(pipeline), "data")};

    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    gst_element_get_state(pipeline, NULL, NULL, 10 * GST_SECOND);
    for (guint64 tick = 0;; tick++) {
        GstClockTime now = (GstClockTime)g_get_monotonic_time() * GST_USECOND -
                           gst_element_get_base_time(pipeline);
        if (now < tick * TICK)
            g_usleep((tick * TICK - now) / GST_USECOND + 1);
        push_sound(sources[SOUND], tick);
        if (tick % TICKS_PICTURE == 0)
            push_picture(sources[PICTURE], tick);
        if (tick % TICKS_SECOND == 0)
            push(sources[DATA], gst_buffer_new_memdup(&tick, sizeof(tick)), tick * TICK,
                 TICKS_SECOND * TICK);
        if (getppid() == 1)
            return 1; /* of a test that failed */
    }
}

/* --- what is received ----------------------------------------------------------------------- */

struct stream {
    enum kind kind;
    GstSegment segment;
    gboolean is_on;   /* the flash, or the beep, at the end of the last buffer */
    GstClockTime end; /* of the last buffer: the sender's times have no gap */
    guint64 buffers, gaps;
    GArray *events; /* running times */
};

struct receiver {
    const gchar *name;
    GstElement *pipeline;
    const gchar *sink;
    struct stream streams[STREAMS];
};

static GMutex lock; /* of all streams */

static void note(struct stream *stream, GstClockTime time)
{
    g_array_append_val(stream->events, time);
}

/* Samples that are missing before this buffer, or pictures. Times are mapped, so that they move by
 * less than a millisecond. */
static void count_gap(struct stream *stream, const GstBuffer *buffer)
{
    gint64 apart = (gint64)GST_BUFFER_PTS(buffer) - (gint64)stream->end;

    if (stream->buffers > 0 && ABS(apart) > (gint64)(TICK / 2))
        stream->gaps++;
    stream->end = GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer);
    stream->buffers++;
}

static void see(struct stream *stream, GstBuffer *buffer)
{
    GstMapInfo map;
    GstClockTime time =
        gst_segment_to_running_time(&stream->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));

    count_gap(stream, buffer);
    if (stream->kind == DATA) {
        note(stream, time);
        return;
    }
    fail_unless(gst_buffer_map(buffer, &map, GST_MAP_READ));
    gsize size = stream->kind == SOUND ? 2 : 1;
    for (gsize i = 0; i < (stream->kind == SOUND ? map.size / 2 : 1); i++) {
        gint16 value = 0;
        memcpy(&value, map.data + size * i, size);
        if (value > 100 && !stream->is_on)
            note(stream, time + gst_util_uint64_scale(i, GST_SECOND, RATE));
        stream->is_on = value > 100;
    }
    gst_buffer_unmap(buffer, &map);
}

static GstPadProbeReturn on_data(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct stream *stream = user;

    g_mutex_lock(&lock);
    if (info->type & GST_PAD_PROBE_TYPE_BUFFER)
        see(stream, GST_PAD_PROBE_INFO_BUFFER(info));
    else if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_SEGMENT)
        gst_event_copy_segment(GST_PAD_PROBE_INFO_EVENT(info), &stream->segment);
    g_mutex_unlock(&lock);
    return GST_PAD_PROBE_OK;
}

static void on_pad_added(GstElement *source, GstPad *pad, struct receiver *receiver)
{
    const gchar *name = GST_OBJECT_NAME(pad);
    enum kind kind = g_str_has_suffix(name, "audio")  ? SOUND
                     : g_str_has_suffix(name, "data") ? DATA
                                                      : PICTURE;
    g_autoptr(GstElement) sink = gst_parse_bin_from_description(receiver->sink, TRUE, NULL);
    g_autoptr(GstPad) to = gst_element_get_static_pad(sink, "sink");

    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_data,
                      &receiver->streams[kind], NULL);
    gst_bin_add(GST_BIN(receiver->pipeline), gst_object_ref(sink));
    gst_element_sync_state_with_parent(sink);
    fail_unless_equals_int(gst_pad_link(pad, to), GST_PAD_LINK_OK);
}

static void open_receiver(struct receiver *receiver, const gchar *address, GstClock *clock)
{
    g_autofree gchar *line = g_strdup_printf("gpudirectprogramsrc address=%s latency=100", address);

    for (guint i = 0; i < STREAMS; i++) {
        receiver->streams[i].kind = (enum kind)i;
        receiver->streams[i].events = g_array_new(FALSE, FALSE, sizeof(GstClockTime));
        gst_segment_init(&receiver->streams[i].segment, GST_FORMAT_TIME);
    }
    receiver->pipeline = gst_pipeline_new(receiver->name);
    GstElement *source = gst_parse_launch(line, NULL);
    g_signal_connect(source, "pad-added", G_CALLBACK(on_pad_added), receiver);
    gst_bin_add(GST_BIN(receiver->pipeline), source);
    if (clock)
        gst_pipeline_use_clock(GST_PIPELINE(receiver->pipeline), clock);
    gst_element_set_state(receiver->pipeline, GST_STATE_PLAYING);
}

static guint count_events(const struct receiver *receiver, enum kind kind)
{
    g_mutex_lock(&lock);
    guint count = receiver->streams[kind].events->len;
    g_mutex_unlock(&lock);
    return count;
}

/* --- sums ----------------------------------------------------------------------------------- */

/* A straight line through points. */
struct line {
    gdouble n, x, y, xx, xy;
};

static void add_point(struct line *line, gdouble x, gdouble y)
{
    line->n++;
    line->x += x;
    line->y += y;
    line->xx += x * x;
    line->xy += x * y;
}

static gdouble slope_of(const struct line *line)
{
    gdouble width = line->n * line->xx - line->x * line->x;

    return width > 0 ? (line->n * line->xy - line->x * line->y) / width : 0;
}

/* How far the other stream's events are from the flashes: by how much that changes over the run,
 * and the most that it is; ns. */
struct offset {
    guint pairs;
    gdouble drift, most;
};

static struct offset offset_of(const struct receiver *receiver, enum kind kind)
{
    const GArray *flashes = receiver->streams[PICTURE].events;
    const GArray *events = receiver->streams[kind].events;
    struct offset offset = {0};
    struct line line = {0};

    for (guint i = 0, k = 0; i < flashes->len; i++) {
        gint64 flash = (gint64)g_array_index(flashes, GstClockTime, i);
        while (k < events->len &&
               (gint64)g_array_index(events, GstClockTime, k) < flash - (gint64)GST_SECOND / 2)
            k++;
        gint64 apart =
            k < events->len ? (gint64)g_array_index(events, GstClockTime, k) - flash : G_MAXINT64;
        if (apart >= (gint64)GST_SECOND / 2)
            continue; /* at the beginning one of the two came sooner */
        add_point(&line, (gdouble)flash / GST_SECOND, (gdouble)apart);
        offset.most = MAX(offset.most, fabs((gdouble)apart));
        offset.pairs++;
    }
    offset.drift = slope_of(&line) * seconds;
    return offset;
}

/* --- memory --------------------------------------------------------------------------------- */

static glong resident(GPid pid)
{
    g_autofree gchar *path = g_strdup_printf("/proc/%d/statm", (int)pid);
    glong total, pages = 0;
    FILE *file = fopen(path, "r");

    fail_unless(file && fscanf(file, "%ld %ld", &total, &pages) == 2, "no %s", path);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static guint count_descriptors(GPid pid)
{
    g_autofree gchar *path = g_strdup_printf("/proc/%d/fd", (int)pid);
    g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
    guint count = 0;

    fail_unless(directory != NULL);
    while (g_dir_read_name(directory))
        count++;
    return count;
}

/* Of a process, over the run. What is allocated once is there after the first quarter. */
struct growth {
    const gchar *name;
    GPid pid;
    glong samples[SAMPLES];
    guint count, descriptors;
};

static void sample(struct growth *growth)
{
    if (growth->count == SAMPLES)
        return;
    growth->samples[growth->count++] = resident(growth->pid);
}

static gint compare(gconstpointer a, gconstpointer b)
{
    return *(const glong *)a < *(const glong *)b ? -1 : *(const glong *)a > *(const glong *)b;
}

static glong median(const glong *from, guint count)
{
    glong sorted[SAMPLES];

    memcpy(sorted, from, count * sizeof(*from));
    qsort(sorted, count, sizeof(*sorted), compare);
    return sorted[count / 2];
}

/* Between the second quarter and the last one: KiB. */
static glong growth_of(const struct growth *growth)
{
    guint quarter = growth->count / 4;

    return median(growth->samples + 3 * quarter, quarter) -
           median(growth->samples + quarter, quarter);
}

static void print_growth(const struct growth *growth, guint descriptors)
{
    g_print("%-10s %8ld KiB resident, %+ld KiB since the first half; %u descriptors, %+d\n",
            growth->name, growth->samples[growth->count - 1], growth_of(growth), descriptors,
            (gint)descriptors - (gint)growth->descriptors);
}

/* --- the run -------------------------------------------------------------------------------- */

static void report(const struct receiver *receiver)
{
    const struct stream *streams = receiver->streams;
    struct offset sound = offset_of(receiver, SOUND), data = offset_of(receiver, DATA);

    g_print("%-14s %8" G_GUINT64_FORMAT " pictures %8" G_GUINT64_FORMAT
            " blocks %6u flashes; beep: %6.1f us at most, drift %+.1f us; mark: %6.1f us at most, "
            "drift %+.1f us\n",
            receiver->name, streams[PICTURE].buffers, streams[SOUND].buffers,
            streams[PICTURE].events->len, sound.most / 1e3, sound.drift / 1e3, data.most / 1e3,
            data.drift / 1e3);
    for (guint i = 0; i < STREAMS; i++)
        fail_unless_equals_uint64(streams[i].gaps, 0);
    fail_unless(sound.pairs + 3 >= seconds && data.pairs + 3 >= seconds);
    fail_unless(sound.most <= GST_MSECOND && data.most <= GST_MSECOND);
    fail_unless(fabs(sound.drift) <= DRIFT_MAX && fabs(data.drift) <= DRIFT_MAX);
}

TEST(test_programme)
{
    g_autofree gchar *address = ends_address();
    g_autoptr(GstClock) other =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type", GST_CLOCK_TYPE_REALTIME, NULL);
    struct receiver receivers[] = {
        {.name = "same clock", .sink = "fakesink sync=false async=false"},
        {.name = "other clock", .sink = "fakesink sync=false async=false"},
        {.name = "shown in time", .sink = "queue ! fakesink sync=true async=false"},
    };
    gchar *argv[] = {(gchar *)"/proc/self/exe", (gchar *)"--send", address, NULL};
    GPid pid;

    fail_unless(g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, NULL));
    for (guint i = 0; i < G_N_ELEMENTS(receivers); i++)
        open_receiver(&receivers[i], address, i == 1 ? other : NULL);
    for (guint i = 0; i < G_N_ELEMENTS(receivers); i++)
        ENDS_UNTIL(60, count_events(&receivers[i], PICTURE) > 0 &&
                           count_events(&receivers[i], SOUND) > 0 &&
                           count_events(&receivers[i], DATA) > 0);
    struct growth growths[] = {{.name = "receivers", .pid = getpid()},
                               {.name = "sender", .pid = pid}};
    for (guint i = 0; i < G_N_ELEMENTS(growths); i++)
        growths[i].descriptors = count_descriptors(growths[i].pid);
    for (guint n = 0; n < SAMPLES; n++) {
        guint due = (guint)((guint64)seconds * (n + 1) / SAMPLES);
        ENDS_UNTIL(60, count_events(&receivers[0], PICTURE) >= due, "the programme stands still");
        g_usleep(10000);
        for (guint i = 0; i < G_N_ELEMENTS(growths); i++)
            sample(&growths[i]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(receivers); i++)
        ENDS_UNTIL(60, count_events(&receivers[i], DATA) >= seconds);
    guint descriptors[] = {count_descriptors(growths[0].pid), count_descriptors(growths[1].pid)};
    for (guint i = 0; i < G_N_ELEMENTS(receivers); i++) {
        ends_fail_on_errors(receivers[i].pipeline);
        ends_stop(receivers[i].pipeline);
    }
    ends_kill(pid);
    for (guint i = 0; i < G_N_ELEMENTS(growths); i++)
        print_growth(&growths[i], descriptors[i]);
    for (guint i = 0; i < G_N_ELEMENTS(receivers); i++)
        report(&receivers[i]);
    for (guint i = 0; i < G_N_ELEMENTS(growths); i++) {
        fail_unless(growth_of(&growths[i]) <= GROWTH_MAX, "%s grows", growths[i].name);
        fail_unless_equals_int(descriptors[i], growths[i].descriptors);
    }
    for (guint i = 0; i < G_N_ELEMENTS(receivers); i++)
        for (guint k = 0; k < STREAMS; k++)
            g_array_unref(receivers[i].streams[k].events);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--send") == 0) {
        gst_init(&argc, &argv);
        return send_programme(argv[2]);
    }
    ends_init_environment();
    gst_check_init(&argc, &argv);
    seconds = argc > 1 ? (guint)atoi(argv[1]) : seconds;
    return ends_run_tests(2 * seconds + 120);
}

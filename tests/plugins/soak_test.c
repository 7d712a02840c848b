/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme for hours, at each usual rate of pictures: a process sends picture, sound and data in
 * real time, and about each second a flash, a beep and a mark that were made together. Three
 * pipelines receive it: by the clock of the sender's pipeline, by a clock of their own, and behind
 * sinks that show each buffer at its time. Nothing is lost, the beep and the mark stay where they
 * were to the flash, and no process grows. Prints a table.
 *     soak_test [seconds [rate]]         rate: 30000/1001; else all of them at once */
#include "pipes.h"

#include "../support/count.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define RATE 48000
#define BLOCK 480 /* samples: 10 ms */
#define TICK (10 * GST_MSECOND)
#define BEEP 96 /* samples */
#define WIDTH 320
#define HEIGHT 180
#define STREAMS 3
#define DRIFT_MAX (100 * 1000.) /* ns, over the whole run */
#define GROWTH_MAX 4096         /* KiB */
#define SAMPLES 400             /* of the memory, over the run */

enum kind { PICTURE, SOUND, DATA };

static guint seconds = 20;

static struct rate {
    const gchar *text;
    gint num, den;
} rates[] = {
    {"25/1", 25, 1}, {"30000/1001", 30000, 1001}, {"50/1", 50, 1}, {"60000/1001", 60000, 1001}};
static guint rate_count = G_N_ELEMENTS(rates);

/* The only one. FALSE: the text is not a rate. */
static gboolean use_rate(const gchar *text)
{
    struct rate *rate = &rates[0];

    rate_count = 1;
    rate->text = text;
    return sscanf(text, "%d/%d", &rate->num, &rate->den) == 2 && rate->num > 0 && rate->den > 0 &&
           rate->num / rate->den < 1000;
}

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

/* A flash is of the picture that begins a second, or the first one after it. */
static guint64 flash_of(const struct rate *rate, guint64 flash)
{
    return gst_util_uint64_scale_ceil(flash, (guint64)rate->num, (guint64)rate->den);
}

static GstClockTime time_of(const struct rate *rate, guint64 picture)
{
    return gst_util_uint64_scale(picture, GST_SECOND * (guint64)rate->den, (guint64)rate->num);
}

/* Where the beep of a flash begins: at the sample that is next to it. */
static guint64 beep_of(const struct rate *rate, guint64 flash)
{
    return gst_util_uint64_scale_round(flash_of(rate, flash), RATE * (guint64)rate->den,
                                       (guint64)rate->num);
}

struct programme_clock {
    const struct rate *rate;
    guint64 pictures, blocks, flashes, beeps; /* made so far */
};

static void push_picture(GstElement *source, GstElement *marks, struct programme_clock *at)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, WIDTH * HEIGHT, NULL);
    GstClockTime time = time_of(at->rate, at->pictures);
    gboolean flashes = at->pictures == flash_of(at->rate, at->flashes);

    gst_buffer_memset(buffer, 0, flashes ? 255 : 16, WIDTH * HEIGHT);
    push(source, buffer, time, time_of(at->rate, at->pictures + 1) - time);
    at->pictures++;
    if (!flashes)
        return;
    at->flashes++;
    push(marks, gst_buffer_new_memdup(&at->flashes, sizeof(at->flashes)), time,
         time_of(at->rate, flash_of(at->rate, at->flashes)) - time);
}

static void push_sound(GstElement *source, struct programme_clock *at)
{
    gint16 samples[BLOCK] = {0};
    guint64 first = at->blocks * BLOCK;

    for (guint i = 0; i < BLOCK; i++) {
        guint64 beep = beep_of(at->rate, at->beeps);
        if (first + i >= beep)
            samples[i] = 20000;
        if (first + i + 1 == beep + BEEP)
            at->beeps++;
    }
    push(source, gst_buffer_new_memdup(samples, sizeof(samples)), at->blocks * TICK, TICK);
    at->blocks++;
}

static int send_programme(const gchar *address, const struct rate *rate)
{
    g_autofree gchar *line = g_strdup_printf(
        "appsrc name=picture format=time block=true is-live=true caps=\"video/x-raw,format=GRAY8,"
        "width=%d,height=%d,framerate=%s\" ! gpudirectsink async=false sync=false slots=16 "
        "slow-receiver=block address=%s "
        "appsrc name=sound format=time block=true is-live=true caps=\"audio/x-raw,format=S16LE,"
        "layout=interleaved,rate=%d,channels=1\" ! gpudirectsink async=false sync=false slots=32 "
        "slow-receiver=block address=%s/audio "
        "appsrc name=data format=time block=true is-live=true caps=\"application/octet-stream\" "
        "! gpudirectsink async=false sync=false slots=16 slow-receiver=block address=%s/data",
        WIDTH, HEIGHT, rate->text, address, RATE, address, address);
    GstElement *pipeline = gst_parse_launch(line, NULL);
    GstElement *sources[] = {gst_bin_get_by_name(GST_BIN(pipeline), "picture"),
                             gst_bin_get_by_name(GST_BIN(pipeline), "sound"),
                             gst_bin_get_by_name(GST_BIN(pipeline), "data")};

    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    gst_element_get_state(pipeline, NULL, NULL, 10 * GST_SECOND);
    for (struct programme_clock at = {.rate = rate};;) {
        GstClockTime now = (GstClockTime)g_get_monotonic_time() * GST_USECOND -
                           gst_element_get_base_time(pipeline);
        GstClockTime picture = time_of(rate, at.pictures), sound = at.blocks * TICK;
        GstClockTime due = MIN(picture, sound);
        if (now < due)
            g_usleep((due - now) / GST_USECOND + 1);
        if (sound <= picture)
            push_sound(sources[SOUND], &at);
        else
            push_picture(sources[PICTURE], sources[DATA], &at);
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
    gint silences; /* atomic: how often the stream of data counted as lost */
};

static GMutex lock; /* of all streams */

static void see(struct stream *stream, GstBuffer *buffer)
{
    GstMapInfo map;
    GstClockTime time =
        gst_segment_to_running_time(&stream->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    gint64 apart = (gint64)GST_BUFFER_PTS(buffer) - (gint64)stream->end;

    /* Samples that are missing before this buffer, or pictures. Times are mapped, so that they move
     * by less than a millisecond. */
    if (stream->buffers > 0 && ABS(apart) > (gint64)(TICK / 2))
        stream->gaps++;
    stream->end = GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer);
    stream->buffers++;
    if (stream->kind == DATA) {
        g_array_append_val(stream->events, time);
        return;
    }
    fail_unless(gst_buffer_map(buffer, &map, GST_MAP_READ));
    gsize size = stream->kind == SOUND ? 2 : 1;
    for (gsize i = 0; i < (stream->kind == SOUND ? map.size / 2 : 1); i++) {
        gint16 value = 0;
        memcpy(&value, map.data + size * i, size);
        GstClockTime at = time + gst_util_uint64_scale(i, GST_SECOND, RATE);
        if (value > 100 && !stream->is_on)
            g_array_append_val(stream->events, at);
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

/* Messages are taken at once, so that memory does not grow by an unread bus. */
static GstBusSyncReply on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    struct receiver *receiver = user;
    g_autofree gchar *address = NULL;
    gboolean there = TRUE;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        return GST_BUS_PASS;
    if (gst_message_has_name(message, "gpudirect-signal")) {
        gst_structure_get_boolean(gst_message_get_structure(message), "signal", &there);
        g_object_get(GST_MESSAGE_SRC(message), "address", &address, NULL);
        if (!there && g_str_has_suffix(address, "data"))
            g_atomic_int_inc(&receiver->silences);
    }
    gst_message_unref(message);
    return GST_BUS_DROP;
}

static void open_receiver(struct receiver *receiver, const gchar *address, GstClock *clock)
{
    GstElement *source = ends_pipeline("gpudirectprogramsrc address=%s latency=100", address);

    for (guint i = 0; i < STREAMS; i++) {
        receiver->streams[i].kind = (enum kind)i;
        receiver->streams[i].events = g_array_new(FALSE, FALSE, sizeof(GstClockTime));
        gst_segment_init(&receiver->streams[i].segment, GST_FORMAT_TIME);
    }
    receiver->pipeline = gst_pipeline_new(receiver->name);
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver->pipeline);
    gst_bus_set_sync_handler(bus, on_message, receiver, NULL);
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
    gdouble n = 0, x = 0, y = 0, xx = 0, xy = 0; /* of a straight line through the distances */

    for (guint i = 0, k = 0; i < flashes->len; i++) {
        gint64 flash = (gint64)g_array_index(flashes, GstClockTime, i);
        while (k < events->len &&
               (gint64)g_array_index(events, GstClockTime, k) < flash - (gint64)GST_SECOND / 2)
            k++;
        gint64 apart =
            k < events->len ? (gint64)g_array_index(events, GstClockTime, k) - flash : G_MAXINT64;
        if (apart >= (gint64)GST_SECOND / 2)
            continue; /* at the beginning one of the two came sooner */
        gdouble at = (gdouble)flash / GST_SECOND, off = (gdouble)apart;
        n++;
        x += at;
        y += off;
        xx += at * at;
        xy += at * off;
        offset.most = MAX(offset.most, fabs((gdouble)apart));
        offset.pairs++;
    }
    gdouble width = n * xx - x * x;
    offset.drift = width > 0 ? (n * xy - x * y) / width * seconds : 0;
    return offset;
}

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

    return count_entries(path);
}

/* Of a process, over the run. What is allocated once is there after the first quarter. */
struct growth {
    const gchar *name;
    GPid pid;
    glong samples[SAMPLES];
    guint count, descriptors;
};

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

#define RECEIVERS 3

struct programme {
    const struct rate *rate;
    GPid pid;
    struct receiver receivers[RECEIVERS];
};

static void report(const struct programme *programme, const struct receiver *receiver)
{
    const struct stream *streams = receiver->streams;
    struct offset sound = offset_of(receiver, SOUND), data = offset_of(receiver, DATA);

    g_print("%-10s %-14s %8" G_GUINT64_FORMAT " pictures %8" G_GUINT64_FORMAT
            " blocks %6u flashes; beep: %6.1f us at most, drift %+.1f us; mark: %6.1f us at most, "
            "drift %+.1f us\n",
            programme->rate->text, receiver->name, streams[PICTURE].buffers, streams[SOUND].buffers,
            streams[PICTURE].events->len, sound.most / 1e3, sound.drift / 1e3, data.most / 1e3,
            data.drift / 1e3);
    for (guint i = 0; i < STREAMS; i++)
        fail_unless_equals_uint64(streams[i].gaps, 0);
    fail_unless(sound.pairs + 3 >= seconds && data.pairs + 3 >= seconds);
    fail_unless(sound.most <= GST_MSECOND && data.most <= GST_MSECOND);
    fail_unless(fabs(sound.drift) <= DRIFT_MAX && fabs(data.drift) <= DRIFT_MAX);
}

static void open_programme(struct programme *programme, const struct rate *rate, GstClock *other)
{
    static const gchar *const names[RECEIVERS] = {"same clock", "other clock", "shown in time"};
    g_autofree gchar *address = ends_address();
    gchar *argv[] = {(gchar *)"/proc/self/exe", (gchar *)"--send", address, (gchar *)rate->text,
                     NULL};

    programme->rate = rate;
    fail_unless(g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL,
                              &programme->pid, NULL));
    for (guint i = 0; i < RECEIVERS; i++) {
        struct receiver *receiver = &programme->receivers[i];
        receiver->name = names[i];
        receiver->sink =
            i == 2 ? "queue ! fakesink sync=true async=false" : "fakesink sync=false async=false";
        open_receiver(receiver, address, i == 1 ? other : NULL);
    }
}

static void await_streams(const struct programme *programme, enum kind kind, guint count)
{
    for (guint i = 0; i < RECEIVERS; i++)
        ENDS_UNTIL(60, count_events(&programme->receivers[i], kind) >= count,
                   "the programme stands still");
}

static void close_programme(struct programme *programme)
{
    for (guint i = 0; i < RECEIVERS; i++) {
        /* A mark a second is all that there is to send. */
        fail_unless_equals_int(g_atomic_int_get(&programme->receivers[i].silences), 0);
        ends_fail_on_errors(programme->receivers[i].pipeline);
        ends_stop(programme->receivers[i].pipeline);
    }
    ends_kill(programme->pid);
}

TEST(test_programmes)
{
    g_autoptr(GstClock) other =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type", GST_CLOCK_TYPE_REALTIME, NULL);
    struct programme programmes[G_N_ELEMENTS(rates)] = {0};
    struct growth growths[1 + G_N_ELEMENTS(rates)] = {{.name = "receivers", .pid = getpid()}};
    guint descriptors[1 + G_N_ELEMENTS(rates)], processes = 1 + rate_count;

    for (guint i = 0; i < rate_count; i++) {
        open_programme(&programmes[i], &rates[i], other);
        growths[1 + i] = (struct growth){.name = "sender", .pid = programmes[i].pid};
    }
    for (guint i = 0; i < rate_count; i++)
        for (guint k = 0; k < STREAMS; k++)
            await_streams(&programmes[i], (enum kind)k, 1);
    for (guint n = 0; n < SAMPLES; n++) {
        guint due = (guint)((guint64)seconds * (n + 1) / SAMPLES);
        ENDS_UNTIL(60, count_events(&programmes[0].receivers[0], PICTURE) >= due,
                   "the programme stands still");
        g_usleep(10000);
        for (guint i = 0; i < processes; i++) {
            growths[i].samples[growths[i].count++] = resident(growths[i].pid);
            if (n == SAMPLES / 4)
                growths[i].descriptors = count_descriptors(growths[i].pid);
        }
    }
    for (guint i = 0; i < rate_count; i++)
        await_streams(&programmes[i], DATA, seconds);
    /* Some may be open for a moment. */
    for (guint i = 0; i < processes; i++)
        ENDS_UNTIL(30,
                   (descriptors[i] = count_descriptors(growths[i].pid)) <= growths[i].descriptors,
                   "%s has %u descriptors, and had %u", growths[i].name, descriptors[i],
                   growths[i].descriptors);
    for (guint i = 0; i < rate_count; i++)
        close_programme(&programmes[i]);
    for (guint i = 0; i < processes; i++)
        g_print("%-10s %8ld KiB resident, %+ld KiB since the first half; %u descriptors, %+d\n",
                growths[i].name, growths[i].samples[growths[i].count - 1], growth_of(&growths[i]),
                descriptors[i], (gint)descriptors[i] - (gint)growths[i].descriptors);
    for (guint i = 0; i < rate_count * RECEIVERS; i++)
        report(&programmes[i / RECEIVERS], &programmes[i / RECEIVERS].receivers[i % RECEIVERS]);
    for (guint i = 0; i < processes; i++)
        fail_unless(growth_of(&growths[i]) <= GROWTH_MAX * (i == 0 ? (glong)rate_count : 1),
                    "%s grows", growths[i].name);
    for (guint i = 0; i < rate_count * RECEIVERS * STREAMS; i++)
        g_array_unref(programmes[i / RECEIVERS / STREAMS]
                          .receivers[i / STREAMS % RECEIVERS]
                          .streams[i % STREAMS]
                          .events);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--send") == 0) {
        gst_init(&argc, &argv);
        return use_rate(argv[3]) ? send_programme(argv[2], &rates[0]) : 2;
    }
    ends_init_environment();
    gst_check_init(&argc, &argv);
    seconds = argc > 1 ? (guint)atoi(argv[1]) : seconds;
    if (argc > 2 && !use_rate(argv[2])) {
        g_printerr("\"%s\" is no rate: 25/1 or 30000/1001 is one\n", argv[2]);
        return 2;
    }
    return ends_run_tests(2 * seconds + 120);
}

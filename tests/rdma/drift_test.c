/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Programmes of pictures and sound of 48 kHz, several at once, between two hosts: how far sound and
 * picture of one moment at the sender are apart at the receiver, and how the clocks moved
 * meanwhile. A frame's offset says which picture, or sample, it is. Arguments: "send" or "receive",
 * the address of the port, the key's file, a folder of both hosts, how many seconds, and the rates
 * of the programmes' pictures (30000/1001). */
#include "support/check.h"

#include <gst/gst.h>
#include <string.h>

#define PROGRAMMES_MAX 8
#define RATE 48000
#define BLOCK 4800             /* samples */
#define LATE 200000000         /* ns */
#define APART (GST_SECOND / 5) /* two blocks of sound, for a picture to find its own */
#define MOST (gint64) GST_MSECOND
/* While the source finds out how late the frames are, 10 s, it places those that come after at
 * once, where the first ones were later by more than 20 ms (wire/codec.h): on an emulated machine
 * they are, and such a step may fall between a picture and its sound. */
#define SETTLING (15 * GST_SECOND)
/* Frames that come later by more than the least late ones were not sent, or received, in real time:
 * the machine stood still. A source gives up their times, and has to settle again. */
#define STALL (gint64)(GST_SECOND / 2)
#define SPARE 600    /* s, for the hosts to find each other */
#define PROGRESS 600 /* s */
/* The receiver's clock is faster by 50 ppm; less shows in a run that is long enough to tell. */
#define PPM_LEAST 25
#define PPM_SPAN (1000 * GST_SECOND)

/* A frame, and how much later than at the sender's pipeline its time is, and it arrived. */
struct seen {
    guint64 offset;
    gint64 late, arrived;
};

struct stream {
    guint64 num, den; /* offsets in a second */
    guint step;       /* offsets from one frame to the next */
    guint64 began;    /* when offset 0 was, at the sender */
    GstSegment segment;
    GArray *seen; /* struct seen */
};

struct programme {
    const char *rate;
    struct stream pictures, sound;
};

static GMutex lock;
static struct programme programmes[PROGRAMMES_MAX];
static int count; /* of the programmes */
static GstElement *pipeline;

static void check_no_error(void)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;
    if (message)
        gst_message_parse_error(message, &error, NULL);
    CHECK(!error, "%s", error->message);
}

/* --- the sender ------------------------------------------------------------------------------- */

static GstPadProbeReturn on_first(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct stream *stream = user;
    CHECK_EQUAL(GST_BUFFER_OFFSET(GST_PAD_PROBE_INFO_BUFFER(info)), 0);
    g_mutex_lock(&lock);
    stream->began = GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info));
    g_mutex_unlock(&lock);
    return GST_PAD_PROBE_REMOVE;
}

static void note_first(GstElement *element, struct stream *stream)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(element, "src");
    stream->began = GST_CLOCK_TIME_NONE;
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_first, stream, NULL);
    gst_object_unref(element);
}

/* Little work for each picture, as an emulated machine has to keep up with the time; and where it
 * does not, frames are dropped rather than sent late. */
static GstElement *make_sender(const char *port, const char *key)
{
    GString *line = g_string_new(NULL);
    for (int i = 0; i < count; i++)
        g_string_append_printf(
            line,
            "videotestsrc name=pictures%d is-live=true pattern=black"
            " ! video/x-raw,format=GRAY8,width=32,height=16,framerate=%s"
            " ! gpudirectsink address=%s/cam%d psk-file=%s max-lateness=%d"
            " audiotestsrc name=sound%d is-live=true samplesperbuffer=%d"
            " ! audio/x-raw,format=S16LE,rate=%d,channels=1"
            " ! gpudirectsink address=%s/cam%d/audio psk-file=%s max-lateness=%d ",
            i, programmes[i].rate, port, i, key, LATE, i, BLOCK, RATE, port, i, key, LATE);
    g_autoptr(GError) error = NULL;
    GstElement *sender = gst_parse_launch(line->str, &error);
    CHECK(sender && !error, "%s", error->message);
    g_string_free(line, TRUE);
    for (int i = 0; i < count; i++) {
        g_autofree char *pictures = g_strdup_printf("pictures%d", i);
        g_autofree char *sound = g_strdup_printf("sound%d", i);
        note_first(gst_bin_get_by_name(GST_BIN(sender), pictures), &programmes[i].pictures);
        note_first(gst_bin_get_by_name(GST_BIN(sender), sound), &programmes[i].sound);
    }
    return sender;
}

/* When each stream began, a line a programme; NULL: not all of them have begun. */
static char *list_beginnings(void)
{
    GString *all = g_string_new(NULL);
    bool complete = true;
    g_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        guint64 pictures = programmes[i].pictures.began, sound = programmes[i].sound.began;
        complete &= GST_CLOCK_TIME_IS_VALID(pictures) && GST_CLOCK_TIME_IS_VALID(sound);
        g_string_append_printf(all, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n", pictures,
                               sound);
    }
    g_mutex_unlock(&lock);
    return g_string_free(all, !complete);
}

static void send_until_done(const char *began, const char *done, int seconds)
{
    bool listed = false;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    for (int wait = 0; access(done, F_OK) < 0; wait++) {
        g_autofree char *all = listed ? NULL : list_beginnings();
        CHECK(wait < 10 * (seconds + SPARE), "the receiver does not end");
        check_no_error();
        if (all) {
            CHECK(g_file_set_contents(began, all, -1, NULL), "%s cannot be written", began);
            listed = true;
        }
        g_usleep(100000);
    }
}

/* --- the receiver ----------------------------------------------------------------------------- */

static guint64 sent_at(const struct stream *stream, const struct seen *seen)
{
    return stream->began +
           gst_util_uint64_scale(seen->offset, GST_SECOND * stream->den, stream->num);
}

static GstPadProbeReturn on_data(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct stream *stream = user;
    if (!(info->type & GST_PAD_PROBE_TYPE_BUFFER)) {
        if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_SEGMENT)
            gst_event_copy_segment(GST_PAD_PROBE_INFO_EVENT(info), &stream->segment);
        return GST_PAD_PROBE_OK;
    }
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    struct seen seen = {.offset = GST_BUFFER_OFFSET(buffer)};
    seen.late = (gint64)gst_segment_to_running_time(&stream->segment, GST_FORMAT_TIME,
                                                    GST_BUFFER_PTS(buffer)) -
                (gint64)sent_at(stream, &seen);
    seen.arrived =
        (gint64)gst_element_get_current_running_time(pipeline) - (gint64)sent_at(stream, &seen);
    g_mutex_lock(&lock);
    g_array_append_val(stream->seen, seen);
    g_mutex_unlock(&lock);
    return GST_PAD_PROBE_OK;
}

static void on_pad_added(GstElement *source, GstPad *pad, gpointer user)
{
    struct programme *programme = user;
    bool is_sound = g_str_has_suffix(GST_OBJECT_NAME(pad), "audio");
    GstElement *sink = gst_element_factory_make("fakesink", NULL);
    g_autoptr(GstPad) to = gst_element_get_static_pad(sink, "sink");
    g_object_set(sink, "sync", FALSE, "async", FALSE, NULL);
    gst_pad_add_probe(to, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_data,
                      is_sound ? &programme->sound : &programme->pictures, NULL);
    gst_bin_add(GST_BIN(pipeline), sink);
    gst_element_sync_state_with_parent(sink);
    CHECK(gst_pad_link(pad, to) == GST_PAD_LINK_OK, "not linked");
}

/* The sums of a straight line through points of a time in s and a value in ns. */
struct line {
    double points, t, v, tt, tv;
};

static void line_add(struct line *line, guint64 at, gint64 value)
{
    double t = (double)at / 1e9, v = (double)value;
    line->points++;
    line->t += t;
    line->v += v;
    line->tt += t * t;
    line->tv += t * v;
}

static double line_slope(const struct line *line) /* ns in a second */
{
    return (line->points * line->tv - line->t * line->v) /
           (line->points * line->tt - line->t * line->t);
}

/* How much later sound is than the picture of its moment, in ns. */
struct offsets {
    gint64 first, last, greatest;
    gint64 unsettled;         /* the greatest while it had not settled */
    struct line apart, clock; /* clock: by how much later the pictures are */
};

static const struct seen *seen_of(const struct stream *stream, guint index)
{
    return &g_array_index(stream->seen, struct seen, index);
}

static guint64 span(const struct stream *stream)
{
    guint len = stream->seen->len;
    return len ? sent_at(stream, seen_of(stream, len - 1)) - sent_at(stream, seen_of(stream, 0))
               : 0;
}

/* How many frames between the first and the last one did not come. */
static int lost(const struct stream *stream)
{
    guint last = stream->seen->len - 1;
    guint64 sent = (seen_of(stream, last)->offset - seen_of(stream, 0)->offset) / stream->step;
    return (int)(sent - last);
}

/* How late the least late frame arrived. */
static gint64 least_late(const struct stream *stream)
{
    gint64 least = G_MAXINT64;
    for (guint i = 0; i < stream->seen->len; i++)
        least = MIN(least, seen_of(stream, i)->arrived);
    return least;
}

/* The sound that is nearest to each picture's moment. */
static struct offsets compare(const struct stream *pictures, const struct stream *sound)
{
    gint64 picture_limit = least_late(pictures) + STALL, sound_limit = least_late(sound) + STALL;
    guint64 settled = sent_at(pictures, seen_of(pictures, 0)) + SETTLING;
    struct offsets offsets = {0};
    guint at = 0;
    for (guint i = 0; i < pictures->seen->len; i++) {
        const struct seen *picture = seen_of(pictures, i);
        guint64 sent = sent_at(pictures, picture);
        while (at < sound->seen->len && sent_at(sound, seen_of(sound, at)) < sent)
            at++;
        if (at == sound->seen->len)
            break;
        const struct seen *heard = seen_of(sound, at);
        if (picture->arrived > picture_limit || heard->arrived > sound_limit)
            settled = sent + SETTLING;
        if (sent_at(sound, heard) > sent + APART) /* the sound began later, or some was dropped */
            continue;
        gint64 apart = heard->late - picture->late;
        if (sent < settled) {
            offsets.unsettled = MAX(offsets.unsettled, ABS(apart));
            continue;
        }
        if (!offsets.apart.points)
            offsets.first = apart;
        offsets.last = apart;
        offsets.greatest = MAX(offsets.greatest, ABS(apart));
        line_add(&offsets.apart, sent, apart);
        line_add(&offsets.clock, sent, picture->late);
    }
    return offsets;
}

static struct stream copy_stream(const struct stream *stream)
{
    struct stream copy = *stream;
    g_mutex_lock(&lock);
    copy.seen = g_array_copy(stream->seen);
    g_mutex_unlock(&lock);
    return copy;
}

static struct offsets report(const struct programme *programme)
{
    /* The streams go on meanwhile. */
    struct stream pictures = copy_stream(&programme->pictures);
    struct stream sound = copy_stream(&programme->sound);
    CHECK(pictures.seen->len > 0 && sound.seen->len > 0, "%s: nothing comes", programme->rate);
    struct offsets offsets = compare(&pictures, &sound);
    SAY("%s, %.0f s:", programme->rate, (double)span(&pictures) / 1e9);
    SAY("    %u pictures, %d lost; %u blocks of sound, %d lost", pictures.seen->len,
        lost(&pictures), sound.seen->len, lost(&sound));
    if (offsets.apart.points > 0)
        SAY("    %.0f pictures while it was settled: sound is %.3f ms later at first, %.3f at "
            "last, "
            "%.3f apart at most, %+.1f us an hour; this clock is %.1f ppm faster",
            offsets.apart.points, (double)offsets.first / 1e6, (double)offsets.last / 1e6,
            (double)offsets.greatest / 1e6, line_slope(&offsets.apart) * 3600 / 1e3,
            line_slope(&offsets.clock) / 1e3);
    SAY("    %.3f ms apart at most while it settled, or the machine stood still",
        (double)offsets.unsettled / 1e6);
    g_array_unref(pictures.seen);
    g_array_unref(sound.seen);
    return offsets;
}

/* Of each gpudirectsrc in the programme's bin. */
static void check_stats(GstElement *source)
{
    GstIterator *all = gst_bin_iterate_recurse(GST_BIN(source));
    GValue item = G_VALUE_INIT;
    guint sources = 0;
    while (gst_iterator_next(all, &item) == GST_ITERATOR_OK) {
        GstElement *element = g_value_get_object(&item);
        GstStructure *stats = NULL;
        gint64 offset;
        if (g_object_class_find_property(G_OBJECT_GET_CLASS(element), "stats")) {
            g_object_get(element, "stats", &stats, NULL);
            const gchar *clock = gst_structure_get_string(stats, "clock");
            CHECK(clock && strcmp(clock, "unknown") == 0, "the clock is \"%s\"", clock);
            CHECK(gst_structure_get_int64(stats, "clock-offset", &offset), "there is no offset");
            gst_structure_free(stats);
            sources++;
        }
        g_value_reset(&item);
    }
    gst_iterator_free(all);
    CHECK(sources == 2, "%u sources", sources);
}

static void wait_for_beginnings(const char *began)
{
    g_autofree char *all = NULL;
    for (int wait = 0; !g_file_get_contents(began, &all, NULL, NULL); wait++) {
        CHECK(wait < 10 * SPARE, "the sender does not begin");
        g_usleep(100000);
    }
    g_auto(GStrv) lines = g_strsplit(g_strchomp(all), "\n", -1);
    CHECK_EQUAL(g_strv_length(lines), count);
    for (int i = 0; i < count; i++)
        CHECK(sscanf(lines[i], "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT,
                     &programmes[i].pictures.began, &programmes[i].sound.began) == 2,
              "\"%s\" are not two times", lines[i]);
}

static void receive(int seconds)
{
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    guint64 reported = 0, wanted = (guint64)seconds * GST_SECOND, least = 0;
    for (int wait = 0; least < wanted; wait++) {
        CHECK(wait < 10 * (seconds + SPARE), "the programmes do not come");
        check_no_error();
        if (least >= reported + PROGRESS * GST_SECOND) {
            reported = least;
            for (int i = 0; i < count; i++)
                report(&programmes[i]);
        }
        g_usleep(100000);
        least = G_MAXUINT64;
        g_mutex_lock(&lock);
        for (int i = 0; i < count; i++)
            least = MIN(least, MIN(span(&programmes[i].pictures), span(&programmes[i].sound)));
        g_mutex_unlock(&lock);
    }
}

/* Where a machine keeps up, nine of ten pictures of the time after the first SETTLING were received
 * while it was settled. The clocks of two guests run apart, those of two namespaces do not. */
static void judge(bool of_guests)
{
    gint64 greatest = 0;
    bool keeps_up = true, apart = true;
    for (int i = 0; i < count; i++) {
        const struct stream *pictures = &programmes[i].pictures;
        struct offsets offsets = report(&programmes[i]);
        guint64 judged = span(pictures) - MIN(span(pictures), SETTLING);
        guint64 wanted = gst_util_uint64_scale(judged, pictures->num, GST_SECOND * pictures->den);
        keeps_up &= wanted > 0 && offsets.apart.points >= 0.9 * (double)wanted;
        apart &= !of_guests || span(pictures) < PPM_SPAN ||
                 line_slope(&offsets.clock) >= PPM_LEAST * 1e3;
        greatest = MAX(greatest, offsets.greatest);
    }
    CHECK(greatest <= MOST, "%.3f ms", (double)greatest / 1e6);
    if (!keeps_up)
        SKIP("the machine does not keep up with the time");
    CHECK(apart, "the clocks are not apart");
}

int main(int argc, char **argv)
{
    count = argc - 6;
    CHECK(count > 0 && count <= PROGRAMMES_MAX,
          "drift_test send|receive PORT KEY FOLDER SECONDS RATE...");
    const char *port = argv[2], *key = argv[3];
    g_autofree char *began = g_build_filename(argv[4], "began", NULL);
    g_autofree char *done = g_build_filename(argv[4], "done", NULL);
    int seconds = atoi(argv[5]);
    for (int i = 0; i < count; i++) {
        struct programme *programme = &programmes[i];
        struct stream *pictures = &programme->pictures;
        programme->rate = argv[6 + i];
        CHECK(sscanf(argv[6 + i], "%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, &pictures->num,
                     &pictures->den) == 2 &&
                  pictures->num > 0 && pictures->den > 0,
              "\"%s\" is no rate", argv[6 + i]);
        pictures->step = 1;
        pictures->seen = g_array_new(FALSE, FALSE, sizeof(struct seen));
        programme->sound = (struct stream){.num = RATE, .den = 1, .step = BLOCK};
        programme->sound.seen = g_array_new(FALSE, FALSE, sizeof(struct seen));
    }
    gst_init(NULL, NULL);
    if (strcmp(argv[1], "send") == 0) {
        pipeline = make_sender(port, key);
        send_until_done(began, done, seconds);
    } else {
        GstElement *sources[PROGRAMMES_MAX];
        pipeline = gst_pipeline_new(NULL);
        wait_for_beginnings(began);
        for (int i = 0; i < count; i++) {
            g_autofree char *address = g_strdup_printf("%s/cam%d", port, i);
            sources[i] = gst_element_factory_make("gpudirectprogramsrc", NULL);
            CHECK(sources[i], "there is no gpudirectprogramsrc");
            g_object_set(sources[i], "address", address, "psk-file", key, "device", "host", NULL);
            g_signal_connect(sources[i], "pad-added", G_CALLBACK(on_pad_added), &programmes[i]);
            gst_bin_add(GST_BIN(pipeline), sources[i]);
        }
        receive(seconds);
        for (int i = 0; i < count; i++)
            check_stats(sources[i]);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    if (strcmp(argv[1], "receive") == 0) {
        CHECK(g_file_set_contents(done, "", 0, NULL), "%s cannot be written", done);
        judge(!g_str_has_prefix(port, "tcp://"));
    }
    return 0;
}

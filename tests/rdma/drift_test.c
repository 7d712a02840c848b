/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receives a programme of pictures and sound of 48 kHz: how far sound and picture of one moment at
 * the sender are apart here, and how the clocks moved meanwhile. A frame's offset says which
 * picture, or sample, it is. Arguments: the address, the key's file, how many seconds, the rate of
 * the pictures (30000/1001), and when they and the sound began at the sender, in s. */
#include "support/check.h"

#include <gst/gst.h>
#include <string.h>

#define RATE 48000
#define APART (GST_SECOND / 5) /* two blocks of sound, for a picture to find its own */
#define MOST (gint64) GST_MSECOND
/* While the source finds out how late the frames are, 10 s, it places those that come after at
 * once, where the first ones were later by more than 20 ms (wire/drift.h): on an emulated machine
 * they are, and such a step may fall between a picture and its sound. */
#define SETTLING (15 * GST_SECOND)
/* Pictures and sound that fall behind by more were not made in real time: the machine stood still.
 */
#define STALL (gint64)(GST_SECOND / 2)

/* How much later than at the sender's pipeline a frame is. */
struct late {
    GstClockTime sent;
    gint64 late;
};

struct stream {
    GstSegment segment;
    gboolean is_sound;
    guint64 began;
    GArray *seen; /* struct late */
};

static GMutex lock;
static guint64 rate_num, rate_den; /* of the pictures */
static struct stream streams[2];

static GstPadProbeReturn on_data(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct stream *stream = user;
    (void)pad;
    if (!(info->type & GST_PAD_PROBE_TYPE_BUFFER)) {
        if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_SEGMENT)
            gst_event_copy_segment(GST_PAD_PROBE_INFO_EVENT(info), &stream->segment);
        return GST_PAD_PROBE_OK;
    }
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    guint64 offset = GST_BUFFER_OFFSET(buffer);
    struct late late = {
        .sent = stream->began +
                (stream->is_sound ? gst_util_uint64_scale(offset, GST_SECOND, RATE)
                                  : gst_util_uint64_scale(offset, GST_SECOND * rate_den, rate_num)),
    };
    late.late = (gint64)gst_segment_to_running_time(&stream->segment, GST_FORMAT_TIME,
                                                    GST_BUFFER_PTS(buffer)) -
                (gint64)late.sent;
    g_mutex_lock(&lock);
    g_array_append_val(stream->seen, late);
    g_mutex_unlock(&lock);
    return GST_PAD_PROBE_OK;
}

static void on_pad_added(GstElement *source, GstPad *pad, gpointer pipeline)
{
    struct stream *stream = &streams[g_str_has_suffix(GST_OBJECT_NAME(pad), "audio")];
    GstElement *sink = gst_element_factory_make("fakesink", NULL);
    GstPad *to = gst_element_get_static_pad(sink, "sink");
    (void)source;
    stream->is_sound = stream == &streams[1];
    g_object_set(sink, "sync", FALSE, "async", FALSE, NULL);
    gst_pad_add_probe(to, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_data,
                      stream, NULL);
    gst_bin_add(GST_BIN(pipeline), sink);
    gst_element_sync_state_with_parent(sink);
    CHECK(gst_pad_link(pad, to) == GST_PAD_LINK_OK, "not linked");
    gst_object_unref(to);
}

/* The sound that is nearest to each picture's moment. */
static void compare(void)
{
    const struct stream *picture = &streams[0], *sound = &streams[1];
    gint64 settling = 0, worst = 0, sum = 0, count = 0;
    guint at = 0;
    for (guint i = 0; i < picture->seen->len; i++) {
        const struct late *seen = &g_array_index(picture->seen, struct late, i);
        while (at < sound->seen->len &&
               g_array_index(sound->seen, struct late, at).sent < seen->sent)
            at++;
        if (at == sound->seen->len)
            break;
        const struct late *heard = &g_array_index(sound->seen, struct late, at);
        if (heard->sent > seen->sent + APART) /* the sound began later, or some was dropped */
            continue;
        gint64 apart = heard->late - seen->late;
        if (seen->sent < g_array_index(picture->seen, struct late, 0).sent + SETTLING) {
            settling = MAX(settling, ABS(apart));
            continue;
        }
        worst = MAX(worst, ABS(apart));
        sum += apart;
        count++;
    }
    CHECK(count > 0, "no sound belongs to a picture");
    const struct late *first = &g_array_index(picture->seen, struct late, 0);
    const struct late *last = &g_array_index(picture->seen, struct late, picture->seen->len - 1);
    SAY("%d pictures: sound is %.3f ms later at the mean, %.3f ms apart at most, %.3f at first",
        (int)count, (double)(sum / count) / 1e6, (double)worst / 1e6, (double)settling / 1e6);
    SAY("in %.0f s the pictures became %.3f ms later", (double)(last->sent - first->sent) / 1e9,
        (double)(last->late - first->late) / 1e6);
    if (last->late - first->late > STALL)
        SKIP("the machine does not keep up with the time");
    CHECK(worst <= MOST, "%.3f ms", (double)worst / 1e6);
}

/* Of each gpudirectsrc in the programme's bin. */
static void check_stats(GstElement *programme)
{
    GstIterator *all = gst_bin_iterate_recurse(GST_BIN(programme));
    GValue item = G_VALUE_INIT;
    guint count = 0;
    while (gst_iterator_next(all, &item) == GST_ITERATOR_OK) {
        GstElement *element = g_value_get_object(&item);
        GstStructure *stats = NULL;
        gint64 offset;
        if (g_object_class_find_property(G_OBJECT_GET_CLASS(element), "stats")) {
            g_object_get(element, "stats", &stats, NULL);
            const gchar *clock = gst_structure_get_string(stats, "clock");
            CHECK(clock && strcmp(clock, "unknown") == 0, "the clock is \"%s\"", clock);
            CHECK(gst_structure_get_int64(stats, "clock-offset", &offset), "there is no offset");
            SAY("%s: clock %s, offset %.3f ms", GST_OBJECT_NAME(element), clock,
                (double)offset / 1e6);
            gst_structure_free(stats);
            count++;
        }
        g_value_reset(&item);
    }
    gst_iterator_free(all);
    CHECK(count == 2, "%u sources", count);
}

static bool is_complete(GstClockTime span)
{
    bool complete = true;
    g_mutex_lock(&lock);
    for (int i = 0; i < 2; i++) {
        const GArray *seen = streams[i].seen;
        complete &= seen->len > 1 && g_array_index(seen, struct late, seen->len - 1).sent >=
                                         g_array_index(seen, struct late, 0).sent + span;
    }
    g_mutex_unlock(&lock);
    return complete;
}

int main(int argc, char **argv)
{
    CHECK(argc == 7, "drift_test ADDRESS KEY SECONDS RATE PICTURES SOUND");
    int seconds = atoi(argv[3]);
    CHECK(sscanf(argv[4], "%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, &rate_num, &rate_den) == 2 &&
              rate_num > 0 && rate_den > 0,
          "\"%s\" is no rate", argv[4]);
    gst_init(NULL, NULL);
    for (int i = 0; i < 2; i++) {
        streams[i].seen = g_array_new(FALSE, FALSE, sizeof(struct late));
        streams[i].began = (guint64)(g_ascii_strtod(argv[5 + i], NULL) * (double)GST_SECOND);
    }
    GstElement *pipeline = gst_pipeline_new(NULL);
    GstElement *source = gst_element_factory_make("gpudirectprogramsrc", NULL);
    CHECK(source, "there is no gpudirectprogramsrc");
    g_object_set(source, "address", argv[1], "psk-file", argv[2], "device", "host", NULL);
    g_signal_connect(source, "pad-added", G_CALLBACK(on_pad_added), pipeline);
    gst_bin_add(GST_BIN(pipeline), source);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    for (int wait = 0; !is_complete((GstClockTime)seconds * GST_SECOND); wait++) {
        CHECK(wait < 10 * (seconds + 300), "the programme does not come");
        g_usleep(100000);
    }
    check_stats(source);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    compare();
    gst_object_unref(pipeline);
    return 0;
}

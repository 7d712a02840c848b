/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams of sound and data: every byte arrives, in blocks of any size, and no stream waits for
 * another one. */
#include "ends.h"

#include <gst/audio/audio.h>
#include <string.h>

#define SOUND(format, layout) \
    "audio/x-raw,rate=48000,channels=3,channel-mask=(bitmask)0x7,format=" format ",layout=" layout
#define PLANAR "non-interleaved"

struct stream {
    gchar *name, *address;
    GstHarness *src, *sink;
};

static void open_at(struct stream *stream, const gchar *suffix, const gchar *caps)
{
    stream->name = ends_address();
    stream->address = g_strconcat(stream->name, suffix, NULL);
    stream->src = ends_src_at(stream->address, NULL);
    stream->sink = ends_sink_at(stream->address, NULL);
    ends_start(stream->sink, caps);
}

static void open_stream(struct stream *stream, const gchar *caps)
{
    open_at(stream, "/stream", caps);
}

static void close_stream(struct stream *stream)
{
    ends_close(stream->sink);
    ends_close(stream->src);
    g_free(stream->address);
    g_free(stream->name);
}

/* Each byte follows from its place in the stream. */
static guint8 byte_at(gsize at)
{
    return (guint8)(at * 31 + (at >> 8) * 7);
}

static GstBuffer *make_bytes(gsize size, gsize from)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, size, NULL);
    GstMapInfo map;

    gst_buffer_map(buffer, &map, GST_MAP_WRITE);
    for (gsize i = 0; i < size; i++)
        map.data[i] = byte_at(from + i);
    gst_buffer_unmap(buffer, &map);
    return buffer;
}

static void check_bytes(GstBuffer *buffer, gsize from)
{
    GstMapInfo map;

    gst_buffer_map(buffer, &map, GST_MAP_READ);
    gsize at = 0;
    while (at < map.size && map.data[at] == byte_at(from + at))
        at++;
    fail_unless(at == map.size, "byte %" G_GSIZE_FORMAT, at);
    gst_buffer_unmap(buffer, &map);
}

/* --- sound -------------------------------------------------------------------------------- */

/* The samples of one plane of a buffer are those of the stream from `first` on. */
static void check_sound(GstBuffer *buffer, const GstAudioInfo *info, gsize first)
{
    GstAudioBuffer sound;

    fail_unless(gst_audio_buffer_map(&sound, info, buffer, GST_MAP_READ));
    gsize bytes = (gsize)(info->bpf / GST_AUDIO_BUFFER_N_PLANES(&sound));
    for (gint p = 0; p < GST_AUDIO_BUFFER_N_PLANES(&sound); p++)
        for (gsize i = 0; i < GST_AUDIO_BUFFER_N_SAMPLES(&sound) * bytes; i++)
            fail_unless(((guint8 *)sound.planes[p])[i] ==
                            byte_at(first * bytes + i + (gsize)p * 1000003),
                        "plane %d, byte %" G_GSIZE_FORMAT, p, i);
    gst_audio_buffer_unmap(&sound);
}

static GstBuffer *make_sound(const GstAudioInfo *info, gsize samples, gsize first)
{
    gboolean planar = info->layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    gsize planes = planar ? (gsize)info->channels : 1, bytes = (gsize)info->bpf / planes;
    GstBuffer *buffer = gst_buffer_new();

    for (gsize p = 0; p < planes; p++)
        gst_buffer_append(buffer, make_bytes(samples * bytes, first * bytes + p * 1000003));
    if (planar)
        gst_buffer_add_audio_meta(buffer, info, samples, NULL);
    GST_BUFFER_PTS(buffer) = gst_util_uint64_scale(first, GST_SECOND, 48000);
    GST_BUFFER_OFFSET(buffer) = first;
    return buffer;
}

/* Blocks of one sample, of what sources make, and of more than a slot, which are split. */
static void send_sound(struct stream *stream, const gchar *text)
{
    static const gsize sizes[] = {1, 480, 1001, 4800, 4801, 13000, 7};
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    gsize sent = 0, got = 0;
    GstAudioInfo info;

    fail_unless(gst_audio_info_from_caps(&info, caps));
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        fail_unless_equals_int(gst_harness_push(stream->sink, make_sound(&info, sizes[i], sent)),
                               GST_FLOW_OK);
        sent += sizes[i];
        while (got < sent) {
            g_autoptr(GstBuffer) buffer = ends_pull(stream->src);
            gsize samples = gst_buffer_get_size(buffer) / (gsize)info.bpf;
            check_sound(buffer, &info, got);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), got);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET_END(buffer), got + samples);
            fail_unless(samples <= 4800);
            got += samples;
        }
        fail_unless_equals_uint64(got, sent);
    }
    g_autoptr(GstCaps) current = gst_pad_get_current_caps(stream->src->sinkpad);
    fail_unless(gst_caps_is_equal(current, caps), "%" GST_PTR_FORMAT, current);
}

static const gchar *const sounds[] = {
    SOUND("S16LE", "interleaved"), SOUND("S24LE", "interleaved"), SOUND("F32LE", "interleaved"),
    SOUND("S16LE", PLANAR),        SOUND("S24LE", PLANAR),        SOUND("F32LE", PLANAR),
};

TEST(test_sound, .times = G_N_ELEMENTS(sounds))
{
    struct stream stream;

    open_stream(&stream, sounds[__i__]);
    send_sound(&stream, sounds[__i__]);
    close_stream(&stream);
}

TEST(test_other_caps)
{
    struct stream stream;

    open_stream(&stream, sounds[0]);
    for (guint i = 0; i < G_N_ELEMENTS(sounds); i++) {
        gst_harness_set_src_caps_str(stream.sink, sounds[i]);
        send_sound(&stream, sounds[i]);
    }
    close_stream(&stream);
}

/* Half a sample is no sound, and is dropped with a warning; what follows arrives. */
TEST(test_half_a_sample)
{
    struct stream stream;

    open_stream(&stream, sounds[0]);
    g_autoptr(GstBus) bus = ends_bus(stream.sink);
    gst_harness_push(stream.sink, make_bytes(7, 0));
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL);
    fail_unless_equals_uint64(ends_stat(stream.sink, "dropped-malformed"), 1);
    send_sound(&stream, sounds[0]);
    close_stream(&stream);
}

/* Device monitors that look for sound list the stream, and those that look for pictures do not. */
static guint count_devices(const gchar *class, const gchar *address)
{
    g_autoptr(GstDeviceMonitor) monitor = gst_device_monitor_new();
    guint count = 0;

    gst_device_monitor_add_filter(monitor, class, NULL);
    GList *devices = gst_device_monitor_get_devices(monitor);
    for (GList *at = devices; at; at = at->next) {
        GstStructure *properties = gst_device_get_properties(at->data);
        if (properties) {
            count += g_strcmp0(gst_structure_get_string(properties, "address"), address) == 0;
            gst_structure_free(properties);
        }
    }
    g_list_free_full(devices, gst_object_unref);
    return count;
}

TEST(test_devices)
{
    struct stream stream;

    open_stream(&stream, sounds[0]);
    fail_unless_equals_int(count_devices("Audio/Source", stream.address), 1);
    fail_unless_equals_int(count_devices("Video/Source", stream.address), 0);
    close_stream(&stream);
}

/* --- data --------------------------------------------------------------------------------- */

static const gchar *const types[] = {"meta/x-st-2038,alignment=frame", "application/octet-stream",
                                     "closedcaption/x-cea-708,format=cdp,framerate=25/1"};

/* A larger block gets larger slots; one beyond all limits is dropped with a warning. */
TEST(test_data, .times = G_N_ELEMENTS(types))
{
    static const gsize sizes[] = {1, 255, 65536, 65537, 3, 1000000, 16 << 20};
    struct stream stream;

    open_stream(&stream, types[__i__]);
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        fail_unless_equals_int(gst_harness_push(stream.sink, make_bytes(sizes[i], i)), GST_FLOW_OK);
        g_autoptr(GstBuffer) buffer = ends_pull(stream.src);
        fail_unless_equals_uint64(gst_buffer_get_size(buffer), sizes[i]);
        check_bytes(buffer, i);
    }
    g_autoptr(GstCaps) caps = gst_caps_from_string(types[__i__]);
    g_autoptr(GstCaps) current = gst_pad_get_current_caps(stream.src->sinkpad);
    fail_unless(gst_caps_is_equal(current, caps), "%" GST_PTR_FORMAT, current);

    g_autoptr(GstBus) bus = ends_bus(stream.sink);
    gst_harness_push(stream.sink, gst_buffer_new_allocate(NULL, (16 << 20) + 1, NULL));
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL);
    close_stream(&stream);
}

/* No data at a time become a gap of it, in order; without a time that is said. */
TEST(test_empty_data)
{
    struct stream stream;

    open_stream(&stream, types[0]);
    for (guint i = 0; i < 3; i++) {
        GstBuffer *buffer = i == 1 ? gst_buffer_new() : make_bytes(5, i);
        GST_BUFFER_PTS(buffer) = i * 40 * GST_MSECOND;
        GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
        gst_harness_push(stream.sink, buffer);
        if (i != 1)
            gst_buffer_unref(ends_pull(stream.src));
    }
    g_autoptr(GstEvent) gap = ends_wait_event(stream.src, GST_EVENT_GAP);
    GstClockTime duration;
    gst_event_parse_gap(gap, NULL, &duration);
    fail_unless_equals_uint64(duration, 40 * GST_MSECOND);
    g_autoptr(GstBus) bus = ends_bus(stream.sink);
    gst_harness_push(stream.sink, gst_buffer_new());
    fail_unless_equals_uint64(ends_stat(stream.sink, "dropped-malformed"), 1);
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL);
    close_stream(&stream);
}

/* --- live --------------------------------------------------------------------------------- */

/* A live sender, which drops, and its receiver, both with their default slots or with others. */
static void open_live(struct stream *stream, const gchar *caps, const gchar *properties)
{
    stream->name = ends_address();
    stream->address = g_strconcat(stream->name, "/stream", NULL);
    g_autofree gchar *src =
        g_strdup_printf("gpudirectsrc address=%s %s", stream->address, properties);
    g_autofree gchar *sink =
        g_strdup_printf("gpudirectsink address=%s sync=false slow-receiver=drop-oldest "
                        "wait-for-connection=true %s",
                        stream->address, properties);
    stream->src = gst_harness_new_parse(src);
    stream->sink = gst_harness_new_parse(sink);
    GstHarness *both[] = {stream->src, stream->sink};
    for (guint i = 0; i < G_N_ELEMENTS(both); i++) {
        ends_keep(both[i]);
        gst_harness_use_systemclock(both[i]);
        gst_harness_play(both[i]);
    }
    ends_start(stream->sink, caps);
}

/* Downstream takes nothing between the two. */
static gulong stop_taking(struct stream *stream, GstPad **pad)
{
    *pad = gst_element_get_static_pad(ends_element(stream->src), "src");
    return gst_pad_add_probe(*pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER, NULL, NULL,
                             NULL);
}

static void take_again(GstPad *pad, gulong probe)
{
    gst_pad_remove_probe(pad, probe);
    gst_object_unref(pad);
}

/* The ring holds half a second of it, without a word about slots. */
TEST(test_live_sound_of_half_a_second)
{
    struct stream stream;
    GstAudioInfo info;
    GstPad *pad;

    open_live(&stream, sounds[0], "");
    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 48000, 3, NULL);
    gulong probe = stop_taking(&stream, &pad);
    for (gsize i = 0; i < 50; i++)
        gst_harness_push(stream.sink, make_sound(&info, 480, i * 480));
    take_again(pad, probe);
    for (gsize i = 0; i < 50; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(stream.src);
        fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), i * 480);
    }
    fail_unless_equals_uint64(ends_stat(stream.sink, "dropped-slow-receiver"), 0);
    close_stream(&stream);
}

/* As do the packets of a second that come at once. The first is not skipped because newer ones wait
 * behind it: it is no picture. */
TEST(test_live_burst_of_data)
{
    struct stream stream;
    GstPad *pad;

    open_live(&stream, "meta/x-klv,parsed=true", "");
    gulong probe = stop_taking(&stream, &pad);
    for (gsize burst = 0; burst < 3; burst++) {
        for (gsize i = 0; i < 20; i++)
            gst_harness_push(stream.sink, make_bytes(100 + i, i));
        if (burst == 0)
            continue;
        if (burst == 1)
            take_again(pad, probe);
        for (gsize i = 0; i < (burst == 1 ? 40 : 20); i++) {
            g_autoptr(GstBuffer) buffer = ends_pull(stream.src);
            fail_unless_equals_uint64(gst_buffer_get_size(buffer), 100 + i % 20);
            check_bytes(buffer, i % 20);
        }
    }
    fail_unless_equals_uint64(ends_stat(stream.sink, "dropped-slow-receiver"), 0);
    close_stream(&stream);
}

#define LONG_CAPS "audio/x-raw,rate=8000,channels=1,format=S16LE,layout=interleaved"

/* One buffer has many times the parts that fit into the ring. */
TEST(test_live_long_buffers)
{
    static const gsize sizes[] = {160000, 8000, 160000};
    struct stream stream;
    GstAudioInfo info;
    gsize sent = 0, got = 0;

    open_live(&stream, LONG_CAPS, "slots=6");
    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 8000, 1, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        gst_harness_push(stream.sink, make_sound(&info, sizes[i], sent));
        sent += sizes[i];
        while (got < sent) {
            g_autoptr(GstBuffer) buffer = ends_pull(stream.src);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), got);
            check_sound(buffer, &info, got);
            got += gst_buffer_get_size(buffer) / 2;
        }
    }
    fail_unless_equals_uint64(ends_stat(stream.sink, "dropped-slow-receiver"), 0);
    close_stream(&stream);
}

/* A receiver that takes nothing does not stop a live stream by that: of twenty buffers of a second
 * one or two are waited for. */
TEST(test_live_long_buffers_for_a_stopped_receiver)
{
    struct stream stream;
    GstAudioInfo info;
    GstPad *pad;

    open_live(&stream, LONG_CAPS, "slots=6");
    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 8000, 1, NULL);
    gulong probe = stop_taking(&stream, &pad);
    gint64 begun = g_get_monotonic_time();
    for (gsize i = 0; i < 20; i++)
        gst_harness_push(stream.sink, make_sound(&info, 8000, i * 8000));
    fail_unless(g_get_monotonic_time() - begun < 10 * G_TIME_SPAN_SECOND);
    fail_unless(ends_stat(stream.sink, "dropped-slow-receiver") > 0);
    take_again(pad, probe);
    close_stream(&stream);
}

/* The block that is larger than all before it is sent in the new ring. */
TEST(test_live_data_that_grow)
{
    static const gsize sizes[] = {100, 70000, 300000, 300001, 1200000, 5000000, 7};
    struct stream stream;

    open_live(&stream, types[1], "");
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        gst_harness_push(stream.sink, make_bytes(sizes[i], i));
        g_autoptr(GstBuffer) buffer = ends_pull(stream.src);
        fail_unless_equals_uint64(gst_buffer_get_size(buffer), sizes[i]);
        check_bytes(buffer, i);
    }
    fail_unless_equals_uint64(ends_stat(stream.sink, "dropped-slow-receiver"), 0);
    close_stream(&stream);
}

/* --- independence ------------------------------------------------------------------------- */

#define BLOCKS 40

static gpointer push_sound(gpointer data)
{
    struct stream *stream = data;
    GstAudioInfo info;

    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 48000, 3, NULL);
    for (gsize i = 0; i < BLOCKS; i++)
        if (gst_harness_push(stream->sink, make_sound(&info, 480, i * 480)) != GST_FLOW_OK)
            return GINT_TO_POINTER(FALSE);
    return GINT_TO_POINTER(TRUE);
}

/* While nothing takes the sound, pictures pass; later all of the sound does. */
TEST(test_slow_sound)
{
    struct stream stream;

    open_stream(&stream, sounds[0]);
    GstHarness *picture_src = ends_src_at(stream.name, NULL);
    GstHarness *picture_sink = ends_sink_at(stream.name, NULL);
    ends_start(picture_sink, CAPS_SMALL);

    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(stream.src), "src");
    gulong probe = gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER,
                                     NULL, NULL, NULL);
    GThread *thread = g_thread_new("sound", push_sound, &stream);
    for (guint i = 0; i < 100; i++) {
        gst_harness_push(picture_sink, ends_picture(CAPS_SMALL, i));
        ends_take(picture_src, CAPS_SMALL, i);
    }
    fail_unless_equals_uint64(gst_harness_buffers_received(stream.src), 0);
    gst_pad_remove_probe(pad, probe);
    for (guint i = 0; i < BLOCKS; i++)
        gst_buffer_unref(ends_pull(stream.src));
    fail_unless(GPOINTER_TO_INT(g_thread_join(thread)));
    ends_close(picture_sink);
    ends_close(picture_src);
    close_stream(&stream);
}

/* A channel needs no pictures: sound alone, or data alone, has its name. */
TEST(test_bare_name)
{
    struct stream stream;

    open_at(&stream, "", sounds[0]);
    send_sound(&stream, sounds[0]);
    gst_harness_set_src_caps_str(stream.sink, types[1]);
    gst_harness_push(stream.sink, make_bytes(1000, 3));
    g_autoptr(GstBuffer) buffer = ends_pull(stream.src);
    fail_unless_equals_uint64(gst_buffer_get_size(buffer), 1000);
    check_bytes(buffer, 3);
    close_stream(&stream);
}

/* As gst-launch-1.0 links them. */
TEST(test_bare_name_links)
{
    g_autofree gchar *address = ends_address();
    g_autoptr(EndsPipeline) sender =
        ends_pipeline("audiotestsrc is-live=true ! gpudirectsink address=%s", address);
    g_autoptr(EndsPipeline) receiver = ends_pipeline(
        "gpudirectsrc address=%s ! audioconvert ! audio/x-raw,channels=1 ! fakesink name=end",
        address);

    gst_element_set_state(receiver, GST_STATE_PLAYING);
    gst_element_set_state(sender, GST_STATE_PLAYING);
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(receiver), "end");
    ENDS_UNTIL(ENDS_WAIT, (ends_fail_on_errors(sender), ends_fail_on_errors(receiver),
                           ends_stat_of(end, "rendered") >= 5));
}

/* As a decoder adds it, before it has caps. */
static GstPad *add_pad(GstElement *decoder, const gchar *template, GstStreamType type)
{
    GstPadTemplate *made_of = gst_element_get_pad_template(decoder, template);
    GstPad *pad = gst_pad_new_from_template(made_of, NULL);
    g_autoptr(GstStream) stream = gst_stream_new(NULL, NULL, type, GST_STREAM_FLAG_NONE);
    g_autoptr(GstEvent) start = gst_event_new_stream_start("one");

    gst_event_set_stream(start, stream);
    gst_pad_set_active(pad, TRUE);
    gst_pad_store_sticky_event(pad, start);
    gst_element_add_pad(decoder, pad);
    return pad;
}

/* The sound of a decoder, which may be there first, is not linked to the address of its pictures.
 */
TEST(test_decoder)
{
    g_autoptr(GstElement) decoder = gst_element_factory_make("decodebin3", NULL);
    g_autoptr(GstElement) pictures = gst_element_factory_make("gpudirectsink", NULL);
    g_autoptr(GstElement) others = gst_element_factory_make("gpudirectsink", NULL);
    g_autoptr(GstPad) to = gst_element_get_static_pad(pictures, "sink");
    g_autoptr(GstPad) to_others = gst_element_get_static_pad(others, "sink");
    g_autoptr(GstBus) bus = gst_bus_new();

    gst_element_set_bus(pictures, bus);
    g_object_set(pictures, "address", "cam1", NULL);
    g_object_set(others, "address", "cam1/audio", NULL);
    GstPad *sound = add_pad(decoder, "audio_%u", GST_STREAM_TYPE_AUDIO);
    fail_unless_equals_int(gst_pad_link(sound, to), GST_PAD_LINK_REFUSED);
    g_autoptr(GError) why = ends_wait_error(bus, GST_MESSAGE_INFO, 5);
    fail_unless(strstr(why->message, "such as cam1/audio") != NULL, "%s", why->message);
    fail_unless_equals_int(gst_pad_link(sound, to_others), GST_PAD_LINK_OK);
    fail_unless_equals_int(gst_pad_link(add_pad(decoder, "video_%u", GST_STREAM_TYPE_VIDEO), to),
                           GST_PAD_LINK_OK);
}

ENDS_MAIN(60)

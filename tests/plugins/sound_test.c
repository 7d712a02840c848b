/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams of sound and data: every byte arrives, in blocks of any size, and no stream waits for
 * another one. */
#include "pipes.h"

#include <gst/audio/audio.h>

#define SOUND(format, layout) \
    "audio/x-raw,rate=48000,channels=3,channel-mask=(bitmask)0x7,format=" format ",layout=" layout
#define PLANAR "non-interleaved"

static GstHarness *sink, *src;

/* Both ends of a stream of the test's own name. */
static void open_at(const gchar *suffix, const gchar *caps)
{
    g_autofree gchar *address = g_strconcat(ends_own(), suffix, NULL);

    src = ends_src_at(address, NULL);
    sink = ends_sink_at(address, NULL);
    ends_start(sink, caps);
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
static void send_sound(const gchar *text)
{
    static const gsize sizes[] = {1, 480, 1001, 4800, 4801, 13000, 7};
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    gsize sent = 0, got = 0;
    GstAudioInfo info;

    fail_unless(gst_audio_info_from_caps(&info, caps));
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        fail_unless_equals_int(gst_harness_push(sink, make_sound(&info, sizes[i], sent)),
                               GST_FLOW_OK);
        sent += sizes[i];
        while (got < sent) {
            g_autoptr(GstBuffer) buffer = ends_pull(src);
            gsize samples = gst_buffer_get_size(buffer) / (gsize)info.bpf;
            check_sound(buffer, &info, got);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), got);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET_END(buffer), got + samples);
            fail_unless(samples <= 4800);
            got += samples;
        }
        fail_unless_equals_uint64(got, sent);
    }
    expect_caps(src, text);
}

static void send_bytes(gsize size, gsize from)
{
    fail_unless_equals_int(gst_harness_push(sink, make_bytes(size, from)), GST_FLOW_OK);
}

static void take_bytes(gsize size, gsize from)
{
    g_autoptr(GstBuffer) buffer = ends_pull(src);

    fail_unless_equals_uint64(gst_buffer_get_size(buffer), size);
    check_bytes(buffer, from);
}

static const gchar *const sounds[] = {
    SOUND("S16LE", "interleaved"), SOUND("S24LE", "interleaved"), SOUND("F32LE", "interleaved"),
    SOUND("S16LE", PLANAR),        SOUND("S24LE", PLANAR),        SOUND("F32LE", PLANAR),
};

TEST(test_sound, .times = G_N_ELEMENTS(sounds))
{
    open_at("/stream", sounds[__i__]);
    send_sound(sounds[__i__]);
}

TEST(test_other_caps)
{
    open_at("/stream", sounds[0]);
    for (guint i = 0; i < G_N_ELEMENTS(sounds); i++) {
        gst_harness_set_src_caps_str(sink, sounds[i]);
        send_sound(sounds[i]);
    }
}

/* Half a sample is no sound, and is dropped with a warning; what follows arrives. */
TEST(test_half_a_sample)
{
    open_at("/stream", sounds[0]);
    g_autoptr(GstBus) bus = ends_bus(sink);
    send_bytes(7, 0);
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-malformed"), 1);
    send_sound(sounds[0]);
}

/* Device monitors that look for sound list the stream, and those that look for pictures do not. */
static guint count_devices(const gchar *class, const gchar *address)
{
    g_autoptr(GstDeviceMonitor) monitor = gst_device_monitor_new();
    guint count = 0;

    gst_device_monitor_add_filter(monitor, class, NULL);
    GList *devices = gst_device_monitor_get_devices(monitor);
    for (GList *at = devices; at; at = at->next) {
        g_autoptr(GstStructure) properties = gst_device_get_properties(at->data);
        count +=
            properties && g_strcmp0(gst_structure_get_string(properties, "address"), address) == 0;
    }
    g_list_free_full(devices, gst_object_unref);
    return count;
}

TEST(test_devices)
{
    g_autofree gchar *address = g_strconcat(ends_own(), "/stream", NULL);

    open_at("/stream", sounds[0]);
    fail_unless_equals_int(count_devices("Audio/Source", address), 1);
    fail_unless_equals_int(count_devices("Video/Source", address), 0);
}

/* --- data --------------------------------------------------------------------------------- */

static const gchar *const types[] = {"meta/x-st-2038,alignment=frame", "application/octet-stream",
                                     "closedcaption/x-cea-708,format=cdp,framerate=25/1"};

/* A larger block gets larger slots; one beyond all limits is dropped with a warning. */
TEST(test_data, .times = G_N_ELEMENTS(types))
{
    static const gsize sizes[] = {1, 255, 65536, 65537, 3, 1000000, 16 << 20};

    open_at("/stream", types[__i__]);
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        send_bytes(sizes[i], i);
        take_bytes(sizes[i], i);
    }
    expect_caps(src, types[__i__]);
    g_autoptr(GstBus) bus = ends_bus(sink);
    gst_harness_push(sink, gst_buffer_new_allocate(NULL, (16 << 20) + 1, NULL));
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL);
}

/* No data at a time become a gap of it, in order; without a time that is said. */
TEST(test_empty_data)
{
    open_at("/stream", types[0]);
    for (guint i = 0; i < 3; i++) {
        GstBuffer *buffer = i == 1 ? gst_buffer_new() : make_bytes(5, i);
        GST_BUFFER_PTS(buffer) = i * 40 * GST_MSECOND;
        GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
        gst_harness_push(sink, buffer);
        if (i != 1)
            drop(src, 1);
    }
    g_autoptr(GstEvent) gap = ends_wait_event(src, GST_EVENT_GAP);
    GstClockTime duration;
    gst_event_parse_gap(gap, NULL, &duration);
    fail_unless_equals_uint64(duration, 40 * GST_MSECOND);
    g_autoptr(GstBus) bus = ends_bus(sink);
    gst_harness_push(sink, gst_buffer_new());
    fail_unless_equals_uint64(ends_stat(sink, "dropped-malformed"), 1);
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_WARNING, 5);
    fail_unless(message != NULL);
}

/* --- live --------------------------------------------------------------------------------- */

/* A live sender, which drops, and its receiver, both with their default slots or with others. */
static void open_live(const gchar *caps, const gchar *properties)
{
    g_autofree gchar *from =
        g_strdup_printf("gpudirectsrc address=%s/stream %s", ends_own(), properties);
    g_autofree gchar *to =
        g_strdup_printf("gpudirectsink address=%s/stream sync=false slow-receiver=drop-oldest "
                        "wait-for-connection=true %s",
                        ends_own(), properties);
    GstHarness *both[] = {src = gst_harness_new_parse(from), sink = gst_harness_new_parse(to)};

    for (guint i = 0; i < G_N_ELEMENTS(both); i++) {
        ends_keep(both[i]);
        gst_harness_use_systemclock(both[i]);
        gst_harness_play(both[i]);
    }
    ends_start(sink, caps);
}

static guint64 lost(void)
{
    return ends_stat(sink, "dropped-slow-receiver");
}

/* The ring holds half a second of it, without a word about slots. */
TEST(test_live_sound_of_half_a_second)
{
    GstAudioInfo info;

    open_live(sounds[0], "");
    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 48000, 3, NULL);
    gulong holding = hold(src);
    for (gsize i = 0; i < 50; i++)
        gst_harness_push(sink, make_sound(&info, 480, i * 480));
    release(src, holding);
    for (gsize i = 0; i < 50; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), i * 480);
    }
    fail_unless_equals_uint64(lost(), 0);
}

/* As do the packets of a second that come at once. The first is not skipped because newer ones wait
 * behind it: it is no picture. */
TEST(test_live_burst_of_data)
{
    open_live("meta/x-klv,parsed=true", "");
    gulong holding = hold(src);
    for (gsize burst = 0; burst < 3; burst++) {
        for (gsize i = 0; i < 20; i++)
            send_bytes(100 + i, i);
        if (burst == 0)
            continue;
        if (burst == 1)
            release(src, holding);
        for (gsize i = 0; i < (burst == 1 ? 40 : 20); i++)
            take_bytes(100 + i % 20, i % 20);
    }
    fail_unless_equals_uint64(lost(), 0);
}

#define LONG_CAPS "audio/x-raw,rate=8000,channels=1,format=S16LE,layout=interleaved"

/* One buffer has many times the parts that fit into the ring. */
TEST(test_live_long_buffers)
{
    static const gsize sizes[] = {160000, 8000, 160000};
    GstAudioInfo info;
    gsize sent = 0, got = 0;

    open_live(LONG_CAPS, "slots=6");
    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 8000, 1, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        gst_harness_push(sink, make_sound(&info, sizes[i], sent));
        sent += sizes[i];
        while (got < sent) {
            g_autoptr(GstBuffer) buffer = ends_pull(src);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), got);
            check_sound(buffer, &info, got);
            got += gst_buffer_get_size(buffer) / 2;
        }
    }
    fail_unless_equals_uint64(lost(), 0);
}

/* A receiver that takes nothing does not stop a live stream by that: of twenty buffers of a second
 * one or two are waited for. */
TEST(test_live_long_buffers_for_a_stopped_receiver)
{
    GstAudioInfo info;

    open_live(LONG_CAPS, "slots=6");
    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 8000, 1, NULL);
    gulong holding = hold(src);
    gint64 begun = g_get_monotonic_time();
    for (gsize i = 0; i < 20; i++)
        gst_harness_push(sink, make_sound(&info, 8000, i * 8000));
    fail_unless(g_get_monotonic_time() - begun < 10 * G_TIME_SPAN_SECOND);
    fail_unless(lost() > 0);
    release(src, holding);
}

/* The block that is larger than all before it is sent in the new ring. */
TEST(test_live_data_that_grow)
{
    static const gsize sizes[] = {100, 70000, 300000, 300001, 1200000, 5000000, 7};

    open_live(types[1], "");
    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        send_bytes(sizes[i], i);
        take_bytes(sizes[i], i);
    }
    fail_unless_equals_uint64(lost(), 0);
}

/* --- independence ------------------------------------------------------------------------- */

#define BLOCKS 40

static gpointer push_sound(gpointer unused)
{
    GstAudioInfo info;

    gst_audio_info_set_format(&info, GST_AUDIO_FORMAT_S16LE, 48000, 3, NULL);
    for (gsize i = 0; i < BLOCKS; i++)
        if (gst_harness_push(sink, make_sound(&info, 480, i * 480)) != GST_FLOW_OK)
            return GINT_TO_POINTER(FALSE);
    return GINT_TO_POINTER(TRUE);
}

/* While nothing takes the sound, pictures pass; later all of the sound does. */
TEST(test_slow_sound)
{
    open_at("/stream", sounds[0]);
    GstHarness *picture_src = ends_src(NULL), *picture_sink = ends_sink(NULL);
    ends_start(picture_sink, CAPS_SMALL);

    gulong holding = hold(src);
    GThread *thread = g_thread_new("sound", push_sound, NULL);
    for (guint i = 0; i < 100; i++)
        pass(picture_sink, picture_src, i);
    fail_unless_equals_uint64(gst_harness_buffers_received(src), 0);
    release(src, holding);
    drop(src, BLOCKS);
    fail_unless(GPOINTER_TO_INT(g_thread_join(thread)));
}

/* A channel needs no pictures: sound alone, or data alone, has its name. */
TEST(test_bare_name)
{
    open_at("", sounds[0]);
    send_sound(sounds[0]);
    gst_harness_set_src_caps_str(sink, types[1]);
    send_bytes(1000, 3);
    take_bytes(1000, 3);
}

/* As gst-launch-1.0 links them. */
TEST(test_bare_name_links)
{
    g_autoptr(EndsPipeline) receiver = pipe_play(
        "gpudirectsrc address=%s ! audioconvert ! audio/x-raw,channels=1 ! fakesink name=end",
        ends_own());
    g_autoptr(EndsPipeline) sender =
        pipe_play("audiotestsrc is-live=true ! gpudirectsink address=%s", ends_own());

    ENDS_UNTIL(ENDS_WAIT, (ends_fail_on_errors(sender), ends_fail_on_errors(receiver),
                           pipe_stat(receiver, "end", "rendered") >= 5));
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

/* The sound of a decoder, which may come first, is not linked to the address of its pictures. */
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
    expect_told(bus, GST_MESSAGE_INFO, "such as cam1/audio");
    fail_unless_equals_int(gst_pad_link(sound, to_others), GST_PAD_LINK_OK);
    fail_unless_equals_int(gst_pad_link(add_pad(decoder, "video_%u", GST_STREAM_TYPE_VIDEO), to),
                           GST_PAD_LINK_OK);
}

ENDS_MAIN(60)

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams of any caps, and those of codecs: caps travel whole, times in the order of decoding, a
 * receiver begins with a key unit, what is lost runs to the next one, and upstream is asked for it.
 */
#include "pipes.h"

#define H264 "video/x-h264,stream-format=avc,alignment=au,width=64,height=48,framerate=25/1"
#define FRAME (40 * GST_MSECOND)

static GstHarness *sink, *src;

static gboolean here; /* the ends share memory */

/* Caps of a stream whose encoder has these headers, of so many bytes. */
static GstCaps *coded_caps(guint8 headers, gsize size)
{
    g_autofree gchar *bytes = g_strnfill(size, (gchar)headers);
    GstCaps *caps = gst_caps_from_string(H264);
    g_autoptr(GstBuffer) data = gst_buffer_new_memdup(bytes, size);

    gst_caps_set_simple(caps, "codec_data", GST_TYPE_BUFFER, data, NULL);
    return caps;
}

static void check_caps(GstHarness *end, const GstCaps *wanted)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(end->sinkpad);
    g_autofree gchar *text = gst_caps_to_string(caps), *other = gst_caps_to_string(wanted);

    fail_unless(gst_caps_is_equal(caps, wanted), "%s\ninstead of %s", text, other);
}

/* The time of picture 0. Harnesses say that they are live, so that pictures must not be late. */
static GstClockTime began;

/* Picture `number`, which is a key unit or depends on the one before. */
static GstBuffer *make_unit(guint number, gboolean key)
{
    GstBuffer *buffer = gst_buffer_new_memdup(&number, sizeof(number));

    if (number == 0)
        began = (GstClockTime)g_get_monotonic_time() * GST_USECOND + 10 * GST_SECOND;
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = began + number * FRAME;
    GST_BUFFER_DURATION(buffer) = FRAME;
    if (!key)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return buffer;
}

/* Pictures by their letters: K is a key unit, d depends on the one before. Returns the next one's
 * number. */
static guint push_units(GstHarness *end, const gchar *letters, guint number)
{
    for (; *letters; letters++, number++)
        fail_unless_equals_int(gst_harness_push(end, make_unit(number, *letters == 'K')),
                               GST_FLOW_OK);
    return number;
}

static guint number_of(GstBuffer *buffer)
{
    guint number = G_MAXUINT;

    gst_buffer_extract(buffer, 0, &number, sizeof(number));
    return number;
}

static void take_unit(GstHarness *end, guint number, gboolean key)
{
    g_autoptr(GstBuffer) buffer = ends_pull(end);

    fail_unless_equals_int(number_of(buffer), number);
    fail_unless_equals_int(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT), !key);
}

/* How many key units were asked for since the last call; *all_headers: of one with all. */
static guint count_requests(GstHarness *end, GstClockTime *time, gboolean *all_headers)
{
    guint count = 0;

    while (gst_harness_upstream_events_in_queue(end) > 0) {
        g_autoptr(GstEvent) event = gst_harness_pull_upstream_event(end);
        if (!gst_video_event_is_force_key_unit(event))
            continue;
        count++;
        fail_unless(gst_video_event_parse_upstream_force_key_unit(event, time, all_headers, NULL));
    }
    return count;
}

static void check_requests(GstHarness *end, guint count)
{
    gboolean all_headers = TRUE;
    GstClockTime time = GST_CLOCK_TIME_NONE;

    fail_unless_equals_int(count_requests(end, &time, &all_headers), count);
    fail_unless(all_headers && !GST_CLOCK_TIME_IS_VALID(time));
}

/* --- caps --------------------------------------------------------------------------------- */

static void add_streamheader(GstCaps *caps)
{
    GValue headers = G_VALUE_INIT, header = G_VALUE_INIT;

    g_value_init(&headers, GST_TYPE_ARRAY);
    for (guint i = 0; i < 3; i++) {
        g_autofree gchar *bytes = g_strnfill(3500, (gchar)('a' + i));
        GstBuffer *buffer = gst_buffer_new_memdup(bytes, 3500);
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_HEADER);
        g_value_init(&header, GST_TYPE_BUFFER);
        gst_value_take_buffer(&header, buffer);
        gst_value_array_append_and_take_value(&headers, &header);
    }
    gst_caps_set_value(caps, "streamheader", &headers);
    g_value_unset(&headers);
}

/* A codec's headers, a list of them, a text that is longer than others may be, a structure. */
TEST(test_caps_travel_whole)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string("audio/x-vorbis,rate=48000,channels=2");
    g_autofree gchar *text = g_strnfill(2000, 'x');
    g_autoptr(GstStructure) inside =
        gst_structure_new("inside", "n", G_TYPE_INT, 5, "t", G_TYPE_STRING, "text", NULL);

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    add_streamheader(caps);
    gst_caps_set_simple(caps, "text", G_TYPE_STRING, text, "inside", GST_TYPE_STRUCTURE, inside,
                        "flag", G_TYPE_BOOLEAN, TRUE, NULL);
    gst_harness_set_src_caps(sink, gst_caps_copy(caps));
    push_units(sink, "K", 0);
    take_unit(src, 0, TRUE);
    check_caps(src, caps);
    /* A late receiver. */
    GstHarness *late = ends_src(NULL);
    ends_wait_clients(sink, 2);
    push_units(sink, "K", 1);
    take_unit(late, 1, TRUE);
    take_unit(src, 1, TRUE);
    check_caps(late, caps);
}

#define BOXES                                                                     \
    "other/tensors,format=static,num_tensors=2,dimensions=(string)\"6:8\\0548\"," \
    "types=(string)\"float32\\054int64\",framerate=25/1,names=(string)\"boxes\\054classes\""

/* Tensors: the caps, each as a memory of its own, a batch that is not full, and the metas; and what
 * does not hold them. */
TEST(test_tensors)
{
    static const struct {
        const gchar *caps;
        gsize size, first, wrong;
        guint memories;
    } cases[] = {
        {BOXES, 256, 192, 255, 2},
        {BOXES ",batch=(bitmask)0x0000000000000003", 192 + 3 * 8, 192, 192 + 3 * 8 + 1, 2},
        {BOXES ",offsets=(string)\"64\\0540\"", 256, 256, 257, 1},
        {"other/tensors,format=flexible,framerate=25/1", 256, 256, 0, 1},
    };

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GstCaps) caps = gst_caps_from_string(cases[i].caps);
        g_autoptr(GstCaps) reference = gst_caps_from_string("timestamp/x-test");
        g_autofree guint8 *bytes = g_malloc(cases[i].size);

        for (gsize k = 0; k < cases[i].size; k++)
            bytes[k] = (guint8)(k * 7 + i);
        gst_harness_set_src_caps(sink, gst_caps_copy(caps));
        if (cases[i].wrong)
            fail_unless_equals_int(
                gst_harness_push(sink, gst_buffer_new_allocate(NULL, cases[i].wrong, NULL)),
                GST_FLOW_OK);
        GstBuffer *buffer = make_unit(i, TRUE);
        gst_buffer_remove_all_memory(buffer);
        gst_buffer_append_memory(
            buffer, gst_memory_new_wrapped(0, bytes, cases[i].size, 0, cases[i].size, NULL, NULL));
        gst_buffer_add_reference_timestamp_meta(buffer, reference, 77 + i, GST_CLOCK_TIME_NONE);
        fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);

        g_autoptr(GstBuffer) got = ends_pull(src);
        check_caps(src, caps);
        fail_unless_equals_int(gst_buffer_get_size(got), cases[i].size);
        fail_unless_equals_int(gst_buffer_memcmp(got, 0, bytes, cases[i].size), 0);
        fail_unless_equals_int(gst_buffer_n_memory(got), cases[i].memories);
        fail_unless_equals_int(gst_memory_get_sizes(gst_buffer_peek_memory(got, 0), NULL, NULL),
                               cases[i].first);
        const GstReferenceTimestampMeta *meta =
            gst_buffer_get_reference_timestamp_meta(got, reference);
        fail_unless(meta && meta->timestamp == 77 + i);
        fail_unless_equals_int(GST_BUFFER_PTS(got), began + i * FRAME);
    }
}

TEST(test_other_headers)
{
    g_autoptr(GstCaps) first = coded_caps(1, 30), second = coded_caps(2, 30),
                       third = coded_caps(3, 9000), fourth = gst_caps_from_string(H264);
    GstCaps *all[] = {first, second, third, second, fourth};

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    for (guint i = 0; i < G_N_ELEMENTS(all); i++) {
        gst_harness_set_src_caps(sink, gst_caps_copy(all[i]));
        push_units(sink, "Kd", 2 * i);
        take_unit(src, 2 * i, TRUE);
        check_caps(src, all[i]);
        take_unit(src, 2 * i + 1, FALSE);
    }
}

TEST(test_too_many_headers)
{
    g_autoptr(GstCaps) caps = coded_caps(1, 20000);

    sink = ends_sink("wait-for-connection=false");
    GstBus *bus = ends_bus(sink);
    gst_harness_set_src_caps(sink, gst_caps_copy(caps));
    ends_expect(bus, GST_MESSAGE_ERROR, ENDS_WAIT, "headers");
    gst_object_unref(bus);
}

static gboolean accepts(const gchar *text)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(sink), "sink");
    g_autoptr(GstCaps) got = gst_pad_query_caps(pad, caps);
    gboolean offered = !gst_caps_is_empty(got);

    fail_unless(offered || !gst_pad_query_accept_caps(pad, caps));
    return offered;
}

TEST(test_what_is_accepted)
{
    sink = ends_sink("wait-for-connection=false");
    fail_unless(accepts("video/x-h264") && accepts("application/x-rtp,media=audio"));
    fail_unless(accepts("image/jpeg") && accepts("audio/mpeg") && accepts("x-mine/x-own,a=1"));
    fail_unless(accepts("video/x-raw,format=NV12") && accepts("audio/x-raw,format=S16LE"));
    fail_if(accepts("video/x-raw(memory:Unknown)") || accepts("video/x-h264(memory:Unknown)"));
    fail_if(accepts("video/x-raw,format=NO_FORMAT") || accepts("audio/x-raw(memory:Unknown)"));
}

/* --- buffers ------------------------------------------------------------------------------ */

/* Pictures in the order of decoding, with times in that of showing. */
TEST(test_times_and_flags)
{
    static const guint shown[] = {2, 6, 4, 3, 5};
    const guint flags = GST_BUFFER_FLAG_MARKER | GST_BUFFER_FLAG_HEADER |
                        GST_BUFFER_FLAG_DROPPABLE | GST_BUFFER_FLAG_CORRUPTED;
    GstClockTime offset = 0;

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    ends_start(sink, H264);
    for (guint i = 0; i < G_N_ELEMENTS(shown); i++) {
        GstBuffer *unit = make_unit(i, i == 0);
        GST_BUFFER_PTS(unit) = began + shown[i] * FRAME;
        GST_BUFFER_OFFSET(unit) = 1000 + i;
        GST_BUFFER_FLAG_SET(unit, i == 3 ? flags : 0);
        gst_harness_push(sink, unit);
        g_autoptr(GstBuffer) got = ends_pull(src);
        if (i == 0)
            offset = GST_BUFFER_DTS(got);
        fail_unless_equals_int(number_of(got), i);
        fail_unless_equals_uint64(GST_BUFFER_DTS(got), offset + i * FRAME);
        fail_unless_equals_uint64(GST_BUFFER_PTS(got), offset + shown[i] * FRAME);
        fail_unless_equals_uint64(GST_BUFFER_DURATION(got), FRAME);
        fail_unless_equals_uint64(GST_BUFFER_OFFSET(got), 1000 + i);
        fail_unless_equals_int(GST_BUFFER_FLAGS(got) & flags, i == 3 ? flags : 0);
    }
}

/* The same where only the times of showing are known. */
TEST(test_times_without_decoding)
{
    static const guint shown[] = {0, 4, 2, 1, 3, 8, 6, 5, 7};
    GstClockTime offset = 0;

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    ends_start(sink, H264);
    for (guint i = 0; i < G_N_ELEMENTS(shown); i++) {
        GstBuffer *unit = make_unit(i, i == 0);
        GST_BUFFER_PTS(unit) = began + shown[i] * FRAME;
        GST_BUFFER_DTS(unit) = GST_CLOCK_TIME_NONE;
        gst_harness_push(sink, unit);
        g_autoptr(GstBuffer) got = ends_pull(src);
        if (i == 0)
            offset = GST_BUFFER_PTS(got);
        fail_unless_equals_uint64(GST_BUFFER_PTS(got), offset + shown[i] * FRAME);
    }
}

TEST(test_lists)
{
    GstBufferList *list = gst_buffer_list_new();
    GstPad *pad;

    src = ends_src("slots=16");
    sink = ends_sink("slots=16");
    ends_start(sink, "application/x-rtp,media=video,clock-rate=90000,payload=96");
    for (guint i = 0; i < 12; i++)
        gst_buffer_list_add(list, make_unit(i, TRUE));
    pad = sink->srcpad;
    fail_unless_equals_int(gst_pad_push_list(pad, list), GST_FLOW_OK);
    for (guint i = 0; i < 12; i++)
        take_unit(src, i, TRUE);
}

/* More packets of one time than the ring has slots, where slow receivers lose some: all come. On a
 * machine so busy that they take longer than the sink waits for one time, those that do not come
 * are counted. */
TEST(test_bursts)
{
    const guint bursts = 10, packets = 100;
    guint number = 0, received = 1;
    guint64 dropped = 0;
    gint64 longest = 0;

    src = ends_src(NULL);
    sink = ends_sink("slow-receiver=drop-oldest");
    ends_start(sink, "application/x-rtp,media=video,clock-rate=90000,payload=96");
    push_units(sink, "K", 0);
    take_unit(src, 0, TRUE);
    for (guint burst = 1; burst <= bursts; burst++) {
        gint64 start = g_get_monotonic_time();
        for (guint i = 0; i < packets; i++) {
            GstBuffer *packet = make_unit(++number, TRUE);
            GST_BUFFER_PTS(packet) = GST_BUFFER_DTS(packet) = began + burst * 100 * GST_MSECOND;
            fail_unless_equals_int(gst_harness_push(sink, packet), GST_FLOW_OK);
        }
        longest = MAX(longest, g_get_monotonic_time() - start);
        /* The next time begins when these have come. */
        ENDS_UNTIL(ENDS_WAIT, (received = gst_harness_buffers_received(src),
                               dropped = ends_stat(sink, "dropped-slow-receiver"),
                               received + dropped == 1 + number));
    }
    fail_unless(dropped == 0 || longest >= 100000, "%lu dropped, %ld us", (gulong)dropped,
                (glong)longest);
    for (guint last = 0; --received > 0;) {
        g_autoptr(GstBuffer) packet = ends_pull(src);
        fail_unless(number_of(packet) > last && number_of(packet) <= number, "%u after %u",
                    number_of(packet), last);
        last = number_of(packet);
    }
}

/* --- key units ---------------------------------------------------------------------------- */

TEST(test_newcomer)
{
    guint next;

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    ends_start(sink, H264);
    next = push_units(sink, "Kd", 0);
    take_unit(src, 0, TRUE);
    take_unit(src, 1, FALSE);
    check_requests(sink, 0);
    GstHarness *late = ends_src(NULL);
    ends_wait_clients(sink, 2);
    next = push_units(sink, "dd", next);
    check_requests(sink, 1);
    next = push_units(sink, "Kd", next);
    take_unit(late, 4, TRUE);
    take_unit(late, 5, FALSE);
    for (guint i = 2; i < next; i++)
        take_unit(src, i, i == 4);
    check_requests(sink, 0);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 0);
}

/* Blocks a pad; the probe says that a buffer waits there. */
static GstPadProbeReturn on_block(GstPad *pad, GstPadProbeInfo *info, gpointer waits)
{
    g_atomic_int_set((gint *)waits, TRUE);
    return GST_PAD_PROBE_OK;
}

/* A receiver that is held up by what is behind it: the ring has 4 slots. */
TEST(test_drop_runs_to_key_unit, .only_if = &here)
{
    gint waits = FALSE;
    guint next;

    src = ends_src(NULL);
    sink = ends_sink("slow-receiver=drop-oldest");
    ends_start(sink, H264);
    next = push_units(sink, "K", 0);
    take_unit(src, 0, TRUE);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(src), "src");
    gulong probe = gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER,
                                     on_block, &waits, NULL);
    next = push_units(sink, "d", next);
    ENDS_UNTIL(ENDS_WAIT, g_atomic_int_get(&waits));
    next = push_units(sink, "dddd", next);
    check_requests(sink, 0);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 0);
    next = push_units(sink, "d", next); /* no room: the four are of no use without each other */
    check_requests(sink, 1);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 5);
    next = push_units(sink, "dd", next);
    check_requests(sink, 0);
    next = push_units(sink, "Kd", next);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 7);
    gst_pad_remove_probe(pad, probe);
    take_unit(src, 1, FALSE);
    g_autoptr(GstBuffer) key = ends_pull(src);
    fail_unless_equals_int(number_of(key), 9);
    fail_unless(GST_BUFFER_FLAG_IS_SET(key, GST_BUFFER_FLAG_DISCONT));
    take_unit(src, 10, FALSE);
    fail_unless_equals_int(next, 11);
    fail_unless_equals_uint64(ends_stat(src, "dropped"), 7);
}

/* What came during a pause is skipped, and what depends on it. */
TEST(test_pause, .only_if = &here)
{
    guint next;

    src = ends_src(NULL);
    sink = ends_sink("slow-receiver=drop-oldest");
    ends_start(sink, H264);
    next = push_units(sink, "K", 0);
    take_unit(src, 0, TRUE);
    gst_element_set_state(ends_element(src), GST_STATE_PAUSED);
    next = push_units(sink, "dd", next);
    gst_element_set_state(ends_element(src), GST_STATE_PLAYING);
    next = push_units(sink, "d", next);
    guint asked = 0;
    for (guint tries = 0; !asked; tries++) { /* until the source has looked at them */
        fail_unless(tries < 2000, "no key unit is asked for");
        next = push_units(sink, "d", next);
        asked = count_requests(sink, &(GstClockTime){0}, &(gboolean){0});
        g_usleep(10000);
    }
    fail_unless_equals_int(gst_harness_buffers_in_queue(src), 0);
    next = push_units(sink, "Kd", next);
    take_unit(src, next - 2, TRUE);
    take_unit(src, next - 1, FALSE);
}

static void request(GstHarness *end, GstClockTime time, gboolean all_headers)
{
    fail_unless(gst_harness_push_upstream_event(
        end, gst_video_event_new_upstream_force_key_unit(time, all_headers, 1)));
}

/* What something behind the source asks for arrives before the sink, once for all receivers. */
TEST(test_requests)
{
    gboolean all_headers = FALSE;
    GstClockTime time = 0;
    guint next, count = 0;

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    ends_start(sink, H264);
    GstHarness *other = ends_src(NULL);
    ends_wait_clients(sink, 2);
    next = push_units(sink, "K", 0);
    take_unit(src, 0, TRUE);
    take_unit(other, 0, TRUE);
    check_requests(sink, 0);
    request(src, GST_CLOCK_TIME_NONE, FALSE);
    request(other, GST_CLOCK_TIME_NONE, TRUE);
    /* Over a network they take a moment, and may come apart. */
    for (guint tries = 0; !count || !all_headers; tries++) {
        fail_unless(tries < 500, "no request came");
        next = push_units(sink, "d", next);
        take_unit(src, next - 1, FALSE);
        take_unit(other, next - 1, FALSE);
        count += count_requests(sink, &time, &all_headers);
        fail_unless(!GST_CLOCK_TIME_IS_VALID(time) || !count);
        if (!here)
            g_usleep(10000);
    }
    fail_unless(count == 1 || (!here && count == 2), "%u requests", count);
}

/* A time is one of the receiver's pipeline; the sender gets its own. */
TEST(test_request_at_a_time)
{
    gboolean all_headers = FALSE;
    GstClockTime time = 0;
    guint next, count = 0;

    src = ends_src(NULL);
    sink = ends_sink(NULL);
    ends_start(sink, H264);
    next = push_units(sink, "K", 0);
    g_autoptr(GstBuffer) key = ends_pull(src);
    request(src, GST_BUFFER_PTS(key) + 100 * FRAME, TRUE);
    for (guint tries = 0; !(count = count_requests(sink, &time, &all_headers)); tries++) {
        fail_unless(tries < 500, "no request came");
        next = push_units(sink, "d", next);
        take_unit(src, next - 1, FALSE);
        if (!here)
            g_usleep(10000);
    }
    fail_unless(count == 1 && all_headers);
    fail_unless_equals_uint64(time, began + 100 * FRAME);
}

/* --- two senders -------------------------------------------------------------------------- */

/* A sender that takes over another one's address begins with a key unit, too. */
TEST(test_standby, .only_if = &here)
{
    guint next;

    src = ends_src("on-eos=wait");
    sink = ends_sink("standby=true");
    ends_start(sink, H264);
    GstHarness *other = ends_sink("standby=true");
    gst_harness_set_src_caps_str(other, H264);
    push_units(sink, "Kd", 0);
    take_unit(src, 0, TRUE);
    take_unit(src, 1, FALSE);
    push_units(other, "Kd", 0); /* dropped */
    ends_close(sink);
    ENDS_UNTIL(ENDS_WAIT, !ends_stat_true(ends_element(other), "stands-by"));
    next = push_units(other, "d", 2); /* waits for the receiver */
    next = push_units(other, "d", next);
    check_requests(other, 1);
    next = push_units(other, "Kd", next);
    take_unit(src, next - 2, TRUE);
    take_unit(src, next - 1, FALSE);
}

/* A change to the backup begins with a key unit of its own, under its own headers. */
TEST(test_backup)
{
    g_autofree gchar *first = ends_address(), *second = ends_address();
    g_autofree gchar *properties = g_strdup_printf("backup-address=%s on-eos=wait", second);
    g_autoptr(GstCaps) caps = coded_caps(1, 30), others = coded_caps(2, 5000);

    src = ends_src_at(first, properties);
    GstHarness *main = ends_sink_at(first, NULL), *backup = ends_sink_at(second, NULL);
    gst_harness_set_src_caps(main, gst_caps_copy(caps));
    gst_harness_set_src_caps(backup, gst_caps_copy(others));
    ends_wait_clients(main, 1);
    ends_wait_clients(backup, 1);
    push_units(main, "K", 0);
    take_unit(src, 0, TRUE);
    for (guint i = 1; i < 4; i++) {
        push_units(backup, i == 1 ? "K" : "d", i);
        push_units(main, "d", i);
        take_unit(src, i, FALSE);
        check_caps(src, caps);
    }
    ends_close(main);
    count_requests(backup, &(GstClockTime){0}, &(gboolean){0});
    /* Until the source has noticed, and asks. */
    guint next = 4, asked = 0;
    GstClockTime time;
    gboolean all_headers;
    for (guint tries = 0; !asked; tries++) {
        fail_unless(tries < 2000, "no key unit is asked for");
        next = push_units(backup, "d", next);
        asked = count_requests(backup, &time, &all_headers);
        g_usleep(10000);
    }
    fail_unless_equals_int(gst_harness_buffers_in_queue(src), 0);
    next = push_units(backup, "Kd", next);
    take_unit(src, next - 2, TRUE);
    take_unit(src, next - 1, FALSE);
    check_caps(src, others);
}

/* --- codecs ------------------------------------------------------------------------------- */

static const gchar *const codecs[][2] = {
    {"vp8enc deadline=1 keyframe-max-dist=100000", "vp8dec"},
    {"theoraenc keyframe-force=32768 keyframe-freq=32768", "theoradec"},
    {"openh264enc gop-size=100000 ! h264parse ! video/x-h264,stream-format=avc",
     "h264parse ! openh264dec"},
    {"jpegenc", "jpegdec"},
    {"jpegenc ! rtpjpegpay", "rtpjpegdepay ! jpegdec"},
};

/* Whether the elements of a launch line are installed. */
static gboolean exist(const gchar *line)
{
    g_auto(GStrv) parts = g_strsplit(line, " ! ", 0);
    gboolean all = TRUE;

    for (guint i = 0; parts[i]; i++) {
        g_autofree gchar *name = g_strndup(parts[i], strcspn(parts[i], " "));
        g_autoptr(GstElementFactory) factory =
            strchr(name, '/') ? NULL : gst_element_factory_find(name);
        all &= factory || strchr(name, '/');
    }
    return all;
}

/* An encoder that makes no key unit by itself; a receiver that comes late, and whose decoder
 * complains of anything that it cannot use. */
TEST(test_codecs, .times = G_N_ELEMENTS(codecs))
{
    const gchar *encoder = codecs[__i__][0], *decoder = codecs[__i__][1];

    if (!exist(encoder) || !exist(decoder)) {
        g_print("  %s is not installed\n", encoder);
        return;
    }
    g_autofree gchar *send =
        g_strdup_printf("videotestsrc is-live=true ! video/x-raw,format=I420,width=160,height=120,"
                        "framerate=50/1 ! %s ! gpudirectsink name=sink address=ADDRESS KEY",
                        encoder);
    g_autofree gchar *receive = g_strdup_printf(
        "gpudirectsrc address=ADDRESS KEY ! %s ! fakesink name=show sync=false", decoder);
    g_autoptr(EndsPipeline) sender = pipe_play_line(send), first = pipe_play_line(receive);
    ENDS_UNTIL(60, pipe_stat(first, "show", "rendered") >= 20);
    g_autoptr(EndsPipeline) late = pipe_play_line(receive);
    ENDS_UNTIL(60, pipe_stat(late, "show", "rendered") >= 20);
    ends_fail_on_errors(first);
    ends_fail_on_errors(late);
    ends_fail_on_errors(sender);
    g_autoptr(GstBus) bus = gst_element_get_bus(late);
    g_autoptr(GstMessage) warning = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING);
    fail_unless(warning == NULL);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    here = !g_getenv("GPUD_TEST_ADDRESS");
    return ends_run_tests(120);
}

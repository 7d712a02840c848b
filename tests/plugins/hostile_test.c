/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hostile sender for gpudirectsrc: the pipeline ends with an error that names the fault, or drops
 * the link and waits for the next sender; it never reads memory that is not there, and its memory
 * does not grow. */
#include "hostile.h"

#include "base/base.h"
#include "wire/codec.h"
#include "wire/unix/unix.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

static struct hostile hostile;

/* What the caps promise can be read, all of it. */
static void read_all(GstBuffer *buffer)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(hostile.src->sinkpad);
    GstVideoInfo info;
    GstVideoFrame frame;
    volatile guint8 sum = 0;

    fail_unless(gst_video_info_from_caps(&info, caps));
    fail_unless(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
    for (gint y = 0; y < info.height; y++)
        sum ^= ((guint8 *)GST_VIDEO_FRAME_PLANE_DATA(
            &frame, 0))[(gsize)y * (gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0)];
    (void)sum; /* only the reading matters */
    gst_video_frame_unmap(&frame);
    gst_buffer_unref(buffer);
}

/* A picture of that size has come. */
static void open_streaming(guint width, guint height)
{
    hostile_open(&hostile, NULL, width, height);
    hostile_serve(&hostile, -1, RAW_SERVER_STREAMING);
    read_all(ends_pull(hostile.src));
}

/* --- another layout under the same caps --------------------------------------------------- */

/* Until the receiver complains; buffers that come before must be what the caps say. Whether the
 * link is cut or the element notices, a frame of the new layout never comes. */
static void expect_no_small_frame(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GstMessage) message = NULL;
    GstBuffer *buffer;

    for (guint i = 0; i < 1000 && !message; i++) {
        while ((buffer = gst_harness_try_pull(hostile.src)))
            read_all(buffer);
        message = gst_bus_timed_pop_filtered(hostile.bus, 10 * GST_MSECOND,
                                             GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    }
    fail_unless(message != NULL, "there was no message within 10 s");
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        fail_unless(g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT), "%s",
                    error->message);
        fail_unless(strstr(error->message, "16x16") && strstr(error->message, "2048x1024"), "%s",
                    error->message);
    }
    while ((buffer = gst_harness_try_pull(hostile.src)))
        read_all(buffer);
}

/* Steps of a scripted sender that may be cut off at each. */
static void offer_smaller(void)
{
    struct gpud_message message;
    uint32_t entry;

    hostile_reshape(&hostile, 16, 16);
    raw_offer(&hostile.server, &message);
    hostile_say(&hostile, &message);
    if (!raw_receive(hostile.server.fd, &message, 3 * GPUD_SEC) ||
        message.type != GPUD_MESSAGE_ACCEPT)
        return;
    raw_adopt_page(&hostile.server, &message);
    hostile_serve(&hostile, RAW_SERVER_PAGE, RAW_SERVER_CANARY);
    if (!raw_receive(hostile.server.fd, &message, 3 * GPUD_SEC) ||
        message.type != GPUD_MESSAGE_READY)
        return;
    raw_publish(&hostile.server, &entry);
}

TEST(test_smaller_layout_in_the_same_epoch)
{
    open_streaming(2048, 1024);
    offer_smaller();
    expect_no_small_frame();
    hostile_close(&hostile);
}

/* Epoch 0 is no epoch that an honest sender has. */
TEST(test_smaller_layout_after_a_reconnect)
{
    open_streaming(2048, 1024);
    raw_hang_up(&hostile.server);
    g_autoptr(GError) lost = NULL;
    fail_unless_equals_int(hostile_complaint(&hostile, &lost), GST_MESSAGE_WARNING);

    hostile.server.epoch = 0;
    hostile_serve(&hostile, -1, RAW_SERVER_HELLO);
    offer_smaller();
    expect_no_small_frame();
    hostile_close(&hostile);
}

/* --- events without end ------------------------------------------------------------------- */

/* What the receiver may have grown by, KiB; unbounded queues grow by that in a second. */
#define GROWTH_MAX (64 * 1024)

/* The bytes of an event as gpudirectsink makes them, with this field. */
static size_t write_event(uint32_t kind, const gchar *field, guint value,
                          uint8_t bytes[GPUD_EVENT_SIZE_MAX])
{
    struct pack pack = {.data = bytes, .size = GPUD_EVENT_SIZE_MAX};
    g_autoptr(GstStructure) structure =
        gst_structure_new_empty(kind == EVENT_TAGS ? "taglist" : "x-cue");
    struct wire_head head = {.monotonic = TRUE};

    if (kind == EVENT_TAGS && value % 2)
        gst_structure_set(structure, GST_TAG_TITLE, G_TYPE_STRING, "odd", NULL);
    else
        gst_structure_set(structure, field, G_TYPE_UINT, value, NULL);
    wire_head_pack(&pack, &head);
    if (kind == EVENT_TAGS)
        pack_u8(&pack, GST_TAG_SCOPE_STREAM);
    pack_structure(&pack, structure, NULL);
    fail_if(pack.full);
    return pack.used;
}

/* Sends so many, each when the receiver has room for it. FALSE: it hung up. */
static gboolean send_events(uint32_t kind, const gchar *field, guint count)
{
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];

    for (guint i = 0; i < count; i++) {
        size_t size = write_event(kind, field, i, bytes);
        for (guint tries = 0; !hostile_event(&hostile, kind, bytes, size); tries++) {
            if (raw_is_hung_up(hostile.server.fd))
                return FALSE;
            fail_unless(tries < 10000, "the receiver reads no events for 10 s");
            g_usleep(1000);
        }
    }
    return TRUE;
}

static void serve_again(void)
{
    raw_hang_up(&hostile.server);
    /* Connections that the receiver has given up meanwhile are still in the queue. */
    for (guint i = 0; !raw_tries(&hostile.server, -1, RAW_SERVER_STREAMING); i++) {
        fail_unless(i < 10, "the receiver does not come back");
        raw_hang_up(&hostile.server);
    }
    read_all(ends_pull(hostile.src));
}

/* 200000 events of which none replaces another, before the first frame, or before it is even
 * connected: the link is cut, the property on-disconnect applies, and the next sender is heard. */
static const struct {
    const gchar *properties;
    enum raw_server_step step;
    GstMessageType complaint; /* 0: the stream ends */
} floods[] = {
    {NULL, RAW_SERVER_READY, GST_MESSAGE_WARNING},
    {NULL, RAW_SERVER_HELLO, GST_MESSAGE_WARNING},
    {"on-disconnect=error", RAW_SERVER_READY, GST_MESSAGE_ERROR},
    {"on-disconnect=eos", RAW_SERVER_READY, 0},
};

TEST(test_event_flood, .times = G_N_ELEMENTS(floods))
{
    gboolean connected = floods[__i__].step == RAW_SERVER_READY;
    GstMessageType complaint = floods[__i__].complaint;
    g_autoptr(GError) error = NULL;

    hostile_open(&hostile, floods[__i__].properties, 64, 64);
    hostile_serve(&hostile, -1, floods[__i__].step);
    guint64 before = hostile_resident();
    gboolean went = send_events(EVENT_CUSTOM, "number", 200000);
    guint64 after = hostile_resident();
    fail_if(went, "200000 events wait: %" G_GUINT64_FORMAT " KiB more", after - before);
    fail_unless(after < before + GROWTH_MAX,
                "grew from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT " KiB", before, after);
    if (complaint) {
        fail_unless_equals_int(hostile_complaint(&hostile, &error), complaint);
    } else {
        gst_event_unref(ends_wait_event(hostile.src, GST_EVENT_EOS));
    }
    if (complaint == GST_MESSAGE_ERROR)
        fail_unless(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ));
    if (complaint == GST_MESSAGE_WARNING && connected)
        fail_unless(strstr(error->message, "events"), "%s", error->message);
    if (complaint == GST_MESSAGE_WARNING) {
        serve_again();
        fail_unless_equals_uint64(ends_stat(hostile.src, "connects"), connected ? 2 : 1);
        fail_unless_equals_uint64(ends_stat(hostile.src, "disconnects"), connected ? 1 : 0);
    }
    hostile_close(&hostile);
}

/* An honest sender may say its tags as often as it likes before its first frame: all of them are
 * there, with their last values. */
TEST(test_tags_before_a_frame)
{
    struct gpud_descriptor plain = {.pts = GPUD_TIME_NONE, .dts = GPUD_TIME_NONE};
    GstTagList *tags;
    g_autofree gchar *title = NULL;
    guint number;

    hostile_open(&hostile, NULL, 64, 64);
    hostile_serve(&hostile, -1, RAW_SERVER_READY);
    guint64 before = hostile_resident();
    fail_unless(send_events(EVENT_TAGS, GST_TAG_TRACK_NUMBER, 5001));
    fail_unless(hostile_resident() < before + GROWTH_MAX);
    hostile_publish(&hostile, &plain);
    read_all(ends_pull(hostile.src));
    g_autoptr(GstEvent) event = ends_wait_event(hostile.src, GST_EVENT_TAG);
    gst_event_parse_tag(event, &tags);
    fail_unless(gst_tag_list_get_uint(tags, GST_TAG_TRACK_NUMBER, &number));
    fail_unless_equals_int(number, 5000);
    fail_unless(gst_tag_list_get_string(tags, GST_TAG_TITLE, &title));
    fail_unless_equals_string(title, "odd");
    fail_unless_equals_uint64(ends_stat(hostile.src, "disconnects"), 0);
    hostile_close(&hostile);
}

/* Once frames flow events have a time, and all of them are handed on, however fast they come. */
TEST(test_many_events_between_frames)
{
    open_streaming(64, 64);
    fail_unless(send_events(EVENT_CUSTOM, "number", 2000));
    for (guint i = 0; i < 2000; i++) {
        g_autoptr(GstEvent) event = ends_wait_event(hostile.src, GST_EVENT_CUSTOM_DOWNSTREAM);
        guint number;
        fail_unless(gst_structure_get_uint(gst_event_get_structure(event), "number", &number));
        fail_unless_equals_int(number, i);
    }
    fail_unless_equals_uint64(ends_stat(hostile.src, "disconnects"), 0);
    hostile_close(&hostile);
}

/* --- times that are none ------------------------------------------------------------------ */

static const uint64_t odd_times[] = {
    0,
    1,
    INT64_MAX - 1,
    INT64_MAX,
    (uint64_t)INT64_MAX + 1,
    (uint64_t)INT64_MAX + 2,
    UINT64_MAX - 1,
    UINT64_MAX,
};

/* A head as wire/times.c has it: without the clock, or with it and this base time. */
static size_t write_head(gboolean monotonic, uint64_t base_time, struct pack *pack)
{
    struct wire_head head = {.monotonic = monotonic, .base_time = base_time};

    wire_head_pack(pack, &head);
    return pack->used;
}

static void say_segment_and_gap(gboolean monotonic, uint64_t base, uint64_t time, gdouble rate)
{
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];
    uint64_t bits;

    memcpy(&bits, &rate, sizeof(bits));
    for (guint i = 0; i < 2; i++) {
        struct pack event = {.data = bytes, .size = sizeof(bytes)};
        write_head(monotonic, base, &event);
        pack_u64(&event, time);
        pack_u64(&event, base);
        if (i == 0)
            pack_u64(&event, bits);
        hostile_event(&hostile, i ? EVENT_GAP : EVENT_SEGMENT, bytes, event.used);
    }
}

static gboolean is_time(GstClockTime time)
{
    return !GST_CLOCK_TIME_IS_VALID(time) || time <= G_MAXINT64;
}

/* Hostile times in a descriptor, in a head and in an event result in a valid time, or none. */
TEST(test_forged_times)
{
    static const gdouble rates[] = {1.0, -1.0, 999999.0, -999999.0};

    open_streaming(64, 64);
    for (guint i = 0; i < G_N_ELEMENTS(odd_times) * G_N_ELEMENTS(odd_times) * 2; i++) {
        uint64_t a = odd_times[i % G_N_ELEMENTS(odd_times)];
        uint64_t b = odd_times[i / G_N_ELEMENTS(odd_times) % G_N_ELEMENTS(odd_times)];
        gboolean monotonic = i / G_N_ELEMENTS(odd_times) / G_N_ELEMENTS(odd_times) > 0;
        struct gpud_descriptor forged = {
            .pts = a, .dts = b, .duration = a, .offset = b, .submit_time = b};
        struct pack meta = {.data = forged.meta, .size = sizeof(forged.meta)};
        forged.meta_size = (uint32_t)write_head(monotonic, b, &meta);
        say_segment_and_gap(monotonic, b, a, rates[i % 4]);
        hostile_publish(&hostile, &forged);
        g_autoptr(GstBuffer) buffer = ends_pull(hostile.src);
        fail_unless(is_time(GST_BUFFER_PTS(buffer)) && is_time(GST_BUFFER_DTS(buffer)) &&
                        is_time(GST_BUFFER_DURATION(buffer)),
                    "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " of %" PRIu64
                    " %" PRIu64,
                    GST_BUFFER_PTS(buffer), GST_BUFFER_DTS(buffer), GST_BUFFER_DURATION(buffer), a,
                    b);
        g_autoptr(GstEvent) event =
            gst_pad_get_sticky_event(hostile.src->sinkpad, GST_EVENT_SEGMENT, 0);
        GstSegment segment;
        gst_event_copy_segment(event, &segment);
        fail_unless(is_time(segment.start) && is_time(segment.base) && is_time(segment.time) &&
                    is_time(segment.position));
    }
    hostile_close(&hostile);
}

/* An event positioned behind frames that are never sent, and then the end: this is reported, and
 * the next sender is accepted. */
TEST(test_event_behind_frames_that_never_come)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT, .position = 1000};
    g_autoptr(GError) error = NULL;

    open_streaming(64, 64);
    message.event.kind = EVENT_FLUSH;
    fail_unless(hostile_say(&hostile, &message));
    raw_hang_up(&hostile.server);
    fail_unless_equals_int(hostile_complaint(&hostile, &error), GST_MESSAGE_WARNING);
    fail_unless(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ));
    serve_again();
    hostile_close(&hostile);
}

/* --- another GPU each time ---------------------------------------------------------------- */

/* What a sender on this machine's first GPU says of its place; NULL: none. */
static gchar *first_gpu(void)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    struct gpud_device_list *list;
    uint32_t count;
    struct gpud_context *context;
    gchar *place = NULL;

    fail_unless(gpud_context_create(NULL, &context, NULL) == GPUD_OK);
    fail_unless(gpud_device_list_create(context, &list, &count, NULL) == GPUD_OK);
    for (uint32_t i = 0; i < count; i++) {
        gpud_device_list_get_info(list, i, &info, NULL);
        if (info.available && strcmp(info.name, "cuda:0") == 0)
            place = g_strdup(info.pci);
        /* The kernel shows no driver of a stand-in: a neighbour that uses GStreamer's CUDA library
         * says that there is a GPU. */
        if (place)
            fail_unless(dlopen("libgstcuda-1.0.so.0", RTLD_NOW) != NULL, "%s", dlerror());
    }
    gpud_device_list_destroy(&list);
    gpud_context_destroy(&context);
    return place;
}

/* FALSE: the receiver leaves, to reconnect from another device. */
static gboolean offer_from(const gchar *place)
{
    struct gpud_message message;

    g_strlcpy(hostile.server.device, place ? "cuda:0" : "", sizeof(hostile.server.device));
    g_strlcpy(hostile.server.pci, place ? place : "", sizeof(hostile.server.pci));
    hostile_serve(&hostile, -1, RAW_SERVER_HELLO);
    raw_offer(&hostile.server, &message);
    strcpy(message.offer.route, "staged"); /* which every device takes */
    if (!hostile_say(&hostile, &message) ||
        !raw_receive(hostile.server.fd, &message, 5 * GPUD_SEC) ||
        message.type != GPUD_MESSAGE_ACCEPT)
        return FALSE;
    raw_adopt_page(&hostile.server, &message);
    /* It may have said ACCEPT, and leave all the same. */
    return raw_tries(&hostile.server, RAW_SERVER_PAGE, RAW_SERVER_READY);
}

/* A sender that names another device whenever the receiver has moved: in the end it stays. */
TEST(test_place_that_moves)
{
    struct gpud_descriptor plain = {.pts = GPUD_TIME_NONE, .dts = GPUD_TIME_NONE};
    g_autofree gchar *gpu = first_gpu();
    guint tries = 0;

    hostile_open(&hostile, NULL, 64, 64);
    while (!offer_from(tries % 2 ? NULL : gpu)) {
        fail_unless(++tries < 8, "it moves for ever");
        raw_hang_up(&hostile.server);
    }
    fail_unless_equals_int(tries, gpu ? 2 : 0);
    hostile_publish(&hostile, &plain);
    read_all(ends_pull(hostile.src));
    fail_unless_equals_uint64(ends_stat(hostile.src, "connects"), 1);
    hostile_close(&hostile);
}

/* --- headers that never come -------------------------------------------------------------- */

/* Its caps announce that headers follow, of which there is nothing, or one part of two, or nothing
 * because other events have all places of those that a later receiver gets: the link is cut, which
 * the complaint explains, and the next sender is heard. */
static const struct {
    const gchar *properties;
    guint parts, others;
    GstMessageType complaint;
} headers[] = {
    {NULL, 0, 0, GST_MESSAGE_WARNING},
    {NULL, 1, 0, GST_MESSAGE_WARNING},
    {NULL, 0, 24, GST_MESSAGE_WARNING},
    {"on-disconnect=error", 1, 0, GST_MESSAGE_ERROR},
};

TEST(test_headers_that_never_come, .times = G_N_ELEMENTS(headers))
{
    static const struct caps_rest rest = {.hash = 4711, .size = CAPS_PART_SIZE + 1};
    static const struct wire_head head = {.monotonic = TRUE};
    uint8_t bytes[GPUD_EVENT_SIZE_MAX];
    g_autoptr(GError) error = NULL;
    struct gpud_message message;

    hostile_open(&hostile, headers[__i__].properties, 64, 64);
    hostile_serve(&hostile, -1, RAW_SERVER_HELLO);
    raw_offer(&hostile.server, &message);
    strcpy(message.offer.media.extra, MEDIA_REST "=(uint)4711");
    fail_unless(hostile_say(&hostile, &message));
    hostile_serve(&hostile, RAW_SERVER_OFFERED, RAW_SERVER_READY);
    for (guint i = 0; i < headers[__i__].parts; i++)
        fail_unless(hostile_event(&hostile, event_make_kind(EVENT_CAPS, i), bytes,
                                  event_encode_caps(&rest, i, &head, bytes)));
    for (guint i = 0; i < headers[__i__].others; i++)
        fail_unless(hostile_event(&hostile, event_make_kind(EVENT_CUSTOM_STICKY, i), bytes,
                                  write_event(EVENT_CUSTOM_STICKY, "number", i, bytes)));
    hostile_serve(&hostile, RAW_SERVER_READY, RAW_SERVER_STREAMING);
    fail_unless_equals_int(hostile_complaint(&hostile, &error), headers[__i__].complaint);
    fail_unless(strstr(error->message, "the headers in its caps are malformed, or missing"), "%s",
                error->message);
    fail_unless(gst_harness_try_pull(hostile.src) == NULL);
    if (headers[__i__].complaint == GST_MESSAGE_WARNING) {
        serve_again();
        fail_unless_equals_uint64(ends_stat(hostile.src, "disconnects"), 1);
    }
    hostile_close(&hostile);
}

/* A place is a peer's text. */
TEST(test_place_that_is_none)
{
    static const gchar *const places[] = {"", "nowhere", "0000:ff:ff.7", "cuda:0", "host"};
    struct gpud_descriptor plain = {.pts = GPUD_TIME_NONE, .dts = GPUD_TIME_NONE};

    hostile_open(&hostile, NULL, 64, 64);
    for (guint i = 0; i < G_N_ELEMENTS(places); i++) {
        fail_unless(offer_from(places[i]), "\"%s\" is followed", places[i]);
        hostile_publish(&hostile, &plain);
        read_all(ends_pull(hostile.src));
        raw_hang_up(&hostile.server);
    }
    hostile_close(&hostile);
}

ENDS_MAIN(60)

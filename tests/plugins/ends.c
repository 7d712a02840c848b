/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both ends of a link in one process, each in a harness of its own, and what the tests do with
 * them. */
#include "ends.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/gpudirect-test-XXXXXX";
static pid_t owner;

/* Each test runs in a child, which leaves the directory to the others. */
static void remove_directory(void)
{
    if (getpid() != owner)
        return;
    g_autofree gchar *inside = g_build_filename(directory, "gpudirect", NULL);
    rmdir(inside);
    rmdir(directory);
}

void ends_init_environment(void)
{
    if (!mkdtemp(directory))
        abort();
    owner = getpid();
    atexit(remove_directory);
    g_setenv("XDG_RUNTIME_DIR", directory, TRUE);
}

static struct ends_test *tests, **last = &tests;

void ends_register(struct ends_test *test)
{
    *last = test;
    last = &test->next;
}

int ends_run_tests(guint seconds)
{
    Suite *suite = suite_create(g_get_prgname());
    TCase *tc = tcase_create(g_get_prgname());

    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, seconds);
    for (const struct ends_test *test = tests; test; test = test->next)
        if (!test->only_if || *test->only_if)
            _tcase_add_test(tc, test->run, test->name, 0, 0, 0, MAX(test->times, 1));
    return gst_check_run_suite(suite, g_get_prgname(), __FILE__);
}

gchar *ends_host(guint network)
{
    guint pid = (guint)getpid();

    return g_strdup_printf("127.%u.%u.%u", 32 + 2 * (pid >> 16 & 15) + network, pid >> 8 & 255,
                           pid & 255);
}

gchar *ends_address(void)
{
    static gint count;
    const gchar *base = g_getenv("GPUD_TEST_ADDRESS");

    return g_strdup_printf("%s%stest-%d", base ? base : "", base ? "/" : "",
                           g_atomic_int_add(&count, 1));
}

static gchar *own_address;
static GMutex open_lock;
static GList *open_harnesses; /* the last one first */
static GList *open_pools;

void ends_keep(GstHarness *harness)
{
    g_mutex_lock(&open_lock);
    open_harnesses = g_list_prepend(open_harnesses, harness);
    g_mutex_unlock(&open_lock);
}

void ends_close(GstHarness *harness)
{
    g_mutex_lock(&open_lock);
    open_harnesses = g_list_remove(open_harnesses, harness);
    g_mutex_unlock(&open_lock);
    gst_harness_teardown(harness);
}

void ends_close_all(void)
{
    for (GList *pool = open_pools; pool; pool = pool->next)
        gst_buffer_pool_set_active(pool->data, FALSE);
    g_list_free_full(g_steal_pointer(&open_pools), gst_object_unref);
    while (open_harnesses)
        ends_close(open_harnesses->data);
    g_clear_pointer(&own_address, g_free);
}

static GstHarness *make(const gchar *element, const gchar *address, const gchar *properties)
{
    const gchar *key = g_getenv("GPUD_TEST_KEY");
    g_autofree gchar *launch =
        g_strdup_printf("%s address=%s slots=4 %s%s %s", element, address, key ? "psk-file=" : "",
                        key ? key : "", properties ? properties : "");
    GstHarness *harness = gst_harness_new_parse(launch);

    fail_unless(harness->element != NULL);
    ends_keep(harness);
    gst_harness_use_systemclock(harness);
    return harness;
}

GstHarness *ends_sink_at(const gchar *address, const gchar *properties)
{
    /* A harness says that it is live; most tests are about every frame. */
    g_autofree gchar *all = g_strdup_printf(
        "sync=false slow-receiver=block wait-for-connection=true %s", properties ? properties : "");
    GstHarness *harness = make("gpudirectsink", address, all);

    gst_harness_play(harness);
    return harness;
}

GstHarness *ends_src_at(const gchar *address, const gchar *properties)
{
    GstHarness *harness = make("gpudirectsrc", address, properties);

    gst_harness_play(harness);
    return harness;
}

const gchar *ends_own(void)
{
    if (!own_address)
        own_address = ends_address();
    return own_address;
}

GstHarness *ends_sink(const gchar *properties)
{
    return ends_sink_at(ends_own(), properties);
}

GstHarness *ends_src(const gchar *properties)
{
    return ends_src_at(ends_own(), properties);
}

GstElement *ends_element(GstHarness *harness)
{
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(harness->element), "end");

    return end ? end : GST_ELEMENT(GST_BIN_CHILDREN(harness->element)->data);
}

guint64 ends_stat(GstHarness *harness, const gchar *field)
{
    return ends_stat_of(ends_element(harness), field);
}

guint64 ends_stat_of(GstElement *element, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL;
    guint64 value = G_MAXUINT64;

    g_object_get(element, "stats", &stats, NULL);
    fail_unless(gst_structure_get_uint64(stats, field, &value), "no \"%s\" in the stats", field);
    return value;
}

guint64 ends_stat_in(GstElement *element, const gchar *sender, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;
    guint64 value = 0;

    g_object_get(element, "stats", &stats, NULL);
    if (gst_structure_get(stats, sender, GST_TYPE_STRUCTURE, &one, NULL))
        fail_unless(gst_structure_get_uint64(one, field, &value), "no \"%s\" of %s", field, sender);
    return value;
}

gchar *ends_stat_text(GstElement *element, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(element, "stats", &stats, NULL);
    const gchar *text = gst_structure_get_string(stats, field);
    return g_strdup(text ? text : "");
}

gboolean ends_stat_is(GstElement *element, const gchar *field, const gchar *text)
{
    g_autofree gchar *is = ends_stat_text(element, field);

    return g_str_equal(is, text);
}

void ends_check_stat(GstElement *element, const gchar *field, const gchar *text)
{
    g_autofree gchar *is = ends_stat_text(element, field);

    fail_unless(g_str_equal(is, text), "%s is \"%s\", not \"%s\"", field, is, text);
}

gboolean ends_stat_true(GstElement *element, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL;
    gboolean is = FALSE;

    g_object_get(element, "stats", &stats, NULL);
    fail_unless(gst_structure_get_boolean(stats, field, &is), "no \"%s\" in the stats", field);
    return is;
}

void ends_check_copies(GstHarness *harness, guint64 by_gpu, guint64 by_cpu)
{
    fail_unless_equals_uint64(ends_stat(harness, "copies-gpu"), by_gpu);
    fail_unless_equals_uint64(ends_stat(harness, "copies-cpu"), by_cpu);
}

gchar *ends_text(GstElement *element, const gchar *property)
{
    gchar *text = NULL;

    g_object_get(element, property, &text, NULL);
    return text;
}

void ends_wait_clients(GstHarness *sink, guint count)
{
    guint clients = G_MAXUINT;

    ENDS_UNTIL(ENDS_WAIT,
               (g_object_get(ends_element(sink), "num-clients", &clients, NULL), clients == count),
               "%u receivers, not %u", clients, count);
}

void ends_start(GstHarness *sink, const gchar *caps)
{
    gst_harness_set_src_caps_str(sink, caps);
    ends_wait_clients(sink, 1);
}

/* --- pictures ----------------------------------------------------------------------------- */

static void info_of(GstVideoInfo *info, const gchar *text)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);

    fail_unless(caps && gst_video_info_from_caps(info, caps), "bad caps %s", text);
}

/* Walks over the bytes that carry picture. */
static gboolean each_byte(GstVideoFrame *frame, guint seed, gboolean write)
{
    const GstVideoFormatInfo *format = frame->info.finfo;
    guint8 value = (guint8)(seed * 37 + 11);

    for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES(frame); p++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(format, p, component);
        gint width = GST_VIDEO_FRAME_COMP_WIDTH(frame, component[0]) *
                     GST_VIDEO_FORMAT_INFO_PSTRIDE(format, component[0]);
        gint rows = GST_VIDEO_FRAME_COMP_HEIGHT(frame, component[0]);
        if (width == 0) { /* pixels packed into words */
            GstVideoInfo plain;
            gst_video_info_set_format(&plain, GST_VIDEO_FORMAT_INFO_FORMAT(format),
                                      (guint)frame->info.width, (guint)frame->info.height);
            width = plain.stride[p];
        }
        if (GST_VIDEO_FORMAT_INFO_IS_TILED(format) || GST_VIDEO_FORMAT_INFO_HAS_PALETTE(format)) {
            /* One block: from the plane's start to the next one's. */
            gsize end = p + 1 < GST_VIDEO_FRAME_N_PLANES(frame) ? frame->info.offset[p + 1]
                                                                : frame->info.size;
            width = (gint)(end - frame->info.offset[p]);
            rows = 1;
        }
        for (gint y = 0; y < rows; y++) {
            guint8 *row = (guint8 *)GST_VIDEO_FRAME_PLANE_DATA(frame, p) +
                          (gsize)y * (gsize)GST_VIDEO_FRAME_PLANE_STRIDE(frame, p);
            for (gint x = 0; x < width; x++, value = (guint8)(value * 5 + 3)) {
                if (write)
                    row[x] = value;
                else if (row[x] != value)
                    return FALSE;
            }
        }
    }
    return TRUE;
}

static gboolean visit(GstBuffer *buffer, const gchar *caps, guint seed, gboolean write)
{
    GstVideoInfo info;
    GstVideoFrame frame;

    info_of(&info, caps);
    fail_unless(gst_video_frame_map(&frame, &info, buffer, write ? GST_MAP_WRITE : GST_MAP_READ));
    gboolean same = each_byte(&frame, seed, write);
    gst_video_frame_unmap(&frame);
    return same;
}

void ends_paint(GstBuffer *buffer, const gchar *caps, guint seed)
{
    visit(buffer, caps, seed, TRUE);
}

void ends_check_picture(GstBuffer *buffer, const gchar *caps, guint seed)
{
    fail_unless(visit(buffer, caps, seed, FALSE), "not picture %u of %s", seed, caps);
}

GstBuffer *ends_picture(const gchar *caps, guint seed)
{
    GstVideoInfo info;

    info_of(&info, caps);
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, info.size, NULL);
    ends_paint(buffer, caps, seed);
    return buffer;
}

void ends_check_black(GstBuffer *buffer, const gchar *caps)
{
    GstVideoInfo info;
    GstVideoFrame frame;

    info_of(&info, caps);
    fail_unless(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
    for (guint c = 0; c < MIN(3, GST_VIDEO_INFO_N_COMPONENTS(&info)); c++) {
        guint8 wanted = GST_VIDEO_INFO_IS_RGB(&info) ? 0 : c == 0 ? 16 : 128;
        for (gint y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, c); y++) {
            const guint8 *at = (guint8 *)GST_VIDEO_FRAME_COMP_DATA(&frame, c) +
                               y * GST_VIDEO_FRAME_COMP_STRIDE(&frame, c);
            for (gint x = 0; x < GST_VIDEO_FRAME_COMP_WIDTH(&frame, c); x++)
                fail_unless_equals_int(at[x * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, c)], wanted);
        }
    }
    gst_video_frame_unmap(&frame);
}

/* --- what comes out ----------------------------------------------------------------------- */

GstBuffer *ends_pull(GstHarness *src)
{
    GstBuffer *buffer = NULL;

    ENDS_UNTIL(ENDS_WAIT, buffer || (buffer = gst_harness_try_pull(src)), "no buffer within %d s",
               ENDS_WAIT);
    return buffer;
}

void ends_push(GstHarness *sink, const gchar *caps, guint seed)
{
    fail_unless_equals_int(gst_harness_push(sink, ends_picture(caps, seed)), GST_FLOW_OK);
}

void ends_take(GstHarness *src, const gchar *caps, guint seed)
{
    g_autoptr(GstBuffer) buffer = ends_pull(src);

    ends_check_picture(buffer, caps, seed);
}

void ends_skip(GstHarness *src, guint count)
{
    while (count-- > 0)
        gst_buffer_unref(ends_pull(src));
}

void ends_drop(GstHarness *src)
{
    while (gst_harness_buffers_in_queue(src))
        gst_buffer_unref(gst_harness_pull(src));
}

GstEvent *ends_wait_event(GstHarness *src, GstEventType type)
{
    for (int i = 0; i < ENDS_WAIT * 100; i++) {
        GstEvent *event = gst_harness_try_pull_event(src);
        if (event && GST_EVENT_TYPE(event) == type)
            return event;
        if (event)
            gst_event_unref(event);
        else
            g_usleep(10000);
    }
    fail("no %s event within %d s", gst_event_type_get_name(type), ENDS_WAIT);
    return NULL;
}

GstBufferPool *ends_pool(GstHarness *sink, const gchar *text)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    g_autoptr(GstQuery) query = gst_query_new_allocation(caps, TRUE);
    GstBufferPool *pool = NULL;
    guint size, min, max;

    fail_unless(gst_pad_peer_query(sink->srcpad, query));
    fail_unless(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL));
    fail_unless(gst_query_get_n_allocation_pools(query) > 0);
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
    fail_unless(pool != NULL, "the sink proposes no pool");
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    fail_unless(gst_buffer_pool_set_config(pool, config));
    fail_unless(gst_buffer_pool_set_active(pool, TRUE));
    open_pools = g_list_prepend(open_pools, pool);
    return pool;
}

GstBuffer *ends_acquire(GstBufferPool *pool)
{
    GstBuffer *buffer = NULL;

    fail_unless_equals_int(gst_buffer_pool_acquire_buffer(pool, &buffer, NULL), GST_FLOW_OK);
    return buffer;
}

GstElement *ends_pipeline(const gchar *format, ...)
{
    g_autoptr(GError) error = NULL;
    va_list arguments;

    va_start(arguments, format);
    g_autofree gchar *launch = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    GstElement *pipeline = gst_parse_launch(launch, &error);
    fail_unless(pipeline && !error, "%s: %s", launch, error ? error->message : "no pipeline");
    return pipeline;
}

void ends_stop(EndsPipeline *pipeline)
{
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
}

GstElement *ends_in(EndsPipeline *pipeline, const gchar *name)
{
    g_autoptr(GstElement) element = gst_bin_get_by_name(GST_BIN(pipeline), name);

    fail_unless(element != NULL, "there is no %s", name);
    return element;
}

void ends_on_buffer(EndsPipeline *pipeline, const gchar *name, GCallback call, gpointer user)
{
    GstElement *sink = ends_in(pipeline, name);

    g_object_set(sink, "signal-handoffs", TRUE, NULL);
    g_signal_connect(sink, "handoff", call, user);
}

void ends_play(EndsPipeline *pipeline)
{
    fail_if(gst_element_set_state(pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE);
}

void ends_wait_end(EndsPipeline *pipeline, guint seconds)
{
    g_autoptr(GstMessage) end =
        ends_wait_message(GST_ELEMENT_BUS(pipeline), GST_MESSAGE_EOS | GST_MESSAGE_ERROR, seconds);
    g_autoptr(GError) error = NULL;
    g_autofree gchar *debug = NULL;

    fail_unless(end != NULL, "the stream does not end within %u s", seconds);
    if (GST_MESSAGE_TYPE(end) == GST_MESSAGE_ERROR)
        gst_message_parse_error(end, &error, &debug);
    fail_if(error, "%s: %s", error ? error->message : "", debug);
}

void ends_fail_on_errors(EndsPipeline *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;
    g_autofree gchar *debug = NULL;

    if (!message)
        return;
    gst_message_parse_error(message, &error, &debug);
    fail("%s: %s: %s", GST_MESSAGE_SRC_NAME(message), error->message, debug);
}

EndsMonitor *ends_monitor(void)
{
    GstDeviceMonitor *monitor = gst_device_monitor_new();

    gst_device_monitor_add_filter(monitor, "Video/Source", NULL);
    fail_unless(gst_device_monitor_start(monitor));
    return monitor;
}

void ends_monitor_free(EndsMonitor *monitor)
{
    gst_device_monitor_stop(monitor);
    gst_object_unref(monitor);
}

GstBus *ends_bus(GstHarness *harness)
{
    GstBus *bus = gst_bus_new();

    gst_element_set_bus(harness->element, bus);
    return bus;
}

GstMessage *ends_wait_message(GstBus *bus, GstMessageType types, guint seconds)
{
    return gst_bus_timed_pop_filtered(bus, seconds * GST_SECOND, types);
}

void ends_expect_named(GstBus *bus, const gchar *name, guint seconds, const gchar *field,
                       const gchar *text)
{
    gint64 deadline = g_get_monotonic_time() + seconds * G_TIME_SPAN_SECOND;

    while (g_get_monotonic_time() < deadline) {
        g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_ELEMENT, 1);
        if (!message || !gst_message_has_name(message, name))
            continue;
        fail_unless_equals_string(
            gst_structure_get_string(gst_message_get_structure(message), field), text);
        return;
    }
    fail("no %s within %u s", name, seconds);
}

GError *ends_wait_error(GstBus *bus, GstMessageType types, guint seconds)
{
    g_autoptr(GstMessage) message = ends_wait_message(bus, types, seconds);
    GError *error = NULL;

    fail_unless(message != NULL, "no message within %u s", seconds);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    else if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING)
        gst_message_parse_warning(message, &error, NULL);
    else
        gst_message_parse_info(message, &error, NULL);
    return error;
}

void ends_expect(GstBus *bus, GstMessageType types, guint seconds, const gchar *text)
{
    g_autoptr(GError) error = ends_wait_error(bus, types, seconds);

    fail_unless(strstr(error->message, text), "\"%s\" does not say \"%s\"", error->message, text);
}

GPid ends_spawn(const gchar *format, ...)
{
    const gchar *program = g_getenv("GPUDIRECT_TEST_PEER");
    va_list arguments;
    GPid pid = 0;

    fail_unless(program != NULL, "GPUDIRECT_TEST_PEER is not set: run by meson test");
    va_start(arguments, format);
    g_autofree gchar *pipeline = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree gchar *command = g_strdup_printf("%s %s", program, pipeline);
    /* What a shell would do with the brackets of caps is not wanted. */
    g_auto(GStrv) argv = g_strsplit(g_strchomp(command), " ", -1);
    fail_unless(g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, NULL));
    return pid;
}

GPid ends_spawn_units(const gchar *address, const gchar *caps, const gchar *properties,
                      guint64 first, const gchar *more)
{
    g_autofree gchar *number = g_strdup_printf("%" G_GUINT64_FORMAT, first);
    g_autofree gchar *sink = g_strdup_printf("address=%s %s", address, properties);
    g_auto(GStrv) further = g_strsplit(more, " ", 2);
    gchar *argv[7] = {(gchar *)g_getenv("GPUDIRECT_TEST_INSTANTS"), (gchar *)caps, sink, number};
    GPid pid = 0;

    for (guint i = 0; further[i]; i++)
        argv[4 + i] = further[i];

    fail_unless(argv[0] != NULL, "GPUDIRECT_TEST_INSTANTS is not set: run by meson test");
    fail_unless(g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, NULL));
    return pid;
}

GPid ends_spawn_instants(const gchar *address, const gchar *caps, const gchar *properties,
                         guint64 first)
{
    return ends_spawn_units(address, caps, properties, first, "");
}

/* A stopped process dies, too. */
void ends_kill(GPid pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

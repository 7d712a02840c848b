/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sending end on an OpenCL device (a software one serves): its slots are mapped on demand,
 * foreign buffers go up by one copy of the device's, and a route through host memory can be
 * refused. */
#include "ends.h"

#include <gpudirect/device.h>
#include <gpudirect/route.h>
#include <sys/wait.h>
#include <unistd.h>

static gboolean is_possible(struct gpud_device *from, struct gpud_device *to, const gchar *route)
{
    struct gpud_route_info routes[16] = {{.size = sizeof(routes[0])}};
    size_t count = gpud_route_explain(from, to, true, routes, G_N_ELEMENTS(routes));

    for (size_t i = 0; i < count; i++)
        if (g_str_equal(routes[i].name, route))
            return routes[i].possible;
    return FALSE;
}

static gboolean can_migrate;

/* Looks in a child: an OpenCL runtime does not survive the fork that gst-check makes for a test. */
static gboolean have_device(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct gpud_context *context;
        struct gpud_device *device, *other;
        struct gpud_error error;
        if (gpud_context_create(NULL, &context, &error) != GPUD_OK ||
            gpud_device_open(context, "opencl:0", &device, &error) != GPUD_OK) {
            g_print("skipped: %s\n", error.reason);
            _exit(2);
        }
        _exit(gpud_device_open(context, "opencl:1", &other, &error) == GPUD_OK &&
                      is_possible(device, other, "migrate")
                  ? 0
                  : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return FALSE;
    can_migrate = WEXITSTATUS(status) == 0;
    return WEXITSTATUS(status) < 2;
}

static void exchange(GstHarness *sink, GstHarness *src, GstBuffer *buffer, guint seed)
{
    fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
    ends_take(src, CAPS_SMALL, seed);
}

/* 20 lent buffers and 20 foreign ones; copies: by the CPU, of both. */
static void run(const gchar *sink_device, const gchar *src_device, const gchar *path, guint copies)
{
    g_autoptr(GstHarness) sink = ends_sink(sink_device), src = ends_src(src_device);

    ends_start(sink, CAPS_SMALL);
    g_autofree gchar *active = ends_text(ends_element(sink), "active-path");
    fail_unless_equals_string(active, path);
    GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
    for (guint i = 0; i < 20; i++) {
        GstBuffer *lent = ends_acquire(pool);
        ends_paint(lent, CAPS_SMALL, i);
        exchange(sink, src, lent, i);
        exchange(sink, src, ends_picture(CAPS_SMALL, i + 100), i + 100);
    }
    fail_unless_equals_uint64(ends_stat(sink, "frames"), 40);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), copies);
}

TEST(test_device_to_host)
{
    run("device=opencl:0", NULL, "staged", 20); /* into the host memory that both share */
}

TEST(test_device_to_device)
{
    run("device=opencl:0", "device=opencl:0", "map", 0);
}

TEST(test_device_to_another, .only_if = &can_migrate)
{
    run("device=opencl:0", "device=opencl:1", "migrate", 0);
}

/* A buffer that another branch has mapped is copied: the stream neither stops nor tears. */
TEST(test_mapped_elsewhere)
{
    GstHarness *sink = ends_sink("device=opencl:0"), *src = ends_src(NULL);
    GstMapInfo map;

    ends_start(sink, CAPS_SMALL);
    GstBuffer *lent = ends_acquire(ends_pool(sink, CAPS_SMALL));
    ends_paint(lent, CAPS_SMALL, 1);
    fail_unless(gst_buffer_map(lent, &map, GST_MAP_READ));
    exchange(sink, src, gst_buffer_ref(lent), 1);
    gst_buffer_unmap(lent, &map);
    exchange(sink, src, lent, 1);
}

/* A branch of a tee that maps the buffer once it was looked at, and before it is sent: what the
 * sink logs tells when. */
struct late_map {
    GstBuffer *buffer;
    GstMapInfo map;
    gboolean mapped;
};

static void map_late(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
                     const gchar *function, gint line, GObject *object, GstDebugMessage *message,
                     gpointer user)
{
    struct late_map *late = user;

    if (!late->mapped && g_str_has_prefix(gst_debug_message_get(message), "a slot:"))
        late->mapped = gst_buffer_map(late->buffer, &late->map, GST_MAP_READ);
}

TEST(test_mapped_at_the_last_moment)
{
    GstHarness *sink = ends_sink("device=opencl:0"), *src = ends_src(NULL);
    struct late_map late = {0};

    ends_start(sink, CAPS_SMALL);
    late.buffer = ends_acquire(ends_pool(sink, CAPS_SMALL));
    ends_paint(late.buffer, CAPS_SMALL, 1);
    gst_debug_remove_log_function(gst_debug_log_default);
    gst_debug_set_active(TRUE);
    gst_debug_set_threshold_for_name("gpudirectsink", GST_LEVEL_LOG);
    gst_debug_add_log_function(map_late, &late, NULL);
    exchange(sink, src, gst_buffer_ref(late.buffer), 1);
    gst_debug_remove_log_function(map_late);
    fail_unless(late.mapped, "the sink said nothing between its look and the frame");
    gst_buffer_unmap(late.buffer, &late.map);
    exchange(sink, src, late.buffer, 1);
}

TEST(test_require_direct)
{
    g_autoptr(GstHarness) sink =
        ends_sink_at("direct", "device=opencl:0 wait-for-connection=false");
    g_autoptr(EndsPipeline) receiver =
        ends_pipeline("gpudirectsrc address=direct require-direct=true ! fakesink");

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    gst_element_set_state(receiver, GST_STATE_PLAYING);
    g_autoptr(GError) error = ends_wait_error(GST_ELEMENT_BUS(receiver), GST_MESSAGE_ERROR, 5);
    fail_unless(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS), "%s",
                error->message);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    g_setenv("POCL_DEVICES", "pthread pthread", FALSE);
    if (!have_device())
        return 77;
    gst_check_init(&argc, &argv);
    return ends_run_tests(60);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsink in a process whose address space is limited (ulimit -v), so that a ring does not
 * fit: no receiver gets a frame, and the application gets the reason, once. */
#include "pipes.h"

#include <stdio.h>
#include <sys/resource.h>

#define CAPS_LARGE "video/x-raw,format=BGRA,width=4096,height=4096,framerate=25/1"
#define PICTURE (4096 * 4096 * 4)
#define FRAMES 3000
#define PAUSE (10 * GST_MSECOND)

/* For two pictures more than there is now: a ring of four does not fit. */
static void limit(void)
{
    struct rlimit allowed;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    fail_unless(file && fscanf(file, "%lu", &pages) == 1, "no /proc/self/statm");
    fclose(file);
    fail_unless(getrlimit(RLIMIT_AS, &allowed) == 0);
    allowed.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 2 * PICTURE;
    fail_unless(setrlimit(RLIMIT_AS, &allowed) == 0);
}

/* A sink with caps whose pictures do not fit, and its bus. */
static GstHarness *open_sink(const gchar *properties, GstBus **bus)
{
    GstHarness *sink = ends_sink(properties);

    *bus = ends_bus(sink);
    gst_harness_set_src_caps_str(sink, CAPS_LARGE);
    return sink;
}

static void expect_sentence(GstHarness *sink, GstBus *bus, GstMessage *message)
{
    fail_unless(message != NULL, "the sink says nothing");
    g_autofree gchar *text = text_of(message);
    gst_message_unref(message);
    fail_unless(strstr(text, "address space") && strstr(text, "ulimit -v"), "%s", text);
    expect_no_complaint(bus);
    gst_element_set_bus(sink->element, NULL);
}

/* Upstream takes the pool that the sink proposes. */
TEST(test_pool)
{
    g_autoptr(GstBus) bus = NULL;
    GstHarness *sink = open_sink("wait-for-connection=false", &bus);
    GstBufferPool *pool = ends_pool(sink, CAPS_LARGE);

    limit();
    for (guint i = 0; i < 3; i++)
        fail_unless_equals_int(gst_harness_push(sink, ends_acquire(pool)), GST_FLOW_OK);
    expect_sentence(sink, bus, ends_wait_message(bus, GST_MESSAGE_WARNING, 0));
}

/* Frames go by until a receiver was refused: upstream has memory of its own, and all that goes
 * wrong is that refusal; or the ring is there, but has no room for a receiver. */
TEST(test_refusal, .times = 2)
{
    g_autoptr(GstBus) bus = NULL;
    GstHarness *sink = open_sink("wait-for-connection=false", &bus);
    g_autoptr(GstBuffer) picture = __i__ ? ends_acquire(ends_pool(sink, CAPS_LARGE))
                                         : gst_buffer_new_allocate(NULL, PICTURE, NULL);
    GstMessage *told = NULL;

    limit();
    g_autoptr(GstHarness) src = ends_src(NULL);
    for (guint i = 0; i < FRAMES && !told; i++) {
        fail_unless_equals_int(gst_harness_push(sink, gst_buffer_ref(picture)), GST_FLOW_OK);
        told = gst_bus_timed_pop_filtered(bus, PAUSE, GST_MESSAGE_WARNING);
    }
    expect_sentence(sink, bus, told);
}

/* A stream that waits for its first receiver says it while it waits. */
static gpointer push(gpointer harness)
{
    gst_harness_push(harness, gst_buffer_new_allocate(NULL, PICTURE, NULL));
    return NULL;
}

TEST(test_waiting)
{
    g_autoptr(GstBus) bus = NULL;
    GstHarness *sink = open_sink(NULL, &bus);
    GThread *pushes = g_thread_new("pushes", push, sink);
    g_autoptr(GstMessage) waiting = ends_wait_message(bus, GST_MESSAGE_INFO, 30);

    fail_unless(waiting != NULL, "it does not wait");
    limit();
    ends_src(NULL);
    expect_sentence(sink, bus, ends_wait_message(bus, GST_MESSAGE_WARNING, 30));
    gst_element_set_state(ends_element(sink), GST_STATE_NULL);
    g_thread_join(pushes);
}

int main(int argc, char **argv)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    g_print("SKIP: a sanitizer needs more address space than there is\n");
    return 77;
#endif
    ends_init_environment();
    gst_check_init(&argc, &argv);
    return ends_run_tests(60);
}

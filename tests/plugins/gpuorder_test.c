/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in a GPU's memory arrive before their bytes, for which all readers wait.
 * Needs the driver in host memory, which holds copies back. */
#include "ends.h"
#include "lines.h"

struct waiter {
    GstMemory *memory;
    gboolean by_cpu;
    gint started, released;
    gboolean early;
};

static gpointer wait_for_memory(gpointer user)
{
    struct waiter *waiter = user;
    GstMapInfo map;

    g_atomic_int_set(&waiter->started, TRUE);
    if (!waiter->by_cpu)
        lines_vendor_sync(waiter->memory);
    else if (gst_memory_map(waiter->memory, &map, GST_MAP_READ))
        gst_memory_unmap(waiter->memory, &map);
    waiter->early = !g_atomic_int_get(&waiter->released);
    return NULL;
}

/* Downstream gets a picture whose bytes have not arrived, and a wait for its memory waits for
 * them: for the core's copy of another element's memory, and for what an element wrote into a lent
 * slot on the slot's own stream; an element on another stream, and the CPU. */
TEST(test_order, .times = 4)
{
    g_autofree gchar *address = ends_address();
    GstHarness *src = line_new("gpudirectsrc name=end " ON_GPU " address=%s", address);
    GstHarness *sink = line_new("gpudirectsink name=end sync=false " ON_GPU " address=%s", address);
    GstHarness *upload = line_new(UPLOAD);
    struct waiter waiter = {.by_cpu = __i__ > 1};
    gboolean lends = __i__ % 2;

    gst_harness_set_src_caps_str(sink, GPU_NV12);
    gst_harness_set_src_caps_str(upload, CAPS_NV12);
    ends_wait_clients(sink, 1);
    GstBufferPool *pool = ends_pool(sink, GPU_NV12);
    GstBuffer *foreign[2], *lent, *got;
    for (guint i = 0; i < 2; i++)
        foreign[i] = gst_harness_push_and_pull(upload, ends_picture(CAPS_NV12, i));
    /* A new link is tried out first. */
    fail_unless_equals_int(gst_harness_push(sink, gst_buffer_ref(foreign[0])), GST_FLOW_OK);
    ends_skip(src, 1);
    lent = ends_acquire(pool);
    /* What the CPU wrote goes up when it is first mapped for the GPU, which may wait for that. */
    for (guint i = 2; i-- > 0;)
        lines_vendor_copy(gst_buffer_peek_memory(foreign[i], 0), gst_buffer_peek_memory(lent, 0));

    /* The CPU is shown a copy that is not the element's: this one must go on. */
    gpointer held =
        lends && waiter.by_cpu ? lines_vendor_stream(gst_buffer_peek_memory(lent, 0)) : NULL;
    if (!lines_hold_copies(held, TRUE)) {
        g_print("skipped: this driver holds no copies back\n");
    } else {
        if (lends)
            lines_vendor_copy(gst_buffer_peek_memory(foreign[1], 0),
                              gst_buffer_peek_memory(lent, 0));
        fail_unless_equals_int(gst_harness_push(sink, gst_buffer_ref(lends ? lent : foreign[1])),
                               GST_FLOW_OK);
        got = ends_pull(src);
        waiter.memory = gst_buffer_peek_memory(got, 0);
        GThread *thread = g_thread_new("waiter", wait_for_memory, &waiter);
        while (!g_atomic_int_get(&waiter.started))
            g_thread_yield();
        g_usleep(20000); /* to catch a reader that does not wait; a correct one waits longer */
        g_atomic_int_set(&waiter.released, TRUE);
        lines_hold_copies(held, FALSE);
        g_thread_join(thread);
        fail_if(waiter.early, "its bytes were still to come");
        ends_check_picture(got, CAPS_NV12, 1);
        gst_buffer_unref(got);
    }
    gst_buffer_unref(lent);
    for (guint i = 0; i < 2; i++)
        gst_buffer_unref(foreign[i]);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    if (lines_count_gpus(&argc, &argv) == 0)
        return 77;
    gst_check_init(&argc, &argv);
    return ends_run_tests(60);
}

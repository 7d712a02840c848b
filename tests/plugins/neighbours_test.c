/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What some elements beside ours need, without these elements. unixfdsink hands buffers to other
 * processes by their descriptors: it proposes an allocator of files, and takes no other memory,
 * whatever its caps say. pipewiresink's clock stands until it has pictures to pass on. */
#include "pipes.h"

#include <gst/allocators/gstfdmemory.h>
#include <gst/check/gsttestclock.h>
#include <sys/mman.h>
#include <unistd.h>

#define SOUND "audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=2"

/* --- an allocator of files ---------------------------------------------------------------- */

#define TYPE_FILES (files_get_type())
G_DECLARE_FINAL_TYPE(Files, files, TEST, FILES, GstFdAllocator)

struct _Files {
    GstFdAllocator parent;
};

G_DEFINE_TYPE(Files, files, GST_TYPE_FD_ALLOCATOR)

static gint made; /* atomic: how many files */

static GstMemory *files_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params)
{
    int fd = memfd_create("a file", MFD_CLOEXEC);

    fail_unless(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    g_atomic_int_inc(&made);
    return gst_fd_allocator_alloc(allocator, fd, size, GST_FD_MEMORY_FLAG_KEEP_MAPPED);
}

static void files_class_init(FilesClass *klass)
{
    GST_ALLOCATOR_CLASS(klass)->alloc = files_alloc;
}

static void files_init(Files *self)
{
    GST_ALLOCATOR(self)->mem_type = "a file";
}

/* A receiver whose downstream proposes an allocator of files. */
static GstHarness *receive_files(const gchar *address)
{
    GstHarness *src = ends_src_at(address, NULL);

    g_atomic_int_set(&made, 0);
    gst_harness_set_propose_allocator(src, gst_object_ref_sink(g_object_new(TYPE_FILES, NULL)),
                                      NULL);
    return src;
}

static void expect_file(GstBuffer *buffer)
{
    fail_unless(gst_buffer_n_memory(buffer) == 1 &&
                gst_is_fd_memory(gst_buffer_peek_memory(buffer, 0)));
}

/* Pictures are in files, which come again, and keep their bytes while they are held. */
TEST(test_pictures)
{
    GstHarness *sink = ends_sink(NULL), *src = receive_files(ends_own());
    GstBuffer *held[8];

    ends_start(sink, CAPS_SMALL);
    for (guint i = 0; i < G_N_ELEMENTS(held); i++) { /* more than the ring has slots */
        ends_push(sink, CAPS_SMALL, i);
        held[i] = ends_pull(src);
        expect_file(held[i]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(held); i++) {
        ends_check_picture(held[i], CAPS_SMALL, i);
        gst_buffer_unref(held[i]);
    }
    for (guint i = 0; i < 20; i++) {
        ends_push(sink, CAPS_SMALL, i);
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        expect_file(buffer);
        ends_check_picture(buffer, CAPS_SMALL, i);
    }
    fail_unless(g_atomic_int_get(&made) <= (gint)G_N_ELEMENTS(held) + 1, "%d files", made);
    g_autofree gchar *reason = NULL;
    g_object_get(ends_element(src), "fallback-reason", &reason, NULL);
    fail_unless(strstr(reason, "the CPU copies pictures"), "the reason is \"%s\"", reason);
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 28);
}

/* A new format means files of another size. */
TEST(test_new_format)
{
    static const gchar *const formats[] = {
        CAPS_SMALL, "video/x-raw,format=I420,width=66,height=32,framerate=25/1", CAPS_SMALL};
    GstHarness *sink = ends_sink(NULL), *src = receive_files(ends_own());

    ends_start(sink, formats[0]);
    for (guint i = 0; i < G_N_ELEMENTS(formats); i++) {
        gst_harness_set_src_caps_str(sink, formats[i]);
        ends_push(sink, formats[i], i);
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        expect_file(buffer);
        ends_check_picture(buffer, formats[i], i);
    }
}

TEST(test_sound)
{
    g_autofree gchar *address = g_strconcat(ends_own(), "/audio", NULL);
    GstHarness *sink = ends_sink_at(address, NULL), *src = receive_files(address);
    guint8 samples[400];

    memset(samples, 42, sizeof(samples));
    ends_start(sink, SOUND);
    fail_unless_equals_int(gst_harness_push(sink, gst_buffer_new_memdup(samples, sizeof(samples))),
                           GST_FLOW_OK);
    g_autoptr(GstBuffer) buffer = ends_pull(src);
    expect_file(buffer);
    fail_unless_equals_int(gst_buffer_memcmp(buffer, 0, samples, sizeof(samples)), 0);
    fail_unless_equals_int(gst_buffer_get_size(buffer), sizeof(samples));
}

/* Elements that propose an allocator which makes nothing by itself, as that of dma-bufs, and those
 * that propose none, get slots. */
TEST(test_no_files, .times = 2)
{
    GstAllocator *allocator = __i__ ? gst_object_ref_sink(gst_fd_allocator_new()) : NULL;
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    gst_harness_set_propose_allocator(src, allocator, NULL);
    ends_start(sink, CAPS_SMALL);
    pass(sink, src, 1);
    fail_unless_equals_uint64(ends_stat(src, "copies-cpu"), 0);
    expect_text(ends_element(src), "fallback-reason", "");
}

/* Each picture of a live sender is older than such a pipeline's time, and comes all the same. */
TEST(test_clock_stands)
{
    g_autoptr(EndsPipeline) receiver =
        ends_pipeline("gpudirectsrc address=%s ! fakesink name=sink sync=false", ends_own());
    g_autoptr(EndsPipeline) sender = pipe_play(
        "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s", ends_own());
    g_autoptr(GstClock) clock = gst_test_clock_new();

    gst_pipeline_use_clock(GST_PIPELINE(receiver), clock);
    gst_element_set_state(receiver, GST_STATE_PLAYING);
    ENDS_UNTIL(30, pipe_stat(receiver, "sink", "rendered") >= 3);
    ends_fail_on_errors(receiver);
}

ENDS_MAIN(60)

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in dma-bufs, by caps of memory:DMABuf: into the sink, in slots and in memory of another
 * element; out of the source, as slots and as copies. Other elements get plain memory. No
 * picture is read before its writer has finished, and no slot is given back before its readers
 * have. The kernel is the test's own, fences included. */
#include "base/plugin.h"
#include "ends.h"
#include "lendcard.h"
#include "sink/sink.h"
#include "src/src.h"
#include "targetline.h"

#include <dlfcn.h>
#include <errno.h>
#include <gst/allocators/gstdmabuf.h>
#include <linux/dma-buf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_DMABUFS "video/x-raw(memory:DMABuf),format=UYVY,width=64,height=16,framerate=25/1"
#define PICTURE_SIZE (64 * 16 * 2)

/* --- fences ------------------------------------------------------------------------------- */

static gboolean no_fences; /* an older kernel: it does not export any */
static ino_t fenced;       /* the dma-buf with unfinished work */
static int fence = -1;     /* readable when that is done */
static guint32 fence_for;  /* the access that it delays: DMA_BUF_SYNC_READ, or _WRITE alone */
static gint fence_waits;   /* atomic: how often it was asked for */
static gint element_syncs; /* atomic: by GStreamer's own allocator */

static ino_t inode(int fd)
{
    struct stat file = {0};

    fstat(fd, &file);
    return file.st_ino;
}

/* On a buffer's dma-buf. */
static void set_fence(GstBuffer *buffer, guint32 access)
{
    fence = eventfd(0, EFD_CLOEXEC);
    fail_unless(fence >= 0);
    fence_for = access;
    g_atomic_int_set(&fence_waits, 0);
    fenced = inode(gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 0)));
}

static void pass_fence(void)
{
    fail_unless(eventfd_write(fence, 1) == 0);
}

static void clear_fence(void)
{
    fenced = 0;
    close(fence);
    fence = -1;
}

static int export_fence(int fd, struct dma_buf_export_sync_file *wanted)
{
    gboolean delayed = fenced && inode(fd) == fenced &&
                       (fence_for == DMA_BUF_SYNC_READ || wanted->flags & DMA_BUF_SYNC_WRITE);

    if (no_fences) {
        errno = ENOTTY;
        return -1;
    }
    wanted->fd = delayed ? dup(fence) : eventfd(1, EFD_CLOEXEC);
    if (delayed)
        g_atomic_int_inc(&fence_waits);
    return wanted->fd < 0 ? -1 : 0;
}

/* Of every library in this process. */
int ioctl(int fd, unsigned long request, ...)
{
    int (*real)(int, unsigned long, ...);
    va_list args;

    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (request == DMA_BUF_IOCTL_EXPORT_SYNC_FILE)
        return export_fence(fd, argument);
    if (request == DMA_BUF_IOCTL_SYNC) {
        g_atomic_int_inc(&element_syncs);
        return 0;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "ioctl");
    return real(fd, request, argument);
}

/* --- pictures ----------------------------------------------------------------------------- */

/* What is written to this memory as a driver would do it. */
static guint8 *pages_of(GstBuffer *buffer)
{
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);

    fail_unless(gst_buffer_n_memory(buffer) == 1 && gst_is_dmabuf_memory(memory));
    return lendcard_pages(gst_dmabuf_memory_get_fd(memory));
}

/* Another element's dma-buf, and the pages behind it. */
static GstBuffer *foreign(guint8 **pages)
{
    g_autoptr(GstAllocator) allocator = gst_dmabuf_allocator_new();
    int fd = memfd_create("another dma-buf", MFD_CLOEXEC);
    GstBuffer *buffer = gst_buffer_new();

    fail_unless(fd >= 0 && ftruncate(fd, PICTURE_SIZE) == 0);
    *pages = mmap(NULL, PICTURE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fail_unless(*pages != MAP_FAILED);
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, fd, PICTURE_SIZE));
    return buffer;
}

static void paint(guint8 *pages, guint seed)
{
    g_autoptr(GstBuffer) picture = ends_picture(CAPS_SMALL, seed);

    gst_buffer_extract(picture, 0, pages, PICTURE_SIZE);
}

/* --- caps --------------------------------------------------------------------------------- */

static gboolean offers(GstPad *pad, const gchar *filter)
{
    g_autoptr(GstCaps) filter_caps = filter ? gst_caps_from_string(filter) : NULL;
    g_autoptr(GstCaps) wanted = gst_caps_from_string(IN_DMABUFS);
    g_autoptr(GstCaps) caps = gst_pad_query_caps(pad, filter_caps);

    return gst_caps_can_intersect(caps, wanted);
}

TEST(test_offers)
{
    static const gchar *const kinds[] = {"gpudirectsink", "sink", "gpudirectsrc", "src"};

    for (guint i = 0; i < G_N_ELEMENTS(kinds); i += 2) {
        g_autoptr(GstElement) element = gst_element_factory_make(kinds[i], NULL);
        g_autoptr(GstPad) pad = gst_element_get_static_pad(element, kinds[i + 1]);
        gboolean is_sink = gst_pad_get_direction(pad) == GST_PAD_SINK;
        /* Without a neighbour, and a filter, caps are any. */
        g_autoptr(GstPad) peer =
            gst_object_ref_sink(gst_pad_new(NULL, is_sink ? GST_PAD_SRC : GST_PAD_SINK));
        fail_unless_equals_int(gst_pad_link_full(is_sink ? peer : pad, is_sink ? pad : peer,
                                                 GST_PAD_LINK_CHECK_NOTHING),
                               GST_PAD_LINK_OK);
        g_autoptr(GstCaps) all = gst_pad_query_caps(pad, NULL);
        const GstCapsFeatures *first = gst_caps_get_features(all, 0);
        gst_object_ref_sink(element);
        fail_unless(gst_caps_features_is_equal(first, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY));
        fail_unless(offers(pad, NULL));
        fail_unless(offers(pad, IN_DMABUFS));
        fail_if(offers(pad, IN_DMABUFS "; video/x-raw"),
                "dma-bufs are offered to an element that takes other memory, too");
        fail_if(offers(pad, "ANY"));
    }
}

#if GST_CHECK_VERSION(1, 24, 0)

#define DRM(format)                                                                       \
    "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=" format ",width=64,height=16," \
    "framerate=25/1"

TEST(test_modifiers)
{
    g_autoptr(GstElement) sink = gst_element_factory_make("gpudirectsink", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
    g_autoptr(GstCaps) linear = gst_caps_from_string(DRM("UYVY"));
    g_autoptr(GstCaps) tiled = gst_caps_from_string(DRM("(string)UYVY:0x0100000000000001"));

    gst_object_ref_sink(sink);
    fail_unless(gst_pad_query_accept_caps(pad, linear));
    fail_if(gst_pad_query_accept_caps(pad, tiled), "a tiled picture is taken");
}

static const gchar *const spellings[] = {IN_DMABUFS, DRM("UYVY")};
#else
static const gchar *const spellings[] = {IN_DMABUFS};
#endif

/* --- into the sink ------------------------------------------------------------------------ */

TEST(test_into_slots, .times = G_N_ELEMENTS(spellings))
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    ends_start(sink, spellings[__i__]);
    GstBufferPool *pool = ends_pool(sink, spellings[__i__]);
    for (guint i = 0; i < 20; i++) {
        GstBuffer *buffer = ends_acquire(pool);
        paint(pages_of(buffer), i);
        fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
        ends_take(src, CAPS_SMALL, i);
    }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
    g_autofree gchar *reason = ends_text(ends_element(sink), "fallback-reason");
    fail_unless_equals_string(reason, "");
}

/* Memory of another element: one copy, which the sink admits to. */
TEST(test_foreign, .times = 2)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    no_fences = __i__ > 0;
    ends_start(sink, IN_DMABUFS);
    for (guint i = 0; i < 20; i++) {
        guint8 *pages;
        GstBuffer *buffer = foreign(&pages);
        paint(pages, i);
        fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
        ends_take(src, CAPS_SMALL, i);
        munmap(pages, PICTURE_SIZE);
    }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 20);
    fail_unless(g_atomic_int_get(&element_syncs) >= 40, "caches are not kept right");
    g_autofree gchar *reason = ends_text(ends_element(sink), "fallback-reason");
    fail_unless(strstr(reason, "copies pictures from dma-bufs"), "%s", reason);
    no_fences = FALSE;
}

static GstBuffer *unfinished;

static gpointer push(gpointer sink)
{
    return GINT_TO_POINTER(gst_harness_push(sink, unfinished));
}

/* Its writer has not finished yet, whether or not the caps say that it is a dma-buf. */
TEST(test_unfinished, .times = 2)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    guint8 *pages;

    ends_start(sink, __i__ ? CAPS_SMALL : IN_DMABUFS);
    unfinished = foreign(&pages);
    set_fence(unfinished, DMA_BUF_SYNC_READ);
    GThread *thread = g_thread_new("push", push, sink);
    ENDS_UNTIL(5, g_atomic_int_get(&fence_waits) > 2, "the sink does not wait for the writer");
    paint(pages, 7);
    pass_fence();
    ends_take(src, CAPS_SMALL, 7);
    fail_unless_equals_int(GPOINTER_TO_INT(g_thread_join(thread)), GST_FLOW_OK);
    clear_fence();
    munmap(pages, PICTURE_SIZE);
}

/* Its writer never finishes: that picture is lost, and the next one is not. */
TEST(test_never_finished)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    GstBus *bus = ends_bus(sink);
    guint8 *pages;

    ends_start(sink, IN_DMABUFS);
    GstBuffer *buffer = foreign(&pages);
    set_fence(buffer, DMA_BUF_SYNC_READ);
    fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
    ends_expect(bus, GST_MESSAGE_WARNING, 5, "is not finished");
    fail_unless_equals_uint64(ends_stat(sink, "dropped-malformed"), 1);
    clear_fence();
    ends_push(sink, CAPS_SMALL, 8);
    ends_take(src, CAPS_SMALL, 8);
    munmap(pages, PICTURE_SIZE);
}

/* --- out of the source -------------------------------------------------------------------- */

static GstHarness *receive(const gchar *properties, const gchar *filter)
{
    g_autofree gchar *line =
        g_strdup_printf("name=end %s ! capsfilter caps=\"%s\"", properties, filter);

    return ends_src(line);
}

/* Of a ring that this process may only read: in copies, while downstream holds some, too. */
TEST(test_out_as_copies, .times = G_N_ELEMENTS(spellings))
{
    GstHarness *sink = ends_sink(NULL);
    GstHarness *src = receive("", spellings[__i__]);
    GstBuffer *held[3];

    ends_start(sink, CAPS_SMALL);
    for (guint i = 0; i < 30; i++) {
        ends_push(sink, CAPS_SMALL, i);
        GstBuffer *buffer = ends_pull(src);
        fail_unless(gst_buffer_get_video_meta(buffer) != NULL);
        g_autoptr(GstBuffer) wanted = ends_picture(CAPS_SMALL, i);
        fail_unless(gst_buffer_memcmp(wanted, 0, pages_of(buffer), PICTURE_SIZE) == 0,
                    "picture %u is not in its dma-buf", i);
        if (i >= G_N_ELEMENTS(held))
            gst_buffer_unref(held[i % G_N_ELEMENTS(held)]);
        held[i % G_N_ELEMENTS(held)] = buffer;
    }
    for (guint i = 0; i < G_N_ELEMENTS(held); i++)
        ends_check_picture(held[(30 + i) % 3], CAPS_SMALL, 27 + i);
    ends_check_stat(ends_element(src), "dmabufs", "copies");
    g_autofree gchar *reason = ends_text(ends_element(src), "fallback-reason");
    fail_unless(strstr(reason, "has no dma-bufs"), "%s", reason);
    for (guint i = 0; i < G_N_ELEMENTS(held); i++)
        gst_buffer_unref(held[i]);
}

/* A copy that a driver still reads is not written again. */
TEST(test_out_reader)
{
    GstHarness *sink = ends_sink(NULL);
    GstHarness *src = receive("", IN_DMABUFS);

    ends_start(sink, CAPS_SMALL);
    ends_push(sink, CAPS_SMALL, 1);
    GstBuffer *buffer = ends_pull(src);
    guint8 *read = pages_of(buffer);
    set_fence(buffer, DMA_BUF_SYNC_WRITE);
    gst_buffer_unref(buffer);
    for (guint i = 2; i < 20; i++) {
        ends_push(sink, CAPS_SMALL, i);
        buffer = ends_pull(src);
        fail_if(pages_of(buffer) == read, "a dma-buf is written while it is read");
        gst_buffer_unref(buffer);
    }
    fail_unless(g_atomic_int_get(&fence_waits) > 0);
    pass_fence();
    clear_fence();
}

/* What is shown while the sender is away lies in dma-bufs, too. */
TEST(test_out_lost, .times = 2)
{
    GstHarness *sink = ends_sink(NULL);
    GstHarness *src = receive(__i__ ? "on-disconnect=black" : "on-disconnect=freeze", IN_DMABUFS);

    ends_start(sink, CAPS_SMALL);
    ends_push(sink, CAPS_SMALL, 5);
    ends_skip(src, 1);
    ends_close(sink);
    for (guint i = 0; i < 3; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        fail_unless(pages_of(buffer) != NULL);
        if (__i__)
            ends_check_black(buffer, CAPS_SMALL);
        else
            ends_check_picture(buffer, CAPS_SMALL, 5);
    }
}

/* Those who do not ask get plain memory. */
TEST(test_out_unwanted)
{
    static const gchar *const filters[] = {"video/x-raw", "video/x-raw;" IN_DMABUFS, "ANY"};

    for (guint i = 0; i < G_N_ELEMENTS(filters); i++) {
        GstHarness *sink = ends_sink(NULL);
        GstHarness *src = receive("", filters[i]);
        ends_start(sink, CAPS_SMALL);
        ends_push(sink, CAPS_SMALL, i);
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        fail_if(gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0)));
        ends_check_picture(buffer, CAPS_SMALL, i);
        ends_check_stat(ends_element(src), "dmabufs", "none");
        ends_close_all();
    }
    fail_unless_equals_int(dmabuf_count, 0);
}

/* --- slots -------------------------------------------------------------------------------- */

static gint released; /* atomic: the fence has passed */

/* Whether it waited for the fence, or, on a busy machine, for as long as the source ever does. */
static gpointer give_back(gpointer buffer)
{
    gint64 before = g_get_monotonic_time();

    gst_buffer_unref(buffer);
    return GINT_TO_POINTER(g_atomic_int_get(&released) ||
                           g_get_monotonic_time() - before >= 2 * G_USEC_PER_SEC);
}

/* A third-party writer's ring: what it writes is in the dma-buf, without a copy. A slot is not
 * given back before a driver has read it. */
TEST(test_out_slots)
{
    struct line line;
    struct writer writer;
    GstBuffer *buffer = NULL;

    line_make(&line, "slots", IN_DMABUFS);
    line_play(&line);
    writer_open(&writer, line.file, -1);
    for (guint i = 0; i < 20; i++) {
        gst_clear_buffer(&buffer);
        writer_write(&writer, CAPS_SMALL);
        buffer = g_async_queue_timeout_pop(line.buffers, 10 * G_USEC_PER_SEC);
        fail_unless(buffer != NULL, "no picture comes");
        g_autoptr(GstBuffer) wanted = ends_picture(CAPS_SMALL, i);
        fail_unless(gst_buffer_memcmp(wanted, 0, pages_of(buffer), PICTURE_SIZE) == 0);
        ends_check_picture(buffer, CAPS_SMALL, i);
    }
    GstElement *src = ends_in(line.pipeline, "src");
    ends_check_stat(src, "dmabufs", "slots");
    fail_unless_equals_uint64(ends_stat_of(src, "copies-cpu"), 0);
    fail_unless_equals_int(dmabuf_count, 4 + 2); /* and those that answer whether there are any */

    /* The pipeline's own reference is gone, else it would be the pipeline that gives back. */
    ENDS_UNTIL(10, GST_MINI_OBJECT_REFCOUNT_VALUE(buffer) == 1);
    set_fence(buffer, DMA_BUF_SYNC_WRITE);
    GThread *thread = g_thread_new("reader", give_back, buffer);
    ENDS_UNTIL(20, g_atomic_int_get(&fence_waits) > 0, "no thread waits for the fence");
    g_atomic_int_set(&released, TRUE);
    pass_fence();
    fail_unless(g_thread_join(thread) != NULL, "a slot is given back while it is read");
    clear_fence();
    line_stop(&line);
    writer_close(&writer);
    line_free(&line);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    gpud_gst_context_init();
    if (!GST_ELEMENT_REGISTER(gpudirectsink, NULL) || !GST_ELEMENT_REGISTER(gpudirectsrc, NULL))
        return 1;
    return ends_run_tests(60);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* v4l2src writes into the buffers that gpudirectsink gives it, on the kernel's test card: straight
 * into the ring by addresses and, of a kernel that has udmabuf, by dma-bufs; else into dma-bufs of
 * vgem, from where each picture is copied once. The same card's own dma-bufs go into the sink, its
 * pictures come out of gpudirectsrc in dma-bufs, and a picture with an unfinished fence is waited
 * for. Run in the guest. What arrives is what v4l2src shows by itself, byte for byte. */
#include "card.h"

#include <fcntl.h>
#include <gst/allocators/gstdmabuf.h>
#include <gst/video/video.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILTER "video/x-raw,format=UYVY,width=640,height=360"
#define ADDRESS "import"

static GBytes *wanted; /* the card's picture, which stands still */

/* --- both ends ---------------------------------------------------------------------------- */

static GstElement *play(GstElement *pipeline)
{
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

/* Ends it as Ctrl-C does (gst-launch -e), and says what was counted. */
static GstStructure *finish(GstElement *pipeline)
{
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    GstStructure *stats;

    gst_element_send_event(pipeline, gst_event_new_eos());
    await_end(pipeline, "it does not end");
    g_object_get(sink, "stats", &stats, NULL);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    return stats;
}

static guint64 number(const GstStructure *stats, const gchar *field)
{
    guint64 value = G_MAXUINT64;

    check(gst_structure_get_uint64(stats, field, &value), "no %s", field);
    return value;
}

/* Takes so many pictures; each is the card's. */
static void receive(guint count)
{
    struct picture picture;
    gchar *text;

    for (guint i = 0; i < count; i += 10) {
        gboolean taken =
            card_take("gpudirectsrc address=" ADDRESS, "identity", 9, 1, &picture, &text);
        check(taken, "nothing arrives: %s", text);
        check(g_bytes_equal(picture.bytes, wanted), "picture %u is another one", i + 10);
        picture_clear(&picture);
        g_free(text);
    }
}

static GstElement *send_by(const gchar *mode)
{
    return play(launch("v4l2src device=" CARD " io-mode=%s ! " FILTER " ! gpudirectsink name=sink "
                       "address=" ADDRESS,
                       mode));
}

/* --- scenes ------------------------------------------------------------------------------- */

static void by_address(void)
{
    g_print("by addresses: no copy\n");
    GstElement *pipeline = send_by("userptr");
    receive(30);
    g_autoptr(GstStructure) stats = finish(pipeline);
    check(number(stats, "copies-cpu") == 0, "%" G_GUINT64_FORMAT " copies",
          number(stats, "copies-cpu"));
    check(number(stats, "delivered") >= 30, "few were delivered");
}

static void by_dmabuf(gboolean in_place)
{
    g_print("%s\n", in_place
                        ? "by dma-bufs of the ring: no copy; no receiver at first, then late ones"
                        : "by dma-bufs of vgem: one copy, with a warning; late receivers");
    GstElement *pipeline = send_by("dmabuf-import");
    if (!in_place) { /* receivers cannot map vgem's memory */
        g_autoptr(GError) error = NULL;
        g_autoptr(GstMessage) warning = await_message(pipeline, GST_MESSAGE_WARNING);
        check(warning != NULL, "there is no warning that pictures are copied");
        gst_message_parse_warning(warning, &error, NULL);
        check(strstr(error->message, "copied once") != NULL, "%s", error->message);
    }
    receive(30);
    GstMessage *message = gst_bus_pop_filtered(GST_ELEMENT_BUS(pipeline), GST_MESSAGE_WARNING);
    check(!message, "there is a warning");
    g_autoptr(GstStructure) stats = finish(pipeline);
    guint64 copies = number(stats, "copies-cpu"), frames = number(stats, "frames");
    guint64 delivered = number(stats, "delivered"), connects = number(stats, "connects");
    g_print("%" G_GUINT64_FORMAT " frames, %" G_GUINT64_FORMAT " delivered, %" G_GUINT64_FORMAT
            " copied\n",
            frames, delivered, copies);
    /* One may be made for a receiver that is gone when its picture is due. */
    check(in_place ? copies == 0 : copies >= delivered && copies <= frames + connects,
          "%" G_GUINT64_FORMAT " copies of %" G_GUINT64_FORMAT " frames", copies, frames);
    check(delivered >= 30, "few were delivered");
    check(connects == 3, "%" G_GUINT64_FORMAT " came", connects);
}

/* Dma-bufs that the card's driver exports, which the caps do not tell. */
static void exported(void)
{
    g_print("dma-bufs of the card: one copy\n");
    GstElement *pipeline = send_by("dmabuf");
    receive(30);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_autofree gchar *reason = NULL;
    g_object_get(sink, "fallback-reason", &reason, NULL);
    check(strstr(reason, "copies pictures from dma-bufs") != NULL, "\"%s\"", reason);
    g_autoptr(GstStructure) stats = finish(pipeline);
    check(number(stats, "copies-cpu") >= 30, "%" G_GUINT64_FORMAT " copies",
          number(stats, "copies-cpu"));
}

/* --- out in dma-bufs ---------------------------------------------------------------------- */

#define IN_DMABUFS "video/x-raw(memory:DMABuf),format=UYVY,width=640,height=360"

/* Takes one picture, which is the card's and in a dma-buf; and says how it came there. */
static GstStructure *take_dmabuf(const gchar *source)
{
    GstElement *pipeline = play(launch("%s name=src ! " IN_DMABUFS " ! fakesink name=sink "
                                       "sync=false async=false num-buffers=5",
                                       source));
    g_autoptr(GstElement) src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_autoptr(GstSample) sample = NULL;
    GstStructure *stats;
    GstMapInfo map;

    await_end(pipeline, "no pictures come in dma-bufs");
    g_object_get(sink, "last-sample", &sample, NULL);
    check(sample != NULL, "no picture is left");
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    check(gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0)), "it is in no dma-buf");
    check(gst_buffer_map(buffer, &map, GST_MAP_READ), "it cannot be mapped");
    g_autoptr(GBytes) bytes = g_bytes_new(map.data, map.size);
    gst_buffer_unmap(buffer, &map);
    check(g_bytes_equal(bytes, wanted), "it is another picture");
    g_object_get(src, "stats", &stats, NULL);
    g_print("%s: %s\n", source, gst_structure_get_string(stats, "dmabufs"));
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    return stats;
}

static void out_of_the_card(void)
{
    g_print("out of the card in dma-bufs: no copy\n");
    g_autoptr(GstStructure) stats =
        take_dmabuf("gpudirectsrc address=v4l2://" CARD " device=host io-mode=dmabuf");
    check(g_strcmp0(gst_structure_get_string(stats, "dmabufs"), "slots") == 0, "not in slots");
    check(number(stats, "copies-cpu") == 0, "%" G_GUINT64_FORMAT " copies",
          number(stats, "copies-cpu"));
}

static void out_of_a_link(void)
{
    g_print("out of a link in dma-bufs: one copy\n");
    GstElement *pipeline = send_by("mmap");
    g_autoptr(GstStructure) stats = take_dmabuf("gpudirectsrc address=" ADDRESS);
    check(g_strcmp0(gst_structure_get_string(stats, "dmabufs"), "copies") == 0, "not by copies");
    gst_structure_free(finish(pipeline));
}

/* --- fences ------------------------------------------------------------------------------- */

/* As in the kernel's vgem_drm.h, drm.h and drm_mode.h, which only libdrm installs. */
struct dumb {
    guint32 height, width, bits, flags;
    guint32 handle, pitch;
    guint64 size;
};
struct prime {
    guint32 handle, flags;
    gint32 fd;
};
struct attach {
    guint32 handle, flags, fence, pad;
};
struct signal {
    guint32 fence, flags;
};
#define CREATE_DUMB _IOWR('d', 0xb2, struct dumb)
#define HANDLE_TO_FD _IOWR('d', 0x2d, struct prime)
#define FENCE_ATTACH _IOWR('d', 0x41, struct attach)
#define FENCE_SIGNAL _IOW('d', 0x42, struct signal)
#define FENCE_WRITE 1

static int open_vgem(void)
{
    for (guint i = 0; i < 8; i++) {
        g_autofree gchar *path = g_strdup_printf("/dev/dri/card%u", i);
        int node = open(path, O_RDWR | O_CLOEXEC);
        struct dumb dumb = {.width = 4096, .height = 1, .bits = 8};
        struct attach attach = {0};
        if (node >= 0 && ioctl(node, CREATE_DUMB, &dumb) == 0) {
            attach.handle = dumb.handle;
            if (ioctl(node, FENCE_ATTACH, &attach) == 0)
                return node;
        }
        if (node >= 0)
            close(node);
    }
    return -1;
}

/* A device (vgem says so) writes a picture that has been passed on already. */
static void unfinished(void)
{
    const guint8 *old = g_bytes_get_data(wanted, NULL);
    gsize size = g_bytes_get_size(wanted);
    int node = open_vgem();
    struct dumb dumb = {.width = 4096, .height = (guint32)(size + 4095) / 4096, .bits = 8};

    g_print("a picture that is not finished is waited for\n");
    check(node >= 0, "there is no vgem with fences");
    check(ioctl(node, CREATE_DUMB, &dumb) == 0, "vgem makes no memory");
    struct prime prime = {.handle = dumb.handle, .flags = O_RDWR | O_CLOEXEC, .fd = -1};
    check(ioctl(node, HANDLE_TO_FD, &prime) == 0, "vgem makes no dma-buf");
    guint8 *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, prime.fd, 0);
    check(pages != MAP_FAILED, "the dma-buf cannot be mapped");
    memset(pages, 0, size);

    g_autoptr(GstElement) pipeline =
        play(launch("appsrc name=app format=time caps=" IN_DMABUFS ",framerate=25/1 ! "
                    "gpudirectsink name=sink sync=false address=" ADDRESS));
    g_autoptr(GstElement) receiver =
        play(launch("gpudirectsrc address=" ADDRESS " ! fakesink name=sink sync=false "
                    "num-buffers=1"));
    g_autoptr(GstElement) app = gst_bin_get_by_name(GST_BIN(pipeline), "app");
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(receiver), "sink");
    g_autoptr(GstAllocator) allocator = gst_dmabuf_allocator_new();
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    struct attach attach = {.handle = dumb.handle, .flags = FENCE_WRITE};
    GstFlowReturn flow;

    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, prime.fd, size));
    check(ioctl(node, FENCE_ATTACH, &attach) == 0, "vgem attaches no fence");
    g_signal_emit_by_name(app, "push-buffer", buffer, &flow);
    check(flow == GST_FLOW_OK, "it cannot be sent");
    /* The sink has it, with a receiver, and must not read it yet. */
    g_autoptr(GstMessage) early = gst_bus_timed_pop_filtered(
        GST_ELEMENT_BUS(receiver), GST_SECOND / 5, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    check(!early, "a picture is passed on before it is finished");
    memcpy(pages, old, size);
    struct signal signal = {.fence = attach.fence};
    check(ioctl(node, FENCE_SIGNAL, &signal) == 0, "vgem signals no fence");
    await_end(receiver, "it does not come");
    g_autoptr(GstSample) sample = NULL;
    GstMapInfo map;
    g_object_get(end, "last-sample", &sample, NULL);
    check(sample && gst_buffer_map(gst_sample_get_buffer(sample), &map, GST_MAP_READ),
          "it cannot be mapped");
    check(map.size == size && memcmp(map.data, old, size) == 0, "it is torn");
    gst_buffer_unmap(gst_sample_get_buffer(sample), &map);
    gst_element_set_state(receiver, GST_STATE_NULL);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    munmap(pages, size);
    close(node);
}

/* --- life --------------------------------------------------------------------------------- */

/* Again, and again: nothing of one time is left for the next. */
static void restarted(void)
{
    g_print("stopped and started\n");
    for (guint i = 0; i < 3; i++) {
        GstElement *pipeline = send_by("dmabuf-import");
        receive(10);
        gst_structure_free(finish(pipeline));
    }
}

static void without_receiver(void)
{
    g_print("without a receiver\n");
    g_autoptr(GstElement) pipeline =
        play(launch("v4l2src device=" CARD " io-mode=dmabuf-import num-buffers=30 ! " FILTER
                    " ! gpudirectsink name=sink address=" ADDRESS));
    await_end(pipeline, "it stops");
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

int main(int argc, char **argv)
{
    gboolean in_place = g_file_test("/dev/udmabuf", G_FILE_TEST_EXISTS);
    struct picture picture;
    gchar *text;

    check(in_place || argc < 2, "this kernel has no udmabuf");
    gst_init(&argc, &argv);
    card_select(CARD_WEBCAM);
    card_set("Test Pattern", 0);
    card_set("OSD Text Mode", 2);
    check(card_take("v4l2src device=" CARD " io-mode=mmap", FILTER, 2, 1, &picture, &text),
          "v4l2src shows nothing: %s", text);
    wanted = g_bytes_ref(picture.bytes);
    picture_clear(&picture);
    by_address();
    by_dmabuf(in_place);
    exported();
    out_of_the_card();
    out_of_a_link();
    unfinished();
    restarted();
    without_receiver();
    g_bytes_unref(wanted);
    g_print("ok\n");
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "lendcard.h"

#include <errno.h>
#include <fcntl.h>
#include <gst/allocators/gstdmabuf.h>
#include <gst/base/gstpushsrc.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* What the linker puts in place of others has no header. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* --- udmabuf ------------------------------------------------------------------------------ */

#define DMABUFS_MAX 4096

static GMutex lock;
static struct {
    guint8 *data;
    gsize size;
} dmabufs[DMABUFS_MAX];
guint dmabuf_count;
gboolean no_ring;
gint syncs;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return __real_open64(strcmp(path, "/dev/udmabuf") == 0 ? "/dev/null" : path, flags, mode);
}

static int make(const struct udmabuf_create *create)
{
    int seals = fcntl((int)create->memfd, F_GET_SEALS);

    if (seals & F_SEAL_FUTURE_WRITE || !(seals & F_SEAL_SHRINK) ||
        (no_ring && !(seals & F_SEAL_SEAL))) {
        errno = EINVAL;
        return -1;
    }
    g_mutex_lock(&lock);
    guint number = dmabuf_count++;
    g_mutex_unlock(&lock);
    g_assert(number < DMABUFS_MAX);
    dmabufs[number].size = create->size;
    dmabufs[number].data = mmap(NULL, create->size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                (int)create->memfd, (off_t)create->offset);
    g_assert(dmabufs[number].data != MAP_FAILED);
    int fd = memfd_create("a dma-buf", MFD_CLOEXEC);
    g_assert(fd >= 0 && ftruncate(fd, (off_t)create->size) == 0 &&
             pwrite(fd, &number, sizeof(number), 0) == sizeof(number));
    return fd;
}

static guint number_of(int fd)
{
    guint number = DMABUFS_MAX;

    g_assert(pread(fd, &number, sizeof(number), 0) == sizeof(number));
    g_assert(number < dmabuf_count);
    return number;
}

guint8 *lendcard_pages(int fd)
{
    return dmabufs[number_of(fd)].data;
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (request == UDMABUF_CREATE)
        return make(argument);
    if (request == DMA_BUF_IOCTL_SYNC) {
        g_atomic_int_inc(&syncs);
        return 0;
    }
    return __real_ioctl(fd, request, argument);
}

/* --- the card ----------------------------------------------------------------------------- */

/* As v4l2src has it: buffers that are being filled are held until they are, in their order. */
#define QUEUED 3

typedef struct {
    GstPushSrc parent;
    gint mode;
    guint frames, change_at; /* another size comes with this frame */
    GQueue queue;            /* what the driver has */
    GstBuffer *held;         /* one of the first size, until the end */
} Card;
typedef GstPushSrcClass CardClass;

static GType card_get_type(void);
G_DEFINE_TYPE(Card, card, GST_TYPE_PUSH_SRC)

enum { PROP_IO_MODE = 1, PROP_CHANGE_AT };

static GType mode_get_type(void)
{
    static const GEnumValue values[] = {
        {0, "auto", "auto"}, {5, "import", "dmabuf-import"}, {0, NULL, NULL}};
    static GType type;

    if (!type)
        type = g_enum_register_static("CardMode", values);
    return type;
}

static void card_set(GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
    if (id == PROP_IO_MODE)
        ((Card *)object)->mode = g_value_get_enum(value);
    else
        ((Card *)object)->change_at = g_value_get_uint(value);
}

static void card_get(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    g_value_set_enum(value, ((Card *)object)->mode);
}

#define SMALL "video/x-raw,format=GRAY8,width=64,height=64,framerate=50/1"

static gboolean card_negotiate(GstBaseSrc *base)
{
    Card *self = (Card *)base;
    g_autoptr(GstCaps) caps =
        gst_caps_from_string(self->change_at && self->frames >= self->change_at ? SMALL : WIDE);

    g_queue_clear_full(&self->queue, (GDestroyNotify)gst_buffer_unref);
    return gst_base_src_set_caps(base, caps);
}

static GstFlowReturn card_create(GstPushSrc *push, GstBuffer **buffer)
{
    Card *self = (Card *)push;
    GstFlowReturn flow = GST_FLOW_OK;

    if (self->change_at && self->frames == self->change_at) {
        self->held = g_queue_pop_head(&self->queue);
        if (!gst_base_src_negotiate(GST_BASE_SRC(push)))
            return GST_FLOW_NOT_NEGOTIATED;
    }
    GstBufferPool *pool = gst_base_src_get_buffer_pool(GST_BASE_SRC(push));
    while (flow == GST_FLOW_OK && self->queue.length < QUEUED) {
        GstBuffer *next = NULL;
        flow = gst_buffer_pool_acquire_buffer(pool, &next, NULL);
        if (flow == GST_FLOW_OK)
            g_queue_push_tail(&self->queue, next);
    }
    gst_object_unref(pool);
    if (flow != GST_FLOW_OK)
        return flow;
    /* Only dma-bufs, and all of the buffer by way of it. */
    *buffer = g_queue_pop_head(&self->queue);
    GstMemory *memory = gst_buffer_peek_memory(*buffer, 0);
    g_assert(gst_buffer_n_memory(*buffer) == 1 && gst_is_dmabuf_memory(memory));
    guint number = number_of(gst_dmabuf_memory_get_fd(memory));
    g_assert(memory->offset == 0);
    g_assert(dmabufs[number].size >= memory->size && memory->maxsize >= memory->size);
    memset(dmabufs[number].data, (guint8)self->frames, memory->size);
    GST_BUFFER_OFFSET(*buffer) = self->frames++;
    return GST_FLOW_OK;
}

static gboolean card_stop(GstBaseSrc *base)
{
    Card *self = (Card *)base;

    g_queue_clear_full(&self->queue, (GDestroyNotify)gst_buffer_unref);
    gst_clear_buffer(&self->held);
    return TRUE;
}

static void card_class_init(CardClass *klass)
{
    GObjectClass *object = G_OBJECT_CLASS(klass);
    GstElementClass *element = GST_ELEMENT_CLASS(klass);
    static GstStaticPadTemplate template =
        GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS("video/x-raw"));

    object->set_property = card_set;
    object->get_property = card_get;
    g_object_class_install_property(
        object, PROP_IO_MODE,
        g_param_spec_enum("io-mode", "", "", mode_get_type(), 5, G_PARAM_READWRITE));
    g_object_class_install_property(
        object, PROP_CHANGE_AT,
        g_param_spec_uint("change-at", "", "", 0, G_MAXUINT, 0, G_PARAM_WRITABLE));
    gst_element_class_add_static_pad_template(element, &template);
    gst_element_class_set_static_metadata(element, "card", "Source/Video", "card", "test");
    GST_BASE_SRC_CLASS(klass)->negotiate = card_negotiate;
    GST_BASE_SRC_CLASS(klass)->stop = card_stop;
    klass->create = card_create;
}

static void card_init(Card *self)
{
    self->mode = 5;
    g_queue_init(&self->queue);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
}

gboolean lendcard_register(void)
{
    return gst_element_register(NULL, "lendcard", GST_RANK_NONE, card_get_type());
}

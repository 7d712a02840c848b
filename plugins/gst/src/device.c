/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* On which device gpudirectsrc's frames shall arrive, and what that means for caps and contexts.
 *
 * A device that the user names is used. With `auto` frames arrive on the GPU that downstream works
 * on, if downstream prefers a GPU's memory to any other. If not, they arrive where the sender has
 * them: on its GPU, if that is one of this machine's, its driver is here and downstream takes such
 * memory too (a fakesink, a tee, an appsink without caps do); else in host memory. The sender says
 * where it has them while the link is being made; a receiver on another device then replaces this
 * one before the sender relies on it. Plain elements, and machines without a GPU, get what they
 * would get without all this. A card's frames, and those of a writer outside, are nowhere before:
 * for them it is the GPU that downstream prefers (of several the one that is nearest to the card),
 * or the host. Frames that arrive on a GPU are pushed as its memory if downstream takes that, else
 * as memory that maps to the CPU on demand. */
#include "context.h"
#include "src/src.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

static enum gpu_use get_use(GstGpudirectSrc *self, gint *number)
{
    GST_OBJECT_LOCK(self);
    enum gpu_use use = gpu_use_of_device(self->settings.device, number);
    GST_OBJECT_UNLOCK(self);
    return use;
}

/* Takes the reason; NULL: the user named the device. */
static void set_reason(GstGpudirectSrc *self, gchar *reason)
{
    if (reason)
        GST_INFO_OBJECT(self, "device=auto: %s", reason);
    GST_OBJECT_LOCK(self);
    g_free(self->device_reason);
    self->device_reason = reason;
    GST_OBJECT_UNLOCK(self);
}

static gint find_gpu(GstGpudirectSrc *self, const struct gpu_vendor *vendor, gchar **reason)
{
    GST_OBJECT_LOCK(self);
    gchar *address = g_strdup(self->settings.address);
    GST_OBJECT_UNLOCK(self);
    gint number = gpu_find(vendor, GST_ELEMENT(self), GST_BASE_SRC_PAD(self), &self->contexts,
                           address, reason);

    g_free(address);
    return number;
}

static gint choose_gpu(GstGpudirectSrc *self)
{
    gchar *reason = NULL;
    gint number;

    if (get_use(self, &number) != GPU_USE_ANY)
        return number;
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(self), NULL);
    const struct gpu_vendor *preferred = gpu_vendor_of_caps(caps);
    gst_caps_unref(caps);
    self->follows = !preferred;
    number = preferred ? find_gpu(self, preferred, &reason) : -1;
    set_reason(self, reason);
    return number;
}

/* The core's "auto" is another one: it knows an address, and no caps. */
static gchar *get_named(GstGpudirectSrc *self)
{
    GST_OBJECT_LOCK(self);
    gchar *device = g_strdup(self->settings.device ? self->settings.device : "auto");
    GST_OBJECT_UNLOCK(self);
    if (!g_str_equal(device, "auto"))
        return device;
    g_free(device);
    set_reason(self, g_strdup("host: the elements downstream prefer no GPU's memory"));
    return g_strdup("host");
}

gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops)
{
    self->follows = FALSE;
    self->moves = 0;
    set_reason(self, NULL);
    gint number = choose_gpu(self);
    if (ops->configure) /* a card, or a writer outside, has them nowhere before */
        self->follows = FALSE;
    g_atomic_int_set(&self->opened_on, number);
    return number >= 0 ? gpu_get_name(number) : get_named(self);
}

GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps)
{
    gint number;
    enum gpu_use use = get_use(self, &number);

    g_mutex_lock(&self->input_lock);
    if (self->input) {
        number = g_atomic_int_get(&self->opened_on);
        use = number >= 0 ? GPU_USE_NAMED : GPU_USE_NONE;
    }
    g_mutex_unlock(&self->input_lock);
    return gpu_filter_caps(caps, use, number);
}

/* No GPU for GStreamer is no reason to stop: the core maps its frames for the CPU. */
static struct gpu *get_gpu(GstGpudirectSrc *self)
{
    gint number = g_atomic_int_get(&self->opened_on);
    struct gpud_error error;

    if (number < 0)
        return NULL;
    struct gpu *gpu = gpu_get(number, &error);
    if (!gpu)
        GST_WARNING_OBJECT(self, "no %s: %s", gpu_get_vendor(number)->memory, error.reason);
    return gpu;
}

GstCaps *gst_gpudirect_src_offer_card(GstGpudirectSrc *self, GstCaps *caps)
{
    struct gpu *gpu = get_gpu(self);

    if (!gpu)
        return caps;
    GstCaps *both = gst_caps_new_empty();
    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        GstCaps *one = gst_caps_copy_nth(caps, i);
        GstCaps *on_gpu = gpu_caps_in_memory(one, gpu->vendor);
        if (on_gpu)
            gst_caps_append(both, on_gpu);
        gst_caps_unref(one);
    }
    gst_caps_append(both, caps);
    return both;
}

struct gpu *gst_gpudirect_src_gpu_of_caps(GstGpudirectSrc *self, const GstCaps *caps)
{
    return gpu_vendor_of_caps(caps) ? get_gpu(self) : NULL;
}

/* Elements that pass memory through accept any, whatever is behind them; the CAPS query asks those,
 * too. */
static gboolean downstream_takes(GstGpudirectSrc *self, GstCaps *caps)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);

    if (!gst_pad_peer_query_accept_caps(pad, caps))
        return FALSE;
    GstCaps *possible = gst_pad_peer_query_caps(pad, caps);
    gboolean takes = gst_caps_can_intersect(possible, caps);
    gst_caps_unref(possible);
    return takes;
}

GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu)
{
    struct gpu *found = get_gpu(self);
    GstCaps *on_gpu = found ? gpu_caps_in_memory(caps, found->vendor) : NULL;

    *gpu = NULL;
    if (on_gpu && downstream_takes(self, on_gpu)) {
        gst_caps_unref(caps);
        *gpu = found;
        return on_gpu;
    }
    gst_clear_caps(&on_gpu);
    if (gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), caps))
        return caps;
    gst_caps_unref(caps);
    return NULL;
}

/* --- the sender's device ------------------------------------------------------------------ */

/* A sender that names another GPU each time is not followed for ever. */
#define MOVES_MAX 2

gboolean gst_gpudirect_src_may_follow(GstGpudirectSrc *self, const void *media, size_t size)
{
    if (!self->follows || self->moves >= MOVES_MAX)
        return FALSE;
    gchar *pci = media_get_gpu(media, size, self->names);
    gboolean may = pci || g_atomic_int_get(&self->opened_on) >= 0;
    g_free(pci);
    return may;
}

/* Elements that name a vendor's memory work on a GPU of it; those that take anything have none. */
static gboolean downstream_works_on(GstGpudirectSrc *self, gint number)
{
    const struct gpu_vendor *vendor = gpu_get_vendor(number);
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(self), NULL);
    gchar *reason = NULL;
    gboolean names_it = FALSE;

    for (guint i = 0; !gst_caps_is_any(caps) && i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);
        names_it |= !gst_caps_features_is_any(features) &&
                    gst_caps_features_contains(features, vendor->feature);
    }
    gst_caps_unref(caps);
    gboolean there = !names_it || find_gpu(self, vendor, &reason) == number;
    g_free(reason);
    return there;
}

/* The GPU that the sender has its frames on, if downstream takes them there; else -1. */
static gint find_sender_gpu(GstGpudirectSrc *self, const struct src_format *format)
{
    gsize size;
    const void *media = g_bytes_get_data(format->media, &size);
    gchar *pci = media_get_gpu(media, size, self->names), *reason = NULL;
    gint number = pci ? gpu_of_pci(pci) : -1;
    GstVideoInfo info;

    g_free(pci);
    GstCaps *caps = number >= 0 && gpu_get_vendor(number)->is_available()
                        ? media_to_caps(&format->layout, media, size, self->names, &info, &reason)
                        : NULL;
    GstCaps *on_gpu = caps ? gpu_caps_in_memory(caps, gpu_get_vendor(number)) : NULL;
    if (!on_gpu || !downstream_takes(self, on_gpu) || !downstream_works_on(self, number))
        number = -1;
    gst_clear_caps(&on_gpu);
    gst_clear_caps(&caps);
    g_free(reason);
    return number;
}

static gboolean move(GstGpudirectSrc *self, gint number)
{
    gchar *device = number < 0 ? g_strdup("host") : gpu_get_name(number);
    struct gpud_error error;
    gboolean moved = gst_gpudirect_src_reopen(self, device, &error);

    self->moves++;
    if (moved) {
        set_reason(self, g_strdup_printf("%s: the sender has its frames there", device));
        g_atomic_int_set(&self->opened_on, number);
        self->linked = FALSE;
        self->waiting_since = 0;
    } else {
        GST_WARNING_OBJECT(self, "frames cannot arrive on %s, where the sender has them: %s",
                           device, error.reason);
        self->follows = FALSE;
    }
    g_free(device);
    return moved;
}

gboolean gst_gpudirect_src_follow(GstGpudirectSrc *self, const struct src_format *format)
{
    if (!self->follows || self->moves >= MOVES_MAX)
        return FALSE;
    gint number = find_sender_gpu(self, format);
    return number != g_atomic_int_get(&self->opened_on) && move(self, number);
}

gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self)
{
    return self->follows && self->moves < MOVES_MAX && g_atomic_int_get(&self->opened_on) >= 0 &&
           move(self, -1);
}

gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps)
{
    for (guint i = 0; gpu_vendors[i]; i++) {
        GstCaps *on_gpu = gpu_caps_in_memory(caps, gpu_vendors[i]);
        gboolean wanted = on_gpu && gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), on_gpu);
        gst_clear_caps(&on_gpu);
        if (wanted)
            return g_strdup_printf("they want %s: set gpudirectsrc's property device to %sN",
                                   gpu_vendors[i]->memory, gpu_vendors[i]->prefix);
    }
    return g_strdup("put a videoconvert after gpudirectsrc");
}

gboolean gst_gpudirect_src_share_context(GstGpudirectSrc *self, GstQuery *query)
{
    gint number;
    enum gpu_use use = get_use(self, &number);

    return gpu_answer_query(GST_ELEMENT(self), query, use, number,
                            g_atomic_int_get(&self->opened_on), &self->contexts);
}

static void src_set_context(GstElement *element, GstContext *context)
{
    GstElementClass *parent = g_type_class_peek(GST_TYPE_PUSH_SRC);

    gpu_take_context(element, context, &GST_GPUDIRECT_SRC(element)->contexts);
    parent->set_context(element, context);
}

void gst_gpudirect_src_class_init_device(GstElementClass *klass)
{
    GstCaps *caps = gpu_template_caps();

    gst_element_class_add_pad_template(
        klass, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
    klass->set_context = src_set_context;
}

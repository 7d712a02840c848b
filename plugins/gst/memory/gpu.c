/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUs of all vendors: their numbers, caps and contexts. */
#include "memory/gpu.h"
#include "base/context.h"
#include "wire/caps.h"
#include "wire/dmabufcaps.h"

#include <string.h>

/* A number is the vendor's index in the list times this, plus the ordinal. */
#define GPUS_MAX 64

static gint vendor_index(const struct gpu_vendor *vendor)
{
    gint index = 0;

    while (gpu_vendors[index] && gpu_vendors[index] != vendor)
        index++;
    return index;
}

static gint number_of(const struct gpu_vendor *vendor, gint ordinal)
{
    return vendor_index(vendor) * GPUS_MAX + ordinal;
}

/* --- caps --------------------------------------------------------------------------------- */

static const struct gpu_vendor *vendor_of_features(const GstCapsFeatures *features)
{
    if (gst_caps_features_is_any(features))
        return NULL;
    for (guint i = 0; gpu_vendors[i]; i++)
        if (gst_caps_features_contains(features, gpu_vendors[i]->feature))
            return gpu_vendors[i];
    return NULL;
}

const struct gpu_vendor *gpu_vendor_of_caps(const GstCaps *caps)
{
    if (!caps || gst_caps_is_empty(caps) || gst_caps_is_any(caps))
        return NULL;
    return vendor_of_features(gst_caps_get_features(caps, 0));
}

/* The formats in everyday use, in the order in which v4l2src takes them. */
#define EVERYDAY_CAPS                                                                      \
    VIDEO_RAW "(ANY), format = (string) { UYVY, YUY2, NV12, I420, YV12, v210, P010_10LE, " \
              "I420_10LE, I422_10LE, RGBA, BGRA, RGBx, BGRx, RGB, BGR, GRAY8 }"

/* GStreamer's own order is one of quality: an element that can make every format, as videotestsrc
 * can, would settle on 16 bits for each of red, green, blue and alpha. Elements in between keep
 * that order within a structure, so the formats in everyday use have one in front of all of them.
 */
static GstCaps *put_everyday_first(GstCaps *all)
{
    GstCaps *everyday = gst_caps_from_string(EVERYDAY_CAPS), *ordered = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(all); i++) {
        GstCaps *one = gst_caps_copy_nth(all, i);
        gst_caps_append(ordered, gst_caps_intersect_full(everyday, one, GST_CAPS_INTERSECT_FIRST));
        gst_caps_append(ordered, one);
    }
    gst_caps_unref(everyday);
    gst_caps_unref(all);
    return ordered;
}

GstCaps *gpu_template_caps(void)
{
    GString *text = g_string_new(SLOT_VIDEO_CAPS);

    for (guint i = 0; gpu_vendors[i]; i++)
        g_string_append_printf(text, "; " VIDEO_RAW "(%s)" SLOT_VIDEO_FIELDS,
                               gpu_vendors[i]->feature);
    GstCaps *caps = put_everyday_first(gst_caps_from_string(text->str));
    g_string_free(text, TRUE);
    GstCaps *plain = put_everyday_first(gst_caps_from_string(VIDEO_RAW SLOT_VIDEO_FIELDS));
    gst_caps_append(caps, caps_into_dmabufs(plain));
    gst_caps_unref(plain);
    return caps;
}

GstCaps *gpu_caps_in_memory(const GstCaps *caps, const struct gpu_vendor *vendor)
{
    if (caps_are_fields(caps) ||
        !gst_structure_has_name(gst_caps_get_structure(caps, 0), VIDEO_RAW))
        return NULL;
    GstCaps *copy = gst_caps_copy(caps);

    gst_caps_set_features(copy, 0, gst_caps_features_new(vendor->feature, NULL));
    return copy;
}

enum gpu_use gpu_use_of_device(const gchar *device, gint *number)
{
    *number = -1;
    if (device && !g_str_equal(device, "auto")) {
        gint named = gpu_of_name(device);
        if (named < 0 || !gpu_get_vendor(named)->is_available())
            return GPU_USE_NONE;
        *number = named;
        return GPU_USE_NAMED;
    }
    for (guint i = 0; gpu_vendors[i]; i++)
        if (gpu_vendors[i]->is_available())
            return GPU_USE_ANY;
    return GPU_USE_NONE;
}

static void append_copy(GstCaps *to, const GstCaps *from, guint index)
{
    gst_caps_append_structure_full(to, gst_structure_copy(gst_caps_get_structure(from, index)),
                                   gst_caps_features_copy(gst_caps_get_features(from, index)));
}

GstCaps *gpu_filter_caps(GstCaps *caps, enum gpu_use use, gint number)
{
    const struct gpu_vendor *named = gpu_get_vendor(number);
    GstCaps *useful = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        const struct gpu_vendor *vendor = vendor_of_features(gst_caps_get_features(caps, i));
        if (!vendor || (use == GPU_USE_NAMED && vendor == named) ||
            (use == GPU_USE_ANY && vendor->is_available()))
            append_copy(useful, caps, i);
    }
    gst_caps_unref(caps);
    return useful;
}

GstCaps *gpu_put_first(GstCaps *caps, const struct gpu_vendor *vendor)
{
    GstCaps *first = gst_caps_new_empty(), *rest = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++)
        append_copy(vendor_of_features(gst_caps_get_features(caps, i)) == vendor ? first : rest,
                    caps, i);
    gst_caps_unref(caps);
    gst_caps_append(first, rest);
    return first;
}

/* --- GPUs --------------------------------------------------------------------------------- */

gint gpu_of_name(const gchar *device)
{
    for (guint i = 0; device && gpu_vendors[i]; i++) {
        const struct gpu_vendor *vendor = gpu_vendors[i];
        guint64 ordinal;
        if (g_str_has_prefix(device, vendor->prefix) &&
            g_ascii_string_to_unsigned(device + strlen(vendor->prefix), 10, 0, GPUS_MAX - 1,
                                       &ordinal, NULL))
            return number_of(vendor, (gint)ordinal);
    }
    return -1;
}

const struct gpu_vendor *gpu_get_vendor(gint number)
{
    return number < 0 ? NULL : gpu_vendors[number / GPUS_MAX];
}

gchar *gpu_get_name(gint number)
{
    return g_strdup_printf("%s%d", gpu_get_vendor(number)->prefix, number % GPUS_MAX);
}

static struct gpu *open_gpu(gint number, struct gpud_error *error)
{
    struct gpud_context *context = gpud_gst_context_get(error);
    struct gpu *gpu = g_new0(struct gpu, 1);
    gchar *name = gpu_get_name(number);

    gpu->vendor = gpu_get_vendor(number);
    gpu->number = number;
    gpu->ordinal = number % GPUS_MAX;
    if (context && gpud_device_open(context, name, &gpu->device, error) == GPUD_OK)
        gpu->context = gpu->vendor->wrap_context(gpu, error);
    g_free(name);
    if (gpu->context) {
        GST_OBJECT_FLAG_SET(gpu->context, GST_OBJECT_FLAG_MAY_BE_LEAKED);
        return gpu;
    }
    gpud_device_close(&gpu->device);
    g_free(gpu);
    return NULL;
}

struct gpu *gpu_get(gint number, struct gpud_error *error)
{
    static GMutex lock;
    static struct gpu *gpus[GPU_VENDORS_MAX * GPUS_MAX];
    const struct gpu_vendor *vendor = gpu_get_vendor(number);

    if (!vendor->is_available()) {
        *error = (struct gpud_error){.status = GPUD_NO_DEVICE};
        g_snprintf(error->reason, sizeof(error->reason),
                   "there is no GPU %d: %s is not installed, or has fewer", number % GPUS_MAX,
                   vendor->driver);
        return NULL;
    }
    g_mutex_lock(&lock);
    if (!gpus[number])
        gpus[number] = open_gpu(number, error);
    struct gpu *gpu = gpus[number];
    g_mutex_unlock(&lock);
    return gpu;
}

gint gpu_of_pci(const gchar *pci)
{
    struct gpud_context *context = gpud_gst_context_get(NULL);
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    struct gpud_device_list *list = NULL;
    uint32_t count;
    gint number = -1;

    if (!context || !pci[0] || gpud_device_list_create(context, &list, &count, NULL) != GPUD_OK)
        return -1;
    for (uint32_t i = 0; i < count && number < 0; i++) {
        gpud_device_list_get_info(list, i, &info, NULL);
        if (info.available && g_ascii_strcasecmp(info.pci, pci) == 0) /* CUDA uses capitals */
            number = gpu_of_name(info.name);
    }
    gpud_device_list_destroy(&list);
    return number;
}

void gpu_align_info(const struct gpu *gpu, GstVideoInfo *info)
{
    gint align = gpu->vendor->get_stride_align(gpu), stride = 0;
    gsize offset = 0;

    if (GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo) ||
        GST_VIDEO_FORMAT_INFO_HAS_PALETTE(info->finfo))
        return;
    for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(info); i++)
        stride = MAX(stride, (info->stride[i] + align - 1) / align * align);
    for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(info); i++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info->finfo, i, component);
        info->stride[i] = stride;
        info->offset[i] = offset;
        offset += (gsize)stride * (gsize)GST_VIDEO_INFO_COMP_HEIGHT(info, component[0]);
    }
    info->size = offset;
}

/* --- contexts ----------------------------------------------------------------------------- */

void gpu_contexts_clear(struct gpu_contexts *contexts)
{
    for (guint i = 0; i < GPU_VENDORS_MAX; i++)
        g_clear_object(&contexts->given[i]);
}

void gpu_take_context(GstElement *element, GstContext *context, struct gpu_contexts *contexts)
{
    for (guint i = 0; gpu_vendors[i]; i++) {
        const struct gpu_vendor *vendor = gpu_vendors[i];
        if (!gst_context_has_context_type(context, vendor->context_type) || !vendor->is_available())
            continue;
        GstObject *found = vendor->read_context(element, context);
        if (!found)
            continue;
        GST_OBJECT_LOCK(element);
        GstObject *old = contexts->given[i];
        contexts->given[i] = found;
        GST_OBJECT_UNLOCK(element);
        g_clear_object(&old);
    }
}

static GstObject *get_given(const struct gpu_vendor *vendor, GstElement *element,
                            struct gpu_contexts *contexts)
{
    GstObject **given = &contexts->given[vendor_index(vendor)];

    GST_OBJECT_LOCK(element);
    GstObject *context = *given ? gst_object_ref(*given) : NULL;
    GST_OBJECT_UNLOCK(element);
    return context;
}

static GstObject *ask_neighbour(const struct gpu_vendor *vendor, GstElement *element, GstPad *pad)
{
    GstQuery *query = gst_query_new_context(vendor->context_type);
    GstContext *context = NULL;

    if (gst_pad_peer_query(pad, query))
        gst_query_parse_context(query, &context);
    GstObject *found = context ? vendor->read_context(element, context) : NULL;
    gst_query_unref(query);
    return found;
}

/* The vendor's GPU that the core would choose for this address. */
static gint ask_core(const struct gpu_vendor *vendor, const gchar *address, gchar **reason)
{
    struct gpud_context *context = gpud_gst_context_get(NULL);
    struct gpud_device_info found = GPUD_INFO_INIT(found);
    gchar why[GPUD_REASON_MAX] = "",
          *kind = g_strndup(vendor->prefix, strcspn(vendor->prefix, ":"));
    gint number = -1;

    if (context && gpud_device_get_nearest(context, kind, address ? address : "", &found, why,
                                           NULL) == GPUD_OK)
        number = gpu_of_name(found.name);
    g_free(kind);
    if (number < 0)
        number = number_of(vendor, 0);
    gchar *name = gpu_get_name(number);
    *reason = why[0] ? g_strdup(why) : g_strdup_printf("%s is the first of its kind", name);
    g_free(name);
    return number;
}

gint gpu_find(const struct gpu_vendor *vendor, GstElement *element, GstPad *pad,
              struct gpu_contexts *contexts, const gchar *address, gchar **reason)
{
    gint ordinal;

    if (!vendor->is_available()) {
        *reason = g_strdup_printf("%s is not available", vendor->driver);
        return number_of(vendor, 0);
    }
    GstObject *context = get_given(vendor, element, contexts);
    if (!context)
        context = ask_neighbour(vendor, element, pad);
    if (!context) {
        gst_element_post_message(
            element, gst_message_new_need_context(GST_OBJECT(element), vendor->context_type));
        context = get_given(vendor, element, contexts);
    }
    if (!context)
        return ask_core(vendor, address, reason);
    ordinal = vendor->get_ordinal(context);
    g_clear_object(&context);
    gint number = number_of(vendor, CLAMP(ordinal, 0, GPUS_MAX - 1));
    gchar *name = gpu_get_name(number);
    *reason = g_strdup_printf("%s is the GPU that the pipeline works on", name);
    g_free(name);
    return number;
}

gboolean gpu_answer_query(GstElement *element, GstQuery *query, enum gpu_use use, gint number,
                          gint opened_on, struct gpu_contexts *contexts)
{
    const struct gpu_vendor *vendor = NULL;
    struct gpud_error error;
    const gchar *type;

    if (use == GPU_USE_NONE || !gst_query_parse_context_type(query, &type))
        return FALSE;
    for (guint i = 0; gpu_vendors[i] && !vendor; i++)
        if (g_str_equal(type, gpu_vendors[i]->context_type))
            vendor = gpu_vendors[i];
    if (!vendor || !vendor->is_available() ||
        (use == GPU_USE_NAMED && gpu_get_vendor(number) != vendor))
        return FALSE;
    if (number < 0)
        number = gpu_get_vendor(opened_on) == vendor ? opened_on : number_of(vendor, 0);
    /* A context set by the application is meant for the whole pipeline. */
    GstObject *context = get_given(vendor, element, contexts);
    if (!context) {
        struct gpu *gpu = gpu_get(number, &error);
        if (!gpu) {
            GST_CAT_INFO_OBJECT(gpud_gst_debug, element, "no context to share: %s", error.reason);
            return FALSE;
        }
        context = gst_object_ref(gpu->context);
    }
    gboolean answered = vendor->answer_query(element, query, context);
    gst_object_unref(context);
    return answered;
}

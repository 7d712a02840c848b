/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slots in a GPU's memory, of any vendor. */
#include "memory/memory.h"

#include "base/library.h"
#include "base/plugin.h"
#include "wire/codec.h"

#include <string.h>
#include <unistd.h>

/* === vendors ================================================================================= */
/* The vendors whose memory GStreamer knows here, in the order in which caps offer it. Each has a
 * folder beside this file, whose meson.build says whether it is built. */

extern const struct gpu_vendor gpu_vendor_cuda;

extern const struct gpu_vendor gpu_vendor_hip;

const struct gpu_vendor *const gpu_vendors[GPU_VENDORS_MAX + 1] = {
#ifdef GPU_VENDOR_CUDA
    &gpu_vendor_cuda,
#endif
#ifdef GPU_VENDOR_HIP
    &gpu_vendor_hip,
#endif
    NULL,
};

/* === gpu ===================================================================================== */
/* GPUs of all vendors: their numbers, caps and contexts. */

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
    const GstStructure *structure = gst_caps_get_structure(caps, 0);

    if (g_strcmp0(gst_structure_get_string(structure, "interlace-mode"), "alternate") == 0 ||
        !gst_structure_has_name(structure, VIDEO_RAW))
        return NULL;
    GstCaps *copy = gst_caps_copy(caps);

    gst_caps_set_features(copy, 0, gst_caps_features_new(vendor->feature, NULL));
    return copy;
}

/* Whether the neighbours may want its memory. Those that make or take some have loaded its library.
 * Where nothing has, the driver is not loaded to find out: it is enough that the kernel has one. */
static gboolean may_be_used(const struct gpu_vendor *vendor)
{
    gboolean has_driver = FALSE;

    if (gpud_library_is_loaded(vendor->library))
        return vendor->is_available();
    for (guint i = 0; vendor->nodes[i]; i++)
        has_driver |= access(vendor->nodes[i], F_OK) == 0;
    return has_driver;
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
        if (may_be_used(gpu_vendors[i]))
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
            (use == GPU_USE_ANY && may_be_used(vendor)))
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
    if (!gpus[number]) {
        struct gpud_context *context = gpud_gst_context_get(error);
        struct gpu *gpu = g_new0(struct gpu, 1);
        gchar *name = gpu_get_name(number);
        gpu->vendor = vendor;
        gpu->number = number;
        gpu->ordinal = number % GPUS_MAX;
        if (context && gpud_device_open(context, name, &gpu->device, error) == GPUD_OK)
            gpu->context = vendor->wrap_context(gpu, error);
        g_free(name);
        if (gpu->context) {
            GST_OBJECT_FLAG_SET(gpu->context, GST_OBJECT_FLAG_MAY_BE_LEAKED);
            gpus[number] = gpu;
        } else {
            gpud_device_close(&gpu->device);
            g_free(gpu);
        }
    }
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
    if (!vendor->is_available()) {
        *reason = g_strdup_printf("%s is not available", vendor->driver);
        return number_of(vendor, 0);
    }
    GstObject *context = get_given(vendor, element, contexts);
    if (!context) {
        GstQuery *query = gst_query_new_context(vendor->context_type);
        GstContext *answer = NULL;
        if (gst_pad_peer_query(pad, query))
            gst_query_parse_context(query, &answer);
        context = answer ? vendor->read_context(element, answer) : NULL;
        gst_query_unref(query);
    }
    if (!context) {
        gst_element_post_message(
            element, gst_message_new_need_context(GST_OBJECT(element), vendor->context_type));
        context = get_given(vendor, element, contexts);
    }
    if (!context)
        return ask_core(vendor, address, reason);
    gint ordinal = vendor->get_ordinal(context);
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

/* === gpuslot ================================================================================= */

static const struct gpu_vendor *vendor_of(const struct slot_memory *slot)
{
    return slot->store->gpu->vendor;
}

static gpointer stream_of(const struct slot_memory *slot)
{
    return vendor_of(slot)->get_stream(slot->memory);
}

gpointer gpu_slot_pointer(struct gpud_frame *frame)
{
    struct gpud_frame_info info;

    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    return (guint8 *)info.native + info.memory_offset;
}

GstVideoInfo gpu_slot_info(const struct slot_store *store, const struct gpud_layout *layout,
                           const struct video_planes *planes)
{
    GstVideoInfo info = store->info;

    for (guint i = 0; i < planes->count; i++) {
        info.offset[i] = planes->offset[i];
        info.stride[i] = planes->stride[i];
    }
    info.size = (gsize)layout->size;
    return info;
}

/* --- order -------------------------------------------------------------------------------- */

/* The stream may hold work of the elements, or a wait for a frame. The latter always ends, because
 * the core releases GPUs that wait for a dead peer. */
static void wait_on_cpu(struct slot_memory *slot)
{
    const struct gpu *gpu = slot->store->gpu;

    counter_add(&slot->store->counters->waits_device);
    if (!gpu->vendor->enter(gpu))
        return;
    gpu->vendor->finish(gpu, stream_of(slot));
    gpu->vendor->leave(gpu);
}

/* Orders the memory's stream after the frame's bytes. Under the lock, which is dropped if the CPU
 * has to wait for them. */
static gboolean make_visible(struct slot_memory *slot)
{
    struct gpud_error error;

    if (slot->visible)
        return TRUE;
    gpointer stream = stream_of(slot);
    enum gpud_status status = gpud_frame_wait(slot->frame, stream, &error); /* does not wait */
    if (status == GPUD_PEER) /* the frame is now flagged as corrupted, and can still be shown */
        status = gpud_frame_wait(slot->frame, stream, &error);
    if (status == GPUD_UNSUPPORTED) {
        g_mutex_unlock(&slot->lock);
        gboolean mapped = slot_memory_map(slot, GST_MAP_READ) != NULL;
        if (mapped)
            slot_memory_unmap(slot);
        g_mutex_lock(&slot->lock);
        counter_add(&slot->store->counters->waits_device);
        status = mapped ? GPUD_OK : status;
    }
    if (status != GPUD_OK) {
        GST_CAT_ERROR(gpud_gst_debug, "slot %u cannot be used by the GPU: %s", slot->slot,
                      error.reason);
        return FALSE;
    }
    slot->visible = TRUE;
    return TRUE;
}

void gpu_slot_arrived(struct slot_memory *slot)
{
    g_mutex_lock(&slot->lock);
    slot->visible = slot->extra;
    slot->used = slot->written = FALSE;
    if (vendor_of(slot)->orders_early && make_visible(slot)) {
        slot->used = TRUE;
        vendor_of(slot)->set_pending(slot->memory);
    }
    g_mutex_unlock(&slot->lock);
}

void gpu_slot_leaving(struct slot_memory *slot)
{
    struct gpud_error error;
    gboolean waits = FALSE;

    g_mutex_lock(&slot->lock);
    if (slot->used && slot->extra) {
        waits = TRUE; /* its memory is about to be freed */
    } else if (slot->used && gpud_frame_post(slot->frame, stream_of(slot), &error) != GPUD_OK) {
        GST_CAT_DEBUG(gpud_gst_debug, "the CPU waits for slot %u: %s", slot->slot, error.reason);
        waits = TRUE;
    }
    slot->used = FALSE;
    g_mutex_unlock(&slot->lock);
    if (waits)
        wait_on_cpu(slot);
}

/* --- mapping ------------------------------------------------------------------------------ */

static gpointer gpu_slot_map(GstMemory *memory, GstMapInfo *info, gsize maxsize)
{
    struct slot_memory *slot = slot_memory_of(memory);

    if (info->flags & vendor_of(slot)->map_flag) {
        g_mutex_lock(&slot->lock);
        gboolean visible = make_visible(slot);
        slot->used |= visible;
        if (visible && (info->flags & GST_MAP_WRITE)) {
            slot->written = slot->filled = TRUE;
            vendor_of(slot)->set_pending(slot->memory);
        }
        g_mutex_unlock(&slot->lock);
        return visible ? gpu_slot_pointer(slot->frame) : NULL;
    }
    /* Several threads may wait for the same work; none returns the bytes before it is done. */
    g_mutex_lock(&slot->lock);
    gboolean written = slot->written;
    g_mutex_unlock(&slot->lock);
    if (written) {
        wait_on_cpu(slot);
        g_mutex_lock(&slot->lock);
        slot->written = FALSE;
        g_mutex_unlock(&slot->lock);
    }
    return slot_memory_map(slot, info->flags);
}

static void gpu_slot_unmap(GstMemory *memory, GstMapInfo *info)
{
    struct slot_memory *slot = slot_memory_of(memory);

    if (info->flags & vendor_of(slot)->map_flag)
        return;
    if (!slot_memory_unmap(slot))
        return;
    /* The core is uploading what the CPU wrote, so the GPU must wait again. That is ordered now,
     * while only the writer has the memory: later the frame may be in a submit. */
    g_mutex_lock(&slot->lock);
    slot->visible = FALSE;
    slot->used |= make_visible(slot);
    g_mutex_unlock(&slot->lock);
}

/* --- copies ------------------------------------------------------------------------------- */

static gboolean copy_rows(const struct slot_memory *slot, const struct gpu_rows *rows, guint count)
{
    const struct gpu *gpu = slot->store->gpu;
    gboolean copied = gpu->vendor->enter(gpu);

    if (!copied)
        return FALSE;
    for (guint i = 0; i < count && copied; i++)
        copied = gpu->vendor->copy_rows(gpu, stream_of(slot), &rows[i]);
    gpu->vendor->leave(gpu);
    if (copied)
        counter_add(&slot->store->counters->copies_gpu);
    return copied;
}

static GstMemory *copy_part(GstMemory *memory, gsize offset, gsize size)
{
    GstMemory *copy = gst_allocator_alloc(NULL, size, NULL);
    GstMapInfo from, to;

    if (!gst_memory_map(memory, &from, GST_MAP_READ)) {
        gst_memory_unref(copy);
        return NULL;
    }
    gst_memory_map(copy, &to, GST_MAP_WRITE);
    memcpy(to.data, from.data + offset, size);
    gst_memory_unmap(copy, &to);
    gst_memory_unmap(memory, &from);
    return copy;
}

/* A copy of the whole memory stays on the GPU with the same layout, because the buffer's
 * GstVideoMeta is copied, too. */
static GstMemory *gpu_slot_copy(GstMemory *memory, gssize offset, gssize size)
{
    struct slot_memory *slot = slot_memory_of(memory);
    GstMapFlags for_gpu = vendor_of(slot)->map_flag;
    GstMapInfo from, to;
    gboolean copied = FALSE;
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;

    if (memory->parent || offset != 0 || length != memory->maxsize)
        return copy_part(memory, (gsize)offset, length);
    GstMemory *copy = slot_store_get_extra(slot->store);
    if (!copy)
        return NULL;
    if (copy->maxsize < length) {
        gst_memory_unref(copy);
        return copy_part(memory, 0, length);
    }
    if (gst_memory_map(memory, &from, GST_MAP_READ | for_gpu)) {
        if (gst_memory_map(copy, &to, GST_MAP_WRITE | for_gpu)) {
            const struct gpu_rows all = {from.data, to.data, length, length, length, 1};
            copied = copy_rows(slot, &all, 1);
            gst_memory_unmap(copy, &to);
        }
        gst_memory_unmap(memory, &from);
    }
    if (copied)
        return copy;
    gst_memory_unref(copy);
    return NULL;
}

gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to)
{
    struct slot_memory *slot = slot_memory_of(gst_buffer_peek_memory(from, 0));
    GstMapFlags for_gpu = vendor_of(slot)->map_flag;
    struct gpu_rows rows[GPUD_PLANES_MAX];
    struct gpud_layout layout;
    GstVideoFrame source, target;
    gboolean copied = FALSE;

    if (!layout_from_info(&layout, info) ||
        !gst_video_frame_map(&source, info, from, GST_MAP_READ | for_gpu))
        return FALSE;
    if (gst_video_frame_map(&target, info, to,
                            GST_MAP_WRITE | for_gpu |
                                (GstMapFlags)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
        for (guint i = 0; i < layout.planes; i++)
            rows[i] = (struct gpu_rows){
                .from = GST_VIDEO_FRAME_PLANE_DATA(&source, i),
                .from_stride =
                    MAX((gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&source, i), layout.plane[i].row_bytes),
                .to = GST_VIDEO_FRAME_PLANE_DATA(&target, i),
                .to_stride =
                    MAX((gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&target, i), layout.plane[i].row_bytes),
                .bytes = layout.plane[i].row_bytes,
                .rows = layout.plane[i].rows,
            };
        copied = copy_rows(slot, rows, layout.planes);
        gst_video_frame_unmap(&target);
    }
    gst_video_frame_unmap(&source);
    return copied;
}

void gpu_slot_init_allocator(GstAllocator *allocator)
{
    allocator->mem_map_full = gpu_slot_map;
    allocator->mem_unmap_full = gpu_slot_unmap;
    allocator->mem_copy = gpu_slot_copy;
}

/* === gpuframe ================================================================================ */
/* The pointer is wrapped anew for each picture, because only the release of the wrapper shows that
 * the core's copy is done and the buffer may return to its pool. */

struct mapped {
    GstBuffer *buffer;
    GstMapInfo map;
};

static void gpuframe_unmap(void *user)
{
    struct mapped *mapped = user;

    gst_buffer_unmap(mapped->buffer, &mapped->map);
    gst_buffer_unref(mapped->buffer);
    g_free(mapped);
}

static void G_GNUC_PRINTF(2, 3) refuse(struct gpud_error *error, const gchar *format, ...)
{
    va_list arguments;

    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    va_start(arguments, format);
    g_vsnprintf(error->reason, sizeof(error->reason), format, arguments);
    va_end(arguments);
}

static struct gpud_frame *gpuframe_wrap(struct gpu *gpu, struct mapped *mapped,
                                        const struct gpud_layout *layout, struct gpud_error *error)
{
    struct gpud_memory *memory = NULL;
    struct gpud_frame *frame = NULL;

    if (gpud_memory_wrap(gpu->device, mapped->map.data, mapped->map.size, gpuframe_unmap, mapped,
                         &memory, error) != GPUD_OK) {
        gpuframe_unmap(mapped);
        return NULL;
    }
    if (gpud_frame_wrap(memory, 0, layout, &frame, error) != GPUD_OK)
        frame = NULL;
    gpud_memory_unref(&memory);
    return frame;
}

struct gpud_frame *gpu_wrap_buffer(const struct gpu_vendor *vendor, GstBuffer *buffer,
                                   struct counters *counters, struct gpud_error *error)
{
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;
    const GstVideoInfo *info;
    struct mapped *mapped;
    struct gpud_layout layout;
    gpointer stream;
    gint ordinal;

    if (!memory || !vendor->look_into(memory, &ordinal, &info)) {
        refuse(error,
               "a buffer with caps of %s is not a single block of such memory on a GPU of %s: put "
               "%s before gpudirectsink",
               vendor->memory, vendor->maker, vendor->upload);
        return NULL;
    }
    if (ordinal < 0 || ordinal >= GPUS_MAX) {
        refuse(error, "GPU %d is beyond the supported number of GPUs", ordinal);
        return NULL;
    }
    struct gpu *gpu = gpu_get(number_of(vendor, ordinal), error);
    if (!gpu)
        return NULL;
    mapped = g_new0(struct mapped, 1);
    if (!gst_buffer_map(buffer, &mapped->map, GST_MAP_READ | vendor->map_flag)) {
        g_free(mapped);
        refuse(error, "a buffer in the memory of GPU %d cannot be mapped", gpu->ordinal);
        return NULL;
    }
    mapped->buffer = gst_buffer_ref(buffer);
    if (!layout_from_buffer(&layout, info, buffer, mapped->map.size)) {
        gpuframe_unmap(mapped);
        refuse(error, "the rows of a buffer do not lie within its memory");
        return NULL;
    }
    if (vendor->await_writes(memory, gpu, &stream))
        counter_add(&counters->waits_device);
    /* Some drivers look up a pointer's device only in a thread with a current device. */
    vendor->enter(gpu);
    struct gpud_frame *frame = gpuframe_wrap(gpu, mapped, &layout, error);
    vendor->leave(gpu);
    if (frame && gpud_frame_post(frame, stream, error) != GPUD_OK)
        gpud_frame_release(&frame);
    return frame;
}

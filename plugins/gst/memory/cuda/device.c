/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GPUs and the contexts that a pipeline shares. */
#include "context.h"
#include "memory/gpu.h"

#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

#define GPUS_MAX 64

/* A stride that serves as the pitch of a texture on every GPU, should the driver not say. */
#define STRIDE_ALIGN 32

const gchar gpu_template_caps[] = ";" SLOT_CUDA_CAPS;

/* A library that is not there will not come while the process runs, and looking costs time. */
gboolean gpu_supported(void)
{
    static gsize answer;

    if (g_once_init_enter(&answer)) {
        gboolean loaded = gst_cuda_load_library();
        if (loaded)
            gst_cuda_memory_init_once();
        g_once_init_leave(&answer, loaded ? 1 : 2);
    }
    return answer == 1;
}

/* --- devices ------------------------------------------------------------------------------ */

static struct gpu *open_gpu(gint ordinal, struct gpud_error *error)
{
    struct gpud_context *context = gpud_gst_context_get(error);
    struct gpu *gpu = g_new0(struct gpu, 1);
    gchar *name = g_strdup_printf("cuda:%d", ordinal);
    CUdevice device;

    gpu->ordinal = ordinal;
    gboolean opened = context && gpud_device_open(context, name, &gpu->device, error) == GPUD_OK;
    g_free(name);
    if (opened && CuDeviceGet(&device, ordinal) == CUDA_SUCCESS) {
        void *primary = gpud_device_get_native(gpu->device);
        gpu->context = (GstObject *)gst_cuda_context_new_wrapped(primary, device);
    }
    if (gpu->context) {
        /* It stays for good: freeing it would switch off the access between GPUs that the core
         * may be using in the same primary contexts. */
        GST_OBJECT_FLAG_SET(gpu->context, GST_OBJECT_FLAG_MAY_BE_LEAKED);
        return gpu;
    }
    if (opened) {
        *error = (struct gpud_error){.status = GPUD_NO_DEVICE};
        g_snprintf(error->reason, sizeof(error->reason),
                   "GStreamer's CUDA library cannot use GPU %d: look at GST_DEBUG=cuda*:5",
                   ordinal);
    }
    gpud_device_close(&gpu->device);
    g_free(gpu);
    return NULL;
}

struct gpu *gpu_get(gint ordinal, struct gpud_error *error)
{
    static GMutex lock;
    static struct gpu *gpus[GPUS_MAX];

    if (!gpu_supported() || ordinal < 0 || ordinal >= GPUS_MAX) {
        *error = (struct gpud_error){.status = GPUD_NO_DEVICE};
        g_snprintf(error->reason, sizeof(error->reason),
                   "there is no GPU %d: NVIDIA's driver (libcuda.so.1) is not installed, or has "
                   "not as many",
                   ordinal);
        return NULL;
    }
    g_mutex_lock(&lock);
    if (!gpus[ordinal])
        gpus[ordinal] = open_gpu(ordinal, error);
    struct gpu *gpu = gpus[ordinal];
    g_mutex_unlock(&lock);
    return gpu;
}

gchar *gpu_get_place(gint ordinal)
{
    struct gpud_context *context = gpud_gst_context_get(NULL);
    struct gpud_device *device = NULL;
    struct gpud_device_info info = {0};
    gchar *name = g_strdup_printf("cuda:%d", ordinal);

    if (context && gpud_device_open(context, name, &device, NULL) == GPUD_OK)
        gpud_device_get_info(device, &info);
    gpud_device_close(&device);
    g_free(name);
    return info.pci[0] ? g_strdup(info.pci) : NULL;
}

gint gpu_of_place(const gchar *place)
{
    struct gpud_context *context = gpud_gst_context_get(NULL);
    size_t count = context && place[0] ? gpud_device_list(context, NULL, 0) : 0;
    struct gpud_device_info *infos = g_new0(struct gpud_device_info, count + 1);
    gint ordinal = -1;

    if (count > 0)
        count = MIN(count, gpud_device_list(context, infos, count));
    for (size_t i = 0; i < count && ordinal < 0; i++)
        if (infos[i].available && g_str_equal(infos[i].pci, place))
            ordinal = gpu_ordinal_of_name(infos[i].name);
    g_free(infos);
    return ordinal;
}

/* --- contexts ----------------------------------------------------------------------------- */

void gpu_take_context(GstElement *element, GstContext *context, GstObject **given)
{
    GstCudaContext *found = NULL;

    if (!gpu_supported() || !gst_cuda_handle_set_context(element, context, -1, &found) || !found)
        return;
    GST_OBJECT_LOCK(element);
    GstObject *old = *given;
    *given = GST_OBJECT(found);
    GST_OBJECT_UNLOCK(element);
    g_clear_object(&old);
}

static GstCudaContext *get_given(GstElement *element, GstObject **given)
{
    GST_OBJECT_LOCK(element);
    GstObject *context = *given ? gst_object_ref(*given) : NULL;
    GST_OBJECT_UNLOCK(element);
    return (GstCudaContext *)context;
}

static GstCudaContext *ask_neighbour(GstElement *element, GstPad *pad)
{
    GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
    GstCudaContext *found = NULL;
    GstContext *context = NULL;

    if (gst_pad_peer_query(pad, query))
        gst_query_parse_context(query, &context);
    if (context)
        gst_cuda_handle_set_context(element, context, -1, &found);
    gst_query_unref(query);
    return found;
}

gint gpu_find(GstElement *element, GstPad *pad, GstObject **given)
{
    guint ordinal = 0;

    if (!gpu_supported())
        return 0;
    GstCudaContext *context = get_given(element, given);
    if (!context)
        context = ask_neighbour(element, pad);
    if (!context) {
        gst_element_post_message(
            element, gst_message_new_need_context(GST_OBJECT(element), GST_CUDA_CONTEXT_TYPE));
        context = get_given(element, given);
    }
    if (context)
        g_object_get(context, "cuda-device-id", &ordinal, NULL);
    g_clear_object(&context);
    return (gint)ordinal;
}

gboolean gpu_answer_query(GstElement *element, GstQuery *query, gint ordinal, GstObject **given)
{
    const gchar *type;
    struct gpud_error error;

    if (!gst_query_parse_context_type(query, &type) || !g_str_equal(type, GST_CUDA_CONTEXT_TYPE) ||
        !gpu_supported())
        return FALSE;
    /* What the application gave is what it wants to be used. */
    GstCudaContext *context = get_given(element, given);
    if (!context) {
        struct gpu *gpu = gpu_get(ordinal, &error);
        if (!gpu) {
            GST_CAT_INFO_OBJECT(gpud_gst_debug, element, "no context to share: %s", error.reason);
            return FALSE;
        }
        context = (GstCudaContext *)gst_object_ref(gpu->context);
    }
    gboolean answered = gst_cuda_handle_context_query(element, query, context);
    gst_object_unref(context);
    return answered;
}

/* --- geometry ----------------------------------------------------------------------------- */

void gpu_align_info(struct gpu *gpu, GstVideoInfo *info)
{
    gint said = gst_cuda_context_get_texture_alignment((GstCudaContext *)gpu->context);
    gint align = MAX(said, STRIDE_ALIGN), stride = 0;
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

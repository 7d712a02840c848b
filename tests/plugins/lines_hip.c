/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* AMD's part of lines.h. */
#include "lines.h"

#include <gmodule.h>

guint lines_vendor_count(void)
{
    g_autoptr(GstElementFactory) factory = gst_element_factory_find("hipupload");
    int count = 0;

    if (!factory) {
        g_print("skipped: GStreamer has no hipupload here (no HIP runtime, or no libhiprtc)\n");
        return 0;
    }
    if (!gst_hip_load_library(GST_HIP_VENDOR_AMD) ||
        HipGetDeviceCount(GST_HIP_VENDOR_AMD, &count) != hipSuccess || count == 0)
        g_print("skipped: AMD's runtime finds no GPU\n");
    return (guint)MIN(count, 64);
}

GstObject *lines_vendor_context(void)
{
    GstHipDevice *device = gst_hip_device_new(GST_HIP_VENDOR_AMD, 0);

    fail_unless(device != NULL);
    return GST_OBJECT(device);
}

GstContext *lines_vendor_share(GstObject *context)
{
    return gst_context_new_hip_device((GstHipDevice *)context);
}

guint64 lines_vendor_free_memory(GstObject *context)
{
    typedef int (*get_info_fn)(size_t *, size_t *);
    GModule *runtime = g_module_open("libamdhip64.so.6", G_MODULE_BIND_LAZY);
    gpointer get_info = NULL;
    size_t available = 0, total;

    fail_unless(runtime && g_module_symbol(runtime, "hipMemGetInfo", &get_info));
    fail_unless(gst_hip_device_set_current((GstHipDevice *)context));
    fail_unless_equals_int(((get_info_fn)get_info)(&available, &total), 0);
    g_module_close(runtime);
    return available;
}

/* A texture would be one of what the library allocated for the memory, not of the slot: there must
 * be none, though the GPU has textures. */
const GstVideoInfo *lines_vendor_check(GstMemory *memory)
{
    GstHipMemory *hip = GST_HIP_MEMORY_CAST(memory);
    GstHipDevice *plain = gst_hip_device_new(GST_HIP_VENDOR_AMD, 0);
    gboolean has_textures = FALSE;
    hipTextureObject_t texture;

    fail_unless(gst_is_hip_memory(memory));
    fail_unless(gst_hip_device_is_equal(hip->device, plain));
    fail_unless_equals_int(gst_hip_device_get_vendor(hip->device), GST_HIP_VENDOR_AMD);
    fail_unless(gst_hip_memory_get_stream(hip) == gst_hip_device_get_stream(hip->device));
    fail_unless(gst_hip_memory_get_stream(hip) != NULL);
    gst_hip_memory_sync(hip);
    g_object_get(plain, "texture2d-support", &has_textures, NULL);
    fail_unless(has_textures, "this shows nothing on a GPU without textures");
    g_object_get(hip->device, "texture2d-support", &has_textures, NULL);
    fail_if(has_textures);
    for (guint plane = 0; plane < GST_VIDEO_INFO_N_PLANES(&hip->info); plane++)
        fail_if(gst_hip_memory_get_texture(hip, plane, (HIPfilter_mode)0, (HIPaddress_mode)1,
                                           &texture));
    gst_object_unref(plain);
    return &hip->info;
}

gpointer lines_vendor_stream(GstMemory *memory)
{
    return gst_hip_stream_get_handle(gst_hip_memory_get_stream(GST_HIP_MEMORY_CAST(memory)));
}

void lines_vendor_sync(GstMemory *memory)
{
    gst_hip_memory_sync(GST_HIP_MEMORY_CAST(memory));
}

void lines_vendor_copy(GstMemory *from, GstMemory *to)
{
    GstMapInfo source, target;

    fail_unless(gst_memory_map(from, &source, GST_MAP_READ_HIP));
    fail_unless(gst_memory_map(to, &target, GST_MAP_WRITE_HIP));
    const hip_Memcpy2D copy = {
        .srcMemoryType = hipMemoryTypeDevice,
        .srcDevice = source.data,
        .srcPitch = source.size,
        .dstMemoryType = hipMemoryTypeDevice,
        .dstDevice = target.data,
        .dstPitch = source.size,
        .WidthInBytes = MIN(source.size, target.size),
        .Height = 1,
    };
    fail_unless(gst_hip_device_set_current(GST_HIP_MEMORY_CAST(to)->device));
    fail_unless_equals_int(
        HipMemcpyParam2DAsync(GST_HIP_VENDOR_AMD, &copy, lines_vendor_stream(to)), hipSuccess);
    gst_memory_unmap(to, &target);
    gst_memory_unmap(from, &source);
}

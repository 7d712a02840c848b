/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in GPU memory that another element allocated, which the core reads in place.
 *
 * The pointer is wrapped anew for each picture, because only the release of the wrapper shows that
 * the core's copy is done and the buffer may return to its pool. */
#include "memory/gpuframe.h"

#include "memory/gpu.h"
#include "wire/caps.h"

struct mapped {
    GstBuffer *buffer;
    GstMapInfo map;
};

static void unmap(void *user)
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

static struct gpu *get_gpu(const struct gpu_vendor *vendor, gint ordinal, struct gpud_error *error)
{
    gchar *name = g_strdup_printf("%s%d", vendor->prefix, ordinal);
    gint number = gpu_of_name(name);

    g_free(name);
    if (number >= 0)
        return gpu_get(number, error);
    refuse(error, "GPU %d is beyond the supported number of GPUs", ordinal);
    return NULL;
}

static struct gpud_frame *wrap(struct gpu *gpu, struct mapped *mapped,
                               const struct gpud_layout *layout, struct gpud_error *error)
{
    struct gpud_memory *memory = NULL;
    struct gpud_frame *frame = NULL;

    if (gpud_memory_wrap(gpu->device, mapped->map.data, mapped->map.size, unmap, mapped, &memory,
                         error) != GPUD_OK) {
        unmap(mapped);
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
    struct gpu *gpu = get_gpu(vendor, ordinal, error);
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
        unmap(mapped);
        refuse(error, "the rows of a buffer do not lie within its memory");
        return NULL;
    }
    if (vendor->await_writes(memory, gpu, &stream))
        counter_add(&counters->waits_device);
    /* Some drivers look up a pointer's device only in a thread with a current device. */
    vendor->enter(gpu);
    struct gpud_frame *frame = wrap(gpu, mapped, &layout, error);
    vendor->leave(gpu);
    if (frame && gpud_frame_post(frame, stream, error) != GPUD_OK)
        gpud_frame_release(&frame);
    return frame;
}

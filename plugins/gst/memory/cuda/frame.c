/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in GstCudaMemory that another element allocated: the core reads them where they lie.
 *
 * The pointer is wrapped again for each picture, because only the end of the wrapping says that the
 * core's copy is done and the buffer may go back to its pool. */
#include "memory/cuda/cuda.h"
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

static GstCudaMemory *memory_of(GstBuffer *buffer, struct gpud_error *error)
{
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;

    if (memory && gst_is_cuda_memory(memory))
        return GST_CUDA_MEMORY_CAST(memory);
    refuse(error, "a buffer with caps of CUDA memory is not one block of such memory: put "
                  "cudaupload before gpudirectsink");
    return NULL;
}

static struct gpu *get_gpu(const GstCudaMemory *memory, struct gpud_error *error)
{
    guint ordinal = 0;

    g_object_get(memory->context, "cuda-device-id", &ordinal, NULL);
    gchar *name = g_strdup_printf("cuda:%u", ordinal);
    gint number = gpu_of_name(name);
    g_free(name);
    if (number >= 0)
        return gpu_get(number, error);
    refuse(error, "GPU %u is one more than can be counted", ordinal);
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

struct gpud_frame *cuda_wrap_buffer(GstBuffer *buffer, struct counters *counters,
                                    struct gpud_error *error)
{
    GstCudaMemory *memory = memory_of(buffer, error);
    struct mapped *mapped;
    struct gpud_layout layout;
    CUstream stream;

    if (!memory)
        return NULL;
    struct gpu *gpu = get_gpu(memory, error);
    if (!gpu)
        return NULL;
    mapped = g_new0(struct mapped, 1);
    if (!gst_buffer_map(buffer, &mapped->map, GST_MAP_READ | GST_MAP_CUDA)) {
        g_free(mapped);
        refuse(error, "a buffer in the memory of GPU %d cannot be mapped", gpu->ordinal);
        return NULL;
    }
    mapped->buffer = gst_buffer_ref(buffer);
    if (!layout_from_buffer(&layout, &memory->info, buffer, mapped->map.size)) {
        unmap(mapped);
        refuse(error, "the rows of a buffer do not lie within its memory");
        return NULL;
    }
    if (cuda_series_await_writes(memory, gpu, &stream))
        counter_add(&counters->waits_device);
    /* The driver says which device a pointer belongs to only in a thread that has a context. */
    gst_cuda_context_push((GstCudaContext *)gpu->context);
    struct gpud_frame *frame = wrap(gpu, mapped, &layout, error);
    gst_cuda_context_pop(NULL);
    if (frame && gpud_frame_post(frame, stream, error) != GPUD_OK)
        gpud_frame_release(&frame);
    return frame;
}

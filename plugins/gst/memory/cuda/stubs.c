/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's CUDA library, and with it those of OpenGL and of displays, is opened when a GPU of
 * NVIDIA's is first used: core/base/library.h says how. */
#include "base/library.h"

#ifdef GPUD_STUB_JUMP /* else it is linked */
/* clang-format off */
#if GPU_CUDA_STREAMS
#define SERIES(F)                                                                \
    F(gst_buffer_pool_config_get_cuda_stream) F(gst_clear_cuda_stream)           \
    F(gst_cuda_allocator_alloc_wrapped) F(gst_cuda_memory_get_stream)            \
    F(gst_cuda_memory_sync) F(gst_cuda_stream_get_handle) F(gst_cuda_stream_new) \
    F(gst_cuda_stream_unref)
#else
#define SERIES(F)
#endif
#define GSTCUDA(F)                                                                     \
    SERIES(F)                                                                          \
    F(CuDeviceGet) F(CuMemcpy2DAsync) F(CuStreamSynchronize)                           \
    F(gst_cuda_allocator_get_type) F(gst_cuda_buffer_pool_get_type)                    \
    F(gst_cuda_context_get_handle) F(gst_cuda_context_get_texture_alignment)           \
    F(gst_cuda_context_new_wrapped) F(gst_cuda_context_pop) F(gst_cuda_context_push)   \
    F(gst_cuda_handle_context_query) F(gst_cuda_handle_set_context)                    \
    F(gst_cuda_load_library) F(gst_cuda_memory_init_once) F(gst_is_cuda_memory)
/* clang-format on */
GPUD_STUBS(gstcuda, GSTCUDA, "libgstcuda-1.0.so.0", "libgstreamer-plugins-bad1.0-0")
#endif

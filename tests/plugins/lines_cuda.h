/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's CUDA elements, for lines.h. */
#ifndef GPUD_TESTS_PLUGINS_LINES_CUDA_H
#define GPUD_TESTS_PLUGINS_LINES_CUDA_H

#include <gst/cuda/gstcudabufferpool.h>

#define GPU_0 "cuda:0"
#define GPU_1 "cuda:1"
#define UPLOADER "cudaupload"
#define UPLOADER_1 "cudaupload cuda-device-id=1"
#define DOWNLOADER "cudadownload"
#define CAPS_GPU "video/x-raw(memory:CUDAMemory)"
#define GPU_MEMORY "gst.cuda.memory"
#define GPU_TYPE_POOL GST_TYPE_CUDA_BUFFER_POOL
#define GPU_SHARES_POOLS FALSE /* with elements that an application gave a context of its own */

#endif

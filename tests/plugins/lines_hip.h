/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's HIP elements, for lines.h. */
#ifndef GPUD_TESTS_PLUGINS_LINES_HIP_H
#define GPUD_TESTS_PLUGINS_LINES_HIP_H

#include <gst/hip/gsthip.h>

#define GPU_0 "hip:0"
#define GPU_1 "hip:1"
#define UPLOADER "hipupload vendor=amd"
#define UPLOADER_1 "hipupload vendor=amd device-id=1"
#define DOWNLOADER "hipdownload vendor=amd"
#define CAPS_GPU "video/x-raw(memory:HIPMemory)"
#define GPU_MEMORY GST_HIP_MEMORY_NAME
#define GPU_TYPE_POOL GST_TYPE_HIP_BUFFER_POOL
#define GPU_SHARES_POOLS TRUE /* HIP has one context a GPU */

#endif

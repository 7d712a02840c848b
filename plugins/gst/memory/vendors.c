/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vendors whose memory GStreamer knows here, in the order in which caps offer it. Each has a
 * folder beside this file, whose meson.build says whether it is built. */
#include "memory/vendors.h"

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

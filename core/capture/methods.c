/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capture/internal.h"

const struct gpud_capture_method *const gpud_capture_methods[] = {
    &gpud_capture_dmabuf,
    &gpud_capture_userptr,
    &gpud_capture_mmap,
    &gpud_capture_mmap_by_cpu,
    NULL,
};

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory that crosses processes, as an opaque descriptor. Only the driver that made one can read
 * it: the same GPU and the same build of the driver, which both ends compare by UUID. */
#ifndef GPUD_VULKAN_SHARE_H
#define GPUD_VULKAN_SHARE_H

#include "device/vulkan/vulkan.h"

/* The ops of that name. */
enum gpud_status gpud_vulkan_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                    struct gpud_error *error);
enum gpud_status gpud_vulkan_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                    struct gpud_error *error);

#endif

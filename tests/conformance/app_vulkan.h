/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An application with a VkDevice of its own, which puts images on the library's frames. It knows
 * nothing but the public API. */
#ifndef GPUD_CONFORMANCE_APP_VULKAN_H
#define GPUD_CONFORMANCE_APP_VULKAN_H

#include <gpudirect/gpudirect.h>

struct app;

/* Its own instance and device, on the GPU and driver that the memory is of. */
struct app *app_open(struct gpud_memory *memory);
void app_close(struct app **app);

/* The modifiers that the driver has for a format, but for that of rows; returns how many. Without a
 * device: of the first one. */
uint32_t app_list_modifiers(const char *format, uint64_t modifiers[GPUD_MODIFIERS_MAX]);

/* Writes and reads the image that a frame is, from and to rows that lie as `rows` says. */
void app_write(struct app *app, struct gpud_frame *frame, const struct gpud_layout *rows,
               const void *data);
void app_read(struct app *app, struct gpud_frame *frame, const struct gpud_layout *rows,
              void *data);

#endif

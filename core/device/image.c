/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Images: the checks around a backend's image ops. */
#include "device/device.h"

enum gpud_status gpud_image_describe(struct gpud_device *device, const struct gpud_layout *rows,
                                     const uint64_t *modifiers, uint32_t count,
                                     struct gpud_layout *image, struct gpud_error *error)
{
    if (!(device->caps & GPUD_CAP_IMAGES))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s has no images that can be shared: a Vulkan device has, whose driver "
                         "exports memory (VK_KHR_external_memory_fd)",
                         device->info.name);
    return device->ops->image->describe(device, rows, modifiers, count, image, error);
}

static bool lies_in(const struct gpud_layout *layout, uint64_t offset,
                    const struct gpud_memory *memory)
{
    return offset <= memory->size && layout->size <= memory->size - offset;
}

enum gpud_status gpud_image_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                 const struct gpud_layout *to, const struct gpud_layout *from,
                                 struct gpud_error *error)
{
    const struct gpud_device *device = queue->device;
    if (!(device->caps & GPUD_CAP_IMAGES) || (to->modifier && from->modifier))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s does not arrange a picture of the DRM modifier 0x%016llx by 0x%016llx",
                         device->info.name, (unsigned long long)from->modifier,
                         (unsigned long long)to->modifier);
    if (frames->to->device != device || frames->from->device != device ||
        !lies_in(to, frames->to_offset, frames->to) ||
        !lies_in(from, frames->from_offset, frames->from) || frames->to->read_only)
        return gpud_fail(error, GPUD_INVALID, "a copy of a picture leaves the memory of %s",
                         device->info.name);
    gpud_queue_use(queue);
    return device->ops->image->copy(queue, frames, to, from, error);
}

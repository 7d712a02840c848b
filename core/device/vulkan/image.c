/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/vulkan/vulkan.h"

#include <stdlib.h>
#include <string.h>

#define OPAQUE_FD VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define MODIFIERS_MAX 128 /* that a driver has for a format */

/* How long a copy through pages that the driver cannot import may take. */
#define STAGE_TIMEOUT (5 * GPUD_SEC)

/* The library copies them; applications sample them, or draw into them where the driver can. */
#define USAGE \
    (VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_SAMPLED_BIT)
#define FEATURES                                                               \
    (VK_FORMAT_FEATURE_TRANSFER_SRC_BIT | VK_FORMAT_FEATURE_TRANSFER_DST_BIT | \
     VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT)

/* An image on a part of a memory. */
struct vulkan_image {
    struct vulkan_image *next;
    VkImage image;
    uint64_t offset;
    struct gpud_layout layout;
};

/* --- formats --------------------------------------------------------------------------------- */

struct format {
    const char *name; /* GStreamer's */
    VkFormat format;
    uint8_t texel[GPUD_PLANES_MAX]; /* bytes of one in each plane */
};

static const struct format formats[] = {
    {"GRAY8", VK_FORMAT_R8_UNORM, {1}},
    {"GRAY16_LE", VK_FORMAT_R16_UNORM, {2}},
    {"RGBA", VK_FORMAT_R8G8B8A8_UNORM, {4}},
    {"RGBx", VK_FORMAT_R8G8B8A8_UNORM, {4}},
    {"BGRA", VK_FORMAT_B8G8R8A8_UNORM, {4}},
    {"BGRx", VK_FORMAT_B8G8R8A8_UNORM, {4}},
    {"RGB10A2_LE", VK_FORMAT_A2B10G10R10_UNORM_PACK32, {4}},
    {"BGR10A2_LE", VK_FORMAT_A2R10G10B10_UNORM_PACK32, {4}},
    {"RGBA64_LE", VK_FORMAT_R16G16B16A16_UNORM, {8}},
    {"NV12", VK_FORMAT_G8_B8R8_2PLANE_420_UNORM, {1, 2}},
    {"NV16", VK_FORMAT_G8_B8R8_2PLANE_422_UNORM, {1, 2}},
    {"P010_10LE", VK_FORMAT_G10X6_B10X6R10X6_2PLANE_420_UNORM_3PACK16, {2, 4}},
    {"P012_LE", VK_FORMAT_G12X4_B12X4R12X4_2PLANE_420_UNORM_3PACK16, {2, 4}},
    {"P016_LE", VK_FORMAT_G16_B16R16_2PLANE_420_UNORM, {2, 4}},
    {"I420", VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM, {1, 1, 1}},
    {"Y42B", VK_FORMAT_G8_B8_R8_3PLANE_422_UNORM, {1, 1, 1}},
    {"Y444", VK_FORMAT_G8_B8_R8_3PLANE_444_UNORM, {1, 1, 1}},
};

/* The format whose planes these are; NULL: Vulkan has none. It knows no odd size where pixels share
 * samples. */
static const struct format *vulkan_image_find_format(const struct gpud_layout *layout)
{
    const struct format *found = NULL;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]) && !found; i++)
        if (strcmp(formats[i].name, layout->format) == 0)
            found = &formats[i];
    for (uint32_t i = 0; found && i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        uint32_t texel = found->texel[i], width = texel ? plane->row_bytes / texel : 0;
        if (width == 0 || plane->row_bytes % texel || layout->width % width || plane->rows == 0 ||
            layout->height % plane->rows)
            return NULL;
    }
    return found && (layout->planes == GPUD_PLANES_MAX || !found->texel[layout->planes]) ? found
                                                                                         : NULL;
}

static enum gpud_status no_format(const struct gpud_layout *layout, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_UNSUPPORTED, "Vulkan has no image for %s pictures of %ux%u",
                     layout->format, layout->width, layout->height);
}

/* --- making ---------------------------------------------------------------------------------- */

/* An image in shared memory; how: what says its modifier, NULL if it is the implicit one. */
static VkResult make_image(const struct vulkan_device *vulkan, const struct gpud_layout *layout,
                           VkFormat format, const void *how, VkImage *image)
{
    const VkExternalMemoryImageCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
        .pNext = how,
        .handleTypes = OPAQUE_FD,
    };
    const VkImageCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
        .pNext = &external,
        .imageType = VK_IMAGE_TYPE_2D,
        .format = format,
        .extent = {layout->width, layout->height, 1},
        .mipLevels = 1,
        .arrayLayers = 1,
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .tiling = how ? VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT : VK_IMAGE_TILING_OPTIMAL,
        .usage = USAGE,
    };
    return vulkan->calls.CreateImage(vulkan->device, &info, NULL, image);
}

/* Whether images of the modifier, of this size, can lie in memory that the library shares. */
static bool can_share(const struct vulkan_facts *facts, const struct gpud_layout *layout,
                      VkFormat format, uint64_t modifier)
{
    bool implicit = modifier == GPUD_MODIFIER_IMPLICIT;
    const VkExternalMemoryFeatureFlags both =
        VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
    const VkPhysicalDeviceExternalImageFormatInfo external = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO,
        .handleType = OPAQUE_FD,
    };
    const VkPhysicalDeviceImageDrmFormatModifierInfoEXT drm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_DRM_FORMAT_MODIFIER_INFO_EXT,
        .pNext = &external,
        .drmFormatModifier = modifier,
    };
    const VkPhysicalDeviceImageFormatInfo2 info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2,
        .pNext = implicit ? (const void *)&external : &drm,
        .format = format,
        .type = VK_IMAGE_TYPE_2D,
        .tiling = implicit ? VK_IMAGE_TILING_OPTIMAL : VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT,
        .usage = USAGE,
    };
    VkExternalImageFormatProperties shared = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES};
    VkImageFormatProperties2 can = {.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2,
                                    .pNext = &shared};
    if (gpud_vk.GetPhysicalDeviceImageFormatProperties2(facts->physical, &info, &can) != VK_SUCCESS)
        return false;
    const VkExtent3D *most = &can.imageFormatProperties.maxExtent;
    VkExternalMemoryFeatureFlags features = shared.externalMemoryProperties.externalMemoryFeatures;
    return most->width >= layout->width && most->height >= layout->height &&
           (features & both) == both;
}

static bool vulkan_image_is_wanted(uint64_t modifier, const uint64_t *modifiers, uint32_t count)
{
    bool wanted = false;
    for (uint32_t i = 0; i < count; i++)
        wanted |= modifiers[i] == modifier;
    return wanted && modifier != 0;
}

/* The driver's modifiers that will do; returns how many. Those with more planes than the format has
 * keep data beside the picture, which no layout describes. */
static uint32_t list_modifiers(const struct vulkan_facts *facts, const struct gpud_layout *layout,
                               VkFormat format, const uint64_t *modifiers, uint32_t count,
                               uint64_t found[MODIFIERS_MAX])
{
    VkDrmFormatModifierPropertiesEXT has[MODIFIERS_MAX];
    VkDrmFormatModifierPropertiesListEXT list = {
        .sType = VK_STRUCTURE_TYPE_DRM_FORMAT_MODIFIER_PROPERTIES_LIST_EXT,
        .drmFormatModifierCount = MODIFIERS_MAX,
        .pDrmFormatModifierProperties = has,
    };
    VkFormatProperties2 properties = {.sType = VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2,
                                      .pNext = &list};
    uint32_t fit = 0;
    if (!facts->modifiers)
        return 0;
    gpud_vk.GetPhysicalDeviceFormatProperties2(facts->physical, format, &properties);
    for (uint32_t i = 0; i < list.drmFormatModifierCount; i++)
        if (vulkan_image_is_wanted(has[i].drmFormatModifier, modifiers, count) &&
            has[i].drmFormatModifierPlaneCount == layout->planes &&
            (has[i].drmFormatModifierTilingFeatures & FEATURES) == FEATURES &&
            can_share(facts, layout, format, has[i].drmFormatModifier))
            found[fit++] = has[i].drmFormatModifier;
    return fit;
}

/* --- describing ------------------------------------------------------------------------------ */

/* What the driver says of the image. false: it cannot lie in a part of such memory as the library
 * shares, below a buffer. NVIDIA's driver (580) says of every modifier that its images need an
 * allocation of their own (VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT), and of each image that
 * it needs none, which is what is asked here: they work. */
static bool read_layout(const struct vulkan_device *vulkan, VkImage image, bool implicit,
                        struct gpud_layout *layout)
{
    const VkImageMemoryRequirementsInfo2 info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_REQUIREMENTS_INFO_2, .image = image};
    VkMemoryDedicatedRequirements dedicated = {.sType =
                                                   VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 all = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2,
                                 .pNext = &dedicated};
    VkImageDrmFormatModifierPropertiesEXT drm = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_PROPERTIES_EXT,
        .drmFormatModifier = GPUD_MODIFIER_IMPLICIT,
    };
    const VkMemoryRequirements *needs = &all.memoryRequirements;
    uint32_t type;
    vulkan->calls.GetImageMemoryRequirements2(vulkan->device, &info, &all);
    if (dedicated.requiresDedicatedAllocation ||
        gpud_vulkan_block_type(vulkan, vulkan->facts.shared, &type) != VK_SUCCESS ||
        !(needs->memoryTypeBits >> type & 1) ||
        (!implicit && vulkan->calls.GetImageDrmFormatModifierPropertiesEXT(vulkan->device, image,
                                                                           &drm) != VK_SUCCESS))
        return false;
    uint64_t align = needs->alignment > VULKAN_PAGE ? needs->alignment : VULKAN_PAGE;
    uint64_t size = needs->size > layout->size ? needs->size : layout->size;
    layout->modifier = drm.drmFormatModifier;
    layout->size = (size + align - 1) / align * align;
    for (uint32_t i = 0; !implicit && i < layout->planes; i++) {
        const VkImageSubresource plane = {
            .aspectMask = (VkImageAspectFlags)VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT << i};
        VkSubresourceLayout lies;
        vulkan->calls.GetImageSubresourceLayout(vulkan->device, image, &plane, &lies);
        layout->plane[i].offset = lies.offset;
        layout->plane[i].stride = lies.rowPitch <= UINT32_MAX ? (uint32_t)lies.rowPitch : 0;
    }
    return true;
}

/* Whether it has images of the implicit modifier. */
static bool has_implicit(const struct vulkan_facts *facts, const struct gpud_layout *layout,
                         VkFormat format)
{
    VkFormatProperties2 properties = {.sType = VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2};
    gpud_vk.GetPhysicalDeviceFormatProperties2(facts->physical, format, &properties);
    return (properties.formatProperties.optimalTilingFeatures & FEATURES) == FEATURES &&
           can_share(facts, layout, format, GPUD_MODIFIER_IMPLICIT);
}

static enum gpud_status vulkan_image_describe(struct gpud_device *device,
                                              const struct gpud_layout *rows,
                                              const uint64_t *modifiers, uint32_t count,
                                              struct gpud_layout *image, struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(device);
    const struct format *format = vulkan_image_find_format(rows);
    uint64_t found[MODIFIERS_MAX];
    VkImage made;
    if (!format)
        return no_format(rows, error);
    const VkImageDrmFormatModifierListCreateInfoEXT list = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_LIST_CREATE_INFO_EXT,
        .drmFormatModifierCount =
            list_modifiers(&vulkan->facts, rows, format->format, modifiers, count, found),
        .pDrmFormatModifiers = found,
    };
    bool implicit = list.drmFormatModifierCount == 0;
    if (implicit && !(vulkan_image_is_wanted(GPUD_MODIFIER_IMPLICIT, modifiers, count) &&
                      has_implicit(&vulkan->facts, rows, format->format)))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s has no modifier among those asked for by which %s "
                         "pictures of %ux%u can be shared, copied and sampled",
                         device->info.name, rows->format, rows->width, rows->height);
    VkResult result = make_image(vulkan, rows, format->format, implicit ? NULL : &list, &made);
    if (result != VK_SUCCESS)
        return gpud_vulkan_fail(error, result, "%s makes no image for %s pictures of %ux%u",
                                device->info.name, rows->format, rows->width, rows->height);
    struct gpud_layout layout = *rows;
    bool fits = read_layout(vulkan, made, implicit, &layout);
    vulkan->calls.DestroyImage(vulkan->device, made, NULL);
    if (!fits)
        return gpud_fail(
            error, GPUD_UNSUPPORTED,
            "the driver of %s wants memory of its own kind, or an allocation of its own, "
            "for each image",
            device->info.name);
    *image = layout;
    return GPUD_OK;
}

/* --- images on memories ---------------------------------------------------------------------- */

static bool is_same(const struct vulkan_image *image, uint64_t offset,
                    const struct gpud_layout *layout)
{
    return image->offset == offset && image->layout.modifier == layout->modifier &&
           image->layout.width == layout->width && image->layout.height == layout->height &&
           strcmp(image->layout.format, layout->format) == 0 &&
           memcmp(image->layout.plane, layout->plane, sizeof(layout->plane)) == 0;
}

static VkResult put_image(const struct vulkan_device *vulkan, const struct vulkan_block *block,
                          const struct format *format, struct vulkan_image *image)
{
    const struct gpud_layout *layout = &image->layout;
    VkSubresourceLayout planes[GPUD_PLANES_MAX] = {0};
    const VkImageDrmFormatModifierExplicitCreateInfoEXT how = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_EXPLICIT_CREATE_INFO_EXT,
        .drmFormatModifier = layout->modifier,
        .drmFormatModifierPlaneCount = layout->planes,
        .pPlaneLayouts = planes,
    };
    for (uint32_t i = 0; i < layout->planes; i++) {
        planes[i].offset = layout->plane[i].offset;
        planes[i].rowPitch = layout->plane[i].stride;
    }
    VkMemoryRequirements needs;
    VkResult result =
        make_image(vulkan, layout, format->format,
                   layout->modifier == GPUD_MODIFIER_IMPLICIT ? NULL : &how, &image->image);
    if (result != VK_SUCCESS)
        return result;
    vulkan->calls.GetImageMemoryRequirements(vulkan->device, image->image, &needs);
    result = needs.memoryTypeBits >> block->type & 1 && image->offset % needs.alignment == 0 &&
                     needs.size <= block->bytes && image->offset <= block->bytes - needs.size
                 ? vulkan->calls.BindImageMemory(vulkan->device, image->image, block->memory,
                                                 image->offset)
                 : VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT;
    if (result != VK_SUCCESS)
        vulkan->calls.DestroyImage(vulkan->device, image->image, NULL);
    return result;
}

/* The image there, made on first use. Two threads may make it at once: both images stay. */
static enum gpud_status find_image(const struct gpud_memory *memory, uint64_t offset,
                                   const struct gpud_layout *layout, const struct format *format,
                                   VkImage *found, struct gpud_error *error)
{
    struct vulkan_memory *record = gpud_vulkan_record(memory);
    struct vulkan_image *image = atomic_load(&record->images);
    while (image && !is_same(image, offset, layout))
        image = image->next;
    if (image) {
        *found = image->image;
        return GPUD_OK;
    }
    if (!(record->block.handles & OPAQUE_FD))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "only a sender's own slots on %s, and those that it shares, have images",
                         memory->device->info.name);
    image = calloc(1, sizeof(*image));
    if (!image)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for an image's record");
    image->offset = offset;
    image->layout = *layout;
    VkResult result = put_image(gpud_vulkan_device(memory->device), &record->block, format, image);
    if (result != VK_SUCCESS) {
        free(image);
        return gpud_vulkan_fail(error, result, "%s takes the memory for no image of %ux%u",
                                memory->device->info.name, layout->width, layout->height);
    }
    image->next = atomic_load(&record->images);
    while (!atomic_compare_exchange_weak(&record->images, &image->next, image))
        ;
    *found = image->image;
    return GPUD_OK;
}

void gpud_vulkan_images_free(const struct vulkan_device *vulkan, struct vulkan_memory *record)
{
    for (struct vulkan_image *image = record->images, *next; image; image = next) {
        next = image->next;
        vulkan->calls.DestroyImage(vulkan->device, image->image, NULL);
        free(image);
    }
}

/* --- copying --------------------------------------------------------------------------------- */

/* A copy between an image and the rows of a picture in a buffer. */
struct image_copy {
    VkImage image;
    bool from_image;
    uint32_t others; /* the queue family that has the image meanwhile */
    const struct format *format;
    const struct gpud_layout *rows;
    const struct vulkan_block *block; /* with the rows, from offset on */
    uint64_t offset;
};

static void vulkan_image_hand_over(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                                   const struct image_copy *copy, bool acquire)
{
    const uint32_t own = vulkan->facts.family;
    const VkAccessFlags access =
        copy->from_image ? VK_ACCESS_TRANSFER_READ_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .srcAccessMask = acquire ? 0 : access,
        .dstAccessMask = acquire ? access : 0,
        .oldLayout = VK_IMAGE_LAYOUT_GENERAL,
        .newLayout = VK_IMAGE_LAYOUT_GENERAL,
        .srcQueueFamilyIndex = acquire ? copy->others : own,
        .dstQueueFamilyIndex = acquire ? own : copy->others,
        .image = copy->image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    vulkan->calls.CmdPipelineBarrier(buffer, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                     acquire ? VK_PIPELINE_STAGE_TRANSFER_BIT
                                             : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                                     0, 0, NULL, 0, NULL, 1, &barrier);
}

static void record_copy(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                        const void *what)
{
    const struct image_copy *copy = what;
    VkBufferImageCopy regions[GPUD_PLANES_MAX];
    for (uint32_t i = 0; i < copy->rows->planes; i++) {
        const struct gpud_plane *plane = &copy->rows->plane[i];
        uint32_t texel = copy->format->texel[i];
        regions[i] = (VkBufferImageCopy){
            .bufferOffset = copy->offset + plane->offset,
            .bufferRowLength = plane->stride / texel,
            .imageSubresource.aspectMask =
                copy->rows->planes == 1 ? (VkImageAspectFlags)VK_IMAGE_ASPECT_COLOR_BIT
                                        : (VkImageAspectFlags)VK_IMAGE_ASPECT_PLANE_0_BIT << i,
            .imageSubresource.layerCount = 1,
            .imageExtent = {plane->row_bytes / texel, plane->rows, 1},
        };
    }
    vulkan_image_hand_over(vulkan, buffer, copy, true);
    if (copy->from_image)
        vulkan->calls.CmdCopyImageToBuffer(buffer, copy->image, VK_IMAGE_LAYOUT_GENERAL,
                                           copy->block->buffer, copy->rows->planes, regions);
    else
        vulkan->calls.CmdCopyBufferToImage(buffer, copy->block->buffer, copy->image,
                                           VK_IMAGE_LAYOUT_GENERAL, copy->rows->planes, regions);
    vulkan_image_hand_over(vulkan, buffer, copy, false);
}

static enum gpud_status vulkan_image_enqueue(struct gpud_queue *queue,
                                             const struct image_copy *copy,
                                             struct gpud_error *error)
{
    const struct vulkan_block *const blocks[2] = {copy->block, NULL};
    VkResult result =
        gpud_vulkan_queue_record(queue->device, queue->backend, blocks, record_copy, copy);
    return result == VK_SUCCESS
               ? GPUD_OK
               : gpud_vulkan_fail(error, result, "%s refused a copy of an image of %ux%u",
                                  queue->device->info.name, copy->rows->width, copy->rows->height);
}

/* Through pages of the driver's own: this thread waits for them. */
static enum gpud_status copy_staged(struct gpud_queue *queue, struct image_copy *copy, char *host,
                                    struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(queue->device);
    struct vulkan_block stage;
    size_t size = copy->rows->size;
    VkResult result = gpud_vulkan_block_stage(vulkan, size, &stage);
    if (result != VK_SUCCESS)
        return gpud_vulkan_fail(error, result, "no %zu bytes of host memory for %s", size,
                                queue->device->info.name);
    memcpy(stage.mapped, host, size); /* also what lies between rows stays as it is */
    copy->block = &stage;
    copy->offset = 0;
    enum gpud_status status = vulkan_image_enqueue(queue, copy, error);
    if (status == GPUD_OK)
        status = gpud_vulkan_queue_wait(queue->device, queue->backend, gpud_deadline(STAGE_TIMEOUT),
                                        error);
    if (status == GPUD_OK && copy->from_image)
        memcpy(host, stage.mapped, size);
    if (status != GPUD_TIMEOUT) /* else leaked on purpose: the device may still use it */
        gpud_vulkan_block_free(vulkan, &stage);
    return status;
}

/* What Vulkan asks of rows in a buffer, also on a queue that only copies. */
static bool are_aligned(const struct gpud_layout *rows, uint64_t offset,
                        const struct format *format)
{
    bool aligned = true;
    for (uint32_t i = 0; i < rows->planes; i++) {
        uint32_t texel = format->texel[i], align = texel > 4 ? texel : 4;
        aligned &=
            (offset + rows->plane[i].offset) % align == 0 && rows->plane[i].stride % texel == 0;
    }
    return aligned;
}

static enum gpud_status vulkan_image_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                          const struct gpud_layout *to,
                                          const struct gpud_layout *from, struct gpud_error *error)
{
    bool from_image = from->modifier != 0;
    const struct gpud_layout *layout = from_image ? from : to, *rows = from_image ? to : from;
    struct gpud_memory *memory = from_image ? frames->from : frames->to;
    struct gpud_memory *other = from_image ? frames->to : frames->from;
    uint64_t offset = from_image ? frames->from_offset : frames->to_offset;
    struct image_copy copy = {
        .from_image = from_image,
        .others = gpud_vulkan_record(memory)->block.others,
        .format = vulkan_image_find_format(layout),
        .rows = rows,
        .block = &gpud_vulkan_record(other)->block,
        .offset = from_image ? frames->to_offset : frames->from_offset,
    };
    if (!copy.format)
        return no_format(layout, error);
    bool aligned = are_aligned(rows, copy.offset, copy.format);
    if (!aligned && !(other->host && are_aligned(rows, 0, copy.format)))
        return gpud_fail(error, GPUD_INVALID,
                         "a plane of the %s picture does not begin at a multiple of 4 bytes, or "
                         "a stride is not a whole number of pixels: Vulkan cannot copy such rows",
                         rows->format);
    enum gpud_status status = find_image(memory, offset, layout, copy.format, &copy.image, error);
    if (status != GPUD_OK)
        return status;
    return copy.block->buffer && aligned
               ? vulkan_image_enqueue(queue, &copy, error)
               : copy_staged(queue, &copy, (char *)other->host + copy.offset, error);
}

const struct gpud_image_ops gpud_vulkan_image_ops = {
    .describe = vulkan_image_describe,
    .copy = vulkan_image_copy,
};

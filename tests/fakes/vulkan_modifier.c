/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A Vulkan layer that gives a driver without DRM format modifiers, lavapipe, two of a vendor that
 * does not exist. Their images are the driver's own of linear tiling, upside down: the last row
 * lies first, so that they are wrong when read as rows. BESIDE has a plane more than the format, as
 * what is compressed has.
 *
 * It is stricter than drivers: an explicit layout that is not the driver's is refused. It knows one
 * driver, as all instances and devices in a process use the same. Images have one plane, and are
 * copied as a whole. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>

#define UPSIDE_DOWN UINT64_C(0x0f00000000000001)
#define BESIDE UINT64_C(0x0f00000000000002)
#define IMAGES_MAX 1024

/* clang-format off */
#define INSTANCE_CALLS(CALL) \
    CALL(CreateDevice) CALL(EnumerateDeviceExtensionProperties) \
    CALL(GetPhysicalDeviceFormatProperties2) CALL(GetPhysicalDeviceImageFormatProperties2)
#define DEVICE_CALLS(CALL) \
    CALL(CmdCopyBufferToImage) CALL(CmdCopyImageToBuffer) CALL(CreateImage) CALL(DestroyImage) \
    CALL(GetImageSubresourceLayout)
/* clang-format on */
#define MEMBER(name) PFN_vk##name name;
static struct {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr GetDeviceProcAddr;
    INSTANCE_CALLS(MEMBER)
    DEVICE_CALLS(MEMBER)
} next;

static const void *find_in_chain(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *at = chain;
    while (at && at->sType != type)
        at = at->pNext;
    return at;
}

/* --- images ----------------------------------------------------------------------------------- */

struct image {
    VkImage image;
    uint32_t height, texel; /* bytes */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct image images[IMAGES_MAX];

/* Replaces the record of an image; with VK_NULL_HANDLE a free one. */
static void replace(VkImage before, const struct image *now)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < IMAGES_MAX && images[i].image != before)
        i++;
    if (i == IMAGES_MAX)
        abort();
    images[i] = *now;
    pthread_mutex_unlock(&lock);
}

static bool find(VkImage image, struct image *found)
{
    bool is_ours = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; image && i < IMAGES_MAX && !is_ours; i++) {
        is_ours = images[i].image == image;
        if (is_ours)
            *found = images[i];
    }
    pthread_mutex_unlock(&lock);
    return is_ours;
}

/* 0: it has no modifiers. */
static uint32_t texel_of(VkFormat format)
{
    switch (format) {
    case VK_FORMAT_R8_UNORM:
        return 1;
    case VK_FORMAT_R16_UNORM:
        return 2;
    case VK_FORMAT_R8G8B8A8_UNORM:
    case VK_FORMAT_B8G8R8A8_UNORM:
        return 4;
    default:
        return 0;
    }
}

static const VkImageSubresource whole = {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT};

static bool is_as_said(VkDevice device, VkImage image,
                       const VkImageDrmFormatModifierExplicitCreateInfoEXT *said)
{
    VkSubresourceLayout layout;
    next.GetImageSubresourceLayout(device, image, &whole, &layout);
    return said->drmFormatModifierPlaneCount == 1 && said->pPlaneLayouts[0].size == 0 &&
           said->pPlaneLayouts[0].offset == layout.offset &&
           said->pPlaneLayouts[0].rowPitch == layout.rowPitch;
}

static bool names_ours(const VkImageDrmFormatModifierListCreateInfoEXT *list,
                       const VkImageDrmFormatModifierExplicitCreateInfoEXT *said)
{
    bool ours = said && said->drmFormatModifier == UPSIDE_DOWN;
    for (uint32_t i = 0; list && i < list->drmFormatModifierCount; i++)
        ours |= list->pDrmFormatModifiers[i] == UPSIDE_DOWN;
    return ours;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_image(VkDevice device, const VkImageCreateInfo *info,
                                                   const VkAllocationCallbacks *callbacks,
                                                   VkImage *image)
{
    if (info->tiling != VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT)
        return next.CreateImage(device, info, callbacks, image);
    const VkImageDrmFormatModifierListCreateInfoEXT *list = find_in_chain(
        info->pNext, VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_LIST_CREATE_INFO_EXT);
    const VkImageDrmFormatModifierExplicitCreateInfoEXT *said = find_in_chain(
        info->pNext, VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_EXPLICIT_CREATE_INFO_EXT);
    const VkExternalMemoryImageCreateInfo *external =
        find_in_chain(info->pNext, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO);
    VkExternalMemoryImageCreateInfo own_external;
    VkImageCreateInfo own = *info;
    struct image made = {.height = info->extent.height, .texel = texel_of(info->format)};
    if (!names_ours(list, said) || !made.texel)
        return VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT;
    own.tiling = VK_IMAGE_TILING_LINEAR;
    own.pNext = NULL;
    if (external) {
        own_external = *external;
        own_external.pNext = NULL;
        own.pNext = &own_external;
    }
    VkResult result = next.CreateImage(device, &own, callbacks, &made.image);
    if (result != VK_SUCCESS)
        return result;
    if (said && !is_as_said(device, made.image, said)) {
        next.DestroyImage(device, made.image, callbacks);
        return VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT;
    }
    replace(VK_NULL_HANDLE, &made);
    *image = made.image;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_image(VkDevice device, VkImage image,
                                                const VkAllocationCallbacks *callbacks)
{
    struct image made;
    if (find(image, &made))
        replace(image, &(struct image){0});
    next.DestroyImage(device, image, callbacks);
}

static VKAPI_ATTR void VKAPI_CALL get_layout(VkDevice device, VkImage image,
                                             const VkImageSubresource *part,
                                             VkSubresourceLayout *layout)
{
    struct image made;
    bool ours = find(image, &made);
    if (ours && part->aspectMask != VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT)
        abort(); /* the specification forbids it */
    next.GetImageSubresourceLayout(device, image, ours ? &whole : part, layout);
}

static VKAPI_ATTR VkResult VKAPI_CALL get_modifier(VkDevice device, VkImage image,
                                                   VkImageDrmFormatModifierPropertiesEXT *modifier)
{
    struct image made;
    (void)device;
    if (!find(image, &made))
        abort();
    modifier->drmFormatModifier = UPSIDE_DOWN;
    return VK_SUCCESS;
}

/* --- copies: row by row, upside down ---------------------------------------------------------- */

static VkBufferImageCopy *turn(const struct image *made, const VkBufferImageCopy *region)
{
    uint32_t length = region->bufferRowLength ? region->bufferRowLength : region->imageExtent.width;
    VkBufferImageCopy *rows = calloc(made->height, sizeof(*rows));
    if (!rows || region->imageExtent.height != made->height)
        abort();
    for (uint32_t y = 0; y < made->height; y++) {
        rows[y] = *region;
        rows[y].bufferOffset += (VkDeviceSize)y * length * made->texel;
        rows[y].imageOffset.y = (int32_t)(made->height - 1 - y);
        rows[y].imageExtent.height = 1;
    }
    return rows;
}

static VKAPI_ATTR void VKAPI_CALL copy_to_image(VkCommandBuffer commands, VkBuffer buffer,
                                                VkImage image, VkImageLayout layout, uint32_t count,
                                                const VkBufferImageCopy *regions)
{
    struct image made;
    if (!find(image, &made)) {
        next.CmdCopyBufferToImage(commands, buffer, image, layout, count, regions);
        return;
    }
    VkBufferImageCopy *rows = turn(&made, regions);
    next.CmdCopyBufferToImage(commands, buffer, image, layout, made.height, rows);
    free(rows);
}

static VKAPI_ATTR void VKAPI_CALL copy_from_image(VkCommandBuffer commands, VkImage image,
                                                  VkImageLayout layout, VkBuffer buffer,
                                                  uint32_t count, const VkBufferImageCopy *regions)
{
    struct image made;
    if (!find(image, &made)) {
        next.CmdCopyImageToBuffer(commands, image, layout, buffer, count, regions);
        return;
    }
    VkBufferImageCopy *rows = turn(&made, regions);
    next.CmdCopyImageToBuffer(commands, image, layout, buffer, made.height, rows);
    free(rows);
}

/* --- what the device says --------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL list_extensions(VkPhysicalDevice physical, const char *layer,
                                                      uint32_t *count, VkExtensionProperties *list)
{
    uint32_t room = *count;
    VkResult result = next.EnumerateDeviceExtensionProperties(physical, layer, count, list);
    if (layer || result != VK_SUCCESS)
        return result;
    if (!list) {
        ++*count;
        return result;
    }
    if (*count == room)
        return VK_INCOMPLETE;
    list[*count] =
        (VkExtensionProperties){.extensionName = VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME,
                                .specVersion = VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_SPEC_VERSION};
    ++*count;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL get_format(VkPhysicalDevice physical, VkFormat format,
                                             VkFormatProperties2 *properties)
{
    VkDrmFormatModifierPropertiesListEXT *list = (void *)find_in_chain(
        properties->pNext, VK_STRUCTURE_TYPE_DRM_FORMAT_MODIFIER_PROPERTIES_LIST_EXT);
    VkDrmFormatModifierPropertiesList2EXT *list2 = (void *)find_in_chain(
        properties->pNext, VK_STRUCTURE_TYPE_DRM_FORMAT_MODIFIER_PROPERTIES_LIST_2_EXT);
    /* The driver may have modifiers of its own, as lavapipe from Mesa 25 on, and sets the counts.
     */
    const uint32_t room = list ? list->drmFormatModifierCount : 0;
    const uint32_t room2 = list2 ? list2->drmFormatModifierCount : 0;
    next.GetPhysicalDeviceFormatProperties2(physical, format, properties);
    const VkFormatFeatureFlags can = properties->formatProperties.linearTilingFeatures;
    const VkDrmFormatModifierPropertiesEXT all[] = {
        {BESIDE, 2, can}, {UPSIDE_DOWN, 1, can}, {0 /* rows */, 1, can}};
    const uint32_t has = texel_of(format) ? sizeof(all) / sizeof(all[0]) : 0;
    if (list) {
        bool counts = !list->pDrmFormatModifierProperties;
        list->drmFormatModifierCount = counts || room > has ? has : room;
        for (uint32_t i = 0; !counts && i < list->drmFormatModifierCount; i++)
            list->pDrmFormatModifierProperties[i] = all[i];
    }
    if (list2) {
        bool counts = !list2->pDrmFormatModifierProperties;
        list2->drmFormatModifierCount = counts || room2 > has ? has : room2;
        for (uint32_t i = 0; !counts && i < list2->drmFormatModifierCount; i++)
            list2->pDrmFormatModifierProperties[i] = (VkDrmFormatModifierProperties2EXT){
                all[i].drmFormatModifier, all[i].drmFormatModifierPlaneCount, can};
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL get_image_format(VkPhysicalDevice physical,
                                                       const VkPhysicalDeviceImageFormatInfo2 *info,
                                                       VkImageFormatProperties2 *properties)
{
    const VkPhysicalDeviceImageDrmFormatModifierInfoEXT *drm = find_in_chain(
        info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_DRM_FORMAT_MODIFIER_INFO_EXT);
    const VkPhysicalDeviceExternalImageFormatInfo *external =
        find_in_chain(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO);
    VkPhysicalDeviceExternalImageFormatInfo own_external;
    VkPhysicalDeviceImageFormatInfo2 own = *info;
    if (info->tiling != VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT)
        return next.GetPhysicalDeviceImageFormatProperties2(physical, info, properties);
    if (!drm || drm->drmFormatModifier != UPSIDE_DOWN || !texel_of(info->format))
        return VK_ERROR_FORMAT_NOT_SUPPORTED;
    own.tiling = VK_IMAGE_TILING_LINEAR;
    own.pNext = NULL;
    if (external) {
        own_external = *external;
        own_external.pNext = NULL;
        own.pNext = &own_external;
    }
    return next.GetPhysicalDeviceImageFormatProperties2(physical, &own, properties);
}

/* --- the layer -------------------------------------------------------------------------------- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_call(VkDevice device, const char *name);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_call(VkInstance instance,
                                                                  const char *name);

/* What the loader chains to the info of what is created. */
static void *find_loader(const void *chain, VkStructureType type)
{
    VkLayerInstanceCreateInfo *at = (void *)find_in_chain(chain, type);
    while (at && at->function != VK_LAYER_LINK_INFO)
        at = (void *)find_in_chain(at->pNext, type);
    if (!at)
        abort();
    return at;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks,
                                                      VkInstance *instance)
{
    VkLayerInstanceCreateInfo *loader =
        find_loader(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    next.GetInstanceProcAddr = loader->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    loader->u.pLayerInfo = loader->u.pLayerInfo->pNext;
    PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)next.GetInstanceProcAddr(NULL, "vkCreateInstance");
    VkResult result = create(info, callbacks, instance);
    if (result != VK_SUCCESS)
        return result;
#define FIND(name) next.name = (PFN_vk##name)next.GetInstanceProcAddr(*instance, "vk" #name);
    INSTANCE_CALLS(FIND)
#undef FIND
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks,
                                                    VkDevice *device)
{
    VkLayerDeviceCreateInfo *loader =
        find_loader(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    const char *extensions[64];
    VkDeviceCreateInfo own = *info;
    own.enabledExtensionCount = 0;
    own.ppEnabledExtensionNames = extensions;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i],
                   VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME) != 0)
            extensions[own.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    next.GetDeviceProcAddr = loader->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    loader->u.pLayerInfo = loader->u.pLayerInfo->pNext;
    VkResult result = next.CreateDevice(physical, &own, callbacks, device);
    if (result != VK_SUCCESS)
        return result;
#define FIND(name) next.name = (PFN_vk##name)next.GetDeviceProcAddr(*device, "vk" #name);
    DEVICE_CALLS(FIND)
#undef FIND
    return result;
}

static const struct {
    const char *name;
    PFN_vkVoidFunction call;
    bool of_device;
} own_calls[] = {
    {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_instance_call, false},
    {"vkCreateInstance", (PFN_vkVoidFunction)create_instance, false},
    {"vkCreateDevice", (PFN_vkVoidFunction)create_device, false},
    {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)list_extensions, false},
    {"vkGetPhysicalDeviceFormatProperties2", (PFN_vkVoidFunction)get_format, false},
    {"vkGetPhysicalDeviceImageFormatProperties2", (PFN_vkVoidFunction)get_image_format, false},
    {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_call, true},
    {"vkCreateImage", (PFN_vkVoidFunction)create_image, true},
    {"vkDestroyImage", (PFN_vkVoidFunction)destroy_image, true},
    {"vkGetImageSubresourceLayout", (PFN_vkVoidFunction)get_layout, true},
    {"vkGetImageDrmFormatModifierPropertiesEXT", (PFN_vkVoidFunction)get_modifier, true},
    {"vkCmdCopyBufferToImage", (PFN_vkVoidFunction)copy_to_image, true},
    {"vkCmdCopyImageToBuffer", (PFN_vkVoidFunction)copy_from_image, true},
};

static PFN_vkVoidFunction find_own(const char *name, bool of_device)
{
    for (size_t i = 0; i < sizeof(own_calls) / sizeof(own_calls[0]); i++)
        if ((own_calls[i].of_device || !of_device) && strcmp(own_calls[i].name, name) == 0)
            return own_calls[i].call;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_call(VkDevice device, const char *name)
{
    PFN_vkVoidFunction own = find_own(name, true);
    return own ? own : next.GetDeviceProcAddr(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_call(VkInstance instance,
                                                                  const char *name)
{
    PFN_vkVoidFunction own = find_own(name, false);
    return own || !instance ? own : next.GetInstanceProcAddr(instance, name);
}

/* Exported by hand: newer headers of Vulkan have no VK_LAYER_EXPORT. */
__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = get_instance_call;
    interface->pfnGetDeviceProcAddr = get_device_call;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "app_vulkan.h"

#include "support/check.h"

#include <dlfcn.h>
#include <unistd.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#define OPAQUE_FD VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define MEMORIES_MAX 64
#define DEVICES_MAX 16
#define MODIFIERS_MAX 128
#define WAIT UINT64_C(20000000000) /* ns */

/* clang-format off */
#define INSTANCE_CALLS(CALL) \
    CALL(CreateDevice) CALL(EnumerateDeviceExtensionProperties) CALL(EnumeratePhysicalDevices) \
    CALL(GetDeviceProcAddr) CALL(GetPhysicalDeviceFormatProperties2) \
    CALL(GetPhysicalDeviceMemoryProperties) CALL(GetPhysicalDeviceProperties2) \
    CALL(GetPhysicalDeviceQueueFamilyProperties)
#define DEVICE_CALLS(CALL) \
    CALL(AllocateCommandBuffers) CALL(AllocateMemory) CALL(BeginCommandBuffer) \
    CALL(BindBufferMemory) CALL(BindImageMemory) CALL(CmdCopyBufferToImage) \
    CALL(CmdCopyImageToBuffer) CALL(CmdPipelineBarrier) CALL(CreateBuffer) CALL(CreateCommandPool) \
    CALL(CreateFence) CALL(CreateImage) CALL(DestroyBuffer) CALL(DestroyCommandPool) \
    CALL(DestroyDevice) CALL(DestroyFence) CALL(DestroyImage) CALL(EndCommandBuffer) \
    CALL(FreeMemory) CALL(GetBufferMemoryRequirements) CALL(GetDeviceQueue) \
    CALL(GetImageMemoryRequirements) CALL(MapMemory) CALL(QueueSubmit) CALL(WaitForFences)
/* clang-format on */
#define MEMBER(name) PFN_vk##name name;

/* Kept until the process ends. */
static struct {
    VkInstance instance;
    INSTANCE_CALLS(MEMBER)
} vk;

struct app {
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkCommandPool pool;
    VkPhysicalDeviceMemoryProperties types;
    struct {
        struct gpud_memory *of;
        VkDeviceMemory memory;
    } memories[MEMORIES_MAX];
    unsigned count;
    DEVICE_CALLS(MEMBER)
};

static const struct {
    const char *name;
    VkFormat format;
    uint32_t texel[GPUD_PLANES_MAX];
} formats[] = {
    {"RGBA", VK_FORMAT_R8G8B8A8_UNORM, {4}},
    {"GRAY8", VK_FORMAT_R8_UNORM, {1}},
    {"RGBA64_LE", VK_FORMAT_R16G16B16A16_UNORM, {8}},
    {"NV12", VK_FORMAT_G8_B8R8_2PLANE_420_UNORM, {1, 2}},
};

static unsigned find_format(const char *name)
{
    for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strcmp(formats[i].name, name) == 0)
            return i;
    FAIL("the test has no %s", name);
}

#define VK(call)                                                \
    do {                                                        \
        VkResult result_ = (call);                              \
        CHECK(result_ == VK_SUCCESS, "%s: %d", #call, result_); \
    } while (0)

/* --- opening ---------------------------------------------------------------------------------- */

static void make_instance(void)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    PFN_vkGetInstanceProcAddr get = NULL;
    if (vk.instance)
        return;
    if (library)
        *(void **)&get = dlsym(library, "vkGetInstanceProcAddr");
    CHECK(get, "no Vulkan loader");
    VK(((PFN_vkCreateInstance)get(NULL, "vkCreateInstance"))(&info, NULL, &vk.instance));
#define FIND(name)                                        \
    vk.name = (PFN_vk##name)get(vk.instance, "vk" #name); \
    CHECK(vk.name, "no vk" #name);
    INSTANCE_CALLS(FIND)
#undef FIND
}

static uint32_t list_devices(VkPhysicalDevice devices[DEVICES_MAX])
{
    uint32_t count = DEVICES_MAX;
    VkResult result = vk.EnumeratePhysicalDevices(vk.instance, &count, devices);
    CHECK(result == VK_SUCCESS || result == VK_INCOMPLETE, "no device: %d", result);
    return count;
}

static VkPhysicalDevice find_device(const struct gpud_vulkan_memory_info *info)
{
    VkPhysicalDevice devices[DEVICES_MAX];
    uint32_t count = list_devices(devices);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceIDProperties id = {.sType =
                                               VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
        VkPhysicalDeviceProperties2 own = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                           .pNext = &id};
        vk.GetPhysicalDeviceProperties2(devices[i], &own);
        if (memcmp(id.deviceUUID, info->device_uuid, VK_UUID_SIZE) == 0 &&
            memcmp(id.driverUUID, info->driver_uuid, VK_UUID_SIZE) == 0)
            return devices[i];
    }
    FAIL("no device has the UUIDs of the memory");
}

static bool has_extension(VkPhysicalDevice physical, const char *name)
{
    static VkExtensionProperties all[1024];
    uint32_t count = sizeof(all) / sizeof(all[0]);
    VkResult result = vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    bool found = false;
    for (uint32_t i = 0; result >= VK_SUCCESS && i < count; i++)
        found |= strcmp(all[i].extensionName, name) == 0;
    return found;
}

/* The first family that draws, else the first. */
static uint32_t find_family(VkPhysicalDevice physical)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)
            return i;
    return 0;
}

static void make_device(struct app *app)
{
    const char *extensions[4] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
    uint32_t count = 1;
    if (has_extension(app->physical, VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME)) {
        extensions[count++] = VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME;
        extensions[count++] = VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME;
    }
    const float priority = 1;
    app->family = find_family(app->physical);
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = app->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = count,
                                     .ppEnabledExtensionNames = extensions};
    VK(vk.CreateDevice(app->physical, &info, NULL, &app->device));
#define FIND(name)                                                           \
    app->name = (PFN_vk##name)vk.GetDeviceProcAddr(app->device, "vk" #name); \
    CHECK(app->name, "no vk" #name);
    DEVICE_CALLS(FIND)
#undef FIND
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = app->family};
    VK(app->CreateCommandPool(app->device, &pool, NULL, &app->pool));
    app->GetDeviceQueue(app->device, app->family, 0, &app->queue);
    vk.GetPhysicalDeviceMemoryProperties(app->physical, &app->types);
}

static struct gpud_vulkan_memory_info export(struct gpud_memory *memory)
{
    struct gpud_vulkan_memory_info info = GPUD_INFO_INIT(info);
    WORKS(gpud_memory_export_vulkan(memory, &info, &e));
    CHECK(info.fd >= 0, "no descriptor");
    return info;
}

struct app *app_open(struct gpud_memory *memory)
{
    struct app *app = calloc(1, sizeof(*app));
    struct gpud_vulkan_memory_info info = export(memory);
    CHECK(app, "out of memory");
    make_instance();
    app->physical = find_device(&info);
    close(info.fd);
    make_device(app);
    return app;
}

void app_close(struct app **app)
{
    struct app *gone = *app;
    *app = NULL;
    if (!gone)
        return;
    for (unsigned i = 0; i < gone->count; i++)
        gone->FreeMemory(gone->device, gone->memories[i].memory, NULL);
    gone->DestroyCommandPool(gone->device, gone->pool, NULL);
    gone->DestroyDevice(gone->device, NULL);
    free(gone);
}

uint32_t app_list_modifiers(const char *format, uint64_t modifiers[GPUD_MODIFIERS_MAX])
{
    VkPhysicalDevice devices[DEVICES_MAX];
    VkDrmFormatModifierPropertiesEXT has[MODIFIERS_MAX];
    VkDrmFormatModifierPropertiesListEXT list = {
        .sType = VK_STRUCTURE_TYPE_DRM_FORMAT_MODIFIER_PROPERTIES_LIST_EXT,
        .drmFormatModifierCount = MODIFIERS_MAX,
        .pDrmFormatModifierProperties = has};
    VkFormatProperties2 properties = {.sType = VK_STRUCTURE_TYPE_FORMAT_PROPERTIES_2,
                                      .pNext = &list};
    uint32_t count = 0;
    make_instance();
    if (list_devices(devices) == 0 ||
        !has_extension(devices[0], VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME))
        return 0;
    vk.GetPhysicalDeviceFormatProperties2(devices[0], formats[find_format(format)].format,
                                          &properties);
    for (uint32_t i = 0; i < list.drmFormatModifierCount && count < GPUD_MODIFIERS_MAX; i++)
        if (has[i].drmFormatModifier != 0)
            modifiers[count++] = has[i].drmFormatModifier;
    return count;
}

/* --- images ----------------------------------------------------------------------------------- */

/* Imported once. */
static VkDeviceMemory import(struct app *app, struct gpud_memory *memory)
{
    for (unsigned i = 0; i < app->count; i++)
        if (app->memories[i].of == memory)
            return app->memories[i].memory;
    struct gpud_vulkan_memory_info from = export(memory);
    CHECK(!from.dedicated, "an image cannot lie in a buffer's dedicated memory");
    const VkImportMemoryFdInfoKHR imported = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                              .handleType = OPAQUE_FD,
                                              .fd = from.fd};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &imported,
                                       .allocationSize = from.allocation_size,
                                       .memoryTypeIndex = from.memory_type};
    CHECK(app->count < MEMORIES_MAX, "too many memories");
    app->memories[app->count].of = memory;
    VK(app->AllocateMemory(app->device, &info, NULL, &app->memories[app->count].memory));
    return app->memories[app->count++].memory;
}

static VkImage put_image(struct app *app, const struct gpud_frame_info *frame, unsigned format)
{
    const struct gpud_layout *layout = &frame->layout;
    bool implicit = layout->modifier == GPUD_MODIFIER_IMPLICIT;
    VkSubresourceLayout planes[GPUD_PLANES_MAX] = {0};
    for (uint32_t i = 0; i < layout->planes; i++) {
        planes[i].offset = layout->plane[i].offset;
        planes[i].rowPitch = layout->plane[i].stride;
    }
    const VkImageDrmFormatModifierExplicitCreateInfoEXT how = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_DRM_FORMAT_MODIFIER_EXPLICIT_CREATE_INFO_EXT,
        .drmFormatModifier = layout->modifier,
        .drmFormatModifierPlaneCount = layout->planes,
        .pPlaneLayouts = planes};
    const VkExternalMemoryImageCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
        .pNext = implicit ? NULL : &how,
        .handleTypes = OPAQUE_FD};
    const VkImageCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
        .pNext = &external,
        .imageType = VK_IMAGE_TYPE_2D,
        .format = formats[format].format,
        .extent = {layout->width, layout->height, 1},
        .mipLevels = 1,
        .arrayLayers = 1,
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .tiling = implicit ? VK_IMAGE_TILING_OPTIMAL : VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT,
        .usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT |
                 VK_IMAGE_USAGE_SAMPLED_BIT};
    VkImage image;
    VkMemoryRequirements needs;
    VK(app->CreateImage(app->device, &info, NULL, &image));
    app->GetImageMemoryRequirements(app->device, image, &needs);
    CHECK(needs.size <= layout->size, "the image needs %llu bytes, the frame has %llu",
          (unsigned long long)needs.size, (unsigned long long)layout->size);
    CHECK(frame->memory_offset % needs.alignment == 0, "the frame is not where an image may be");
    VK(app->BindImageMemory(app->device, image, import(app, frame->memory), frame->memory_offset));
    return image;
}

/* --- copies ----------------------------------------------------------------------------------- */

struct pages {
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *data;
};

static struct pages make_pages(const struct app *app, uint64_t size)
{
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = size,
                                     .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    struct pages made;
    VkMemoryRequirements needs;
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VK(app->CreateBuffer(app->device, &info, NULL, &made.buffer));
    app->GetBufferMemoryRequirements(app->device, made.buffer, &needs);
    allocate.allocationSize = needs.size;
    while (allocate.memoryTypeIndex < app->types.memoryTypeCount &&
           (!(needs.memoryTypeBits >> allocate.memoryTypeIndex & 1) ||
            (app->types.memoryTypes[allocate.memoryTypeIndex].propertyFlags & wanted) != wanted))
        allocate.memoryTypeIndex++;
    CHECK(allocate.memoryTypeIndex < app->types.memoryTypeCount, "no memory for the host");
    VK(app->AllocateMemory(app->device, &allocate, NULL, &made.memory));
    VK(app->BindBufferMemory(app->device, made.buffer, made.memory, 0));
    VK(app->MapMemory(app->device, made.memory, 0, VK_WHOLE_SIZE, 0, &made.data));
    return made;
}

static void record(const struct app *app, VkCommandBuffer commands, VkImage image, unsigned format,
                   const struct gpud_layout *rows, const struct pages *pages, bool write)
{
    VkBufferImageCopy regions[GPUD_PLANES_MAX] = {0};
    VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .dstAccessMask = write ? VK_ACCESS_TRANSFER_WRITE_BIT : VK_ACCESS_TRANSFER_READ_BIT,
        .oldLayout = write ? VK_IMAGE_LAYOUT_UNDEFINED : VK_IMAGE_LAYOUT_GENERAL,
        .newLayout = VK_IMAGE_LAYOUT_GENERAL,
        .srcQueueFamilyIndex = write ? VK_QUEUE_FAMILY_IGNORED : VK_QUEUE_FAMILY_EXTERNAL,
        .dstQueueFamilyIndex = write ? VK_QUEUE_FAMILY_IGNORED : app->family,
        .image = image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    const VkMemoryBarrier to_host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    for (uint32_t i = 0; i < rows->planes; i++) {
        uint32_t texel = formats[format].texel[i];
        regions[i].bufferOffset = rows->plane[i].offset;
        regions[i].bufferRowLength = rows->plane[i].stride / texel;
        regions[i].imageSubresource.aspectMask =
            rows->planes == 1 ? (VkImageAspectFlags)VK_IMAGE_ASPECT_COLOR_BIT
                              : (VkImageAspectFlags)VK_IMAGE_ASPECT_PLANE_0_BIT << i;
        regions[i].imageSubresource.layerCount = 1;
        regions[i].imageExtent =
            (VkExtent3D){rows->plane[i].row_bytes / texel, rows->plane[i].rows, 1};
    }
    app->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT,
                            VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0, NULL, 1, &barrier);
    if (write)
        app->CmdCopyBufferToImage(commands, pages->buffer, image, VK_IMAGE_LAYOUT_GENERAL,
                                  rows->planes, regions);
    else
        app->CmdCopyImageToBuffer(commands, image, VK_IMAGE_LAYOUT_GENERAL, pages->buffer,
                                  rows->planes, regions);
    barrier.srcAccessMask = barrier.dstAccessMask;
    barrier.dstAccessMask = 0;
    barrier.oldLayout = VK_IMAGE_LAYOUT_GENERAL;
    barrier.srcQueueFamilyIndex = app->family;
    barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_EXTERNAL;
    app->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 1,
                            &to_host, 0, NULL, 1, &barrier);
}

static void copy(struct app *app, struct gpud_frame *frame, const struct gpud_layout *rows,
                 const void *from, void *to)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    unsigned format = find_format(info.layout.format);
    VkImage image = put_image(app, &info, format);
    struct pages pages = make_pages(app, rows->size);
    memcpy(pages.data, from, rows->size);
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = app->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    const VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkCommandBuffer commands;
    VkFence done;
    VK(app->AllocateCommandBuffers(app->device, &allocate, &commands));
    VK(app->BeginCommandBuffer(commands, &begin));
    record(app, commands, image, format, rows, &pages, to == NULL);
    VK(app->EndCommandBuffer(commands));
    VK(app->CreateFence(app->device, &fence_info, NULL, &done));
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &commands};
    VK(app->QueueSubmit(app->queue, 1, &submit, done));
    VK(app->WaitForFences(app->device, 1, &done, VK_TRUE, WAIT));
    if (to)
        memcpy(to, pages.data, rows->size);
    app->DestroyFence(app->device, done, NULL);
    app->DestroyBuffer(app->device, pages.buffer, NULL);
    app->FreeMemory(app->device, pages.memory, NULL);
    app->DestroyImage(app->device, image, NULL);
}

void app_write(struct app *app, struct gpud_frame *frame, const struct gpud_layout *rows,
               const void *data)
{
    copy(app, frame, rows, data, NULL);
}

void app_read(struct app *app, struct gpud_frame *frame, const struct gpud_layout *rows, void *data)
{
    copy(app, frame, rows, data, data);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* images <device> [modifier]: frames that are images as the driver arranges them, of the implicit
 * modifier or of the driver's DRM format modifiers. The applications have VkDevices of their own,
 * in several processes, and every byte is compared. */
#include "conformance.h"

#include "route/route.h"
#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"
#include "stream/shared/shared.h"
#include "support/media.h"
#include "support/picture.h"
#include "support/spawn_again.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

/* --- an application --------------------------------------------------------------------------- */

/* It has a VkDevice of its own, on the GPU and driver that the memory is of, puts images on the
 * library's frames, and knows nothing but the public API. */

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
} kinds[] = {
    {"RGBA", VK_FORMAT_R8G8B8A8_UNORM, {4}},
    {"GRAY8", VK_FORMAT_R8_UNORM, {1}},
    {"RGBA64_LE", VK_FORMAT_R16G16B16A16_UNORM, {8}},
    {"NV12", VK_FORMAT_G8_B8R8_2PLANE_420_UNORM, {1, 2}},
};

static unsigned find_format(const char *name)
{
    for (unsigned i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return i;
    FAIL("the test has no %s", name);
}

#define VK(call)                                                \
    do {                                                        \
        VkResult result_ = (call);                              \
        CHECK(result_ == VK_SUCCESS, "%s: %d", #call, result_); \
    } while (0)

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
    uint32_t count = COUNT(all);
    VkResult result = vk.EnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    bool found = false;
    for (uint32_t i = 0; result >= VK_SUCCESS && i < count; i++)
        found |= strcmp(all[i].extensionName, name) == 0;
    return found;
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
    VkQueueFamilyProperties families[16];
    uint32_t family_count = 16;
    vk.GetPhysicalDeviceQueueFamilyProperties(app->physical, &family_count, families);
    for (uint32_t i = family_count; i-- > 0;) /* the first one that draws, else the first */
        if (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)
            app->family = i;
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

static struct app *app_open(struct gpud_memory *memory)
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

static void app_close(struct app **app)
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

/* The modifiers that the driver of the first device has for a format, but for that of rows. */
static uint32_t app_list_modifiers(const char *format, uint64_t modifiers[GPUD_MODIFIERS_MAX])
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
    vk.GetPhysicalDeviceFormatProperties2(devices[0], kinds[find_format(format)].format,
                                          &properties);
    for (uint32_t i = 0; i < list.drmFormatModifierCount && count < GPUD_MODIFIERS_MAX; i++)
        if (has[i].drmFormatModifier != 0)
            modifiers[count++] = has[i].drmFormatModifier;
    return count;
}

static VkDeviceMemory import_once(struct app *app, struct gpud_memory *memory)
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
        .format = kinds[format].format,
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
    VK(app->BindImageMemory(app->device, image, import_once(app, frame->memory),
                            frame->memory_offset));
    return image;
}

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
        uint32_t texel = kinds[format].texel[i];
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

/* Writes or reads the image that a frame is, from or to rows that lie as `rows` says. */
static void app_copy(struct app *app, struct gpud_frame *frame, const struct gpud_layout *rows,
                     void *data, bool write)
{
    struct gpud_frame_info info = INFO(frame, frame);
    unsigned format = find_format(info.layout.format);
    VkImage image = put_image(app, &info, format);
    struct pages pages = make_pages(app, rows->size);
    memcpy(pages.data, data, rows->size);
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
    record(app, commands, image, format, rows, &pages, write);
    VK(app->EndCommandBuffer(commands));
    VK(app->CreateFence(app->device, &fence_info, NULL, &done));
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &commands};
    VK(app->QueueSubmit(app->queue, 1, &submit, done));
    VK(app->WaitForFences(app->device, 1, &done, VK_TRUE, WAIT));
    if (!write)
        memcpy(data, pages.data, rows->size);
    app->DestroyFence(app->device, done, NULL);
    app->DestroyBuffer(app->device, pages.buffer, NULL);
    app->FreeMemory(app->device, pages.memory, NULL);
    app->DestroyImage(app->device, image, NULL);
}

#define LONG (60 * GPUD_SEC)
#define HANGS_AFTER 170 /* s: the process is ended then */
#define ADDRESS "images"
#define ADDRESS_NEXT "images-next"
#define SLOTS 3
#define FRAMES 9 /* a test */

static const char *device; /* "vulkan:0" */
static bool implicit;
static uint64_t modifiers[GPUD_MODIFIERS_MAX];
static uint32_t modifier_count;

/* --- pictures --------------------------------------------------------------------------------- */

/* A width that no driver likes, so that its rows are wider than the picture's. */
static struct gpud_layout rows_of(const char *format)
{
    return LAYOUT(format, 332, 118, 0);
}

/* Zeros, for such rows and what lies before them. */
static unsigned char *new_rows(const struct gpud_layout *rows, uint64_t before)
{
    uint64_t size = (before + rows->size + 4095) / 4096 * 4096;
    unsigned char *data = aligned_alloc(4096, size);
    CHECK(data, "out of memory");
    memset(data, 0, size);
    return data;
}

/* --- sending ---------------------------------------------------------------------------------- */

struct sending {
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout rows;
    struct app *app;
    uint64_t number;
};

static struct sending start_sending(const char *address, const char *format)
{
    struct sending made = {.context = NEW_CONTEXT(), .rows = rows_of(format)};
    made.host = OPEN_DEVICE(made.context, "host");
    made.sender = NEW_SENDER(made.context, .address = address, .device = device, .slots = SLOTS,
                             .modifiers = modifiers, .modifier_count = modifier_count);
    WORKS(gpud_sender_configure(made.sender, PICTURE(&made.rows), &e));
    return made;
}

static void stop_sending(struct sending *sending)
{
    gpud_sender_destroy(&sending->sender);
    app_close(&sending->app);
    gpud_device_close(&sending->host);
    gpud_context_destroy(&sending->context);
}

static void number_frame(struct gpud_frame *frame, uint64_t number)
{
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
}

/* Paints a lent frame, by the application's own device where it is an image. */
static void paint(struct sending *sending, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    unsigned char *data = new_rows(&sending->rows, 0);
    picture_write(&sending->rows, data, sending->number);
    if (info.layout.modifier) {
        if (!sending->app)
            sending->app = app_open(info.memory);
        app_copy(sending->app, frame, &sending->rows, data, true);
    } else {
        memcpy(MAP_FRAME(frame, GPUD_WRITE, LONG), data, sending->rows.size);
        gpud_frame_unmap(frame);
    }
    free(data);
}

static void send_lent(struct sending *sending)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sending->sender, LONG);
    paint(sending, frame);
    number_frame(frame, sending->number);
    WORKS(gpud_sender_submit(sending->sender, &frame, LONG, &e));
}

/* Rows of the application's in host memory; `apart`: from there on, where no driver pins them. */
static void send_rows(struct sending *sending, uint64_t apart)
{
    unsigned char *data = new_rows(&sending->rows, apart);
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    picture_write(&sending->rows, data + apart, sending->number);
    WORKS(
        gpud_memory_wrap(sending->host, data + apart, sending->rows.size, NULL, NULL, &memory, &e));
    WORKS(gpud_frame_wrap(memory, 0, &sending->rows, &frame, &e));
    number_frame(frame, sending->number);
    WORKS(gpud_sender_submit_keep(sending->sender, frame, LONG, &e));
    gpud_frame_release(&frame);
    /* The copies of a kept frame may be under way. */
    WORKS(gpud_queue_finish(sending->sender->queue, gpud_deadline(LONG), &e));
    gpud_memory_unref(&memory);
    free(data);
}

/* Whether the last frame was an image that was lent. */
static bool after_image(const struct sending *sending)
{
    return sending->number % 3 != 0;
}

static void send_one(struct sending *sending)
{
    sending->number++;
    if (!after_image(sending))
        send_rows(sending, sending->number % 2 ? 0 : 64);
    else
        send_lent(sending);
}

/* --- receiving -------------------------------------------------------------------------------- */

struct receiving {
    struct gpud_context *own;
    struct gpud_receiver *receiver;
    struct app *app;
    bool takes, on_host;
    unsigned formats, image_formats;
};

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiving *receiving = user;
    if (event != GPUD_EVENT_FORMAT)
        return;
    receiving->formats++;
    receiving->image_formats +=
        ((const struct gpud_format_event *)data)->media.picture.layout.modifier != 0;
}

/* The context is the receiving's own, unless one is given. */
static void start_receiving(struct receiving *made, struct gpud_context *context,
                            const char *address, const char *where, const char *route, bool takes)
{
    *made = (struct receiving){.own = context ? NULL : NEW_CONTEXT(),
                               .takes = takes,
                               .on_host = strcmp(where, "host") == 0};
    made->receiver = NEW_RECEIVER(
        context ? context : made->own, .address = address, .device = where, .slots = SLOTS,
        .route = route, .on_event = on_event, .user = made, .modifiers = takes ? modifiers : NULL,
        .modifier_count = takes ? modifier_count : 0);
}

static void stop_receiving(struct receiving *receiving)
{
    gpud_receiver_destroy(&receiving->receiver);
    app_close(&receiving->app);
    gpud_context_destroy(&receiving->own);
}

/* By the application's own device where it is an image, else by the CPU. */
static void check_frame(struct receiving *receiving, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    uint32_t plane, row, byte;
    if (!info.layout.modifier) {
        const void *data = MAP_FRAME(frame, GPUD_READ, LONG);
        CHECK(picture_check(&info.layout, data, info.offset, &plane, &row, &byte),
              "the rows of frame %llu are wrong", (unsigned long long)info.offset);
        gpud_frame_unmap(frame);
        return;
    }
    struct gpud_layout rows = rows_of(info.layout.format);
    unsigned char *data = new_rows(&rows, 0);
    if (!receiving->app)
        receiving->app = app_open(info.memory);
    app_copy(receiving->app, frame, &rows, data, false);
    CHECK(picture_check(&rows, data, info.offset, &plane, &row, &byte),
          "the image of frame %llu is wrong", (unsigned long long)info.offset);
    free(data);
}

static void receive(struct receiving *receiving, unsigned frames)
{
    for (unsigned i = 0; i < frames; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(receiving->receiver, LONG);
        check_frame(receiving, frame);
        gpud_frame_release(&frame);
    }
}

static void check_way(struct receiving *receiving, bool images)
{
    struct gpud_receiver_info info = INFO(receiver, receiving->receiver);
    CHECK(!images || strcmp(info.path, "map") == 0, "images by %s: %s", info.path,
          info.fallback_reason);
    /* On the same GPU its sender makes rows of them by one copy, and nothing is copied again. */
    CHECK(images || strcmp(info.path, receiving->on_host ? "staged" : "peer") == 0,
          "rows by %s: %s", info.path, info.fallback_reason);
    CHECK(info.copies_cpu + info.copies_gpu == 0, "rows are copied once more");
    CHECK(images || strstr(info.fallback_reason, "frames are images"), "the reason: \"%s\"",
          info.fallback_reason);
    CHECK(receiving->image_formats == (images ? receiving->formats : 0),
          "%u of %u formats are images", receiving->image_formats, receiving->formats);
}

/* --- other processes -------------------------------------------------------------------------- */

static pid_t start(const char *role, const char *address, const char *what, const char *takes,
                   const char *frames)
{
    extern char **environ;
    pid_t pid;
    char *argv[] = {(char *)"images", (char *)device,  (char *)(implicit ? "implicit" : "modifier"),
                    (char *)role,     (char *)address, (char *)what,
                    (char *)takes,    (char *)frames,  NULL};
    int failed = spawn_again(&pid, NULL, argv, environ);
    CHECK(failed == 0, "no process: %s", strerror(failed));
    return pid;
}

static pid_t start_receiver(const char *address, const char *where, bool takes, unsigned frames)
{
    char count[16];
    snprintf(count, sizeof(count), "%u", frames);
    return start("receive", address, where, takes ? "1" : "0", count);
}

static void finish(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "the other process ended with %d", status);
}

static void end(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "it had ended by itself: %d",
          status);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* How a picture of the format would be lent. */
static bool has_image(struct gpud_device *on, const char *format, struct gpud_layout *image,
                      struct gpud_error *why)
{
    struct gpud_layout rows = rows_of(format);
    return gpud_image_find(on, &rows, modifiers, modifier_count, image, why) == GPUD_OK;
}

static void test_beside(const char *format)
{
    SAY("%s: images for one process, rows for others beside it", format);
    AUTO(stop_sending) struct sending sending = start_sending(ADDRESS, format);
    struct gpud_frame *lent = ACQUIRE_SLOT(sending.sender, LONG);
    struct gpud_frame_info info = INFO(frame, lent);
    CHECK(info.layout.modifier && (info.layout.modifier == GPUD_MODIFIER_IMPLICIT) == implicit,
          "a frame with the modifier 0x%llx is lent", (unsigned long long)info.layout.modifier);
    /* Its bytes as they lie; a driver may well lay a picture out by rows. */
    unsigned char *rows = new_rows(&sending.rows, 0);
    picture_write(&sending.rows, rows, sending.number);
    paint(&sending, lent);
    const unsigned char *bytes = MAP_FRAME(lent, GPUD_READ, LONG);
    SAY("  modifier 0x%016llx, %llu bytes for %llu of rows, which lie %s",
        (unsigned long long)info.layout.modifier, (unsigned long long)info.layout.size,
        (unsigned long long)sending.rows.size,
        memcmp(bytes, rows, sending.rows.size) == 0 ? "the same" : "otherwise");
    free(rows);
    gpud_frame_unmap(lent);
    gpud_frame_release(&lent);
    pid_t peers[] = {start_receiver(ADDRESS, device, true, FRAMES),
                     start_receiver(ADDRESS, device, false, FRAMES),
                     start_receiver(ADDRESS, "host", false, FRAMES)};
    WORKS(gpud_sender_wait(sending.sender, 3, LONG, &e));
    for (unsigned i = 0; i < FRAMES; i++) {
        struct gpud_sender_info before = INFO(sender, sending.sender);
        send_one(&sending);
        struct gpud_sender_info after = INFO(sender, sending.sender);
        unsigned by_cpu = (unsigned)(after.copies_cpu - before.copies_cpu);
        unsigned by_gpu = (unsigned)(after.copies_gpu - before.copies_gpu);
        if (after_image(&sending))
            CHECK(by_cpu == 0 && by_gpu == 2,
                  "an image is copied %u times by the CPU and %u by the GPU, for two receivers of "
                  "rows",
                  by_cpu, by_gpu);
    }
    for (unsigned i = 0; i < 3; i++)
        finish(peers[i]);
}

/* One in the sender's own process and context, and one that leaves and comes again. */
static void test_same_process(void)
{
    SAY("images inside one process, by pointer; and other formats in between");
    static const char *const formats[] = {"RGBA", "UYVY", "RGBA"};
    AUTO(stop_sending) struct sending sending = start_sending(ADDRESS, "RGBA");
    AUTO(stop_receiving) struct receiving receiving;
    start_receiving(&receiving, sending.context, ADDRESS, device, NULL, true);
    for (unsigned i = 0; i < 3; i++) {
        sending.rows = rows_of(formats[i]);
        WORKS(gpud_sender_configure(sending.sender, PICTURE(&sending.rows), &e));
        PEER_LINK(sending.sender, receiving.receiver, 1);
        sending.number++;
        send_lent(&sending);
        struct gpud_frame *frame = ACQUIRE_FRAME(receiving.receiver, LONG);
        struct gpud_frame_info info = INFO(frame, frame);
        CHECK(strcmp(info.layout.format, formats[i]) == 0, "a frame of %s", info.layout.format);
        CHECK((info.layout.modifier != 0) == (i != 1), "%s with modifier 0x%llx", formats[i],
              (unsigned long long)info.layout.modifier);
        check_frame(&receiving, frame);
        gpud_frame_release(&frame);
        app_close(&receiving.app); /* the next epoch's memories may have the same addresses */
        app_close(&sending.app);
    }
}

static void test_kill_receivers(void)
{
    SAY("receivers are killed: the others get every frame, and new ones images");
    AUTO(stop_sending) struct sending sending = start_sending(ADDRESS, "RGBA");
    for (unsigned round = 0; round < 2; round++) {
        pid_t image = start_receiver(ADDRESS, device, true, round == 0 ? 0 : FRAMES);
        pid_t rows = start_receiver(ADDRESS, "host", false, round == 1 ? 0 : FRAMES);
        WORKS(gpud_sender_wait(sending.sender, 2, LONG, &e));
        for (unsigned i = 0; i < FRAMES; i++) {
            if (i == FRAMES / 2)
                end(round == 0 ? image : rows);
            send_one(&sending);
        }
        finish(round == 0 ? rows : image);
        PEER_UNTIL("receivers that are gone count no more", 60000,
                   INFO(sender, sending.sender).receivers == 0);
    }
}

static void test_kill_sender(void)
{
    SAY("the sender is killed: a held image stays, and the next sender's images come");
    AUTO(stop_receiving) struct receiving receiving;
    struct gpud_frame *held = NULL;
    start_receiving(&receiving, NULL, ADDRESS, device, NULL, true);
    for (unsigned round = 0; round < 2; round++) {
        pid_t sender = start("send", ADDRESS, "RGBA", NULL, NULL);
        receive(&receiving, FRAMES);
        check_way(&receiving, true);
        held = ACQUIRE_FRAME(receiving.receiver, LONG);
        end(sender);
        struct gpud_error why = {.reason = ""};
        enum gpud_status got = GPUD_OK;
        while (got == GPUD_OK) {
            struct gpud_frame *frame = NULL;
            got = gpud_receiver_acquire(receiving.receiver, LONG, &frame, &why);
            gpud_frame_release(&frame);
        }
        CHECK(got == GPUD_PEER, "status %d: %s", (int)got, why.reason);
        check_frame(&receiving, held);
        gpud_frame_release(&held);
        app_close(&receiving.app);
    }
}

/* What another process lends is sent on, to one that takes images and to one that does not. */
static void test_relay(void)
{
    SAY("received images are sent on");
    AUTO(stop_sending) struct sending next = start_sending(ADDRESS_NEXT, "RGBA");
    pid_t sender = start("send", ADDRESS, "RGBA", NULL, NULL);
    pid_t peers[] = {start_receiver(ADDRESS_NEXT, device, true, FRAMES),
                     start_receiver(ADDRESS_NEXT, "host", false, FRAMES)};
    WORKS(gpud_sender_wait(next.sender, 2, LONG, &e));
    AUTO(stop_receiving) struct receiving receiving;
    start_receiving(&receiving, next.context, ADDRESS, device, NULL, true);
    for (unsigned i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = ACQUIRE_FRAME(receiving.receiver, LONG);
        WORKS(gpud_sender_submit(next.sender, &frame, LONG, &e));
    }
    finish(peers[0]);
    finish(peers[1]);
    end(sender);
}

static void test_lies(struct side *side)
{
    SAY("images that do not lie as the driver arranges them are refused");
    struct gpud_layout image;
    struct gpud_error why;
    CHECK(has_image(side->device, "RGBA", &image, &why), "%s", why.reason);
    WORKS(gpud_image_check(side->device, &image, image.size, modifiers, modifier_count, &e));
    GIVES(GPUD_PEER,
          gpud_image_check(side->device, &image, image.size + 4096, modifiers, modifier_count, &e));
    struct gpud_layout strange = image, twice_as_wide = image, packed = image, small = image,
                       shifted = image;
    strange.modifier = UINT64_C(0x0e00000000000001); /* no vendor's */
    twice_as_wide.width *= 2;                        /* its rows are half as long */
    snprintf(packed.format, sizeof(packed.format), "UYVY");
    small.size -= 4096; /* too small for it */
    shifted.plane[0].stride += 64;
    const struct {
        const struct gpud_layout *lie;
        const uint64_t *modifiers;
        enum gpud_status status; /* GPUD_OK: any but that */
        uint32_t count;
    } lies[] = {
        {&strange, modifiers, GPUD_UNSUPPORTED, modifier_count},
        {&strange, &strange.modifier, GPUD_UNSUPPORTED, 1},
        {&twice_as_wide, modifiers, GPUD_OK, modifier_count},
        {&packed, modifiers, GPUD_UNSUPPORTED, modifier_count},
        {&small, modifiers, GPUD_PEER, modifier_count},
        {&shifted, modifiers, GPUD_PEER, modifier_count},
    };
    for (size_t i = 0; i < COUNT(lies) - implicit; i++) {
        const struct gpud_layout *lie = lies[i].lie;
        enum gpud_status got =
            gpud_image_check(side->device, lie, lie->size, lies[i].modifiers, lies[i].count, &why);
        CHECK(got != GPUD_OK && (got == lies[i].status || !lies[i].status), "lie %zu gives \"%s\"",
              i, gpud_status_string(got));
        CHECK(why.status == got && strlen(why.reason) >= 10, "lie %zu is refused without a reason",
              i);
    }
}

/* A sender that says something else of its images than they are; the receiver finds out in its
 * handshake, says so, and gets rows. */
static void test_lying_sender(void)
{
    SAY("a sender that lies about its images");
    AUTO(stop_sending) struct sending sending = start_sending(ADDRESS, "RGBA");
    gpud_sender_lock(sending.sender);
    /* The ring and the offer agree; the driver does not. */
    if (implicit)
        sending.sender->layout.width /= 2;
    else
        sending.sender->layout.plane[0].stride -= 8;
    gpud_sender_unlock(sending.sender);
    AUTO(stop_receiving) struct receiving receiving;
    struct gpud_frame *frame;
    start_receiving(&receiving, NULL, ADDRESS, device, "map", true);
    EXPECT(GPUD_UNSUPPORTED, "map: ", gpud_receiver_acquire(receiving.receiver, LONG, &frame, &e));
}

/* By what each of them says of itself. */
static void test_choice(struct side *side, struct side *host)
{
    SAY("who says that it takes images gets them only where it can");
    struct gpud_endpoint sender, receiver;
    char reason[GPUD_REASON_MAX];
    struct gpud_route_trials *trials = gpud_route_trials_create();
    gpud_endpoint_describe(&sender, side->device, NULL);
    sender.caps |= GPUD_CAP_IMAGES;
    for (unsigned i = 0; i < 4; i++) {
        gpud_endpoint_describe(&receiver, i == 3 ? host->device : side->device, NULL);
        receiver.token = ~sender.token;
        if (i != 0)
            receiver.caps |= GPUD_CAP_IMAGES;
        if (i == 2) /* another GPU */
            receiver.uuid[0] ^= 1;
        enum gpud_degraded degraded;
        const struct gpud_route_ops *route =
            gpud_route_select(&sender, &receiver, trials, reason, &degraded);
        CHECK(route, "no route: %s", reason);
        CHECK((strcmp(route->name, "map") == 0) == (i == 1), "case %u goes by %s", i, route->name);
    }
    gpud_route_trials_destroy(&trials);
}

static void test_bad_parameters(struct side *side)
{
    SAY("nonsense is refused with a sentence");
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_vulkan_memory_info info = GPUD_INFO_INIT(info);
    struct gpud_memory *plain = NEW_MEMORY(side->device, 4096);
    GIVES(GPUD_INVALID,
          gpud_sender_create(side->context,
                             WITH_SIZE(gpud_sender_params, .address = ADDRESS, .modifier_count = 1),
                             &sender, &e));
    GIVES(GPUD_INVALID, gpud_receiver_create(side->context,
                                             WITH_SIZE(gpud_receiver_params, .address = ADDRESS,
                                                       .modifiers = modifiers,
                                                       .modifier_count = GPUD_MODIFIERS_MAX + 1),
                                             &receiver, &e));
    GIVES(GPUD_UNSUPPORTED, gpud_memory_export_vulkan(plain, &info, &e));
    info.size = 0;
    GIVES(GPUD_INVALID, gpud_memory_export_vulkan(plain, &info, &e));
    gpud_memory_unref(&plain);
}

/* Modifiers asked for where there are none. */
static void test_elsewhere(void)
{
    SAY("a sender on the host lends rows");
    const char *before = device;
    device = "host";
    AUTO(stop_sending) struct sending sending = start_sending(ADDRESS, "RGBA");
    struct gpud_frame *frame = ACQUIRE_SLOT(sending.sender, LONG);
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(info.layout.modifier == 0, "an image on the host");
    gpud_frame_release(&frame);
    device = before;
}

int main(int argc, char **argv)
{
    static const char *const formats[] = {"RGBA", "GRAY8", "RGBA64_LE", "NV12"};
    CHECK(argc > 1, "usage: %s DEVICE [modifier]", argv[0]);
    device = argv[1];
    implicit = argc < 3 || strcmp(argv[2], "modifier") != 0;
    test_alarm(HANGS_AFTER);
    if (implicit) {
        modifiers[modifier_count++] = GPUD_MODIFIER_IMPLICIT;
    } else {
        struct side tried = side_open(device); /* 77 without a driver */
        side_close(&tried);
        modifier_count = app_list_modifiers("RGBA", modifiers);
    }
    /* send DEVICE KIND ADDRESS FORMAT: until it is killed. */
    if (argc > 3 && strcmp(argv[3], "send") == 0) {
        struct sending sending = start_sending(argv[4], argv[5]);
        for (;;) {
            WORKS(gpud_sender_wait(sending.sender, 1, LONG, &e));
            send_one(&sending);
        }
    }
    /* receive DEVICE KIND ADDRESS WHERE TAKES FRAMES: ends with 0 once they came, all right. */
    if (argc > 3) {
        AUTO(stop_receiving) struct receiving receiving;
        bool takes = argv[6][0] == '1';
        unsigned frames = (unsigned)atoi(argv[7]);
        start_receiving(&receiving, NULL, argv[4], argv[5], NULL, takes);
        receive(&receiving, frames ? frames : UINT32_MAX);
        check_way(&receiving, takes);
        return 0;
    }
    struct side side = side_open(device), host = side_open("host");
    struct gpud_layout image;
    struct gpud_error why;
    SAY("%s is %s", device, INFO(device, side.device).description);
    if (modifier_count == 0)
        SKIP("the driver of %s has no DRM format modifiers "
             "(VK_EXT_image_drm_format_modifier)",
             device);
    if (!has_image(side.device, "RGBA", &image, &why))
        SKIP("%s", why.reason);
    runtime_make();
    test_bad_parameters(&side);
    test_choice(&side, &host);
    test_lies(&side);
    for (unsigned i = 0; i < COUNT(formats); i++) {
        if (has_image(side.device, formats[i], &image, &why))
            test_beside(formats[i]);
        else
            SAY("%s: %s", formats[i], why.reason);
    }
    side_close(&host);
    side_close(&side);
    test_same_process();
    test_kill_receivers();
    test_kill_sender();
    test_relay();
    test_lying_sender();
    test_elsewhere();
    runtime_done();
    return 0;
}

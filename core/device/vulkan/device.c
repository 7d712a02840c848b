/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Vulkan's loader and devices. */
#include "device/vulkan/vulkan.h"

#include "base/base.h"
#include "device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* === api ===================================================================================== */

#define DEVICES_MAX 32

struct vulkan_instance_calls gpud_vk;

/* --- errors ---------------------------------------------------------------------------------- */

#define RESULT(result)  \
    {                   \
        result, #result \
    }

static const struct {
    VkResult result;
    const char *name;
} results[] = {
    RESULT(VK_TIMEOUT),
    RESULT(VK_ERROR_OUT_OF_HOST_MEMORY),
    RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY),
    RESULT(VK_ERROR_INITIALIZATION_FAILED),
    RESULT(VK_ERROR_DEVICE_LOST),
    RESULT(VK_ERROR_MEMORY_MAP_FAILED),
    RESULT(VK_ERROR_LAYER_NOT_PRESENT),
    RESULT(VK_ERROR_EXTENSION_NOT_PRESENT),
    RESULT(VK_ERROR_FEATURE_NOT_PRESENT),
    RESULT(VK_ERROR_INCOMPATIBLE_DRIVER),
    RESULT(VK_ERROR_TOO_MANY_OBJECTS),
    RESULT(VK_ERROR_UNKNOWN),
    RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE),
};

static const char *vulkan_device_name_of(VkResult result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].result == result)
            return results[i].name;
    return "a Vulkan error";
}

static enum gpud_status vulkan_device_status_of(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
        return GPUD_NO_MEMORY;
    case VK_ERROR_INCOMPATIBLE_DRIVER:
    case VK_ERROR_INITIALIZATION_FAILED:
        return GPUD_NO_DEVICE;
    default:
        return GPUD_IO;
    }
}

static enum gpud_status vulkan_device_fail(struct gpud_error *error, enum gpud_status status,
                                           VkResult result, const char *format, va_list args)
{
    char text[160];
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, "vulkan", result, "%s: %s (%d)", text,
                            vulkan_device_name_of(result), (int)result);
}

enum gpud_status gpud_vulkan_fail(struct gpud_error *error, VkResult result, const char *format,
                                  ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status =
        vulkan_device_fail(error, vulkan_device_status_of(result), result, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_vulkan_fail_as(struct gpud_error *error, enum gpud_status status,
                                     VkResult result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vulkan_device_fail(error, status, result, format, args);
    va_end(args);
    return status;
}

/* --- the instance ---------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static VkPhysicalDevice devices[DEVICES_MAX];
static uint32_t device_count;
static char why_none[GPUD_REASON_MAX];

/* The instance is kept until the process ends, as the loader keeps its drivers. */
static void vulkan_device_load(void)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    PFN_vkGetInstanceProcAddr find = NULL;
    if (library)
        *(void **)&find = dlsym(library, "vkGetInstanceProcAddr");
    if (!find) {
        gpud_print(why_none, "no Vulkan loader (libvulkan.so.1 cannot be loaded): install it "
                             "(Debian: apt install libvulkan1) and the GPU's driver");
        return;
    }
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)find(NULL, "vkCreateInstance");
    if (!find(NULL, "vkEnumerateInstanceVersion") || !create) {
        gpud_print(why_none, "the Vulkan loader is older than Vulkan 1.1: install a newer one");
        return;
    }
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "gpudirect",
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    VkInstance instance = VK_NULL_HANDLE;
    VkResult result = create(&info, NULL, &instance);
    if (result != VK_SUCCESS) {
        gpud_print(why_none,
                   "no Vulkan driver (%s): install the GPU's, or Mesa's (Debian: apt install "
                   "mesa-vulkan-drivers)",
                   vulkan_device_name_of(result));
        return;
    }
    const char *missing = NULL;
#define FIND(name)                                           \
    gpud_vk.name = (PFN_vk##name)find(instance, "vk" #name); \
    if (!gpud_vk.name)                                       \
        missing = "vk" #name;
    VULKAN_INSTANCE_CALLS(FIND)
#undef FIND
    if (missing) {
        gpud_print(why_none, "the Vulkan loader has no %s: install a newer one", missing);
        return;
    }
    uint32_t count = DEVICES_MAX;
    result = gpud_vk.EnumeratePhysicalDevices(instance, &count, devices);
    if ((result == VK_SUCCESS || result == VK_INCOMPLETE) && count > 0)
        device_count = count;
    else
        gpud_print(why_none,
                   "the Vulkan drivers find no device (%s): is the GPU there, and may this user "
                   "open /dev/dri?",
                   result == VK_SUCCESS ? "none" : vulkan_device_name_of(result));
}

/* How many devices the drivers have. Loads them. */
static uint32_t vulkan_count(void)
{
    pthread_once(&once, vulkan_device_load);
    return device_count;
}

/* === types =================================================================================== */

#define USABLE_BY_CPU (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

bool gpud_vulkan_is_unified(VkMemoryPropertyFlags flags)
{
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | USABLE_BY_CPU | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    return (flags & wanted) == wanted;
}

/* 0: unsuitable. Of a card's memory the part that the CPU does not see is the larger one. */
static unsigned vulkan_device_rate(VkMemoryPropertyFlags flags, enum vulkan_purpose purpose)
{
    if (flags & (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT))
        return 0;
    if (purpose == VULKAN_FOR_HOST)
        return (flags & USABLE_BY_CPU) != USABLE_BY_CPU     ? 0
               : flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? 2
                                                            : 1;
    return !(flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)   ? 0
           : gpud_vulkan_is_unified(flags)                  ? 3
           : !(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) ? 2
                                                            : 1;
}

bool gpud_vulkan_choose_type(const VkPhysicalDeviceMemoryProperties *all, uint32_t allowed,
                             enum vulkan_purpose purpose, uint32_t *type)
{
    unsigned best = 0;
    for (uint32_t i = 0; i < all->memoryTypeCount; i++) {
        unsigned rated =
            allowed >> i & 1 ? vulkan_device_rate(all->memoryTypes[i].propertyFlags, purpose) : 0;
        if (rated > best) {
            best = rated;
            *type = i;
        }
    }
    return best > 0;
}

/* === device ================================================================================== */
/* Vulkan devices: what each can do, and opening them. */

/* --- what the driver says -------------------------------------------------------------------- */

#define EXTENSIONS_MAX 1024
#define VENDOR_AMD 0x1002
#define VENDOR_NVIDIA 0x10de
#define OPAQUE_FD VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define DMA_BUF VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT

struct extensions {
    VkExtensionProperties *list;
    uint32_t count;
};

static bool has(const struct extensions *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].extensionName, name) == 0)
            return true;
    return false;
}

/* A family that only copies is a copy engine of its own; else one that draws least. */
static void find_family(struct vulkan_facts *facts)
{
    VkQueueFamilyProperties families[16];
    uint32_t count = sizeof(families) / sizeof(families[0]);
    unsigned best = UINT32_MAX;
    gpud_vk.GetPhysicalDeviceQueueFamilyProperties(facts->physical, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        VkQueueFlags flags = families[i].queueFlags;
        bool draws = flags & VK_QUEUE_GRAPHICS_BIT, computes = flags & VK_QUEUE_COMPUTE_BIT;
        unsigned rated = 2U * draws + computes;
        if (!(draws || computes || flags & VK_QUEUE_TRANSFER_BIT) || rated >= best)
            continue;
        best = rated;
        facts->family = i;
        facts->lanes =
            families[i].queueCount < VULKAN_LANES_MAX ? families[i].queueCount : VULKAN_LANES_MAX;
    }
}

/* Whether descriptors of buffers, of this kind, can go out and come in. */
static bool has_handles(const struct vulkan_facts *facts, VkExternalMemoryHandleTypeFlagBits kind,
                        VkExternalMemoryProperties *can)
{
    const VkPhysicalDeviceExternalBufferInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .handleType = kind,
    };
    VkExternalBufferProperties properties = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    const VkExternalMemoryFeatureFlags both =
        VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
    gpud_vk.GetPhysicalDeviceExternalBufferProperties(facts->physical, &info, &properties);
    *can = properties.externalMemoryProperties;
    return (can->externalMemoryFeatures & both) == both;
}

/* Memory that is shared with other processes has a dma-buf as well, if the driver can make both of
 * one allocation. NVIDIA's dma-bufs are for PCI cards alone, whose memory is made for that. */
static void find_sharing(struct vulkan_facts *facts, const struct extensions *all)
{
    VkExternalMemoryProperties opaque, dmabuf = {0};
    if (!has(all, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME))
        return;
    facts->opaque_fd = has_handles(facts, OPAQUE_FD, &opaque);
    facts->dedicated =
        opaque.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
    facts->dmabuf = has(all, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME) &&
                    has_handles(facts, DMA_BUF, &dmabuf);
    facts->dmabuf_dedicated =
        dmabuf.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
    facts->foreign = has(all, VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME);
    facts->shared = facts->opaque_fd ? OPAQUE_FD : 0;
    if (facts->opaque_fd && facts->dmabuf && facts->vendor != VENDOR_NVIDIA &&
        opaque.compatibleHandleTypes & DMA_BUF && dmabuf.compatibleHandleTypes & OPAQUE_FD)
        facts->shared |= DMA_BUF;
    facts->images = facts->opaque_fd && !facts->dedicated;
    facts->modifiers = has(all, VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME) &&
                       has(all, VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME);
    facts->reexports = facts->shared & DMA_BUF && opaque.exportFromImportedHandleTypes & DMA_BUF;
    facts->of_cuda = facts->opaque_fd && facts->vendor == VENDOR_NVIDIA;
    facts->of_hip = facts->dmabuf && facts->vendor == VENDOR_AMD;
}

/* Name, place, UUIDs, driver, and the alignment of host pages. Returns the version. */
static uint32_t read_properties(struct vulkan_facts *facts, const struct extensions *all,
                                struct gpud_device_info *info)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 own = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &id};
    bool has_pci = has(all, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    facts->host_pointer = has(all, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    if (has_pci) {
        pci.pNext = id.pNext;
        id.pNext = &pci;
    }
    if (facts->host_pointer) {
        host.pNext = id.pNext;
        id.pNext = &host;
    }
    if (has(all, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) {
        driver.pNext = id.pNext;
        id.pNext = &driver;
    }
    gpud_vk.GetPhysicalDeviceProperties2(facts->physical, &own);
    gpud_print(info->description, "%s", own.properties.deviceName);
    if (has_pci)
        gpud_print(info->pci, "%04x:%02x:%02x.%x", pci.pciDomain & 0xffff, pci.pciBus & 0xff,
                   pci.pciDevice & 0x1f, pci.pciFunction & 7);
    if (facts->host_pointer)
        facts->host_align = host.minImportedHostPointerAlignment;
    facts->vendor = own.properties.vendorID;
    facts->pins_writable_only = facts->vendor == VENDOR_NVIDIA;
    facts->is_lavapipe = driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
    memcpy(facts->device_uuid, id.deviceUUID, VK_UUID_SIZE);
    memcpy(facts->driver_uuid, id.driverUUID, VK_UUID_SIZE);
    return own.properties.apiVersion;
}

static bool has_timelines(VkPhysicalDevice physical, const struct extensions *all)
{
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &timeline};
    if (!has(all, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME))
        return false;
    gpud_vk.GetPhysicalDeviceFeatures2(physical, &features);
    return timeline.timelineSemaphore;
}

/* Asks for everything. false: the device cannot be used; info has the reason. */
static bool examine(VkPhysicalDevice physical, struct vulkan_facts *facts,
                    struct gpud_device_info *info)
{
    *facts = (struct vulkan_facts){.physical = physical, .host_align = 1};
    struct extensions all = {calloc(EXTENSIONS_MAX, sizeof(*all.list)), EXTENSIONS_MAX};
    if (!all.list || gpud_vk.EnumerateDeviceExtensionProperties(physical, NULL, &all.count,
                                                                all.list) < VK_SUCCESS)
        all.count = 0;
    uint32_t version = read_properties(facts, &all, info);
    bool usable = version >= VK_API_VERSION_1_1 && has_timelines(physical, &all);
    if (usable) {
        gpud_vk.GetPhysicalDeviceMemoryProperties(physical, &facts->memory);
        find_family(facts);
        find_sharing(facts, &all);
    } else {
        gpud_print(info->reason,
                   "the driver of %s has Vulkan %u.%u without timeline semaphores, or an older "
                   "one than 1.1: a newer driver is needed",
                   info->name, VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    }
    free(all.list);
    if (usable && facts->lanes == 0)
        gpud_print(info->reason, "the driver of %s has no queue that copies", info->name);
    return usable && facts->lanes > 0;
}

/* At least 1, so that probe can say why there is no device. */
static unsigned vulkan_device_count(void)
{
    uint32_t found = vulkan_count();
    return found ? found : 1;
}

static void vulkan_device_probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    struct vulkan_facts facts;
    if (vulkan_count() == 0) {
        gpud_print(info->description, "Vulkan device");
        gpud_print(info->reason, "%s", why_none);
        return;
    }
    if (!examine(devices[device->index], &facts, info))
        return;
    info->available = true;
    gpud_print(info->reason,
               "through Vulkan only processes with this same GPU reach its memory%s: where it has "
               "CUDA or HIP, too, other devices do by that",
               facts.of_cuda ? ", also by CUDA" : "");
    device->caps = GPUD_CAP_FENCES;
    if (facts.of_cuda || facts.of_hip)
        device->caps |= GPUD_CAP_IMPORT;
    if (facts.images)
        device->caps |= GPUD_CAP_IMAGES;
    if (facts.opaque_fd) {
        device->caps |= GPUD_CAP_SHARE | GPUD_CAP_GRAPHICS;
    } else {
        gpud_print(device->no_direct,
                   "the driver of %s exports no memory by descriptor (VK_KHR_external_memory_fd)",
                   info->name);
        gpud_print(info->reason, "%s", device->no_direct);
    }
    memcpy(device->uuid, facts.device_uuid, sizeof(device->uuid));
    device->dmabuf_pci_only = facts.vendor == VENDOR_NVIDIA;
    if (!facts.dmabuf)
        gpud_print(device->no_dmabuf,
                   "the driver of %s makes no dma-bufs (VK_EXT_external_memory_dma_buf)",
                   info->name);
}

/* --- opening and closing --------------------------------------------------------------------- */

static enum gpud_status create_device(struct vulkan_device *vulkan, const char *name,
                                      struct gpud_error *error)
{
    const struct vulkan_facts *facts = &vulkan->facts;
    const float priorities[VULKAN_LANES_MAX] = {1, 1, 1, 1};
    const char *extensions[8] = {VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME};
    uint32_t extension_count = 1;
    if (facts->opaque_fd)
        extensions[extension_count++] = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
    if (facts->dmabuf)
        extensions[extension_count++] = VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
    if (facts->foreign)
        extensions[extension_count++] = VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME;
    if (facts->modifiers) {
        extensions[extension_count++] = VK_KHR_IMAGE_FORMAT_LIST_EXTENSION_NAME;
        extensions[extension_count++] = VK_EXT_IMAGE_DRM_FORMAT_MODIFIER_EXTENSION_NAME;
    }
    if (facts->host_pointer)
        extensions[extension_count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    const VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        .timelineSemaphore = VK_TRUE,
    };
    const VkDeviceQueueCreateInfo queues = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = facts->family,
        .queueCount = facts->lanes,
        .pQueuePriorities = priorities,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &timeline,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queues,
        .enabledExtensionCount = extension_count,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult result = gpud_vk.CreateDevice(facts->physical, &info, NULL, &vulkan->device);
    if (result != VK_SUCCESS)
        return gpud_vulkan_fail_as(error, GPUD_NO_DEVICE, result, "%s does not open", name);
    const char *missing = NULL;
#define FIND(name) \
    vulkan->calls.name = (PFN_vk##name)gpud_vk.GetDeviceProcAddr(vulkan->device, "vk" #name);
#define NEED(name)           \
    FIND(name)               \
    if (!vulkan->calls.name) \
        missing = "vk" #name;
    VULKAN_DEVICE_CALLS(NEED)
    VULKAN_EXTENSION_CALLS(FIND)
#undef NEED
#undef FIND
    if (missing) /* vkDestroyDevice, perhaps: the device is left */
        return gpud_fail(error, GPUD_NO_DEVICE, "the Vulkan driver has no %s", missing);
    for (uint32_t i = 0; i < facts->lanes; i++) {
        gpud_lock_init(&vulkan->lanes[i].lock, GPUD_RANK_COMMANDS);
        vulkan->calls.GetDeviceQueue(vulkan->device, facts->family, i, &vulkan->lanes[i].queue);
    }
    return GPUD_OK;
}

static void destroy_device(struct vulkan_device *vulkan)
{
    vulkan->calls.DestroyDevice(vulkan->device, NULL);
    for (uint32_t i = 0; i < vulkan->facts.lanes; i++)
        gpud_lock_destroy(&vulkan->lanes[i].lock);
    free(vulkan);
}

/* Whether the driver imports pages that this process may only read. */
static bool pins_what_it_reads(const struct vulkan_device *vulkan)
{
    void *written, *read;
    int fd = -1;
    if (vulkan->facts.pins_writable_only)
        return false;
    if (!vulkan->facts.host_pointer ||
        gpud_memfd_create("gpudirect-pin", VULKAN_PAGE, GPUD_SHARE_READ_ONLY, &fd, &written,
                          NULL) != GPUD_OK)
        return true; /* it imports none at all; or not known: assume so */
    bool pins = true;
    if (gpud_memfd_map(fd, VULKAN_PAGE, false, &read, NULL) == GPUD_OK) {
        struct vulkan_block block;
        pins = gpud_vulkan_block_pin(vulkan, read, VULKAN_PAGE, &block) == VK_SUCCESS;
        if (pins)
            gpud_vulkan_block_free(vulkan, &block);
        gpud_memory_unmap_pages(read, VULKAN_PAGE);
    }
    gpud_memory_unmap_pages(written, VULKAN_PAGE);
    gpud_fd_close(&fd);
    return pins;
}

static enum gpud_status open_vulkan(struct gpud_device *device, struct gpud_error *error)
{
    struct gpud_device_info ignored = {0};
    struct vulkan_device *vulkan = calloc(1, sizeof(*vulkan));
    if (!vulkan)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    examine(devices[device->index], &vulkan->facts, &ignored);
    enum gpud_status status = create_device(vulkan, device->info.name, error);
    if (status != GPUD_OK) {
        free(vulkan);
        return status;
    }
    status = gpud_async_init(&vulkan->async, &gpud_vulkan_async_ops, device, error);
    if (status != GPUD_OK) {
        destroy_device(vulkan);
        return status;
    }
    gpud_completion_thread_init(&vulkan->completions, &gpud_vulkan_async_ops, device);
    gpud_bounces_init(&vulkan->bounces, &gpud_vulkan_bounce_ops, &vulkan->async);
    device->backend = vulkan;
    status = gpud_vulkan_queue_new(device, NULL, &vulkan->service, error);
    if (status != GPUD_OK) {
        gpud_bounces_finish(&vulkan->bounces);
        gpud_completion_thread_finish(&vulkan->completions);
        gpud_async_finish(&vulkan->async);
        destroy_device(vulkan);
        return status;
    }
    if (!pins_what_it_reads(vulkan))
        device->caps |= GPUD_CAP_PINS_WRITABLE;
    return GPUD_OK;
}

static void close_vulkan(struct gpud_device *device)
{
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    if (!gpud_completion_thread_finish(&vulkan->completions) || gpud_async_count(&vulkan->async)) {
        gpud_log_error(&device->context->log, "vulkan",
                       "%s: work is stuck on it, and what the driver holds for it cannot be "
                       "released",
                       device->info.name);
        return;
    }
    gpud_bounces_finish(&vulkan->bounces);
    gpud_vulkan_queue_free(vulkan, vulkan->service);
    gpud_async_finish(&vulkan->async);
    destroy_device(vulkan);
}

static void *native(const struct gpud_device *device)
{
    return gpud_vulkan_device(device)->device;
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_VULKAN_FD, .words = GPUD_VULKAN_WORDS, .attachment = true},
};

const struct gpud_device_ops gpud_vulkan_ops = {
    .name = "vulkan",
    .count = vulkan_device_count,
    .probe = vulkan_device_probe,
    .open = open_vulkan,
    .close = close_vulkan,
    .native = native,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .memory = &gpud_vulkan_memory_ops,
    .dmabuf = &gpud_vulkan_dmabuf_ops,
    .image = &gpud_vulkan_image_ops,
    .queue = &gpud_vulkan_queue_ops,
    .fence = &gpud_vulkan_fence_ops,
};

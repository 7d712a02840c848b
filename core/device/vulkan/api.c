/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/vulkan/api.h"

#include "base/text.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

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

static const char *name_of(VkResult result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].result == result)
            return results[i].name;
    return "a Vulkan error";
}

static enum gpud_status status_of(VkResult result)
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

static enum gpud_status fail(struct gpud_error *error, enum gpud_status status, VkResult result,
                             const char *format, va_list args)
{
    char text[160];
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, "vulkan", result, "%s: %s (%d)", text, name_of(result),
                            (int)result);
}

enum gpud_status gpud_vulkan_fail(struct gpud_error *error, VkResult result, const char *format,
                                  ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status = fail(error, status_of(result), result, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_vulkan_fail_as(struct gpud_error *error, enum gpud_status status,
                                     VkResult result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(error, status, result, format, args);
    va_end(args);
    return status;
}

/* --- the instance ---------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static VkPhysicalDevice devices[DEVICES_MAX];
static uint32_t device_count;
static char why_none[GPUD_REASON_MAX];

/* Kept until the process ends, as the loader keeps its drivers. */
static VkInstance make_instance(PFN_vkGetInstanceProcAddr find)
{
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
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)find(NULL, "vkCreateInstance");
    if (!find(NULL, "vkEnumerateInstanceVersion") || !create) {
        gpud_print(why_none, "the Vulkan loader is older than Vulkan 1.1: install a newer one");
        return VK_NULL_HANDLE;
    }
    VkResult result = create(&info, NULL, &instance);
    if (result != VK_SUCCESS) {
        gpud_print(why_none,
                   "no Vulkan driver (%s): install the GPU's, or Mesa's (Debian: apt install "
                   "mesa-vulkan-drivers)",
                   name_of(result));
        return VK_NULL_HANDLE;
    }
    return instance;
}

static void load(void)
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
    VkInstance instance = make_instance(find);
    if (!instance)
        return;
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
    VkResult result = gpud_vk.EnumeratePhysicalDevices(instance, &count, devices);
    if ((result == VK_SUCCESS || result == VK_INCOMPLETE) && count > 0)
        device_count = count;
    else
        gpud_print(why_none,
                   "the Vulkan drivers find no device (%s): is the GPU there, and may this user "
                   "open /dev/dri?",
                   result == VK_SUCCESS ? "none" : name_of(result));
}

uint32_t gpud_vulkan_count(void)
{
    pthread_once(&once, load);
    return device_count;
}

const char *gpud_vulkan_why_none(void)
{
    return why_none;
}

VkPhysicalDevice gpud_vulkan_physical(uint32_t index)
{
    return devices[index];
}

enum gpud_status gpud_vulkan_find_calls(VkDevice device, struct vulkan_device_calls *calls,
                                        struct gpud_error *error)
{
    const char *missing = NULL;
#define FIND(name) calls->name = (PFN_vk##name)gpud_vk.GetDeviceProcAddr(device, "vk" #name);
#define NEED(name)    \
    FIND(name)        \
    if (!calls->name) \
        missing = "vk" #name;
    VULKAN_DEVICE_CALLS(NEED)
    VULKAN_EXTENSION_CALLS(FIND)
#undef NEED
#undef FIND
    return missing ? gpud_fail(error, GPUD_NO_DEVICE, "the Vulkan driver has no %s", missing)
                   : GPUD_OK;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* OpenCL's platforms and devices. */
#include "device/opencl/opencl.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === api ===================================================================================== */
/* What the OpenCL API says: its errors, and texts about a device. */

#define CODE(code)  \
    {               \
        code, #code \
    }

static const struct {
    cl_int code;
    const char *name;
} codes[] = {
    CODE(CL_DEVICE_NOT_FOUND),
    CODE(CL_DEVICE_NOT_AVAILABLE),
    CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    CODE(CL_OUT_OF_RESOURCES),
    CODE(CL_OUT_OF_HOST_MEMORY),
    CODE(CL_MEM_COPY_OVERLAP),
    CODE(CL_MAP_FAILURE),
    CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    CODE(CL_INVALID_VALUE),
    CODE(CL_INVALID_PLATFORM),
    CODE(CL_INVALID_DEVICE),
    CODE(CL_INVALID_CONTEXT),
    CODE(CL_INVALID_QUEUE_PROPERTIES),
    CODE(CL_INVALID_COMMAND_QUEUE),
    CODE(CL_INVALID_HOST_PTR),
    CODE(CL_INVALID_MEM_OBJECT),
    CODE(CL_INVALID_EVENT_WAIT_LIST),
    CODE(CL_INVALID_EVENT),
    CODE(CL_INVALID_OPERATION),
    CODE(CL_INVALID_BUFFER_SIZE),
    CODE(CL_INVALID_PROPERTY),
    CODE(CL_PLATFORM_NOT_FOUND_KHR),
};

static const char *opencl_error_name(cl_int code)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "an OpenCL error";
}

static enum gpud_status opencl_device_status_of(cl_int code)
{
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
        return GPUD_NO_MEMORY;
    case CL_DEVICE_NOT_FOUND:
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_PLATFORM_NOT_FOUND_KHR:
        return GPUD_NO_DEVICE;
    default:
        return GPUD_IO;
    }
}

static enum gpud_status opencl_device_fail(struct gpud_error *error, enum gpud_status status,
                                           cl_int code, const char *format, va_list args)
{
    char text[160];
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, "opencl", code, "%s: %s (%d)", text,
                            opencl_error_name(code), code);
}

enum gpud_status gpud_opencl_fail(struct gpud_error *error, cl_int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status =
        opencl_device_fail(error, opencl_device_status_of(code), code, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_opencl_fail_as(struct gpud_error *error, enum gpud_status status, cl_int code,
                                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    opencl_device_fail(error, status, code, format, args);
    va_end(args);
    return status;
}

/* Free it; NULL if the driver does not answer. No fixed length is long enough for all vendors. */
static char *opencl_get_text(cl_device_id id, cl_device_info what)
{
    size_t size = 0;
    if (clGetDeviceInfo(id, what, 0, NULL, &size) != CL_SUCCESS || size == 0)
        return NULL;
    char *text = malloc(size + 1);
    if (!text)
        return NULL;
    if (clGetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

/* Whole words only: an extension's name may begin with another's. */
static bool has_extension(cl_device_id id, const char *wanted)
{
    char *all = opencl_get_text(id, CL_DEVICE_EXTENSIONS);
    bool found = false;
    char *rest = all, *word;
    while (all && !found && (word = strtok_r(rest, " ", &rest)))
        found = strcmp(word, wanted) == 0;
    free(all);
    return found;
}

/* === device ================================================================================== */
/* OpenCL devices: finding them through the ICD loader, and finding out whether peers can write
 * their memory. */

#define PLATFORMS_MAX 16
#define DEVICES_MAX 32 /* of one platform */
#define TYPES_MAX 16   /* of descriptors that a device imports */

static const char extension[] = "cl_amd_bus_addressable_memory";

/* --- finding devices ----------------------------------------------------------------------- */

struct place {
    cl_platform_id platform;
    cl_device_id id; /* NULL: there is no device with that index */
};

/* Counts all devices in the loader's order and fills *place for the one with this index. */
static unsigned enumerate(unsigned index, struct place *place, struct gpud_error *why)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint platform_count = 0;
    unsigned found = 0;
    *place = (struct place){0};
    if (gpud_library_need(&gpud_library_opencl, why) != GPUD_OK)
        return 0;
    cl_int code = clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count);
    if (code == CL_PLATFORM_NOT_FOUND_KHR || (code == CL_SUCCESS && platform_count == 0)) {
        gpud_fail(why, GPUD_NO_DEVICE, "no OpenCL driver: install one, e.g. pocl-opencl-icd");
        return 0;
    }
    if (code != CL_SUCCESS) {
        gpud_opencl_fail(why, code, "the OpenCL drivers cannot be listed");
        return 0;
    }
    for (cl_uint p = 0; p < platform_count && p < PLATFORMS_MAX; p++) {
        cl_device_id ids[DEVICES_MAX];
        cl_uint count = 0;
        code = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &count);
        if (code != CL_SUCCESS)
            continue; /* a driver without its hardware */
        for (cl_uint d = 0; d < count && d < DEVICES_MAX; d++, found++)
            if (found == index)
                *place = (struct place){platforms[p], ids[d]};
    }
    if (found == 0)
        gpud_fail(why, GPUD_NO_DEVICE,
                  "an OpenCL driver is installed but finds no device: is the GPU there, and may "
                  "this user use it?");
    return found;
}

static unsigned opencl_device_count(void)
{
    struct place place;
    unsigned found = enumerate(0, &place, NULL);
    return found ? found : 1;
}

/* "0000:63:00.0", by the standard's query or AMD's: DirectGMA's drivers are older. */
static void get_pci(cl_device_id id, struct gpud_device_info *info)
{
    cl_device_pci_bus_info_khr bus;
    cl_device_topology_amd amd;
    if (has_extension(id, "cl_khr_pci_bus_info") &&
        clGetDeviceInfo(id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof(bus), &bus, NULL) == CL_SUCCESS)
        gpud_print(info->pci, "%04x:%02x:%02x.%x", bus.pci_domain, bus.pci_bus, bus.pci_device,
                   bus.pci_function);
    else if (has_extension(id, "cl_amd_device_attribute_query") &&
             clGetDeviceInfo(id, CL_DEVICE_TOPOLOGY_AMD, sizeof(amd), &amd, NULL) == CL_SUCCESS &&
             amd.raw.type == CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD)
        gpud_print(info->pci, "0000:%02x:%02x.%x", (cl_uchar)amd.pcie.bus,
                   (cl_uchar)amd.pcie.device, (cl_uchar)amd.pcie.function);
}

static bool is_available(cl_device_id id)
{
    cl_bool available = CL_FALSE;
    clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof(available), &available, NULL);
    return available;
}

static bool is_recent(cl_device_id id, struct gpud_device_info *info)
{
    unsigned major = 0, minor = 0;
    char *version = opencl_get_text(id, CL_DEVICE_VERSION);
    bool recent =
        version && sscanf(version, "OpenCL %u.%u", &major, &minor) == 2 && major * 10 + minor >= 12;
    if (!recent)
        gpud_print(info->reason, "%s speaks \"%.40s\": OpenCL 1.2 or later is needed", info->name,
                   version ? version : "");
    free(version);
    return recent;
}

/* What the device can do with memory of other drivers. */
static void find_external(cl_platform_id platform, cl_device_id id,
                          struct opencl_external *external)
{
    cl_uint types[TYPES_MAX];
    size_t size = 0;
    memset(external, 0, sizeof(*external));
    if (!has_extension(id, "cl_khr_external_memory"))
        return;
    /* The extension's name proves nothing; the list of types does. */
    if (clGetDeviceInfo(id, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR, sizeof(types), types,
                        &size) == CL_SUCCESS)
        for (size_t i = 0; i < size / sizeof(types[0]); i++) {
            external->opaque_fd |= types[i] == CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR;
            external->dma_buf |= types[i] == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR;
        }
    void *acquire =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueAcquireExternalMemObjectsKHR");
    void *release =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueReleaseExternalMemObjectsKHR");
    if (!(external->opaque_fd || external->dma_buf) || !acquire || !release) {
        memset(external, 0, sizeof(*external));
        return;
    }
    memcpy(&external->acquire, &acquire, sizeof(acquire));
    memcpy(&external->release, &release, sizeof(release));
}

static void opencl_device_probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    struct gpud_error why = {0};
    struct place place;
    unsigned found = enumerate(device->index, &place, &why);
    if (!place.id) {
        if (found)
            gpud_fail(&why, GPUD_NO_DEVICE, "there is no %s: the last OpenCL device is opencl:%u",
                      info->name, found - 1);
        gpud_print(info->reason, "%s", why.reason);
        return;
    }

    char *name = opencl_get_text(place.id, CL_DEVICE_NAME);
    char platform[64] = "an unknown driver";
    clGetPlatformInfo(place.platform, CL_PLATFORM_NAME, sizeof(platform), platform, NULL);
    platform[sizeof(platform) - 1] = '\0';
    /* Two drivers may offer the same GPU. */
    gpud_print(info->description, "%.60s, by %.60s", name ? name : "a nameless device", platform);
    free(name);
    if (!is_recent(place.id, info))
        return;
    if (!is_available(place.id)) {
        gpud_print(info->reason, "%s is switched off by its driver (CL_DEVICE_AVAILABLE is false)",
                   info->name);
        return;
    }
    info->available = true;
    device->caps |= GPUD_CAP_FENCES;
    get_pci(place.id, info);
    if (has_extension(place.id, "cl_khr_device_uuid"))
        clGetDeviceInfo(place.id, CL_DEVICE_UUID_KHR, sizeof(device->uuid), device->uuid, NULL);

    struct opencl_external external;
    find_external(place.platform, place.id, &external);
    if (external.acquire)
        device->caps |= GPUD_CAP_IMPORT;

    /* Checks the extension string, because some drivers without it still return the functions. */
    if (has_extension(place.id, extension)) {
        device->caps |= GPUD_CAP_BUS_ADDRESSABLE | GPUD_CAP_SIGNALS;
        info->direct_writes = true;
    } else {
        gpud_print(device->no_direct,
                   "%s has no %s (DirectGMA); on this device the software layer adds it: "
                   "set OPENCL_LAYERS=<path of>/libgpudirect-dgma-layer.so",
                   info->name, extension);
        gpud_print(info->reason, "%s", device->no_direct);
    }
}

/* --- opening ------------------------------------------------------------------------------- */

static bool opencl_device_resolve(cl_platform_id platform, struct opencl_amd *amd)
{
    void *wait_signal =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueWaitSignalAMD");
    void *write_signal =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueWriteSignalAMD");
    void *make_resident =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueMakeBuffersResidentAMD");
    if (!wait_signal || !write_signal || !make_resident)
        return false;
    memcpy(&amd->wait_signal, &wait_signal, sizeof(wait_signal));
    memcpy(&amd->write_signal, &write_signal, sizeof(write_signal));
    memcpy(&amd->make_resident, &make_resident, sizeof(make_resident));
    return true;
}

/* Sends a word to ourselves exactly as a peer would. If the driver only claims the extension, the
 * wait returns too early or never. */
static enum gpud_status prove(struct gpud_device *device, struct gpud_error *error)
{
    const struct gpud_memory_ops *memories = device->ops->memory;
    const struct gpud_signal_ops *signals = device->ops->signal;
    const struct gpud_queue_ops *queues = device->ops->queue;
    struct gpud_memory own = {.device = device, .size = OPENCL_PAGE, .usage = GPUD_USAGE_TARGET};
    struct gpud_memory far = {.device = device, .size = OPENCL_PAGE, .usage = GPUD_USAGE_TARGET};
    struct gpud_signal mine = {.device = device, .memory = &own};
    struct gpud_signal theirs = {.device = device, .memory = &far};
    struct gpud_queue waiter = {.device = device}, writer = {.device = device};
    struct gpud_handle memory_handle = {.fd = -1};

    enum gpud_status status = queues->create(&waiter, error);
    if (status == GPUD_OK)
        status = queues->create(&writer, error);
    if (status == GPUD_OK)
        status = memories->alloc(&own, error);
    if (status == GPUD_OK)
        status = signals->create(&mine, error);
    if (status == GPUD_OK)
        status = memories->export_handle(&own, &memory_handle, error);
    if (status == GPUD_OK)
        status = memories->import_handle(&far, &memory_handle, error);
    if (status == GPUD_OK)
        status = signals->import(&theirs, error);
    if (status == GPUD_OK)
        status = gpud_signal_wait_queue(&mine, 1, &waiter, error);
    if (status == GPUD_OK &&
        queues->finish(&waiter, gpud_deadline(2 * GPUD_MSEC), NULL) != GPUD_TIMEOUT)
        status = gpud_fail(error, GPUD_IO, "a wait for a signal ended before the signal came");
    if (status == GPUD_OK)
        status = signals->post(&theirs, 1, &writer, error);
    if (status == GPUD_OK)
        status = queues->finish(&writer, gpud_deadline(GPUD_SEC), error);
    if (status == GPUD_OK && queues->finish(&waiter, gpud_deadline(GPUD_SEC), error) != GPUD_OK)
        status = gpud_fail(error, GPUD_IO, "a signal was written but the wait for it did not end");

    signals->destroy(&theirs);
    signals->destroy(&mine);
    gpud_opencl_memory_undo(device, far.backend);
    gpud_opencl_memory_undo(device, own.backend);
    queues->destroy(&writer);
    queues->destroy(&waiter);
    return status;
}

static void withdraw(struct gpud_device *device, const char *reason)
{
    device->caps &= ~(uint32_t)(GPUD_CAP_BUS_ADDRESSABLE | GPUD_CAP_SIGNALS);
    device->info.direct_writes = false;
    gpud_print(device->no_direct, "%s has %s in name only: %s", device->info.name, extension,
               reason);
    gpud_print(device->info.reason, "%s", device->no_direct);
    gpud_opencl_device(device)->amd = (struct opencl_amd){0};
    gpud_log_warning(&device->context->log, "opencl", "%s", device->no_direct);
}

/* The devices of a driver share a context, so that frames can move between them. Those with
 * DirectGMA do not: memory behind a bus address would be mapped for all of them. */
static cl_uint list_companions(const struct gpud_device *device, const struct place *place,
                               cl_device_id ids[DEVICES_MAX])
{
    cl_device_id all[DEVICES_MAX];
    cl_uint listed = 0, count = 1;
    ids[0] = place->id;
    if (device->caps & GPUD_CAP_BUS_ADDRESSABLE ||
        clGetDeviceIDs(place->platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, all, &listed) !=
            CL_SUCCESS)
        return 1;
    for (cl_uint i = 0; i < listed && i < DEVICES_MAX; i++) {
        struct gpud_device_info unused = {0};
        if (all[i] != place->id && is_available(all[i]) && is_recent(all[i], &unused) &&
            !has_extension(all[i], extension))
            ids[count++] = all[i];
    }
    return count;
}

/* The context of a companion that is open already, with a reference; or NULL. */
static cl_context find_context(const struct gpud_device *device, cl_device_id id)
{
    const struct gpud_device *all[PLATFORMS_MAX * DEVICES_MAX];
    size_t count =
        gpud_context_list_open(device->context, device->ops, all, sizeof(all) / sizeof(all[0]));
    for (size_t i = 0; i < count; i++) {
        const struct gpud_device *open = all[i];
        cl_device_id ids[DEVICES_MAX];
        size_t size = 0;
        if (!open->common || clGetContextInfo(gpud_opencl_device(open)->context, CL_CONTEXT_DEVICES,
                                              sizeof(ids), ids, &size) != CL_SUCCESS)
            continue;
        for (size_t k = 0; k < size / sizeof(ids[0]); k++)
            if (ids[k] == id && clRetainContext(gpud_opencl_device(open)->context) == CL_SUCCESS)
                return gpud_opencl_device(open)->context;
    }
    return NULL;
}

static cl_context make_context(struct gpud_device *device, const struct place *place, cl_int *code)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)place->platform, 0};
    cl_device_id ids[DEVICES_MAX];
    cl_uint count = list_companions(device, place, ids);
    cl_context context = count > 1 ? find_context(device, place->id) : NULL;
    if (!context)
        context = clCreateContext(properties, count, ids, NULL, NULL, code);
    if (!context && count > 1) {
        gpud_log_warning(&device->context->log, "opencl",
                         "%s gets a context of its own, its driver refuses one for all its "
                         "devices: %s (%d)",
                         device->info.name, opencl_error_name(*code), *code);
        count = 1;
        context = clCreateContext(properties, 1, ids, NULL, NULL, code);
    }
    device->common = count > 1 ? context : NULL;
    return context;
}

static enum gpud_status open_opencl(struct gpud_device *device, struct gpud_error *error)
{
    struct place place;
    enumerate(device->index, &place, NULL);
    if (!place.id)
        return gpud_fail(error, GPUD_NO_DEVICE, "%s has just vanished", device->info.name);
    struct opencl_device *opencl = calloc(1, sizeof(*opencl));
    if (!opencl)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    cl_int code;
    opencl->id = place.id;
    gpud_lock_init(&opencl->external_lock, GPUD_RANK_OPENCL_EXTERNAL);
    find_external(place.platform, place.id, &opencl->external);
    opencl->context = make_context(device, &place, &code);
    if (!opencl->context) {
        gpud_lock_destroy(&opencl->external_lock);
        free(opencl);
        return gpud_opencl_fail(error, code, "no OpenCL context on %s", device->info.name);
    }
    enum gpud_status status =
        gpud_async_init(&opencl->async, &gpud_opencl_async_ops, device, error);
    if (status == GPUD_OK) {
        status = gpud_opencl_queue_new(opencl, &opencl->service, error);
        if (status != GPUD_OK)
            gpud_async_finish(&opencl->async);
    }
    if (status != GPUD_OK) {
        clReleaseContext(opencl->context);
        gpud_lock_destroy(&opencl->external_lock);
        free(opencl);
        return status;
    }
    device->backend = opencl;

    if (device->caps & GPUD_CAP_BUS_ADDRESSABLE) {
        struct gpud_error why = {0};
        if (!opencl_device_resolve(place.platform, &opencl->amd))
            withdraw(device, "its functions cannot be found");
        else if (prove(device, &why) != GPUD_OK)
            withdraw(device, why.reason);
    }
    return GPUD_OK;
}

/* All other queues are gone: they would have kept the context alive. */
static void close_opencl(struct gpud_device *device)
{
    struct opencl_device *opencl = gpud_opencl_device(device);
    for (int64_t deadline = gpud_deadline(GPUD_SEC); !gpud_opencl_queue_idle(opencl->service);
         nanosleep(&(struct timespec){.tv_nsec = GPUD_MSEC}, NULL)) {
        if (gpud_now() < deadline)
            continue;
        /* Releasing it could block for ever, so it is leaked. */
        gpud_log_error(&device->context->log, "opencl",
                       "%s: its driver is stuck and its context cannot be released",
                       device->info.name);
        return;
    }
    gpud_opencl_queue_free(opencl->service);
    clReleaseContext(opencl->context);
    gpud_async_finish(&opencl->async);
    gpud_lock_destroy(&opencl->external_lock);
    free(opencl);
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_BUS_ADDRESS, .words = 2},
    {.type = GPUD_HANDLE_CUDA_FD, .words = 1, .attachment = true},
    {.type = GPUD_HANDLE_HIP_FD, .words = 1, .attachment = true},
};

const struct gpud_device_ops gpud_opencl_ops = {
    .name = "opencl",
    .count = opencl_device_count,
    .probe = opencl_device_probe,
    .open = open_opencl,
    .close = close_opencl,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .migrate = gpud_opencl_migrate,
    .memory = &gpud_opencl_memory_ops,
    .queue = &gpud_opencl_queue_ops,
    .fence = &gpud_opencl_fence_ops,
    .signal = &gpud_opencl_signal_ops,
};

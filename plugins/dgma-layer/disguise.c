/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The devices that a program sees under GPUDIRECT_DGMA_AS. A card is a device of the driver or, if
 * more are wanted than exist, an alias of its first one (alias.c). Sub-devices do not serve: GPUs
 * cannot be divided, and PoCL's contexts treat two sub-devices as one device. A platform with a
 * device that has DirectGMA itself is left alone. */

#include "disguise.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alias.h"
#include "card.h"
#include "device.h"

enum { MAX_CARDS = 8, MAX_DEVICES = 64 };

struct platform {
    cl_platform_id id;
    cl_uint count; /* 0: not disguised */
    cl_device_id devices[MAX_DEVICES];
    struct platform *next;
};

static bool on;
static cl_uint wanted; /* 0: as many as the driver has */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct platform *platforms;
static unsigned cards;
typedef cl_context(CL_API_CALL *create_context_fn)(
    const cl_context_properties *, cl_uint, const cl_device_id *,
    void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *, cl_int *);
static create_context_fn next_create_context; /* the one that takes aliases */

static bool any_native(const cl_device_id *devices, cl_uint count)
{
    for (cl_uint i = 0; i < count; i++)
        if (dgma_device_get(devices[i])->native)
            return true;
    return false;
}

static void choose(struct platform *platform)
{
    cl_device_id real[MAX_DEVICES];
    cl_uint count = 0;
    if (dgma_next.clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, MAX_DEVICES, real, &count))
        return;
    if (count > MAX_DEVICES)
        count = MAX_DEVICES;
    if (any_native(real, count))
        return;
    cl_uint shown = wanted ? wanted : count;
    for (cl_uint i = 0; i < shown; i++) {
        bool is_alias = i >= count;
        cl_device_id device = real[is_alias ? 0 : i];
        struct dgma_card *card = calloc(1, sizeof *card);
        cl_device_id handle = is_alias ? (cl_device_id)card : device;
        if (card)
            *card = (struct dgma_card){*(void **)device, device, cards};
        if (!card || !dgma_card_put(handle, card)) {
            free(card);
            dgma_log("out of memory: a card is missing");
            return;
        }
        cards++;
        platform->devices[platform->count++] = handle;
    }
}

/* The default platform, which only the loader knows. */
static cl_platform_id default_platform(void)
{
    cl_device_id first;
    cl_platform_id platform = NULL;
    if (dgma_next.clGetDeviceIDs(NULL, CL_DEVICE_TYPE_ALL, 1, &first, NULL) == CL_SUCCESS)
        dgma_next.clGetDeviceInfo(first, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    return platform;
}

/* NULL: not disguised. Entries are permanent. */
static const struct platform *get_platform(cl_platform_id id)
{
    if (!on)
        return NULL;
    if (!id)
        id = default_platform();
    if (!id)
        return NULL;
    pthread_mutex_lock(&lock);
    struct platform *platform = platforms;
    while (platform && platform->id != id)
        platform = platform->next;
    if (!platform && (platform = calloc(1, sizeof *platform)) != NULL) {
        platform->id = id;
        choose(platform);
        platform->next = platforms;
        platforms = platform;
    }
    pthread_mutex_unlock(&lock);
    return platform && platform->count ? platform : NULL;
}

bool dgma_platform_is_disguised(cl_platform_id platform)
{
    return get_platform(platform) != NULL;
}

static cl_int count_of_type(const struct platform *platform, cl_device_type type, cl_uint *count)
{
    const cl_device_type known = CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU |
                                 CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_CUSTOM;
    if (type != CL_DEVICE_TYPE_ALL && (!type || (type & ~known)))
        return CL_INVALID_DEVICE_TYPE;
    *count = type & CL_DEVICE_TYPE_GPU ? platform->count : (type & CL_DEVICE_TYPE_DEFAULT) != 0;
    return *count ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

static CL_API_ENTRY cl_int CL_API_CALL get_device_ids(cl_platform_id id, cl_device_type type,
                                                      cl_uint num_entries, cl_device_id *devices,
                                                      cl_uint *num_devices)
{
    const struct platform *platform = get_platform(id);
    if (!platform)
        return dgma_next.clGetDeviceIDs(id, type, num_entries, devices, num_devices);
    if ((devices && num_entries == 0) || (!devices && !num_devices))
        return CL_INVALID_VALUE;
    cl_uint count;
    cl_int status = count_of_type(platform, type, &count);
    if (status) {
        if (num_devices && status == CL_DEVICE_NOT_FOUND)
            *num_devices = 0;
        return status;
    }
    for (cl_uint i = 0; devices && i < count && i < num_entries; i++)
        devices[i] = platform->devices[i];
    if (num_devices)
        *num_devices = count;
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_context CL_API_CALL
create_context_from_type(const cl_context_properties *properties, cl_device_type type,
                         void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                         void *user_data, cl_int *status_ret)
{
    cl_platform_id id = NULL;
    for (const cl_context_properties *at = properties; at && at[0]; at += 2)
        if (at[0] == CL_CONTEXT_PLATFORM)
            id = (cl_platform_id)at[1];
    const struct platform *platform = get_platform(id);
    if (!platform)
        return dgma_next.clCreateContextFromType(properties, type, notify, user_data, status_ret);
    cl_uint count;
    cl_int status = count_of_type(platform, type, &count);
    if (status == CL_SUCCESS)
        return next_create_context(properties, count, platform->devices, notify, user_data,
                                   status_ret);
    if (status_ret)
        *status_ret = status;
    return NULL;
}

/* These do nothing for root devices, and many programs release devices that they did not create. */
static CL_API_ENTRY cl_int CL_API_CALL retain_device(cl_device_id device)
{
    return dgma_card_get(device) ? CL_SUCCESS : dgma_next.clRetainDevice(device);
}

static CL_API_ENTRY cl_int CL_API_CALL release_device(cl_device_id device)
{
    return dgma_card_get(device) ? CL_SUCCESS : dgma_next.clReleaseDevice(device);
}

static CL_API_ENTRY cl_int CL_API_CALL
create_sub_devices(cl_device_id device, const cl_device_partition_property *properties,
                   cl_uint num_devices, cl_device_id *out, cl_uint *num_devices_ret)
{
    if (!dgma_card_get(device))
        return dgma_next.clCreateSubDevices(device, properties, num_devices, out, num_devices_ret);
    return CL_INVALID_VALUE; /* no kind of partition is supported */
}

void *dgma_disguise_function(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"clRetainDeviceEXT", (void *)retain_device},
        {"clReleaseDeviceEXT", (void *)release_device},
    };
    for (size_t i = 0; on && name && i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(name, functions[i].name) == 0)
            return functions[i].function;
    return on && wanted && name ? dgma_alias_function(name) : NULL;
}

/* "firepro" or "firepro:N". */
static bool parse(const char *text)
{
    static const char name[] = "firepro";
    const size_t length = sizeof name - 1;
    if (strncmp(text, name, length) != 0)
        return false;
    text += length;
    if (*text == '\0')
        return true;
    if (text[0] != ':' || text[1] < '1' || text[1] > '0' + MAX_CARDS || text[2] != '\0')
        return false;
    wanted = (cl_uint)(text[1] - '0');
    return true;
}

void dgma_disguise_install(cl_icd_dispatch *table)
{
    const char *text = getenv("GPUDIRECT_DGMA_AS");
    if (!text || !*text)
        return;
    on = parse(text);
    if (!on) {
        fprintf(stderr,
                "gpudirect-dgma: GPUDIRECT_DGMA_AS=%s is neither firepro nor firepro:N with N from "
                "1 to %d, so devices show as what they are\n",
                text, MAX_CARDS);
        return;
    }
    table->clGetDeviceIDs = get_device_ids;
    table->clCreateContextFromType = create_context_from_type;
    table->clRetainDevice = retain_device;
    table->clReleaseDevice = release_device;
    table->clCreateSubDevices = create_sub_devices;
    if (wanted)
        dgma_alias_install(table);
    next_create_context = table->clCreateContext;
}

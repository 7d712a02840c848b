/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The queries that programs make before they use the extension, and about its buffers. */

#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "device.h"
#include "disguise.h"
#include "firepro.h"
#include "give.h"
#include "info.h"

/* A query to the driver, about a device or a platform. */
struct question {
    cl_device_id device; /* NULL: the query is about the platform */
    cl_platform_id platform;
    cl_uint name;
    bool is_card; /* it has AMD's attributes, too */
};

enum { MAX_ADDED = 2 };
static const char *const added_names[MAX_ADDED] = {DGMA_EXTENSION_NAME,
                                                   "cl_amd_device_attribute_query"};
static const cl_version added_versions[MAX_ADDED] = {CL_MAKE_VERSION(1, 2, 0),
                                                     CL_MAKE_VERSION(1, 0, 0)};

static unsigned added(const struct question *q)
{
    return q->is_card ? MAX_ADDED : 1;
}

static cl_int ask(const struct question *q, size_t size, void *value, size_t *size_ret)
{
    return q->device ? dgma_next.clGetDeviceInfo(q->device, q->name, size, value, size_ret)
                     : dgma_next.clGetPlatformInfo(q->platform, q->name, size, value, size_ret);
}

static cl_int add_to_string(const struct question *q, size_t size, void *value, size_t *size_ret)
{
    size_t below = 0;
    cl_int status = ask(q, 0, NULL, &below);
    if (status)
        return status;
    char *list = calloc(1, below + MAX_ADDED * CL_NAME_VERSION_MAX_NAME_SIZE);
    if (!list)
        return CL_OUT_OF_HOST_MEMORY;
    status = below ? ask(q, below, list, NULL) : CL_SUCCESS;
    if (status == CL_SUCCESS) {
        for (unsigned i = 0; i < added(q); i++)
            if (!dgma_list_has(list, added_names[i])) {
                size_t length = strlen(list);
                if (length > 0 && list[length - 1] != ' ')
                    list[length++] = ' ';
                memcpy(list + length, added_names[i], strlen(added_names[i]) + 1);
            }
        status = dgma_give(list, strlen(list) + 1, size, value, size_ret);
    }
    free(list);
    return status;
}

static bool versions_have(const cl_name_version *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(list[i].name, name, sizeof list[i].name) == 0)
            return true;
    return false;
}

static cl_int add_to_versions(const struct question *q, size_t size, void *value, size_t *size_ret)
{
    size_t below = 0;
    cl_int status = ask(q, 0, NULL, &below);
    if (status)
        return status;
    size_t count = below / sizeof(cl_name_version);
    cl_name_version *list = calloc(count + MAX_ADDED, sizeof *list);
    if (!list)
        return CL_OUT_OF_HOST_MEMORY;
    status = count ? ask(q, count * sizeof *list, list, NULL) : CL_SUCCESS;
    if (status == CL_SUCCESS) {
        for (unsigned i = 0; i < added(q); i++)
            if (!versions_have(list, count, added_names[i])) {
                list[count].version = added_versions[i];
                memcpy(list[count].name, added_names[i], strlen(added_names[i]) + 1);
                count++;
            }
        status = dgma_give(list, count * sizeof *list, size, value, size_ret);
    }
    free(list);
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info name,
                                                       size_t size, void *value, size_t *size_ret)
{
    const struct dgma_card *card = device ? dgma_card_get(device) : NULL;
    struct question q = {.device = dgma_card_device(device), .name = name, .is_card = card != NULL};
    struct dgma_answer answer;
    if (device && name == CL_DEVICE_EXTENSIONS)
        return add_to_string(&q, size, value, size_ret);
    if (device && name == CL_DEVICE_EXTENSIONS_WITH_VERSION)
        return add_to_versions(&q, size, value, size_ret);
    if (card && dgma_firepro_device(card, name, &answer))
        return dgma_give(&answer.bytes, answer.size, size, value, size_ret);
    return dgma_next.clGetDeviceInfo(q.device, name, size, value, size_ret);
}

static CL_API_ENTRY cl_int CL_API_CALL get_platform_info(cl_platform_id platform,
                                                         cl_platform_info name, size_t size,
                                                         void *value, size_t *size_ret)
{
    /* platform may be NULL: the default one, which the loader below us resolves. */
    struct question q = {.platform = platform, .name = name};
    if (name == CL_PLATFORM_EXTENSIONS)
        return add_to_string(&q, size, value, size_ret);
    if (name == CL_PLATFORM_EXTENSIONS_WITH_VERSION)
        return add_to_versions(&q, size, value, size_ret);
    struct dgma_answer answer;
    if (dgma_platform_is_disguised(platform) && dgma_firepro_platform(platform, name, &answer))
        return dgma_give(&answer.bytes, answer.size, size, value, size_ret);
    return dgma_next.clGetPlatformInfo(platform, name, size, value, size_ret);
}

static CL_API_ENTRY cl_int CL_API_CALL get_mem_object_info(cl_mem mem, cl_mem_info name,
                                                           size_t size, void *value,
                                                           size_t *size_ret)
{
    const struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (buffer && name == CL_MEM_FLAGS)
        return dgma_give(&buffer->flags, sizeof buffer->flags, size, value, size_ret);
    if (buffer && name == CL_MEM_HOST_PTR) {
        void *none = NULL; /* the program passed no memory */
        return dgma_give(&none, sizeof none, size, value, size_ret);
    }
    return dgma_next.clGetMemObjectInfo(mem, name, size, value, size_ret);
}

void dgma_info_install(cl_icd_dispatch *table)
{
    table->clGetDeviceInfo = get_device_info;
    table->clGetPlatformInfo = get_platform_info;
    table->clGetMemObjectInfo = get_mem_object_info;
}

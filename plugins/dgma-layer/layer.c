/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The entry of the layer, the functions that it replaces, and those of the next one. */
#include "layer.h"

#include <CL/cl_layer.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === next ==================================================================================== */
/* The functions below the layer, and its log. */

cl_icd_dispatch dgma_next;

void dgma_log(const char *format, ...)
{
    const char *wanted = getenv("GPUDIRECT_DGMA_LOG");
    if (!wanted || strcmp(wanted, "0") == 0)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "gpudirect-dgma: %s\n", line);
}

cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value, size_t *size_ret)
{
    if (value && size < answer_size)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, answer, answer_size);
    if (size_ret)
        *size_ret = answer_size;
    return CL_SUCCESS;
}

/* === layer =================================================================================== */
/* The layer's interface to the loader: its properties, the driver's functions that it wraps, and
 * the lookup of the extension's functions. Loaders up to ocl-icd 2.3 call clInitLayer; newer ones
 * may call clInitLayerWithProperties and, at the end, clDeinitLayer. */

#define EXPORT __attribute__((visibility("default")))
#define LAYER_NAME "gpudirect software DirectGMA"

EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint num_entries,
                                                                 const cl_icd_dispatch *target,
                                                                 cl_uint *num_entries_ret,
                                                                 const cl_icd_dispatch **layer_ret,
                                                                 const void *properties);

EXPORT CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void);

static cl_icd_dispatch layer;

static void *find_function(const char *name)
{
    void *function = dgma_command_function(name);
    if (!function)
        function = dgma_disguise_function(name);
    /* Commands of other extensions (clEnqueueCommandBufferKHR) may write into a buffer, and bypass
     * the layer. Those that acquire and release objects do not write. */
    if (!function && name && strncmp(name, "clEnqueue", strlen("clEnqueue")) == 0 &&
        !strstr(name, "Acquire") && !strstr(name, "Release"))
        dgma_unfollowed_note(name);
    return function;
}

/* Returns our functions for every platform (also NULL, which is resolved below us): for devices
 * that have the extension themselves, they call the driver. */
static CL_API_ENTRY void *CL_API_CALL get_function(const char *name)
{
    void *function = find_function(name);
    return function ? function : dgma_next.clGetExtensionFunctionAddress(name);
}

static CL_API_ENTRY void *CL_API_CALL get_function_for_platform(cl_platform_id platform,
                                                                const char *name)
{
    void *function = find_function(name);
    return function ? function : dgma_next.clGetExtensionFunctionAddressForPlatform(platform, name);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                                      size_t *size_ret)
{
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (name == CL_LAYER_API_VERSION)
        return dgma_give(&version, sizeof version, size, value, size_ret);
    if (name == CL_LAYER_NAME)
        return dgma_give(LAYER_NAME, sizeof LAYER_NAME, size, value, size_ret);
    return CL_INVALID_VALUE;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries,
                                                   const cl_icd_dispatch *target,
                                                   cl_uint *num_entries_ret,
                                                   const cl_icd_dispatch **layer_ret)
{
    const cl_uint known = sizeof layer / sizeof(void *);
    const cl_uint needed =
        offsetof(cl_icd_dispatch, clGetExtensionFunctionAddressForPlatform) / sizeof(void *) +
        1; /* OpenCL 1.2 */
    if (!target || !num_entries_ret || !layer_ret || num_entries < needed)
        return CL_INVALID_VALUE;
    if (layer.clGetPlatformInfo) { /* loaded twice, the layer would call itself forever */
        dgma_log("the layer is loaded already; name it once in OPENCL_LAYERS");
        return CL_INVALID_OPERATION;
    }
    cl_uint entries = num_entries < known ? num_entries : known;
    memcpy(&dgma_next, target, entries * sizeof(void *));
    layer = dgma_next;
    layer.clGetExtensionFunctionAddress = get_function;
    layer.clGetExtensionFunctionAddressForPlatform = get_function_for_platform;
    dgma_memory_install(&layer);
    dgma_commands_install(&layer);
    dgma_writes_install(&layer);
    dgma_devices_install(&layer);
    *num_entries_ret = entries;
    *layer_ret = &layer;
    return CL_SUCCESS;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint num_entries,
                                                                 const cl_icd_dispatch *target,
                                                                 cl_uint *num_entries_ret,
                                                                 const cl_icd_dispatch **layer_ret,
                                                                 const void *properties)
{
    (void)properties; /* none is defined that concerns a layer without resources before its first
                         buffer */
    return clInitLayer(num_entries, target, num_entries_ret, layer_ret);
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void)
{
    dgma_poller_finish();
    dgma_registry_finish();
    return CL_SUCCESS;
}

/* With loaders that lack clDeinitLayer, a program that exits with live buffers still leaves nothing
 * in /dev/shm. */
__attribute__((destructor)) static void at_exit(void)
{
    clDeinitLayer();
}

/* === table =================================================================================== */

struct dgma_table_entry {
    const void *key;
    void *value;
    struct dgma_table_entry *next;
};

static struct dgma_table_stripe *stripe_of(struct dgma_table *table, const void *key)
{
    uint64_t bits = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    return &table->stripes[bits >> 58];
}

bool dgma_table_put(struct dgma_table *table, const void *key, void *value)
{
    struct dgma_table_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    struct dgma_table_stripe *stripe = stripe_of(table, key);
    entry->key = key;
    entry->value = value;
    pthread_mutex_lock(&stripe->lock);
    entry->next = stripe->entries;
    stripe->entries = entry;
    pthread_mutex_unlock(&stripe->lock);
    atomic_fetch_add(&table->count, 1);
    return true;
}

void *dgma_table_get(struct dgma_table *table, const void *key)
{
    if (atomic_load(&table->count) == 0)
        return NULL;
    struct dgma_table_stripe *stripe = stripe_of(table, key);
    pthread_mutex_lock(&stripe->lock);
    struct dgma_table_entry *entry = stripe->entries;
    while (entry && entry->key != key)
        entry = entry->next;
    void *value = entry ? entry->value : NULL;
    pthread_mutex_unlock(&stripe->lock);
    return value;
}

void *dgma_table_take(struct dgma_table *table, const void *key, const void *only)
{
    if (atomic_load(&table->count) == 0)
        return NULL;
    struct dgma_table_stripe *stripe = stripe_of(table, key);
    pthread_mutex_lock(&stripe->lock);
    struct dgma_table_entry **at = &stripe->entries;
    while (*at && ((*at)->key != key || (only && (*at)->value != only)))
        at = &(*at)->next;
    struct dgma_table_entry *entry = *at;
    if (entry)
        *at = entry->next;
    pthread_mutex_unlock(&stripe->lock);
    if (!entry)
        return NULL;
    void *value = entry->value;
    free(entry);
    atomic_fetch_sub(&table->count, 1);
    return value;
}

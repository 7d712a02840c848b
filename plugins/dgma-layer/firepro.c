/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A FirePro W9100's answers to the queries by which programs choose a device: its vendor, its name,
 * its location. Everything that affects computation (compute units, memory sizes, versions, limits)
 * remains the driver's. */

#include <stdio.h>
#include <string.h>

#include "firepro.h"

/* cl_amd_device_attribute_query; not every CL/cl_ext.h has all of them. */
enum {
    PREFERRED_WORK_GROUP_SIZE = 0x4030,
    LARGEST_WORK_GROUP_SIZE = 0x4031,
    PREFERRED_CONSTANT_BUFFER_SIZE = 0x4033,
    PCIE_ID = 0x4034,
    PROFILING_TIMER_OFFSET = 0x4036,
    TOPOLOGY = 0x4037,
    BOARD_NAME = 0x4038,
    GLOBAL_FREE_MEMORY = 0x4039,
};
#define ICD_SUFFIX_KHR 0x0920

#define VENDOR "Advanced Micro Devices, Inc."
#define VENDOR_ID 0x1002
#define DRIVER "2117.13"
#define W9100_PCI_DEVICE 0x67A0
#define HAWAII_WORK_GROUP ((size_t)256)

/* A bus number that hardly any machine has, so that the card is not confused with a real device. */
#define FIRST_PCI_BUS 0x70

struct pcie_topology {
    cl_uint type;
    uint8_t unused[17];
    uint8_t bus, device, function;
};
_Static_assert(sizeof(struct pcie_topology) == 24, "as cl_device_topology_amd");

static bool give_text(struct dgma_answer *answer, const char *text)
{
    answer->size = strlen(text) + 1;
    memcpy(answer->text, text, answer->size);
    return true;
}

static bool give_number(struct dgma_answer *answer, cl_uint number)
{
    answer->size = sizeof number;
    answer->number = number;
    return true;
}

static bool give_wide(struct dgma_answer *answer, cl_ulong number)
{
    answer->size = sizeof number;
    answer->wide = number;
    return true;
}

static bool give_size(struct dgma_answer *answer, size_t size)
{
    answer->size = sizeof size;
    answer->sizes[0] = size;
    return true;
}

/* Keeps the number of "OpenCL 3.0 ...", which is the driver's capability. */
static bool give_version(struct dgma_answer *answer, const char *below)
{
    unsigned major, minor;
    if (sscanf(below, "OpenCL %u.%u", &major, &minor) != 2)
        return false;
    snprintf(answer->text, sizeof answer->text, "OpenCL %u.%u AMD-APP (" DRIVER ")", major, minor);
    answer->size = strlen(answer->text) + 1;
    return true;
}

static size_t ask_size(cl_device_id device, cl_device_info name)
{
    size_t size = 0;
    dgma_next.clGetDeviceInfo(device, name, sizeof size, &size, NULL);
    return size;
}

static bool give_topology(struct dgma_answer *answer, unsigned index)
{
    struct pcie_topology at = {.type = 1, .bus = (uint8_t)(FIRST_PCI_BUS + index)};
    answer->size = sizeof at;
    memcpy(answer->bytes, &at, sizeof at);
    return true;
}

/* In KiB: all free memory, and its largest block. */
static bool give_free_memory(struct dgma_answer *answer, cl_device_id device)
{
    cl_ulong all = 0, largest = 0;
    dgma_next.clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL);
    dgma_next.clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
    answer->size = sizeof answer->sizes;
    answer->sizes[0] = (size_t)(all >> 10);
    answer->sizes[1] = (size_t)(largest >> 10);
    return true;
}

/* The figures of a Hawaii chip, which are only for display. */
static bool give_chip(struct dgma_answer *answer, cl_device_info name)
{
    static const struct {
        cl_device_info name;
        cl_uint number;
    } chip[] = {
        {0x4040, 4},     /* SIMD units in a compute unit */
        {0x4041, 16},    /* their width */
        {0x4042, 1},     /* width of an instruction */
        {0x4043, 64},    /* of a wavefront */
        {0x4044, 16},    /* memory channels */
        {0x4045, 16},    /* banks of each */
        {0x4046, 256},   /* bytes of a bank */
        {0x4047, 65536}, /* local memory of a compute unit */
        {0x4048, 32},    /* its banks */
        {0x4049, 0},     /* thread trace */
        {0x404A, 7},     /* graphics IP, major */
        {0x404B, 0},     /* and minor */
        {0x404C, 2},     /* asynchronous queues */
    };
    for (size_t i = 0; i < sizeof chip / sizeof chip[0]; i++)
        if (chip[i].name == name)
            return give_number(answer, chip[i].number);
    return false;
}

static bool give_attribute(const struct dgma_card *card, cl_device_info name,
                           struct dgma_answer *answer)
{
    size_t largest;
    switch (name) {
    case TOPOLOGY:
        return give_topology(answer, card->index);
    case BOARD_NAME:
        return give_text(answer, "AMD FirePro W9100");
    case PCIE_ID:
        return give_number(answer, W9100_PCI_DEVICE);
    case PROFILING_TIMER_OFFSET:
        return give_wide(answer, 0);
    case GLOBAL_FREE_MEMORY:
        return give_free_memory(answer, card->device);
    case PREFERRED_CONSTANT_BUFFER_SIZE:
        return give_size(answer, 16384);
    case PREFERRED_WORK_GROUP_SIZE:
    case LARGEST_WORK_GROUP_SIZE:
        largest = ask_size(card->device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
        if (name == PREFERRED_WORK_GROUP_SIZE && largest > HAWAII_WORK_GROUP)
            largest = HAWAII_WORK_GROUP;
        return give_size(answer, largest);
    default:
        return give_chip(answer, name);
    }
}

bool dgma_firepro_device(const struct dgma_card *card, cl_device_info name,
                         struct dgma_answer *answer)
{
    char version[128] = "";
    switch (name) {
    case CL_DEVICE_TYPE:
        return give_wide(answer, CL_DEVICE_TYPE_GPU);
    case CL_DEVICE_NAME: /* AMD's drivers return the chip here, and the card as the board name */
        return give_text(answer, "Hawaii");
    case CL_DEVICE_VENDOR:
        return give_text(answer, VENDOR);
    case CL_DEVICE_VENDOR_ID:
        return give_number(answer, VENDOR_ID);
    case CL_DRIVER_VERSION:
        return give_text(answer, DRIVER " (software DirectGMA)");
    case CL_DEVICE_VERSION:
        dgma_next.clGetDeviceInfo(card->device, name, sizeof version, version, NULL);
        return give_version(answer, version);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return give_number(answer, CL_FALSE);
    case CL_DEVICE_EXECUTION_CAPABILITIES:
        return give_wide(answer, CL_EXEC_KERNEL);
    /* A root device, which cannot be divided. */
    case CL_DEVICE_PARENT_DEVICE:
        answer->size = sizeof answer->none;
        answer->none = NULL;
        return true;
    case CL_DEVICE_REFERENCE_COUNT:
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
        return give_number(answer, 1);
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN:
        return give_wide(answer, 0);
    case CL_DEVICE_PARTITION_PROPERTIES:
    case CL_DEVICE_PARTITION_TYPE:
        answer->size = sizeof answer->partition;
        answer->partition = 0;
        return true;
    default:
        return give_attribute(card, name, answer);
    }
}

bool dgma_firepro_platform(cl_platform_id platform, cl_platform_info name,
                           struct dgma_answer *answer)
{
    char version[128] = "";
    switch (name) {
    case CL_PLATFORM_NAME:
        return give_text(answer, "AMD Accelerated Parallel Processing");
    case CL_PLATFORM_VENDOR:
        return give_text(answer, VENDOR);
    case ICD_SUFFIX_KHR:
        return give_text(answer, "AMD");
    case CL_PLATFORM_VERSION:
        dgma_next.clGetPlatformInfo(platform, name, sizeof version, version, NULL);
        return give_version(answer, version);
    default:
        return false;
    }
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Devices as programs see them: what they can do, and how they look as FirePros. */
#include "layer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === card ==================================================================================== */
/* Devices that are shown as cards, and the objects that were made for them. */

/* A device that is shown as a card. Its handle is the driver's device or, for an alias, the address
 * of this struct. */
struct dgma_card {
    void *dispatch;      /* first in every handle, for loaders */
    cl_device_id device; /* the driver's */
    unsigned index;      /* from 0, over all platforms */
};

static struct dgma_table card_table = DGMA_TABLE_INIT;
static struct dgma_table context_cards = DGMA_TABLE_INIT;
struct dgma_table dgma_queue_cards = DGMA_TABLE_INIT;
static struct dgma_table program_cards = DGMA_TABLE_INIT;

/* NULL: this device is not disguised. */
static const struct dgma_card *card_get(cl_device_id device)
{
    return dgma_table_get(&card_table, device);
}

cl_device_id dgma_card_device(cl_device_id device)
{
    const struct dgma_card *card = card_get(device);
    return card ? card->device : device;
}

/* count 0: forgets. */
static void cards_remember(struct dgma_table *table, const void *key, cl_uint count,
                           const cl_device_id *devices)
{
    free(dgma_table_take(table, key, NULL)); /* that of a released object with the same handle */
    if (count == 0)
        return;
    struct dgma_cards *cards = malloc(sizeof *cards + count * sizeof devices[0]);
    if (cards) {
        cards->count = count;
        memcpy(cards->devices, devices, count * sizeof devices[0]);
        if (dgma_table_put(table, key, cards))
            return;
        free(cards);
    }
    dgma_log("out of memory: an object shows fewer cards than it was made for");
}

/* === device ================================================================================== */
/* The properties of the driver's devices, queried once per device and cached. */

static struct dgma_table devices_known = DGMA_TABLE_INIT;

/* Whether the blank-separated list contains exactly this name. */
static bool list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool has_extension(cl_device_id device)
{
    size_t size = 0;
    if (dgma_next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size) || size == 0)
        return false;
    char *list = calloc(1, size + 1);
    if (!list)
        return false;
    bool has =
        dgma_next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, list, NULL) == CL_SUCCESS &&
        list_has(list, DGMA_EXTENSION_NAME);
    free(list);
    return has;
}

static void device_ask(cl_device_id device, struct dgma_device *info)
{
    cl_device_type type = 0;
    cl_device_exec_capabilities can = 0;
    dgma_next.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    dgma_next.clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL);
    info->host_memory = (type & CL_DEVICE_TYPE_CPU) != 0;
    info->runs_host_functions = (can & CL_EXEC_NATIVE_KERNEL) != 0;
    /* Copies can be forced on a CPU device, to test that case without a GPU. */
    const char *copy = getenv("GPUDIRECT_DGMA_COPY");
    if (copy && strcmp(copy, "1") == 0) {
        info->host_memory = false;
        info->runs_host_functions = false;
    }
    info->native = has_extension(device);
    cl_platform_id platform = NULL;
    if (!info->native ||
        dgma_next.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL))
        return;
    info->wait_signal = (dgma_wait_signal_fn)dgma_next.clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWaitSignalAMD");
    info->write_signal = (dgma_write_signal_fn)dgma_next.clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWriteSignalAMD");
    info->make_resident = (dgma_make_resident_fn)dgma_next.clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueMakeBuffersResidentAMD");
}

const struct dgma_device *dgma_device_get(cl_device_id device)
{
    static const struct dgma_device unknown;
    device = dgma_card_device(device);
    struct dgma_device *info = dgma_table_get(&devices_known, device);
    if (info)
        return info;
    info = calloc(1, sizeof *info);
    if (!info)
        return &unknown;
    device_ask(device, info);
    /* If two threads get here, the later record hides the earlier, which is equal. */
    if (!dgma_table_put(&devices_known, device, info)) {
        free(info);
        return &unknown;
    }
    return info;
}

cl_uint dgma_context_devices(cl_context context, cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES])
{
    const struct dgma_cards *cards = dgma_table_get(&context_cards, context);
    if (cards && cards->count <= DGMA_MAX_CONTEXT_DEVICES) {
        memcpy(devices, cards->devices, cards->count * sizeof devices[0]);
        return cards->count;
    }
    size_t size = 0;
    if (dgma_next.clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &size) ||
        size > DGMA_MAX_CONTEXT_DEVICES * sizeof devices[0] ||
        dgma_next.clGetContextInfo(context, CL_CONTEXT_DEVICES, size, devices, NULL))
        return 0;
    return (cl_uint)(size / sizeof devices[0]);
}

struct dgma_device dgma_context_get(cl_context context)
{
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    cl_uint count = dgma_context_devices(context, devices);
    struct dgma_device all = {.native = count == 0, .host_memory = count > 0};
    for (cl_uint i = 0; i < count; i++) {
        all.native |= dgma_device_get(devices[i])->native;
        all.host_memory &= dgma_device_get(devices[i])->host_memory;
    }
    return all;
}

/* === alias =================================================================================== */
/* Shows one device as several cards: the first is the driver's own handle, the others are our
 * aliases, which the driver must never see. All calls that take devices are wrapped here, and pass
 * on each device behind the aliases once. Queries for the devices of a context, a queue or a
 * program return the cards that it was made for, and a program's binaries once per card. */

static CL_API_ENTRY cl_int CL_API_CALL get_context_info(cl_context context, cl_context_info name,
                                                        size_t size, void *value, size_t *size_ret)
{
    const struct dgma_cards *cards = dgma_table_get(&context_cards, context);
    if (cards && name == CL_CONTEXT_NUM_DEVICES)
        return dgma_give(&cards->count, sizeof cards->count, size, value, size_ret);
    if (cards && name == CL_CONTEXT_DEVICES)
        return dgma_give(cards->devices, cards->count * sizeof cards->devices[0], size, value,
                         size_ret);
    return dgma_next.clGetContextInfo(context, name, size, value, size_ret);
}

static CL_API_ENTRY cl_int CL_API_CALL get_queue_info(cl_command_queue queue,
                                                      cl_command_queue_info name, size_t size,
                                                      void *value, size_t *size_ret)
{
    const struct dgma_cards *cards = dgma_table_get(&dgma_queue_cards, queue);
    if (cards && name == CL_QUEUE_DEVICE)
        return dgma_give(cards->devices, sizeof cards->devices[0], size, value, size_ret);
    return dgma_next.clGetCommandQueueInfo(queue, name, size, value, size_ret);
}

static const struct dgma_cards *cards_of(cl_program program)
{
    cl_context context;
    const struct dgma_cards *cards = dgma_table_get(&program_cards, program);
    if (cards ||
        dgma_next.clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof context, &context, NULL))
        return cards;
    return dgma_table_get(&context_cards, context);
}

/* The driver's view, once per device, and the device of each card. */
struct real_program {
    cl_uint count;
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    size_t sizes[DGMA_MAX_CONTEXT_DEVICES];
};

static cl_int open_program(cl_program program, struct real_program *real)
{
    size_t size = 0;
    cl_int status = dgma_next.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof real->devices,
                                               real->devices, &size);
    real->count = (cl_uint)(size / sizeof real->devices[0]);
    if (status == CL_SUCCESS)
        status = dgma_next.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES,
                                            real->count * sizeof real->sizes[0], real->sizes, NULL);
    return status;
}

/* Returns real->count if the program was not made for the card. */
static cl_uint place_of(const struct real_program *real, cl_device_id card)
{
    cl_uint at = 0;
    while (at < real->count && real->devices[at] != dgma_card_device(card))
        at++;
    return at;
}

static cl_int get_sizes(cl_program program, const struct dgma_cards *cards, size_t size,
                        void *value, size_t *size_ret)
{
    struct real_program real;
    cl_int status = open_program(program, &real);
    if (status)
        return status;
    size_t sizes[DGMA_MAX_CONTEXT_DEVICES] = {0};
    for (cl_uint i = 0; i < cards->count; i++) {
        cl_uint at = place_of(&real, cards->devices[i]);
        sizes[i] = at < real.count ? real.sizes[at] : 0;
    }
    return dgma_give(sizes, cards->count * sizeof sizes[0], size, value, size_ret);
}

/* `out`: a pointer per card to the program's memory, or NULL. The driver fills the first of each
 * device. */
static cl_int get_binaries(cl_program program, const struct dgma_cards *cards, unsigned char **out)
{
    struct real_program real;
    unsigned char *real_out[DGMA_MAX_CONTEXT_DEVICES] = {NULL};
    cl_int status = open_program(program, &real);
    if (status)
        return status;
    for (cl_uint i = 0; i < cards->count; i++) {
        cl_uint at = place_of(&real, cards->devices[i]);
        if (at < real.count && !real_out[at])
            real_out[at] = out[i];
    }
    status = dgma_next.clGetProgramInfo(program, CL_PROGRAM_BINARIES,
                                        real.count * sizeof real_out[0], real_out, NULL);
    for (cl_uint i = 0; i < cards->count && status == CL_SUCCESS; i++) {
        cl_uint at = place_of(&real, cards->devices[i]);
        if (out[i] && at < real.count && out[i] != real_out[at])
            memcpy(out[i], real_out[at], real.sizes[at]);
    }
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL get_program_info(cl_program program, cl_program_info name,
                                                        size_t size, void *value, size_t *size_ret)
{
    const struct dgma_cards *cards = program ? cards_of(program) : NULL;
    if (!cards || cards->count > DGMA_MAX_CONTEXT_DEVICES)
        return dgma_next.clGetProgramInfo(program, name, size, value, size_ret);
    size_t pointers = cards->count * sizeof(unsigned char *);
    switch (name) {
    case CL_PROGRAM_NUM_DEVICES:
        return dgma_give(&cards->count, sizeof cards->count, size, value, size_ret);
    case CL_PROGRAM_DEVICES:
        return dgma_give(cards->devices, cards->count * sizeof cards->devices[0], size, value,
                         size_ret);
    case CL_PROGRAM_BINARY_SIZES:
        return get_sizes(program, cards, size, value, size_ret);
    case CL_PROGRAM_BINARIES:
        if (value && size < pointers)
            return CL_INVALID_VALUE;
        if (size_ret)
            *size_ret = pointers;
        return value ? get_binaries(program, cards, value) : CL_SUCCESS;
    default:
        return dgma_next.clGetProgramInfo(program, name, size, value, size_ret);
    }
}

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);

typedef void(CL_CALLBACK *program_notify)(cl_program, void *);

/* The driver's devices for a list of cards. */
struct real_list {
    cl_uint count;
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    cl_uint source[DGMA_MAX_CONTEXT_DEVICES]; /* the first card of each device */
};

/* NULL: there is no list. A list longer than any context's is left to the driver. */
static const cl_device_id *to_real(cl_uint count, const cl_device_id *cards, struct real_list *real)
{
    real->count = 0;
    if (!cards || count > DGMA_MAX_CONTEXT_DEVICES) {
        real->count = count;
        return cards;
    }
    for (cl_uint i = 0; i < count; i++) {
        cl_device_id device = dgma_card_device(cards[i]);
        cl_uint at = 0;
        while (at < real->count && real->devices[at] != device)
            at++;
        if (at < real->count)
            continue;
        real->source[at] = i;
        real->devices[real->count++] = device;
    }
    return real->devices;
}

static CL_API_ENTRY cl_context CL_API_CALL create_context(const cl_context_properties *properties,
                                                          cl_uint count, const cl_device_id *cards,
                                                          context_notify notify, void *user_data,
                                                          cl_int *status)
{
    struct real_list real;
    const cl_device_id *devices = to_real(count, cards, &real);
    cl_context context =
        dgma_next.clCreateContext(properties, real.count, devices, notify, user_data, status);
    if (context)
        cards_remember(&context_cards, context, count, cards);
    return context;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL create_queue(
    cl_context context, cl_device_id card, cl_command_queue_properties properties, cl_int *status)
{
    cl_command_queue queue =
        dgma_next.clCreateCommandQueue(context, dgma_card_device(card), properties, status);
    if (queue)
        cards_remember(&dgma_queue_cards, queue, 1, &card);
    return queue;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL create_queue_with_properties(
    cl_context context, cl_device_id card, const cl_queue_properties *properties, cl_int *status)
{
    cl_command_queue queue = dgma_next.clCreateCommandQueueWithProperties(
        context, dgma_card_device(card), properties, status);
    if (queue)
        cards_remember(&dgma_queue_cards, queue, 1, &card);
    return queue;
}

static CL_API_ENTRY cl_int CL_API_CALL set_default_queue(cl_context context, cl_device_id card,
                                                         cl_command_queue queue)
{
    return dgma_next.clSetDefaultDeviceCommandQueue(context, dgma_card_device(card), queue);
}

static CL_API_ENTRY cl_int CL_API_CALL get_both_timers(cl_device_id card, cl_ulong *device,
                                                       cl_ulong *host)
{
    return dgma_next.clGetDeviceAndHostTimer(dgma_card_device(card), device, host);
}

static CL_API_ENTRY cl_int CL_API_CALL get_host_timer(cl_device_id card, cl_ulong *host)
{
    return dgma_next.clGetHostTimer(dgma_card_device(card), host);
}

/* A program of the whole context has no list of its own. */
static cl_program of_context(cl_program program)
{
    if (program)
        cards_remember(&program_cards, program, 0, NULL);
    return program;
}

static CL_API_ENTRY cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count,
                                                              const char **strings,
                                                              const size_t *lengths, cl_int *status)
{
    return of_context(
        dgma_next.clCreateProgramWithSource(context, count, strings, lengths, status));
}

static CL_API_ENTRY cl_program CL_API_CALL create_with_il(cl_context context, const void *il,
                                                          size_t length, cl_int *status)
{
    return of_context(dgma_next.clCreateProgramWithIL(context, il, length, status));
}

static CL_API_ENTRY cl_program CL_API_CALL create_with_binary(cl_context context, cl_uint count,
                                                              const cl_device_id *cards,
                                                              const size_t *lengths,
                                                              const unsigned char **binaries,
                                                              cl_int *binary_status, cl_int *status)
{
    struct real_list real;
    const cl_device_id *devices = to_real(count, cards, &real);
    if (devices == cards || !lengths || !binaries)
        return dgma_next.clCreateProgramWithBinary(context, count, devices, lengths, binaries,
                                                   binary_status, status);
    size_t real_lengths[DGMA_MAX_CONTEXT_DEVICES];
    const unsigned char *real_binaries[DGMA_MAX_CONTEXT_DEVICES];
    cl_int real_status[DGMA_MAX_CONTEXT_DEVICES] = {0};
    for (cl_uint i = 0; i < real.count; i++) {
        real_lengths[i] = lengths[real.source[i]];
        real_binaries[i] = binaries[real.source[i]];
    }
    cl_program program = dgma_next.clCreateProgramWithBinary(
        context, real.count, devices, real_lengths, real_binaries, real_status, status);
    for (cl_uint i = 0; binary_status && i < count; i++)
        for (cl_uint at = 0; at < real.count; at++)
            if (real.devices[at] == dgma_card_device(cards[i]))
                binary_status[i] = real_status[at];
    if (program)
        cards_remember(&program_cards, program, count, cards);
    return program;
}

static CL_API_ENTRY cl_program CL_API_CALL create_with_built_in(cl_context context, cl_uint count,
                                                                const cl_device_id *cards,
                                                                const char *names, cl_int *status)
{
    struct real_list real = {0};
    const cl_device_id *devices = to_real(count, cards, &real);
    cl_program program =
        dgma_next.clCreateProgramWithBuiltInKernels(context, real.count, devices, names, status);
    if (program)
        cards_remember(&program_cards, program, count, cards);
    return program;
}

static CL_API_ENTRY cl_int CL_API_CALL build(cl_program program, cl_uint count,
                                             const cl_device_id *cards, const char *options,
                                             program_notify notify, void *user_data)
{
    struct real_list real;
    const cl_device_id *devices = to_real(count, cards, &real);
    return dgma_next.clBuildProgram(program, real.count, devices, options, notify, user_data);
}

static CL_API_ENTRY cl_int CL_API_CALL compile(cl_program program, cl_uint count,
                                               const cl_device_id *cards, const char *options,
                                               cl_uint num_headers, const cl_program *headers,
                                               const char **names, program_notify notify,
                                               void *user_data)
{
    struct real_list real;
    const cl_device_id *devices = to_real(count, cards, &real);
    return dgma_next.clCompileProgram(program, real.count, devices, options, num_headers, headers,
                                      names, notify, user_data);
}

static CL_API_ENTRY cl_program CL_API_CALL link_programs(cl_context context, cl_uint count,
                                                         const cl_device_id *cards,
                                                         const char *options, cl_uint num_programs,
                                                         const cl_program *programs,
                                                         program_notify notify, void *user_data,
                                                         cl_int *status)
{
    struct real_list real = {0};
    const cl_device_id *devices = to_real(count, cards, &real);
    cl_program program = dgma_next.clLinkProgram(context, real.count, devices, options,
                                                 num_programs, programs, notify, user_data, status);
    if (program)
        cards_remember(&program_cards, program, cards ? count : 0, cards);
    return program;
}

static CL_API_ENTRY cl_int CL_API_CALL get_build_info(cl_program program, cl_device_id card,
                                                      cl_program_build_info name, size_t size,
                                                      void *value, size_t *size_ret)
{
    return dgma_next.clGetProgramBuildInfo(program, dgma_card_device(card), name, size, value,
                                           size_ret);
}

static CL_API_ENTRY cl_int CL_API_CALL get_work_group_info(cl_kernel kernel, cl_device_id card,
                                                           cl_kernel_work_group_info name,
                                                           size_t size, void *value,
                                                           size_t *size_ret)
{
    return dgma_next.clGetKernelWorkGroupInfo(kernel, dgma_card_device(card), name, size, value,
                                              size_ret);
}

static CL_API_ENTRY cl_int CL_API_CALL get_sub_group_info(cl_kernel kernel, cl_device_id card,
                                                          cl_kernel_sub_group_info name,
                                                          size_t input_size, const void *input,
                                                          size_t size, void *value,
                                                          size_t *size_ret)
{
    return dgma_next.clGetKernelSubGroupInfo(kernel, dgma_card_device(card), name, input_size,
                                             input, size, value, size_ret);
}

static void alias_install(cl_icd_dispatch *table)
{
    table->clCreateContext = create_context;
    table->clCreateCommandQueue = create_queue;
    table->clCreateCommandQueueWithProperties = create_queue_with_properties;
    table->clSetDefaultDeviceCommandQueue = set_default_queue;
    table->clGetDeviceAndHostTimer = get_both_timers;
    table->clGetHostTimer = get_host_timer;
    table->clCreateProgramWithSource = create_with_source;
    table->clCreateProgramWithIL = create_with_il;
    table->clCreateProgramWithBinary = create_with_binary;
    table->clCreateProgramWithBuiltInKernels = create_with_built_in;
    table->clBuildProgram = build;
    table->clCompileProgram = compile;
    table->clLinkProgram = link_programs;
    table->clGetProgramBuildInfo = get_build_info;
    table->clGetKernelWorkGroupInfo = get_work_group_info;
    table->clGetKernelSubGroupInfo = get_sub_group_info;
    table->clGetContextInfo = get_context_info;
    table->clGetCommandQueueInfo = get_queue_info;
    table->clGetProgramInfo = get_program_info;
}

/* === firepro ================================================================================= */
/* A FirePro W9100's answers to the queries by which programs choose a device: its vendor, its name,
 * its location. Everything that affects computation (compute units, memory sizes, versions, limits)
 * remains the driver's. */

/* The answer to a query of clGetDeviceInfo or clGetPlatformInfo. */
struct answer {
    size_t size;
    union {
        char text[128];
        cl_uint number;
        cl_ulong wide;
        size_t sizes[2];
        uint8_t bytes[24];
    };
};

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

/* AMD's drivers return the chip as the device's name, and the card as the board's. */
static const struct text {
    cl_uint name;
    const char *text;
} device_texts[] =
    {
        {CL_DEVICE_NAME, "Hawaii"},
        {CL_DEVICE_VENDOR, VENDOR},
        {CL_DRIVER_VERSION, DRIVER " (software DirectGMA)"},
        {BOARD_NAME, "AMD FirePro W9100"},
},
  platform_texts[] = {
      {CL_PLATFORM_NAME, "AMD Accelerated Parallel Processing"},
      {CL_PLATFORM_VENDOR, VENDOR},
      {ICD_SUFFIX_KHR, "AMD"},
};

static const struct {
    cl_device_info name;
    size_t size;
    cl_ulong number;
} device_numbers[] = {
    {CL_DEVICE_TYPE, sizeof(cl_device_type), CL_DEVICE_TYPE_GPU},
    {CL_DEVICE_VENDOR_ID, sizeof(cl_uint), VENDOR_ID},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool), CL_FALSE},
    {CL_DEVICE_EXECUTION_CAPABILITIES, sizeof(cl_device_exec_capabilities), CL_EXEC_KERNEL},
    /* A root device, which cannot be divided. */
    {CL_DEVICE_PARENT_DEVICE, sizeof(cl_device_id), 0},
    {CL_DEVICE_REFERENCE_COUNT, sizeof(cl_uint), 1},
    {CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(cl_uint), 1},
    {CL_DEVICE_PARTITION_AFFINITY_DOMAIN, sizeof(cl_device_affinity_domain), 0},
    {CL_DEVICE_PARTITION_PROPERTIES, sizeof(cl_device_partition_property), 0},
    {CL_DEVICE_PARTITION_TYPE, sizeof(cl_device_partition_property), 0},
    {PCIE_ID, sizeof(cl_uint), W9100_PCI_DEVICE},
    {PROFILING_TIMER_OFFSET, sizeof(cl_ulong), 0},
    {PREFERRED_CONSTANT_BUFFER_SIZE, sizeof(size_t), 16384},
    /* The figures of a Hawaii chip, which are only for display. */
    {0x4040, sizeof(cl_uint), 4},     /* SIMD units in a compute unit */
    {0x4041, sizeof(cl_uint), 16},    /* their width */
    {0x4042, sizeof(cl_uint), 1},     /* width of an instruction */
    {0x4043, sizeof(cl_uint), 64},    /* of a wavefront */
    {0x4044, sizeof(cl_uint), 16},    /* memory channels */
    {0x4045, sizeof(cl_uint), 16},    /* banks of each */
    {0x4046, sizeof(cl_uint), 256},   /* bytes of a bank */
    {0x4047, sizeof(cl_uint), 65536}, /* local memory of a compute unit */
    {0x4048, sizeof(cl_uint), 32},    /* its banks */
    {0x4049, sizeof(cl_uint), 0},     /* thread trace */
    {0x404A, sizeof(cl_uint), 7},     /* graphics IP, major */
    {0x404B, sizeof(cl_uint), 0},     /* and minor */
    {0x404C, sizeof(cl_uint), 2},     /* asynchronous queues */
};

#define COUNT(table) (sizeof table / sizeof table[0])

static bool give_text(struct answer *answer, const struct text *texts, size_t count, cl_uint name)
{
    for (size_t i = 0; i < count; i++)
        if (texts[i].name == name) {
            answer->size = strlen(texts[i].text) + 1;
            memcpy(answer->text, texts[i].text, answer->size);
            return true;
        }
    return false;
}

/* Keeps the number of "OpenCL 3.0 ...", which is the driver's capability. */
static bool give_version(struct answer *answer, const char *below)
{
    unsigned major, minor;
    if (sscanf(below, "OpenCL %u.%u", &major, &minor) != 2)
        return false;
    snprintf(answer->text, sizeof answer->text, "OpenCL %u.%u AMD-APP (" DRIVER ")", major, minor);
    answer->size = strlen(answer->text) + 1;
    return true;
}

/* false: the query is left to the driver. */
static bool firepro_device(const struct dgma_card *card, cl_device_info name, struct answer *answer)
{
    char version[128] = "";
    struct pcie_topology at = {.type = 1, .bus = (uint8_t)(FIRST_PCI_BUS + card->index)};
    cl_ulong all = 0, largest = 0;
    size_t group = 0;
    switch (name) {
    case CL_DEVICE_VERSION:
        dgma_next.clGetDeviceInfo(card->device, name, sizeof version, version, NULL);
        return give_version(answer, version);
    case TOPOLOGY:
        answer->size = sizeof at;
        memcpy(answer->bytes, &at, sizeof at);
        return true;
    case GLOBAL_FREE_MEMORY: /* in KiB: all of it, and its largest block */
        dgma_next.clGetDeviceInfo(card->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL);
        dgma_next.clGetDeviceInfo(card->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest,
                                  &largest, NULL);
        answer->size = sizeof answer->sizes;
        answer->sizes[0] = (size_t)(all >> 10);
        answer->sizes[1] = (size_t)(largest >> 10);
        return true;
    case PREFERRED_WORK_GROUP_SIZE:
    case LARGEST_WORK_GROUP_SIZE:
        dgma_next.clGetDeviceInfo(card->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group,
                                  NULL);
        if (name == PREFERRED_WORK_GROUP_SIZE && group > HAWAII_WORK_GROUP)
            group = HAWAII_WORK_GROUP;
        answer->size = sizeof group;
        answer->sizes[0] = group;
        return true;
    }
    for (size_t i = 0; i < COUNT(device_numbers); i++)
        if (device_numbers[i].name == name) {
            answer->size = device_numbers[i].size;
            if (answer->size == sizeof answer->number)
                answer->number = (cl_uint)device_numbers[i].number;
            else
                answer->wide = device_numbers[i].number;
            return true;
        }
    return give_text(answer, device_texts, COUNT(device_texts), name);
}

static bool firepro_platform(cl_platform_id platform, cl_platform_info name, struct answer *answer)
{
    char version[128] = "";
    if (name != CL_PLATFORM_VERSION)
        return give_text(answer, platform_texts, COUNT(platform_texts), name);
    dgma_next.clGetPlatformInfo(platform, name, sizeof version, version, NULL);
    return give_version(answer, version);
}

/* === disguise ================================================================================ */
/* The devices that a program sees under GPUDIRECT_DGMA_AS. A card is a device of the driver or, if
 * more are wanted than exist, an alias of its first one. Sub-devices do not serve: GPUs
 * cannot be divided, and PoCL's contexts treat two sub-devices as one device. A platform with a
 * device that has DirectGMA itself is left alone. */

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

static void disguise_choose(struct platform *platform)
{
    cl_device_id real[MAX_DEVICES];
    cl_uint count = 0;
    if (dgma_next.clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, MAX_DEVICES, real, &count))
        return;
    if (count > MAX_DEVICES)
        count = MAX_DEVICES;
    for (cl_uint i = 0; i < count; i++)
        if (dgma_device_get(real[i])->native)
            return;
    cl_uint shown = wanted ? wanted : count;
    for (cl_uint i = 0; i < shown; i++) {
        bool is_alias = i >= count;
        cl_device_id device = real[is_alias ? 0 : i];
        struct dgma_card *card = calloc(1, sizeof *card);
        cl_device_id handle = is_alias ? (cl_device_id)card : device;
        if (card)
            *card = (struct dgma_card){*(void **)device, device, cards};
        if (!card || !dgma_table_put(&card_table, handle, card)) {
            free(card);
            dgma_log("out of memory: a card is missing");
            return;
        }
        cards++;
        platform->devices[platform->count++] = handle;
    }
}

/* NULL: not disguised. Entries are permanent. */
static const struct platform *get_platform(cl_platform_id id)
{
    if (!on)
        return NULL;
    /* The default platform, which only the loader knows. */
    cl_device_id first;
    if (!id && dgma_next.clGetDeviceIDs(NULL, CL_DEVICE_TYPE_ALL, 1, &first, NULL) == CL_SUCCESS)
        dgma_next.clGetDeviceInfo(first, CL_DEVICE_PLATFORM, sizeof id, &id, NULL);
    if (!id)
        return NULL;
    pthread_mutex_lock(&lock);
    struct platform *platform = platforms;
    while (platform && platform->id != id)
        platform = platform->next;
    if (!platform && (platform = calloc(1, sizeof *platform)) != NULL) {
        platform->id = id;
        disguise_choose(platform);
        platform->next = platforms;
        platforms = platform;
    }
    pthread_mutex_unlock(&lock);
    return platform && platform->count ? platform : NULL;
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
    return card_get(device) ? CL_SUCCESS : dgma_next.clRetainDevice(device);
}

static CL_API_ENTRY cl_int CL_API_CALL release_device(cl_device_id device)
{
    return card_get(device) ? CL_SUCCESS : dgma_next.clReleaseDevice(device);
}

static CL_API_ENTRY cl_int CL_API_CALL
create_sub_devices(cl_device_id device, const cl_device_partition_property *properties,
                   cl_uint num_devices, cl_device_id *out, cl_uint *num_devices_ret)
{
    if (!card_get(device))
        return dgma_next.clCreateSubDevices(device, properties, num_devices, out, num_devices_ret);
    return CL_INVALID_VALUE; /* no kind of partition is supported */
}

void *dgma_disguise_function(const char *name)
{
    static const struct {
        const char *name;
        void *function;
        bool alias;
    } functions[] = {
        {"clRetainDeviceEXT", (void *)retain_device, false},
        {"clReleaseDeviceEXT", (void *)release_device, false},
        {"clCreateCommandQueueWithPropertiesKHR", (void *)create_queue_with_properties, true},
        {"clGetKernelSubGroupInfoKHR", (void *)get_sub_group_info, true},
        {"clCreateProgramWithILKHR", (void *)create_with_il, true},
    };
    for (size_t i = 0; on && name && i < COUNT(functions); i++)
        if ((wanted || !functions[i].alias) && strcmp(name, functions[i].name) == 0)
            return functions[i].function;
    return NULL;
}

/* "firepro" or "firepro:N". */
static bool disguise_parse(const char *text)
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

/* === info ==================================================================================== */
/* The queries that programs make before they use the extension, and about its buffers. */

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

/* The driver's list, of `below` bytes, with room behind it; the caller frees it. */
static cl_int ask_list(const struct question *q, size_t room, void **list, size_t *below)
{
    *list = NULL;
    *below = 0;
    cl_int status = ask(q, 0, NULL, below);
    if (status)
        return status;
    *list = calloc(1, *below + room);
    if (!*list)
        return CL_OUT_OF_HOST_MEMORY;
    return *below ? ask(q, *below, *list, NULL) : CL_SUCCESS;
}

static cl_int add_to_string(const struct question *q, size_t size, void *value, size_t *size_ret)
{
    size_t below;
    void *all;
    cl_int status = ask_list(q, MAX_ADDED * CL_NAME_VERSION_MAX_NAME_SIZE, &all, &below);
    char *list = all;
    for (unsigned i = 0; status == CL_SUCCESS && i < added(q); i++)
        if (!list_has(list, added_names[i])) {
            size_t length = strlen(list);
            if (length > 0 && list[length - 1] != ' ')
                list[length++] = ' ';
            memcpy(list + length, added_names[i], strlen(added_names[i]) + 1);
        }
    if (status == CL_SUCCESS)
        status = dgma_give(list, strlen(list) + 1, size, value, size_ret);
    free(all);
    return status;
}

static cl_int add_to_versions(const struct question *q, size_t size, void *value, size_t *size_ret)
{
    size_t below;
    void *all;
    cl_int status = ask_list(q, MAX_ADDED * sizeof(cl_name_version), &all, &below);
    cl_name_version *list = all;
    size_t count = below / sizeof *list;
    for (unsigned i = 0; status == CL_SUCCESS && i < added(q); i++) {
        size_t at = 0;
        while (at < count && strncmp(list[at].name, added_names[i], sizeof list[at].name) != 0)
            at++;
        if (at < count)
            continue;
        list[count].version = added_versions[i];
        memcpy(list[count++].name, added_names[i], strlen(added_names[i]) + 1);
    }
    if (status == CL_SUCCESS)
        status = dgma_give(list, count * sizeof *list, size, value, size_ret);
    free(all);
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info name,
                                                       size_t size, void *value, size_t *size_ret)
{
    const struct dgma_card *card = device ? card_get(device) : NULL;
    struct question q = {.device = dgma_card_device(device), .name = name, .is_card = card != NULL};
    struct answer answer;
    if (device && name == CL_DEVICE_EXTENSIONS)
        return add_to_string(&q, size, value, size_ret);
    if (device && name == CL_DEVICE_EXTENSIONS_WITH_VERSION)
        return add_to_versions(&q, size, value, size_ret);
    if (card && firepro_device(card, name, &answer))
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
    struct answer answer;
    if (get_platform(platform) && firepro_platform(platform, name, &answer))
        return dgma_give(&answer.bytes, answer.size, size, value, size_ret);
    return dgma_next.clGetPlatformInfo(platform, name, size, value, size_ret);
}

/* Reads GPUDIRECT_DGMA_AS. If it is unset or invalid, no platform is disguised. */
void dgma_devices_install(cl_icd_dispatch *table)
{
    table->clGetDeviceInfo = get_device_info;
    table->clGetPlatformInfo = get_platform_info;
    const char *text = getenv("GPUDIRECT_DGMA_AS");
    if (!text || !*text)
        return;
    on = disguise_parse(text);
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
        alias_install(table);
    next_create_context = table->clCreateContext;
}

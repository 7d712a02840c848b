/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shows one device as several cards: the first is the driver's own handle, the others are our
 * aliases, which the driver must never see. All calls that take devices are wrapped here, and pass
 * on each device behind the aliases once. The cards of a context, a queue or a program are
 * recorded, and alias-info.c reports them. */

#include <stdlib.h>
#include <string.h>

#include "alias.h"
#include "alias-info.h"
#include "card.h"

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
        dgma_cards_remember(&dgma_context_cards, context, count, cards);
    return context;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL create_queue(
    cl_context context, cl_device_id card, cl_command_queue_properties properties, cl_int *status)
{
    cl_command_queue queue =
        dgma_next.clCreateCommandQueue(context, dgma_card_device(card), properties, status);
    if (queue)
        dgma_cards_remember(&dgma_queue_cards, queue, 1, &card);
    return queue;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL create_queue_with_properties(
    cl_context context, cl_device_id card, const cl_queue_properties *properties, cl_int *status)
{
    cl_command_queue queue = dgma_next.clCreateCommandQueueWithProperties(
        context, dgma_card_device(card), properties, status);
    if (queue)
        dgma_cards_remember(&dgma_queue_cards, queue, 1, &card);
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
        dgma_cards_remember(&dgma_program_cards, program, 0, NULL);
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
        dgma_cards_remember(&dgma_program_cards, program, count, cards);
    return program;
}

static CL_API_ENTRY cl_program CL_API_CALL create_with_built_in(cl_context context, cl_uint count,
                                                                const cl_device_id *cards,
                                                                const char *names, cl_int *status)
{
    struct real_list real;
    const cl_device_id *devices = to_real(count, cards, &real);
    cl_program program =
        dgma_next.clCreateProgramWithBuiltInKernels(context, real.count, devices, names, status);
    if (program)
        dgma_cards_remember(&dgma_program_cards, program, count, cards);
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
    struct real_list real;
    const cl_device_id *devices = to_real(count, cards, &real);
    cl_program program = dgma_next.clLinkProgram(context, real.count, devices, options,
                                                 num_programs, programs, notify, user_data, status);
    if (program)
        dgma_cards_remember(&dgma_program_cards, program, cards ? count : 0, cards);
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

void *dgma_alias_function(const char *name)
{
    if (strcmp(name, "clCreateCommandQueueWithPropertiesKHR") == 0)
        return (void *)create_queue_with_properties;
    if (strcmp(name, "clGetKernelSubGroupInfoKHR") == 0)
        return (void *)get_sub_group_info;
    if (strcmp(name, "clCreateProgramWithILKHR") == 0)
        return (void *)create_with_il;
    return NULL;
}

void dgma_alias_install(cl_icd_dispatch *table)
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
    dgma_alias_info_install(table);
}

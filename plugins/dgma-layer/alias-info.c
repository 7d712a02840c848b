/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queries for the devices of a context, a queue or a program return the cards that it was made for
 * (alias.c), and a program's binaries once per card. */

#include <stdlib.h>
#include <string.h>

#include "alias-info.h"
#include "card.h"
#include "give.h"

static CL_API_ENTRY cl_int CL_API_CALL get_context_info(cl_context context, cl_context_info name,
                                                        size_t size, void *value, size_t *size_ret)
{
    const struct dgma_cards *cards = dgma_table_get(&dgma_context_cards, context);
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
    const struct dgma_cards *cards = dgma_table_get(&dgma_program_cards, program);
    if (cards ||
        dgma_next.clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof context, &context, NULL))
        return cards;
    return dgma_table_get(&dgma_context_cards, context);
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
    if (cards && cards->count <= DGMA_MAX_CONTEXT_DEVICES) {
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
            break;
        }
    }
    return dgma_next.clGetProgramInfo(program, name, size, value, size_ret);
}

void dgma_alias_info_install(cl_icd_dispatch *table)
{
    table->clGetContextInfo = get_context_info;
    table->clGetCommandQueueInfo = get_queue_info;
    table->clGetProgramInfo = get_program_info;
}

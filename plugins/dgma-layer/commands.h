/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The three commands of the extension. */

#ifndef DGMA_LAYER_COMMANDS_H
#define DGMA_LAYER_COMMANDS_H

#include "next.h"

cl_int CL_API_CALL dgma_enqueue_wait_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                            cl_uint num_events, const cl_event *wait_list,
                                            cl_event *event);
cl_int CL_API_CALL dgma_enqueue_write_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                             cl_ulong offset, cl_uint num_events,
                                             const cl_event *wait_list, cl_event *event);
cl_int CL_API_CALL dgma_enqueue_make_resident(cl_command_queue queue, cl_uint num_mems,
                                              cl_mem *mems, cl_bool blocking,
                                              cl_bus_address_amd *addresses, cl_uint num_events,
                                              const cl_event *wait_list, cl_event *event);

#endif

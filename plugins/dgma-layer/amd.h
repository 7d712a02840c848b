/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The declarations of cl_amd_bus_addressable_memory, which neither Khronos' nor Debian's headers
 * have. The argument orders are those of AMD's header, with which programs were compiled, not those
 * of the specification's text. Guarded, so that AMD's header may be included first. */

#ifndef DGMA_LAYER_AMD_H
#define DGMA_LAYER_AMD_H

#include <CL/cl.h>

#define DGMA_EXTENSION_NAME "cl_amd_bus_addressable_memory"

#ifndef CL_MEM_BUS_ADDRESSABLE_AMD
#define CL_MEM_BUS_ADDRESSABLE_AMD ((cl_mem_flags)1 << 30)
#endif
#ifndef CL_MEM_EXTERNAL_PHYSICAL_AMD
#define CL_MEM_EXTERNAL_PHYSICAL_AMD ((cl_mem_flags)1 << 31)
#endif

#ifndef CL_COMMAND_WAIT_SIGNAL_AMD
#define CL_COMMAND_WAIT_SIGNAL_AMD 0x4080
#define CL_COMMAND_WRITE_SIGNAL_AMD 0x4081
#define CL_COMMAND_MAKE_BUFFERS_RESIDENT_AMD 0x4082

typedef struct _cl_bus_address_amd {
    cl_ulong surface_bus_address;
    cl_ulong marker_bus_address;
} cl_bus_address_amd;
#endif

/* Names of our own, so that AMD's typedefs cannot clash with them. */
typedef cl_int(CL_API_CALL *dgma_wait_signal_fn)(cl_command_queue queue, cl_mem mem, cl_uint value,
                                                 cl_uint num_events, const cl_event *wait_list,
                                                 cl_event *event);
typedef cl_int(CL_API_CALL *dgma_write_signal_fn)(cl_command_queue queue, cl_mem mem, cl_uint value,
                                                  cl_ulong offset, cl_uint num_events,
                                                  const cl_event *wait_list, cl_event *event);
typedef cl_int(CL_API_CALL *dgma_make_resident_fn)(cl_command_queue queue, cl_uint num_mems,
                                                   cl_mem *mems, cl_bool blocking,
                                                   cl_bus_address_amd *addresses,
                                                   cl_uint num_events, const cl_event *wait_list,
                                                   cl_event *event);

#endif

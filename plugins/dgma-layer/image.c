/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Refuses images that are bus addressable or external, or made from such a buffer. */

#include "buffer.h"
#include "device.h"
#include "image.h"

static bool refuse(cl_context context, cl_mem_flags flags, const cl_image_desc *desc,
                   cl_int *status)
{
    cl_int reason = CL_SUCCESS;
    if (dgma_flags_are_ours(flags) && context && !dgma_context_is_native(context))
        reason = CL_INVALID_VALUE;
    else if (desc && desc->mem_object && dgma_buffer_get(desc->mem_object))
        reason = CL_INVALID_IMAGE_DESCRIPTOR;
    if (reason && status)
        *status = reason;
    return reason != CL_SUCCESS;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image(cl_context context, cl_mem_flags flags,
                                                    const cl_image_format *format,
                                                    const cl_image_desc *desc, void *host_ptr,
                                                    cl_int *status)
{
    return refuse(context, flags, desc, status)
               ? NULL
               : dgma_next.clCreateImage(context, flags, format, desc, host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_with_properties(
    cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
    const cl_image_format *format, const cl_image_desc *desc, void *host_ptr, cl_int *status)
{
    return refuse(context, flags, desc, status)
               ? NULL
               : dgma_next.clCreateImageWithProperties(context, properties, flags, format, desc,
                                                       host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_2d(cl_context context, cl_mem_flags flags,
                                                       const cl_image_format *format, size_t width,
                                                       size_t height, size_t pitch, void *host_ptr,
                                                       cl_int *status)
{
    return refuse(context, flags, NULL, status)
               ? NULL
               : dgma_next.clCreateImage2D(context, flags, format, width, height, pitch, host_ptr,
                                           status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_3d(cl_context context, cl_mem_flags flags,
                                                       const cl_image_format *format, size_t width,
                                                       size_t height, size_t depth,
                                                       size_t row_pitch, size_t slice_pitch,
                                                       void *host_ptr, cl_int *status)
{
    return refuse(context, flags, NULL, status)
               ? NULL
               : dgma_next.clCreateImage3D(context, flags, format, width, height, depth, row_pitch,
                                           slice_pitch, host_ptr, status);
}

void dgma_image_install(cl_icd_dispatch *table)
{
    table->clCreateImage = create_image;
    table->clCreateImage2D = create_image_2d;
    table->clCreateImage3D = create_image_3d;
    if (table->clCreateImageWithProperties)
        table->clCreateImageWithProperties = create_image_with_properties;
}

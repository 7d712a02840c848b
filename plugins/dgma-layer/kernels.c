/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records the external buffers that kernels have as arguments, because a kernel that runs may write
 * them. All arguments of a reused kernel handle must be set anew, so stale records of a released
 * kernel are overwritten before the next one runs. */

#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "kernels.h"
#include "unfollowed.h"

static struct dgma_table kernels = DGMA_TABLE_INIT;

struct argument {
    cl_uint index;
    cl_mem mem;
};

/* OpenCL's rule for clSetKernelArg: only one thread at a time sets up a kernel. */
struct kernel {
    unsigned count;
    struct argument arguments[];
};

static bool is_external(cl_mem mem)
{
    const struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    return buffer && buffer->kind == DGMA_EXTERNAL;
}

static void put(cl_kernel handle, struct kernel *kernel)
{
    free(dgma_table_take(&kernels, handle));
    if (kernel && !dgma_table_put(&kernels, handle, kernel)) {
        free(kernel);
        dgma_unfollowed_note("a kernel (out of memory)");
    }
}

/* Replaces one of the kernel's arguments. */
static void set(cl_kernel handle, cl_uint index, cl_mem mem)
{
    const struct kernel *old = dgma_table_get(&kernels, handle);
    unsigned count = old ? old->count : 0;
    if (!old && !mem)
        return;
    struct kernel *kernel = malloc(sizeof *kernel + (count + 1) * sizeof kernel->arguments[0]);
    if (!kernel) {
        dgma_unfollowed_note("a kernel (out of memory)");
        return;
    }
    kernel->count = 0;
    for (unsigned i = 0; i < count; i++)
        if (old->arguments[i].index != index)
            kernel->arguments[kernel->count++] = old->arguments[i];
    if (mem)
        kernel->arguments[kernel->count++] = (struct argument){index, mem};
    put(handle, kernel);
}

static CL_API_ENTRY cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size,
                                                      const void *value)
{
    cl_int status = dgma_next.clSetKernelArg(kernel, index, size, value);
    if (status)
        return status;
    cl_mem mem = NULL;
    if (value && size == sizeof mem)
        memcpy(&mem, value, sizeof mem); /* any other eight bytes are not a handle of ours */
    set(kernel, index, is_external(mem) ? mem : NULL);
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_kernel CL_API_CALL clone_kernel(cl_kernel from, cl_int *status)
{
    cl_kernel to = dgma_next.clCloneKernel(from, status);
    const struct kernel *kernel = to ? dgma_table_get(&kernels, from) : NULL;
    for (unsigned i = 0; kernel && i < kernel->count; i++)
        set(to, kernel->arguments[i].index, kernel->arguments[i].mem);
    return to;
}

static CL_API_ENTRY cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    cl_uint refs = 0;
    if (dgma_table_get(&kernels, kernel) &&
        dgma_next.clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof refs, &refs, NULL) ==
            CL_SUCCESS &&
        refs == 1)
        put(kernel, NULL);
    return dgma_next.clReleaseKernel(kernel);
}

void dgma_kernel_externals(cl_kernel handle, void (*give)(void *user_data, cl_mem mem),
                           void *user_data)
{
    const struct kernel *kernel = dgma_table_get(&kernels, handle);
    for (unsigned i = 0; kernel && i < kernel->count; i++)
        if (is_external(kernel->arguments[i].mem))
            give(user_data, kernel->arguments[i].mem);
}

void dgma_kernels_install(cl_icd_dispatch *table)
{
    table->clSetKernelArg = set_kernel_arg;
    table->clReleaseKernel = release_kernel;
    if (table->clCloneKernel)
        table->clCloneKernel = clone_kernel;
}

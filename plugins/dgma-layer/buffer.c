/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "buffer.h"

struct dgma_table dgma_buffers = DGMA_TABLE_INIT;

struct dgma_buffer *dgma_buffer_get(cl_mem mem)
{
    return dgma_table_get(&dgma_buffers, mem);
}

bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device)
{
    return dgma_aperture_book(&buffer->aperture, device, buffer->size, buffer->size + DGMA_PAGE);
}

void dgma_buffer_leave(struct dgma_buffer *buffer)
{
    dgma_aperture_give(buffer->aperture, buffer->size + DGMA_PAGE);
    buffer->aperture = NULL;
}

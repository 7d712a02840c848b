/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Updates an owner's copy with what writers wrote. */

#ifndef DGMA_LAYER_BRING_H
#define DGMA_LAYER_BRING_H

#include "buffer.h"

/* A queue for that, which the caller releases; the program's own is stalled meanwhile. */
cl_command_queue dgma_bring_queue(struct dgma_buffer *buffer, cl_device_id device, cl_int *status);
void dgma_bring_free(struct dgma_buffer *buffer);
/* `*gate`: the last of its commands; NULL: nothing was written. */
cl_int dgma_bring_in(struct dgma_buffer *buffer, cl_mem mem, cl_command_queue queue,
                     cl_event *gate);

#endif

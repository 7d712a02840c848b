/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tracks what the program's commands write into external buffers. */

#ifndef DGMA_LAYER_WRITES_H
#define DGMA_LAYER_WRITES_H

#include "buffer.h"
#include "poller.h"

/* Enqueues what a WriteSignal must send, and fills in the gate and the written ranges of `op`. */
cl_int dgma_writes_send(cl_command_queue queue, cl_mem mem, struct dgma_buffer *buffer,
                        cl_uint num_events, const cl_event *wait_list, struct dgma_op *op);
void dgma_writes_free(struct dgma_buffer *buffer);
void dgma_writes_install(cl_icd_dispatch *table);

#endif

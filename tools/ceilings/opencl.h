/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The benefit of an explicit early move with an OpenCL driver, without gpudirect. With and without
 * it in turn, a few frames each: the sender's device fills a buffer while the receiver's is busy
 * with work of its own; then the receiver's device copies the buffer. The copy is the first use,
 * which waits for the move if the driver has not begun it before; it is what is measured. Every
 * frame's bytes are checked on arrival. */
#ifndef GPUD_TOOLS_CEILINGS_OPENCL_H
#define GPUD_TOOLS_CEILINGS_OPENCL_H

#include "failure.h"

struct raw_opencl_job {
    const char *from, *to; /* "opencl:0" */
    uint64_t size;         /* of a frame, bytes */
    uint32_t frames;       /* at most 320 are measured */
};

/* us: the first use of a frame that was moved early, or was not moved before. */
struct raw_opencl_figures {
    double early, implicit;
};

void raw_opencl_measure(const struct raw_opencl_job *job, const struct raw_caller *caller,
                        struct raw_opencl_figures *figures);

#endif

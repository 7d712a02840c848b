/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stream memory operations. The wait compares cyclically. */
#include "device/cuda/cuda.h"

static long write_value(void *stream, uint64_t address, uint32_t value)
{
    return gpud_cu.stream_write_value(stream, address, value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static long wait_value(void *stream, uint64_t address, uint32_t value)
{
    return gpud_cu.stream_wait_value(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ);
}

const struct gpud_gpu_signal_ops gpud_cuda_signal_ops = {
    .write = write_value,
    .wait = wait_value,
};

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies by the CPU, in one thread. */
#ifndef GPUD_TOOLS_CEILINGS_MEMORY_H
#define GPUD_TOOLS_CEILINGS_MEMORY_H

#include <stdint.h>

/* How many buffers of this size together exceed the processor's caches. */
uint32_t raw_memory_buffers(uint64_t size);

/* memcpy of so many bytes: how often a second. 0: out of memory. */
double raw_memory_copy_rate(uint64_t size);

#endif

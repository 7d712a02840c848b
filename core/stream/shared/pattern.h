/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The canary: a pattern that is sent over a new link and read back at its destination before the
 * link is trusted. A route may connect without an error and still lose every write (an IOMMU, a bus
 * that drops them). */
#ifndef GPUD_STREAM_SHARED_PATTERN_H
#define GPUD_STREAM_SHARED_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* Covers the frame's first and last bytes, so that a short or shifted copy is detected too. */
void gpud_pattern_write(void *frame, uint64_t size, uint64_t nonce);
bool gpud_pattern_check(const void *frame, uint64_t size, uint64_t nonce);

#endif

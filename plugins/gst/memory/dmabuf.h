/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_MEMORY_DMABUF_H
#define GPUD_GST_MEMORY_DMABUF_H

#include "memory/slot.h"

/* GstMemory with a dma-buf, for a driver that writes it; on the host. */
extern const struct slot_kind dmabuf_slot_kind;

#endif

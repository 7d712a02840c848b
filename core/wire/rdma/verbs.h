/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_VERBS_H
#define GPUD_WIRE_RDMA_VERBS_H

#include "wire/verbs.h"

extern const struct gpud_verbs_ops gpud_rdma_verbs;

#endif

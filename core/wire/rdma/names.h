/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Asks another host for the names of the channels at one of its ports. It takes no key, as a
 * refusal lists them, too. */
#ifndef GPUD_WIRE_RDMA_NAMES_H
#define GPUD_WIRE_RDMA_NAMES_H

#include "wire/channel.h"

/* port: "rdma://10.0.0.2:7174/". The caller frees *found; *omitted: more than GPUD_CHANNELS_MAX.
 * GPUD_CLOSED: nothing listens there, or its answer did not arrive by the deadline. */
enum gpud_status gpud_rdma_list_names(const char *port, int64_t deadline,
                                      struct gpud_address **found, size_t *count, size_t *omitted,
                                      struct gpud_error *error);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A list of a sender's receivers, which <gpudirect/sender.h> declares. */
#ifndef GPUD_STREAM_LINKS_H
#define GPUD_STREAM_LINKS_H

#include "base/list.h"
#include <gpudirect/sender.h>

struct gpud_link_list {
    struct gpud_list list; /* struct gpud_link_info */
};

/* Makes a list of the records without copying them. gpud_link_list_destroy() frees them; the owner
 * of records that are not to be freed never calls it. */
void gpud_link_list_init(struct gpud_link_list *list, struct gpud_link_info *links, uint32_t count);

#endif

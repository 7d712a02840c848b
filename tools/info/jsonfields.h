/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Members of the report's JSON object that have files of their own, or that several of them
 * share. */
#ifndef GPUD_TOOLS_INFO_JSONFIELDS_H
#define GPUD_TOOLS_INFO_JSONFIELDS_H

#include "info.h"
#include "json.h"

/* The member "auto": what device=auto means for frames over a card. */
static inline void add_auto(JsonBuilder *builder, const struct info_auto *nearest)
{
    json_begin_object(builder, "auto");
    json_put_text(builder, "device", nearest->device);
    json_put_text(builder, "reason", nearest->reason);
    json_builder_end_object(builder);
}

/* In networkjson.c: the member "network". */
void info_add_network(JsonBuilder *builder, const struct info_report *report);

/* In topologyjson.c: the member "topology". */
void info_add_topology(JsonBuilder *builder, const struct info_report *report);

#endif

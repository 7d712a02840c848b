/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Members of a JSON object. */
#ifndef GPUD_TOOLS_INFO_JSONFIELDS_H
#define GPUD_TOOLS_INFO_JSONFIELDS_H

#include "info.h"

#include <json-glib/json-glib.h>
#include <stdbool.h>

static inline void add_string(JsonBuilder *builder, const char *key, const char *value)
{
    json_builder_set_member_name(builder, key);
    if (!value) {
        json_builder_add_null_value(builder);
        return;
    }
    char *valid = g_utf8_make_valid(value, -1); /* some come from drivers */
    json_builder_add_string_value(builder, valid);
    g_free(valid);
}

static inline void add_int(JsonBuilder *builder, const char *key, gint64 value)
{
    json_builder_set_member_name(builder, key);
    json_builder_add_int_value(builder, value);
}

static inline void add_bool(JsonBuilder *builder, const char *key, bool value)
{
    json_builder_set_member_name(builder, key);
    json_builder_add_boolean_value(builder, value);
}

/* NULL for "". */
static inline void add_text(JsonBuilder *builder, const char *key, const char *value)
{
    add_string(builder, key, value[0] ? value : NULL);
}

/* 0 and NAN: unknown. */
static inline void add_rate(JsonBuilder *builder, const char *key, double value)
{
    json_builder_set_member_name(builder, key);
    if (value > 0)
        json_builder_add_double_value(builder, value);
    else
        json_builder_add_null_value(builder);
}

/* The member "auto": what device=auto is for frames over a card. */
static inline void add_auto(JsonBuilder *builder, const struct info_auto *nearest)
{
    json_builder_set_member_name(builder, "auto");
    json_builder_begin_object(builder);
    add_text(builder, "device", nearest->device);
    add_text(builder, "reason", nearest->reason);
    json_builder_end_object(builder);
}

struct info_report;

/* In networkjson.c: the member "network". */
void info_add_network(JsonBuilder *builder, const struct info_report *report);

/* In topologyjson.c: the member "topology". */
void info_add_topology(JsonBuilder *builder, const struct info_report *report);

#endif

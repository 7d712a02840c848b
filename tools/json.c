/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "json.h"

#include <math.h>
#include <stdio.h>

void json_put_string(JsonBuilder *builder, const char *key, const char *value)
{
    char *valid = value ? g_utf8_make_valid(value, -1) : NULL;
    json_builder_set_member_name(builder, key);
    if (valid)
        json_builder_add_string_value(builder, valid);
    else
        json_builder_add_null_value(builder);
    g_free(valid);
}

void json_put_text(JsonBuilder *builder, const char *key, const char *value)
{
    json_put_string(builder, key, value && value[0] ? value : NULL);
}

void json_put_bool(JsonBuilder *builder, const char *key, bool value)
{
    json_builder_set_member_name(builder, key);
    json_builder_add_boolean_value(builder, value);
}

void json_put_int(JsonBuilder *builder, const char *key, gint64 value)
{
    json_put_int_if(builder, key, true, value);
}

void json_put_int_if(JsonBuilder *builder, const char *key, bool known, gint64 value)
{
    json_builder_set_member_name(builder, key);
    if (known)
        json_builder_add_int_value(builder, value);
    else
        json_builder_add_null_value(builder);
}

void json_put_positive(JsonBuilder *builder, const char *key, guint64 value)
{
    json_put_int_if(builder, key, value > 0 && value <= G_MAXINT64, (gint64)value);
}

void json_put_number(JsonBuilder *builder, const char *key, double value)
{
    json_builder_set_member_name(builder, key);
    if (isfinite(value))
        json_builder_add_double_value(builder, value);
    else
        json_builder_add_null_value(builder);
}

void json_put_rate(JsonBuilder *builder, const char *key, double value)
{
    json_put_number(builder, key, value > 0 ? value : NAN);
}

void json_begin_object(JsonBuilder *builder, const char *key)
{
    json_builder_set_member_name(builder, key);
    json_builder_begin_object(builder);
}

void json_begin_array(JsonBuilder *builder, const char *key)
{
    json_builder_set_member_name(builder, key);
    json_builder_begin_array(builder);
}

void json_print(JsonBuilder *builder, bool pretty)
{
    JsonNode *root = json_builder_get_root(builder);
    char *text = json_to_string(root, pretty);
    puts(text);
    g_free(text);
    json_node_unref(root);
    g_object_unref(builder);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* JSON for the tools: members of the object that a json-glib builder is in, and printing. Unknown
 * values are null. */
#ifndef GPUD_TOOLS_JSON_H
#define GPUD_TOOLS_JSON_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

/* null for NULL. Invalid UTF-8, as in drivers' texts, is replaced. */
void json_put_string(JsonBuilder *builder, const char *key, const char *value);

/* null also for "". */
void json_put_text(JsonBuilder *builder, const char *key, const char *value);

void json_put_bool(JsonBuilder *builder, const char *key, bool value);
void json_put_int(JsonBuilder *builder, const char *key, gint64 value);

/* null if unknown. */
void json_put_int_if(JsonBuilder *builder, const char *key, bool known, gint64 value);

/* null for 0, and for values that need all 64 bits, which JSON's numbers do not have. */
void json_put_positive(JsonBuilder *builder, const char *key, guint64 value);

/* null if it is not finite. */
void json_put_number(JsonBuilder *builder, const char *key, double value);

/* null if it is not above 0. */
void json_put_rate(JsonBuilder *builder, const char *key, double value);

/* A member that is an object or an array; end it with json_builder_end_object() or _array(). */
void json_begin_object(JsonBuilder *builder, const char *key);
void json_begin_array(JsonBuilder *builder, const char *key);

/* Prints what was built on standard output, with a newline, and frees the builder. */
void json_print(JsonBuilder *builder, bool pretty);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The device that an element works on: the one that the user names or, with `auto`, the GPU whose
 * memory its neighbours prefer. All functions take the element's object lock. */
#ifndef GPUD_GST_BASE_DEVICECHOICE_H
#define GPUD_GST_BASE_DEVICECHOICE_H

#include "element/settings.h"
#include "memory/gpu.h"

struct device_choice {
    GstElement *element;
    GstPad *pad;                     /* towards the neighbours that `auto` queries */
    const struct settings *settings; /* the properties; under the object lock */
    GstDebugCategory *category;
    gint opened_on;               /* atomic: the GPU in use, or -1 */
    struct gpu_contexts contexts; /* under the object lock */
    gchar *reason;                /* what `auto` chose, and why, or NULL; under the object lock */
};

void device_choice_init(struct device_choice *choice, GstElement *element, GstPad *pad,
                        const struct settings *settings, GstDebugCategory *category);
void device_choice_clear(struct device_choice *choice);

/* What the property `device` asks for; see gpu_use_of_device(). */
enum gpu_use device_choice_get_use(struct device_choice *choice, gint *number);

/* The device that the user named; "host", with a reason noted, for `auto`. g_free it. */
gchar *device_choice_get_named(struct device_choice *choice);

/* The vendor's GPU that the pipeline works on. g_free *reason. */
gint device_choice_find_gpu(struct device_choice *choice, const struct gpu_vendor *vendor,
                            gchar **reason);

/* Chooses a device before the stream starts; g_free it. *number: that of its GPU, or -1.
 * *undecided (may be NULL): the device is `auto`, and the neighbours prefer no GPU's memory. */
gchar *device_choice_choose(struct device_choice *choice, gint *number, gboolean *undecided);

/* Sets the reason for the choice of `auto`, which it takes; NULL: the user named the device. */
void device_choice_set_reason(struct device_choice *choice, gchar *reason);

/* Adds the field "device-reason", unless the user named the device. */
void device_choice_tell(struct device_choice *choice, GstStructure *stats);

/* Answers a query for a GPU's context. FALSE: the query is about something else. */
gboolean device_choice_answer_query(struct device_choice *choice, GstQuery *query);

#endif

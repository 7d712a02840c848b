/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "element/devicechoice.h"

void device_choice_init(struct device_choice *choice, GstElement *element, GstPad *pad,
                        const struct settings *settings, GstDebugCategory *category)
{
    choice->element = element;
    choice->pad = pad;
    choice->settings = settings;
    choice->category = category;
    choice->opened_on = -1;
}

void device_choice_clear(struct device_choice *choice)
{
    gpu_contexts_clear(&choice->contexts);
    g_free(choice->reason);
}

enum gpu_use device_choice_get_use(struct device_choice *choice, gint *number)
{
    GST_OBJECT_LOCK(choice->element);
    enum gpu_use use = gpu_use_of_device(choice->settings->device, number);
    GST_OBJECT_UNLOCK(choice->element);
    return use;
}

void device_choice_set_reason(struct device_choice *choice, gchar *reason)
{
    if (reason)
        GST_CAT_INFO_OBJECT(choice->category, choice->element, "device=auto: %s", reason);
    GST_OBJECT_LOCK(choice->element);
    g_free(choice->reason);
    choice->reason = reason;
    GST_OBJECT_UNLOCK(choice->element);
}

gint device_choice_find_gpu(struct device_choice *choice, const struct gpu_vendor *vendor,
                            gchar **reason)
{
    GST_OBJECT_LOCK(choice->element);
    gchar *address = g_strdup(choice->settings->address);
    GST_OBJECT_UNLOCK(choice->element);
    gint number =
        gpu_find(vendor, choice->element, choice->pad, &choice->contexts, address, reason);

    g_free(address);
    return number;
}

/* The core's "auto" does not serve here: it follows the address, and ignores caps. */
gchar *device_choice_get_named(struct device_choice *choice)
{
    GST_OBJECT_LOCK(choice->element);
    gchar *device = g_strdup(choice->settings->device ? choice->settings->device : "auto");
    GST_OBJECT_UNLOCK(choice->element);
    if (!g_str_equal(device, "auto"))
        return device;
    g_free(device);
    device_choice_set_reason(
        choice, g_strdup_printf("host: the elements %s prefer no GPU's memory",
                                GST_PAD_IS_SINK(choice->pad) ? "upstream" : "downstream"));
    return g_strdup("host");
}

gchar *device_choice_choose(struct device_choice *choice, gint *number, gboolean *undecided)
{
    gboolean any = device_choice_get_use(choice, number) == GPU_USE_ANY;
    const struct gpu_vendor *preferred = NULL;
    gchar *reason = NULL;

    device_choice_set_reason(choice, NULL);
    if (any) {
        GstCaps *caps = gst_pad_peer_query_caps(choice->pad, NULL);
        preferred = gpu_vendor_of_caps(caps);
        gst_caps_unref(caps);
    }
    if (preferred) {
        *number = device_choice_find_gpu(choice, preferred, &reason);
        device_choice_set_reason(choice, reason);
    }
    if (undecided)
        *undecided = any && !preferred;
    return *number >= 0 ? gpu_get_name(*number) : device_choice_get_named(choice);
}

void device_choice_tell(struct device_choice *choice, GstStructure *stats)
{
    GST_OBJECT_LOCK(choice->element);
    gchar *reason = g_strdup(choice->reason);
    GST_OBJECT_UNLOCK(choice->element);
    if (reason)
        gst_structure_set(stats, "device-reason", G_TYPE_STRING, reason, NULL);
    g_free(reason);
}

gboolean device_choice_answer_query(struct device_choice *choice, GstQuery *query)
{
    gint number;

    if (GST_QUERY_TYPE(query) != GST_QUERY_CONTEXT)
        return FALSE;
    enum gpu_use use = device_choice_get_use(choice, &number);
    return gpu_answer_query(choice->element, query, use, number,
                            g_atomic_int_get(&choice->opened_on), &choice->contexts);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties that both elements have. */
#include "element/settings.h"

#define SLOTS_MIN 2 /* one is read while the next is written */

#define GST_TYPE_GPUDIRECT_SLOW_RECEIVER (gst_gpudirect_slow_receiver_get_type())
static GType gst_gpudirect_slow_receiver_get_type(void)
{
    static const GEnumValue values[] = {
        {GPUD_SLOW_DEFAULT,
         "At a receiver: as the sender says; at the sender: drop-oldest if upstream is live, else "
         "block",
         "auto"},
        {GPUD_SLOW_BLOCK, "Wait for the receiver", "block"},
        {GPUD_SLOW_DROP_NEWEST, "The receiver does not get the new frame", "drop-newest"},
        {GPUD_SLOW_DROP_OLDEST, "The receiver loses the oldest frame that it has not taken",
         "drop-oldest"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectSlowReceiver", values));
    return type;
}

void settings_init(struct settings *settings)
{
    settings->device = g_strdup("auto");
    settings->access = g_strdup("user");
    settings->slots = SLOTS_DEFAULT;
    settings->slow_receiver = GPUD_SLOW_DEFAULT;
}

void settings_clear(struct settings *settings)
{
    g_free(settings->address);
    g_free(settings->device);
    g_free(settings->access);
    g_free(settings->psk_file);
    g_free(settings->common_clock);
}

void settings_copy(struct settings *to, const struct settings *from)
{
    settings_clear(to);
    *to = *from;
    to->address = g_strdup(from->address);
    to->device = g_strdup(from->device);
    to->access = g_strdup(from->access);
    to->psk_file = g_strdup(from->psk_file);
    to->common_clock = g_strdup(from->common_clock);
}

void settings_install(GObjectClass *klass, const struct setting_texts *texts)
{
    const GParamFlags ready = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

    g_object_class_install_property(
        klass, SETTING_ADDRESS,
        g_param_spec_string("address", "Address", texts->address, NULL, ready));
    g_object_class_install_property(
        klass, SETTING_DEVICE,
        g_param_spec_string("device", "Device", texts->device, "auto", ready));
    g_object_class_install_property(
        klass, SETTING_SLOTS,
        g_param_spec_uint("slots", "Slots", texts->slots, 1, GPUD_SLOTS_MAX, SLOTS_DEFAULT, ready));
    g_object_class_install_property(
        klass, SETTING_SLOW_RECEIVER,
        g_param_spec_enum("slow-receiver", "Slow receiver", texts->slow_receiver,
                          GST_TYPE_GPUDIRECT_SLOW_RECEIVER, GPUD_SLOW_DEFAULT,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | texts->slow_receiver_when));
    g_object_class_install_property(klass, SETTING_REQUIRE_DIRECT,
                                    g_param_spec_boolean("require-direct", "Require a direct route",
                                                         texts->require_direct, FALSE, ready));
    g_object_class_install_property(
        klass, SETTING_ACCESS,
        g_param_spec_string("access", "Access", texts->access, "user", ready));
    g_object_class_install_property(
        klass, SETTING_PSK_FILE,
        g_param_spec_string("psk-file", "Pre-shared key", texts->psk_file, NULL, ready));
    if (texts->allow_unauthenticated)
        g_object_class_install_property(
            klass, SETTING_ALLOW_UNAUTHENTICATED,
            g_param_spec_boolean("allow-unauthenticated", "Allow unauthenticated",
                                 texts->allow_unauthenticated, FALSE, ready));
    g_object_class_install_property(
        klass, SETTING_COMMON_CLOCK,
        g_param_spec_string("common-clock", "Common clock",
                            "A name for this pipeline's clock: if both ends have the same, their "
                            "clocks show the same time, also on two hosts. PTP, network and NTP "
                            "clocks of GStreamer have names of their own",
                            NULL, ready));
    g_object_class_install_property(
        klass, SETTING_TRUST_URI,
        g_param_spec_boolean("trust-uri", "Trust the URI",
                             "Whether a URI may set who is admitted, and which key file is read: "
                             "access, psk-file, allow-unauthenticated. Set it before the URI, and "
                             "only if no playlist or other user can choose that",
                             FALSE, ready));
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_SLOW_RECEIVER, 0);
}

/* The core accepts any bytes in a path; GStreamer's messages and structures only UTF-8. */
static gboolean check_text(GstElement *element, const gchar *name, const gchar *text)
{
    if (!text || g_utf8_validate(text, -1, NULL))
        return TRUE;
    gchar *shown = g_utf8_make_valid(text, -1);
    GST_ELEMENT_ERROR(
        element, RESOURCE, SETTINGS,
        ("The property %s is not valid UTF-8: \"%s\". Give it in UTF-8.", name, shown), (NULL));
    g_free(shown);
    return FALSE;
}

gboolean settings_check(GstElement *element, const struct settings *settings)
{
    if (!check_text(element, "address", settings->address) ||
        !check_text(element, "device", settings->device) ||
        !check_text(element, "access", settings->access) ||
        !check_text(element, "psk-file", settings->psk_file) ||
        !check_text(element, "common-clock", settings->common_clock))
        return FALSE;
    if (settings->slots >= SLOTS_MIN)
        return TRUE;
    GST_ELEMENT_ERROR(element, RESOURCE, SETTINGS,
                      ("slots=%u is too few: one slot is read while the next one is written. Set "
                       "slots to %d, or more, up to %d.",
                       settings->slots, SLOTS_MIN, GPUD_SLOTS_MAX),
                      (NULL));
    return FALSE;
}

gboolean settings_may_set(const GParamSpec *pspec, gboolean started)
{
    return !started || (pspec->flags & GST_PARAM_MUTABLE_PLAYING);
}

void settings_refuse(GstElement *element, const GParamSpec *pspec)
{
    GST_ELEMENT_WARNING(element, RESOURCE, SETTINGS,
                        ("The property %s was not changed: it can be set only in the states NULL "
                         "and READY.",
                         pspec->name),
                        (NULL));
}

gboolean settings_get(const struct settings *settings, guint id, GValue *value)
{
    switch (id) {
    case SETTING_ADDRESS:
        g_value_set_string(value, settings->address);
        return TRUE;
    case SETTING_DEVICE:
        g_value_set_string(value, settings->device);
        return TRUE;
    case SETTING_SLOTS:
        g_value_set_uint(value, settings->slots);
        return TRUE;
    case SETTING_SLOW_RECEIVER:
        g_value_set_enum(value, settings->slow_receiver);
        return TRUE;
    case SETTING_REQUIRE_DIRECT:
        g_value_set_boolean(value, settings->require_direct);
        return TRUE;
    case SETTING_ACCESS:
        g_value_set_string(value, settings->access);
        return TRUE;
    case SETTING_PSK_FILE:
        g_value_set_string(value, settings->psk_file);
        return TRUE;
    case SETTING_ALLOW_UNAUTHENTICATED:
        g_value_set_boolean(value, settings->allow_unauthenticated);
        return TRUE;
    case SETTING_COMMON_CLOCK:
        g_value_set_string(value, settings->common_clock);
        return TRUE;
    case SETTING_TRUST_URI:
        g_value_set_boolean(value, settings->trust_uri);
        return TRUE;
    default:
        return FALSE;
    }
}

gboolean settings_set(struct settings *settings, guint id, const GValue *value)
{
    switch (id) {
    case SETTING_ADDRESS:
        g_free(settings->address);
        settings->address = g_value_dup_string(value);
        return TRUE;
    case SETTING_DEVICE:
        g_free(settings->device);
        settings->device = g_value_dup_string(value);
        return TRUE;
    case SETTING_SLOTS:
        settings->slots = g_value_get_uint(value);
        settings->slots_set = TRUE;
        return TRUE;
    case SETTING_SLOW_RECEIVER:
        settings->slow_receiver = (enum gpud_slow_receiver)g_value_get_enum(value);
        return TRUE;
    case SETTING_REQUIRE_DIRECT:
        settings->require_direct = g_value_get_boolean(value);
        return TRUE;
    case SETTING_ACCESS:
        g_free(settings->access);
        settings->access = g_value_dup_string(value);
        return TRUE;
    case SETTING_PSK_FILE:
        g_free(settings->psk_file);
        settings->psk_file = g_value_dup_string(value);
        return TRUE;
    case SETTING_ALLOW_UNAUTHENTICATED:
        settings->allow_unauthenticated = g_value_get_boolean(value);
        return TRUE;
    case SETTING_COMMON_CLOCK:
        g_free(settings->common_clock);
        settings->common_clock = g_value_dup_string(value);
        return TRUE;
    case SETTING_TRUST_URI:
        settings->trust_uri = g_value_get_boolean(value);
        return TRUE;
    default:
        return FALSE;
    }
}

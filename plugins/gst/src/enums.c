/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The types of gpudirectsrc's properties that are a choice. */
#include "src/enums.h"

#include "src/src.h"

GType gst_gpudirect_on_disconnect_get_type(void)
{
    static const GEnumValue values[] = {
        {ON_DISCONNECT_WAIT, "Wait for the sender to come back", "wait"},
        {ON_DISCONNECT_EOS, "End the stream", "eos"},
        {ON_DISCONNECT_ERROR, "Post an error", "error"},
        {ON_DISCONNECT_FREEZE, "Wait, and show the last picture meanwhile", "freeze"},
        {ON_DISCONNECT_BLACK, "Wait, and show black meanwhile", "black"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectOnDisconnect", values));
    return type;
}

GType gst_gpudirect_on_eos_get_type(void)
{
    static const GEnumValue values[] = {
        {ON_EOS_EOS, "End the stream", "eos"},
        {ON_EOS_WAIT, "Wait for the next stream, of this sender or of the next one", "wait"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectOnEos", values));
    return type;
}

GType gst_gpudirect_start_get_type(void)
{
    static const GEnumValue values[] = {
        {START_NEWEST, "With the newest frame of a sender that drops frames for the slow",
         "newest"},
        {START_OLDEST, "With the oldest frame that is still there", "oldest"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectStart", values));
    return type;
}

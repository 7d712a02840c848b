/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The slow-receiver property's enumeration. */
#include "slowreceiver.h"

GType gst_gpudirect_slow_receiver_get_type(void)
{
    static const GEnumValue values[] = {
        {GPUD_SLOW_DEFAULT, "As the sender says; the sender itself blocks", "default"},
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

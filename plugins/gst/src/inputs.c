/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which input serves an address. */
#include "src/input.h"

const struct input_ops *input_ops_for(const gchar *address)
{
    if (g_str_has_prefix(address, TARGET_SCHEME))
        return &target_input_ops;
    return g_str_has_prefix(address, "v4l2:") ? &capture_input_ops : &link_input_ops;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sink/debug.h"

GST_DEBUG_CATEGORY(gst_gpudirect_sink_debug);

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_ENUMS_H
#define GPUD_GST_SRC_ENUMS_H

#include <gst/gst.h>

#define GST_TYPE_GPUDIRECT_ON_DISCONNECT (gst_gpudirect_on_disconnect_get_type())
GType gst_gpudirect_on_disconnect_get_type(void);

#define GST_TYPE_GPUDIRECT_ON_EOS (gst_gpudirect_on_eos_get_type())
GType gst_gpudirect_on_eos_get_type(void);

#define GST_TYPE_GPUDIRECT_START (gst_gpudirect_start_get_type())
GType gst_gpudirect_start_get_type(void);

#endif

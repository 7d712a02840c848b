/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The slow-receiver property's enumeration. */
#ifndef GPUD_GST_SLOWRECEIVER_H
#define GPUD_GST_SLOWRECEIVER_H

#include <gpudirect/sender.h>
#include <gst/gst.h>

#define GST_TYPE_GPUDIRECT_SLOW_RECEIVER (gst_gpudirect_slow_receiver_get_type())
GType gst_gpudirect_slow_receiver_get_type(void);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A source for gpudirectsrc as a GstDevice: a capture card, a channel, a target. */
#ifndef GPUD_GST_DEVICE_H
#define GPUD_GST_DEVICE_H

#include "base/channels.h"

#include <gpudirect/cards.h>
#include <gpudirect/target.h>
#include <gst/gst.h>

#define GST_TYPE_GPUDIRECT_DEVICE (gst_gpudirect_device_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectDevice, gst_gpudirect_device, GST, GPUDIRECT_DEVICE, GstDevice)

/* All return a floating reference. NULL: gpudirectsrc does not support the node. */
GstDevice *gst_gpudirect_device_new_card(const struct gpud_capture_card_list *cards,
                                         uint32_t index);
GstDevice *gst_gpudirect_device_new_channel(const struct channel *channel);
GstDevice *gst_gpudirect_device_new_target(const struct gpud_target_entry *target);

const gchar *gst_gpudirect_device_address(GstDevice *device);

/* Whether the two look the same to applications. */
gboolean gst_gpudirect_device_is_same(GstDevice *a, GstDevice *b);

#endif

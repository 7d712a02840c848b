/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsrc can show, as a GstDevice: a capture card, a channel, a target. */
#ifndef GPUD_GST_DEVICE_H
#define GPUD_GST_DEVICE_H

#include "channels.h"

#include <gpudirect/cards.h>
#include <gpudirect/target.h>
#include <gst/gst.h>

#define GST_TYPE_GPUDIRECT_DEVICE (gst_gpudirect_device_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectDevice, gst_gpudirect_device, GST, GPUDIRECT_DEVICE, GstDevice)

/* All give a floating reference. NULL: the node is no card that gpudirectsrc can show. */
GstDevice *gst_gpudirect_device_new_card(const struct gpud_capture_card_list *cards,
                                         uint32_t index);
GstDevice *gst_gpudirect_device_new_channel(const struct channel *channel);
GstDevice *gst_gpudirect_device_new_target(const struct gpud_target_entry *target);

const gchar *gst_gpudirect_device_address(GstDevice *device);

/* Whether applications would see no difference. */
gboolean gst_gpudirect_device_is_same(GstDevice *a, GstDevice *b);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The device provider: channels and cards, as they come and go. */
#ifndef GPUD_PROVIDER_H
#define GPUD_PROVIDER_H

#include "base/plugin.h"
#include <gpudirect/cards.h>
#include <gpudirect/target.h>
#include <gst/gst.h>

/* === device ================================================================================== */
/* A source for gpudirectsrc as a GstDevice: a capture card, a channel, a target. */

#define GST_TYPE_GPUDIRECT_DEVICE (gst_gpudirect_device_get_type())

G_DECLARE_FINAL_TYPE(GstGpudirectDevice, gst_gpudirect_device, GST, GPUDIRECT_DEVICE, GstDevice)

/* === deviceprovider ========================================================================== */
/* Lists gpudirectsrc's sources, for gst-device-monitor-1.0 and similar applications. */

G_DECLARE_FINAL_TYPE(GstGpudirectDeviceProvider, gst_gpudirect_device_provider, GST,
                     GPUDIRECT_DEVICE_PROVIDER, GstDeviceProvider)

GST_DEVICE_PROVIDER_REGISTER_DECLARE(gpudirectdeviceprovider)

#endif

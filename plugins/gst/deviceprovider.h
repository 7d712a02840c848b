/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists gpudirectsrc's sources, for gst-device-monitor-1.0 and similar applications. */
#ifndef GPUD_GST_DEVICEPROVIDER_H
#define GPUD_GST_DEVICEPROVIDER_H

#include <gst/gst.h>

#define GST_TYPE_GPUDIRECT_DEVICE_PROVIDER (gst_gpudirect_device_provider_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectDeviceProvider, gst_gpudirect_device_provider, GST,
                     GPUDIRECT_DEVICE_PROVIDER, GstDeviceProvider)
GST_DEVICE_PROVIDER_REGISTER_DECLARE(gpudirectdeviceprovider)

#endif

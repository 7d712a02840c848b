/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registers the plugin's elements and its device provider. */
#include "base/plugin.h"
#include "provider.h"
#include "programme/programme.h"
#include "sink/sink.h"
#include "src/src.h"

static gboolean plugin_init(GstPlugin *plugin)
{
    gboolean registered = FALSE;

    gpud_gst_context_init();
    registered |= GST_ELEMENT_REGISTER(gpudirectsink, plugin);
    registered |= GST_ELEMENT_REGISTER(gpudirectsrc, plugin);
    registered |= GST_ELEMENT_REGISTER(gpudirectprogramsrc, plugin);
    registered |= GST_DEVICE_PROVIDER_REGISTER(gpudirectdeviceprovider, plugin);
    return registered;
}

GST_PLUGIN_DEFINE(
    GST_VERSION_MAJOR, GST_VERSION_MINOR, gpudirect,
    "Raw video straight from memory to memory, between processes, GPUs and capture cards",
    plugin_init, PACKAGE_VERSION, "LGPL", "gpudirect", "gpudirect")

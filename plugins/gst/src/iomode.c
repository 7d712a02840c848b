/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The property io-mode: how a capture card's buffers are accessed. */
#include "src/iomode.h"

GType gst_gpudirect_io_mode_get_type(void)
{
    static const GEnumValue values[] = {
        {IO_MODE_AUTO, "The best that works: dmabuf, userptr, mmap", "auto"},
        {IO_MODE_MMAP, "The driver's own memory, mapped", "mmap"},
        {IO_MODE_USERPTR, "Host memory of this process, which the card writes", "userptr"},
        {IO_MODE_DMABUF, "The device's memory, which the card writes; on the host, a dma-buf",
         "dmabuf"},
        {0, NULL, NULL},
    };
    static gsize type;

    if (g_once_init_enter(&type))
        g_once_init_leave(&type, g_enum_register_static("GstGpudirectIOMode", values));
    return type;
}

void io_mode_install(GObjectClass *klass, guint id)
{
    g_object_class_install_property(
        klass, id,
        g_param_spec_enum("io-mode", "I/O mode",
                          "How a capture card's buffers are accessed; only auto has a fallback",
                          GST_TYPE_GPUDIRECT_IO_MODE, IO_MODE_AUTO,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY));
    gst_type_mark_as_plugin_api(GST_TYPE_GPUDIRECT_IO_MODE, 0);
}

const gchar *io_mode_method(enum io_mode mode)
{
    static const gchar *const methods[] = {
        [IO_MODE_MMAP] = "mmap", [IO_MODE_USERPTR] = "userptr", [IO_MODE_DMABUF] = "dmabuf"};

    return methods[mode];
}

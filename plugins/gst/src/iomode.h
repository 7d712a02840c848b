/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_IOMODE_H
#define GPUD_GST_SRC_IOMODE_H

#include <gst/gst.h>

enum io_mode { IO_MODE_AUTO, IO_MODE_MMAP, IO_MODE_USERPTR, IO_MODE_DMABUF };

#define GST_TYPE_GPUDIRECT_IO_MODE (gst_gpudirect_io_mode_get_type())
GType gst_gpudirect_io_mode_get_type(void);

void io_mode_install(GObjectClass *klass, guint id);

/* The core's name for it; NULL: the best that works. */
const gchar *io_mode_method(enum io_mode mode);

#endif

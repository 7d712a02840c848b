/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A card whose driver writes into dma-bufs that it is given, as v4l2src io-mode=dmabuf-import has
 * it, and the kernel that makes these: what is written by way of one is written to the pages that
 * it was made of. Like newer kernels, it refuses memory that may not be mapped for writing. */
#ifndef GPUD_TESTS_PLUGINS_LENDCARD_H
#define GPUD_TESTS_PLUGINS_LENDCARD_H

#include <gst/gst.h>

#define WIDE "video/x-raw,format=GRAY8,width=128,height=64,framerate=50/1"

extern guint dmabuf_count; /* made so far */
extern gboolean no_ring;   /* none is made of memory that is going to be shared */
extern gint syncs;         /* atomic: of the CPU's caches */

/* The pages of one of these dma-bufs, by its descriptor. */
guint8 *lendcard_pages(int fd);

/* "lendcard": frame N is as many bytes of (guint8)N, and has N as its offset; another size begins
 * with frame `change-at`, when the driver still holds buffers of the one before. */
gboolean lendcard_register(void);

#endif

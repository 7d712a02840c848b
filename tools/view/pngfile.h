/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame as a PNG file, with the stream's own size and 8 bits a sample. */
#ifndef GPUD_VIEW_PNGFILE_H
#define GPUD_VIEW_PNGFILE_H

#include "gstpicture.h"

/* exclusive: an existing file is left alone, and error->native is EEXIST. False: error says why no
 * file was written. */
bool png_write(struct picture *picture, GstVideoFrame *mapped, const char *file, bool exclusive,
               struct gpud_error *error);

#endif

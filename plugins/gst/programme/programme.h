/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The internals of gpudirectprogramsrc, a bin with a gpudirectsrc for each stream of a channel:
 *   element.c     class, properties, states, URIs
 *   finder.h      finds the streams, and removes those that have ended
 *   stream.h      one stream: its source and its pad
 *   collection.h  the streams that have a pad, as players know them
 */
#ifndef GPUD_GST_PROGRAMME_PROGRAMME_H
#define GPUD_GST_PROGRAMME_PROGRAMME_H

#include "element/settings.h"
#include "programme/finder.h"
#include "src/options.h"
#include "wire/sharedmap.h"

#define GST_TYPE_GPUDIRECT_PROGRAM_SRC (gst_gpudirect_program_src_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectProgramSrc, gst_gpudirect_program_src, GST, GPUDIRECT_PROGRAM_SRC,
                     GstBin)

GST_ELEMENT_REGISTER_DECLARE(gpudirectprogramsrc)

struct _GstGpudirectProgramSrc {
    GstBin parent;

    struct settings settings;   /* properties; under the object lock */
    struct src_options options; /* likewise */
    gboolean started;           /* under the object lock */
    struct shared_map *map;     /* of the streams' times */
    struct collection collection;
    struct stream_programme programme;
    struct finder *finder; /* from READY to PAUSED and back */
    GWeakRef main;         /* the source of the channel's own stream, while there is one */
};

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The interface between meta.c, which finds the kind of each meta, and the files that serialise
 * them. */
#ifndef GPUD_GST_WIRE_METAKIND_H
#define GPUD_GST_WIRE_METAKIND_H

#include "wire/pack.h"

#include <gst/gst.h>

struct meta_kind {
    const gchar *name; /* of the type */
    GType (*api)(void);

    /* Into the pack, which may get full. FALSE: this one cannot be written. *skipped counts fields
     * that are left out. */
    gboolean (*write)(struct pack *pack, const GstMeta *meta, guint *skipped);

    /* Adds a meta from a peer's bytes to the buffer. FALSE: it cannot; *why, if set, says why, else
     * the bytes are malformed. */
    gboolean (*read)(struct unpack *item, GstBuffer *buffer, const gchar **why);
};

/* --- metavideo.c: pictures' own ----------------------------------------------------------- */

extern const struct meta_kind meta_timecode, meta_caption, meta_crop, meta_afd, meta_bar, meta_roi,
    meta_sei, meta_affine;

/* metaanc.c; on a GStreamer without that type nothing is written, and what is read is refused */
extern const struct meta_kind meta_anc;

/* --- metageneric.c: of any stream --------------------------------------------------------- */

extern const struct meta_kind meta_reference, meta_clipping, meta_level, meta_protection;

/* Metas that are a structure; the name of their type is the structure's. */
gboolean meta_write_custom(struct pack *pack, const GstMeta *meta, guint *skipped);
gboolean meta_read_custom(struct unpack *item, GstBuffer *buffer, const gchar **why);

/* --- metaserial.c: by a type's own serializer --------------------------------------------- */

gboolean meta_write_serialized(struct pack *pack, const GstMeta *meta);

/* The name of the type, as the peer gives it. FALSE: it gives none. */
#define META_NAME_MAX 128
gboolean meta_name_serialized(struct unpack item, char name[META_NAME_MAX + 1]);

/* may_be: whether a type may be sent serialized, because the peer chooses the type's name. */
gboolean meta_read_serialized(struct unpack *item, GstBuffer *buffer,
                              gboolean (*may_be)(const GstMetaInfo *info), const gchar **why);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas that could not be transmitted, by type. */
#include "wire/lostmetas.h"

/* On a receiver the sender chooses the names, so all beyond this many are counted together. */
#define TYPES_MAX 32
#define OTHER_TYPES "other-types"

struct lost_metas {
    GMutex lock;
    GstDebugCategory *category;
    GstStructure *types; /* under lock: a guint64 for each */
    guint64 count;       /* under lock */
};

struct lost_metas *lost_metas_new(GstDebugCategory *category)
{
    struct lost_metas *lost = g_new0(struct lost_metas, 1);

    g_mutex_init(&lost->lock);
    lost->category = category;
    lost->types = gst_structure_new_empty("lost-meta-types");
    return lost;
}

void lost_metas_free(struct lost_metas *lost)
{
    gst_structure_free(lost->types);
    g_mutex_clear(&lost->lock);
    g_free(lost);
}

void lost_metas_note(struct lost_metas *lost, GstElement *owner, const gchar *type,
                     const gchar *why)
{
    guint64 before = 0;

    g_mutex_lock(&lost->lock);
    if (!gst_structure_has_field(lost->types, type) &&
        gst_structure_n_fields(lost->types) >= TYPES_MAX)
        type = OTHER_TYPES;
    gst_structure_get_uint64(lost->types, type, &before);
    gst_structure_set(lost->types, type, G_TYPE_UINT64, before + 1, NULL);
    lost->count++;
    g_mutex_unlock(&lost->lock);
    if (before == 0 && lost->category)
        GST_CAT_INFO_OBJECT(lost->category, owner, "a %s is not transmitted: %s; logged once", type,
                            why);
}

guint64 lost_metas_count(struct lost_metas *lost)
{
    g_mutex_lock(&lost->lock);
    guint64 count = lost->count;
    g_mutex_unlock(&lost->lock);
    return count;
}

void lost_metas_tell(struct lost_metas *lost, GstStructure *stats)
{
    g_mutex_lock(&lost->lock);
    gst_structure_set(stats, "lost-metas", G_TYPE_UINT64, lost->count, "lost-meta-types",
                      GST_TYPE_STRUCTURE, lost->types, NULL);
    g_mutex_unlock(&lost->lock);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Little-endian bytes in and out, with bounds: everything that travels beside the picture is
 * written with a struct pack and read with a struct unpack. What is read comes from a peer that may
 * lie; a reader that ran over its end is `bad` from then on and gives zeros. */
#ifndef GPUD_GST_WIRE_PACK_H
#define GPUD_GST_WIRE_PACK_H

#include "wire/names.h"

#include <gst/gst.h>
#include <stdint.h>

struct pack {
    uint8_t *data;
    size_t size, used;
    gboolean full; /* something did not fit; what was written since is worthless */
};

struct unpack {
    const uint8_t *data;
    size_t left;
    struct names *names; /* what the peer's new names are charged to */
    gboolean bad;
};

void pack_u8(struct pack *pack, uint8_t value);
void pack_u16(struct pack *pack, uint16_t value);
void pack_u32(struct pack *pack, uint32_t value);
void pack_u64(struct pack *pack, uint64_t value);
void pack_bytes(struct pack *pack, const void *bytes, size_t size);

uint8_t unpack_u8(struct unpack *unpack);
uint16_t unpack_u16(struct unpack *unpack);
uint32_t unpack_u32(struct unpack *unpack);
uint64_t unpack_u64(struct unpack *unpack);
/* The next size bytes, in place; NULL when there are not as many. */
const uint8_t *unpack_bytes(struct unpack *unpack, size_t size);

/* Text as it is sent: a space for each control character, "" for what is not UTF-8; and as a peer's
 * is taken: the same, or NULL if it is not UTF-8 or has a control character that is no blank.
 * g_free them. */
gchar *pack_spaced_text(const gchar *text);
gchar *pack_clean_text(const gchar *text);

/* A short text that is to become a quark, such as the type of a region: at most 128 bytes, written
 * and read as a structure's texts are; 0 is the empty one. A reader whose peer brought too many new
 * ones is bad. */
void pack_quark(struct pack *pack, GQuark quark);
GQuark unpack_quark(struct unpack *unpack);

/* A GstStructure of plain values: numbers, booleans, strings, fractions, flag sets and date-times.
 * A field of another type is left out and counted in *skipped (may be NULL). Texts are written and
 * read without control characters: a tab or the end of a line is a space on the other side. */
void pack_structure(struct pack *pack, const GstStructure *structure, guint *skipped);
/* NULL when the bytes are no structure, in which case unpack->bad is set, or when the peer brought
 * too many new names for this one to have its own. A field beyond those is left out. Types are
 * chosen from that list, never by a name; texts are UTF-8 with no control character (C0, DEL, C1),
 * or it is none. */
GstStructure *unpack_structure(struct unpack *unpack);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bounded little-endian serialisation: everything that is sent beside the picture is written with a
 * struct pack and read with a struct unpack. Input is untrusted: a reader that would pass its end
 * is `bad` from then on, and returns zeros. */
#ifndef GPUD_GST_WIRE_PACK_H
#define GPUD_GST_WIRE_PACK_H

#include "wire/names.h"

#include <gst/gst.h>
#include <stdint.h>

struct pack {
    uint8_t *data;
    size_t size, used;
    gboolean full; /* something did not fit; everything written since is invalid */
    guint depth;   /* of the value that is being written, in others */
};

struct unpack {
    const uint8_t *data;
    size_t left;
    struct names *names; /* the account for the peer's new names */
    gboolean bad;
    guint depth; /* of the value that is being read, in others */
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
/* The next size bytes, in place; NULL: fewer are left. */
const uint8_t *unpack_bytes(struct unpack *unpack, size_t size);

/* Text as it is sent: a space for each control character, "" for invalid UTF-8; and as it is
 * accepted from a peer: the same, or NULL if it is not UTF-8 or has a control character that is no
 * blank. g_free them. */
gchar *pack_spaced_text(const gchar *text);
gchar *pack_clean_text(const gchar *text);

/* A short text that becomes a quark, such as the type of a region: at most 128 bytes, written and
 * read like a structure's texts; 0 is the empty one. Too many new ones make a reader bad. */
void pack_quark(struct pack *pack, GQuark quark);
GQuark unpack_quark(struct unpack *unpack);

/* A GstStructure of numbers, ranges, booleans, strings, fractions, flag sets, date-times, the bytes
 * and times of buffers, caps, and structures, arrays and lists of these, in a depth of
 * PACK_DEPTH_MAX. A field of another type is left out and counted in *skipped (may be NULL). Texts
 * are written and read without control characters: a tab or the end of a line is a space on the
 * other side. */
#define PACK_DEPTH_MAX 8
void pack_structure(struct pack *pack, const GstStructure *structure, guint *skipped);
/* NULL: the bytes are no structure, and unpack->bad is set; or its name exceeds the account of new
 * names. Fields that exceed it are left out. Types are chosen from that list, never by name; texts
 * must be UTF-8 without control characters (C0, DEL, C1). */
GstStructure *unpack_structure(struct unpack *unpack);

#endif

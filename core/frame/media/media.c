/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What all kinds of media share: reading, writing and checking by their tables. */
#include "frame/media/media.h"

#include "frame/media/syntax.h"

#include <string.h>

#ifdef GPUD_TEST_MEDIA /* a kind of the tests' own */
extern const struct gpud_media_kind_ops gpud_media_points;
#else
#define GPUD_TEST_MEDIA
#endif

/* clang-format off */
static const struct gpud_media_kind_ops *const kinds[] = {
    [GPUD_MEDIA_PICTURE] = &gpud_media_picture,
    [GPUD_MEDIA_AUDIO] = &gpud_media_audio,
    [GPUD_MEDIA_ANCILLARY] = &gpud_media_ancillary,
    [GPUD_MEDIA_DATA] = &gpud_media_data,
    GPUD_TEST_MEDIA
};
/* clang-format on */
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const struct gpud_media_kind_ops *gpud_media_find_kind(uint32_t kind)
{
    return kind < KINDS ? kinds[kind] : NULL;
}

enum gpud_media_kind gpud_media_kind_of_type(const char *type)
{
    for (uint32_t kind = 0; kind < KINDS; kind++)
        if (kind != GPUD_MEDIA_DATA && kinds[kind]->has_type(type))
            return (enum gpud_media_kind)kind;
    return GPUD_MEDIA_DATA;
}

/* --- members ------------------------------------------------------------------------------- */

uint64_t gpud_media_get_number(const void *at, uint8_t width)
{
    switch (width) {
    case 1:
        return *(const uint8_t *)at;
    case 2:
        return *(const uint16_t *)at;
    case 4:
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

void gpud_media_set_number(void *at, uint8_t width, uint64_t value)
{
    switch (width) {
    case 1:
        *(uint8_t *)at = (uint8_t)value;
        break;
    case 2:
        *(uint16_t *)at = (uint16_t)value;
        break;
    case 4:
        *(uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(uint64_t *)at = value;
    }
}

bool gpud_media_allows(const struct gpud_media_member *member, uint64_t value)
{
    bool listed = !member->codes;
    for (uint8_t i = 0; i < member->codes_count; i++)
        listed |= member->codes[i] == value;
    return listed && (member->limit == 0 || value <= member->limit);
}

static bool members_are_equal(const struct gpud_media_member *member, const struct gpud_media *a,
                              const struct gpud_media *b)
{
    const char *x = (const char *)a + member->offset, *y = (const char *)b + member->offset;
    return member->width ? memcmp(x, y, (size_t)member->width * member->count) == 0
                         : strncmp(x, y, member->count) == 0;
}

static enum gpud_status check_member(const struct gpud_media_member *member,
                                     const struct gpud_media *media, const char *kind,
                                     struct gpud_error *error)
{
    const char *at = (const char *)media + member->offset;
    if (!member->width && !memchr(at, '\0', member->count))
        return gpud_fail(error, GPUD_INVALID, "%s with a text that has no end", kind);
    for (uint8_t i = 0; member->width && i < member->count; i++) {
        uint64_t value = gpud_media_get_number(at + i * member->width, member->width);
        if (!gpud_media_allows(member, value))
            return gpud_fail(error, GPUD_INVALID,
                             "%s with the number %llu where there is no such value", kind,
                             (unsigned long long)value);
    }
    return GPUD_OK;
}

enum gpud_status gpud_media_check(const struct gpud_media *media, struct gpud_error *error)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    enum gpud_status status = GPUD_OK;
    if (!kind)
        return gpud_fail(error, GPUD_INVALID, "%u is no kind of media", (unsigned)media->kind);
    for (size_t i = 0; i < kind->member_count && status == GPUD_OK; i++)
        status = check_member(&kind->members[i], media, kind->name, error);
    if (status == GPUD_OK)
        status = kind->check(media, error);
    return status == GPUD_OK ? gpud_media_check_extra(media->extra, error) : status;
}

void gpud_media_fill_layout(struct gpud_layout *layout, const char *format, uint64_t size)
{
    *layout = (struct gpud_layout){.width = 1, .height = 1, .planes = 1, .size = size};
    gpud_print(layout->format, "%s", format);
    layout->plane[0] = (struct gpud_plane){
        .stride = (uint32_t)size,
        .row_bytes = (uint32_t)size,
        .rows = 1,
    };
}

uint32_t gpud_media_get_unit(const struct gpud_media *media)
{
    return gpud_media_find_kind(media->kind)->get_unit(media);
}

uint32_t gpud_media_get_rate(const struct gpud_media *media)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    return kind->get_rate ? kind->get_rate(media) : 0;
}

uint64_t gpud_media_get_duration(const struct gpud_media *media, uint64_t bytes)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(media->kind);
    return kind->get_duration ? kind->get_duration(media, bytes) : 0;
}

/* 600 ms in blocks of 10 ms. A ring has such a share for its sender and for each of 32 receivers,
 * and 2048 slots at most. */
#define BLOCK_SLOTS 60
#define BLOCK_SLOTS_MIN 8
/* Of a share. Memory of the host is used only as far as blocks have been written. */
#define BLOCK_SLOTS_BYTES (UINT64_C(64) << 20)

uint32_t gpud_media_default_slots(const struct gpud_media *media, uint32_t pictures)
{
    struct gpud_layout layout;
    if (media->kind == GPUD_MEDIA_PICTURE)
        return pictures;
    gpud_media_find_kind(media->kind)->get_layout(media, &layout);
    uint64_t fitting = BLOCK_SLOTS_BYTES / layout.size;
    return fitting > BLOCK_SLOTS       ? BLOCK_SLOTS
           : fitting < BLOCK_SLOTS_MIN ? BLOCK_SLOTS_MIN
                                       : (uint32_t)fitting;
}

/* --- the public calls ---------------------------------------------------------------------- */

enum gpud_status gpud_media_get_layout(const struct gpud_media *media, struct gpud_layout *layout,
                                       struct gpud_error *error)
{
    enum gpud_status status = gpud_media_check(media, error);
    if (status == GPUD_OK)
        gpud_media_find_kind(media->kind)->get_layout(media, layout);
    return status;
}

bool gpud_media_equal(const struct gpud_media *a, const struct gpud_media *b)
{
    const struct gpud_media_kind_ops *kind = gpud_media_find_kind(a->kind);
    bool equal = kind && a->kind == b->kind && strcmp(a->extra, b->extra) == 0;
    for (size_t i = 0; equal && i < kind->member_count; i++)
        equal = members_are_equal(&kind->members[i], a, b);
    return equal;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sound: a frame is a block of samples. */
#include "frame/media/media.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct gpud_media, audio.member)

static const char *const orders[] = {"interleaved", "non-interleaved", ""};

static const struct gpud_media_member members[] = {
    GPUD_MEDIA_TEXT(audio.format),
    GPUD_MEDIA_NUMBER(audio.rate, INT32_MAX),
    GPUD_MEDIA_NUMBER(audio.channels, GPUD_AUDIO_CHANNELS_MAX),
    GPUD_MEDIA_NUMBER(audio.order, GPUD_AUDIO_PLANAR),
    GPUD_MEDIA_NUMBER(audio.positions, 0),
    GPUD_MEDIA_NUMBER(audio.block, GPUD_AUDIO_BLOCK_MAX),
};

static const struct gpud_media_field fields[] = {
    {"format", &gpud_form_text, AT(format), NULL},
    {"layout", &gpud_form_name, AT(order), orders},
    {"rate", &gpud_form_number, AT(rate), NULL},
    {"channels", &gpud_form_number, AT(channels), NULL},
    {"channel-mask", &gpud_form_mask, AT(positions), NULL},
    {"samples-per-block", &gpud_form_number, AT(block), NULL},
};

static bool has_type(const char *type, const char *text)
{
    return strcmp(type, "audio/x-raw") == 0;
}

static const char *audio_get_type(const struct gpud_media *media)
{
    return "audio/x-raw";
}

/* Bytes of a sample in memory, which the last number gives in bits: "S24LE", "S24_32LE", "U8"; 18
 * and 20 bits take 24. 0: no format has this name. */
static uint32_t sample_bytes(const char *format)
{
    const char *digits = strchr(format, '_');
    char *end;
    if (!strchr("SUF", format[0]) || !format[0])
        return 0;
    unsigned long bits = strtoul(digits ? digits + 1 : format + 1, &end, 10);
    bool ends = !*end || strcmp(end, "LE") == 0 || strcmp(end, "BE") == 0;
    if (!ends || bits < 8 || bits > 64 || (bits % 8 && bits != 18 && bits != 20))
        return 0;
    return (uint32_t)(bits + 7) / 8;
}

static enum gpud_status audio_check(const struct gpud_media *media, struct gpud_error *error)
{
    const struct gpud_audio *audio = &media->audio;
    if (sample_bytes(audio->format) == 0)
        return gpud_fail(error, GPUD_INVALID,
                         "sound of the format \"%.16s\": one as \"S16LE\" or \"F32LE\" is needed",
                         audio->format);
    if (audio->rate < 1 || audio->channels < 1 || audio->block < 1)
        return gpud_fail(error, GPUD_INVALID,
                         "sound of %u channels, %u samples a second, %u a block: none of them can "
                         "be 0",
                         audio->channels, audio->rate, audio->block);
    uint32_t positions = (uint32_t)__builtin_popcountll(audio->positions);
    if (positions && positions != audio->channels)
        return gpud_fail(error, GPUD_INVALID, "sound of %u channels at %u positions",
                         audio->channels, positions);
    return GPUD_OK;
}

/* The samples of all channels at one time. */
static uint32_t audio_get_unit(const struct gpud_media *media)
{
    return sample_bytes(media->audio.format) * media->audio.channels;
}

static void get_units(const struct gpud_media *media, struct gpud_media_units *units)
{
    units->unit = audio_get_unit(media);
}

static uint64_t get_duration(const struct gpud_media *media, uint64_t bytes)
{
    return bytes / audio_get_unit(media) * (uint64_t)GPUD_SEC / media->audio.rate;
}

static uint32_t get_rate(const struct gpud_media *media)
{
    return media->audio.rate;
}

static void audio_get_layout(const struct gpud_media *media, struct gpud_layout *layout)
{
    gpud_media_fill_layout(layout, media->audio.format,
                           (uint64_t)audio_get_unit(media) * media->audio.block);
}

const struct gpud_media_kind_ops gpud_media_audio = {
    .name = "sound",
    .members = members,
    .member_count = sizeof(members) / sizeof(members[0]),
    .fields = fields,
    .field_count = sizeof(fields) / sizeof(fields[0]),
    .has_type = has_type,
    .get_type = audio_get_type,
    .check = audio_check,
    .get_layout = audio_get_layout,
    .get_units = get_units,
    .get_duration = get_duration,
    .get_rate = get_rate,
};

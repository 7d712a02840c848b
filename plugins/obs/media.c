/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Formats: what gpudirect names as GStreamer does, and what OBS calls it. */
#include "obs.h"

/* clang-format off */
static const struct {
    const char *name;
    enum video_format format;
} formats[] = {
    {"I420", VIDEO_FORMAT_I420}, {"NV12", VIDEO_FORMAT_NV12}, {"Y42B", VIDEO_FORMAT_I422},
    {"Y444", VIDEO_FORMAT_I444}, {"YVYU", VIDEO_FORMAT_YVYU}, {"YUY2", VIDEO_FORMAT_YUY2},
    {"UYVY", VIDEO_FORMAT_UYVY}, {"RGBA", VIDEO_FORMAT_RGBA}, {"BGRA", VIDEO_FORMAT_BGRA},
    {"BGRx", VIDEO_FORMAT_BGRX}, {"BGR", VIDEO_FORMAT_BGR3}, {"GRAY8", VIDEO_FORMAT_Y800},
    {"A420", VIDEO_FORMAT_I40A}, {"A422", VIDEO_FORMAT_I42A}, {"A444", VIDEO_FORMAT_YUVA},
    {"I420_10LE", VIDEO_FORMAT_I010}, {"P010_10LE", VIDEO_FORMAT_P010},
    {"I422_10LE", VIDEO_FORMAT_I210}, {"Y444_12LE", VIDEO_FORMAT_I412},
    {"A444_12LE", VIDEO_FORMAT_YA2L},
#if LIBOBS_API_VER >= MAKE_SEMANTIC_VERSION(30, 1, 0)
    {"v210", VIDEO_FORMAT_V210},
#endif
};

/* By the number of channels, with the bits of GStreamer's channel-mask. OBS has none for seven. */
static const struct {
    enum speaker_layout speakers;
    uint64_t positions;
} layouts[] = {
    [1] = {SPEAKERS_MONO, 0}, [2] = {SPEAKERS_STEREO, 0x3}, [3] = {SPEAKERS_2POINT1, 0xb},
    [4] = {SPEAKERS_4POINT0, 0x107}, [5] = {SPEAKERS_4POINT1, 0x10f},
    [6] = {SPEAKERS_5POINT1, 0x3f}, [7] = {SPEAKERS_5POINT1, 0x3f},
    [8] = {SPEAKERS_7POINT1, 0x63f},
};
/* clang-format on */

/* === pictures ================================================================================ */

/* An unknown matrix is what GStreamer takes for that size. OBS has BT.2020's by the names of a high
 * dynamic range alone. */
static enum video_colorspace media_get_colorspace(const struct gpud_picture *picture)
{
    switch (picture->colorimetry.matrix) {
    case GPUD_MATRIX_BT2020:
        return picture->colorimetry.transfer == GPUD_TRANSFER_HLG ? VIDEO_CS_2100_HLG
                                                                  : VIDEO_CS_2100_PQ;
    case GPUD_MATRIX_BT601:
        return VIDEO_CS_601;
    case GPUD_MATRIX_UNKNOWN:
        return picture->layout.height <= 576 ? VIDEO_CS_601 : VIDEO_CS_709;
    default:
        return VIDEO_CS_709;
    }
}

const char *media_to_frame(const struct gpud_picture *picture, struct obs_source_frame *frame)
{
    const struct gpud_colorimetry *color = &picture->colorimetry;
    enum video_range_type range = color->range == GPUD_RANGE_FULL      ? VIDEO_RANGE_FULL
                                  : color->range == GPUD_RANGE_LIMITED ? VIDEO_RANGE_PARTIAL
                                                                       : VIDEO_RANGE_DEFAULT;

    *frame =
        (struct obs_source_frame){.width = picture->layout.width, .height = picture->layout.height};
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        if (strcmp(formats[i].name, picture->layout.format) == 0)
            frame->format = formats[i].format;
    if (frame->format == VIDEO_FORMAT_NONE)
        return "OBS has no such format: convert it ahead of the sender, for example by "
               "videoconvert ! video/x-raw,format=NV12";
    if (picture->scan == GPUD_SCAN_ALTERNATE || picture->scan == GPUD_SCAN_FIELDS)
        return "OBS shows whole pictures, and these are single fields: interleave or deinterlace "
               "them ahead of the sender";
    range = resolve_video_range(frame->format, range);
    frame->full_range = range == VIDEO_RANGE_FULL;
    frame->trc = color->transfer == GPUD_TRANSFER_PQ    ? VIDEO_TRC_PQ
                 : color->transfer == GPUD_TRANSFER_HLG ? VIDEO_TRC_HLG
                                                        : VIDEO_TRC_DEFAULT;
    frame->max_luminance = (uint16_t)(picture->hdr.max_luminance / 10000);
    video_format_get_parameters_for_format(media_get_colorspace(picture), range, frame->format,
                                           frame->color_matrix, frame->color_range_min,
                                           frame->color_range_max);
    return NULL;
}

bool media_from_video(struct gpud_media *media, const struct video_output_info *video)
{
    bool full = resolve_video_range(video->format, video->range) == VIDEO_RANGE_FULL;
    const char *format = "", *color = "bt709";
    struct gpud_layout layout;
    char text[256];

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        if (formats[i].format == video->format)
            format = formats[i].name;
    if (!format_is_yuv(video->format))
        color = "sRGB";
    else if (video->colorspace == VIDEO_CS_2100_PQ)
        color = "bt2100-pq";
    else if (video->colorspace == VIDEO_CS_2100_HLG)
        color = "bt2100-hlg";
    else if (video->colorspace == VIDEO_CS_601)
        color = "bt601";
    snprintf(text, sizeof(text),
             "video/x-raw,format=%s,width=%u,height=%u,framerate=%u/%u,colorimetry=%s,"
             "interlace-mode=progressive,pixel-aspect-ratio=1/1",
             format, video->width, video->height, video->fps_num, video->fps_den, color);
    if (gpud_media_from_string(media, text, NULL) != GPUD_OK)
        return false;
    media->picture.colorimetry.range = full ? GPUD_RANGE_FULL : GPUD_RANGE_LIMITED;
    return gpud_media_get_layout(media, &layout, NULL) == GPUD_OK;
}

/* === sound =================================================================================== */

void media_from_audio(struct gpud_media *media, const struct obs_audio_info *audio, uint32_t block)
{
    uint32_t channels = get_audio_channels(audio->speakers);

    memset(media, 0, sizeof(*media));
    media->kind = GPUD_MEDIA_AUDIO;
    media->audio = (struct gpud_audio){.format = "F32LE",
                                       .rate = audio->samples_per_sec,
                                       .channels = channels,
                                       .positions = layouts[channels].positions,
                                       .block = block};
}

/* A sample of so many bytes, or a float. */
static float media_read_sample(const uint8_t *data, uint32_t bytes, bool is_float)
{
    uint32_t bits = 0;
    float value;

    memcpy((uint8_t *)&bits + 4 - bytes, data, bytes);
    memcpy(&value, &bits, sizeof(value));
    return is_float ? value : (float)(int32_t)bits / 2147483648.0f;
}

const char *media_play(const struct gpud_audio *audio, const uint8_t *data, uint32_t frames,
                       uint64_t time, obs_source_t *source, float **scratch)
{
    static const char *const names[] = {"S16LE", "S24LE", "S32LE", "F32LE"};
    static const uint32_t sizes[] = {2, 3, 4, 4};
    size_t kind = 0;

    while (kind < 4 && strcmp(names[kind], audio->format) != 0)
        kind++;
    if (kind == 4)
        return "OBS has no such sound: convert it ahead of the sender, for example by "
               "audioconvert ! audio/x-raw,format=F32LE";
    struct obs_source_audio out = {
        .frames = frames,
        .speakers = layouts[audio->channels < 8 ? audio->channels : 8].speakers,
        .format = AUDIO_FORMAT_FLOAT_PLANAR,
        .samples_per_sec = audio->rate,
        .timestamp = time,
    };
    uint32_t count = get_audio_channels(out.speakers);
    bool planar = audio->order == GPUD_AUDIO_PLANAR;
    size_t next = sizes[kind] * (planar ? 1 : audio->channels);
    size_t channel = sizes[kind] * (planar ? frames : 1);
    *scratch = brealloc(*scratch, sizeof(float) * frames * count);
    for (uint32_t c = 0; c < count; c++) {
        float *to = *scratch + (size_t)c * frames;
        for (size_t i = 0; i < frames; i++)
            to[i] = media_read_sample(data + c * channel + i * next, sizes[kind], kind == 3);
        out.data[c] = (const uint8_t *)to;
    }
    obs_source_output_audio(source, &out);
    return NULL;
}

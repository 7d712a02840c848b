/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "monitor/monitor.h"

#include <gst/audio/audio.h>
#include <math.h>
#include <stdbool.h>

/* Without a frame for so long it is the signal that is missing. */
#define SEEN_AGE (5 * G_USEC_PER_SEC)
/* Brighter than the black of any range, of 255; and so many of a thousand pixels may be, as those
 * of a clock or of a damaged row. */
#define BLACK 32
#define LIT_PER_MILLE 1
#define SILENCE 0.001 /* -60 dBFS */
#define SAMPLES 1024

static guint64 digest_of(const guint8 *data, gsize size)
{
    guint64 digest = 0xcbf29ce484222325; /* FNV-1a */
    for (gsize i = 0; i < size; i++)
        digest = (digest ^ data[i]) * 0x100000001b3;
    return digest;
}

static bool is_black(const guint8 *rgb, gsize size)
{
    gsize lit = 0;
    for (gsize i = 0; i + 2 < size; i += 3)
        lit += rgb[i] > BLACK || rgb[i + 1] > BLACK || rgb[i + 2] > BLACK;
    return lit * 1000 <= size / 3 * LIT_PER_MILLE;
}

void monitor_content_look(struct monitor_content *content, const guint8 *rgb, gsize size)
{
    guint64 digest = digest_of(rgb, size);
    gint64 now = g_get_monotonic_time();
    if (!content->moved || digest != content->digest)
        content->moved = now;
    if (!content->lit || !is_black(rgb, size))
        content->lit = now;
    content->digest = digest;
    content->seen = now;
}

/* Where the samples are interleaved, `block` is 1. */
static void find_peaks(const GstAudioFormatInfo *format, const guint8 *data, gsize samples,
                       gsize block, gsize channels, double *peaks)
{
    gint64 unpacked[SAMPLES]; /* room for the larger of both formats */
    const gint32 *whole = (const gint32 *)unpacked;
    const double *real = (const double *)unpacked;
    bool is_real = format->unpack_format == GST_AUDIO_FORMAT_F64;
    for (gsize at = 0; at < samples; at += SAMPLES) {
        gsize count = MIN(samples - at, SAMPLES);
        format->unpack_func(format, GST_AUDIO_PACK_FLAG_NONE, unpacked,
                            (gpointer)(data + at * (gsize)format->width / 8), (gint)count);
        for (gsize i = 0; i < count; i++) {
            double *peak = &peaks[(at + i) / block % channels];
            *peak = MAX(*peak, fabs(is_real ? real[i] : whole[i] / 2147483648.0));
        }
    }
}

static bool is_loud(const double *peaks, gsize channels)
{
    for (gsize i = 0; i < channels; i++)
        if (peaks[i] > SILENCE)
            return true;
    return false;
}

enum gpud_status monitor_content_listen(struct monitor_content *content, struct gpud_frame *frame,
                                        const struct gpud_audio *audio, double *peaks,
                                        struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    GstAudioFormat name = gst_audio_format_from_string(audio->format);
    void *data;
    if (name == GST_AUDIO_FORMAT_UNKNOWN) {
        error->status = GPUD_UNSUPPORTED;
        g_snprintf(error->reason, sizeof(error->reason), "samples of %s are not known here",
                   audio->format);
        return GPUD_UNSUPPORTED;
    }
    const GstAudioFormatInfo *format = gst_audio_format_get_info(name);
    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    gint64 now = g_get_monotonic_time();
    gsize samples = info.bytes * 8 / (gsize)format->width;
    bool planar = audio->order == GPUD_AUDIO_PLANAR;
    find_peaks(format, data, samples, planar ? MAX(samples / audio->channels, 1) : 1,
               audio->channels, peaks);
    if (!content->loud || is_loud(peaks, audio->channels))
        content->loud = now;
    content->seen = now;
    gpud_frame_unmap(frame);
    return GPUD_OK;
}

static double age(gint64 now, gint64 since)
{
    return since ? (double)(now - since) / G_USEC_PER_SEC : NAN;
}

struct monitor_content_ages monitor_content_find_ages(const struct monitor_content *content)
{
    gint64 now = g_get_monotonic_time();
    if (!content->seen || now - content->seen > SEEN_AGE)
        return (struct monitor_content_ages){NAN, NAN, NAN};
    return (struct monitor_content_ages){.frozen_s = age(now, content->moved),
                                         .black_s = age(now, content->lit),
                                         .silent_s = age(now, content->loud)};
}

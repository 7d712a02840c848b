/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme that is sent: a sender for the picture, and one for the sound. */
#include "obs.h"

/* Samples of a block at most: as many as OBS mixes at a time. */
#define BLOCK AUDIO_OUTPUT_FRAMES

/* === channels ================================================================================ */

static void feed_swap(struct feed *feed, int number, struct gpud_sender *sender)
{
    struct feed_stream *stream = &feed->stream[number];

    pthread_mutex_lock(&stream->lock);
    struct gpud_sender *old = stream->sender;
    stream->sender = sender;
    stream->dropped = 0;
    memset(&stream->configured, 0, sizeof(stream->configured));
    pthread_mutex_unlock(&stream->lock);
    gpud_sender_destroy(&old);
}

static void feed_open(struct feed *feed, obs_data_t *settings)
{
    struct gpud_sender *senders[STREAMS] = {NULL};
    struct gpud_error error = {.status = GPUD_OK};
    char address[ADDRESS_MAX];

    for (int i = 0; i < STREAMS && error.status == GPUD_OK; i++) {
        struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
        endpoint_get_address(settings, i, address);
        ENDPOINT_SET(params, address, settings);
        gpud_sender_create(plugin_context, &params, &senders[i], &error);
    }
    if (error.status == GPUD_OK) {
        for (int i = 0; i < STREAMS; i++)
            feed_swap(feed, i, senders[i]);
        return;
    }
    for (int i = 0; i < STREAMS; i++)
        gpud_sender_destroy(&senders[i]);
    plugin_log(LOG_WARNING, address, error.reason);
    pthread_mutex_lock(&feed->lock);
    snprintf(feed->error, sizeof(feed->error), "%s", error.reason);
    if (feed->failed && feed->queued == 0)
        feed->failed(feed);
    pthread_mutex_unlock(&feed->lock);
}

static void feed_follow(void *owner, obs_data_t *settings)
{
    struct feed *feed = owner;

    for (int i = 0; i < STREAMS; i++)
        feed_swap(feed, i, NULL);
    pthread_mutex_lock(&feed->lock);
    bool current = --feed->queued == 0;
    feed->error[0] = '\0';
    pthread_mutex_unlock(&feed->lock);
    if (current && *obs_data_get_string(settings, "address"))
        feed_open(feed, settings);
}

void feed_set(struct feed *feed, obs_data_t *settings)
{
    pthread_mutex_lock(&feed->lock);
    feed->queued++;
    pthread_mutex_unlock(&feed->lock);
    plugin_queue(feed_follow, feed, settings);
}

void feed_init(struct feed *feed)
{
    pthread_mutex_init(&feed->lock, NULL);
    for (int i = 0; i < STREAMS; i++)
        pthread_mutex_init(&feed->stream[i].lock, NULL);
}

static void feed_free(void *owner, obs_data_t *settings)
{
    struct feed *feed = owner;

    for (int i = 0; i < STREAMS; i++)
        pthread_mutex_destroy(&feed->stream[i].lock);
    pthread_mutex_destroy(&feed->lock);
    bfree(feed);
}

void feed_destroy(struct feed *feed)
{
    feed_set(feed, NULL);
    plugin_queue(feed_free, feed, NULL);
}

bool feed_get_info(struct feed *feed, struct gpud_sender_info *info, uint64_t *dropped)
{
    struct feed_stream *stream = &feed->stream[STREAM_PICTURE];

    pthread_mutex_lock(&stream->lock);
    bool open = stream->sender;
    if (open && info)
        gpud_sender_get_info(stream->sender, info);
    if (dropped)
        *dropped = stream->dropped;
    pthread_mutex_unlock(&stream->lock);
    return open;
}

void feed_get_error(struct feed *feed, char error[GPUD_REASON_MAX])
{
    pthread_mutex_lock(&feed->lock);
    snprintf(error, GPUD_REASON_MAX, "%s", feed->error);
    pthread_mutex_unlock(&feed->lock);
}

/* === frames ================================================================================== */
/* All under the stream's lock. */

/* Takes a slot, if one is free. */
static void *feed_lend(struct feed_stream *stream, struct gpud_frame **frame, uint64_t bytes)
{
    void *data;

    if (gpud_sender_acquire(stream->sender, 0, frame, NULL) == GPUD_OK &&
        (bytes == 0 || gpud_frame_set_size(*frame, bytes, NULL) == GPUD_OK) &&
        gpud_frame_map(*frame, GPUD_WRITE, 0, &data, NULL) == GPUD_OK)
        return data;
    gpud_frame_release(frame);
    stream->dropped++;
    return NULL;
}

static void feed_submit(struct feed_stream *stream, struct gpud_frame **frame, uint64_t time)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);

    gpud_frame_unmap(*frame);
    info.pts_ns = time;
    info.dts_ns = info.duration_ns = GPUD_TIME_NONE;
    info.offset = UINT64_MAX;
    gpud_frame_set_info(*frame, &info, NULL);
    if (gpud_sender_submit(stream->sender, frame, 0, NULL) != GPUD_OK)
        stream->dropped++;
    gpud_frame_release(frame);
}

void feed_picture(struct feed *feed, const struct video_output_info *video,
                  const struct video_data *data)
{
    struct feed_stream *stream = &feed->stream[STREAM_PICTURE];
    struct gpud_frame *frame = NULL;
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_media media;

    pthread_mutex_lock(&stream->lock);
    bool ready = stream->sender;
    if (ready && memcmp(&stream->configured.video, video, sizeof(*video)) != 0) {
        ready = media_from_video(&media, video) &&
                gpud_sender_configure(stream->sender, &media, NULL) == GPUD_OK;
        if (ready)
            stream->configured.video = *video;
    }
    uint8_t *to = ready ? feed_lend(stream, &frame, 0) : NULL;
    if (to) {
        gpud_frame_get_info(frame, &info);
        for (uint32_t i = 0; i < info.layout.planes; i++) {
            const struct gpud_plane *plane = &info.layout.plane[i];
            for (size_t y = 0; y < plane->rows; y++)
                memcpy(to + plane->offset + y * plane->stride,
                       data->data[i] + y * data->linesize[i], plane->row_bytes);
        }
        feed_submit(stream, &frame, data->timestamp);
    }
    pthread_mutex_unlock(&stream->lock);
}

void feed_sound(struct feed *feed, const struct audio_data *data)
{
    struct feed_stream *stream = &feed->stream[STREAM_SOUND];
    struct obs_audio_info audio = {0};
    struct gpud_media media;

    pthread_mutex_lock(&stream->lock);
    bool ready = stream->sender && obs_get_audio_info(&audio);
    if (ready && memcmp(&stream->configured.audio, &audio, sizeof(audio)) != 0) {
        media_from_audio(&media, &audio, BLOCK);
        ready = gpud_sender_configure(stream->sender, &media, NULL) == GPUD_OK;
        if (ready)
            stream->configured.audio = audio;
    }
    size_t channels = ready ? get_audio_channels(audio.speakers) : 0;
    for (uint32_t at = 0; ready && at < data->frames; at += BLOCK) {
        struct gpud_frame *frame = NULL;
        uint32_t count = data->frames - at < BLOCK ? data->frames - at : BLOCK;
        float *to = feed_lend(stream, &frame, sizeof(float) * channels * count);
        if (!to)
            break;
        for (size_t c = 0; c < channels; c++) {
            const float *from = (const void *)data->data[c];
            for (size_t i = 0; i < count; i++)
                to[i * channels + c] = from ? from[at + i] : 0;
        }
        feed_submit(stream, &frame,
                    data->timestamp + audio_frames_to_ns(audio.samples_per_sec, at));
    }
    pthread_mutex_unlock(&stream->lock);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme that is sent: a sender for the picture, and one for the sound. */
#include "obs.h"

/* Samples of a block at most: as many as OBS mixes at a time. */
#define BLOCK AUDIO_OUTPUT_FRAMES

/* === channels ================================================================================ */

struct task {
    struct feed *feed;
    obs_data_t *settings; /* NULL: close */
    uint64_t number;
    bool destroy;
};

static void feed_swap(struct feed *feed, int number, struct gpud_sender *sender)
{
    struct feed_stream *stream = &feed->stream[number];

    pthread_mutex_lock(&stream->lock);
    struct gpud_sender *old = stream->sender;
    stream->sender = sender;
    stream->sent = stream->dropped = 0;
    memset(&stream->configured, 0, sizeof(stream->configured));
    pthread_mutex_unlock(&stream->lock);
    gpud_sender_destroy(&old);
}

static void feed_open(struct feed *feed, obs_data_t *settings, uint64_t number)
{
    struct gpud_sender *senders[STREAMS] = {NULL};
    struct gpud_error error = {.status = GPUD_OK};
    struct endpoint end;

    for (int i = 0; i < STREAMS && error.status == GPUD_OK; i++) {
        struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
        endpoint_read(&end, settings, i);
        ENDPOINT_SET(params, end);
        gpud_sender_create(plugin_context, &params, &senders[i], &error);
    }
    if (error.status != GPUD_OK)
        plugin_log(LOG_WARNING, end.address, error.reason);
    for (int i = 0; i < STREAMS; i++)
        if (error.status == GPUD_OK)
            feed_swap(feed, i, senders[i]);
        else
            gpud_sender_destroy(&senders[i]);
    snprintf(feed->error, sizeof(feed->error), "%s", error.reason);
    if (feed->opened)
        feed->opened(feed, number, error.status == GPUD_OK ? NULL : error.reason);
}

static void feed_task(void *data)
{
    struct task *task = data;

    for (int i = 0; i < STREAMS; i++)
        feed_swap(task->feed, i, NULL);
    if (task->settings && task->number == __atomic_load_n(&task->feed->number, __ATOMIC_RELAXED))
        feed_open(task->feed, task->settings, task->number);
    obs_data_release(task->settings);
    if (task->destroy) {
        for (int i = 0; i < STREAMS; i++)
            pthread_mutex_destroy(&task->feed->stream[i].lock);
        bfree(task->feed);
    }
    bfree(task);
}

static uint64_t feed_queue(struct feed *feed, obs_data_t *settings, bool destroy)
{
    struct task *task = bzalloc(sizeof(*task));
    uint64_t number = __atomic_add_fetch(&feed->number, 1, __ATOMIC_RELAXED);

    *task = (struct task){feed, settings, number, destroy};
    obs_queue_task(OBS_TASK_DESTROY, feed_task, task, false);
    return number;
}

void feed_init(struct feed *feed)
{
    for (int i = 0; i < STREAMS; i++)
        pthread_mutex_init(&feed->stream[i].lock, NULL);
}

void feed_destroy(struct feed *feed)
{
    feed_queue(feed, NULL, true);
}

uint64_t feed_set(struct feed *feed, obs_data_t *settings)
{
    bool named = settings && *obs_data_get_string(settings, "address");

    return feed_queue(feed, named ? plugin_copy_settings(settings) : NULL, false);
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
    bool sent = gpud_sender_submit(stream->sender, frame, 0, NULL) == GPUD_OK;
    gpud_frame_release(frame);
    stream->sent += sent;
    stream->dropped += !sent;
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

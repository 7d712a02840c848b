/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A source: picture and sound of a channel. Each stream has a thread, which alone waits for its
 * sender. OBS's thread for what is destroyed starts and ends them, one source after the other. */
#include "obs.h"

/* How often a thread looks whether pictures have stopped. */
#define WAIT_NS (50 * GPUD_MSEC)

/* How long pictures are watched for the shortest time that one takes. */
#define SETTLING_NS (300 * GPUD_MSEC)

/* A picture that is later than this is not shown, unless all are for a while, or it is far too
 * late, which puts the stream's times on OBS's clock anew. A step below 70 ms would move the
 * picture alone: OBS smooths it in the sound. */
#define STEP_NS (100 * GPUD_MSEC)
#define FAR_NS (1 * GPUD_SEC)
#define WINDOW_NS (1 * GPUD_SEC)

/* OBS takes a step of more than two seconds for another time line of the pictures, whose first one
 * it shows at once. */
#define RESTART_NS (10 * GPUD_SEC)

/* How often a time line is begun for a picture at most, where OBS's ticks come in between. */
#define BEGIN_TRIES 4

struct stream {
    struct source *source;
    int number;
    pthread_t thread;
    struct gpud_receiver *receiver; /* NULL: there is no thread, either */
    /* the thread's, as all that follows */
    struct gpud_media media;
    struct obs_source_frame frame;
    const char *refusal;       /* why OBS takes none of its frames, or NULL */
    enum gpud_status reported; /* what was logged last */
    uint64_t shown_at, shown;  /* when the last picture came, and its time */
    uint64_t restarts_ns;      /* the steps of the pictures' time line so far */
    bool replaced;             /* what the settings say stands in for it */
    float *scratch;
};

struct source {
    obs_source_t *source;
    obs_data_t *settings; /* of the threads; NULL: there are none */
    bool ending;          /* atomic */
    struct stream stream[STREAMS];
    pthread_mutex_t lock;             /* for what follows */
    char status[GPUD_MEDIA_TEXT_MAX]; /* of the picture */
    /* The sender's times on OBS's clock, the same for picture and sound. */
    struct times {
        bool set, settled;
        int stream;            /* whose arrival counts: the picture's, if there is one */
        int64_t offset, least; /* the least lateness since then */
        uint64_t since;        /* of the settling, or of the window */
        uint64_t begun; /* a picture that OBS has not shown yet, on a new time line; 0: none */
        uint64_t delay; /* how long OBS keeps a picture until it shows it */
        uint64_t ticks; /* how many times OBS has chosen a picture */
    } times;
};

/* === times =================================================================================== */

/* A picture is wanted as soon as it is there, and sound with its picture, which OBS delays. Returns
 * 0 for a picture that is late, and for sound as long as the picture's times are not known. */
static uint64_t stream_get_time(struct stream *stream, uint64_t pts, uint64_t now)
{
    struct source *source = stream->source;
    struct times *times = &source->times;
    uint64_t time = 0;

    if (pts == GPUD_TIME_NONE)
        return now;
    pthread_mutex_lock(&source->lock);
    int64_t late = (int64_t)(now - pts) - times->offset;
    if (!times->set || late > FAR_NS || late < -STEP_NS || stream->number < times->stream) {
        times->set = true;
        times->settled = false;
        times->stream = stream->number;
        times->offset = (int64_t)(now - pts);
        times->since = now;
        times->least = INT64_MAX;
        late = 0;
    } else if (stream->number == times->stream) {
        if (late < times->least)
            times->least = late;
        if (now - times->since >= (times->settled ? WINDOW_NS : SETTLING_NS)) {
            if (!times->settled || times->least > STEP_NS)
                times->offset += times->least;
            times->settled = true;
            times->since = now;
            times->least = INT64_MAX;
        }
    }
    if (stream->number == STREAM_PICTURE ? late <= STEP_NS : times->settled)
        time = pts + (uint64_t)times->offset;
    if (time && stream->number == STREAM_SOUND)
        time += times->delay + obs_get_frame_interval_ns() / 2; /* to the tick, on average */
    pthread_mutex_unlock(&source->lock);
    return time;
}

/* === frames ================================================================================== */

static void stream_set_status(struct stream *stream, const char *text)
{
    if (stream->number != STREAM_PICTURE)
        return;
    pthread_mutex_lock(&stream->source->lock);
    snprintf(stream->source->status, sizeof(stream->source->status), "%s", text);
    pthread_mutex_unlock(&stream->source->lock);
}

static void stream_describe(struct stream *stream)
{
    char text[GPUD_MEDIA_TEXT_MAX] = "";

    gpud_media_to_string(&stream->media, text, sizeof(text), NULL);
    stream_set_status(stream, stream->refusal ? stream->refusal : text);
}

static void stream_on_event(void *user, enum gpud_event event, const void *data)
{
    struct stream *stream = user;

    if (event != GPUD_EVENT_FORMAT)
        return;
    stream->media = ((const struct gpud_format_event *)data)->media;
    stream->refusal = NULL;
    if (stream->media.kind == GPUD_MEDIA_PICTURE)
        stream->refusal = media_to_frame(&stream->media.picture, &stream->frame);
    else if (stream->media.kind != GPUD_MEDIA_AUDIO)
        stream->refusal = "OBS has pictures and sound alone";
    if (stream->refusal)
        plugin_log(LOG_WARNING, obs_source_get_name(stream->source->source), stream->refusal);
    stream_describe(stream);
}

/* OBS copies the picture into one of its own: its asynchronous sources take none by reference. It
 * takes RGB for full range, unless the other struct says that it is not. */
static void stream_output(struct stream *stream, uint64_t time)
{
    struct obs_source_frame *frame = &stream->frame;
    struct obs_source_frame2 limited = {
        .width = frame->width,
        .height = frame->height,
        .timestamp = time + stream->restarts_ns,
        .format = frame->format,
        .range = VIDEO_RANGE_PARTIAL,
        .trc = frame->trc,
    };

    frame->timestamp = limited.timestamp;
    memcpy(limited.data, frame->data, sizeof(limited.data));
    memcpy(limited.linesize, frame->linesize, sizeof(limited.linesize));
    if (frame->full_range || format_is_yuv(frame->format))
        obs_source_output_video(stream->source->source, frame);
    else
        obs_source_output_video2(stream->source->source, &limited);
}

/* When OBS runs out of pictures it lets the next ones wait by as much, for good. So the time line
 * begins anew then, with a picture twice, so that the next one has an interval's time to come; half
 * an interval less, because OBS shows a picture at the first tick that is 2 ms later than its time.
 * The delay stays what it was if it can: OBS does not move sound that goes on by less than 70 ms.
 * Returns false if OBS has chosen a picture meanwhile, this one or not, so that its delay is not
 * known. */
static bool stream_begin(struct stream *stream, uint64_t time, uint64_t now)
{
    struct source *source = stream->source;
    struct times *times = &source->times;
    const struct gpud_fraction *rate = &stream->media.picture.rate;
    uint64_t tick = obs_get_frame_interval_ns(), ahead = tick;

    if (rate->num > 0 && rate->den * (uint64_t)GPUD_SEC / rate->num > ahead)
        ahead = rate->den * (uint64_t)GPUD_SEC / rate->num;
    pthread_mutex_lock(&source->lock);
    uint64_t ticks = times->ticks, first = time - ahead + tick / 2;
    uint64_t as_before = obs_get_video_frame_time() + tick - times->delay;
    pthread_mutex_unlock(&source->lock);
    if (as_before < time && now - stream->shown_at < (uint64_t)FAR_NS)
        first = as_before;
    stream->restarts_ns += RESTART_NS;
    stream_output(stream, first);
    pthread_mutex_lock(&source->lock);
    bool known = times->ticks == ticks;
    if (known)
        times->begun = first;
    pthread_mutex_unlock(&source->lock);
    return known;
}

static void stream_show(struct stream *stream, uint8_t *data, const struct gpud_frame_info *info,
                        uint64_t now)
{
    uint64_t time = stream_get_time(stream, info->pts_ns, now);
    struct times *times = &stream->source->times;

    /* In a burst, behind a pause, times go back until the map has followed; OBS's must not. */
    if (time <= stream->shown)
        return;
    for (uint32_t i = 0; i < info->layout.planes; i++) {
        stream->frame.data[i] = data + info->layout.plane[i].offset;
        stream->frame.linesize[i] = info->layout.plane[i].stride;
    }
    pthread_mutex_lock(&stream->source->lock);
    bool begins =
        !times->begun && now >= stream->shown + times->delay + obs_get_frame_interval_ns();
    pthread_mutex_unlock(&stream->source->lock);
    for (int tries = 0; begins && tries < BEGIN_TRIES; tries++)
        begins = !stream_begin(stream, time, now);
    stream_output(stream, time);
    stream->shown = time;
    stream->shown_at = now;
    stream->replaced = false;
}

static void stream_play(struct stream *stream, const uint8_t *data,
                        const struct gpud_frame_info *info, uint64_t now)
{
    const struct gpud_audio *audio = &stream->media.audio;
    uint32_t frames = (uint32_t)(info->bytes * audio->block / info->layout.size);
    uint64_t time = stream_get_time(stream, info->pts_ns, now);

    if (time != 0)
        stream->refusal =
            media_play(audio, data, frames, time, stream->source->source, &stream->scratch);
    if (stream->refusal)
        plugin_log(LOG_WARNING, audio->format, stream->refusal);
}

static void stream_take(struct stream *stream, struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;

    gpud_frame_get_info(frame, &info);
    if (stream->refusal || (info.flags & GPUD_FRAME_CORRUPTED) ||
        gpud_frame_map(frame, GPUD_READ, WAIT_NS, &data, NULL) != GPUD_OK)
        return;
    if (stream->media.kind == GPUD_MEDIA_PICTURE)
        stream_show(stream, data, &info, os_gettime_ns());
    else
        stream_play(stream, data, &info, os_gettime_ns());
    gpud_frame_unmap(frame);
}

/* Shows what the settings say when no picture has come for so long as they allow. */
static void stream_replace(struct stream *stream, const char *lost)
{
    struct obs_source_frame black = {.width = stream->frame.width,
                                     .height = stream->frame.height,
                                     .linesize = {4 * stream->frame.width},
                                     .format = VIDEO_FORMAT_BGRX};

    stream->replaced = true;
    if (strcmp(lost, "nothing") == 0)
        obs_source_output_video(stream->source->source, NULL);
    if (strcmp(lost, "black") != 0)
        return;
    stream->restarts_ns += RESTART_NS;
    black.timestamp = os_gettime_ns() + stream->restarts_ns;
    black.data[0] = bzalloc((size_t)black.linesize[0] * black.height);
    obs_source_output_video(stream->source->source, &black);
    bfree(black.data[0]);
    stream->shown = 0;
}

/* === threads ================================================================================= */

/* Reports why there are no frames, once. A programme without sound is common. */
static void stream_report(struct stream *stream, const struct gpud_error *error)
{
    if (error->status != GPUD_TIMEOUT && error->status != stream->reported)
        plugin_log(LOG_INFO, obs_source_get_name(stream->source->source), error->reason);
    if (error->status != stream->reported)
        stream_set_status(stream, error->reason);
    stream->reported = error->status;
}

static void *stream_run(void *data)
{
    struct stream *stream = data;
    struct gpud_error error;
    obs_data_t *settings = stream->source->settings;
    uint64_t lost_ns = (uint64_t)obs_data_get_int(settings, "lost_ms") * GPUD_MSEC;

    os_set_thread_name(stream->number == STREAM_SOUND ? "gpudirect sound" : "gpudirect picture");
    while (!__atomic_load_n(&stream->source->ending, __ATOMIC_RELAXED)) {
        struct gpud_frame *frame = NULL;
        enum gpud_status status = gpud_receiver_acquire(stream->receiver, WAIT_NS, &frame, &error);
        if (status == GPUD_OK) {
            stream_take(stream, frame);
            gpud_frame_release(&frame);
            if (stream->reported != GPUD_OK)
                stream_describe(stream);
            stream->reported = GPUD_OK;
        } else if (status != GPUD_AGAIN) {
            stream_report(stream, &error);
            if (status != GPUD_TIMEOUT)
                os_sleep_ms(WAIT_NS / GPUD_MSEC);
        }
        if (stream->shown_at && !stream->replaced && os_gettime_ns() - stream->shown_at > lost_ns)
            stream_replace(stream, obs_data_get_string(settings, "lost"));
    }
    return NULL;
}

static void stream_open(struct stream *stream)
{
    struct gpud_error error;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    char address[ADDRESS_MAX];

    endpoint_get_address(stream->source->settings, stream->number, address);
    ENDPOINT_SET(params, address, stream->source->settings);
    params.on_event = stream_on_event;
    params.user = stream;
    if (gpud_receiver_create(plugin_context, &params, &stream->receiver, &error) != GPUD_OK)
        stream_report(stream, &error);
    else if (pthread_create(&stream->thread, NULL, stream_run, stream) != 0)
        gpud_receiver_destroy(&stream->receiver);
}

static void source_close(struct source *source)
{
    __atomic_store_n(&source->ending, true, __ATOMIC_RELAXED);
    for (int i = 0; i < STREAMS; i++)
        if (source->stream[i].receiver)
            gpud_receiver_interrupt(source->stream[i].receiver, true);
    for (int i = 0; i < STREAMS; i++)
        if (source->stream[i].receiver) {
            pthread_join(source->stream[i].thread, NULL);
            gpud_receiver_destroy(&source->stream[i].receiver);
        }
    obs_data_release(source->settings);
    source->settings = NULL;
}

/* === what OBS calls ========================================================================== */

static void source_follow(void *data, obs_data_t *settings)
{
    struct source *source = data;

    source_close(source);
    obs_data_addref(settings);
    source->settings = settings;
    source->ending = false;
    for (int i = 0; i < STREAMS && *obs_data_get_string(settings, "address"); i++)
        stream_open(&source->stream[i]);
}

static void source_update(void *data, obs_data_t *settings)
{
    plugin_queue(source_follow, data, settings);
}

static const char *source_get_name(void *data)
{
    return obs_module_text("Source");
}

/* OBS has just chosen the picture for this tick. */
static void source_video_tick(void *data, float seconds)
{
    struct source *source = data;

    pthread_mutex_lock(&source->lock);
    if (source->times.begun)
        source->times.delay = obs_get_video_frame_time() - source->times.begun;
    source->times.begun = 0;
    source->times.ticks++;
    pthread_mutex_unlock(&source->lock);
}

/* OBS calls it behind what was queued. */
static void source_destroy(void *data)
{
    struct source *source = data;

    source_close(source);
    bfree(source->stream[STREAM_PICTURE].scratch);
    bfree(source->stream[STREAM_SOUND].scratch);
    pthread_mutex_destroy(&source->lock);
    bfree(source);
}

static void *source_create(obs_data_t *settings, obs_source_t *obs)
{
    struct source *source = bzalloc(sizeof(*source));

    source->source = obs;
    pthread_mutex_init(&source->lock, NULL);
    for (int i = 0; i < STREAMS; i++) {
        source->stream[i].source = source;
        source->stream[i].number = i;
    }
    source_update(source, settings);
    return source;
}

static void source_get_defaults(obs_data_t *settings)
{
    obs_data_set_default_string(settings, "lost", "hold");
    obs_data_set_default_int(settings, "lost_ms", 1000);
}

static obs_properties_t *source_get_properties(void *data)
{
    struct source *source = data;
    obs_properties_t *props = obs_properties_create();

    endpoint_add_channels(props);
    obs_property_t *lost = obs_properties_add_list(props, "lost", obs_module_text("Lost"),
                                                   OBS_COMBO_TYPE_LIST, OBS_COMBO_FORMAT_STRING);
    obs_property_list_add_string(lost, obs_module_text("Hold"), "hold");
    obs_property_list_add_string(lost, obs_module_text("Black"), "black");
    obs_property_list_add_string(lost, obs_module_text("Nothing"), "nothing");
    obs_property_t *after =
        obs_properties_add_int(props, "lost_ms", obs_module_text("LostAfter"), 100, 60000, 100);
    obs_property_int_set_suffix(after, " ms");
    if (source) {
        pthread_mutex_lock(&source->lock);
        obs_properties_add_text(props, "status", source->status, OBS_TEXT_INFO);
        pthread_mutex_unlock(&source->lock);
    }
    endpoint_add_files(props);
    return props;
}

const struct obs_source_info source_info = {
    .id = "gpudirect_source",
    .type = OBS_SOURCE_TYPE_INPUT,
    .output_flags = OBS_SOURCE_ASYNC_VIDEO | OBS_SOURCE_AUDIO | OBS_SOURCE_DO_NOT_DUPLICATE,
    .get_name = source_get_name,
    .create = source_create,
    .destroy = source_destroy,
    .update = source_update,
    .video_tick = source_video_tick,
    .get_defaults = source_get_defaults,
    .get_properties = source_get_properties,
    .icon_type = OBS_ICON_TYPE_CAMERA,
};

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures and levels of channels: received, and made small. */
#include "monitor/monitor.h"

#include "gstpicture.h"

#include <gst/audio/audio.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <turbojpeg.h>

/* === content ================================================================================= */
/* What is in a stream: whether its picture moves and is lit, and how loud its sound is. Of pictures
 * it looks at one a second, at the size of the pages' thumbnails; noise counts as movement. */

/* Brighter than the black of any range, of 255; and so many of a thousand pixels may be, as those
 * of a clock or of a damaged row. */
#define BLACK 32
#define LIT_PER_MILLE 1
#define SILENCE 0.001 /* -60 dBFS */
#define SAMPLES 1024

/* rgb: pixels of three bytes. */
static void content_look(struct monitor_content *content, const guint8 *rgb, gsize size)
{
    guint64 digest = 0xcbf29ce484222325; /* FNV-1a */
    for (gsize i = 0; i < size; i++)
        digest = (digest ^ rgb[i]) * 0x100000001b3;
    gsize lit = 0;
    for (gsize i = 0; i + 2 < size; i += 3)
        lit += rgb[i] > BLACK || rgb[i + 1] > BLACK || rgb[i + 2] > BLACK;
    gint64 now = g_get_monotonic_time();
    if (!content->moved || digest != content->digest)
        content->moved = now;
    if (!content->lit || lit * 1000 > size / 3 * LIT_PER_MILLE)
        content->lit = now;
    content->digest = digest;
    content->seen = now;
}

/* A frame of sound, which stays the caller's. peaks: raised to the largest sample of each of the
 * audio's channels, where 1 is full scale. */
static enum gpud_status content_listen(struct monitor_content *content, struct gpud_frame *frame,
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
    bool planar = audio->order == GPUD_AUDIO_PLANAR, loud = false;
    gsize block = planar ? MAX(samples / audio->channels, 1) : 1; /* of one channel's samples */
    gint64 unpacked[SAMPLES]; /* room for the larger of both formats */
    const gint32 *whole = (const gint32 *)unpacked;
    const double *real = (const double *)unpacked;
    bool is_real = format->unpack_format == GST_AUDIO_FORMAT_F64;
    for (gsize at = 0; at < samples; at += SAMPLES) {
        gsize count = MIN(samples - at, SAMPLES);
        format->unpack_func(format, GST_AUDIO_PACK_FLAG_NONE, unpacked,
                            (guint8 *)data + at * (gsize)format->width / 8, (gint)count);
        for (gsize i = 0; i < count; i++) {
            double *peak = &peaks[(at + i) / block % audio->channels];
            *peak = MAX(*peak, fabs(is_real ? real[i] : whole[i] / 2147483648.0));
        }
    }
    for (gsize i = 0; i < audio->channels; i++)
        loud |= peaks[i] > SILENCE;
    if (!content->loud || loud)
        content->loud = now;
    content->seen = now;
    gpud_frame_unmap(frame);
    return GPUD_OK;
}

/* === picture ================================================================================= */
/* GStreamer's converter reads every format that it has a name for, and libjpeg-turbo encodes. */

#define WIDTH 320
#define HEIGHT_MAX 320
#define STRIDE (3 * WIDTH) /* of RGB */
#define QUALITY 80

static void free_jpeg(gpointer data)
{
    tjFree(data);
}

static GBytes *compress(const guint8 *pixels, int height)
{
    unsigned char *jpeg = NULL;
    unsigned long size = 0;
    GBytes *bytes = NULL;
    tjhandle compressor = tjInitCompress();
    if (compressor && tjCompress2(compressor, pixels, WIDTH, STRIDE, height, TJPF_RGB, &jpeg, &size,
                                  TJSAMP_420, QUALITY, 0) == 0)
        bytes = g_bytes_new_with_free_func(jpeg, size, free_jpeg, jpeg);
    if (compressor)
        tjDestroy(compressor);
    return bytes;
}

GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_media *media,
                               struct monitor_content *content, struct gpud_error *error)
{
    struct picture picture;
    struct gpud_media plain = *media;
    GstVideoFrame mapped;
    /* Both fields at once: rows are left out, none is moved in time. */
    if (plain.kind == GPUD_MEDIA_PICTURE && plain.picture.scan != GPUD_SCAN_ALTERNATE)
        plain.picture.scan = GPUD_SCAN_PROGRESSIVE;
    if (!picture_init(&picture, &plain, error))
        return NULL;
    picture.quick = true;
    int height = (int)CLAMP(WIDTH / picture.aspect, 16, HEIGHT_MAX);
    guint8 *pixels = g_malloc((gsize)height * STRIDE);
    bool converted = picture_map(&picture, frame, &mapped, error);
    if (converted) {
        converted = picture_convert(&picture, &mapped, GST_VIDEO_FORMAT_RGB, WIDTH, height, pixels,
                                    STRIDE, error);
        picture_unmap(frame, &mapped);
    }
    picture_finish(&picture);
    if (converted)
        content_look(content, pixels, (gsize)height * STRIDE);
    GBytes *bytes = converted ? compress(pixels, height) : NULL;
    if (converted && !bytes) {
        error->status = GPUD_UNSUPPORTED;
        g_strlcpy(error->reason, "the picture cannot be encoded as JPEG", sizeof(error->reason));
    }
    g_free(pixels);
    return bytes;
}

/* --- sound ----------------------------------------------------------------------------------- */

#define LEVELS_HEIGHT 180
#define LEVELS_TOP 20.0
#define LEVELS_BOTTOM 160.0
#define LEVELS_LEFT 34.0
#define LEVEL_MIN -60.0    /* dBFS */
#define WRITTEN_CHANNELS 8 /* more have no room for a number */
#define NUMBERED_CHANNELS 24

static double level_y(double level)
{
    double part = CLAMP(level / LEVEL_MIN, 0, 1);
    return LEVELS_TOP + part * (LEVELS_BOTTOM - LEVELS_TOP);
}

static void draw_text(GString *svg, int x, int y, const char *text)
{
    g_string_append_printf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, y,
                           text);
}

/* Of each channel the peak, where 1 is full scale. */
static GBytes *draw_levels(const double *peaks, unsigned channels)
{
    static const int marks[] = {0, -9, -18, -30, -40, -50, -60};
    /* The colors change at EBU R 68's alignment level, -18 dBFS, and its permitted maximum, -9. */
    static const struct {
        double from, to;
        const char *color;
    } parts[] = {{-60, -18, "#3a3"}, {-18, -9, "#cc3"}, {-9, 0, "#d33"}};
    GString *svg = g_string_new(NULL);
    g_string_append_printf(svg,
                           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                           "font-family=\"sans-serif\" font-size=\"11\" fill=\"#bbb\">\n",
                           WIDTH, LEVELS_HEIGHT);
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        int y = (int)level_y(marks[i]);
        g_string_append_printf(svg,
                               "<path d=\"M%d %dH%d\" stroke=\"#444\"/>"
                               "<text x=\"28\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
                               (int)LEVELS_LEFT, y, WIDTH, y + 4, marks[i]);
    }
    double step = (WIDTH - LEVELS_LEFT) / channels;
    for (unsigned i = 0; i < channels; i++) {
        double level = peaks[i] > 0 ? 20 * log10(peaks[i]) : -INFINITY;
        int width = (int)CLAMP(step * 0.7, 1, 40), x = (int)(LEVELS_LEFT + step * (i + 0.5));
        char text[16];
        for (size_t k = 0; k < G_N_ELEMENTS(parts) && level > parts[k].from; k++) {
            int top = (int)level_y(MIN(level, parts[k].to)), bottom = (int)level_y(parts[k].from);
            g_string_append_printf(
                svg, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                x - width / 2, top, width, bottom - top, parts[k].color);
        }
        g_snprintf(text, sizeof(text), "%u", i + 1);
        if (channels <= NUMBERED_CHANNELS)
            draw_text(svg, x, LEVELS_HEIGHT - 5, text);
        g_snprintf(text, sizeof(text), level > LEVEL_MIN ? "%.0f dB" : "silent", level);
        if (channels <= WRITTEN_CHANNELS)
            draw_text(svg, x, 13, text);
    }
    g_string_append(svg, "</svg>\n");
    return g_string_free_to_bytes(svg);
}

/* === thumbnails ============================================================================== */
/* Thumbnails. A channel's receiver has one slot, in host memory, drops the oldest, and holds the
 * frame of the last picture until it is time for the next one. Meanwhile its sender has no slot to
 * fill, so that it copies and sends two frames a second for it at most, and waits for nothing. Each
 * receiver has a thread, as one sender that hangs must not keep the others' pictures back. Of sound
 * it takes every frame, many at a time, since a meter that misses a peak is wrong. */

#define PERIOD G_USEC_PER_SEC
#define LISTEN_PERIOD (G_USEC_PER_SEC / 10)
#define KEPT (10 * G_USEC_PER_SEC) /* after the last look */
#define WORKERS_MAX 128

struct worker {
    struct monitor_thumbnails *all;
    char *address;
    GThread *thread;
    struct gpud_media media; /* the thread's, like `seen` */
    struct monitor_content seen;

    /* Under the lock. */
    struct gpud_receiver *receiver; /* NULL: the worker ends it */
    gint64 looked_at;
    bool stopping, ended;
    GBytes *image;
    const char *type; /* of the image */
    struct monitor_content content;
    char reason[GPUD_REASON_MAX];
};

struct monitor_thumbnails {
    struct gpud_context *context;
    const struct monitor_keys *keys;
    GMutex lock;
    GCond wake;
    GPtrArray *workers; /* main thread */
};

static void thumbnails_show(struct worker *worker, GBytes *image, const char *type,
                            const char *reason)
{
    g_mutex_lock(&worker->all->lock);
    g_clear_pointer(&worker->image, g_bytes_unref);
    worker->image = image;
    worker->type = type;
    worker->content = worker->seen;
    g_strlcpy(worker->reason, reason, sizeof(worker->reason));
    g_mutex_unlock(&worker->all->lock);
}

static void note_format(void *user, enum gpud_event event, const void *data)
{
    struct worker *worker = user;
    if (event != GPUD_EVENT_FORMAT)
        return;
    worker->media = ((const struct gpud_format_event *)data)->media;
    worker->seen = (struct monitor_content){0};
}

/* false: the worker is to stop. */
static bool thumbnails_rest(struct worker *worker, gint64 until)
{
    g_mutex_lock(&worker->all->lock);
    while (!worker->stopping && g_cond_wait_until(&worker->all->wake, &worker->all->lock, until))
        ;
    bool goes_on = !worker->stopping;
    g_mutex_unlock(&worker->all->lock);
    return goes_on;
}

/* false: no frame comes until then, or *held is of another format. */
static bool take_sound(struct worker *worker, struct gpud_frame **held, gint64 until)
{
    const struct gpud_media before = worker->media;
    gint64 now;
    while ((now = g_get_monotonic_time()) < until) {
        enum gpud_status status = gpud_receiver_acquire(worker->receiver, 0, held, NULL);
        if (status == GPUD_OK)
            return gpud_media_equal(&before, &worker->media);
        if (status != GPUD_TIMEOUT || !thumbnails_rest(worker, MIN(now + LISTEN_PERIOD, until)))
            return false;
    }
    return false;
}

/* Sound: this frame, and those that come until then. */
static GBytes *listen_until(struct worker *worker, struct gpud_frame **held, gint64 until,
                            struct gpud_error *error)
{
    const struct gpud_audio audio = worker->media.audio;
    double peaks[GPUD_AUDIO_CHANNELS_MAX] = {0};
    gpud_receiver_set_slots(worker->receiver, GPUD_SLOTS_MAX); /* for those of LISTEN_PERIOD */
    do {
        if (content_listen(&worker->seen, *held, &audio, peaks, error) != GPUD_OK)
            return NULL;
        gpud_frame_release(held);
    } while (take_sound(worker, held, until));
    return draw_levels(peaks, audio.channels);
}

/* Takes the next frame, in exchange for the one that is held. */
static void take_image(struct worker *worker, struct gpud_frame **held, gint64 until)
{
    struct gpud_error error = {.reason = ""};
    const char *type = "image/jpeg";
    gpud_frame_release(held);
    enum gpud_status status = gpud_receiver_acquire(worker->receiver, GPUD_SEC, held, &error);
    GBytes *image = NULL;
    if (status == GPUD_OK && worker->media.kind == GPUD_MEDIA_AUDIO) {
        image = listen_until(worker, held, until, &error);
        type = "image/svg+xml";
    } else if (status == GPUD_OK) {
        image = monitor_picture_encode(*held, &worker->media, &worker->seen, &error);
    }
    if (image || (status != GPUD_AGAIN && status != GPUD_TIMEOUT))
        thumbnails_show(worker, image, type, error.reason);
    else if (status == GPUD_TIMEOUT)
        thumbnails_show(worker, NULL, NULL, "no frame comes");
}

static gpointer work(gpointer data)
{
    struct worker *worker = data;
    struct monitor_thumbnails *all = worker->all;
    struct gpud_frame *held = NULL;
    gint64 next = g_get_monotonic_time();
    g_mutex_lock(&all->lock);
    while (!worker->stopping && g_get_monotonic_time() - worker->looked_at < KEPT) {
        g_mutex_unlock(&all->lock);
        next = MAX(next + PERIOD, g_get_monotonic_time());
        take_image(worker, &held, next);
        thumbnails_rest(worker, next);
        g_mutex_lock(&all->lock);
    }
    struct gpud_receiver *receiver = g_steal_pointer(&worker->receiver);
    g_mutex_unlock(&all->lock);
    gpud_frame_release(&held);
    gpud_receiver_destroy(&receiver);
    g_mutex_lock(&all->lock);
    worker->ended = true;
    g_mutex_unlock(&all->lock);
    return NULL;
}

static struct worker *thumbnails_start(struct monitor_thumbnails *all, const char *address,
                                       char **reason)
{
    struct gpud_error error;
    struct worker *worker = g_new0(struct worker, 1);
    struct gpud_receiver_params params = {
        .size = sizeof(params),
        .address = address,
        .name = MONITOR_NAME,
        .slots = 1,
        .slow_receiver = GPUD_SLOW_DROP_OLDEST,
        .busy_poll_ns = -1,
        .on_event = note_format,
        .user = worker,
    };
    bool has_tls = g_str_has_prefix(address, "tcp://");
    if (has_tls && all->keys->tls_certificate) {
        params.tls_certificate = all->keys->tls_certificate;
        params.tls_key = all->keys->tls_key;
        params.tls_ca = all->keys->tls_ca;
    } else if (has_tls || g_str_has_prefix(address, "rdma://")) {
        params.psk_file = all->keys->psk_file;
    } else { /* any sender: the monitor was asked to show all that it lists */
        params.access = "all";
    }
    if (gpud_receiver_create(all->context, &params, &worker->receiver, &error) != GPUD_OK) {
        *reason = g_strdup(error.reason);
        g_free(worker);
        return NULL;
    }
    worker->all = all;
    worker->address = g_strdup(address);
    worker->looked_at = g_get_monotonic_time();
    g_strlcpy(worker->reason, "connecting", sizeof(worker->reason));
    worker->thread = g_thread_new("thumbnail", work, worker);
    g_ptr_array_add(all->workers, worker);
    return worker;
}

static void worker_free(gpointer data)
{
    struct worker *worker = data;
    g_thread_join(worker->thread);
    g_clear_pointer(&worker->image, g_bytes_unref);
    g_free(worker->address);
    g_free(worker);
}

/* The worker of the address, started if it is missing; NULL: *reason says why not. Frees those that
 * have ended. Called under the lock. */
static struct worker *thumbnails_keep(struct monitor_thumbnails *all, const char *address,
                                      char **reason)
{
    struct worker *worker = NULL;
    for (guint i = all->workers->len; i-- > 0;) {
        struct worker *one = all->workers->pdata[i];
        if (one->ended)
            g_ptr_array_remove_index_fast(all->workers, i);
        else if (strcmp(one->address, address) == 0)
            worker = one;
    }
    if (!worker && all->workers->len == WORKERS_MAX)
        *reason = g_strdup_printf("%d channels are shown at once, at most", WORKERS_MAX);
    else if (!worker)
        worker = thumbnails_start(all, address, reason);
    if (worker)
        worker->looked_at = g_get_monotonic_time();
    return worker;
}

bool monitor_thumbnails_watch(struct monitor_thumbnails *all, const char *address,
                              struct monitor_content *content)
{
    char *reason = NULL;
    g_mutex_lock(&all->lock);
    const struct worker *worker = thumbnails_keep(all, address, &reason);
    if (worker)
        *content = worker->content;
    g_mutex_unlock(&all->lock);
    g_free(reason);
    return worker;
}

GBytes *monitor_thumbnails_get(struct monitor_thumbnails *all, const char *address,
                               const char **type, char **reason)
{
    GBytes *image = NULL;
    g_mutex_lock(&all->lock);
    const struct worker *worker = thumbnails_keep(all, address, reason);
    if (worker && worker->image) {
        image = g_bytes_ref(worker->image);
        *type = worker->type;
    } else if (worker) {
        *reason = g_strdup(worker->reason);
    }
    g_mutex_unlock(&all->lock);
    return image;
}

struct monitor_thumbnails *monitor_thumbnails_new(const struct monitor_keys *keys,
                                                  struct gpud_error *error)
{
    struct gpud_context *context;
    if (gpud_context_create(NULL, &context, error) != GPUD_OK)
        return NULL;
    struct monitor_thumbnails *all = g_new0(struct monitor_thumbnails, 1);
    all->context = context;
    all->keys = keys;
    g_mutex_init(&all->lock);
    g_cond_init(&all->wake);
    all->workers = g_ptr_array_new_with_free_func(worker_free);
    return all;
}

void monitor_thumbnails_free(struct monitor_thumbnails *all)
{
    g_mutex_lock(&all->lock);
    for (guint i = 0; i < all->workers->len; i++) {
        struct worker *worker = all->workers->pdata[i];
        worker->stopping = true;
        if (worker->receiver)
            gpud_receiver_interrupt(worker->receiver, true);
    }
    g_cond_broadcast(&all->wake);
    g_mutex_unlock(&all->lock);
    g_ptr_array_unref(all->workers);
    gpud_context_destroy(&all->context);
    g_mutex_clear(&all->lock);
    g_cond_clear(&all->wake);
    g_free(all);
}

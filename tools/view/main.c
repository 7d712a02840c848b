/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-view: shows a channel in a window, or saves a picture of it. */
#include "clock.h"
#include "gstpicture.h"
#include "stats.h"

#include <SDL.h>
#include <SDL_ttf.h>
#include <errno.h>
#include <fontconfig/fontconfig.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <gpudirect/gpudirect.h>
#include <inttypes.h>
#include <locale.h>
#include <png.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

struct options {
    const char *address;
    char *png, *access, *psk_file, *tls_certificate, *tls_key, *tls_ca; /* NULL: not given */
    gboolean full_screen, start_times, version;
    gboolean one_picture; /* quit when it is shown */
    double timeout;       /* negative: not given */
};

#define TIMEOUT 10.0

/* How long to wait for the first picture. */
static int64_t patience_ns(const struct options *options)
{
    return (int64_t)((options->timeout >= 0 ? options->timeout : TIMEOUT) * 1e9);
}

/* === source ================================================================================== */
/* The channel: a receiver that never makes its sender wait, and takes the newest frame. */

struct source {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct gpud_media media; /* of the frames that follow */
    uint32_t formats;        /* changes with media */
    char device[32];         /* where the sender has its frames */
    uint64_t frames;         /* received */
    uint64_t skipped;        /* of these, the ones with a newer one behind them */
};

/* One that is shown, and the newest one behind it. */
#define SLOTS 2

static void source_on_event(void *user, enum gpud_event event, const void *data)
{
    struct source *source = user;
    const struct gpud_format_event *format = data;
    if (event != GPUD_EVENT_FORMAT)
        return;
    source->media = format->media;
    memcpy(source->device, format->device, sizeof(source->device));
    source->formats++;
}

/* False: error says why not, and there is nothing to close. */
static bool source_open(struct source *source, const struct options *options,
                        struct gpud_error *error)
{
    *source = (struct source){0};
    struct gpud_context_params context = GPUD_PARAMS_INIT(context);
    if (gpud_context_create(&context, &source->context, error) != GPUD_OK)
        return false;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = options->address;
    params.access = options->access;
    params.psk_file = options->psk_file;
    params.tls_certificate = options->tls_certificate;
    params.tls_key = options->tls_key;
    params.tls_ca = options->tls_ca;
    params.name = "gpudirect-view";
    params.slots = SLOTS;
    params.slow_receiver = GPUD_SLOW_DROP_OLDEST;
    params.busy_poll_ns = -1;
    params.on_event = source_on_event;
    params.user = source;
    if (gpud_receiver_create(source->context, &params, &source->receiver, error) == GPUD_OK)
        return true;
    gpud_context_destroy(&source->context);
    return false;
}

/* As gpud_receiver_acquire(), and leaves no newer frame behind. */
static enum gpud_status source_acquire(struct source *source, int64_t timeout_ns,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    enum gpud_status status = gpud_receiver_acquire(source->receiver, timeout_ns, frame, error);
    if (status != GPUD_OK)
        return status;
    source->frames++;
    struct gpud_frame *newer;
    while (gpud_receiver_count_frames(source->receiver) > 0 &&
           gpud_receiver_acquire(source->receiver, 0, &newer, NULL) == GPUD_OK) {
        gpud_frame_release(frame);
        *frame = newer;
        source->frames++;
        source->skipped++;
    }
    return GPUD_OK;
}

/* === pngfile ================================================================================= */
/* A frame as a PNG file, with the stream's own size and 8 bits a sample. */

static bool pngfile_fail(struct gpud_error *error, const char *file, const char *why, int code)
{
    *error = (struct gpud_error){.status = GPUD_IO, .native = code, .origin = "errno"};
    g_snprintf(error->reason, sizeof(error->reason), "%s cannot be written: %s", file, why);
    return false;
}

static bool write_image(png_image *image, const void *pixels, const char *file, bool exclusive,
                        struct gpud_error *error)
{
    FILE *stream = fopen(file, exclusive ? "wbx" : "wb");
    if (!stream)
        return pngfile_fail(error, file, g_strerror(errno), errno);
    errno = 0;
    bool written = png_image_write_to_stdio(image, stream, false, pixels, 0, NULL);
    int code = written ? 0 : errno;
    if (fclose(stream) != 0 && code == 0)
        code = errno;
    if (written && code == 0)
        return true;
    GStatBuf kind;
    if (g_lstat(file, &kind) == 0 && S_ISREG(kind.st_mode))
        g_remove(file); /* half a picture */
    return pngfile_fail(error, file, code ? g_strerror(code) : image->message, code);
}

/* exclusive: an existing file is left alone, and error->native is EEXIST. False: error says why no
 * file was written. */
static bool png_write(struct picture *picture, GstVideoFrame *mapped, const char *file,
                      bool exclusive, struct gpud_error *error)
{
    const GstVideoInfo *info = &picture->info;
    bool alpha = GST_VIDEO_INFO_HAS_ALPHA(info);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)info->width,
                       .height = (png_uint_32)info->height,
                       .format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB};
    size_t stride = (size_t)info->width * (alpha ? 4 : 3);
    void *pixels = g_try_malloc_n((size_t)info->height, stride);
    if (!pixels)
        return pngfile_fail(error, file, "there is not enough memory", ENOMEM);
    bool written =
        picture_convert(picture, mapped, alpha ? GST_VIDEO_FORMAT_RGBA : GST_VIDEO_FORMAT_RGB, 0, 0,
                        pixels, (int)stride, error) &&
        write_image(&image, pixels, file, exclusive, error);
    g_free(pixels);
    png_image_free(&image);
    return written;
}

/* === screenshot ============================================================================== */
/* A frame as a new PNG file in the current folder, named after the channel and the time. */

#define FILES_MAX 100 /* of one second */

/* What became of it, as a sentence to be freed with g_free(). */
static char *screenshot_take(struct picture *picture, GstVideoFrame *mapped, const char *address)
{
    struct gpud_error error;
    GDateTime *now = g_date_time_new_now_local();
    char *time = g_date_time_format(now, "%Y%m%d-%H%M%S");
    /* The last part of an address, as a file's name. */
    const char *slash = strrchr(address, '/');
    char *name = g_strdup(slash && slash[1] ? slash + 1 : address);
    g_strcanon(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-", '-');
    char *said = NULL;
    for (int i = 1; i <= FILES_MAX && !said; i++) {
        char *file = i > 1 ? g_strdup_printf("%s-%s-%d.png", name, time, i)
                           : g_strdup_printf("%s-%s.png", name, time);
        if (png_write(picture, mapped, file, true, &error))
            said = g_strdup_printf("saved %s", file);
        else if (error.native != EEXIST || i == FILES_MAX)
            said = g_strdup(error.reason);
        g_free(file);
    }
    g_free(name);
    g_free(time);
    g_date_time_unref(now);
    return said;
}

/* === stages ================================================================================== */
/* Where the time goes from the start of the program to the first picture in its window. */

/* Each is noted when it ends, in this order. */
enum stage {
    STAGE_PROCESS,   /* loaded, with its libraries */
    STAGE_GSTREAMER, /* initialised */
    STAGE_RECEIVER,  /* made */
    STAGE_DISPLAY,   /* connected to */
    STAGE_WINDOW,    /* open */
    STAGE_RENDERER,  /* made: the display's driver */
    STAGE_FONT,      /* found */
    STAGE_FRAME,     /* the first one is here */
    STAGE_PICTURE,   /* it is shown */
    STAGES
};

#define RUNS 5

static const char *const names[STAGES] = {
    [STAGE_PROCESS] = "the process, its libraries",
    [STAGE_GSTREAMER] = "GStreamer's formats",
    [STAGE_RECEIVER] = "the receiver",
    [STAGE_DISPLAY] = "SDL, the display",
    [STAGE_WINDOW] = "the window",
    [STAGE_RENDERER] = "the renderer, its driver",
    [STAGE_FONT] = "the font",
    [STAGE_FRAME] = "connection, first frame",
    [STAGE_PICTURE] = "texture, first picture shown",
};

static int64_t ended[STAGES];

/* Notes the first time that a stage ends. */
static void stages_end(enum stage stage)
{
    if (!ended[stage])
        ended[stage] = clock_now();
}

static void die_with_parent(gpointer data)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* In ms, each from the end of the one before. What a second thread has done by then took none.
 * Returns the exit status of the start. */
static int stages_run_once(const char *const *arguments, double ms[STAGES])
{
    GError *error = NULL;
    gchar *text = NULL;
    gint status = 0;
    int64_t before = clock_now();
    bool good = g_spawn_sync(NULL, (gchar **)arguments, NULL, 0, die_with_parent, NULL, &text, NULL,
                             &status, &error) &&
                g_spawn_check_wait_status(status, &error);
    gchar **lines = g_strsplit(good ? text : "", "\n", 0);
    if (good && g_strv_length(lines) != STAGES + 1) {
        g_set_error(&error, G_SPAWN_ERROR, G_SPAWN_ERROR_FAILED, "no picture was shown");
        good = false;
    }
    for (int i = 0; good && i < STAGES; i++) {
        int64_t end = g_ascii_strtoll(lines[i], NULL, 10);
        ms[i] = (double)MAX(end - before, 0) / 1e6;
        before = MAX(before, end);
    }
    if (!good && error->domain != G_SPAWN_EXIT_ERROR) /* else it has said why */
        fprintf(stderr, "gpudirect-view: %s\n", error->message);
    int result = good                                  ? EXIT_SUCCESS
                 : error->domain == G_SPAWN_EXIT_ERROR ? error->code
                                                       : EXIT_FAILURE;
    g_clear_error(&error);
    g_strfreev(lines);
    g_free(text);
    return result;
}

/* Starts the program with these arguments several times, and prints the medians. Returns the exit
 * status. */
static int stages_measure(const char *const *arguments)
{
    double ms[RUNS][STAGES], sums[RUNS] = {0}, column[RUNS];
    for (int run = 0; run < RUNS; run++) {
        int result = stages_run_once(arguments, ms[run]);
        if (result != EXIT_SUCCESS)
            return result;
        for (int i = 0; i < STAGES; i++)
            sums[run] += ms[run][i];
    }
    printf("ms, medians of %d starts\n", RUNS);
    for (int i = 0; i < STAGES; i++) {
        for (int run = 0; run < RUNS; run++)
            column[run] = ms[run][i];
        printf("  %-30s%8.1f\n", names[i], stats_median(column, RUNS));
    }
    printf("  %-30s%8.1f\n", "in all", stats_median(sums, RUNS));
    return EXIT_SUCCESS;
}

/* === headless ================================================================================ */
/* The channel's next frame as a PNG file, without a display. */

/* Between two tries to connect that are refused at once. */
#define RETRY (200 * GPUD_MSEC)

static bool save(struct source *source, struct gpud_frame *frame, const char *file,
                 struct gpud_error *error)
{
    struct picture picture;
    GstVideoFrame mapped;
    if (!picture_init(&picture, &source->media, error))
        return false;
    bool saved = picture_map(&picture, frame, &mapped, error);
    if (saved) {
        saved = png_write(&picture, &mapped, file, false, error);
        picture_unmap(frame, &mapped);
    }
    picture_finish(&picture);
    return saved;
}

/* GPUD_TIMEOUT: no frame came in time; error says why. */
static enum gpud_status headless_save(struct source *source, const char *file, int64_t timeout_ns,
                                      struct gpud_error *error)
{
    int64_t end = clock_now() + timeout_ns, left = timeout_ns;
    do {
        struct gpud_frame *frame;
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        enum gpud_status status = source_acquire(source, left, &frame, error);
        if (status == GPUD_OK) {
            gpud_frame_get_info(frame, &info);
            bool whole = !(info.flags & GPUD_FRAME_CORRUPTED);
            bool saved = whole && save(source, frame, file, error);
            gpud_frame_release(&frame);
            if (whole)
                return saved ? GPUD_OK : error->status;
        } else if (status != GPUD_TIMEOUT) { /* the next sender may do better */
            nanosleep(&(struct timespec){.tv_nsec = RETRY}, NULL);
        }
        left = end - clock_now();
    } while (left > 0);
    return GPUD_TIMEOUT;
}

/* === texture ================================================================================= */
/* A stream's pictures as a texture. Formats that SDL has are handed to the renderer's driver as
 * they lie in the frame; the others are converted, straight into what SDL uploads. */

struct texture {
    SDL_Texture *texture;     /* NULL: none */
    GstVideoFormat converted; /* UNKNOWN: not converted */
};

static const struct {
    GstVideoFormat video;
    Uint32 sdl;
} formats[] = {
    {GST_VIDEO_FORMAT_I420, SDL_PIXELFORMAT_IYUV},
    {GST_VIDEO_FORMAT_YV12, SDL_PIXELFORMAT_YV12},
    {GST_VIDEO_FORMAT_NV12, SDL_PIXELFORMAT_NV12},
    {GST_VIDEO_FORMAT_NV21, SDL_PIXELFORMAT_NV21},
    {GST_VIDEO_FORMAT_YUY2, SDL_PIXELFORMAT_YUY2},
    {GST_VIDEO_FORMAT_UYVY, SDL_PIXELFORMAT_UYVY},
    {GST_VIDEO_FORMAT_YVYU, SDL_PIXELFORMAT_YVYU},
    {GST_VIDEO_FORMAT_RGBA, SDL_PIXELFORMAT_RGBA32},
    {GST_VIDEO_FORMAT_RGBx, SDL_PIXELFORMAT_RGBA32},
    {GST_VIDEO_FORMAT_BGRA, SDL_PIXELFORMAT_BGRA32},
    {GST_VIDEO_FORMAT_BGRx, SDL_PIXELFORMAT_BGRA32},
    {GST_VIDEO_FORMAT_ARGB, SDL_PIXELFORMAT_ARGB32},
    {GST_VIDEO_FORMAT_xRGB, SDL_PIXELFORMAT_ARGB32},
    {GST_VIDEO_FORMAT_ABGR, SDL_PIXELFORMAT_ABGR32},
    {GST_VIDEO_FORMAT_xBGR, SDL_PIXELFORMAT_ABGR32},
    {GST_VIDEO_FORMAT_RGB, SDL_PIXELFORMAT_RGB24},
    {GST_VIDEO_FORMAT_BGR, SDL_PIXELFORMAT_BGR24},
};

static bool sdl_fail(struct gpud_error *error, const char *what, const char *hint)
{
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    g_snprintf(error->reason, sizeof(error->reason), "%s: %s%s", what, SDL_GetError(), hint);
    return false;
}

/* SDL's name of the frames' format; UNKNOWN: they have to be converted. */
static Uint32 texture_find_format(const GstVideoInfo *info, SDL_YUV_CONVERSION_MODE *mode)
{
    const GstVideoColorimetry *color = &info->colorimetry;
    bool full = color->range == GST_VIDEO_COLOR_RANGE_0_255;
    if (GST_VIDEO_INFO_IS_YUV(info)) {
        /* SDL's own code for such sizes reads beyond the end of a row. */
        if (info->width % 2 || info->height % 2)
            return SDL_PIXELFORMAT_UNKNOWN;
        /* SDL has a mode for each of the matrices that its shaders know. */
        if (color->matrix == GST_VIDEO_COLOR_MATRIX_BT601)
            *mode = full ? SDL_YUV_CONVERSION_JPEG : SDL_YUV_CONVERSION_BT601;
        else if (color->matrix == GST_VIDEO_COLOR_MATRIX_BT709 && !full)
            *mode = SDL_YUV_CONVERSION_BT709;
        else
            return SDL_PIXELFORMAT_UNKNOWN;
    }
    if (GST_VIDEO_INFO_IS_INTERLACED(info) && GST_VIDEO_INFO_N_PLANES(info) > 1)
        return SDL_PIXELFORMAT_UNKNOWN; /* rows of chroma belong to one field each */
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
        if (formats[i].video == GST_VIDEO_INFO_FORMAT(info))
            return formats[i].sdl;
    return SDL_PIXELFORMAT_UNKNOWN;
}

/* False: error says why there can be no texture, and there is nothing to finish. */
static bool texture_init(struct texture *texture, SDL_Renderer *renderer,
                         const struct picture *picture, struct gpud_error *error)
{
    const GstVideoInfo *info = &picture->info;
    bool alpha = GST_VIDEO_INFO_HAS_ALPHA(info);
    SDL_YUV_CONVERSION_MODE mode = SDL_YUV_CONVERSION_AUTOMATIC;
    Uint32 format = texture_find_format(info, &mode);
    *texture = (struct texture){.converted = GST_VIDEO_FORMAT_UNKNOWN};
    if (format == SDL_PIXELFORMAT_UNKNOWN) {
        texture->converted = alpha ? GST_VIDEO_FORMAT_BGRA : GST_VIDEO_FORMAT_BGRx;
        format = SDL_PIXELFORMAT_BGRA32;
    }
    SDL_SetYUVConversionMode(mode);
    texture->texture =
        SDL_CreateTexture(renderer, format, SDL_TEXTUREACCESS_STREAMING, info->width, info->height);
    if (!texture->texture)
        return sdl_fail(error, "the display cannot show pictures of this size", "");
    SDL_SetTextureBlendMode(texture->texture, alpha ? SDL_BLENDMODE_BLEND : SDL_BLENDMODE_NONE);
    SDL_SetTextureScaleMode(texture->texture, SDL_ScaleModeLinear);
    return true;
}

static bool upload(SDL_Texture *texture, const GstVideoFrame *mapped)
{
    const GstVideoInfo *info = &mapped->info;
    const Uint8 *plane[3] = {NULL};
    int stride[3] = {0};
    for (guint i = 0; i < MIN(3, GST_VIDEO_INFO_N_PLANES(info)); i++) {
        plane[i] = GST_VIDEO_FRAME_PLANE_DATA(mapped, i);
        stride[i] = GST_VIDEO_FRAME_PLANE_STRIDE(mapped, i);
    }
    switch (GST_VIDEO_INFO_FORMAT(info)) {
    case GST_VIDEO_FORMAT_I420:
        return SDL_UpdateYUVTexture(texture, NULL, plane[0], stride[0], plane[1], stride[1],
                                    plane[2], stride[2]) == 0;
    case GST_VIDEO_FORMAT_YV12: /* its planes in memory are Y, V, U */
        return SDL_UpdateYUVTexture(texture, NULL, plane[0], stride[0], plane[2], stride[2],
                                    plane[1], stride[1]) == 0;
    case GST_VIDEO_FORMAT_NV12:
    case GST_VIDEO_FORMAT_NV21:
        return SDL_UpdateNVTexture(texture, NULL, plane[0], stride[0], plane[1], stride[1]) == 0;
    default:
        return SDL_UpdateTexture(texture, NULL, plane[0], stride[0]) == 0;
    }
}

/* The frame may be given back when this returns. */
static bool texture_update(struct texture *texture, struct picture *picture, GstVideoFrame *mapped,
                           struct gpud_error *error)
{
    void *pixels;
    int stride;
    if (texture->converted == GST_VIDEO_FORMAT_UNKNOWN)
        return upload(texture->texture, mapped) || sdl_fail(error, "the picture was not shown", "");
    if (SDL_LockTexture(texture->texture, NULL, &pixels, &stride) != 0)
        return sdl_fail(error, "the picture was not shown", "");
    bool converted =
        picture_convert(picture, mapped, texture->converted, 0, 0, pixels, stride, error);
    SDL_UnlockTexture(texture->texture);
    return converted;
}

/* === overlay ================================================================================= */
/* A text on a dark box in the window's corner. */

struct overlay {
    TTF_Font *font; /* NULL: no font was found, and nothing is drawn */
    SDL_Texture *texture;
    char *text; /* that the texture shows */
    int wrap, size;
};

#define FONT "DejaVu Sans Mono"
#define MARGIN 8

static void overlay_init(struct overlay *overlay)
{
    FcResult result;
    FcChar8 *file;
    *overlay = (struct overlay){0};
    if (TTF_Init() == 0) {
        FcPattern *wanted = FcNameParse((const FcChar8 *)FONT);
        FcConfigSubstitute(NULL, wanted, FcMatchPattern);
        FcDefaultSubstitute(wanted);
        FcPattern *match = FcFontMatch(NULL, wanted, &result);
        if (match && FcPatternGetString(match, FC_FILE, 0, &file) == FcResultMatch)
            overlay->font = TTF_OpenFont((const char *)file, 14);
        if (match)
            FcPatternDestroy(match);
        FcPatternDestroy(wanted);
    }
    if (!overlay->font)
        fprintf(stderr, "gpudirect-view: no font for the overlay (Debian: apt install "
                        "fonts-dejavu-core): the title bar says what it would\n");
}

/* The renderer has lost its textures. */
static void overlay_forget(struct overlay *overlay)
{
    if (overlay->texture)
        SDL_DestroyTexture(overlay->texture);
    overlay->texture = NULL;
    g_clear_pointer(&overlay->text, g_free);
}

/* Draws a text, of lines that are broken where the window ends; "" draws nothing. */
static void overlay_draw(struct overlay *overlay, SDL_Renderer *renderer, const char *text,
                         int width, int size)
{
    SDL_Rect box = {.x = MARGIN, .y = MARGIN};
    int wrap = MAX(width - 4 * MARGIN, 10 * size);
    if (!overlay->font || !text[0])
        return;
    if (wrap != overlay->wrap || size != overlay->size || g_strcmp0(text, overlay->text) != 0) {
        overlay_forget(overlay);
        if (overlay->size != size)
            TTF_SetFontSize(overlay->font, size);
        SDL_Surface *surface = TTF_RenderUTF8_Blended_Wrapped(
            overlay->font, text, (SDL_Color){255, 255, 255, 255}, (Uint32)wrap);
        overlay->texture = surface ? SDL_CreateTextureFromSurface(renderer, surface) : NULL;
        SDL_FreeSurface(surface);
        overlay->text = g_strdup(text);
        overlay->wrap = wrap;
        overlay->size = size;
    }
    if (!overlay->texture || SDL_QueryTexture(overlay->texture, NULL, NULL, &box.w, &box.h) != 0)
        return;
    SDL_Rect back = {box.x, box.y, box.w + 2 * MARGIN, box.h + 2 * MARGIN};
    SDL_SetRenderDrawBlendMode(renderer, SDL_BLENDMODE_BLEND);
    SDL_SetRenderDrawColor(renderer, 0, 0, 0, 160);
    SDL_RenderFillRect(renderer, &back);
    box.x += MARGIN;
    box.y += MARGIN;
    SDL_RenderCopy(renderer, overlay->texture, NULL, &box);
}

/* === status ================================================================================== */
/* What the overlay says of the stream. */

struct status {
    uint64_t since_ns, frames;  /* the period that is being counted, and its received frames */
    uint64_t shown, age_sum_ns; /* pictures shown in it whose age is known */
    double rate;                /* frames a second in the period before; negative: not known */
    int64_t age_ns;             /* mean age in the period before; negative: not known */
};

#define PERIOD (GPUD_SEC / 2)

static void status_begin(struct status *status, const struct source *source, uint64_t now_ns)
{
    status->since_ns = now_ns;
    status->frames = source->frames;
    status->shown = status->age_sum_ns = 0;
}

/* Appends the lines about a stream that is connected. */
static void status_describe(const struct status *status, const struct source *source,
                            bool converted, GString *text)
{
    const struct gpud_picture *picture = &source->media.picture;
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(source->receiver, &info);
    g_string_append_printf(text, "%s %u × %u", picture->layout.format, picture->layout.width,
                           picture->layout.height);
    if (picture->rate.num && picture->rate.den)
        g_string_append_printf(text, ", %.5g/s",
                               (double)picture->rate.num / (double)picture->rate.den);
    g_string_append_printf(text, ", on %s%s\n", source->device,
                           converted ? "; converted by the CPU" : "");
    g_string_append_printf(text, "path %s%s%s\n", info.path,
                           info.fallback_reason[0] ? "; not better, because " : "",
                           info.fallback_reason);
    if (status->rate >= 0)
        g_string_append_printf(text, "%.1f frames/s, ", status->rate);
    if (status->age_ns >= 0)
        g_string_append_printf(text, "age %.1f ms, ", (double)status->age_ns / 1e6);
    g_string_append_printf(text, "%" PRIu64 " dropped, %" PRIu64 " skipped", info.dropped,
                           source->skipped);
}

/* === window ================================================================================== */
/* Shows the channel in a window until that is closed. */

#define WIDTH 960
#define HEIGHT 540
/* The longest that a key waits while no frame comes. */
#define TURN (10 * GPUD_MSEC)
/* The longest that a connection is waited for beside the window's opening, which ends that wait. */
#define OPENING (10 * GPUD_SEC)
/* Between two tries to connect that are refused at once. */
#define RETRY_MS 200
#define MESSAGE_TIME (4 * (uint64_t)GPUD_SEC)
/* Without a frame for so long the overlay says so. */
#define STALLED (2 * (uint64_t)GPUD_SEC)

struct window {
    struct source *source;
    const struct options *options;
    SDL_Window *window;
    SDL_Renderer *renderer;
    struct overlay overlay;
    struct status status;
    struct picture picture;
    struct texture texture;
    struct gpud_frame *first; /* arrived while the window was opened; NULL: none */
    uint32_t formats;         /* of the source, when picture was made */
    bool has_picture, live, sized, hidden_info, full_screen, quit, redraw;
    bool screenshot;               /* of the next frame */
    char waiting[GPUD_REASON_MAX]; /* why no picture comes, or the last one was not shown */
    char *message;
    uint64_t message_until, last_frame_ns;
    GString *text;
};

static uint64_t window_now(void)
{
    return (uint64_t)clock_now();
}

/* --- what the overlay says ------------------------------------------------------------------- */

static void say(struct window *self, char *message)
{
    g_free(self->message);
    self->message = message;
    self->message_until = window_now() + MESSAGE_TIME;
    self->redraw = true;
}

/* The largest rectangle of the picture's shape, in the middle. */
static SDL_Rect fit(int width, int height, double aspect)
{
    SDL_Rect area = {0, 0, width, height};
    if (width > height * aspect)
        area.w = MAX(1, (int)(height * aspect + 0.5));
    else
        area.h = MAX(1, (int)(width / aspect + 0.5));
    area.x = (width - area.w) / 2;
    area.y = (height - area.h) / 2;
    return area;
}

/* What the overlay says. */
static void window_describe(struct window *self, uint64_t time)
{
    GString *text = self->text;
    g_string_truncate(text, 0);
    if (!self->live) {
        g_string_append_printf(text, "%s: waiting\n%s", self->options->address, self->waiting);
    } else if (self->waiting[0]) {
        g_string_append_printf(text, "%s: %s", self->options->address, self->waiting);
    } else if (time - self->last_frame_ns > STALLED) {
        g_string_append_printf(text, "%s: no frame for %" PRIu64 " s", self->options->address,
                               (time - self->last_frame_ns) / (uint64_t)GPUD_SEC);
    } else if (!self->hidden_info) {
        g_string_append_printf(text, "%s: ", self->options->address);
        status_describe(&self->status, self->source,
                        self->texture.converted != GST_VIDEO_FORMAT_UNKNOWN, text);
    }
    if (self->message && time < self->message_until)
        g_string_append_printf(text, "%s%s", text->len ? "\n" : "", self->message);
    /* Reasons and names come from peers. */
    char *valid = g_utf8_make_valid(text->str, (gssize)text->len);
    for (char *c = valid; *c; c++)
        if (g_ascii_iscntrl(*c) && *c != '\n')
            *c = ' ';
    g_string_assign(text, valid);
    g_free(valid);
}

static void draw(struct window *self)
{
    int width = 1, height = 1, points = 1;
    SDL_GetRendererOutputSize(self->renderer, &width, &height);
    SDL_GetWindowSize(self->window, &points, NULL);
    SDL_SetRenderDrawColor(self->renderer, 0, 0, 0, 255);
    SDL_RenderClear(self->renderer);
    if (self->has_picture) {
        SDL_Rect area = fit(width, height, self->picture.aspect);
        Uint8 light = self->live ? 255 : 90; /* an old picture is not taken for a live one */
        SDL_SetTextureColorMod(self->texture.texture, light, light, light);
        SDL_RenderCopy(self->renderer, self->texture.texture, NULL, &area);
    }
    window_describe(self, window_now());
    char *title = g_strdup_printf("%s%s - gpudirect-view", self->options->address,
                                  self->live ? "" : " (waiting)");
    if (g_strcmp0(SDL_GetWindowTitle(self->window), title) != 0)
        SDL_SetWindowTitle(self->window, title);
    g_free(title);
    overlay_draw(&self->overlay, self->renderer, self->text->str, width,
                 14 * MAX(1, width / MAX(1, points)));
    SDL_RenderPresent(self->renderer);
    self->redraw = false;
}

/* --- frames ---------------------------------------------------------------------------------- */

static void forget_picture(struct window *self)
{
    if (self->texture.texture)
        SDL_DestroyTexture(self->texture.texture);
    self->texture.texture = NULL;
    picture_finish(&self->picture);
    self->picture.info.finfo = NULL;
    self->has_picture = false;
}

/* The window gets the first picture's size, as far as the display has room for it. */
static void size_window(struct window *self)
{
    const GstVideoInfo *info = &self->picture.info;
    SDL_Rect room = {0, 0, WIDTH, HEIGHT};
    if (self->sized || self->full_screen)
        return;
    self->sized = true;
    SDL_GetDisplayUsableBounds(MAX(0, SDL_GetWindowDisplayIndex(self->window)), &room);
    int rows = MAX(1, (int)(info->width / self->picture.aspect + 0.5));
    SDL_Rect area = {0, 0, info->width, rows};
    if (area.w > room.w * 0.9 || area.h > room.h * 0.9)
        area = fit((int)(room.w * 0.9), (int)(room.h * 0.9), self->picture.aspect);
    SDL_SetWindowSize(self->window, area.w, area.h);
    SDL_SetWindowPosition(self->window, room.x + (room.w - area.w) / 2,
                          room.y + (room.h - area.h) / 2);
}

static bool window_take_frame(struct window *self, struct gpud_frame *frame,
                              struct gpud_error *error)
{
    GstVideoFrame mapped;
    if (self->formats != self->source->formats || !self->texture.texture) {
        forget_picture(self);
        self->formats = self->source->formats;
        if (!picture_init(&self->picture, &self->source->media, error))
            return false;
        if (!texture_init(&self->texture, self->renderer, &self->picture, error)) {
            picture_finish(&self->picture);
            return false;
        }
        size_window(self);
    }
    if (!picture_map(&self->picture, frame, &mapped, error))
        return false;
    bool shown = texture_update(&self->texture, &self->picture, &mapped, error);
    if (self->screenshot)
        say(self, screenshot_take(&self->picture, &mapped, self->options->address));
    self->screenshot = false;
    picture_unmap(frame, &mapped);
    return shown;
}

static void window_show(struct window *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_error error;
    stages_end(STAGE_FRAME);
    gpud_frame_get_info(frame, &info);
    self->last_frame_ns = window_now();
    self->live = true;
    self->waiting[0] = '\0';
    if (window_take_frame(self, frame, &error))
        self->has_picture = true;
    else
        g_strlcpy(self->waiting, error.reason, sizeof(self->waiting));
    gpud_frame_release(&frame); /* before the display's turn is waited for */
    draw(self);
    if (self->has_picture) {
        stages_end(STAGE_PICTURE);
        self->quit = self->quit || self->options->one_picture;
    }
    uint64_t shown = window_now();
    if (!self->waiting[0] && info.submitted_ns != 0 && info.submitted_ns <= shown) {
        self->status.shown++;
        self->status.age_sum_ns += shown - info.submitted_ns;
    }
}

/* No frame came. A sender that is still there may only have stopped to send. */
static void look_for_sender(struct window *self, enum gpud_status status,
                            const struct gpud_error *error)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(self->source->receiver, &info);
    if (self->live && info.connected && status == GPUD_TIMEOUT)
        return;
    self->redraw = self->redraw || self->live || strcmp(self->waiting, error->reason) != 0;
    self->live = false;
    g_strlcpy(self->waiting, error->reason, sizeof(self->waiting));
    if (status != GPUD_TIMEOUT)
        SDL_WaitEventTimeout(NULL, RETRY_MS);
}

/* --- keys ------------------------------------------------------------------------------------ */

static void press(struct window *self, SDL_Keycode key)
{
    if (key == SDLK_q || key == SDLK_ESCAPE) {
        self->quit = true;
    } else if (key == SDLK_i) {
        self->hidden_info = !self->hidden_info;
    } else if (key == SDLK_s) {
        if (self->live)
            self->screenshot = true;
        else
            say(self, g_strdup("no picture comes that could be saved"));
    } else if (key == SDLK_f) {
        self->full_screen = !self->full_screen;
        SDL_SetWindowFullscreen(self->window,
                                self->full_screen ? SDL_WINDOW_FULLSCREEN_DESKTOP : 0);
    }
    self->redraw = true;
}

/* --- the window ------------------------------------------------------------------------------ */

#define HINT " (--png FILE saves a picture without a display)"

static bool open_window(struct window *self, struct gpud_error *error)
{
    /* Hidden at first: for its renderer SDL destroys the window and makes another one. */
    Uint32 flags = SDL_WINDOW_HIDDEN | SDL_WINDOW_RESIZABLE | SDL_WINDOW_ALLOW_HIGHDPI |
                   (self->full_screen ? SDL_WINDOW_FULLSCREEN_DESKTOP : 0);
    SDL_SetHint(SDL_HINT_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR, "0");
    if (SDL_Init(SDL_INIT_VIDEO) != 0)
        return sdl_fail(error, "there is no display", HINT);
    stages_end(STAGE_DISPLAY);
    /* Without a display SDL falls back to a window that cannot be seen. */
    if (strcmp(SDL_GetCurrentVideoDriver(), "offscreen") == 0 && !SDL_GetHint("SDL_VIDEODRIVER")) {
        SDL_SetError("neither DISPLAY nor WAYLAND_DISPLAY leads to one");
        return sdl_fail(error, "there is no display", HINT);
    }
    self->window = SDL_CreateWindow(self->options->address, SDL_WINDOWPOS_CENTERED,
                                    SDL_WINDOWPOS_CENTERED, WIDTH, HEIGHT, flags);
    if (!self->window)
        return sdl_fail(error, "there is no window", HINT);
    stages_end(STAGE_WINDOW);
    self->renderer = SDL_CreateRenderer(self->window, -1, SDL_RENDERER_PRESENTVSYNC);
    if (!self->renderer)
        return sdl_fail(error, "nothing can be drawn", HINT);
    SDL_ShowWindow(self->window);
    stages_end(STAGE_RENDERER);
    return true;
}

/* What needs no window, meanwhile. */
static gpointer connect_meanwhile(gpointer user)
{
    struct window *self = user;
    overlay_init(&self->overlay);
    stages_end(STAGE_FONT);
    if (source_acquire(self->source, OPENING, &self->first, NULL) == GPUD_OK)
        stages_end(STAGE_FRAME);
    return NULL;
}

/* The first frame is shown unless a newer one is here. */
static enum gpud_status window_acquire(struct window *self, struct gpud_frame **frame,
                                       struct gpud_error *error)
{
    if (!self->first)
        return source_acquire(self->source, TURN, frame, error);
    if (source_acquire(self->source, 0, frame, NULL) == GPUD_OK) {
        gpud_frame_release(&self->first);
        self->source->skipped++;
    } else {
        *frame = g_steal_pointer(&self->first);
    }
    return GPUD_OK;
}

static void turn(struct window *self)
{
    struct gpud_frame *frame;
    struct gpud_error error;
    SDL_Event event;
    while (SDL_PollEvent(&event)) {
        if (event.type == SDL_QUIT) { /* also of Ctrl-C */
            self->quit = true;
        } else if (event.type == SDL_KEYDOWN && !event.key.repeat) {
            press(self, event.key.keysym.sym);
        } else if (event.type == SDL_WINDOWEVENT) {
            self->redraw = true;
        } else if (event.type == SDL_RENDER_DEVICE_RESET) {
            forget_picture(self);
            overlay_forget(&self->overlay);
            self->redraw = true;
        }
    }
    enum gpud_status status = window_acquire(self, &frame, &error);
    if (status == GPUD_OK)
        window_show(self, frame);
    else
        look_for_sender(self, status, &error);
    uint64_t now = window_now(), passed = now - self->status.since_ns;
    if (passed >= (uint64_t)PERIOD) {
        struct status *period = &self->status;
        period->rate = (double)(self->source->frames - period->frames) * 1e9 / (double)passed;
        period->age_ns = period->shown ? (int64_t)(period->age_sum_ns / period->shown) : -1;
        status_begin(period, self->source, now);
    }
    if (self->redraw || passed >= (uint64_t)PERIOD)
        draw(self);
}

/* False: error says why there is no window, or, with GPUD_TIMEOUT, no picture in time. */
static bool window_run(struct source *source, const struct options *options,
                       struct gpud_error *error)
{
    struct window self = {
        .source = source, .options = options, .full_screen = options->full_screen, .redraw = true};
    self.text = g_string_new(NULL);
    uint64_t begun = window_now();
    self.status = (struct status){.rate = -1, .age_ns = -1};
    status_begin(&self.status, source, begun);
    /* Opening the display is the slowest step before the first picture, so another thread does it
     * meanwhile. */
    GThread *thread = g_thread_new("connect", connect_meanwhile, &self);
    bool goes_on = open_window(&self, error);
    gpud_receiver_interrupt(source->receiver, true);
    g_thread_join(thread);
    gpud_receiver_interrupt(source->receiver, false);
    while (goes_on && !self.quit) {
        turn(&self);
        int64_t patience = patience_ns(options);
        if (self.has_picture || self.quit || !options->one_picture ||
            window_now() - begun < (uint64_t)patience)
            continue;
        *error = (struct gpud_error){.status = GPUD_TIMEOUT};
        g_snprintf(error->reason, sizeof(error->reason),
                   "no picture in %g s: %s (--timeout SECONDS waits longer)",
                   (double)patience / 1e9,
                   self.waiting[0] ? self.waiting : "the display has not shown one");
        goes_on = false;
    }
    gpud_frame_release(&self.first);
    forget_picture(&self);
    overlay_forget(&self.overlay);
    if (self.overlay.font)
        TTF_CloseFont(self.overlay.font);
    if (TTF_WasInit())
        TTF_Quit();
    if (self.renderer)
        SDL_DestroyRenderer(self.renderer);
    if (self.window)
        SDL_DestroyWindow(self.window);
    SDL_Quit();
    g_string_free(self.text, TRUE);
    g_free(self.message);
    return goes_on;
}

/* === main ==================================================================================== */
/* gpudirect-view: shows a channel in a window, or saves a picture of it. */

#define EXIT_USAGE 2
#define EXIT_TIMEOUT 3
#define TIMEOUT_MAX 86400.0

static const char summary[] =
    "Shows a channel of pictures in a window. It waits for a sender, and again after that has\n"
    "left; a slow display never makes the sender or other receivers wait.\n"
    "With --png: saves the next frame, and needs no display.";

static const char description[] =
    "ADDRESS is a sender's, as gpudirectsrc takes it: cam1, unix:/run/studio/cam1,\n"
    "tcp://10.0.0.1:7175/cam1.\n"
    "\n"
    "Keys:\n"
    "  i        show or hide the overlay: format, path and why there is no better one, frames a\n"
    "           second, the age of a picture when it is shown, frames lost at the sender "
    "(dropped)\n"
    "           and here (skipped, for a newer one)\n"
    "  s        save the next frame as a PNG file in the current folder\n"
    "  f        full screen\n"
    "  q, Esc   quit\n"
    "\n"
    "Formats that the display's driver takes are handed to it as they are; all others of\n"
    "GStreamer's raw formats are converted by the CPU. Pictures of a high dynamic range are not\n"
    "mapped to that of the display.\n"
    "\n"
    "Environment:\n"
    "  GPUDIRECT_LOG       error, warning, info or debug: the library's messages\n"
    "  SDL_VIDEODRIVER     x11 or wayland; SDL_RENDER_DRIVER: opengl, opengles2 or software\n"
    "\n"
    "Exit status: 0 success, also after Ctrl-C; 1 failure; 2 wrong usage; 3 with --png or\n"
    "--start-times: no frame in time.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-view cam1\n"
    "  gpudirect-view --start-times cam1\n"
    "  gpudirect-view --png cam1.png --timeout 5 tcp://10.0.0.1:7175 --psk-file KEY";

/* What is wrong with the options; NULL: nothing. */
static const char *find_mistake(const struct options *options, int arguments)
{
    if (arguments != 1)
        return "there is one argument, the address of a sender, such as cam1";
    if (options->timeout >= 0 && !options->png && !options->start_times && !options->one_picture)
        return "--timeout goes with --png or --start-times";
    if (options->start_times && options->png)
        return "--start-times does not go with --png";
    if (options->full_screen && options->png)
        return "--full-screen does not go with --png";
    return NULL;
}

static int main_run(const struct options *options)
{
    struct source source;
    struct gpud_error error;
    enum gpud_status status;
    stages_end(STAGE_PROCESS);
    picture_start();
    stages_end(STAGE_GSTREAMER);
    if (!source_open(&source, options, &error)) {
        fprintf(stderr, "gpudirect-view: %s\n", error.reason);
        return error.status == GPUD_INVALID ? EXIT_USAGE : EXIT_FAILURE;
    }
    stages_end(STAGE_RECEIVER);
    if (options->png)
        status = headless_save(&source, options->png, patience_ns(options), &error);
    else
        status = window_run(&source, options, &error) ? GPUD_OK : error.status;
    gpud_receiver_destroy(&source.receiver);
    gpud_context_destroy(&source.context);
    if (options->one_picture) { /* what was noted, for stages_measure() */
        for (int i = 0; i < STAGES && ended[STAGE_PICTURE]; i++)
            printf("%" PRId64 "\n", ended[i]);
        fflush(stdout);
    }
    if (status == GPUD_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gpudirect-view: %s\n", error.reason);
    return status == GPUD_TIMEOUT ? EXIT_TIMEOUT : EXIT_FAILURE;
}

static int measure_start(const struct options *options)
{
    char timeout[32];
    g_snprintf(timeout, sizeof(timeout), "%g", (double)patience_ns(options) / 1e9);
    const struct {
        const char *name, *value;
    } given[] = {
        {"--access", options->access},
        {"--psk-file", options->psk_file},
        {"--tls-certificate", options->tls_certificate},
        {"--tls-key", options->tls_key},
        {"--tls-ca", options->tls_ca},
    };
    const char *arguments[6 + 2 * G_N_ELEMENTS(given)] = {"/proc/self/exe", "--one-picture",
                                                          "--timeout", timeout};
    int count = 4;
    for (size_t i = 0; i < G_N_ELEMENTS(given); i++)
        if (given[i].value) {
            arguments[count++] = given[i].name;
            arguments[count++] = given[i].value;
        }
    arguments[count] = options->address;
    return stages_measure(arguments);
}

static gboolean parse_timeout(const gchar *name, const gchar *value, gpointer data, GError **error)
{
    struct options *options = data;
    char *end;
    options->timeout = g_ascii_strtod(value, &end);
    if (end != value && !*end && options->timeout >= 0 && options->timeout <= TIMEOUT_MAX)
        return TRUE;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--timeout takes a number of seconds up to 86400, not \"%s\"", value);
    return FALSE;
}

int main(int argc, char **argv)
{
    struct options options = {.timeout = -1};
    const GOptionEntry entries[] = {
        {"png", 0, 0, G_OPTION_ARG_FILENAME, &options.png, "Save the next frame in FILE and exit",
         "FILE"},
        {"timeout", 0, 0, G_OPTION_ARG_CALLBACK, parse_timeout,
         "With --png or --start-times: how long to wait for a frame (default: 10)", "SECONDS"},
        {"full-screen", 0, 0, G_OPTION_ARG_NONE, &options.full_screen, "Begin with the full screen",
         NULL},
        {"access", 0, 0, G_OPTION_ARG_STRING, &options.access,
         "Whose sender it may be: user (default: this user), group:NAME, all", "WHO"},
        {"psk-file", 0, 0, G_OPTION_ARG_FILENAME, &options.psk_file,
         "The sender's key, for an address over a network", "FILE"},
        {"tls-certificate", 0, 0, G_OPTION_ARG_FILENAME, &options.tls_certificate,
         "For an address tcp://, instead of a key: the viewer's certificate", "FILE"},
        {"tls-key", 0, 0, G_OPTION_ARG_FILENAME, &options.tls_key, "The certificate's private key",
         "FILE"},
        {"tls-ca", 0, 0, G_OPTION_ARG_FILENAME, &options.tls_ca,
         "The authorities that the sender's certificate must be from", "FILE"},
        {"start-times", 0, 0, G_OPTION_ARG_NONE, &options.start_times,
         "Open the window five times, beside a sender, and print where the time goes", NULL},
        {"one-picture", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &options.one_picture,
         "Quit with the first picture, and print when each stage ended", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &options.version, "Print the version and exit", NULL},
        {NULL},
    };
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    GOptionContext *context = g_option_context_new("ADDRESS — shows a channel");
    GOptionGroup *group = g_option_group_new("", "", "", &options, NULL);
    g_option_group_add_entries(group, entries);
    g_option_context_set_main_group(context, group);
    g_option_context_set_summary(context, summary);
    g_option_context_set_description(context, description);
    GError *wrong = NULL;
    bool parsed = g_option_context_parse(context, &argc, &argv, &wrong);
    g_option_context_free(context);
    options.address = argc > 1 ? argv[1] : NULL;
    const char *mistake = !parsed           ? wrong->message
                          : options.version ? NULL
                                            : find_mistake(&options, argc - 1);
    int result = EXIT_SUCCESS;
    if (mistake) {
        fprintf(stderr, "gpudirect-view: %s (see --help)\n", mistake);
        result = EXIT_USAGE;
    } else if (options.version) {
        printf("gpudirect-view %s\n", gpud_version_string());
    } else if (options.start_times) {
        result = measure_start(&options);
    } else {
        result = main_run(&options);
    }
    g_clear_error(&wrong);
    g_free(options.png);
    g_free(options.access);
    g_free(options.psk_file);
    g_free(options.tls_certificate);
    g_free(options.tls_key);
    g_free(options.tls_ca);
    return result;
}

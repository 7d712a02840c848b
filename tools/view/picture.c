/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One picture of a channel: received, written as PNG. */
#include "view.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

/* === source ================================================================================== */

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

bool source_open(struct source *source, const struct source_options *options,
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

void source_close(struct source *source)
{
    gpud_receiver_destroy(&source->receiver);
    gpud_context_destroy(&source->context);
}

enum gpud_status source_acquire(struct source *source, int64_t timeout_ns,
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

bool png_write(struct picture *picture, GstVideoFrame *mapped, const char *file, bool exclusive,
               struct gpud_error *error)
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

#define FILES_MAX 100 /* of one second */

/* The last part of an address, as a file's name. */
static char *screenshot_name_of(const char *address)
{
    const char *slash = strrchr(address, '/');
    char *name = g_strdup(slash && slash[1] ? slash + 1 : address);
    return g_strcanon(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-", '-');
}

char *screenshot_take(struct picture *picture, GstVideoFrame *mapped, const char *address)
{
    struct gpud_error error;
    GDateTime *now = g_date_time_new_now_local();
    char *time = g_date_time_format(now, "%Y%m%d-%H%M%S");
    char *name = screenshot_name_of(address);
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

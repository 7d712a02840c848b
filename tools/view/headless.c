/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "headless.h"

#include "pngfile.h"

#include <time.h>

/* Between two tries to connect that are refused at once. */
#define RETRY (200 * GPUD_MSEC)

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * GPUD_SEC + time.tv_nsec;
}

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

static bool is_whole(const struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    return !(info.flags & GPUD_FRAME_CORRUPTED);
}

enum gpud_status headless_save(struct source *source, const char *file, int64_t timeout_ns,
                               struct gpud_error *error)
{
    int64_t end = now() + timeout_ns;
    bool first = true;
    for (int64_t left = timeout_ns; first || left > 0; left = end - now(), first = false) {
        struct gpud_frame *frame;
        enum gpud_status status = source_acquire(source, left, &frame, error);
        if (status == GPUD_OK && is_whole(frame)) {
            bool saved = save(source, frame, file, error);
            gpud_frame_release(&frame);
            return saved ? GPUD_OK : error->status;
        }
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        else if (status != GPUD_TIMEOUT) /* the next sender may do better */
            nanosleep(&(struct timespec){.tv_nsec = RETRY}, NULL);
    }
    return GPUD_TIMEOUT;
}

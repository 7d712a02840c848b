/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "view.h"

#include "support/make.h"
#include "support/picture.h"

#include <stdio.h>

#define WRONG(view, ...)                                                 \
    do {                                                                 \
        if (!(view)->wrong[0])                                           \
            snprintf((view)->wrong, sizeof((view)->wrong), __VA_ARGS__); \
    } while (0)

/* I3: the bytes are right, or the frame is flagged. */
static void check_bytes(struct view *view, struct gpud_frame *frame)
{
    struct gpud_error error = {.reason = ""};
    uint32_t plane, row, byte;
    void *data;
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, 10 * GPUD_SEC, &data, &error);
    struct gpud_frame_info info = INFO(frame, frame);
    unsigned long long sequence = info.sequence;
    bool flagged = info.flags & GPUD_FRAME_CORRUPTED;
    if (status != GPUD_OK) {
        if (status == GPUD_PEER && flagged)
            view->corrupted++;
        else
            WRONG(view, "I3: frame %llu cannot be mapped: %.150s", sequence, error.reason);
        return;
    }
    if (!flagged && !picture_check(&info.layout, data, info.offset, &plane, &row, &byte))
        WRONG(view,
              "I3: frame %llu (picture %llu, %ux%u, %s) is wrong in plane %u, row %u, byte %u",
              sequence, (unsigned long long)info.offset, info.layout.width, info.layout.height,
              frame == view->held ? "held" : "new", plane, row, byte);
    view->corrupted += flagged;
    gpud_frame_unmap(frame);
}

static void check_order(struct view *view, const struct gpud_frame_info *info)
{
    unsigned long long now = info->sequence, before = view->sequence;
    unsigned long long reported = info->dropped - view->dropped;
    if (view->linked && now <= before)
        WRONG(view, "I1: frame %llu came after frame %llu", now, before);
    else if (view->linked && now - before - 1 != reported)
        WRONG(view, "I2: frame %llu came after frame %llu, and %llu drops were reported", now,
              before, reported);
    else if (info->dropped < view->dropped)
        WRONG(view, "I2: drops are counted down from %llu to %llu",
              (unsigned long long)view->dropped, (unsigned long long)info->dropped);
    if (!view->linked && !(info->flags & GPUD_FRAME_DISCONTINUITY))
        WRONG(view, "frame %llu is the first of a link, and no discontinuity", now);
    view->linked = true;
    view->sequence = info->sequence;
    view->dropped = info->dropped;
    view->number = info->offset;
    view->frames++;
}

static void use_by_stream(struct view *view, struct gpud_frame *frame)
{
    struct gpud_error error = {.reason = ""};
    if (gpud_frame_wait(frame, view->gpu->stream, &error) != GPUD_OK)
        WRONG(view, "a stream cannot wait for a frame: %.150s", error.reason);
    gpu_take(view->gpu, frame, (unsigned)view->frames);
    if (gpud_frame_post(frame, view->gpu->stream, &error) != GPUD_OK)
        WRONG(view, "a stream cannot hand a frame back: %.150s", error.reason);
    gpud_frame_release(&frame);
}

void view_take(struct view *view, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    check_order(view, &info);
    if (view->gpu && (view->all_by_stream || view->frames % 2)) {
        use_by_stream(view, frame);
        return;
    }
    check_bytes(view, frame);
    if (view->held)
        check_bytes(view, view->held);
    gpud_frame_release(&view->held);
    view->held = frame;
}

void view_end_link(struct view *view)
{
    view->linked = false;
}

void view_finish(struct view *view)
{
    if (view->held)
        check_bytes(view, view->held);
    gpud_frame_release(&view->held);
}

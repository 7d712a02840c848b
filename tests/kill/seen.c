/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kill.h"
#include "support/picture.h"

/* The first thing that must not be. */
#define WRONG(view, ...)                                                 \
    do {                                                                 \
        if (!(view)->wrong[0])                                           \
            snprintf((view)->wrong, sizeof((view)->wrong), __VA_ARGS__); \
    } while (0)

/* --- the senders' side ------------------------------------------------------------------------ */

uint64_t programme_place(const struct child_orders *orders, uint64_t number)
{
    return orders->sound ? number * PROGRAMME_BLOCK + (orders->backup ? PROGRAMME_BLOCK / 2 : 0)
                         : number;
}

static struct gpud_frame *wrap_foreign(struct gpud_device *host, const struct gpud_layout *layout)
{
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    WORKS(gpud_memory_alloc(host, layout->size, GPUD_MEMORY_PLAIN, &memory, &e));
    WORKS(gpud_frame_wrap(memory, 0, layout, &frame, &e));
    gpud_memory_unref(&memory);
    return frame;
}

void programme_send(struct gpud_sender *sender, struct gpud_device *host,
                    const struct child_orders *orders, const struct child_format *format,
                    uint64_t number, bool jumps)
{
    uint64_t place = programme_place(orders, number);
    struct gpud_frame *frame =
        number % 3 ? ACQUIRE_SLOT(sender, 60 * GPUD_SEC) : wrap_foreign(host, &format->layout);
    frame_write(frame, &format->layout, place);
    struct gpud_frame_info info = INFO(frame, frame);
    info.pts_ns =
        orders->sound ? place * GPUD_SEC / PROGRAMME_RATE : number * (uint64_t)CHILD_INSTANT;
    info.duration_ns = CHILD_INSTANT;
    info.flags |= jumps ? GPUD_FRAME_DISCONTINUITY : 0;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    WORKS(gpud_sender_submit(sender, &frame, 60 * GPUD_SEC, &e));
}

/* --- the group's ------------------------------------------------------------------------------ */

static void on_event(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    struct pair *pair = user;
    if (event != GPUD_EVENT_CONNECTED ||
        ((const struct gpud_peer_info *)data)->pid == pair->members[member].pid)
        return;
    pair->members[member].pid = ((const struct gpud_peer_info *)data)->pid;
    pair->members[member].epoch = 0;
}

void pair_open(struct pair *pair, struct gpud_context *context)
{
    for (int i = 0; i < 2; i++) {
        struct child_orders orders = {.backup = i == BACKUP};
        pair->receivers[i] = NEW_RECEIVER(context, .address = child_address(&orders));
        pair->members[i].epoch = 0;
    }
    pair->group = NEW_GROUP(context, pair->receivers, 2, .mode = GPUD_GROUP_ANY,
                            .on_event = on_event, .user = pair);
    pair->begun = false;
    pair->of_main = pair->by_main = 0;
}

void pair_close(struct pair *pair)
{
    gpud_group_destroy(&pair->group);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&pair->receivers[i]);
}

/* I1, I2. Since the member's last frame only what its sender says it dropped may be missing: the
 * group has had all others. */
static void check_place(struct pair *pair, const struct gpud_group_instant *got,
                        const struct gpud_frame_info *info)
{
    uint32_t member = got->member;
    const char *who = member == MAIN ? "main" : "backup";
    const char *what = pair->sound ? "sample" : "picture";
    unsigned long long one = pair->sound ? PROGRAMME_BLOCK : 1;
    unsigned long long now = info->offset + got->skip, due = pair->place, gap = now - due;
    bool known = pair->members[member].epoch == info->epoch;
    unsigned long long dropped = info->dropped - pair->members[member].dropped;
    if (pair->begun && now < due)
        WRONG(pair, "I1: %s %llu of the %s where %llu is due", what, now, who, due);
    else if (pair->begun && gap && known && gap > dropped * one)
        WRONG(pair, "I2: %s %llu of the %s where %llu is due, and it dropped %llu", what, now, who,
              due, dropped * one);
    else if (pair->begun && (gap > 0) != got->discontinuity)
        WRONG(pair, "I2: %s %llu of the %s where %llu is due is %s discontinuity", what, now, who,
              due, got->discontinuity ? "a" : "no");
    if (pair->begun)
        pair->missing += gap;
    pair->members[member].epoch = info->epoch;
    pair->members[member].dropped = info->dropped;
    pair->begun = true;
    pair->place = info->offset + one;
    pair->last = pair->place / one - 1;
    pair->of_main = member == MAIN ? pair->of_main + 1 : 0;
    pair->by_main += member == MAIN;
}

/* I3 */
static void check_instant(struct pair *pair, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    uint32_t plane, row, byte;
    if (info.flags & GPUD_FRAME_CORRUPTED) {
        pair->corrupted++;
        return;
    }
    void *data = MAP_FRAME(frame, GPUD_READ, 10 * GPUD_SEC);
    if (!picture_check(&info.layout, data, info.offset, &plane, &row, &byte))
        WRONG(pair, "I3: the frame at %llu is wrong in plane %u, row %u, byte %u",
              (unsigned long long)info.offset, plane, row, byte);
    gpud_frame_unmap(frame);
}

int pair_take(struct pair *pair, int64_t timeout_ns)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_group_acquire(pair->group, NULL, timeout_ns, &got, &error);
    if (status == GPUD_CLOSED)
        pair->begun = false;
    else if (status != GPUD_OK && status != GPUD_TIMEOUT)
        WRONG(pair, "acquire says \"%s\": %.150s", gpud_status_string(status), error.reason);
    if (status != GPUD_OK)
        return -1;
    struct gpud_frame *frame = got.frames[got.member];
    struct gpud_frame_info info = INFO(frame, frame);
    check_place(pair, &got, &info);
    check_instant(pair, frame);
    gpud_frame_release(&got.frames[got.member]);
    return (int)got.member;
}

/* --- a view ----------------------------------------------------------------------------------- */

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

void view_finish(struct view *view)
{
    if (view->held)
        check_bytes(view, view->held);
    gpud_frame_release(&view->held);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "programme.h"

#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"
#include "support/picture.h"

#define WRONG(pair, ...)                                                 \
    do {                                                                 \
        if (!(pair)->wrong[0])                                           \
            snprintf((pair)->wrong, sizeof((pair)->wrong), __VA_ARGS__); \
    } while (0)

/* --- the senders' side ------------------------------------------------------------------------ */

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
                    const struct gpud_layout *layout, uint64_t number)
{
    struct gpud_frame *frame =
        number % 3 ? ACQUIRE_SLOT(sender, 60 * GPUD_SEC) : wrap_foreign(host, layout);
    frame_write(frame, layout, number);
    struct gpud_frame_info info = INFO(frame, frame);
    info.pts_ns = number * CHILD_INSTANT;
    info.duration_ns = CHILD_INSTANT;
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
    struct gpud_group_params params = GPUD_PARAMS_INIT(params);
    params.mode = GPUD_GROUP_ANY;
    params.on_event = on_event;
    params.user = pair;
    for (int i = 0; i < 2; i++) {
        struct child_orders orders = {.backup = i == BACKUP};
        pair->receivers[i] = NEW_RECEIVER(context, .address = child_address(&orders));
        pair->members[i].epoch = 0;
    }
    WORKS(gpud_group_create(context, &params, pair->receivers, 2, &pair->group, &e));
    pair->begun = false;
    pair->of_main = pair->by_main = 0;
}

void pair_close(struct pair *pair)
{
    gpud_group_destroy(&pair->group);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&pair->receivers[i]);
}

/* I1, I2. Since the member's last frame only those pictures may be missing that its sender says it
 * dropped: the group has had all others. */
static void check_order(struct pair *pair, uint32_t member, const struct gpud_frame_info *info,
                        bool discontinuity)
{
    const char *who = member == MAIN ? "main" : "backup";
    unsigned long long now = info->offset, last = pair->last, gap = now - last - 1;
    bool known = pair->members[member].epoch == info->epoch;
    unsigned long long dropped = info->dropped - pair->members[member].dropped;
    if (pair->begun && now <= last)
        WRONG(pair, "I1: picture %llu of the %s after picture %llu", now, who, last);
    else if (pair->begun && gap && known && gap > dropped)
        WRONG(pair, "I2: picture %llu of the %s after picture %llu, and it dropped %llu", now, who,
              last, dropped);
    else if (pair->begun && (gap > 0) != discontinuity)
        WRONG(pair, "I2: picture %llu of the %s after picture %llu is %s discontinuity", now, who,
              last, discontinuity ? "a" : "no");
    if (pair->begun)
        pair->missing += gap;
    pair->members[member].epoch = info->epoch;
    pair->members[member].dropped = info->dropped;
    pair->begun = true;
    pair->last = info->offset;
    pair->of_main = member == MAIN ? pair->of_main + 1 : 0;
    pair->by_main += member == MAIN;
}

/* I3 */
static void check_bytes(struct pair *pair, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    uint32_t plane, row, byte;
    if (info.flags & GPUD_FRAME_CORRUPTED) {
        pair->corrupted++;
        return;
    }
    void *data = MAP_FRAME(frame, GPUD_READ, 10 * GPUD_SEC);
    if (!picture_check(&info.layout, data, info.offset, &plane, &row, &byte))
        WRONG(pair, "I3: picture %llu is wrong in plane %u, row %u, byte %u",
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
    check_order(pair, got.member, &info, got.discontinuity);
    check_bytes(pair, frame);
    gpud_frame_release(&got.frames[got.member]);
    return (int)got.member;
}

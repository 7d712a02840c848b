/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "reader.h"

#include "../stateful.h"
#include "../watch.h"
#include "frame/frame.h"
#include "support/make.h"

/* Short: some waits look at nothing else before they are over. */
#define TIMEOUT (4 * GPUD_MSEC)

/* What a thread needs to know; static, as there are two. */
static struct ends *all;

/* --- pictures --------------------------------------------------------------------------------- */

static uint64_t word_of(uint64_t number, uint64_t place)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15) + place;
}

void reader_write_picture(void *data, uint64_t size, uint64_t number)
{
    uint64_t *words = data;
    for (uint64_t i = 0; i < size / 8; i++)
        words[i] = word_of(number, i);
}

static bool is_picture(const void *data, uint64_t size, uint64_t number)
{
    const uint64_t *words = data;
    for (uint64_t i = 0; i < size / 8; i++)
        if (words[i] != word_of(number, i))
            return false;
    return true;
}

/* Every byte is there, whatever it is. */
static void touch(const void *data, uint64_t size)
{
    volatile uint8_t sum = 0;
    for (uint64_t i = 0; i < size; i += 64)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
    if (size)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[size - 1]);
}

/* --- the honest receiver ---------------------------------------------------------------------- */

static void check_honest(struct ends_reader *reader, struct gpud_frame *frame)
{
    void *data;
    struct gpud_error error = {.reason = ""};
    struct gpud_frame_info info = INFO(frame, frame);
    uint64_t number = reader->last_number + 1;
    if (info.offset != number)
        watch_fail("the honest receiver gets frame %llu after frame %llu",
                   (unsigned long long)info.offset, (unsigned long long)reader->last_number);
    if (reader->last && info.sequence != reader->last + 1)
        watch_fail("the honest receiver's sequence goes from %llu to %llu",
                   (unsigned long long)reader->last, (unsigned long long)info.sequence);
    if (info.dropped || (info.flags & GPUD_FRAME_CORRUPTED))
        watch_fail("the honest receiver's frame %llu: %llu dropped, flags 0x%x",
                   (unsigned long long)number, (unsigned long long)info.dropped, info.flags);
    if (gpud_frame_map(frame, GPUD_READ, 10 * GPUD_SEC, &data, &error) != GPUD_OK)
        watch_fail("the honest receiver cannot see its frame %llu: %s", (unsigned long long)number,
                   error.reason);
    if (!is_picture(data, info.layout.size, number) || info.meta_size != number % 64 ||
        info.large_meta_size != number % 3 * 500)
        watch_fail("the honest receiver's frame %llu holds another picture",
                   (unsigned long long)number);
    gpud_frame_unmap(frame);
    reader->last = info.sequence;
    reader->last_number = number;
}

static void check_end(struct ends_reader *reader)
{
    if (reader->ends == atomic_load(&all->ends_sent))
        watch_fail("the honest receiver gets an EOS that was not sent");
    uint64_t after = all->end_after[reader->ends++];
    if (after != reader->last_number)
        watch_fail("the honest receiver sees the end after frame %llu, which came after %llu",
                   (unsigned long long)reader->last_number, (unsigned long long)after);
}

static void check_event(const struct ends_reader *reader, const struct gpud_user_event *event)
{
    uint64_t after;
    if (event->size != sizeof(after))
        watch_fail("the honest receiver sees an event of %zu bytes", event->size);
    memcpy(&after, event->data, sizeof(after));
    if (after != reader->last_number)
        watch_fail("the honest receiver sees an event after frame %llu, which came after %llu",
                   (unsigned long long)reader->last_number, (unsigned long long)after);
}

/* --- both ------------------------------------------------------------------------------------- */

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct ends_reader *reader = user;
    const struct gpud_format_event *format = data;
    const struct gpud_user_event *message = data;
    switch (event) {
    case GPUD_EVENT_FORMAT:
        reader->told = format->media.picture.layout;
        reader->told_epoch = format->epoch;
        touch(&format->media, sizeof(format->media));
        break;
    case GPUD_EVENT_USER:
        touch(message->data, message->size);
        if (reader->honest)
            check_event(reader, message);
        break;
    case GPUD_EVENT_CONNECTED:
        reader->last = 0;
        break;
    }
}

/* A frame that says nothing else is what the last FORMAT event said. */
static void check_told(const struct ends_reader *reader, struct gpud_frame *frame)
{
    struct gpud_frame_info info = INFO(frame, frame);
    if (info.flags & GPUD_FRAME_CORRUPTED)
        return;
    if (info.epoch != reader->told_epoch || !gpud_layout_equal(&info.layout, &reader->told))
        watch_fail("a frame of epoch %u, %s %ux%u, comes after a FORMAT event for epoch %u, "
                   "\"%s\" %ux%u",
                   info.epoch, info.layout.format, info.layout.width, info.layout.height,
                   reader->told_epoch, reader->told.format, reader->told.width,
                   reader->told.height);
}

static void check_bent(struct ends_reader *reader, struct gpud_frame *frame)
{
    void *data;
    struct gpud_frame_info info = INFO(frame, frame);
    if (info.sequence <= reader->last)
        watch_fail("the bent receiver hands out frame %llu after frame %llu",
                   (unsigned long long)info.sequence, (unsigned long long)reader->last);
    if (info.meta_size > GPUD_FRAME_META_MAX)
        watch_fail("a frame has %u bytes of meta", info.meta_size);
    if (info.large_meta_size > GPUD_LARGE_META_MAX)
        watch_fail("a frame has a large meta of %zu bytes", info.large_meta_size);
    if (info.large_meta_size > 0)
        touch(info.large_meta, info.large_meta_size);
    reader->last = info.sequence;
    gpud_frame_wait_lines(frame, info.layout.height / 2, TIMEOUT, NULL);
    if (gpud_frame_map(frame, GPUD_READ, TIMEOUT, &data, NULL) != GPUD_OK)
        return;
    touch(data, info.layout.size);
    gpud_frame_unmap(frame);
}

static void let_go(struct ends_reader *reader, unsigned keep)
{
    while (reader->held_count > keep) {
        gpud_frame_release(&reader->held[0]);
        reader->held_count--;
        memmove(&reader->held[0], &reader->held[1], reader->held_count * sizeof(reader->held[0]));
    }
}

static void take(struct ends_reader *reader, struct gpud_frame *frame)
{
    check_told(reader, frame);
    if (reader->honest)
        check_honest(reader, frame);
    else
        check_bent(reader, frame);
    reader->held[reader->held_count++] = frame;
    unsigned hold = atomic_load(&reader->hold);
    let_go(reader, hold < ENDS_HOLD_MAX ? hold : ENDS_HOLD_MAX - 1);
    atomic_fetch_add(&reader->frames, 1);
}

static void hurry(struct gpud_receiver *receiver)
{
    bool shakes_hands = reader_shakes_hands(receiver->state);
    int64_t soon = gpud_now() + GPUD_MSEC;
    if (shakes_hands && receiver->deadline > soon + 6 * GPUD_SEC)
        watch_fail("a handshake has no deadline at the receiver, in state %d", receiver->state);
    if (shakes_hands && receiver->deadline > soon)
        receiver->deadline = soon;
}

static void *acquire(void *arg)
{
    struct ends_reader *reader = arg;
    enum watch_caller caller = reader->honest ? WATCH_HONEST : WATCH_BENT;
    const char *name =
        reader->honest ? "the honest receiver's acquire" : "the bent receiver's acquire";
    while (!atomic_load(&reader->stop)) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        if (atomic_load(&reader->hurry))
            hurry(reader->receiver);
        watch_begin(caller, name, TIMEOUT);
        enum gpud_status status = gpud_receiver_acquire(reader->receiver, TIMEOUT, &frame, &error);
        watch_end(caller);
        unsigned before = atomic_load(&reader->state);
        atomic_store(&reader->state, reader->receiver->state);
        atomic_fetch_add(&reader->calls, 1);
        if (status == GPUD_OK)
            take(reader, frame);
        else if (strlen(error.reason) < 10)
            watch_fail("%s fails without a reason", name);
        else if (status == GPUD_AGAIN)
            usleep(500); /* interrupted */
        else if (reader->honest && status == GPUD_CLOSED)
            check_end(reader);
        else if (reader->honest && status != GPUD_TIMEOUT && !atomic_load(&reader->stop))
            watch_fail("the honest receiver is cut off in state %u: %s", before, error.reason);
    }
    return NULL;
}

void reader_start(struct ends_reader *reader, struct ends *ends, struct gpud_context *context,
                  const char *address, uint32_t slots, enum gpud_slow_receiver policy,
                  const char *route)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    all = ends;
    params.address = address;
    params.device = FUZZ_DEVICE;
    params.slots = slots;
    params.slow_receiver = policy;
    params.route = route;
    params.on_event = on_event;
    params.user = reader;
    params.by_lines = true;
    if (gpud_receiver_create(context, &params, &reader->receiver, &error) != GPUD_OK)
        watch_fail("no receiver: %s", error.reason);
    if (pthread_create(&reader->thread, NULL, acquire, reader) != 0)
        abort();
    reader->runs = true;
}

void reader_stop(struct ends_reader *reader)
{
    atomic_store(&reader->stop, true);
    gpud_receiver_interrupt(reader->receiver, true);
    pthread_join(reader->thread, NULL);
    reader->runs = false;
    /* In either order: frames outlive their receiver. */
    if (reader->last & 1)
        let_go(reader, 0);
    gpud_receiver_destroy(&reader->receiver);
    let_go(reader, 0);
}

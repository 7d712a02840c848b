/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "ends.h"

#include "../stateful.h"
#include "../watch.h"
#include "frame/frame.h"
#include "support/make.h"
#include "support/media.h"

/* Short: some waits look at nothing else before they are over. */
#define ACQUIRE_TIMEOUT (4 * GPUD_MSEC)

/* What a thread needs to know; static, as there are two. */
static struct ends *all;

/* --- pictures --------------------------------------------------------------------------------- */

static uint64_t word_of(uint64_t number, uint64_t place)
{
    return (number + 1) * UINT64_C(0x9e3779b97f4a7c15) + place;
}

static void write_words(void *data, uint64_t size, uint64_t number)
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
    case GPUD_EVENT_SWITCHED: /* these stay with their sender, */
    case GPUD_EVENT_REPEATED: /* and are in no group */
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
    gpud_frame_wait_lines(frame, info.layout.height / 2, ACQUIRE_TIMEOUT, NULL);
    if (gpud_frame_map(frame, GPUD_READ, ACQUIRE_TIMEOUT, &data, NULL) != GPUD_OK)
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

/* Whether a receiver in this state waits for what its sender has to say by a deadline. */
static bool reader_shakes_hands(enum gpud_receiver_state state)
{
    return state != GPUD_RECEIVER_OFFLINE && state != GPUD_RECEIVER_IDLE &&
           state != GPUD_RECEIVER_STREAMING;
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
        watch_begin(caller, name, ACQUIRE_TIMEOUT);
        enum gpud_status status =
            gpud_receiver_acquire(reader->receiver, ACQUIRE_TIMEOUT, &frame, &error);
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

static void reader_start(struct ends_reader *reader, struct ends *ends,
                         struct gpud_context *context, const char *address, uint32_t slots,
                         enum gpud_slow_receiver policy, const char *route)
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

/* Ends the thread, gives back what it holds, and destroys the receiver. */
static void reader_stop(struct ends_reader *reader)
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

/* Two, so that memory goes from one side to the other by its handle, not by pointer. */
static struct gpud_context *senders, *receivers;

void ends_prepare(void)
{
    senders = fuzz_context();
    receivers = fuzz_context();
    fuzz_need_device(senders);
    watch_start();
}

/* --- opening ---------------------------------------------------------------------------------- */

void ends_open(struct ends *ends, const char *address, uint32_t slots)
{
    struct gpud_error error = {.reason = ""};
    memset(ends, 0, sizeof(*ends));
    gpud_layout_init(&ends->layout[0], "GRAY8", 64, 32, 0, NULL);
    gpud_layout_init(&ends->layout[1], "GRAY8", 32, 64, 0, NULL);
    gpud_layout_init(&ends->layout[2], "NV12", 32, 32, 0, NULL);
    gpud_layout_init(&ends->layout[3], "UYVY", 64, 48, 0, NULL);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = address;
    params.device = FUZZ_DEVICE;
    params.slots = slots;
    params.slow_receiver = GPUD_SLOW_BLOCK;
    if (gpud_sender_create(senders, &params, &ends->sender, &error) != GPUD_OK)
        watch_fail("no sender: %s", error.reason);
    ends->sender_thread = ends->sender->thread;
    if (gpud_sender_configure(ends->sender, PICTURE(&ends->layout[0]), &error) != GPUD_OK)
        watch_fail("no format: %s", error.reason);
    ends->honest.honest = true;
    reader_start(&ends->honest, ends, receivers, address, slots, GPUD_SLOW_DEFAULT, NULL);
    if (gpud_sender_wait(ends->sender, 1, 20 * GPUD_SEC, &error) != GPUD_OK)
        watch_fail("the honest receiver does not connect: %s", error.reason);
}

void ends_open_bent(struct ends *ends, const char *address, uint32_t slots,
                    enum gpud_slow_receiver policy, const char *route)
{
    memset(&ends->bent, 0, sizeof(ends->bent));
    reader_start(&ends->bent, ends, receivers, address, slots, policy, route);
}

void ends_close_bent(struct ends *ends)
{
    if (ends->bent.runs)
        reader_stop(&ends->bent);
}

/* Devices and their watchdogs free resources of ended links when they finish, or by their own
 * deadlines. */
static void wait_for_rest(struct gpud_context *context)
{
    for (int64_t until = watch_time() + 5 * WATCH_PATIENCE;
         !gpud_worker_is_idle(&context->watch) || !gpud_worker_is_idle(&context->later);) {
        if (watch_time() > until)
            watch_fail("the watch over a link that is over does not end");
        usleep(200);
    }
}

void ends_close(struct ends *ends)
{
    ends_close_bent(ends);
    if (ends->honest.runs)
        reader_stop(&ends->honest);
    watch_begin(WATCH_SENDER, "gpud_sender_destroy", 5 * GPUD_SEC);
    gpud_sender_destroy(&ends->sender);
    watch_end(WATCH_SENDER);
    wait_for_rest(senders);
    wait_for_rest(receivers);
}

/* --- sending ---------------------------------------------------------------------------------- */

#define TIMEOUT (20 * GPUD_MSEC)

/* A call has timed out: it may if the bent link asks for it; the honest receiver alone takes
 * everything in the end. */
static bool goes_on(struct ends *ends, int64_t until, const char *what, const char *reason)
{
    unsigned blocking = 0; /* receivers that may block the sender, with the honest one */
    gpud_sender_lock(ends->sender);
    for (uint32_t i = 0; i < ends->sender->link_count; i++) {
        struct gpud_link *link = ends->sender->links[i];
        blocking += link->state != GPUD_LINK_DEAD && gpud_link_policy(link) == GPUD_SLOW_BLOCK;
    }
    gpud_sender_unlock(ends->sender);
    if (blocking > 1) {
        ends->held_up = true;
        return false;
    }
    if (watch_time() > until)
        watch_fail("%s does not succeed, and only the honest receiver could block it: %s", what,
                   reason);
    return true;
}

static void write_picture(struct gpud_frame *frame, uint64_t number)
{
    static const uint8_t data_of_large[1000];
    void *data;
    struct gpud_error error = {.reason = ""};
    struct gpud_frame_info info = INFO(frame, frame);
    if (gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, &error) != GPUD_OK)
        watch_fail("a lent frame cannot be written: %s", error.reason);
    write_words(data, info.layout.size, number);
    gpud_frame_unmap(frame);
    info.offset = number;
    info.pts_ns = number * 40 * GPUD_MSEC;
    info.meta_size = number % 64;
    memset(info.meta, (int)number, info.meta_size);
    info.large_meta = data_of_large;
    info.large_meta_size = number % 3 * 500;
    if (gpud_frame_set_info(frame, &info, NULL) != GPUD_OK)
        abort();
}

void ends_submit(struct ends *ends)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = GPUD_TIMEOUT;
    int64_t until = watch_time() + 4 * WATCH_PATIENCE;
    uint64_t number = atomic_load(&ends->submitted) + 1;
    while (!frame) {
        watch_begin(WATCH_SENDER, "gpud_sender_acquire", TIMEOUT);
        status = gpud_sender_acquire(ends->sender, TIMEOUT, &frame, &error);
        watch_end(WATCH_SENDER);
        if (status == GPUD_TIMEOUT && !goes_on(ends, until, "lending a slot", error.reason))
            return;
        if (status != GPUD_OK && status != GPUD_TIMEOUT)
            watch_fail("no slot is lent: %s", error.reason);
    }
    write_picture(frame, number);
    /* Half of them are handed over in two steps. */
    uint32_t rows = ends->layout[ends->layout_now].height;
    bool by_lines = number % 2;
    /* Before it is there: the receiver may be faster than this thread. */
    atomic_store(&ends->submitted, number);
    while (frame) {
        watch_begin(WATCH_SENDER, "gpud_sender_submit", TIMEOUT);
        status = by_lines ? gpud_sender_submit_lines(ends->sender, frame, rows / 2, TIMEOUT, &error)
                          : gpud_sender_submit(ends->sender, &frame, TIMEOUT, &error);
        if (by_lines && status == GPUD_OK) {
            status = gpud_sender_submit_lines(ends->sender, frame, rows, 0, &error);
            gpud_frame_release(&frame);
        }
        watch_end(WATCH_SENDER);
        if (status == GPUD_TIMEOUT && !goes_on(ends, until, "submitting", error.reason)) {
            atomic_store(&ends->submitted, number - 1);
            gpud_frame_release(&frame);
            return;
        }
        if (status != GPUD_OK && status != GPUD_TIMEOUT)
            watch_fail("a frame is not taken: %s", error.reason);
    }
}

void ends_event(struct ends *ends, bool sticky)
{
    uint64_t after = atomic_load(&ends->submitted);
    struct gpud_error error = {.reason = ""};
    if (gpud_sender_send_event(ends->sender, sticky ? GPUD_EVENT_STICKY | 7 : 7, &after,
                               sizeof(after), &error) != GPUD_OK)
        watch_fail("no event: %s", error.reason);
}

void ends_end_stream(struct ends *ends)
{
    unsigned number = atomic_load(&ends->ends_sent);
    if (number == ENDS_EOS_MAX)
        return;
    ends->end_after[number] = atomic_load(&ends->submitted);
    atomic_store(&ends->ends_sent, number + 1);
    gpud_sender_send_eos(ends->sender, NULL);
}

void ends_configure(struct ends *ends, unsigned layout)
{
    struct gpud_error error = {.reason = ""};
    ends->layout_now = layout % ENDS_LAYOUTS;
    if (gpud_sender_configure(ends->sender, PICTURE_AT(&ends->layout[ends->layout_now], 25),
                              &error) != GPUD_OK)
        watch_fail("no other format: %s", error.reason);
}

void ends_announce(struct ends *ends)
{
    struct gpud_receiver_info honest = GPUD_INFO_INIT(honest), bent = GPUD_INFO_INIT(bent);
    gpud_sender_announce(ends->sender);
    struct gpud_sender_info sender = INFO(sender, ends->sender);
    gpud_receiver_get_info(ends->honest.receiver, &honest);
    gpud_receiver_get_info(ends->bent.receiver, &bent);
    uint64_t submitted = atomic_load(&ends->submitted);
    if (sender.frames != submitted || honest.frames > submitted)
        watch_fail("%llu frames were submitted: the sender counts %llu, the honest receiver %llu",
                   (unsigned long long)submitted, (unsigned long long)sender.frames,
                   (unsigned long long)honest.frames);
    if (honest.dropped || honest.corrupted || honest.disconnects)
        watch_fail("the honest receiver counts %llu dropped, %llu corrupted, %llu disconnects",
                   (unsigned long long)honest.dropped, (unsigned long long)honest.corrupted,
                   (unsigned long long)honest.disconnects);
}

/* --- what must come about --------------------------------------------------------------------- */

static void wake_sender(struct gpud_sender *sender)
{
    static const uint64_t one = 1;
    if (write(sender->wake, &one, sizeof(one)) < 0)
        abort();
}

/* One that streamed may be paused in the middle of a new handshake. */
static bool is_new(const struct gpud_link *link)
{
    return !link->streamed && (link->state == GPUD_LINK_OFFERED || link->state == GPUD_LINK_CANARY);
}

static void bring_deadlines_near(struct ends *ends)
{
    struct gpud_sender *sender = ends->sender;
    int64_t soon = gpud_now() + GPUD_MSEC;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (is_new(link) && link->deadline > soon + 6 * GPUD_SEC)
            watch_fail("a handshake has no deadline at the sender, in state %d", link->state);
        if (is_new(link) && link->deadline > soon)
            link->deadline = soon;
    }
    gpud_sender_unlock(sender);
    wake_sender(sender);
}

enum which_links { ALL_LINKS, LIVING_LINKS, NEW_LINKS };

static unsigned links(struct gpud_sender *sender, enum which_links which)
{
    unsigned count = 0;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *link = sender->links[i];
        bool lives = link->state != GPUD_LINK_DEAD;
        count += which == ALL_LINKS || (which == LIVING_LINKS && lives) ||
                 (which == NEW_LINKS && is_new(link));
    }
    gpud_sender_unlock(sender);
    return count;
}

static void fail_with_link(struct gpud_sender *sender, const char *what)
{
    gpud_sender_lock(sender);
    const struct gpud_link *link = sender->links[sender->link_count - 1];
    watch_fail("the sender does not notice %s, in state %d%s; its deadline is in %lld ms", what,
               link->state, link->streamed ? ", after it streamed" : "",
               link->deadline == INT64_MAX
                   ? INT64_MAX
                   : (long long)((link->deadline - gpud_now()) / GPUD_MSEC));
}

/* The state of the bent receiver after a call that has just returned. */
static enum gpud_receiver_state bent_state(struct ends *ends)
{
    unsigned calls = atomic_load(&ends->bent.calls);
    while (atomic_load(&ends->bent.calls) == calls)
        usleep(100); /* the watchdog sees to it that there is an end */
    return (enum gpud_receiver_state)atomic_load(&ends->bent.state);
}

void ends_expect_deadlines(struct ends *ends)
{
    /* Again and again: what was said before is still answered, and the next state has its own. */
    for (int64_t until = watch_time() + WATCH_PATIENCE; links(ends->sender, NEW_LINKS);) {
        bring_deadlines_near(ends);
        if (watch_time() > until)
            fail_with_link(ends->sender, "that a handshake's deadline has passed");
        usleep(500);
    }
    atomic_store(&ends->bent.hurry, true);
    for (int64_t until = watch_time() + WATCH_PATIENCE;
         ends->bent.runs && reader_shakes_hands(bent_state(ends));)
        if (watch_time() > until)
            watch_fail("the receiver does not notice that a handshake's deadline has passed");
}

void ends_expect_link_gone(struct ends *ends)
{
    int64_t until = watch_time() + WATCH_PATIENCE;
    while (links(ends->sender, LIVING_LINKS) > 1) {
        if (watch_time() > until)
            fail_with_link(ends->sender, "the end of its peer");
        usleep(200);
    }
    /* The dead leave the table when the sender's thread looks at it, once a second at least. */
    while (links(ends->sender, ALL_LINKS) > 1) {
        wake_sender(ends->sender);
        if (watch_time() > until)
            watch_fail("a dead link stays with the sender");
        usleep(200);
    }
}

void ends_expect_bent_offline(struct ends *ends)
{
    for (int64_t until = watch_time() + WATCH_PATIENCE;
         ends->bent.runs && bent_state(ends) != GPUD_RECEIVER_OFFLINE;)
        if (watch_time() > until)
            watch_fail("the receiver does not notice the end of its peer, in state %u",
                       atomic_load(&ends->bent.state));
}

void ends_expect_quiet(struct ends *ends)
{
    const struct watch_thread threads[] = {
        {"the sender's thread", ends->sender_thread},
        {"the honest receiver's acquire", ends->honest.thread},
        {"the bent receiver's acquire", ends->bent.thread},
    };
    watch_quiet(threads, ends->bent.runs ? 3 : 2);
}

void ends_expect_honest(struct ends *ends)
{
    for (int64_t until = watch_time() + 2 * WATCH_PATIENCE;
         atomic_load(&ends->honest.frames) < atomic_load(&ends->submitted);) {
        if (watch_time() > until)
            watch_fail("the honest receiver has %llu of %llu frames",
                       atomic_load(&ends->honest.frames), atomic_load(&ends->submitted));
        usleep(100);
    }
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The frames of a session, and frames that are still written. */
#include "stream/receiver/receiver.h"

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "route/route.h"

#include <stdlib.h>
#include <string.h>

/* === lines =================================================================================== */
/* Waits for rows of a frame that its sender still writes. The word is the sender's: it may hold
 * anything at any time, and nothing but its value is believed. */

/* How often to check that the sender lives; and, between hosts, to look at the word, because a
 * network card writes it and wakes no thread. */
#define SLICE (20 * GPUD_MSEC)
#define REMOTE_SLICE (500 * GPUD_USEC)

/* The rest of a frame's rows never comes: poisons it. GPUD_PEER. */
static enum gpud_status rx_lose(struct gpud_rx_frame *rx, struct gpud_error *error)
{
    atomic_store(&rx->poisoned, true);
    return gpud_fail(error, GPUD_PEER,
                     "the frame is incomplete: the sender died, or gave it up, while writing it");
}

static _Atomic uint32_t *word_of(const struct gpud_rx_frame *rx)
{
    return &rx->session->view.page->sender.lines[rx->entry];
}

/* Waits for a frame's first rows. GPUD_PEER: they never come, and the frame is poisoned. Any
 * thread. Model (tests/model/lines.pml): look.1. */
static enum gpud_status rx_wait_lines(struct gpud_rx_frame *rx, uint32_t lines, int64_t deadline,
                                      struct gpud_error *error)
{
    struct gpud_session *session = rx->session;
    const uint32_t height = rx->frame.info.layout.height;
    int64_t slice = session->remote ? REMOTE_SLICE : SLICE;
    for (;;) {
        /* First, so that the look is the last. */
        bool dead = gpud_channel_is_dead(session->channel);
        uint32_t before = atomic_load_explicit(&rx->lines, memory_order_acquire);
        if (atomic_load(&rx->poisoned))
            return rx_lose(rx, error);
        if (before >= lines)
            return GPUD_OK;
        uint32_t seen = atomic_load_explicit(word_of(rx), memory_order_acquire);
        if (seen == GPUD_LINES_LOST)
            return rx_lose(rx, error);
        if (seen > height || seen < before) {
            atomic_store(&rx->poisoned, true);
            atomic_store(&session->broken, true);
            return gpud_fail(error, GPUD_PEER,
                             "the sender broke the protocol: %u valid lines, after %u, of %u", seen,
                             before, height);
        }
        atomic_store_explicit(&rx->lines, seen, memory_order_release);
        if (seen >= lines)
            return GPUD_OK;
        if (dead)
            return rx_lose(rx, error);
        int64_t now = gpud_now();
        if (now >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT,
                             "%u of the picture's %u lines are written, not yet %u", seen, height,
                             lines);
        GPUD_STOP_POINT("receiver: waits for lines");
        gpud_futex_wait(word_of(rx), seen, now + slice < deadline ? now + slice : deadline);
    }
}

/* === frames ================================================================================== */

/* clang-format off */
/* The frames of a session: how the application gets them, and how they are given back.
 *
 *   ring                     the frame is             its entry goes back
 *   the sender's, mapped     the sender's slot        at release; on another device than the
 *                                                     host, when our queue is done
 *   the sender's host pages  a copy in `upload`       when the upload is done
 *   the receiver's host      a copy in `upload`       when the upload is done
 *   pages
 *   the receiver's           our slot; our queue      when our queue is done with it
 *                            waits for the signal
 *   any, with signals in     as above; only its user  at once; the release word follows in the
 *   the page                 waits                    order of the application's queue
 *   any, into memory of the  a copy in `upload`, our  when the upload is done; the release word,
 *   application's own        queue waits before it    if any, comes behind it in our queue
 *   any, by lines            the same; the rows are   the same; without the last rows, when it is
 *                            uploaded by the calls    released
 *                            that wait for them */
/* clang-format on */

/* --- giving back --------------------------------------------------------------------------- */

static void frames_give_back(struct gpud_session *session, uint32_t entry)
{
    GPUD_STOP_POINT("receiver: before giving back");
    gpud_lock_take(&session->lock);
    bool kicked = gpud_page_give_back(&session->view, entry, &session->idle);
    GPUD_PROBE(release, session, entry, session->view.returned);
    gpud_lock_release(&session->lock);
    if (kicked)
        atomic_fetch_add_explicit(&session->kicks, 1, memory_order_relaxed);
}

/* The reader's work is done. The entry is free whatever the status. */
static void entry_done(void *arg, enum gpud_status status)
{
    struct gpud_rx_frame *rx = arg;
    struct gpud_session *session = rx->session;
    frames_give_back(session, rx->entry);
    gpud_session_unref(&session);
}

static void upload_slot_done(void *arg, enum gpud_status status)
{
    struct gpud_rx_frame *rx = arg;
    struct gpud_session *session = rx->session;
    gpud_lock_take(&session->lock);
    session->upload_free[session->upload_free_count++] = (uint8_t)(rx - session->frames);
    gpud_lock_release(&session->lock);
    gpud_page_rouse(&session->view.end); /* an acquire may be waiting for the slot */
    gpud_event_raise(atomic_load(&session->wake));
    gpud_session_unref(&session);
}

/* The frame was copied: its slot in the ring is free. */
static void upload_done(void *arg, enum gpud_status status)
{
    struct gpud_rx_frame *rx = arg;
    struct gpud_session *session = rx->session;
    bool theirs = !session->owns_ring;
    if (status != GPUD_OK || (theirs && gpud_page_is_taken_back_after(&session->view)))
        atomic_store(&rx->poisoned, true);
    if (session->watchdog && (status != GPUD_OK || !rx->posted))
        gpud_watchdog_post_now(session->watchdog, rx->entry, rx->value);
    frames_give_back(session, rx->entry);
    gpud_session_unref(&session);
}

/* Calls done in the order of the queue; if the driver cannot, waits for the queue, with a
 * deadline. */
static void when_queue_is_done(struct gpud_session *session, gpud_complete_fn done,
                               struct gpud_rx_frame *rx)
{
    if (gpud_queue_on_complete(session->queue, done, rx, NULL) == GPUD_OK)
        return;
    enum gpud_status status = gpud_queue_finish(session->queue, gpud_deadline(GPUD_SEC), NULL);
    done(rx, status);
}

/* Without an application's queue the CPU was the reader, and has finished. */
static void release_paged(struct gpud_frame *frame)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    struct gpud_session *session = rx->session;
    enum gpud_status status = GPUD_OK;
    if (rx->joined) {
        if (gpud_watchdog_post(session->watchdog, rx->entry, rx->value, session->queue, NULL) ==
            GPUD_OK)
            rx->posted = true;
        else /* this thread waits for it instead */
            status = gpud_queue_finish(session->queue, gpud_deadline(GPUD_SEC), NULL);
    }
    /* A device that is still reading keeps the slot, and the sender's watchdog ends the link. */
    if (!rx->posted && status != GPUD_TIMEOUT)
        gpud_watchdog_post_now(session->watchdog, rx->entry, rx->value);
    entry_done(rx, GPUD_OK);
}

static void release_here(struct gpud_frame *frame)
{
    entry_done((struct gpud_rx_frame *)frame, GPUD_OK);
}

static void release_in_order(struct gpud_frame *frame)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    when_queue_is_done(rx->session, entry_done, rx);
}

static void release_upload(struct gpud_frame *frame)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    when_queue_is_done(rx->session, upload_slot_done, rx);
}

/* --- waiting for the bytes ----------------------------------------------------------------- */

static enum gpud_status corrupted(struct gpud_rx_frame *rx, struct gpud_error *error)
{
    if (rx->frame.info.flags & GPUD_FRAME_CORRUPTED)
        return GPUD_OK; /* reported once; mapping it again gives the bytes as they are */
    __atomic_fetch_or(&rx->frame.info.flags, GPUD_FRAME_CORRUPTED, __ATOMIC_RELAXED);
    return gpud_fail(error, GPUD_PEER,
                     "the frame is incomplete: the sender died, or a device failed, in mid-copy");
}

static enum gpud_status wait_host_signalled(struct gpud_frame *frame, int64_t deadline,
                                            struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    struct gpud_session *session = rx->session;
    for (;;) {
        if (atomic_load(&rx->poisoned))
            return corrupted(rx, error);
        /* A dead sender's frames must not delay the caller: there may be a whole ring of them. */
        int64_t slice = gpud_now() + (atomic_load(&session->poisoned) ? 0 : SLICE);
        enum gpud_status status = gpud_signal_wait_host(session->signal[rx->entry], rx->value,
                                                        slice < deadline ? slice : deadline, error);
        if (status == GPUD_OK)
            return atomic_load(&rx->poisoned) ? corrupted(rx, error) : GPUD_OK;
        if (status != GPUD_TIMEOUT)
            return status;
        if (gpud_channel_is_dead(session->channel))
            gpud_session_poison(session);
        else if (gpud_now() >= deadline)
            return status;
    }
}

static enum gpud_status wait_host_paged(struct gpud_frame *frame, int64_t deadline,
                                        struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    struct gpud_session *session = rx->session;
    if (!gpud_watchdog_reached(session->watchdog, rx->entry, rx->value))
        atomic_fetch_add_explicit(&session->waits_device, 1, memory_order_relaxed);
    enum gpud_status status =
        gpud_watchdog_wait_host(session->watchdog, rx->entry, rx->value, deadline, error);
    return status == GPUD_PEER ? corrupted(rx, error) : status;
}

static enum gpud_status wait_paged(struct gpud_frame *frame, struct gpud_queue *queue,
                                   struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    return gpud_watchdog_wait(rx->session->watchdog, rx->entry, rx->value, queue, error);
}

static enum gpud_status post_paged(struct gpud_frame *frame, struct gpud_queue *queue,
                                   struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    /* Other holders' queues may still read when this one is done. */
    if (rx->joined || atomic_load(&frame->extra_refs)) {
        enum gpud_status joined = gpud_queue_join(rx->session->queue, queue, error);
        rx->joined |= joined == GPUD_OK;
        return joined;
    }
    enum gpud_status status =
        gpud_watchdog_post(rx->session->watchdog, rx->entry, rx->value, queue, error);
    if (status == GPUD_OK)
        rx->posted = true;
    return status;
}

static bool is_poisoned(const struct gpud_frame *frame)
{
    const struct gpud_rx_frame *rx = (const struct gpud_rx_frame *)frame;
    const struct gpud_session *session = rx->session;
    bool in_place = !session->owns_ring && !session->uploads;
    if (in_place && gpud_page_is_taken_back_after(&session->view))
        return true; /* the sender writes there again */
    if (session->watchdog && gpud_watchdog_is_poisoned(session->watchdog, rx->entry, rx->value))
        return true;
    return atomic_load(&rx->poisoned);
}

static enum gpud_status wait_host_upload(struct gpud_frame *frame, int64_t deadline,
                                         struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    enum gpud_status status = GPUD_OK;
    if (rx->session->place == GPUD_SIGNAL_MEMORY) /* no watchdog checks that the sender lives */
        status = wait_host_signalled(frame, deadline, error);
    if (status == GPUD_OK)
        status = gpud_queue_finish(rx->session->queue, deadline, error);
    return status == GPUD_OK && is_poisoned(frame) ? corrupted(rx, error) : status;
}

void gpud_session_poison(struct gpud_session *session)
{
    atomic_store(&session->poisoned, true);
    /* The watchdog handles words in the page. */
    for (uint32_t i = 0; session->place == GPUD_SIGNAL_MEMORY && i < session->entries; i++) {
        gpud_lock_take(&session->lock);
        bool out = atomic_load(&session->view.held[i]);
        struct gpud_rx_frame *rx = session->frame_of[i];
        gpud_lock_release(&session->lock);
        if (!out || atomic_load(&rx->poisoned))
            continue;
        if (gpud_signal_wait_host(session->signal[i], rx->value, gpud_now(), NULL) == GPUD_OK)
            continue;
        atomic_store(&rx->poisoned, true);
        gpud_signal_poison(session->signal[i], rx->value, NULL);
    }
}

static const struct gpud_frame_owner_ops here_ops = {
    .release = release_here,
    .wait = gpud_frame_wait_complete,
    .wait_host = gpud_frame_wait_host_complete,
    .post = gpud_frame_join_post,
    .is_poisoned = is_poisoned,
};

static const struct gpud_frame_owner_ops in_order_ops = {
    .release = release_in_order,
    .wait = gpud_frame_join_wait,
    .wait_host = gpud_frame_wait_host_complete,
    .post = gpud_frame_join_post,
    .is_poisoned = is_poisoned,
};

static const struct gpud_frame_owner_ops signalled_ops = {
    .release = release_in_order,
    .wait = gpud_frame_join_wait,
    .wait_host = wait_host_signalled,
    .post = gpud_frame_join_post,
    .is_poisoned = is_poisoned,
};

static const struct gpud_frame_owner_ops paged_ops = {
    .release = release_paged,
    .wait = wait_paged,
    .wait_host = wait_host_paged,
    .post = post_paged,
    .is_poisoned = is_poisoned,
};

static const struct gpud_frame_owner_ops upload_ops = {
    .release = release_upload,
    .wait = gpud_frame_join_wait,
    .wait_host = wait_host_upload,
    .post = gpud_frame_join_post,
    .is_poisoned = is_poisoned,
};

static const struct gpud_frame_owner_ops *choose_ops(const struct gpud_session *session)
{
    if (session->uploads)
        return &upload_ops;
    if (session->place != GPUD_SIGNAL_NONE)
        return session->place == GPUD_SIGNAL_PAGE ? &paged_ops : &signalled_ops;
    return session->device == session->host ? &here_ops : &in_order_ops;
}

/* --- uploading ----------------------------------------------------------------------------- */

/* The two memories, and where the frame lies in them. */
static struct gpud_copy upload_of(const struct gpud_session *session,
                                  const struct gpud_rx_frame *rx, uint32_t slot)
{
    struct gpud_copy copy = {.to = rx->frame.memory, .to_offset = rx->frame.offset};
    gpud_ring_slot(&session->ring, slot, &copy.from_offset);
    copy.from = session->views[slot / session->ring.slots_per_memory];
    return copy;
}

/* Gives the entry back when our queue is done with it. */
static void give_back_uploaded(struct gpud_session *session, struct gpud_rx_frame *rx)
{
    atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
    when_queue_is_done(session, upload_done, rx);
}

/* All copies are enqueued. */
static enum gpud_status finish_upload(struct gpud_session *session, struct gpud_rx_frame *rx,
                                      const struct gpud_memory *from, struct gpud_error *error)
{
    gpud_queue_count_copy(session->queue, from, &session->copies_cpu, &session->copies_gpu);
    rx->posted = session->watchdog && gpud_watchdog_post(session->watchdog, rx->entry, rx->value,
                                                         session->queue, NULL) == GPUD_OK;
    give_back_uploaded(session, rx);
    return gpud_queue_flush(session->queue, error);
}

/* Copies rows as they become valid, until the first `lines` are copied. */
static enum gpud_status upload_lines(struct gpud_rx_frame *rx, uint32_t lines, int64_t deadline,
                                     struct gpud_error *error)
{
    struct gpud_session *session = rx->session;
    const struct gpud_layout *layout = &session->layout;
    uint32_t height = layout->height, step = gpud_lines_step(height);
    enum gpud_status status = GPUD_OK;
    while (rx->uploaded < lines && status == GPUD_OK) {
        uint32_t next = height - rx->uploaded > step ? rx->uploaded + step : height;
        status = rx_wait_lines(rx, next, deadline, error);
        if (status != GPUD_OK)
            break;
        /* The word says that the rows are there, so that the queue waits for no signal. */
        struct gpud_rows rows = {rx->uploaded, atomic_load(&rx->lines)};
        struct gpud_copy copy = upload_of(session, rx, rx->slot);
        status = gpud_rows_copy(session->queue, &copy, layout, layout, rows, error);
        if (status != GPUD_OK)
            break;
        rx->uploaded = rows.to;
        status = rows.to == height ? finish_upload(session, rx, copy.from, error)
                                   : gpud_queue_flush(session->queue, error);
    }
    if (status == GPUD_OK)
        status = gpud_queue_finish(session->queue, deadline, error);
    if (status == GPUD_OK && !session->owns_ring && gpud_page_is_taken_back_after(&session->view))
        return rx_lose(rx, error); /* the sender wrote there again */
    return status;
}

/* --- frames that may still be written ------------------------------------------------------ */

/* How long a call that has no deadline of its own waits for the last line. */
#define WHOLE_DEADLINE GPUD_SEC

static const struct gpud_frame_owner_ops *whole_ops(const struct gpud_frame *frame)
{
    return choose_ops(((const struct gpud_rx_frame *)frame)->session);
}

/* Makes what a card wrote visible to our device. */
static enum gpud_status frames_flush_remote(struct gpud_session *session, uint32_t entry,
                                            struct gpud_error *error)
{
    uint64_t offset;
    if (!session->remote)
        return GPUD_OK;
    return gpud_memory_flush_remote(gpud_ring_slot(&session->ring, entry, &offset), error);
}

static enum gpud_status wait_rows(struct gpud_rx_frame *rx, uint32_t lines, int64_t deadline,
                                  struct gpud_error *error)
{
    if (rx->session->uploads)
        return upload_lines(rx, lines, deadline, error);
    enum gpud_status status = rx_wait_lines(rx, lines, deadline, error);
    return status == GPUD_OK ? frames_flush_remote(rx->session, rx->entry, error) : status;
}

static enum gpud_status wait_whole(struct gpud_frame *frame, int64_t deadline,
                                   struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    if (!rx->by_lines)
        return GPUD_OK;
    enum gpud_status status = wait_rows(rx, frame->info.layout.height, deadline, error);
    return status == GPUD_PEER ? corrupted(rx, error) : status;
}

static enum gpud_status wait_by_lines(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    /* No queue of a device waits for lines that an application has yet to write. */
    enum gpud_status status = wait_whole(frame, gpud_deadline(WHOLE_DEADLINE), error);
    return status == GPUD_OK ? whole_ops(frame)->wait(frame, queue, error) : status;
}

static enum gpud_status wait_host_by_lines(struct gpud_frame *frame, int64_t deadline,
                                           struct gpud_error *error)
{
    enum gpud_status status = wait_whole(frame, deadline, error);
    return status == GPUD_OK ? whole_ops(frame)->wait_host(frame, deadline, error) : status;
}

static enum gpud_status frames_wait_lines(struct gpud_frame *frame, uint32_t lines,
                                          int64_t deadline, struct gpud_error *error)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    if (rx->by_lines)
        return wait_rows(rx, lines, deadline, error);
    return whole_ops(frame)->wait_host(frame, deadline, error);
}

static enum gpud_status post_by_lines(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    return whole_ops(frame)->post(frame, queue, error);
}

static void release_by_lines(struct gpud_frame *frame)
{
    struct gpud_rx_frame *rx = (struct gpud_rx_frame *)frame;
    if (rx->by_lines && rx->session->uploads && rx->uploaded < frame->info.layout.height)
        give_back_uploaded(rx->session, rx);
    whole_ops(frame)->release(frame);
}

static const struct gpud_frame_owner_ops by_lines_ops = {
    .release = release_by_lines,
    .wait = wait_by_lines,
    .wait_host = wait_host_by_lines,
    .post = post_by_lines,
    .is_poisoned = is_poisoned,
    .wait_lines = frames_wait_lines,
};

void gpud_session_make_frames(struct gpud_session *session)
{
    for (uint32_t i = 0; i < session->entries; i++) {
        struct gpud_rx_frame *rx = &session->frames[i];
        session->frame_of[i] = rx;
        rx->session = session;
        rx->frame.ops = session->by_lines ? &by_lines_ops : choose_ops(session);
        rx->frame.owner = session;
        rx->frame.queue = session->device == session->host ? NULL : session->queue;
        rx->frame.slot = i;
        rx->frame.info.layout = session->layout;
        if (session->uploads)
            rx->frame.memory = gpud_ring_slot(&session->upload, i, &rx->frame.offset);
        else if (session->owns_ring)
            rx->frame.memory = gpud_ring_slot(&session->ring, i, &rx->frame.offset);
    }
}

/* --- claiming ------------------------------------------------------------------------------ */

/* Whether there is room for the next frame. Only the claiming thread consumes free slots. */
static bool frames_has_room(struct gpud_session *session)
{
    if (!session->uploads)
        return true;
    gpud_lock_take(&session->lock);
    bool room = session->upload_free_count > 0;
    gpud_lock_release(&session->lock);
    return room;
}

bool gpud_session_has_work(struct gpud_session *session)
{
    return gpud_page_has_frames(&session->view) && frames_has_room(session);
}

static struct gpud_rx_frame *frame_for(struct gpud_session *session, uint32_t entry)
{
    if (!session->uploads)
        return &session->frames[entry];
    gpud_lock_take(&session->lock);
    uint32_t slot = session->upload_free[--session->upload_free_count];
    session->frame_of[entry] = &session->frames[slot];
    gpud_lock_release(&session->lock);
    return &session->frames[slot];
}

static void fill_info(struct gpud_session *session, struct gpud_frame_info *info,
                      const struct gpud_descriptor *descriptor)
{
    info->pts_ns = descriptor->pts;
    info->dts_ns = descriptor->dts;
    info->duration_ns = descriptor->duration;
    info->offset = descriptor->offset;
    info->flags = descriptor->flags & (GPUD_FRAME_TRAVELS | GPUD_FRAME_CANARY);
    if (session->ring.usage == GPUD_USAGE_SHARE && !session->uploads)
        info->flags |= GPUD_FRAME_READ_ONLY;
    info->bytes = descriptor->bytes;
    info->meta_size = descriptor->meta_size;
    memcpy(info->meta, descriptor->meta, descriptor->meta_size);
    info->sequence = descriptor->sequence;
    info->epoch = session->number;
    info->dropped = descriptor->dropped;
    info->submitted_ns = descriptor->submit_time;
}

/* Copies the entry's large meta, which the sender may still write. */
static enum gpud_status take_large_meta(const struct gpud_session *session, uint32_t entry,
                                        uint32_t size, struct gpud_frame_info *info,
                                        struct gpud_error *error)
{
    if (size == 0)
        return GPUD_OK;
    if (size > session->meta_room)
        return gpud_fail(error, GPUD_PEER,
                         "the sender broke the protocol: a large meta of %u bytes in room for %zu",
                         size, session->meta_room);
    void *bytes = gpud_large_meta_create(size);
    if (!bytes)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u bytes of meta", size);
    gpud_shared_read(bytes, (const char *)session->metas + entry * session->meta_room, size);
    info->large_meta = bytes;
    info->large_meta_size = size;
    return GPUD_OK;
}

static enum gpud_status frames_refuse(struct gpud_error *error, const char *what)
{
    return gpud_fail(error, GPUD_PEER, "the sender broke the protocol: %s", what);
}

/* Gives a lost frame back at once, unread. */
static void give_back_void(struct gpud_session *session, struct gpud_rx_frame *rx, uint32_t entry,
                           uint32_t value)
{
    if (session->uploads) {
        gpud_lock_take(&session->lock);
        session->upload_free[session->upload_free_count++] = (uint8_t)(rx - session->frames);
        gpud_lock_release(&session->lock);
    }
    if (session->watchdog)
        gpud_watchdog_post_now(session->watchdog, entry, value);
    frames_give_back(session, entry);
}

/* Enqueues the copy from the ring into a slot of `upload`, after the frame's bytes in the ring. */
static enum gpud_status upload(struct gpud_session *session, struct gpud_rx_frame *rx,
                               uint32_t slot, struct gpud_error *error)
{
    struct gpud_queue *queue = session->queue;
    struct gpud_copy copy = upload_of(session, rx, slot);
    copy.row_bytes = gpud_frame_bytes(&rx->frame);
    copy.rows = 1;
    enum gpud_status status = GPUD_OK;
    if (session->place == GPUD_SIGNAL_PAGE) {
        status = gpud_watchdog_wait(session->watchdog, rx->entry, rx->value, queue, error);
    } else if (session->place == GPUD_SIGNAL_MEMORY) {
        status = gpud_signal_wait_queue(session->signal[rx->entry], rx->value, queue, error);
        GPUD_STOP_POINT("receiver: wait enqueued");
    }
    if (status == GPUD_OK)
        status = gpud_queue_copy(queue, &copy, error);
    if (status != GPUD_OK)
        return status;
    GPUD_STOP_POINT("receiver: upload enqueued");
    return finish_upload(session, rx, copy.from, error);
}

enum gpud_status gpud_session_next_frame(struct gpud_session *session, uint32_t limit,
                                         struct gpud_rx_frame **claimed, struct gpud_error *error)
{
    struct gpud_descriptor descriptor;
    uint32_t entry;
    if (!frames_has_room(session))
        return GPUD_AGAIN;
    if (atomic_load_explicit(&session->broken, memory_order_relaxed))
        return frames_refuse(error, "more valid lines than a picture has, or fewer than before");
    int got = gpud_page_claim(&session->view, limit, &entry, &descriptor, error);
    if (got <= 0)
        return got < 0 ? GPUD_PEER : GPUD_AGAIN;
    struct gpud_rx_frame *rx = frame_for(session, entry);

    bool own = session->owns_ring;
    if (!own && descriptor.slot >= gpud_ring_slots(&session->ring))
        return frames_refuse(error, "a slot that its ring does not have");
    if (own && descriptor.slot != entry)
        return frames_refuse(error, "a slot that is not its entry's");
    if (session->place != GPUD_SIGNAL_NONE &&
        (descriptor.value <= session->last_value || descriptor.value > GPUD_SIGNAL_MAX))
        return frames_refuse(error, "a signal that went back");
    session->last_value = descriptor.value;
    if (descriptor.flags & GPUD_FRAME_VOID) {
        give_back_void(session, rx, entry, descriptor.value);
        return GPUD_AGAIN; /* the next call finds the next frame */
    }
    uint64_t bytes = descriptor.bytes; /* 0: all */
    if (bytes && (bytes > session->layout.size || !gpud_media_units_allow(&session->units, bytes)))
        return frames_refuse(error,
                             "a block larger than its slot or with a part of a sample, or a part "
                             "of a picture");
    rx->by_lines = descriptor.flags & GPUD_FRAME_BY_LINES;
    if (rx->by_lines && !session->by_lines)
        return frames_refuse(error, "a frame that is still written, to a receiver of whole ones");
    atomic_store_explicit(&rx->lines, 0, memory_order_relaxed);
    rx->slot = descriptor.slot;
    rx->uploaded = 0;
    rx->entry = entry;
    rx->value = descriptor.value;
    rx->posted = rx->joined = false;
    atomic_store_explicit(&rx->poisoned, false, memory_order_relaxed);
    fill_info(session, &rx->frame.info, &descriptor);

    enum gpud_status status = frames_flush_remote(session, entry, error);
    if (status == GPUD_OK)
        status =
            take_large_meta(session, entry, descriptor.large_meta_size, &rx->frame.info, error);
    if (status != GPUD_OK)
        return status;
    if (session->uploads) {
        if (!rx->by_lines) /* else the calls that wait for its rows upload it */
            status = upload(session, rx, descriptor.slot, error);
    } else if (session->place == GPUD_SIGNAL_MEMORY) {
        status =
            gpud_signal_wait_queue(session->signal[entry], descriptor.value, session->queue, error);
        GPUD_STOP_POINT("receiver: wait enqueued");
    } else if (!own) {
        rx->frame.slot = descriptor.slot;
        rx->frame.memory = gpud_ring_slot(&session->ring, descriptor.slot, &rx->frame.offset);
    }
    if (status != GPUD_OK) {
        gpud_large_meta_clear(&rx->frame.info);
        return status;
    }
    atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
    *claimed = rx;
    return GPUD_OK;
}

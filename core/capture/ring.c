/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A stream: the driver's buffers as a ring, and the frames that are acquired from it. */
#include "capture/internal.h"

#include "base/base.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Work of a device on a buffer that takes longer than this is stuck: the memory stays, for a GPU
 * may still touch it. */
#define STOP_TIMEOUT (5 * GPUD_SEC)

/* The bit of a buffer, or of a frame, in one of a ring's words. */
static uint64_t bit_of(uint32_t index)
{
    return UINT64_C(1) << index;
}

/* With the lock held: whether another frame can be acquired; yes stays true until one is. */
static bool ring_has_room(const struct gpud_capture_ring *ring)
{
    return (uint32_t)__builtin_popcountll(ring->acquired) < ring->limit;
}

/* === ring_watch ============================================================================== */
/* A ring in its capture's epoll: its wake-up, and the driver's node while its state is
 * meaningful. */

/* With lock held: wake_fd is made readable, or not readable. */
static void ring_set_woken(struct gpud_capture_ring *ring, bool woken)
{
    uint64_t count = 1;
    if (woken && !ring->woken)
        ring->woken = write(ring->wake_fd, &count, sizeof(count)) == sizeof(count);
    else if (!woken && ring->woken)
        ring->woken = read(ring->wake_fd, &count, sizeof(count)) != sizeof(count);
}

/* With lock held: whether an event loop shall call acquire, whatever the node says. Buffers that
 * devices have finished with are queued by the next acquire, which is soon enough while the driver
 * still has buffers to fill. */
static bool ring_is_due(const struct gpud_capture_ring *ring)
{
    if (ring->watch_fd < 0)
        return false;
    bool low = __builtin_popcountll(ring->queued) < GPUD_CAPTURE_SPARE;
    /* Stopped but not replaced: the driver waits for frames that are released now. */
    bool due = ring->stopped ? ring->in_place && !ring->acquired : ring->returned && low;
    return ring->ended || ring->watch_error || due;
}

static int watch_node(struct gpud_capture_ring *ring, bool watch, uint32_t events)
{
    struct epoll_event event = {.events = events};
    if (watch == ring->node_watched && (!watch || events == ring->watched_events))
        return 0;
    int operation = !watch ? EPOLL_CTL_DEL : ring->node_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(ring->watch_fd, operation, ring->node->fd, &event) < 0)
        return errno;
    ring->node_watched = watch;
    ring->watched_events = events;
    return 0;
}

/* With driver_lock held: the epoll watches what it should now. False: it cannot (watch_error), and
 * is readable, so that an acquire comes that says so. poll() reports an error for a driver without
 * a buffer, although nothing is wrong. While the application holds all frames, only the errors
 * count that poll() always reports. */
static bool ring_update_watch(struct gpud_capture_ring *ring)
{
    if (ring->watch_fd < 0)
        return true;
    gpud_lock_take(&ring->lock);
    bool watch = ring->streaming && !ring->ended && ring->queued;
    bool room = ring_has_room(ring);
    gpud_lock_release(&ring->lock);

    /* Without that lock: the kernel asks the driver at once, which may wait. */
    int number = watch_node(ring, watch, room ? EPOLLIN | EPOLLPRI : 0);
    gpud_lock_take(&ring->lock);
    ring->watch_error = number;
    if (!ring->waiting)
        ring_set_woken(ring, ring_is_due(ring));
    gpud_lock_release(&ring->lock);
    return number == 0;
}

/* Leaves nothing of the ring in the epoll: explicitly, because an epoll keeps a descriptor as long
 * as any process has the file open. */
static void ring_unwatch(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    if (ring->watch_fd >= 0) {
        watch_node(ring, false, 0);
        epoll_ctl(ring->watch_fd, EPOLL_CTL_DEL, ring->wake_fd, NULL);
        gpud_lock_take(&ring->lock);
        ring->watch_fd = -1;
        ring->watch_error = 0;
        gpud_lock_release(&ring->lock);
    }
    gpud_lock_release(&ring->driver_lock);
}

enum gpud_status gpud_capture_ring_watch(struct gpud_capture_ring *ring, int watch_fd,
                                         struct gpud_error *error)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(watch_fd, EPOLL_CTL_ADD, ring->wake_fd, &event) < 0)
        return gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    ring->watch_fd = watch_fd;
    gpud_lock_release(&ring->lock);
    bool watched = ring_update_watch(ring);
    int number = ring->watch_error;
    gpud_lock_release(&ring->driver_lock);
    if (watched)
        return GPUD_OK;
    ring_unwatch(ring);
    errno = number;
    return gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
}

void gpud_capture_ring_end(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    ring->ended = true;
    gpud_lock_release(&ring->lock);
    ring_update_watch(ring);
    gpud_lock_release(&ring->driver_lock);
}

/* === buffers ================================================================================= */
/* A ring's buffers: made by its method, mapped for the device that copies them, dropped. The ring
 * is also freed here, perhaps in the thread that releases the last frame. */

/* Asks the driver for *count buffers and gives how many there are; 0 frees them. */
static int request_buffers(const struct gpud_capture_ring *ring, uint32_t *count)
{
    struct v4l2_requestbuffers raw = {
        .count = *count, .type = ring->node->type, .memory = ring->method->memory};
    if (gpud_v4l2_call(ring->node, VIDIOC_REQBUFS, &raw) < 0)
        return -1;
    *count = raw.count;
    return 0;
}

/* Frees the memory of one buffer. */
static void buffer_drop(struct gpud_capture_buffer *buffer)
{
    for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++)
        gpud_fd_close(&buffer->dmabuf[area]);
    gpud_memory_unref(&buffer->bounce);
    gpud_memory_unref(&buffer->memory);
}

static void drop_buffers(struct gpud_capture_ring *ring)
{
    for (uint32_t i = 0; i < ring->buffer_count; i++)
        buffer_drop(&ring->buffers[i]);
    free(ring->buffers);
    ring->buffers = NULL;
    ring->buffer_count = 0;
}

/* Frees buffers that were never streamed into. The memory goes first: a driver may keep mapped
 * buffers. */
static void buffers_undo(struct gpud_capture_ring *ring)
{
    uint32_t none = 0;
    drop_buffers(ring);
    request_buffers(ring, &none);
}

/* Creates ring->limit buffers and a few spare ones, by ring->method. On failure some may exist. */
static enum gpud_status buffers_create(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    uint32_t count = ring->limit + GPUD_CAPTURE_SPARE;
    if (request_buffers(ring, &count) < 0)
        return errno == EBUSY
                   ? gpud_fail_native(error, GPUD_IO, "errno", EBUSY,
                                      "%s is in use by another program", ring->node->path)
                   : gpud_fail_errno(error, "the driver makes no buffers of this kind");
    if (count < 2 || count > GPUD_CAPTURE_BUFFERS_MAX)
        return gpud_fail(error, GPUD_IO, "the driver made %u buffers: 2 to %d can be used", count,
                         GPUD_CAPTURE_BUFFERS_MAX);
    ring->buffers = calloc(count, sizeof(*ring->buffers));
    if (!ring->buffers)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u buffers", count);
    ring->buffer_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        buffer->ring = ring;
        buffer->raw.index = i;
        buffer->raw.memory = ring->method->memory;
        buffer->raw.planes = ring->placement.areas;
        for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++)
            buffer->dmabuf[area] = -1;
    }
    return ring->method->setup(ring, error);
}

/* Maps a buffer's pages for the copying device. With a method of that kind, the CPU copies each
 * frame into pages that the device can read. */
static enum gpud_status show_to_device(struct gpud_capture_ring *ring,
                                       struct gpud_capture_buffer *buffer, struct gpud_error *error)
{
    struct gpud_memory *shown = buffer->memory;
    if (ring->method->by_cpu) {
        enum gpud_status status = gpud_memory_alloc_for(ring->host, ring->placement.layout.size,
                                                        GPUD_USAGE_LOCAL, &buffer->bounce, error);
        if (status != GPUD_OK)
            return status;
        shown = buffer->bounce;
    }
    enum gpud_status status = gpud_memory_view(shown, ring->device, &buffer->source, error);
    if (status == GPUD_OK && buffer->source->unpinned && !ring->method->by_cpu)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s cannot register the driver's memory",
                         ring->device->info.name);
    return status;
}

/* From any thread. The last reference frees the ring; the driver is not called. */
static void ring_unref(struct gpud_capture_ring *ring)
{
    if (atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < ring->frame_count; i++) {
        gpud_queue_unref(&ring->frames[i].queue);
        if (!ring->in_place)
            gpud_memory_unref(&ring->frames[i].memory);
    }
    free(ring->frames);
    drop_buffers(ring);
    gpud_fd_close(&ring->wake_fd);
    gpud_device_close(&ring->device);
    gpud_device_close(&ring->host);
    pthread_cond_destroy(&ring->complete);
    gpud_lock_destroy(&ring->lock);
    gpud_lock_destroy(&ring->driver_lock);
    free(ring);
}

/* The driver has kept its buffers since the stop: with the last frame that maps one it gets them
 * back. From any thread. */
static void ring_free_kept(struct gpud_capture_ring *ring)
{
    uint32_t none = 0;
    if (!atomic_load(&ring->kept)) /* else the stop, which comes after, looks itself */
        return;
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    bool unused = ring->kept && !ring->acquired && !ring->pending;
    gpud_lock_release(&ring->lock);
    for (uint32_t i = 0; unused && i < ring->buffer_count; i++)
        buffer_drop(&ring->buffers[i]);
    if (unused)
        ring->kept = request_buffers(ring, &none) < 0 && errno == EBUSY;
    gpud_lock_release(&ring->driver_lock);
}

void gpud_capture_ring_drop(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    ring->kept = false;
    gpud_lock_release(&ring->driver_lock);
    ring_unwatch(ring);
    ring_unref(ring);
}

/* === feed ==================================================================================== */
/* Moves buffers between a ring and its driver, and decides what to wait for. */

/* With lock held: a buffer was returned. by_device: only the waiting thread can queue it, which can
 * wait for the next frame while the driver has enough buffers, so that most waits for a frame are
 * not woken for every returned one. */
static void ring_wake(struct gpud_capture_ring *ring, bool by_device)
{
    uint32_t queued = (uint32_t)__builtin_popcountll(ring->queued);
    bool low = queued < GPUD_CAPTURE_SPARE || 2 * queued < ring->buffer_count;
    if ((ring->waiting && (ring->blind || (by_device && low))) || ring_is_due(ring))
        ring_set_woken(ring, true);
}

/* What a wait begins with. */
struct ring_wait {
    bool fed;  /* the driver has a buffer, so its node is to be polled */
    bool back; /* a buffer was returned before, without wake_fd */
    bool out;  /* a buffer may be returned, so wake_fd is to be polled */
};

/* From here, which may be called again, to the end of an acquire a returned buffer makes wake_fd
 * readable if only this thread can queue it. */
static struct ring_wait ring_wait_begin(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    struct ring_wait wait = {
        .fed = ring->queued,
        .back = ring->to_queue,
        .out = ring->acquired || ring->pending,
    };
    ring->waiting = true;
    ring->blind = !wait.fed;
    ring_set_woken(ring, false);
    gpud_lock_release(&ring->lock);
    return wait;
}

/* Gives a dequeued buffer back unseen. */
static void ring_give_back(struct gpud_capture_ring *ring, uint32_t index)
{
    gpud_lock_take(&ring->lock);
    ring->to_queue |= bit_of(index);
    gpud_lock_release(&ring->lock);
}

/* --- returned buffers ---------------------------------------------------------------------- */

/* Whether ring_requeue() has a buffer to queue, or an event loop's epoll to update. If not, a
 * thread need not wait for another that is in a call to the driver. */
static bool ring_has_back(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    bool back = ring->to_queue || ring->watch_fd >= 0;
    gpud_lock_release(&ring->lock);
    return back;
}

/* Queues returned buffers. GPUD_IO: the driver accepts none and has none. */
static enum gpud_status ring_requeue(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    gpud_lock_take(&ring->driver_lock);
    if (!ring->streaming) {
        gpud_lock_release(&ring->driver_lock);
        return GPUD_OK;
    }
    gpud_lock_take(&ring->lock);
    uint64_t back = ring->to_queue;
    ring->to_queue = 0;
    ring->returned = false;
    ring->queued |= back; /* first: another thread may dequeue it before this one goes on */
    gpud_lock_release(&ring->lock);

    uint64_t refused = 0;
    int number = 0;
    for (uint64_t left = back; left; left &= left - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(left);
        if (gpud_v4l2_queue(ring->node, &ring->buffers[index].raw) < 0) {
            refused |= bit_of(index);
            number = errno;
        }
    }

    bool starved = false; /* the driver has no buffer, and none can come back */
    if (refused) {
        gpud_lock_take(&ring->lock);
        ring->queued &= ~refused;
        ring->to_queue |= refused; /* tried again with the next one */
        starved = !ring->queued && !ring->pending && !(ring->in_place && ring->acquired);
        ring->returned |= starved; /* the next acquire says so */
        gpud_lock_release(&ring->lock);
    }
    enum gpud_status status = GPUD_OK;
    bool watched = ring_update_watch(ring);
    errno = watched ? number : ring->watch_error;
    if (!watched)
        status = gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
    else if (starved)
        status = gpud_fail_errno(error, "the driver of %s takes none of its buffers back",
                                 ring->node->path);
    else if (refused)
        gpud_log_debug(ring->log, "capture", "%s refused a buffer (%s): it is offered again",
                       ring->node->path, strerror(number));
    gpud_lock_release(&ring->driver_lock); /* the node may be gone after this */
    return status;
}

/* === frames ================================================================================== */
/* Turns a dequeued buffer into a frame, in place or by a copy of the device into a slot; and takes
 * frames back. Nothing here allocates. */

/* --- both ---------------------------------------------------------------------------------- */

static struct gpud_frame *acquire_slot(struct gpud_capture_ring *ring, uint32_t slot)
{
    struct gpud_frame *frame = &ring->frames[slot];
    gpud_lock_take(&ring->lock);
    ring->acquired |= bit_of(slot);
    gpud_lock_release(&ring->lock);
    atomic_fetch_add_explicit(&ring->references, 1, memory_order_relaxed);
    frame->access = 0;
    return frame;
}

/* The device has finished with a buffer. Runs in a thread of the device's driver, so it must not
 * call the capture driver: the next acquiring or releasing thread queues the buffer. */
static void frames_on_complete(void *arg, enum gpud_status status)
{
    struct gpud_capture_buffer *buffer = arg;
    struct gpud_capture_ring *ring = buffer->ring;
    gpud_lock_take(&ring->lock);
    ring->pending--;
    ring->to_queue |= bit_of(buffer->raw.index);
    ring->failed |= status != GPUD_OK;
    ring->returned = true;
    ring_wake(ring, true);
    pthread_cond_signal(&ring->complete);
    gpud_lock_release(&ring->lock);
}

/* --- in place ------------------------------------------------------------------------------ */

static struct gpud_capture_buffer *buffer_of(const struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    return &ring->buffers[frame->slot];
}

/* Whether queues have been given work on the buffer since it was acquired. All of it comes before
 * everything on the frame's own queue. */
static bool is_used(const struct gpud_frame *frame)
{
    return frame->queue && (buffer_of(frame)->posted || frame->access);
}

static enum gpud_status wait_in_place(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    return is_used(frame) ? gpud_frame_join_wait(frame, queue, error) : GPUD_OK;
}

static enum gpud_status post_in_place(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_join_post(frame, queue, error);
    if (status == GPUD_OK)
        buffer_of(frame)->posted = true;
    return status;
}

/* The buffer returns to the driver when the frame's queue has finished with it. */
static void release_in_place(struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    struct gpud_capture_buffer *buffer = buffer_of(frame);
    struct gpud_error why;
    bool used = is_used(frame);
    gpud_lock_take(&ring->lock);
    bool pending = used && !ring->stopped;
    ring->acquired &= ~bit_of(frame->slot);
    if (pending)
        ring->pending++;
    else
        ring->to_queue |= bit_of(frame->slot);
    ring_wake(ring, false);
    gpud_lock_release(&ring->lock);
    if (pending) {
        if (gpud_queue_on_complete(frame->queue, frames_on_complete, buffer, &why) != GPUD_OK) {
            /* A buffer whose work never ends does not come back. */
            if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_SEC), &why) == GPUD_OK)
                frames_on_complete(buffer, GPUD_OK);
            else
                gpud_log_error(ring->log, "capture", "a buffer of the driver's is lost: %s",
                               why.reason);
        }
        gpud_queue_flush(frame->queue, NULL);
    } else if (used &&
               gpud_queue_finish(frame->queue, gpud_deadline(STOP_TIMEOUT), &why) != GPUD_OK) {
        /* After the stop the driver fills no buffer, and no other thread waits for the queue. */
        gpud_log_error(ring->log, "capture",
                       "work on a frame never ends: its memory is not freed: %s", why.reason);
        atomic_fetch_add(&ring->references, 1); /* leaked on purpose */
        gpud_lock_take(&ring->lock);
        ring->pending++;
        gpud_lock_release(&ring->lock);
    }
    /* Now rather than at the next acquire: until then the driver might run out of buffers. */
    if (!pending || ring_has_back(ring))
        ring_requeue(ring, NULL);
    ring_free_kept(ring);
    ring_unref(ring);
}

/* The driver has written the bytes before it returns the buffer, so neither the CPU nor a queue
 * waits for them; only for later work of the application's queues or maps. */
static const struct gpud_frame_owner_ops in_place_ops = {
    .release = release_in_place,
    .wait = wait_in_place,
    .wait_host = gpud_frame_wait_host_complete,
    .post = post_in_place,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

/* --- copied -------------------------------------------------------------------------------- */

static enum gpud_status frames_enqueue(const struct gpud_capture_buffer *buffer,
                                       const struct gpud_v4l2_buffer *dequeued,
                                       const struct gpud_frame *slot, struct gpud_error *error)
{
    const struct gpud_placement *placement = &buffer->ring->placement;
    struct gpud_queue *queue = slot->queue;
    struct gpud_memory *to = slot->memory;
    bool shifted = false;
    for (uint32_t i = 0; i < placement->areas; i++)
        shifted |= dequeued->plane[i].data_offset != 0;
    if (!shifted)
        return gpud_queue_copy(queue,
                               &(struct gpud_copy){
                                   .to = to,
                                   .from = buffer->source,
                                   .row_bytes = placement->layout.size,
                                   .rows = 1,
                               },
                               error);
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < placement->layout.planes && status == GPUD_OK; i++) {
        const struct gpud_plane *plane = &placement->layout.plane[i];
        status = gpud_queue_copy(
            queue,
            &(struct gpud_copy){
                .to = to,
                .from = buffer->source,
                .to_offset = plane->offset,
                .from_offset = plane->offset + dequeued->plane[placement->area_of[i]].data_offset,
                .to_stride = plane->stride,
                .from_stride = plane->stride,
                .row_bytes = plane->row_bytes,
                .rows = plane->rows,
            },
            error);
    }
    return status;
}

static enum gpud_status acquire_copied(struct gpud_capture_ring *ring,
                                       const struct gpud_v4l2_buffer *dequeued,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_capture_buffer *buffer = &ring->buffers[dequeued->index];
    gpud_lock_take(&ring->lock);
    uint32_t slot = (uint32_t)__builtin_ctzll(~ring->acquired);
    bool failed = ring->failed;
    ring->pending++;
    gpud_lock_release(&ring->lock);

    enum gpud_status status =
        failed ? gpud_fail(error, GPUD_IO, "a copy on %s failed: start the capture again",
                           ring->device->info.name)
               : GPUD_OK;
    if (status == GPUD_OK) {
        if (buffer->bounce)
            memcpy(buffer->bounce->host, buffer->memory->host, ring->placement.layout.size);
        status = frames_enqueue(buffer, dequeued, &ring->frames[slot], error);
    }
    if (status == GPUD_OK)
        status =
            gpud_queue_on_complete(ring->frames[slot].queue, frames_on_complete, buffer, error);
    if (status != GPUD_OK) {
        /* Enqueued work may still read the buffer; if it never ends, the buffer does not come
         * back. */
        if (gpud_queue_finish(ring->frames[slot].queue, gpud_deadline(GPUD_SEC), NULL) == GPUD_OK)
            frames_on_complete(buffer, status);
        return status;
    }
    *frame = acquire_slot(ring, slot);
    status = gpud_queue_flush((*frame)->queue, error);
    if (status != GPUD_OK)
        gpud_frame_release(frame); /* on_complete() returns the buffer */
    return status;
}

static void release_copied(struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    gpud_lock_take(&ring->lock);
    ring->acquired &=
        ~bit_of(frame->slot); /* the queue's work on the slot comes before the next copy */
    ring_wake(ring, false);
    gpud_lock_release(&ring->lock);
    if (ring_has_back(ring))
        ring_requeue(ring, NULL);
    ring_unref(ring);
}

static const struct gpud_frame_owner_ops copied_ops = {
    .release = release_copied,
    .wait = gpud_frame_join_wait,
    .wait_host = gpud_frame_wait_host_complete, /* after everything on the frame's queue */
    .post = gpud_frame_join_post,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

/* === canary ================================================================================== */
/* The canary: a driver may accept a buffer's memory and write elsewhere without an error (AMD's
 * exporter moves its memory when a device attaches). Each buffer gets a pattern before its first
 * capture; a frame that still has all of it was never written. */

#define SPOT 16 /* bytes */
#define ROWS 5  /* that start with a spot, from the first row to the last */
#define SPOTS (ROWS * GPUD_PLANES_MAX)

/* The time for the copy engine to fetch a few bytes. */
#define LOOK_TIMEOUT (2 * GPUD_SEC)

static void paint(unsigned char *spot, uint32_t number)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (number + 1);
    for (uint32_t i = 0; i < SPOT; i++) {
        state ^= state >> 29;
        state *= UINT64_C(0xbf58476d1ce4e5b9);
        spot[i] = (unsigned char)(state >> 40);
    }
}

/* The offset of a spot, and its bytes; 0: the picture is too small for it. */
static uint32_t place(const struct gpud_layout *layout, uint32_t number, uint64_t *offset)
{
    const struct gpud_plane *plane = &layout->plane[number / ROWS];
    uint32_t row = number % ROWS;
    if (number / ROWS >= layout->planes || plane->rows < ROWS)
        return 0;
    *offset = plane->offset + (uint64_t)plane->stride * (row * (plane->rows - 1) / (ROWS - 1));
    return plane->row_bytes < SPOT ? (uint32_t)plane->row_bytes : SPOT;
}

static enum gpud_status canary_map(struct gpud_memory *memory, struct gpud_queue *queue,
                                   uint64_t offset, uint32_t size, unsigned access, void **data,
                                   struct gpud_error *error)
{
    if (!memory->host)
        return gpud_queue_map(queue, memory, offset, size, access, gpud_deadline(LOOK_TIMEOUT),
                              data, error);
    *data = (char *)memory->host + offset;
    return gpud_memory_begin_access(memory, access, error);
}

static enum gpud_status canary_unmap(struct gpud_memory *memory, struct gpud_queue *queue,
                                     void *data, unsigned access, struct gpud_error *error)
{
    if (!memory->host)
        return gpud_queue_unmap(queue, memory, data, error);
    gpud_memory_end_access(memory, access);
    return GPUD_OK;
}

/* Writes the patterns, before the buffers are queued. */
static enum gpud_status ring_set_canaries(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    struct gpud_queue *queue = NULL;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++) {
        struct gpud_memory *memory = ring->buffers[i].memory;
        ring->unproven |= bit_of(i);
        if (!queue && !memory->host)
            status = gpud_queue_create(memory->device, &queue, error);
        for (uint32_t number = 0; number < SPOTS && status == GPUD_OK; number++) {
            uint64_t offset;
            unsigned char spot[SPOT];
            void *data;
            uint32_t size = place(&ring->placement.layout, number, &offset);
            if (!size)
                continue;
            paint(spot, number);
            status = canary_map(memory, queue, offset, size, GPUD_WRITE, &data, error);
            if (status != GPUD_OK)
                break;
            memcpy(data, spot, size);
            status = canary_unmap(memory, queue, data, GPUD_WRITE, error);
        }
        if (status == GPUD_OK && queue)
            status = gpud_queue_finish(queue, gpud_deadline(LOOK_TIMEOUT), error);
    }
    gpud_queue_unref(&queue);
    return status;
}

/* === ring ==================================================================================== */
/* A ring's life with its driver: created by the first method that works, started, stopped. */

/* --- methods ------------------------------------------------------------------------------- */

static enum gpud_status try_method(struct gpud_capture_ring *ring,
                                   const struct gpud_capture_method *method, uint32_t capabilities,
                                   bool direct, struct gpud_error *error)
{
    if (capabilities && !(capabilities & method->capability))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", method->refusal);
    ring->method = method;
    ring->in_place = ring->device == ring->host || method->on_device;
    if (direct && !ring->in_place)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "each frame would be copied, and a direct path is required");
    enum gpud_status status = buffers_create(ring, error);
    if (status == GPUD_OK && method->canary)
        status = ring_set_canaries(ring, error);
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK && !ring->in_place; i++)
        status = show_to_device(ring, &ring->buffers[i], error);
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++)
        if (gpud_v4l2_queue(ring->node, &ring->buffers[i].raw) < 0)
            status = gpud_fail_errno(error, "the driver refuses the buffer");
    if (status != GPUD_OK) {
        buffers_undo(ring);
        return status;
    }
    ring->proven = !method->canary;
    ring->queued = ring->buffer_count == 64 ? UINT64_MAX : (UINT64_C(1) << ring->buffer_count) - 1;
    return GPUD_OK;
}

/* Takes the first method that works. fallback_reason holds the reasons against the better ones. */
static enum gpud_status try_methods(struct gpud_capture_ring *ring,
                                    const struct gpud_capture_choice *choice,
                                    struct gpud_error *error)
{
    struct v4l2_requestbuffers asked = {.type = ring->node->type, .memory = V4L2_MEMORY_MMAP};
    /* 0 if the driver does not say. */
    uint32_t capabilities =
        gpud_v4l2_call(ring->node, VIDIOC_REQBUFS, &asked) < 0 ? 0 : asked.capabilities;
    char reasons[sizeof(ring->fallback_reason)] = "";
    struct gpud_error why = {.status = GPUD_UNSUPPORTED};
    bool below = !choice->below, host = ring->device == ring->host;
    if (choice->below)
        gpud_print(reasons, "%s", choice->reason);
    for (size_t i = 0; gpud_capture_methods[i]; i++) {
        const struct gpud_capture_method *method = gpud_capture_methods[i];
        bool wanted =
            choice->method ? strcmp(choice->method, method->name) == 0 : !(host && method->by_name);
        if (below && wanted && !(host && method->by_cpu)) {
            if (try_method(ring, method, capabilities, choice->direct, &why) == GPUD_OK) {
                gpud_print(ring->fallback_reason, "%s", reasons);
                return GPUD_OK;
            }
            size_t used = strlen(reasons);
            gpud_print_n(reasons + used, sizeof(reasons) - used, "%sv4l2-%s: %s", used ? "; " : "",
                         method->name, why.reason);
        }
        below |= method == choice->below;
    }
    return gpud_fail_native(error, why.status, why.origin, why.native, "%s", reasons);
}

/* --- frames -------------------------------------------------------------------------------- */

/* In place the frames are the buffers; else slots, each with memory of its own. */
static enum gpud_status make_frames(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    uint32_t count = ring->in_place ? ring->buffer_count : ring->limit;
    ring->frames = calloc(count, sizeof(*ring->frames));
    if (!ring->frames)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u frames", count);
    ring->frame_count = count;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_frame *frame = &ring->frames[i];
        frame->ops = ring->in_place ? &in_place_ops : &copied_ops;
        frame->owner = ring;
        frame->slot = i;
        frame->memory = ring->in_place ? ring->buffers[i].memory : NULL;
        if (!frame->memory || !frame->memory->host) /* else the CPU needs no queue to map it */
            status = gpud_queue_create(ring->device, &frame->queue, error);
        if (status == GPUD_OK && !ring->in_place)
            status = gpud_memory_alloc_for(ring->device, ring->placement.layout.size,
                                           GPUD_USAGE_LOCAL, &frame->memory, error);
    }
    uint32_t most = count > GPUD_CAPTURE_SPARE ? count - GPUD_CAPTURE_SPARE : 1;
    if (ring->in_place && ring->limit > most)
        ring->limit = most;
    return status;
}

/* --- creating and stopping ----------------------------------------------------------------- */

enum gpud_status gpud_capture_ring_create(struct gpud_v4l2 *node, struct gpud_device *device,
                                          struct gpud_device *host,
                                          const struct gpud_placement *placement, uint32_t slots,
                                          const struct gpud_capture_choice *choice,
                                          struct gpud_capture_ring **ring, struct gpud_error *error)
{
    struct gpud_capture_ring *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a ring");
    atomic_init(&made->references, 1);
    made->log = &host->context->log;
    made->node = node;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    made->placement = *placement;
    made->limit = slots;
    made->watch_fd = -1;
    gpud_lock_init(&made->driver_lock, GPUD_RANK_CAPTURE_DRIVER);
    gpud_lock_init(&made->lock, GPUD_RANK_CAPTURE_RING);
    gpud_cond_init(&made->complete);

    enum gpud_status status = GPUD_OK;
    made->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->wake_fd < 0)
        status = gpud_fail_errno(error, "cannot create an eventfd");
    if (status == GPUD_OK)
        status = try_methods(made, choice, error);
    if (status == GPUD_OK)
        status = make_frames(made, error);
    if (status != GPUD_OK) {
        if (made->buffer_count)
            buffers_undo(made);
        ring_unref(made);
        return status;
    }
    *ring = made;
    return GPUD_OK;
}

enum gpud_status gpud_capture_ring_start(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    int type = (int)ring->node->type;
    if (gpud_v4l2_call(ring->node, VIDIOC_STREAMON, &type) < 0)
        return gpud_fail_errno(error, "the driver of %s does not start%s", ring->node->path,
                               errno == ENOSPC ? ": the bus has no bandwidth left" : "");
    ring->streaming = true;
    return GPUD_OK;
}

enum gpud_status gpud_capture_ring_stop(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    int type = (int)ring->node->type;
    gpud_lock_take(&ring->driver_lock);
    ring->streaming = false;
    ring_update_watch(ring);
    gpud_v4l2_call(ring->node, VIDIOC_STREAMOFF, &type);
    gpud_lock_take(&ring->lock);
    ring->queued = 0;
    gpud_lock_release(&ring->lock);
    gpud_lock_release(&ring->driver_lock);

    int64_t until = gpud_deadline(STOP_TIMEOUT);
    gpud_lock_take(&ring->lock);
    bool again = ring->stopped;
    ring->stopped = true; /* what is released from now on waits by itself */
    while (ring->pending && !again && gpud_lock_wait_until(&ring->lock, &ring->complete, until))
        ;
    uint32_t stuck = ring->pending; /* devices still work on them: their memory must stay */
    gpud_lock_release(&ring->lock);
    if (stuck && !again) {
        gpud_log_error(ring->log, "capture",
                       "%s does not finish with %u buffers: their memory is not freed",
                       ring->device->info.name, stuck);
        atomic_fetch_add(&ring->references, 1); /* leaked on purpose */
    }

    /* A driver may keep mapped buffers, so unused ones are unmapped first. */
    uint32_t none = 0;
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    uint64_t held = ring->in_place ? ring->acquired : 0, in_use = stuck ? UINT64_MAX : held;
    gpud_lock_release(&ring->lock);
    for (uint32_t i = 0; i < ring->buffer_count; i++)
        if (!(in_use >> i & 1))
            buffer_drop(&ring->buffers[i]);
    ring->kept = request_buffers(ring, &none) < 0 && errno == EBUSY;
    gpud_lock_release(&ring->driver_lock);
    ring_free_kept(ring); /* a frame may have been released meanwhile */
    if (!atomic_load(&ring->kept))
        return GPUD_OK;
    return gpud_fail_native(error, GPUD_IO, "errno", EBUSY,
                            "the driver of %s waits for %d frame%s that are still held: release "
                            "them first",
                            ring->node->path, __builtin_popcountll(held),
                            held & (held - 1) ? "s" : "");
}

/* === arrival ================================================================================= */
/* Judges a dequeued buffer. Checks everything that the driver reports about it. */

/* How far a time stamp may lie outside the time in which its frame was captured. */
#define STAMP_SLACK (2 * GPUD_SEC)

enum arrival_action {
    ARRIVAL_ACQUIRE,
    ARRIVAL_NO_SIGNAL, /* drop it: noise, or the card's substitute picture */
    ARRIVAL_OVERRUN,   /* drop it: the application holds all frames */
};

/* A dequeued buffer, and what to do with it. */
struct arrival {
    enum arrival_action action;
    int64_t time;
    uint64_t pts;
    bool at_start;    /* pts is the start of exposure */
    uint64_t missing; /* frames that the driver dropped before this one */
    uint32_t flags;   /* enum gpud_frame_flags */
};

/* Frames missing between the last and this one. The driver's number has 32 bits and wraps. It
 * counts pictures: both fields of one have the same number. */
static uint64_t count_missing(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw)
{
    uint32_t first = capture->signal.now.bottom_first ? V4L2_FIELD_BOTTOM : V4L2_FIELD_TOP;
    uint32_t second = capture->stream.alternate && raw->field != first;
    uint32_t pictures = raw->sequence - capture->count.driver_sequence;
    int64_t step = pictures;
    if (capture->stream.alternate)
        step = 2 * step + second - capture->count.driver_second;
    bool numbered = capture->count.numbered;
    capture->count.driver_sequence = raw->sequence;
    capture->count.driver_second = second;
    capture->count.numbered = true;
    if (!numbered)
        capture->count.driver_count = raw->sequence;
    if (!numbered || step == 0)
        return 0; /* the first frame, or a driver that does not count */
    if (step < 0 || pictures > UINT32_MAX / 2) {
        capture->count.discontinuity = true; /* backwards: the driver started again */
        capture->count.driver_count = raw->sequence;
        return 0;
    }
    capture->count.driver_count += pictures;
    return (uint64_t)step - 1;
}

/* Whether each area holds a whole picture. An impossible data_offset is set to 0, so that the frame
 * stays inside its memory. */
static bool arrival_complete(const struct gpud_capture_ring *ring, struct gpud_v4l2_buffer *raw)
{
    const struct gpud_placement *placement = &ring->placement;
    bool whole = raw->planes == placement->areas;
    for (uint32_t i = 0; i < placement->areas; i++) {
        uint64_t end = (uint64_t)raw->plane[i].data_offset + placement->area[i].filled;
        if (i >= raw->planes || end > placement->area[i].size) {
            raw->plane[i].data_offset = 0;
            whole = false;
        } else if (raw->plane[i].bytesused < end) {
            whole = false;
        }
    }
    return whole;
}

/* If the driver says no more than "interlaced", the signal's standard decides which field is first.
 */
static uint32_t field_flags(const struct gpud_capture *capture, uint32_t field)
{
    bool bottom_first = capture->signal.now.bottom_first;
    uint32_t first = bottom_first ? 0 : GPUD_FRAME_TOP_FIRST;
    if (capture->stream.alternate)
        return GPUD_FRAME_INTERLACED | first |
               (field == V4L2_FIELD_BOTTOM ? GPUD_FRAME_BOTTOM_FIELD : GPUD_FRAME_TOP_FIELD);
    const struct gpud_picture *picture = &capture->info.media.picture; /* written by this thread */
    if (picture->scan != GPUD_SCAN_INTERLEAVED)
        return 0;
    switch (field) {
    case V4L2_FIELD_NONE: /* this one is progressive */
        return 0;
    case V4L2_FIELD_INTERLACED_TB:
        return GPUD_FRAME_INTERLACED | GPUD_FRAME_TOP_FIRST;
    case V4L2_FIELD_INTERLACED_BT:
        return GPUD_FRAME_INTERLACED;
    default:
        return GPUD_FRAME_INTERLACED | (picture->field_order == GPUD_FIELD_ORDER_BOTTOM_FIRST
                                            ? 0
                                            : (uint32_t)GPUD_FRAME_TOP_FIRST);
    }
}

/* room: a frame can be acquired. An impossible data_offset in *raw is made 0. */
static struct arrival judge(struct gpud_capture *capture, struct gpud_v4l2_buffer *raw, bool room)
{
    struct arrival arrival = {.time = gpud_now(), .pts = GPUD_TIME_NONE};
    arrival.action = !capture->signal.now.present ? ARRIVAL_NO_SIGNAL
                     : !room                      ? ARRIVAL_OVERRUN
                                                  : ARRIVAL_ACQUIRE;
    /* A frame is captured after the stream began and before it is dequeued, with some slack: some
     * drivers stamp a frame's start with its estimated end. A "monotonic" stamp outside of that is
     * another clock's. */
    int64_t stamp = (int64_t)raw->timestamp;
    bool monotonic =
        (raw->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC &&
        raw->timestamp <= INT64_MAX && stamp >= capture->stream.began - STAMP_SLACK &&
        stamp <= arrival.time + STAMP_SLACK;
    if (monotonic)
        arrival.pts = raw->timestamp;
    arrival.at_start = (raw->flags & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    if (!capture->stream.said_clock) {
        gpud_log_info(
            &capture->context->log, "capture", "%s stamps frames %s, at %s", capture->node.path,
            monotonic ? "with the monotonic clock" : "with an unknown clock: they carry no pts",
            arrival.at_start ? "the start of exposure" : "their end");
        capture->stream.said_clock = true;
    }

    arrival.missing = count_missing(capture, raw);
    capture->count.sequence += 1 + arrival.missing;
    if (!arrival_complete(capture->ring, raw) || raw->flags & V4L2_BUF_FLAG_ERROR)
        arrival.flags |= GPUD_FRAME_CORRUPTED;
    arrival.flags |= field_flags(capture, raw->field);
    if (capture->count.discontinuity || arrival.missing)
        arrival.flags |= GPUD_FRAME_DISCONTINUITY;
    return arrival;
}

/* Counts it for get_info. acquired: the application gets it; else it was dropped. */
static void count_arrival(struct gpud_capture *capture, const struct arrival *arrival,
                          bool acquired)
{
    const struct gpud_capture_ring *ring = capture->ring;
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    info->monotonic = arrival->pts != GPUD_TIME_NONE;
    info->stamps_start = arrival->at_start;
    info->dropped += arrival->missing + !acquired;
    if (acquired) {
        info->frames++;
        info->corrupted += arrival->flags & GPUD_FRAME_CORRUPTED ? 1 : 0;
        info->copies_gpu += !ring->in_place;
        info->copies_cpu += ring->buffers[0].bounce != NULL;
    }
    gpud_lock_release(&capture->lock);
}

static void describe_frame(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw,
                           const struct arrival *arrival, struct gpud_frame *frame)
{
    const struct gpud_placement *placement = &capture->ring->placement;
    struct gpud_frame_info *info = &frame->info;
    info->pts_ns = arrival->pts;
    info->dts_ns = GPUD_TIME_NONE;
    info->duration_ns = capture->stream.frame_duration;
    info->offset = capture->count.driver_count;
    info->flags = arrival->flags;
    info->meta_size = 0;
    info->sequence = capture->count.sequence;
    info->dropped = capture->info.dropped; /* written by this thread */
    info->submitted_ns = (uint64_t)arrival->time;
    info->epoch = capture->count.epoch;
    info->layout = placement->layout;
    for (uint32_t i = 0; capture->ring->in_place && i < placement->layout.planes; i++)
        info->layout.plane[i].offset += raw->plane[placement->area_of[i]].data_offset;
}

/* === acquire ================================================================================= */
/* Waits for frames. */

/* A wait looks at the driver again after this long, even if poll() reports nothing. */
#define SLICE (500 * GPUD_MSEC)

/* --- when the driver fails ----------------------------------------------------------------- */

static enum gpud_status dequeue_failed(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error why;
    int number = errno;
    const char *path = capture->node.path;
    if (number == ENODEV || number == ENXIO)
        gpud_fail_native(&why, GPUD_NO_DEVICE, "errno", number,
                         "%s was unplugged, or its driver removed", path);
    else if (number == EIO)
        gpud_fail_native(&why, GPUD_IO, "errno", number,
                         "the driver of %s failed: start the capture again; the kernel's log "
                         "(dmesg) may say why",
                         path);
    else
        gpud_fail_errno(&why, "the driver of %s gives no frames any more: start the capture again",
                        path);
    return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
}

/* --- waiting ------------------------------------------------------------------------------- */

/* What poll() saw, and is not handled yet. */
struct news {
    bool event;  /* or a look at the signal is due */
    bool failed; /* the next dequeue shall explain it */
};

/* Makes the card's writes into a device's memory visible, and checks that they arrived there, if
 * that is not proven yet. flags: in an incomplete frame the canary may remain. */
static enum gpud_status check_memory(struct gpud_capture *capture, uint32_t index, uint32_t flags,
                                     struct gpud_error *why)
{
    struct gpud_capture_ring *ring = capture->ring;
    struct gpud_memory *memory = ring->buffers[index].memory;
    enum gpud_status status = GPUD_OK;
    if (ring->method->on_device)
        status = gpud_memory_flush_remote(memory, why);
    if (status != GPUD_OK || !(ring->unproven >> index & 1) || flags & GPUD_FRAME_CORRUPTED)
        return status;
    struct gpud_queue *queue = ring->frames[index].queue; /* in place: the frame is the buffer */
    bool looked = false, written = false;
    for (uint32_t number = 0; number < SPOTS && !written; number++) {
        uint64_t offset;
        unsigned char spot[SPOT];
        void *data;
        uint32_t size = place(&ring->placement.layout, number, &offset);
        if (!size)
            continue;
        paint(spot, number);
        status = canary_map(memory, queue, offset, size, GPUD_READ, &data, why);
        if (status != GPUD_OK)
            return status;
        looked = true;
        written = memcmp(data, spot, size) != 0;
        status = canary_unmap(memory, queue, data, GPUD_READ, why);
        if (status != GPUD_OK)
            return status;
    }
    if (looked && !written)
        return gpud_fail(why, GPUD_UNSUPPORTED,
                         "the driver took the memory of %s and wrote elsewhere",
                         ring->device->info.name);
    ring->unproven &= ~bit_of(index);
    if (!ring->proven) {
        ring->proven = true;
        gpud_capture_publish_path(capture);
    }
    return GPUD_OK;
}

/* Dequeues one buffer, if the driver has one. *frame stays NULL if it gives no frame; *idle: no
 * buffer was dropped either. */
static enum gpud_status dequeue(struct gpud_capture *capture, struct news *news,
                                struct gpud_frame **frame, bool *idle, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    struct gpud_v4l2_buffer raw = {.memory = ring->method->memory};
    struct gpud_error why;
    *idle = false;
    if (gpud_v4l2_dequeue(&capture->node, &raw) < 0) {
        if (errno == EAGAIN && !news->failed) {
            *idle = true;
            return GPUD_OK;
        }
        /* EAGAIN: poll() reported an error, but no buffer of the driver explains it. */
        if (errno == EAGAIN && gpud_v4l2_is_alive(&capture->node))
            errno = EIO;
        return dequeue_failed(capture, error);
    }
    news->failed = false;
    gpud_lock_take(&ring->lock);
    bool right = raw.index < ring->buffer_count && ring->queued >> raw.index & 1;
    if (right)
        ring->queued &= ~bit_of(raw.index);
    bool room = ring_has_room(ring);
    gpud_lock_release(&ring->lock);
    if (!right) {
        gpud_fail(&why, GPUD_IO,
                  "the driver of %s gave buffer %u, which it did not have: start the capture again",
                  capture->node.path, raw.index);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    }

    struct arrival arrival = judge(capture, &raw, room);
    if (arrival.action != ARRIVAL_ACQUIRE) {
        ring_give_back(ring, raw.index);
        count_arrival(capture, &arrival, false);
        capture->count.discontinuity = true;
        bool full = arrival.action == ARRIVAL_OVERRUN;
        if (full && !capture->stream.said_full)
            gpud_log_warning(&capture->context->log, "capture",
                             "frames of %s are dropped, because the application holds all %u",
                             capture->node.path, ring->limit);
        capture->stream.said_full |= full;
        return GPUD_OK;
    }
    if (check_memory(capture, raw.index, arrival.flags, &why) != GPUD_OK) {
        count_arrival(capture, &arrival, false);
        ring_give_back(ring, raw.index);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_METHOD_FAILED, &why, error);
    }
    struct gpud_frame *taken;
    if (ring->in_place) {
        ring->buffers[raw.index].posted = false;
        taken = acquire_slot(ring, raw.index);
    } else if (acquire_copied(ring, &raw, &taken, &why) != GPUD_OK) {
        /* The buffer has come back by itself. */
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    }
    count_arrival(capture, &arrival, true);
    describe_frame(capture, &raw, &arrival, taken);
    capture->count.discontinuity = false;
    capture->stream.last_frame = arrival.time;
    *frame = taken;
    return GPUD_OK;
}

/* poll() reports an error for a driver without a buffer, which is not a failure, so it is not
 * polled then. False: another event came, and the driver need not be asked for a frame. */
static bool wait_for_news(const struct gpud_capture *capture, struct ring_wait wait,
                          int64_t deadline, struct news *news)
{
    short events = capture->signal.has_event ? POLLIN | POLLPRI : POLLIN;
    struct pollfd fds[] = {
        {.fd = wait.fed ? capture->node.fd : -1, .events = events},
        {.fd = wait.out ? capture->ring->wake_fd : -1, .events = POLLIN},
        {.fd = capture->interrupt.fd, .events = POLLIN},
    };
    int64_t left = deadline - gpud_now();
    struct timespec slice = gpud_timespec(left < SLICE ? left : SLICE);
    int count = capture->node.system->ppoll(fds, 3, &slice, NULL);
    if (count < 0)
        return false; /* a Unix signal: the caller looks again */
    bool event = fds[0].revents & POLLPRI;
    bool failed = fds[0].revents & (POLLERR | POLLHUP | POLLNVAL);
    news->event |= event;
    news->failed = failed;
    /* A changed video signal may be the cause of the failure, and the next frame may belong to it,
     * so the change is handled first. */
    return !event && (fds[0].revents & POLLIN || failed || count == 0);
}

/* Whether to check the signal although poll() reported nothing: while it is lost, and while no
 * frame comes if the driver has no event for it or the caller does not poll. */
static bool is_look_due(const struct gpud_capture *capture, bool wait, bool idle)
{
    int64_t now = gpud_now();
    if (now < capture->signal.look_at)
        return false;
    if (!capture->signal.now.present)
        return true;
    bool silent = now - capture->stream.last_frame > SLICE || (capture->signal.has_event && !wait);
    return idle && silent;
}

static enum gpud_status no_frame(struct gpud_capture *capture, bool held, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    if (held)
        return gpud_fail(error, GPUD_TIMEOUT,
                         "the driver of %s waits for the frames that are held, for its signal has "
                         "changed: release them",
                         capture->node.path);
    if (!capture->signal.now.present)
        return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->signal.now.reason);
    gpud_lock_take(&ring->lock);
    bool room = ring_has_room(ring);
    gpud_lock_release(&ring->lock);
    if (room)
        return gpud_fail(error, GPUD_TIMEOUT,
                         "no frame from %s by the deadline: is there a signal?",
                         capture->node.path);
    return gpud_fail(error, GPUD_TIMEOUT, "the application holds all %u frames of %s: release one",
                     ring->limit, capture->node.path);
}

static enum gpud_status requeue(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error why;
    return ring_requeue(capture->ring, &why) == GPUD_OK
               ? GPUD_OK
               : gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
}

/* A frame costs one poll, one DQBUF and, for returned buffers, one QBUF; without a wait no poll. */
static enum gpud_status acquire_frame(struct gpud_capture *capture, bool wait, int64_t deadline,
                                      struct gpud_frame **frame, struct gpud_error *error)
{
    struct news news = {0};
    for (bool last = false;;) {
        if (capture->state.phase == GPUD_CAPTURE_IDLE)
            return gpud_fail(error, GPUD_INVALID,
                             "the capture is not configured: it has no format to stream");
        if (capture->state.phase == GPUD_CAPTURE_FAILED) {
            if (error)
                *error = capture->failure;
            return capture->failure.status;
        }
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (gpud_capture_follow(capture, news.event))
            news.failed = false; /* it may have been the old ring's */
        news.event = false;
        enum gpud_status status = GPUD_OK;
        if (capture->state.phase == GPUD_CAPTURE_FAILED)
            continue;
        if (capture->state.phase == GPUD_CAPTURE_DEFERRED) {
            status = gpud_capture_await_signal(capture, deadline, error);
            if (status != GPUD_OK)
                return status;
            continue;
        }
        bool held = capture->state.phase == GPUD_CAPTURE_DRAINING, idle = true, ask = true;
        bool sleep = wait && (held || !news.failed);
        /* Else an event loop that always finds a frame would miss a change of the signal. */
        bool peek = !sleep && !held && capture->watch_fd >= 0 && !news.failed;
        struct gpud_capture_ring *ring = capture->ring; /* a dequeue may replace it */
        if (ring_has_back(ring))
            status = requeue(capture, error);
        if (status == GPUD_OK && (sleep || peek)) {
            struct ring_wait begun = ring_wait_begin(ring);
            if (begun.back)
                status = requeue(capture, error);
            if (status == GPUD_OK)
                ask = wait_for_news(capture, begun, sleep ? deadline : 0, &news);
        }
        if (status == GPUD_OK && ask && !held)
            status = dequeue(capture, &news, frame, &idle, error);
        if (status != GPUD_OK || *frame)
            return status;
        news.event |= is_look_due(capture, wait, idle);
        if (capture->ring != ring || gpud_now() < deadline)
            continue;
        /* An event loop that sees an error or an event must not get GPUD_TIMEOUT forever. */
        if (!last && !held && idle && !peek && capture->watch_fd >= 0)
            wait_for_news(capture, ring_wait_begin(ring), 0, &news);
        if (last || held || !(news.event || (idle && news.failed)))
            return no_frame(capture, held, error);
        last = true;
    }
}

enum gpud_status gpud_capture_acquire(struct gpud_capture *capture, int64_t timeout_ns,
                                      struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_frame *found = NULL;
    enum gpud_status status =
        acquire_frame(capture, timeout_ns > 0, gpud_deadline(timeout_ns), &found, error);
    if (status == GPUD_OK)
        *frame = found;
    struct gpud_capture_ring *ring = capture->ring;
    if (!ring)
        return status;
    gpud_lock_take(&ring->lock);
    ring->waiting = false;
    ring_set_woken(ring, ring_is_due(ring));
    bool watched = ring->watch_fd >= 0;
    gpud_lock_release(&ring->lock);
    if (watched) {
        gpud_lock_take(&ring->driver_lock);
        ring_update_watch(ring);
        gpud_lock_release(&ring->driver_lock);
    }
    return status;
}

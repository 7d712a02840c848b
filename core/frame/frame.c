/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames, the rings that they lie in, their owners, and their large metas. */
#include "frame/frame.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* === ring ==================================================================================== */
/* Slots of one layout in one memory, or in several. */

#define PAGE UINT64_C(4096)

void gpud_ring_init(struct gpud_ring *ring, struct gpud_device *device, enum gpud_usage usage,
                    uint64_t frame_size, uint32_t slots_per_memory)
{
    *ring = (struct gpud_ring){
        .device = device,
        .usage = usage,
        .slot_size = (frame_size + PAGE - 1) / PAGE * PAGE,
        .slots_per_memory = slots_per_memory,
    };
}

enum gpud_status gpud_ring_alloc(const struct gpud_ring *ring, struct gpud_memory **memory,
                                 struct gpud_error *error)
{
    return gpud_memory_alloc_for(ring->device, ring->slot_size * ring->slots_per_memory,
                                 ring->usage, memory, error);
}

enum gpud_status gpud_ring_add(struct gpud_ring *ring, struct gpud_memory *memory,
                               struct gpud_error *error)
{
    if (ring->memories == GPUD_RING_MEMORIES_MAX)
        return gpud_fail(error, GPUD_NO_MEMORY, "the ring has its greatest size of %d memories",
                         GPUD_RING_MEMORIES_MAX);
    ring->memory[ring->memories++] = memory;
    return GPUD_OK;
}

enum gpud_status gpud_ring_grow(struct gpud_ring *ring, struct gpud_error *error)
{
    struct gpud_memory *memory;
    enum gpud_status status = gpud_ring_alloc(ring, &memory, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_ring_add(ring, memory, error);
    if (status != GPUD_OK)
        gpud_memory_unref(&memory);
    return status;
}

enum gpud_status gpud_ring_describe(const struct gpud_ring *ring, uint32_t first, bool local,
                                    struct gpud_ring_description *description,
                                    struct gpud_error *error)
{
    description->slot_size = ring->slot_size;
    description->slots_per_memory = ring->slots_per_memory;
    description->memories = 0;
    for (uint32_t i = first; i < ring->memories; i++) {
        struct gpud_handle *handle = &description->handle[description->memories];
        if (local) {
            gpud_memory_export_local(ring->memory[i], handle);
        } else {
            enum gpud_status status = gpud_memory_export(ring->memory[i], handle, error);
            if (status != GPUD_OK) {
                gpud_ring_description_close(description);
                return status;
            }
        }
        description->memories++;
    }
    return GPUD_OK;
}

void gpud_ring_description_close(struct gpud_ring_description *description)
{
    for (uint32_t i = 0; i < description->memories; i++)
        gpud_fd_close(&description->handle[i].fd);
    description->memories = 0;
}

enum gpud_status gpud_ring_import(struct gpud_ring *ring,
                                  const struct gpud_ring_description *description, bool local,
                                  uint64_t frame_size, struct gpud_error *error)
{
    uint32_t before = ring->memories;
    if (description->memories < 1 || description->memories > GPUD_RING_MEMORIES_MAX - before ||
        description->slots_per_memory < 1 || description->slots_per_memory > GPUD_SLOTS_MAX)
        return gpud_fail(error, GPUD_PEER, "the peer's ring has %u memories of %u slots",
                         description->memories, description->slots_per_memory);
    if (description->slot_size < frame_size || description->slot_size > 2 * GPUD_FRAME_SIZE_MAX)
        return gpud_fail(
            error, GPUD_PEER, "the peer's ring has slots of %llu bytes for frames of %llu",
            (unsigned long long)description->slot_size, (unsigned long long)frame_size);
    if (before && (description->slot_size != ring->slot_size ||
                   description->slots_per_memory != ring->slots_per_memory))
        return gpud_fail(error, GPUD_PEER, "the peer's ring grew by slots of another size");

    for (uint32_t i = 0; i < description->memories; i++)
        if (description->handle[i].type == GPUD_HANDLE_LOCAL && !local)
            return gpud_fail(error, GPUD_PEER,
                             "the peer offers memory by pointer, and is another process");

    ring->slot_size = description->slot_size;
    ring->slots_per_memory = description->slots_per_memory;
    for (uint32_t i = 0; i < description->memories; i++) {
        struct gpud_handle handle = description->handle[i];
        handle.keep = ring->has_images;
        enum gpud_status status =
            gpud_memory_import(ring->device, &handle, ring->slot_size * ring->slots_per_memory,
                               ring->usage, &ring->memory[ring->memories], error);
        if (status != GPUD_OK) {
            while (ring->memories > before)
                gpud_memory_unref(&ring->memory[--ring->memories]);
            return status;
        }
        ring->memories++;
    }
    return GPUD_OK;
}

enum gpud_status gpud_ring_view(const struct gpud_ring *ring, struct gpud_device *device,
                                uint32_t first, struct gpud_memory *views[GPUD_RING_MEMORIES_MAX],
                                struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = first; status == GPUD_OK && i < ring->memories; i++)
        status = gpud_memory_view(ring->memory[i], device, &views[i], error);
    return status;
}

void gpud_ring_finish(struct gpud_ring *ring)
{
    while (ring->memories)
        gpud_memory_unref(&ring->memory[--ring->memories]);
}

/* === large_meta ============================================================================== */

struct large_meta {
    atomic_uint references;
    _Alignas(64) uint8_t bytes[];
};

static struct large_meta *large_meta_find(const void *bytes)
{
    return (struct large_meta *)((uintptr_t)bytes - offsetof(struct large_meta, bytes));
}

void *gpud_large_meta_create(size_t size)
{
    struct large_meta *made = aligned_alloc(_Alignof(struct large_meta),
                                            gpud_large_meta_room((uint32_t)size) + sizeof(*made));
    if (!made)
        return NULL;
    atomic_init(&made->references, 1);
    return made->bytes;
}

void gpud_large_meta_ref(const void *bytes)
{
    if (bytes)
        atomic_fetch_add_explicit(&large_meta_find(bytes)->references, 1, memory_order_relaxed);
}

void gpud_large_meta_unref(const void *bytes)
{
    if (bytes && atomic_fetch_sub_explicit(&large_meta_find(bytes)->references, 1,
                                           memory_order_acq_rel) == 1)
        free(large_meta_find(bytes));
}

/* === frame =================================================================================== */

/* Copies what the application may set, except its size: up to the meta, of which only the used part
 * is copied. */
static void copy_settable(struct gpud_frame_info *to, const struct gpud_frame_info *from)
{
    size_t first = offsetof(struct gpud_frame_info, pts_ns);
    size_t flags = offsetof(struct gpud_frame_info, flags);
    size_t rest = offsetof(struct gpud_frame_info, meta_size);
    memcpy((char *)to + first, (const char *)from + first, flags - first);
    /* Another holder's map may flag the frame meanwhile. */
    to->flags = __atomic_load_n(&from->flags, __ATOMIC_RELAXED);
    memcpy((char *)to + rest, (const char *)from + rest, sizeof(to->meta_size) + from->meta_size);
}

static void copy_info(struct gpud_frame_info *to, const struct gpud_frame_info *from)
{
    size_t tail = offsetof(struct gpud_frame_info, sequence);
    copy_settable(to, from);
    memcpy((char *)to + tail, (const char *)from + tail, sizeof(*to) - tail);
}

/* The fields of the first release, which every program has: they are copied whatever its size. */
#define INFO_FIXED GPUD_END_OF(struct gpud_frame_info, large_meta_size)

_Static_assert(sizeof(struct gpud_frame_info) == INFO_FIXED,
               "a field behind these is copied as far as the caller's size goes");

void gpud_frame_get_info(const struct gpud_frame *frame, struct gpud_frame_info *info)
{
    if (info->size < INFO_FIXED)
        return;
    copy_info(info, &frame->info);
    if (info->size > INFO_FIXED)
        memset((char *)info + INFO_FIXED, 0, info->size - INFO_FIXED);
    info->bytes = gpud_frame_bytes(frame);
    info->slot = frame->slot;
    info->memory = frame->memory;
    info->memory_offset = frame->offset;
    info->native = frame->memory->native;
    info->device = frame->memory->device;
    if (frame->ops->is_poisoned(frame))
        info->flags |= GPUD_FRAME_CORRUPTED;
}

enum gpud_status gpud_frame_set_info(struct gpud_frame *frame, const struct gpud_frame_info *info,
                                     struct gpud_error *error)
{
    if (info->size < INFO_FIXED)
        return gpud_fail(error, GPUD_INVALID,
                         "gpud_frame_info.size is not set: use GPUD_INFO_INIT");
    if (atomic_load_explicit(&frame->extra_refs, memory_order_acquire))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the frame has several holders: set its info before gpud_frame_ref()");
    if (info->meta_size > GPUD_FRAME_META_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "%u bytes of meta do not fit into the %d that a frame carries",
                         info->meta_size, GPUD_FRAME_META_MAX);
    if (info->large_meta_size > GPUD_LARGE_META_MAX || (info->large_meta_size && !info->large_meta))
        return gpud_fail(
            error, GPUD_INVALID, "a large meta of %zu bytes%s: at most %d are possible",
            info->large_meta_size, info->large_meta ? "" : " at NULL", GPUD_LARGE_META_MAX);
    struct gpud_frame_info *own = &frame->info;
    bool same = info->large_meta_size > 0 && info->large_meta == own->large_meta &&
                info->large_meta_size == own->large_meta_size;
    if (!same) { /* it keeps its own if that is what the caller read from it */
        void *copy = NULL;
        if (info->large_meta_size > 0) {
            copy = gpud_large_meta_create(info->large_meta_size);
            if (!copy)
                return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %zu bytes of meta",
                                 info->large_meta_size);
            memcpy(copy, info->large_meta, info->large_meta_size);
        }
        gpud_large_meta_clear(own);
        own->large_meta = copy;
        own->large_meta_size = info->large_meta_size;
    }
    uint32_t kept = own->flags & ~GPUD_FRAME_TRAVELS;
    copy_settable(own, info);
    own->flags = kept | (info->flags & GPUD_FRAME_TRAVELS);
    return GPUD_OK;
}

uint64_t gpud_frame_bytes(const struct gpud_frame *frame)
{
    return frame->info.bytes ? frame->info.bytes : frame->info.layout.size;
}

enum gpud_status gpud_frame_set_size(struct gpud_frame *frame, uint64_t bytes,
                                     struct gpud_error *error)
{
    const struct gpud_layout *layout = &frame->info.layout;
    if (frame->info.flags & GPUD_FRAME_READ_ONLY)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the frame is shared with others: set its size before it is submitted");
    if (frame->maps)
        return gpud_fail(error, GPUD_INVALID,
                         "the frame is mapped: set its size before that, or gpud_frame_unmap() it");
    if (!gpud_layout_is_block(layout) && bytes != layout->size)
        return gpud_fail(error, GPUD_INVALID, "a picture has its full size of %llu bytes, not %llu",
                         (unsigned long long)layout->size, (unsigned long long)bytes);
    if (bytes < 1 || bytes > layout->size)
        return gpud_fail(error, GPUD_INVALID, "a block of %llu bytes: 1 to %llu are possible",
                         (unsigned long long)bytes, (unsigned long long)layout->size);
    frame->info.bytes = bytes < layout->size ? bytes : 0;
    return GPUD_OK;
}

enum gpud_status gpud_frame_check(const struct gpud_frame *frame, struct gpud_error *error)
{
    const struct gpud_error *lost = &frame->write_error;
    if (lost->status == GPUD_OK)
        return GPUD_OK;
    return gpud_fail_native(error, lost->status, lost->origin, lost->native, "%s", lost->reason);
}

enum gpud_status gpud_frame_need_queue(struct gpud_frame *frame, struct gpud_error *error)
{
    if (frame->queue)
        return GPUD_OK;
    enum gpud_status status = gpud_queue_create(frame->memory->device, &frame->queue, error);
    if (status == GPUD_OK && frame->written.device)
        status = gpud_queue_await(frame->queue, &frame->written, error);
    return status;
}

enum gpud_status gpud_frame_map(struct gpud_frame *frame, unsigned access, int64_t timeout_ns,
                                void **data, struct gpud_error *error)
{
    return gpud_frame_map_part(frame, 0, gpud_frame_bytes(frame), access, timeout_ns, data, error);
}

enum gpud_status gpud_frame_map_part(struct gpud_frame *frame, uint64_t from, uint64_t size,
                                     unsigned access, int64_t timeout_ns, void **data,
                                     struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (access == 0 || access > (GPUD_READ | GPUD_WRITE))
        return gpud_fail(error, GPUD_INVALID, "map a frame for GPUD_READ, GPUD_WRITE or both");
    if ((access & GPUD_WRITE) && (frame->info.flags & GPUD_FRAME_READ_ONLY))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the frame is shared with others: copy it to change it");

    /* Where nothing is waited for, reading the clock would cost more than the rest. */
    bool waits = frame->ops->wait_host != gpud_frame_wait_host_complete || frame->queue ||
                 !frame->memory->host;
    int64_t deadline = waits ? gpud_deadline(timeout_ns) : 0;
    enum gpud_status status = access & GPUD_READ ? gpud_frame_check(frame, error) : GPUD_OK;
    if (status == GPUD_OK && frame->maps == 0)
        status = frame->ops->wait_host(frame, deadline, error);
    if (status != GPUD_OK)
        return status;
    if (frame->memory->host) {
        if (frame->maps == 0 && frame->queue) /* maps nothing here, only orders the bytes */
            status = gpud_queue_finish(frame->queue, deadline, error);
        if (status == GPUD_OK && frame->maps == 0) /* covers every access of inner maps */
            status = gpud_memory_begin_access(frame->memory, GPUD_READ | GPUD_WRITE, error);
        if (status != GPUD_OK)
            return status;
        frame->maps++;
        *data = (char *)frame->memory->host + frame->offset + from;
        return GPUD_OK;
    }
    if (frame->maps == 0) {
        status = gpud_frame_need_queue(frame, error);
        if (status != GPUD_OK)
            return status;
        /* Only the requested access: reading and writing back may cost a copy each. */
        status = gpud_queue_map(frame->queue, frame->memory, frame->offset + from, size, access,
                                deadline, &frame->mapped, error);
        if (status != GPUD_OK)
            return status;
        frame->access = access;
        frame->write_error.status = GPUD_OK; /* it is being written again */
    } else if (access & ~frame->access) {
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the frame is mapped already, for %s only: map it for both at once",
                         frame->access == GPUD_READ ? "reading" : "writing");
    }
    frame->maps++;
    *data = frame->mapped;
    return GPUD_OK;
}

void gpud_frame_unmap(struct gpud_frame *frame)
{
    if (frame->maps == 0 || --frame->maps > 0)
        return;
    if (frame->memory->host)
        gpud_memory_end_access(frame->memory, GPUD_READ | GPUD_WRITE);
    if (!frame->mapped)
        return;
    struct gpud_error error;
    enum gpud_status status = gpud_queue_unmap(frame->queue, frame->memory, frame->mapped, &error);
    frame->mapped = NULL;
    if (status != GPUD_OK && (frame->access & GPUD_WRITE))
        frame->write_error = error; /* reported when the frame is used */
}

/* --- readiness ----------------------------------------------------------------------------- */

enum gpud_status gpud_frame_wait_complete(struct gpud_frame *frame, struct gpud_queue *queue,
                                          struct gpud_error *error)
{
    return GPUD_OK;
}

enum gpud_status gpud_frame_wait_host_complete(struct gpud_frame *frame, int64_t deadline,
                                               struct gpud_error *error)
{
    return GPUD_OK;
}

bool gpud_frame_is_never_poisoned(const struct gpud_frame *frame)
{
    return false;
}

enum gpud_status gpud_frame_join_wait(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    return frame->queue ? gpud_queue_join(queue, frame->queue, error) : GPUD_OK;
}

enum gpud_status gpud_frame_join_post(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    if (frame->queue)
        return gpud_queue_join(frame->queue, queue, error);
    return gpud_queue_finish(queue, gpud_deadline(GPUD_SEC), error);
}

enum gpud_status gpud_frame_order(struct gpud_frame *frame, struct gpud_queue *queue,
                                  int64_t deadline, struct gpud_error *error)
{
    if (frame->memory->device == queue->device && gpud_device_has_fences(queue->device))
        return frame->ops->wait(frame, queue, error);
    enum gpud_status status = frame->ops->wait_host(frame, deadline, error);
    if (status == GPUD_OK && frame->queue && frame->queue != queue)
        status = gpud_queue_finish(frame->queue, deadline, error);
    return status;
}

enum gpud_status gpud_frame_wait_lines(struct gpud_frame *frame, uint32_t lines, int64_t timeout_ns,
                                       struct gpud_error *error)
{
    uint32_t rows = frame->info.layout.height;
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (gpud_layout_is_block(&frame->info.layout))
        return gpud_fail(error, GPUD_INVALID, "a block has no lines: gpud_frame_map() it");
    if (lines < 1 || lines > rows)
        return gpud_fail(error, GPUD_INVALID, "%u lines of a picture that has %u", lines, rows);
    int64_t deadline = gpud_deadline(timeout_ns);
    enum gpud_status status = frame->ops->wait_lines
                                  ? frame->ops->wait_lines(frame, lines, deadline, error)
                                  : frame->ops->wait_host(frame, deadline, error);
    return status == GPUD_OK && frame->queue ? gpud_queue_finish(frame->queue, deadline, error)
                                             : status;
}

enum gpud_status gpud_frame_wait(struct gpud_frame *frame, void *native_queue,
                                 struct gpud_error *error)
{
    struct gpud_queue queue;
    enum gpud_status status = gpud_queue_wrap(frame->memory->device, native_queue, &queue, error);
    return status == GPUD_OK ? frame->ops->wait(frame, &queue, error) : status;
}

enum gpud_status gpud_frame_post(struct gpud_frame *frame, void *native_queue,
                                 struct gpud_error *error)
{
    struct gpud_queue queue;
    enum gpud_status status = gpud_queue_wrap(frame->memory->device, native_queue, &queue, error);
    return status == GPUD_OK ? frame->ops->post(frame, &queue, error) : status;
}

/* --- holders ------------------------------------------------------------------------------- */

struct gpud_frame *gpud_frame_ref(struct gpud_frame *frame)
{
    /* The only holder writes this before others can read it. */
    if (!(frame->info.flags & GPUD_FRAME_READ_ONLY))
        frame->info.flags |= GPUD_FRAME_READ_ONLY;
    atomic_fetch_add_explicit(&frame->extra_refs, 1, memory_order_relaxed);
    return frame;
}

void gpud_frame_release(struct gpud_frame **frame)
{
    if (!frame || !*frame)
        return;
    struct gpud_frame *released = *frame;
    *frame = NULL;
    unsigned refs = atomic_load_explicit(&released->extra_refs, memory_order_acquire);
    while (refs)
        if (atomic_compare_exchange_weak_explicit(&released->extra_refs, &refs, refs - 1,
                                                  memory_order_acq_rel, memory_order_acquire))
            return; /* others hold it still */
    while (released->maps)
        gpud_frame_unmap(released);
    released->write_error.status = GPUD_OK;
    gpud_large_meta_clear(&released->info);
    released->ops->release(released);
}

/* --- wrapped frames: a frame in the application's own memory ------------------------------- */

static void release_wrapped(struct gpud_frame *frame)
{
    gpud_fence_drop(&frame->written);
    gpud_queue_unref(&frame->queue);
    gpud_memory_unref(&frame->memory);
    free(frame);
}

/* What the frame's own queue wrote into it by a map comes after the fence. */
static enum gpud_status wait_wrapped(struct gpud_frame *frame, struct gpud_queue *queue,
                                     struct gpud_error *error)
{
    if (frame->queue)
        return gpud_queue_join(queue, frame->queue, error);
    return frame->written.device ? gpud_queue_await(queue, &frame->written, error) : GPUD_OK;
}

static enum gpud_status wait_host_wrapped(struct gpud_frame *frame, int64_t deadline,
                                          struct gpud_error *error)
{
    return frame->written.device ? gpud_frame_need_queue(frame, error) : GPUD_OK;
}

/* Orders the current work on the application's queue before all later use of the frame. */
static enum gpud_status mark_written(struct gpud_frame *frame, struct gpud_queue *queue,
                                     struct gpud_error *error)
{
    if (!gpud_device_has_fences(queue->device))
        return gpud_queue_finish(queue, gpud_deadline(GPUD_SEC), error);
    /* Waits for another holder's posted queue first, so that one fence covers both. */
    enum gpud_status status =
        frame->written.device ? gpud_queue_await(queue, &frame->written, error) : GPUD_OK;
    if (status != GPUD_OK)
        return status;
    gpud_fence_drop(&frame->written);
    return gpud_queue_mark(queue, &frame->written, error);
}

static enum gpud_status post_wrapped(struct gpud_frame *frame, struct gpud_queue *queue,
                                     struct gpud_error *error)
{
    if (frame->queue)
        return gpud_queue_join(frame->queue, queue, error);
    return mark_written(frame, queue, error);
}

static const struct gpud_frame_owner_ops wrapped_ops = {
    .release = release_wrapped,
    .wait = wait_wrapped,
    .wait_host = wait_host_wrapped,
    .post = post_wrapped,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

enum gpud_status gpud_frame_wrap(struct gpud_memory *memory, uint64_t offset,
                                 const struct gpud_layout *layout, struct gpud_frame **frame,
                                 struct gpud_error *error)
{
    enum gpud_status status = gpud_layout_check(layout, error);
    if (status != GPUD_OK)
        return status;
    if (offset > memory->size || layout->size > memory->size - offset)
        return gpud_fail(error, GPUD_INVALID,
                         "a frame of %llu bytes at %llu does not fit into %llu bytes",
                         (unsigned long long)layout->size, (unsigned long long)offset,
                         (unsigned long long)memory->size);
    struct gpud_frame *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame");
    made->ops = &wrapped_ops;
    made->memory = gpud_memory_ref(memory);
    made->offset = offset;
    made->slot = UINT32_MAX;
    made->info.pts_ns = made->info.dts_ns = made->info.duration_ns = GPUD_TIME_NONE;
    made->info.offset = UINT64_MAX;
    made->info.layout = *layout;
    *frame = made;
    return GPUD_OK;
}

/* --- a second frame over the bytes of another ---------------------------------------------- */

struct second_frame {
    struct gpud_frame frame; /* first; its owner is the other frame */
    void (*released)(void *user);
    void *user;
};

static void release_second(struct gpud_frame *frame)
{
    struct second_frame *second = (struct second_frame *)frame;
    void (*released)(void *user) = second->released;
    void *user = second->user;
    gpud_fence_drop(&frame->written);
    free(second);
    if (released)
        released(user);
}

static enum gpud_status wait_second(struct gpud_frame *frame, struct gpud_queue *queue,
                                    struct gpud_error *error)
{
    struct gpud_frame *of = frame->owner;
    enum gpud_status status = of->ops->wait(of, queue, error);
    if (status == GPUD_OK && frame->written.device)
        status = gpud_queue_await(queue, &frame->written, error);
    return status;
}

/* It uses the first frame's queue. */
static enum gpud_status wait_host_second(struct gpud_frame *frame, int64_t deadline,
                                         struct gpud_error *error)
{
    struct gpud_frame *of = frame->owner;
    enum gpud_status status = of->ops->wait_host(of, deadline, error);
    if (status == GPUD_OK && frame->written.device && frame->queue)
        status = gpud_queue_await(frame->queue, &frame->written, error);
    return status;
}

static bool is_second_poisoned(const struct gpud_frame *frame)
{
    const struct gpud_frame *of = frame->owner;
    return of->ops->is_poisoned(of);
}

static const struct gpud_frame_owner_ops second_ops = {
    .release = release_second,
    .wait = wait_second,
    .wait_host = wait_host_second,
    .post = mark_written,
    .is_poisoned = is_second_poisoned,
};

enum gpud_status gpud_frame_wrap_frame(struct gpud_frame *of, const struct gpud_layout *layout,
                                       void (*released)(void *user), void *user,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    bool other = layout && !gpud_layout_equal(layout, &of->info.layout);
    if (!layout)
        layout = &of->info.layout;
    enum gpud_status status = gpud_frame_check(of, error);
    if (status == GPUD_OK)
        status = gpud_layout_check(layout, error);
    if (status != GPUD_OK)
        return status;
    if (layout->size > of->info.layout.size)
        return gpud_fail(error, GPUD_INVALID, "a frame of %llu bytes does not fit into one of %llu",
                         (unsigned long long)layout->size,
                         (unsigned long long)of->info.layout.size);
    if (!of->memory->host)
        status = gpud_frame_need_queue(of, error);
    if (status != GPUD_OK)
        return status;
    struct second_frame *second = calloc(1, sizeof(*second));
    if (!second)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame");
    struct gpud_frame *made = &second->frame;
    made->ops = &second_ops;
    made->owner = of;
    made->memory = of->memory;
    made->offset = of->offset;
    made->slot = UINT32_MAX;
    made->queue = of->queue;
    copy_info(&made->info, &of->info);
    gpud_large_meta_ref(made->info.large_meta);
    made->info.flags |= GPUD_FRAME_READ_ONLY;
    made->info.layout = *layout;
    if (other)
        made->info.bytes = 0;
    second->released = released;
    second->user = user;
    *frame = made;
    return GPUD_OK;
}

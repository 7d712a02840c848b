/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "hold.h"

#include "context.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLICE (50 * GPUD_MSEC)

static void read_device(struct hold *hold)
{
    static const struct {
        const char *prefix;
        enum hold_device kind;
    } kinds[] = {{"cuda:", HOLD_CUDA},
                 {"hip:", HOLD_HIP},
                 {"opencl:", HOLD_OPENCL},
                 {"vulkan:", HOLD_VULKAN}};
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    gpud_device_get_info(hold->info.device, &info);
    memcpy(hold->device, info.name, sizeof(hold->device));
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strncmp(info.name, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            hold->kind = kinds[i].kind;
            hold->number = atoi(info.name + strlen(kinds[i].prefix));
        }
    hold->native = hold->info.native;
    hold->offset = hold->info.memory_offset;
    if (!hold_is_object(hold)) {
        hold->native += hold->offset;
        hold->offset = 0;
    }
}

struct hold *hold_new(struct gpud_frame *frame, struct media *media, bool lent)
{
    struct hold *hold = calloc(1, sizeof(*hold));
    if (!hold) {
        gpud_frame_release(&frame);
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&hold->refs, 1);
    hold->media = media_ref(media);
    hold->lent = lent;
    hold->pid = (long)getpid();
    hold->frame = frame;
    hold->info.size = sizeof(hold->info);
    gpud_frame_get_info(frame, &hold->info);
    hold->read_only = hold->info.flags & GPUD_FRAME_READ_ONLY;
    pthread_mutex_init(&hold->calls, NULL);
    read_device(hold);
    if (hold_set_large_meta(hold, hold->info.large_meta, hold->info.large_meta_size) == 0)
        return hold;
    hold_unref(hold);
    return NULL;
}

int hold_set_large_meta(struct hold *hold, const void *bytes, size_t size)
{
    void *copy = size ? malloc(size) : NULL;
    if (size && !copy) {
        PyErr_NoMemory();
        return -1;
    }
    if (size)
        memcpy(copy, bytes, size);
    if (hold_begin_change(hold) < 0) {
        free(copy);
        return -1;
    }
    free(hold->large_meta);
    hold->info.large_meta = hold->large_meta = copy;
    hold->info.large_meta_size = size;
    hold_end_change(hold);
    return 0;
}

struct hold *hold_ref(struct hold *hold)
{
    atomic_fetch_add_explicit(&hold->refs, 1, memory_order_relaxed);
    return hold;
}

struct hold *hold_ref_array(struct hold *hold)
{
    atomic_fetch_add(&hold->arrays, 1);
    return hold_ref(hold);
}

void hold_unref_array(struct hold *hold)
{
    atomic_fetch_sub(&hold->arrays, 1);
    hold_unref(hold);
}

/* Orders what happens to the frame next after the work that consumers have put on their streams. A
 * stream that its consumer has destroyed is done. */
static void post_streams(struct hold *hold)
{
    struct gpud_frame *second = NULL;
    /* A received frame takes the posts of several streams only as those of several holders. */
    if (hold->stream_count > 1 && !hold->lent)
        second = gpud_frame_ref(hold->frame);
    /* Where the driver refuses to wait for a stream: the default stream waits for most others. */
    for (unsigned i = 0; i < hold->stream_count; i++)
        if (gpud_frame_post(hold->frame, hold->streams[i], NULL) != GPUD_OK)
            gpud_frame_post(hold->frame, NULL, NULL);
    hold->stream_count = 0;
    gpud_frame_release(&second);
}

static void unmap(struct hold *hold)
{
    if (hold->mapped)
        gpud_frame_unmap(hold->frame);
    hold->mapped = NULL;
}

void hold_unref(struct hold *hold)
{
    if (!hold || atomic_fetch_sub_explicit(&hold->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* The slot is the parent's. */
    if (!context_is_foreign(hold->pid)) {
        if (hold->frame) {
            unmap(hold);
            post_streams(hold);
            gpud_frame_release(&hold->frame);
        }
        gpud_frame_release(&hold->keeper);
    }
    pthread_mutex_destroy(&hold->calls);
    media_unref(hold->media);
    free(hold->large_meta);
    free(hold);
}

/* --- validity ------------------------------------------------------------------------------ */

/* What arrived with the flag is as its sender sent it. */
static bool is_taken_back(const struct hold *hold)
{
    struct gpud_frame_info info;
    info.size = sizeof(info);
    gpud_frame_get_info(hold->frame, &info);
    return (info.flags & ~hold->info.flags) & GPUD_FRAME_CORRUPTED;
}

static void *raise_submitted(void)
{
    return error_raise_text(GPUD_INVALID,
                            "the frame was submitted: its bytes are the receivers' now");
}

bool hold_has_frame(struct hold *hold, bool *by_lines)
{
    bool has;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    has = hold->frame != NULL;
    *by_lines = hold->by_lines;
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    return has;
}

bool hold_is_valid(struct hold *hold)
{
    bool valid;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    valid = hold->frame && !is_taken_back(hold) && !(hold->info.flags & GPUD_FRAME_CORRUPTED);
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    return valid;
}

int hold_check(struct hold *hold)
{
    bool gone, taken_back;
    if (context_is_foreign(hold->pid)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the frame belongs to the process that this one was forked from");
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    gone = !hold->frame;
    taken_back = !gone && is_taken_back(hold);
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (gone)
        raise_submitted();
    else if (taken_back)
        error_raise_taken_back();
    return gone || taken_back ? -1 : 0;
}

int hold_begin_change(struct hold *hold)
{
    /* A holder of `calls` may wait for the GIL, but never the other way round. */
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (hold->frame)
        return 0;
    pthread_mutex_unlock(&hold->calls);
    raise_submitted();
    return -1;
}

void hold_end_change(struct hold *hold)
{
    pthread_mutex_unlock(&hold->calls);
}

int hold_set_size(struct hold *hold, uint64_t bytes)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    if (hold_begin_change(hold) < 0)
        return -1;
    bool in_use = atomic_load(&hold->arrays) > 0;
    if (!in_use) {
        unmap(hold);
        status = gpud_frame_set_size(hold->frame, bytes, &error);
    }
    if (!in_use && status == GPUD_OK)
        hold->info.bytes = bytes;
    hold_end_change(hold);
    if (in_use)
        error_raise_text(GPUD_INVALID, "the frame has arrays: set its size before it has any");
    else if (status != GPUD_OK)
        error_raise(&error);
    return in_use || status != GPUD_OK ? -1 : 0;
}

/* --- the bytes ----------------------------------------------------------------------------- */

static enum gpud_status map_once(struct hold *hold, struct gpud_error *error)
{
    unsigned access = hold->lent ? GPUD_WRITE : GPUD_READ;
    void *data;
    if (hold->mapped || (hold->by_lines && !hold->lent))
        return GPUD_OK;
    if (!hold->lent && !hold->read_only)
        access |= GPUD_WRITE;
    enum gpud_status status = gpud_frame_map(hold->frame, access, SLICE, &data, error);
    if (status == GPUD_OK)
        hold->mapped = data;
    return status;
}

static enum gpud_status wait_lines(struct hold *hold, uint32_t lines, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_wait_lines(hold->frame, lines, timeout_ns, error);
    if (status == GPUD_OK)
        hold->by_lines = true;
    return status;
}

/* For the first rows, or with 0 until the CPU may use all bytes. */
static int wait_for(struct hold *hold, uint32_t lines, int64_t timeout_ns)
{
    for (;;) {
        struct gpud_error error;
        enum gpud_status status = GPUD_OK;
        bool gone;
        int64_t slice = timeout_ns < SLICE ? timeout_ns : SLICE;
        if (hold_check(hold) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&hold->calls);
        gone = !hold->frame;
        if (!gone)
            status = lines ? wait_lines(hold, lines, slice, &error) : map_once(hold, &error);
        pthread_mutex_unlock(&hold->calls);
        Py_END_ALLOW_THREADS
        timeout_ns -= slice;
        if (gone) {
            raise_submitted();
            return -1;
        }
        if (status == GPUD_OK)
            return 0;
        if (status == GPUD_PEER) {
            error_raise_taken_back();
            return -1;
        }
        if (status != GPUD_TIMEOUT || timeout_ns == 0) {
            error_raise(&error);
            return -1;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}

int hold_map(struct hold *hold)
{
    return wait_for(hold, 0, INT64_MAX);
}

char *hold_mapped(struct hold *hold)
{
    return hold->mapped || hold->kind != HOLD_HOST ? hold->mapped : hold->native;
}

int hold_wait_lines(struct hold *hold, uint32_t lines, int64_t timeout_ns)
{
    return wait_for(hold, lines, timeout_ns);
}

/* False: there is no room. */
static bool note_stream(struct hold *hold, void *stream)
{
    for (unsigned i = 0; i < hold->stream_count; i++)
        if (hold->streams[i] == stream)
            return true;
    if (hold->stream_count == HOLD_STREAMS_MAX)
        return false;
    hold->streams[hold->stream_count++] = stream;
    return true;
}

int hold_join(struct hold *hold, bool wait, void *stream, void *release_stream)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    bool gone, room = true;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    gone = !hold->frame;
    if (!gone) {
        room = note_stream(hold, release_stream);
        if (room && wait && !hold->by_lines)
            status = gpud_frame_wait(hold->frame, stream, &error);
    }
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (gone)
        raise_submitted();
    else if (!room)
        PyErr_SetString(PyExc_BufferError,
                        "16 streams use the frame already: use fewer, or copy the frame");
    else if (status != GPUD_OK)
        error_raise(&error);
    return gone || !room || status != GPUD_OK ? -1 : 0;
}

/* --- submission ---------------------------------------------------------------------------- */

struct gpud_frame *hold_take(struct hold *hold)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    struct gpud_frame *frame;
    bool shared, in_use;
    if (hold_check(hold) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    frame = hold->frame;
    shared = atomic_load(&hold->arrays) > 0;
    in_use = frame && shared && !hold->lent;
    if (frame && !in_use) {
        unmap(hold);
        if (hold->lent)
            status = gpud_frame_set_info(frame, &hold->info, &error);
        /* Arrays that are still there keep the memory, but not the slot. */
        if (status == GPUD_OK && shared)
            status = gpud_frame_wrap(hold->info.memory, hold->info.memory_offset,
                                     &hold->info.layout, &hold->keeper, &error);
        if (status == GPUD_OK) {
            post_streams(hold);
            hold->frame = NULL;
        }
    }
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
    if (!frame)
        return raise_submitted();
    if (in_use)
        return error_raise_text(GPUD_INVALID, "arrays of the frame are still in use: drop them "
                                              "before it is sent on, or copy them");
    return status == GPUD_OK ? frame : error_raise(&error);
}

void hold_put_back(struct hold *hold, struct gpud_frame *frame)
{
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&hold->calls);
    gpud_frame_release(&hold->keeper);
    hold->frame = frame;
    pthread_mutex_unlock(&hold->calls);
    Py_END_ALLOW_THREADS
}

enum gpud_status hold_submit_lines(struct hold *hold, struct gpud_sender *sender, uint32_t lines,
                                   int64_t timeout_ns, struct gpud_error *error)
{
    enum gpud_status status = GPUD_CLOSED;
    pthread_mutex_lock(&hold->calls);
    if (hold->frame && !hold->by_lines)
        status = gpud_frame_set_info(hold->frame, &hold->info, error);
    else if (hold->frame)
        status = GPUD_OK;
    if (status == GPUD_OK) {
        post_streams(hold);
        status = gpud_sender_submit_lines(sender, hold->frame, lines, timeout_ns, error);
    } else if (!hold->frame) {
        *error = (struct gpud_error){.status = status, .reason = "another thread has submitted it"};
    }
    if (status == GPUD_OK)
        hold->by_lines = true;
    pthread_mutex_unlock(&hold->calls);
    return status;
}

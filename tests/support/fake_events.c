/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events of the fake driver: frames arrive, the card is unplugged. */
#include "support/fake_driver.h"

#include "base/base.h"
#include "support/check.h"

#include <unistd.h>

bool fake_frame(struct fake_driver *to, uint32_t sequence, unsigned char byte)
{
    return fake_frame_with(to, sequence, byte, &(struct fake_word){0});
}

bool fake_frame_with(struct fake_driver *to, uint32_t sequence, unsigned char byte,
                     const struct fake_word *word)
{
    static unsigned char bytes[FAKE_AREA_MAX];
    pthread_mutex_lock(&to->lock);
    bool had = to->streaming && !to->unplugged && to->queue_length;
    if (had) {
        uint32_t index = to->queue[0];
        struct fake_buffer *buffer = &to->buffers[index];
        memmove(to->queue, to->queue + 1, --to->queue_length * sizeof(to->queue[0]));
        for (uint32_t i = 0; i < to->format.planes; i++) {
            uint32_t size = to->format.plane[i].size;
            CHECK(size <= sizeof(bytes), "a frame too large for this fake");
            memset(bytes, byte + (int)i, size);
            if (i == 0 && word->data_offset < sizeof(bytes))
                memset(bytes, 0xee, word->data_offset);
            if (to->memory == V4L2_MEMORY_MMAP)
                CHECK(pwrite(to->memfd, bytes, size, fake_area_offset(index, i)) == (ssize_t)size,
                      "pwrite");
            else
                memcpy(buffer->area[i], bytes, size);
            buffer->bytesused[i] = size - word->missing;
            buffer->data_offset[i] = i == 0 ? word->data_offset : 0;
        }
        buffer->sequence = sequence;
        buffer->flags = word->flags;
        to->stamped = (uint64_t)(gpud_now() / 1000 * 1000 + to->stamp_shift);
        buffer->timestamp = to->stamped;
        buffer->queued = false;
        buffer->done = true;
        to->done[to->done_length++] = index;
        CHECK(write(to->pipe[1], "", 1) == 1, "pipe");
    }
    pthread_mutex_unlock(&to->lock);
    return had;
}

void fake_fail_poll(struct fake_driver *to)
{
    pthread_mutex_lock(&to->lock);
    to->poll_error = true;
    fake_show(to);
    pthread_mutex_unlock(&to->lock);
}

void fake_unplug(struct fake_driver *to, bool unplugged)
{
    pthread_mutex_lock(&to->lock);
    to->unplugged = unplugged;
    fake_show(to);
    pthread_mutex_unlock(&to->lock);
}

uint32_t fake_queued(struct fake_driver *of)
{
    pthread_mutex_lock(&of->lock);
    uint32_t queued = of->queue_length;
    pthread_mutex_unlock(&of->lock);
    return queued;
}

void fake_await_stop(struct fake_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    while (!driver->stopped)
        pthread_cond_wait(&driver->change, &driver->lock);
    pthread_mutex_unlock(&driver->lock);
}

void fake_go_on(struct fake_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    driver->stopped = false;
    pthread_cond_broadcast(&driver->change);
    pthread_mutex_unlock(&driver->lock);
}

static uint32_t memory_of(unsigned long request_code, const void *argument)
{
    if (request_code == VIDIOC_REQBUFS)
        return ((const struct v4l2_requestbuffers *)argument)->memory;
    if (request_code == VIDIOC_QUERYBUF || request_code == VIDIOC_QBUF ||
        request_code == VIDIOC_DQBUF)
        return ((const struct v4l2_buffer *)argument)->memory;
    return 0;
}

bool fake_fault_hits(struct fake_driver *driver, unsigned long request_code, const void *argument)
{
    struct fake_fault *fault = &driver->fault;
    if (!fault->times || (fault->request && fault->request != request_code) ||
        (fault->memory && fault->memory != memory_of(request_code, argument)))
        return false;
    if (fault->after) {
        fault->after--;
        return false;
    }
    fault->times--;
    return true;
}

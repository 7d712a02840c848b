/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The fake driver's way to dma-bufs. A memfd stands for one. */
#include "support/fake_driver.h"

#include "support/check.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

void fake_detach(struct fake_driver *driver)
{
    for (uint32_t i = 0; i < FAKE_BUFFERS; i++)
        for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++) {
            struct fake_buffer *buffer = &driver->buffers[i];
            if (buffer->attached[area])
                munmap(buffer->area[area], buffer->attached[area]);
            buffer->attached[area] = 0;
        }
}

int fake_attach(struct fake_driver *driver, uint32_t index, uint32_t area, int fd, uint32_t length)
{
    struct fake_buffer *buffer = &driver->buffers[index];
    uint32_t size = driver->format.plane[area].size;
    off_t there = lseek(fd, 0, SEEK_END);
    if (there < 0 || there < size || (length && length < size))
        return there < 0 ? EBADF : EINVAL;
    if (buffer->attached[area])
        return 0;
    bool elsewhere = driver->writes_elsewhere && index >= driver->elsewhere_from;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      elsewhere ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, elsewhere ? -1 : fd, 0);
    CHECK(data != MAP_FAILED, "what was queued is not memory");
    buffer->area[area] = data;
    buffer->attached[area] = size;
    return 0;
}

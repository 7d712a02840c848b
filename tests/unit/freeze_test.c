/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A picture that stands still: what moves in it is seen, however small, and a picture that its
 * sender made large is not read as a whole. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"

#include "group/group.h"

#include <sys/mman.h>
#include <sys/stat.h>

static struct gpud_context *context;
static struct gpud_device *host;

static struct gpud_frame *wrap(void *data, const struct gpud_layout *layout)
{
    struct gpud_memory *memory;
    struct gpud_frame *frame;
    WORKS(gpud_memory_wrap(host, data, layout->size, NULL, NULL, &memory, &e));
    WORKS(gpud_frame_wrap(memory, 0, layout, &frame, &e));
    gpud_memory_unref(&memory);
    return frame;
}

/* Notes it twice, a second apart; and once more after a change of these rows. */
static bool is_seen(struct gpud_frame *frame, const struct gpud_layout *layout, uint32_t plane,
                    uint64_t row, uint64_t rows, uint64_t column, uint64_t columns)
{
    struct gpud_freeze freeze = {0};
    const struct gpud_plane *p = &layout->plane[plane];
    unsigned char *data = MAP_FRAME(frame, GPUD_READ | GPUD_WRITE, 0);
    CHECK(!gpud_freeze_note(&freeze, frame, 0, GPUD_SEC), "frozen at once");
    CHECK(gpud_freeze_note(&freeze, frame, GPUD_SEC, GPUD_SEC), "not frozen");
    for (uint64_t y = row; y < row + rows; y++)
        for (uint64_t x = column; x < column + columns; x++)
            data[p->offset + y * p->stride + x] ^= 0x55;
    gpud_frame_unmap(frame);
    return !gpud_freeze_note(&freeze, frame, 2 * GPUD_SEC, GPUD_SEC);
}

static void small_changes(const char *format, uint32_t width, uint32_t height)
{
    struct gpud_layout layout = LAYOUT(format, width, height, 0);
    void *data = calloc(1, layout.size);
    struct gpud_frame *frame = wrap(data, &layout);
    for (uint32_t p = 0; p < layout.planes; p++) {
        const struct gpud_plane *plane = &layout.plane[p];
        /* A line of text that runs through the picture, and a clock in a corner. */
        uint64_t high = plane->rows / 108 + 1, side = plane->rows / 16;
        for (uint64_t row = 0; row + high <= plane->rows; row += high)
            CHECK(is_seen(frame, &layout, p, row, high, 0, plane->row_bytes),
                  "%s: %llu rows from %llu of plane %u are not seen", format,
                  (unsigned long long)high, (unsigned long long)row, p);
        for (uint64_t at = 0; at + side <= plane->row_bytes; at += side)
            CHECK(is_seen(frame, &layout, p, plane->rows - side, side, at, side),
                  "%s: a square of %llu at %llu of plane %u is not seen", format,
                  (unsigned long long)side, (unsigned long long)at, p);
    }
    gpud_frame_release(&frame);
    free(data);
}

/* Two gigabytes that no process has written. */
static void large_picture(uint32_t width, uint32_t height)
{
    struct gpud_layout layout = LAYOUT("BGRA", width, height, 0);
    int fd = memfd_create("large", 0);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)layout.size) == 0, "no memfd");
    void *data = mmap(NULL, layout.size, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(data != MAP_FAILED, "no map");
    struct gpud_frame *frame = wrap(data, &layout);
    struct gpud_freeze freeze = {0};
    CHECK(!gpud_freeze_note(&freeze, frame, 0, GPUD_SEC), "frozen at once");
    CHECK(gpud_freeze_note(&freeze, frame, GPUD_SEC, GPUD_SEC), "not frozen");
    struct stat state;
    fstat(fd, &state);
    CHECK(state.st_blocks * 512LL <= 32 << 20, "%lld bytes of a picture of %ux%u are read",
          state.st_blocks * 512LL, width, height);
    gpud_frame_release(&frame);
    munmap(data, layout.size);
    close(fd);
}

int main(void)
{
    context = NEW_CONTEXT();
    host = OPEN_DEVICE(context, "host");
    if (gpud_freeze_check_device(host, NULL) != GPUD_OK)
        SKIP("built without xxhash");
    small_changes("UYVY", 1920, 1080);
    small_changes("I420", 1280, 720);
    small_changes("NV12", 320, 240);
    large_picture(32768, 16384);
    large_picture(32768, 8);
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parts of pictures: of one plane and of several, of even and odd heights, copied in steps of every
 * size between layouts of other strides. Each row is copied once, none before its time, and nothing
 * beside them. */
#include "frame/frame.h"
#include "support/check.h"
#include "support/make.h"

#define OUTSIDE 0xa5

static uint8_t value_of(uint32_t plane, uint32_t row, uint32_t at)
{
    return (uint8_t)(plane * 91 + row * 7 + at * 3 + 1);
}

/* A plane's rows among the first `rows` of the picture, by the documentation: as large a part,
 * rounded down. */
static uint32_t share_of(const struct gpud_layout *layout, uint32_t plane, uint32_t rows)
{
    return layout->plane[plane].rows * rows / layout->height;
}

static void check(const struct gpud_layout *layout, const uint8_t *data, uint32_t rows)
{
    for (uint32_t i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        uint32_t share = share_of(layout, i, rows);
        for (uint32_t row = 0; row < plane->rows; row++)
            for (uint32_t at = 0; at < plane->stride; at++) {
                uint64_t byte = plane->offset + (uint64_t)row * plane->stride + at;
                if (byte >= layout->size)
                    break;
                uint8_t wanted =
                    row < share && at < plane->row_bytes ? value_of(i, row, at) : OUTSIDE;
                CHECK(data[byte] == wanted, "%s, %u rows: plane %u, row %u, byte %u: %u, not %u",
                      layout->format, rows, i, row, at, data[byte], wanted);
            }
    }
}

static void copy_in_steps(struct gpud_device *host, const char *format, uint32_t height,
                          uint32_t step)
{
    struct gpud_layout from = LAYOUT(format, 30, height, 4), to = LAYOUT(format, 30, height, 64);
    struct gpud_queue *queue = NEW_QUEUE(host);
    struct gpud_copy frames = {.from = NEW_MEMORY(host, from.size + 128),
                               .from_offset = 128,
                               .to = NEW_MEMORY(host, to.size)};
    uint8_t *bytes = (uint8_t *)frames.from->host + frames.from_offset;
    memset(bytes, 0, from.size);
    for (uint32_t i = 0; i < from.planes; i++) {
        const struct gpud_plane *plane = &from.plane[i];
        for (uint32_t row = 0; row < plane->rows; row++)
            for (uint32_t at = 0; at < plane->row_bytes; at++)
                bytes[plane->offset + (uint64_t)row * plane->stride + at] = value_of(i, row, at);
    }
    memset(frames.to->host, OUTSIDE, to.size);
    for (uint32_t at = 0; at < height;) {
        struct gpud_rows rows = {at, height - at > step ? at + step : height};
        /* The ranges of the planes, as a network card would write them. */
        for (uint32_t i = 0; i < to.planes; i++) {
            const struct gpud_plane *plane = &to.plane[i];
            uint32_t first = share_of(&to, i, rows.from), end = share_of(&to, i, rows.to);
            uint64_t offset, size;
            gpud_rows_of_plane(&to, i, rows, &offset, &size);
            CHECK_EQUAL(offset, plane->offset + (uint64_t)first * plane->stride);
            CHECK_EQUAL(size, end > first
                                  ? (uint64_t)(end - first - 1) * plane->stride + plane->row_bytes
                                  : 0);
            CHECK(offset + size <= to.size, "beyond the frame");
        }
        WORKS(gpud_rows_copy(queue, &frames, &to, &from, rows, &e));
        WORKS(gpud_queue_finish(queue, gpud_deadline(GPUD_SEC), &e));
        at = rows.to;
        check(&to, frames.to->host, at);
    }
    gpud_memory_unref(&frames.from);
    gpud_memory_unref(&frames.to);
    gpud_queue_unref(&queue);
}

int main(void)
{
    static const char *const formats[] = {"UYVY",      "v210", "NV12", "I420",
                                          "P010_10LE", "Y42B", "RGB"};
    static const uint32_t heights[] = {1, 2, 5, 7, 8, 9, 17, 36};
    test_alarm(60);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *host = OPEN_DEVICE(context, "host");
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        for (size_t j = 0; j < sizeof(heights) / sizeof(heights[0]); j++)
            for (uint32_t step = 1; step <= heights[j]; step++)
                copy_in_steps(host, formats[i], heights[j], step);
    for (uint32_t height = 1; height <= 4320; height++) {
        uint32_t step = gpud_lines_step(height);
        CHECK((height + step - 1) / step <= GPUD_LINES_STEPS, "%u rows, in steps of %u", height,
              step);
    }
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    return 0;
}

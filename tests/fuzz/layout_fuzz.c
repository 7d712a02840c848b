/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Layouts: what passes the check really stays inside its size, by arithmetic without overflow. */
#include "frame/frame.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check(const struct gpud_layout *layout)
{
    if (gpud_layout_check(layout, NULL) != GPUD_OK)
        return;
    for (uint32_t i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        unsigned __int128 end = plane->offset;
        end += (unsigned __int128)plane->stride * (plane->rows - 1) + plane->row_bytes;
        if (end > layout->size || plane->rows == 0 || plane->stride < plane->row_bytes)
            abort();
    }
    if (!gpud_layout_equal(layout, layout))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gpud_layout layout, made;
    if (size >= sizeof(layout)) {
        memcpy(&layout, data, sizeof(layout));
        check(&layout);
    }
    if (size < 28)
        return 0;
    uint32_t numbers[3];
    char name[17];
    memcpy(numbers, data, sizeof(numbers));
    memcpy(name, data + 12, 16);
    name[16] = '\0';
    if (gpud_layout_init(&made, name, numbers[0], numbers[1], numbers[2], NULL) == GPUD_OK) {
        if (made.size <= GPUD_FRAME_SIZE_MAX && gpud_layout_check(&made, NULL) != GPUD_OK)
            abort();
        check(&made);
    }
    return 0;
}

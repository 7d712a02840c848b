/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Layouts, and tensors in a frame: what passes the check really stays inside its size, by
 * arithmetic without overflow. */
#include "frame/frame.h"
#include "frame/media/media.h"
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

static void check_tensors(const struct gpud_media *media)
{
    static struct gpud_media again;
    static char text[GPUD_MEDIA_TEXT_MAX];
    const struct gpud_tensors *tensors = &media->tensors;
    struct gpud_layout layout;
    struct gpud_error error = {.reason = ""};
    if (gpud_media_get_layout(media, &layout, &error) != GPUD_OK) {
        if (strlen(error.reason) < 10)
            abort();
        return;
    }
    if (gpud_layout_check(&layout, NULL) != GPUD_OK || !gpud_layout_is_block(&layout))
        abort();
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct gpud_tensor *tensor = &tensors->tensor[i];
        unsigned __int128 end = 1;
        for (uint32_t k = 0; k < tensor->dimensions; k++)
            end += (unsigned __int128)(tensor->size[k] - 1u) * tensor->stride[k];
        if (tensor->offset + end * (tensor->bits / 8 * tensor->lanes) > layout.size)
            abort();
    }
    struct gpud_media_units units = gpud_media_get_units(media);
    uint32_t largest = 0;
    for (uint32_t i = 0; i < tensors->count; i++)
        if (tensors->batch >> i & 1)
            largest = tensors->tensor[i].size[0];
    for (uint64_t batch = 0; batch <= largest; batch += 1 + largest / 3) {
        uint64_t bytes = gpud_tensors_get_bytes(tensors, (uint32_t)batch);
        if (bytes > layout.size || gpud_tensors_get_batch(tensors, bytes) != batch ||
            (largest && bytes && !gpud_media_units_allow(&units, bytes)))
            abort();
    }
    if (gpud_media_to_string(media, text, sizeof(text), NULL) != GPUD_OK ||
        gpud_media_from_string(&again, text, NULL) != GPUD_OK || !gpud_media_equal(media, &again))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gpud_layout layout, made;
    if (size >= sizeof(layout)) {
        memcpy(&layout, data, sizeof(layout));
        check(&layout);
    }
    if (size >= sizeof(struct gpud_tensors)) {
        static struct gpud_media media;
        media.kind = GPUD_MEDIA_TENSOR;
        memcpy(&media.tensors, data, sizeof(media.tensors));
        check_tensors(&media);
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

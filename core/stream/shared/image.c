/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/image.h"

#include "base/clock.h"
#include "frame/layout.h"

#include <string.h>

enum gpud_status gpud_modifiers_check(const uint64_t *modifiers, uint32_t count,
                                      struct gpud_error *error)
{
    if (count > GPUD_MODIFIERS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u modifiers: at most %d are possible", count,
                         GPUD_MODIFIERS_MAX);
    if (count && !modifiers)
        return gpud_fail(error, GPUD_INVALID, "%u modifiers at NULL", count);
    return GPUD_OK;
}

enum gpud_status gpud_image_find(struct gpud_device *device, const struct gpud_layout *rows,
                                 const uint64_t *modifiers, uint32_t count,
                                 struct gpud_layout *image, struct gpud_error *error)
{
    struct gpud_layout found;
    struct gpud_error why;
    enum gpud_status status = gpud_image_describe(device, rows, modifiers, count, &found, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_layout_check(&found, &why) != GPUD_OK)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s arranges pictures in a way that no layout describes: %s",
                         device->info.name, why.reason);
    *image = found;
    return GPUD_OK;
}

/* --- the proof ------------------------------------------------------------------------------- */

#define PROOF_DEADLINE (5 * GPUD_SEC)

/* No two rows alike. */
static void fill(void *pages, uint64_t size)
{
    unsigned char *data = pages;
    uint64_t state = 1;
    for (uint64_t i = 0; i < size; i += sizeof(state)) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(data + i, &state, size - i < sizeof(state) ? size - i : sizeof(state));
    }
}

static bool are_same(const struct gpud_layout *rows, const char *a, const char *b)
{
    for (uint32_t i = 0; i < rows->planes; i++)
        for (uint32_t y = 0; y < rows->plane[i].rows; y++) {
            uint64_t at = rows->plane[i].offset + (uint64_t)y * rows->plane[i].stride;
            if (memcmp(a + at, b + at, rows->plane[i].row_bytes) != 0)
                return false;
        }
    return true;
}

/* From one host memory through the image into the other. */
static enum gpud_status carry(struct gpud_queue *queue, struct gpud_memory *const host[2],
                              struct gpud_memory *memory, const struct gpud_layout *rows,
                              const struct gpud_layout *image, struct gpud_error *error)
{
    struct gpud_copy up = {.to = memory}, down = {.from = memory};
    enum gpud_status status = gpud_memory_view(host[0], queue->device, &up.from, error);
    if (status == GPUD_OK)
        status = gpud_memory_view(host[1], queue->device, &down.to, error);
    if (status == GPUD_OK)
        status = gpud_image_copy(queue, &up, image, rows, error);
    if (status == GPUD_OK)
        status = gpud_image_copy(queue, &down, rows, image, error);
    enum gpud_status done = gpud_queue_finish(queue, gpud_deadline(PROOF_DEADLINE), NULL);
    return status == GPUD_OK && done != GPUD_OK
               ? gpud_fail(error, done, "the copy of an image does not end")
               : status;
}

enum gpud_status gpud_image_prove(struct gpud_queue *queue, struct gpud_device *host,
                                  const struct gpud_layout *rows, const struct gpud_layout *image,
                                  struct gpud_error *error)
{
    struct gpud_memory *memory = NULL, *pages[2] = {NULL, NULL};
    enum gpud_status status =
        gpud_memory_alloc_for(queue->device, image->size, GPUD_USAGE_SHARE, &memory, error);
    for (int i = 0; i < 2 && status == GPUD_OK; i++)
        status = gpud_memory_alloc(host, rows->size, GPUD_MEMORY_PLAIN, &pages[i], error);
    if (status == GPUD_OK) {
        fill(pages[0]->host, rows->size);
        status = carry(queue, pages, memory, rows, image, error);
    }
    if (status == GPUD_OK && !are_same(rows, pages[0]->host, pages[1]->host))
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "%s gives other rows of an image of the DRM modifier 0x%016llx than it "
                           "was made of",
                           queue->device->info.name, (unsigned long long)image->modifier);
    gpud_memory_unref(&pages[1]);
    gpud_memory_unref(&pages[0]);
    gpud_memory_unref(&memory);
    return status;
}

/* --- a peer's -------------------------------------------------------------------------------- */

static bool takes(const uint64_t *modifiers, uint32_t count, uint64_t modifier)
{
    bool taken = false;
    for (uint32_t i = 0; i < count; i++)
        taken |= modifiers[i] == modifier;
    return taken;
}

enum gpud_status gpud_image_check(struct gpud_device *device, const struct gpud_layout *image,
                                  uint64_t slot_size, const uint64_t *modifiers, uint32_t count,
                                  struct gpud_error *error)
{
    const unsigned long long modifier = image->modifier;
    struct gpud_layout own;
    if (!takes(modifiers, count, image->modifier))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the sender's images have the DRM modifier 0x%016llx, which the "
                         "receiver's application does not take",
                         modifier);
    enum gpud_status status = gpud_image_find(device, image, &image->modifier, 1, &own, error);
    if (status != GPUD_OK)
        return status;
    /* An image begins only where its driver allows: each slot has the size of one. */
    if (!gpud_layout_equal(&own, image) || (slot_size && slot_size != image->size))
        return gpud_fail(error, GPUD_PEER,
                         "the sender's images of the DRM modifier 0x%016llx do not lie as the "
                         "driver of %s arranges them",
                         modifier, device->info.name);
    return GPUD_OK;
}

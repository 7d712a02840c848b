/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks frames of vivid's test card that a pipeline wrote to a file: every frame has the colour
 * bars in their places, and no two neighbours are the same picture, because a counter in it moves.
 *     vivid_frames FILE FORMAT WIDTH HEIGHT AT_LEAST */
#include "support/vivid_picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct gpud_layout layout;
    struct gpud_error error;
    if (argc != 6)
        return 2;
    if (gpud_layout_init(&layout, argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), 0,
                         &error) != GPUD_OK) {
        fprintf(stderr, "%s\n", error.reason);
        return 2;
    }
    FILE *file = fopen(argv[1], "rb");
    void *frame = malloc(layout.size);
    if (!file || !frame) {
        perror(argv[1]);
        return 1;
    }
    long count = 0, same = 0;
    uint64_t before = 0;
    while (fread(frame, layout.size, 1, file) == 1) {
        check_bars(&layout, frame);
        uint64_t hash = hash_picture(&layout, frame);
        same += count && hash == before;
        before = hash;
        count++;
    }
    fclose(file);
    free(frame);
    printf("%ld frames with the right bars, %ld of them like the one before\n", count, same);
    return count >= atol(argv[5]) && same == 0 ? 0 : 1;
}

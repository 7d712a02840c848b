/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages. The first byte says how many descriptors come along. What decodes must encode again to
 * the same bytes, but for text, which is cleaned once. */
#include "fuzz.h"
#include "wire/message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gpud_message message, again;
    static uint8_t bytes[2][GPUD_MESSAGE_MAX];
    int fds[GPUD_MESSAGE_FDS + 2], out[GPUD_MESSAGE_FDS];
    if (size < 1 || size > GPUD_MESSAGE_MAX + 10)
        return 0;
    size_t fd_count = data[0] % (GPUD_MESSAGE_FDS + 2), out_count;
    for (size_t i = 0; i < fd_count; i++)
        fds[i] = 1000 + (int)i;
    struct gpud_error error = {.reason = ""};
    memset(&message, 0xa5, sizeof(message));
    if (gpud_message_decode(&message, data + 1, size - 1, fds, fd_count, &error) != GPUD_OK) {
        if (strlen(error.reason) < 10)
            abort();
        return 0;
    }
    size_t length = gpud_message_encode(&message, bytes[0], out, &out_count);
    if (length != size - 1 || out_count != fd_count ||
        memcmp(out, fds, fd_count * sizeof(int)) != 0)
        abort();
    if (gpud_message_decode(&again, bytes[0], length, out, out_count, NULL) != GPUD_OK ||
        gpud_message_encode(&again, bytes[1], out, &out_count) != length ||
        memcmp(bytes[0], bytes[1], length) != 0)
        abort();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages: the input is one. What decodes must encode again to as many bytes and in no less room,
 * and those decode to the same; only text is cleaned, once. message_seeds writes the corpus. */
#include "fuzz.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gpud_message message, again;
    static uint8_t bytes[2][GPUD_MESSAGE_MAX];
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    size_t length;
    if (size > GPUD_MESSAGE_MAX + 10)
        return 0;
    struct gpud_error error = {.reason = ""};
    memset(&message, 0xa5, sizeof(message));
    if (gpud_message_decode(&message, data, size, &error) != GPUD_OK) {
        if (strlen(error.reason) < 10)
            abort();
        return 0;
    }
    size_t count = gpud_message_attachments(&message, handles);
    for (size_t i = 0; i < count; i++)
        if (handles[i]->fd != -1)
            abort();
    if (gpud_message_encode(&message, bytes[0], size - 1, &length, NULL) != GPUD_INVALID ||
        gpud_message_encode(&message, bytes[0], size, &length, NULL) != GPUD_OK || length != size)
        abort();
    if (gpud_message_decode(&again, bytes[0], length, NULL) != GPUD_OK ||
        gpud_message_attachments(&again, handles) != count ||
        gpud_message_encode(&again, bytes[1], sizeof(bytes[1]), &length, NULL) != GPUD_OK ||
        length != size || memcmp(bytes[0], bytes[1], length) != 0)
        abort();
    return 0;
}

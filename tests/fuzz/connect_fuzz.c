/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A peer's first bytes of a connection between hosts: what decodes encodes to the same bytes again,
 * and a refusal becomes a text that is safe for a terminal. */
#include "base/base.h"
#include "fuzz.h"
#include "wire/network.h"

#include <stdlib.h>
#include <string.h>

static void check_reason(enum gpud_status status, const struct gpud_error *error)
{
    char clean[GPUD_REASON_MAX];
    gpud_print(clean, "%s", error->reason);
    gpud_text_clean(clean, strlen(clean));
    if (error->status != status || strlen(error->reason) < 10 || strcmp(clean, error->reason) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[GPUD_REFUSAL_MAX];
    struct gpud_place place = {.host = "10.0.0.2", .port = 7174, .name = "cam1"};
    struct gpud_request request;
    struct gpud_refusal refusal;
    struct gpud_error error = {.reason = ""};
    uint32_t number;
    if (size > UINT8_MAX)
        return 0;

    enum gpud_status status = gpud_request_read(data, size, &request, &error);
    if (status != GPUD_OK)
        check_reason(status, &error);
    else if (gpud_request_write(&request, bytes) > size ||
             memcmp(bytes, data, gpud_request_write(&request, bytes)) != 0)
        abort();

    status = gpud_reply_read(data, size, &number, &error);
    if (status != GPUD_OK)
        check_reason(status, &error);
    else if (gpud_reply_write(number, bytes) > size ||
             memcmp(bytes, data, gpud_reply_write(number, bytes)) != 0)
        abort();

    status = gpud_refusal_read(data, size, &refusal, &error);
    if (status != GPUD_OK) {
        check_reason(status, &error);
        return 0;
    }
    size_t length = gpud_refusal_write(&refusal, bytes);
    if (refusal.version == GPUD_REQUEST_VERSION &&
        (length > size || memcmp(bytes, data, length) != 0))
        abort();
    status = gpud_refusal_explain(&refusal, &place, &error);
    if (status == GPUD_OK)
        abort();
    check_reason(status, &error);
    return 0;
}

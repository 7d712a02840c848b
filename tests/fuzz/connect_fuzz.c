/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A peer's private data of rdma_cm connections: what decodes encodes to the same bytes again, and a
 * refusal becomes a text that is safe for a terminal. */
#include "base/base.h"
#include "fuzz.h"
#include "wire/rdma/kind.h"

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
    uint8_t bytes[GPUD_RDMA_REFUSAL_MAX];
    struct gpud_place place = {.host = "10.0.0.2", .port = 7174, .name = "cam1"};
    struct gpud_rdma_request request;
    struct gpud_rdma_refusal refusal;
    struct gpud_error error = {.reason = ""};
    uint32_t receives;
    if (size > UINT8_MAX)
        return 0;

    enum gpud_status status = gpud_rdma_read_request(data, size, &request, &error);
    if (status != GPUD_OK)
        check_reason(status, &error);
    else if (gpud_rdma_write_request(&request, bytes) > size ||
             memcmp(bytes, data, gpud_rdma_write_request(&request, bytes)) != 0)
        abort();

    status = gpud_rdma_read_reply(data, size, &receives, &error);
    if (status != GPUD_OK)
        check_reason(status, &error);
    else if (gpud_rdma_write_reply(receives, bytes) > size ||
             memcmp(bytes, data, gpud_rdma_write_reply(receives, bytes)) != 0)
        abort();

    status = gpud_rdma_read_refusal(data, size, &refusal, &error);
    if (status != GPUD_OK) {
        check_reason(status, &error);
        return 0;
    }
    size_t length = gpud_rdma_write_refusal(&refusal, bytes);
    if (refusal.version == GPUD_RDMA_VERSION && (length > size || memcmp(bytes, data, length) != 0))
        abort();
    status = gpud_rdma_explain_refusal(&refusal, &place, &error);
    if (status == GPUD_OK)
        abort();
    check_reason(status, &error);
    return 0;
}

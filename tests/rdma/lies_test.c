/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hostile peer of a transfer: whatever it sends, only its connection ends. */
#include "lines.h"

static char here[SIZE];

static void say(const struct ends *ends, const struct transfer_message *message)
{
    uint8_t bytes[TRANSFER_MESSAGE_SIZE];
    gpud_transfer_encode(message, bytes);
    WORKS(gpud_rdma_send(ends->b.rdma, bytes, sizeof(bytes), &e));
    settle(ends);
}

static const struct transfer_message hello = {.type = TRANSFER_HELLO, .nonce = 9};

/* Only that connection ends, with a reason. */
static void expect_break(struct ends *ends, const char *says)
{
    struct gpud_connection_info info = GPUD_INFO_INIT(info);
    settle(ends);
    gpud_connection_get_info(ends->a.connection, &info);
    CHECK(info.status == GPUD_PEER && strstr(info.reason, says), "%s: %s",
          gpud_status_string(info.status), info.reason);
    close_ends(ends);
}

static void expect_lie(const struct transfer_message *lie, bool greeted, const char *says)
{
    struct ends ends;
    open_ends(&ends, true);
    if (greeted)
        say(&ends, &hello);
    struct gpud_region *region = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_READ);
    struct gpud_operation_params recv = {.size = sizeof(recv), .region = region, .length = 1};
    EXPECT(GPUD_NO_ACCESS, "REMOTE_WRITE",
           gpud_connection_post(ends.a.connection, GPUD_COMPLETION_RECEIVE, &recv, &e));
    say(&ends, lie);
    drop_region(&ends, &region);
    expect_break(&ends, says);
}

static void test_lies(void)
{
    struct transfer_message lie = hello;
    expect_lie(&lie, true, "greets twice");
    lie.type = TRANSFER_BYE;
    expect_lie(&lie, false, "not at all");
    lie = (struct transfer_message){.type = TRANSFER_SENT, .number = 1, .size = 1};
    expect_lie(&lie, true, "without a receive");
    lie = (struct transfer_message){.type = TRANSFER_RECEIVE, .number = 2, .generation = 1};
    expect_lie(&lie, true, "cannot have posted");
    lie = (struct transfer_message){.type = TRANSFER_RECEIVE, .number = 1};
    expect_lie(&lie, true, "cannot have posted");
    lie = (struct transfer_message){.type = TRANSFER_NOTIFY, .generation = 1, .size = 1};
    expect_lie(&lie, true, "cannot have put"); /* read only */
    lie = (struct transfer_message){.type = TRANSFER_REVOKE};
    expect_lie(&lie, true, "cannot have given");
    lie = (struct transfer_message){.type = TRANSFER_KEY};
    expect_lie(&lie, true, "keys do not travel");

    static const char *const garbage[] = {"GPUD and so on", "short", ""};
    static const char *const says[] = {"frames", "no message", "no message"};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        struct ends ends;
        open_ends(&ends, true);
        WORKS(gpud_rdma_send(ends.b.rdma, garbage[i], strlen(garbage[i]) + 1, &e));
        expect_break(&ends, says[i]);
    }
}

/* A message that is longer than its receive; bytes that were put beside the region. */
static void test_excess(void)
{
    struct ends ends;
    open_ends(&ends, true);
    say(&ends, &hello);
    struct gpud_region *region = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_WRITE);
    struct gpud_operation_params recv = {
        .size = sizeof(recv), .region = region, .length = 100, .user = &recv};
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_RECEIVE, &recv, &e));
    struct transfer_message lie = {.type = TRANSFER_SENT, .number = 1, .size = 101};
    say(&ends, &lie);
    expect_completion(&ends.a, GPUD_COMPLETION_RECEIVE, GPUD_PEER, &recv);
    drop_region(&ends, &region);
    expect_break(&ends, "too long");

    open_ends(&ends, true);
    say(&ends, &hello);
    region = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_WRITE);
    lie = (struct transfer_message){
        .type = TRANSFER_NOTIFY, .generation = 1, .offset = SIZE, .size = 1};
    say(&ends, &lie);
    drop_region(&ends, &region);
    expect_break(&ends, "cannot have put");

    /* Of a region that is not there (any more) the value is left. */
    open_ends(&ends, true);
    say(&ends, &hello);
    lie.generation = 2;
    say(&ends, &lie);
    expect_completion(&ends.a, GPUD_COMPLETION_NOTIFICATION, GPUD_OK, NULL);
    lie = (struct transfer_message){.type = TRANSFER_REVOKED, .generation = 3};
    say(&ends, &lie);
    CHECK(ends.a.connection->phase == CONNECTION_OPEN, "an answer that is late");

    /* More receives than there may be. */
    lie = (struct transfer_message){.type = TRANSFER_RECEIVE, .generation = 1, .size = 1};
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX; i++) {
        lie.number = i + 1;
        say(&ends, &lie);
    }
    CHECK(ends.a.connection->phase == CONNECTION_OPEN, "as many as it may have");
    lie.number++;
    say(&ends, &lie);
    expect_break(&ends, "cannot have posted");
}

int main(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NULL;
    WORKS(gpud_context_create(NULL, &context, &e));
    lines_begin(context);
    test_lies();
    test_excess();
    return 0;
}

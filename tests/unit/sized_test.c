/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Structs with a size: programs that were built with an older and with a newer release. */
#include "support/check.h"
#include "base/sized.h"
#include <gpudirect/gpudirect.h>

#include <stdalign.h>

/* A struct of any size, with what a newer release would have behind it. */
union grown {
    size_t size;
    alignas(max_align_t) char bytes[1024];
};

#define TAIL 24

/* --- params -------------------------------------------------------------------------------- */

/* Calls create with the params of a program of another release. */
typedef enum gpud_status (*create_fn)(const union grown *params, struct gpud_error *error);

static struct gpud_context *context;
static char address[64];

static enum gpud_status create_context(const union grown *params, struct gpud_error *error)
{
    struct gpud_context *made = NULL;
    enum gpud_status status = gpud_context_create((const void *)params, &made, error);
    CHECK((status == GPUD_OK) == (made != NULL), "the output and the status disagree");
    gpud_context_destroy(&made);
    return status;
}

static enum gpud_status create_sender(const union grown *params, struct gpud_error *error)
{
    struct gpud_sender *made = NULL;
    enum gpud_status status = gpud_sender_create(context, (const void *)params, &made, error);
    CHECK((status == GPUD_OK) == (made != NULL), "the output and the status disagree");
    gpud_sender_destroy(&made);
    return status;
}

static enum gpud_status create_receiver(const union grown *params, struct gpud_error *error)
{
    struct gpud_receiver *made = NULL;
    enum gpud_status status = gpud_receiver_create(context, (const void *)params, &made, error);
    CHECK((status == GPUD_OK) == (made != NULL), "the output and the status disagree");
    gpud_receiver_destroy(&made);
    return status;
}

/* There is no such node: whoever gets so far has read the params. */
static enum gpud_status create_capture(const union grown *params, struct gpud_error *error)
{
    struct gpud_capture *made = NULL;
    struct gpud_error why = {0};
    enum gpud_status status = gpud_capture_create(context, (const void *)params, &made, &why);
    CHECK(status != GPUD_OK && !made, "a capture of a node that does not exist");
    if (status == GPUD_NO_DEVICE && strstr(why.reason, "there is no"))
        return GPUD_OK;
    *error = why;
    return status;
}

/* `full`: the struct of this release, filled; `required`: where its first required field ends. What
 * lies behind what a program knows is garbage, as it is on a stack. */
static void check_params(create_fn create, const char *name, const void *full, size_t size,
                         size_t required)
{
    union grown params;
    CHECK(size + TAIL <= sizeof(params), "no room");

    memset(&params, 0xa5, sizeof(params));
    memcpy(&params, full, size);
    params.size = required; /* the oldest release that could work */
    EXPECT(GPUD_OK, "", create(&params, &e));
    memset(params.bytes + required, 0xa5, size - required); /* read, it would be refused or crash */
    EXPECT(GPUD_OK, "", create(&params, &e));

    memcpy(&params, full, size);
    memset(params.bytes + size, 0, TAIL);
    params.size = size + TAIL;
    EXPECT(GPUD_OK, "", create(&params, &e));
    for (size_t at = size; at < size + TAIL; at += TAIL - 1) {
        params.bytes[at] = 1;
        EXPECT(GPUD_UNSUPPORTED, name, create(&params, &e));
        EXPECT(GPUD_UNSUPPORTED, "newer", create(&params, &e));
        params.bytes[at] = 0;
    }

    params.size = required - 1;
    EXPECT(GPUD_INVALID, name, create(&params, &e));
    params.size = 0;
    EXPECT(GPUD_INVALID, "GPUD_PARAMS_INIT", create(&params, &e));
    params.size = SIZE_MAX / 2; /* never set */
    EXPECT(GPUD_INVALID, "GPUD_PARAMS_INIT", create(&params, &e));
}

static void test_params(void)
{
    struct gpud_context_params of_context = GPUD_PARAMS_INIT(of_context);
    check_params(create_context, "gpud_context_params", &of_context, sizeof(of_context),
                 sizeof(size_t));

    struct gpud_sender_params of_sender = GPUD_PARAMS_INIT(of_sender);
    of_sender.address = address;
    check_params(create_sender, "gpud_sender_params", &of_sender, sizeof(of_sender),
                 GPUD_END_OF(struct gpud_sender_params, address));
    EXPECT(GPUD_INVALID, "NULL", create_sender(NULL, &e));

    struct gpud_receiver_params of_receiver = GPUD_PARAMS_INIT(of_receiver);
    of_receiver.address = address;
    check_params(create_receiver, "gpud_receiver_params", &of_receiver, sizeof(of_receiver),
                 GPUD_END_OF(struct gpud_receiver_params, address));
    EXPECT(GPUD_INVALID, "NULL", create_receiver(NULL, &e));

    struct gpud_capture_params of_capture = GPUD_PARAMS_INIT(of_capture);
    of_capture.address = "v4l2:///dev/there-is-no-such-node";
    check_params(create_capture, "gpud_capture_params", &of_capture, sizeof(of_capture),
                 GPUD_END_OF(struct gpud_capture_params, address));
    EXPECT(GPUD_INVALID, "NULL", create_capture(NULL, &e));
}

/* What an older program could not set has its default, and what it set counts. */
static void test_values(void)
{
    struct three {
        size_t size;
        int first, second;
    } given = {.first = 1, .second = 2}, read;
    given.size = GPUD_END_OF(struct three, first);
    WORKS(gpud_sized_read(&read, sizeof(read), &given, GPUD_END_OF(struct three, first), "three",
                          &e));
    CHECK(read.size == sizeof(read) && read.first == 1 && read.second == 0, "%zu %d %d", read.size,
          read.first, read.second);
    given.size = 0;
    read.first = 5;
    EXPECT(GPUD_INVALID, "three.size",
           gpud_sized_read(&read, sizeof(read), &given, sizeof(size_t), "three", &e));
    CHECK_EQUAL(read.first, 5);
}

int main(void)
{
    snprintf(address, sizeof(address), "unix:/tmp/gpudirect-sized-%d", (int)getpid());
    WORKS(gpud_context_create(NULL, &context, &e));
    test_values();
    test_params();
    gpud_context_destroy(&context);
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Structs with a size: programs that were built with an older and with a newer release. */
#include "support/check.h"
#include "support/make.h"
#include "base/base.h"
#include <gpudirect/gpudirect.h>

#include <stdalign.h>

/* A struct of any size, with what a newer release would have behind it. */
union grown {
    size_t size;
    alignas(max_align_t) unsigned char bytes[4096];
};

#define TAIL 24

/* --- params -------------------------------------------------------------------------------- */

/* Calls create with the params of a program of another release. */
typedef enum gpud_status (*create_fn)(const union grown *params, struct gpud_error *error);

static struct gpud_context *context;
static char address[64];

static enum gpud_status create_context(const union grown *params, struct gpud_error *error)
{
    AUTO(gpud_context_destroy) struct gpud_context *made = NULL;
    enum gpud_status status = gpud_context_create((const void *)params, &made, error);
    CHECK((status == GPUD_OK) == (made != NULL), "the output and the status disagree");
    return status;
}

static enum gpud_status create_sender(const union grown *params, struct gpud_error *error)
{
    AUTO(gpud_sender_destroy) struct gpud_sender *made = NULL;
    enum gpud_status status = gpud_sender_create(context, (const void *)params, &made, error);
    CHECK((status == GPUD_OK) == (made != NULL), "the output and the status disagree");
    return status;
}

static enum gpud_status create_receiver(const union grown *params, struct gpud_error *error)
{
    AUTO(gpud_receiver_destroy) struct gpud_receiver *made = NULL;
    enum gpud_status status = gpud_receiver_create(context, (const void *)params, &made, error);
    CHECK((status == GPUD_OK) == (made != NULL), "the output and the status disagree");
    return status;
}

/* The node does not exist: the error shows that the params were accepted. */
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

/* --- infos --------------------------------------------------------------------------------- */

static struct gpud_device *host;
static struct gpud_sender *sender;
static struct gpud_receiver *receiver;
static struct gpud_frame *frame;

enum kind { DEVICE, DEVICES, LINK, LOCALITY, ROUTES, POINTER, SENDER, RECEIVER, FRAME };

static void get(enum kind kind, void *info)
{
    AUTO(gpud_device_list_destroy) struct gpud_device_list *list = NULL;
    uint32_t count;
    switch (kind) {
    case DEVICE:
        gpud_device_get_info(host, info);
        break;
    case DEVICES:
        WORKS(gpud_device_list_create(context, &list, &count, &e));
        CHECK(count > 0, "not even the host");
        gpud_device_list_get_info(list, 0, info, NULL);
        break;
    case LINK:
        gpud_device_get_link(host, host, info);
        break;
    case LOCALITY:
        gpud_device_get_locality(host, info);
        break;
    case ROUTES:
        CHECK(gpud_route_explain(host, host, false, info, 1) > 0, "no route");
        break;
    case POINTER:
        gpud_pointer_get_info(info, info);
        break;
    case SENDER:
        gpud_sender_get_info(sender, info);
        break;
    case RECEIVER:
        gpud_receiver_get_info(receiver, info);
        break;
    case FRAME:
        gpud_frame_get_info(frame, info);
    }
}

static bool all_are(const unsigned char *bytes, size_t count, unsigned char value)
{
    while (count && *bytes == value)
        bytes++, count--;
    return count == 0;
}

/* first: where the second field ends; size: the struct's of this release. */
static void check_info(const char *name, enum kind kind, size_t first, size_t size)
{
    union grown full, info;
    memset(&full, 0xee, sizeof(full));
    full.size = size + TAIL;
    get(kind, &full);
    CHECK(full.size == size + TAIL, "%s: the caller's size is another one now", name);
    CHECK(!all_are(full.bytes + sizeof(size_t), size - sizeof(size_t), 0xee), "%s: nothing", name);
    CHECK(all_are(full.bytes + size, TAIL, 0), "%s: what is not known is not 0", name);
    CHECK(all_are(full.bytes + size + TAIL, 64, 0xee), "%s: written beyond its size", name);

    memset(&info, 0xee, sizeof(info));
    info.size = first;
    get(kind, &info);
    CHECK(info.size == first, "%s: the caller's size is another one now", name);
    CHECK(first == 0 || memcmp(info.bytes + sizeof(size_t), full.bytes + sizeof(size_t),
                               first - sizeof(size_t)) == 0,
          "%s: an older program gets something else", name);
    size_t known = first ? first : sizeof(size_t);
    CHECK(all_are(info.bytes + known, size, 0xee), "%s: written beyond its size", name);

    memset(&info, 0xee, sizeof(info));
    info.size = 0;
    get(kind, &info);
    CHECK(info.size == 0 && all_are(info.bytes + sizeof(size_t), size, 0xee),
          "%s: written without a size", name);
}

#define CHECK_INFO(kind, type, first) \
    check_info(#type, kind, GPUD_END_OF(struct type, first), sizeof(struct type))

static void test_params(void)
{
    const struct gpud_context_params of_context = GPUD_PARAMS_INIT(of_context);
    check_params(create_context, "gpud_context_params", &of_context, sizeof(of_context),
                 sizeof(size_t));
    check_params(
        create_sender, "gpud_sender_params", WITH_SIZE(gpud_sender_params, .address = address),
        sizeof(struct gpud_sender_params), GPUD_END_OF(struct gpud_sender_params, address));
    check_params(create_receiver, "gpud_receiver_params",
                 WITH_SIZE(gpud_receiver_params, .address = address),
                 sizeof(struct gpud_receiver_params),
                 GPUD_END_OF(struct gpud_receiver_params, address));
    check_params(create_capture, "gpud_capture_params",
                 WITH_SIZE(gpud_capture_params, .address = "v4l2:///dev/there-is-no-such-node"),
                 sizeof(struct gpud_capture_params),
                 GPUD_END_OF(struct gpud_capture_params, address));
    EXPECT(GPUD_INVALID, "NULL", create_sender(NULL, &e));
    EXPECT(GPUD_INVALID, "NULL", create_receiver(NULL, &e));
    EXPECT(GPUD_INVALID, "NULL", create_capture(NULL, &e));

    sender = NEW_SENDER(context, .address = address);
    receiver = NEW_RECEIVER(context, .address = address);
    struct gpud_layout layout = LAYOUT("GRAY8", 64, 48, 0);
    struct gpud_memory *memory = NEW_MEMORY(host, layout.size);
    WORKS(gpud_frame_wrap(memory, 0, &layout, &frame, &e));

    CHECK_INFO(DEVICE, gpud_device_info, name);
    CHECK_INFO(DEVICES, gpud_device_info, name);
    CHECK_INFO(LINK, gpud_device_link, name);
    CHECK_INFO(LOCALITY, gpud_device_locality, numa_node);
    CHECK_INFO(ROUTES, gpud_route_info, name);
    CHECK_INFO(POINTER, gpud_pointer_info, kind);
    CHECK_INFO(SENDER, gpud_sender_info, path);
    CHECK_INFO(RECEIVER, gpud_receiver_info, path);

    /* All fields of the first release, or none: a frame's is not asked how far it goes. */
    check_info("gpud_frame_info", FRAME, 0, sizeof(struct gpud_frame_info));
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(info.layout.width == 64 && info.pts_ns == GPUD_TIME_NONE, "another frame");
    info.size = sizeof(info) - 1;
    EXPECT(GPUD_INVALID, "gpud_frame_info.size", gpud_frame_set_info(frame, &info, &e));

    gpud_frame_release(&frame);
    gpud_memory_unref(&memory);
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
}

int main(void)
{
    snprintf(address, sizeof(address), "unix:/tmp/gpudirect-sized-%d", (int)getpid());
    context = NEW_CONTEXT();
    host = OPEN_DEVICE(context, "host");
    /* What an older program could not set has its default, and what it set counts. */
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
    test_params();
    /* Entries of a list lie as far apart as the program's own struct is large. */
    struct {
        struct gpud_route_info info;
        char newer[TAIL];
    } list[3];
    memset(list, 0xee, sizeof(list));
    list[0].info.size = sizeof(list[0]);
    gpud_route_explain(host, host, false, &list[0].info, 2);
    CHECK_TEXT(list[0].info.name, "map");
    CHECK_TEXT(list[1].info.name, "peer");
    CHECK(list[1].info.size == sizeof(list[0]) && list[1].newer[0] == 0, "half an entry");
    CHECK((unsigned char)list[2].info.name[0] == 0xee, "more than there is room for");
    /* Every list says the same of an index and of a size; that of devices has no other test. */
    struct gpud_device_info device = GPUD_INFO_INIT(device);
    struct gpud_device_list *devices = NULL;
    uint32_t count;
    WORKS(gpud_device_list_create(context, &devices, &count, &e));
    WORKS(gpud_device_list_get_info(devices, 0, &device, &e));
    CHECK(strcmp(device.name, "host") == 0 && device.available, "the first is %s", device.name);
    EXPECT(GPUD_INVALID, "device ", gpud_device_list_get_info(devices, count, &device, &e));
    EXPECT(GPUD_INVALID, " of ", gpud_device_list_get_info(devices, UINT32_MAX, &device, &e));
    device.size = 0;
    EXPECT(GPUD_INVALID, "GPUD_INFO_INIT", gpud_device_list_get_info(devices, 0, &device, &e));
    gpud_device_list_destroy(&devices);
    CHECK(!devices, "the pointer stays");
    gpud_device_list_destroy(&devices);
    gpud_device_list_destroy(NULL);
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    return 0;
}

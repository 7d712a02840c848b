/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The route `migrate`, as an OpenCL driver sees it: each frame's slot begins to move when the frame
 * is submitted, goes to one device and home again, and is never moved by the driver itself. What
 * frames and streams must do by every route stands in route_test.c. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/picture.h"

#include <CL/cl.h>
#include <pthread.h>

/* --- a layer between the core and OpenCL (the linker's --wrap) -------------------------------- */

#define BUFFERS_MAX 512
#define EVENTS_MAX 8

enum fault {
    WORKING,
    REFUSES, /* explicit moves with content */
    SPOILS,  /* the content, on the way */
};

/* Home is the device whose queue used a buffer first. */
struct counts {
    unsigned away;        /* explicit moves, with their content */
    unsigned home;        /* explicit moves without it, back to that device */
    unsigned home_filled; /* the same with it, which is unnecessary */
    unsigned idle;        /* explicit moves to where the buffer lies already */
    unsigned implicit; /* commands that used a buffer where it did not lie: the driver moved it */
};

/* It knows of each buffer on which device it lies: where it was moved to, or where the last command
 * used it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct buffer {
    cl_mem memory;
    cl_device_id first, here; /* of the first command, and of the last */
} buffers[BUFFERS_MAX];
static unsigned buffer_count;
static struct layer {
    struct counts counts;
    enum fault fault;
    bool holding;
    cl_event gate; /* what held writes wait for, as if the device were busy */
    cl_event held_last;
    unsigned held, moved_behind_held; /* writes; explicit moves enqueued behind a held one */
} layer;

static struct layer layer_now(void)
{
    pthread_mutex_lock(&lock);
    struct layer now = layer;
    pthread_mutex_unlock(&lock);
    return now;
}

/* Forgets all counts, but not where buffers lie. */
static void layer_reset(void)
{
    pthread_mutex_lock(&lock);
    layer.counts = (struct counts){0};
    pthread_mutex_unlock(&lock);
}

static void layer_set_fault(enum fault fault)
{
    pthread_mutex_lock(&lock);
    layer.fault = fault;
    pthread_mutex_unlock(&lock);
}

/* From now on each write into a buffer waits for layer_let_go(). */
static void layer_hold_writes(void)
{
    pthread_mutex_lock(&lock);
    layer.holding = true;
    layer.held = layer.moved_behind_held = 0;
    pthread_mutex_unlock(&lock);
}

static void layer_let_go(void)
{
    pthread_mutex_lock(&lock);
    cl_event opened = layer.gate, last = layer.held_last;
    layer.holding = false;
    layer.gate = layer.held_last = NULL;
    pthread_mutex_unlock(&lock);
    if (opened) {
        CHECK(clSetUserEventStatus(opened, CL_COMPLETE) == CL_SUCCESS, "the gate does not open");
        clReleaseEvent(opened);
    }
    if (last)
        clReleaseEvent(last);
}

static cl_device_id device_of(cl_command_queue queue)
{
    cl_device_id device = NULL;
    CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL) ==
              CL_SUCCESS,
          "a queue without a device");
    return device;
}

/* Under the lock. A buffer's record lives until the handle is given out again. */
static struct buffer *find(cl_mem memory, cl_device_id device)
{
    for (unsigned i = 0; i < buffer_count; i++)
        if (buffers[i].memory == memory)
            return &buffers[i];
    CHECK(buffer_count < BUFFERS_MAX, "more buffers than the layer has records");
    buffers[buffer_count] = (struct buffer){memory, device, device};
    return &buffers[buffer_count++];
}

static void use(cl_command_queue queue, cl_mem memory)
{
    cl_device_id device = device_of(queue);
    pthread_mutex_lock(&lock);
    struct buffer *buffer = find(memory, device);
    if (buffer->here != device) {
        layer.counts.implicit++;
        buffer->here = device;
    }
    pthread_mutex_unlock(&lock);
}

/* A move behind a write that is held is itself not done, and waits for exactly that one. */
static void note_move(cl_command_queue queue, cl_mem memory, cl_mem_migration_flags flags,
                      cl_uint events, const cl_event *after)
{
    cl_device_id device = device_of(queue);
    pthread_mutex_lock(&lock);
    struct buffer *buffer = find(memory, device);
    bool empty = flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    if (buffer->here == device)
        layer.counts.idle++;
    else if (device != buffer->first)
        layer.counts.away++;
    else if (empty)
        layer.counts.home++;
    else
        layer.counts.home_filled++;
    buffer->here = device;
    for (cl_uint i = 0; i < events; i++)
        layer.moved_behind_held += layer.held_last && after[i] == layer.held_last;
    pthread_mutex_unlock(&lock);
}

/* The wait list of a write that is held, or NULL; *count: of its events. */
static const cl_event *with_gate(cl_command_queue queue, const cl_event *after, cl_uint *count,
                                 cl_event list[EVENTS_MAX])
{
    const cl_event *result = NULL;
    pthread_mutex_lock(&lock);
    if (layer.holding) {
        if (!layer.gate) {
            cl_context context;
            cl_int code;
            clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
            layer.gate = clCreateUserEvent(context, &code);
            CHECK(code == CL_SUCCESS, "no gate: %d", code);
        }
        CHECK(*count < EVENTS_MAX, "too many events");
        for (cl_uint i = 0; i < *count; i++)
            list[i] = after[i];
        list[(*count)++] = layer.gate;
        layer.held++;
        result = list;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

__typeof__(clCreateBuffer) __real_clCreateBuffer, __wrap_clCreateBuffer;
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *code)
{
    cl_mem made = __real_clCreateBuffer(context, flags, size, host, code);
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < buffer_count; i++)
        if (buffers[i].memory == made)
            buffers[i] = buffers[--buffer_count];
    pthread_mutex_unlock(&lock);
    return made;
}

__typeof__(clEnqueueMigrateMemObjects) __real_clEnqueueMigrateMemObjects,
    __wrap_clEnqueueMigrateMemObjects;
cl_int __wrap_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count,
                                         const cl_mem *memories, cl_mem_migration_flags flags,
                                         cl_uint events, const cl_event *after, cl_event *event)
{
    bool filled = !(flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED);
    if (filled && layer_now().fault == REFUSES)
        return CL_OUT_OF_RESOURCES;
    for (cl_uint i = 0; i < count; i++)
        note_move(queue, memories[i], flags, i == 0 ? events : 0, after);
    cl_event moved;
    cl_int code =
        __real_clEnqueueMigrateMemObjects(queue, count, memories, flags, events, after, &moved);
    if (code != CL_SUCCESS)
        return code;
    if (filled && layer_now().fault == SPOILS) {
        const cl_uchar other = 0x5a;
        cl_event spoiled;
        CHECK(clEnqueueFillBuffer(queue, memories[0], &other, 1, 0, 64, 1, &moved, &spoiled) ==
                  CL_SUCCESS,
              "nothing is spoiled");
        clReleaseEvent(moved);
        moved = spoiled;
    }
    if (event)
        *event = moved;
    else
        clReleaseEvent(moved);
    return CL_SUCCESS;
}

__typeof__(clEnqueueWriteBuffer) __real_clEnqueueWriteBuffer, __wrap_clEnqueueWriteBuffer;
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                   size_t offset, size_t size, const void *data, cl_uint events,
                                   const cl_event *after, cl_event *event)
{
    cl_event list[EVENTS_MAX];
    const cl_event *gated = with_gate(queue, after, &events, list);
    use(queue, memory);
    cl_int code = __real_clEnqueueWriteBuffer(queue, memory, blocking, offset, size, data, events,
                                              gated ? gated : after, event);
    if (gated && code == CL_SUCCESS) {
        pthread_mutex_lock(&lock);
        if (layer.held_last)
            clReleaseEvent(layer.held_last);
        clRetainEvent(*event);
        layer.held_last = *event;
        pthread_mutex_unlock(&lock);
    }
    return code;
}

__typeof__(clEnqueueReadBuffer) __real_clEnqueueReadBuffer, __wrap_clEnqueueReadBuffer;
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                  size_t offset, size_t size, void *data, cl_uint events,
                                  const cl_event *after, cl_event *event)
{
    use(queue, memory);
    return __real_clEnqueueReadBuffer(queue, memory, blocking, offset, size, data, events, after,
                                      event);
}

__typeof__(clEnqueueCopyBuffer) __real_clEnqueueCopyBuffer, __wrap_clEnqueueCopyBuffer;
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event)
{
    use(queue, from);
    use(queue, to);
    return __real_clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, events, after,
                                      event);
}

__typeof__(clEnqueueMapBuffer) __real_clEnqueueMapBuffer, __wrap_clEnqueueMapBuffer;
void *__wrap_clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                cl_map_flags flags, size_t offset, size_t size, cl_uint events,
                                const cl_event *after, cl_event *event, cl_int *code)
{
    use(queue, memory);
    return __real_clEnqueueMapBuffer(queue, memory, blocking, flags, offset, size, events, after,
                                     event, code);
}

__typeof__(clEnqueueFillBuffer) __real_clEnqueueFillBuffer, __wrap_clEnqueueFillBuffer;
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                  size_t pattern_size, size_t offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event)
{
    use(queue, memory);
    return __real_clEnqueueFillBuffer(queue, memory, pattern, pattern_size, offset, size, events,
                                      after, event);
}

/* --- streams ---------------------------------------------------------------------------------- */

struct rig {
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    uint64_t number; /* of the last picture */
};

struct end {
    struct gpud_receiver *receiver;
    uint64_t seen; /* the last picture */
};

static struct rig rig_open(void)
{
    struct rig rig = {.context = NEW_CONTEXT()};
    layer_set_fault(WORKING);
    rig.host = OPEN_DEVICE(rig.context, "host");
    rig.sender = NEW_SENDER(rig.context, .address = "migrate", .device = "opencl:0",
                            .slow_receiver = GPUD_SLOW_BLOCK);
    rig.layout = LAYOUT("UYVY", 640, 360, 0);
    WORKS(gpud_sender_configure(rig.sender, PICTURE(&rig.layout), &e));
    return rig;
}

static void rig_close(struct rig *rig)
{
    gpud_sender_destroy(&rig->sender);
    gpud_device_close(&rig->host);
    gpud_context_destroy(&rig->context);
}

/* Connects a receiver; the link's test is over then. */
static struct end end_open(struct rig *rig, struct gpud_context *context, const char *device,
                           unsigned count)
{
    struct end end = {NEW_RECEIVER(context, .address = "migrate", .device = device), 0};
    PEER_LINK(rig->sender, end.receiver, count);
    return end;
}

static void end_close(struct end *end)
{
    gpud_receiver_destroy(&end->receiver);
}

static void check_path(const struct end *end, const char *path, const char *says)
{
    struct gpud_receiver_info info = INFO(receiver, end->receiver);
    CHECK(strcmp(info.path, path) == 0, "the route is %s (%s)", info.path, info.fallback_reason);
    CHECK(strstr(info.fallback_reason, says), "\"%s\" does not say \"%s\"", info.fallback_reason,
          says);
}

/* The next frame, whose every byte is right. */
static void take(struct rig *rig, struct end *end)
{
    struct gpud_frame *frame = ACQUIRE_FRAME(end->receiver, 20 * GPUD_SEC);
    FRAME_CHECK(frame, &rig->layout, ++end->seen);
    gpud_frame_release(&frame);
}

static void send_lent(struct rig *rig)
{
    SEND_LENT(rig->sender, &rig->layout, ++rig->number);
}

/* --- what is shown ---------------------------------------------------------------------------- */

/* The frame's own buffer moves: one way with its content, back without, and no other way. */
static void test_moves(void)
{
    enum { FRAMES = 50, SLOTS = 4 };
    AUTO(rig_close) struct rig rig = rig_open();
    AUTO(end_close) struct end end = end_open(&rig, rig.context, "opencl:1", 1);
    check_path(&end, "migrate", "map: the frames are on opencl:0 and are wanted on opencl:1");
    layer_reset();
    struct gpud_sender_info before = GPUD_INFO_INIT(before), after = GPUD_INFO_INIT(after);
    gpud_sender_get_info(rig.sender, &before);
    for (int i = 0; i < FRAMES; i++) {
        send_lent(&rig);
        take(&rig, &end);
    }
    gpud_sender_get_info(rig.sender, &after);
    struct counts counts = layer_now().counts;
    SAY("  %d frames: %u moves away, %u home, %u home with content, %u idle, %u implicit", FRAMES,
        counts.away, counts.home, counts.home_filled, counts.idle, counts.implicit);
    CHECK_EQUAL(counts.away, FRAMES);
    CHECK_EQUAL(counts.home_filled, 0);
    CHECK_EQUAL(counts.idle, 0);
    CHECK_EQUAL(counts.implicit, 0);
    /* Every slot that was used again, and the canary's. */
    CHECK(counts.home >= FRAMES - 2 * SLOTS && counts.home <= FRAMES + 1, "%u moves home",
          counts.home);
    CHECK_EQUAL(after.copies_gpu + after.copies_cpu, before.copies_gpu + before.copies_cpu);
}

/* While the sender's device is still busy with the frame, the move is enqueued already, behind that
 * very work; there is no wait, and the frame is handed over when it has moved. */
static void test_begins_at_submit(void)
{
    AUTO(rig_close) struct rig rig = rig_open();
    AUTO(end_close) struct end end = end_open(&rig, rig.context, "opencl:1", 1);
    struct gpud_frame *early;
    layer_reset();
    for (unsigned turn = 1; turn <= 5; turn++) {
        layer_hold_writes();
        /* A frame in host memory that is laid out as a slot is: the device writes it into one. */
        struct gpud_frame *frame;
        struct gpud_memory *memory = NEW_MEMORY(rig.host, rig.layout.size);
        WORKS(gpud_frame_wrap(memory, 0, &rig.layout, &frame, &e));
        gpud_memory_unref(&memory);
        frame_write(frame, &rig.layout, ++rig.number);
        WORKS(gpud_sender_submit(rig.sender, &frame, 20 * GPUD_SEC, &e));
        CHECK_EQUAL(layer_now().held, 1);
        CHECK_EQUAL(layer_now().moved_behind_held, 1);
        CHECK_EQUAL(layer_now().counts.away, turn);
        EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(end.receiver, 20 * GPUD_MSEC, &early, &e));
        layer_let_go();
        take(&rig, &end);
    }
    CHECK_EQUAL(layer_now().counts.implicit, 0);
}

/* Several receivers on the device that the slots go to share them; one on another device, or on the
 * sender's own, gets its frames by another route, in any order of connecting. */
static void test_one_destination(void)
{
    enum { FRAMES = 20 };
    struct rig rig = rig_open();
    struct end ends[4];
    static const char *const devices[] = {"opencl:1", "opencl:1", "opencl:2", "opencl:0"};
    for (unsigned i = 0; i < 4; i++)
        ends[i] = end_open(&rig, rig.context, devices[i], i + 1);
    check_path(&ends[0], "migrate", "");
    check_path(&ends[1], "migrate", "");
    check_path(&ends[2], "staged", "migrate: the slots go to opencl:1 for another receiver");
    check_path(&ends[3], "staged", "map: the slots go to opencl:1 for another receiver");
    layer_reset();
    for (int i = 0; i < FRAMES; i++) {
        send_lent(&rig);
        for (int k = 0; k < 4; k++)
            take(&rig, &ends[k]);
    }
    CHECK_EQUAL(layer_now().counts.implicit, 0);
    CHECK_EQUAL(layer_now().counts.home_filled, 0);
    CHECK_EQUAL(layer_now().counts.away, FRAMES);
    for (int k = 0; k < 4; k++)
        end_close(&ends[k]);
    rig_close(&rig);

    rig = rig_open();
    ends[0] = end_open(&rig, rig.context, "opencl:0", 1);
    ends[1] = end_open(&rig, rig.context, "opencl:1", 2);
    check_path(&ends[0], "map", "");
    check_path(&ends[1], "staged", "migrate: the slots go to opencl:0 for another receiver");
    send_lent(&rig);
    take(&rig, &ends[0]);
    take(&rig, &ends[1]);
    end_close(&ends[0]);
    end_close(&ends[1]);
    rig_close(&rig);
}

/* A driver that does not do it, or does it wrong, is found out before a frame is sent. */
static void test_faults(void)
{
    static const struct {
        enum fault fault;
        const char *says;
    } faults[] = {
        {REFUSES, "migrate: opencl:1 refused to take a memory of opencl:0: CL_OUT_OF"},
        {SPOILS, "migrate: what was sent did not arrive: the test pattern is not in"},
    };
    for (int i = 0; i < 2; i++) {
        AUTO(rig_close) struct rig rig = rig_open();
        layer_set_fault(faults[i].fault);
        AUTO(end_close) struct end end = end_open(&rig, rig.context, "opencl:1", 1);
        check_path(&end, "staged", faults[i].says);
        send_lent(&rig);
        take(&rig, &end);
    }
    layer_set_fault(WORKING);
}

/* A device that takes no frames any more costs its own receiver the connection, which is made anew
 * by another route, and no other receiver a frame. */
static void test_failure(void)
{
    AUTO(rig_close) struct rig rig = rig_open();
    AUTO(end_close) struct end moved = end_open(&rig, rig.context, "opencl:1", 1);
    AUTO(end_close) struct end staged = end_open(&rig, rig.context, "opencl:2", 2);
    check_path(&moved, "migrate", "");
    check_path(&staged, "staged", "");
    send_lent(&rig);
    take(&rig, &moved);
    take(&rig, &staged);
    layer_set_fault(REFUSES);
    send_lent(&rig);
    take(&rig, &staged);
    struct gpud_frame *frame;
    EXPECT(GPUD_PEER, "", gpud_receiver_acquire(moved.receiver, 20 * GPUD_SEC, &frame, &e));
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; info.connects < 3;) {
        EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(moved.receiver, GPUD_MSEC, &frame, &e));
        CHECK(gpud_test_now() < until, "the receiver does not come back");
        gpud_sender_get_info(rig.sender, &info);
    }
    check_path(&moved, "staged", "migrate: opencl:1 refused to take a memory of opencl:0");
    moved.seen = rig.number;
    send_lent(&rig);
    take(&rig, &moved);
    take(&rig, &staged);
}

/* Two contexts in one process are as foreign to each other as two processes. */
static void test_other_context(void)
{
    AUTO(rig_close) struct rig rig = rig_open();
    AUTO(gpud_context_destroy) struct gpud_context *own = NEW_CONTEXT();
    AUTO(end_close) struct end end = end_open(&rig, own, "opencl:1", 1);
    check_path(&end, "staged", "migrate: not the same process: only inside one, with one");
    send_lent(&rig);
    take(&rig, &end);
}

int main(void)
{
    static const struct {
        const char *says;
        void (*test)(void);
    } tests[] = {
        {"a slot goes away with its frame, and home empty", test_moves},
        {"it begins to move when its frame is submitted", test_begins_at_submit},
        {"it goes to one device alone", test_one_destination},
        {"a driver that does not move it, or not whole", test_faults},
        {"a device that fails in mid-stream", test_failure},
        {"two contexts in one process", test_other_context},
    };
    test_alarm(80);
    runtime_make();
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        SAY("%s", tests[i].says);
        tests[i].test();
    }
    runtime_done();
    return 0;
}

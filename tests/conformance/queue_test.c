/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* queue@DEVICE: what every device promises about when things happen, and that no wait is endless.
 */
#include "conformance.h"

#include "device/gpu/gpu.h"
#include "device/opencl/opencl.h"

#define STEPS 64
#define STEP_SIZE 20000
#define SIZE 9999

/* Device memory of this size that holds the pattern. */
static struct gpud_memory *make_full(struct side *side, uint64_t size, uint32_t seed)
{
    struct gpud_memory *memory = NEW_MEMORY(side->device, size);
    write_pattern(side, memory, seed);
    return memory;
}

/* A copy that is to be enqueued: before it the target holds pattern 1, after it 2. */
struct copy {
    struct gpud_memory *to, *from;
};

static struct copy make_copy(struct side *side)
{
    return (struct copy){make_full(side, SIZE, 1), make_full(side, SIZE, 2)};
}

static void drop_copy(struct copy *copy)
{
    gpud_memory_unref(&copy->to);
    gpud_memory_unref(&copy->from);
}

static void enqueue(struct gpud_queue *queue, const struct copy *copy)
{
    copy_whole(queue, copy->to, copy->from);
}

/* --- being told ------------------------------------------------------------------------------- */

struct run {
    unsigned char *data; /* host memory that the queue writes */
    atomic_uint calls;
    atomic_uint early; /* told before the bytes were there */
    atomic_uint failed;
    atomic_uint inside;    /* how many are being told */
    atomic_uint disturbed; /* told out of turn, or two at once */
};

struct step {
    struct run *run;
    unsigned index;
    atomic_uint calls;
};

static void step_done(void *arg, enum gpud_status status)
{
    struct step *step = arg;
    if (atomic_fetch_add(&step->run->inside, 1) > 0 ||
        atomic_load(&step->run->calls) != step->index)
        atomic_fetch_add(&step->run->disturbed, 1);
    if (status != GPUD_OK)
        atomic_fetch_add(&step->run->failed, 1);
    for (unsigned i = 0; i <= step->index; i++)
        if (step->run->data[(size_t)i * STEP_SIZE + STEP_SIZE - 1] != pattern(STEP_SIZE - 1, 3))
            atomic_fetch_add(&step->run->early, 1);
    atomic_fetch_add(&step->calls, 1);
    atomic_fetch_sub(&step->run->inside, 1);
    atomic_fetch_add(&step->run->calls, 1);
}

static void wait_for_calls(atomic_uint *calls, unsigned wanted)
{
    PEER_UNTIL("all completions are told", 10000, atomic_load(calls) >= wanted);
}

static void test_on_complete(struct side *side)
{
    SAY("each completion is told once, when the work before it is done, in the order of the queue");
    static struct step steps[STEPS];
    const size_t size = (STEPS * STEP_SIZE + 4095) / 4096 * 4096;
    struct run run = {.data = aligned_alloc(4096, size)};
    CHECK(run.data, "out of memory");
    memset(run.data, 0, size);
    memset(steps, 0, sizeof(steps));
    AUTO(gpud_memory_unref) struct gpud_memory *from = make_full(side, STEP_SIZE, 3);
    AUTO(gpud_memory_unref)
    struct gpud_memory *to = WRAP_HOST(side->device, run.data, STEPS * STEP_SIZE, free, run.data);
    for (unsigned i = 0; i < STEPS; i++) {
        struct gpud_copy copy = {.to = to, .from = from, .row_bytes = STEP_SIZE, .rows = 1};
        copy.to_offset = (uint64_t)i * STEP_SIZE;
        steps[i] = (struct step){.run = &run, .index = i};
        WORKS(gpud_queue_copy(side->queue, &copy, &e));
        WORKS(gpud_queue_on_complete(side->queue, step_done, &steps[i], &e));
    }
    WORKS(gpud_queue_flush(side->queue, &e));
    wait_for_calls(&run.calls, STEPS);
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    for (unsigned i = 0; i < STEPS; i++)
        CHECK(atomic_load(&steps[i].calls) == 1, "completion %u was told %u times", i,
              atomic_load(&steps[i].calls));
    CHECK(run.early == 0, "%u completions were told too early", run.early);
    CHECK(run.failed == 0, "%u completions were told as failures", run.failed);
    CHECK(run.disturbed == 0, "%u completions were told out of turn", run.disturbed);

    struct step idle = {.run = &run};
    AUTO(gpud_queue_unref) struct gpud_queue *fresh = NEW_QUEUE(side->device);
    WORKS(gpud_queue_finish(fresh, gpud_now(), &e));
    WORKS(gpud_queue_on_complete(fresh, step_done, &idle, &e));
    wait_for_calls(&idle.calls, 1);
}

/* --- capabilities ----------------------------------------------------------------------------- */

/* What a queue has done when the copy's call returns, without a wait. */
static void test_synchronous(struct side *side)
{
    SAY("a synchronous queue has copied when the call returns");
    AUTO(drop_copy) struct copy copy = make_copy(side);
    uint64_t waits = atomic_load(&side->queue->waits);
    enqueue(side->queue, &copy);
    CHECK_PATTERN(copy.to->host, SIZE, 2);
    WORKS(gpud_queue_finish(side->queue, 0, &e));
    CHECK(atomic_load(&side->queue->waits) == waits, "a finished queue counts as waited for");
}

/* The copy behind the fence stands still with the queue that the fence is on, and no longer. */
static void test_fences(struct side *side)
{
    struct gpud_fence fence;
    if (!gpud_device_has_fences(side->device)) {
        SAY("a device without fences says so");
        GIVES(GPUD_UNSUPPORTED, gpud_queue_mark(side->queue, &fence, &e));
        return;
    }
    SAY("a queue waits for another's fence, as often as one likes, also when the fence is gone");
    AUTO(drop_copy) struct copy copy = make_copy(side);
    AUTO(gpud_queue_unref) struct gpud_queue *later = NEW_QUEUE(side->device);
    struct hold *hold = hold_queue(side->queue);
    WORKS(gpud_queue_mark(side->queue, &fence, &e));
    WORKS(gpud_queue_await(later, &fence, &e));
    WORKS(gpud_queue_await(later, &fence, &e));
    gpud_fence_drop(&fence);
    enqueue(later, &copy);
    GIVES(GPUD_TIMEOUT, gpud_queue_finish(later, gpud_deadline(30 * GPUD_MSEC), &e));
    release_queue(hold, false);
    WORKS(gpud_queue_finish(later, SOON, &e));
    READ_PATTERN(side, copy.to, 2);
}

/* --- queues that stand still ------------------------------------------------------------------ */

struct told {
    atomic_uint calls;
    enum gpud_status status;
};

static void tell(void *arg, enum gpud_status status)
{
    struct told *told = arg;
    told->status = status;
    atomic_fetch_add(&told->calls, 1);
}

static void test_finish_deadline(struct side *side)
{
    SAY("waiting for a queue that stands still ends at the deadline, and changes nothing");
    AUTO(drop_copy) struct copy copy = make_copy(side);
    struct told told = {0};
    struct hold *hold = hold_queue(side->queue);
    enqueue(side->queue, &copy);
    WORKS(gpud_queue_on_complete(side->queue, tell, &told, &e));
    for (int i = 0; i < 3; i++) {
        int64_t start = gpud_now();
        GIVES(GPUD_TIMEOUT, gpud_queue_finish(side->queue, gpud_deadline(50 * GPUD_MSEC), &e));
        CHECK_TOOK(start, 50, 500);
        start = gpud_now();
        GIVES(GPUD_TIMEOUT, gpud_queue_finish(side->queue, 0, &e));
        CHECK_TOOK(start, 0, 50);
    }
    CHECK(atomic_load(&told.calls) == 0, "completion was told while the queue stood still");
    release_queue(hold, false);
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    wait_for_calls(&told.calls, 1);
    CHECK(told.status == GPUD_OK, "the queue failed: %s", gpud_status_string(told.status));
    READ_PATTERN(side, copy.to, 2);
}

/* All copies of the process, as of queues that the library keeps to itself. */
static void test_held_copies(struct side *side)
{
    if (side->device->ops->queue != &gpud_gpu_queue_ops || !hold_copies(true))
        return;
    SAY("where the fake driver holds copies, what is not waited for is not there");
    struct told told = {0};
    WORKS(gpud_queue_on_complete(side->queue, tell, &told, &e));
    wait_for_calls(&told.calls, 1); /* it holds copies alone */
    hold_copies(false);
    AUTO(drop_copy) struct copy copy = make_copy(side);
    hold_copies(true);
    enqueue(side->queue, &copy);
    WORKS(gpud_queue_on_complete(side->queue, tell, &told, &e));
    GIVES(GPUD_TIMEOUT, gpud_queue_finish(side->queue, gpud_deadline(30 * GPUD_MSEC), &e));
    CHECK(atomic_load(&told.calls) == 1, "completion was told of a copy that is held");
    hold_copies(false);
    WORKS(gpud_queue_finish(side->queue, SOON, &e));
    wait_for_calls(&told.calls, 2);
    READ_PATTERN(side, copy.to, 2);
}

static void test_map_deadline(struct side *side)
{
    SAY("so does mapping, and nothing stays mapped");
    AUTO(gpud_memory_unref) struct gpud_memory *memory = make_full(side, SIZE, 1);
    void *data = NULL;
    struct hold *hold = hold_queue(side->queue);
    for (int i = 0; i < 3; i++) {
        int64_t start = gpud_now();
        GIVES(GPUD_TIMEOUT, gpud_queue_map(side->queue, memory, 0, SIZE, GPUD_READ | GPUD_WRITE,
                                           gpud_deadline(50 * GPUD_MSEC), &data, &e));
        CHECK_TOOK(start, 50, 500);
    }
    CHECK(!data, "a map that timed out gives an address");
    release_queue(hold, false);
    READ_PATTERN(side, memory, 1);
    if (is_kind(side, "opencl")) {
        cl_uint maps = 1; /* some drivers count a moment after the event */
        for (int64_t deadline = gpud_deadline(GPUD_SEC); maps && gpud_now() < deadline; usleep(100))
            clGetMemObjectInfo(gpud_memory_get_native(memory), CL_MEM_MAP_COUNT, sizeof(maps),
                               &maps, NULL);
        CHECK(maps == 0, "%u maps are left", maps);
    }
}

static void test_destroy_busy(struct side *side)
{
    SAY("a queue that stands still can be destroyed, and its memory too; its work happens all the "
        "same");
    static _Alignas(4096) unsigned char seen[SIZE];
    struct told told = {0};
    memset(seen, 0, sizeof(seen));
    struct copy copy = {WRAP_HOST(side->device, seen, SIZE, NULL, NULL), make_full(side, SIZE, 1)};
    struct gpud_queue *queue = NEW_QUEUE(side->device);
    struct hold *hold = hold_queue(queue);
    enqueue(queue, &copy);
    WORKS(gpud_queue_on_complete(queue, tell, &told, &e));
    int64_t start = gpud_now();
    gpud_queue_unref(&queue);
    drop_copy(&copy);
    CHECK_TOOK(start, 0, 500);
    CHECK(atomic_load(&told.calls) == 0 && seen[0] == 0,
          "the work happened while the queue stood still");
    release_queue(hold, false);
    wait_for_calls(&told.calls, 1);
    CHECK(told.status == GPUD_OK, "the work failed: %s", gpud_status_string(told.status));
    CHECK_PATTERN(seen, SIZE, 1);
}

static void test_failure(struct side *side)
{
    SAY("a queue whose work failed reports that to all callers, in the driver's own words");
    AUTO(drop_copy) struct copy copy = make_copy(side);
    const struct gpud_copy again = {.to = copy.to, .from = copy.from, .row_bytes = SIZE, .rows = 1};
    struct gpud_error error = {0};
    struct told told = {0}, later = {0};
    void *data;
    struct gpud_queue *queue = NEW_QUEUE(side->device);
    struct hold *hold = hold_queue(queue);
    enqueue(queue, &copy);
    WORKS(gpud_queue_on_complete(queue, tell, &told, &e));
    release_queue(hold, true);
    GIVES(GPUD_IO, gpud_queue_finish(queue, SOON, &e));
    wait_for_calls(&told.calls, 1);
    CHECK(told.status == GPUD_IO, "the completion says \"%s\"", gpud_status_string(told.status));
    CHECK(gpud_queue_finish(queue, SOON, &error) == GPUD_IO && error.native < 0 && error.origin,
          "the driver's number is missing");
    SAY("    \"%s\"", error.reason);
    CHECK(strcmp(error.origin, "opencl") == 0, "it is the number of \"%s\"", error.origin);
    if (gpud_queue_copy(queue, &again, NULL) == GPUD_OK) {
        WORKS(gpud_queue_on_complete(queue, tell, &later, &e));
        wait_for_calls(&later.calls, 1);
        CHECK(later.status == GPUD_IO, "work after a failure \"%s\"",
              gpud_status_string(later.status));
    }
    GIVES(GPUD_IO, gpud_queue_map(queue, copy.to, 0, 1, GPUD_READ, SOON, &data, &e));
    gpud_queue_unref(&queue);
    READ_PATTERN(side, copy.to, 1); /* by another queue, which is not affected */
}

static void test_close_stuck(const char *device)
{
    SAY("a device can be closed while its driver is stuck; what it holds is given up, and said so");
    struct side side = side_open(device);
    struct gpud_memory *memory = make_full(&side, SIZE, 1);
    struct hold *hold = hold_queue(side.queue);
    struct gpud_context *aside = side.context;
    int64_t start = gpud_now();
    gpud_memory_unref(&memory);
    side_close(&side);
    CHECK_TOOK(start, 900, 3000);
    release_queue(hold, false);
    wait_for_worker(aside); /* which gives it back before the process and its driver end */
}

static void *work(void *arg)
{
    struct side *side = arg, own = {.context = side->context, .device = side->device};
    for (uint32_t round = 0; round < 20; round++) {
        own.queue = NEW_QUEUE(side->device);
        struct copy copy = {make_full(&own, 50000, 200), make_full(&own, 50000, round)};
        enqueue(own.queue, &copy);
        READ_PATTERN(&own, copy.to, round);
        gpud_queue_unref(&own.queue);
        drop_copy(&copy);
    }
    return NULL;
}

static void test_threads(struct side *side)
{
    SAY("threads with queues of their own share a device");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = NEW_THREAD(work, side);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void everything(const char *device)
{
    AUTO(side_close) struct side side = side_open(device);
    struct gpud_memory *memory = make_full(&side, 100, 1);
    CHECK(!memory->host == !is_cpu_addressable(&side), "CPU-addressable memory is%s announced",
          memory->host ? " not" : "");
    gpud_memory_unref(&memory);
    if (is_synchronous(&side))
        test_synchronous(&side);
    test_fences(&side);
    test_on_complete(&side);
    if (!is_synchronous(&side)) {
        test_finish_deadline(&side);
        test_held_copies(&side);
        test_map_deadline(&side);
        test_destroy_busy(&side);
        if (is_kind(&side, "opencl")) /* a GPU that fails takes its whole context with it */
            test_failure(&side);
    }
    test_threads(&side);
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    twice(everything, argv[1]);

    struct side side = side_open(argv[1]);
    bool synchronous = is_synchronous(&side);
    side_close(&side);
    if (!synchronous)
        test_close_stuck(argv[1]);
    return 0;
}

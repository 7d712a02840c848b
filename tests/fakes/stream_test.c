/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams: order, words, events, the NULL stream, peers, and work whose memory goes away. */

#include "test_common.h"

#include <pthread.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define GEQ CU_STREAM_WAIT_VALUE_GEQ

static CUcontext context;
static CUstream a, b;

/* A page of words as the core has it: pinned, with an address for the device. */
static unsigned *words;
static CUdeviceptr device_words;

static void store(unsigned index, unsigned value)
{
    __atomic_store_n(&words[index], value, __ATOMIC_RELEASE);
}

static unsigned load(unsigned index)
{
    return __atomic_load_n(&words[index], __ATOMIC_ACQUIRE);
}

static void open_words(void)
{
    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED, "no page");
    DO(mem_host_register(words, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    DO(mem_host_get_device_pointer(&device_words, words, 0));
}

static CUdeviceptr word(unsigned index)
{
    return device_words + index * sizeof *words;
}

static void test_words(void)
{
    CUdeviceptr memory = alloc_filled(MIB, 1), wrong = device_words + 2;
    DRIVER(CUDA_ERROR_INVALID_VALUE, stream_wait_value(a, wrong, 1, GEQ));
    DRIVER(CUDA_ERROR_INVALID_VALUE, stream_write_value(a, wrong, 1, 0));
    REFUSED(stream_wait_value(a, device_words, 1, 99));
    DO(stream_wait_value(a, word(0), 5, GEQ));
    DO(memset_d8_async(memory, 2, MIB, a));
    CUstreamBatchMemOpParams both[] = {
        {.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word(1), {7}, 0, 0}},
        {.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word(3), {7}, 0, 0}},
    };
    both[1].writeValue.flags = 9;
    REFUSED(stream_batch_mem_op(a, 2, both, 0));
    both[1].writeValue.flags = 0;
    DO(stream_batch_mem_op(a, 2, both, 0));
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(a));
    store(0, 4);
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(a));
    CHECK_EQUAL(load(1), 0);
    store(0, 6);
    finish(a);
    both[0] = (CUstreamBatchMemOpParams){
        .waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, word(5), {2}, GEQ, 0}};
    DO(stream_batch_mem_op(a, 2, both, 0));
    both[0].waitValue.flags = 9;
    REFUSED(stream_batch_mem_op(a, 2, both, 0));
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(a));
    store(5, 2);
    finish(a);
    CHECK_EQUAL(load(1), 7);
    CHECK_EQUAL(load(3), 7);
    CHECK(is_filled(memory, MIB, 2), "the word came before the work");

    /* Cyclic: 3 comes after 0xfffffff0, and 0xfffffff0 does not come after 3. */
    store(0, 3);
    DO(stream_wait_value(a, word(0), 0xfffffff0u, GEQ));
    finish(a);
    store(0, 0xfffffff0u);
    DO(stream_wait_value(a, word(0), 3, GEQ));
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(a));
    store(0, 3);
    finish(a);

    /* From stream to stream, through memory of the device. */
    OK(cuMemsetD32_v2(memory, 0, 4));
    OK(cuCtxSynchronize());
    DO(stream_wait_value(b, memory + 8, 1, GEQ));
    DO(stream_write_value(b, word(2), 1, 0));
    CHECK_EQUAL(load(2), 0);
    DO(stream_write_value(a, memory + 8, 1, 0));
    finish(b);
    finish(a);
    CHECK_EQUAL(load(2), 1);
    DO(mem_free(memory));
}

static void test_events(void)
{
    CUevent event;
    CUdeviceptr memory = alloc_filled(MIB, 1), copy = alloc_filled(MIB, 2);
    DO(event_create(&event, CU_EVENT_DISABLE_TIMING));
    DO(event_query(event));
    DO(stream_wait_event(b, event, 0)); /* never recorded: nothing to wait for */
    finish(b);
    store(0, 0);
    DO(stream_wait_value(a, word(0), 1, GEQ));
    DO(memset_d8_async(memory, 9, MIB, a));
    DO(event_record(event, a));
    DRIVER(CUDA_ERROR_NOT_READY, event_query(event));
    DO(stream_wait_event(b, event, 0));
    DO(event_destroy(event)); /* what waits for it still does */
    DO(memcpy_async(copy, memory, MIB, b));
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(b));
    store(0, 1);
    finish(b);
    CHECK(is_filled(copy, MIB, 9), "a stream did not wait for an event");
    REPORTED(CUDA_ERROR_INVALID_HANDLE, driver.event_query(event));
    DO(event_create(&event, 0));
    DO(event_record(event, a));
    OK(cuEventSynchronize(event));
    DO(event_query(event));
    DO(event_destroy(event));
    DO(mem_free(memory));
    DO(mem_free(copy));
}

static void test_copies(void)
{
    enum { WIDTH = 300, ROWS = 20, PITCH = 512 };
    static unsigned char host[ROWS][PITCH], back[ROWS][PITCH];
    CUdeviceptr memory = alloc_filled(ROWS * PITCH, 0);
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < PITCH; x++)
            host[y][x] = (unsigned char)(y * 7 + x);
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = PITCH,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = memory,
                        .dstPitch = PITCH,
                        .dstXInBytes = 100,
                        .dstY = 3,
                        .WidthInBytes = WIDTH,
                        .Height = ROWS - 3};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .srcPitch = PITCH,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .dstPitch = PITCH,
                          .WidthInBytes = PITCH,
                          .Height = ROWS};
    /* A pageable source is read before the call returns, a pageable target written. */
    store(0, 0);
    DO(stream_wait_value(a, word(0), 1, GEQ));
    if (cuda.fake) {
        DO(memcpy_2d_async(&up, a));
        host[0][0] = 99;
        store(0, 1);
    } else {
        store(0, 1);
        DO(memcpy_2d_async(&up, a));
    }
    DO(memcpy_2d_async(&down, a));
    for (int y = 0; y < ROWS; y++) {
        for (int x = 0; x < PITCH; x++) {
            bool inside = y >= 3 && x >= 100 && x < 100 + WIDTH;
            unsigned char wanted = inside ? (unsigned char)((y - 3) * 7 + x - 100) : 0;
            CHECK(back[y][x] == wanted, "byte %d of row %d is %d, not %d", x, y, back[y][x],
                  wanted);
        }
    }
    up.dstPitch = WIDTH;
    DRIVER(CUDA_ERROR_INVALID_VALUE, memcpy_2d_async(&up, a));
    up.dstPitch = PITCH;
    up.Height = ROWS;
    REPORTED(CUDA_ERROR_INVALID_VALUE, driver.memcpy_2d_async(&up, a)); /* three rows too many */
    DO(memcpy_async(memory, memory, 0, a));
    DO(mem_free(memory));
}

/* The functions without a stream return before the device is done, unless the host has a part. */
static void test_not_synchronous(void)
{
    CUstream blocking;
    CUdeviceptr memory = alloc_filled(MIB, 1), copy = alloc_filled(MIB, 2);
    DO(stream_create(&blocking, 0));
    store(0, 0);
    DO(stream_wait_value(blocking, word(0), 1, GEQ));
    OK(cuMemsetD8_v2(memory, 3, MIB));
    OK(cuMemcpyDtoD_v2(copy, memory, MIB));
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(NULL));
    store(0, 1);
    CHECK(is_filled(copy, MIB, 3), "a copy came before what it copies");
    DO(stream_destroy(blocking));
    DO(mem_free(memory));
    DO(mem_free(copy));
}

static void test_null_stream(void)
{
    CUstream legacy;
    CUdeviceptr memory = alloc_filled(MIB, 1);
    DO(stream_create(&legacy, 0));
    store(0, 0);
    store(1, 0);
    DO(stream_wait_value(legacy, word(0), 1, GEQ));
    DO(stream_write_value(NULL, word(1), 1, 0));
    DO(stream_write_value(a, word(2), 55, 0));
    finish(a); /* does not block, is not blocked */
    usleep(20000);
    CHECK_EQUAL(load(2), 55);
    CHECK_EQUAL(load(1), 0);
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(NULL));
    store(0, 1);
    finish(NULL);
    CHECK_EQUAL(load(1), 1);
    store(0, 0);
    DO(stream_wait_value(NULL, word(0), 1, GEQ));
    DO(stream_write_value(legacy, word(1), 2, 0));
    usleep(20000); /* time to go wrong */
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(legacy));
    CHECK_EQUAL(load(1), 1);
    store(0, 1);
    finish(legacy);
    CHECK_EQUAL(load(1), 2);
    DO(stream_destroy(legacy));
    REPORTED(CUDA_ERROR_INVALID_HANDLE, driver.stream_destroy(legacy));
    DO(mem_free(memory));
}

static void call(void *data)
{
    size_t available, total;
    CUresult result = cuda.driver.mem_get_info(&available, &total);
    __atomic_store_n((int *)data, (int)result, __ATOMIC_RELEASE);
}

static void test_calls(void)
{
    int answer = -1;
    OK(cuLaunchHostFunc(a, call, &answer));
    finish(a);
    if (cuda.fake)
        CHECK_EQUAL(__atomic_load_n(&answer, __ATOMIC_ACQUIRE), CUDA_ERROR_NOT_PERMITTED);
}

static void test_peers(void)
{
    int devices;
    CUcontext other;
    CUdeviceptr here = alloc_filled(MIB, 3), there;
    CUstream foreign;
    DO(device_get_count(&devices));
    if (devices < 2)
        return;
    DO(device_primary_ctx_retain(&other, 1));
    DO(ctx_push_current(other));
    there = alloc_filled(MIB, 4);
    DO(stream_create(&foreign, CU_STREAM_NON_BLOCKING));
    REPORTED(CUDA_ERROR_INVALID_CONTEXT, driver.mem_free(here));
    DO(ctx_pop_current(NULL));
    if (cuda.fake) {
        DRIVER(CUDA_ERROR_INVALID_CONTEXT, memcpy_async(there, here, MIB, a));
        DRIVER(CUDA_ERROR_INVALID_CONTEXT, memset_d8_async(here, 1, 1, foreign));
        DRIVER(CUDA_ERROR_INVALID_CONTEXT, stream_query(foreign));
    }
    DRIVER(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, ctx_enable_peer_access(context, 0));
    DO(ctx_enable_peer_access(other, 0));
    DRIVER(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, ctx_enable_peer_access(other, 0));
    DO(memcpy_async(there, here, MIB, a));
    finish(a);
    DO(ctx_push_current(other));
    CHECK(is_filled(there, MIB, 3), "a peer copy did not arrive");
    DO(stream_destroy(foreign));
    DO(mem_free(there));
    DO(ctx_pop_current(NULL));
    DO(device_primary_ctx_release(1));
    DO(mem_free(here));
}

/* Several threads at once, each with what is its own, and an event of another. */
enum { THREADS = 4, TURNS = 25 };
static CUevent shared_events[THREADS];

static void *use_all(void *argument)
{
    unsigned self = (unsigned)(uintptr_t)argument;
    CUstream stream;
    DO(ctx_push_current(context));
    DO(stream_create(&stream, self % 2 ? CU_STREAM_NON_BLOCKING : 0));
    for (unsigned turn = 1; turn <= TURNS; turn++) {
        CUdeviceptr memory, copy;
        DO(mem_alloc(&memory, 100000));
        DO(mem_alloc(&copy, 100000));
        DO(stream_wait_event(stream, shared_events[(self + 1) % THREADS], 0));
        DO(memset_d8_async(memory, (unsigned char)(self * TURNS + turn), 100000, stream));
        DO(memcpy_async(copy, memory, 100000, stream));
        DO(stream_write_value(stream, word(100 + self), turn, 0));
        DO(event_record(shared_events[self], stream));
        finish(stream);
        CHECK_EQUAL(load(100 + self), turn);
        CHECK(is_filled(copy, 100000, (unsigned char)(self * TURNS + turn)), "another's bytes");
        DO(mem_free(memory));
        DO(mem_free(copy));
    }
    DO(stream_destroy(stream));
    DO(ctx_pop_current(NULL));
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        DO(event_create(&shared_events[i], CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_all, (void *)(uintptr_t)i) == 0, "no thread");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        DO(event_destroy(shared_events[i]));
}

static void wait_until_broken(CUstream stream)
{
    for (int i = 0; i < 60000 && cuda.driver.stream_query(stream) == CUDA_ERROR_NOT_READY; i++)
        usleep(1000);
    DRIVER(700, stream_query(stream));
}

/* The fake's own: work whose memory goes away breaks that context, and no other. */
static void test_freed_in_use(void)
{
    CUcontext doomed;
    CUstream stream;
    CUdeviceptr memory;
    OK(cuCtxCreate_v2(&doomed, 0, 0));
    DO(stream_create(&stream, CU_STREAM_NON_BLOCKING));
    DO(mem_alloc(&memory, MIB));
    store(0, 0);
    DO(stream_wait_value(stream, word(0), 1, GEQ));
    DO(memset_d8_async(memory, 1, MIB, stream));
    unsigned before = reports();
    DRIVER(700, mem_free(memory));
    CHECK_EQUAL(reports(), before + 1);
    store(0, 1);
    wait_until_broken(stream);
    CHECK_EQUAL(reports(), before + 2);
    DRIVER(700, mem_alloc(&memory, MIB));
    DO(ctx_pop_current(NULL));
    finish(a);
    OK(cuCtxDestroy_v2(doomed));
    CHECK_EQUAL(reports(), before + 3); /* its stream was left in it */

    /* A wait whose page is unregistered under it. */
    unsigned *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr address;
    OK(cuCtxCreate_v2(&doomed, 0, 0));
    DO(mem_host_register(page, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    DO(mem_host_get_device_pointer(&address, page, 0));
    DO(stream_wait_value(NULL, address, 1, GEQ));
    usleep(20000);
    before = reports();
    DRIVER(700, mem_host_unregister(page));
    munmap(page, 4096);
    wait_until_broken(NULL);
    CHECK_EQUAL(reports(), before + 2);
    DO(ctx_pop_current(NULL));
    OK(cuCtxDestroy_v2(doomed));
}

static void test_flush(void)
{
    unsigned before = 0, after = 0;
    if (cuda.fake)
        OK(fakeCudaFlushes(&before));
    DO(flush_remote_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                           CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    REFUSED(flush_remote_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 77));
    if (cuda.fake)
        OK(fakeCudaFlushes(&after));
    CHECK_EQUAL(after, before + (cuda.fake ? 1 : 0));
}

/* Copies are late, and so is what comes behind them; all else goes on. */
static void test_hold(bool all)
{
    CUdeviceptr from = alloc_filled(MIB, 3), to = alloc_filled(MIB, 4),
                free_one = alloc_filled(8, 5);
    CUevent event;
    DO(event_create(&event, CU_EVENT_DISABLE_TIMING));
    store(20, 0);
    OK(fakeCudaHold(all ? NULL : a, 1));
    DO(memcpy_dtod_async(to, from, MIB, a));
    DO(stream_write_value(a, word(20), 1, 0));
    DO(event_record(event, a));
    DO(memset_d8_async(free_one, 6, 8, b));
    finish(b);
    usleep(20000);
    DRIVER(CUDA_ERROR_NOT_READY, stream_query(a));
    DRIVER(CUDA_ERROR_NOT_READY, event_query(event));
    CHECK_EQUAL(load(20), 0);
    OK(fakeCudaHold(all ? NULL : a, 0));
    finish(a);
    CHECK_EQUAL(load(20), 1);
    CHECK(is_filled(to, MIB, 3), "what was held is lost");
    DO(event_destroy(event));
    DO(mem_free(from));
    DO(mem_free(to));
    DO(mem_free(free_one));
}

int main(int argc, char **argv)
{
    open_driver();
    DO(init(0));
    DO(device_primary_ctx_retain(&context, 0));
    DO(ctx_push_current(context));
    DO(stream_create(&a, CU_STREAM_NON_BLOCKING));
    DO(stream_create(&b, CU_STREAM_NON_BLOCKING));
    open_words();
    test_words();
    test_flush();
    if (cuda.fake) {
        test_hold(false);
        test_hold(true);
    }
    test_events();
    test_copies();
    test_null_stream();
    test_not_synchronous();
    test_calls();
    test_peers();
    test_threads();
    if (cuda.fake)
        test_freed_in_use();
    SAY("passed, %u reports as wanted", reports());
    /* The process ends with a stream that waits for ever. */
    DO(stream_wait_value(a, word(9), 1, GEQ));
    DO(stream_write_value(a, word(10), 1, 0));
    return 0;
}

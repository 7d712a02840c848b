/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Proves that stream memory operations work on pinned pages. */
#include "device/hip/hip.h"

#include "device/gpu/gpu.h"

#include <sys/mman.h>
#include <unistd.h>

#define PATIENCE (5 * GPUD_SEC)
#define GATE 0   /* the stream waits for this word */
#define DONE 16  /* and then writes this one */
#define TICK 32  /* another stream writes this one meanwhile, */
#define TICKS 16 /* this many times */

static int write_value(const struct gpud_gpu *gpu, void *stream, uint64_t address, uint32_t value)
{
    return gpu->driver->stream_write_value(stream, address, value, 0);
}

/* Waits until the word has the value. */
static bool comes_to(_Atomic uint32_t *word, uint32_t value)
{
    int64_t start = gpud_now();
    while (atomic_load(word) != value && gpud_now() - start < PATIENCE)
        gpud_pause(start);
    return atomic_load(word) == value;
}

/* Another stream runs a series of writes, one after the other. When they are done, the GPU has had
 * the time to do what it would wrongly do meanwhile. */
static bool tick(struct gpud_gpu *gpu, uint64_t address, _Atomic uint32_t *words)
{
    for (uint32_t value = atomic_load(&words[TICK]) + 1, end = value + TICKS; value < end; value++)
        if (write_value(gpu, gpu->service, address + TICK * sizeof(*words), value) ||
            !comes_to(&words[TICK], value))
            return false;
    return true;
}

static const char *try_signals(struct gpud_gpu *gpu, void *stream, uint64_t address,
                               _Atomic uint32_t *words)
{
    if (gpu->driver->wait_value(stream, address + GATE * sizeof(*words), 5))
        return "the runtime refuses to wait for a word in pinned memory (is "
               "GPU_STREAMOPS_CP_WAIT set?)";
    if (write_value(gpu, stream, address + DONE * sizeof(*words), 7))
        return "the runtime refuses to write a word in pinned memory";
    if (!tick(gpu, address, words))
        return "what a stream writes into pinned memory is not seen by the CPU";
    if (atomic_load(&words[DONE]))
        return "a stream does not wait for a word in pinned memory";
    atomic_store(&words[GATE], 4);
    if (!tick(gpu, address, words) || atomic_load(&words[DONE]))
        return "a stream does not wait until a word in pinned memory is great enough";
    atomic_store(&words[GATE], 9);
    return comes_to(&words[DONE], 7) ? NULL
                                     : "a stream does not see what the CPU writes into pinned "
                                       "memory";
}

bool gpud_hip_prove_signals(struct gpud_gpu *gpu, char why[GPUD_REASON_MAX])
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *reason = "a page cannot be pinned: is the limit of locked memory (ulimit -l) low?";
    struct gpud_pinned *pinned = NULL;
    uint64_t address;
    void *stream;
    if (page == MAP_FAILED) {
        gpud_print_n(why, GPUD_REASON_MAX, "%s", reason);
        return false;
    }
    gpu->driver->enter(gpu);
    if (gpud_gpu_pin(gpu, page, size, false, &pinned, &address) == GPUD_OK) {
        reason = "the runtime makes no stream";
        bool idle = true;
        if (gpu->driver->stream_create(&stream, GPUD_GPU_STREAM_NON_BLOCKING) == 0) {
            _Atomic uint32_t *words = page;
            reason = try_signals(gpu, stream, address, words);
            atomic_store(&words[GATE], UINT32_MAX >> 1); /* satisfies any wait */
            int64_t start = gpud_now();
            while (gpu->driver->stream_query(stream) == GPUD_GPU_NOT_READY &&
                   gpud_now() - start < PATIENCE)
                gpud_pause(start);
            idle = gpu->driver->stream_query(stream) != GPUD_GPU_NOT_READY;
            if (idle)
                gpu->driver->stream_destroy(stream);
        }
        if (idle)
            gpud_pins_remove(gpu->driver, pinned);
        else
            page = NULL; /* leaks the stream, its words and the page */
    }
    gpu->driver->leave(gpu);
    if (page)
        munmap(page, size);
    if (reason)
        gpud_print_n(why, GPUD_REASON_MAX, "%s", reason);
    return !reason;
}

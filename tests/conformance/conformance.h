/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the conformance tests share. Each runs as "<test> <device>", says what it does, and ends
 * with 0, with 77 and the reason why the device cannot be tested, or at the first failure with
 * file, line and a sentence. */
#ifndef GPUD_CONFORMANCE_H
#define GPUD_CONFORMANCE_H

#include "base/base.h"
#include "device/device.h"
#include "hold.h"
#include "support/auto.h"

#include <string.h>
#include <sys/types.h>

/* --- saying ----------------------------------------------------------------------------------- */

void say(const char *format, ...) GPUD_PRINTF(1, 2);
_Noreturn void fail_at(const char *file, int line, const char *format, ...) GPUD_PRINTF(3, 4);
_Noreturn void skip(const char *format, ...) GPUD_PRINTF(1, 2);

#define CHECK(condition, ...)                         \
    do {                                              \
        if (!(condition))                             \
            fail_at(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* The call ends as it should; a refusal also carries a sentence. The call's last argument is &e. */
#define EXPECT(wanted, call)                                       \
    do {                                                           \
        struct gpud_error e = {.reason = ""};                      \
        check_status(__FILE__, __LINE__, #call, wanted, call, &e); \
    } while (0)
#define WORKS(call) EXPECT(GPUD_OK, call)

void check_status(const char *file, int line, const char *call, enum gpud_status wanted,
                  enum gpud_status got, const struct gpud_error *error);

/* From here to CHECK_TOOK no less and no more time passes than this. */
#define CHECK_TOOK(since, min_ms, max_ms) check_took(__FILE__, __LINE__, since, min_ms, max_ms)
void check_took(const char *file, int line, int64_t since, int64_t min_ms, int64_t max_ms);

/* --- the device under test -------------------------------------------------------------------- */

/* One side: a context of its own with the device in it. Two of them are as foreign to each other as
 * two objects in one process can be. */
struct side {
    struct gpud_context *context;
    struct gpud_device *device;
    struct gpud_queue *queue;
};

/* Says what the device is, so that a log tells on which part a claim was tested. */
void say_device(const char *device);

/* Exits with 77 if there is no such device. */
struct side side_open(const char *device);
void side_close(struct side *side);

/* What is enqueued is done before the call returns: such a queue cannot be made to stand still. */
static inline bool is_synchronous(const struct side *side)
{
    return side->device->caps & GPUD_CAP_SYNCHRONOUS;
}

/* Its memory has a CPU address all the time. */
static inline bool is_cpu_addressable(const struct side *side)
{
    return side->device->caps & GPUD_CAP_CPU_ADDRESSABLE;
}

/* Where the words of its signals lie: in host pages that both sides see, or in the memory itself.
 */
static inline bool has_page_signals(const struct side *side)
{
    return side->device->caps & GPUD_CAP_PAGE_SIGNALS;
}

static inline bool is_opencl(const struct side *side)
{
    return strcmp(gpud_device_kind(side->device), "opencl") == 0;
}

/* Host pages for words, as the side's device sees them; the handle leads others to the pages. */
struct gpud_memory *words_make(struct side *side, uint64_t size, struct gpud_handle *handle);
struct gpud_memory *words_open(struct side *side, const struct gpud_handle *handle, uint64_t size);

/* --- content ---------------------------------------------------------------------------------- */

/* Byte i of the pattern with this seed. No two seeds below 251 look alike, and no page looks like
 * the next. */
static inline unsigned char pattern(uint64_t i, uint32_t seed)
{
    return (unsigned char)((i % 251 + i / 4096 * 7 + seed) % 251 + 1);
}

void fill(unsigned char *data, uint64_t size, uint32_t seed);
void check_pattern_at(const char *file, int line, const unsigned char *data, uint64_t size,
                      uint32_t seed);
#define CHECK_PATTERN(data, size, seed) check_pattern_at(__FILE__, __LINE__, data, size, seed)

/* CPU access to any memory of the side's device. */
unsigned char *map_whole(struct side *side, struct gpud_memory *memory, unsigned access);
void unmap_whole(struct side *side, struct gpud_memory *memory, unsigned char *data);
void write_pattern(struct side *side, struct gpud_memory *memory, uint32_t seed);
void read_pattern_at(const char *file, int line, struct side *side, struct gpud_memory *memory,
                     uint32_t seed);
#define READ_PATTERN(side, memory, seed) read_pattern_at(__FILE__, __LINE__, side, memory, seed)

/* Writes the pattern by a queue, from host memory that is kept until the queue is finished. */
void send_pattern(struct side *side, struct gpud_memory *memory, uint32_t seed);

/* --- another process -------------------------------------------------------------------------- */

enum peer_task {
    PEER_READS,  /* imports memory for reading and finds the pattern in it */
    PEER_WRITES, /* imports memory for writing and sends the pattern */
    PEER_POSTS,  /* the same, then posts the signal */
};

struct order {
    enum peer_task task;
    struct gpud_handle memory;
    uint64_t size;
    uint64_t word; /* where the signal lies in it */
    uint32_t seed, value;
    uint32_t delay_ms; /* before it sends */
};

/* Starts this program anew; the peer does not share any state but the descriptor in order->memory.
 */
pid_t peer_start(const char *device, const struct order *order);
void peer_finish_at(const char *file, int line, pid_t peer);
#define PEER_FINISH(peer) peer_finish_at(__FILE__, __LINE__, peer)

/* For main(): does what a peer does and exits, if this process was started as one. */
void peer_main(int argc, char **argv);

/* --- leaks ------------------------------------------------------------------------------------ */

struct baseline {
    unsigned fds;
    unsigned shared; /* mappings of shared memory */
};

/* Nothing with GPUD_TEST_NO_LEAKS: tools that live in the process have descriptors of their own. */
struct baseline baseline_take(void);
/* Back to it within 5 s. */
void baseline_check_at(const char *file, int line, struct baseline before);
#define BASELINE_CHECK(before) baseline_check_at(__FILE__, __LINE__, before)

/* All that a test does, of which the second time leaves nothing behind: what a driver keeps for the
 * life of the process it has by then. */
void twice(void (*everything)(const char *device), const char *device);

#endif

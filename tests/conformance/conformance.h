/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the conformance tests share. Each runs as "<test> <device>", says what it does, and ends
 * with 0, with 77 and the reason why the device cannot be tested, or at the first failure with
 * file, line and a sentence. */
#ifndef GPUD_CONFORMANCE_H
#define GPUD_CONFORMANCE_H

#include "base/base.h"
#include "device/device.h"
#include "support/auto.h"
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"

#include <string.h>
#include <unistd.h>

#define PAGE 4096
#define SOON gpud_deadline(10 * GPUD_SEC)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The call ends so, where check.h's EXPECT() also asks for words in the reason. */
#define GIVES(wanted, call) EXPECT(wanted, "", call)

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

static inline bool is_kind(const struct side *side, const char *kind)
{
    return strcmp(gpud_device_kind(side->device), kind) == 0;
}

/* --- queues that are slow on purpose ---------------------------------------------------------- */

/* Code that does not wait for their work always sees the old content. */
struct hold;

/* Makes a queue hold until it is released: what is enqueued from here on is late. By a user event
 * on OpenCL, a timeline on Vulkan, elsewhere by a wait for a word. A synchronous queue cannot be
 * held and gives NULL, which can be released like any. */
struct hold *hold_queue(struct gpud_queue *queue);

/* Whether the device's other queues go on meanwhile; not where the driver has one for all of them.
 */
bool holds_alone(const struct gpud_device *device);

/* broken: what is on the queue fails; OpenCL alone. */
void release_queue(struct hold *hold, bool broken);

/* Makes the copies of all CUDA streams of this process late until it lets them go, also those of
 * queues that a test cannot get at. false: there is no fake driver to do so. */
bool hold_copies(bool hold);

/* How long to look whether something comes that must not come. */
#define LOOK (50 * GPUD_MSEC)

/* The next frame; NULL: none has arrived in time. */
struct gpud_frame *look_for(struct gpud_receiver *receiver);
/* The same, and it shows nothing yet. */
struct gpud_frame *expect_nothing(struct gpud_receiver *receiver);

/* The picture of this number, if there is a slot for it (else −1) that can be written (else 0). */
int try_to_send(struct gpud_sender *sender, const struct gpud_layout *layout, uint64_t number);

/* --- memory ----------------------------------------------------------------------------------- */

#define EXPORT_MEMORY(memory) GIVEN(struct gpud_handle, gpud_memory_export(memory, &given, &e))
#define IMPORT_MEMORY(device, handle, size, usage) \
    GIVEN(struct gpud_memory *, gpud_memory_import(device, handle, size, usage, &given, &e))
/* Of pages that both may use, until `destroy` is called with `user`. */
#define WRAP_HOST(device, data, size, destroy, user) \
    GIVEN(struct gpud_memory *,                      \
          gpud_memory_wrap_host(device, data, size, false, destroy, user, &given, &e))

void close_handle(const struct gpud_handle *handle);

/* The attempt ends so, and leaves neither memory behind nor takes the descriptor. */
#define REFUSE_IMPORT(wanted, device, handle, size, usage)                                \
    do {                                                                                  \
        struct gpud_memory *none_ = NULL;                                                 \
        const struct gpud_handle *handle_ = handle;                                       \
        bool open_ = is_open(handle_->fd);                                                \
        GIVES(wanted, gpud_memory_import(device, handle_, size, usage, &none_, &e));      \
        CHECK(!none_, "a refusal leaves something behind");                               \
        CHECK(is_open(handle_->fd) == open_, "a refusal closes the caller's descriptor"); \
    } while (0)
bool is_open(int fd);

/* Host pages for words, as the side's device sees them; the handle leads others to the pages. */
struct gpud_memory *words_make(struct side *side, uint64_t size, struct gpud_handle *handle);
struct gpud_memory *words_open(struct side *side, const struct gpud_handle *handle, uint64_t size);

/* All of the smaller one, by a queue that is not flushed. */
void copy_whole(struct gpud_queue *queue, struct gpud_memory *to, struct gpud_memory *from);

/* What was given up has been given back by the worker. */
void wait_for_worker(struct gpud_context *context);

/* --- content ---------------------------------------------------------------------------------- */

/* Byte i of the pattern with this seed. No two seeds below 251 look alike, and no page looks like
 * the next. */
static inline unsigned char pattern(uint64_t i, uint32_t seed)
{
    return (unsigned char)((i % 251 + i / 4096 * 7 + seed) % 251 + 1);
}

void fill(unsigned char *data, uint64_t size, uint32_t seed);
/* Bytes that begin so far into the pattern. */
void check_pattern_at(const char *file, int line, const unsigned char *data, uint64_t from,
                      uint64_t size, uint32_t seed);
#define CHECK_PATTERN(data, size, seed) check_pattern_at(__FILE__, __LINE__, data, 0, size, seed)
#define CHECK_PART(data, from, size, seed) \
    check_pattern_at(__FILE__, __LINE__, data, from, size, seed)
#define CHECK_ZEROS(data, size) check_zeros_at(__FILE__, __LINE__, data, size)
void check_zeros_at(const char *file, int line, const unsigned char *data, uint64_t size);

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

enum task {
    READS,  /* imports memory for reading and finds the pattern in it */
    WRITES, /* imports memory for writing and sends the pattern */
    POSTS,  /* the same, then posts the signal */
};

struct order {
    enum task task;
    struct gpud_handle memory;
    uint64_t size;
    uint64_t word; /* where the signal lies in it */
    uint32_t seed, value;
    uint32_t delay_ms; /* before it sends */
    char device[32];   /* set by order_start() */
};

/* Starts this program anew; that process shares no state but the descriptor in order->memory. */
pid_t order_start(const char *device, struct order *order);
void order_finish_at(const char *file, int line, pid_t pid);
#define ORDER_FINISH(pid) order_finish_at(__FILE__, __LINE__, pid)

/* --- all of a test ---------------------------------------------------------------------------- */

/* Descriptors and mappings of shared memory. Nothing with GPUD_TEST_NO_LEAKS: tools that live in
 * the process have descriptors of their own. */
struct leaks {
    unsigned fds, shared;
};
struct leaks leaks_take(void);
/* Back to it within 5 s, and another 5 whenever it gets less. */
void leaks_check_at(const char *file, int line, struct leaks before);
#define LEAKS_CHECK(before) leaks_check_at(__FILE__, __LINE__, before)

/* For main(), first of all: does what an order says and exits, if this process was started for one;
 * else says what the device, the first argument, is. */
void conformance_begin(int argc, char **argv);

/* All that a test does, of which the second time leaves nothing behind: what a driver keeps for the
 * life of the process it has by then. */
void twice(void (*everything)(const char *device), const char *device);

#endif

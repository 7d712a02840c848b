/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the hardware can do at best, by the drivers alone, without the library. */
#ifndef GPUD_TOOLS_CEILINGS_H
#define GPUD_TOOLS_CEILINGS_H

#include <glib.h>
#include <gpudirect/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* === failure ================================================================================= */
/* How a failed measurement ends. */

/* What a caller does with a failure. fail() does not return: measurements run in processes of their
 * own, and the end of the process frees everything. */
struct raw_caller {
    G_NORETURN_FUNCPTR void (*fail)(void *user, enum gpud_status status, const char *reason);
    void *user;
};

G_NORETURN void raw_fail(const struct raw_caller *caller, enum gpud_status status,
                         const char *format, ...) G_GNUC_PRINTF(3, 4);

/* === stats =================================================================================== */
/* Percentiles, jitter and medians. */

/* Microseconds; NAN without samples. */
struct stats_latency {
    double p50, p90, p99, p999, max;
    double jitter; /* the mean difference between successive samples, in the given order */
};

struct stats_latency stats_latency_of(const int64_t *ns, size_t count);

/* Points of a cumulative distribution: every percent, and closer in the last one. */
#define STATS_POINTS 120
struct stats_point {
    double share, us; /* this share of the samples, 0…1, is no longer than so many microseconds */
};

/* The number of points: 0 without samples. */
size_t stats_distribution_of(const int64_t *ns, size_t count,
                             struct stats_point points[STATS_POINTS]);

/* Sorts the values. NAN without any, or if one is NAN. */
double stats_median(double *values, size_t count);

/* === memory ================================================================================== */
/* Copies by the CPU, in one thread. */

/* How many buffers of this size together exceed the processor's caches. */
uint32_t raw_memory_buffers(uint64_t size);

/* memcpy of so many bytes: how often a second. 0: out of memory. */
double raw_memory_copy_rate(uint64_t size);

/* === wake ==================================================================================== */
/* Wakes another process through an eventfd, which answers through a second one. */

/* Descriptors of both sides; -1: none. */
struct raw_wake {
    int ping, pong; /* eventfds */
    int page;       /* a memfd: when the ping was sent */
};

/* false: errno. Close it in either case. */
bool raw_wake_open(struct raw_wake *wake);
void raw_wake_close(struct raw_wake *wake);

/* Wakes the other process so many times, once each `period` ns, after some that are not counted.
 * false: it does not answer within 10 s, or `stopped` returned true. */
bool raw_wake_send(const struct raw_wake *wake, uint32_t count, double period,
                   bool (*stopped)(void));

/* The other process: how long each wake took, ns, `count` of them. It waits without a deadline.
 * false: errno. */
bool raw_wake_answer(const struct raw_wake *wake, uint32_t count, int64_t *latencies);

/* === driver ================================================================================== */
/* The GPU drivers themselves, opened at run time and independent of the library under test: for the
 * ceilings that it is compared with, and for the work that an application puts on its own streams.
 *
 *     vendor.h      the calls of a driver, with the core's declarations
 *     cuda.c hip.c  what differs between the vendors
 *     driver.c      everything else */

typedef uint64_t raw_address; /* in GPU memory, or of pinned memory as GPUs see it */
typedef void *raw_stream;

#define RAW_GPUS_MAX 256
#define RAW_NOT_READY 600 /* raw_stream_query() of a busy stream */

struct raw_driver;
extern struct raw_driver raw_cuda, raw_hip;

/* The driver of a device: "cuda:3" → raw_cuda and 3. NULL: not a device of these drivers. The
 * number may be NULL. */
struct raw_driver *raw_driver_of(const char *device, unsigned *gpu);

/* Loads and initialises the driver; does nothing if it is open. The first call must not race with
 * another. false: the reason. */
bool raw_open(struct raw_driver *driver, char *reason, size_t size);

/* A failed call as text: "memory on the GPU: CUDA_ERROR_OUT_OF_MEMORY (2)". */
void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result);

/* Makes a GPU of an open driver this thread's current one, until raw_leave(), which restores the
 * previous one. All users in the process share the GPU's context, which stays until the end. false:
 * the reason. */
bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size);

void raw_leave(const struct raw_driver *driver);

/* Whether streams of this GPU write words in pinned memory, and wait for them. */
bool raw_has_words(const struct raw_driver *driver, unsigned gpu);

/* The others return 0, or the driver's own error. */

int raw_can_access_peer(const struct raw_driver *driver, int *can, unsigned gpu, unsigned peer);
/* For the current GPU; it may be enabled already. */
int raw_enable_peer(const struct raw_driver *driver, unsigned peer);

int raw_alloc(const struct raw_driver *driver, raw_address *address, size_t size);
int raw_free(const struct raw_driver *driver, raw_address address);
/* Pinned memory, which all GPUs of the vendor can use. */
int raw_host_alloc(const struct raw_driver *driver, void **host, size_t size);
int raw_host_free(const struct raw_driver *driver, void *host);
int raw_host_address(const struct raw_driver *driver, raw_address *address, void *host);

int raw_fill(const struct raw_driver *driver, raw_address address, unsigned char value, size_t size,
             raw_stream stream);
int raw_copy(const struct raw_driver *driver, raw_address to, raw_address from, size_t size,
             raw_stream stream);
int raw_copy_rows(const struct raw_driver *driver, raw_address to, size_t to_pitch,
                  raw_address from, size_t from_pitch, size_t width, size_t rows,
                  raw_stream stream);

/* The stream does not wait for the default stream. */
int raw_stream_create(const struct raw_driver *driver, raw_stream *stream);
int raw_stream_destroy(const struct raw_driver *driver, raw_stream stream);
int raw_stream_query(const struct raw_driver *driver, raw_stream stream);
/* Waits until the word is >= value. */
int raw_wait_value(const struct raw_driver *driver, raw_stream stream, raw_address word,
                   uint32_t value);
int raw_write_value(const struct raw_driver *driver, raw_stream stream, raw_address word,
                    uint32_t value);

/* Waits until the stream is idle, polling without sleep for the first millisecond. false: the
 * deadline (monotonic ns) passed, or the stream failed: then *result is not RAW_NOT_READY. */
bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result);

/* === cuda ==================================================================================== */
/* What only CUDA has: contexts besides the GPU's own, as GStreamer makes them. The driver must be
 * open. */

/* Makes a context current, until raw_leave(&raw_cuda). */
int raw_cuda_push(void *context);

/* === words =================================================================================== */
/* The ceiling of a hand-off that copies nothing: words in shared memory between two processes, one
 * each way for a frame, as many in flight as there are slots. A side sleeps if it finds nothing,
 * and is woken only then. */

/* The shared memory: a descriptor to be closed; -1: errno. */
int raw_words_open(void);

/* Words a second that another process answers; it ends afterwards. 0: it does not answer within 5
 * s, or `stopped` returned true. */
double raw_words_rate(int page, uint32_t slots, bool (*stopped)(void));

/* The other process: answers each word with one, until it is told to end. false: errno. */
bool raw_words_answer(int page);

/* === gpu ===================================================================================== */
/* What a GPU's driver achieves without gpudirect: copies back to back, and words passed from stream
 * to stream. */

#define RAW_TARGETS_MAX 64

struct raw_gpu_job {
    struct raw_driver *driver; /* open */
    bool sends;                /* frames come from GPU `from`; else from the host */
    unsigned from;
    unsigned to[RAW_TARGETS_MAX], targets; /* the receivers' GPUs; none: frames go to the host */
    uint64_t size;                         /* of a frame, bytes */
    bool copies;                           /* also measures copies, not only words */
};

/* 0: not measured. */
struct raw_gpu_figures {
    double copy, peer;       /* frames a second: within the sender's GPU, to the first receiver's */
    double fan_out;          /* to each receiver, with copies to all at once */
    double download, upload; /* to and from pinned memory */
    double marker;  /* us: a word from one GPU's stream to the other's; half of a round trip */
    double words;   /* a second: from one GPU's stream to the other's and back */
    double handoff; /* us: p50 from the CPU's call, through both GPUs' streams, back to the CPU */
};

/* Some memory and streams stay until the process ends. */
void raw_gpu_measure(const struct raw_gpu_job *job, const struct raw_caller *caller,
                     struct raw_gpu_figures *figures);

/* === rdma ==================================================================================== */
/* What a network card achieves without gpudirect: frames written from registered host memory into
 * another process's by plain RDMA WRITEs, as many at once as there are slots, each with a
 * completion of its own. Two processes; a failure of either ends both:
 *
 *     writer                                    target
 *     listens, says on which port
 *        |<-- connects, with address and key of its memory --|
 *        |==== frames ======================================>|
 *        |---- disconnects --------------------------------->|
 *
 * With a pace, each frame ends with a notification (WRITE_WITH_IMM), and the target measures the
 * time from the request of the write to its waking. */

/* Frames written before the counted ones, with a pace. */
#define RAW_RDMA_WARMUP 10

/* Both sides have the same size, slots and pace. */
struct raw_rdma_job {
    const struct sockaddr_storage
        *address;  /* to listen on, at any port; for the target: the writer's */
    uint64_t size; /* of a frame, bytes */
    uint32_t slots;
    uint32_t paced; /* how many frames, one after the other; 0: as many and as fast as possible */
    double period;  /* between these, ns */
    int abandoned;  /* for the target: a descriptor, readable when it has to fail; -1: none */
};

/* Writes the frames, and returns how many. listening: called once, with the caller's `user`. rate:
 * set without a pace, frames a second. */
uint64_t raw_rdma_write(const struct raw_rdma_job *job, const struct raw_caller *caller,
                        void (*listening)(void *user, uint16_t port), double *rate);

/* Lets the writer write until it disconnects; returns how many frames came. latencies: ns, of the
 * counted frames, at most `paced`. */
uint64_t raw_rdma_receive(const struct raw_rdma_job *job, const struct raw_caller *caller,
                          int64_t *latencies);

#endif

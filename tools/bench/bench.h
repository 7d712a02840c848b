/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-bench: a sender and its receivers in processes of their own, and the one that directs
 * them.
 *
 *     director            sender          receivers
 *        |----- JOB ------->|                 |
 *        |<-- LISTENING ----|                 |
 *        |----- JOB --------------------------->|   connects
 *        |<-- READY --------|<--- READY --------|
 *        |----- GO -------->|                 |
 *        |                  |==== frames =====>|   warm-up, then what is measured
 *        |<-- RESULT -------|                 |
 *        |----- STOP -------------------------->|
 *        |<--- RESULT --------------------------|
 *        |----- STOP ------>|  ends           |
 *
 * With --join there is one process more, whose receivers connect and leave one after the other:
 *
 *     director            sender            joiner
 *        |<-- READY --------|                 |   the measured part begins
 *        |----- GO ---------------------------->|
 *        |                  |==== frames =====>|
 *        |<--- RESULT --------------------------|   they have all left
 *        |----- GO -------->|                 |   the sender may end
 *
 *     main.c       which of them this process is
 *     options.c    the command line
 *     session.c    the runs that were asked for; run.c one run, as above; children.c the processes
 *     control.c    the messages
 *     sender.c     the sender's loop; outletcore.c, outletgst.c where its frames go
 *     receivercore.c, receivergst.c   where frames come from; tally.c what is counted
 *     frames.c     how a frame is marked and checked; rows.c, cudamarks.c the same on a GPU
 *     ceiling.c    what the machine can do at best; rawceiling.c what CUDA's driver can
 *     rawcuda.c    that driver; gstcuda.c GStreamer's own memory on it
 *     stats.c, machine.c, text.c, json.c   the report */
#ifndef GPUD_TOOLS_BENCH_H
#define GPUD_TOOLS_BENCH_H

#include <gpudirect/gpudirect.h>

#include <glib.h>

#define BENCH_EXIT_USAGE 2
#define BENCH_EXIT_DAMAGE 3 /* frames were lost or torn */

#define BENCH_STEP (10 * GPUD_SEC) /* the longest that any one step may take without progress */

/* What a child is to do. Goes over the control socket as it is: both ends are the same program. */
struct bench_job {
    char from[32], to[256]; /* to: of several receivers perhaps a list, which is gone round */
    char route[32];         /* "": the best */
    char format[16];
    uint32_t width, height;
    uint32_t fps_num, fps_den; /* the pace; 0/1: as fast as it goes */
    uint32_t frames, warmup;
    uint32_t receivers, slots;
    uint32_t joins; /* receivers that connect, take a few frames and leave while it is measured */
    enum gpud_slow_receiver slow_receiver;
    bool foreign; /* frames come from memory that the sender did not lend */
    bool full;    /* every byte is written and checked, not only the marks */
    uint32_t foreign_buffers;
    char address[128];          /* of the core's link */
    char sink[2048], src[2048]; /* elements instead of the core; "": none */
    char caps[256];
    uint32_t number;      /* of a receiver, from 1 */
    int ping, pong, page; /* descriptors that a child inherited: of the echo; page also, with
                             elements, of the times at which frames were handed over; -1: none */
};

#define BENCH_UNKNOWN (-1)

/* What the CUDA driver reaches by itself. 0: not measured. */
struct bench_raw {
    double copy, peer;       /* frames a second: within the sender's GPU, to the first receiver's */
    double fan_out;          /* to each receiver, when copies to all run at once */
    double download, upload; /* to and from pinned memory */
    double marker;  /* us: a word from one GPU's stream to the other's; half of a round trip */
    double handoff; /* us: p50 from the CPU's call to the CPU's sight of it, by way of both GPUs */
};

/* What a child has measured. Counters are of the measured section, and BENCH_UNKNOWN where nobody
 * counts them. */
struct bench_result {
    char route[32], fallback_reason[GPUD_REASON_MAX];
    uint64_t frames;    /* sent, or received, in the measured section */
    uint64_t all;       /* with the warm-up */
    int64_t start, end; /* monotonic ns of the measured section */
    int64_t cpu_ns;     /* of the process in it */
    int64_t marking_ns; /* of these, what went into marks on a GPU; 0: they are not told apart */
    int64_t copies_cpu, copies_gpu, kicks, waits;
    int64_t waits_device;   /* for a device to finish its work */
    uint64_t lent;          /* sender: frames that lay in the far side's memory from the start */
    int64_t dropped;        /* sender: on purpose, for all receivers, warm-up included */
    uint64_t explained;     /* receiver: frames that were reported to it as dropped */
    uint64_t torn;          /* receiver: damaged, or out of order */
    uint64_t latencies;     /* how many follow, int64_t ns each */
    uint64_t latencies_cpu; /* and how many after them: until the CPU had a GPU's frame */
    uint64_t intervals;     /* and after these, with joins: between one frame and the next */
    uint64_t joined, left;  /* joins: receivers that got a frame; those that got all they wanted */
    uint64_t measured;      /* joins: those of them that left while it was measured */
    uint64_t missing; /* joins: frames that did not come between a receiver's first and last */
    struct bench_raw raw;
};

/* The samples that follow a result. */
static inline uint64_t bench_sample_count(const struct bench_result *result)
{
    return result->latencies + result->latencies_cpu + result->intervals;
}

struct bench_failure {
    enum gpud_status status;
    char reason[512];
};

/* The device of a receiver, from 1. */
const char *bench_device_of(const struct bench_job *job, uint32_t number, char *device,
                            size_t size);

uint64_t bench_frame_bytes(const struct bench_job *job);

/* How long that many frames take at the job's pace, ns. */
int64_t bench_paced_time(const struct bench_job *job, double frames);

static inline bool bench_uses_elements(const struct bench_job *job)
{
    return job->sink[0] != '\0';
}

#endif

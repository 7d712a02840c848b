/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-bench: a sender and receivers, each in a process of its own, and the coordinator that
 * starts them, tells them when to begin and collects what they measured.
 *
 *     coordinator            sender          receivers
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
 * With --join one more process has receivers that connect and leave one after the other:
 *
 *     coordinator            sender            joiner
 *        |<-- READY --------|                 |   the measured part begins
 *        |----- GO ---------------------------->|
 *        |                  |==== frames =====>|
 *        |<--- RESULT --------------------------|   they have all left
 *        |----- GO -------->|                 |   the sender may end
 *
 * With --idle the sender stops before its end: READY, nothing for so long, GO.
 *
 *     main.c       the role of this process, and the runs that were asked for
 *     options.c    the command line; descriptions.c of elements; help.c what --help says
 *     run.c        one run, as above; children.c its processes; control.c the messages
 *     sender.c     the sender's loop; outputcore.c, outputgst.c: what it sends through
 *     receivercore.c, receivergst.c   the receivers; counters.c what they count
 *     idle.c       what they cost without frames
 *     hosts.c      two benches on two hosts; remotes.c the sending one's part, receive.c the
 *                  receiving one's; network.c the address
 *     frames.c     how a frame is marked and checked; rows.c, gpumarks.c the same on a GPU;
 *                  gstcuda.c in GStreamer's CUDA memory
 *     submittimes.c   when frames were submitted, where neither the frame nor the core says
 *     capture.c    a card's frames, without a link; pictureclock.c reads the time in pictures,
 *                  capturereport.c prints it
 *     ceiling.c    what the machine can do at best, ceilingrdma.c a network card; ceilingroles.c
 *                  the processes that measure it, by ../ceilings
 *     channels.c   --channels: many of them, in two processes or in two each
 *     moves.c      --migrate: two OpenCL devices in one process
 *     failover.c   --failover: the main of two senders is killed
 *     lines.c      --lines: pictures that are handed over while they are written
 *     publish.c    --report: starts ../report, which runs all of this and draws it
 *     stripes.c    parts of such a picture
 *     start.c      --start: gst-launch-1.0 until the first picture
 *     figures.c    the figures of a run; report.c, reporttext.c, reportjson.c the report */
#ifndef GPUD_TOOLS_BENCH_H
#define GPUD_TOOLS_BENCH_H

#include "ceilings/gpu.h"
#include "ceilings/opencl.h"

#include <gpudirect/gpudirect.h>

#include <glib.h>

#define BENCH_CHANNELS_MAX 1024

#define BENCH_EXIT_USAGE 2
#define BENCH_EXIT_DAMAGE 3 /* frames were lost or torn */

/* The longest that one step may take without progress. */
#define BENCH_STEP_TIMEOUT (10 * GPUD_SEC)

/* What a child process does. Sent as raw bytes: both ends are the same program. */
struct bench_job {
    char from[32], to[256]; /* to: may be a list, which is dealt out to the receivers in turn */
    char route[32];         /* "": the best */
    char format[16];
    uint32_t width, height;
    uint32_t fps_num, fps_den; /* 0/1: as fast as the receivers allow */
    uint32_t frames, warmup;
    uint32_t receivers, slots;
    uint32_t lines; /* stripes in which a picture is written; 0: as a whole */
    uint32_t joins; /* receivers that connect, take a few frames and leave while it measures */
    enum gpud_slow_receiver slow_receiver;
    bool
        foreign; /* frames lie in the application's own memory, not in slots that the sender lent */
    bool failover_standby; /* --failover standby, not group */
    bool distribution;     /* the report has that of latencies */
    bool full;             /* every byte is written and checked, not only the marks */
    uint32_t foreign_buffers;
    char network[256]; /* the address if frames go over a network; else "" */
    char psk_file[256];
    bool allow_unauthenticated;
    bool remote;                /* other benches start sender and receivers: hosts.h */
    char address[256];          /* where the core's receivers connect */
    char sink[2048], src[2048]; /* GStreamer elements instead of the core; "": none */
    char caps[256];
    uint16_t raw_port; /* where the raw writer listens */
    int64_t idle;      /* ns without frames after the last one; 0: none */
    int64_t patience;  /* longest wait for starting, for connecting, and for other hosts */
    uint32_t number;   /* of a receiver, from 1; of the first channel, from 0 */
    uint32_t channels; /* --channels: of one process */
    /* Inherited descriptors; -1: none. ping and pong wake the echo process and its caller. page is
     * shared memory: the echo's, or the submit times of frames. */
    int ping, pong, page;
};

/* In the directory of a run. */
#define BENCH_KEY_FILE "key"

#define BENCH_UNKNOWN (-1)

/* Two OpenCL devices in one process. */
struct bench_moves {
    struct raw_opencl_figures raw;
    double migrate, staged; /* frames a second, by these routes */
};

/* Of pictures that are written in stripes; microseconds. */
struct bench_line_figures {
    double first;          /* p50, from the first stripe written to the same one read */
    double last, last_p99; /* from the last stripe written to all of them read */
};

/* --channels: what a process with many has. */
struct bench_channels {
    unsigned threads, descriptors;
    uint64_t kilobytes;  /* of its own memory, without frames */
    uint64_t wakes;      /* of its threads in a second without frames */
    uint64_t late, lost; /* frames that could not be sent in time; that are missing */
};

/* What a child has measured. Counters cover the measured section; BENCH_UNKNOWN if elements do not
 * report them. */
struct bench_result {
    char route[32], fallback_reason[GPUD_REASON_MAX];
    uint64_t frames;    /* sent, or received, in the measured section */
    uint64_t all;       /* including the warm-up */
    int64_t start, end; /* monotonic ns of the measured section */
    int64_t cpu_ns;     /* CPU time of the process in it */
    int64_t marking_ns; /* the part of cpu_ns for marking on a GPU; 0: not known separately */
    int64_t copies_cpu, copies_gpu, kicks, waits;
    int64_t waits_device;    /* for a device to finish its work */
    uint64_t lent;           /* sender: frames that were written straight into a slot */
    int64_t dropped;         /* sender: by policy, for all receivers, including the warm-up */
    uint64_t reported_drops; /* receiver: frames that the sender reported as dropped */
    uint64_t torn;           /* receiver: damaged, or out of order */
    uint64_t latencies;      /* number of samples after the result, int64_t ns each */
    uint64_t latencies_cpu;  /* number of the next: until the CPU had a frame that a GPU reads */
    uint64_t intervals;      /* number of the next, with joins: from one frame to the next */
    uint64_t joined, left;   /* joins: receivers that got a frame; that got all they wanted */
    uint64_t measured;       /* joins: those that left during the measured section */
    uint64_t missing;        /* joins: frames missing between a receiver's first and last */
    struct raw_gpu_figures raw;
    double raw_write;         /* frames a second by plain RDMA writes; 0: not measured */
    struct bench_moves moves; /* --migrate */
    /* --lines: by a link and by a target; whole and by lines; a fast reader and a slow one. */
    struct bench_line_figures lines[2][2][2];
    struct bench_channels channels;
};

/* The number of samples after a result. */
static inline uint64_t bench_sample_count(const struct bench_result *result)
{
    return result->latencies + result->latencies_cpu + result->intervals;
}

struct bench_failure {
    enum gpud_status status;
    char reason[512];
};

/* The device of receiver `number`, from 1. */
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

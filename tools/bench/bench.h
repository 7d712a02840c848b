/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
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
 *     main.c         the role of this process, and the runs that were asked for
 *     options.c      the command line, and what --help says
 *     run.c          one run, as above; its processes, and the messages
 *     sender.c       the sender's loop, and what it sends through: the core or a GStreamer sink
 *     receiver.c     the receivers, of the core and of GStreamer; their counts and idle costs
 *     remote.c       two benches on two hosts
 *     frames.c       how a frame is marked and checked; rows.c, gpumarks.c the same on a GPU
 *     submittimes.c  when frames were submitted, where neither the frame nor the core says
 *     capture.c      a card's frames, without a link; the time in pictures
 *     ceiling.c      what the machine can do at best, by ../ceilings, in processes of its own
 *     channels.c     --channels: many of them, in two processes or in two each
 *     failover.c     --failover: the main of two senders is killed
 *     lines.c        --lines: pictures that are handed over while they are written
 *     start.c        --start: gst-launch-1.0 until the first picture
 *     report.c       the figures of a run, as text and as JSON */
/* clang-format on */
#ifndef GPUD_TOOLS_BENCH_H
#define GPUD_TOOLS_BENCH_H

#include "ceilings/ceilings.h"
#include "clock.h"
#include <glib.h>
#include <gpudirect/gpudirect.h>
#include <gpudirect/layout.h>
#include <gst/gst.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* === bench ==================================================================================== */

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
    bool remote;                /* other benches start sender and receivers: remote.c */
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
    double raw_write; /* frames a second by plain RDMA writes; 0: not measured */
    /* --lines: by a link and by a target; whole and by lines; a fast reader and a slow one. */
    struct bench_line_figures lines[2][2][2];
    struct bench_channels channels;
};

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

/* === output ================================================================================== */
/* What the sender sends through: the core's API, or a GStreamer sink. For child processes: failures
 * end the process. */

struct bench_output_ops {
    /* Receivers can connect after it. */
    void *(*open)(const struct bench_job *job, int control);
    /* Returns when all receivers are connected and the coordinator has sent GO. */
    void (*wait)(void *output);
    /* The memory of the next frame, and its size. NULL: GPU memory, which only mark can write. */
    void *(*acquire)(void *output, uint64_t *size);
    /* Marks a frame in GPU memory by work on a stream, before the receiver's access. */
    void (*mark)(void *output, uint64_t index);
    /* Submits the frame. */
    void (*send)(void *output);
    /* Ends the stream. */
    void (*end)(void *output);
    /* Fills in the route and the counters so far, but not frames, times and CPU time. */
    void (*count)(void *output, struct bench_result *result);
    void (*close)(void *output);
};

extern const struct bench_output_ops bench_output_core, bench_output_gst;

/* === roles =================================================================================== */
/* What a child process runs in each role. Each returns when its work is done; failures are reported
 * on the control socket and end the process. */

void bench_run_sender(int control);
void bench_run_receiver_core(int control, const struct bench_job *job);
void bench_run_receiver_gst(int control, const struct bench_job *job);

/* Receivers that connect, take a few frames and leave. */
void bench_run_joiner(int control);

/* One side of many channels. */
void bench_run_channel_senders(int control);
void bench_run_channel_receivers(int control);

/* The process that is woken for the ceiling of latency. */
void bench_run_echo(int control);

/* The process that answers words in shared memory. */
void bench_run_words(int control);

/* A GPU's driver without gpudirect. */
void bench_run_raw(int control);

/* A writer and a reader of pictures that are handed over while they are written. */
void bench_run_lines(int control);

/* A main or backup sender, and their receiver. */
void bench_run_failover_sender(int control);
void bench_run_failover_receiver(int control);

/* A network card without gpudirect: the writer, and the target. */
void bench_run_raw_writer(int control);
void bench_run_raw_target(int control);

/* === control ================================================================================= */
/* Messages between the coordinator and a child, over a stream socket. */

enum bench_message {
    BENCH_JOB = 1,
    BENCH_LISTENING, /* a port, or nothing */
    BENCH_READY,
    BENCH_GO,
    BENCH_STOP,
    BENCH_RESULT, /* struct bench_result, then its samples */
    BENCH_FAILED, /* struct bench_failure */
    /* Between two hosts: remote.c. */
    BENCH_HELLO,
    BENCH_ORDER,
    BENCH_IDLE, /* to a receiving bench: nothing; the answer: a double, % of one CPU */
    BENCH_RAW,  /* a port */
    BENCH_SUMMARY,
};

struct bench_packet {
    enum bench_message type;
    size_t size;
    void *data; /* to be freed with g_free() */
};

/* false: the other end is gone, or did not read in time. */
bool bench_send(int fd, enum bench_message type, const void *data, size_t size);
bool bench_send_result(int fd, const struct bench_result *result, const int64_t *latencies);

enum bench_receipt { BENCH_RECEIVED, BENCH_GONE, BENCH_TIMED_OUT };
/* max: largest message in bytes; a longer one counts as the end (BENCH_GONE). */
#define BENCH_MESSAGE_MAX (UINT64_C(1) << 28)
enum bench_receipt bench_receive(int fd, int64_t deadline, uint64_t max,
                                 struct bench_packet *packet);

/* Fills in a failure and returns false. */
bool bench_fail(struct bench_failure *failure, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* Cleans text from another host: terminates it, and removes a terminal's control characters. */
void bench_clean_text(char *text, size_t size);
void bench_clean_result(struct bench_result *result);

/* --- in a child ------------------------------------------------------------------------------- */

/* Reports the reason to the coordinator and ends the process, whose resources the system frees. */
G_NORETURN void bench_child_fail(int fd, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* The same for a measurement without gpudirect: its `user` is the control socket. */
struct raw_caller bench_child_caller(const int *fd);

/* Receives the next message, which must be of this type. Ends the process if the coordinator is
 * gone, or silent until the deadline. */
void bench_child_expect(int fd, enum bench_message type, int64_t deadline, void *data, size_t size);

/* Whether this message has come; does not wait. */
bool bench_child_received(int fd, enum bench_message type);

/* === children ================================================================================ */
/* The processes of a run: this program, started again in other roles. They end with the
 * coordinator. */

struct bench_child {
    const char *role;     /* as in main.c */
    uint32_t number;      /* of a receiver, from 1; else 0 */
    const char *host;     /* another host, which is not trusted; NULL: this one */
    uint64_t message_max; /* largest message from it; 0: the default */
    pid_t pid;            /* -1: no process here */
    int fd;
    bool ready, finished; /* sent READY or LISTENING; sent its result */
    uint16_t port;        /* where it listens, if it sent one */
    bool idle_known;      /* on another host: it was reported */
    double idle_percent;  /* of one CPU, without frames; NAN: unknown */
    int64_t cpu_time;     /* when that measurement began */
    struct bench_result result;
    int64_t *latencies;
};

/* The processes of a run. */
struct bench_processes {
    struct bench_child
        child[1 + GPUD_RECEIVERS_MAX]; /* the sender, the receivers, the joiner if any */
    size_t count;
    size_t receivers;
};

/* inherited: descriptors that stay open in the child. */
bool bench_child_start(struct bench_child *child, const char *role, uint32_t number,
                       const int *inherited, size_t inherited_count, struct bench_failure *failure);

/* From now on every child gets a PID namespace of its own, as in containers. */
void bench_children_isolate(void);

/* Waits until it ends, and kills it at the deadline. false: it was killed. */
bool bench_child_stop(struct bench_child *child, int64_t deadline);

/* true: one of them was killed or crashed, which explains all other failures; *failure describes
 * it. Waits briefly, because a death may be noticed after its consequences. */
bool bench_children_find_death(struct bench_child *children, size_t count,
                               struct bench_failure *failure);

/* Handles the messages of all children until `done` returns true. false: a failure, a signal to
 * this process, or the deadline. */
bool bench_children_wait(struct bench_child *children, size_t count, int64_t deadline,
                         bool (*done)(struct bench_child *children, size_t count), const char *what,
                         struct bench_failure *failure);

/* Handles one message. false: a failure, or not a valid message. */
bool bench_child_handle(struct bench_child *child, struct bench_packet *packet,
                        struct bench_failure *failure);

/* A run of one process: from its start to its result, in `timeout` ns. */
bool bench_child_run(const struct bench_job *job, const char *role, int64_t timeout,
                     const char *what, struct bench_result *result, struct bench_failure *failure);

/* SIGINT, SIGTERM and SIGHUP end the run instead of this process, so that it cleans up first. */
void bench_catch_signals(void);
int bench_caught_signal(void); /* 0: none */

/* This process's role, and its control socket; NULL in the coordinator. */
const char *bench_role(int argc, char **argv, int *fd);

/* === options ================================================================================= */
/* The command line. */

/* Limits, also for a bench on another host. */
#define BENCH_FRAMES_MIN 2
#define BENCH_FRAMES_MAX 10000000
#define BENCH_FRAME_MAX (UINT64_C(1) << 30) /* bytes */
#define BENCH_WARMUP_MAX 1000000
#define BENCH_RUNS_MAX 1000
#define BENCH_RATE_MIN 0.1
#define BENCH_RATE_MAX 1e5
#define BENCH_IDLE_MAX 3600 /* s */
#define BENCH_ROWS_UNFIT \
    "--width %u --height %u: too small to be marked by a GPU: 4 lines of 16 bytes are needed"

#define BENCH_CHANNEL_ROWS 16 /* numbers of channels in one command */

struct bench_options {
    struct bench_job ours;
    struct bench_job peer; /* with --compare */
    bool compare;
    bool capture;      /* no link: `ours` says what a card captures, and has its address */
    bool receive;      /* `ours` is the receiver's part of a job that the sending bench completes */
    char report[4096]; /* --report: a folder; "": none */
    bool quick, draw;  /* --quick and --draw, with it */
    bool failover;     /* --failover */
    uint32_t channels[BENCH_CHANNEL_ROWS]; /* --channels */
    uint32_t channel_rows;                 /* 0: not given */
    bool apart;                            /* each channel in two processes of its own */
    bool start;                            /* --start: `ours` says where, and what pictures */
    uint32_t runs;
    bool json;
    bool isolated;   /* each process in a PID namespace of its own */
    int64_t timeout; /* of one run */
};

/* false: nothing to run; *status is the exit status, and the reason was printed. */
bool bench_options_parse(int argc, char **argv, struct bench_options *options, int *status);

/* === rows ==================================================================================== */
/* The marks of a frame that a GPU writes or reads by copies alone: 16 bytes at the start of four
 * rows of the first plane, from the first row to about the last, so that one strided copy covers
 * all. They hold the frame's index, and show whether its beginning, middle and end belong to one
 * frame.
 *
 * Some frames of a run, or all with --verify full, are also filled with a byte that depends on the
 * index, and every byte is checked. */

#define BENCH_ROWS 4
#define BENCH_ROW 16
#define BENCH_ROWS_SIZE (BENCH_ROWS * BENCH_ROW)
#define BENCH_WHOLE_FRAMES 8 /* of the measured section: this many are checked to the last byte */

/* Whether the GPU itself works on frames on this device of the job. Elements support CUDA's memory
 * only. */
bool bench_works_on_gpu(const struct bench_job *job, const char *device);

/* The same for any receiver's device. */
bool bench_reads_on_gpu(const struct bench_job *job);

/* Whether frames of this job are marked this way: a GPU at one end writes or reads them. */
bool bench_uses_rows(const struct bench_job *job);

/* false: the frame is too small for the marks. */
bool bench_rows_fit(const struct gpud_layout *layout);

/* Bytes from one mark to the next. The first is at the plane's offset. */
uint64_t bench_rows_pitch(const struct gpud_layout *layout);

/* The marks of a frame, one after the other. */
void bench_rows_make(void *rows, uint64_t index);

/* false: not the marks of one frame. *index is that of the first. */
bool bench_rows_check(const void *rows, uint64_t *index);

/* Whether this frame is filled, and checked to the last byte. */
bool bench_rows_is_whole(const struct bench_job *job, uint64_t index);
uint8_t bench_rows_filler(uint64_t index);

/* Marks and checks by the CPU, filled frames in full. */
void bench_rows_mark(void *frame, const struct gpud_layout *layout, const struct bench_job *job,
                     uint64_t index);
bool bench_rows_check_frame(const void *frame, const struct gpud_layout *layout,
                            const struct bench_job *job, uint64_t *index);

/* Checks only the marks. */
bool bench_rows_check_marks(const void *frame, const struct gpud_layout *layout, uint64_t *index);

/* Checks every byte of the picture. */
bool bench_rows_check_whole(const void *frame, const struct gpud_layout *layout, uint64_t index);

/* === counters ================================================================================ */
/* What a receiver counts for each frame, through the core and through elements alike. */

struct bench_counters {
    const struct bench_job *job;
    uint64_t first; /* index of the first frame; 0: none yet */
    uint64_t last;  /* index of the previous frame */
    bool started;   /* the measured section has begun */
    bool complete;  /* the last frame came */
    int64_t cpu_start;
    int64_t *latencies;
    int64_t *latencies_cpu;
    int64_t *intervals; /* between frames, with --join; else NULL */
    int64_t arrived;    /* when the previous frame came */
    int64_t probe_ns;   /* spent polling the GPU, which does not count as CPU time of receiving */
    int64_t marking_ns; /* spent reading marks from the GPU */
    int64_t probe_start, marking_start;
    const int64_t *times;      /* the submit times of submittimes.h; NULL: none */
    struct gpud_layout layout; /* where rows.h marks frames */
    struct bench_result result;
    void (*on_start)(void *user); /* called when the measured section begins; may be NULL */
    void *user;
};

/* Times of one frame, monotonic ns. */
struct bench_frame_times {
    int64_t submitted; /* 0: unknown */
    int64_t acquired;  /* by the CPU, before the GPU could read it; 0: same as seen */
    int64_t seen;      /* when its reader, CPU or GPU, could read it; 0: unknown */
    int64_t counted;   /* the basis of throughput */
};

/* Counts a frame. whole: all its marks are of the frame `index`. reported_drops: frames that the
 * sender has reported as dropped so far. */
void bench_counters_add(struct bench_counters *counters, bool whole, uint64_t index,
                        const struct bench_frame_times *times, uint64_t reported_drops);

/* Subtracts the earlier counters, which leaves those of the section in between. */
void bench_result_subtract(struct bench_result *now, const struct bench_result *before);

/* === gpumarks ================================================================================ */
/* Writes and reads marks of frames in GPU memory by work on a stream, as an application would do:
 * the CPU does not wait. Used for the core and for elements, in child processes: failures end the
 * process. */

/* --- writing ---------------------------------------------------------------------------------- */

struct bench_mark_writer;

/* The driver must be open. This applies to both directions. */
struct bench_mark_writer *bench_mark_writer_create(const struct raw_driver *driver,
                                                   const struct bench_job *job, int control);
void bench_mark_writer_destroy(struct bench_mark_writer *writer);

/* Waits until the marks are written, for a receiver that does not order its work after this
 * stream. */
void bench_mark_writer_finish(struct bench_mark_writer *writer, raw_stream stream);

/* Enqueues the marks of the frame at `address`. The stream's GPU must be current. */
void bench_mark_writer_mark(struct bench_mark_writer *writer, raw_stream stream,
                            raw_address address, const struct gpud_layout *layout, uint64_t index);

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads marks in the order of frames: they are copied into pinned memory on the stream, and checked
 * once they are there, when later frames come or at the end. */
struct bench_mark_reader;

/* gpu: where frames are. whole: frames are also checked to the last byte, as bench_rows_is_whole()
 * decides. */
struct bench_mark_reader *bench_mark_reader_create(const struct raw_driver *driver, unsigned gpu,
                                                   const struct bench_job *job, int control,
                                                   struct bench_counters *counters, bool whole);
void bench_mark_reader_destroy(struct bench_mark_reader *reader);

/* Enqueues the copy of a frame's marks. acquired: when the CPU had the frame; submitted: 0:
 * unknown. With --fps it also polls until the GPU has finished earlier work on the stream, which
 * gives the latency as seen by the GPU. */
void bench_mark_reader_add(struct bench_mark_reader *reader, raw_stream stream, raw_address address,
                           const struct gpud_layout *layout, int64_t acquired, int64_t submitted,
                           uint64_t reported_drops);

/* Polls until the marks of at most `most` frames are pending; returns how many are. */
size_t bench_mark_reader_wait(struct bench_mark_reader *reader, size_t most);

/* Waits for all pending marks, and finishes checking to the last byte. */
void bench_mark_reader_finish(struct bench_mark_reader *reader);

/* === gstcuda ================================================================================= */
/* GStreamer's CUDA memory. libgstcuda is opened at run time, because its functions differ between
 * GStreamer's series. For child processes: failures end the process. */

struct bench_gpu_map {
    GstMapInfo info;
    raw_address address;
    raw_stream stream;         /* on which elements order their work on this memory */
    bool ordered;              /* all users of the memory order their work after that stream */
    struct gpud_layout layout; /* of the picture in the memory */
};

/* Opens the library, or ends the process with the reason. */
void bench_gst_cuda_open(int control);

/* A pool of CUDA memory on a GPU. */
GstBufferPool *bench_gst_cuda_pool(int control, unsigned ordinal);

bool bench_gst_cuda_is(GstBuffer *buffer);

/* Maps a buffer of CUDA memory for the GPU and makes its context current, until unmapped. */
bool bench_gst_cuda_map(const struct bench_job *job, GstBuffer *buffer, GstMapFlags flags,
                        struct bench_gpu_map *map);
void bench_gst_cuda_unmap(GstBuffer *buffer, struct bench_gpu_map *map);

/* Makes the context of the last mapped buffer current. false: none was mapped. */
bool bench_gst_cuda_enter(void);
void bench_gst_cuda_leave(void);

/* === frames ================================================================================== */
/* The marks of a frame, which tell its receiver which frame it is and whether it is whole.
 *
 *     | head: magic, index, size, hash, time | … 8 blocks of 256 bytes … | tail |
 *
 * Everything except hash and time depends on the index. Marking and checking takes about a
 * microsecond for any size of frame; in full, every byte is written and hashed. */

#define BENCH_FRAME_MIN 256

void bench_frame_mark(void *data, uint64_t size, uint64_t index, bool full);

/* Sets the time of submitting. It comes last, because marking takes time. */
void bench_frame_set_time(void *data, int64_t time);

/* false: torn, or not a marked frame. *index and *time are the head's even then. */
bool bench_frame_check(const void *data, uint64_t size, bool full, uint64_t *index, int64_t *time);

/* === submittimes ============================================================================= */
/* When frames were submitted, in memory that the sender shares with its receivers: for frames that
 * a GPU marks, which cannot carry the time, and for elements, which do not report it. */

/* More than the frames that can be in flight; a frame's time is at index % BENCH_SUBMIT_TIMES. */
#define BENCH_SUBMIT_TIMES 4096

/* A descriptor; -1: out of memory. */
int bench_submit_times_create(void);

/* Maps job->page until the process ends; NULL: it has none. */
int64_t *bench_submit_times_map(const struct bench_job *job, bool writable);

/* === descriptions ============================================================================ */
/* The descriptions of the elements that frames go through. */

/* The caps of a job. */
void bench_describe_caps(struct bench_job *job);

/* The same for gpudirectsink and gpudirectsrc. */
bool bench_describe_ours(struct bench_job *job);

/* === elements ================================================================================ */
/* What sender and receiver share if they are made of GStreamer elements. */

/* A pipeline of the described elements, linked to `ours`. */
GstElement *bench_elements_parse(int control, const char *description, GstPad *ours);

/* Ends the process with the pipeline's error message, or with `otherwise`. */
G_NORETURN void bench_elements_fail(int control, GstElement *pipeline, const char *otherwise);

/* Ends the process, but lets the elements remove their files first. pool may be NULL. */
G_NORETURN void bench_elements_quit(GstElement *pipeline, GstBufferPool *pool);

/* Route and counters, if an element has them ("active-path", "stats"). */
void bench_elements_count(GstElement *pipeline, struct bench_result *result);

/* === idle ==================================================================================== */
/* What a connected sender and its receivers cost while no frames are sent. */

/* Sets idle_percent of these children, measured for so many ns; unchanged for one that has
 * ended. */
void bench_idle_measure(struct bench_child *children, size_t count, int64_t duration);

/* === network ================================================================================= */
/* Network addresses, rdma://host:port/name, for connections of the bench besides the library's
 * links. */

bool bench_is_network(const char *text);

/* The port that the benches of two hosts use with each other: the one after the address's. 0: there
 * is none. */
uint16_t bench_network_control_port(const char *address);

/* Resolves the address's host, with another port. */
bool bench_network_resolve(const char *address, uint16_t port, struct sockaddr_storage *found,
                           struct bench_failure *failure);

/* === hosts =================================================================================== */
/* Two benches on two hosts. They use TCP, on the port after the link's, and the messages of one
 * bench's processes. The sending one listens, like its sender; the receiving one stands for a
 * receiver's process.
 *
 *     --to rdma://A:7174 --remote            --receive rdma://A:7174
 *        |<-------------- HELLO -------------->|   on connecting
 *        |--------------- ORDER -------------->|   for each run; its receiver starts
 *        |   READY, IDLE, STOP, RESULT, as on one host
 *        |--------------- RAW ---------------->|   its raw target starts
 *        |<-------------- RESULT --------------|
 *        |--------------- SUMMARY ------------>|   both print the whole report
 *
 * FAILED in either direction ends both, and so does a lost connection. Everything from the other
 * side is checked here. Numbers have the machine's byte order; hosts with another one are
 * refused. */

struct bench_summary {
    struct bench_result sender;
    double idle_percent; /* of the sender */
    double write;        /* the ceiling, frames a second; 0: not measured */
};

/* === remotes ================================================================================= */
/* The receiving benches on other hosts, for the sending one. */

struct bench_remotes {
    int listener;
    uint32_t runs; /* the number of all runs */
    uint32_t count;
    struct bench_remote {
        int fd;
        char host[64], device[32];
    } remote[GPUD_RECEIVERS_MAX];
};

void bench_remotes_init(struct bench_remotes *remotes, uint32_t runs);

/* Waits until there is one for each receiver of the job, and sets the job's `to`. They stay for all
 * runs. false also if the sender fails meanwhile. */
bool bench_remotes_gather(struct bench_remotes *remotes, struct bench_job *job,
                          struct bench_child *sender, int64_t deadline,
                          struct bench_failure *failure);

/* Has them start their receivers: each is a child now, with a connection instead of a process. */
void bench_remotes_start(struct bench_remotes *remotes, const struct bench_job *job,
                         struct bench_processes *processes);

/* The run succeeded: forgets the children, keeps the connections. */
void bench_remotes_release(struct bench_processes *processes);

/* Only the first one has work: its child is the raw target. */
void bench_remotes_start_target(struct bench_remotes *remotes, const struct bench_job *job,
                                struct bench_child *target);

void bench_remotes_sum_up(struct bench_remotes *remotes, const struct bench_summary *summary);

/* failure: what to tell them; NULL: success. */
void bench_remotes_close(struct bench_remotes *remotes, const struct bench_failure *failure);

/* === receive ================================================================================= */
/* The receiving one of two benches on two hosts (--receive). */

/* Waits for the sending bench, runs what it asks for, and reports. Returns the exit status. */
int bench_receive_all(const struct bench_options *options);

/* === ceiling ================================================================================= */
/* What this machine can do at best, measured in the same run as the library. */

struct bench_ceiling {
    const char *key, *what;
    double value; /* frames per second, or the median in µs */
    const char *unit;
    double p99; /* of waking, µs; else NAN */
};

#define BENCH_CEILINGS_MAX 10

/* All ceilings of a job. */
struct bench_ceilings {
    struct bench_ceiling ceiling[BENCH_CEILINGS_MAX];
    unsigned count;
    unsigned main; /* the one for the report's ratio */
};

/* Makes the ceiling with this key the main one, if it is there. */
void bench_ceilings_choose(struct bench_ceilings *list, const char *key);

struct bench_remotes;
bool bench_ceilings_measure(const struct bench_job *job, struct bench_remotes *remotes,
                            struct bench_ceilings *ceilings, struct bench_failure *failure);

/* The ceiling of a run that the bench on another host measured, in frames a second. */
void bench_ceilings_set_rdma(const struct bench_job *job, double write,
                             struct bench_ceilings *ceilings);

/* === ceilingrdma ============================================================================= */
/* The ceiling over a network card: plain RDMA writes of the same frame over the card of the job's
 * network. */

struct bench_remotes;

/* === figures ================================================================================= */
/* Turns what the processes of a run have measured into the figures of its report. */

/* One receiver of a run. */
struct bench_receiver_run {
    uint64_t frames, missing, dropped,
        torn; /* dropped: as the sender reported; included in missing */
    double fps, cpu_us;
    struct stats_latency latency, latency_cpu;
};

/* Doubles are NAN where unknown. */
struct bench_run {
    char route[64], fallback_reason[GPUD_REASON_MAX];
    double fps;
    uint64_t frames;              /* sent, in the measured section */
    uint64_t lost, torn, dropped; /* including the warm-up, of all receivers */
    struct stats_latency latency;
    struct stats_point distribution[STATS_POINTS]; /* of latency */
    size_t distribution_points;
    struct stats_latency latency_cpu;        /* until the CPU had a frame that a GPU reads */
    double cpu_sender, cpu_receiver;         /* µs a frame; the mean of the receivers */
    double marking_sender, marking_receiver; /* the part for marking on a GPU */
    double waits_device_sender,
        waits_device_receiver;     /* times the CPU waited for a device, per frame */
    double gigabytes_per_second;   /* of all receivers together */
    double copies_cpu, copies_gpu; /* per frame, both sides and all receivers */
    double kicks_sender, waits_sender, kicks_receiver,
        waits_receiver;           /* per frame; the mean of the receivers */
    double lent;                  /* 0…1 */
    struct bench_ceiling ceiling; /* the main one of these: */
    struct bench_ceilings ceilings;
    double ceiling_ratios[BENCH_CEILINGS_MAX]; /* NAN: a rate cannot be compared with a time */
    double ceiling_ratio, ceiling_ratio_p99;
    uint32_t joins; /* 0: what follows is 0 or NAN */
    uint64_t joined, left, joins_measured;
    struct stats_latency interval_sender, interval_receiver;
    double idle_sender, idle_receiver; /* % of one CPU; the mean of the receivers */
    uint32_t receivers;
    struct bench_receiver_run receiver[GPUD_RECEIVERS_MAX];
};

/* All figures but the ceilings. */
void bench_figures_sum_up(const struct bench_processes *processes, const struct bench_job *job,
                          struct bench_run *run);

/* The ratios to the ceilings, once both are known. */
void bench_figures_compare(const struct bench_job *job, struct bench_run *run);

/* === run ===================================================================================== */
/* One run: starts its processes, measures the ceilings, and sums it up. */

struct bench_remotes;

/* remotes: the benches on other hosts; NULL: everything is here. */
bool bench_run(const struct bench_job *job, int64_t timeout, struct bench_remotes *remotes,
               struct bench_run *run, struct bench_failure *failure);

/* Says on a terminal which of several runs is at hand, on a line of standard error that is
 * rewritten; 0 removes it. */
void bench_show_progress(uint32_t number, uint32_t count);

/* A private directory for sockets, to be freed with g_free(). NULL: *failure. */
char *bench_make_directory(struct bench_failure *failure);
void bench_remove_directory(const char *path);

/* === report ================================================================================== */
/* The report: of one run, of several, or of gpudirect's and a peer's. */

struct bench_series {
    const struct bench_job *job;
    const struct bench_run *runs;
    uint32_t count;
};

/* peer may be NULL. */
void bench_print_text(const struct bench_series *ours, const struct bench_series *peer);
void bench_print_json(const struct bench_series *ours, const struct bench_series *peer);

/* === pictureclock ============================================================================ */
/* The clock that a test card draws into its pictures, read back from them. The kernel's vivid
 * writes " HH:MM:SS:mmm N" at (16,16), in letters of 8x16 pixels: the time since the stream began,
 * to the kernel's tick, and the picture's number. The font is unknown here: the driver reports each
 * picture's number, from which the digits are learned, and each number is checked. */

/* === capturereport =========================================================================== */
/* What --capture prints. */

/* === capture ================================================================================= */
/* --capture: what a capture card's frames cost, and how old they are when they can be shown. */

/* Measures and prints it. Returns the exit status. */
int bench_capture_run(const struct bench_options *options);

/* === channels ================================================================================ */
/* --channels: what many channels cost at a pace, in two processes or in two each. */

/* Measures and prints. Returns the exit status. */
int bench_channels_measure(const struct bench_options *options);

/* === failover ================================================================================ */
/* --failover: the main sender of a programme is killed, and its backup takes over. */

/* Measures and prints. Returns the exit status. */
int bench_failover_measure(const struct bench_options *options);

/* === stripes ================================================================================= */
/* Writes and reads parts of a picture where a frame lies: by the CPU in host memory, by a GPU's
 * driver, and by OpenCL, which writes a target over the bus. One for each thread; failures end the
 * process. */

struct bench_stripes;

/* === lines =================================================================================== */
/* --lines: what is gained where pictures are handed over while they are written. Both ends are in
 * one process, the child with the role `lines`. */

/* Measures and prints. Returns the exit status. */
int bench_lines_measure(const struct bench_options *options);

/* === start =================================================================================== */
/* --start: where the time from gst-launch-1.0 to the first picture goes. */

/* Measures and prints; returns the exit status. */
int bench_start_measure(const struct bench_options *options);

/* === help ==================================================================================== */
/* The text around the options in --help, and messages about a wrong command line. */

extern const char bench_help_summary[], bench_help_description[];

#endif

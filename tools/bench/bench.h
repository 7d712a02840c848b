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
 *     main.c         the role of this process, and the runs that were asked for
 *     options.c      the command line, and what --help says
 *     children.c     the processes, and the messages between them
 *     run.c          one run, as above, and the figures of it
 *     report.c       the figures as text and as JSON, by tables of fields
 *     sender.c       the sender's loop, and what it sends through: the core or a GStreamer sink
 *     receiver.c     the receivers, of the core and of GStreamer, and what they count
 *     elements.c     what sender and receivers share if they are made of GStreamer elements
 *     frames.c       how a frame is marked and checked
 *     ceiling.c      what the machine can do at best, in processes of its own: the processors;
 *     ceilinggpu.c   a GPU's driver;
 *     ceilingrdma.c  a network card;
 *     ceilingtcp.c   the kernel's TCP
 *     floor.c        through memory and futexes alone, without the library
 *     remote.c       two benches on two hosts
 *     channels.c     --channels: many of them, in two processes or in two each
 *     failover.c     --failover: the main of two senders is killed */
/* clang-format on */
#ifndef GPUD_TOOLS_BENCH_H
#define GPUD_TOOLS_BENCH_H

#include "ceilings/ceilings.h"
#include "clock.h"
#include "json.h"
#include "stats.h"

#include <glib.h>
#include <gpudirect/gpudirect.h>
#include <gpudirect/layout.h>
#include <gst/gst.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define BENCH_CHANNELS_MAX 1024

#define BENCH_EXIT_USAGE 2
#define BENCH_EXIT_DAMAGE 3 /* frames were lost or torn */

/* The longest that one step may take without progress. */
#define BENCH_STEP_TIMEOUT (10 * GPUD_SEC)

/* In the directory of a run. */
#define BENCH_KEY_FILE "key"

#define BENCH_UNKNOWN (-1)

/* === a job and its result ===================================================================== */

/* What a child process does. Sent as raw bytes: both ends are the same program. */
struct bench_job {
    /* The part that a bench on another host is told. */
    uint32_t runs;
    char from[32], format[16];
    char route[32]; /* "": the best */
    uint32_t width, height;
    uint64_t tensor_bytes;     /* of a frame that is a tensor; 0: a picture */
    uint32_t fps_num, fps_den; /* 0/1: as fast as the receivers allow */
    uint32_t frames, warmup, slots;
    uint32_t slow_receiver; /* enum gpud_slow_receiver */
    uint32_t foreign;   /* frames lie in the application's own memory, not in slots that are lent */
    uint32_t full;      /* every byte is written and checked, not only the marks */
    uint32_t elements;  /* sink and src, instead of the core */
    uint32_t encrypted; /* by TLS, and so is what is measured beside it */

    /* The part that it is not told. A list of devices is dealt out to the receivers in turn. */
    char to[256];
    uint32_t receivers, foreign_buffers;
    bool failover_standby; /* --failover standby, not group */
    bool standby;          /* this sender stands by */
    bool distribution;     /* the report has that of latencies */
    bool on_gpu; /* a GPU takes part: marks lie at no plane's end, and fillers are bytes */
    bool fills;  /* some frames are filled, and checked to the last byte */
    bool allow_unauthenticated;
    bool remote;        /* other benches start sender and receivers: remote.c */
    bool only_ceilings; /* nothing is sent through the library */
    bool no_ceilings;   /* nothing but what is sent is measured */
    bool floor;         /* through memory and futexes, without the library: floor.c */
    char peer_host[64]; /* where receivers have another address than the sender; else its own */
    char network[256];  /* the address if frames go over a network; else "" */
    char psk_file[256];
    char address[256];          /* where the core's receivers connect */
    char sink[2048], src[2048]; /* GStreamer elements */
    char caps[256];
    uint16_t raw_port; /* where the raw writer listens */
    int64_t patience;  /* longest wait for starting, for connecting, and for other hosts */
    uint32_t number;   /* of a receiver, from 1; of the first channel, from 0 */
    uint32_t channels; /* --channels: of one process */
    /* Inherited descriptors; -1: none. ping and pong wake the echo process and its caller. page is
     * a struct bench_page. */
    int ping, pong, page;
};

/* The part of a job that another host is told. */
#define BENCH_ORDER_SIZE offsetof(struct bench_job, to)

/* A word that one process writes for another one, in a cache line of its own. */
struct bench_side {
    _Alignas(64) _Atomic uint32_t word;
    atomic_bool waited_for; /* the other process sleeps until it changes */
};

/* More than the frames that can be in flight; a frame's time is at index % BENCH_SUBMIT_TIMES. */
#define BENCH_SUBMIT_TIMES 4096

/* Memory that processes of a run share. */
struct bench_page {
    _Atomic int64_t pinged; /* when the ping was sent */
    /* Words that are exchanged, with each receiver; as a ceiling with the first alone. */
    struct bench_side there[GPUD_RECEIVERS_MAX], back[GPUD_RECEIVERS_MAX];
    atomic_bool stop;
    /* When frames were submitted: elements, and the core between namespaces, do not report it. */
    _Atomic int64_t submitted[BENCH_SUBMIT_TIMES];
};

#define BENCH_PAGE_SIZE ((sizeof(struct bench_page) + 4095) / 4096 * 4096)

/* frames: bytes behind the page, from BENCH_PAGE_SIZE on. A descriptor; -1: errno. */
int bench_page_create(uint64_t frames);

/* Maps all of it until the process ends; NULL: it cannot be mapped. */
struct bench_page *bench_page_map(int page);

/* What a GPU's driver reaches; 0: not measured. */
struct bench_raw_gpu {
    double copy, peer;       /* frames a second: within the sender's GPU, to the first receiver's */
    double fan_out;          /* to each receiver, with copies to all at once */
    double download, upload; /* to and from pinned memory */
    double marker;  /* us: a word from one GPU's stream to the other's; half of a round trip */
    double words;   /* a second: from one GPU's stream to the other's and back */
    double handoff; /* us: p50 from the CPU's call, through both GPUs' streams, back to the CPU */
};

/* --channels: what a process with many has. */
struct bench_channels {
    uint64_t threads, descriptors;
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
    int64_t waits_device; /* for a device to finish its work */
    int64_t setup_ns;     /* sender: to make the ring; receiver: to connect, and to map the ring */
    uint64_t lent;        /* sender: frames that were written straight into a slot */
    int64_t dropped;      /* sender: by policy, for all receivers, including the warm-up */
    uint64_t reported_drops; /* receiver: frames that the sender reported as dropped */
    uint64_t torn;           /* receiver: damaged, or out of order */
    uint64_t latencies;      /* number of samples after the result, int64_t ns each */
    uint64_t latencies_cpu;  /* number of the next: until the CPU had a frame that a GPU reads */
    uint64_t of_backup, missing; /* --failover: frames of the backup; that did not come */
    struct bench_raw_gpu raw;
    double raw_rate; /* frames a second by a plain network; 0: not measured */
    struct bench_channels channels;
};

/* The device of receiver `number`, from 1. */
const char *bench_device_of(const struct bench_job *job, uint32_t number, char *device,
                            size_t size);

/* Where the marks of a frame lie: in the rows of a picture, and in eight parts of a tensor as if
 * they were rows. */
struct gpud_layout bench_layout_of(const struct bench_job *job);

/* What the core sends: a tensor is one of bytes. */
struct gpud_media bench_media_of(const struct bench_job *job);

/* How long that many frames take at the job's pace, ns. */
int64_t bench_paced_time(const struct bench_job *job, double frames);

/* === processes ================================================================================ */
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
    BENCH_RAW, /* a port */
    BENCH_SUMMARY,
};

struct bench_failure {
    enum gpud_status status;
    char reason[512];
};

struct bench_packet {
    enum bench_message type;
    size_t size;
    void *data; /* to be freed with g_free() */
};

/* false: the other end is gone, or did not read in time. */
bool bench_send(int fd, enum bench_message type, const void *data, size_t size);

enum bench_receipt { BENCH_RECEIVED, BENCH_GONE, BENCH_TIMED_OUT };
/* max: largest message in bytes; a longer one counts as the end (BENCH_GONE). */
#define BENCH_MESSAGE_MAX (UINT64_C(1) << 28)
enum bench_receipt bench_receive(int fd, int64_t deadline, uint64_t max,
                                 struct bench_packet *packet);

/* Cleans text from another host: terminates it, and removes a terminal's control characters. */
void bench_clean_text(char *text, size_t size);

/* --- in a child ------------------------------------------------------------------------------- */

extern int bench_control; /* the socket to the coordinator */
extern struct bench_job bench_job;
extern struct gpud_error bench_error; /* what calls of the core are given for bench_must() */

/* Reports the reason to the coordinator and ends the process, whose resources the system frees. */
G_NORETURN void bench_die(enum gpud_status status, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Ends the process unless the call has succeeded. what: what was done; NULL: the reason says it. */
void bench_must(const char *what, enum gpud_status status);
void bench_must_gpu(const struct raw_driver *driver, const char *what, int result);

/* The core's objects of the job. */
struct gpud_context *bench_create_context(void);
struct gpud_sender *bench_create_sender(struct gpud_context *context, const char *address);
struct gpud_receiver *bench_create_receiver(struct gpud_context *context, const char *address,
                                            const char *device,
                                            void (*on_event)(void *user, enum gpud_event event,
                                                             const void *data));

/* --- marks by a GPU --------------------------------------------------------------------------- */

#define BENCH_MARKING "marking frames on the GPU: "

/* A stream of the GPU, which becomes this thread's current one until raw_leave(). */
raw_stream bench_gpu_open(struct raw_driver *driver, unsigned gpu);

/* Pinned memory, filled with 0. */
void *bench_gpu_pinned(const struct raw_driver *driver, size_t size, raw_address *address);

/* Waits until the stream has done everything. */
void bench_gpu_finish(const struct raw_driver *driver, raw_stream stream);

/* --- messages --------------------------------------------------------------------------------- */

/* Tells the coordinator: LISTENING or READY. */
void bench_say(enum bench_message type);
void bench_send_result(const struct bench_result *result, const int64_t *latencies);

/* Receives the next message, which must be of this type. Ends the process if the coordinator is
 * gone, or silent for `patience` ns. */
void bench_expect(enum bench_message type, int64_t patience, void *data, size_t size);

/* Whether this message has come; does not wait. */
bool bench_received(enum bench_message type);

/* Becomes the child that the command line says; false: this is the coordinator. */
bool bench_be_child(int argc, char **argv);

/* What each child does; failures end the process. */
void bench_run_sender(void);
void bench_run_receiver_core(void);
void bench_run_receiver_gst(void);
void bench_run_receiver_floor(void);
void bench_run_channel_senders(void);
void bench_run_channel_receivers(void);
void bench_run_failover_sender(void);
void bench_run_failover_receiver(void);
void bench_run_echo(void);        /* is woken for the ceiling of latency */
void bench_run_words(void);       /* answers words in shared memory */
void bench_run_raw(void);         /* a GPU's driver without gpudirect */
void bench_run_rdma_writer(void); /* a network without gpudirect: the writer, the target */
void bench_run_rdma_target(void);
void bench_run_tcp_writer(void);
void bench_run_tcp_target(void);

/* --- in the coordinator ----------------------------------------------------------------------- */

extern struct bench_failure bench_failure; /* why something did not work */

/* Sets it and returns false. */
bool bench_fail(enum gpud_status status, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* A process of a run: this program, started again in another role. They end with the coordinator.
 */
struct bench_child {
    const char *role;
    uint32_t number;      /* of a receiver, from 1; else 0 */
    const char *host;     /* another host, which is not trusted; NULL: this one */
    uint64_t message_max; /* largest message from it; 0: the default */
    pid_t pid;            /* 0: no process here */
    int fd;               /* 0: none */
    bool ready, finished; /* sent READY or LISTENING; sent its result */
    uint16_t port;        /* where it listens, if it sent one */
    struct bench_result result;
    int64_t *latencies;
};

/* The processes of a run of one link: the sender, the receivers. */
struct bench_processes {
    struct bench_child child[1 + GPUD_RECEIVERS_MAX];
    size_t count;
};

/* Starts a process and sends it its job, whose descriptors it inherits. */
bool bench_start(struct bench_child *child, const char *role, uint32_t number,
                 const struct bench_job *job);

/* From now on every child gets a PID namespace of its own, as in containers. */
void bench_children_isolate(void);

/* From now on senders and receivers are in two network namespaces, joined by a veth pair with these
 * IPv4 addresses, which differ in the last bit. The namespaces end with this process. */
bool bench_children_separate(const char *host, const char *peer_host);

/* In a new process: enters its side's network namespace, if there is one. */
bool bench_enter_space(bool receiver);

enum bench_stage { BENCH_IS_READY, BENCH_IS_FINISHED };

/* Handles the messages of all children until `needed` of them, from `first` on, have come to this
 * stage. false: a failure, a signal to this process, or the deadline, for the reason `late`. */
#define BENCH_TOO_LONG " took too long: see --timeout"
bool bench_wait(struct bench_child *children, size_t count, size_t first, size_t needed,
                enum bench_stage stage, int64_t deadline, const char *late);

/* Handles one message. false: a failure, or not a valid message. */
bool bench_handle(struct bench_child *child, struct bench_packet *packet);

/* Where one was killed or crashed, that explains all other failures: sets it. Waits briefly,
 * because a death may be noticed after its consequences. */
void bench_find_death(struct bench_child *children, size_t count);

/* Waits until it ends, and kills it at the deadline. false: it was killed. */
bool bench_stop(struct bench_child *child, int64_t deadline);

/* Ends all of them; after a failure, whose reason may be a death, within `patience` ns. Passes
 * `good` on; false also if one had to be killed. */
bool bench_stop_all(struct bench_child *children, size_t count, bool good, int64_t patience);

/* SIGINT, SIGTERM and SIGHUP end the run instead of this process, so that it cleans up first. */
void bench_catch_signals(void);
int bench_caught_signal(void); /* 0: none */

/* Sets the failure if there was a signal. */
bool bench_interrupted(void);

/* A private directory for sockets, to be removed. NULL: a failure. */
char *bench_make_directory(void);
void bench_remove_directory(const char *path);

/* === options ================================================================================= */

/* Limits, also for a bench on another host. */
#define BENCH_FRAMES_MIN 2
#define BENCH_FRAMES_MAX 10000000
#define BENCH_FRAME_MAX (UINT64_C(2) << 30) /* bytes */
#define BENCH_WARMUP_MAX 1000000
#define BENCH_RUNS_MAX 1000
#define BENCH_RATE_MIN 0.1
#define BENCH_RATE_MAX 1e5
#define BENCH_FRAME_MIN 256 /* bytes */
/* A tensor's bytes are a multiple of it, so that its marks are in parts of one size. */
#define BENCH_TENSOR_STEP (BENCH_ROWS * BENCH_ROW)
#define BENCH_UNMARKED \
    "--width %u --height %u: too small to be marked: 8 lines of 16 bytes are needed"

#define BENCH_CHANNEL_ROWS 16 /* numbers of channels in one command */

struct bench_options {
    struct bench_job ours;
    struct bench_job peer; /* with --compare */
    bool compare;
    bool receive;      /* `ours` is the receiver's part of a job that the sending bench completes */
    char report[4096]; /* --report: a folder; "": none */
    bool quick, draw, beside;              /* --quick, --draw and --beside, with it */
    bool failover;                         /* --failover */
    uint32_t channels[BENCH_CHANNEL_ROWS]; /* --channels */
    uint32_t channel_rows;                 /* 0: not given */
    bool apart;                            /* each channel in two processes of its own */
    bool json;
    bool isolated;   /* each process in a PID namespace of its own */
    bool separate;   /* sender and receivers in two network namespaces */
    int64_t timeout; /* of one run */
};

/* false: nothing to run; *status is the exit status, and the reason was printed. */
bool bench_options_parse(int argc, char **argv, struct bench_options *options, int *status);

/* The caps of a job, and the descriptions of gpudirectsink and gpudirectsrc for it. */
void bench_describe_caps(struct bench_job *job);
bool bench_describe_ours(struct bench_job *job);

/* === marks of frames ========================================================================== */
/* They tell a frame's receiver which frame it is and whether it is whole: 16 bytes at the start of
 * eight rows of each plane, from the first row to about the last, so that a GPU writes or reads
 * those of a plane by one strided copy. They hold the frame's index, the plane and the row, and so
 * show whether all parts of a frame belong together. A plane that is too small has none. Where only
 * CPUs take part the last 16 bytes of each plane are a mark, too.
 *
 * With --verify full every frame, and where a GPU takes part some frames of a run, are also filled
 * with a byte that depends on the index, where only CPUs take part on plane and row as well, and
 * every byte is checked. */

#define BENCH_ROWS 8
#define BENCH_ROW 16
#define BENCH_MARKS_SIZE (BENCH_ROWS * BENCH_ROW)
#define BENCH_FRAME_MARKS (GPUD_PLANES_MAX * BENCH_MARKS_SIZE) /* room for those of all planes */
#define BENCH_FILLED_FRAMES 8 /* of the measured section where a GPU takes part */
/* Bytes of such a frame, which the CPU checks in pinned memory, at most. */
#define BENCH_FILLED_MAX (UINT64_C(256) << 20)

/* Whether the GPU itself works on frames on this device of the job. Elements support CUDA's memory
 * only. The same for any receiver's device, and for any end. */
bool bench_works_on_gpu(const struct bench_job *job, const char *device);
bool bench_reads_on_gpu(const struct bench_job *job);
bool bench_uses_gpu(const struct bench_job *job);

/* Whether a plane has marks; bytes from one to the next. The first is at the plane's offset. */
bool bench_is_marked(const struct gpud_plane *plane);
uint64_t bench_marks_pitch(const struct gpud_plane *plane);

/* The marks of a plane, one after the other. */
void bench_marks_make(void *marks, uint32_t plane, uint64_t index);

/* false: not the marks of that plane of one frame. *index is that of the first. */
bool bench_marks_check(const void *marks, uint32_t plane, uint64_t *index);

/* Whether this frame is filled, and checked to the last byte. */
bool bench_is_filled(const struct bench_job *job, uint64_t index);
uint8_t bench_filler(uint64_t index); /* by a GPU */

/* Marks and checks by the CPU; check_marks() leaves out what fills a frame. */
void bench_frame_mark(void *frame, const struct gpud_layout *layout, const struct bench_job *job,
                      uint64_t index);
bool bench_frame_check_marks(const void *frame, const struct gpud_layout *layout, uint64_t *index);
bool bench_frame_check(const void *frame, const struct gpud_layout *layout,
                       const struct bench_job *job, uint64_t *index);

/* Subtracts the earlier counters, which leaves those of the section in between. */
void bench_result_subtract(struct bench_result *now, const struct bench_result *before);

/* === memory and futexes alone ================================================================= */
/* floor.c draws it. A process is the sender, or one of the receivers. */

/* Writes a word, and wakes the process that waits for it. */
void bench_word_send(struct bench_side *side, uint32_t value);

/* Waits until the word changes, or for a short while. */
void bench_word_await(struct bench_side *side, uint32_t old);

void bench_floor_open(void);
void *bench_floor_acquire(uint64_t *size);
void bench_floor_send(void);
const void *bench_floor_receive(void);
void bench_floor_release(void); /* what was received */

/* === elements ================================================================================ */
/* For children; failures end the process. */

/* A pipeline of the described elements, linked to `ours`. */
GstElement *bench_elements_parse(const char *description, GstPad *ours);

/* Ends the process with the pipeline's error message, or with `otherwise`. */
G_NORETURN void bench_elements_fail(GstElement *pipeline, const char *otherwise);

/* Ends the process, but lets the elements remove their files first. pool may be NULL. */
G_NORETURN void bench_elements_quit(GstElement *pipeline, GstBufferPool *pool);

/* Route and counters, if an element has them ("active-path", "stats"). */
void bench_elements_count(GstElement *pipeline, struct bench_result *result);

/* --- GStreamer's CUDA memory ------------------------------------------------------------------ */
/* libgstcuda is opened at run time, because its functions differ between GStreamer's series. */

struct bench_gpu_map {
    GstMapInfo info;
    raw_address address;
    raw_stream stream;         /* on which elements order their work on this memory */
    bool ordered;              /* all users of the memory order their work after that stream */
    struct gpud_layout layout; /* of the picture in the memory */
};

void bench_gst_cuda_open(void);

/* A pool of CUDA memory on a GPU. */
GstBufferPool *bench_gst_cuda_pool(unsigned ordinal);

bool bench_gst_cuda_is(GstBuffer *buffer);

/* Maps a buffer of CUDA memory for the GPU and makes its context current, until unmapped. */
bool bench_gst_cuda_map(GstBuffer *buffer, GstMapFlags flags, struct bench_gpu_map *map);
void bench_gst_cuda_unmap(GstBuffer *buffer, struct bench_gpu_map *map);

/* Makes the context of the last mapped buffer current, until raw_leave(&raw_cuda). false: none was
 * mapped. */
bool bench_gst_cuda_enter(void);

/* === ceilings ================================================================================ */
/* What this machine can do at best, measured in the same run as the library. */

struct bench_ceiling {
    const char *key, *what;
    double value; /* frames per second, or the median in µs */
    const char *unit;
    double p99;   /* of times, µs; else NAN */
    double ratio; /* of the run to it; NAN: a rate cannot be compared with a time */
    double cpu_sender, cpu_receiver; /* of a network's, µs a frame; NAN: not measured */
};

#define BENCH_CEILINGS_MAX 16

/* All ceilings of a job. */
struct bench_ceilings {
    struct bench_ceiling ceiling[BENCH_CEILINGS_MAX];
    unsigned count;
    unsigned main; /* the one for the report's ratio */
};

/* Makes the ceiling with this key the main one, if it is there. */
void bench_ceilings_choose(struct bench_ceilings *list, const char *key);

bool bench_ceilings_measure(const struct bench_job *job, struct bench_ceilings *ceilings);

/* The ceiling of a plain network, in frames a second (0: not measured), and its CPU time. */
struct bench_ceiling bench_ceiling_of_network(const struct bench_job *job, double rate,
                                              double cpu_sender, double cpu_receiver);

/* How many buffers of this size together exceed the processor's caches. */
uint32_t bench_buffers_of(uint64_t size);

#define BENCH_RAW_WARMUP 10 /* frames that a plain network does not count with a pace */

/* How many they count. */
uint32_t bench_raw_paced(const struct bench_job *job);

/* === a run and its figures ==================================================================== */

/* One receiver of a run. */
struct bench_receiver_run {
    uint64_t frames, missing, dropped, torn; /* dropped: as reported; included in missing */
    double fps, cpu_us;
    struct stats_latency latency, latency_cpu;
    const char *meaning, *meaning_cpu; /* of these */
};

/* Doubles are NAN where unknown. */
struct bench_run {
    char route[32], fallback_reason[GPUD_REASON_MAX];
    double fps;
    uint64_t frames;              /* sent, in the measured section */
    uint64_t lost, torn, dropped; /* including the warm-up, of all receivers */
    struct stats_latency latency;
    struct stats_point distribution[STATS_POINTS]; /* of latency */
    size_t distribution_points;
    struct stats_latency latency_cpu;        /* until the CPU had a frame that a GPU reads */
    const char *meaning, *meaning_cpu;       /* of these */
    double cpu_sender, cpu_receiver;         /* µs a frame; the mean of the receivers */
    double marking_sender, marking_receiver; /* the part for marking on a GPU */
    double waits_device_sender, waits_device_receiver; /* the CPU waited for a device, per frame */
    double setup_sender, setup_receiver;               /* ms; the mean of the receivers */
    double gigabytes_per_second;                       /* of all receivers together */
    double copies_cpu, copies_gpu;                     /* per frame, both sides and all receivers */
    double kicks_sender, waits_sender, kicks_receiver, waits_receiver; /* per frame; the mean */
    double lent;                                                       /* 0…1 */
    struct bench_ceiling ceiling;                                      /* the main one of these: */
    struct bench_ceilings ceilings;
    double ceiling_ratio_p99, ceiling_ratio_cpu;
    uint32_t receivers;
    struct bench_receiver_run receiver[GPUD_RECEIVERS_MAX];
};

bool bench_run(const struct bench_job *job, int64_t timeout, struct bench_run *run);

/* All figures but the ceilings; then the ratios to the ceilings, once both are known. */
void bench_figures_sum_up(const struct bench_processes *processes, const struct bench_job *job,
                          struct bench_run *run);
void bench_figures_compare(const struct bench_job *job, struct bench_run *run);

/* Says on a terminal which of several runs is at hand, on a line of standard error that is
 * rewritten; 0 removes it. */
void bench_show_progress(uint32_t number, uint32_t count);

/* === report ================================================================================== */

/* A figure of a structure, in JSON and as text. */
struct bench_field {
    const char *path; /* in JSON: "a.b" is the member b of the object a; NULL: not there */
    enum bench_kind {
        BENCH_NUMBER,  /* double */
        BENCH_INT,     /* uint64_t */
        BENCH_INT32,   /* uint32_t */
        BENCH_TEXT,    /* char [] */
        BENCH_STRING,  /* const char * */
        BENCH_LATENCY, /* struct stats_latency: several members of the object in the path, "a." */
    } kind;
    size_t offset;
    const char *label, *unit; /* as text; NULL: not there */
    const char *key; /* among the medians of several runs, if it is not the path with a_b for a.b */
};

/* Puts fields into the open object, up to one without path and label. */
void bench_put_fields(JsonBuilder *builder, const struct bench_field *fields, const void *of);

/* A line for each field with a label whose value is known. */
void bench_print_fields(const struct bench_field *fields, const void *of, int width);

/* One run, several, or gpudirect's and a peer's. */
struct bench_series {
    const struct bench_job *job;
    const struct bench_run *runs;
    uint32_t count;
};

/* peer may be NULL. Returns the exit status. */
int bench_report(bool json, const struct bench_series *ours, const struct bench_series *peer);

/* === the other modes ========================================================================== */
/* Each measures and prints, and returns the exit status. */

int bench_channels_measure(const struct bench_options *options);
int bench_failover_measure(const struct bench_options *options);

/* The receiving one of two benches on two hosts (--receive): waits for the sending bench, runs what
 * it asks for, and reports. */
int bench_receive_all(const struct bench_options *options);

/* === two hosts ================================================================================ */
/* Two benches use TCP, on the port after the link's, and the messages of one bench's processes. The
 * sending one listens, like its sender; the receiving one stands for a receiver's process.
 *
 *     --to rdma://A:7174 --remote            --receive rdma://A:7174
 *        |<-------------- HELLO -------------->|   on connecting
 *        |--------------- ORDER -------------->|   for each run; its receiver starts
 *        |   READY, STOP, RESULT, as on one host
 *        |--------------- RAW ---------------->|   its raw target starts
 *        |<-------------- RESULT --------------|
 *        |--------------- SUMMARY ------------>|   both print the whole report
 *
 * FAILED in either direction ends both, and so does a lost connection. Everything from the other
 * side is checked. Numbers have the machine's byte order; hosts with another one are refused. */

/* An address between hosts: rdma://host:port/name, tcp://host:port/name */
bool bench_is_network(const char *text);
bool bench_is_tcp(const char *text);

/* The host of an address, without brackets. Returns what follows it. */
const char *bench_network_host(const char *address, char *host, size_t size);

/* The port that the benches of two hosts use with each other: the one after the address's. 0: there
 * is none. */
uint16_t bench_network_control_port(const char *address);

/* Resolves the address's host, with another port. false: a failure. */
bool bench_network_resolve(const char *address, uint16_t port, struct sockaddr_storage *found);

/* Of the sending one: waits until there is a receiving bench for each receiver of the job, and sets
 * the job's `to`. They stay for all runs. false also if the sender fails meanwhile. */
bool bench_remotes_gather(struct bench_job *job, struct bench_child *sender, int64_t deadline);

/* Has them start their receivers: each is a child now, with a connection instead of a process. */
void bench_remotes_start(const struct bench_job *job, struct bench_processes *processes);

/* Only the first one has work: its child is the raw target. */
void bench_remotes_start_target(const struct bench_job *job, struct bench_child *target);

/* Tells them what the sender measured, and the ceiling. */
void bench_remotes_sum_up(const struct bench_result *sender, const struct bench_ceiling *ceiling);

/* failed: they are told why. */
void bench_remotes_close(bool failed);

#endif

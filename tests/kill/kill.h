/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The kill matrix: at each named point of the hand-off, on each way of a frame, children are killed
 * while others stream on. */
#ifndef GPUD_TESTS_KILL_H
#define GPUD_TESTS_KILL_H

#include "support/check.h"
#include "support/gpu.h"
#include "support/make.h"
#include "support/peer.h"

#include <gpudirect/gpudirect.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* --- points ----------------------------------------------------------------------------------- */

/* The named points of the hand-off (core/base/base.h), and what must go on in a stream so that a
 * process passes them. */

/* The ways of a frame: the columns of the matrix. */
enum way_bit {
    WAY_HOST = 1 << 0,      /* map, both ends on the host */
    WAY_CUDA = 1 << 1,      /* map, both ends on one GPU */
    WAY_PEER = 1 << 2,      /* peer, from one GPU to another */
    WAY_STAGED = 1 << 3,    /* staged, from one GPU to another */
    WAY_DIRECTGMA = 1 << 4, /* directgma */
    WAY_RDMA = 1 << 5,      /* rdma-host, both ends on the host; see support/copies.h */
    WAY_HIP = 1 << 6,       /* as WAY_CUDA, by another vendor's driver */
    WAY_HIP_PEER = 1 << 7,  /* as WAY_PEER */
    WAY_PUSH = 1 << 8,      /* staged-push, from one GPU to another */
    WAY_VULKAN = 1 << 9,    /* map, both ends on one GPU, whose queues wait for no words */
    WAY_STANDBY = 1 << 10,  /* as WAY_HOST; the next sender waits for the address meanwhile */
    WAY_GROUP = 1 << 11,    /* as WAY_HOST; a group has a backup besides */
    WAY_UP = 1 << 12,       /* staged, from the host to such a GPU as WAY_VULKAN's */
    WAY_DOWN = 1 << 13,     /* and from there to the host */
    WAY_SOUND = 1 << 14,    /* as WAY_GROUP, of sound: the two senders' blocks overlap by half */
    WAY_TCP = 1 << 15,      /* tcp-host, both ends on this host, at every second point with a key */
};
#define WAYS 16
#define WAYS_OF_GROUPS (WAY_GROUP | WAY_SOUND)

/* What makes a process pass the point, besides frames. */
enum provoke {
    BY_FRAMES,
    BY_CONNECTING, /* the receiver is made anew, again and again */
    BY_LEAVING,    /* the process ends its own object in order, and makes it anew */
    BY_EVENTS,
    BY_ENDS,       /* EOS, and frames again */
    BY_EPOCHS,     /* another format every few frames */
    BY_GROWTH,     /* one receiver more joins */
    BY_SLOWNESS,   /* the receiver, or the group, is slow, the sender drops the oldest */
    BY_A_HELD_GPU, /* the receiver's stream stands still for a moment */
};

struct point {
    const char *name; /* as the code has it: "sender: …" or "receiver: …" */
    enum provoke provoke;
    unsigned ways; /* on which it exists */
};

extern const struct point points[];
extern const int point_count;

/* Whose point it is. */
bool point_is_the_senders(const struct point *point);

/* --- the process that dies -------------------------------------------------------------------- */

/* The process that dies: this program, started anew, sends or receives, and stands still as a whole
 * at a named point, on the n-th time that it passes there after it was armed. A kill then hits
 * exactly that point. */

#define CHILD_NUMBERS 1000000         /* pictures of one child: from its own number times this */
#define CHILD_INSTANT (5 * GPUD_MSEC) /* of a programme: between its pictures */

struct child_orders {
    bool sends;
    char device[32], route[32];
    char point[64];
    unsigned passing; /* at which it stops, from 1 */
    enum provoke provoke;
    unsigned number; /* of this child, from 1 */
    enum gpud_slow_receiver slow_receiver;
    bool standby; /* a sender: waits for the address while another child has it */
    /* A sender of a programme: picture n is due n * CHILD_INSTANT after this, for all its senders;
     * 0: it sends without a pause. */
    int64_t programme;
    bool backup; /* of the programme, on an address of its own */
    bool group;  /* a receiver: of both */
    bool sound;  /* the programme is of sound: pictures are blocks */
};

struct child_board {
    struct child_orders orders;
    /* By the test. */
    atomic_bool go;    /* everything slow is done before */
    atomic_bool armed; /* the point counts */
    atomic_bool leave;
    atomic_ullong handed; /* of a programme: the picture that was handed on last */
    /* By the child. */
    atomic_bool ready;
    atomic_uint passings;
    _Atomic uint32_t stopped; /* a futex */
    atomic_ullong frames;
    atomic_ullong corrupted;
    atomic_uint ends; /* a sender: EOS that it was about to send */
    char wrong[256];  /* what it saw that must not be */
};

struct child {
    pid_t pid;
    struct child_board *board;
};

/* For main(), first of all. */
void child_main(int argc, char **argv);

/* Where it sends. */
const char *child_address(const struct child_orders *orders);

void child_start(struct child *child, const struct child_orders *orders);

/* Another format for every second epoch: of the picture, or of the sound's channels. */
struct child_format {
    struct gpud_media media;
    struct gpud_layout layout;
};
void child_format(struct child_format *format, const struct child_orders *orders, unsigned epoch);

/* --- a programme of two senders, and the group that receives it ------------------------------- */

/* A programme that a main and a backup sender have, and the group that receives it: I1, I2, I3,
 * instant by instant. */

#define MAIN 0
#define BACKUP 1

/* Sound: CHILD_INSTANT. */
#define PROGRAMME_RATE 48000
#define PROGRAMME_BLOCK 240

/* What its offset is: the number of a picture, or of the first sample of a block. A backup's blocks
 * begin in the middle of the main one's. */
uint64_t programme_place(const struct child_orders *orders, uint64_t number);

/* Sends a picture or a block at its time. Every third lies in memory of the application's, on the
 * host, and is copied. jumps: it does not follow the one before. */
void programme_send(struct gpud_sender *sender, struct gpud_device *host,
                    const struct child_orders *orders, const struct child_format *format,
                    uint64_t number, bool jumps);

struct pair {
    bool sound;
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;
    bool begun; /* an instant was taken since it was made, or since the end of a stream */
    /* Of each member: its sender, and what its last frame said, which tells pictures that the
     * group lost from those that the sender dropped; epoch 0: there was none. */
    struct {
        int64_t pid;
        uint32_t epoch;
        uint64_t dropped;
    } members[2];
    unsigned of_main; /* how many in a row */
    unsigned by_main; /* how many since it was made */
    /* They outlive the group. */
    uint64_t last;    /* the picture, or whole block, that was taken last; 0: none */
    uint64_t place;   /* the picture, or sample, behind all that was taken */
    uint64_t missing; /* pictures, or samples, that were not taken */
    uint64_t corrupted;
    char wrong[256]; /* the first thing that must not be; "": none */
};

void pair_open(struct pair *pair, struct gpud_context *context);
void pair_close(struct pair *pair);

/* Waits for the next instant so long at most, and checks it; its member, or -1: none came. */
int pair_take(struct pair *pair, int64_t timeout_ns);

/* --- what a receiver sees --------------------------------------------------------------------- */

/* What a receiver sees, frame by frame: I1, I2, I3; on a GPU every second frame by work on a stream
 * alone, and then nothing looks at its bytes. */

/* Bytes of the smallest frame: what a stream reads of each. */
#define VIEW_FRAME_MIN ((size_t)128 * 2 * 91)

struct view {
    struct gpu *gpu; /* NULL: no GPU of our own */
    bool all_by_stream;
    bool linked;                /* frames came since the last end of a link, which the test sets */
    uint64_t sequence, dropped; /* of the last frame of this link */
    uint64_t frames, corrupted;
    uint64_t number;         /* of the last picture */
    struct gpud_frame *held; /* one, kept longer, also over a death */
    char wrong[256];         /* the first thing that must not be; "": none */
};

/* Takes the frame over. */
void view_take(struct view *view, struct gpud_frame *frame);

/* Lets go of what it holds, having looked at it once more. */
void view_finish(struct view *view);

/* --- cells ------------------------------------------------------------------------------------ */

/* One cell of the matrix: a point on a way. Children die there one after the other. This process is
 * the survivor; an honest receiver runs in a process of its own. */

#define KILL_NAME "kill"          /* of the stream; see peer_address() */
#define START_MAX (30 * GPUD_SEC) /* until processes that were started just now stream */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
/* The guest that soft-RoCE runs in is slow, and so is the start of a process under a sanitizer: 2
 * s, with nothing else to do. */
#define SLOW (getenv("GPUD_TEST_HOST") || SANITIZED)
#define AGAIN_MAX ((SLOW ? 30 : 5) * GPUD_SEC) /* until a stream goes on after a death */
#define REACHED_MAX (20 * GPUD_SEC)            /* until a point is reached */
/* s: a cell hangs, where nothing of the above has noticed. */
#define CELL_MAX(kills) ((SLOW ? 5u : 1u) * (60 + 3 * (unsigned)(kills)))

struct way {
    const char *name; /* of the column */
    enum way_bit bit;
    const char *from, *to; /* devices */
    const char *route;
};
extern const struct way ways[WAYS];

struct cell {
    const struct point *point;
    const struct way *way;
    int kills;
    int64_t worst; /* ns from a death until the stream went on */
};

/* Kills so often; ends the process at the first thing that is wrong. */
void cell_run(struct cell *cell);

/* Children in turn: one that streams, and one that stands by, opened ahead. In `orders` the caller
 * may set `programme` before children_open(). */
struct children {
    struct child_orders orders;
    struct child child, next;
    unsigned number; /* of the child that streams */
    unsigned varied; /* passings, 1 to so many */
    pthread_t killer;
    bool kills; /* there is such a thread */
    atomic_bool armed;
    atomic_llong killed; /* the time of the last death; 0: none yet */
    unsigned ends;       /* EOS that children before this one sent */
};

void children_open(struct children *children, const struct cell *cell,
                   enum gpud_slow_receiver policy);

/* From here on the point counts; the child dies there, at whatever moment, and the next one starts
 * in the same moment. */
void children_arm(struct children *children);

/* Does the step until the child is dead, which stood at the point; the time of its death. The next
 * child is the one that streams; nothing may have been wrong with the last. */
int64_t children_die(struct children *children, void (*step)(void *survivor), void *survivor);

/* The last child leaves in order: tells it; whether it is gone. */
void children_dismiss(struct children *children);
bool children_gone(struct children *children);
void children_close(struct children *children);

/* The two kinds of survivors. Each returns the longest time that it took to stream again. */
int64_t survive_sending(const struct cell *cell, int kills, enum gpud_slow_receiver policy);
int64_t survive_receiving(const struct cell *cell, int kills, enum gpud_slow_receiver policy);

/* Receives in a group that has a backup besides: no picture is repeated, and none lost that not
 * both senders dropped. */
int64_t survive_grouped(const struct cell *cell, int kills);

/* An honest receiver beside the child. */
void honest_start(struct peer *honest, const struct cell *cell);

#endif

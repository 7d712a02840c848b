/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Other processes for the tests that move frames: this program, started anew, plays a receiver or a
 * sender. A shared board carries its orders and its reports, so that it can be watched, stopped and
 * killed at any instant without losing a report. */
#ifndef GPUD_TESTS_PEER_H
#define GPUD_TESTS_PEER_H

#include "support/media.h"

#include <gpudirect/gpudirect.h>
#include <stdatomic.h>
#include <sys/types.h>

#define PEER_NOTES 256
#define PEER_FRAMES_HELD 32

/* An event other than a frame, and the frame that it preceded. */
struct peer_note {
    enum gpud_event event; /* 0: the end of the stream */
    uint32_t kind, epoch;
    uint64_t after; /* sequence of the last frame before it */
    /* Of a user event: its first eight bytes; of a format: pictures a second, or bytes. */
    uint64_t value;
};

/* How it makes a child that runs no other program, and lives on when the peer is killed. */
enum peer_child {
    PEER_FORK = 1,
    PEER_CLONE, /* a call of the kernel: nothing is told of it */
};

struct peer_orders {
    bool sends;
    char address[108], device[32], route[32];
    uint32_t slots;
    enum gpud_slow_receiver slow_receiver;
    bool require_direct;
    /* Receivers. */
    uint32_t hold;        /* frames kept before the oldest is checked again and released */
    uint32_t leave_after; /* end of streams; 0: never */
    int64_t nap;          /* ns after each frame */
    bool by_lines;
    /* Senders. */
    uint32_t width, height;
};

struct peer_board {
    struct peer_orders orders;
    /* By the test, at any time. */
    atomic_bool leave, paused;
    atomic_int child; /* enum peer_child */
    /* By the peer. */
    atomic_int child_pid;
    atomic_bool ready;   /* the object is made */
    atomic_bool resting; /* while `paused`: no call is under way, and none will be made */
    atomic_ullong frames, gaps, wrong, repeated, ends, lost, connected, corrupted, refusals,
        discontinuities;
    atomic_ullong bytes;       /* in use of all frames */
    atomic_ullong reported;    /* drops, as the last frame's info says */
    atomic_ullong unreported;  /* gaps that differ from what their frame reported */
    atomic_ullong first, last; /* sequence */
    atomic_ullong last_value;  /* the number of the last picture */
    atomic_llong last_time;    /* at which a frame came */
    atomic_uint notes;
    struct peer_note note[PEER_NOTES];
    char wrong_text[240];           /* the first wrong picture */
    char reason[GPUD_REASON_MAX];   /* of the last status that was not OK or a time-out */
    atomic_uint status;             /* that went with it */
    struct gpud_receiver_info info; /* at the end */
    struct gpud_sender_info sender_info;
    unsigned leaked_fds, leaked_maps;
    atomic_bool done;
};

struct peer {
    pid_t pid;
    struct peer_board *board;
};

/* For main(), first of all: does what a peer does and exits, if this process was started as one. */
void peer_main(int argc, char **argv);

void peer_start(struct peer *peer, const struct peer_orders *orders);

/* Waits until the condition holds, at most this long. */
#define PEER_UNTIL(what, ms, condition)                                               \
    do {                                                                              \
        int64_t until_ = gpud_test_now() + (ms)*GPUD_MSEC;                            \
        while (!(condition)) {                                                        \
            CHECK(gpud_test_now() < until_, "not within %d ms: %s", (int)(ms), what); \
            gpud_test_nap(1);                                                         \
        }                                                                             \
    } while (0)

/* Until the sender's first receiver, which rests, has given back all that it had: across a network
 * and from a device frames come back some time after the receiver has released them. */
void peer_wait_for_returns(struct gpud_sender *sender);

int64_t gpud_test_now(void);
void gpud_test_nap(int64_t ms);

/* Makes it leave and waits for its end, which must be clean; checks every receiver's report:
 * nothing wrong, nothing twice, every gap reported, nothing leaked. The board stays readable until
 * peer_forget(). */
void peer_finish_at(const char *file, int line, struct peer *peer);
#define PEER_FINISH(peer) peer_finish_at(__FILE__, __LINE__, peer)
/* And forgets it. */
#define PEER_LEAVE(peer)   \
    do {                   \
        PEER_FINISH(peer); \
        peer_forget(peer); \
    } while (0)
void peer_kill(struct peer *peer);
void peer_forget(struct peer *peer);

/* The checks of peer_finish alone, for one that was killed. */
void peer_check_at(const char *file, int line, const struct peer *peer);
#define PEER_CHECK(peer) peer_check_at(__FILE__, __LINE__, peer)

/* --- for other processes of a test's own ------------------------------------------------------ */

/* A board that this process and the next one share; then this program, started anew with the word
 * as its first argument, which takes *fd over. */
void *peer_board_make(size_t size, int *fd);
pid_t peer_spawn(const char *word, int fd);

/* For such a process, first of all: it never lives longer than its test. */
void spawned_begin(void);

/* kill -9; it must not have ended by itself before. */
void spawned_kill(pid_t pid);
/* Whether it has ended, which must be by exit(0). Does not wait. */
bool spawned_has_ended(pid_t pid);
/* Within 30 s, by this signal; 0: by exit(0). */
void spawned_await_end(pid_t pid, int signal);

/* For main(), first of all: the board, if this process was started with that word; else NULL. */
void *peer_board_open(const char *word, int argc, char **argv, size_t size);

/* --- for the process under test --------------------------------------------------------------- */

/* A runtime directory of the test's own; removed by runtime_done(), which fails if sockets are left
 * in it. */
void runtime_make(void);
int runtime_done(void); /* 0, which main() may return */

/* For main(): so many seconds for the test, a log of errors alone, and such a directory. */
void test_begin(unsigned seconds);

/* Sends picture number `number`: in a lent slot, or from memory of the application with other
 * strides. */
void send_lent_at(const char *file, int line, struct gpud_sender *sender,
                  const struct gpud_layout *layout, uint64_t number);
#define SEND_LENT(sender, layout, number) send_lent_at(__FILE__, __LINE__, sender, layout, number)
/* A block of sound or data that uses so many bytes. */
void send_block_at(const char *file, int line, struct gpud_sender *sender,
                   const struct gpud_layout *layout, uint64_t bytes, uint64_t number);
#define SEND_BLOCK(sender, layout, bytes, number) \
    send_block_at(__FILE__, __LINE__, sender, layout, bytes, number)
void send_foreign_at(const char *file, int line, struct gpud_sender *sender,
                     struct gpud_device *host, const struct gpud_layout *layout, uint64_t number);
#define SEND_FOREIGN(sender, host, layout, number) \
    send_foreign_at(__FILE__, __LINE__, sender, host, layout, number)

/* Steps the receiver, whose part of a handshake is done where it waits for a frame, until the
 * sender in this process has so many. */
void peer_link_at(const char *file, int line, struct gpud_sender *sender,
                  struct gpud_receiver *receiver, unsigned receivers);
#define PEER_LINK(sender, receiver, receivers) \
    peer_link_at(__FILE__, __LINE__, sender, receiver, receivers)

/* Writes picture number `number` into a frame, and the number beside it; and checks that a frame
 * has the picture of its number. */
void frame_write(struct gpud_frame *frame, const struct gpud_layout *layout, uint64_t number);
void frame_check_at(const char *file, int line, struct gpud_frame *frame,
                    const struct gpud_layout *layout, uint64_t number);
#define FRAME_CHECK(frame, layout, number) frame_check_at(__FILE__, __LINE__, frame, layout, number)

/* The address of a stream with this name: the name itself, or, where GPUD_TEST_ADDRESS is set
 * (rdma://127.0.0.1:7174), behind that. Valid until the next call. */
const char *peer_address(const char *name);

/* A TCP port of this machine that no program has, below those of outgoing connections; two programs
 * at once hardly get the same. */
uint16_t find_free_port(void);

/* Writes a key's file, which only this user can read. */
void make_key(const char *path, const char *text);

/* The key that such an address wants: GPUD_TEST_KEY, a file; NULL on one host. */
const char *peer_key(void);

/* Both ends in one process map the ring page at two addresses, and the thread sanitizer does not
 * see that what is stored at the one is loaded at the other: for it alone, a word that orders what
 * the page orders. */
void peer_order(void);

/* What this process has open; see /proc. */
struct baseline {
    unsigned fds, maps, threads;
};
/* Nothing with GPUD_TEST_NO_LEAKS: tools that live in the process have descriptors of their own. */
struct baseline baseline_take(void);
/* Back to it within 5 s. */
void baseline_check_at(const char *file, int line, struct baseline before);
#define BASELINE_CHECK(before) baseline_check_at(__FILE__, __LINE__, before)

#endif

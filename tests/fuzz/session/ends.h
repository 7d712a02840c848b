/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The real ends: a sender with its own thread, an honest receiver connected to it, and a second
 * receiver at the far side of the bent link, each with a thread that acquires. What the honest one
 * gets is checked byte by byte and in its order; what the other gets must at least be what it was
 * told. */
#ifndef GPUD_TESTS_FUZZ_SESSION_ENDS_H
#define GPUD_TESTS_FUZZ_SESSION_ENDS_H

#include "stream/receiver/receiver.h"
#include "stream/sender/sender.h"

#define ENDS_LAYOUTS 4
#define ENDS_HOLD_MAX 8
#define ENDS_EOS_MAX 32

struct ends_reader {
    struct gpud_receiver *receiver;
    pthread_t thread;
    bool honest, runs;
    atomic_bool stop;
    atomic_bool hurry;       /* its handshake's deadline is near */
    atomic_uint hold;        /* frames that it keeps */
    atomic_uint calls;       /* of acquire that came back */
    atomic_uint state;       /* enum gpud_receiver_state, after the last of them */
    atomic_ullong frames;    /* that it got */
    struct gpud_layout told; /* by the last FORMAT event; its thread's, as all below */
    uint32_t told_epoch;
    uint64_t last, last_number;
    unsigned ends;
    struct gpud_frame *held[ENDS_HOLD_MAX];
    unsigned held_count;
};

struct ends {
    struct gpud_sender *sender;
    pthread_t sender_thread;
    struct ends_reader honest, bent;
    struct gpud_layout layout[ENDS_LAYOUTS];
    unsigned layout_now;
    atomic_ullong submitted;
    bool held_up; /* by a bent receiver, for which the sender blocks */
    atomic_uint ends_sent;
    uint64_t end_after[ENDS_EOS_MAX]; /* frames */
};

/* Contexts and what else lives as long as the program. */
void ends_prepare(void);

/* A sender on `address` with so many slots, configured, and the honest receiver streaming. */
void ends_open(struct ends *ends, const char *address, uint32_t slots);

/* The receiver of the bent link. */
void ends_open_bent(struct ends *ends, const char *address, uint32_t slots,
                    enum gpud_slow_receiver policy, const char *route);
void ends_close_bent(struct ends *ends);

/* As an application does. */
void ends_submit(struct ends *ends);
void ends_event(struct ends *ends, bool sticky);
void ends_end_stream(struct ends *ends);
void ends_configure(struct ends *ends, unsigned layout);

/* Announces a frame, and looks at the counters. */
void ends_announce(struct ends *ends);

/* Handshakes that stand still have deadlines, which are brought near, and end by them, on both
 * sides. */
void ends_expect_deadlines(struct ends *ends);

/* The sender knows of no receiver but the honest one, by its deadline; and the bent receiver of no
 * sender. */
void ends_expect_link_gone(struct ends *ends);
void ends_expect_bent_offline(struct ends *ends);

/* Expects that no thread spins. */
void ends_expect_quiet(struct ends *ends);

/* The honest receiver has all that was submitted. */
void ends_expect_honest(struct ends *ends);

void ends_close(struct ends *ends);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process that lives on: it receives or sends by work on one stream, and can tell afterwards
 * which frames were whole. Also the victims that it does that with, which are started ahead. */
#ifndef GPUD_TESTS_SURVIVOR_H
#define GPUD_TESTS_SURVIVOR_H

#include "support/gpu.h"
#include "victim.h"

#define SURVIVOR_ADDRESS "kill-cuda"
#define AGAIN (10 * GPUD_SEC) /* a frame of, or a place for, the next peer */
#define FREED (5 * GPUD_SEC)  /* whatever a death holds up goes on by then */
#define STANDING_BY 3         /* victims that are opened while others die */

struct scene {
    const char *here, *other, *route; /* devices, and the way between them */
    struct gpu gpu;
    struct gpu far; /* the other side's device, to look at its memory */
    size_t slack;   /* bytes that others may take on a device that is not ours alone */
    struct gpud_layout layout;
};
extern struct scene scene;

/* --- victims ---------------------------------------------------------------------------------- */

struct victims {
    struct victim_orders orders;
    struct victim victim[STANDING_BY];
    int started, used, wanted;
};

struct victims victims_of(bool sends, int wanted);
struct victim *victims_next(struct victims *victims);

/* What is left of one that was killed, or has left: nothing may have been wrong. */
void victims_check(struct victim *victim);

/* --- this side receives ----------------------------------------------------------------------- */

struct seen {
    uint64_t number;
    bool whole;  /* the sender's device had finished it while the sender was alive */
    bool broken; /* and this one it never can */
    struct gpud_frame *frame;
};

struct input {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    struct seen seen[GPU_PLACES];
    unsigned count;
    unsigned room; /* frames that are kept, from the next one on */
    bool broken;   /* whatever comes now is */
    uint64_t whole, corrupted;
};

void input_open(struct input *input, struct gpud_context *context);
void input_close(struct input *input); /* and the context */

/* Everything by the stream: the frame goes back before the device has so much as looked at it. */
void input_take(struct input *input, struct gpud_frame *frame);

/* Takes frames until one comes that the sender's device does not finish. What came before it is
 * whole, and the device says so. Without `hold`: some frames, whole up to a point. */
void input_take_to_the_gap(struct input *input, struct victim_board *board, bool hold);

/* A few frames more. */
void input_take_some(struct input *input);

/* To the end of the link, which tells its reason. */
void input_take_to_the_end(struct input *input, struct gpud_error *error);

/* Looks at all that was taken since the last time, and lets go of what was kept: it must be whole,
 * or flagged, as it is due. The stream must be idle. */
void input_check(struct input *input);

/* --- this side sends -------------------------------------------------------------------------- */

struct output {
    struct gpud_context *context;
    struct gpud_sender *sender;
    struct gpud_frame *pending; /* written, and not taken yet */
    uint64_t number;
    int64_t longest; /* that a frame took */
};

void output_open(struct output *output, struct gpud_context *context,
                 enum gpud_slow_receiver policy);
void output_close(struct output *output); /* and the context */

/* false: no slot or no place within the time; the next call goes on from there. */
bool output_send(struct output *output, int64_t timeout);

/* Until a word of the board has come so far. */
void output_send_until(struct output *output, atomic_ullong *word, unsigned long long wanted,
                       const char *what);

/* Until the receiver, whose device is held up, has all that it may have. Whether ours waits for it
 * with work of the application's behind. */
bool output_send_until_stuck(struct output *output, struct victim_board *board);

unsigned random_below(unsigned limit);

#endif

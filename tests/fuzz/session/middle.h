/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The man in the middle: a receiver connects to it, it connects to the sender, and forwards, or
 * drops, the messages of each. It keeps them for later, and has access to the ring page. */
#ifndef GPUD_TESTS_FUZZ_SESSION_MIDDLE_H
#define GPUD_TESTS_FUZZ_SESSION_MIDDLE_H

#include "../fuzz.h"
#include "wire/wire.h"

#include <stdbool.h>

enum middle_side { MIDDLE_RECEIVER, MIDDLE_SENDER, MIDDLE_SIDES };

#define KEPT_TYPES (GPUD_MESSAGE_BYE + 1)

struct middle {
    int listener;
    const char *to;                     /* the sender's socket */
    int fd[MIDDLE_SIDES];               /* towards each; −1: closed */
    struct packet *held[MIDDLE_SIDES];  /* from each side: comes after the next one */
    struct packet *kept[KEPT_TYPES][2]; /* the last of each type, and the one before */
    struct gpud_page *page;             /* of the receiver's last ACCEPT */
    /* Memory of our own in place of what came by: what it stands for, and the same bytes. */
    int twin_of;
    uint8_t *twin;
    size_t twin_size;
};

/* Listens on the path, for a sender on the other. */
void middle_open(struct middle *middle, const char *path, const char *to);
void middle_stop_listening(struct middle *middle);
void middle_close(struct middle *middle);

/* Waits, so many ms at most, for a message or a connection, and deals with it: a message is bent as
 * the input says (NULL: handed on as it is). false: nothing came. */
bool middle_turn(struct middle *middle, struct fuzz_input *input, int wait);

/* Injects a message that neither side sent. */
void middle_inject(struct middle *middle, struct fuzz_input *input);

void middle_hang_up(struct middle *middle, enum middle_side side);

/* --- lies in shared memory -------------------------------------------------------------------- */

void lie_word(struct gpud_page *page, struct fuzz_input *input);
void lie_descriptor(struct gpud_page *page, struct fuzz_input *input);
void lie_frame(struct gpud_page *page, struct fuzz_input *input); /* publishes one */
void lie_anywhere(struct middle *middle, struct fuzz_input *input);

#endif

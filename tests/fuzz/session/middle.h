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

#define PACKET_FDS 72

/* A message, with what is sent along; `own` are the descriptors to close. */
struct packet {
    uint8_t bytes[GPUD_MESSAGE_MAX + 16];
    size_t size;
    int fds[PACKET_FDS], own[PACKET_FDS];
    size_t fd_count, own_count;
};

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

/* --- packets (packet.c) ----------------------------------------------------------------------- */

/* From a socket: 1, 0 nothing there, −1 the end. */
int packet_receive(struct packet *packet, int fd);
void packet_send(const struct packet *packet, int fd);
struct packet *packet_copy(const struct packet *packet);
void packet_free(struct packet *packet);
void packet_take(struct packet *packet, int fd); /* it closes this one too */

/* --- mutation (mutate.c) ---------------------------------------------------------------------- */

/* Changes a message's bytes, fields, length or descriptors. */
void mutate_packet(struct middle *middle, struct packet *packet, struct fuzz_input *input);

/* A message to send out of turn, altered or not: an earlier one, or a forged one. */
struct packet *forge_packet(struct middle *middle, struct fuzz_input *input,
                            enum middle_side *from);

/* The type that the bytes say, or 0. */
static inline unsigned packet_type(const struct packet *packet)
{
    unsigned type = packet->size >= 16 ? packet->bytes[6] : 0;
    return type < KEPT_TYPES ? type : 0;
}

/* --- lies in shared memory (lies.c) ----------------------------------------------------------- */

void wake_both(struct gpud_page *page);
void lie_word(struct gpud_page *page, struct fuzz_input *input);
void lie_descriptor(struct gpud_page *page, struct fuzz_input *input);
void lie_frame(struct gpud_page *page, struct fuzz_input *input); /* publishes one */
void lie_anywhere(struct middle *middle, struct fuzz_input *input);

#endif

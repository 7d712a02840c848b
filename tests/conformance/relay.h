/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two links in a row, in one process: a sender, a receiver with the next sender behind it, and the
 * last receiver. Rings of two slots, so that one given back too early is written again at once. */
#ifndef GPUD_TESTS_RELAY_H
#define GPUD_TESTS_RELAY_H

#include <gpudirect/gpudirect.h>

struct relay {
    struct gpud_context *context;
    struct gpud_layout layout;
    struct gpud_sender *first, *next;
    struct gpud_receiver *between, *last;
    char directory[32];
};

/* devices: of the sender, of what is between, of the last receiver. Exits with 77 if one of them is
 * not there. Sockets lie in a directory of their own, which goes with the links. */
void relay_open(struct relay *relay, char **devices);
void relay_close(struct relay *relay);

/* Writes the picture of this number into a slot of the first sender, and submits it. */
void relay_send(struct relay *relay, uint64_t number);

/* The next frame at the last receiver is that picture, every byte of it. */
void relay_check(struct relay *relay, uint64_t number);

#endif

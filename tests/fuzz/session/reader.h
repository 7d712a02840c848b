/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver's thread, and what it checks. */
#ifndef GPUD_TESTS_FUZZ_SESSION_READER_H
#define GPUD_TESTS_FUZZ_SESSION_READER_H

#include "ends.h"

void reader_start(struct ends_reader *reader, struct ends *ends, struct gpud_context *context,
                  const char *address, uint32_t slots, enum gpud_slow_receiver policy,
                  const char *route);

/* Ends the thread, gives back what it holds, and destroys the receiver. */
void reader_stop(struct ends_reader *reader);

/* Whether a receiver in this state waits for what its sender has to say by a deadline. */
static inline bool reader_shakes_hands(enum gpud_receiver_state state)
{
    return state != GPUD_RECEIVER_OFFLINE && state != GPUD_RECEIVER_IDLE &&
           state != GPUD_RECEIVER_STREAMING;
}

/* Picture number `number`, different in each word. */
void reader_write_picture(void *data, uint64_t size, uint64_t number);

#endif

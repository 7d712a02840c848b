/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling of a hand-off that copies nothing: words in shared memory between two processes, one
 * there and one back a frame, as many on their way as there are slots. A side that finds nothing
 * sleeps, and is woken only then. */
#ifndef GPUD_TOOLS_CEILINGS_WORDS_H
#define GPUD_TOOLS_CEILINGS_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* The shared memory: a descriptor to be closed; -1: errno. */
int raw_words_open(void);

/* Words a second, which another process answers; that one ends then. 0: it does not answer within
 * 5 s, or `stopped` says so. */
double raw_words_rate(int page, uint32_t slots, bool (*stopped)(void));

/* The other process: answers each word with one, until it is told to end. false: errno. */
bool raw_words_answer(int page);

#endif

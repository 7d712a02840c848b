/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling of a hand-off that copies nothing: words in shared memory between two processes, one
 * each way for a frame, as many in flight as there are slots. A side sleeps if it finds nothing,
 * and is woken only then. */
#ifndef GPUD_TOOLS_CEILINGS_WORDS_H
#define GPUD_TOOLS_CEILINGS_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* The shared memory: a descriptor to be closed; -1: errno. */
int raw_words_open(void);

/* Words a second that another process answers; it ends afterwards. 0: it does not answer within 5
 * s, or `stopped` returned true. */
double raw_words_rate(int page, uint32_t slots, bool (*stopped)(void));

/* The other process: answers each word with one, until it is told to end. false: errno. */
bool raw_words_answer(int page);

#endif

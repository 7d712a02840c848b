/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capture/machine.h"

#include <stdbool.h>
#include <stddef.h>

/* Bits of the states that a row is for, and its new state: one of these, or the same as before. */
enum {
    IDLE = 1 << GPUD_CAPTURE_IDLE,
    DEFERRED = 1 << GPUD_CAPTURE_DEFERRED,
    STREAMING = 1 << GPUD_CAPTURE_STREAMING,
    DRAINING = 1 << GPUD_CAPTURE_DRAINING,
    FAILED = 1 << GPUD_CAPTURE_FAILED,
    LIVE = DEFERRED | STREAMING | DRAINING,
    ANY = IDLE | LIVE | FAILED,
    PRESENT = 1 << GPUD_CARD_PRESENT,
    UNPLUGGED = 1 << GPUD_CARD_UNPLUGGED,
    AWAITED = 1 << GPUD_CARD_AWAITED,
    ABSENT = UNPLUGGED | AWAITED,
    SAME = 0,
};

struct row {
    enum gpud_capture_event event;
    unsigned phases, cards;
    unsigned phase, card;
    enum gpud_capture_action action;
};

#define ROW(event, phases, cards, phase, card, action)                                \
    {                                                                                 \
        GPUD_CAPTURE_ON_##event, phases, cards, phase, card, GPUD_CAPTURE_DO_##action \
    }

/* clang-format off */
static const struct row table[] = {
    /*  event          in phase         card             to phase   card       action */
    ROW(CONFIGURE,     ANY,             PRESENT,         IDLE,      SAME,      RELEASE),
    ROW(CONFIGURE,     IDLE | FAILED,   ABSENT,          IDLE,      SAME,      REOPEN),
    ROW(START,         IDLE,            PRESENT,         SAME,      SAME,      START),
    ROW(START,         IDLE | FAILED,   ABSENT,          SAME,      SAME,      REFUSE),
    ROW(INPUT,         IDLE | DEFERRED | FAILED, PRESENT, SAME,     SAME,      SELECT),
    ROW(INPUT,         STREAMING | DRAINING,     PRESENT, DRAINING, SAME,      REPLACE),
    ROW(INPUT,         IDLE | FAILED,   ABSENT,          SAME,      SAME,      REFUSE),
    ROW(STOP,          ANY,             PRESENT,         IDLE,      SAME,      DROP),
    ROW(STOP,          IDLE | FAILED,   ABSENT,          IDLE,      SAME,      DROP),
    ROW(WAIT,          IDLE | FAILED,   PRESENT,         SAME,      SAME,      PROBE),
    ROW(WAIT,          IDLE | FAILED,   UNPLUGGED,       SAME,      SAME,      WATCH),

    ROW(CHANGED,       STREAMING,       PRESENT,         DRAINING,  SAME,      REPLACE),
    ROW(RELEASED,      DRAINING,        PRESENT,         SAME,      SAME,      REPLACE),
    ROW(SIGNAL,        DEFERRED,        PRESENT,         SAME,      SAME,      START),
    ROW(METHOD_FAILED, STREAMING,       PRESENT,         SAME,      SAME,      FALL_BACK),
    ROW(DUE,           IDLE | FAILED,   AWAITED,         SAME,      SAME,      RETURN),

    ROW(FAILED,        IDLE,            PRESENT,         SAME,      SAME,      NOTHING),
    ROW(FAILED,        LIVE,            PRESENT,         FAILED,    SAME,      END),
    ROW(FAILED,        IDLE | FAILED,   AWAITED,         FAILED,    PRESENT,   WELCOME),
    ROW(UNPLUGGED,     IDLE | FAILED,   PRESENT,         SAME,      UNPLUGGED, NOTHING),
    ROW(UNPLUGGED,     LIVE,            PRESENT,         FAILED,    UNPLUGGED, END),

    ROW(HELD,          DRAINING,        PRESENT,         SAME,      SAME,      NOTHING),
    ROW(HELD,          IDLE | STREAMING, PRESENT,        FAILED,    SAME,      END),
    ROW(STARTED,       IDLE | LIVE,     PRESENT,         STREAMING, SAME,      NOTHING),
    ROW(STARTED,       IDLE | FAILED,   AWAITED,         STREAMING, PRESENT,   WELCOME),
    ROW(NO_SIGNAL,     IDLE | DEFERRED | DRAINING, PRESENT, DEFERRED, SAME,    NOTHING),
    ROW(NO_SIGNAL,     IDLE | FAILED,   AWAITED,         DEFERRED,  PRESENT,   WELCOME),
    ROW(WATCHED,       IDLE | FAILED,   UNPLUGGED,       SAME,      AWAITED,   LET_GO),
    ROW(RETURNED,      IDLE | FAILED,   ABSENT,          IDLE,      PRESENT,   WELCOME),
    ROW(ABSENT,        IDLE | FAILED,   AWAITED,         SAME,      SAME,      LET_GO),
};
/* clang-format on */

struct gpud_capture_step gpud_capture_next(struct gpud_capture_state state,
                                           enum gpud_capture_event event)
{
    struct gpud_capture_step step = {.state = state, .action = GPUD_CAPTURE_DO_NOTHING};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct row *row = &table[i];
        if (row->event != event || !(row->phases >> state.phase & 1) ||
            !(row->cards >> state.card & 1))
            continue;
        if (row->phase != SAME)
            step.state.phase = (enum gpud_capture_phase)__builtin_ctz(row->phase);
        if (row->card != SAME)
            step.state.card = (enum gpud_capture_card)__builtin_ctz(row->card);
        step.action = row->action;
        break;
    }
    return step;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The state machine of a capture. actions.c feeds it with events, and carries out what it answers.
 * After a colon: the outcome of the action.
 *
 *               START: STARTED
 *   ┌──────┐ ─────────────────────▶ ┌───────────┐
 *   │ IDLE │                        │ STREAMING │ ── CHANGED, INPUT ──┐
 *   └──────┘ ───┐       ┌─────────▶ └───────────┘                     ▼
 *    ▲          │ START:│ SIGNAL:    ▲                         ┌──────────┐ ──┐ RELEASED:
 *    │       NO_SIGNAL  │ STARTED    └─────── STARTED ──────── │ DRAINING │   │ HELD
 *    │          ▼       │                                      └──────────┘ ◀─┘
 *    │        ┌──────────┐                                        │
 *    │        │ DEFERRED │ ◀──────────────── NO_SIGNAL ───────────┘
 *    │        └──────────┘
 *   STOP or CONFIGURE, in any phase
 *
 *   FAILED follows STREAMING, DRAINING and DEFERRED by FAILED or UNPLUGGED; it follows a CONFIGURE
 *   if frames are HELD.
 *
 * The card. If it is not PRESENT, the phase is IDLE or FAILED.
 *
 *                            CONFIGURE: RETURNED
 *        ┌──────────────────────────┬─────────────────────────────┐
 *        ▼                          │                             │
 *   ┌─────────┐  UNPLUGGED   ┌───────────┐  WAIT: WATCHED   ┌─────────┐ ──┐ DUE:
 *   │ PRESENT │ ───────────▶ │ UNPLUGGED │ ───────────────▶ │ AWAITED │   │ ABSENT
 *   └─────────┘              └───────────┘                  └─────────┘ ◀─┘
 *        ▲                                                        │
 *        └── DUE: RETURNED, or its stream STARTED, NO_SIGNAL, FAILED */
/* clang-format on */
#ifndef GPUD_CAPTURE_MACHINE_H
#define GPUD_CAPTURE_MACHINE_H

enum gpud_capture_phase {
    GPUD_CAPTURE_IDLE,      /* not configured: no ring */
    GPUD_CAPTURE_DEFERRED,  /* configured; the driver does not start without a signal: no ring */
    GPUD_CAPTURE_STREAMING, /* the driver fills a ring */
    GPUD_CAPTURE_DRAINING,  /* another ring follows when held frames of this one are released */
    GPUD_CAPTURE_FAILED,    /* every acquire reports why; a ring, if there is one, has ended */
    GPUD_CAPTURE_PHASES
};

enum gpud_capture_card {
    GPUD_CARD_PRESENT,   /* its node is open */
    GPUD_CARD_UNPLUGGED, /* its node must be opened again */
    GPUD_CARD_AWAITED,   /* the folders in which its node can appear are watched */
    GPUD_CARD_STATES
};

struct gpud_capture_state {
    enum gpud_capture_phase phase;
    enum gpud_capture_card card;
};

enum gpud_capture_event {
    /* The application's calls. */
    GPUD_CAPTURE_ON_CONFIGURE, /* a mode is about to be set */
    GPUD_CAPTURE_ON_START,     /* it is set */
    GPUD_CAPTURE_ON_INPUT,     /* another input is wanted */
    GPUD_CAPTURE_ON_STOP,
    GPUD_CAPTURE_ON_WAIT, /* for a card that was unplugged */
    /* Noticed. */
    GPUD_CAPTURE_ON_CHANGED,       /* the signal: it needs another ring */
    GPUD_CAPTURE_ON_RELEASED,      /* held frames, perhaps all of them */
    GPUD_CAPTURE_ON_SIGNAL,        /* there is one again */
    GPUD_CAPTURE_ON_METHOD_FAILED, /* the card's writes do not arrive */
    GPUD_CAPTURE_ON_DUE,           /* a node appeared, or time has passed */
    /* Noticed, or the outcome of an action. */
    GPUD_CAPTURE_ON_FAILED, /* the driver, a device, or a new ring */
    GPUD_CAPTURE_ON_UNPLUGGED,
    /* Outcomes of actions. */
    GPUD_CAPTURE_ON_HELD,      /* the driver keeps its buffers, for frames are held */
    GPUD_CAPTURE_ON_STARTED,   /* the driver streams */
    GPUD_CAPTURE_ON_NO_SIGNAL, /* it does not start without one */
    GPUD_CAPTURE_ON_WATCHED,   /* the folders of nodes are */
    GPUD_CAPTURE_ON_RETURNED,  /* the card is open again */
    GPUD_CAPTURE_ON_ABSENT,    /* it cannot be used yet */
    GPUD_CAPTURE_EVENTS        /* none */
};

/* With the events that may come of each. */
enum gpud_capture_action {
    GPUD_CAPTURE_DO_NOTHING,
    GPUD_CAPTURE_DO_REFUSE,    /* the call: the card is unplugged */
    GPUD_CAPTURE_DO_RELEASE,   /* end the stream, if frames are not held: HELD */
    GPUD_CAPTURE_DO_DROP,      /* end the stream in any case */
    GPUD_CAPTURE_DO_REOPEN,    /* the same, and open the card: RETURNED, ABSENT */
    GPUD_CAPTURE_DO_START,     /* STARTED, NO_SIGNAL, FAILED, UNPLUGGED */
    GPUD_CAPTURE_DO_REPLACE,   /* the ring, and the input if asked for: HELD, and as START */
    GPUD_CAPTURE_DO_FALL_BACK, /* to the next method: STARTED, HELD, FAILED, UNPLUGGED */
    GPUD_CAPTURE_DO_SELECT,    /* the other input */
    GPUD_CAPTURE_DO_END,       /* keep the failure, and show it to event loops */
    GPUD_CAPTURE_DO_PROBE,     /* ask the driver whether it is still there: UNPLUGGED */
    GPUD_CAPTURE_DO_WATCH,     /* the folders of nodes: WATCHED */
    GPUD_CAPTURE_DO_LET_GO,    /* close the node: otherwise its number stays in use */
    GPUD_CAPTURE_DO_RETURN,    /* open and start: RETURNED, STARTED, NO_SIGNAL, FAILED, ABSENT */
    GPUD_CAPTURE_DO_WELCOME,   /* stop watching for the card */
    GPUD_CAPTURE_ACTIONS
};

struct gpud_capture_step {
    struct gpud_capture_state state;
    enum gpud_capture_action action;
};

/* What an event leads to. An event that means nothing in this state changes nothing. */
struct gpud_capture_step gpud_capture_next(struct gpud_capture_state state,
                                           enum gpud_capture_event event);

#endif

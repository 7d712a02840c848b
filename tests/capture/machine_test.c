/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state machine of a capture: each state with each event, and what holds of all states that can
 * be reached. */
#include "capture/internal.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#define STATES (GPUD_CAPTURE_PHASES * GPUD_CARD_STATES)

static const char *const events[GPUD_CAPTURE_EVENTS + 1] = {
    "configure", "start",   "input",    "stop",   "wait",      "changed", "released",
    "signal",    "method",  "due",      "failed", "unplugged", "held",    "started",
    "no-signal", "watched", "returned", "absent", "",
};

/* clang-format off */
/* What each event does in each state: the new phase, the new card and the action, in letters.
 *
 *   phases   I idle, D deferred, S streaming, d draining, F failed
 *   cards    p present, u unplugged, a awaited
 *   actions  - nothing, x refuse, r release, D drop, O reopen, S start, R replace, B fall back,
 *            I select, E end, P probe, W watch, L let go, T return, C welcome
 *   ---      nothing happens: the event is of another state, or late
 *
 * Without the card there is no stream: the other states are not reached, and nothing happens. */
static const char *const expected[GPUD_CAPTURE_EVENTS] = {
    /*               Ip  Iu  Ia  Dp  Sp  dp  Fp  Fu  Fa */
    /* configure */ "Ipr IuO IaO Ipr Ipr Ipr Ipr IuO IaO",
    /* start     */ "IpS Iux Iax --- --- --- --- Fux Fax",
    /* input     */ "IpI Iux Iax DpI dpR dpR FpI Fux Fax",
    /* stop      */ "IpD IuD IaD IpD IpD IpD IpD IuD IaD",
    /* wait      */ "IpP IuW --- --- --- --- FpP FuW ---",
    /* changed   */ "--- --- --- --- dpR --- --- --- ---",
    /* released  */ "--- --- --- --- --- dpR --- --- ---",
    /* signal    */ "--- --- --- DpS --- --- --- --- ---",
    /* method    */ "--- --- --- --- SpB --- --- --- ---",
    /* due       */ "--- --- IaT --- --- --- --- --- FaT",
    /* failed    */ "--- --- FpC FpE FpE FpE --- --- FpC",
    /* unplugged */ "Iu- --- --- FuE FuE FuE Fu- --- ---",
    /* held      */ "FpE --- --- --- FpE --- --- --- ---",
    /* started   */ "Sp- --- SpC Sp- --- Sp- --- --- SpC",
    /* no-signal */ "Dp- --- DpC --- --- Dp- --- --- DpC",
    /* watched   */ "--- IaL --- --- --- --- --- FaL ---",
    /* returned  */ "--- IpC IpC --- --- --- --- IpC IpC",
    /* absent    */ "--- --- IaL --- --- --- --- --- FaL",
};
/* clang-format on */

static const char phases[] = "IDSdF", cards[] = "pua", actions[] = "-xrDOSRBIEPWLTC";

/* The events that come of each action; 0: none. */
#define ON(event) (1u << GPUD_CAPTURE_ON_##event)
#define OUTCOMES_OF_START (ON(STARTED) | ON(NO_SIGNAL) | ON(FAILED) | ON(UNPLUGGED))
static const unsigned outcomes[GPUD_CAPTURE_ACTIONS] = {
    [GPUD_CAPTURE_DO_RELEASE] = ON(HELD),
    [GPUD_CAPTURE_DO_REOPEN] = ON(RETURNED) | ON(ABSENT),
    [GPUD_CAPTURE_DO_START] = OUTCOMES_OF_START,
    [GPUD_CAPTURE_DO_REPLACE] = OUTCOMES_OF_START | ON(HELD),
    [GPUD_CAPTURE_DO_FALL_BACK] = ON(STARTED) | ON(HELD) | ON(FAILED) | ON(UNPLUGGED),
    [GPUD_CAPTURE_DO_PROBE] = ON(UNPLUGGED),
    [GPUD_CAPTURE_DO_WATCH] = ON(WATCHED),
    [GPUD_CAPTURE_DO_RETURN] = ON(RETURNED) | ON(STARTED) | ON(NO_SIGNAL) | ON(FAILED) | ON(ABSENT),
};
static struct gpud_capture_state state_at(int index)
{
    return (struct gpud_capture_state){(enum gpud_capture_phase)(index / GPUD_CARD_STATES),
                                       (enum gpud_capture_card)(index % GPUD_CARD_STATES)};
}

static int index_of(struct gpud_capture_state state)
{
    return (int)state.phase * GPUD_CARD_STATES + (int)state.card;
}

static struct gpud_capture_step step_from(int state, int event)
{
    return gpud_capture_next(state_at(state), (enum gpud_capture_event)event);
}

static void test_each_pair(void)
{
    static const char columns[] = "Ip  Iu  Ia  Dp  Sp  dp  Fp  Fu  Fa";
    for (int event = 0; event < GPUD_CAPTURE_EVENTS; event++)
        for (int state = 0; state < STATES; state++) {
            struct gpud_capture_step step = step_from(state, event);
            const char from[] = {phases[state_at(state).phase], cards[state_at(state).card], '\0'};
            const char got[] = {phases[step.state.phase], cards[step.state.card],
                                actions[step.action], '\0'};
            const char *column = strstr(columns, from);
            const char *cell = column ? expected[event] + (column - columns) : "---";
            char wanted[4];
            snprintf(wanted, sizeof(wanted), "%.3s", cell);
            if (strcmp(wanted, "---") == 0)
                snprintf(wanted, sizeof(wanted), "%s-", from);
            CHECK(strcmp(got, wanted) == 0, "%s in %s: %s instead of %s", events[event], from, got,
                  wanted);
        }
}

static bool is_live(struct gpud_capture_state state)
{
    return state.phase != GPUD_CAPTURE_IDLE && state.phase != GPUD_CAPTURE_FAILED;
}

/* Whether an event can come in this state by itself. The others are only outcomes of actions. */
static bool is_noticed(int state, int event)
{
    const unsigned outcome =
        ON(HELD) | ON(STARTED) | ON(NO_SIGNAL) | ON(WATCHED) | ON(RETURNED) | ON(ABSENT);
    const unsigned live = ON(FAILED) | ON(UNPLUGGED);
    return !(outcome >> event & 1) && (is_live(state_at(state)) || !(live >> event & 1));
}

/* A state, and how the capture got there. */
struct visit {
    bool reached;
    int from, event;
};

/* Follows an event with every outcome of its action, as actions.c does. Calls seen() with each
 * state in which that ends. */
static void follow(int state, int event, unsigned depth,
                   void (*seen)(void *arg, int from, int event, int to), void *arg)
{
    struct gpud_capture_step step = step_from(state, event);
    int to = index_of(step.state);
    CHECK(depth < 3, "%s in state %d asks for actions without end", events[event], state);
    seen(arg, state, event, to);
    for (int next = 0; next < GPUD_CAPTURE_EVENTS; next++)
        if (outcomes[step.action] >> next & 1)
            follow(to, next, depth + 1, seen, arg);
}

static void reach(void *arg, int from, int event, int to)
{
    struct visit *visits = arg;
    if (!visits[to].reached)
        visits[to] = (struct visit){true, from, event};
}

/* Every state that some history leads to, from one that was just opened. */
static void walk(int start, unsigned without, struct visit visits[STATES])
{
    bool more = true;
    memset(visits, 0, STATES * sizeof(*visits));
    visits[start].reached = true;
    while (more) {
        bool before[STATES];
        for (int i = 0; i < STATES; i++)
            before[i] = visits[i].reached;
        for (int state = 0; state < STATES; state++)
            for (int event = 0; before[state] && event < GPUD_CAPTURE_EVENTS; event++)
                if (is_noticed(state, event) && !(without >> event & 1))
                    follow(state, event, 0, reach, visits);
        more = false;
        for (int i = 0; i < STATES; i++)
            more |= visits[i].reached != before[i];
    }
}

/* With an unplugged card the phase is IDLE or FAILED; all else is reached. */
static void test_reached(struct visit visits[STATES])
{
    walk(0, 0, visits);
    for (int i = 0; i < STATES; i++) {
        struct gpud_capture_state state = state_at(i);
        bool possible = state.card == GPUD_CARD_PRESENT || !is_live(state);
        CHECK(visits[i].reached == possible, "%c%c is %sreached", phases[state.phase],
              cards[state.card], visits[i].reached ? "" : "not ");
    }
}

/* No outcome of an action is lost: where it is carried out, each changes the state or asks for an
 * action, unless the state is already the one that it means. */
static void handled(void *arg, int from, int event, int to)
{
    (void)arg;
    static const unsigned stays[GPUD_CAPTURE_PHASES] = {
        [GPUD_CAPTURE_IDLE] = ON(FAILED) | ON(ABSENT), /* configure reports it */
        [GPUD_CAPTURE_DEFERRED] = ON(NO_SIGNAL),
        [GPUD_CAPTURE_STREAMING] = ON(STARTED),
        [GPUD_CAPTURE_DRAINING] = ON(HELD),
    };
    struct gpud_capture_step step = step_from(from, event);
    bool ignored = from == to && step.action == GPUD_CAPTURE_DO_NOTHING;
    CHECK(!ignored || stays[state_at(from).phase] >> event & 1, "%s is lost in %c%c", events[event],
          phases[state_at(from).phase], cards[state_at(from).card]);
}

static void test_outcomes(const struct visit visits[STATES])
{
    for (int state = 0; state < STATES; state++)
        for (int event = 0; visits[state].reached && event < GPUD_CAPTURE_EVENTS; event++) {
            struct gpud_capture_step step = step_from(state, event);
            if (!is_noticed(state, event))
                continue;
            for (int next = 0; next < GPUD_CAPTURE_EVENTS; next++)
                if (outcomes[step.action] >> next & 1)
                    follow(index_of(step.state), next, 1, handled, NULL);
        }
}

static void test_stop(const struct visit visits[STATES])
{
    for (int state = 0; state < STATES; state++) {
        struct gpud_capture_step step = step_from(state, GPUD_CAPTURE_ON_STOP);
        if (!visits[state].reached)
            continue;
        CHECK_EQUAL(step.state.phase, GPUD_CAPTURE_IDLE);
        CHECK_EQUAL(step.state.card, state_at(state).card);
        CHECK_EQUAL(step.action, GPUD_CAPTURE_DO_DROP);
    }
}

/* Whether an event can lead to this phase, with the card present. */
static bool leads_to(int state, int event, enum gpud_capture_phase phase)
{
    struct visit visits[STATES] = {{.reached = false}};
    follow(state, event, 0, reach, visits);
    return visits[index_of((struct gpud_capture_state){phase, GPUD_CARD_PRESENT})].reached;
}

/* What a state waits for ends the wait; and configure begins again from everywhere. */
static void test_hopes(const struct visit visits[STATES])
{
    const int idle = index_of((struct gpud_capture_state){GPUD_CAPTURE_IDLE, GPUD_CARD_PRESENT});
    CHECK(leads_to(idle, GPUD_CAPTURE_ON_START, GPUD_CAPTURE_STREAMING), "it never starts");
    for (int state = 0; state < STATES; state++) {
        struct gpud_capture_state from = state_at(state);
        int hope = from.card == GPUD_CARD_AWAITED        ? GPUD_CAPTURE_ON_DUE
                   : from.phase == GPUD_CAPTURE_DEFERRED ? GPUD_CAPTURE_ON_SIGNAL
                   : from.phase == GPUD_CAPTURE_DRAINING ? GPUD_CAPTURE_ON_RELEASED
                                                         : GPUD_CAPTURE_ON_CONFIGURE;
        enum gpud_capture_phase then =
            hope == GPUD_CAPTURE_ON_CONFIGURE ? GPUD_CAPTURE_IDLE : GPUD_CAPTURE_STREAMING;
        if (!visits[state].reached)
            continue;
        CHECK(leads_to(state, hope, then), "%s in state %d is in vain", events[hope], state);
        CHECK(leads_to(state, GPUD_CAPTURE_ON_CONFIGURE, GPUD_CAPTURE_IDLE),
              "configure in state %d is in vain", state);
    }
}

/* A state that waits for something leaves it, and reports why, when this cannot come any more. */
static void test_hopeless(const struct visit visits[STATES])
{
    for (int state = 0; state < STATES; state++) {
        struct gpud_capture_state from = state_at(state);
        if (!visits[state].reached)
            continue;
        struct gpud_capture_step unplugged = step_from(state, GPUD_CAPTURE_ON_UNPLUGGED);
        struct gpud_capture_step failed = step_from(state, GPUD_CAPTURE_ON_FAILED);
        CHECK(unplugged.state.card != GPUD_CARD_PRESENT, "an unplugged card is present");
        if (!is_live(from) && from.card == GPUD_CARD_PRESENT) /* nothing else would reveal it */
            CHECK_EQUAL(step_from(state, GPUD_CAPTURE_ON_WAIT).action, GPUD_CAPTURE_DO_PROBE);
        if (is_live(from)) {
            CHECK_EQUAL(unplugged.state.phase, GPUD_CAPTURE_FAILED);
            CHECK_EQUAL(unplugged.action, GPUD_CAPTURE_DO_END);
            CHECK_EQUAL(failed.state.phase, GPUD_CAPTURE_FAILED);
            CHECK_EQUAL(failed.action, GPUD_CAPTURE_DO_END);
        }
        if (from.card == GPUD_CARD_AWAITED) { /* the card that returned cannot do what is wanted */
            CHECK_EQUAL(failed.state.phase, GPUD_CAPTURE_FAILED);
            CHECK_EQUAL(failed.state.card, GPUD_CARD_PRESENT);
        }
    }
}

/* Whatever else happens, an unplugged card streams only after its node was opened again: by
 * configure, or when the wait for it finds it. And then it can stream again, from every state. */
static void test_unplugged(void)
{
    const int unplugged[] = {
        index_of((struct gpud_capture_state){GPUD_CAPTURE_IDLE, GPUD_CARD_UNPLUGGED}),
        index_of((struct gpud_capture_state){GPUD_CAPTURE_FAILED, GPUD_CARD_UNPLUGGED}),
    };
    struct visit visits[STATES];
    for (size_t i = 0; i < 2; i++) {
        walk(unplugged[i], ON(CONFIGURE) | ON(DUE), visits);
        for (int state = 0; state < STATES; state++)
            CHECK(!visits[state].reached || state_at(state).card != GPUD_CARD_PRESENT,
                  "%s in state %d: the card is used without being opened",
                  events[visits[state].event], visits[state].from);
        for (unsigned without = ON(CONFIGURE); without;
             without = without == ON(DUE) ? 0 : ON(DUE)) {
            walk(unplugged[i], without, visits);
            CHECK(visits[index_of((struct gpud_capture_state){GPUD_CAPTURE_STREAMING,
                                                              GPUD_CARD_PRESENT})]
                      .reached,
                  "the card never streams again");
        }
    }
}

int main(void)
{
    struct visit visits[STATES];
    test_each_pair();
    test_reached(visits);
    test_outcomes(visits);
    test_stop(visits);
    test_hopes(visits);
    test_hopeless(visits);
    test_unplugged();
    puts("ok");
    return 0;
}

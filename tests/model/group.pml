/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A main and a backup sender of one programme, and the group that hands each instant on once
 * (core/group/match.c in mode ANY). The main is preferred.
 *
 * Both send instant n once the clock has reached it, in their order, and wait for room. Either dies at
 * any step, what it published stays, and it comes back later: behind the clock it begins with what is
 * due then. A member's thread takes frames from its link; another thread decides. How long anything
 * takes is left out: a sender that is stopped is one that takes no step, and a wait ends when it
 * likes, EXPIRES times at most. Time lines that begin anew are left out, too; match_test.c has them.
 *
 * Shown for every run: each instant at most once and in order; every published instant is handed on
 * unless both senders were dead at once, or a wait for missing instants was given up; the wait for the
 * preferred member loses nothing when it is given up; what has come is handed on in the end. */

#ifndef INSTANTS
#define INSTANTS 4
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef EXPIRES
#define EXPIRES 0
#endif
#define ROOM 2
#define LINK 2
#define MISSES_MAX 1
#define PREFERRED 0
#define BIT(n) (1 << (n))

byte clock = 1;
byte faults, expires;
bool both_dead; /* at some time after the first sender began */
bool given_up;  /* a wait for missing instants */
byte published, handed;

/* A sender, and its link: it survives it. */
bool lives[2], joined[2]; /* joined: the group knows of it, before its first frame */
bool done[2];             /* it sent its last instant, and ended its stream */
byte at[2];               /* the instant that it sends next */
chan link[2] = [LINK] of { byte };

/* The match. */
byte pending[2]; /* bits */
byte newest[2];  /* 0: nothing came yet */
byte misses[2];  /* in a row, of instants that waited for it as the preferred one */
bool quiet[2];  /* a wait for missing instants was given up, and nothing came since */
byte last;

#define COUNT(bits) (((bits >> 1) & 1) + ((bits >> 2) & 1) + ((bits >> 3) & 1) + ((bits >> 4) & 1) + \
                     ((bits >> 5) & 1))
#define HAS_ROOM(m) (COUNT(pending[m]) < ROOM)

/* --- the senders ------------------------------------------------------------------------------------ */

inline begin(m)
{
    lives[m] = true;
#ifdef BUG_NEWEST_FORGOTTEN
    newest[m] = 0;
#endif
    quiet[m] = false;
#ifdef BUG_JOINED_BY_FIRST_FRAME
    joined[m] = false
#else
    joined[m] = true
#endif
}

proctype Sender(byte m)
{
end_sender:
    do
    /* A receiver is connected before it sends. The first one of all begins with instant 1. */
    :: atomic { !lives[m] && !joined[m] && !done[m] && empty(link[m]) ->
        if
        :: at[m] = clock
        :: clock > 1 -> at[m] = clock + 1
        fi;
        begin(m) }
    :: atomic { lives[m] && at[m] <= clock && at[m] <= INSTANTS && nfull(link[m]) ->
        link[m]!at[m];
        published = published | BIT(at[m]);
        at[m]++ }
    :: d_step { lives[m] && at[m] > INSTANTS -> lives[m] = false; done[m] = true }
    :: atomic { lives[m] && faults < FAULTS ->
        faults++;
        lives[m] = false;
        both_dead = both_dead || !(lives[1 - m] || done[1 - m]);
#ifdef BUG_DEATH_BEFORE_ITS_FRAMES
        do
        :: link[m]?_
        :: empty(link[m]) -> break
        od
#endif
        }
    od
}

active proctype Clock()
{
end_clock:
    do
    :: d_step { clock < INSTANTS && (lives[0] || lives[1]) -> clock++ }
    od
}

/* --- the group -------------------------------------------------------------------------------------- */

#ifdef BUG_INSTANT_OF_EACH_MEMBER
#define IS_PASSED(m, n) (n <= newest[m])
#else
#define IS_PASSED(m, n) (n <= last)
#endif

/* A member's thread: takes frames while there is room, and notices the end behind the last one. */
proctype Member(byte m)
{
    byte n;
end_member:
    do
#ifdef BUG_FULL_MEMBER_DROPS
    :: atomic { nempty(link[m]) ->
        if
        :: !HAS_ROOM(m) -> pending[m] = pending[m] & (pending[m] - 1)
        :: else
        fi;
#else
    :: atomic { nempty(link[m]) && HAS_ROOM(m) ->
#endif
        link[m]?n;
        joined[m] = true;
        if
        :: !IS_PASSED(m, n) -> pending[m] = pending[m] | BIT(n); misses[m] = 0
        :: IS_PASSED(m, n) -> misses[m] = 0 /* it was in time */
        :: IS_PASSED(m, n)                  /* or was not */
        fi;
        newest[m] = n;
        quiet[m] = false;
        n = 0 }
    :: d_step { joined[m] && !lives[m] && empty(link[m]) ->
        joined[m] = false }
#ifdef BUG_JOINED_BY_FIRST_FRAME
    /* Its end is noticed all the same. */
    :: d_step { !joined[m] && !lives[m] && newest[m] == 0 && empty(link[m]) -> newest[m] = INSTANTS }
#endif
    od
}

#define LOWEST(bits) ((bits & 2) -> 1 : ((bits & 4) -> 2 : ((bits & 8) -> 3 : ((bits & 16) -> 4 : 5))))
#ifdef BUG_PREFERRED_OUT_OF_ORDER
#define CANDIDATE (pending[PREFERRED] -> LOWEST(pending[PREFERRED]) : LOWEST(pending[1 - PREFERRED]))
#else
#define CANDIDATE LOWEST((pending[0] | pending[1]))
#endif
#define HAS(m, n) (pending[m] & BIT(n))
#define IS_GAP(n) (n > last + 1)
#ifdef BUG_GAP_NOT_AWAITED
#define FILLS_GAP(m, n) false
#else
#ifdef BUG_LATE_ONE_FILLS_NO_GAP
#define FILLS_GAP(m, n) (IS_GAP(n) && !quiet[m] && misses[m] < MISSES_MAX)
#else
#define FILLS_GAP(m, n) (IS_GAP(n) && !quiet[m])
#endif
#endif
#define IS_BETTER(m) (m == PREFERRED && misses[m] < MISSES_MAX)
#ifdef BUG_DEAD_IS_AWAITED
#define MAY_DELIVER(m, n) (newest[m] < n)
#else
#define MAY_DELIVER(m, n) (joined[m] && newest[m] < n)
#endif
#define IS_AWAITED(m, n) (!HAS(m, n) && MAY_DELIVER(m, n) && (FILLS_GAP(m, n) || IS_BETTER(m)))
#define IS_WAITING(n) (IS_AWAITED(0, n) || IS_AWAITED(1, n))

inline hand_on()
{
    assert(n > last && !(handed & BIT(n)));
    handed = handed | BIT(n);
    last = n;
    pending[0] = pending[0] & ~(BIT(n + 1) - 1);
    pending[1] = pending[1] & ~(BIT(n + 1) - 1);
    n = 0
}

active proctype Decider()
{
    byte n;
end_decider:
    do
    :: d_step { (pending[0] | pending[1]) && !IS_WAITING(CANDIDATE) -> n = CANDIDATE; hand_on() }
    :: d_step { (pending[0] | pending[1]) && IS_WAITING(CANDIDATE) && expires < EXPIRES ->
        n = CANDIDATE;
        expires++;
        given_up = given_up || IS_GAP(n);
        if
        :: IS_AWAITED(0, n) && FILLS_GAP(0, n) -> quiet[0] = true
        :: IS_AWAITED(0, n) && !FILLS_GAP(0, n) -> misses[0]++
        :: else
        fi;
        if :: IS_AWAITED(1, n) -> quiet[1] = true :: else fi;
        hand_on() }
    od
}

init
{
    atomic {
        begin(0);
        at[0] = 1;
        run Sender(0);
        run Sender(1);
        run Member(0);
        run Member(1)
    }
    /* No step is left. */
end_monitor:
    timeout;
    assert(!pending[0] && !pending[1] && empty(link[0]) && empty(link[1]));
    assert(both_dead || given_up || handed == published)
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A peer that lies in the words of the page: against gpud_page_claim() and the receiver's loop
 * (RECEIVER=1), or against gpud_page_reap() and gpud_page_revoke() (RECEIVER=0).
 *
 * The liar stores any value into any word of the page, at any time, LIES times. Then the words stand
 * still, and the honest side must come to rest: it works with what the words say, it reports a
 * violation, or it sleeps. A turn that does none of these while nothing changed would be repeated
 * without end: that is an error here. Whatever the words say, no index leaves its array, and no
 * entry is held twice, free twice, or in the ring twice.
 *
 * Counters go modulo 8, with 3 entries: every distance that the words can pretend is tried. */

#ifndef RECEIVER
#define RECEIVER 1
#endif
#ifndef LIES
#define LIES 3
#endif
#define ENTRIES 3
#define NEXT(counter) (((counter) + 1) & 7)
#define DISTANCE(a, b) (((a) - (b)) & 7)
#define CELL(position) ((position) & 3)
#define BIT(i) (1 << (i))
#define COUNT(mask) (((mask) & 1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1))
#define LOWEST(mask) (((mask) & 1) -> 0 : (((mask) & 2) -> 1 : 2))

/* The words. In published[] and given_back[], 3 stands for any value that is not an entry. */
byte head, claimed, returned;
byte published[4], given_back[4];

byte lies;
bit refused; /* a violation was reported, and the link has ended */

#define LIE (lies < LIES && !refused)

inline any(greatest)
{
    value = 0;
    do
    :: value < greatest -> value++
    :: break
    od
}

active proctype Liar()
{
    byte value;
end_liar:
    do
    :: atomic { LIE -> any(7); lies++; claimed = value; value = 0 }
    :: atomic { LIE && RECEIVER -> any(7); lies++; head = value; value = 0 }
    :: atomic { LIE && RECEIVER -> any(3); lies++; published[CELL(claimed)] = value; value = 0 }
    :: atomic { LIE && !RECEIVER -> any(7); lies++; returned = value; value = 0 }
    :: atomic { LIE && !RECEIVER -> any(3); lies++; given_back[CELL(returned)] = value; value = 0 }
    od
}

/* --- the honest receiver ------------------------------------------------------------------------- */

#ifdef BUG_SIGNED_DISTANCE
/* "(int)(a - b) > 0": half the range is neither before nor after. */
#define AHEAD_OF(position, of) (DISTANCE(position, of) >= 1 && DISTANCE(position, of) <= 3)
#define NONSENSE AHEAD_OF(mine, head)
#else
#define AHEAD_OF(position, of) (DISTANCE(position, of) >= 1 && DISTANCE(position, of) <= ENTRIES)
#define NONSENSE (DISTANCE(head, mine) > ENTRIES)
#endif

#define HEADS 0
#define TURNS 1
#define CLAIM1 2
#define CLAIM2 3
#define CLAIM3 4
#define CLAIM4 5
#define SLEEPS 6
byte now = HEADS;
byte limit, mine, index, held, place, known; /* the words when the turn began, perhaps lies */
bit pending;

active proctype Receiver()
{
    /* A message may wait for any position. */
    if
    :: !RECEIVER -> goto end_receiver
    :: RECEIVER
    :: RECEIVER -> pending = 1;
        do
        :: place < 7 -> place++
        :: break
        od
    fi;
end_receiver:
    do
    /* next.1 */
    :: d_step { RECEIVER && !refused && now == HEADS -> limit = head; known = lies; now = TURNS }
    /* next.4 */
    :: d_step { now == TURNS && pending && !AHEAD_OF(place, claimed) -> pending = 0; place = 0; now = HEADS }
    :: d_step { now == TURNS && !(pending && !AHEAD_OF(place, claimed)) ->
        if
        :: pending && AHEAD_OF(limit, claimed) && DISTANCE(place, claimed) < DISTANCE(limit, claimed) ->
            limit = place
        :: else
        fi;
        now = CLAIM1 }
    /* claim.1: nonsense is refused before anything is decided by it. Two loads, one step: link.pml
     * has the second look at `claimed` that makes them one. */
    :: d_step { now == CLAIM1 ->
        mine = claimed;
        if
        :: NONSENSE -> refused = 1; now = HEADS
        :: !NONSENSE && !AHEAD_OF(limit, mine) ->
            /* sleep.3: has_something(). Nothing to take, and no reason to sleep: another turn. If
             * nothing changed in this one, the next will be the same. */
            assert(claimed == head || lies != known);
            now = (claimed == head -> SLEEPS : HEADS)
        :: else -> now = CLAIM2
        fi;
        limit = (now == CLAIM2 -> limit : 0); mine = (now == CLAIM2 -> mine : 0) }
    /* claim.2 */
    :: d_step { now == CLAIM2 -> index = published[CELL(mine)]; now = CLAIM3 }
    /* claim.3: repeated as often as the peer changes `claimed` */
    :: d_step { now == CLAIM3 && claimed != mine -> mine = 0; index = 0; now = CLAIM1 }
    :: d_step { now == CLAIM3 && claimed == mine -> claimed = NEXT(claimed); now = CLAIM4 }
    /* claim.4 */
    :: d_step { now == CLAIM4 ->
        if
#ifdef BUG_HELD_NOT_CHECKED
        :: index >= ENTRIES -> refused = 1
#else
        :: index >= ENTRIES || (held & BIT(index)) -> refused = 1
#endif
        :: else ->
            assert(!(held & BIT(index)));
            held = held | BIT(index)
        fi;
        limit = 0; mine = 0; index = 0; now = HEADS }
    :: d_step { now == SLEEPS && claimed != head -> now = HEADS }
    /* give_back.1 */
    :: d_step { !refused && (held & 1) -> held = held & ~1 }
    :: d_step { !refused && (held & 2) -> held = held & ~2 }
    :: d_step { !refused && (held & 4) -> held = held & ~4 }
    od
}

/* --- the honest sender ------------------------------------------------------------------------------ */

byte our_head, our_returned, free = 7, out;
byte position[ENTRIES], order[4];
byte sure; /* ghost: at most so many are unclaimed, by all values that were believed so far */

#define REVOKES 1
#define REAPS 2
byte at, seen, entry;

inline believe()
{
    if :: DISTANCE(our_head, seen) < sure -> sure = DISTANCE(our_head, seen) :: else fi
}

inline free_entry()
{
    assert(!(free & BIT(entry)) && (out & BIT(entry)));
    out = out & ~BIT(entry);
    free = free | BIT(entry);
    position[entry] = 0
}

#define IN_RING(e, back) (sure >= (back) && order[CELL(our_head - (back))] == (e))

active proctype Sender()
{
end_sender:
    do
    /* publish.1, publish.2 */
    :: d_step { !RECEIVER && !refused && at == 0 && free ->
        entry = LOWEST(free);
        assert(!IN_RING(entry, 1) && !IN_RING(entry, 2) && !IN_RING(entry, 3));
        free = free & ~BIT(entry);
        out = out | BIT(entry);
        position[entry] = our_head;
        order[CELL(our_head)] = entry;
        our_head = NEXT(our_head); head = our_head; sure++; entry = 0 }

    /* reap.1 returned: no more than are out; reap.2 given_back[]: one that is out */
    :: d_step { !RECEIVER && !refused && at == 0 && returned != our_returned ->
        entry = given_back[CELL(our_returned)];
        if
        :: DISTANCE(returned, our_returned) > COUNT(out) -> refused = 1; entry = 0
        :: else ->
            if
            :: entry >= ENTRIES || !(out & BIT(entry)) -> refused = 1; entry = 0
            :: else -> at = REAPS
            fi
        fi }
    /* reap.3 claimed: one that was claimed */
    :: d_step { at == REAPS ->
        seen = claimed;
        if
#ifndef BUG_RELEASE_NOT_CHECKED
        :: DISTANCE(our_head, seen) > ENTRIES ||
           DISTANCE(our_head, position[entry]) <= DISTANCE(our_head, seen) -> refused = 1
#endif
        :: else ->
            believe();
            our_returned = NEXT(our_returned);
            free_entry()
        fi;
        entry = 0; seen = 0; at = 0 }

    /* revoke.1 claimed: neither behind the known value nor ahead of the head */
    :: d_step { !RECEIVER && !refused && at == 0 && free == 0 && claimed != our_head ->
        seen = claimed;
        if
        :: DISTANCE(our_head, seen) > ENTRIES -> refused = 1; seen = 0
        :: else -> at = REVOKES
        fi }
    /* revoke.2 the exchange, or a retry; revoke.3: an entry that was not given back already */
    :: d_step { at == REVOKES && claimed != seen -> seen = 0; at = 0 }
    :: d_step { at == REVOKES && claimed == seen ->
        claimed = NEXT(claimed);
        entry = order[CELL(seen)];
        if
#ifdef BUG_REVOKED_NOT_CHECKED
        :: false
#else
        :: !(out & BIT(entry)) || position[entry] != seen -> refused = 1
#endif
        :: else ->
            seen = claimed;
            believe();
            free_entry()
        fi;
        entry = 0; seen = 0; at = 0 }
    od
}

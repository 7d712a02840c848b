/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One link: the ring page of wire/wire.h with each load and store a step of its own, the messages
 * beside it and their places among the frames, and the end of the connection.
 *
 * Here: entries and indices, counters that wrap, copies under way (up to two), copies that fail
 * (void entries), blocking, drop-newest and drop-oldest, EVENT, OFFER (a new page in band), EOS,
 * crashes of either side at any step, reconnects. Frames are given back by a thread of its own, in
 * any order. Shared memory is coherent and keeps the order that release and acquire ask for; what
 * delayed stores do is in wakeup.pml, and words that lie are in liar.pml.
 *
 * A run has FRAMES frames, MESSAGES messages and EOS, and at most FAULTS crashes. No run goes in a
 * circle; the end of `init` says where one may end. Counters go modulo 16 (more than the frames of
 * a run, as 2^32 is more than those between two instructions) and wrap within a run. */

#ifndef FRAMES
#define FRAMES 4
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef VOIDS
#define VOIDS 1
#endif
#ifndef BLOCKS
#define BLOCKS 0 /* the policy: wait for a credit, or drop the newest or the oldest */
#endif

#define ENTRIES 3
#define START 14
#define NEXT(counter) (((counter) + 1) & 15)
#define DISTANCE(a, b) (((a) - (b)) & 15)
#define CELL(position) ((position) & 3)
#define NONE 7
#define BIT(i) (1 << (i))
#define COUNT(mask) (((mask) & 1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1))
#define LOWEST(mask) (((mask) & 1) -> 0 : (((mask) & 2) -> 1 : 2))

/* Ghost: what is no longer read. */
#ifdef BUG_INDEX_READ_AFTER_EXCHANGE
#define FORGET(position) skip
#else
#define FORGET(position) published[CELL(position)] = NONE
#endif

#define EVENT 1
#define OFFER 2
#define EOS 3

/* --- the page -------------------------------------------------------------------------------- */

byte head, claimed, returned, messages;
byte published[4], given_back[4];
byte sequence_of[ENTRIES]; /* the descriptors; 0: not written */
byte void_flags;
byte sent_before[ENTRIES]; /* ghost: messages that were sent before the frame */

/* --- the connection --------------------------------------------------------------------------- */

chan wire = [4] of { byte, byte, byte }; /* type, position, ghost: the last frame before it */
bit linked;                              /* the sender has a link to this page */
bit sender_closed, receiver_closed, accepted;

/* --- the sender -------------------------------------------------------------------------------- */

#define IDLE 0
#define CREDIT 1
#define REVOKES 2
#define PUBLISHES 3
#define DESCRIBES 4 /* used by a bug only */
#define COUNTS 5
#define RENEWS 6 /* OFFER is sent */
#define ENDED 7  /* EOS is sent */
#define DEAD 8
byte at = IDLE, back_to;
byte our_head, our_returned, free;
byte flying, flight[2]; /* described, not published: `pending` */
byte seen;              /* `claimed`, as loaded */
byte sequence, faults, voids, events;
/* ghosts: the messages of this connection; dropped sequences not yet seen as a gap */
byte sent, lost;
bit eos_sent;

/* --- the receiver -------------------------------------------------------------------------------- */

#define OFFLINE 0
#define HEADS 1
#define LOOKS 2
#define READS 3
#define TURNS 4
#define CLAIM1 5
#define CLAIM2 6
#define CLAIM3 7
#define CLAIM4 8
#define NOTHING 9
#define WAITS 10
#define FINISHED 11 /* EOS was reported */
#define GONE 12
#define CHECKS1 13
#define CHECKS2 14
byte now = OFFLINE;
byte limit, mine, index;
byte counted; /* messages */
bit pending, unread, eof, dead;
byte type, place, after; /* of the pending message */
byte held, last, handled;
byte given; /* this side's `returned` */
byte giving = NONE;

/* I6: free + writing + ready + held + on their way back = ENTRIES */
inline check_entries()
{
    assert(!linked || receiver_closed || at == RENEWS || now == FINISHED ||
           COUNT(free) + flying + DISTANCE(our_head, claimed) + (now == CLAIM4) + COUNT(held) +
                   (giving != NONE) + DISTANCE(given, our_returned) == ENTRIES)
}

inline fresh_page()
{
    head = START; claimed = START; returned = START; messages = 0;
    published[0] = NONE; published[1] = NONE; published[2] = NONE; published[3] = NONE;
    given_back[0] = NONE; given_back[1] = NONE; given_back[2] = NONE; given_back[3] = NONE;
    sequence_of[0] = 0; sequence_of[1] = 0; sequence_of[2] = 0;
    sent_before[0] = 0; sent_before[1] = 0; sent_before[2] = 0;
    void_flags = 0;
    held = 0; giving = NONE; given = START; counted = 0; limit = 0; mine = 0; index = 0
}

inline empty_wire()
{
    do
    :: nempty(wire) -> wire?type, place, after
    :: else -> break
    od;
    type = 0; place = 0; after = 0
}

inline sender_forgets()
{
    our_head = 0; our_returned = 0; free = 0; flying = 0; seen = 0;
    flight[0] = 0; flight[1] = 0;
    back_to = 0; linked = 0; accepted = 0
}

inline sender_begins()
{
    our_head = START; our_returned = START; free = 7; accepted = 0
}

inline free_entry(e)
{
    assert(!(free & BIT(e)));
    free = free | BIT(e);
    sequence_of[e] = 0;
    sent_before[e] = 0;
    void_flags = void_flags & ~BIT(e)
}

inline land()
{
    flying--;
    flight[0] = flight[1];
    flight[1] = 0
}

#define FLIES (flying && linked && (at == IDLE || at == RENEWS || at == ENDED || \
                                    (BLOCKS && at == CREDIT && free == 0)))

active proctype Sender()
{
    byte e;
end_sender:
    do
    /* submit.1 */
    :: d_step { at == IDLE && linked && sequence < FRAMES && flying < 2 -> at = CREDIT }
    /* reap.1 returned, reap.2 given_back[], reap.3 claimed: refused unless it was claimed */
    :: d_step { at == CREDIT && returned != our_returned ->
        e = given_back[CELL(our_returned)];
        assert(e < ENTRIES);
        given_back[CELL(our_returned)] = NONE;
        our_returned = NEXT(our_returned);
        free_entry(e); e = 0; check_entries() }
    /* describe.1: gpud_page_take(), gpud_transport_describe() */
    :: d_step { at == CREDIT && free ->
        e = LOWEST(free);
        free = free & ~BIT(e);
        assert(!(held & BIT(e)) && giving != e);
        sequence++;
#ifndef BUG_PUBLISHED_BEFORE_DESCRIBED
        sequence_of[e] = sequence;
#endif
        sent_before[e] = sent;
        flight[flying] = e; flying++;
        e = 0; at = IDLE; check_entries() }
    /* credit.3 */
    :: d_step { !BLOCKS && at == CREDIT && free == 0 ->
        sequence++; lost = lost | BIT(sequence); at = IDLE }
    /* revoke.1: loads claimed */
    :: d_step { !BLOCKS && at == CREDIT && free == 0 && claimed != our_head ->
        seen = claimed; at = REVOKES }
    /* revoke.2: the exchange, or a retry */
#ifdef BUG_REVOKED_WITHOUT_EXCHANGE
    :: d_step { at == REVOKES ->
#else
    :: d_step { at == REVOKES && claimed != seen -> seen = 0; at = CREDIT }
    :: d_step { at == REVOKES && claimed == seen ->
#endif
        claimed = NEXT(seen);
        e = published[CELL(seen)];
        FORGET(seen);
        lost = lost | BIT(sequence_of[e]);
        free_entry(e);
        e = 0; seen = 0; at = CREDIT; check_entries() }

    /* publish.1: the index; a failed copy makes a void entry */
    :: d_step { FLIES ->
        e = flight[0];
        published[CELL(our_head)] = e;
        e = 0; back_to = at; at = PUBLISHES }
    :: d_step { FLIES && voids < VOIDS ->
        voids++;
        e = flight[0];
#ifndef BUG_VOID_NOT_COUNTED
        lost = lost | BIT(sequence_of[e]);
#endif
#ifdef BUG_PLACE_LOST_WITH_FAILED_COPY
        free_entry(e);
        land();
        e = 0
#else
        void_flags = void_flags | BIT(e);
        published[CELL(our_head)] = e;
        e = 0; back_to = at; at = PUBLISHES
#endif
        }
    /* publish.2: head */
    :: d_step { at == PUBLISHES ->
        our_head = NEXT(our_head);
#ifdef BUG_PUBLISHED_BEFORE_DESCRIBED
        e = flight[0]; at = DESCRIBES;
#else
        at = back_to; back_to = 0;
#endif
        head = our_head;
        land();
        check_entries() }
#ifdef BUG_PUBLISHED_BEFORE_DESCRIBED
    :: d_step { at == DESCRIBES ->
        sequence_of[e] = sequence - flying; e = 0; at = back_to; back_to = 0 }
#endif

    /* message.1: gpud_link_send(): its place is after everything described so far */
    :: d_step { at == IDLE && linked && events < MESSAGES ->
        wire!EVENT, (our_head + flying) & 15, sequence; events++; sent++; at = COUNTS; back_to = IDLE }
    :: d_step { at == IDLE && linked && events < MESSAGES ->
        wire!OFFER, (our_head + flying) & 15, sequence; events++; sent++; at = COUNTS; back_to = RENEWS }
    :: d_step { at == IDLE && linked && sequence == FRAMES ->
        wire!EOS, (our_head + flying) & 15, sequence; eos_sent = 1; sent++; at = COUNTS; back_to = ENDED }
    /* message.2: gpud_page_count_message() */
    :: d_step { at == COUNTS -> messages++; at = back_to; back_to = 0 }
    /* accept.1: the next page */
    :: d_step { at == RENEWS && accepted && flying == 0 -> sender_begins(); at = IDLE; check_entries() }

    /* end.1: the receiver is gone */
    :: d_step { linked && receiver_closed && (at == IDLE || at == CREDIT || at == RENEWS || at == ENDED) ->
        sender_forgets();
        if :: at != ENDED -> at = IDLE :: else fi }
    /* crash.sender, at any step */
    :: d_step { faults < FAULTS && at != DEAD ->
        faults++;
        if :: linked -> sender_closed = 1 :: else fi;
        sender_forgets(); e = 0; at = DEAD }
    :: d_step { at == DEAD -> at = IDLE }
    :: at == DEAD -> break
    od
}

/* --- the receiver ------------------------------------------------------------------------------- */

/* Ahead by at most as many as there are entries, else passed: gpud_page_reached(). */
#define AHEAD(position) (DISTANCE(position, claimed) != 0 && DISTANCE(position, claimed) <= ENTRIES)
#ifdef BUG_DEATH_SEEN_AFTER_HEAD
#define DEATH_SEEN sender_closed && claimed == limit
#else
#define DEATH_SEEN dead && claimed == head
#endif
#ifdef BUG_END_BEHIND_MESSAGE
#define REACHED !AHEAD(place)
#else
#define REACHED (!AHEAD(place) || (DEATH_SEEN))
#endif

#ifdef BUG_EOS_OF_THE_DEAD
#define EOS_OF_THE_DEAD true
#else
#define EOS_OF_THE_DEAD false
#endif

/* All frames before the message came, or are reported as dropped, or died with the sender; and none
 * that was sent after it came. */
inline check_place()
{
    assert(last <= after);
    assert(claimed == head || sequence_of[published[CELL(claimed)]] > after);
    gap = last + 1; whole = 1;
    do
    :: gap <= after -> whole = whole && (lost & BIT(gap)); gap++
    :: else -> break
    od;
    assert(whole || sender_closed);
    gap = 0
}

/* I1: once, and in order. I2: missing frames were reported. And in its place among the messages. */
inline count_frame()
{
    assert(sequence_of[index] > last);
    assert(sent_before[index] == handled);
    gap = last + 1;
    do
    :: gap < sequence_of[index] -> assert(lost & BIT(gap)); gap++
    :: else -> break
    od;
    gap = 0;
    last = sequence_of[index];
    lost = lost & ~(BIT(last) | (BIT(last) - 1))
}

inline receiver_forgets(next)
{
    now = next;
    pending = 0; unread = 0; eof = 0; dead = 0;
    held = 0; giving = NONE; last = 0; handled = 0; lost = 0; sent = 0;
    limit = 0; mine = 0; index = 0; type = 0; place = 0; after = 0;
    if :: linked -> receiver_closed = 1 :: else sender_closed = 0; fresh_page() fi;
    empty_wire()
}

active proctype Receiver()
{
    byte gap;
    bit whole;
end_receiver:
    do
    /* connect.1: a fresh page; everything sent from here on is this receiver's */
    :: d_step { now == OFFLINE && !linked && (at == IDLE || at == ENDED) ->
        empty_wire(); fresh_page(); sender_begins();
        sender_closed = 0; receiver_closed = 0; linked = 1; at = IDLE;
        sent = 0; lost = 0; last = sequence; eos_sent = 0;
        now = HEADS }

    /* next.1: the head, before the messages are counted */
    :: d_step { now == HEADS -> limit = head; now = LOOKS }
    /* next.2 */
    :: d_step { now == LOOKS ->
        if :: messages != counted -> counted = messages; unread = 1 :: else fi;
        now = READS }
    /* next.3: read_messages(): one ahead, and no further */
    :: d_step { now == READS ->
        if
        :: unread && !pending ->
            if
            :: nempty(wire) -> wire?type, place, after; pending = 1
            :: empty(wire) && sender_closed -> unread = 0; eof = 1
            :: else -> unread = 0
            fi
        :: else
        fi;
        now = TURNS }
    /* next.4: handle_pending() */
    :: d_step { now == TURNS && !(pending && REACHED) ->
#ifdef BUG_HEAD_READ_AFTER_MESSAGES
        limit = head;
#endif
#ifndef BUG_PLACE_NOT_HELD
        if :: pending -> limit = place :: else fi;
#endif
        now = CLAIM1 }
    :: d_step { now == TURNS && pending && REACHED ->
        check_place();
        pending = 0; handled++; now = HEADS;
        if
        /* the frames before this EOS died with their sender: that is not the end of the stream */
        :: type == EOS && AHEAD(place) && !EOS_OF_THE_DEAD -> receiver_forgets(OFFLINE)
        :: type == EOS && (!AHEAD(place) || EOS_OF_THE_DEAD) ->
            assert(eos_sent && whole); receiver_forgets(FINISHED)
        :: type == OFFER && sender_closed -> receiver_forgets(OFFLINE)
        :: type == OFFER && !sender_closed ->
            assert(flying == 0 && claimed == head);
            fresh_page(); accepted = 1
        :: else
        fi;
        type = 0; place = 0; after = 0; whole = 0 }

    /* claim.1: claimed, and whether there is anything before the limit */
    :: d_step { now == CLAIM1 ->
        mine = claimed;
        if
        :: DISTANCE(limit, mine) == 0 || DISTANCE(limit, mine) > ENTRIES -> now = NOTHING
        :: else -> now = CHECKS1
        fi }
    /* claim.1b: the head must be within the entries. It may be stale relative to `claimed` if
     * drop-oldest went on in between: that is no violation yet */
    :: d_step { now == CHECKS1 ->
        if
#ifdef BUG_CLAIMED_UP_TO_THE_PLACE
        :: DISTANCE(head, mine) <= ENTRIES -> now = CLAIM2
#else
        :: DISTANCE(head, mine) == 0 -> now = NOTHING
        :: DISTANCE(head, mine) && DISTANCE(head, mine) <= ENTRIES -> now = CLAIM2
#endif
        :: else ->
#ifdef BUG_WORDS_OF_TWO_TIMES
            assert(false);
#endif
            now = CHECKS2
        fi }
    :: d_step { now == CHECKS2 -> assert(claimed != mine); mine = 0; now = CLAIM1 }
    /* claim.2: the index, before the exchange */
    :: d_step { now == CLAIM2 -> index = published[CELL(mine)]; now = CLAIM3 }
    /* claim.3: the exchange, or a retry */
    :: d_step { now == CLAIM3 && claimed != mine -> mine = 0; index = 0; now = CLAIM1 }
    :: d_step { now == CLAIM3 && claimed == mine ->
        claimed = NEXT(claimed); FORGET(mine); now = CLAIM4 }
    /* claim.4: the descriptor, once; a void entry only goes back */
    :: d_step { now == CLAIM4 ->
#ifdef BUG_INDEX_READ_AFTER_EXCHANGE
        index = published[CELL(mine)];
#endif
        assert(index < ENTRIES && !(held & BIT(index)) && giving != index);
        assert(sequence_of[index]);
        if
        :: void_flags & BIT(index) -> skip
        :: else -> count_frame()
        fi;
        sequence_of[index] = 0; sent_before[index] = 0;
        held = held | BIT(index);
        limit = 0; mine = 0; index = 0; now = HEADS; check_entries() }

    /* next.5: nothing; the connection has ended, or the receiver waits */
    :: d_step { now == NOTHING ->
        limit = 0; mine = 0;
        if
        :: eof && claimed == head ->
#ifdef BUG_CRASH_TOLD_AS_EOS
            assert(eos_sent);
#endif
            receiver_forgets(OFFLINE)
        :: else -> now = WAITS
        fi }
    /* sleep.3: has_something() */
    :: d_step { now == WAITS && (claimed != head || messages != counted) -> now = HEADS }
    /* sleep.6: the connection is dead: there may be messages, but no more frames */
    :: d_step { now == WAITS && sender_closed && !dead -> dead = 1; unread = 1; now = HEADS }

    /* crash.receiver, at any step */
    :: d_step { faults < FAULTS && now != OFFLINE && now != FINISHED && now != GONE -> faults++; receiver_forgets(OFFLINE) }
    :: d_step { faults < FAULTS && now != FINISHED && now != GONE -> faults++; receiver_forgets(GONE) }
    od
}

/* The application's other thread. */
active proctype Releaser()
{
end_releaser:
    do
    /* give_back.1: the index */
    :: d_step { giving == NONE && (held & 1) -> held = held & ~1; giving = 0; given_back[CELL(given)] = 0 }
    :: d_step { giving == NONE && (held & 2) -> held = held & ~2; giving = 1; given_back[CELL(given)] = 1 }
    :: d_step { giving == NONE && (held & 4) -> held = held & ~4; giving = 2; given_back[CELL(given)] = 2 }
    /* give_back.2: returned */
    :: d_step { giving != NONE -> giving = NONE; given = NEXT(given); returned = given; check_entries() }
    od
}

init
{
    /* No step is left. */
end_monitor:
    timeout;
    assert(at == DEAD || at == ENDED || (at == IDLE && !linked));
    assert(flying == 0);
    assert(now == GONE || now == FINISHED || (now == OFFLINE && at == DEAD))
}

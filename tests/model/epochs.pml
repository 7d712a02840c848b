/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A change of format of a live sender: the frames of the new epoch wait at the sender until the ring
 * of the receiver is ready, and the receiver makes and tests that ring beside the last frames of the
 * old one (stream/sender/submit.c, stream/receiver/join.c).
 *
 * Here: the order of the frames of both rings, of events and of EOS; the handshake's messages between
 * them; a receiver that reads the OFFER early, or when it is its turn (EARLY 0: it has no room for two
 * rings), or never before the sender's end; a sender that ends at any step. What a ring page does is
 * in link.pml, a slow receiver's waiting frame in waiting.pml; a call of the sender holds its lock and
 * is one step here.
 *
 * A run has FRAMES frames, of which OLD at most are of the old format, MESSAGES events, and EOS. */

#ifndef FRAMES
#define FRAMES 4
#endif
#ifndef OLD
#define OLD 2
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
#ifndef EARLY
#define EARLY 1
#endif
#ifndef ENDS
#define ENDS 0 /* the sender may end without waiting for the receiver */
#endif

#define ENTRIES 2
#define LIMIT 2 /* frames that can wait */
#define BIT(i) (1 << (i))

#define EVENT 1
#define OFFER 2
#define CANARY 3
#define EOS 4

/* The two rings, as queues; entries come back when the receiver has taken the frame. */
chan old = [ENTRIES] of { byte };
chan new = [ENTRIES] of { byte };
chan wire = [8] of { byte, byte, byte }; /* type, position, ghost: the last frame before it */
chan answers = [2] of { byte };          /* ACCEPT is 1, READY 2 */
bit closed;                              /* by the sender */

/* --- the sender -------------------------------------------------------------------------------- */

#define STREAMS 0 /* the old ring */
#define IDLE 1    /* the OFFER is to be sent */
#define OFFERED 2
#define TESTS 3
#define READY 4
byte link = STREAMS;
chan waits = [LIMIT] of { byte };
chan held = [4] of { byte, byte };
byte sequence, published, events, epoch_start, canary;
byte new_published; /* the head of the new page */
bit eos_sent, ended;

/* --- ghosts ------------------------------------------------------------------------------------- */

short lost;
byte sent, sent_before[8];

inline drain()
{
    do
    :: link == READY && len(held) > 0 ->
        held?<m, a>;
        if
        :: len(waits) == 0 || a < first -> held?m, a; wire!m, new_published, a
        :: else -> break
        fi
    :: link == READY && len(waits) > 0 && nfull(new) &&
       (len(held) == 0 || (held?[EVENT, _] || held?[EOS, _])) ->
        waits?<first>;
        if
        :: len(held) > 0 -> held?<m, a>; if :: a < first -> goto_next = 1 :: else -> goto_next = 0 fi
        :: else -> goto_next = 0
        fi;
        if
        :: goto_next -> held?m, a; wire!m, new_published, a
        :: else -> waits?first; new!first; new_published++
        fi
    :: else -> break
    od;
    m = 0; a = 0; first = 0; goto_next = 0
}

#ifdef BUG_OVERTAKES_WAITING
#define IN_TURN true
#else
#define IN_TURN (len(waits) == 0)
#endif

#ifdef BUG_SENT_IN_HANDSHAKE
#define MAY_SEND (link != IDLE)
#else
#define MAY_SEND ((link == STREAMS || link == READY) && len(waits) == 0 && len(held) == 0)
#endif

inline send(what)
{
    if
    :: MAY_SEND -> wire!what, (link == STREAMS -> published : new_published), sequence
    :: else -> held!what, sequence
    fi;
    sent++
}

active proctype Sender()
{
    byte m, a, first;
    bit goto_next;
end_sender:
    do
    /* submit.1: the newest is dropped where the old ring is full */
    :: d_step { !ended && !eos_sent && link == STREAMS && sequence < OLD ->
        sequence++; sent_before[sequence] = sent;
        if
        :: nfull(old) -> old!sequence; published++
        :: else -> lost = lost | BIT(sequence)
        fi }
    /* submit.2: in the new epoch; the oldest gives way where they are too many */
    :: d_step { !ended && !eos_sent && link != STREAMS && sequence < FRAMES ->
        sequence++; sent_before[sequence] = sent;
        if
        :: link == READY && IN_TURN && nfull(new) -> new!sequence; new_published++
        :: else ->
            if
            :: full(waits) -> waits?first; lost = lost | BIT(first); first = 0
            :: else
            fi;
            waits!sequence
        fi }
    :: d_step { !ended && !eos_sent && events < MESSAGES && sequence -> events++; send(EVENT) }
    :: d_step { !ended && !eos_sent && link != STREAMS && sequence == FRAMES -> eos_sent = 1; send(EOS) }
    /* epoch.1 */
    :: d_step { !ended && link == STREAMS && sequence -> link = IDLE; epoch_start = sequence; sent++ }
    /* offer.1 */
    :: d_step { !ended && link == IDLE -> wire!OFFER, published, epoch_start; link = OFFERED }
    /* accept.1, ready.1 */
    :: d_step { !ended && answers?[1] -> answers?1; assert(link == OFFERED);
#ifdef BUG_CANARY_COUNTS_WAITING
        canary = sequence;
#else
        canary = epoch_start;
#endif
        wire!CANARY, 0, 0; link = TESTS }
    :: d_step { !ended && answers?[2] -> answers?2; assert(link == TESTS); link = READY; drain() }
    /* kick.1: an entry came back */
    :: d_step { !ended && link == READY && (len(waits) > 0 || len(held) > 0) && nfull(new) -> drain() }
    /* end.1: what waits is lost; messages go out all the same */
    :: d_step { !ended && eos_sent && (ENDS || (len(waits) == 0 && len(held) == 0)) && link != IDLE ->
        do
        :: len(waits) > 0 -> waits?first; lost = lost | BIT(first)
        :: else -> break
        od;
        do
        :: len(held) > 0 -> held?m, a; wire!m, (link == READY -> new_published : 0), a
        :: else -> break
        od;
        m = 0; a = 0; first = 0; ended = 1; closed = 1 }
    od
}

/* --- the receiver ------------------------------------------------------------------------------- */

#define OFFLINE 0
#define AWAITS 1 /* accepted: the CANARY comes */
#define TESTED 2
byte next = OFFLINE; /* beside the old ring; then the state of the new one */
bit turned;          /* the new ring is in use */
bit pending, accepted, finished, vanished;
byte type, place, after, taken, taken_new, last, handled, turn_at, view_last;

#define OLD_LEFT (taken < turn_at)

inline take_frame(s)
{
    assert(s > last);
    assert(sent_before[s] == handled || ENDS);
    gap = last + 1;
    do
    :: gap < s -> assert(lost & BIT(gap)); gap++
    :: else -> break
    od;
    gap = 0;
    last = s
}

inline check_place()
{
    assert(last <= after);
    gap = last + 1;
    do
    :: gap <= after -> assert(lost & BIT(gap)); gap++
    :: else -> break
    od;
    gap = 0
}

/* The ACCEPT; the sender may be gone, which is found when everything was read. */
inline accept()
{
    accepted = 1;
    if
    :: closed ->
#ifdef BUG_SEND_ENDS_LINK
        vanished = 1
#else
        next = AWAITS
#endif
    :: else -> answers!1; next = AWAITS
    fi
}

active proctype Receiver()
{
    byte gap, s;
end_receiver:
    do
    /* read.1: one message ahead; while the next ring is prepared, only its own */
    :: d_step { !finished && !vanished && !pending && !(next == TESTED && !turned) && len(wire) > 0 ->
        wire?type, place, after;
        if
        :: type == CANARY ->
            assert(next == AWAITS);
            next = TESTED; view_last = canary;
            if :: closed :: else -> answers!2 fi;
            type = 0; place = 0; after = 0
        :: else -> pending = 1
        fi }
    /* prepare.1: the OFFER is accepted before it is its turn */
    :: d_step { EARLY && !finished && !vanished && pending && type == OFFER && !accepted ->
        turn_at = place; pending = 0; accept();
        type = 0; place = 0; after = 0 }
    /* handle.1: a message of the old ring; the new ring takes over with an OFFER that is due */
    :: d_step { !finished && !vanished && pending && !accepted && taken >= place ->
        pending = 0;
        check_place();
        handled++;
        if
        :: type == OFFER -> turn_at = place; turned = 1; accept()
        :: type == EOS -> finished = 1
        :: else
        fi;
        type = 0; place = 0; after = 0 }
    /* turn.1: behind the last old frame */
#ifdef BUG_TURNS_EARLY
    :: d_step { !finished && !vanished && accepted && !turned && next == TESTED -> turned = 1; handled++ }
#else
    :: d_step { !finished && !vanished && accepted && !turned && !OLD_LEFT -> turned = 1; handled++ }
#endif
    /* handle.2: of the new ring; in the handshake at once */
    :: d_step { !finished && !vanished && pending && turned && (next != TESTED || taken_new >= place) ->
        pending = 0;
        check_place();
        handled++;
        if
        :: type == EOS -> finished = 1
        :: else
        fi;
        type = 0; place = 0; after = 0 }
    /* claim.1 */
    :: d_step { !finished && !vanished && !turned && len(old) > 0 &&
                (accepted -> OLD_LEFT : (pending -> taken < place : len(wire) == 0)) ->
        old?s; take_frame(s); taken++; s = 0 }
    :: d_step { !finished && !vanished && turned && next == TESTED && len(new) > 0 &&
                (pending -> taken_new < place : len(wire) == 0) ->
        new?s; assert(s > view_last); take_frame(s); taken_new++; s = 0 }
    :: d_step { !finished && !vanished && closed && len(wire) == 0 && !pending && turned && next != TESTED ->
        vanished = 1 }
    od
}

init
{
    /* No step is left: everything came or was counted, and the end was seen. */
end_monitor:
    timeout;
    assert(finished && !vanished);
    assert(eos_sent && sequence == FRAMES)
}

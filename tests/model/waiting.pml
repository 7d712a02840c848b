/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drop-oldest where the page's carrier cannot take back: the newest frame waits at the sender, the
 * messages behind it wait with it, and a KICK for a free entry sets it going. One link.
 *
 * Here: frames whose copy is under way when they find no credit (late), their replacement, the order
 * of events and frames, a new epoch, EOS and its deadline, frames that give way (an interrupt, or a
 * slot that is needed elsewhere), and the death of the receiver. A call of the sender holds its lock
 * and is one step, but where it says that it sleeps: the receiver comes in between. Frames of a new
 * epoch are dropped here, and wait for its ring in epochs.pml. How words become visible is in
 * wakeup.pml, which entry is whose in link.pml.
 *
 * A run has FRAMES frames, MESSAGES events, EPOCHS changes of format, then EOS. At most DROPS frames
 * give way, at most FAULTS receivers die, and BUSY times the network card has no room for a frame
 * although there is an entry. With KEEPS the receiver gives nothing back before EOS. */

#ifndef FRAMES
#define FRAMES 5
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
#ifndef EPOCHS
#define EPOCHS 0
#endif
#ifndef DROPS
#define DROPS 0
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef BUSY
#define BUSY 0
#endif
#ifndef KEEPS
#define KEEPS 0
#endif

#define ENTRIES 2
#define BIT(i) (1 << (i))
#define EVENT 1
#define OFFER 2
#define EOS 3

/* --- the page and the connection --------------------------------------------------------------- */

byte head, claimed, returned;
byte sequence_at[16]; /* by position; 0: empty */
byte asleep, kicked;  /* the number of the sender's sleep, and of the last one that was ended */
byte kicks;           /* KICKs on their way */
chan wire = [8] of { byte, byte, byte }; /* type, position, ghost: the last frame before it */

/* --- the sender, under its lock ----------------------------------------------------------------- */

chan copies = [2] of { byte, bit }; /* under way: the sequence, and whether it has an entry */
chan held = [6] of { byte, byte };  /* messages that wait: the type, the last frame before each */
byte waits;                         /* the sequence of the waiting frame */
byte sequence, our_returned, unused = ENTRIES, pending, late;
byte sleeps;
bit armed, offered = 1, dead;
byte sleeping; /* a call is about to arm (1), and to check once more (2) */
bit submits;   /* a call has sent the waiting frame on, if it could */
bit looks;     /* a frame waits for the card alone: the sender checks it again after a while */
bit busy;      /* the card has no room */
byte busies;
bit eos_sent;
byte events, epochs, drops, faults;

/* --- ghosts and the receiver ----------------------------------------------------------------------- */

short lost;      /* the sequences that were counted as dropped */
byte sent;       /* messages, when a frame was submitted */
byte sent_before[8];
byte handled, last;
bit finished;
byte type, place, after;
bit has_message;
byte holds;

#define BEHIND (waits || late)
#define FREE (sleeping == 0 && !submits) /* the lock */

#ifdef BUG_REPLACED_UNCOUNTED
#define COUNT_REPLACED skip
#else
#define COUNT_REPLACED lost = lost | BIT(waits)
#endif

inline publish(s)
{
    sequence_at[head] = s;
    head++
}

/* send.1: the messages that were sent before frame s; s 0: all, up to an OFFER, which the thread
 * makes */
inline send_held(s)
{
    do
    :: len(held) > 0 ->
        held?<t, a>;
        if
        :: (s == 0 || a < s) && t != OFFER -> held?t, a; wire!t, (head + pending), a
        :: else -> break
        fi
    :: else -> break
    od;
    t = 0; a = 0
}

/* offer.1: what waited for it follows, as the first of the new page */
inline offer()
{
    held?t, a;
    wire!OFFER, (head + pending), a;
    offered = 0;
    do
    :: len(held) > 0 -> held?t, a; wire!t, 0, a
    :: else -> break
    od;
    t = 0; a = 0
}

/* advance.1: returned entries are free; the waiting frame goes first */
inline advance()
{
    unused = unused + (returned - our_returned);
    our_returned = returned;
    if
    :: waits && unused && !busy -> unused--; publish(waits); waits = 0
    :: else
    fi;
    if
    :: !BEHIND -> send_held(0)
    :: else
    fi
}

/* arm.1: a KICK wakes the sleeper; there is one for each number */
inline may_arm()
{
    if
    :: waits && !armed && !dead -> sleeping = 1
    :: else
    fi;
    looks = waits && unused
}

/* put.1: a frame without an entry is complete */
inline put(s)
{
    late--;
    unused = unused + (returned - our_returned);
    our_returned = returned;
    if
    :: waits && unused && !busy -> unused--; publish(waits); waits = 0
    :: else
    fi;
    if
    :: waits -> COUNT_REPLACED; waits = 0
    :: else
    fi;
#ifndef BUG_EVENTS_BEHIND_REPLACEMENT
    send_held(s);
#endif
    if
    :: unused && !busy -> unused--; publish(s)
    :: else -> waits = s
    fi;
    if
    :: !BEHIND -> send_held(0)
    :: else
    fi;
    may_arm()
}

/* give.1: the waiting frame is dropped, and what waited for it goes */
inline give_way()
{
    lost = lost | BIT(waits);
    waits = 0;
#ifdef BUG_MESSAGES_DROPPED_WITH_FRAME
    do
    :: len(held) > 0 -> held?t, a
    :: else -> break
    od;
    t = 0; a = 0;
#endif
    if
    :: !late -> send_held(0)
    :: else
    fi
}

/* hold.1: a message has its place behind everything that was submitted before it */
#ifdef BUG_MESSAGE_SENT_AT_ONCE
#define MUST_HOLD (what == OFFER)
#else
#define MUST_HOLD (what == OFFER || BEHIND || len(held) > 0)
#endif
#ifdef BUG_OFFER_BEFORE_WAITING
#define MAY_OFFER (len(held) > 0 && held?[OFFER, _])
#else
#define MAY_OFFER (!BEHIND && len(held) > 0 && held?[OFFER, _])
#endif
inline send(m)
{
    what = m;
    if
    :: MUST_HOLD -> held!m, sequence
    :: else -> wire!m, (offered -> head + pending + (waits != 0) + late : 0), sequence
    fi;
    what = 0;
    sent++
}

#ifdef BUG_NEWER_TAKES_THE_CREDIT
#define IN_TURN (late == 0)
#else
#ifdef BUG_LATE_IS_OVERTAKEN
#define IN_TURN (waits == 0)
#else
#define IN_TURN !BEHIND
#endif
#endif

bit renewing; /* a new format is set, and its ring is not there yet */

active proctype Sender()
{
    byte t, a, what, s;
    bit entry;
end_sender:
    do
    /* submit.1: reaps; a credit, or none; without a ring the frame is dropped */
    :: d_step { FREE && !dead && sequence < FRAMES && len(copies) < 2 ->
        if :: !renewing -> advance() :: else fi;
        submits = 1 }
    :: d_step { submits ->
        submits = 0;
        sequence++;
        sent_before[sequence] = sent;
        if
        :: renewing -> lost = lost | BIT(sequence)
        :: !renewing && IN_TURN && unused && !busy -> unused--; pending++; copies!sequence, 1
        :: else -> late++; copies!sequence, 0
        fi;
        may_arm() }
    /* copied.1: copies end in their order */
    :: d_step { FREE && len(copies) > 0 ->
        copies?s, entry;
        if
        :: dead -> skip
        :: !dead && entry -> pending--; publish(s); if :: !BEHIND -> send_held(0) :: else fi
        :: !dead && !entry -> put(s)
        fi;
        s = 0; entry = 0 }
    /* event.1, epoch.1, eos.1 */
    :: d_step { FREE && !dead && sequence && !eos_sent && events < MESSAGES -> events++; send(EVENT) }
    :: d_step { FREE && !dead && sequence && !eos_sent && epochs < EPOCHS && !renewing ->
        epochs++; renewing = 1; send(OFFER) }
    :: d_step { FREE && !dead && sequence == FRAMES && !eos_sent -> eos_sent = 1; send(EOS) }
    /* give.2: an interrupt, or a slot that is needed */
    :: d_step { FREE && !dead && waits && drops < DROPS -> drops++; give_way() }
    /* give.3: EOS has waited long enough, which happens only after everything else that can
     * happen */
#ifndef BUG_EOS_WAITS_FOR_EVER
    :: d_step { FREE && !dead && waits && eos_sent && KEEPS && !finished && !kicks -> give_way() }
#endif
    /* end.1: the receiver is gone */
#ifndef BUG_DEAD_KEEPS_WAITING
    :: d_step { FREE && dead && (waits || len(held) > 0) ->
        waits = 0;
        do
        :: len(held) > 0 -> held?t, a
        :: else -> break
        od;
        t = 0; a = 0; late = 0 }
#endif
    od
}

/* The thread that reads messages. A thread that arms holds the lock until it has checked. */
active proctype Listener()
{
    byte t, a;
end_listener:
    do
    /* arm.2: the number, then a fence */
    :: d_step { sleeping == 1 -> sleeps++; asleep = sleeps; armed = 1; sleeping = 2 }
    /* arm.3: checks once more */
    :: d_step { sleeping == 2 ->
        sleeping = 0;
#ifndef BUG_NOT_LOOKED_AFTER_ARMING
        if :: !dead -> advance(); looks = waits && unused :: else fi
#endif
        }
    /* kick.1 */
    :: d_step { FREE && kicks && !dead ->
        kicks--;
        armed = 0;
        advance();
#ifndef BUG_NOT_ARMED_AGAIN
        may_arm()
#endif
        }
    /* offer.2 */
    :: d_step { FREE && !dead && MAY_OFFER -> offer() }
    od
}

/* The card; and the thread that checks it, late. */
active proctype Card()
{
    byte t, a;
end_card:
    do
    :: d_step { busies < BUSY && !busy -> busies++; busy = 1 }
    :: d_step { busy -> busy = 0 }
#ifndef BUG_NOBODY_LOOKS_AT_THE_CARD
    :: d_step { FREE && looks && !busy && !dead -> advance(); may_arm() }
#endif
    od
}

/* --- the receiver ------------------------------------------------------------------------------------ */

/* I1 once and in order, I2 missing frames were counted; and in its place among the messages. */
inline take_frame(s)
{
    assert(s > last);
    assert(sent_before[s] == handled);
    gap = last + 1;
    do
    :: gap < s -> assert(lost & BIT(gap)); gap++
    :: else -> break
    od;
    gap = 0;
    last = s
}

/* All frames before it came or were counted, and none that was submitted after it came. */
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

active proctype Receiver()
{
    byte gap;
    bit gives;
end_receiver:
    do
    :: d_step { !dead && !finished && !has_message && len(wire) > 0 -> wire?type, place, after; has_message = 1 }
    :: d_step { !dead && !finished && has_message && claimed >= place ->
        check_place();
        has_message = 0; handled++;
        if
        :: type == EOS -> finished = 1
        :: type == OFFER ->
            /* nothing is under way on the old ring, so this one is fresh */
            assert(claimed == head && pending == 0 && waits == 0 && late == 0);
            head = 0; claimed = 0; returned = 0; our_returned = 0; unused = ENTRIES; holds = 0; gives = 0;
            offered = 1; renewing = 0;
        :: else
        fi;
        type = 0; place = 0; after = 0 }
    /* A frame before the place of the next message, which is read before the head. */
    :: d_step { !dead && !finished && claimed < head && (has_message -> claimed < place : len(wire) == 0) ->
        take_frame(sequence_at[claimed]); sequence_at[claimed] = 0; claimed++; holds++ }
    /* give_back.1, then the check for a sleeper */
    :: d_step { !dead && holds && !gives && (!KEEPS || finished) -> holds--; returned++; gives = 1 }
    :: d_step { gives ->
        gives = 0;
        if :: asleep != kicked -> kicked = asleep; kicks++ :: else fi }
    :: d_step { faults < FAULTS && !dead && !finished -> faults++; dead = 1 }
    od
}

init
{
    /* No step is left. */
end_monitor:
    timeout;
    assert(waits == 0 && len(held) == 0 && len(copies) == 0);
    assert(dead || (finished && sequence == FRAMES));
    /* The last submitted frame is the last that is seen. */
    assert(dead || DROPS || EPOCHS || KEEPS || last == FRAMES)
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's slots, mapped by two receivers: which process may use which slot when, whichever
 * process dies.
 *
 * Here: the pool with its use counts, one link for each receiver, blocking, drop-newest and
 * drop-oldest, copies that fail (void entries), receivers that leave with frames out (BYE),
 * eviction (`taken_back`), crashes of all three processes, reconnects with a fresh page.
 * In link.pml: the indices, counters, loads and stores of one page (here claim, revoke, reap and
 * publish are one step each), messages and their places. In wakeup.pml: sleeping. In liar.pml: words
 * that lie. No joint model is needed: links share nothing but the use counts of the slots, a message
 * uses no slot, and a sleeper does when woken what it does here without having slept.
 *
 * A link has CREDITS entries, fewer than there are slots, as where several receivers share a ring. A
 * slot has at most one entry of a link, so an entry is named by its slot, and sets of entries are
 * masks. Entries come in the order of their sequences.
 *
 * A run has FRAMES frames and at most FAULTS faults: a crash, a BYE, an eviction, in any mixture at
 * any step. No run goes in a circle, so each ends, and the end of `init` says whether it may end
 * there: that is "streams again or errors". */

#ifndef FRAMES
#define FRAMES 4
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef VOIDS
#define VOIDS 1
#endif
#ifndef BLOCK0
#define BLOCK0 1 /* receiver 0 may hold up the sender; 0: the newest or the oldest is dropped */
#endif
#ifndef BLOCK1
#define BLOCK1 0
#endif

#define SLOTS 3
#define CREDITS 2
#define NONE 3
#define BIT(i) (1 << (i))
#define COUNT(mask) (((mask) & 1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1))

/* The sender's link. */
#define NO_LINK 0
#define ASKED 1 /* the receiver has made a page and waits */
#define STREAMING 2
#define LEAVING 3 /* it said goodbye while entries are still out */

/* The receiver. */
#define OFFLINE 0
#define WAITS 1
#define RECEIVES 2
#define LEFT 3 /* destroyed; its application still holds frames */
#define GONE 4 /* crashed for good */

typedef Link {
    byte state;
    /* the page: published and not claimed; given back and not reaped; the descriptors */
    byte ready, back, voided;
    byte sequence[SLOTS];
    bit taken_back;
    /* the connection */
    bit bye, receiver_closed, sender_closed;
    /* the entries that the sender believes to be out */
    byte out;
    bit started;
    /* the receiver */
    byte receiver, held, last;
    /* ghosts: the sequences that the sender counts as dropped, and that no gap has shown yet; the
     * sender's process died, so only this receiver still maps its memory */
    byte lost;
    bit orphan
};

Link link[2];
byte users[SLOTS]; /* the pool */
byte sequence, faults, voids;

/* The sender's application. */
#define ACQUIRES 0
#define CREDIT0 1
#define CREDIT1 2
#define DESCRIBES 3
#define COPIES 4
#define PUBLISHES 5
#define DEAD 6
byte at = ACQUIRES;
byte writing = NONE;   /* the slot */
byte invited, targets; /* links that the frame is for, and those with an entry for it */
bit failed;            /* the copy */

/* --- what must always hold ------------------------------------------------------------------- */

#define TAKEN(l) (((targets >> l) & 1) << writing)

/* I6, entries: free + writing + ready + held (or quarantined) + on their way back. */
inline check_entries(l)
{
    assert(COUNT(link[l].out) <= CREDITS);
    assert(link[l].state < STREAMING || link[l].receiver < RECEIVES ||
           link[l].receiver_closed ||
           ((link[l].out == (TAKEN(l) | link[l].ready | link[l].held | link[l].back)) &&
            COUNT(link[l].out) == ((targets >> l) & 1) + COUNT(link[l].ready) +
                                  COUNT(link[l].held) + COUNT(link[l].back)))
}

#define USES(s) ((writing == s) + ((link[0].out >> s) & 1) + ((link[1].out >> s) & 1))

/* I6, slots: one is free when neither the application nor a link uses it, and only then. */
inline check_slots()
{
    assert(users[0] == USES(0) && users[1] == USES(1) && users[2] == USES(2));
    check_entries(0);
    check_entries(1)
}

/* Whether the receiver reads the slot, or may still, and takes its bytes for its frame. */
#define READS(l, s)                                                                                \
    ((link[l].receiver == RECEIVES || link[l].receiver == LEFT) && !link[l].taken_back &&          \
     !link[l].orphan && ((link[l].held | link[l].ready) & BIT(s)))

/* --- the sender's half ----------------------------------------------------------------------- */

inline free_entry(l, s)
{
    if
    :: link[l].out & BIT(s) ->
        link[l].out = link[l].out & ~BIT(s);
#ifdef BUG_SLOT_REUSED_EARLY
        users[s] = (writing == s); /* one receiver has finished: all have */
#else
        users[s]--; /* drop_slot() */
#endif
    :: else
    fi
}

inline free_entries(l, mask)
{
    if :: (mask) & 1 -> free_entry(l, 0) :: else fi;
    if :: (mask) & 2 -> free_entry(l, 1) :: else fi;
    if :: (mask) & 4 -> free_entry(l, 2) :: else fi
}

/* reap: gpud_transport_reap() */
inline reap(l)
{
    free_entries(l, link[l].back);
    link[l].back = 0
}

/* The slot of the oldest unclaimed frame. */
#define OLDER(l, a, b)                                                                             \
    ((link[l].ready & BIT(a)) &&                                                                   \
     (!(link[l].ready & BIT(b)) || link[l].sequence[a] < link[l].sequence[b]))
#define OLDEST(l)                                                                                  \
    (OLDER(l, 0, 1) && OLDER(l, 0, 2) -> 0 : (OLDER(l, 1, 2) && OLDER(l, 1, 0) -> 1 : 2))

inline unclaimed_to(l, s)
{
    link[l].ready = link[l].ready & ~BIT(s);
    link[l].sequence[s] = 0
}

/* revoke: gpud_page_revoke(): the oldest unclaimed frame, by compare-and-swap on `claimed` */
inline revoke(l)
{
    s = OLDEST(l);
    link[l].lost = link[l].lost | BIT(link[l].sequence[s]);
    link[l].voided = link[l].voided & ~BIT(s);
    unclaimed_to(l, s);
    free_entry(l, s);
    s = 0
}

inline revoke_all(l)
{
    do
    :: link[l].ready -> revoke(l)
    :: else -> break
    od
}

/* Frames on their way to a link that ends are not published there. */
inline forget_target(l)
{
    invited = invited & ~BIT(l);
    if
    :: targets & BIT(l) -> targets = targets & ~BIT(l); free_entry(l, writing)
    :: else
    fi
}

inline fresh_page(l)
{
    link[l].ready = 0; link[l].back = 0; link[l].voided = 0;
    link[l].sequence[0] = 0; link[l].sequence[1] = 0; link[l].sequence[2] = 0;
    link[l].lost = 0; link[l].last = 0; link[l].held = 0;
    link[l].taken_back = 0; link[l].orphan = 0;
    link[l].receiver_closed = 0; link[l].sender_closed = 0
}

/* The sender has finished with this connection. */
inline drop_link(l)
{
    link[l].state = NO_LINK; link[l].out = 0; link[l].started = 0; link[l].bye = 0;
    if :: link[l].receiver == OFFLINE || link[l].receiver == GONE -> fresh_page(l) :: else fi
}

inline end_link(l)
{
    forget_target(l);
    free_entries(l, link[l].out);
    drop_link(l)
}

/* --- the sender's application, under the sender's lock ---------------------------------------- */

#define SLOT_FREE (users[0] == 0 || users[1] == 0 || users[2] == 0)
#define INVITED(l) (link[l].state == STREAMING && (invited & BIT(l)))
#define CAN_REAP(l) (link[l].state >= STREAMING && link[l].back)
#define CAN_TAKE(l) (COUNT(link[l].out) < CREDITS || link[l].back)
#define FULL(l) (COUNT(link[l].out) == CREDITS)

inline invite(l)
{
    if
    :: link[l].state == STREAMING ->
        invited = invited | BIT(l);
        /* gpud_page_start() */
        if :: !link[l].started -> link[l].started = 1; link[l].last = sequence :: else fi
    :: else
    fi
}

/* A new writer of the slot. I3: no receiver takes its bytes for an earlier frame. */
inline write_slot(s)
{
    writing = s;
    users[s] = 1;
    assert(!READS(0, s) && !READS(1, s))
}

inline take_credit(l)
{
    reap(l);
    targets = targets | BIT(l);
    link[l].out = link[l].out | BIT(writing);
    users[writing]++ /* gpud_slot_hold() */
}

inline publish(l)
{
    if
    :: targets & BIT(l) ->
        link[l].ready = link[l].ready | BIT(writing);
        link[l].sequence[writing] = sequence;
        if
        :: failed ->
            link[l].voided = link[l].voided | BIT(writing);
            link[l].lost = link[l].lost | BIT(sequence)
        :: else
        fi;
        targets = targets & ~BIT(l)
    :: else
    fi
}

inline crash_link(l)
{
    if
    :: link[l].state != NO_LINK -> link[l].sender_closed = 1; link[l].orphan = 1
    :: else
    fi;
    drop_link(l)
}

active proctype Sender()
{
    byte s;
end_sender:
    do
    /* acquire.1: take_slot() in submit.c, the application writes; submit.1: snapshot() */
    :: d_step { at == ACQUIRES && sequence < FRAMES && SLOT_FREE ->
        if
        :: users[0] == 0 -> write_slot(0)
        :: users[0] && users[1] == 0 -> write_slot(1)
        :: else -> write_slot(2)
        fi;
        invite(0); invite(1); at = CREDIT0; check_slots() }
    /* acquire.2: take_slot(), where no slot is free */
    :: d_step { at == ACQUIRES && sequence < FRAMES && !SLOT_FREE && (CAN_REAP(0) || CAN_REAP(1)) ->
        if :: CAN_REAP(0) -> reap(0) :: else fi;
        if :: CAN_REAP(1) -> reap(1) :: else fi;
        check_slots() }

    /* credit.1: take_credit(): nothing for a link that does not stream */
    :: d_step { at == CREDIT0 && !INVITED(0) -> at = CREDIT1 }
    :: d_step { at == CREDIT1 && !INVITED(1) -> at = DESCRIBES }
    /* credit.2: an entry. Without one, the sender waits here for a receiver that blocks. */
    :: d_step { at == CREDIT0 && INVITED(0) && CAN_TAKE(0) ->
        take_credit(0); at = CREDIT1; check_slots() }
    :: d_step { at == CREDIT1 && INVITED(1) && CAN_TAKE(1) ->
        take_credit(1); at = DESCRIBES; check_slots() }
    /* credit.3: or this frame is dropped for it */
    :: d_step { !BLOCK0 && at == CREDIT0 && INVITED(0) && FULL(0) ->
        link[0].lost = link[0].lost | BIT(sequence + 1); at = CREDIT1 }
    :: d_step { !BLOCK1 && at == CREDIT1 && INVITED(1) && FULL(1) ->
        link[1].lost = link[1].lost | BIT(sequence + 1); at = DESCRIBES }
    /* credit.4: or the oldest frame that it has not claimed */
    :: d_step { !BLOCK0 && at == CREDIT0 && INVITED(0) && FULL(0) && link[0].ready ->
        revoke(0); check_slots() }
    :: d_step { !BLOCK1 && at == CREDIT1 && INVITED(1) && FULL(1) && link[1].ready ->
        revoke(1); check_slots() }

    /* describe.1: gpud_transport_describe(); then the lock is dropped, and the copy runs */
    :: d_step { at == DESCRIBES -> sequence++; invited = 0; at = COPIES }
    /* copy.failed: published all the same, as void */
    :: d_step { at == COPIES && targets && voids < VOIDS && !failed -> voids++; failed = 1 }
    /* publish.1: gpud_transport_publish(), one link after the other */
    :: d_step { at == COPIES -> publish(0); at = PUBLISHES; check_slots() }
    /* publish.2: and then the application's own use ends: gpud_delivery_release() */
    :: d_step { at == PUBLISHES ->
        publish(1);
        users[writing]--; writing = NONE; failed = 0; at = ACQUIRES; check_slots() }

    /* crash.sender: at any step; its memory stays as it is for those that map it */
    :: d_step { faults < FAULTS && at != DEAD ->
        faults++;
        crash_link(0); crash_link(1);
        users[0] = 0; users[1] = 0; users[2] = 0;
        invited = 0; targets = 0; writing = NONE; failed = 0; at = DEAD }
    /* restart: a new process at the same address, or none */
    :: d_step { at == DEAD -> at = ACQUIRES }
    :: at == DEAD -> break
    od
}

/* --- the sender's listener, whenever the lock is free ------------------------------------------ */

#define UNLOCKED (at == ACQUIRES || at == CREDIT0 || at == CREDIT1 || at == COPIES)

#define HEARS(l)                                                                                   \
    ((link[l].state == ASKED && !link[l].receiver_closed) ||                                       \
     (link[l].state == STREAMING && link[l].bye) || (link[l].state == LEAVING && link[l].back) ||  \
     (link[l].state != NO_LINK && link[l].receiver_closed))

inline listen(l)
{
    if
    /* accept.1: handle_ready() */
    :: link[l].state == ASKED && !link[l].receiver_closed ->
        link[l].state = STREAMING; link[l].receiver = RECEIVES
    /* bye.2: takes back what was not claimed, keeps the slots of what is held */
    :: link[l].state == STREAMING && link[l].bye ->
#ifdef BUG_KILLED_WITH_FRAMES_HELD
        end_link(l);
#else
        forget_target(l); reap(l); revoke_all(l);
        link[l].bye = 0; link[l].lost = 0; link[l].state = LEAVING
#endif
    /* bye.3: held frames come back */
    :: link[l].state == LEAVING && link[l].back && !link[l].receiver_closed -> reap(l)
    /* end.1: the connection is closed: it is no longer read */
    :: link[l].state >= ASKED && !link[l].bye && link[l].receiver_closed -> end_link(l)
    fi;
    check_slots()
}

/* evict: gpud_link_kill(): first `taken_back`, then what it covers is free, claimed or not */
inline evict(l)
{
    faults++;
#ifndef BUG_EVICTED_UNFLAGGED
    link[l].taken_back = 1;
#endif
    link[l].sender_closed = 1;
    end_link(l);
    check_slots()
}

active proctype Listener()
{
    byte s;
end_listener:
    do
    :: d_step { UNLOCKED && HEARS(0) -> listen(0) }
    :: d_step { UNLOCKED && HEARS(1) -> listen(1) }
    :: d_step { UNLOCKED && faults < FAULTS && link[0].state >= STREAMING && !HEARS(0) -> evict(0) }
    :: d_step { UNLOCKED && faults < FAULTS && link[1].state >= STREAMING && !HEARS(1) -> evict(1) }
    od
}

/* --- a receiver and its application ----------------------------------------------------------- */

#define HOLDS(l, s) (link[l].receiver >= RECEIVES && (link[l].held & BIT(s)))

/* The receiver's process has finished with this session, and with what it held of it. */
inline leave(l, next)
{
    link[l].receiver = next;
    link[l].held = 0; link[l].last = 0; link[l].lost = 0;
    if :: link[l].state == NO_LINK -> fresh_page(l) :: else -> link[l].receiver_closed = 1 fi
}

/* I1: once, and in order. I2: missing frames were reported. */
inline count_frame(l, s)
{
    assert(link[l].sequence[s] > link[l].last);
    gap = link[l].last + 1;
    do
    :: gap < link[l].sequence[s] -> assert(link[l].lost & BIT(gap)); gap++
    :: else -> break
    od;
    gap = 0;
    link[l].last = link[l].sequence[s];
    link[l].lost = link[l].lost & ~(BIT(link[l].last) | (BIT(link[l].last) - 1))
}

inline give_back(l, s)
{
    link[l].held = link[l].held & ~BIT(s);
    if :: link[l].state != NO_LINK -> link[l].back = link[l].back | BIT(s) :: else fi;
    check_entries(l)
}

proctype Receiver(byte l)
{
    byte s, gap;
end_receiver:
    do
    /* connect.1: a fresh page, ACCEPT */
    :: d_step { link[l].receiver == OFFLINE && link[l].state == NO_LINK && at != DEAD ->
        link[l].state = ASKED; link[l].receiver = WAITS }

    /* claim.3: gpud_page_claim(); a void entry only goes back */
    :: d_step { link[l].receiver == RECEIVES && link[l].ready ->
        s = OLDEST(l);
        assert(!(link[l].held & BIT(s)));
        if
        :: link[l].voided & BIT(s) -> link[l].voided = link[l].voided & ~BIT(s)
        :: else -> count_frame(l, s)
        fi;
        unclaimed_to(l, s);
        link[l].held = link[l].held | BIT(s);
        s = 0; check_entries(l) }
    /* give_back.2: gpud_page_give_back(), in any order, while it streams and after it left */
    :: d_step { HOLDS(l, 0) -> give_back(l, 0) }
    :: d_step { HOLDS(l, 1) -> give_back(l, 1) }
    :: d_step { HOLDS(l, 2) -> give_back(l, 2) }

    /* bye.1: gpud_receiver_destroy() while frames are held */
    :: d_step { faults < FAULTS && link[l].receiver == RECEIVES ->
        faults++;
        link[l].receiver = LEFT;
        if :: link[l].state != NO_LINK -> link[l].bye = 1 :: else fi;
#ifdef BUG_SHUT_DOWN_WITH_FRAMES_HELD
        link[l].receiver_closed = 1;
#endif
        }
    /* bye.4: the last held frame closes the connection */
    :: d_step { link[l].receiver == LEFT && link[l].held == 0 -> leave(l, OFFLINE) }

    /* end.2: the sender's end is closed, and nothing is left to take: an error, and a new
     * attempt */
    :: d_step { (link[l].receiver == WAITS || link[l].receiver == RECEIVES) &&
        link[l].sender_closed && (!link[l].ready || link[l].taken_back) -> leave(l, OFFLINE) }

    /* crash.receiver: at any step; then a new process, or none */
    :: d_step { faults < FAULTS && link[l].receiver != OFFLINE && link[l].receiver != GONE ->
        faults++; leave(l, OFFLINE) }
    :: d_step { faults < FAULTS && link[l].receiver != GONE -> faults++; leave(l, GONE) }
    od
}

/* --- the end of every run ---------------------------------------------------------------------- */

#define AT_REST(l)                                                                                 \
    (link[l].receiver == GONE || (link[l].receiver == OFFLINE && at == DEAD) ||                    \
     (link[l].receiver == RECEIVES && link[l].state == STREAMING && link[l].held == 0 &&           \
      link[l].ready == 0))

init
{
    run Receiver(0);
    run Receiver(1);
    /* No step is left: all frames are sent and taken, or a process is known to be gone. */
end_monitor:
    timeout;
    assert(at == DEAD || (at == ACQUIRES && sequence == FRAMES));
    assert(AT_REST(0) && AT_REST(1))
}

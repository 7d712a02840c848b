/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Going to sleep and waking up: `asleep` and `kicks` of either half of the page, and `idle`.
 *
 * Three threads and those that interrupt them: the sender; the receiver's, which acquires; one of
 * the receiver's application, which releases, and keeps KEEP frames for good. A sleeper here has no
 * time limit: where the code would lose a wake-up and go on 50 ms later, this model stands still,
 * and the end of `init` finds it asleep with something to do.
 *
 * Memory is that of a machine that delays stores (TSO): a store goes into the thread's own buffer,
 * `Memory` moves it to where others see it at any later time, a fence waits until the buffer is
 * empty, and so does a read-modify-write. The sender pauses when it likes, so the last wake-up
 * counts as much as any. A message counts like a frame: both are a store, then a notice.
 *
 * `asleep` is 0, or the number of this sleep, which grows as long as the page lives. Numbers are
 * only ever compared with each other: here each sleep takes one that no side remembers. `kicks` grows,
 * too, and only its sleeper compares it: here it is whether it has changed since the sleeper read it.
 *
 * POLLS: the receiver waits for a message on its socket instead of the word. LIES: one side alone
 * (HONEST: 0 the sender, 1 the receiver), and a peer that changes any word of the page to any
 * value, so many times; an interrupted thread must wake up all the same.
 *
 * Counters go modulo MODULUS, which is more than ENTRIES, and never end. */

#ifndef ENTRIES
#define ENTRIES 4 /* the sender wants 2 of them at a time */
#endif
#ifndef MODULUS
#define MODULUS 8
#endif
#ifndef KEEP
#define KEEP (ENTRIES - 1)
#endif
#ifndef POLLS
#define POLLS 0
#endif
#ifndef LIES
#define LIES 0
#endif
#ifndef HONEST
#define HONEST 2 /* both */
#endif
#ifndef STOPS
#define STOPS 1
#endif
#define WANTED (ENTRIES > 1 -> ENTRIES / 2 : 1)
#define NEXT(counter) (((counter) + 1) & (MODULUS - 1))
#define DISTANCE(a, b) (((a) - (b)) & (MODULUS - 1))

/* The words: first the page's, each written by one side, then each side's own. `claimed` changes
 * only by a read-modify-write. */
#define HEAD 0
#define RETURNED 1
#define ASLEEP(who) (2 + (who))
#define STOP(who) (4 + (who))
#define IDLE 6
byte word[7];
/* The sleeper's own copy of `asleep`, for its own side. It is stored just before, and becomes
 * visible with it: no thread reads both. */
byte sleeps[2];
byte claimed;
bit kicks[2];   /* of the other side; 1: changed since the sleeper read it; POLLS: a message waits */
byte kicked[2]; /* in the other side's memory: the sleep that it ended last */

/* The threads. */
#define SENDER 0
#define ACQUIRER 1
#define RELEASER 2
#define STOPPER 3
chan buffer[4] = [2] of { byte, byte };
byte seen[3]; /* `asleep`, as loaded by a thread that wakes the other side */

#define STORE(thread, which, value) buffer[thread]!which, value
#define FENCE(thread) empty(buffer[thread])

bit asleep[2]; /* in the kernel: the sender, the acquirer */
byte held;     /* frames, by the receiver's application; under session->lock */
byte lies;

/* The number that the other side woke last, once no word and no thread has it any more. */
#define REMEMBERED(number, who) \
    ((number) == word[ASLEEP(who)] || ((who) == 1 && (number) == seen[SENDER]) || \
     ((who) == 0 && ((number) == seen[ACQUIRER] || (number) == seen[RELEASER])))
inline forget(who)
{
    kicked[who] = (REMEMBERED(kicked[who], who) -> kicked[who] : 0)
}

inline store()
{
    word[which] = value;
    if
    :: which == ASLEEP(0) -> sleeps[0] = value; forget(0)
    :: which == ASLEEP(1) -> sleeps[1] = value; forget(1)
    :: else
    fi;
    which = 0; value = 0
}

active proctype Memory()
{
    byte which, value;
end_memory:
    do
    :: d_step { buffer[0]?which, value -> store() }
    :: d_step { buffer[1]?which, value -> store() }
    :: d_step { buffer[2]?which, value -> store() }
    :: d_step { buffer[3]?which, value -> store() }
    od
}

active proctype Liar()
{
    byte which, value;
end_liar:
    do
    :: atomic { lies < LIES ->
        lies++;
        do
        :: which < ASLEEP(1) -> which++
        :: break
        od;
        do
        :: value < 4 -> value++
        :: break
        od;
        word[which] = value; which = 0; value = 0 }
    :: d_step { lies < LIES -> lies++; kicks[0] = !kicks[0] }
    :: d_step { lies < LIES -> lies++; kicks[1] = !kicks[1] }
    od
}

/* --- waking the other side ------------------------------------------------------------------ */

/* gpud_waker_look(): wake.1, after a fence: is the other side asleep, and not woken from this sleep
 * before? gpud_waker_claim(): wake.2, the exchange that allows one kick for a sleep.
 * gpud_waker_kick(): wake.3, the word and the system call, or the message. A late system call finds
 * no sleeper, or causes a spurious wake. */
#define IS_AWAKE(who) (word[ASLEEP(who)] == 0 || word[ASLEEP(who)] == kicked[who])

inline kick(thread, who)
{
    if
    :: d_step { FENCE(thread) && kicked[who] == seen[thread] -> seen[thread] = 0; forget(who) }
    :: d_step { FENCE(thread) && kicked[who] != seen[thread] ->
        kicked[who] = seen[thread]; seen[thread] = 0; forget(who) };
        d_step { kicks[who] = 1; asleep[who] = 0 }
    fi
}

inline wake(thread, who)
{
    if
    :: FENCE(thread) && IS_AWAKE(who)
    :: d_step { FENCE(thread) && !IS_AWAKE(who) -> seen[thread] = word[ASLEEP(who)] }
        kick(thread, who)
    fi
}

/* --- sleeping ------------------------------------------------------------------------------- */

/* The least number that no side remembers. */
#define USED(number, who) (REMEMBERED(number, who) || (number) == kicked[who])
#define UNUSED(who) (!USED(1, who) -> 1 : (!USED(2, who) -> 2 : \
                    (!USED(3, who) -> 3 : (!USED(4, who) -> 4 : 5))))

/* sleep.0: the word as it is now, before another thread can know of this sleep; sleep.1: announces
 * it */
inline announce(thread, who)
{
    d_step {
        forget(who);
#ifdef BUG_SLEEP_WITHOUT_NUMBER
        kicked[who] = 1;
        number = 1;
#else
        number = UNUSED(who);
#endif
#ifndef BUG_KICKS_READ_LATE
        kicks[who] = (POLLS && who == 1 -> kicks[who] : 0)
#endif
    };
    atomic { buffer[thread]!ASLEEP(who), number; number = 0 }
}

/* sleep.4: the kernel compares and sleeps under a lock of its own; ppoll() likewise. The acquirer
 * reads its messages before it announces the next sleep, never after. */
inline futex_wait(thread, who)
{
#ifdef BUG_KICKS_READ_LATE
    kicks[who] = 0;
#endif
    atomic { FENCE(thread) ->
        if
        :: !kicks[who] -> asleep[who] = 1
        :: else
        fi };
end_asleep:
    d_step { !asleep[who] -> kicks[who] = 0 }
}

/* sleep.5 */
inline awake(thread, who)
{
    STORE(thread, ASLEEP(who), 0)
}

#ifdef BUG_SENDER_WITHOUT_FENCE
#define SENDER_FENCE true
#else
#define SENDER_FENCE FENCE(SENDER)
#endif
#ifdef BUG_STOP_NOT_CHECKED_AGAIN
#define STOP_SEEN false
#else
#define STOP_SEEN word[STOP(0)]
#endif

proctype Sender()
{
    byte head, returned, unused = ENTRIES, number;
turn:
    do
    :: break /* it pauses */
    :: word[STOP(0)] -> break
    :: unused > 0 ->
        /* publish.2 */
        d_step { unused--; head = NEXT(head) }
        STORE(SENDER, HEAD, head);
        wake(SENDER, 1)
    :: unused > 0 -> /* announce: it wakes the receiver, and the frame may or may not come after */
        wake(SENDER, 1)
    /* reap */
    :: d_step { word[RETURNED] != returned && DISTANCE(word[RETURNED], returned) <= ENTRIES - unused ->
        returned = NEXT(returned); unused++ }
    :: DISTANCE(word[RETURNED], returned) > ENTRIES - unused -> assert(LIES); break
    :: unused == 0 && word[RETURNED] == returned && !word[STOP(0)] ->
        /* sleep.0, sleep.1: it wants WANTED free entries */
        announce(SENDER, 0);
        /* sleep.2 the fence, sleep.3 checks once more */
        if
        :: SENDER_FENCE && (word[RETURNED] != returned || STOP_SEEN)
        :: SENDER_FENCE && !(word[RETURNED] != returned || STOP_SEEN) ->
            /* sleep.4 */
            futex_wait(SENDER, 0)
        fi;
        /* sleep.5 */
        awake(SENDER, 0)
    od;
end_sender:
    false
}

#define SOMETHING (claimed != word[HEAD] || word[STOP(1)])

#ifdef BUG_RECEIVER_WITHOUT_FENCE
#define ACQUIRER_FENCE true
#else
#define ACQUIRER_FENCE FENCE(ACQUIRER)
#endif

proctype Acquirer()
{
    byte number;
turn:
    do
    /* claim.3: a locked instruction empties the buffer */
    :: d_step { claimed != word[HEAD] && held + DISTANCE(word[HEAD], claimed) <= ENTRIES &&
                FENCE(ACQUIRER) -> claimed = NEXT(claimed); held++ }
    :: held + DISTANCE(word[HEAD], claimed) > ENTRIES -> assert(LIES); break
    :: word[STOP(1)] -> break
    :: !SOMETHING ->
        /* idle.1 */
        STORE(ACQUIRER, IDLE, 1);
        /* idle.2, idle.3: wakes the sender, however many entries it wanted */
#ifndef BUG_IDLE_WAKES_NOBODY
        wake(ACQUIRER, 0);
#endif
        /* sleep.0, sleep.1 */
        announce(ACQUIRER, 1);
        /* sleep.2, sleep.3 */
        if
        :: ACQUIRER_FENCE && SOMETHING
        :: ACQUIRER_FENCE && !SOMETHING ->
            /* sleep.4 */
            futex_wait(ACQUIRER, 1)
        fi;
        /* sleep.5, idle.4 */
        awake(ACQUIRER, 1);
        STORE(ACQUIRER, IDLE, 0)
    od;
end_acquirer:
    false
}

#ifdef BUG_GIVE_BACK_WITHOUT_FENCE
#define RELEASER_FENCE true
#else
#define RELEASER_FENCE FENCE(RELEASER)
#endif

#ifdef BUG_IDLE_READ_EARLY
#define IDLE_SEEN idle
#else
#define IDLE_SEEN word[IDLE]
#endif

/* Enough entries are free for what the sender wanted. */
#define ENOUGH (ENTRIES - held >= DISTANCE(word[HEAD], claimed) + WANTED)

/* gpud_page_give_back() */
proctype Releaser(byte keep)
{
    byte returned;
    bit idle;
end_releaser:
    do
    :: held > keep ->
        /* give_back.1 is given_back[], which only the sender's reap reads */
#ifdef BUG_IDLE_READ_EARLY
        idle = word[IDLE];
#endif
        /* give_back.2 */
        d_step { held--; returned = NEXT(returned) }
        STORE(RELEASER, RETURNED, returned);
        /* give_back.3 the fence, and only then: does the sender sleep? give_back.4: is the receiver
         * idle, or are enough free, so that it must be woken? */
        if
        :: RELEASER_FENCE && IS_AWAKE(0)
        :: d_step { RELEASER_FENCE && !IS_AWAKE(0) -> seen[RELEASER] = word[ASLEEP(0)] };
            if
            :: d_step { !(IDLE_SEEN || ENOUGH) -> seen[RELEASER] = 0 }
            :: IDLE_SEEN || ENOUGH -> kick(RELEASER, 0)
            fi
        fi;
        idle = 0
    od
}

/* --- waking one's own side -------------------------------------------------------------------- */

#ifdef BUG_INTERRUPT_BY_THE_PAGE
#define OWN_SLEEP(who) word[ASLEEP(who)]
#else
#define OWN_SLEEP(who) sleeps[who]
#endif

/* gpud_sleeper_rouse(): rouse.1 the fence, and the check of the word that no peer writes; rouse.2
 * the system call, again until that sleep is over, because the sleeper may not have reached the
 * kernel yet. POLLS: its own descriptor stays readable. */
inline rouse(who, number)
{
    d_step { FENCE(STOPPER) -> number = OWN_SLEEP(who) };
    do
    :: number == 0 || OWN_SLEEP(who) != number -> number = 0; break
    :: number != 0 && OWN_SLEEP(who) == number ->
        d_step { kicks[who] = (POLLS && who == 1 -> 1 : kicks[who]); asleep[who] = 0 };
#ifdef BUG_INTERRUPT_ONCE
        break
#endif
    od
}

/* gpud_sender_interrupt(), gpud_receiver_interrupt(), or nothing */
proctype Stopper()
{
    byte number;
    if
    :: true
    :: STORE(STOPPER, STOP(0), 1); rouse(0, number)
    :: STORE(STOPPER, STOP(1), 1); rouse(1, number)
    fi
}

init
{
    atomic {
        if
        :: HONEST != 1 -> run Sender()
        :: HONEST == 1
        fi;
        if
        :: HONEST != 0 -> run Acquirer(); run Releaser(KEEP)
        :: HONEST == 0
        fi;
        if
        :: STOPS -> run Stopper()
        :: !STOPS
        fi
    }
    /* No step is left. */
end_monitor:
    timeout;
    assert(!(asleep[0] && word[STOP(0)]));
    assert(!(asleep[1] && word[STOP(1)]));
    assert(!(asleep[1] && SOMETHING) || LIES);
    /* A sender may sleep for credits for good only if none will come. */
    assert(!asleep[0] || word[STOP(1)] || KEEP >= ENTRIES || LIES)
}

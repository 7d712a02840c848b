/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Going to sleep and waking up: the words `sender_sleeps`, `receiver_sleeps` and `idle`.
 *
 * Three threads and who interrupts them: the sender; the receiver's, which acquires; one of the
 * receiver's application, which releases, and keeps KEEP frames for good. A sleeper here has
 * no time limit: where the code would lose a wake-up and go on 50 ms later, this model stands still,
 * and the end of `init` finds it asleep with something to do.
 *
 * Memory is that of a machine that delays stores (TSO): a store goes into the thread's own buffer,
 * `Memory` moves it to where others see it at any later time, a fence waits until the buffer is
 * empty, and so does a read-modify-write. The sender pauses when it likes, so the last wake-up
 * counts as much as any. A message counts like a frame: both are a store, then gpud_wake().
 *
 * Counters go modulo MODULUS, which is more than ENTRIES, and never end. */

#ifndef ENTRIES
#define ENTRIES 4 /* the sender wishes for 2 of them at a time */
#endif
#ifndef MODULUS
#define MODULUS 8
#endif
#ifndef KEEP
#define KEEP (ENTRIES - 1)
#endif
#define WANTED (ENTRIES > 1 -> ENTRIES / 2 : 1)
#define NEXT(counter) (((counter) + 1) & (MODULUS - 1))
#define DISTANCE(a, b) (((a) - (b)) & (MODULUS - 1))

/* The words. `claimed` is only ever changed by a read-modify-write. */
#define HEAD 0
#define RETURNED 1
#define SENDER_SLEEPS 2
#define RECEIVER_SLEEPS 3
#define IDLE 4
#define SENDER_STOP 5
#define RECEIVER_STOP 6
byte word[7];
byte claimed;

/* The threads. */
#define SENDER 0
#define ACQUIRER 1
#define RELEASER 2
#define STOPPER 3
chan buffer[4] = [2] of { byte, byte };

#define STORE(thread, which, value) buffer[thread]!which, value
#define FENCE(thread) empty(buffer[thread])

bit asleep[2]; /* in the kernel: the sender, the acquirer */
byte held;     /* frames, by the receiver's application; under session->lock */
bit paused;    /* the sender */

active proctype Memory()
{
    byte which, value;
end_memory:
    do
    :: d_step { buffer[0]?which, value -> word[which] = value; which = 0; value = 0 }
    :: d_step { buffer[1]?which, value -> word[which] = value; which = 0; value = 0 }
    :: d_step { buffer[2]?which, value -> word[which] = value; which = 0; value = 0 }
    :: d_step { buffer[3]?which, value -> word[which] = value; which = 0; value = 0 }
    od
}

/* gpud_wake(): wake.1 the fence, and the look or the exchange; wake.2 the system call */
inline wake(thread, sleeper, who)
{
    if
    :: FENCE(thread) && word[sleeper] == 0
    :: d_step { FENCE(thread) && word[sleeper] != 0 -> word[sleeper] = 0 }
        asleep[who] = 0
    fi
}

/* gpud_futex_wait(): the kernel compares and sleeps under a lock of its own */
inline futex_wait(thread, sleeper, value, who)
{
    atomic { FENCE(thread) ->
        if
        :: word[sleeper] == value -> asleep[who] = 1
        :: else
        fi }
end_asleep:
    !asleep[who]
}

#ifdef BUG_SENDER_WITHOUT_FENCE
#define SENDER_FENCE true
#else
#define SENDER_FENCE FENCE(SENDER)
#endif
#ifdef BUG_STOP_NOT_CHECKED_AGAIN
#define STOP_SEEN false
#else
#define STOP_SEEN word[SENDER_STOP]
#endif

proctype Sender()
{
    byte head, returned, unused = ENTRIES;
turn:
    do
    :: paused = 1; break
    :: word[SENDER_STOP] -> break
    :: unused > 0 ->
        /* publish.2 */
        d_step { unused--; head = NEXT(head) }
        STORE(SENDER, HEAD, head);
        wake(SENDER, RECEIVER_SLEEPS, 1)
    :: unused > 0 -> /* announce: it wakes, and the frame comes after, or does not */
        wake(SENDER, RECEIVER_SLEEPS, 1)
    /* reap */
    :: d_step { word[RETURNED] != returned -> returned = NEXT(returned); unused++ }
    :: unused == 0 && word[RETURNED] == returned && !word[SENDER_STOP] ->
        /* sleep.1: how many free entries it wishes for */
        STORE(SENDER, SENDER_SLEEPS, WANTED);
        /* sleep.2 the fence, sleep.3 looks once more */
        if
        :: SENDER_FENCE && (word[RETURNED] != returned || STOP_SEEN)
        :: SENDER_FENCE && !(word[RETURNED] != returned || STOP_SEEN) ->
            /* sleep.4 */
            futex_wait(SENDER, SENDER_SLEEPS, WANTED, 0)
        fi;
        /* sleep.5 */
        STORE(SENDER, SENDER_SLEEPS, 0)
    od;
end_sender:
    false
}

#define SOMETHING (claimed != word[HEAD] || word[RECEIVER_STOP])

#ifdef BUG_RECEIVER_WITHOUT_FENCE
#define ACQUIRER_FENCE true
#else
#define ACQUIRER_FENCE FENCE(ACQUIRER)
#endif

active proctype Acquirer()
{
turn:
    do
    /* claim.3: a locked instruction empties the buffer */
    :: d_step { claimed != word[HEAD] && FENCE(ACQUIRER) -> claimed = NEXT(claimed); held++ }
    :: word[RECEIVER_STOP] -> break
    :: !SOMETHING ->
        /* idle.1 */
        STORE(ACQUIRER, IDLE, 1);
        /* idle.2, idle.3: the sender, whatever it wished for */
#ifndef BUG_IDLE_WAKES_NOBODY
        wake(ACQUIRER, SENDER_SLEEPS, 0);
#endif
        /* sleep.1 */
        STORE(ACQUIRER, RECEIVER_SLEEPS, 1);
        /* sleep.2, sleep.3 */
        if
        :: ACQUIRER_FENCE && SOMETHING
        :: ACQUIRER_FENCE && !SOMETHING ->
            /* sleep.4 */
            futex_wait(ACQUIRER, RECEIVER_SLEEPS, 1, 1)
        fi;
        /* sleep.5, idle.4 */
        STORE(ACQUIRER, RECEIVER_SLEEPS, 0);
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

/* Enough entries are free for what the sender wished. */
#define ENOUGH (ENTRIES - held >= DISTANCE(word[HEAD], claimed) + word[SENDER_SLEEPS])

/* gpud_page_give_back() */
proctype Releaser(byte keep)
{
    byte returned;
    bit idle;
end_releaser:
    do
    :: held > keep ->
        /* give_back.1 is given_back[], which only the sender's reap looks at */
#ifdef BUG_IDLE_READ_EARLY
        idle = word[IDLE];
#endif
        /* give_back.2 */
        d_step { held--; returned = NEXT(returned) }
        STORE(RELEASER, RETURNED, returned);
        /* give_back.3 the fence, and only then give_back.4: is the receiver idle */
#ifdef BUG_IDLE_READ_EARLY
        RELEASER_FENCE;
#else
        d_step { RELEASER_FENCE -> idle = word[IDLE] }
#endif
        /* give_back.5: does the sender sleep, and shall it be woken */
        if
        :: d_step { word[SENDER_SLEEPS] == 0 || !(idle || ENOUGH) -> idle = 0 }
        :: d_step { word[SENDER_SLEEPS] && (idle || ENOUGH) -> idle = 0 }
            wake(RELEASER, SENDER_SLEEPS, 0)
        fi
    od
}

/* gpud_sender_interrupt(), gpud_receiver_interrupt(), or nothing */
proctype Stopper()
{
    if
    :: true
    :: STORE(STOPPER, SENDER_STOP, 1); wake(STOPPER, SENDER_SLEEPS, 0)
    :: STORE(STOPPER, RECEIVER_STOP, 1); wake(STOPPER, RECEIVER_SLEEPS, 1)
    fi
}

init
{
    atomic { run Sender(); run Releaser(KEEP); run Stopper() }
    /* Nobody can do anything any more. */
end_monitor:
    timeout;
    assert(!(asleep[0] && word[SENDER_STOP]));
    assert(!(asleep[1] && SOMETHING));
    /* A sender may sleep for credits for good only when none will come. */
    assert(!asleep[0] || word[RECEIVER_STOP] || KEEP >= ENTRIES)
}

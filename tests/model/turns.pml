/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two threads that deliver to one link: the listener's, those frames that waited for a new ring, and the
 * application's, the frames that it submits meanwhile (stream/sender/hand.c, submit.c). Each chooses
 * under the lock, and enqueues its copies without it.
 *
 * Here: the order in which frames are published where the page's carrier cannot take back. There is
 * always an entry; what happens without one is in waiting.pml.
 *
 * WAITING frames wait when the ring becomes ready; the application submits the others, up to FRAMES. */

#ifndef FRAMES
#define FRAMES 6
#endif
#ifndef WAITING
#define WAITING 2
#endif

#define ENTRY 1  /* it has an entry, and is published when its copy is done */
#define NEWEST 2 /* it has none, and is published when its copy is done if none waits */
#define KEPT 3   /* it joins those that wait when its copy is done, and is delivered once more */

chan copies = [4] of { byte, byte }; /* of the device's queue: the sequence, and one of the above */
chan waits = [FRAMES] of { byte };
byte sequence = WAITING, late, late_kept, last;
bit is_delivering, begun;

#ifdef BUG_BESIDE_THE_LISTENER
#define HAS_UNDELIVERED false
#else
#define HAS_UNDELIVERED (is_delivering || late_kept || len(waits) > 0)
#endif

inline publish(s)
{
    assert(s == last + 1);
    last = s
}

active proctype Application()
{
    byte kind;
    do
    /* submit.1 */
    :: d_step { begun && sequence < FRAMES ->
        sequence++;
        if
        :: len(waits) == 0 && late == 0 -> kind = ENTRY
        :: else ->
            late++;
            if
            :: HAS_UNDELIVERED -> kind = KEPT; late_kept++
            :: else -> kind = NEWEST
            fi
        fi };
        copies!sequence, kind
    :: sequence == FRAMES -> break
    od
}

active proctype Listener()
{
    byte s;
end_listener:
    do
    /* turn.1 */
    :: d_step { begun && len(waits) > 0 -> waits?s; late++; is_delivering = 1 };
        copies!s, ENTRY;
        d_step { is_delivering = 0; late--; s = 0 }
    od
}

/* The device's queue completes the copies in their order. */
active proctype Queue()
{
    byte s, kind;
end_queue:
    do
    :: d_step { copies?s, kind ->
        late = late - (kind != ENTRY);
        late_kept = late_kept - (kind == KEPT);
        if
        :: kind == KEPT || (kind == NEWEST && len(waits) > 0) -> waits!s
        :: else -> publish(s)
        fi;
        s = 0; kind = 0 }
    od
}

init
{
    byte i;
    d_step {
        for (i : 1 .. WAITING) { waits!i }
        i = 0; begun = 1
    }
end_monitor:
    timeout;
    assert(last == FRAMES && len(waits) == 0)
}

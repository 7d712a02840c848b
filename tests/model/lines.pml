/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame that is handed over while it is written (core/stream/sender/hand.c,
 * core/stream/receiver/frames.c): its rows, its word `lines`, and its entry, which comes back at any
 * time, also before the frame is whole, and is used for a later frame.
 *
 * FRAMES frames go through ENTRIES entries, a slot each, which the entry keeps until it is back and
 * the writer until the frame is whole or given up. Rows are written before the word says so: the
 * order of the two stores is the processor's (release, acquire), so rows are one step here. The
 * reader claims in order, looks at the word at any time, reads any row that it has seen to be
 * valid, and gives the frame back. DEATH: the sender dies anywhere.
 *
 * Shown: a row that is read is this frame's; the word never goes back while a frame is held, so that
 * an honest sender is never taken for a liar; a reader that waits for the last row gets it, or the
 * loss, or sees the death. */

#define LOST 255

byte word[ENTRIES];      /* `lines` */
byte row_of[ENTRIES];    /* rows of the slot that have `frame_of`'s content */
byte frame_of[ENTRIES];  /* what is written there */
bool out[ENTRIES];       /* published and not back */
bool kept[ENTRIES];      /* the writer is not done with it */
byte head, claimed;
byte order[FRAMES];      /* the entry of each position */
bool dead;

inline take()
{
    /* take.1: an entry that is back, and whose slot the writer is done with */
    if
    :: atomic { !out[0] && !kept[0] -> at = 0 }
#if ENTRIES > 1
    :: atomic { !out[1] && !kept[1] -> at = 1 }
#endif
    fi
}

active proctype sender()
{
    byte number = 1, at, rows;
    {
    do
    :: number > FRAMES -> break
    :: else ->
        take();
        d_step { kept[at] = true; frame_of[at] = number; row_of[at] = 0 };
#if defined(BUG_WORD_NOT_RESET) || defined(BUG_WORD_RESET_LATE)
        skip;
#else
        word[at] = 0; /* begin.1 */
#endif
        d_step { order[head] = at; out[at] = true; head++ }; /* begin.2: publishes */
#ifdef BUG_WORD_RESET_LATE
        word[at] = 0;
#endif
        rows = 0;
        do
        :: rows < ROWS ->
#ifdef BUG_ANNOUNCED_BEFORE_WRITTEN
            word[at] = rows + 1;
            row_of[at]++;
#else
            row_of[at]++;         /* advance.1 */
            word[at] = rows + 1;  /* advance.2 */
#endif
            rows++
        :: rows < ROWS -> /* give_up.1: released, or a new format */
#ifndef BUG_GIVEN_UP_SILENTLY
            word[at] = LOST;
#endif
            break
        :: rows == ROWS -> break
        od;
        kept[at] = false;
        number++
    od
    } unless { dead }
}

#ifdef DEATH
active proctype reaper()
{
    dead = true
}
#endif

active proctype reader()
{
    byte at, seen, now, wanted = 0;
    bool saw_dead;
    do
    :: claimed == FRAMES -> break
    :: dead -> break
    :: claimed < head ->
        at = order[claimed];
        claimed++;
        wanted++;
        seen = 0;
        do
        :: seen == ROWS -> break
        :: seen < ROWS -> break /* enough of it */
        :: seen < ROWS -> /* look.1: the death first, so that this look is the last */
            saw_dead = dead;
            now = word[at];
            if
            :: now == LOST -> break
            :: else ->
                assert(now >= seen && now <= ROWS);
                seen = now;
                /* read.1 */
                assert(seen == 0 || (frame_of[at] == wanted && row_of[at] >= seen));
                if
                :: seen == ROWS -> break
                :: else ->
                    if
                    :: saw_dead -> break
                    :: else -> /* sleeps until the word has changed */
                        (word[at] != now || dead)
                    fi
                fi
            fi
        od;
#ifdef BUG_READ_AFTER_GIVING_BACK
        out[at] = false;
        assert(seen == 0 || (frame_of[at] == wanted && row_of[at] >= seen))
#else
        assert(seen == 0 || (frame_of[at] == wanted && row_of[at] >= seen));
        out[at] = false
#endif
    od
}

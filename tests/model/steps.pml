/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame that is copied in steps while it is written (core/stream/sender/hand.c):
 * what lines.pml shows, with a device's queue between the writer and the word. The queue copies a
 * step into the entry's slot and then, as its completion, raises the word. Frames end, or are given
 * up, while steps are still in the queue; their entry may be back by then and carry the next frame.
 *
 * Shown: a row that is read is this frame's; the word never goes back while a frame is held; a
 * reader that waits for the last row gets it, or the loss. */

#define LOST 255

byte word[ENTRIES];     /* `lines` */
byte written[ENTRIES];  /* gpud_transport.written: the frame whose word still moves; 0: none */
byte row_of[ENTRIES];   /* rows of the receiver's slot that have frame_of's content */
byte frame_of[ENTRIES];
bool out[ENTRIES];      /* published and not back */
byte head, claimed;
byte order[FRAMES];     /* the entry of each position */

/* The queue, in order: entry, frame, rows. */
chan queue = [3] of { byte, byte, byte };

inline set_lines(entry, frame, value)
{
    atomic { /* under the sender's lock */
        if
#ifdef BUG_LATE_STEP
        :: true ->
#else
        :: written[entry] == frame ->
#endif
            word[entry] = value;
            if
            :: value == LOST || value == ROWS -> written[entry] = 0
            :: else
            fi
        :: else
        fi
    }
}

active proctype sender()
{
    byte number = 1, at, rows, copied;
    do
    :: number > FRAMES -> break
    :: else ->
        if
        :: atomic { !out[0] -> at = 0 }
#if ENTRIES > 1
        :: atomic { !out[1] -> at = 1 }
#endif
        fi;
        atomic { written[at] = number; word[at] = 0 };
        atomic { order[head] = at; out[at] = true; head++ };
        copied = 0;
        rows = 0;
        do
        :: rows < ROWS - 1 ->
            rows++;
            if
            :: true -> /* enough for a step */
                queue!at, number, rows;
#ifdef BUG_WORD_BEFORE_COPY
                set_lines(at, number, rows);
#endif
                copied = rows
            :: true -> skip
            fi
        :: true -> /* given up: released, or a new format */
            set_lines(at, number, LOST);
            break
        :: rows == ROWS - 1 -> /* the rest, by the frame's own delivery */
            queue!at, number, ROWS;
            break
        od;
        number++
    od
}

active proctype device()
{
    byte at, number, rows;
end:
    do
    :: queue?at, number, rows ->
        d_step { frame_of[at] = number; row_of[at] = rows };
        set_lines(at, number, rows)
    od
}

active proctype reader()
{
    byte at, seen, now, wanted = 0;
    do
    :: claimed == FRAMES -> break
    :: claimed < head ->
        at = order[claimed];
        claimed++;
        wanted++;
        seen = 0;
        do
        :: seen == ROWS -> break
        :: seen < ROWS -> break /* enough of it */
        :: seen < ROWS ->
            now = word[at];
            if
            :: now == LOST -> break
            :: else ->
                assert(now >= seen && now <= ROWS);
                seen = now;
                assert(seen == 0 || (frame_of[at] == wanted && row_of[at] >= seen));
                if
                :: seen == ROWS -> break
                :: else -> word[at] != now /* sleeps until it has changed */
                fi
            fi
        od;
        assert(seen == 0 || (frame_of[at] == wanted && row_of[at] >= seen));
        out[at] = false
    od
}

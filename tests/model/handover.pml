/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A completion never waits for the sender's lock (core/stream/sender/hand.c): it puts itself on
 * a list and tries the lock. If that fails, the lock's holder must find it after unlocking.
 *
 * Each processor has a store buffer here, which empties at any time: POSIX promises nothing about the
 * order of a trylock that fails, or of an unlock, and the loads around it, so neither waits for the
 * buffer. A lock that is taken does, and so does a fence. HOLDER and DRIVER are the two threads; a
 * completion that is left on the list when both are done would never be published. */

#define HOLDER 0
#define DRIVER 1

bool listed, locked;              /* as they are in memory */
bool buffered_list[2], buffered_unlock[2];
byte published, done;

inline drain()
{
    d_step {
        if :: buffered_list[me] -> listed = true; buffered_list[me] = false :: else fi;
        if :: buffered_unlock[me] -> locked = false; buffered_unlock[me] = false :: else fi
    }
}

/* Stores reach memory at any later time. */
active [2] proctype store_buffer()
{
    byte me = _pid;
end:
    do
    :: d_step { buffered_list[me] -> listed = true; buffered_list[me] = false }
    :: d_step { buffered_unlock[me] -> locked = false; buffered_unlock[me] = false }
    od
}

inline fence()
{
#ifndef BUG_NO_FENCE
    drain()
#else
    skip
#endif
}

inline publish_what_is_listed()
{
    drain();
    d_step {
        if
        :: listed -> listed = false; published++
        :: else
        fi
    }
}

inline unlock()
{
    buffered_unlock[me] = true;
    do
    :: true ->
        fence();
        if
        :: !listed && !buffered_list[me] -> break
        :: else ->
            atomic {
                if
                :: locked -> taken = false /* also if this thread's unlock is still in the buffer */
                :: else -> locked = true; taken = true
                fi
            };
            if
            :: !taken -> break
            :: else -> publish_what_is_listed(); buffered_unlock[me] = true
            fi
        fi
    od
}

active proctype holder()
{
    byte me = HOLDER;
    bool taken;
    atomic { !locked -> locked = true };
    unlock();
    done++
}

active proctype driver()
{
    byte me = DRIVER;
    bool taken;
    buffered_list[me] = true;
    fence();
    atomic {
        if
        :: locked -> taken = false
        :: else -> locked = true; taken = true
        fi
    };
    if
    :: taken -> publish_what_is_listed(); unlock()
    :: else
    fi;
    done++
}

active proctype judge()
{
    done == 2 && !buffered_list[0] && !buffered_list[1] && !buffered_unlock[0] && !buffered_unlock[1];
    assert(published == 1 && !listed)
}

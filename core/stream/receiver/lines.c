/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waits for rows of a frame that its sender still writes. The word is the sender's: it may hold
 * anything at any time, and nothing but its value is believed. */
#include "stream/receiver/lines.h"

#include "base/stop.h"
#include "frame/layout.h"

/* How often to check that the sender lives; and, between hosts, to look at the word, because a
 * network card writes it and wakes no thread. */
#define SLICE (20 * GPUD_MSEC)
#define REMOTE_SLICE (500 * GPUD_USEC)

const char *gpud_session_whole_reason(const struct gpud_session *session)
{
    if (gpud_layout_is_block(&session->layout))
        return "a block has no lines: it comes as a whole";
    if (session->place == GPUD_SIGNAL_MEMORY)
        return "this route has a signal for a frame, and none for its rows";
    if (session->route->slots)
        return "this route gives the frame's memory to the receiver's device, as a whole";
    if (session->layout.modifier && (session->owns_ring || session->uploads || session->on_host))
        return "the frames are copied, and their pixels do not lie row by row";
    return NULL;
}

void gpud_session_ask_for_lines(struct gpud_session *session)
{
    session->by_lines = true;
    gpud_page_ask_for_lines(&session->view);
}

enum gpud_status gpud_rx_lose(struct gpud_rx_frame *rx, struct gpud_error *error)
{
    atomic_store(&rx->poisoned, true);
    return gpud_fail(error, GPUD_PEER,
                     "the frame is incomplete: the sender died, or gave it up, while writing it");
}

static enum gpud_status lied(struct gpud_rx_frame *rx, uint32_t lines, uint32_t before,
                             struct gpud_error *error)
{
    atomic_store(&rx->poisoned, true);
    atomic_store(&rx->session->broken, true);
    return gpud_fail(error, GPUD_PEER,
                     "the sender broke the protocol: %u valid lines, after %u, of %u", lines,
                     before, rx->frame.info.layout.height);
}

static _Atomic uint32_t *word_of(const struct gpud_rx_frame *rx)
{
    return &rx->session->view.page->sender.lines[rx->entry];
}

/* Checks the word. GPUD_TIMEOUT: there are fewer rows. */
static enum gpud_status look(struct gpud_rx_frame *rx, uint32_t lines, uint32_t *seen,
                             struct gpud_error *error)
{
    uint32_t before = atomic_load_explicit(&rx->lines, memory_order_acquire);
    if (atomic_load(&rx->poisoned))
        return gpud_rx_lose(rx, error);
    if (before >= lines)
        return GPUD_OK;
    *seen = atomic_load_explicit(word_of(rx), memory_order_acquire);
    if (*seen == GPUD_LINES_LOST)
        return gpud_rx_lose(rx, error);
    if (*seen > rx->frame.info.layout.height || *seen < before)
        return lied(rx, *seen, before, error);
    atomic_store_explicit(&rx->lines, *seen, memory_order_release);
    return *seen >= lines ? GPUD_OK
                          : gpud_fail(error, GPUD_TIMEOUT,
                                      "%u of the picture's %u lines are written, not yet %u", *seen,
                                      rx->frame.info.layout.height, lines);
}

/* Model (tests/model/lines.pml): look.1. */
enum gpud_status gpud_rx_wait_lines(struct gpud_rx_frame *rx, uint32_t lines, int64_t deadline,
                                    struct gpud_error *error)
{
    struct gpud_session *session = rx->session;
    int64_t slice = session->remote ? REMOTE_SLICE : SLICE;
    for (;;) {
        uint32_t seen = 0;
        bool dead =
            gpud_channel_is_dead(session->channel); /* first, so that the look is the last */
        enum gpud_status status = look(rx, lines, &seen, error);
        if (status == GPUD_TIMEOUT && dead)
            return gpud_rx_lose(rx, error);
        int64_t now = gpud_now();
        if (status != GPUD_TIMEOUT || now >= deadline)
            return status;
        GPUD_STOP_POINT("receiver: waits for lines");
        gpud_futex_wait(word_of(rx), seen, now + slice < deadline ? now + slice : deadline);
    }
}

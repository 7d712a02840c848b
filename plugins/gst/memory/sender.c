/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender, as it is shared by gpudirectsink and the buffer pools that it proposed. */
#include "memory/sender.h"
#include "context.h"

/* How long upstream waits for receivers to give a slot back before it gets plain memory, which
 * costs a copy. Longer than a frame of any rate in use, shorter than what a user takes for a hang.
 */
#define PATIENCE (100 * GPUD_MSEC)

struct lender {
    gatomicrefcount references;
    guint slots;
    gboolean host;
    gint patient;     /* atomic */
    gint interrupted; /* atomic: what the sink wants */

    /* Readers use the sender; the writer closes it or starts an epoch. */
    GRWLock lock;
    struct gpud_sender *sender;
    guint generation;
    struct ledger *ledger;
};

struct lender *lender_new(struct gpud_sender *sender, guint slots, gboolean host)
{
    struct lender *lender = g_new0(struct lender, 1);

    g_atomic_ref_count_init(&lender->references);
    g_rw_lock_init(&lender->lock);
    lender->sender = sender;
    lender->slots = slots;
    lender->host = host;
    lender->patient = TRUE;
    lender->ledger = ledger_new();
    return lender;
}

struct lender *lender_ref(struct lender *lender)
{
    g_atomic_ref_count_inc(&lender->references);
    return lender;
}

void lender_unref(struct lender *lender)
{
    if (!lender || !g_atomic_ref_count_dec(&lender->references))
        return;
    gpud_sender_destroy(&lender->sender);
    ledger_unref(lender->ledger);
    g_rw_lock_clear(&lender->lock);
    g_free(lender);
}

void lender_close(struct lender *lender)
{
    lender_interrupt(lender, TRUE);
    g_rw_lock_writer_lock(&lender->lock);
    gpud_sender_destroy(&lender->sender);
    g_rw_lock_writer_unlock(&lender->lock);
}

struct gpud_sender *lender_sender(struct lender *lender)
{
    return lender->sender;
}

void lender_set_slow_receiver(struct lender *lender, enum gpud_slow_receiver policy)
{
    g_atomic_int_set(&lender->patient, policy == GPUD_SLOW_BLOCK);
    g_rw_lock_reader_lock(&lender->lock);
    if (lender->sender)
        gpud_sender_set_slow_receiver(lender->sender, policy, NULL);
    g_rw_lock_reader_unlock(&lender->lock);
}

gboolean lender_is_host(struct lender *lender)
{
    return lender->host;
}

void lender_get_info(struct lender *lender, struct gpud_sender_info *info)
{
    g_rw_lock_reader_lock(&lender->lock);
    if (lender->sender)
        gpud_sender_get_info(lender->sender, info);
    g_rw_lock_reader_unlock(&lender->lock);
}

guint lender_generation(struct lender *lender)
{
    return lender->generation;
}

struct ledger *lender_ledger(struct lender *lender)
{
    return lender->ledger;
}

/* What the sink wants may change while it is being applied. */
static void apply_interrupted(struct lender *lender)
{
    gint wanted;

    do {
        wanted = g_atomic_int_get(&lender->interrupted);
        gpud_sender_interrupt(lender->sender, wanted);
    } while (wanted != g_atomic_int_get(&lender->interrupted));
}

gboolean lender_is_interrupted(struct lender *lender)
{
    return g_atomic_int_get(&lender->interrupted);
}

enum gpud_status lender_configure(struct lender *lender, const struct gpud_layout *layout,
                                  const void *media, size_t media_size, struct gpud_error *error)
{
    /* Somebody upstream may be waiting for a slot of the old epoch. */
    gpud_sender_interrupt(lender->sender, true);
    g_rw_lock_writer_lock(&lender->lock);
    apply_interrupted(lender);
    enum gpud_status status =
        gpud_sender_configure(lender->sender, layout, media, media_size, error);
    if (status == GPUD_OK) {
        lender->generation++;
        ledger_unref(lender->ledger);
        lender->ledger = ledger_new();
    }
    g_rw_lock_writer_unlock(&lender->lock);
    return status;
}

void lender_interrupt(struct lender *lender, gboolean interrupted)
{
    g_atomic_int_set(&lender->interrupted, interrupted);
    if (lender->sender)
        apply_interrupted(lender);
}

enum gpud_status lender_lend(struct lender *lender, guint generation, gboolean may_wait,
                             struct gpud_frame **frame)
{
    enum gpud_status status = GPUD_CLOSED;

    g_rw_lock_reader_lock(&lender->lock);
    if (lender->sender && lender->generation == generation) {
        gboolean exhausted = ledger_count(lender->ledger) + 1 >= (gint)lender->slots;
        gint64 timeout = may_wait && g_atomic_int_get(&lender->patient) ? PATIENCE : 0;
        status =
            exhausted ? GPUD_TIMEOUT : gpud_sender_acquire(lender->sender, timeout, frame, NULL);
    }
    g_rw_lock_reader_unlock(&lender->lock);
    return status;
}

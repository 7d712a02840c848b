/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The core's sender, shared by gpudirectsink and the buffer pools that it proposed. */
#include "memory/sender.h"
#include "base/context.h"

/* How long upstream waits for a free slot before it gets a stand-in, which costs a copy. Longer
 * than a frame at any rate in use, shorter than a perceptible hang. */
#define ACQUIRE_TIMEOUT (100 * GPUD_MSEC)

struct shared_sender {
    gatomicrefcount references;
    guint slots;
    gboolean host;
    gint may_block;   /* atomic: acquiring a slot may */
    gint interrupted; /* atomic: the sink's request */

    /* Readers take slots; the writer closes the sender or starts an epoch. */
    GRWLock lock;
    struct gpud_sender *core;
    /* Guards only the life of the core's sender. Readers query it, or interrupt a call that holds
     * the lock above; the writer closes it. So a query never blocks the stream. */
    GRWLock life;
    guint epoch;
    struct outstanding *outstanding;

    /* Why the pools found no slots at all; reported once per epoch. */
    GMutex lack_lock;
    struct gpud_error lack;
    gint lacks; /* atomic: enum lack_state */
};

enum lack_state { LACK_NONE, LACK_FOUND, LACK_TOLD };

struct shared_sender *shared_sender_new(struct gpud_sender *core, guint slots, gboolean host)
{
    struct shared_sender *sender = g_new0(struct shared_sender, 1);

    g_atomic_ref_count_init(&sender->references);
    g_rw_lock_init(&sender->lock);
    g_rw_lock_init(&sender->life);
    g_mutex_init(&sender->lack_lock);
    sender->core = core;
    sender->slots = slots;
    sender->host = host;
    sender->may_block = TRUE;
    sender->outstanding = outstanding_new();
    return sender;
}

struct shared_sender *shared_sender_ref(struct shared_sender *sender)
{
    g_atomic_ref_count_inc(&sender->references);
    return sender;
}

void shared_sender_unref(struct shared_sender *sender)
{
    if (!sender || !g_atomic_ref_count_dec(&sender->references))
        return;
    gpud_sender_destroy(&sender->core);
    outstanding_unref(sender->outstanding);
    g_rw_lock_clear(&sender->lock);
    g_rw_lock_clear(&sender->life);
    g_mutex_clear(&sender->lack_lock);
    g_free(sender);
}

struct gpud_sender *shared_sender_take(struct shared_sender *sender)
{
    shared_sender_interrupt(sender, TRUE);
    g_rw_lock_writer_lock(&sender->lock);
    g_rw_lock_writer_lock(&sender->life);
    struct gpud_sender *core = g_steal_pointer(&sender->core);
    g_rw_lock_writer_unlock(&sender->life);
    g_rw_lock_writer_unlock(&sender->lock);
    return core;
}

struct gpud_sender *shared_sender_core(struct shared_sender *sender)
{
    return sender->core;
}

void shared_sender_set_slow_receiver(struct shared_sender *sender, enum gpud_slow_receiver policy)
{
    g_atomic_int_set(&sender->may_block, policy == GPUD_SLOW_BLOCK);
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        gpud_sender_set_slow_receiver(sender->core, policy, NULL);
    g_rw_lock_reader_unlock(&sender->life);
}

gboolean shared_sender_is_host(struct shared_sender *sender)
{
    return sender->host;
}

void shared_sender_get_info(struct shared_sender *sender, struct gpud_sender_info *info)
{
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        gpud_sender_get_info(sender->core, info);
    g_rw_lock_reader_unlock(&sender->life);
}

guint shared_sender_epoch(struct shared_sender *sender)
{
    return sender->epoch;
}

struct outstanding *shared_sender_outstanding(struct shared_sender *sender)
{
    return sender->outstanding;
}

/* The sink's request may change while it is being applied. */
static void apply_interrupted(struct shared_sender *sender)
{
    gint wanted;

    do {
        wanted = g_atomic_int_get(&sender->interrupted);
        gpud_sender_interrupt(sender->core, wanted);
    } while (wanted != g_atomic_int_get(&sender->interrupted));
}

gboolean shared_sender_is_interrupted(struct shared_sender *sender)
{
    return g_atomic_int_get(&sender->interrupted);
}

static guint64 longest_latency(struct gpud_sender *core)
{
    struct gpud_link_info link[GPUD_RECEIVERS_MAX] = {GPUD_INFO_INIT(link[0])};
    size_t count = gpud_sender_list_links(core, link, GPUD_RECEIVERS_MAX);
    guint64 longest = 0;

    for (size_t i = 0; i < count; i++)
        longest = MAX(longest, link[i].latency_ns);
    return longest;
}

guint64 shared_sender_latency(struct shared_sender *sender)
{
    guint64 longest = 0;

    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        longest = longest_latency(sender->core);
    g_rw_lock_reader_unlock(&sender->life);
    return longest;
}

enum gpud_status shared_sender_configure(struct shared_sender *sender,
                                         const struct gpud_media *media, gboolean dmabufs,
                                         struct gpud_error *error)
{
    /* An element upstream may be waiting for a slot of the old epoch. */
    gpud_sender_interrupt(sender->core, true);
    g_rw_lock_writer_lock(&sender->lock);
    apply_interrupted(sender);
    gpud_sender_set_dmabufs(sender->core, dmabufs);
    enum gpud_status status = gpud_sender_configure(sender->core, media, error);
    if (status == GPUD_OK) {
        sender->epoch++;
        g_atomic_int_set(&sender->lacks, LACK_NONE);
        outstanding_unref(sender->outstanding);
        sender->outstanding = outstanding_new();
    }
    g_rw_lock_writer_unlock(&sender->lock);
    return status;
}

void shared_sender_interrupt(struct shared_sender *sender, gboolean interrupted)
{
    g_atomic_int_set(&sender->interrupted, interrupted);
    g_rw_lock_reader_lock(&sender->life);
    if (sender->core)
        apply_interrupted(sender);
    g_rw_lock_reader_unlock(&sender->life);
}

/* Whether there are no slots at all, rather than no free one, or one of another format. */
static gboolean is_lack(enum gpud_status status)
{
    return status == GPUD_NO_MEMORY || status == GPUD_IO || status == GPUD_UNSUPPORTED ||
           status == GPUD_NO_ACCESS || status == GPUD_NO_DEVICE;
}

static void note_lack(struct shared_sender *sender, const struct gpud_error *error)
{
    g_mutex_lock(&sender->lack_lock);
    sender->lack = *error;
    g_atomic_int_compare_and_exchange(&sender->lacks, LACK_NONE, LACK_FOUND);
    g_mutex_unlock(&sender->lack_lock);
}

gboolean shared_sender_take_lack(struct shared_sender *sender, struct gpud_error *error)
{
    if (g_atomic_int_get(&sender->lacks) != LACK_FOUND)
        return FALSE;
    g_mutex_lock(&sender->lack_lock);
    gboolean taken = g_atomic_int_compare_and_exchange(&sender->lacks, LACK_FOUND, LACK_TOLD);
    if (taken)
        *error = sender->lack;
    g_mutex_unlock(&sender->lack_lock);
    return taken;
}

enum gpud_status shared_sender_acquire(struct shared_sender *sender, guint epoch, gboolean may_wait,
                                       struct gpud_frame **frame)
{
    enum gpud_status status = GPUD_CLOSED;
    struct gpud_error error;

    g_rw_lock_reader_lock(&sender->lock);
    if (sender->core && sender->epoch == epoch) {
        gboolean exhausted = outstanding_count(sender->outstanding) + 1 >= (gint)sender->slots;
        gint64 timeout = may_wait && g_atomic_int_get(&sender->may_block) ? ACQUIRE_TIMEOUT : 0;
        status =
            exhausted ? GPUD_TIMEOUT : gpud_sender_acquire(sender->core, timeout, frame, &error);
        if (is_lack(status))
            note_lack(sender, &error);
    }
    g_rw_lock_reader_unlock(&sender->lock);
    return status;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How many slots of one ring are out in buffers, with a way to wait until some came back. Shared by
 * the pool and by every memory that may outlive it. */
#ifndef GPUD_GST_MEMORY_OUTSTANDING_H
#define GPUD_GST_MEMORY_OUTSTANDING_H

#include <glib.h>

struct ledger;

struct ledger *ledger_new(void);
struct ledger *ledger_ref(struct ledger *ledger);
void ledger_unref(struct ledger *ledger);

void ledger_take(struct ledger *ledger);
void ledger_give(struct ledger *ledger);
gint ledger_count(struct ledger *ledger);

/* Waits until fewer than `limit` are out, at most for so many microseconds. FALSE: they are still,
 * or somebody called ledger_wake(). */
gboolean ledger_wait_below(struct ledger *ledger, gint limit, gint64 microseconds);
void ledger_wake(struct ledger *ledger);

#endif

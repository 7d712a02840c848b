/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ends of connections for transfers over a card in the test's own process, and without the thread
 * that looks after them: the test decides what happens when. */
#ifndef GPUD_TESTS_RDMA_LINES_H
#define GPUD_TESTS_RDMA_LINES_H

#include "fake_card.h"

#include "support/check.h"
#include "transfer/transfer.h"

#define SIZE UINT64_C(65536)

struct line;

struct end {
    struct line *line;
    struct gpud_rdma *rdma;
    struct gpud_transfer *transfer;
    struct gpud_completion_queue *queue;
    struct gpud_connection *connection; /* NULL: the test itself says what it says */
};

struct ends {
    struct end a, b;
};

void lines_begin(struct gpud_context *context);

/* Connected, and greeted, unless b is the test itself. */
void open_ends(struct ends *ends, bool b_without);
void close_ends(struct ends *ends); /* nothing is left */

/* One end goes on; the card does the next thing that was asked for; all until nothing is left. */
void progress(const struct end *end);
bool work(const struct end *end);
void settle(const struct ends *ends);

struct gpud_region *register_bytes(const struct end *end, void *bytes, unsigned access);
void drop_region(const struct ends *ends, struct gpud_region **region);

void expect_completion(const struct end *end, enum gpud_completion_kind kind,
                       enum gpud_status status, const void *user);
void expect_nothing(const struct end *end);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ends of connections for transfers, for the cases of transfer_test.c. */
#ifndef GPUD_RDMA_TRANSFER_ENDS_H
#define GPUD_RDMA_TRANSFER_ENDS_H

#include "channels.h"

#include <gpudirect/gpudirect.h>

struct side {
    struct gpud_context *context;
    struct gpud_transfer *transfer;
    struct gpud_completion_queue *queue;
    struct gpud_connection *connection;
};

/* Listens on the port, or on none (0), and lets in everybody. */
void open_side(struct side *side, uint16_t port);
void accept_side(struct side *side);
void connect_side(struct side *side, uint16_t port);
void close_side(struct side *side);

/* Connects both sides on an otherwise unused port. */
void meet_as_listener(struct side *side, int other, uint16_t port);
void meet_as_caller(struct side *side, int other, uint16_t port);

/* Pages of this process with the region over them. */
struct buffer {
    unsigned char *bytes;
    uint64_t size;
    struct gpud_region *region;
};
void make_buffer(const struct side *side, uint64_t size, unsigned access, struct buffer *buffer);
void drop_buffer(struct buffer *buffer);

/* What byte number `at` of a pattern is, and whether a range has it. */
void fill_pattern(unsigned char *bytes, uint64_t size, uint32_t seed);
bool has_pattern(const unsigned char *bytes, uint64_t size, uint32_t seed);
bool is_all(const unsigned char *bytes, uint64_t size, unsigned char value);

/* Keys travel by the processes' socket. */
void say_key(int other, const struct gpud_region *region);
struct gpud_region_key hear_key(int other);

struct gpud_completion next_completion(const struct side *side);

/* The next one, which is of this kind and status. */
struct gpud_completion await_completion(const struct side *side, enum gpud_completion_kind kind,
                                        enum gpud_status status);

/* An operation's parameters. */
struct gpud_operation_params range_of(const struct buffer *buffer, uint64_t offset,
                                      uint64_t length);

/* --- cases ----------------------------------------------------------------------------------- */

void test_connecting(void);
void test_puts(void);
void test_gets(void);
void test_transfer_messages(void);
void test_missing_receives(void);
void test_rights(void);
void test_stale_keys(void);
void test_forged_keys(void);
void test_depth(void);
void test_events(void);
void test_killed_peer(void);
void test_closing(void);
void test_registration(void);
void test_idle(void);

#endif

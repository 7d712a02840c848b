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
struct side open_side(uint16_t port);
void accept_side(struct side *side);
void connect_side(struct side *side, uint16_t port);
void close_side(struct side *side);

/* Connects both sides on an otherwise unused port. */
struct side meet_as_listener(int other, uint16_t port);
struct side meet_as_caller(int other, uint16_t port);

/* Pages of this process with the region over them. */
struct buffer {
    unsigned char *bytes;
    uint64_t size;
    struct gpud_region *region;
};
struct buffer make_buffer(const struct side *side, uint64_t size, unsigned access);
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

/* Posts an operation, as one of WORKS() or EXPECT(): POST(&side, PUT, &put). */
#define POST(side, kind, operation) \
    gpud_connection_post((side)->connection, GPUD_COMPLETION_##kind, operation, &e)

/* An operation's parameters; what follows are others than the range. */
#define range_of(buffer, from, bytes, ...)                                        \
    ((struct gpud_operation_params){.size = sizeof(struct gpud_operation_params), \
                                    .region = (buffer)->region,                   \
                                    .offset = from,                               \
                                    .length = bytes,                              \
                                    __VA_ARGS__})

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

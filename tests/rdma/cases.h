/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections for tests, made by rdma_cm as simply as can be, and what is tested on them. */
#ifndef GPUD_TESTS_RDMA_CASES_H
#define GPUD_TESTS_RDMA_CASES_H

#include "base/base.h"
#include "device/rdma/rdma.h"
#include "support/check.h"

/* Emulated machines are slow, and others work beside them. */
#define PATIENCE (60 * GPUD_SEC)

struct end {
    struct rdma_cm_id *id;
    struct gpud_rdma *rdma;
};

/* Two ends in this process. */
struct pair {
    struct end a, b;
};

/* Addresses are those of the guest. */
struct rdma_cm_id *listen_at(uint16_t port);
struct rdma_cm_id *listen_anywhere(void);
uint16_t port_of(const struct rdma_cm_id *listener);
void accept_end(struct rdma_cm_id *listener, struct end *end);
void connect_end(uint16_t port, struct end *end);
bool try_connect_end(uint16_t port, struct end *end); /* false: there is no listener */
void drop_end(struct end *end);

/* How often the other end's card tries again where this end has no receive; 7: for ever. */
extern uint8_t rnr_retries;

struct pair make_pair(void);
void drop_pair(struct pair *pair);

/* Until the condition holds; both ends are looked after meanwhile. */
#define UNTIL(pair, condition)                                         \
    do {                                                               \
        int64_t until_ = gpud_deadline(PATIENCE);                      \
        while (!(condition)) {                                         \
            CHECK(gpud_now() < until_, "%s: not in time", #condition); \
            gpud_rdma_progress((pair)->a.rdma);                        \
            gpud_rdma_progress((pair)->b.rdma);                        \
            usleep(100);                                               \
        }                                                              \
    } while (0)

/* Readable within so many ms. */
bool is_readable(const struct end *end, int ms);

/* Memory that the other end writes. */
struct target {
    char *bytes;
    uint64_t size;
    struct gpud_rdma_region *region;
};
void make_target(struct end *end, uint64_t size, unsigned access, struct target *target);
void drop_target(struct target *target);
void fill(char *bytes, uint64_t size, uint32_t seed);

enum gpud_status write_to(struct end *end, const struct target *from, uint64_t from_offset,
                          const struct target *to, uint64_t to_offset, uint64_t size,
                          struct gpud_error *error);
void drain(struct end *end);

/* --- the cases ----------------------------------------------------------------------------- */

void test_messages(void);
void test_unread_messages(void);
void test_notices(void);
void test_waking(void);

void test_writes(void);
void test_words(void);
void test_order(void);
void test_full_queue(void);
void test_reads(void);
void test_arguments(void);

void test_refused(void);
void test_lies(void);
void test_too_many_receives(void);
void test_flood(void);
void test_silence(void);
void test_end(void);
void test_threads(void);

void test_host_memory(void);
void test_device_memory(void);

void test_deaths(void);
void test_locked_memory(void);
int play_peer(const char *role, uint16_t port);

#endif

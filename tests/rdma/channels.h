/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels between two processes, for the cases of channel_test.c. */
#ifndef GPUD_RDMA_CHANNELS_H
#define GPUD_RDMA_CHANNELS_H

#include "base/base.h"
#include "support/check.h"
#include "wire/wire.h"

#define PATIENCE (60 * GPUD_SEC)

/* --- processes ---------------------------------------------------------------------------------
 */

/* An end of a case: `other` is for say() and hear(). */
typedef void end_fn(int other);

/* Runs the cases that are named by arguments, without any all, each in a process of its own: none
 * that has used a card before may fork and use it again. For main(). */
struct rdma_case {
    const char *name;
    void (*test)(void);
};
int run_cases(const struct rdma_case *cases, size_t count, int argc, char **argv);

/* Runs each in a process of its own, and waits for both. */
void run_both(end_fn *sender, end_fn *receiver);

/* A child that is to be killed or stopped; *other as above. */
pid_t run_apart(end_fn *end, int *other);
void await_end(pid_t child);

/* One word to the other process, and from it. */
void say(int other, uint64_t word);
uint64_t hear(int other);

/* --- channels ----------------------------------------------------------------------------------
 */

/* "rdma://ADDRESS:port" with what follows, of the guest's network. The next call but three uses the
 * same memory. */
const char *address_of(uint16_t port, const char *rest);
const char *address6_of(uint16_t port, const char *rest);

/* Admits all peers, or those with the key in that file. */
struct gpud_access_rule everybody(void);
struct gpud_access_rule with_key(const char *file);

struct gpud_listener *listen_on(const char *text, const struct gpud_access_rule *access);
struct gpud_channel *accept_one(struct gpud_listener *listener);

/* Begins, or also waits until it is connected. */
struct gpud_channel *begin_to_connect(const char *text, const struct gpud_access_rule *access);
struct gpud_channel *connect_to(const char *text);

void await_connected(struct gpud_channel *channel);

/* Connects both ends on an otherwise unused port: each knows that the other one is connected. */
struct gpud_channel *accept_from(int other, uint16_t port);
struct gpud_channel *connect_from(int other, uint16_t port);

/* Expects the connection to fail with this status, and this text in the reason. */
void expect_end(struct gpud_channel *channel, enum gpud_status wanted, const char *text);

/* By the next message, which is of this type. */
void receive_one(struct gpud_channel *channel, struct gpud_message *message,
                 enum gpud_message_type type);
void send_one(struct gpud_channel *channel, struct gpud_message *message);

/* --- cases -------------------------------------------------------------------------------------
 */

void test_nobody(void);
void test_names(void);
void test_list(void);
void test_sharing(void);
void test_versions(void);
void test_silence(void);
void test_early_messages(void);
void test_messages(void);
void test_local_memory(void);
void test_last_words(void);
void test_death(void);
void test_death_of_a_parent(void);
void test_keys(void);

void test_frames(void);
void test_sleep(void);
void test_pollers(void);
void test_kicks(void);
void test_stopped(void);
void test_killed(void);
void test_epochs(void);
void test_lies(void);
void test_leaks(void);

void test_no_card(void);
void test_addresses(void);
void test_removal(void);

#endif

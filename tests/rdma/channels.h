/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels between two processes, over the kernel's soft-RoCE, for rdma-channel and rdma-transfer.
 */
#ifndef GPUD_RDMA_CHANNELS_H
#define GPUD_RDMA_CHANNELS_H

#include "base/base.h"
#include "support/check.h"
#include "wire/wire.h"

#define PATIENCE (60 * GPUD_SEC)

/* --- processes -------------------------------------------------------------------------------- */

/* An end of a case: `other` is for say() and hear(). */
typedef void end_fn(int other);

/* Runs the cases that are named by arguments, without any all, each in a process of its own, as a
 * process that has used a card must not fork and use it again. A case without a name ends the list.
 */
struct rdma_case {
    const char *name;
    void (*test)(void);
    end_fn *sender, *receiver; /* without a test: for run_both() */
};
void run_cases(const struct rdma_case *cases, int argc, char **argv);

/* Each case has another port. */
extern uint16_t case_port;

/* Runs each in a process of its own, and waits for both. */
void run_both(end_fn *sender, end_fn *receiver);

/* A child that is to be killed or stopped; *other as above. */
pid_t run_apart(end_fn *end, int *other);
void await_end(pid_t child);

/* One word to the other process, and from it. */
void say(int other, uint64_t word);
uint64_t hear(int other);

/* --- channels --------------------------------------------------------------------------------- */

/* "rdma://ADDRESS:port" of the case with what follows; address_of(): of the guest's network. The
 * next call but three uses the same memory. */
const char *address_at(const char *host, const char *rest);
const char *address_of(const char *rest);
const char *address6_of(const char *rest);

/* Admits all peers, or those with the key in that file. */
struct gpud_access_rule everybody(void);
struct gpud_access_rule with_key(const char *file);

enum gpud_status try_to_listen(const char *text, const struct gpud_access_rule *access,
                               struct gpud_listener **listener, struct gpud_error *error);
struct gpud_listener *listen_on(const char *text, const struct gpud_access_rule *access);
struct gpud_channel *accept_one(struct gpud_listener *listener);
struct gpud_channel *accept_connected(struct gpud_listener *listener);

/* Begins, or also waits until it is connected. */
struct gpud_channel *begin_to_connect(const char *text, const struct gpud_access_rule *access);
struct gpud_channel *connect_to(const char *text);

void await_connected(struct gpud_channel *channel);

/* Connects both ends: each knows that the other one is connected. */
struct gpud_channel *accept_from(int other);
struct gpud_channel *connect_from(int other);

/* Expects the connection to fail with this status, and this text in the reason; lose(): also drops
 * it; expect_lost(): where it is tried. */
void expect_end(struct gpud_channel *channel, enum gpud_status wanted, const char *text);
void lose(struct gpud_channel *channel, enum gpud_status wanted, const char *text);
void expect_lost(const char *address, const char *text);

/* By the next message, which is of this type. */
void receive_one(struct gpud_channel *channel, struct gpud_message *message,
                 enum gpud_message_type type);
void send_one(struct gpud_channel *channel, struct gpud_message *message);

/* Those of links.c. */
extern const struct rdma_case link_cases[];

#endif

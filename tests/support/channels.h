/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Channels between two processes by a kind between hosts: over the kernel's soft-RoCE in a guest,
 * or over TCP on this machine. */
#ifndef GPUD_TESTS_CHANNELS_H
#define GPUD_TESTS_CHANNELS_H

#include "base/base.h"
#include "support/check.h"
#include "wire/wire.h"

#define PATIENCE (60 * GPUD_SEC)

/* What the cases are about; set by main(). */
struct network_kind {
    const char *scheme;          /* "rdma" */
    bool is_tcp;                 /* without a card, on a machine whose ports others use, too */
    const char *host, *host6;    /* this machine's addresses */
    int64_t *handshake_deadline; /* made long for all cases: a guest is slow */
    uint32_t early_messages;     /* so many are queued before there is a connection */
    const char *death;           /* part of the reason where the peer was killed */
    const struct gpud_access_rule *access; /* where a case gives none; NULL: everybody() */
};
extern struct network_kind network;

/* --- processes -------------------------------------------------------------------------------- */

/* An end of a case: `other` is for say() and hear(). */
typedef void end_fn(int other);

/* Runs the cases that are named by arguments, without any all, each in a process of its own, as a
 * process that has used a card must not fork and use it again. A case without a name ends the list.
 */
struct network_case {
    const char *name;
    void (*test)(void);
    end_fn *sender, *receiver; /* without a test: for run_both() */
};
void run_cases(const struct network_case *cases, int argc, char **argv);

/* Each case has another port. */
extern uint16_t case_port;

/* Runs each in a process of its own, and waits for both. */
void run_both(end_fn *sender, end_fn *receiver);

/* A child that is to be killed or stopped; *other as above. */
pid_t run_apart(end_fn *end, int *other);
void await_end(pid_t child);

/* Until this process has no thread but this one: that of connections by TCP ends with them. Not
 * under the thread sanitizer, which has threads of its own: then what is left is not counted. */
#ifdef __SANITIZE_THREAD__
#define COUNTS_LEFT false
#else
#define COUNTS_LEFT true
#endif
void await_single_thread(void);

/* One word to the other process, and from it. */
void say(int other, uint64_t word);
uint64_t hear(int other);

/* --- channels --------------------------------------------------------------------------------- */

/* "rdma://ADDRESS:port" of the case with what follows; address_of(): of this machine. The next call
 * but three uses the same memory. */
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

/* Each EVENT says by whom it was sent. */
void greet(struct gpud_channel *channel, uint32_t name);
void expect_greeting(struct gpud_channel *channel, uint32_t name);

/* Both ends in one process, each of which goes on when it is used; join_once(): ends both, having
 * checked the receiver's host. */
void join(struct gpud_listener *listener, const char *text, struct gpud_channel **sender,
          struct gpud_channel **receiver);
void join_once(struct gpud_listener *listener, const char *text, const char *host);

/* Those of channel_cases.c and of channel_links.c; the last ones are for TCP alone. */
extern const struct network_case channel_cases[];
extern const struct network_case link_cases[], tcp_link_cases[];

#endif

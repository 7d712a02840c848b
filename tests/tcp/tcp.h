/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the tests of connections by TCP share. */
#ifndef GPUD_TESTS_TCP_H
#define GPUD_TESTS_TCP_H

#include "support/channels.h"

/* For main(): the kind, a runtime directory of the test's own, and ports that are free. */
void tcp_begin(void);
int tcp_done(void); /* 0, which main() may return */

/* A path in that directory; the next call but seven uses the same memory. */
const char *path_of(const char *name);

/* --- by sockets alone ------------------------------------------------------------------------- */

/* A connection to the case's port on 127.0.0.1, with so many bytes written to it. */
int connect_raw(const void *bytes, size_t size);
void write_raw(int fd, const void *bytes, size_t size);

/* So many bytes, which have to come; and the end, by a close or a reset, before which at most
 * `most` bytes come. */
void read_raw(int fd, void *bytes, size_t size);
void expect_raw_end(int fd, size_t most);

/* Writes a request to connect to the channel "cam1", with a proof's number. Returns its size. */
size_t make_request(uint8_t bytes[64], unsigned proof, const char *name);

/* --- a third party ---------------------------------------------------------------------------- */

/* Two ends that are connected all the time, and carry a message in each direction whenever they
 * are asked to. */
struct bystander {
    struct gpud_channel *sender, *receiver;
};
void bystander_check(struct bystander *bystander);
void bystander_end(struct bystander *bystander);

#endif

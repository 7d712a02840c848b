/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two processes of one host as if they were on two: they share no memory, and the kernel copies
 * what a network card would write (process_vm_writev), so that the routes between hosts run where
 * there is no such card. The control connection stays a Unix socket. */
#ifndef GPUD_TESTS_COPIES_H
#define GPUD_TESTS_COPIES_H

#include <stdatomic.h>
#include <stdint.h>

/* From now on, and in this process, for every channel; the other process must do so, too. */
void copies_install(void);

/* The same, where GPUD_TEST_COPIES is set. */
void copies_install_if_asked(void);

/* The same, and that other host is not this one: it has this address, and clocks of its own. The
 * boot id that this process has from now on is made of `self`. */
void copies_install_hosts(const char *self, const char *other);

/* From now on new connections report this encryption (gpud_channel.encryption). text: static. Call
 * it after one of the above, in both processes. */
void copies_set_encryption(const char *text);

/* What was published, and how often the other side was notified, by all receivers of this process.
 */
struct copies_counts {
    atomic_uint published, notices;
};
extern struct copies_counts copies_of_receivers;

/* From now on a sleeper checks this seldom whether the peer lives, as with a card that would report
 * the peer's end. Here nothing does. */
void copies_set_ask_after(int64_t ask_after);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A made-up host with network cards: its files, as network.txt describes them, and a libibverbs
 * with two cards of it (network.c), which a program has that links both. */
#ifndef GPUD_TESTS_NETWORK_H
#define GPUD_TESTS_NETWORK_H

/* Makes the described host below a folder that is there. Lines that begin with the prefix alone;
 * NULL: all. */
void make_host(const char *description, const char *folder, const char *prefix);

/* One file or link of it anew: the text, or what it leads to; NULL: it goes, with what is below. */
void set_file(const char *folder, const char *path, const char *text);
void set_link(const char *folder, const char *path, const char *target);

/* mlx5_0 takes dma-bufs, and rxe0 does not; another errno for both of them, 0: none. Whether they
 * can be opened. */
extern int fake_verbs_errno, fake_verbs_open_errno;
/* What is open or allocated of them just now. */
extern int fake_verbs_objects;

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A made-up host with network cards: its files are network.txt (see host.h), and its libibverbs
 * has two cards of it: a program has it that links network.c. */
#ifndef GPUD_TESTS_NETWORK_H
#define GPUD_TESTS_NETWORK_H

#include "support/host.h"

/* mlx5_0 takes dma-bufs, and rxe0 does not; another errno for both of them, 0: none. Whether they
 * can be opened. */
extern int fake_verbs_errno, fake_verbs_open_errno;
/* The numbers of their open and allocated objects. */
extern int fake_verbs_objects;

#endif

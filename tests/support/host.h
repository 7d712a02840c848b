/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A simulated host: the kernel's files for it below /sys and /dev, in a folder, made from a
 * description: lines "sys/… -> target" for links and "sys/…: text" for files, where " | " ends a
 * line of the file. */
#ifndef GPUD_TESTS_HOST_H
#define GPUD_TESTS_HOST_H

/* Makes the described host below a folder that is there. Lines that begin with the prefix alone;
 * NULL: all. */
void make_host(const char *description, const char *folder, const char *prefix);

/* Replaces a file or link by this text or target; NULL: removes it, with everything below. */
void set_file(const char *folder, const char *path, const char *text);
void set_link(const char *folder, const char *path, const char *target);

/* A copy of a machine's description for hwloc, with cards in other places: pairs of an address that
 * is there and the one that it gets, both of one length; NULL ends them. */
void move_cards(const char *from, const char *to, const char *const places[][2]);

#endif

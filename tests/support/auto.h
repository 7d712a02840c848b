/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A variable whose block, when it ends, releases it by a function that takes its address; the last
 * one declared is released first. */
#ifndef GPUD_TESTS_AUTO_H
#define GPUD_TESTS_AUTO_H

#define AUTO(release) __attribute__((cleanup(release)))

#endif

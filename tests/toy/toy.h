/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TESTS_TOY_H
#define GPUD_TESTS_TOY_H

/* Called while a toy is opened, as a driver that takes its time; NULL: nothing is. */
extern void (*toy_on_open)(void);

#endif

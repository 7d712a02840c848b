/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Of the fake driver's system calls those about its input and signal; with its lock held, errno as
 * a result. */
#ifndef GPUD_TESTS_FAKE_INPUT_H
#define GPUD_TESTS_FAKE_INPUT_H

#include "fake_driver.h"

int fake_get_controls(const struct fake_driver *driver, struct v4l2_ext_controls *raw);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Of the fake driver's system calls those about its formats, input and signal; with its lock held,
 * errno as a result. */
#ifndef GPUD_TESTS_FAKE_INPUT_H
#define GPUD_TESTS_FAKE_INPUT_H

#include "support/fake_driver.h"

uint32_t fake_type(const struct fake_driver *driver); /* enum v4l2_buf_type */
int fake_format_call(struct fake_driver *driver, unsigned long request, struct v4l2_format *raw);
int fake_enum_format(const struct fake_driver *driver, struct v4l2_fmtdesc *raw);

int fake_get_controls(const struct fake_driver *driver, struct v4l2_ext_controls *raw);

/* Serves a request about controls; -1: not one of those. */
int fake_control_call(struct fake_driver *driver, unsigned long request, void *argument);

/* Serves a request about the input; -1: not one of those. */
int fake_input_call(struct fake_driver *driver, unsigned long request, void *argument);

int fake_enum_size(const struct fake_driver *driver, struct v4l2_frmsizeenum *raw);
int fake_enum_interval(const struct fake_driver *driver, struct v4l2_frmivalenum *raw);

#endif

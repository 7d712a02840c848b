/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both parts of gst-inputs. */
#ifndef GPUD_TESTS_PLUGINS_INPUTS_H
#define GPUD_TESTS_PLUGINS_INPUTS_H

#include "card.h"

#define OURS "gpudirectsrc address=v4l2://" CARD
#define SMALL "width=320,height=180"

/* The second picture that comes. */
struct picture take(const gchar *source, const gchar *rest);

void test_signal(void);
void test_pause(void);
void test_unplug(void);
void test_settings(void);

#endif

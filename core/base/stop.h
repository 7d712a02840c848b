/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Named points in the hand-off of frames at which a test can end the process. Installed libraries
 * have none: only a build with GPUD_STOP_POINTS calls the function, which the test program
 * supplies. Any thread may pass a point, also under locks. */
#ifndef GPUD_BASE_STOP_H
#define GPUD_BASE_STOP_H

#ifdef GPUD_STOP_POINTS
void gpud_stop_point(const char *name);
#define GPUD_STOP_POINT(name) gpud_stop_point(name)
#else
#define GPUD_STOP_POINT(name) ((void)0)
#endif

#endif

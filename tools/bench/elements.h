/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the two sides that are made of GStreamer elements share. */
#ifndef GPUD_TOOLS_BENCH_ELEMENTS_H
#define GPUD_TOOLS_BENCH_ELEMENTS_H

#include "control.h"

#include <gst/gst.h>

/* A pipeline with the described elements in it, and the pad to link ours to. */
GstElement *bench_elements_parse(int control, const char *description, GstPad *ours);

/* Ends the process with what the pipeline said last, or with `otherwise`. */
G_NORETURN void bench_elements_fail(int control, GstElement *pipeline, const char *otherwise);

/* Ends the process, but lets the elements remove what they have in the file system. pool may be
 * NULL. */
G_NORETURN void bench_elements_quit(GstElement *pipeline, GstBufferPool *pool);

/* Route and counters, as far as one of the elements knows them ("active-path", "stats"). */
void bench_elements_count(GstElement *pipeline, struct bench_result *result);

#endif

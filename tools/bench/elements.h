/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What sender and receiver share if they are made of GStreamer elements. */
#ifndef GPUD_TOOLS_BENCH_ELEMENTS_H
#define GPUD_TOOLS_BENCH_ELEMENTS_H

#include "control.h"

#include <gst/gst.h>

/* A pipeline of the described elements, linked to `ours`. */
GstElement *bench_elements_parse(int control, const char *description, GstPad *ours);

/* Ends the process with the pipeline's error message, or with `otherwise`. */
G_NORETURN void bench_elements_fail(int control, GstElement *pipeline, const char *otherwise);

/* Ends the process, but lets the elements remove their files first. pool may be NULL. */
G_NORETURN void bench_elements_quit(GstElement *pipeline, GstBufferPool *pool);

/* Route and counters, if an element has them ("active-path", "stats"). */
void bench_elements_count(GstElement *pipeline, struct bench_result *result);

#endif

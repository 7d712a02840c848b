/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several elements in a row in a harness, one of them ours and named `end`; and pipelines in
 * processes of their own. */
#ifndef GPUD_TESTS_PLUGINS_LINES_H
#define GPUD_TESTS_PLUGINS_LINES_H

#include <gst/check/gstcheck.h>
#include <gst/check/gstharness.h>
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>
#include <gst/video/video.h>

#define FRAMES 12
#define UPLOAD "cudaupload ! " ONLY_CUDA
#define FOREIGN UPLOAD " ! identity drop-allocation=true"
#define RECEIVE "gpudirectsrc name=end device=cuda:0"
#define TO_CPU "cudadownload ! capsfilter caps=video/x-raw"
#define ONLY_CUDA "capsfilter caps=\"" CAPS_CUDA "\""
#define CAPS_NV12 "video/x-raw,format=NV12,width=322,height=34,framerate=25/1"
#define CAPS_I420 "video/x-raw,format=I420,width=66,height=18,framerate=25/1"
#define CAPS_BGRA "video/x-raw,format=BGRA,width=100,height=10,framerate=25/1"
#define CAPS_CUDA "video/x-raw(memory:CUDAMemory)"
#define CUDA_NV12 "video/x-raw(memory:CUDAMemory),format=NV12,width=322,height=34,framerate=25/1"
#define CUDA_MEMORY "gst.cuda.memory"

struct line {
    GstHarness *harness;
    GstElement *end; /* NULL: none of ours is in it */
};

/* From a launch line; playing. */
struct line line_new(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
void line_free(struct line *line);

/* A number of our element's stats. */
guint64 line_stat(struct line *line, const gchar *field);

/* Waits until so many receivers stream, at most 5 s. */
void line_wait_clients(struct line *line, guint count);

/* Fails unless two buffers hold the same picture. */
void line_compare(GstBuffer *a, GstBuffer *b, const gchar *caps);

/* Another process with this pipeline; its end, which must be in order. */
GPid line_spawn(const gchar *pipeline);
void line_reap(GPid pid);

/* Opens both ends (`after` follows the receiving one's address) and sends FRAMES pictures through,
 * which must arrive as they were. */
void lines_run(const gchar *before, const gchar *sink_device, const gchar *after, const gchar *caps,
               struct line *sink, struct line *src);

/* The pictures with these numbers through an open pair. */
void lines_exchange(struct line *sink, struct line *src, const gchar *caps, guint from, guint to);

/* How many GPUs GStreamer's CUDA elements can use here; 0, and a reason is printed: none. Before
 * gst_check_init(). It looks in a child: a driver that is in use does not survive the fork that
 * gst-check makes for each test. */
guint lines_count_gpus(int *argc, char ***argv);

#endif

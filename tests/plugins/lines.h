/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several elements in a row in a harness, one of them ours and named `end`; and pipelines in
 * processes of their own. Compiled for one vendor's memory: CUDA, or HIP with LINES_HIP. */
#ifndef GPUD_TESTS_PLUGINS_LINES_H
#define GPUD_TESTS_PLUGINS_LINES_H

#include <gst/check/gstcheck.h>
#include <gst/check/gstharness.h>
#include <gst/video/video.h>
#ifdef LINES_HIP
#include <gst/hip/gsthip.h>
#define GPU_0 "hip:0"
#define GPU_1 "hip:1"
#define UPLOADER "hipupload vendor=amd"
#define UPLOADER_1 "hipupload vendor=amd device-id=1"
#define DOWNLOADER "hipdownload vendor=amd"
#define CAPS_GPU "video/x-raw(memory:HIPMemory)"
#define GPU_MEMORY GST_HIP_MEMORY_NAME
#define GPU_TYPE_POOL GST_TYPE_HIP_BUFFER_POOL
#define GPU_SHARES_POOLS TRUE /* HIP has one context a GPU */
#else
#include <gst/cuda/gstcudabufferpool.h>
#define GPU_0 "cuda:0"
#define GPU_1 "cuda:1"
#define UPLOADER "cudaupload"
#define UPLOADER_1 "cudaupload cuda-device-id=1"
#define DOWNLOADER "cudadownload"
#define CAPS_GPU "video/x-raw(memory:CUDAMemory)"
#define GPU_MEMORY "gst.cuda.memory"
#define GPU_TYPE_POOL GST_TYPE_CUDA_BUFFER_POOL
#define GPU_SHARES_POOLS FALSE /* with elements that an application gave a context of its own */
#endif

#define FRAMES 12
#define ON_GPU "device=" GPU_0
#define UPLOAD UPLOADER " ! " ONLY_GPU
#define FOREIGN UPLOAD " ! identity drop-allocation=true"
#define RECEIVE "gpudirectsrc name=end " ON_GPU
#define TO_CPU DOWNLOADER " ! capsfilter caps=video/x-raw"
#define ONLY_GPU "capsfilter caps=\"" CAPS_GPU "\""
#define CAPS_NV12 "video/x-raw,format=NV12,width=322,height=34,framerate=25/1"
#define CAPS_I420 "video/x-raw,format=I420,width=66,height=18,framerate=25/1"
#define CAPS_BGRA "video/x-raw,format=BGRA,width=100,height=10,framerate=25/1"
#define GPU_NV12 CAPS_GPU ",format=NV12,width=322,height=34,framerate=25/1"

/* From a launch line; playing. It is closed by ends_close(), or where the test ends. */
GstHarness *line_new(const gchar *format, ...) G_GNUC_PRINTF(1, 2);

/* Fails unless two buffers hold the same picture. */
void line_compare(GstBuffer *a, GstBuffer *b, const gchar *caps);

/* The end of another process, which must be in order. */
void line_reap(GPid pid);

/* Opens both ends (`after` follows the receiving one's address) and sends FRAMES pictures through,
 * which must arrive as they were. */
void lines_run(const gchar *before, const gchar *sink_device, const gchar *after, const gchar *caps,
               GstHarness **sink, GstHarness **src);

/* The pictures with these numbers through an open pair. */
void lines_exchange(GstHarness *sink, GstHarness *src, const gchar *caps, guint from, guint to);

/* How many GPUs the vendor's elements of GStreamer can use here; 0, and a reason is printed: none.
 * Before gst_check_init(). It looks in a child: a driver that is in use does not survive the fork
 * that gst-check makes for each test. */
guint lines_count_gpus(int *argc, char ***argv);

/* Holds copies on a stream, NULL: on all, where the driver is the one in host memory. FALSE: it is
 * another. */
gboolean lines_hold_copies(gpointer stream, gboolean hold);

/* --- the vendor's: lines_cuda.c, lines_hip.c -------------------------------------------------- */

/* Of lines_count_gpus(), in the child. */
guint lines_vendor_count(void);

/* A context of the first GPU as an application makes one, that is not the elements' own. */
GstObject *lines_vendor_context(void);
GstContext *lines_vendor_share(GstObject *context);

/* What is free of the first GPU's memory. */
guint64 lines_vendor_free_memory(GstObject *context);

/* Fails unless it is valid memory of the vendor's, which its library's methods accept. Returns the
 * memory's own layout. */
const GstVideoInfo *lines_vendor_check(GstMemory *memory);

/* The stream of a memory, NULL: the default one. */
gpointer lines_vendor_stream(GstMemory *memory);

/* What an element does that works on another stream than the memory's, before it reads. */
void lines_vendor_sync(GstMemory *memory);

/* What an element does that writes: on the stream of `to`, without waiting for the end. */
void lines_vendor_copy(GstMemory *from, GstMemory *to);

#endif

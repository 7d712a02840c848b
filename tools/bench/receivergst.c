/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver that is a GStreamer source, whose buffers end in a pad of ours. */
#include "control.h"
#include "cudamarks.h"
#include "elements.h"
#include "gstcuda.h"
#include "outlet.h"
#include "tally.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* After the sender's end: when no frame came for this long, none comes any more. */
#define GRACE (500 * GPUD_MSEC)

struct receiver {
    int control;
    GstElement *pipeline;
    struct bench_tally tally;   /* the streaming thread's, until that has ended */
    struct bench_result before; /* the counters, before the measured section */
    uint64_t seen;              /* frames; atomic, for the thread that waits */
    bool greeted;
    struct bench_log *log; /* of frames in a GPU's memory; NULL: the CPU reads them */
    GQueue held;           /* buffers that the GPU has perhaps not read yet, oldest first */
    int done;              /* eventfd: the last frame or the end came */
};

static void tell(struct receiver *self)
{
    uint64_t one = 1;
    while (write(self->done, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void read_by_cpu(struct receiver *self, GstBuffer *buffer)
{
    GstMapInfo map;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
        bench_child_fail(self->control, GPUD_IO, "a received buffer cannot be mapped");
    bench_tally_frame(&self->tally, map.data, map.size, bench_now(), 0, 0);
    gst_buffer_unmap(buffer, &map);
    gst_buffer_unref(buffer);
}

/* Buffers go back when the GPU has read them; half of the slots at most are kept that long. */
static void read_by_gpu(struct receiver *self, GstBuffer *buffer)
{
    int64_t now = bench_now();
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(buffer))
        bench_child_fail(self->control, GPUD_UNSUPPORTED,
                         "the source gives no CUDA memory: end it with ! {caps}");
    if (!bench_gst_cuda_map(self->tally.job, buffer, GST_MAP_READ, &map))
        bench_child_fail(self->control, GPUD_IO, "a received buffer cannot be mapped for the GPU");
    bench_log_frame(self->log, map.stream, map.address, &map.layout, now, 0, 0);
    g_queue_push_tail(&self->held, buffer);
    size_t under_way = bench_log_settle(self->log, self->tally.job->slots / 2);
    bench_gst_cuda_unmap(buffer, &map);
    while (self->held.length > under_way)
        gst_buffer_unref(g_queue_pop_head(&self->held));
}

static GstFlowReturn chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    struct receiver *self = gst_pad_get_element_private(pad);
    if (!self->greeted)
        bench_send(self->control, BENCH_READY, NULL, 0);
    self->greeted = true;
    __atomic_fetch_add(&self->seen, 1, __ATOMIC_RELAXED);
    bool before = self->tally.complete;
    if (self->log)
        read_by_gpu(self, buffer);
    else
        read_by_cpu(self, buffer);
    if (self->tally.complete && !before)
        tell(self);
    return GST_FLOW_OK;
}

static gboolean event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    struct receiver *self = gst_pad_get_element_private(pad);
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        tell(self);
    return gst_pad_event_default(pad, parent, event);
}

/* In the streaming thread, where the measured section begins. */
static void on_start(void *user)
{
    struct receiver *self = user;
    bench_elements_count(self->pipeline, &self->before);
}

/* Until the last frame, the end, or some time after the sender's. */
static void wait_for_end(struct receiver *self)
{
    GstBus *bus = gst_element_get_bus(self->pipeline);
    GPollFD news;
    gst_bus_get_pollfd(bus, &news);
    int64_t until = INT64_MAX;
    uint64_t seen = 0;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = self->done, .events = POLLIN},
            {.fd = until == INT64_MAX ? self->control : -1, .events = POLLIN},
            {.fd = news.fd, .events = POLLIN},
        };
        int64_t left = until == INT64_MAX ? BENCH_STEP : until - bench_now();
        if (left <= 0 && __atomic_load_n(&self->seen, __ATOMIC_RELAXED) == seen)
            break;
        if (left <= 0) {
            seen = __atomic_load_n(&self->seen, __ATOMIC_RELAXED);
            until = bench_now() + GRACE;
            continue;
        }
        if (poll(fds, G_N_ELEMENTS(fds), (int)(left / GPUD_MSEC) + 1) > 0 && fds[0].revents)
            break;
        if (fds[1].revents) {
            bench_child_expect(self->control, BENCH_STOP, bench_now() + BENCH_STEP, NULL, 0);
            until = 0;
        }
        GstMessage *message;
        while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_ANY))) {
            if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
                gst_bus_post(bus, message);
                bench_elements_fail(self->control, self->pipeline, "");
            }
            gst_message_unref(message);
        }
    }
    gst_object_unref(bus);
}

/* The streaming thread stands still, for want of frames. */
static void end_log(struct receiver *self)
{
    if (bench_gst_cuda_enter()) {
        bench_log_finish(self->log);
        bench_log_destroy(g_steal_pointer(&self->log));
        bench_gst_cuda_leave();
    }
    g_queue_clear_full(&self->held, (GDestroyNotify)gst_buffer_unref);
}

void bench_run_receiver_gst(int control, const struct bench_job *job)
{
    struct receiver self = {.control = control, .done = eventfd(0, EFD_CLOEXEC)};
    gst_init(NULL, NULL);
    GstPad *pad = gst_pad_new("bench", GST_PAD_SINK);
    gst_pad_set_element_private(pad, &self);
    gst_pad_set_chain_function(pad, chain);
    gst_pad_set_event_function(pad, event);
    bench_tally_init(&self.tally, job);
    self.tally.on_start = on_start;
    self.tally.user = &self;
    char device[32];
    bench_device_of(job, job->number, device, sizeof(device));
    if (raw_cuda_ordinal(device) >= 0) {
        bench_gst_cuda_open(control);
        self.log = bench_log_create(job, control, &self.tally, true);
    }
    GString *description = g_string_new(job->src);
    g_string_replace(description, "{device}", device, 0);
    self.pipeline = bench_elements_parse(control, description->str, pad);
    g_string_free(description, TRUE);
    if (gst_element_set_state(self.pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(control, self.pipeline, "the source does not start");

    wait_for_end(&self);
    /* Before the source goes down: it forgets. Its streaming thread has nothing to do any more. */
    bench_elements_count(self.pipeline, &self.tally.result);
    bench_counters_since(&self.tally.result, &self.before);
    if (self.log)
        end_log(&self);
    gst_element_set_state(self.pipeline, GST_STATE_NULL);
    bench_tally_end(&self.tally);
    bench_send_result(control, &self.tally.result, self.tally.latencies);
    gst_pad_set_active(pad, FALSE);
    gst_object_unref(self.pipeline);
    gst_object_unref(pad);
    bench_tally_free(&self.tally);
    close(self.done);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver by a GStreamer source, which is linked to a pad of the bench. */
#include "control.h"
#include "counters.h"
#include "elements.h"
#include "gpumarks.h"
#include "gstcuda.h"
#include "roles.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Once the sender has ended, no frames are expected after this long without one. */
#define GRACE (500 * GPUD_MSEC)
#define GRACE_NETWORK (5 * GPUD_SEC) /* a frame may be on its way for this long */

struct receiver {
    int control;
    GstElement *pipeline;
    struct bench_counters counters; /* the streaming thread's, until it has stopped */
    struct bench_result before;     /* counters before the measured section */
    uint64_t seen;                  /* frames; atomic, since the main thread reads it */
    bool said_ready;
    struct bench_mark_reader *reader; /* reads frames in GPU memory; NULL: the CPU reads them */
    GQueue unread;                    /* buffers that the GPU may not have read yet, oldest first */
    int done;                         /* eventfd: EOS came, or, without --idle, the last frame */
};

static void signal_done(struct receiver *self)
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
    bench_counters_check(&self->counters, map.data, map.size, clock_now(), 0, 0);
    gst_buffer_unmap(buffer, &map);
    gst_buffer_unref(buffer);
}

/* Buffers are released once the GPU has read them. At most half of the slots wait for that, or the
 * sender would run out of them. */
static void read_by_gpu(struct receiver *self, GstBuffer *buffer)
{
    int64_t now = clock_now();
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(buffer))
        bench_child_fail(self->control, GPUD_UNSUPPORTED,
                         "the source gives no CUDA memory: end it with ! {caps}");
    if (!bench_gst_cuda_map(self->counters.job, buffer, GST_MAP_READ, &map))
        bench_child_fail(self->control, GPUD_IO, "a received buffer cannot be mapped for the GPU");
    bench_mark_reader_add(self->reader, map.stream, map.address, &map.layout, now, 0, 0);
    g_queue_push_tail(&self->unread, buffer);
    size_t pending = bench_mark_reader_wait(self->reader, self->counters.job->slots / 2);
    bench_gst_cuda_unmap(buffer, &map);
    while (self->unread.length > pending)
        gst_buffer_unref(g_queue_pop_head(&self->unread));
}

static GstFlowReturn chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    struct receiver *self = gst_pad_get_element_private(pad);
    if (!self->said_ready)
        bench_send(self->control, BENCH_READY, NULL, 0);
    self->said_ready = true;
    __atomic_fetch_add(&self->seen, 1, __ATOMIC_RELAXED);
    bool before = self->counters.complete;
    if (self->reader)
        read_by_gpu(self, buffer);
    else
        read_by_cpu(self, buffer);
    if (self->counters.complete && !before && !self->counters.job->idle)
        signal_done(self);
    return GST_FLOW_OK;
}

static gboolean event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    struct receiver *self = gst_pad_get_element_private(pad);
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        signal_done(self);
    return gst_pad_event_default(pad, parent, event);
}

/* Runs in the streaming thread. */
static void on_start(void *user)
{
    struct receiver *self = user;
    bench_elements_count(self->pipeline, &self->before);
}

/* Waits until the last frame, EOS, or GRACE without a frame after the sender ended. */
static void wait_for_end(struct receiver *self)
{
    GstBus *bus = gst_element_get_bus(self->pipeline);
    GPollFD messages;
    gst_bus_get_pollfd(bus, &messages);
    int64_t until = INT64_MAX;
    uint64_t seen = 0;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = self->done, .events = POLLIN},
            {.fd = until == INT64_MAX ? self->control : -1, .events = POLLIN},
            {.fd = messages.fd, .events = POLLIN},
        };
        int64_t left = until == INT64_MAX ? BENCH_STEP_TIMEOUT : until - clock_now();
        if (left <= 0 && __atomic_load_n(&self->seen, __ATOMIC_RELAXED) == seen)
            break;
        if (left <= 0) {
            seen = __atomic_load_n(&self->seen, __ATOMIC_RELAXED);
            until = clock_now() + (self->counters.job->network[0] ? GRACE_NETWORK : GRACE);
            continue;
        }
        if (poll(fds, G_N_ELEMENTS(fds), (int)(left / GPUD_MSEC) + 1) > 0 && fds[0].revents)
            break;
        if (fds[1].revents) {
            bench_child_expect(self->control, BENCH_STOP, clock_now() + BENCH_STEP_TIMEOUT, NULL,
                               0);
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

/* No frames come any more, so nothing else uses the reader. */
static void finish_reader(struct receiver *self)
{
    if (bench_gst_cuda_enter()) {
        bench_mark_reader_finish(self->reader);
        bench_mark_reader_destroy(g_steal_pointer(&self->reader));
        bench_gst_cuda_leave();
    }
    g_queue_clear_full(&self->unread, (GDestroyNotify)gst_buffer_unref);
}

void bench_run_receiver_gst(int control, const struct bench_job *job)
{
    struct receiver self = {.control = control, .done = eventfd(0, EFD_CLOEXEC)};
    gst_init(NULL, NULL);
    GstPad *pad = gst_pad_new("bench", GST_PAD_SINK);
    gst_pad_set_element_private(pad, &self);
    gst_pad_set_chain_function(pad, chain);
    gst_pad_set_event_function(pad, event);
    bench_counters_init(&self.counters, job);
    self.counters.on_start = on_start;
    self.counters.user = &self;
    char device[32];
    bench_device_of(job, job->number, device, sizeof(device));
    if (bench_works_on_gpu(job, device)) {
        unsigned gpu;
        bench_gst_cuda_open(control);
        raw_driver_of(device, &gpu);
        self.reader = bench_mark_reader_create(&raw_cuda, gpu, job, control, &self.counters, true);
    }
    GString *description = g_string_new(job->src);
    g_string_replace(description, "{device}", device, 0);
    self.pipeline = bench_elements_parse(control, description->str, pad);
    g_string_free(description, TRUE);
    if (gst_element_set_state(self.pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(control, self.pipeline, "the source does not start");

    wait_for_end(&self);
    /* Before the source stops, which resets its counters. No more frames come. */
    bench_elements_count(self.pipeline, &self.counters.result);
    bench_result_subtract(&self.counters.result, &self.before);
    if (self.reader)
        finish_reader(&self);
    gst_element_set_state(self.pipeline, GST_STATE_NULL);
    bench_counters_end(&self.counters);
    bench_send_result(control, &self.counters.result, self.counters.latencies);
    gst_pad_set_active(pad, FALSE);
    gst_object_unref(self.pipeline);
    gst_object_unref(pad);
    bench_counters_free(&self.counters);
    close(self.done);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sink's thread and the others wait for nothing that one of them waits for in the core: an
 * element behind a tee that maps the slot which is being sent, and threads that read the sink's
 * statistics. The core's calls are held here, as a receiver that gives no credit, a device that is
 * busy or another thread's work would hold them. */
#include "base/plugin.h"
#include "ends.h"
#include "sink/sink.h"
#include "src/src.h"

#include <sys/wait.h>
#include <unistd.h>

#define CAPS_OTHER "video/x-raw,format=UYVY,width=32,height=16,framerate=25/1"

static const gchar *device;

/* --- what holds a call of the core's --------------------------------------------------------- */

#define DEADLINE (30 * G_TIME_SPAN_SECOND)

static struct gate {
    GMutex lock;
    GCond changed;
    gboolean closed; /* threads wait at it */
    guint inside;
} submit_gate, map_gate, look_gate;

static __thread gboolean is_branch, is_watcher;

static void gate_set(struct gate *gate, gboolean closed)
{
    g_mutex_lock(&gate->lock);
    gate->closed = closed;
    gate->inside = 0;
    g_cond_broadcast(&gate->changed);
    g_mutex_unlock(&gate->lock);
}

static void gate_pass(struct gate *gate)
{
    g_mutex_lock(&gate->lock);
    gate->inside++;
    g_cond_broadcast(&gate->changed);
    while (gate->closed)
        g_cond_wait(&gate->changed, &gate->lock);
    g_mutex_unlock(&gate->lock);
}

/* FALSE: no thread arrived. */
static gboolean gate_wait_inside(struct gate *gate)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;
    gboolean in_time = TRUE;

    g_mutex_lock(&gate->lock);
    while (!gate->inside && in_time)
        in_time = g_cond_wait_until(&gate->changed, &gate->lock, deadline);
    g_mutex_unlock(&gate->lock);
    return in_time;
}

enum gpud_status __real_gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                           int64_t timeout, struct gpud_error *error);
enum gpud_status __wrap_gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                           int64_t timeout, struct gpud_error *error);
enum gpud_status __wrap_gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                           int64_t timeout, struct gpud_error *error)
{
    gate_pass(&submit_gate);
    return __real_gpud_sender_submit(sender, frame, timeout, error);
}

enum gpud_status __real_gpud_sender_submit_keep(struct gpud_sender *sender,
                                                struct gpud_frame *frame, int64_t timeout,
                                                struct gpud_error *error);
enum gpud_status __wrap_gpud_sender_submit_keep(struct gpud_sender *sender,
                                                struct gpud_frame *frame, int64_t timeout,
                                                struct gpud_error *error);
enum gpud_status __wrap_gpud_sender_submit_keep(struct gpud_sender *sender,
                                                struct gpud_frame *frame, int64_t timeout,
                                                struct gpud_error *error)
{
    gate_pass(&submit_gate);
    return __real_gpud_sender_submit_keep(sender, frame, timeout, error);
}

enum gpud_status __real_gpud_frame_map(struct gpud_frame *frame, unsigned access, int64_t timeout,
                                       void **data, struct gpud_error *error);
enum gpud_status __wrap_gpud_frame_map(struct gpud_frame *frame, unsigned access, int64_t timeout,
                                       void **data, struct gpud_error *error);
enum gpud_status __wrap_gpud_frame_map(struct gpud_frame *frame, unsigned access, int64_t timeout,
                                       void **data, struct gpud_error *error)
{
    if (is_branch)
        gate_pass(&map_gate);
    return __real_gpud_frame_map(frame, access, timeout, data, error);
}

void __real_gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info);
void __wrap_gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info);
void __wrap_gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info)
{
    if (is_watcher)
        gate_pass(&look_gate);
    __real_gpud_sender_get_info(sender, info);
}

/* --- the two branches ------------------------------------------------------------------------ */

struct job {
    GstHarness *sink;
    GstBuffer *buffer;
    GMutex lock;
    GCond changed;
    gboolean done;
};

static void job_done(struct job *job)
{
    g_mutex_lock(&job->lock);
    job->done = TRUE;
    g_cond_broadcast(&job->changed);
    g_mutex_unlock(&job->lock);
}

static gboolean job_wait(struct job *job)
{
    gint64 deadline = g_get_monotonic_time() + DEADLINE;
    gboolean in_time = TRUE;

    g_mutex_lock(&job->lock);
    while (!job->done && in_time)
        in_time = g_cond_wait_until(&job->changed, &job->lock, deadline);
    g_mutex_unlock(&job->lock);
    return in_time;
}

static gpointer send(gpointer user)
{
    struct job *job = user;

    fail_unless_equals_int(gst_harness_push(job->sink, gst_buffer_ref(job->buffer)), GST_FLOW_OK);
    job_done(job);
    return NULL;
}

static gpointer look(gpointer user)
{
    struct job *job = user;

    is_branch = TRUE;
    ends_check_picture(job->buffer, CAPS_SMALL, 1);
    job_done(job);
    return NULL;
}

struct stage {
    GstHarness *sink, *src;
    GstBufferPool *pool;
    struct job sends, looks; /* both of one buffer, a slot */
};

static void stage_open(struct stage *stage)
{
    g_autofree gchar *address = ends_address(), *properties = g_strdup_printf("device=%s", device);

    *stage = (struct stage){.sink = ends_sink_at(address, properties),
                            .src = ends_src_at(address, NULL)};
    ends_start(stage->sink, CAPS_SMALL);
    stage->pool = ends_pool(stage->sink, CAPS_SMALL);
    stage->sends.buffer = ends_acquire(stage->pool);
    ends_paint(stage->sends.buffer, CAPS_SMALL, 1);
    stage->sends.sink = stage->sink;
    stage->looks.buffer = stage->sends.buffer;
}

static void stage_close(struct stage *stage)
{
    gst_clear_buffer(&stage->sends.buffer);
}

static void expect_picture(struct stage *stage)
{
    ends_take(stage->src, CAPS_SMALL, 1);
}

TEST(test_map_during_submit)
{
    struct stage stage;

    stage_open(&stage);
    gate_set(&submit_gate, TRUE);
    GThread *sends = g_thread_new("sends", send, &stage.sends);
    fail_unless(gate_wait_inside(&submit_gate), "nothing is submitted");
    GThread *looks = g_thread_new("looks", look, &stage.looks);
    fail_unless(job_wait(&stage.looks), "mapping the slot waits for the submit");
    fail_if(stage.sends.done);
    gate_set(&submit_gate, FALSE);
    expect_picture(&stage);
    g_thread_join(sends);
    g_thread_join(looks);
    fail_unless_equals_uint64(ends_stat(stage.sink, "copies-cpu"), 0);
    stage_close(&stage);
}

TEST(test_submit_during_map)
{
    struct stage stage;

    stage_open(&stage);
    gate_set(&map_gate, TRUE);
    GThread *looks = g_thread_new("looks", look, &stage.looks);
    fail_unless(gate_wait_inside(&map_gate), "nothing is mapped");
    GThread *sends = g_thread_new("sends", send, &stage.sends);
    fail_unless(job_wait(&stage.sends), "the sink waits for the map");
    expect_picture(&stage);
    fail_if(stage.looks.done);
    gate_set(&map_gate, FALSE);
    g_thread_join(sends);
    g_thread_join(looks);
    fail_unless_equals_uint64(ends_stat(stage.sink, "copies-cpu"), 0);
    stage_close(&stage);
}

/* --- queries --------------------------------------------------------------------------------- */

static gpointer watch(gpointer sink)
{
    g_autoptr(GstStructure) stats = NULL;

    is_watcher = TRUE;
    g_object_get(sink, "stats", &stats, NULL);
    return NULL;
}

struct stream {
    GstHarness *sink;
    struct job job;
};

/* Pictures, another format and pictures of it, an interruption. */
static gpointer stream(gpointer user)
{
    struct stream *stream = user;

    gst_harness_push(stream->sink, ends_picture(CAPS_SMALL, 1));
    gst_harness_set_src_caps_str(stream->sink, CAPS_OTHER);
    gst_harness_push(stream->sink, ends_picture(CAPS_OTHER, 2));
    gst_harness_push_event(stream->sink, gst_event_new_flush_start());
    gst_harness_push_event(stream->sink, gst_event_new_flush_stop(TRUE));
    job_done(&stream->job);
    return NULL;
}

TEST(test_stream_during_stats)
{
    g_autofree gchar *properties = g_strdup_printf("device=%s wait-for-connection=false", device);
    struct stream streams = {.sink = ends_sink_at("watched", properties)};

    gst_harness_set_src_caps_str(streams.sink, CAPS_SMALL);
    gate_set(&look_gate, TRUE);
    GThread *watches = g_thread_new("watches", watch, ends_element(streams.sink));
    fail_unless(gate_wait_inside(&look_gate), "there is no query");
    GThread *thread = g_thread_new("streams", stream, &streams);
    fail_unless(job_wait(&streams.job), "the stream waits for the query");
    gate_set(&look_gate, FALSE);
    g_thread_join(watches);
    g_thread_join(thread);
    ends_close(streams.sink);
}

/* In a child: a driver that is in use does not survive the fork that gst-check makes for a test. */
static gboolean have_device(void)
{
    int state = -1;
    pid_t child = fork();

    if (child == 0) {
        struct gpud_context *context;
        struct gpud_device *opened;
        struct gpud_error error;
        if (gpud_context_create(NULL, &context, &error) == GPUD_OK &&
            gpud_device_open(context, device, &opened, &error) == GPUD_OK)
            _exit(0);
        g_print("SKIP: %s\n", error.reason);
        _exit(77);
    }
    return waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

int main(int argc, char **argv)
{
    device = argc > 1 ? argv[1] : "cuda:0";
    ends_init_environment();
    if (!have_device())
        return 77;
    gst_check_init(&argc, &argv);
    gpud_gst_context_init();
    if (!GST_ELEMENT_REGISTER(gpudirectsink, NULL) || !GST_ELEMENT_REGISTER(gpudirectsrc, NULL))
        return 1;
    return ends_run_tests(120);
}

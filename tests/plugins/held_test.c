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

static struct gate {
    gint closed; /* atomic: threads wait at it */
    gint inside; /* atomic: how many came since it was set */
} submit_gate, map_gate, look_gate;

static __thread gboolean is_branch, is_watcher;

static void gate_set(struct gate *gate, gboolean closed)
{
    g_atomic_int_set(&gate->inside, 0);
    g_atomic_int_set(&gate->closed, closed);
}

static void gate_pass(struct gate *gate)
{
    g_atomic_int_inc(&gate->inside);
    while (g_atomic_int_get(&gate->closed))
        g_usleep(1000);
}

__typeof__(gpud_sender_submit) __real_gpud_sender_submit, __wrap_gpud_sender_submit;
enum gpud_status __wrap_gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                           int64_t timeout, struct gpud_error *error)
{
    gate_pass(&submit_gate);
    return __real_gpud_sender_submit(sender, frame, timeout, error);
}

__typeof__(gpud_sender_submit_keep) __real_gpud_sender_submit_keep, __wrap_gpud_sender_submit_keep;
enum gpud_status __wrap_gpud_sender_submit_keep(struct gpud_sender *sender,
                                                struct gpud_frame *frame, int64_t timeout,
                                                struct gpud_error *error)
{
    gate_pass(&submit_gate);
    return __real_gpud_sender_submit_keep(sender, frame, timeout, error);
}

__typeof__(gpud_frame_map) __real_gpud_frame_map, __wrap_gpud_frame_map;
enum gpud_status __wrap_gpud_frame_map(struct gpud_frame *frame, unsigned access, int64_t timeout,
                                       void **data, struct gpud_error *error)
{
    if (is_branch)
        gate_pass(&map_gate);
    return __real_gpud_frame_map(frame, access, timeout, data, error);
}

__typeof__(gpud_sender_get_info) __real_gpud_sender_get_info, __wrap_gpud_sender_get_info;
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
    gint done; /* atomic */
};

static gpointer send(gpointer user)
{
    struct job *job = user;

    fail_unless_equals_int(gst_harness_push(job->sink, gst_buffer_ref(job->buffer)), GST_FLOW_OK);
    g_atomic_int_set(&job->done, TRUE);
    return NULL;
}

static gpointer look(gpointer user)
{
    struct job *job = user;

    is_branch = TRUE;
    ends_check_picture(job->buffer, CAPS_SMALL, 1);
    g_atomic_int_set(&job->done, TRUE);
    return NULL;
}

struct stage {
    GstHarness *sink, *src;
    struct job sends, looks; /* both of one buffer, a slot */
};

static void stage_open(struct stage *stage)
{
    g_autofree gchar *address = ends_address(), *properties = g_strdup_printf("device=%s", device);

    *stage = (struct stage){.sink = ends_sink_at(address, properties),
                            .src = ends_src_at(address, NULL)};
    ends_start(stage->sink, CAPS_SMALL);
    stage->sends.buffer = ends_acquire(ends_pool(stage->sink, CAPS_SMALL));
    ends_paint(stage->sends.buffer, CAPS_SMALL, 1);
    stage->sends.sink = stage->sink;
    stage->looks.buffer = stage->sends.buffer;
}

TEST(test_map_during_submit)
{
    struct stage stage;

    stage_open(&stage);
    gate_set(&submit_gate, TRUE);
    GThread *sends = g_thread_new("sends", send, &stage.sends);
    ENDS_UNTIL(30, g_atomic_int_get(&submit_gate.inside), "nothing is submitted");
    GThread *looks = g_thread_new("looks", look, &stage.looks);
    ENDS_UNTIL(30, g_atomic_int_get(&stage.looks.done), "mapping the slot waits for the submit");
    fail_if(g_atomic_int_get(&stage.sends.done));
    gate_set(&submit_gate, FALSE);
    ends_take(stage.src, CAPS_SMALL, 1);
    g_thread_join(sends);
    g_thread_join(looks);
    fail_unless_equals_uint64(ends_stat(stage.sink, "copies-cpu"), 0);
    gst_buffer_unref(stage.sends.buffer);
}

TEST(test_submit_during_map)
{
    struct stage stage;

    stage_open(&stage);
    gate_set(&map_gate, TRUE);
    GThread *looks = g_thread_new("looks", look, &stage.looks);
    ENDS_UNTIL(30, g_atomic_int_get(&map_gate.inside), "nothing is mapped");
    GThread *sends = g_thread_new("sends", send, &stage.sends);
    ENDS_UNTIL(30, g_atomic_int_get(&stage.sends.done), "the sink waits for the map");
    ends_take(stage.src, CAPS_SMALL, 1);
    fail_if(g_atomic_int_get(&stage.looks.done));
    gate_set(&map_gate, FALSE);
    g_thread_join(sends);
    g_thread_join(looks);
    fail_unless_equals_uint64(ends_stat(stage.sink, "copies-cpu"), 0);
    gst_buffer_unref(stage.sends.buffer);
}

/* --- queries --------------------------------------------------------------------------------- */

static gpointer watch(gpointer sink)
{
    g_autoptr(GstStructure) stats = NULL;

    is_watcher = TRUE;
    g_object_get(sink, "stats", &stats, NULL);
    return NULL;
}

/* Pictures, another format and pictures of it, an interruption. */
static gpointer stream(gpointer user)
{
    struct job *job = user;

    gst_harness_push(job->sink, ends_picture(CAPS_SMALL, 1));
    gst_harness_set_src_caps_str(job->sink, CAPS_OTHER);
    gst_harness_push(job->sink, ends_picture(CAPS_OTHER, 2));
    gst_harness_push_event(job->sink, gst_event_new_flush_start());
    gst_harness_push_event(job->sink, gst_event_new_flush_stop(TRUE));
    g_atomic_int_set(&job->done, TRUE);
    return NULL;
}

TEST(test_stream_during_stats)
{
    g_autofree gchar *properties = g_strdup_printf("device=%s wait-for-connection=false", device);
    struct job streams = {.sink = ends_sink_at("watched", properties)};

    gst_harness_set_src_caps_str(streams.sink, CAPS_SMALL);
    gate_set(&look_gate, TRUE);
    GThread *watches = g_thread_new("watches", watch, ends_element(streams.sink));
    ENDS_UNTIL(30, g_atomic_int_get(&look_gate.inside), "there is no query");
    GThread *thread = g_thread_new("streams", stream, &streams);
    ENDS_UNTIL(30, g_atomic_int_get(&streams.done), "the stream waits for the query");
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

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both ends of a link in one process, each in a harness of its own, and what the tests do with
 * them. */
#ifndef GPUD_TESTS_PLUGINS_ENDS_H
#define GPUD_TESTS_PLUGINS_ENDS_H

#include <gst/check/gstcheck.h>
#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#define CAPS_SMALL "video/x-raw,format=UYVY,width=64,height=16,framerate=25/1"

/* A test, which registers itself; files run theirs in their order. What may follow the name:
 * `.times`, how often it runs, with the number in __i__; `.only_if`, a gboolean of which it depends
 * whether it runs at all. */
#define TEST(name_, ...)                                                            \
    static void name_##_body(int __i__);                                            \
    GST_START_TEST(name_)                                                           \
    {                                                                               \
        name_##_body(__i__);                                                        \
        ends_close_all();                                                           \
    }                                                                               \
    GST_END_TEST                                                                    \
    __attribute__((constructor)) static void name_##_register(void)                 \
    {                                                                               \
        static struct ends_test test = {.run = name_, .name = #name_, __VA_ARGS__}; \
        ends_register(&test);                                                       \
    }                                                                               \
    static void name_##_body(G_GNUC_UNUSED int __i__)

struct ends_test {
    TFun run;
    const gchar *name;
    int times;
    const gboolean *only_if;
    struct ends_test *next;
};
void ends_register(struct ends_test *test);

/* All tests of the file, each of which may take so many seconds; for main(), behind
 * gst_check_init(). */
int ends_run_tests(guint seconds);

/* The usual main(). */
#define ENDS_MAIN(seconds)              \
    int main(int argc, char **argv)     \
    {                                   \
        ends_init_environment();        \
        gst_check_init(&argc, &argv);   \
        return ends_run_tests(seconds); \
    }

/* What ends_sink(), ends_src() and line_new() return is closed where the test ends, the last one
 * first, or by ends_close(), or where the block of a g_autoptr(GstHarness) ends: that is for one
 * with callbacks that use variables of the test. ends_keep() has the same done to other harnesses.
 */
void ends_keep(GstHarness *harness);
void ends_close(GstHarness *harness);
void ends_close_all(void);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstHarness, ends_close)

/* Before gst_check_init(): a runtime directory, so that no test meets another's sockets. */
void ends_init_environment(void);

/* An address that no other test of this process uses: a name, or, where GPUD_TEST_ADDRESS is set
 * (rdma://127.0.0.1:7174), one behind that. Free it. */
gchar *ends_address(void);

/* An address of this host that no other process has, one of two networks (0, 1); g_free it. */
gchar *ends_host(guint network);

/* The one that is the test's own. */
const gchar *ends_own(void);

/* A sending and a receiving element, playing, on one address, which is the test's own or a given
 * one. `properties` is as in gst-launch, or NULL. The sink waits for the first receiver and for a
 * slow one, and rings have 4 slots, unless they say otherwise. */
GstHarness *ends_sink(const gchar *properties);
GstHarness *ends_src(const gchar *properties);
GstHarness *ends_sink_at(const gchar *address, const gchar *properties);
GstHarness *ends_src_at(const gchar *address, const gchar *properties);

/* The element itself, which the harness holds in a bin: of several the one named `end`. */
GstElement *ends_element(GstHarness *harness);

/* A number of the element's stats; one of its sender "main" or "backup" in them, 0: there is none
 * yet; a text of them, "": there is none (g_free it); a truth, which must be in them. */
guint64 ends_stat(GstHarness *harness, const gchar *field);
guint64 ends_stat_of(GstElement *element, const gchar *field);
guint64 ends_stat_in(GstElement *element, const gchar *sender, const gchar *field);
gchar *ends_stat_text(GstElement *element, const gchar *field);
gboolean ends_stat_true(GstElement *element, const gchar *field);

/* Whether a text of the stats is this one, and an assertion that it is. */
gboolean ends_stat_is(GstElement *element, const gchar *field, const gchar *text);
void ends_check_stat(GstElement *element, const gchar *field, const gchar *text);

/* So many copies of the element's by the GPU, and by the CPU. */
void ends_check_copies(GstHarness *harness, guint64 by_gpu, guint64 by_cpu);

/* A text that is a property of the element; g_free it. */
gchar *ends_text(GstElement *element, const gchar *property);

/* Waits so many seconds at most until the condition holds, and may then no longer hold; what
 * follows it is said where it did not. */
#define ENDS_UNTIL(seconds, condition, ...)                                             \
    do {                                                                                \
        gboolean holds_ = FALSE;                                                        \
        for (int tries_ = (seconds)*100; !(holds_ = !!(condition)) && tries_; tries_--) \
            g_usleep(10000);                                                            \
        fail_unless(holds_ &&#condition, ##__VA_ARGS__);                                \
    } while (0)

/* s, for what takes a fraction of one; others may use the machine. */
#define ENDS_WAIT 30

/* Waits until so many receivers stream from a sink with caps; gives it caps, and waits for one. */
void ends_wait_clients(GstHarness *sink, guint count);
void ends_start(GstHarness *sink, const gchar *caps);

/* A picture in plain memory with the default strides of the caps; each `seed` looks different. */
GstBuffer *ends_picture(const gchar *caps, guint seed);

/* Fills a buffer, whatever its strides, with that picture. */
void ends_paint(GstBuffer *buffer, const gchar *caps, guint seed);

/* Fails unless the buffer holds that picture. */
void ends_check_picture(GstBuffer *buffer, const gchar *caps, guint seed);

/* Fails unless the buffer holds a black one, of 8 bits and in the narrow range if it is YUV. */
void ends_check_black(GstBuffer *buffer, const gchar *caps);

/* The next buffer. */
GstBuffer *ends_pull(GstHarness *src);

/* Sends a picture, which must go; and takes the next one, which must be that picture. */
void ends_push(GstHarness *sink, const gchar *caps, guint seed);
void ends_take(GstHarness *src, const gchar *caps, guint seed);

/* Takes so many more, whatever they are; and drops those that have arrived. */
void ends_skip(GstHarness *src, guint count);
void ends_drop(GstHarness *src);

/* The next event of this type; others are dropped. */
GstEvent *ends_wait_event(GstHarness *src, GstEventType type);

/* The sink's proposed pool, active until the test ends; and a buffer of it. */
GstBufferPool *ends_pool(GstHarness *sink, const gchar *caps);
GstBuffer *ends_acquire(GstBufferPool *pool);

/* A pipeline from a launch line, which must be right; a g_autoptr(EndsPipeline) stops where its
 * block ends. */
typedef GstElement EndsPipeline;
GstElement *ends_pipeline(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
void ends_stop(EndsPipeline *pipeline);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EndsPipeline, ends_stop)

/* An element in it, which it keeps; and a call for each buffer that its fakesink of that name
 * shows, as of the signal `handoff`. */
GstElement *ends_in(EndsPipeline *pipeline, const gchar *name);
void ends_on_buffer(EndsPipeline *pipeline, const gchar *name, GCallback call, gpointer user);

/* It plays; and comes to its end within so many seconds, without an error. */
void ends_play(EndsPipeline *pipeline);
void ends_wait_end(EndsPipeline *pipeline, guint seconds);

/* An error that the pipeline has posted ends the test. */
void ends_fail_on_errors(EndsPipeline *pipeline);

/* A monitor of video sources, started. */
typedef GstDeviceMonitor EndsMonitor;
EndsMonitor *ends_monitor(void);
void ends_monitor_free(EndsMonitor *monitor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EndsMonitor, ends_monitor_free)

/* A bus for the element in the harness; ends_wait_message() takes the next message of these types
 * from it, within so many seconds, or NULL. */
GstBus *ends_bus(GstHarness *harness);
GstMessage *ends_wait_message(GstBus *bus, GstMessageType types, guint seconds);

/* The next element's message of this name within so many seconds, and a text of it. */
void ends_expect_named(GstBus *bus, const gchar *name, guint seconds, const gchar *field,
                       const gchar *text);

/* The next error, warning or info within so many seconds, which must come. */
GError *ends_wait_error(GstBus *bus, GstMessageType types, guint seconds);

/* The same, whose sentence must contain the text. */
void ends_expect(GstBus *bus, GstMessageType types, guint seconds, const gchar *text);

/* Another process with this pipeline; one that sends a programme's pictures by the clock, see
 * instants.c; and their end. A sender that is started anew with the instant behind the last one
 * that was received has all others, however slow the machine is. */
GPid ends_spawn(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
GPid ends_spawn_instants(const gchar *address, const gchar *caps, const gchar *properties,
                         guint64 first);
/* The same of sound or data; `more`: the further arguments, with blanks between them. */
GPid ends_spawn_units(const gchar *address, const gchar *caps, const gchar *properties,
                      guint64 first, const gchar *more);
void ends_kill(GPid pid);

#endif

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

/* g_autoptr(GstHarness): torn down where its block ends, the last one first. */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstHarness, gst_harness_teardown)

/* Before gst_check_init(): a runtime directory of its own, so that no test meets another's sockets.
 */
void ends_init_environment(void);

/* An address that no other test of this process uses: a name, or, where GPUD_TEST_ADDRESS is set
 * (rdma://127.0.0.1:7174), one behind that. Free it. */
gchar *ends_address(void);

/* A sending and a receiving element on one address, playing. `properties` is as in gst-launch, or
 * NULL. The sink waits for the first receiver and for a slow one, and rings have 4 slots, unless
 * they say otherwise. */
GstHarness *ends_sink(const gchar *address, const gchar *properties);
GstHarness *ends_src(const gchar *address, const gchar *properties);

/* The element itself; the harness holds it in a bin. */
GstElement *ends_element(GstHarness *harness);

/* A number of the element's stats. */
guint64 ends_stat(GstHarness *harness, const gchar *field);

/* Waits until so many receivers stream from a sink that has caps, at most 5 s. */
void ends_wait_clients(GstHarness *sink, guint count);

/* A picture in plain memory with the default strides of the caps; each `seed` looks different. */
GstBuffer *ends_picture(const gchar *caps, guint seed);

/* Fills a buffer, whatever its strides, with that picture. */
void ends_paint(GstBuffer *buffer, const gchar *caps, guint seed);

/* Fails unless the buffer holds that picture. */
void ends_check_picture(GstBuffer *buffer, const gchar *caps, guint seed);

/* Fails unless the buffer holds a black one, of 8 bits and in the narrow range if it is YUV. */
void ends_check_black(GstBuffer *buffer, const gchar *caps);

/* The next buffer, within 5 s. */
GstBuffer *ends_pull(GstHarness *src);

/* The next event of this type, within 5 s; others are dropped. */
GstEvent *ends_wait_event(GstHarness *src, GstEventType type);

/* The sink's proposed pool, active. */
GstBufferPool *ends_pool(GstHarness *sink, const gchar *caps);

/* A bus for the element in the harness; ends_wait_message() takes the next message of these types
 * from it, within so many seconds, or NULL. */
GstBus *ends_bus(GstHarness *harness);
GstMessage *ends_wait_message(GstBus *bus, GstMessageType types, guint seconds);

#endif

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc between frames: it sleeps until something is due, and requests wake it meanwhile.
 * The sender is the core's, in its own context; what it writes is sent as by a network card, see
 * tests/support/copies.h. */
#include "base/plugin.h"
#include "src/src.h"
#include "support/check.h"
#include "support/copies.h"
#include "support/make.h"
#include "support/peer.h"

#include <gst/video/video.h>

#define CAPS "video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1"
#define ADDRESS "idle"
#define FRAMES 3
/* Waits for nothing that are looked at: each is to last a second. */
#define WAITS 2
#define WAIT GPUD_SEC
/* In a wait: once to sleep, and once because of what was left from before. */
#define SLEEPS_MAX 2

/* --- what the element asks of the core ------------------------------------------------------- */

static atomic_uint begun, ended, frames, timed_out, interrupted;
static atomic_llong asked;     /* ns of waiting, in the calls that timed out */
static atomic_llong until_max; /* the latest time that one would have waited to */
static atomic_bool endless;    /* from now on calls end by being interrupted alone */

__typeof__(gpud_receiver_acquire) __real_gpud_receiver_acquire, __wrap_gpud_receiver_acquire;
enum gpud_status __wrap_gpud_receiver_acquire(struct gpud_receiver *receiver, int64_t timeout,
                                              struct gpud_frame **frame, struct gpud_error *error)
{
    int64_t until = gpud_test_now() + timeout;

    if (until > atomic_load(&until_max))
        atomic_store(&until_max, until);
    atomic_fetch_add(&begun, 1);
    enum gpud_status status = __real_gpud_receiver_acquire(
        receiver, atomic_load(&endless) ? 1000 * GPUD_SEC : timeout, frame, error);
    if (status == GPUD_TIMEOUT) {
        atomic_fetch_add(&asked, timeout);
        atomic_fetch_add(&timed_out, 1);
    }
    atomic_fetch_add(&frames, status == GPUD_OK);
    atomic_fetch_add(&interrupted, status == GPUD_AGAIN);
    atomic_fetch_add(&ended, 1);
    return status;
}

/* --- the sender ------------------------------------------------------------------------------ */

static struct gpud_context *context;
static struct gpud_sender *sender;

static void open_sender(const gchar *text)
{
    struct gpud_media media;
    GstVideoInfo info;
    guint left_out;
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);

    CHECK(media_from_caps(&media, caps, &(struct caps_rest){0}, &left_out), "no media");
    if (media.kind == GPUD_MEDIA_PICTURE)
        CHECK(gst_video_info_from_caps(&info, caps) &&
                  layout_from_info(&media.picture.layout, &info),
              "no layout");
    else
        media.data.max_size = 64;
    context = NEW_CONTEXT();
    sender = NEW_SENDER(context, .address = ADDRESS);
    WORKS(gpud_sender_configure(sender, &media, &e));
}

static void send_frames(void)
{
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    for (guint i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, 30 * GPUD_SEC);
        WORKS(gpud_sender_submit(sender, &frame, 30 * GPUD_SEC, &e));
    }
}

static void close_sender(void)
{
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
}

/* --- the element ----------------------------------------------------------------------------- */

static GstElement *pipeline, *src;

static void play(const gchar *properties)
{
    g_autofree gchar *text = g_strdup_printf(
        "gpudirectsrc name=src address=" ADDRESS " %s ! fakesink sync=false", properties);

    pipeline = gst_parse_launch(text, NULL);
    CHECK(pipeline, "no pipeline: %s", text);
    src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
}

static void stop(void)
{
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(src);
    gst_object_unref(pipeline);
}

static gboolean has_signal(void)
{
    gboolean signal;

    g_object_get(src, "signal", &signal, NULL);
    return signal;
}

static guint64 count_sleeps(void)
{
    g_autoptr(GstStructure) stats = NULL;
    guint64 sleeps;

    g_object_get(src, "stats", &stats, NULL);
    CHECK(gst_structure_get_uint64(stats, "cpu-waits", &sleeps), "no cpu-waits in the stats");
    return sleeps;
}

static void expect_message(GstMessageType type, const gchar *what)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND, type);

    CHECK(message, "no %s", what);
}

/* --- scenes ---------------------------------------------------------------------------------- */

/* Waits that time out from now on; what each asks for, and what it costs. */
static void expect_long_waits(gboolean is_linked)
{
    guint before = atomic_load(&timed_out);

    PEER_UNTIL("the end of a wait", 30000, atomic_load(&timed_out) > before); /* it may be old */
    guint waits = atomic_load(&timed_out);
    gint64 time = atomic_load(&asked);
    guint64 sleeps = is_linked ? count_sleeps() : 0;
    PEER_UNTIL("waits", 30000, atomic_load(&timed_out) >= waits + WAITS);
    sleeps = is_linked ? count_sleeps() - sleeps : 0;
    waits = atomic_load(&timed_out) - waits;
    time = atomic_load(&asked) - time;
    CHECK(time / waits > WAIT * 99 / 100, "%u waits of %lld ms", waits,
          (long long)(time / waits / GPUD_MSEC));
    CHECK(sleeps <= SLEEPS_MAX * (waits + 1), "it slept %llu times in %u waits",
          (unsigned long long)sleeps, waits);
}

/* Pictures lose their signal; data keep it, so that nothing is due. */
static void test_connected(const gchar *caps, gboolean keeps_signal)
{
    open_sender(caps);
    play("");
    send_frames();
    PEER_UNTIL("frames", 30000, has_signal());
    if (!keeps_signal)
        PEER_UNTIL("the end of pictures", 30000, !has_signal());
    expect_long_waits(TRUE);
    CHECK(has_signal() == keeps_signal, "silent data count as lost");
    stop();
    close_sender();
}

static void test_alone(void)
{
    play("");
    expect_message(GST_MESSAGE_INFO, "word about waiting for a sender");
    expect_long_waits(FALSE);
    stop();
}

/* What is due ends the wait: none goes beyond it. */
static void test_due(void)
{
    gint64 before = gpud_test_now();

    atomic_store(&until_max, 0);
    play("connection-timeout=1");
    expect_message(GST_MESSAGE_ERROR, "error after connection-timeout");
    gint64 now = gpud_test_now(), latest = atomic_load(&until_max);
    CHECK(latest >= before + GPUD_SEC && latest <= now, "it would have waited for %lld ms more",
          (long long)((latest - now) / GPUD_MSEC));
    stop();
}

/* In a wait that would last for ever. */
static void test_woken_by(const gchar *what)
{
    gboolean pauses = g_str_equal(what, "a pause");

    SAY("  %s", what);
    atomic_store(&endless, true);
    atomic_store(&frames, 0);
    open_sender(CAPS);
    play("");
    send_frames();
    PEER_UNTIL("a wait behind the last frame", 30000,
               atomic_load(&frames) == FRAMES && atomic_load(&begun) > atomic_load(&ended));
    guint before = atomic_load(&interrupted);
    if (g_str_equal(what, "a flush")) {
        CHECK(gst_element_send_event(src, gst_event_new_flush_start()) &&
                  gst_element_send_event(src, gst_event_new_flush_stop(TRUE)),
              "a flush is refused");
    } else if (g_str_equal(what, "an end")) {
        CHECK(gst_element_send_event(src, gst_event_new_eos()), "an end is refused");
        expect_message(GST_MESSAGE_EOS, "end of the stream");
    } else {
        gst_element_set_state(pipeline, pauses ? GST_STATE_PAUSED : GST_STATE_READY);
    }
    PEER_UNTIL("the end of the wait", 30000, atomic_load(&interrupted) > before);
    if (pauses) {
        before = atomic_load(&begun);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        PEER_UNTIL("the next wait", 30000, atomic_load(&begun) > before);
    }
    stop();
    close_sender();
    atomic_store(&endless, false);
}

int main(int argc, char **argv)
{
    alarm(150);
    runtime_make();
    gst_init(NULL, NULL);
    gpud_gst_context_init();
    CHECK(GST_ELEMENT_REGISTER(gpudirectsrc, NULL), "no element");
    copies_install();
    copies_set_ask_after(100 * GPUD_SEC);
    SAY("connected, and nothing comes");
    test_connected(CAPS, FALSE);
    SAY("connected to data, and none come");
    test_connected("application/octet-stream", TRUE);
    SAY("without a sender");
    test_alone();
    SAY("an error is due");
    test_due();
    SAY("what wakes it");
    test_woken_by("a pause");
    test_woken_by("a flush");
    test_woken_by("an end");
    test_woken_by("a stop");
    runtime_done();
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* That streams whose senders have vanished keep no other one out; and when the streams of another
 * host's programme are searched: ever less often while nothing changes,
 * without waiting for that when a stream's sender says that it has opened another address, and
 * never more than once a second, however often it says so. What the host has is made up, and so is
 * the time: it passes by what the finder would have waited. */
#include "base/plugin.h"
#include "programme/programme.h"
#include "support/check.h"
#include "wire/codec.h"

#define ADDRESS "rdma://192.0.2.1:7174/cam"
#define LONGEST 8000  /* ms, from one search to the next */
#define SHORTEST 1000 /* likewise */
#define WAIT 20       /* s, for what takes a fraction of one */

/* Atomic, as is all that both threads use. */
static gint has_sound;       /* beside pictures */
static gint passing;         /* the number of one that comes and goes; 0: none */
static gint searches, least; /* least: ms between two of them */
static gint waits;           /* the timeout of the current wait, in ms; 0: it does not wait */
static gint skipped;         /* ms that passed without being waited for */

/* --- what the finder uses ----------------------------------------------------------------- */

__typeof__(g_get_monotonic_time) __real_g_get_monotonic_time, __wrap_g_get_monotonic_time;
gint64 __wrap_g_get_monotonic_time(void)
{
    return __real_g_get_monotonic_time() + g_atomic_int_get(&skipped) * G_TIME_SPAN_MILLISECOND;
}

static void channel_free(gpointer data)
{
    struct channel *channel = data;
    g_free(channel->address);
    g_free(channel);
}

static void add_channel(GPtrArray *list, const gchar *address)
{
    struct channel *channel = g_new0(struct channel, 1);
    channel->address = g_strdup(address);
    g_ptr_array_add(list, channel);
}

__typeof__(channels_ask) __wrap_channels_ask;
GPtrArray *__wrap_channels_ask(const gchar *folder, gint64 timeout, gchar **directory)
{
    static gint64 searched_at;
    GPtrArray *list = g_ptr_array_new_with_free_func(channel_free);
    (void)folder;
    if (directory)
        *directory = NULL;
    if (timeout == 0) /* it only wants the directory */
        return list;
    gint64 now = g_get_monotonic_time(), apart = (now - searched_at) / G_TIME_SPAN_MILLISECOND;
    g_atomic_int_set(&least, (gint)MIN(g_atomic_int_get(&least), apart));
    searched_at = now;
    g_atomic_int_inc(&searches);
    add_channel(list, ADDRESS);
    if (g_atomic_int_get(&has_sound))
        add_channel(list, ADDRESS "/audio");
    if (g_atomic_int_get(&passing) > 0) {
        g_autofree gchar *address = g_strdup_printf(ADDRESS "/s%d", g_atomic_int_get(&passing));
        add_channel(list, address);
    }
    return list;
}

__typeof__(device_watch_wait) __real_device_watch_wait, __wrap_device_watch_wait;

guint __wrap_device_watch_wait(struct device_watch *watch, gint timeout, GPtrArray *gone)
{
    gboolean ends = timeout >= 0 && timeout < LONGEST; /* by time, at once */
    guint changes;
    g_atomic_int_set(&waits, timeout);
    do
        changes = __real_device_watch_wait(watch, ends ? 0 : 5, gone);
    while (changes == 0 && !ends);
    if (changes == 0)
        g_atomic_int_add(&skipped, timeout);
    g_atomic_int_set(&waits, 0);
    return changes;
}

/* --- the programme ------------------------------------------------------------------------ */

static struct finder *finder; /* atomic */

static GstElement *make_source(void *user, const gchar *address, const GstCaps *caps, gboolean main)
{
    GstElement *source = gst_element_factory_make("audiotestsrc", main ? "main" : NULL);
    (void)user, (void)address, (void)caps;
    g_object_set(source, "is-live", TRUE, NULL);
    return source;
}

static void changed(void *user)
{
    struct finder *known = g_atomic_pointer_get(&finder);
    (void)user;
    if (known)
        finder_wake(known);
}

static gboolean has_pad(GstElement *bin, const gchar *name)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(bin, name);
    return pad != NULL;
}

#define WAIT_FOR(condition)                                      \
    do {                                                         \
        for (guint tries = 0; !(condition); tries++) {           \
            CHECK(tries < WAIT * 1000, "not within %d s", WAIT); \
            g_usleep(1000);                                      \
        }                                                        \
    } while (0)

static void say_opened(GstElement *bin)
{
    g_autoptr(GstElement) source = gst_bin_get_by_name(GST_BIN(bin), "main");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(source, "src");
    CHECK(gst_pad_push_event(pad, event_new_opened()), "the stream takes no event");
}

/* Nothing changes: the searches become rare. From then on none comes by that. */
static void settle(GstElement *bin)
{
    WAIT_FOR(has_pad(bin, "src") && g_atomic_int_get(&waits) == LONGEST);
}

static void added(GstElement *bin)
{
    g_atomic_int_set(&has_sound, TRUE);
    CHECK(!has_pad(bin, "src_audio"), "there is sound already");
    say_opened(bin);
    WAIT_FOR(has_pad(bin, "src_audio"));
}

static void pass(GstElement *bin, gint number)
{
    g_atomic_int_set(&passing, number);
    say_opened(bin);
}

/* Sixty streams come, and their senders vanish, for whose return the streams wait. There are places
 * for 32. */
static void come_and_go(GstElement *bin)
{
    for (gint i = 1; i <= 60; i++) {
        g_autofree gchar *name = g_strdup_printf("src_s%d", i);
        pass(bin, i);
        WAIT_FOR(has_pad(bin, name));
    }
    /* What has vanished gives its place up only where another one needs it. */
    pass(bin, 0);
    CHECK(has_pad(bin, "src") && has_pad(bin, "src_s60") && has_pad(bin, "src_s40"),
          "gone too early");
    CHECK(!has_pad(bin, "src_s20"), "none is gone");
}

static void flooded(GstElement *bin)
{
    settle(bin);
    gint before = g_atomic_int_get(&searches);
    g_atomic_int_set(&least, G_MAXINT);
    for (guint i = 0; i < 1000; i++)
        say_opened(bin);
    WAIT_FOR(g_atomic_int_get(&searches) > before);
    settle(bin);
    /* The wait ends by one clock, and is measured by another thread. */
    CHECK(g_atomic_int_get(&least) >= SHORTEST * 9 / 10, "searched again after %d ms", least);
}

int main(int argc, char **argv)
{
    struct collection collection = {0}; /* as of a new object */
    gst_init(&argc, &argv);
    g_autoptr(GstPlugin) plugin = gst_plugin_load_file(PLUGINS "/libgstaudiotestsrc.so", NULL);
    CHECK(plugin, "no audiotestsrc in " PLUGINS);
    GstElement *pipeline = gst_pipeline_new(NULL), *bin = gst_bin_new(NULL);
    gst_bin_add(GST_BIN(pipeline), bin);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    collection_init(&collection, bin);
    collection_open(&collection);
    const struct stream_programme programme = {
        .bin = GST_BIN(bin),
        .collection = &collection,
        .group_id = gst_util_group_id_next(),
        .changed = changed,
    };
    const struct finder_params params = {
        .address = ADDRESS, .programme = &programme, .make_source = make_source};
    g_atomic_pointer_set(&finder, finder_start(&params));
    CHECK(finder, "nothing is searched");
    settle(bin);
    come_and_go(bin);
    added(bin);
    flooded(bin);
    finder_stop(finder);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    finder_free(finder);
    collection_finish(&collection);
    gst_object_unref(pipeline);
    return 0;
}

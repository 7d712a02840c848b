/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectprogramsrc: pads that come and go with their streams, none of which waits for another,
 * and equal times of what was made together. */
#include "pipes.h"

#define SOUND "audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=2"
#define PICTURES "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=ADDRESS KEY "
#define BEEPS "audiotestsrc is-live=true samplesperbuffer=480 ! " SOUND " ! gpudirectsink "
#define TONE BEEPS "address=ADDRESS/audio KEY "
#define BYTES                                                              \
    "fakesrc is-live=true sizetype=fixed do-timestamp=true format=time ! " \
    "application/octet-stream ! gpudirectsink "

/* Between hosts a port belongs to one process, and so do all streams there; and an emulated machine
 * loses pictures in real time. What takes long runs there only with GPUD_TEST_ALL. */
static gboolean is_local, runs_all;

struct pad_log {
    gchar *name;
    guint group;
    gboolean has_stream, removed, ended;
    guint64 buffers;
    GHashTable *times; /* by offset: the running time, in ns */
    GstSegment segment;
    gint width; /* of the last picture */
};

static struct {
    GMutex lock;
    GPtrArray *pads; /* of pad_log, in the order of their appearance */
    guint complete;  /* how often no-more-pads was emitted */
} seen;

static const gchar *unlinked; /* the pad that gets no sink */

static void pad_log_free(gpointer data)
{
    struct pad_log *pad = data;

    g_hash_table_unref(pad->times);
    g_free(pad->name);
    g_free(pad);
}

/* The one that is there, or was there last; under the lock. */
static struct pad_log *find_pad(const gchar *name)
{
    for (guint i = seen.pads->len; i-- > 0;) {
        struct pad_log *pad = seen.pads->pdata[i];
        if (g_str_equal(pad->name, name))
            return pad;
    }
    return NULL;
}

static GstPadProbeReturn on_data(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct pad_log *log = user;
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);

    if (info->type & GST_PAD_PROBE_TYPE_BUFFER) {
        GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
        gint64 offset = (gint64)GST_BUFFER_OFFSET(buffer);
        gint64 time = (gint64)gst_segment_to_running_time(&log->segment, GST_FORMAT_TIME,
                                                          GST_BUFFER_PTS(buffer));
        g_hash_table_insert(log->times, g_memdup2(&offset, sizeof(offset)),
                            g_memdup2(&time, sizeof(time)));
        log->buffers++;
        return GST_PAD_PROBE_OK;
    }
    GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
    if (GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT)
        gst_event_copy_segment(event, &log->segment);
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        log->ended = TRUE;
    if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
        GstCaps *caps;
        gst_event_parse_caps(event, &caps);
        gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &log->width);
    }
    return GST_PAD_PROBE_OK;
}

static void on_pad_added(GstElement *source, GstPad *pad, GstElement *pipeline)
{
    struct pad_log *log = g_new0(struct pad_log, 1);
    g_autoptr(GstEvent) start = gst_pad_get_sticky_event(pad, GST_EVENT_STREAM_START, 0);
    g_autoptr(GstEvent) collection = gst_pad_get_sticky_event(pad, GST_EVENT_STREAM_COLLECTION, 0);
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    g_autoptr(GstStream) stream = NULL;

    fail_unless(start && collection && caps, "a pad without its events");
    fail_unless(gst_event_parse_group_id(start, &log->group));
    gst_event_parse_stream(start, &stream);
    log->has_stream = stream != NULL;
    log->name = gst_pad_get_name(pad);
    log->times = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    gst_segment_init(&log->segment, GST_FORMAT_TIME);
    g_mutex_lock(&seen.lock);
    g_ptr_array_add(seen.pads, log);
    g_mutex_unlock(&seen.lock);
    if (g_strcmp0(unlinked, log->name) == 0)
        return;
    GstElement *sink = gst_element_factory_make("fakesink", NULL);
    g_object_set(sink, "sync", FALSE, "async", FALSE, NULL);
    g_autoptr(GstPad) to = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(to, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_data,
                      log, NULL);
    gst_bin_add(GST_BIN(pipeline), sink);
    gst_element_sync_state_with_parent(sink);
    fail_unless_equals_int(gst_pad_link(pad, to), GST_PAD_LINK_OK);
}

static void on_pad_removed(GstElement *source, GstPad *pad, gpointer user)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);
    struct pad_log *log = find_pad(GST_OBJECT_NAME(pad));

    if (log) /* not the target of a ghost pad */
        log->removed = TRUE;
}

static void on_no_more_pads(GstElement *source, gpointer user)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);
    seen.complete++;
}

/* properties: of the source, which may name another address than the test's own. */
static GstElement *make_receiver(const gchar *properties)
{
    g_autofree gchar *format =
        g_strconcat("gpudirectprogramsrc name=p address=ADDRESS KEY ", properties, NULL);
    g_autofree gchar *line = pipe_line(format);
    GstElement *pipeline = gst_pipeline_new(NULL), *source = gst_parse_launch(line, NULL);

    seen.pads = g_ptr_array_new_with_free_func(pad_log_free);
    fail_unless(source != NULL);
    g_signal_connect(source, "pad-added", G_CALLBACK(on_pad_added), pipeline);
    g_signal_connect(source, "pad-removed", G_CALLBACK(on_pad_removed), NULL);
    g_signal_connect(source, "no-more-pads", G_CALLBACK(on_no_more_pads), NULL);
    gst_bin_add(GST_BIN(pipeline), source);
    return pipeline;
}

static void start(GstElement *receiver)
{
    fail_unless_equals_int(gst_element_set_state(receiver, GST_STATE_PAUSED),
                           GST_STATE_CHANGE_NO_PREROLL);
    fail_unless(gst_element_set_state(receiver, GST_STATE_PLAYING) != GST_STATE_CHANGE_FAILURE);
}

static GstElement *receive(const gchar *properties)
{
    GstElement *receiver = make_receiver(properties);

    start(receiver);
    return receiver;
}

/* Waits until `expr`, computed under the lock from the pad of that name, is true. */
#define WAIT_FOR(pipeline, pad_name, expr)                                         \
    do {                                                                           \
        gboolean there = FALSE;                                                    \
        for (guint tries = 0; tries < ENDS_WAIT * 100 && !there; tries++) {        \
            ends_fail_on_errors(pipeline);                                         \
            g_mutex_lock(&seen.lock);                                              \
            struct pad_log *pad = find_pad(pad_name);                              \
            there = pad && (expr);                                                 \
            g_mutex_unlock(&seen.lock);                                            \
            if (!there)                                                            \
                g_usleep(10000);                                                   \
        }                                                                          \
        fail_unless(there, "%s: not within %d s: %s", pad_name, ENDS_WAIT, #expr); \
    } while (0)

static guint64 buffers_of(const gchar *name)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);
    struct pad_log *pad = find_pad(name);

    return pad ? pad->buffers : 0;
}

/* The stream goes on: so many more buffers come; and both of picture and sound do. */
#define MORE(pipeline, name, count)                       \
    do {                                                  \
        guint64 wanted = buffers_of(name) + (count);      \
        WAIT_FOR(pipeline, name, pad->buffers >= wanted); \
    } while (0)

static void more_of_both(GstElement *receiver, guint pictures, guint blocks)
{
    MORE(receiver, "src", pictures);
    MORE(receiver, "src_audio", blocks);
}

static GPid spawn(const gchar *format)
{
    g_autofree gchar *line = pipe_line(format);

    return ends_spawn("%s", line);
}

static void expect_two_streams(void)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);
    struct pad_log *picture = find_pad("src"), *sound = find_pad("src_audio");

    fail_unless_equals_int(seen.pads->len, 2);
    fail_unless(picture->has_stream && sound->has_stream);
    fail_unless_equals_int(picture->group, sound->group);
}

/* Whichever is first. */
TEST(test_pads, .times = 2)
{
    g_autoptr(EndsPipeline) receiver = make_receiver("");
    g_autoptr(EndsPipeline) sender = NULL;

    if (__i__ == 0)
        start(receiver);
    sender = pipe_play_line(PICTURES TONE);
    if (__i__ == 1)
        start(receiver);
    more_of_both(receiver, 5, 5);
    WAIT_FOR(receiver, "src", seen.complete == 1);
    expect_two_streams();
    gst_element_send_event(sender, gst_event_new_eos());
    WAIT_FOR(receiver, "src", pad->ended && pad->removed);
    WAIT_FOR(receiver, "src_audio", pad->ended && pad->removed);
}

static void on_signal(GObject *source, GParamSpec *pspec, gint *count)
{
    g_atomic_int_inc(count);
}

static gboolean has_signal(GstElement *source)
{
    gboolean signal;

    g_object_get(source, "signal", &signal, NULL);
    return signal;
}

static guint64 frames_in(const GstStructure *stats, const gchar *pad)
{
    g_autoptr(GstStructure) one = NULL;
    guint64 frames = 0;

    gst_structure_get(stats, pad, GST_TYPE_STRUCTURE, &one, NULL);
    fail_unless(one && gst_structure_get_uint64(one, "frames", &frames), "no stats of %s", pad);
    return frames;
}

/* The route and the signal are the channel's own stream's, and each stream has statistics. */
TEST(test_reports)
{
    gint notified = 0; /* atomic */
    g_autoptr(EndsPipeline) receiver = receive("");
    GstElement *source = pipe_part(receiver, "p");
    g_autofree gchar *path = NULL;
    g_autoptr(GstStructure) stats = NULL;

    g_signal_connect(source, "notify::signal", G_CALLBACK(on_signal), &notified);
    expect_text(source, "active-path", "none");
    fail_unless(!has_signal(source));
    GstElement *sender = pipe_play_line(PICTURES TONE);
    more_of_both(receiver, 5, 5);
    g_object_get(source, "active-path", &path, "stats", &stats, NULL);
    fail_unless(!g_str_equal(path, "none") && has_signal(source));
    fail_unless(g_atomic_int_get(&notified) > 0, "no notify of the signal");
    fail_unless(frames_in(stats, "src") >= 5 && frames_in(stats, "src_audio") >= 5);
    ends_stop(sender);
    WAIT_FOR(receiver, "src", !has_signal(source));
}

/* A stream that is not used ends no other, and one of data is as good. */
TEST(test_unlinked, .only_if = &runs_all)
{
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);

    unlinked = "src_audio";
    g_autoptr(EndsPipeline) receiver = receive("");
    WAIT_FOR(receiver, "src_audio", TRUE);
    MORE(receiver, "src", 30);
    fail_unless_equals_uint64(buffers_of("src_audio"), 0);
}

TEST(test_stream_appears_later)
{
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(EndsPipeline) pictures = pipe_play_line(PICTURES);

    MORE(receiver, "src", 10);
    WAIT_FOR(receiver, "src", seen.complete == 1);
    GstElement *tone = pipe_play_line(TONE);
    MORE(receiver, "src_audio", 10);
    MORE(receiver, "src", 10);
    expect_two_streams();
    ends_stop(tone);
    MORE(receiver, "src", 30);
}

/* The address that a stream's frames come from. */
static gboolean comes_from(GstElement *source, const gchar *pad, const gchar *address)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;

    g_object_get(source, "stats", &stats, NULL);
    return gst_structure_get(stats, pad, GST_TYPE_STRUCTURE, &one, NULL) &&
           g_strcmp0(gst_structure_get_string(one, "address"), address) == 0;
}

static GstElement *send_other(const gchar *format, const gchar *address)
{
    g_autoptr(GString) line = g_string_new(format);

    g_string_replace(line, "OTHER", address, 0);
    return pipe_play_line(line->str);
}

#define OTHER_PICTURES                                                                          \
    "videotestsrc is-live=true ! video/x-raw,format=UYVY,width=128,height=16,framerate=25/1 ! " \
    "gpudirectsink address=OTHER KEY "

/* All streams go over to another channel, on the pads that are there; and back. */
TEST(test_another_channel)
{
    g_autofree gchar *other = ends_address(), *own_sound = NULL, *other_sound = NULL;
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    g_autoptr(EndsPipeline) second =
        send_other(OTHER_PICTURES BEEPS "address=OTHER/audio KEY", other);
    GstElement *source = pipe_part(receiver, "p");

    own_sound = g_strconcat(ends_own(), "/audio", NULL);
    other_sound = g_strconcat(other, "/audio", NULL);
    more_of_both(receiver, 5, 5);
    for (guint i = 0; i < 3; i++) {
        g_object_set(source, "address", other, NULL);
        WAIT_FOR(receiver, "src", pad->width == 128);
        ENDS_UNTIL(ENDS_WAIT, comes_from(source, "src", other) &&
                                  comes_from(source, "src_audio", other_sound));
        more_of_both(receiver, 5, 20);
        g_object_set(source, "address", ends_own(), NULL);
        WAIT_FOR(receiver, "src", pad->width == 64);
        ENDS_UNTIL(ENDS_WAIT, comes_from(source, "src", ends_own()) &&
                                  comes_from(source, "src_audio", own_sound));
        more_of_both(receiver, 5, 20);
    }
    expect_two_streams();
    WAIT_FOR(receiver, "src", !pad->ended && !pad->removed);
    WAIT_FOR(receiver, "src_audio", !pad->ended && !pad->removed);
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);
    expect_no_complaint(bus);
}

/* What the other channel does not send falls silent; what it has beside is found; and both are
 * there again when it is left. */
TEST(test_a_channel_with_other_streams)
{
    g_autofree gchar *other = ends_address();
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    g_autoptr(EndsPipeline) second =
        send_other(OTHER_PICTURES BYTES "address=OTHER/text KEY", other);
    GstElement *source = pipe_part(receiver, "p");
    g_autofree gchar *sound = g_strconcat(other, "/audio", NULL);

    more_of_both(receiver, 5, 5);
    g_object_set(source, "address", other, NULL);
    WAIT_FOR(receiver, "src", pad->width == 128);
    ENDS_UNTIL(ENDS_WAIT, comes_from(source, "src_audio", sound));
    MORE(receiver, "src_text", 5);
    guint64 before = buffers_of("src_audio");
    MORE(receiver, "src", 10);
    fail_unless_equals_uint64(buffers_of("src_audio"), before);
    g_object_set(source, "address", ends_own(), NULL);
    WAIT_FOR(receiver, "src", pad->width == 64);
    more_of_both(receiver, 5, 5);
}

/* What is a stream of another kind there comes, too: none stays with the channel that was left. */
TEST(test_a_channel_with_another_kind)
{
    g_autofree gchar *other = ends_address(), *own_sound = g_strconcat(ends_own(), "/audio", NULL);
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    g_autoptr(EndsPipeline) second =
        send_other(OTHER_PICTURES BYTES "address=OTHER/audio KEY", other);
    GstElement *source = pipe_part(receiver, "p");
    g_autofree gchar *bytes = g_strconcat(other, "/audio", NULL);

    more_of_both(receiver, 5, 5);
    g_object_set(source, "address", other, NULL);
    ENDS_UNTIL(ENDS_WAIT,
               comes_from(source, "src", other) && comes_from(source, "src_audio", bytes));
    more_of_both(receiver, 5, 5);
    g_object_set(source, "address", ends_own(), NULL);
    ENDS_UNTIL(ENDS_WAIT,
               comes_from(source, "src", ends_own()) && comes_from(source, "src_audio", own_sound));
    more_of_both(receiver, 5, 5);
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);
    expect_no_complaint(bus);
}

/* A channel that is not there changes nothing, of any stream. */
TEST(test_no_other_channel)
{
    g_autofree gchar *other = ends_address(), *sound = g_strconcat(ends_own(), "/audio", NULL);
    g_autoptr(EndsPipeline) receiver = receive("connection-timeout=1");
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    GstElement *source = pipe_part(receiver, "p");
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);

    more_of_both(receiver, 5, 5);
    g_object_set(source, "address", other, NULL);
    expect_told(bus, GST_MESSAGE_WARNING, "goes on");
    ENDS_UNTIL(ENDS_WAIT, g_str_equal(ends_text(source, "address"), ends_own()));
    more_of_both(receiver, 10, 10);
    fail_unless(comes_from(source, "src", ends_own()) && comes_from(source, "src_audio", sound));
    g_object_set(source, "address", "target:x", NULL);
    expect_text(source, "address", ends_own());
    more_of_both(receiver, 5, 5);
}

/* Sound alone is a programme, too: no timeout waits for a picture. */
TEST(test_sound_alone, .only_if = &runs_all)
{
    g_autoptr(EndsPipeline) receiver = receive("connection-timeout=3");
    g_autoptr(EndsPipeline) sender = pipe_play_line(TONE);

    MORE(receiver, "src_audio", 400); /* 4 s */
    fail_unless_equals_uint64(buffers_of("src"), 0);
}

/* Its own stream may be the sound, and data may be beside it. */
TEST(test_radio)
{
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(EndsPipeline) sender =
        pipe_play_line(BEEPS "address=ADDRESS KEY " BYTES "address=ADDRESS/text KEY");

    MORE(receiver, "src", 20);
    MORE(receiver, "src_text", 5);
    WAIT_FOR(receiver, "src", seen.complete == 1 && seen.pads->len == 2 && pad->width == 0);
}

TEST(test_one_stream, .only_if = &runs_all)
{
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    g_autoptr(EndsPipeline) receiver = receive("address=ADDRESS/audio");

    MORE(receiver, "src", 10);
    WAIT_FOR(receiver, "src", seen.complete == 1 && seen.pads->len == 1 && pad->width == 0);
}

/* The sockets of a path. */
TEST(test_path, .only_if = &is_local)
{
    g_autofree gchar *folder = g_dir_make_tmp("gpudirect-programme-XXXXXX", NULL);
    g_autofree gchar *address = g_strdup_printf("address=unix:%s/cam", folder);
    GstElement *receiver = receive(address);
    GstElement *sender = pipe_play("videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink %s "
                                   "audiotestsrc is-live=true ! " SOUND " ! gpudirectsink %s!audio",
                                   address, address);

    more_of_both(receiver, 5, 5);
    ends_stop(sender);
    ends_stop(receiver);
    rmdir(folder);
}

TEST(test_no_sender_before_the_end, .only_if = &runs_all)
{
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);

    gst_element_send_event(receiver, gst_event_new_eos());
    g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_ERROR, ENDS_WAIT);
    fail_unless(message != NULL, "nothing says that no stream was found");
}

/* --- streams that end --------------------------------------------------------------------- */

/* The sound's sender is killed: the picture goes on, and the sound does when it is back, on the
 * same pad; or, if the user wants that, its pad ends and a new one comes. */
TEST(test_killed_sound, .times = 2, .only_if = &is_local)
{
    gboolean ends = __i__ == 1;
    g_autoptr(EndsPipeline) receiver = receive(ends ? "on-disconnect=eos" : "");
    GPid pictures = spawn(PICTURES), tone = spawn(TONE);

    more_of_both(receiver, 5, 5);
    ends_kill(tone);
    if (ends)
        WAIT_FOR(receiver, "src_audio", pad->ended && pad->removed);
    MORE(receiver, "src", 30);
    WAIT_FOR(receiver, "src_audio", pad->removed == ends);
    tone = spawn(TONE);
    WAIT_FOR(receiver, "src_audio", !pad->removed);
    MORE(receiver, "src_audio", 5);
    WAIT_FOR(receiver, "src", seen.pads->len == (ends ? 3 : 2));
    ends_kill(tone);
    ends_kill(pictures);
}

TEST(test_killed_picture, .only_if = &is_local)
{
    g_autoptr(EndsPipeline) receiver = receive("");
    GPid pictures = spawn(PICTURES), tone = spawn(TONE);

    more_of_both(receiver, 5, 5);
    ends_kill(pictures);
    MORE(receiver, "src_audio", 100);
    /* Another format, on the same pad. */
    pictures = spawn("videotestsrc is-live=true ! "
                     "video/x-raw,format=NV12,width=32,height=16,framerate=25/1 ! "
                     "gpudirectsink address=ADDRESS KEY");
    WAIT_FOR(receiver, "src", pad->width == 32);
    more_of_both(receiver, 5, 20);
    expect_two_streams();
    ends_kill(tone);
    ends_kill(pictures);
}

/* The process of both is killed, twice: both go on with the next one, on the same pads. */
TEST(test_killed_sender)
{
    g_autoptr(EndsPipeline) receiver = receive("");

    for (guint i = 0; i < 3; i++) {
        GPid sender = spawn(PICTURES TONE);
        more_of_both(receiver, 5, 20);
        ends_kill(sender);
    }
    expect_two_streams();
}

/* Of two receivers one is stopped: the other one, and the picture, do not wait for it. */
TEST(test_stopped_receiver, .only_if = &runs_all)
{
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    g_autoptr(EndsPipeline) receiver = receive("");
    GPid victim = spawn("gpudirectsrc address=ADDRESS/audio KEY slots=2 ! fakesink sync=false");

    more_of_both(receiver, 5, 20);
    kill(victim, SIGSTOP);
    more_of_both(receiver, 50, 200);
    ends_kill(victim);
    more_of_both(receiver, 5, 20);
}

/* How many buffers from the first to the last one are missing; step: from offset to offset. */
static guint64 missing(const gchar *name, guint64 step)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);
    GHashTableIter iter;
    gpointer offset;
    guint64 first = G_MAXUINT64, last = 0;
    struct pad_log *pad = find_pad(name);

    g_hash_table_iter_init(&iter, pad->times);
    while (g_hash_table_iter_next(&iter, &offset, NULL)) {
        first = MIN(first, *(guint64 *)offset);
        last = MAX(last, *(guint64 *)offset);
    }
    return (last - first) / step + 1 - g_hash_table_size(pad->times);
}

static void wait_clients(GstElement *sink, guint count)
{
    guint clients = G_MAXUINT;

    ENDS_UNTIL(ENDS_WAIT, (g_object_get(sink, "num-clients", &clients, NULL), clients == count),
               "%u receivers, not %u", clients, count);
}

/* A receiver of the sound is killed: another one, and that of the picture, lose nothing. */
TEST(test_killed_receiver, .only_if = &runs_all)
{
    g_autoptr(EndsPipeline) sender =
        pipe_play_line(PICTURES "slow-receiver=block " TONE "slow-receiver=block name=sound");
    g_autoptr(EndsPipeline) receiver = receive("");

    more_of_both(receiver, 5, 5);
    for (guint i = 0; i < 5; i++) {
        GPid victim = spawn("gpudirectsrc address=ADDRESS/audio KEY ! fakesink sync=false");
        wait_clients(pipe_part(sender, "sound"), 2);
        MORE(receiver, "src_audio", 10 + i);
        ends_kill(victim);
        wait_clients(pipe_part(sender, "sound"), 1);
        more_of_both(receiver, 5, 20);
    }
    fail_unless_equals_uint64(missing("src", 1), 0);
    fail_unless_equals_uint64(missing("src_audio", 480), 0);
}

/* --- in step ------------------------------------------------------------------------------ */

#define STEP (20 * GST_MSECOND)
#define SAMPLES 960
#define COUNT 100

/* At that running time or later. */
static void push(GstElement *pipeline, const gchar *name, GstClockTime due, GstBuffer *buffer,
                 GstClockTime time, guint64 offset)
{
    gint64 early = (gint64)due - (gint64)gst_element_get_current_running_time(pipeline);
    GstFlowReturn flow;

    if (early > 0)
        g_usleep((gulong)early / 1000);
    GST_BUFFER_PTS(buffer) = time;
    GST_BUFFER_DURATION(buffer) = STEP;
    GST_BUFFER_OFFSET(buffer) = offset;
    g_signal_emit_by_name(pipe_part(pipeline, name), "push-buffer", buffer, &flow);
    fail_unless_equals_int(flow, GST_FLOW_OK);
    gst_buffer_unref(buffer);
}

/* Pictures and blocks of equal times, in real time, but blocks later, as sound is complete later
 * than a picture. In the middle the picture stops for more than a second. */
static void send_together(GstElement *sender)
{
    GstClockTime first = gst_element_get_current_running_time(sender);

    for (guint i = 0; i < 2 * COUNT; i++) {
        GstClockTime time = first + i * STEP;
        if (i < COUNT / 2 || i >= COUNT + COUNT / 2)
            push(sender, "picture", time, ends_picture(CAPS_SMALL, i), time, i);
        push(sender, "sound", time + STEP / 2, gst_buffer_new_allocate(NULL, SAMPLES * 4, NULL),
             time, i * SAMPLES);
    }
}

static gint compare_times(gconstpointer a, gconstpointer b)
{
    gint64 one = *(const gint64 *)a, two = *(const gint64 *)b;

    return (one > two) - (one < two);
}

/* How far the two are apart, where both came: sorted. */
static GArray *distances(void)
{
    g_autoptr(GMutexLocker) locked = g_mutex_locker_new(&seen.lock);
    GArray *all = g_array_new(FALSE, FALSE, sizeof(gint64));

    for (guint64 i = 0; i < 2 * COUNT; i++) {
        guint64 sample = i * SAMPLES;
        const gint64 *picture = g_hash_table_lookup(find_pad("src")->times, &i);
        const gint64 *sound = g_hash_table_lookup(find_pad("src_audio")->times, &sample);
        gint64 apart = picture && sound ? ABS(*picture - *sound) : -1;
        if (apart >= 0)
            g_array_append_val(all, apart);
    }
    g_array_sort(all, compare_times);
    return all;
}

static const struct {
    const gchar *what;
    gboolean sender_foreign, receiver_foreign;
    gint64 most;      /* distance */
    guint exceptions; /* while the clocks' relation is measured, it may change between the two */
} clocks[] = {
    {"one clock", FALSE, FALSE, 0, 0},
    {"the receiver has its own clock", FALSE, TRUE, GST_MSECOND, 5},
    {"the sender's clock is not known", TRUE, FALSE, GST_MSECOND, 10},
};

TEST(test_in_step, .times = G_N_ELEMENTS(clocks), .only_if = &is_local)
{
    g_autofree gchar *line =
        pipe_line("appsrc name=picture is-live=true format=time caps=\"" CAPS_SMALL "\" ! "
                  "gpudirectsink sync=false address=ADDRESS KEY "
                  "appsrc name=sound is-live=true format=time caps=\"" SOUND "\" ! "
                  "gpudirectsink sync=false address=ADDRESS/audio KEY");
    g_autoptr(EndsPipeline) sender = ends_pipeline("%s", line);
    g_autoptr(EndsPipeline) receiver = make_receiver("");

    pipe_use_clock(sender, clocks[__i__].sender_foreign);
    pipe_use_clock(receiver, clocks[__i__].receiver_foreign);
    gst_element_set_state(sender, GST_STATE_PLAYING);
    g_usleep(1200 * 1000); /* running times that differ by less are taken for equal */
    start(receiver);
    send_together(sender);
    WAIT_FOR(receiver, "src", g_hash_table_contains(pad->times, &(gint64){2 * COUNT - 1}));
    WAIT_FOR(receiver, "src_audio",
             g_hash_table_contains(pad->times, &(gint64){(2 * COUNT - 1) * SAMPLES}));
    g_autoptr(GArray) all = distances();
    fail_unless(all->len >= COUNT / 2, "%u pairs", all->len);
    gint64 worst = g_array_index(all, gint64, all->len - 1 - clocks[__i__].exceptions);
    g_print("%s: %u pairs, all but %u at most %" G_GINT64_FORMAT " ns apart\n", clocks[__i__].what,
            all->len, clocks[__i__].exceptions, worst);
    fail_unless(worst <= clocks[__i__].most, "%s: %" G_GINT64_FORMAT " ns apart",
                clocks[__i__].what, worst);
}

/* Other users may be able to add streams: their number is limited. */
TEST(test_too_many_streams, .only_if = &is_local)
{
    g_autoptr(GString) line = g_string_new(NULL);

    for (guint i = 0; i < 40; i++)
        g_string_append_printf(line, BYTES "address=ADDRESS/s%u ", i);
    g_autoptr(EndsPipeline) sender = pipe_play_line(line->str);
    g_autoptr(EndsPipeline) receiver = receive("");
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);
    expect_told(bus, GST_MESSAGE_WARNING, "more than 32 streams");
    fail_unless_equals_int(GST_BIN_NUMCHILDREN(pipe_part(receiver, "p")), 32);
}

/* Stopped at any moment of its start, and started again. */
TEST(test_states, .only_if = &is_local)
{
    static const GstState states[] = {GST_STATE_PAUSED, GST_STATE_READY, GST_STATE_NULL};
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES TONE);
    g_autoptr(EndsPipeline) receiver = receive("");

    for (guint i = 0; i < 40; i++) {
        gst_element_set_state(receiver, states[i % 3]);
        gst_element_set_state(receiver, GST_STATE_PLAYING);
        g_usleep(i * 1000);
    }
    more_of_both(receiver, 5, 5);
}

int main(int argc, char **argv)
{
    is_local = !g_getenv("GPUD_TEST_ADDRESS");
    runs_all = is_local || g_getenv("GPUD_TEST_ALL");
    ends_init_environment();
    gst_check_init(&argc, &argv);
    return ends_run_tests(240);
}

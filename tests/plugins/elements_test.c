/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The elements in gst-inspect, their properties and their errors. */
#include "ends.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- properties --------------------------------------------------------------------------- */

TEST(test_properties)
{
    static const struct {
        const gchar *name, *type;
        gboolean sink, src, read_only;
    } all[] = {
        {"address", "gchararray", TRUE, TRUE},
        {"device", "gchararray", TRUE, TRUE},
        {"slots", "guint", TRUE, TRUE},
        {"slow-receiver", "GEnum", TRUE, TRUE},
        {"require-direct", "gboolean", TRUE, TRUE},
        {"psk-file", "gchararray", TRUE, TRUE},
        {"tls-certificate", "gchararray", TRUE, TRUE},
        {"tls-key", "gchararray", TRUE, TRUE},
        {"tls-ca", "gchararray", TRUE, TRUE},
        {"active-path", "gchararray", TRUE, TRUE, TRUE},
        {"fallback-reason", "gchararray", TRUE, TRUE, TRUE},
        {"stats", "GstStructure", TRUE, TRUE, TRUE},
        {"processing-deadline", "guint64", TRUE, TRUE},
        {"wait-for-connection", "GEnum", TRUE, FALSE},
        {"num-clients", "guint", TRUE, FALSE, TRUE},
        {"on-disconnect", "GEnum", FALSE, TRUE},
        {"start", "GEnum", FALSE, TRUE},
        {"on-eos", "GEnum", FALSE, TRUE},
        {"connection-timeout", "guint", FALSE, TRUE},
        {"busy-poll", "guint", FALSE, TRUE},
    };

    for (guint i = 0; i < 2 * G_N_ELEMENTS(all); i++) {
        const gchar *element = i % 2 ? "gpudirectsrc" : "gpudirectsink", *name = all[i / 2].name;
        g_autoptr(GstElement) made = gst_element_factory_make(element, NULL);
        GParamSpec *spec = g_object_class_find_property(G_OBJECT_GET_CLASS(made), name);
        if (!(i % 2 ? all[i / 2].src : all[i / 2].sink))
            continue;
        fail_unless(spec != NULL, "%s has no %s", element, name);
        fail_unless(g_type_is_a(spec->value_type, g_type_from_name(all[i / 2].type)),
                    "%s.%s is a %s", element, name, g_type_name(spec->value_type));
        fail_unless((spec->flags & G_PARAM_READWRITE) ==
                        (all[i / 2].read_only ? G_PARAM_READABLE : G_PARAM_READWRITE),
                    "%s.%s", element, name);
        fail_unless(g_param_spec_get_blurb(spec) && strlen(g_param_spec_get_blurb(spec)) > 10);
    }
}

/* Every property keeps its value, in every state, and can be read while nothing runs. */
TEST(test_values)
{
    g_autoptr(GstElement) sink = gst_element_factory_make("gpudirectsink", NULL);
    g_autofree gchar *address = NULL, *path = NULL, *reason = NULL;
    guint slots, clients;
    gboolean wait;
    g_autoptr(GstStructure) stats = NULL;

    gst_util_set_object_arg(G_OBJECT(sink), "slow-receiver", "drop-oldest");
    g_object_set(sink, "address", "somewhere", "slots", 7, "wait-for-connection", FALSE, NULL);
    g_object_get(sink, "address", &address, "slots", &slots, "wait-for-connection", &wait,
                 "num-clients", &clients, "active-path", &path, "fallback-reason", &reason, "stats",
                 &stats, NULL);
    fail_unless_equals_string(address, "somewhere");
    fail_unless_equals_string(path, "none");
    fail_unless_equals_string(reason, "");
    fail_unless_equals_int(slots, 7);
    fail_unless_equals_int(clients, 0);
    fail_if(wait);
    fail_unless(gst_structure_has_field(stats, "copies-cpu"));
}

/* A property that was once a boolean still accepts booleans. */
TEST(test_words_of_wait_for_connection)
{
    static const struct {
        const gchar *word;
        gint value;
    } words[] = {{"false", FALSE}, {"true", TRUE}, {"0", FALSE}, {"1", TRUE}, {"auto", 2}};
    g_autoptr(GstElement) sink = gst_element_factory_make("gpudirectsink", NULL);
    GValue boolean = G_VALUE_INIT;
    gint is;

    g_object_get(sink, "wait-for-connection", &is, NULL);
    fail_unless_equals_int(is, 2);
    for (guint i = 0; i < G_N_ELEMENTS(words); i++) {
        g_object_set(sink, "wait-for-connection", !words[i].value, NULL);
        gst_util_set_object_arg(G_OBJECT(sink), "wait-for-connection", words[i].word);
        g_object_get(sink, "wait-for-connection", &is, NULL);
        fail_unless_equals_int(is, words[i].value);
    }
    g_value_init(&boolean, G_TYPE_BOOLEAN);
    for (gboolean wait = FALSE; wait <= TRUE; wait++) {
        g_value_set_boolean(&boolean, wait);
        g_object_set_property(G_OBJECT(sink), "wait-for-connection", &boolean);
        g_object_get(sink, "wait-for-connection", &is, NULL);
        fail_unless_equals_int(is, wait);
    }
}

TEST(test_metadata)
{
    g_autoptr(GstElementFactory) sink = gst_element_factory_find("gpudirectsink");
    g_autoptr(GstElementFactory) src = gst_element_factory_find("gpudirectsrc");

    fail_unless(gst_element_factory_list_is_type(sink, GST_ELEMENT_FACTORY_TYPE_SINK));
    fail_unless(gst_element_factory_list_is_type(src, GST_ELEMENT_FACTORY_TYPE_SRC));
    fail_unless_equals_int(gst_plugin_feature_get_rank(GST_PLUGIN_FEATURE(sink)), GST_RANK_NONE);
    fail_unless_equals_int(gst_plugin_feature_get_rank(GST_PLUGIN_FEATURE(src)), GST_RANK_NONE);
}

/* --- formats ------------------------------------------------------------------------------ */

/* Which of these formats is the sink's first one, in the filter's order or in its own. */
static void expect_choice(const gchar *formats, gboolean own_order, const gchar *expected)
{
    g_autoptr(EndsPipeline) pipeline = ends_pipeline("identity ! gpudirectsink name=sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_in(pipeline, "sink"), "sink");
    g_autofree gchar *text = g_strdup_printf("video/x-raw,format={%s}", formats);
    g_autoptr(GstCaps) filter = gst_caps_from_string(text);
    g_autoptr(GstCaps) all = gst_pad_query_caps(pad, own_order ? NULL : filter);
    g_autoptr(GstCaps) caps =
        gst_caps_fixate(gst_caps_intersect_full(all, filter, GST_CAPS_INTERSECT_FIRST));
    const GstStructure *chosen = gst_caps_get_structure(caps, 0);

    fail_unless_equals_string(gst_structure_get_string(chosen, "format"), expected);
}

/* As GStreamer 1.22 and 1.26 order the formats. */
TEST(test_everyday_formats)
{
    expect_choice("ABGR64_LE, ARGB64, Y412_LE, GBRA_10LE, ABGR, BGRA, RGBA, UYVY", FALSE, "BGRA");
    expect_choice("AYUV64, RGBA64_LE, ARGB64, GBRA_12LE, AYUV, RGBA, BGRA, NV12", FALSE, "RGBA");
    expect_choice("ARGB64, GBRA_10LE, NV12_4L4, UYVY, I420", FALSE, "UYVY");
    expect_choice("GBRA_10LE, NV12_4L4", FALSE, "GBRA_10LE");
}

/* What v4l2src intersects its card's formats with, in this order. */
TEST(test_order_of_formats)
{
    expect_choice("BGR, YV12, NV12, YUY2", TRUE, "YUY2");
}

/* Also behind an element that keeps the order of the one before it. */
TEST(test_test_picture, .times = 2)
{
    g_autoptr(EndsPipeline) pipeline =
        ends_pipeline("videotestsrc num-buffers=5 ! %s gpudirectsink name=end "
                      "wait-for-connection=false address=%s",
                      __i__ ? "video/x-raw,width=320 ! identity !" : "", ends_own());

    ends_play(pipeline);
    ends_wait_end(pipeline, ENDS_WAIT);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_in(pipeline, "end"), "sink");
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    const gchar *format = gst_structure_get_string(gst_caps_get_structure(caps, 0), "format");
    fail_unless(g_str_equal(format, "RGBA") || g_str_equal(format, "BGRA"), "%s", format);
}

/* --- errors ------------------------------------------------------------------------------- */

#define SEND "videotestsrc ! " CAPS_SMALL " ! gpudirectsink "
#define RECEIVE(properties) "gpudirectsrc " properties " ! fakesink"

/* A pipeline that cannot run, and its error. */
static void expect_error_of(const gchar *launch, GQuark domain, gint code, const gchar *word)
{
    g_autoptr(EndsPipeline) pipeline = ends_pipeline("%s", launch);

    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_autoptr(GError) error = ends_wait_error(GST_ELEMENT_BUS(pipeline), GST_MESSAGE_ERROR, 5);
    fail_unless(g_error_matches(error, domain, code), "%s: code %d, \"%s\"", launch, error->code,
                error->message);
    fail_unless(strstr(error->message, word) != NULL, "\"%s\" does not say \"%s\"", error->message,
                word);
}

#define EXPECT_ERROR(launch, code, word) \
    expect_error_of(launch, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_##code, word)

TEST(test_address)
{
    EXPECT_ERROR(SEND, NOT_FOUND, "address");
    EXPECT_ERROR(RECEIVE(""), NOT_FOUND, "address");
    EXPECT_ERROR(SEND "address=a/b/c", SETTINGS, "a/b/c");
    EXPECT_ERROR(RECEIVE("address=a/b/c"), SETTINGS, "a/b/c");
    EXPECT_ERROR(SEND "address=v4l2:///dev/video0", NOT_FOUND, "gpudirectsrc");
    EXPECT_ERROR(SEND "address=unix:/nonexistent/socket", OPEN_WRITE, "/nonexistent");
    ends_sink_at("taken", NULL);
    EXPECT_ERROR(SEND "address=taken", BUSY, "another sender");
}

/* A path may be any bytes; what GStreamer shows must be UTF-8. */
TEST(test_address_not_utf8, .times = 2)
{
    g_autoptr(EndsPipeline) element =
        gst_element_factory_make(__i__ ? "gpudirectsrc" : "gpudirectsink", NULL);
    g_autoptr(GstBus) bus = gst_bus_new();

    gst_element_set_bus(element, bus);
    g_object_set(element, "address", "unix:/tmp/p\xe4th/s", NULL);
    gst_element_set_state(element, GST_STATE_PAUSED);
    g_autoptr(GError) error = ends_wait_error(bus, GST_MESSAGE_ERROR, 5);
    fail_unless(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
    fail_unless(g_utf8_validate(error->message, -1, NULL));
    fail_unless(strstr(error->message, "address is not valid UTF-8"), "%s", error->message);
}

TEST(test_too_few_slots)
{
    EXPECT_ERROR(SEND "address=few slots=1", SETTINGS, "Set slots to 2");
    EXPECT_ERROR(RECEIVE("address=few slots=1"), SETTINGS, "Set slots to 2");
}

/* The properties tls-… reach the library, which refuses them on one host, and one without others.
 */
TEST(test_certificates)
{
    static const gchar *const names[] = {"tls-certificate", "tls-key", "tls-ca"};

    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree gchar *send = g_strdup_printf(SEND "address=name %s=/file", names[i]);
        g_autofree gchar *receive = g_strdup_printf(RECEIVE("address=name %s=/file"), names[i]);
        g_autofree gchar *says = g_strdup_printf("%s is for addresses of other hosts", names[i]);
        EXPECT_ERROR(send, SETTINGS, says);
        EXPECT_ERROR(receive, SETTINGS, says);
    }
}

/* The property access: receivers that a sender admits, and senders that a receiver accepts. */
TEST(test_access)
{
    g_autofree gchar *closed = g_strdup_printf("%s/closed", g_getenv("XDG_RUNTIME_DIR"));
    g_autofree gchar *launch = g_strdup_printf(SEND "access=all address=unix:%s/s", closed);

    EXPECT_ERROR(SEND "address=name access=all", SETTINGS,
                 "use address=unix:/path in a folder that they can enter");
    EXPECT_ERROR(SEND "address=name access=everybody", SETTINGS, "user, group:NAME or all");
    EXPECT_ERROR(RECEIVE("address=name access=group:no-such-group"), SETTINGS,
                 "there is no such group");
    fail_unless(g_mkdir_with_parents(closed, 0700) == 0);
    EXPECT_ERROR(launch, NOT_AUTHORIZED, "chmod o+x");
    fail_unless(rmdir(closed) == 0);
}

/* Permissions that hold for root, too: what is there is no socket, or belongs to no directory of
 * one's own. */
TEST(test_not_allowed)
{
    g_autofree gchar *file = g_strdup_printf("%s/file", g_getenv("XDG_RUNTIME_DIR"));
    g_autofree gchar *launch = g_strdup_printf(SEND "address=unix:%s", file);
    g_autofree gchar *open = g_strdup_printf("%s/gpudirect", g_getenv("XDG_RUNTIME_DIR"));

    fail_unless(g_file_set_contents(file, "", 0, NULL));
    EXPECT_ERROR(launch, NOT_AUTHORIZED, "not a socket");
    fail_unless(g_mkdir_with_parents(open, 0700) == 0 && chmod(open, 0777) == 0);
    EXPECT_ERROR(SEND "address=name", NOT_AUTHORIZED, "chmod 700");
    fail_unless(chmod(open, 0700) == 0);
    fail_unless(unlink(file) == 0);
}

TEST(test_no_such_device)
{
    EXPECT_ERROR(SEND "address=d device=opencl:99", NOT_FOUND, "opencl:99");
    EXPECT_ERROR(RECEIVE("address=d device=opencl:99"), NOT_FOUND, "opencl:99");
    /* Without a driver that is what is missing, whatever the number. */
    if (access("/dev/nvidia0", F_OK) != 0)
        EXPECT_ERROR(RECEIVE("address=d device=cuda:7"), NOT_FOUND, "no NVIDIA driver");
    EXPECT_ERROR(RECEIVE("address=v4l2:///dev/video77"), NOT_FOUND, "/dev/video77");
}

TEST(test_connection_timeout)
{
    EXPECT_ERROR(RECEIVE("address=nobody connection-timeout=1"), OPEN_READ, "connection-timeout");
}

TEST(test_downstream_refuses)
{
    GstHarness *sink = ends_sink_at("picky", "wait-for-connection=false");

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    expect_error_of("gpudirectsrc address=picky ! video/x-raw,format=BGRx ! fakesink",
                    GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, "videoconvert");
}

/* Without NVIDIA's driver the elements offer no CUDA memory. */
TEST(test_no_driver)
{
    static const gchar *const elements[] = {"gpudirectsink", "gpudirectsrc"};
    g_autoptr(GstCaps) cuda = gst_caps_from_string("video/x-raw(memory:CUDAMemory)");
    gboolean driver = dlopen("libcuda.so.1", RTLD_LAZY) != NULL;

    for (guint i = 0; i < G_N_ELEMENTS(elements) && !driver; i++) {
        g_autoptr(EndsPipeline) pipeline =
            i == 0 ? ends_pipeline("identity ! gpudirectsink name=element")
                   : ends_pipeline("gpudirectsrc name=element ! identity");
        g_autoptr(GstPad) pad =
            gst_element_get_static_pad(ends_in(pipeline, "element"), i == 0 ? "sink" : "src");
        g_autoptr(GstCaps) caps = gst_pad_query_caps(pad, NULL);
        fail_if(gst_caps_can_intersect(caps, cuda), "%s offers CUDA memory", elements[i]);
        fail_if(gst_caps_is_empty(caps));
    }
}

/* A property takes effect at once, or a warning says that it was not changed. */
TEST(test_properties_while_playing)
{
    GstHarness *ends[] = {ends_sink(NULL), ends_src(NULL)};

    for (guint e = 0; e < G_N_ELEMENTS(ends); e++) {
        GstElement *element = ends_element(ends[e]);
        g_autoptr(GstBus) bus = ends_bus(ends[e]);
        guint count;
        GParamSpec **all = g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &count);
        for (guint i = 0; i < count; i++) {
            GValue value = G_VALUE_INIT;
            if (all[i]->owner_type != G_OBJECT_TYPE(element) || !(all[i]->flags & G_PARAM_WRITABLE))
                continue;
            g_value_init(&value, all[i]->value_type);
            g_object_get_property(G_OBJECT(element), all[i]->name, &value);
            g_object_set_property(G_OBJECT(element), all[i]->name, &value);
            g_value_unset(&value);
            GstMessage *warning =
                gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING); /* posted by the set itself */
            gboolean at_once = (all[i]->flags & GST_PARAM_MUTABLE_PLAYING) != 0;
            fail_unless((warning == NULL) == at_once, "%s of %s", all[i]->name,
                        GST_OBJECT_NAME(element));
            gst_clear_message(&warning);
        }
        g_free(all);
    }

    gst_util_set_object_arg(G_OBJECT(ends_element(ends[0])), "slow-receiver", "drop-newest");
    ends_check_stat(ends_element(ends[0]), "slow-receiver", "drop-newest");

    /* A sink has its address from READY on, a source from PAUSED on. */
    for (guint e = 0; e < G_N_ELEMENTS(ends); e++) {
        GstElement *element = ends_element(ends[e]);
        g_autoptr(GstBus) bus = ends_bus(ends[e]);
        gst_element_set_state(element, GST_STATE_READY);
        g_object_set(element, "address", "another", NULL);
        g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING);
        g_autoptr(GError) warning = NULL;
        if (message)
            gst_message_parse_warning(message, &warning, NULL);
        fail_unless(e == 0 ? warning && strstr(warning->message, "in the state NULL.") : !warning,
                    "%s", warning ? warning->message : "nothing is said");
    }
}

ENDS_MAIN(30)

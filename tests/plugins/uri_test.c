/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both elements by a URI: what it sets, and what it returns afterwards. And hostile ones, from a
 * playlist or a web page: an element accepts one as a whole, or refuses it with a message that is
 * safe for a terminal, and keeps its settings.
 *     uri_test [lies] */
#include "pipes.h"

#define BEFORE "gpudirect://before?slots=5"
#define OVERLONG 300000
#define LONG 4000

static gboolean honest, lies; /* what is tested */

static GstElement *make(GstURIType type, const gchar *uri)
{
    GError *error = NULL;
    GstElement *element = gst_element_make_from_uri(type, uri, NULL, &error);

    fail_unless(element != NULL, "%s: %s", uri, error ? error->message : "no element");
    return gst_object_ref_sink(element);
}

static void expect_number(GstElement *element, const gchar *property, guint wanted)
{
    guint number;

    g_object_get(element, property, &number, NULL);
    fail_unless_equals_int(number, wanted);
}

static void expect_uri(GstElement *element, const gchar *wanted)
{
    g_autofree gchar *uri = gst_uri_handler_get_uri(GST_URI_HANDLER(element));

    fail_unless_equals_string(uri, wanted);
}

static void set(GstElement *element, const gchar *uri)
{
    GError *error = NULL;

    fail_unless(gst_uri_handler_set_uri(GST_URI_HANDLER(element), uri, &error), "%s: %s", uri,
                error ? error->message : "no reason");
}

static void expect_printable(const gchar *text)
{
    fail_unless(g_utf8_validate(text, -1, NULL));
    for (const gchar *c = text; *c; c = g_utf8_next_char(c))
        fail_if(g_unichar_iscntrl(g_utf8_get_char(c)), "U+%04X in \"%s\"", g_utf8_get_char(c),
                text);
}

struct refusal {
    const gchar *uri, *says;
    gint code; /* 0: any */
};

/* Nothing is set by halves. */
static void expect_refusal(const gchar *uri, const gchar *says, gint code)
{
    g_autoptr(GstElement) src = gst_element_factory_make("gpudirectsrc", NULL);
    g_autoptr(GError) error = NULL;

    set(src, BEFORE);
    fail_if(gst_uri_handler_set_uri(GST_URI_HANDLER(src), uri, &error), "taken: %.80s", uri);
    fail_unless(error != NULL && error->domain == GST_URI_ERROR, "%.80s", uri);
    fail_unless(code == 0 || error->code == code, "%s: %s", uri, error->message);
    expect_printable(error->message);
    fail_unless(strstr(error->message, says) != NULL, "%.80s: \"%s\"", uri, error->message);
    expect_uri(src, BEFORE);
}

/* Of the two sources the one of whole programmes. */
TEST(test_elements_are_found, .only_if = &honest)
{
    g_autoptr(GstElement) src =
        make(GST_URI_SRC, "gpudirect://cam1?slots=8&device=cuda:0&on-disconnect=eos");
    g_autoptr(GstElement) sink =
        make(GST_URI_SINK, "gpudirect://cam1?slow-receiver=drop-newest&sync=false");
    gboolean sync;
    gint policy;

    fail_unless_equals_string(GST_OBJECT_NAME(gst_element_get_factory(src)), "gpudirectprogramsrc");
    expect_text(src, "address", "cam1");
    expect_text(src, "device", "cuda:0");
    expect_number(src, "slots", 8);
    fail_unless_equals_string(GST_OBJECT_NAME(gst_element_get_factory(sink)), "gpudirectsink");
    expect_text(sink, "address", "cam1");
    g_object_get(sink, "sync", &sync, "slow-receiver", &policy, NULL);
    fail_unless(!sync && policy != 0);
    fail_if(gst_element_make_from_uri(GST_URI_SINK, "gpudirect+v4l2:///dev/video0", NULL, NULL));
}

TEST(test_addresses_both_ways, .only_if = &honest)
{
    static const gchar *const pairs[][2] = {
        {"gpudirect://cam1", "cam1"},
        {"gpudirect://Cam_1.a-b", "Cam_1.a-b"},
        {"gpudirect://cam1/audio", "cam1/audio"},
        {"gpudirect:///run/plant/cam1", "unix:/run/plant/cam1"},
        {"gpudirect:///run/plant/cam1!audio", "unix:/run/plant/cam1!audio"},
        {"gpudirect:///run/plant%201/50%25%3F%23/Gr%C3%BC%C3%9Fe", "unix:/run/plant 1/50%?#/Grüße"},
        {"gpudirect:///a:b@c!d$e'(f)*,g;h=i", "unix:/a:b@c!d$e'(f)*,g;h=i"},
        {"gpudirect+rdma://10.0.0.2", "rdma://10.0.0.2"},
        {"gpudirect+tcp://10.0.0.2", "tcp://10.0.0.2"},
        {"gpudirect+tcp://studio-1.example:7175/cam1", "tcp://studio-1.example:7175/cam1"},
        {"gpudirect+tcp://[fd00::2]:7175/cam1/audio", "tcp://[fd00::2]:7175/cam1/audio"},
        {"gpudirect+rdma://studio-1.example:7175/cam1", "rdma://studio-1.example:7175/cam1"},
        {"gpudirect+rdma://[fd00::2]:7174/cam1/audio", "rdma://[fd00::2]:7174/cam1/audio"},
        {"gpudirect+v4l2:///dev/video0", "v4l2:///dev/video0"},
        {"gpudirect+v4l2:///dev/v4l/by-id/usb%201", "v4l2:///dev/v4l/by-id/usb 1"},
    };

    for (guint i = 0; i < G_N_ELEMENTS(pairs); i++) {
        GstElement *src = make(GST_URI_SRC, pairs[i][0]);
        expect_text(src, "address", pairs[i][1]);
        expect_uri(src, pairs[i][0]);
        gst_object_unref(src);

        src = gst_element_factory_make("gpudirectsrc", NULL);
        expect_uri(src, NULL);
        g_object_set(src, "address", pairs[i][1], NULL);
        expect_uri(src, pairs[i][0]);
        gst_object_unref(src);
    }
}

/* What was set, as it was written, until something else is set by other means. */
TEST(test_uri_says_what_is_set, .only_if = &honest)
{
    g_autoptr(GstElement) sink = gst_element_factory_make("gpudirectsink", NULL);

    set(sink, "gpudirect://cam1/?sync=%66alse&slots=4");
    expect_uri(sink, "gpudirect://cam1/?sync=%66alse&slots=4");
    g_object_set(sink, "slots", 6, NULL);
    expect_uri(sink, "gpudirect://cam1?slots=6&sync=false");
    g_object_set(sink, "device", "opencl:0 & more", "address", "cam2", NULL);
    gst_util_set_object_arg(G_OBJECT(sink), "wait-for-connection", "false");
    expect_uri(sink, "gpudirect://cam2?device=opencl:0%20%26%20more&slots=6&sync=false&"
                     "wait-for-connection=false");

    /* And that URI says the same to another element. */
    g_autofree gchar *uri = gst_uri_handler_get_uri(GST_URI_HANDLER(sink));
    g_autoptr(GstElement) other = make(GST_URI_SINK, uri);
    expect_text(other, "device", "opencl:0 & more");
    expect_uri(other, uri);
}

/* A URI is complete: properties that only the previous one set get their defaults back. */
TEST(test_next_uri, .only_if = &honest)
{
    g_autoptr(GstElement) src = gst_element_factory_make("gpudirectsrc", NULL);
    guint slots;

    g_object_get(src, "slots", &slots, NULL);
    g_object_set(src, "device", "host", NULL);
    set(src, "gpudirect://cam1?slots=9&busy-poll=0");
    expect_number(src, "slots", 9);
    set(src, "gpudirect://cam2?busy-poll=7");
    expect_number(src, "slots", slots);
    expect_number(src, "busy-poll", 7);
    expect_text(src, "device", "host");
    expect_uri(src, "gpudirect://cam2?busy-poll=7");
}

TEST(test_refusals, .only_if = &honest)
{
    static const struct refusal bad[] = {
        {"gpudirect://", "gpudirect://NAME", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect:///", "gpudirect:///PATH", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect:cam1", "gpudirect://NAME", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://cam1/x/y", "three slashes", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://cam1/x%20y", "three slashes", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://cam1/.x", "three slashes", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://cam%201", "\"cam 1\" is not a name", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://.cam", "'.' at the beginning", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://u@cam1", "cannot have a user", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1:80", "port", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1#x", "fragment", GST_URI_ERROR_BAD_URI},
        {"gpudirect+v4l2://dev/video0", "three slashes", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect+v4l2://", "gpudirect+v4l2:///dev/video0", GST_URI_ERROR_BAD_REFERENCE},
        {"gpudirect://cam1?slot=8", "no property \"slot\"", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?name=x", "no property \"name\"", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?address=x", "no property \"address\"", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?stats=x", "no property \"stats\"", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?slots=many", "number from 1 to 64", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?slots=65", "\"65\"", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?slots=4294967297", "number from 1 to 64", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?processing-deadline=18446744073709551617", "", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?access=all", "trust-uri", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?psk-file=/etc/shadow", "trust-uri", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?tls-certificate=/c", "trust-uri", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?tls-key=/etc/shadow", "trust-uri", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?tls-ca=/a", "trust-uri", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?trust-uri=true", "no property \"trust-uri\"", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?trust-uri=true&access=all", "property", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?slots", "slots", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?slots=", "slots", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?on-eos=stop", "one of eos, wait", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?require-direct=maybe", "true or false", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?processing-deadline=-x", "guint64", GST_URI_ERROR_BAD_URI},
        {"gpudirect://cam1?slots=8&device=%FF", "device", GST_URI_ERROR_BAD_URI},
        {"v4l2:///dev/video0", "", GST_URI_ERROR_UNSUPPORTED_PROTOCOL},
    };

    for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
        expect_refusal(bad[i].uri, bad[i].says, bad[i].code);
}

/* A URI sets who is trusted and which file is read only if the application allows it. */
TEST(test_trusted, .only_if = &honest)
{
    static const gchar *const kinds[] = {"gpudirectsrc", "gpudirectsink", "gpudirectprogramsrc"};

    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GstElement) element = gst_element_factory_make(kinds[i], NULL);
        g_object_set(element, "access", "group:video", "psk-file", "/key", NULL);
        set(element, "gpudirect://cam1");
        expect_text(element, "psk-file", "/key");
        expect_uri(element, "gpudirect://cam1"); /* it can be set, so it does not say the others */
        fail_if(gst_uri_handler_set_uri(GST_URI_HANDLER(element), "gpudirect://cam1?access=all",
                                        &error));
        expect_text(element, "access", "group:video");
        g_object_set(element, "trust-uri", TRUE, NULL);
        set(element, "gpudirect://cam1?access=all&psk-file=/other");
        expect_text(element, "access", "all");
        expect_text(element, "psk-file", "/other");
        set(element, "gpudirect://cam1?tls-certificate=/c&tls-key=/k&tls-ca=/a");
        expect_text(element, "tls-certificate", "/c");
        expect_text(element, "tls-key", "/k");
        expect_text(element, "tls-ca", "/a");
        expect_uri(element, "gpudirect://cam1?tls-certificate=/c&tls-key=/k&tls-ca=/a");
        set(element, "gpudirect://cam1?access=all&psk-file=/other");
        g_object_set(element, "trust-uri", FALSE, NULL);
        set(element, "gpudirect://cam2"); /* what the URI before it set has its default again */
        expect_text(element, "access", "user");
    }
}

TEST(test_no_change_while_running, .only_if = &honest)
{
    g_autofree gchar *uri = g_strdup_printf("gpudirect://%s", ends_own());
    g_autoptr(EndsPipeline) src = make(GST_URI_SRC, uri);

    for (GstState state = GST_STATE_PAUSED; state <= GST_STATE_PLAYING; state++) {
        g_autoptr(GError) error = NULL;
        gst_element_set_state(src, state);
        fail_if(gst_uri_handler_set_uri(GST_URI_HANDLER(src), "gpudirect://other", &error));
        fail_unless(g_error_matches(error, GST_URI_ERROR, GST_URI_ERROR_BAD_STATE));
        fail_unless(strstr(error->message, "READY") != NULL);
        expect_uri(src, uri);
    }
    gst_element_set_state(src, GST_STATE_READY);
    set(src, "gpudirect://other");
}

/* --- lies ----------------------------------------------------------------------------------- */

/* GStreamer's own parser crashes on some of them, and drops what it cannot read from others. */
TEST(test_broken_escapes, .only_if = &lies)
{
    static const gchar *const uris[] = {
        "gpudirect://cam1?%00=1",
        "gpudirect://cam1?slots%00=1",
        "gpudirect://cam1?slots=%00",
        "gpudirect://cam1?device=host%00evil",
        "gpudirect://cam1%00",
        "gpudirect://%00",
        "gpudirect:///run/%00",
        "gpudirect:///run/%00/cam1",
        "gpudirect+v4l2:///dev/video0%00",
        "gpudirect://cam1?slots=5&%00",
        "gpudirect://cam1?%zz=1",
        "gpudirect://cam1?%",
        "gpudirect://cam1?slots=%",
        "gpudirect://cam1?slots=%zz",
        "gpudirect:///run/%4",
        "gpudirect://cam1#%",
    };

    for (guint i = 0; i < G_N_ELEMENTS(uris); i++)
        expect_refusal(uris[i], "hexadecimal digits", 0);
}

TEST(test_escapes, .only_if = &lies)
{
    static const struct refusal bad[] = {
        {"gpudirect://%1b%5b2Jcam1", "is not a name"},
        {"gpudirect://%c2%9b2Jcam1", "is not a name"},
        {"gpudirect://cam1?%1b%5b2J=1", "no property"},
        {"gpudirect://cam1?slots=%1b%5b2J", "number from 1 to 64"},
        {"gpudirect://cam1/%0d%0aSet:%20x", "three slashes"},
        {"gpudirect://%ff%fe", "is not a name"},
        {"gpudirect://cam1?device=%ff", "device"},
        {"gpudirect://[::1]", "is not a name"},
        {"gpudirect://[", "is not a URI"},
        {"gpudirect://u:%1b@cam1", "cannot have a user"},
        {"gpudirect://cam1:99999999999", "port"},
        {"gpudirect://cam1?=1", "no property \"\""},
        {"gpudirect://cam1?slots=-1", "number from 1 to 64"},
        {"gpudirect://cam1?slots=18446744073709551621", "number from 1 to 64"},
        {"gpudirect://..", "'.' at the beginning"},
        /* A path is shown by errors of the running element, too. */
        {"gpudirect:///run/%1b%5b2J", "control character"},
        {"gpudirect:///run/%c2%9b2J", "control character"},
        {"gpudirect:///run/a%0ab", "control character"},
        {"gpudirect:///run/%ff", "UTF-8"},
        {"gpudirect+v4l2:///dev/%7f", "control character"},
    };

    for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
        expect_refusal(bad[i].uri, bad[i].says, 0);
}

static gchar *repeat(const gchar *before, guint count, gchar c, const gchar *after)
{
    g_autofree gchar *middle = g_strnfill(count, c);

    return g_strconcat(before, middle, after, NULL);
}

static void expect_long_refusal(const gchar *before, guint count, gchar c, const gchar *after,
                                const gchar *says)
{
    g_autofree gchar *text = repeat(before, count, c, after);

    expect_refusal(text, says, 0);
}

/* What is well formed and not too long for a URI fails where it is used, with a sentence. */
TEST(test_overlong, .only_if = &lies)
{
    static const gchar *const befores[] = {"gpudirect://", "gpudirect:///run/", "gpudirect:///",
                                           "gpudirect+v4l2:///dev/"};

    for (guint i = 0; i < G_N_ELEMENTS(befores); i++) {
        g_autofree gchar *text = repeat(befores[i], LONG, 'a', "");
        g_autoptr(GstHarness) harness = ends_src_at("cam1", NULL);
        GstElement *src = ends_element(harness);
        g_autoptr(GstBus) bus = ends_bus(harness);
        gst_element_set_state(src, GST_STATE_NULL);
        set(src, text);
        gst_element_set_state(src, GST_STATE_PLAYING);
        g_autoptr(GError) error = ends_wait_error(bus, GST_MESSAGE_ERROR, 30);
        expect_printable(error->message);
        fail_unless(strlen(error->message) > 10, "\"%s\"", error->message);
        gst_element_set_state(src, GST_STATE_NULL);
        expect_long_refusal(befores[i], OVERLONG, 'a', "", "300");
    }
    expect_long_refusal("gpudirect://cam1?", LONG, 'x', "=1", "no property");
    expect_long_refusal("gpudirect://cam1?slots=", LONG, '9', "", "number from 1 to 64");
    expect_long_refusal("gpudirect://cam1?", LONG, '&', "slots=7", "no property");
    expect_long_refusal("gpudirect://cam1?", OVERLONG, '&', "", "too long");
}

/* Bent copies of good ones: refused, or what is set can be said again and means the same. */
TEST(test_mutated, .only_if = &lies)
{
    static const gchar *const good[] = {
        "gpudirect://cam1?slots=8&device=cuda:0&on-disconnect=eos",
        "gpudirect:///run/studio/cam%201?busy-poll=7&require-direct=true",
        "gpudirect+v4l2:///dev/video0?device=opencl:0%20%26%20more",
    };
    static const gchar bends[] = "%/?#[]@:&=;+ .\xc3\xff"
                                 "0159afAFxzsu";
    g_autoptr(GRand) random = g_rand_new_with_seed(4711);
    g_autoptr(GstElement) src = gst_element_factory_make("gpudirectsrc", NULL);
    guint taken = 0, refused = 0;

    for (guint round = 0; round < 10000; round++) {
        g_autofree gchar *text = g_strdup(good[round % G_N_ELEMENTS(good)]);
        gint length = (gint)strlen(text), from = (gint)strcspn(text, ":") + 1;
        for (gint hits = g_rand_int_range(random, 0, 5); hits > 0; hits--)
            text[g_rand_int_range(random, from, length)] =
                bends[g_rand_int_range(random, 0, sizeof(bends) - 1)];
        g_autoptr(GError) error = NULL;
        if (gst_uri_handler_set_uri(GST_URI_HANDLER(src), text, &error)) {
            g_autofree gchar *said = gst_uri_handler_get_uri(GST_URI_HANDLER(src)), *address = NULL;
            g_object_get(src, "address", &address, NULL);
            set(src, said);
            expect_text(src, "address", address);
            taken++;
        } else {
            fail_unless(error != NULL && strlen(error->message) > 10, "%s", text);
            expect_printable(error->message);
            refused++;
        }
    }
    fail_unless(taken > 500 && refused > 500, "%u taken, %u refused", taken, refused);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    lies = argc > 1;
    honest = !lies;
    return ends_run_tests(120);
}

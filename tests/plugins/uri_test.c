/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both elements by a URI: what it sets, and what it returns afterwards. */
#include "pipes.h"

static GstElement *make(GstURIType type, const gchar *uri)
{
    GError *error = NULL;
    GstElement *element = gst_element_make_from_uri(type, uri, NULL, &error);

    fail_unless(element != NULL, "%s: %s", uri, error ? error->message : "no element");
    return gst_object_ref_sink(element);
}

static void expect_text(GstElement *element, const gchar *property, const gchar *wanted)
{
    g_autofree gchar *text = NULL;

    g_object_get(element, property, &text, NULL);
    fail_unless_equals_string(text, wanted);
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

/* Of the two sources the one of whole programmes. */
TEST(test_elements_are_found)
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

TEST(test_addresses_both_ways)
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
TEST(test_uri_says_what_is_set)
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
TEST(test_next_uri)
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

TEST(test_refusals)
{
    static const struct {
        const gchar *uri;
        gint code;
        const gchar *says;
    } bad[] = {
        {"gpudirect://", GST_URI_ERROR_BAD_REFERENCE, "gpudirect://NAME"},
        {"gpudirect:///", GST_URI_ERROR_BAD_REFERENCE, "gpudirect:///PATH"},
        {"gpudirect:cam1", GST_URI_ERROR_BAD_REFERENCE, "gpudirect://NAME"},
        {"gpudirect://cam1/x/y", GST_URI_ERROR_BAD_REFERENCE, "three slashes"},
        {"gpudirect://cam1/x%20y", GST_URI_ERROR_BAD_REFERENCE, "three slashes"},
        {"gpudirect://cam1/.x", GST_URI_ERROR_BAD_REFERENCE, "three slashes"},
        {"gpudirect://cam%201", GST_URI_ERROR_BAD_REFERENCE, "\"cam 1\" is not a name"},
        {"gpudirect://.cam", GST_URI_ERROR_BAD_REFERENCE, "'.' at the beginning"},
        {"gpudirect://u@cam1", GST_URI_ERROR_BAD_URI, "no user"},
        {"gpudirect://cam1:80", GST_URI_ERROR_BAD_URI, "port"},
        {"gpudirect://cam1#x", GST_URI_ERROR_BAD_URI, "fragment"},
        {"gpudirect+v4l2://dev/video0", GST_URI_ERROR_BAD_REFERENCE, "three slashes"},
        {"gpudirect+v4l2://", GST_URI_ERROR_BAD_REFERENCE, "gpudirect+v4l2:///dev/video0"},
        {"gpudirect://cam1?slot=8", GST_URI_ERROR_BAD_URI, "no property \"slot\""},
        {"gpudirect://cam1?name=x", GST_URI_ERROR_BAD_URI, "no property \"name\""},
        {"gpudirect://cam1?address=x", GST_URI_ERROR_BAD_URI, "no property \"address\""},
        {"gpudirect://cam1?stats=x", GST_URI_ERROR_BAD_URI, "no property \"stats\""},
        {"gpudirect://cam1?slots=many", GST_URI_ERROR_BAD_URI, "number from 1 to 64"},
        {"gpudirect://cam1?slots=65", GST_URI_ERROR_BAD_URI, "\"65\""},
        {"gpudirect://cam1?slots=4294967297", GST_URI_ERROR_BAD_URI, "number from 1 to 64"},
        {"gpudirect://cam1?processing-deadline=18446744073709551617", GST_URI_ERROR_BAD_URI, ""},
        {"gpudirect://cam1?access=all", GST_URI_ERROR_BAD_URI, "trust-uri"},
        {"gpudirect://cam1?psk-file=/etc/shadow", GST_URI_ERROR_BAD_URI, "trust-uri"},
        {"gpudirect://cam1?trust-uri=true", GST_URI_ERROR_BAD_URI, "no property \"trust-uri\""},
        {"gpudirect://cam1?trust-uri=true&access=all", GST_URI_ERROR_BAD_URI, "property"},
        {"gpudirect://cam1?slots", GST_URI_ERROR_BAD_URI, "slots"},
        {"gpudirect://cam1?slots=", GST_URI_ERROR_BAD_URI, "slots"},
        {"gpudirect://cam1?on-eos=stop", GST_URI_ERROR_BAD_URI, "one of eos, wait"},
        {"gpudirect://cam1?require-direct=maybe", GST_URI_ERROR_BAD_URI, "true or false"},
        {"gpudirect://cam1?processing-deadline=-x", GST_URI_ERROR_BAD_URI, "guint64"},
        {"gpudirect://cam1?slots=8&device=%FF", GST_URI_ERROR_BAD_URI, "device"},
        {"v4l2:///dev/video0", GST_URI_ERROR_UNSUPPORTED_PROTOCOL, ""},
    };
    g_autoptr(GstElement) src = gst_element_factory_make("gpudirectsrc", NULL);

    set(src, "gpudirect://before?slots=5");
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        fail_if(gst_uri_handler_set_uri(GST_URI_HANDLER(src), bad[i].uri, &error), "taken: %s",
                bad[i].uri);
        fail_unless(g_error_matches(error, GST_URI_ERROR, bad[i].code), "%s: %s", bad[i].uri,
                    error->message);
        fail_unless(strstr(error->message, bad[i].says) != NULL, "%s: %s", bad[i].uri,
                    error->message);
        fail_unless(g_utf8_validate(error->message, -1, NULL), "%s", bad[i].uri);
    }
    expect_uri(src, "gpudirect://before?slots=5"); /* nothing was set by halves */
}

/* A URI sets who is trusted and which file is read only if the application allows it. */
TEST(test_trusted)
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
        g_object_set(element, "trust-uri", FALSE, NULL);
        set(element, "gpudirect://cam2"); /* what the URI before it set has its default again */
        expect_text(element, "access", "user");
    }
}

TEST(test_no_change_while_running)
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

ENDS_MAIN(60)

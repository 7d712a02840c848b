/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hostile URIs from a playlist or a web page: an element accepts one as a whole, or refuses it with
 * a message that is safe for a terminal, and keeps its settings. */
#include "pipes.h"

#define BEFORE "gpudirect://before?slots=5"
#define OVERLONG 300000
#define LONG 4000

static GstElement *make_src(void)
{
    GstElement *src = gst_element_factory_make("gpudirectsrc", NULL);
    GError *error = NULL;

    fail_unless(src != NULL);
    fail_unless(gst_uri_handler_set_uri(GST_URI_HANDLER(src), BEFORE, &error));
    return gst_object_ref_sink(src);
}

static gchar *uri_of(GstElement *element)
{
    return gst_uri_handler_get_uri(GST_URI_HANDLER(element));
}

static void expect_printable(const gchar *text)
{
    fail_unless(g_utf8_validate(text, -1, NULL));
    for (const gchar *c = text; *c; c = g_utf8_next_char(c))
        fail_if(g_unichar_iscntrl(g_utf8_get_char(c)), "U+%04X in \"%s\"", g_utf8_get_char(c),
                text);
}

static void expect_refusal(const gchar *text, const gchar *says)
{
    g_autoptr(GstElement) src = make_src();
    g_autoptr(GError) error = NULL;

    fail_if(gst_uri_handler_set_uri(GST_URI_HANDLER(src), text, &error), "taken: %.80s", text);
    fail_unless(error != NULL && error->domain == GST_URI_ERROR, "%.80s", text);
    expect_printable(error->message);
    fail_unless(strstr(error->message, says) != NULL, "%.80s: \"%s\"", text, error->message);
    g_autofree gchar *kept = uri_of(src);
    fail_unless_equals_string(kept, BEFORE);
}

/* GStreamer's own parser crashes on some of them, and drops what it cannot read from others. */
TEST(test_broken_escapes)
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
        expect_refusal(uris[i], "hexadecimal digits");
}

TEST(test_escapes)
{
    static const gchar *const bad[][2] = {
        {"gpudirect://%1b%5b2Jcam1", "is not a name"},
        {"gpudirect://%c2%9b2Jcam1", "is not a name"},
        {"gpudirect://cam1?%1b%5b2J=1", "no property"},
        {"gpudirect://cam1?slots=%1b%5b2J", "number from 1 to 64"},
        {"gpudirect://cam1/%0d%0aSet:%20x", "three slashes"},
        {"gpudirect://%ff%fe", "is not a name"},
        {"gpudirect://cam1?device=%ff", "device"},
        {"gpudirect://[::1]", "is not a name"},
        {"gpudirect://[", "no URI"},
        {"gpudirect://u:%1b@cam1", "no user"},
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
        expect_refusal(bad[i][0], bad[i][1]);
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

    expect_refusal(text, says);
}

/* What is well formed and not too long for a URI fails where it is used, with a sentence. */
TEST(test_overlong)
{
    static const gchar *const befores[] = {"gpudirect://", "gpudirect:///run/", "gpudirect:///",
                                           "gpudirect+v4l2:///dev/"};

    for (guint i = 0; i < G_N_ELEMENTS(befores); i++) {
        g_autofree gchar *text = repeat(befores[i], LONG, 'a', "");
        GstHarness *harness = ends_src_at("cam1", NULL);
        GstElement *src = ends_element(harness);
        g_autoptr(GstBus) bus = ends_bus(harness);
        GError *error = NULL;
        gst_element_set_state(src, GST_STATE_NULL);
        fail_unless(gst_uri_handler_set_uri(GST_URI_HANDLER(src), text, &error), "%.80s: %s", text,
                    error ? error->message : "");
        gst_element_set_state(src, GST_STATE_PLAYING);
        g_autoptr(GstMessage) message = ends_wait_message(bus, GST_MESSAGE_ERROR, 30);
        fail_unless(message != NULL, "no error of %.80s", text);
        gst_message_parse_error(message, &error, NULL);
        expect_printable(error->message);
        fail_unless(strlen(error->message) > 10, "\"%s\"", error->message);
        g_clear_error(&error);
        gst_element_set_state(src, GST_STATE_NULL);
        ends_close(harness);
        expect_long_refusal(befores[i], OVERLONG, 'a', "", "300");
    }
    expect_long_refusal("gpudirect://cam1?", LONG, 'x', "=1", "no property");
    expect_long_refusal("gpudirect://cam1?slots=", LONG, '9', "", "number from 1 to 64");
    expect_long_refusal("gpudirect://cam1?", LONG, '&', "slots=7", "no property");
    expect_long_refusal("gpudirect://cam1?", OVERLONG, '&', "", "too long");
}

/* Bent copies of good ones: refused, or what is set can be said again and means the same. */
TEST(test_mutated)
{
    static const gchar *const good[] = {
        "gpudirect://cam1?slots=8&device=cuda:0&on-disconnect=eos",
        "gpudirect:///run/studio/cam%201?busy-poll=7&require-direct=true",
        "gpudirect+v4l2:///dev/video0?device=opencl:0%20%26%20more",
    };
    static const gchar bends[] = "%/?#[]@:&=;+ .\xc3\xff"
                                 "0159afAFxzsu";
    GRand *random = g_rand_new_with_seed(4711);
    GstElement *src = make_src();
    guint taken = 0, refused = 0;

    for (guint round = 0; round < 10000; round++) {
        g_autofree gchar *text = g_strdup(good[round % G_N_ELEMENTS(good)]);
        gint length = (gint)strlen(text), from = (gint)strcspn(text, ":") + 1;
        for (gint hits = g_rand_int_range(random, 0, 5); hits > 0; hits--)
            text[g_rand_int_range(random, from, length)] =
                bends[g_rand_int_range(random, 0, sizeof(bends) - 1)];
        GError *error = NULL;
        if (gst_uri_handler_set_uri(GST_URI_HANDLER(src), text, &error)) {
            g_autofree gchar *said = uri_of(src), *address = NULL, *again = NULL;
            g_object_get(src, "address", &address, NULL);
            fail_unless(gst_uri_handler_set_uri(GST_URI_HANDLER(src), said, &error), "%s: %s", said,
                        error ? error->message : "");
            g_object_get(src, "address", &again, NULL);
            fail_unless_equals_string(address, again);
            taken++;
        } else {
            fail_unless(error != NULL && strlen(error->message) > 10, "%s", text);
            expect_printable(error->message);
            g_clear_error(&error);
            refused++;
        }
    }
    fail_unless(taken > 500 && refused > 500, "%u taken, %u refused", taken, refused);
    gst_object_unref(src);
    g_rand_free(random);
}

ENDS_MAIN(120)

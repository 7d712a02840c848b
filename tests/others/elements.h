/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Included ahead of GStreamer's own tests, which gstreamer_test.py builds with our elements in
 * place of theirs: gives each element what it cannot do without, an address. */
#include <gst/check/gstcheck.h>

#define WAIT_MS 10000

static GstElement *others_make(const char *factory, const char *name)
{
    static int made;
    GstElement *element = gst_element_factory_make(factory, name);
    if (g_str_equal(factory, "gpudirectsink")) {
        gchar *address = g_strdup_printf("others-%d", ++made);
        g_object_set(element, "address", address, "wait-for-connection", FALSE,
                     "enable-last-sample", TRUE, NULL);
        g_free(address);
    } else if (g_str_equal(factory, "gpudirectsrc")) {
        g_object_set(element, "address", "others", NULL); /* the sender beside the test */
    }
    return element;
}

/* The original one wants the last reference. A thread of gst_element_call_async(), which tells of
 * clients, may have another one for a moment. */
static inline void others_teardown(GstElement *element)
{
    gst_element_set_state(element, GST_STATE_NULL);
    for (int i = 0; i < WAIT_MS && GST_OBJECT_REFCOUNT_VALUE(element) > 1; i++)
        g_usleep(1000);
    gst_check_teardown_element(element);
}

#define gst_element_factory_make others_make
#define gst_check_teardown_element others_teardown

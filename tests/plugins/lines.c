/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several elements in a row in a harness, and pipelines in processes of their own. */
#include "lines.h"
#include "ends.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

GstHarness *line_new(const gchar *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree gchar *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    /* A harness says that it is live; these tests are about every frame. */
    g_auto(GStrv) parts = g_strsplit(text, "gpudirectsink", -1);
    g_autofree gchar *launch =
        g_strjoinv("gpudirectsink slow-receiver=block wait-for-connection=true", parts);
    GstHarness *line = gst_harness_new_parse(launch);
    fail_unless(line && line->element, "cannot make %s", launch);
    ends_keep(line);
    gst_harness_use_systemclock(line);
    gst_harness_play(line);
    return line;
}

void lines_exchange(GstHarness *sink, GstHarness *src, const gchar *caps, guint from, guint to)
{
    for (guint i = from; i < to; i++) {
        ends_push(sink, caps, i);
        ends_take(src, caps, i);
    }
}

void lines_run(const gchar *before, const gchar *sink_device, const gchar *after, const gchar *caps,
               GstHarness **sink, GstHarness **src)
{
    g_autofree gchar *address = ends_address();

    *src = line_new("gpudirectsrc name=end address=%s %s", address, after);
    *sink = line_new("%s gpudirectsink name=end sync=false address=%s %s", before, address,
                     sink_device);
    ends_start(*sink, caps);
    lines_exchange(*sink, *src, caps, 0, FRAMES);
    fail_unless_equals_uint64(ends_stat(*sink, "frames"), FRAMES);
}

void line_compare(GstBuffer *a, GstBuffer *b, const gchar *text)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    GstVideoFrame one, two;
    GstVideoInfo info;

    fail_unless(gst_video_info_from_caps(&info, caps));
    fail_unless(gst_video_frame_map(&one, &info, a, GST_MAP_READ));
    fail_unless(gst_video_frame_map(&two, &info, b, GST_MAP_READ));
    for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES(&one); p++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info.finfo, p, component);
        gsize bytes = (gsize)GST_VIDEO_FRAME_COMP_WIDTH(&one, component[0]) *
                      (gsize)GST_VIDEO_FRAME_COMP_PSTRIDE(&one, component[0]);
        const guint8 *from = GST_VIDEO_FRAME_PLANE_DATA(&one, p);
        const guint8 *to = GST_VIDEO_FRAME_PLANE_DATA(&two, p);
        for (gint y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&one, component[0]); y++) {
            fail_unless(memcmp(from, to, bytes) == 0, "plane %u differs in row %d", p, y);
            from += GST_VIDEO_FRAME_PLANE_STRIDE(&one, p);
            to += GST_VIDEO_FRAME_PLANE_STRIDE(&two, p);
        }
    }
    gst_video_frame_unmap(&two);
    gst_video_frame_unmap(&one);
}

void line_reap(GPid pid)
{
    int status = -1;

    fail_unless(waitpid(pid, &status, 0) == pid);
    fail_unless(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ended with %d",
                status);
}

gboolean lines_hold_copies(gpointer stream, gboolean hold)
{
    int (*ask)(void *which, unsigned hold) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (!driver)
        return FALSE;
    *(void **)&ask = dlsym(driver, "fakeCudaHold");
    fail_unless(!ask || ask(stream, (unsigned)hold) == 0,
                "the driver in host memory holds no copies");
    dlclose(driver);
    return ask != NULL;
}

guint lines_count_gpus(int *argc, char ***argv)
{
    int status = 0;

    /* GStreamer that looks into its plugins in this process has the driver in it from the start. */
    if (g_strcmp0(g_getenv("GST_REGISTRY_FORK"), "no") == 0) {
        g_setenv("CK_FORK", "no", TRUE);
        gst_init(argc, argv);
        return lines_vendor_count();
    }
    pid_t child = fork();
    if (child == 0) {
        gst_init(argc, argv);
        _exit((int)lines_vendor_count());
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 0;
    return (guint)WEXITSTATUS(status);
}

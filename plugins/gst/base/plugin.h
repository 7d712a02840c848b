/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What every room uses: the context, errors, addresses, and the channels and devices that there
 * are. */
#ifndef GPUD_BASE_PLUGIN_H
#define GPUD_BASE_PLUGIN_H

#include <glib.h>
#include <gpudirect/device.h>
#include <gpudirect/types.h>
#include <gst/gst.h>

/* === channels ================================================================================ */
/* The channels of running senders, with their caps. */

struct channel {
    gchar *address, *program; /* program: NULL where it is not known */
    gint64 pid;               /* 0: not known */
    gchar *host;              /* that announces it; NULL: it was asked */
    GstCaps *caps;            /* NULL: it has no format yet, or did not answer */
    gboolean answered;
    gboolean ended; /* its stream is over, and it may begin another */
};

/* Queries all channels of the user, or those in a folder ("unix:/folder/"; NULL: all), or those
 * that other hosts announce (GPUD_CHANNELS_NETWORK), for at most timeout ns; free with
 * g_ptr_array_unref(). *directory (may be NULL): the directory of bare names, or the folder, or
 * NULL; g_free it. */
GPtrArray *channels_ask(const gchar *folder, gint64 timeout, gchar **directory);

/* === context ================================================================================= */
/* One gpud_context for the whole process, and the plugin's debug categories. */

/* The log category for messages that belong to no single element. */
GST_DEBUG_CATEGORY_EXTERN(gpud_gst_debug);

/* Makes the debug categories. Called once, by the plugin. */
void gpud_gst_context_init(void);

/* The shared context; made at the first call. NULL with *error filled when it cannot be made. */
struct gpud_context *gpud_gst_context_get(struct gpud_error *error);

/* === counters ================================================================================ */
/* The plugin's own copies and waits for one element, counted by its pools and memories, which may
 * outlive it, and added to the core's counts in the element's stats. */

struct counters {
    gatomicrefcount references;
    guint64 copies_cpu, copies_gpu; /* of whole pictures */
    guint64 waits_device;           /* a thread waited until a GPU was done */
    guint64 misuses;                /* detected writes to slots that were mapped for reading */
};

static inline struct counters *counters_new(void)
{
    struct counters *counters = g_new0(struct counters, 1);

    g_atomic_ref_count_init(&counters->references);
    return counters;
}

static inline struct counters *counters_ref(struct counters *counters)
{
    g_atomic_ref_count_inc(&counters->references);
    return counters;
}

static inline void counters_unref(struct counters *counters)
{
    if (counters && g_atomic_ref_count_dec(&counters->references))
        g_free(counters);
}

static inline void counter_add(guint64 *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline guint64 counter_read(const guint64 *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* === devicewatch ============================================================================= */
/* Watches capture cards, channels and targets by events of /dev and of the channels' directory
 * (inotify), and by the ends of processes (pidfd). Simultaneous events are reported together: a
 * card's node is created, and gets its owner and its mode, by separate events. */

struct device_watch;

enum device_change {
    DEVICE_CHANGE_WOKEN = 1 << 0, /* by device_watch_wake() */
    DEVICE_CHANGE_CARDS = 1 << 1,
    DEVICE_CHANGE_CHANNELS = 1 << 2, /* or targets */
};

/* directory: that of channels, which need not exist yet; or NULL. cards: capture cards are watched,
 * too. Returns NULL if nothing can be watched, and the log says why. */
struct device_watch *device_watch_new(const gchar *directory, gboolean cards);
void device_watch_free(struct device_watch *watch);

/* Ends the current wait, or the next one; from any thread. */
void device_watch_wake(struct device_watch *watch);

/* Watches the ends of the processes of these channels, instead of the previous ones. FALSE: one of
 * them cannot be watched, or has not answered, so that not every change is an event. */
gboolean device_watch_senders(struct device_watch *watch, const GPtrArray *channels);

/* Waits for a change, for at most timeout ms (-1: for ever). gone: gets the nodes in /dev
 * ("video0") that were removed meanwhile, even if they exist again. 0: nothing happened. */
guint device_watch_wait(struct device_watch *watch, gint timeout, GPtrArray *gone);

/* === errors ================================================================================== */
/* The core's errors as the messages that a GStreamer application expects on the bus. */

/* What the element was doing: decides between OPEN_READ, OPEN_WRITE, READ and WRITE. */
enum gpud_gst_activity {
    GPUD_GST_OPEN_SOURCE,
    GPUD_GST_OPEN_SINK,
    GPUD_GST_READ,
    GPUD_GST_WRITE,
};

/* Fills in an error of the plugin's own; returns its status. */
enum gpud_status gpud_gst_error_fill(struct gpud_error *error, enum gpud_status status,
                                     const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Posts an error message (a warning with _warn) whose text is "`what`: the core's reason"; `what`
 * is printed as printf() does. */
void gpud_gst_error_post(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
void gpud_gst_error_warn(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

/* === uri ===================================================================================== */
/* The elements by a URI:
 *
 *     gpudirect://cam1?slots=8&device=cuda:0     a name, and the element's properties
 *     gpudirect://cam1/audio                     one stream of a channel
 *     gpudirect:///run/plant/cam1                a socket's path: the address unix:/run/plant/cam1
 *     gpudirect+v4l2:///dev/video0               the source alone: a capture card */

/* For G_IMPLEMENT_INTERFACE with GST_TYPE_URI_HANDLER. */
void uri_handler_init(gpointer interface, gpointer data);

#endif

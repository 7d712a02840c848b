/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/devicewatch.h"
#include "base/context.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <sys/types.h>
#include <unistd.h>

#define NODES "/dev"
#define NODE_EVENTS (IN_CREATE | IN_DELETE | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR)
#define CHANNEL_EVENTS (NODE_EVENTS | IN_DELETE_SELF | IN_MOVE_SELF)
#define PARENT_EVENTS (IN_CREATE | IN_MOVED_TO | IN_ONLYDIR)

struct device_watch {
    int inotify, wake;
    int nodes;         /* of inotify's watches; -1: none */
    int channels;      /* the directory; -1: it is not there yet, and */
    int parent;        /* of it is watched */
    gchar *directory;  /* NULL: none */
    GArray *processes; /* descriptors */
};

/* --- the directory of channels ------------------------------------------------------------ */

static gboolean watch_directory(struct device_watch *watch)
{
    watch->channels = inotify_add_watch(watch->inotify, watch->directory, CHANNEL_EVENTS);
    return watch->channels >= 0;
}

/* The first sender creates the directory. */
static void follow_directory(struct device_watch *watch)
{
    if (!watch->directory || watch_directory(watch))
        return;
    gchar *parent = g_path_get_dirname(watch->directory);
    watch->parent = inotify_add_watch(watch->inotify, parent, PARENT_EVENTS);
    g_free(parent);
    /* It may have been created meanwhile. */
    if (watch->parent >= 0 && watch_directory(watch)) {
        inotify_rm_watch(watch->inotify, watch->parent);
        watch->parent = -1;
    }
    if (watch->parent < 0 && watch->channels < 0)
        GST_CAT_WARNING(gpud_gst_debug,
                        "changes of channels are not noticed: %s: %s (is "
                        "fs.inotify.max_user_watches too small?)",
                        watch->directory, g_strerror(errno));
}

static guint parent_event(struct device_watch *watch, const struct inotify_event *event)
{
    gchar *name = g_path_get_basename(watch->directory);
    gboolean ours = event->len && g_str_equal(event->name, name);

    g_free(name);
    if (!ours || !watch_directory(watch))
        return 0;
    inotify_rm_watch(watch->inotify, watch->parent);
    watch->parent = -1;
    return DEVICE_CHANGE_CHANNELS;
}

static guint channel_event(struct device_watch *watch, const struct inotify_event *event)
{
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) {
        if (event->mask & IN_MOVE_SELF)
            inotify_rm_watch(watch->inotify, watch->channels);
        watch->channels = -1;
        follow_directory(watch);
        return DEVICE_CHANGE_CHANNELS;
    }
    /* Ignores lock files and unfinished files beside the channels. */
    if (event->len && g_str_has_suffix(event->name, ".lock"))
        return 0;
    return DEVICE_CHANGE_CHANNELS;
}

/* --- nodes -------------------------------------------------------------------------------- */

static gboolean is_video_node(const gchar *name)
{
    return g_str_has_prefix(name, "video") && name[5] &&
           strspn(name + 5, "0123456789") == strlen(name + 5);
}

static guint node_event(const struct inotify_event *event, GPtrArray *gone)
{
    if (!event->len || !is_video_node(event->name))
        return 0;
    if (event->mask & (IN_DELETE | IN_MOVED_FROM))
        g_ptr_array_add(gone, g_strdup(event->name));
    return DEVICE_CHANGE_CARDS;
}

/* --- all ---------------------------------------------------------------------------------- */

static guint read_events(struct device_watch *watch, GPtrArray *gone)
{
    _Alignas(struct inotify_event) gchar buffer[8192];
    guint changes = 0;
    gssize length;

    while ((length = read(watch->inotify, buffer, sizeof(buffer))) > 0) {
        gssize size;
        for (gssize at = 0; at < length; at += size) {
            const struct inotify_event *event = (const void *)(buffer + at);
            size = (gssize)sizeof(*event) + (gssize)event->len;
            if (event->mask & IN_Q_OVERFLOW) /* events were lost */
                changes |= DEVICE_CHANGE_CARDS | DEVICE_CHANGE_CHANNELS;
            else if (event->wd == watch->nodes)
                changes |= node_event(event, gone);
            else if (event->wd == watch->channels)
                changes |= channel_event(watch, event);
            else if (event->wd == watch->parent)
                changes |= parent_event(watch, event);
        }
    }
    return changes;
}

guint device_watch_wait(struct device_watch *watch, gint timeout, GPtrArray *gone)
{
    guint count = 2 + watch->processes->len, changes = 0;
    struct pollfd *fds = g_new0(struct pollfd, count);

    fds[0] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = watch->inotify, .events = POLLIN};
    for (guint i = 2; i < count; i++)
        fds[i] =
            (struct pollfd){.fd = g_array_index(watch->processes, gint, i - 2), .events = POLLIN};
    if (poll(fds, count, timeout) > 0) {
        eventfd_t times;
        if (fds[0].revents && eventfd_read(watch->wake, &times) == 0)
            changes |= DEVICE_CHANGE_WOKEN;
        changes |= fds[1].revents ? read_events(watch, gone) : 0;
        for (guint i = 2; i < count; i++)
            changes |= fds[i].revents ? DEVICE_CHANGE_CHANNELS : 0;
    }
    g_free(fds);
    return changes;
}

static void close_descriptor(gpointer fd)
{
    close(*(gint *)fd);
}

gboolean device_watch_processes(struct device_watch *watch, const GArray *pids)
{
    gboolean all = TRUE;

    g_array_set_size(watch->processes, 0);
    for (guint i = 0; i < pids->len; i++) {
        struct pollfd process = {.fd = pidfd_open(g_array_index(pids, pid_t, i), 0),
                                 .events = POLLIN};
        if (process.fd >= 0 && poll(&process, 1, 0) == 0) {
            g_array_append_val(watch->processes, process.fd);
            continue;
        }
        /* It has ended already, and its address belongs to another process. */
        all = FALSE;
        if (process.fd >= 0)
            close(process.fd);
    }
    return all;
}

void device_watch_wake(struct device_watch *watch)
{
    eventfd_write(watch->wake, 1);
}

struct device_watch *device_watch_new(const gchar *directory, gboolean cards)
{
    struct device_watch *watch = g_new0(struct device_watch, 1);

    watch->nodes = watch->channels = watch->parent = -1;
    watch->directory = g_strdup(directory);
    watch->processes = g_array_new(FALSE, FALSE, sizeof(gint));
    g_array_set_clear_func(watch->processes, close_descriptor);
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->wake < 0 || watch->inotify < 0) {
        GST_CAT_WARNING(gpud_gst_debug,
                        "changes of devices are not noticed: %s (fs.inotify."
                        "max_user_instances may be too small)",
                        g_strerror(errno));
        device_watch_free(watch);
        return NULL;
    }
    if (cards)
        watch->nodes = inotify_add_watch(watch->inotify, NODES, NODE_EVENTS);
    if (cards && watch->nodes < 0)
        GST_CAT_WARNING(gpud_gst_debug,
                        "changes of capture cards are not noticed: %s: %s (is "
                        "fs.inotify.max_user_watches too small?)",
                        NODES, g_strerror(errno));
    follow_directory(watch);
    return watch;
}

void device_watch_free(struct device_watch *watch)
{
    if (watch->wake >= 0)
        close(watch->wake);
    if (watch->inotify >= 0)
        close(watch->inotify);
    g_array_unref(watch->processes);
    g_free(watch->directory);
    g_free(watch);
}

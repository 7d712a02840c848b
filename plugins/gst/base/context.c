/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The one context of this process, its errors as messages, and the channels and cards that it sees
 * come and go. */
#include "base/plugin.h"

#include "wire/codec.h"

#include <errno.h>
#include <gpudirect/channel.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <sys/types.h>
#include <unistd.h>

/* === context ================================================================================= */
/* One gpud_context for the whole process: devices are opened once however many elements use them,
 * and frames that outlive their element stay valid. It lives until the process ends, because
 * a plugin is not notified when the last buffer that points into it is gone. */

GST_DEBUG_CATEGORY(gpud_gst_debug);

GST_DEBUG_CATEGORY_STATIC(gpud_gst_core_debug);

static void log_core(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    static const GstDebugLevel levels[] = {
        [GPUD_LOG_ERROR] = GST_LEVEL_ERROR,
        [GPUD_LOG_WARNING] = GST_LEVEL_WARNING,
        [GPUD_LOG_INFO] = GST_LEVEL_INFO,
        [GPUD_LOG_DEBUG] = GST_LEVEL_DEBUG,
    };
    GstDebugLevel mapped = level < G_N_ELEMENTS(levels) ? levels[level] : GST_LEVEL_DEBUG;

    GST_CAT_LEVEL_LOG(gpud_gst_core_debug, mapped, NULL, "%s: %s", area, text);
}

void gpud_gst_context_init(void)
{
    GST_DEBUG_CATEGORY_INIT(gpud_gst_debug, "gpudirect", 0, "gpudirect plugin");
    GST_DEBUG_CATEGORY_INIT(gpud_gst_core_debug, "gpudirectcore", 0, "gpudirect core library");
}

struct gpud_context *gpud_gst_context_get(struct gpud_error *error)
{
    static GMutex lock;
    static struct gpud_context *shared;

    g_mutex_lock(&lock);
    if (!shared) {
        struct gpud_context_params params = GPUD_PARAMS_INIT(params);
        /* The level is read once: formatting lines that are not logged costs time. */
        GstDebugLevel threshold = gst_debug_category_get_threshold(gpud_gst_core_debug);
        params.log = log_core;
        params.log_level = threshold >= GST_LEVEL_DEBUG     ? GPUD_LOG_DEBUG
                           : threshold >= GST_LEVEL_INFO    ? GPUD_LOG_INFO
                           : threshold >= GST_LEVEL_WARNING ? GPUD_LOG_WARNING
                                                            : GPUD_LOG_ERROR;
        if (gpud_context_create(&params, &shared, error) != GPUD_OK)
            shared = NULL;
    }
    g_mutex_unlock(&lock);
    return shared;
}

/* === errors ================================================================================== */

enum gpud_status gpud_gst_error_fill(struct gpud_error *error, enum gpud_status status,
                                     const char *format, ...)
{
    va_list arguments;

    *error = (struct gpud_error){.status = status};
    va_start(arguments, format);
    g_vsnprintf(error->reason, sizeof(error->reason), format, arguments);
    va_end(arguments);
    return status;
}

static gint code_of_errno(long number, enum gpud_gst_activity activity)
{
    static const gint by_activity[] = {
        [GPUD_GST_OPEN_SOURCE] = GST_RESOURCE_ERROR_OPEN_READ,
        [GPUD_GST_OPEN_SINK] = GST_RESOURCE_ERROR_OPEN_WRITE,
        [GPUD_GST_READ] = GST_RESOURCE_ERROR_READ,
        [GPUD_GST_WRITE] = GST_RESOURCE_ERROR_WRITE,
    };

    switch (number) {
    case EADDRINUSE:
    case EBUSY:
        return GST_RESOURCE_ERROR_BUSY;
    case EACCES:
    case EPERM:
        return GST_RESOURCE_ERROR_NOT_AUTHORIZED;
    case ENOMEM:
    case ENOSPC:
        return GST_RESOURCE_ERROR_NO_SPACE_LEFT;
    case ENODEV:
    case ENXIO:
        return GST_RESOURCE_ERROR_NOT_FOUND;
    default:
        return by_activity[activity];
    }
}

static void errors_post(GstElement *element, GstMessageType type, enum gpud_gst_activity activity,
                        const struct gpud_error *error, const char *format, va_list arguments)
{
    gboolean from_system =
        !error->origin || strcmp(error->origin, "errno") == 0 || strcmp(error->origin, "v4l2") == 0;
    GQuark domain = GST_RESOURCE_ERROR;
    gint code;

    switch (error->status) {
    case GPUD_INVALID:
    case GPUD_UNSUPPORTED:
        code = GST_RESOURCE_ERROR_SETTINGS;
        break;
    case GPUD_NO_DEVICE:
        code = GST_RESOURCE_ERROR_NOT_FOUND;
        break;
    case GPUD_NO_MEMORY:
        code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
        break;
    case GPUD_NO_ACCESS:
        code = GST_RESOURCE_ERROR_NOT_AUTHORIZED;
        break;
    default:
        domain = from_system ? GST_RESOURCE_ERROR : GST_LIBRARY_ERROR;
        code = from_system ? code_of_errno(error->native, activity) : GST_LIBRARY_ERROR_FAILED;
    }
    char *what = g_strdup_vprintf(format, arguments);
    char *text = g_strdup_printf("%s: %s%s", what, error->reason,
                                 g_str_has_suffix(error->reason, "?") ? "" : ".");
    g_free(what);
    char *detail = g_strdup_printf("status %s, %s %ld", gpud_status_string(error->status),
                                   error->origin ? error->origin : "native code", error->native);
    gst_element_message_full(element, type, domain, code, text, detail, __FILE__, GST_FUNCTION,
                             __LINE__);
}

void gpud_gst_error_post(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    errors_post(element, GST_MESSAGE_ERROR, activity, error, format, arguments);
    va_end(arguments);
}

void gpud_gst_error_warn(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    errors_post(element, GST_MESSAGE_WARNING, activity, error, format, arguments);
    va_end(arguments);
}

/* === channels ================================================================================ */

static void channel_free(gpointer data)
{
    struct channel *channel = data;

    g_free(channel->address);
    g_free(channel->program);
    g_free(channel->host);
    gst_clear_caps(&channel->caps);
    g_free(channel);
}

static struct channel *channel_new(const struct gpud_channel_info *info)
{
    struct channel *channel = g_new0(struct channel, 1);
    GstVideoInfo video;
    gchar *reason = NULL;

    channel->address = g_strdup(info->address);
    channel->program = info->program[0] ? g_strdup(info->program) : NULL;
    channel->pid = info->pid;
    channel->answered = info->answered;
    channel->ended = info->answered && info->ended;
    channel->host = info->announced ? g_strdup(info->host) : NULL;
    if ((info->answered || info->announced) && info->configured) {
        channel->caps = media_to_caps(&info->media, NULL, &video, &reason);
        if (!channel->caps)
            GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", info->address, reason);
        g_free(reason);
    }
    if (!info->answered)
        GST_CAT_DEBUG(gpud_gst_debug, "%s: %s", info->address, info->reason);
    return channel;
}

GPtrArray *channels_ask(const gchar *folder, gint64 timeout, gchar **directory)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(channel_free);
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    struct gpud_error error;

    if (directory)
        *directory = NULL;
    if (gpud_channel_list_create(folder, timeout, &channels, &count, &search, &error) != GPUD_OK) {
        GST_CAT_DEBUG(gpud_gst_debug, "no channels: %s", error.reason);
        return list;
    }
    if (directory)
        *directory = g_strdup(search.directory);
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        if (gpud_channel_list_get_info(channels, i, &info, &error) == GPUD_OK &&
            !info.receiver_pid && !info.own_host)
            g_ptr_array_add(list, channel_new(&info));
    }
    if (search.omitted > 0)
        GST_CAT_WARNING(gpud_gst_debug, "%s", search.note);
    gpud_channel_list_destroy(&channels);
    return list;
}

/* === devicewatch ============================================================================= */

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

static guint node_event(const struct inotify_event *event, GPtrArray *gone)
{
    if (!event->len || !g_str_has_prefix(event->name, "video") || !event->name[5] ||
        event->name[5 + strspn(event->name + 5, "0123456789")])
        return 0;
    if (event->mask & (IN_DELETE | IN_MOVED_FROM))
        g_ptr_array_add(gone, g_strdup(event->name));
    return DEVICE_CHANGE_CARDS;
}

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

gboolean device_watch_senders(struct device_watch *watch, const GPtrArray *channels)
{
    gboolean all = TRUE;

    g_array_set_size(watch->processes, 0);
    for (guint i = 0; i < channels->len; i++) {
        const struct channel *channel = channels->pdata[i];
        all &= channel->pid > 0 && channel->answered;
        if (channel->pid <= 0)
            continue;
        struct pollfd process = {.fd = pidfd_open((pid_t)channel->pid, 0), .events = POLLIN};
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

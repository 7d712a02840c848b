/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Handles a card that is unplugged and returns. Meanwhile its node is closed, because otherwise the
 * kernel does not reuse the number, and the folders in which nodes appear are watched.
 *
 * The card is identified by its place on its bus: a held frame in the driver's memory keeps the old
 * number in use, and the card returns with another one. A card whose node exists but cannot be used
 * yet (permissions, firmware) is tried again after a while. */
#include "capture/lost.h"

#include "base/clock.h"
#include "capture/publish.h"
#include "capture/setup.h"
#include "capture/stream.h"
#include "capture/watch.h"

#include <dirent.h>
#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define RETRY (500 * GPUD_MSEC)

/* Limits a folder with more nodes than the kernel can number. */
#define NODES_MAX 4096

void gpud_capture_note_return(struct gpud_capture *capture)
{
    capture->gone = false;
    gpud_capture_end_wait(capture);
    gpud_lock_take(&capture->lock);
    capture->info.returns += capture->info.unplugged;
    capture->info.unplugged = false;
    gpud_print(capture->info.driver, "%s", capture->node.driver);
    gpud_print(capture->info.card, "%s", capture->node.card);
    gpud_lock_release(&capture->lock);
}

/* --- finding the card ---------------------------------------------------------------------- */

/* Looks for the card at another node than the given one, which may be open; else *node is
 * unchanged. */
static void find_elsewhere(const struct gpud_capture *capture, struct gpud_v4l2 *node)
{
    const char *folder = node->system->folder;
    DIR *nodes = opendir(folder);
    const struct dirent *entry;
    for (unsigned i = 0; nodes && i < NODES_MAX && (entry = readdir(nodes)); i++) {
        struct gpud_v4l2 found = {.system = node->system, .fd = -1};
        if (strncmp(entry->d_name, "video", 5) != 0)
            continue;
        gpud_print(found.path, "%s/%s", folder, entry->d_name);
        if (strcmp(found.path, node->path) == 0 || gpud_v4l2_open(&found, NULL) != GPUD_OK)
            continue;
        if (gpud_v4l2_is_same(&found, &capture->known)) {
            gpud_v4l2_close(node);
            *node = found;
            break;
        }
        gpud_v4l2_close(&found);
    }
    if (nodes)
        closedir(nodes);
}

/* Prefers the same card, then whatever is at its node. */
enum gpud_status gpud_capture_reopen(struct gpud_capture *capture, struct gpud_error *error)
{
    gpud_lock_take(&capture->node_lock);
    struct gpud_v4l2 *node = &capture->node;
    gpud_v4l2_close(node);
    gpud_print(node->path, "%s", capture->home);
    enum gpud_status status = gpud_v4l2_open(node, error);
    bool other = status != GPUD_OK || !gpud_v4l2_is_same(node, &capture->known);
    if (other && capture->known.place[0])
        find_elsewhere(capture, node);
    if (node->fd >= 0)
        status = GPUD_OK;
    gpud_lock_release(&capture->node_lock);
    if (status != GPUD_OK)
        return status;
    if (strcmp(node->path, capture->home) != 0)
        gpud_log_info(&capture->context->log, "capture", "the card of %s is at %s now",
                      capture->home, node->path);
    capture->known = *node;
    return gpud_capture_set_up(capture, error);
}

/* --- watching ------------------------------------------------------------------------------ */

/* A folder that udev makes may vanish with its last link (/dev/v4l/by-id). Then the nearest
 * existing parent reports when it comes back. False: the user's watches are used up, and the card
 * may return unnoticed. */
static bool watch_folders(const struct gpud_capture *capture)
{
    const uint32_t events = IN_CREATE | IN_MOVED_TO | IN_ATTRIB;
    char path[sizeof(capture->home)];
    gpud_print(path, "%s", capture->home);
    if (inotify_add_watch(capture->nodes_fd, capture->node.system->folder, events) < 0)
        return false;
    for (char *end; (end = strrchr(path, '/')) && end != path;) {
        *end = '\0';
        if (inotify_add_watch(capture->nodes_fd, path, events) >= 0)
            return true;
    }
    return false;
}

void gpud_capture_end_wait(struct gpud_capture *capture)
{
    gpud_capture_close_watched(capture, &capture->nodes_fd);
    if (!capture->start_deferred) /* else the timer is for the signal now */
        gpud_capture_disarm(capture);
    capture->awaiting_replug = false;
}

static void let_go(struct gpud_capture *capture)
{
    gpud_capture_drop_ring(capture, true, NULL);
    gpud_lock_take(&capture->node_lock);
    gpud_v4l2_close(&capture->node);
    gpud_lock_release(&capture->node_lock);
}

static enum gpud_status begin_wait(struct gpud_capture *capture, struct gpud_error *error)
{
    if (capture->awaiting_replug)
        return GPUD_OK;
    capture->nodes_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (capture->nodes_fd < 0)
        gpud_log_warning(&capture->context->log, "capture",
                         "%s cannot be watched for (%s): it is looked for again and again",
                         capture->home, strerror(errno));
    bool watched = gpud_capture_watch_too(capture, capture->nodes_fd);
    if (!watched || !gpud_capture_arm(capture, 0, 0)) {
        enum gpud_status status = gpud_fail_errno(error, "cannot watch for %s", capture->home);
        gpud_capture_end_wait(capture);
        return status;
    }
    let_go(capture);
    capture->awaiting_replug = true;
    return GPUD_OK;
}

/* Whether a node appeared, or it is time to try again; clears both. */
static bool is_due(struct gpud_capture *capture)
{
    char events[4096];
    bool due = gpud_capture_is_time(capture);
    while (capture->nodes_fd >= 0 && read(capture->nodes_fd, events, sizeof(events)) > 0)
        due = true;
    return due;
}

static void sleep_until_due(const struct gpud_capture *capture, int64_t deadline)
{
    struct pollfd fds[] = {
        {.fd = capture->nodes_fd, .events = POLLIN},
        {.fd = capture->timer_fd, .events = POLLIN},
        {.fd = capture->interrupt_fd, .events = POLLIN},
    };
    struct timespec left = gpud_time_left(deadline);
    ppoll(fds, 3, &left, NULL);
}

/* --- the card's return --------------------------------------------------------------------- */

/* Streams the last configuration again. */
static enum gpud_status resume(struct gpud_capture *capture, struct gpud_error *error)
{
    return capture->wanted.format[0] ? gpud_capture_begin(capture, error) : GPUD_OK;
}

/* GPUD_TIMEOUT: the card is not there yet; absence says why. */
static enum gpud_status come_back(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error *why = &capture->absence;
    bool watched = watch_folders(capture); /* before the look, so that later changes are reported */
    enum gpud_status status = gpud_capture_reopen(capture, why);
    bool opened = capture->node.fd >= 0;
    if (status == GPUD_OK)
        status = resume(capture, why);
    bool unfit = opened && (status == GPUD_UNSUPPORTED || status == GPUD_INVALID);
    if (status == GPUD_OK || unfit) {
        capture->failure.status = GPUD_OK;
        if (unfit)
            capture->failure = *why;
        if (unfit && error)
            *error = *why;
        gpud_capture_note_return(capture);
        return status;
    }
    let_go(capture);
    if (opened || why->native != ENOENT || !watched)
        gpud_capture_arm(capture, RETRY, 0);
    return GPUD_TIMEOUT;
}

/* While idle, only a query reveals removal. */
static bool is_alive(const struct gpud_capture *capture)
{
    struct v4l2_capability capability;
    return gpud_v4l2_call(&capture->node, VIDIOC_QUERYCAP, &capability) == 0;
}

enum gpud_status gpud_capture_wait(struct gpud_capture *capture, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(timeout_ns);
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (!capture->ring && !capture->start_deferred && !capture->gone && !is_alive(capture))
        gpud_capture_note_gone(capture);
    while (capture->gone) {
        enum gpud_status status = begin_wait(capture, error);
        if (status != GPUD_OK)
            return status;
        if (atomic_load(&capture->interrupted))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (is_due(capture))
            status = come_back(capture, error);
        if (status != GPUD_OK && status != GPUD_TIMEOUT)
            return status;
        if (capture->gone && gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->absence.reason);
        if (capture->gone)
            sleep_until_due(capture, deadline);
    }
    return GPUD_OK;
}

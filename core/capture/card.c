/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets up a card that was just opened, switches it to another input, and finds it again when it was
 * unplugged. Meanwhile its node is closed, because otherwise the kernel does not reuse the number,
 * and the folders in which nodes appear are watched.
 *
 * The card is identified by its place on its bus: a held frame in the driver's memory keeps the old
 * number in use, and the card returns with another one. A card whose node exists but cannot be used
 * yet (permissions, firmware) is tried again after a while. */
#include "capture/card.h"

#include "capture/publish.h"
#include "capture/watch.h"

#include <dirent.h>
#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>
#include <sys/inotify.h>

/* Limits a folder with more nodes than the kernel can number. */
#define NODES_MAX 4096

/* --- setting it up ------------------------------------------------------------------------- */

static void detect(struct gpud_capture *capture)
{
    capture->signal.has_event = gpud_input_subscribe(&capture->node);
    gpud_input_detect(&capture->node, &capture->signal.now);
    gpud_capture_publish_signal(capture);
    gpud_capture_publish_card_format(capture);
    capture->wanted.fourcc = 0;
}

static enum gpud_status set_input(struct gpud_capture *capture, int number,
                                  struct gpud_error *error)
{
    int set = number;
    if (gpud_v4l2_call(&capture->node, VIDIOC_S_INPUT, &set) == 0)
        return GPUD_OK;
    return gpud_fail_errno(error, "%s cannot be switched to its input %d%s", capture->node.path,
                           number, errno == EBUSY ? ", for another program holds it" : "");
}

enum gpud_status gpud_capture_set_up(struct gpud_capture *capture, struct gpud_error *error)
{
    int number, now = -1;
    enum gpud_status status = GPUD_OK;
    capture->wanted.next_input = -1; /* input is its name */
    if (capture->wanted.input[0])
        status = gpud_input_find(&capture->node, capture->wanted.input, &number, error);
    bool set = status == GPUD_OK && capture->wanted.input[0] &&
               (gpud_v4l2_call(&capture->node, VIDIOC_G_INPUT, &now) < 0 || now != number);
    if (set)
        status = set_input(capture, number, error);
    gpud_lock_take(&capture->node_lock);
    if (status == GPUD_OK)
        status = gpud_controls_set(&capture->node, capture->wanted.controls.control,
                                   capture->wanted.controls.count, error);
    gpud_lock_release(&capture->node_lock);
    if (status == GPUD_OK)
        detect(capture);
    return status;
}

void gpud_capture_select_input(struct gpud_capture *capture)
{
    struct gpud_error *why = &capture->wanted.input_refused;
    if (capture->wanted.next_input < 0)
        return;
    why->status = set_input(capture, capture->wanted.next_input, why);
    capture->wanted.next_input = -1;
    if (why->status != GPUD_OK)
        gpud_log_warning(&capture->context->log, "capture", "%s", why->reason);
    detect(capture);
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
        if (gpud_v4l2_is_same(&found, &capture->card.known)) {
            gpud_v4l2_close(node);
            *node = found;
            break;
        }
        gpud_v4l2_close(&found);
    }
    if (nodes)
        closedir(nodes);
}

void gpud_capture_close_node(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->node_lock);
    gpud_v4l2_close(&capture->node);
    gpud_lock_release(&capture->node_lock);
}

/* Prefers the same card, then whatever is at its node. */
enum gpud_status gpud_capture_reopen(struct gpud_capture *capture, struct gpud_error *error)
{
    gpud_lock_take(&capture->node_lock);
    struct gpud_v4l2 *node = &capture->node;
    gpud_v4l2_close(node);
    gpud_print(node->path, "%s", capture->card.home);
    enum gpud_status status = gpud_v4l2_open(node, error);
    bool other = status != GPUD_OK || !gpud_v4l2_is_same(node, &capture->card.known);
    if (other && capture->card.known.place[0])
        find_elsewhere(capture, node);
    if (node->fd >= 0)
        status = GPUD_OK;
    gpud_lock_release(&capture->node_lock);
    if (status != GPUD_OK)
        return status;
    if (strcmp(node->path, capture->card.home) != 0)
        gpud_log_info(&capture->context->log, "capture", "the card of %s is at %s now",
                      capture->card.home, node->path);
    capture->card.known = *node;
    return gpud_capture_set_up(capture, error);
}

/* --- watching ------------------------------------------------------------------------------ */

/* A folder that udev makes may vanish with its last link (/dev/v4l/by-id). Then the nearest
 * existing parent reports when it comes back. False: the user's watches are used up, and the card
 * may return unnoticed. */
bool gpud_capture_watch_folders(const struct gpud_capture *capture)
{
    const uint32_t events = IN_CREATE | IN_MOVED_TO | IN_ATTRIB;
    char path[sizeof(capture->card.home)];
    gpud_print(path, "%s", capture->card.home);
    if (inotify_add_watch(capture->card.nodes_fd, capture->node.system->folder, events) < 0)
        return false;
    for (char *end; (end = strrchr(path, '/')) && end != path;) {
        *end = '\0';
        if (inotify_add_watch(capture->card.nodes_fd, path, events) >= 0)
            return true;
    }
    return false;
}

void gpud_capture_unwatch_folders(struct gpud_capture *capture)
{
    gpud_capture_close_watched(capture, &capture->card.nodes_fd);
}

enum gpud_status gpud_capture_watch_for_card(struct gpud_capture *capture, struct gpud_error *error)
{
    capture->card.nodes_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (capture->card.nodes_fd < 0)
        gpud_log_warning(&capture->context->log, "capture",
                         "%s cannot be watched for (%s): it is looked for again and again",
                         capture->card.home, strerror(errno));
    if (gpud_capture_watch_too(capture, capture->card.nodes_fd) && gpud_capture_arm(capture, 0, 0))
        return GPUD_OK;
    enum gpud_status status = gpud_fail_errno(error, "cannot watch for %s", capture->card.home);
    gpud_capture_unwatch_folders(capture);
    gpud_capture_disarm(capture);
    return status;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Cards: listed, found by name, and watched. */
#include "capture/internal.h"

#include "base/base.h"
#include "capture/capture.h"
#include "topology/topology.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === watch =================================================================================== */
/* One descriptor for event loops: an epoll of the interrupt's descriptor, the ring's wake-up, and
 * the driver's node while its state is meaningful. The node comes and goes, with configure and with
 * its buffers; the epoll stays. */

static bool watch_add(int watch_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return watch_fd < 0 || fd < 0 || epoll_ctl(watch_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Adds this descriptor to the epoll, until it is closed; -1 adds nothing. False: errno. */
static bool capture_watch_too(struct gpud_capture *capture, int fd)
{
    return watch_add(capture->watch_fd, fd);
}

static void capture_close_watched(struct gpud_capture *capture, int *fd)
{
    if (*fd >= 0 && capture->watch_fd >= 0)
        epoll_ctl(capture->watch_fd, EPOLL_CTL_DEL, *fd, NULL);
    gpud_fd_close(fd);
}

bool gpud_capture_arm(struct gpud_capture *capture, int64_t after, int64_t every)
{
    struct itimerspec when = {.it_value = gpud_timespec(after > 0 ? after : 1),
                              .it_interval = gpud_timespec(every)};
    if (capture->timer_fd < 0) {
        capture->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (capture->timer_fd < 0 || !capture_watch_too(capture, capture->timer_fd)) {
            int number = errno;
            gpud_fd_close(&capture->timer_fd);
            errno = number;
            return false;
        }
    }
    return timerfd_settime(capture->timer_fd, 0, &when, NULL) == 0;
}

bool gpud_capture_is_time(struct gpud_capture *capture)
{
    uint64_t count;
    return capture->timer_fd >= 0 &&
           read(capture->timer_fd, &count, sizeof(count)) == sizeof(count);
}

void gpud_capture_disarm(struct gpud_capture *capture)
{
    capture_close_watched(capture, &capture->timer_fd);
}

enum gpud_status gpud_capture_get_fd(struct gpud_capture *capture, int *fd,
                                     struct gpud_error *error)
{
    if (capture->watch_fd >= 0) {
        *fd = capture->watch_fd;
        return GPUD_OK;
    }
    int made = epoll_create1(EPOLL_CLOEXEC);
    if (made < 0)
        return gpud_fail_errno(error, "cannot create an epoll descriptor");
    struct epoll_event event = {.events = EPOLLIN};
    enum gpud_status status = GPUD_OK;
    if (epoll_ctl(made, EPOLL_CTL_ADD, capture->interrupt.fd, &event) < 0)
        status = gpud_fail_errno(error, "cannot watch an eventfd");
    if (status == GPUD_OK &&
        !(watch_add(made, capture->card.nodes_fd) && watch_add(made, capture->timer_fd)))
        status = gpud_fail_errno(error, "cannot watch for %s", capture->card.home);
    if (status == GPUD_OK && capture->ring)
        status = gpud_capture_ring_watch(capture->ring, made, error);
    if (status != GPUD_OK) {
        gpud_fd_close(&made);
        return status;
    }
    *fd = capture->watch_fd = made;
    return GPUD_OK;
}

/* === card ==================================================================================== */
/* Sets up a card that was just opened, switches it to another input, and finds it again when it was
 * unplugged. Meanwhile its node is closed, because otherwise the kernel does not reuse the number,
 * and the folders in which nodes appear are watched.
 *
 * The card is identified by its place on its bus: a held frame in the driver's memory keeps the old
 * number in use, and the card returns with another one. A card whose node exists but cannot be used
 * yet (permissions, firmware) is tried again after a while. */

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
    capture_close_watched(capture, &capture->card.nodes_fd);
}

enum gpud_status gpud_capture_watch_for_card(struct gpud_capture *capture, struct gpud_error *error)
{
    capture->card.nodes_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (capture->card.nodes_fd < 0)
        gpud_log_warning(&capture->context->log, "capture",
                         "%s cannot be watched for (%s): it is looked for again and again",
                         capture->card.home, strerror(errno));
    if (capture_watch_too(capture, capture->card.nodes_fd) && gpud_capture_arm(capture, 0, 0))
        return GPUD_OK;
    enum gpud_status status = gpud_fail_errno(error, "cannot watch for %s", capture->card.home);
    gpud_capture_unwatch_folders(capture);
    gpud_capture_disarm(capture);
    return status;
}

/* === cards =================================================================================== */
/* Lists capture cards. Nodes are only queried: their format, timings and buffers belong to the
 * program that may be capturing from them. */

#define SCHEME "v4l2://"

void gpud_capture_find_card(const char *node, char *pci, size_t size)
{
    char resolved[PATH_MAX], link[GPUD_SYSFS_PATH_MAX];
    const char *name = realpath(node, resolved) ? strrchr(resolved, '/') : strrchr(node, '/');
    gpud_print(link, "/sys/class/video4linux/%.64s/device", name + 1);
    gpud_sysfs_find_pci(pci, size, link);
}

struct card {
    struct gpud_capture_card_info info;
    struct gpud_capture_mode *modes;
    size_t mode_count;
    struct gpud_capture_card_path *paths;
    size_t path_count;
    void *mode, *path; /* pointers to each of them, for info */
};

struct gpud_capture_card_list {
    struct gpud_list list; /* struct card */
};

/* --- ways to the devices ------------------------------------------------------------------- */

struct path_list {
    struct card *card;
    uint32_t memories; /* V4L2_BUF_CAP_SUPPORTS_…; 0: the driver does not say */
    bool failed;       /* out of memory */
};

static bool may_take(uint32_t memories, const struct gpud_capture_method *method)
{
    return !memories || memories & method->capability;
}

/* Whether frames may arrive in the device's own memory by dma-bufs, as in method.c. */
static enum gpud_status check_dmabuf(const struct path_list *list, const struct gpud_device *device,
                                     struct gpud_error *error)
{
    if (!may_take(list->memories, &gpud_capture_dmabuf))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", gpud_capture_dmabuf.refusal);
    enum gpud_status status = gpud_device_check_dmabuf(device, error);
    if (status == GPUD_OK)
        status = gpud_capture_check_bus(device, list->card->info.bus, error);
    return status;
}

static void describe_path(const struct path_list *list, const struct gpud_device *device,
                          struct gpud_capture_card_path *path)
{
    struct gpud_error why;
    bool host = device->caps & GPUD_CAP_HOST;
    const struct gpud_capture_method *method = &gpud_capture_dmabuf;
    *path = (struct gpud_capture_card_path){.size = sizeof(*path)};
    gpud_print(path->device, "%s", device->info.name);
    path->distance = gpud_topology_distance(gpud_topology_find(device->info.pci),
                                            gpud_topology_find(list->card->info.pci));
    path->direct = host || check_dmabuf(list, device, &why) == GPUD_OK;
    if (!path->direct)
        gpud_print(path->reason, "%s", why.reason);
    if (host || !path->direct) {
        method = &gpud_capture_userptr;
        if (!may_take(list->memories, method))
            method = &gpud_capture_mmap;
    }
    gpud_print(path->path, "v4l2-%s", method->name);
}

static void add_path(const struct gpud_device *device, void *arg)
{
    struct path_list *list = arg;
    struct card *card = list->card;
    if (!device->info.available || list->failed)
        return;
    struct gpud_capture_card_path *grown =
        realloc(card->paths, (card->path_count + 1) * sizeof(*grown));
    if (!grown) {
        list->failed = true;
        return;
    }
    card->paths = grown;
    describe_path(list, device, &grown[card->path_count++]);
}

/* --- one card ------------------------------------------------------------------------------ */

static enum gpud_status cards_no_room(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of capture cards");
}

static enum gpud_status cards_publish(struct card *card, struct gpud_error *error)
{
    struct gpud_capture_card_info *info = &card->info;
    for (size_t i = 0; i < card->mode_count; i++)
        card->modes[i].size = sizeof(card->modes[i]);
    card->mode = gpud_list_point(card->modes, card->mode_count, sizeof(*card->modes));
    card->path = gpud_list_point(card->paths, card->path_count, sizeof(*card->paths));
    if (!card->mode || !card->path)
        return cards_no_room(error);
    info->modes = (uint32_t)card->mode_count;
    info->mode = card->mode;
    info->paths = (uint32_t)card->path_count;
    info->path = card->path;
    return GPUD_OK;
}

static enum gpud_status describe_card(struct gpud_context *context, const struct gpud_v4l2 *node,
                                      struct card *card, struct gpud_error *error)
{
    struct gpud_input source;
    struct path_list list = {.card = card, .memories = gpud_v4l2_look_memories(node)};
    struct gpud_capture_card_info *info = &card->info;
    gpud_print(info->card, "%s", node->card);
    gpud_print(info->driver, "%s", node->driver);
    gpud_print(info->bus, "%s", node->bus);
    gpud_capture_find_card(node->path, info->pci, sizeof(info->pci));
    gpud_input_detect(node, &source);
    info->signal = source.present;
    gpud_print(info->signal_reason, "%s", source.reason);
    size_t count = gpud_capture_modes_of(node, &source, NULL, NULL, 0);
    card->modes = calloc(count + 1, sizeof(*card->modes));
    if (!card->modes)
        return cards_no_room(error);
    card->modes[0].size = sizeof(card->modes[0]);
    /* The signal may have changed meanwhile. */
    size_t again = gpud_capture_modes_of(node, &source, NULL, card->modes, count);
    card->mode_count = again < count ? again : count;
    gpud_device_each(context, add_path, &list);
    return list.failed ? cards_no_room(error) : cards_publish(card, error);
}

static enum gpud_status look_at(struct gpud_context *context, const struct gpud_v4l2_system *system,
                                const char *name, struct card *card, struct gpud_error *error)
{
    struct gpud_v4l2 node = {.system = system, .fd = -1};
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    *card = (struct card){.info.size = sizeof(card->info)};
    gpud_print(node.path, "/dev/%s", name);
    gpud_print(card->info.address, SCHEME "%s", node.path);
    card->info.usable = gpud_v4l2_open(&node, &why) == GPUD_OK;
    if (card->info.usable)
        status = describe_card(context, &node, card, error);
    else
        gpud_print(card->info.reason, "%s", why.reason);
    gpud_v4l2_close(&node);
    return status;
}

/* --- the list ------------------------------------------------------------------------------ */

/* "video0", but not "video-codec" or "video0.old" */
static bool is_node(const char *name)
{
    static const char prefix[] = "video";
    const char *number = name + sizeof(prefix) - 1;
    return strncmp(name, prefix, sizeof(prefix) - 1) == 0 && number[0] && strlen(number) < 10 &&
           number[strspn(number, "0123456789")] == '\0';
}

enum gpud_status gpud_capture_card_list_look(struct gpud_context *context,
                                             const struct gpud_v4l2_system *system,
                                             struct gpud_capture_card_list **list, uint32_t *count,
                                             struct gpud_error *error)
{
    size_t found;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&found, "/dev");
    struct gpud_capture_card_list *made = calloc(1, sizeof(*made));
    enum gpud_status status = made ? GPUD_OK : cards_no_room(error);
    if (made)
        made->list = (struct gpud_list){.what = "capture card",
                                        .entry_size = sizeof(struct card),
                                        .record_size = sizeof(struct gpud_capture_card_info)};
    for (size_t i = 0; i < found && status == GPUD_OK; i++) {
        struct card *card = is_node(names[i].text) ? gpud_list_add(&made->list, error) : NULL;
        if (card)
            status = look_at(context, system, names[i].text, card, error);
        else if (is_node(names[i].text))
            status = GPUD_NO_MEMORY;
    }
    free(names);
    if (status != GPUD_OK) {
        gpud_capture_card_list_destroy(&made);
        return status;
    }
    *list = made;
    if (count)
        *count = made->list.count;
    return GPUD_OK;
}

enum gpud_status gpud_capture_card_list_create(struct gpud_context *context,
                                               struct gpud_capture_card_list **list,
                                               uint32_t *count, struct gpud_error *error)
{
    return gpud_capture_card_list_look(context, &gpud_v4l2_kernel, list, count, error);
}

/* --- what was found ------------------------------------------------------------------------ */

void gpud_capture_card_list_destroy(struct gpud_capture_card_list **list)
{
    if (!list || !*list)
        return;
    for (uint32_t i = 0; i < (*list)->list.count; i++) {
        struct card *card = gpud_list_entry(&(*list)->list, i);
        free(card->modes);
        free(card->paths);
        free(card->mode);
        free(card->path);
    }
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

enum gpud_status gpud_capture_card_list_get_info(const struct gpud_capture_card_list *list,
                                                 uint32_t index,
                                                 struct gpud_capture_card_info *info,
                                                 struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, info, error);
}

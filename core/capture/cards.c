/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists capture cards. */
#include "capture/internal.h"

#include "base/base.h"
#include "capture/capture.h"
#include "topology/topology.h"

#include <limits.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>

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

/* Whether frames may arrive in the device's own memory is decided as in method.c. */
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
    struct gpud_capture_card_path *path = &grown[card->path_count++];
    const struct gpud_capture_method *method = &gpud_capture_dmabuf;
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    bool host = device->caps & GPUD_CAP_HOST;
    *path = (struct gpud_capture_card_path){.size = sizeof(*path)};
    gpud_print(path->device, "%s", device->info.name);
    path->distance = gpud_topology_distance(gpud_topology_find(device->info.pci),
                                            gpud_topology_find(card->info.pci));
    if (!host && !may_take(list->memories, method))
        status = gpud_fail(&why, GPUD_UNSUPPORTED, "%s", method->refusal);
    else if (!host)
        status = gpud_device_check_dmabuf(device, &why);
    if (!host && status == GPUD_OK)
        status = gpud_capture_check_bus(device, card->info.bus, &why);
    path->direct = status == GPUD_OK;
    if (!path->direct)
        gpud_print(path->reason, "%s", why.reason);
    if (host || !path->direct) {
        method = &gpud_capture_userptr;
        if (!may_take(list->memories, method))
            method = &gpud_capture_mmap;
    }
    gpud_print(path->path, "v4l2-%s", method->name);
}

/* --- one card ------------------------------------------------------------------------------ */

static enum gpud_status cards_no_room(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of capture cards");
}

static enum gpud_status describe_card(struct gpud_context *context, const struct gpud_v4l2 *node,
                                      struct card *card, struct gpud_error *error)
{
    struct gpud_input source;
    struct gpud_capture_card_info *info = &card->info;
    /* What memory the driver takes. Another program may be streaming from the node, so no buffer is
     * requested or freed. */
    struct v4l2_create_buffers none = {.memory = V4L2_MEMORY_MMAP, .format.type = node->type};
    struct path_list list = {.card = card};
    if (gpud_v4l2_call(node, VIDIOC_G_FMT, &none.format) == 0 &&
        gpud_v4l2_call(node, VIDIOC_CREATE_BUFS, &none) == 0)
        list.memories = none.capabilities;
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
    info->modes = (uint32_t)(again < count ? again : count);
    gpud_device_each(context, add_path, &list);
    if (list.failed)
        return cards_no_room(error);
    for (size_t i = 0; i < info->modes; i++)
        card->modes[i].size = sizeof(card->modes[i]);
    info->mode = card->mode = gpud_list_point(card->modes, info->modes, sizeof(*card->modes));
    info->paths = (uint32_t)card->path_count;
    info->path = card->path = gpud_list_point(card->paths, info->paths, sizeof(*card->paths));
    return card->mode && card->path ? GPUD_OK : cards_no_room(error);
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

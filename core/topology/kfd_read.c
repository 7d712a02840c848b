/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads amdkfd's tree. */
#include "topology/kfd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NODES "/sys/class/kfd/kfd/topology/nodes"

/* --- files ------------------------------------------------------------------------------------ */

/* Reads a whole file. Returns 0 or errno. */
static int load(char text[GPUD_KFD_FILE_MAX], size_t *size, const char *file)
{
    char path[GPUD_SYSFS_PATH_MAX];
    gpud_sysfs_path(path, "%s", file);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    ssize_t got = 1;
    for (*size = 0; *size < GPUD_KFD_FILE_MAX && got > 0; *size += got > 0 ? (size_t)got : 0)
        got = read(fd, text + *size, GPUD_KFD_FILE_MAX - *size);
    int failed = got < 0 ? errno : 0;
    close(fd);
    return failed;
}

/* Only the first mistake is reported. */
static void ignore(struct gpud_kfd *kfd, const char *file, const char *why)
{
    if (!kfd->ignored[0])
        gpud_print(kfd->ignored, "%.200s is ignored: %.250s", file, why);
}

static bool is_number(const char *text, uint32_t *number)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *number = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && !*end && strlen(text) < 10;
}

/* Calls `take` for the file "properties" in each numbered folder. true: there is such a folder. */
typedef void (*take_fn)(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *file,
                        const char *text, size_t size);

static bool read_each(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *what,
                      size_t max, take_fn take)
{
    char folder[GPUD_SYSFS_PATH_MAX / 2], text[GPUD_KFD_FILE_MAX];
    size_t count, size;
    gpud_print(folder, NODES "/%u/%s", node->number, what);
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "%s", folder);
    if (count > max) {
        ignore(kfd, folder, "there are more than a machine can have");
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        char file[GPUD_SYSFS_PATH_MAX];
        gpud_print(file, "%s/%s/properties", folder, names[i].text);
        int failed = load(text, &size, file);
        if (failed == EPERM || failed == EACCES)
            node->denied = true;
        else if (failed)
            ignore(kfd, file, strerror(failed));
        else
            take(kfd, node, file, text, size);
    }
    free(names);
    char path[GPUD_SYSFS_PATH_MAX];
    gpud_sysfs_path(path, "%s", folder);
    return access(path, F_OK) == 0;
}

/* --- records ---------------------------------------------------------------------------------- */

static void take_bank(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *file,
                      const char *text, size_t size)
{
    char why[GPUD_REASON_MAX];
    if (!gpud_kfd_parse_bank(text, size, node, why))
        ignore(kfd, file, why);
}

static void take_link(struct gpud_kfd *kfd, struct gpud_kfd_node *node, const char *file,
                      const char *text, size_t size)
{
    char why[GPUD_REASON_MAX];
    struct gpud_kfd_link link = {.peer = strstr(file, "/p2p_links/") != NULL};
    if (!gpud_kfd_parse_link(text, size, &link, why)) {
        ignore(kfd, file, why);
        return;
    }
    if (link.from != node->number) {
        ignore(kfd, file, "it is a link from another node than the one that it stands at");
        return;
    }
    struct gpud_kfd_link *more = reallocarray(kfd->links, kfd->link_count + 1, sizeof(*kfd->links));
    if (!more) {
        ignore(kfd, file, "out of memory");
        return;
    }
    kfd->links = more;
    kfd->links[kfd->link_count++] = link;
}

/* false: the node does not exist, as far as this process can see. */
static bool read_node(struct gpud_kfd *kfd, struct gpud_kfd_node *node)
{
    char file[64], text[GPUD_KFD_FILE_MAX], why[GPUD_REASON_MAX];
    size_t size;
    gpud_print(file, NODES "/%u/properties", node->number);
    int failed = load(text, &size, file);
    if (failed == EPERM || failed == EACCES) {
        node->denied = true;
        return true;
    }
    if (failed || !gpud_kfd_parse_node(text, size, node, why)) {
        ignore(kfd, file, failed ? strerror(failed) : why);
        return false;
    }
    read_each(kfd, node, "mem_banks", GPUD_KFD_BANKS_MAX, take_bank);
    read_each(kfd, node, "io_links", GPUD_KFD_LINKS_MAX, take_link);
    if (read_each(kfd, node, "p2p_links", GPUD_KFD_LINKS_MAX, take_link))
        kfd->has_peer_links = true;
    node->denied = false; /* only what a link leads to may be hidden */
    return true;
}

/* --- the kernel's configuration --------------------------------------------------------------- */

/* AMD's packaged amdgpu has a version of its own, and its configuration is not visible. */
static int read_configured(void)
{
    char version[64], path[GPUD_SYSFS_PATH_MAX], line[256];
    struct utsname name;
    if (gpud_sysfs_read(version, sizeof(version), "/sys/module/amdgpu/version") || uname(&name) < 0)
        return -1;
    gpud_sysfs_path(path, "/boot/config-%s", name.release);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    int configured = 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "CONFIG_HSA_AMD_P2P=y", 20) == 0)
            configured = 1;
    fclose(file);
    return configured;
}

/* --- the whole tree --------------------------------------------------------------------------- */

static void read_nodes(struct gpud_kfd *kfd, const struct gpud_sysfs_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct gpud_kfd_node *node = &kfd->nodes[kfd->node_count];
        *node = (struct gpud_kfd_node){0};
        if (!is_number(names[i].text, &node->number))
            continue;
        if (kfd->node_count == GPUD_KFD_NODES_MAX) {
            ignore(kfd, NODES, "what is beyond 256 nodes is no machine that is known here");
            return;
        }
        if (read_node(kfd, node)) {
            kfd->denied += node->denied;
            kfd->node_count++;
        }
    }
}

enum gpud_status gpud_kfd_read(struct gpud_kfd *kfd, struct gpud_error *error)
{
    size_t count;
    char off[8];
    *kfd = (struct gpud_kfd){.configured = -1};
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, NODES);
    if (count == 0)
        return GPUD_OK;
    kfd->nodes = calloc(GPUD_KFD_NODES_MAX + 1, sizeof(*kfd->nodes));
    if (!kfd->nodes) {
        free(names);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for the nodes of " NODES);
    }
    read_nodes(kfd, names, count);
    free(names);
    kfd->peer_off = gpud_sysfs_read(off, sizeof(off), "/sys/module/amdgpu/parameters/pcie_p2p") &&
                    (off[0] == 'N' || off[0] == '0');
    kfd->configured = read_configured();
    return GPUD_OK;
}

void gpud_kfd_clear(struct gpud_kfd *kfd)
{
    free(kfd->nodes);
    free(kfd->links);
    *kfd = (struct gpud_kfd){.configured = -1};
}

static struct gpud_kfd machine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_machine(void)
{
    gpud_kfd_read(&machine, NULL); /* on failure it has no nodes */
}

const struct gpud_kfd *gpud_kfd_get(void)
{
    pthread_once(&once, read_machine);
    return &machine;
}

const struct gpud_kfd_node *gpud_kfd_find(const struct gpud_kfd *kfd, const char *pci)
{
    const char *function = strrchr(pci, '.');
    const struct gpud_kfd_node *found = NULL;
    for (size_t i = 0; function && i < kfd->node_count; i++) {
        const struct gpud_kfd_node *node = &kfd->nodes[i];
        size_t card = (size_t)(function - pci) + 1;
        if (!node->gpu || strncasecmp(node->pci, pci, card) != 0)
            continue;
        if (strcasecmp(node->pci, pci) == 0)
            return node;
        if (!found)
            found = node;
    }
    return found;
}

bool gpud_kfd_has_large_bar(const struct gpud_kfd_node *node)
{
    return node->visible > 0 && node->hidden == 0;
}

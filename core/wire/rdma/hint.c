/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/hint.h"

#include "base/error.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512

static bool exists(const char *root, const char *path)
{
    char whole[PATH_SIZE];
    gpud_print(whole, "%s%s", root, path);
    return access(whole, F_OK) == 0;
}

/* The first entry that is not hidden, after so many others. */
static bool list_entry(const char *path, unsigned number, char *name, size_t size)
{
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && number-- == 0) {
            gpud_print_n(name, size, "%s", entry->d_name);
            found = true;
        }
    if (dir)
        closedir(dir);
    return found;
}

/* "4: ACTIVE" */
static bool is_active(const char *port)
{
    char path[PATH_SIZE], line[64] = "";
    gpud_print(path, "%s/state", port);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool active = fgets(line, sizeof(line), file) && strstr(line, "ACTIVE");
    fclose(file);
    return active;
}

/* Whether a port of any card is up; *card is the first one. */
static bool has_active_port(const char *cards, char *card, size_t size)
{
    char ports[PATH_SIZE], port[PATH_SIZE], name[64], number[16];
    for (unsigned i = 0; list_entry(cards, i, name, sizeof(name)); i++) {
        if (i == 0)
            gpud_print_n(card, size, "%s", name);
        gpud_print(ports, "%s/%s/ports", cards, name);
        for (unsigned j = 0; list_entry(ports, j, number, sizeof(number)); j++) {
            gpud_print(port, "%.400s/%s", ports, number);
            if (is_active(port))
                return true;
        }
    }
    return false;
}

void gpud_rdma_look(const char *root, char *hint, size_t size)
{
    char cards[PATH_SIZE], manager[PATH_SIZE], card[64] = "";
    hint[0] = '\0';
    gpud_print(cards, "%s/sys/class/infiniband", root);
    gpud_print(manager, "%s/dev/infiniband/rdma_cm", root);
    bool active = has_active_port(cards, card, sizeof(card));
    if (!card[0])
        gpud_print_n(hint, size,
                     "this host has no RDMA device; soft-RoCE makes one of any network card: "
                     "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
    else if (!exists(root, "/dev/infiniband/rdma_cm"))
        gpud_print_n(hint, size,
                     "programs cannot use the kernel's rdma_cm (%s is missing): modprobe rdma_ucm",
                     manager);
    else if (access(manager, R_OK | W_OK) < 0)
        gpud_print_n(hint, size, "user %u may not use %s: chmod 666 %s", geteuid(), manager,
                     manager);
    else if (!active)
        gpud_print_n(hint, size,
                     "no port of the RDMA device %s is up (rdma link): is its network interface "
                     "(ip link set NAME up), and the cable in?",
                     card);
}

void gpud_rdma_hint(const char *place, char *hint, size_t size)
{
    gpud_rdma_look("", hint, size);
}

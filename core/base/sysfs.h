/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads /sys, which every user can do: opens nothing that a driver would notice. */
#ifndef GPUD_BASE_SYSFS_H
#define GPUD_BASE_SYSFS_H

#include "base/error.h"

/* The prefix of every path below /sys and /dev: "". Tests replace it by a folder of their own. */
extern const char *gpud_sysfs_root;

#define GPUD_SYSFS_NAME_MAX 64

/* A path below gpud_sysfs_root. */
#define GPUD_SYSFS_PATH_MAX 512
void gpud_sysfs_path(char path[GPUD_SYSFS_PATH_MAX], const char *format, ...) GPUD_PRINTF(2, 3);

/* The first line of a file, without the newline. false: it cannot be read, and the text is "". */
bool gpud_sysfs_read(char *text, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* The last part of a symbolic link's target, for example a driver's name. */
bool gpud_sysfs_follow(char *name, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* Lists a folder in the order of names and the numbers in them. Free it with free(); NULL: it is
 * empty, or out of memory. */
struct gpud_sysfs_name {
    char text[GPUD_SYSFS_NAME_MAX];
};
struct gpud_sysfs_name *gpud_sysfs_list(size_t *count, const char *format, ...) GPUD_PRINTF(2, 3);

/* Whether a name is that of a PCI function below /sys/devices, "0000:63:00.0"; domains of virtual
 * buses have more digits. */
bool gpud_sysfs_is_pci(const char *name);

/* The nearest PCI function above a link's target, as in "0000:63:00.0": some drivers put a device
 * of their own in between. "": no such entry. */
#define GPUD_SYSFS_PCI_MAX 16
void gpud_sysfs_find_pci(char *pci, size_t size, const char *link);

#endif

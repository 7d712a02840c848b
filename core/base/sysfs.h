/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the kernel shows below /sys, to everybody: nothing is opened that a driver would notice. */
#ifndef GPUD_BASE_SYSFS_H
#define GPUD_BASE_SYSFS_H

#include "base/error.h"

/* Stands before every path below /sys and /dev: "". Tests put a folder of their own here. */
extern const char *gpud_sysfs_root;

#define GPUD_SYSFS_NAME_MAX 64

/* A path below gpud_sysfs_root. */
#define GPUD_SYSFS_PATH_MAX 512
void gpud_sysfs_path(char path[GPUD_SYSFS_PATH_MAX], const char *format, ...) GPUD_PRINTF(2, 3);

/* The first line of a file, without its end. false: it cannot be read; the text is "" then. */
bool gpud_sysfs_read(char *text, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* The last part of what a symbolic link leads to: a driver's name, say. */
bool gpud_sysfs_follow(char *name, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* What a folder has, in the order of names and of the numbers in them. To be freed with free();
 * NULL: nothing, or no memory. */
struct gpud_sysfs_name {
    char text[GPUD_SYSFS_NAME_MAX];
};
struct gpud_sysfs_name *gpud_sysfs_list(size_t *count, const char *format, ...) GPUD_PRINTF(2, 3);

/* Whether a name is that of a PCI function below /sys/devices, "0000:63:00.0"; domains of virtual
 * buses have more digits. */
bool gpud_sysfs_is_pci(const char *name);

/* The nearest PCI function above what a link leads to, as in "0000:63:00.0": some drivers put a
 * device of their own between it and the card. "": there is none. */
#define GPUD_SYSFS_PCI_MAX 16
void gpud_sysfs_find_pci(char *pci, size_t size, const char *link);

#endif

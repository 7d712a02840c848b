/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of sysfs. */
#include "base/base.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *gpud_sysfs_root = "";

/* --- files --------------------------------------------------------------------------------- */

static void print_path(char path[GPUD_SYSFS_PATH_MAX], const char *format, va_list args)
{
    gpud_print_n(path, GPUD_SYSFS_PATH_MAX, "%s", gpud_sysfs_root);
    size_t used = strlen(path);
    gpud_text_format(path + used, GPUD_SYSFS_PATH_MAX - used, format, args);
}

#define PRINT_PATH(path, format)        \
    do {                                \
        va_list args;                   \
        va_start(args, format);         \
        print_path(path, format, args); \
        va_end(args);                   \
    } while (0)

void gpud_sysfs_path(char path[GPUD_SYSFS_PATH_MAX], const char *format, ...)
{
    PRINT_PATH(path, format);
}

bool gpud_sysfs_read(char *text, size_t size, const char *format, ...)
{
    char path[GPUD_SYSFS_PATH_MAX];
    PRINT_PATH(path, format);
    text[0] = '\0';
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(text, (int)size, file);
    fclose(file);
    if (!got) {
        text[0] = '\0';
        return false;
    }
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    gpud_text_clean(text, length);
    return true;
}

bool gpud_sysfs_follow(char *name, size_t size, const char *format, ...)
{
    char path[GPUD_SYSFS_PATH_MAX], target[GPUD_SYSFS_PATH_MAX];
    PRINT_PATH(path, format);
    name[0] = '\0';
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    const char *slash = strrchr(target, '/');
    gpud_print_n(name, size, "%s", slash ? slash + 1 : target);
    return true;
}

static int by_version(const void *a, const void *b)
{
    const struct gpud_sysfs_name *x = a, *y = b;
    return strverscmp(x->text, y->text);
}

struct gpud_sysfs_name *gpud_sysfs_list(size_t *count, const char *format, ...)
{
    char path[GPUD_SYSFS_PATH_MAX];
    PRINT_PATH(path, format);
    struct gpud_sysfs_name *names = NULL;
    *count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        struct gpud_sysfs_name *more = realloc(names, (*count + 1) * sizeof(*names));
        if (!more)
            break;
        names = more;
        gpud_print(names[(*count)++].text, "%s", entry->d_name);
    }
    if (dir)
        closedir(dir);
    if (names)
        qsort(names, *count, sizeof(*names), by_version);
    return names;
}

/* --- PCI ----------------------------------------------------------------------------------- */

bool gpud_sysfs_is_pci(const char *text)
{
    size_t domain = strspn(text, "0123456789abcdef");
    unsigned bus, device, function;
    int used = 0;
    return domain >= 4 && strlen(text) < GPUD_SYSFS_PCI_MAX &&
           sscanf(text + domain, ":%2x:%2x.%1x%n", &bus, &device, &function, &used) == 3 &&
           used == 8 && !text[domain + 8];
}

void gpud_sysfs_find_pci(char *pci, size_t size, const char *link)
{
    char path[GPUD_SYSFS_PATH_MAX];
    pci[0] = '\0';
    gpud_sysfs_path(path, "%s", link);
    char *resolved = realpath(path, NULL);
    for (char *slash; resolved && (slash = strrchr(resolved, '/')); *slash = '\0') {
        if (!gpud_sysfs_is_pci(slash + 1))
            continue;
        gpud_print_n(pci, size, "%s", slash + 1);
        break;
    }
    free(resolved);
}

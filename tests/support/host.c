/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/host.h"

#include "support/check.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>

static void make_folders(const char *folder, const char *path, char *whole, size_t size)
{
    snprintf(whole, size, "%s/%s", folder, path);
    for (char *c = whole + strlen(folder) + 1; (c = strchr(c, '/')); c++) {
        *c = '\0';
        CHECK(mkdir(whole, 0777) == 0 || errno == EEXIST, "mkdir %s: %s", whole, strerror(errno));
        *c = '/';
    }
}

static int delete_one(const char *path, const struct stat *what, int type, struct FTW *where)
{
    return remove(path);
}

void set_file(const char *folder, const char *path, const char *text)
{
    char whole[512];
    make_folders(folder, path, whole, sizeof(whole));
    nftw(whole, delete_one, 16, FTW_DEPTH | FTW_PHYS);
    FILE *file = text ? fopen(whole, "we") : NULL;
    CHECK(!text || file, "%s: %s", whole, strerror(errno));
    if (!file)
        return;
    if (text[0])
        fprintf(file, "%s\n", text);
    CHECK(fclose(file) == 0, "%s: %s", whole, strerror(errno));
}

void set_link(const char *folder, const char *path, const char *target)
{
    char whole[512];
    make_folders(folder, path, whole, sizeof(whole));
    unlink(whole);
    CHECK(symlink(target, whole) == 0, "%s: %s", whole, strerror(errno));
}

void move_cards(const char *from, const char *to, const char *const places[][2])
{
    char text[16384];
    FILE *file = fopen(from, "re");
    CHECK(file, "%s: %s", from, strerror(errno));
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    text[size] = '\0';
    CHECK(feof(file), "%s is too long for this", from);
    fclose(file);
    for (; (*places)[0]; places++) {
        char *found = strstr(text, (*places)[0]);
        CHECK(found, "there is nothing at %s", (*places)[0]);
        CHECK_EQUAL(strlen((*places)[0]), strlen((*places)[1]));
        memcpy(found, (*places)[1], strlen((*places)[1]));
    }
    file = fopen(to, "we");
    CHECK(file && fwrite(text, 1, size, file) == size && fclose(file) == 0, "%s: %s", to,
          strerror(errno));
}

/* In place: " | " becomes the end of a line. */
static void break_lines(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        bool bar = strncmp(from, " | ", 3) == 0;
        *to++ = bar ? '\n' : *from;
        from += bar ? 3 : 1;
    }
    *to = '\0';
}

/* "sys/…: text", "sys/… -> target"; other lines are for the reader. PCI addresses have colons, but
 * no blank behind them. */
static void make_line(char *line, const char *folder)
{
    line[strcspn(line, "\n")] = '\0';
    char *arrow = strstr(line, " -> "), *colon = strstr(line, ": ");
    size_t length = strlen(line);
    if (arrow) {
        *arrow = '\0';
        set_link(folder, line, arrow + strlen(" -> "));
    } else if (colon) {
        *colon = '\0';
        break_lines(colon + strlen(": "));
        set_file(folder, line, colon + strlen(": "));
    } else if (length > 0 && line[length - 1] == ':') {
        line[length - 1] = '\0';
        set_file(folder, line, "");
    }
}

void make_host(const char *description, const char *folder, const char *prefix)
{
    char line[1024];
    FILE *file = fopen(description, "re");
    CHECK(file, "%s: %s", description, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        bool is_path = strncmp(line, "sys/", 4) == 0 || strncmp(line, "dev/", 4) == 0;
        if (is_path && (!prefix || strncmp(line, prefix, strlen(prefix)) == 0))
            make_line(line, folder);
    }
    fclose(file);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/await.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/fd.h"
#include "wire/unix/lock.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A sender that starts together with its receiver is not waited for. */
#define PATIENCE GPUD_SEC

/* Notes in one folder; more receivers than this wait without one. */
#define NOTES_MAX 128

/* The users that the receiver's rule admits may read the note. */
static void open_note(int fd, const struct gpud_access_rule *rule)
{
    mode_t mode = rule->kind == GPUD_ACCESS_ALL ? 0644 : 0600;
    if (rule->kind == GPUD_ACCESS_GROUP && fchown(fd, (uid_t)-1, rule->group) == 0)
        mode = 0640;
    fchmod(fd, mode);
}

/* Behind the line that the lock has written. A line feed in the name would begin another line. */
static void write_note(const struct gpud_await_note *note, const struct gpud_access_rule *rule,
                       const char *name, const char *what, int64_t since)
{
    char text[GPUD_ADDRESS_MAX + 100];
    struct stat st;
    uint64_t limit;
    gpud_print(text, "%s\n%s\n%" PRId64 "\n", name, what, since / GPUD_USEC);
    for (char *c = text; c < text + strlen(name); c++)
        if (*c == '\n')
            *c = '?';
    /* With a second name, the file may be other data. */
    if (fstat(note->lock, &st) < 0 || st.st_nlink != 1 ||
        !gpud_file_fits((uint64_t)st.st_size + strlen(text), &limit))
        return;
    if (pwrite(note->lock, text, strlen(text), st.st_size) > 0)
        open_note(note->lock, rule);
}

/* The first file of the folder that no living receiver has. */
static void take_note(struct gpud_await_note *note, const char *folder)
{
    if (access(folder, W_OK) < 0)
        return;
    for (unsigned i = 0; i < NOTES_MAX && note->lock < 0; i++) {
        int length = gpud_print_n(note->path, sizeof(note->path), "%s/.waiting!%u", folder, i);
        if (length < 0 || (size_t)length >= sizeof(note->path))
            return;
        gpud_lock_file_try(note->path, &note->lock);
    }
}

static void write_notes(struct gpud_await *waiting, const struct gpud_address *address,
                        const struct gpud_access_rule *rule, const char *name)
{
    char folder[GPUD_ADDRESS_MAX], own[GPUD_ADDRESS_MAX] = "";
    const char *place = address->place, *entry = strrchr(place, '/');
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t since = (int64_t)now.tv_sec * GPUD_SEC + now.tv_nsec - PATIENCE;
    if (gpud_private_directory(own, sizeof(own), NULL) != GPUD_OK)
        own[0] = '\0'; /* it may be another user's */
    if (place[0] == '/' && entry > place) {
        gpud_print(folder, "%.*s", (int)(entry - place), place);
        take_note(&waiting->note[0], folder);
        if (waiting->note[0].lock >= 0)
            write_note(&waiting->note[0], rule, name, entry + 1, since);
        if (strcmp(folder, own) == 0)
            return;
    }
    if (own[0])
        take_note(&waiting->note[1], own);
    if (waiting->note[1].lock >= 0)
        write_note(&waiting->note[1], rule, name, place, since);
}

void gpud_await_sender(struct gpud_await *waiting, const struct gpud_address *address,
                       const struct gpud_access_rule *rule, const char *name)
{
    int64_t now = gpud_now();
    if (waiting->since == 0)
        waiting->since = now;
    if (waiting->noted || now - waiting->since < PATIENCE)
        return;
    waiting->noted = true;
    waiting->note[0].lock = waiting->note[1].lock = -1;
    write_notes(waiting, address, rule, name);
}

void gpud_await_end(struct gpud_await *waiting)
{
    for (size_t i = 0; waiting->noted && i < 2; i++)
        if (waiting->note[i].lock >= 0)
            gpud_lock_file_drop(waiting->note[i].path, &waiting->note[i].lock);
    waiting->since = 0;
    waiting->noted = false;
}

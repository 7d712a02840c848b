/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* New, closed and reformatted channels cause events in the directory of channels. */
#include "background.h"
#include "support/check.h"
#include "support/make.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define PATIENCE 30000 /* ms */

static struct background background;

/* Waits for the next events and says whether one is about the entry. */
static bool await(int fd, const char *entry, const char *what)
{
    _Alignas(struct inotify_event) char buffer[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    bool seen = false;
    CHECK(poll(&wait, 1, PATIENCE) == 1, "no event: %s", what);
    ssize_t length = read(fd, buffer, sizeof(buffer));
    for (ssize_t at = 0; at < length;) {
        const struct inotify_event *event = (const void *)(buffer + at);
        seen |= event->len && strcmp(event->name, entry) == 0;
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return seen;
}

static uint32_t ask(char directory[128])
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    struct gpud_channel_list *channels;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    WORKS(
        gpud_channel_list_create(BACKGROUND_ADDRESS, 20 * GPUD_SEC, &channels, NULL, &search, &e));
    WORKS(gpud_channel_list_get_info(channels, 0, &info, &e));
    snprintf(directory, 128, "%s", search.directory);
    gpud_channel_list_destroy(&channels);
    return info.epoch;
}

static void a_format(void)
{
    char directory[128];
    uint32_t epoch = ask(directory);
    int fd = inotify_init1(IN_CLOEXEC);
    CHECK(fd >= 0 && inotify_add_watch(fd, directory, IN_ATTRIB) >= 0, "%m");
    background_configure(&background);
    while (!await(fd, BACKGROUND_ADDRESS, "another format"))
        ;
    CHECK(ask(directory) > epoch, "the event came before the format");
    close(fd);
}

/* In a folder elsewhere, or here. */
static void one_comes_and_goes(const char *prefix, const char *name)
{
    char directory[128], address[256], entry[256];
    const char *elsewhere = getenv("XDG_RUNTIME_DIR");
    ask(directory);
    snprintf(address, sizeof(address), "%s%s%s%s", prefix, prefix[0] ? elsewhere : "",
             prefix[0] ? "/" : "", name);
    snprintf(entry, sizeof(entry), "%s%s%s%s", prefix[0] ? ".unix" : "", prefix[0] ? elsewhere : "",
             prefix[0] ? "/" : "", name);
    for (char *at = entry; *at; at++)
        *at = *at == '/' ? '!' : *at;
    int fd = inotify_init1(IN_CLOEXEC);
    CHECK(fd >= 0 && inotify_add_watch(fd, directory, IN_CREATE | IN_DELETE) >= 0, "%m");
    struct gpud_sender *sender = NEW_SENDER(background.context, .address = address);
    while (!await(fd, entry, "it comes"))
        ;
    gpud_sender_destroy(&sender);
    while (!await(fd, entry, "it goes"))
        ;
    close(fd);
}

static void coming_and_going(void)
{
    one_comes_and_goes("", "here");
    one_comes_and_goes("unix:", "elsewhere");
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"another format", a_format},
        {"channels that come and go", coming_and_going},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}

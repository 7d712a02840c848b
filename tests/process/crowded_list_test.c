/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A process of the same user fills the runtime directory with sockets and links, dead and living:
 * the channels of other processes are still listed, and the list says how many it leaves out. A
 * folder, or an address, can also be queried by name. */
#include "actor.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define DEAD 3000
#define LINKS 3000
#define LIVING 1000
#define TRIES 60

static char base[64], folder[64];
static struct gpud_context *context;

static void make_socket(unsigned number, bool lives)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof(name.sun_path), "%s/gpudirect/%s%u", base,
             lives ? "living" : "dead", number);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0, "%s: %s", name.sun_path,
          strerror(errno));
    if (lives)
        CHECK(listen(fd, 8) == 0, "listen: %s", strerror(errno));
    else
        close(fd);
}

/* This many of which live. */
static void crowd(const void *living)
{
    for (unsigned i = 0; i < DEAD; i++)
        make_socket(i, false);
    for (unsigned i = 0; i < LINKS; i++) {
        char path[128], target[64];
        snprintf(path, sizeof(path), "%s/gpudirect/.unix!nowhere!%u", base, i);
        snprintf(target, sizeof(target), "/nowhere/%u", i);
        CHECK(symlink(target, path) == 0, "symlink: %s", strerror(errno));
    }
    for (unsigned i = 0; i < *(const unsigned *)living; i++)
        make_socket(i, true);
    say("ready");
    stay();
}

struct listed {
    struct gpud_channel_list *channels;
    uint32_t count;
    struct gpud_channel_search_info search;
};

static bool has_answered(const struct listed *listed, const char *address)
{
    for (uint32_t i = 0; i < listed->count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        WORKS(gpud_channel_list_get_info(listed->channels, i, &info, &e));
        if (strcmp(info.address, address) == 0)
            return info.answered;
    }
    return false;
}

/* The live processes of the crowd do not answer, and each is waited for. */
static struct listed ask_until_answered(const char *one, const char *other)
{
    struct listed listed = {.search = GPUD_INFO_INIT(listed.search)};
    for (int i = 0; i < TRIES; i++) {
        WORKS(gpud_channel_list_create(NULL, GPUD_SEC, &listed.channels, &listed.count,
                                       &listed.search, &e));
        if (has_answered(&listed, one) && has_answered(&listed, other))
            return listed;
        gpud_channel_list_destroy(&listed.channels);
    }
    FAIL("%s and %s are not listed with an answer", one, other);
}

static void test_crowd(void)
{
    char path[128], number[32], link[128];
    struct rlimit limit;
    struct stat st;
    struct actor actor;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit: %s", strerror(errno));
    unsigned living = limit.rlim_max < LIVING + 100 ? (unsigned)limit.rlim_max - 100 : LIVING;
    CHECK(living > GPUD_CHANNELS_MAX, "only %u sockets", living);

    snprintf(path, sizeof(path), "unix:%s/cam2", folder);
    AUTO(gpud_sender_destroy)
    struct gpud_sender *here = NEW_SENDER(context, .address = "cam1");
    AUTO(gpud_sender_destroy) struct gpud_sender *elsewhere = NEW_SENDER(context, .address = path);
    actor_fork(&actor, crowd, &living);
    actor_await(&actor, "ready");

    struct listed listed = ask_until_answered("cam1", path);
    size_t omitted = listed.search.omitted;
    CHECK_EQUAL(listed.count, GPUD_CHANNELS_MAX);
    CHECK_EQUAL(omitted, living + 2 - GPUD_CHANNELS_MAX);
    snprintf(number, sizeof(number), "%zu more are not listed", omitted);
    CHECK(strstr(listed.search.note, number), "it says \"%s\"", listed.search.note);
    gpud_channel_list_destroy(&listed.channels);
    snprintf(link, sizeof(link), "%s/gpudirect/.unix!nowhere!0", base);
    CHECK(lstat(link, &st) < 0, "links that lead nowhere stay");

    actor_finish(&actor);
    listed = ask_until_answered("cam1", path);
    CHECK(listed.count == 2 && listed.search.omitted == 0 && !listed.search.note[0],
          "of the dead %u are listed", listed.count - 2);
    gpud_channel_list_destroy(&listed.channels);
}

/* The process that sends at the only address in that folder; -1: none does. */
static int64_t user_in(const char *asked, const char *address)
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    struct gpud_channel_list *channels;
    uint32_t count;
    WORKS(gpud_channel_list_create(asked, 20 * GPUD_SEC, &channels, &count, NULL, &e));
    if (count > 0) {
        CHECK_EQUAL(count, 1);
        WORKS(gpud_channel_list_get_info(channels, 0, &info, &e));
        CHECK(strcmp(info.address, address) == 0 && info.answered, "%s: %s", info.address,
              info.reason);
    }
    gpud_channel_list_destroy(&channels);
    return count > 0 ? info.user : -1;
}

struct camera {
    uid_t user;
    const char *address;
};

/* In a process of that user. */
static void send_as(const void *part)
{
    const struct camera *camera = part;
    char path[100];
    CHECK(setuid(camera->user) == 0, "setuid: %s", strerror(errno));
    setenv("XDG_RUNTIME_DIR", folder, 1);
    context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = camera->address);
    say("ready");
    stay();
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    snprintf(path, sizeof(path), "%s/gpudirect", folder);
    rmdir(path);
}

/* As root in another user's folder, too. */
static void test_folder(uid_t user)
{
    char path[100], asked[80];
    struct actor sender;
    snprintf(path, sizeof(path), "unix:%s/cam3", folder);
    snprintf(asked, sizeof(asked), "unix:%s/", folder);
    CHECK(chown(folder, user, (gid_t)-1) == 0, "chown: %s", strerror(errno));
    actor_fork(&sender, send_as, &(struct camera){user, path});
    actor_await(&sender, "ready");
    CHECK(user_in(NULL, "") == -1, "another runtime directory is listed");
    CHECK_EQUAL(user_in(asked, path), user);
    CHECK_EQUAL(user_in(path, path), user);
    actor_finish(&sender);
    CHECK(user_in(asked, path) == -1, "a sender that is gone is listed");
}

static void test_nothing_there(void)
{
    AUTO(gpud_channel_list_destroy) struct gpud_channel_list *channels = NULL;
    EXPECT(GPUD_IO, "cannot look for channels in /nowhere/at all: No such file",
           gpud_channel_list_create("unix:/nowhere/at all/", 0, &channels, NULL, NULL, &e));
    uint32_t count;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    WORKS(gpud_channel_list_create("unix:/nowhere/cam1", 0, &channels, &count, &search, &e));
    CHECK(count == 0 && strstr(search.note, "there is no folder /nowhere here"), "it says \"%s\"",
          search.note);
}

int main(void)
{
    char remove[160];
    snprintf(base, sizeof(base), "/tmp/gpudirect-crowd-XXXXXX");
    snprintf(folder, sizeof(folder), "/tmp/gpudirect-crowd-XXXXXX");
    CHECK(mkdtemp(base) && mkdtemp(folder), "no folders: %s", strerror(errno));
    setenv("XDG_RUNTIME_DIR", base, 1);
    CASE("an address or a folder where there is nothing", test_nothing_there());
    CASE("a sender with another runtime directory", test_folder(geteuid()));
    if (geteuid() == 0) {
        SAY("and of another user, asked by root");
        test_folder(65534);
    }
    context = NEW_CONTEXT();
    SAY("a crowd of %d dead sockets, %d dangling links and living ones", DEAD, LINKS);
    test_crowd();
    gpud_context_destroy(&context);
    snprintf(remove, sizeof(remove), "rm -r %s %s", base, folder);
    return system(remove);
}

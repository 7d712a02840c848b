/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Admission of users: the valid values, what certificates go with, the permissions of the socket's
 * file and its folders, and the identity of a peer. process-users tests two users. */
#include "base/base.h"
#include "support/make.h"
#include "support/run.h"
#include "wire/unix/unix.h"

#include <fcntl.h>
#include <gpudirect/gpudirect.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

static char folder[] = "/tmp/gpudirect-access-XXXXXX";

static void test_parse(void)
{
    static const struct {
        const char *text;
        enum gpud_access_kind kind;
    } good[] = {{NULL, GPUD_ACCESS_USER},
                {"", GPUD_ACCESS_USER},
                {"user", GPUD_ACCESS_USER},
                {"all", GPUD_ACCESS_ALL},
                {"group:root", GPUD_ACCESS_GROUP}};
    struct gpud_access_rule rule;
    char own[32];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        WORKS(gpud_access_parse(good[i].text, &rule, &e));
        CHECK_EQUAL(rule.kind, good[i].kind);
    }
    CHECK_EQUAL(rule.group, 0);
    snprintf(own, sizeof(own), "group:%u", getegid());
    WORKS(gpud_access_parse(own, &rule, &e));
    CHECK(rule.kind == GPUD_ACCESS_GROUP && rule.group == getegid(), "group %u", rule.group);
    memset(&rule, 0x5a, sizeof(rule));
    EXPECT(GPUD_INVALID, "there is no such group",
           gpud_access_parse("group:no-such\x1bgroup", &rule, &e));
    EXPECT(GPUD_INVALID, "there is no such group", gpud_access_parse("group:1x", &rule, &e));
    EXPECT(GPUD_INVALID, "there is no such group",
           gpud_access_parse("group:99999999999999999999", &rule, &e));
    EXPECT(GPUD_INVALID, "user, group:NAME or all", gpud_access_parse("group:", &rule, &e));
    EXPECT(GPUD_INVALID, "user, group:NAME or all", gpud_access_parse("everybody", &rule, &e));
    CHECK(rule.kind == (enum gpud_access_kind)0x5a5a5a5a, "written although it failed");

    /* Users serve on one host and keys between hosts, and neither replaces the other. */
    rule = (struct gpud_access_rule){.kind = GPUD_ACCESS_USER};
    char path[300];
    WORKS(gpud_access_set_key(&rule, NULL, &e));
    CHECK(rule.key_file[0] == '\0', "no key is \"%s\"", rule.key_file);
    WORKS(gpud_access_check(&rule, false, &e));
    WORKS(gpud_access_check(&rule, true, &e));
    WORKS(gpud_access_set_key(&rule, "/etc/gpudirect.key", &e));
    WORKS(gpud_access_check(&rule, true, &e));
    EXPECT(GPUD_INVALID, "psk-file is for addresses of other hosts",
           gpud_access_check(&rule, false, &e));
    rule = (struct gpud_access_rule){.allow_unauthenticated = true};
    WORKS(gpud_access_check(&rule, true, &e));
    EXPECT(GPUD_INVALID, "allow-unauthenticated is for addresses",
           gpud_access_check(&rule, false, &e));
    rule = (struct gpud_access_rule){.kind = GPUD_ACCESS_ALL};
    WORKS(gpud_access_check(&rule, false, &e));
    EXPECT(GPUD_INVALID, "users of one host", gpud_access_check(&rule, true, &e));
    memset(path, 'k', sizeof(path));
    path[sizeof(rule.key_file)] = '\0';
    EXPECT(GPUD_INVALID, "at most 255 fit", gpud_access_set_key(&rule, path, &e));
    path[sizeof(rule.key_file) - 1] = '\0';
    WORKS(gpud_access_set_key(&rule, path, &e));
}

/* Certificates: all three files or none, over a network, and no key beside them. */
static void test_certificates(void)
{
    static const struct {
        const char *file[3]; /* certificate, key, ca */
        const char *why;
    } parts[] = {
        {{"/c", NULL, NULL}, "tls-certificate is set without tls-key"},
        {{"/c", "/k", ""}, "tls-certificate is set without tls-ca"},
        {{"/c", NULL, "/a"}, "tls-certificate is set without tls-key"},
        {{NULL, "/k", NULL}, "tls-key is set without tls-certificate"},
        {{"", "/k", "/a"}, "tls-key is set without tls-certificate"},
        {{NULL, NULL, "/a"}, "tls-ca is set without tls-certificate"},
    };
    struct gpud_access_rule rule = {.kind = GPUD_ACCESS_USER};
    char path[300];
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *const *file = parts[i].file;
        WORKS(gpud_access_set_certificates(&rule, file[0], file[1], file[2], &e));
        EXPECT(GPUD_INVALID, parts[i].why, gpud_access_check(&rule, true, &e));
        EXPECT(GPUD_INVALID, "is for addresses of other hosts (tcp://)",
               gpud_access_check(&rule, false, &e));
    }
    WORKS(gpud_access_set_certificates(&rule, "/c", "/k", "/a", &e));
    CHECK(strcmp(rule.tls_certificate, "/c") == 0 && strcmp(rule.tls_key, "/k") == 0 &&
              strcmp(rule.tls_ca, "/a") == 0,
          "the files are \"%s\", \"%s\" and \"%s\"", rule.tls_certificate, rule.tls_key,
          rule.tls_ca);
    WORKS(gpud_access_check(&rule, true, &e));
    EXPECT(GPUD_INVALID, "tls-certificate is for addresses of other hosts",
           gpud_access_check(&rule, false, &e));
    WORKS(gpud_access_set_key(&rule, "", &e)); /* as NULL */
    WORKS(gpud_access_check(&rule, true, &e));
    WORKS(gpud_access_set_key(&rule, "/psk", &e));
    EXPECT(GPUD_INVALID, "psk-file and tls-certificate are two ways",
           gpud_access_check(&rule, true, &e));
    WORKS(gpud_access_set_certificates(&rule, NULL, "", NULL, &e));
    WORKS(gpud_access_check(&rule, true, &e));

    memset(path, 'k', sizeof(path));
    path[sizeof(rule.tls_key)] = '\0';
    EXPECT(GPUD_INVALID, "tls-certificate: a path of 256 bytes, at most 255 fit",
           gpud_access_set_certificates(&rule, path, NULL, NULL, &e));
    EXPECT(GPUD_INVALID, "tls-key: a path",
           gpud_access_set_certificates(&rule, NULL, path, NULL, &e));
    EXPECT(GPUD_INVALID, "tls-ca: a path",
           gpud_access_set_certificates(&rule, NULL, NULL, path, &e));
    path[sizeof(rule.tls_key) - 1] = '\0';
    WORKS(gpud_access_set_certificates(&rule, path, path, path, &e));
}

/* The same through the public parameters. */
static void test_certificate_params(void)
{
    struct gpud_sender_params sends = GPUD_PARAMS_INIT(sends);
    struct gpud_receiver_params receives = GPUD_PARAMS_INIT(receives);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NULL;
    struct gpud_receiver *receiver = NULL;
    sends.address = receives.address = "cam1";
    sends.tls_certificate = receives.tls_certificate = "/c";
    EXPECT(GPUD_INVALID, "tls-certificate is for addresses of other hosts",
           gpud_sender_create(context, &sends, &sender, &e));
    EXPECT(GPUD_INVALID, "tls-certificate is for addresses of other hosts",
           gpud_receiver_create(context, &receives, &receiver, &e));
    sends.tls_certificate = receives.tls_certificate = NULL;
    sends.tls_ca = receives.tls_ca = "/a";
    EXPECT(GPUD_INVALID, "tls-ca is for addresses of other hosts",
           gpud_sender_create(context, &sends, &sender, &e));
    EXPECT(GPUD_INVALID, "tls-ca is for addresses of other hosts",
           gpud_receiver_create(context, &receives, &receiver, &e));
    sends.address = receives.address = "rdma://127.0.0.1:17174";
    struct gpud_address address;
    if (gpud_address_resolve(sends.address, &address, NULL) != GPUD_OK) {
        SAY("not shown for rdma://, which this build does not have");
        gpud_context_destroy(&context);
        return;
    }
    EXPECT(GPUD_INVALID, "tls-ca is set without tls-certificate",
           gpud_sender_create(context, &sends, &sender, &e));
    EXPECT(GPUD_INVALID, "tls-ca is set without tls-certificate",
           gpud_receiver_create(context, &receives, &receiver, &e));
    sends.tls_certificate = receives.tls_certificate = "/c";
    sends.tls_key = receives.tls_key = "/k";
    sends.psk_file = receives.psk_file = "/psk";
    EXPECT(GPUD_INVALID, "are two ways", gpud_sender_create(context, &sends, &sender, &e));
    EXPECT(GPUD_INVALID, "are two ways", gpud_receiver_create(context, &receives, &receiver, &e));
    sends.psk_file = receives.psk_file = NULL;
    EXPECT(GPUD_UNSUPPORTED, "rdma:// has no TLS",
           gpud_sender_create(context, &sends, &sender, &e));
    WORKS(gpud_receiver_create(context, &receives, &receiver, &e));
    struct gpud_frame *frame;
    EXPECT(GPUD_UNSUPPORTED, "rdma:// has no TLS", gpud_receiver_acquire(receiver, 0, &frame, &e));
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
}

/* Whatever the umask is. */
static void test_modes_and_addresses(void)
{
    static const struct {
        const char *access;
        unsigned mode;
    } modes[] = {{"user", 0600}, {"group:", 0660}, {"all", 0666}};
    char path[GPUD_SOCKET_PATH_MAX], text[32];
    snprintf(path, sizeof(path), "%s/s", folder);
    for (size_t i = 0; i < 6; i++) {
        struct gpud_access_rule rule;
        struct gpud_socket_listener listener;
        struct stat st;
        snprintf(text, sizeof(text), "%s", modes[i / 2].access);
        if (text[5] == ':')
            snprintf(text + 6, sizeof(text) - 6, "%u", getegid());
        WORKS(gpud_access_parse(text, &rule, &e));
        mode_t before = umask(i % 2 ? 0777 : 0);
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_socket_listen(&listener, path, &rule, &error);
        umask(before);
        CHECK(status == GPUD_OK, "%s", error.reason);
        CHECK(lstat(path, &st) == 0, "lstat: %s", strerror(errno));
        CHECK((st.st_mode & 07777) == (i % 2 && i < 2 ? 0 : modes[i / 2].mode),
              "with access=%s the socket has mode %o", text, st.st_mode & 07777);
        gpud_socket_unlisten(&listener);
    }
    /* Only members of a group may give it files. */
    struct gpud_access_rule rule = {
        .kind = GPUD_ACCESS_GROUP, .group = getegid() + 4242, .group_name = "far"};
    struct gpud_socket_listener listener;
    if (geteuid() != 0)
        EXPECT(GPUD_NO_ACCESS, "to the group far: is this user in it?",
               gpud_socket_listen(&listener, path, &rule, &e));

    SAY("addresses");
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    char address[108];
    setenv("XDG_RUNTIME_DIR", folder, 1);
    struct gpud_context *context = NEW_CONTEXT();
    params.address = "cam1";
    params.access = "all";
    EXPECT(GPUD_INVALID, "use address=unix:/path in a folder that they can enter",
           gpud_sender_create(context, &params, &sender, &e));
    snprintf(address, sizeof(address), "unix:%s/cam1", folder);
    params.address = address;
    EXPECT(GPUD_NO_ACCESS, "they cannot enter the folder /tmp/gpudirect-access-",
           gpud_sender_create(context, &params, &sender, &e));
    EXPECT(GPUD_NO_ACCESS, "chmod o+x", gpud_sender_create(context, &params, &sender, &e));
    params.access = "group:no-such-group";
    EXPECT(GPUD_INVALID, "there is no such group",
           gpud_sender_create(context, &params, &sender, &e));
    CHECK(chmod(folder, 0711) == 0, "chmod");
    sender = NEW_SENDER(context, .address = address, .access = "all");
    gpud_sender_destroy(&sender);
    CHECK(chmod(folder, 0700) == 0, "chmod");

    EXPECT(GPUD_INVALID, "user, group:NAME or all",
           gpud_receiver_create(
               context,
               WITH_SIZE(gpud_receiver_params, .address = "cam1", .access = "nobody-knows"),
               &receiver, &e));
    receiver = NEW_RECEIVER(context, .address = "cam1", .access = "group:root");
    gpud_receiver_destroy(&receiver);
    gpud_context_destroy(&context);
    snprintf(path, sizeof(path), "%s/gpudirect", folder);
    rmdir(path);
}

static void test_peers(void)
{
    int ends[2];
    char name[GPUD_USER_MAX];
    struct gpud_peer peer;
    memset(&peer, 0xcc, sizeof(peer)); /* as on a stack */
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    WORKS(gpud_access_find_peer(ends[0], &peer, &e));
    CHECK(peer.pid == getpid() && peer.uid == geteuid() && !peer.foreign, "process %d of user %u",
          peer.pid, peer.uid);
    CHECK(!peer.host[0], "a peer on a socket is on another host");
    struct gpud_access_rule rule = {.kind = GPUD_ACCESS_USER};
    CHECK(gpud_access_admits(&rule, ends[0], &peer), "this very user is turned away");
    /* As if it were another one. */
    peer.foreign = true;
    CHECK(!gpud_access_admits(&rule, ends[0], &peer), "any user is admitted");
    rule = (struct gpud_access_rule){.kind = GPUD_ACCESS_GROUP, .group = getegid()};
    CHECK(gpud_access_admits(&rule, ends[0], &peer), "a member of the group is refused");
    rule.group = getegid() + 4242;
    CHECK(!gpud_access_admits(&rule, ends[0], &peer), "a user outside the group is admitted");
    rule.kind = GPUD_ACCESS_ALL;
    CHECK(gpud_access_admits(&rule, ends[0], &peer), "all, but for this one");
    gpud_fd_close(&ends[0]);
    gpud_fd_close(&ends[1]);
    CHECK_TEXT(gpud_user_name(0, name), "root (0)");
    CHECK_TEXT(gpud_user_name(4242424242u, name), "user 4242424242");
}

/* Of what a namespace does not map, all looks like one user. Who is that user itself must not take
 * all others for itself: a child with the credentials that its user namespace gives it looks at a
 * socket of its parent's. */
struct look {
    const char *map, *name;
    bool foreign; /* the parent's user, there */
    int ends[2];
};

static void look_from_namespace(void *argument)
{
    const struct look *look = argument;
    char text[GPUD_USER_MAX];
    struct gpud_peer peer;
    int file = unshare(CLONE_NEWUSER) == 0 ? open("/proc/self/uid_map", O_WRONLY) : -1;
    if (file < 0 || write(file, look->map, strlen(look->map)) < 0)
        _exit(77);
    WORKS(gpud_access_find_peer(look->ends[1], &peer, &e));
    CHECK(peer.foreign == look->foreign, "with the map %s user %u is %s", look->map, peer.uid,
          peer.foreign ? "another" : "the same");
    CHECK_TEXT(gpud_user_name(peer.uid, text), look->name);
    struct gpud_access_rule rule = {.kind = GPUD_ACCESS_GROUP, .group = 65534};
    CHECK(!look->foreign || !gpud_access_admits(&rule, look->ends[1], &peer),
          "a group that stands for all unknown ones has members");
}

static void test_namespaces(void)
{
    char map[64];
    struct look inside = {map, "root (0)", false},
                beyond = {map, "a user of another user namespace (65534)", true};
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, inside.ends) == 0, "socketpair");
    memcpy(beyond.ends, inside.ends, sizeof(beyond.ends));
    snprintf(map, sizeof(map), "0 %u 1", geteuid());
    if (run_child(look_from_namespace, &inside) == 77) {
        SAY("not shown: this machine forbids user namespaces");
    } else {
        snprintf(map, sizeof(map), "65534 %u 1", geteuid());
        run_child(look_from_namespace, &beyond);
        CHECK(!gpud_host_user_is_ambiguous(geteuid() == 65534 ? 0 : geteuid()),
              "any user is unknown");
    }
    gpud_fd_close(&inside.ends[0]);
    gpud_fd_close(&inside.ends[1]);
}

int main(void)
{
    CHECK(mkdtemp(folder), "a folder");
    SAY("what may be written");
    test_parse();
    SAY("certificates");
    test_certificates();
    test_certificate_params();
    SAY("the file's modes");
    test_modes_and_addresses();
    SAY("the peer's identity");
    test_peers();
    SAY("user namespaces");
    test_namespaces();
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
    return 0;
}

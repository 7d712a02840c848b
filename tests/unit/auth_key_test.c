/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Key files: valid keys, and the reasons for refusing others. Addresses on which a sender may
 * listen without a key. */
#include "support/run.h"
#include "wire/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define MAKES "(umask 077; head -c 32 /dev/urandom | base64 > %s)"

static char folder[] = "/tmp/gpud-key-XXXXXX", path[64];

/* The user that the library sees. */
static uid_t pretended;

__typeof__(geteuid) __real_geteuid, __wrap_geteuid;
uid_t __wrap_geteuid(void)
{
    return pretended;
}

static void put(const void *bytes, size_t size, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && fchmod(fd, mode) == 0, "%s: %s",
          path, strerror(errno));
    close(fd);
}

static void put_text(const char *text)
{
    put(text, strlen(text), 0600);
}

/* The key is exactly the content of the file. */
static void expect_key(const void *bytes, size_t size)
{
    struct gpud_auth_key key;
    memset(&key, 0xa5, sizeof(key));
    WORKS(gpud_auth_read_key(path, &key, &e));
    CHECK_EQUAL(key.size, size);
    CHECK(memcmp(key.bytes, bytes, size) == 0, "another key");
    for (size_t i = size; i < sizeof(key.bytes); i++)
        CHECK(key.bytes[i] == 0, "something is left behind the key");
    gpud_auth_wipe_key(&key);
    static const struct gpud_auth_key none;
    CHECK(key.size == 0 && memcmp(key.bytes, none.bytes, sizeof(none.bytes)) == 0,
          "the key is not wiped");
}

/* Refused, with the text and what comes from its %s; the caller's key stays, and no byte of the
 * file is told. */
static void expect_refused(enum gpud_status wanted, const char *text)
{
    struct gpud_auth_key key, before;
    struct gpud_error error = {.reason = ""};
    char sentence[GPUD_REASON_MAX];
    snprintf(sentence, sizeof(sentence), text, path, path);
    memset(&key, 0xa5, sizeof(key));
    before = key;
    EXPECT(wanted, sentence, gpud_auth_read_key(path, &key, &e));
    CHECK(memcmp(&key, &before, sizeof(key)) == 0, "the caller's key changed");
    CHECK(gpud_auth_read_key(path, &key, &error) == wanted && !strstr(error.reason, "secret"),
          "\"%s\" tells the key", error.reason);
    CHECK(gpud_auth_read_key(path, &key, NULL) == wanted, "without a place for the reason");
}

/* A user that may not read the key at all. */
static void test_denied(void *argument)
{
    CHECK(chmod(folder, 0755) == 0 && setgid(4243) == 0 && setuid(4243) == 0, "setuid: %s",
          strerror(errno));
    pretended = 4243;
    expect_refused(GPUD_NO_ACCESS, "user 4243, as whom this program runs, may not read the key "
                                   "file %s: chown 4243 %s");
}

static void test_files(void)
{
    uint8_t bytes[GPUD_AUTH_KEY_MAX + 8];
    memset(bytes, 'k', sizeof(bytes));
    for (size_t size = 16; size <= GPUD_AUTH_KEY_MAX; size += size == 17 ? 1006 : 1) {
        put(bytes, size, 0600);
        expect_key(bytes, size);
        bytes[size] = '\n';
        put(bytes, size + 1, 0400);
        expect_key(bytes, size);
        /* Two of them are one more than belongs to no key. */
        bytes[size + 1] = '\n';
        put(bytes, size + 2, 0600);
        if (size < GPUD_AUTH_KEY_MAX)
            expect_key(bytes, size + 1);
        else
            expect_refused(GPUD_INVALID, "%s has more than 1024 bytes");
        bytes[size] = bytes[size + 1] = 'k';
    }
    uint8_t any[32];
    for (size_t i = 0; i < sizeof(any); i++)
        any[i] = (uint8_t)(7 * i); /* zeros, newlines and what is no text */
    put(any, sizeof(any), 0600);
    expect_key(any, sizeof(any));

    for (int newline = 0; newline < 2; newline++) {
        put_text(newline ? "\n" : "");
        expect_refused(GPUD_INVALID, "the key in %s has 0 bytes, and 16 is the minimum: " MAKES);
        put_text(newline ? "secretsecret123\n" : "secretsecret123");
        expect_refused(GPUD_INVALID, "the key in %s has 15 bytes, and 16 is the minimum: " MAKES);
    }
    for (size_t more = 1; more <= 8; more++) {
        put(bytes, GPUD_AUTH_KEY_MAX + more, 0600);
        expect_refused(GPUD_INVALID, "%s has more than 1024 bytes, the maximum for a key: " MAKES);
    }

    SAY("owners");
    /* The user is simulated; the file's owner can be changed only by root, and not everywhere. */
    char text[256];
    uid_t real = pretended;
    put_text("secretsecretsecret");
    if (real != 0) {
        pretended = real + 1;
        snprintf(text, sizeof(text), "nor to root: chown %u %%s", pretended);
        expect_refused(GPUD_NO_ACCESS, text);
        pretended = real;
        return;
    }
    pretended = 4243;
    expect_key("secretsecretsecret", 18); /* root's file serves every user that can read it */
    if (chown(path, 4242, (gid_t)-1) < 0) {
        SAY("  other users' files cannot be made here: %s", strerror(errno));
        pretended = real;
        return;
    }
    expect_refused(GPUD_NO_ACCESS, "the key file %s belongs to user 4242, neither to user 4243, as "
                                   "whom this program runs, nor to root: chown 4243 %s");
    pretended = 4242;
    expect_key("secretsecretsecret", 18);
    pretended = real;
    expect_refused(GPUD_NO_ACCESS, "the key file %s belongs to user 4242, neither to user 0,");

    CHECK_EQUAL(run_child(test_denied, NULL), 0);
}

static void test_kinds(void)
{
    SAY("kinds of files");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char link[96];
    unlink(path);
    expect_refused(GPUD_INVALID, "there is no key file %s: " MAKES);
    CHECK(mkdir(path, 0700) == 0, "mkdir: %s", strerror(errno));
    expect_refused(GPUD_INVALID, "%s is not a regular file, as a key file must be: " MAKES);
    CHECK(rmdir(path) == 0 && mkfifo(path, 0600) == 0, "mkfifo: %s", strerror(errno));
    test_alarm(60); /* for a library that waits for a writer */
    expect_refused(GPUD_INVALID, "%s is not a regular file, as a key file must be: " MAKES);
    alarm(0);
    unlink(path);
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0, "bind: %s",
          strerror(errno));
    expect_refused(GPUD_INVALID, "%s is not a regular file, as a key file must be: " MAKES);
    close(fd);

    /* A link is what it leads to. */
    put_text("secretsecretsecret");
    snprintf(link, sizeof(link), "%s.link", path);
    CHECK(symlink(path, link) == 0, "symlink: %s", strerror(errno));
    char target[sizeof(path)];
    strcpy(target, path);
    strcpy(path, link);
    expect_key("secretsecretsecret", 18);
    CHECK(chmod(target, 0640) == 0, "chmod: %s", strerror(errno));
    expect_refused(GPUD_NO_ACCESS, "can use the key file %s (mode 0640)");
    CHECK(unlink(target) == 0, "unlink: %s", strerror(errno));
    expect_refused(GPUD_INVALID, "there is no key file %s");
    CHECK(unlink(link) == 0, "unlink: %s", strerror(errno));
    strcpy(path, "/dev/null");
    expect_refused(GPUD_INVALID, "%s is not a regular file");
    strcpy(path, "/dev/null/key");
    expect_refused(GPUD_INVALID, "there is no key file %s");
    strcpy(path, target);
}

/* Without a key. */
static void expect_listening(const struct sockaddr *address, const char *text, bool loopback)
{
    char sentence[128];
    snprintf(sentence, sizeof(sentence),
             "can reach the address %s could connect: set psk-file=", text);
    for (int has_key = 0; has_key < 2; has_key++)
        for (int allowed = 0; allowed < 2; allowed++) {
            if (loopback || has_key || allowed) {
                WORKS(gpud_auth_may_listen(address, has_key, allowed, &e));
                continue;
            }
            EXPECT(GPUD_NO_ACCESS, sentence, gpud_auth_may_listen(address, has_key, allowed, &e));
            EXPECT(GPUD_NO_ACCESS, "or allow-unauthenticated=true where everyone",
                   gpud_auth_may_listen(address, false, false, &e));
            CHECK(gpud_auth_may_listen(address, false, false, NULL) == GPUD_NO_ACCESS, "%s", text);
        }
}

static void test_listening(void)
{
    /* All users of this host alone reach those of the second row. ::127.0.0.1 is an old notation,
     * which no host is reached by; 64:ff9b::7f00:1 is translated on its way to another host's
     * 127.0.0.1. */
    static const char *const addresses[2][20] = {{"126.255.255.255",
                                                  "128.0.0.0",
                                                  "0.0.0.0",
                                                  "0.0.0.127",
                                                  "1.0.0.127",
                                                  "255.255.255.255",
                                                  "10.0.0.1",
                                                  "192.168.1.127",
                                                  "169.254.0.1",
                                                  "::",
                                                  "::2",
                                                  "::127.0.0.1",
                                                  "1::1",
                                                  "fe80::1",
                                                  "ff02::1",
                                                  "2001:db8::1",
                                                  "::ffff:0.0.0.0",
                                                  "::ffff:10.0.0.127",
                                                  "::ffff:128.0.0.1",
                                                  "64:ff9b::7f00:1"},
                                                 {"127.0.0.1", "127.0.0.0", "127.1.2.3",
                                                  "127.255.255.255", "::1", "::ffff:127.0.0.1",
                                                  "::ffff:127.9.9.9"}};
    for (size_t i = 0; i < 2 * 20; i++) {
        const char *text = addresses[i / 20][i % 20];
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(7174)};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(7174)};
        if (!text)
            continue;
        bool is_v4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
        CHECK(is_v4 || inet_pton(AF_INET6, text, &v6.sin6_addr) == 1, "%s", text);
        expect_listening(is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, text, i / 20);
    }
    /* InfiniBand's own, whose first bytes may be anything. */
    struct sockaddr_storage other;
    memset(&other, 127, sizeof(other));
    other.ss_family = 27;
    expect_listening((struct sockaddr *)&other, "of family 27", false);
}

int main(void)
{
    pretended = __real_geteuid();
    CHECK(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    snprintf(path, sizeof(path), "%s/key", folder);
    SAY("sizes");
    test_files();
    test_kinds();
    SAY("modes");
    put_text("secretsecretsecret");
    for (mode_t mode = 0600; mode <= 0677; mode++) {
        char text[128];
        CHECK(chmod(path, mode) == 0, "chmod: %s", strerror(errno));
        snprintf(text, sizeof(text), "can use the key file %%s (mode %04o): chmod 600 %%s", mode);
        if (mode & 077)
            expect_refused(GPUD_NO_ACCESS, text);
        else
            expect_key("secretsecretsecret", 18);
    }
    CHECK(chmod(path, 0600) == 0, "chmod: %s", strerror(errno));
    SAY("a regular file whose read fails, as address 0 of a process is not mapped");
    struct gpud_auth_key key;
    EXPECT(GPUD_IO, "cannot read the key file /proc/self/mem",
           gpud_auth_read_key("/proc/self/mem", &key, &e));
    SAY("listening without a key");
    test_listening();
    unlink(path);
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses and how a path is claimed: good and bad names, directories that are not private,
 * sockets left by dead processes, those of live ones, and many threads that want the same one. */
#include "base/base.h"
#include "support/check.h"
#include "support/count.h"
#include "wire/unix/unix.h"

#include "support/run.h"

#include <fcntl.h>
#include <gpudirect/channel.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char base[64], runtime_dir[80];

static void in_base(char *path, const char *name)
{
    gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s", base, name);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    CHECK(lstat(path, &st) == 0, "%s: %s", path, strerror(errno));
    return st.st_mode & 07777;
}

/* Four bytes, which are a user's. */
static void make_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "data", 4) == 4, "%s: %s", path, strerror(errno));
    close(fd);
}

static void check_file(const char *path)
{
    struct stat st;
    CHECK(stat(path, &st) == 0 && st.st_size == 4, "another's file is gone, or has other bytes");
}

/* --- names ------------------------------------------------------------------------------------ */

/* Where the host begins; no other kind of address has one. */
static void test_hosts(void)
{
    static const char *const pairs[][2] = {
        {"tcp://10.0.0.1:7175/cam1", "10.0.0.1:7175/cam1"},
        {"tcp://:7175/x", ":7175/x"},
        {"tcp://[fe80::1%25eth0]:7175", "[fe80::1%25eth0]:7175"},
        {"rdma://host", "host"},
        {"tcp://", ""},
    };
    static const char *const others[] = {"cam1",          "tcp",     "tcp:",     "tcp:/x",
                                         "unix:/tcp://a", "tcp1://", "v4l2://a", "target:tcp://",
                                         "TCP://host",    ""};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        CHECK_TEXT(gpud_address_get_host(pairs[i][0]), pairs[i][1]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK(!gpud_address_get_host(others[i]), "%s is between hosts", others[i]);
    CHECK(!gpud_address_get_host(NULL), "no address is between hosts");
}

static void test_names(void)
{
    static const struct {
        const char *says, *texts[12];
    } bad[] = {
        {"no address", {""}},
        {"dot", {"../x", "..", ".hidden", "cam1/..", "cam1/.audio"}},
        {"is not an address",
         {"cam 1", "c\xc3\xa4m", "rdma://host:1", "/", "/a", "a/", "a/b/c", "a//b", "a!b",
          "a/b!c"}},
        {"a socket with this path is unix:/run/cam1", {"/run/cam1"}},
        {"absolute path", {"unix:", "unix:relative"}},
    };
    char path[GPUD_SOCKET_PATH_MAX], wanted[GPUD_SOCKET_PATH_MAX], longest[400];
    WORKS(gpud_socket_resolve("cam1", path, &e));
    gpud_print_n(wanted, sizeof(wanted), "%s/gpudirect/cam1", runtime_dir);
    CHECK_TEXT(path, wanted);
    WORKS(gpud_socket_resolve("A.b_c-9", path, &e));
    WORKS(gpud_socket_resolve("unix:/a/b c", path, &e));
    CHECK_TEXT(path, "/a/b c");

    strcpy(path, "untouched");
    EXPECT(GPUD_INVALID, "no address", gpud_socket_resolve(NULL, path, &e));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (size_t k = 0; bad[i].texts[k]; k++)
            EXPECT(GPUD_INVALID, bad[i].says, gpud_socket_resolve(bad[i].texts[k], path, &e));
    memset(longest, 'x', sizeof(longest));
    longest[399] = '\0';
    EXPECT(GPUD_INVALID, "too long", gpud_socket_resolve(longest, path, &e));
    longest[4] = '/';
    longest[199] = '\0';
    EXPECT(GPUD_INVALID, "too long", gpud_socket_resolve(longest, path, &e));
    longest[199] = 'x';
    memcpy(longest, "unix:/", 6);
    EXPECT(GPUD_INVALID, "absolute path", gpud_socket_resolve(longest, path, &e));
    longest[5 + GPUD_SOCKET_PATH_MAX] = '\0';
    EXPECT(GPUD_INVALID, "absolute path", gpud_socket_resolve(longest, path, &e));
    CHECK_TEXT(path, "untouched"); /* an output was written by a call that failed */
    longest[5 + GPUD_SOCKET_PATH_MAX - 1] = '\0';
    WORKS(gpud_socket_resolve(longest, path, &e));

    /* A stream has a socket of its own, which no bare name has. */
    static const char *const foreign[] = {"!a", "a!", "a!b!c", ".a!b", "a!.b", "a/b", ""};
    char text[64];
    WORKS(gpud_socket_resolve("cam1/audio", path, &e));
    gpud_print_n(wanted, sizeof(wanted), "%s/gpudirect/cam1!audio", runtime_dir);
    CHECK_TEXT(path, wanted);
    CHECK(gpud_socket_entry_address("cam1", text, sizeof(text)), "cam1 is no entry");
    CHECK_TEXT(text, "cam1");
    CHECK(gpud_socket_entry_address("cam1!audio", text, sizeof(text)), "a stream is no entry");
    CHECK_TEXT(text, "cam1/audio");
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        CHECK(!gpud_socket_entry_address(foreign[i], text, sizeof(text)), "the entry \"%s\" is %s",
              foreign[i], text);
}

/* --- hints ------------------------------------------------------------------------------------ */

static void check_hint(const char *path, const char *wanted)
{
    char hint[GPUD_REASON_MAX];
    gpud_socket_hint(path, hint, sizeof(hint));
    CHECK(wanted[0] ? strstr(hint, wanted) != NULL : hint[0] == '\0', "the hint on %s is \"%s\"",
          path, hint);
}

static void test_directories(void)
{
    static const mode_t open_to_others[] = {0755, 0770, 0707, 0701, 0720};
    char path[GPUD_SOCKET_PATH_MAX], directory[GPUD_SOCKET_PATH_MAX], other[GPUD_SOCKET_PATH_MAX];
    gpud_print_n(directory, sizeof(directory), "%s/gpudirect", runtime_dir);
    CHECK(mode_of(directory) == 0700, "the directory has mode %o", mode_of(directory));
    for (size_t i = 0; i < sizeof(open_to_others) / sizeof(open_to_others[0]); i++) {
        CHECK(chmod(directory, open_to_others[i]) == 0, "chmod");
        EXPECT(GPUD_NO_ACCESS, "chmod 700", gpud_socket_resolve("cam1", path, &e));
    }
    CHECK(rmdir(directory) == 0, "rmdir: %s", strerror(errno));

    /* A link to another directory, or a file, is not accepted. */
    in_base(other, "elsewhere");
    CHECK(mkdir(other, 0700) == 0 && symlink(other, directory) == 0, "symlink");
    EXPECT(GPUD_NO_ACCESS, "not a directory", gpud_socket_resolve("cam1", path, &e));
    CHECK(unlink(directory) == 0, "unlink");
    make_file(directory);
    EXPECT(GPUD_NO_ACCESS, "not a directory", gpud_socket_resolve("cam1", path, &e));
    unlink(directory);
    if (geteuid() == 0) {
        CHECK(mkdir(directory, 0700) == 0 && chown(directory, 12345, 12345) == 0, "chown");
        EXPECT(GPUD_NO_ACCESS, "you alone", gpud_socket_resolve("cam1", path, &e));
        rmdir(directory);
    }
    rmdir(other);

    char longest[300];
    memset(longest, 'd', sizeof(longest));
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    setenv("XDG_RUNTIME_DIR", longest, 1);
    EXPECT(GPUD_INVALID, "XDG_RUNTIME_DIR", gpud_socket_resolve("cam1", path, &e));
    setenv("XDG_RUNTIME_DIR", "/nonexistent-directory", 1);
    EXPECT(GPUD_IO, "for sockets (set XDG_RUNTIME_DIR, now /nonexistent-directory, to a folder",
           gpud_socket_resolve("cam1", path, &e));
    setenv("XDG_RUNTIME_DIR", runtime_dir, 1);
    WORKS(gpud_socket_resolve("cam1", path, &e));

    /* Without XDG_RUNTIME_DIR, the system's folder for this user; in /tmp any could be first. */
    char users[] = "/tmp/gpud-run-user-XXXXXX", own[64], wanted[96];
    const char *usual = gpud_runtime_base;
    char *runtime = strdup(getenv("XDG_RUNTIME_DIR"));
    CHECK(mkdtemp(users) && runtime, "mkdtemp");
    unsetenv("XDG_RUNTIME_DIR");
    gpud_runtime_base = users;
    gpud_print(own, "%s/%u", users, geteuid());
    gpud_print(wanted, "/tmp/gpudirect-%u", geteuid());
    WORKS(gpud_runtime_directory(path, sizeof(path), &e));
    CHECK_TEXT(path, wanted); /* the system's is not there */
    CHECK(mkdir(own, 0755) == 0, "mkdir");
    WORKS(gpud_runtime_directory(path, sizeof(path), &e));
    CHECK_TEXT(path, wanted); /* others can enter the system's */
    CHECK(chmod(own, 0700) == 0, "chmod");
    gpud_print(wanted, "%s/gpudirect", own);
    WORKS(gpud_runtime_directory(path, sizeof(path), &e));
    CHECK_TEXT(path, wanted);
    if (geteuid() == 0) { /* another user has it */
        CHECK(mkdir(wanted, 0777) == 0 && chown(wanted, 12345, 12345) == 0, "%s", wanted);
        EXPECT(GPUD_NO_ACCESS, "belongs to user 12345",
               gpud_private_directory(path, sizeof(path), &e));
        rmdir(wanted);
    }
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    gpud_runtime_base = usual;
    free(runtime);
    rmdir(own);
    rmdir(users);
}

/* A folder that a variable gives: the user's own, or one of several users as /tmp is. */
static void test_given(const char *variable, const char *given)
{
    static const struct {
        mode_t mode;
        uid_t owner;         /* 0: this user */
        const char *refusal; /* NULL: it works, with a directory of this user's */
    } cases[] = {
        {0700, 0, NULL},
        {01777, 0, NULL}, /* as NVIDIA's driver makes it, for root */
        {0755, 0, NULL},
        {0777, 0, "has mode 777"},
        {02770, 0, "has mode 2770"},
        {01777, 12345, "belongs to user 12345"},
        {0700, 12345, "belongs to user 12345"},
    };
    char path[GPUD_SOCKET_PATH_MAX], wanted[GPUD_SOCKET_PATH_MAX], refusal[128];
    setenv(variable, given, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].owner && geteuid() != 0)
            continue;
        CHECK(mkdir(given, 0700) == 0 && chmod(given, cases[i].mode) == 0, "mkdir");
        CHECK(!cases[i].owner || chown(given, cases[i].owner, 0) == 0, "chown");
        if (cases[i].refusal) {
            gpud_print(refusal, "%s=%s %s", variable, given, cases[i].refusal);
            EXPECT(GPUD_NO_ACCESS, refusal, gpud_socket_resolve("cam1", path, &e));
        } else {
            WORKS(gpud_socket_resolve("cam1", path, &e));
            if (cases[i].mode == 0700)
                gpud_print(wanted, "%s/cam1", given);
            else
                gpud_print(wanted, "%s/gpudirect-%u/cam1", given, geteuid());
            CHECK_TEXT(path, wanted);
            *strrchr(path, '/') = '\0';
            CHECK(mode_of(path) == 0700, "%s has mode %o", path, mode_of(path));
            rmdir(path);
        }
        rmdir(given);
    }
}

static void test_given_directories(void)
{
    char path[GPUD_SOCKET_PATH_MAX], wanted[GPUD_SOCKET_PATH_MAX];
    char folder[] = "/tmp/gpud-given-XXXXXX", given[64];
    CHECK(mkdtemp(folder), "mkdtemp");
    gpud_print(given, "%s/claim", folder);
    test_given("NVIDIA_DRA_LOCAL_IPC_DIR", given);
    gpud_print(given, "%s/own", folder);
    test_given("GPUDIRECT_DIR", given); /* counts before the one above, which is still set */

    /* One that is not there is made, for this user alone; its folder has to be there. */
    WORKS(gpud_socket_resolve("cam1", path, &e));
    CHECK(mode_of(given) == 0700, "%s has mode %o", given, mode_of(given));
    rmdir(given);
    make_file(given);
    EXPECT(GPUD_NO_ACCESS, "is not a directory", gpud_socket_resolve("cam1", path, &e));
    unlink(given);
    setenv("GPUDIRECT_DIR", "/nonexistent-directory/below", 1);
    EXPECT(GPUD_IO, "set GPUDIRECT_DIR, now /nonexistent", gpud_socket_resolve("cam1", path, &e));
    setenv("GPUDIRECT_DIR", "relative", 1);
    EXPECT(GPUD_INVALID, "GPUDIRECT_DIR=relative is not an absolute path",
           gpud_socket_resolve("cam1", path, &e));

    /* Empty ones are as if they were not set. */
    setenv("GPUDIRECT_DIR", "", 1);
    setenv("NVIDIA_DRA_LOCAL_IPC_DIR", "", 1);
    gpud_print(wanted, "%s/gpudirect/cam1", runtime_dir);
    WORKS(gpud_socket_resolve("cam1", path, &e));
    CHECK_TEXT(path, wanted);
    unsetenv("GPUDIRECT_DIR");
    unsetenv("NVIDIA_DRA_LOCAL_IPC_DIR");
    rmdir(folder);
}

/* A socket without a listener, as of a process that died. */
static void leave_socket(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    gpud_print_n(name.sun_path, sizeof(name.sun_path), "%s", path);
    CHECK(bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0, "bind %s: %s", path,
          strerror(errno));
    close(fd);
}

static void test_hints(void)
{
    char path[GPUD_SOCKET_PATH_MAX], other[GPUD_SOCKET_PATH_MAX], directory[64], name[32];
    gpud_print_n(name, sizeof(name), "hint-%d", getpid());
    gpud_print_n(directory, sizeof(directory), "/tmp/gpudirect-%u", geteuid());
    gpud_print_n(other, sizeof(other), "%s/%s", directory, name);
    WORKS(gpud_socket_resolve(name, path, &e));
    check_hint(path, "");

    /* The sender was started without XDG_RUNTIME_DIR. */
    bool made = mkdir(directory, 0700) == 0;
    leave_socket(other);
    check_hint(path, other);
    check_hint("/tmp/elsewhere/x", "there is no folder /tmp/elsewhere here");
    unlink(other);
    if (made)
        rmdir(directory);

    leave_socket(path);
    check_hint(path, "its sender died");
    if (geteuid() == 0) {
        CHECK(chown(path, 12345, 12345) == 0, "chown");
        check_hint(path, "belongs to user 12345, and this is root (0)");
    }
    unlink(path);
}

/* --- claiming --------------------------------------------------------------------------------- */

/* A process that listens there, and stays. */
struct elsewhere {
    const char *path, *name;
};

static void listen_elsewhere(void *argument, int ready)
{
    const struct elsewhere *it = argument;
    struct gpud_socket_listener listener;
    prctl(PR_SET_NAME, it->name);
    if (gpud_socket_listen(&listener, it->path, NULL, NULL) == GPUD_OK && write(ready, "x", 1) == 1)
        pause();
}

/* Listens, and is killed; its child, of which the library is not told, holds the lock until others
 * have tried to take it. */
static void die_slowly(void *path, int ready)
{
    struct gpud_socket_listener listener;
    char lock[GPUD_SOCKET_PATH_MAX + 8];
    gpud_print(lock, "%s.lock", (const char *)path);
    int watch = inotify_init1(IN_CLOEXEC);
    if (gpud_socket_listen(&listener, path, NULL, NULL) != GPUD_OK || watch < 0 ||
        inotify_add_watch(watch, lock, IN_OPEN) < 0)
        return;
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) > 0) {
        if (write(ready, "x", 1) == 1)
            kill(getpid(), SIGKILL);
        return;
    }
    test_alarm(30);
    _Alignas(struct inotify_event) char event[sizeof(struct inotify_event)];
    for (int opened = 0; opened < 3; opened++)
        if (read(watch, event, sizeof(event)) != sizeof(event))
            return;
}

static void test_claim(void)
{
    struct gpud_socket_listener first, second;
    char path[GPUD_SOCKET_PATH_MAX];
    in_base(path, "claim");
    mode_t before = umask(0);
    WORKS(gpud_socket_listen(&first, path, NULL, &e));
    umask(before);
    CHECK(mode_of(path) == 0600, "the socket has mode %o", mode_of(path));

    struct gpud_error error;
    CHECK(gpud_socket_listen(&second, path, NULL, &error) == GPUD_IO && error.native == EADDRINUSE,
          "a second listener on the address of a living one");
    CHECK_SAYS(error.reason, "another sender has the address");
    CHECK_SAYS(error.reason, "this process itself");
    CHECK_SAYS(error.reason, "(standby)");

    /* The living one is unharmed. */
    int fd = -1, accepted = -1;
    struct gpud_peer peer = {.pid = 0};
    WORKS(gpud_socket_connect(path, NULL, &fd, &peer, &e));
    CHECK(peer.pid == getpid() && peer.uid == geteuid() && peer.same_process && !peer.foreign,
          "the listener's process is %d of user %u", peer.pid, peer.uid);
    WORKS(gpud_socket_accept(&first, &accepted, &peer, &e));
    CHECK(gpud_socket_accept(&first, &accepted, &peer, NULL) == GPUD_AGAIN,
          "a connection from nowhere");
    gpud_fd_close(&fd);
    gpud_fd_close(&accepted);
    gpud_socket_unlisten(&first);
    gpud_socket_unlisten(&first); /* again: nothing */
    CHECK(access(path, F_OK) < 0, "the socket is left behind");

    EXPECT(GPUD_AGAIN, "", gpud_socket_connect(path, NULL, &fd, &peer, &e));
    WORKS(gpud_socket_listen(&second, path, NULL, &e));
    gpud_socket_unlisten(&second);
    CHECK_EQUAL(count_entries(base), 1); /* the runtime directory */

    SAY("a process that was killed leaves its socket and its lock file");
    struct gpud_socket_listener listener;
    char lock[GPUD_SOCKET_PATH_MAX + 8], says[64], byte;
    struct elsewhere it = {path, "cam\x1b[31m\xc2\x9b"};
    in_base(path, "stale");
    pid_t child = start_child(listen_elsewhere, &it, &byte, 1);
    kill(child, SIGSTOP); /* which is a living process, too */
    CHECK(gpud_socket_listen(&listener, path, NULL, &error) == GPUD_IO &&
              error.native == EADDRINUSE,
          "taken from a living process");
    gpud_print(says, "has the address %s: process %d (cam?[31m?\?);", path, child);
    CHECK_SAYS(error.reason, says);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    gpud_print(lock, "%s.lock", path);
    CHECK(access(path, F_OK) == 0 && access(lock, F_OK) == 0, "the killed process cleaned up?");
    WORKS(gpud_socket_listen(&listener, path, NULL, &e));
    WORKS(gpud_socket_connect(path, NULL, &fd, &peer, &e));
    gpud_fd_close(&fd);
    gpud_socket_unlisten(&listener);
    CHECK_EQUAL(count_entries(base), 1);

    /* A sender that is restarted right after it was killed takes over its address. */
    char text[GPUD_LOCK_HOLDER_MAX];
    in_base(path, "dying");
    gpud_print(lock, "%s.lock", path);
    child = start_child(die_slowly, path, &byte, 1);
    waitpid(child, NULL, 0);
    fd = open(lock, O_RDWR | O_CLOEXEC); /* the first of the three */
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0, "the lock of the killed process is free");
    CHECK(!gpud_lock_holder(fd, text), "%s", text);
    gpud_print(says, "a child of process %d, which is gone", child);
    CHECK_TEXT(text, says);
    close(fd);
    WORKS(gpud_socket_listen(&listener, path, NULL, &e));
    gpud_socket_unlisten(&listener);
    CHECK_EQUAL(count_entries(base), 1);

    SAY("the holder's name in the lock file");
    /* The file's content is untrusted. */
    static const struct {
        const char *says, *contents[14];
    } files[] = {
        {"a process that does not say which",
         {"", "\n", "12", "12 13", "-12 13\n", "0 13\n", " 12 13\n", "12  13\n", "12 13x\n",
          "4294967308 13\n", "99999999999999999999999 13\n",
          "9999999999999999999999999999999999999999999999999999999999999999999999999999 13\n",
          "../../etc/passwd\n"}},
        {"process 12 of another container", {"12 13\nand so on"}},
        {"process 2147483647 of another container", {"2147483647 99999999999999999999999\n"}},
    };
    int pipes[2];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        for (size_t k = 0; files[i].contents[k]; k++) {
            const char *content = files[i].contents[k];
            int file = memfd_create("lock", MFD_CLOEXEC);
            CHECK(file >= 0 && write(file, content, strlen(content)) == (ssize_t)strlen(content),
                  "memfd");
            CHECK(!gpud_lock_holder(file, text), "\"%s\" is this process", content);
            CHECK(strcmp(text, files[i].says) == 0, "\"%s\" is \"%s\"", content, text);
            close(file);
        }
    CHECK(pipe(pipes) == 0, "pipe");
    CHECK(!gpud_lock_holder(pipes[0], text) && strstr(text, "does not say"), "%s", text);
    close(pipes[0]);
    close(pipes[1]);

    /* The holder's name is not written to a file whose data it would destroy, or that kills it. */
    char data[GPUD_SOCKET_PATH_MAX];
    in_base(path, "unsigned");
    in_base(data, "data");
    gpud_print(lock, "%s.lock", path);
    make_file(data);
    CHECK(link(data, lock) == 0, "link: %s", strerror(errno));
    WORKS(gpud_socket_listen(&listener, path, NULL, &e));
    gpud_socket_unlisten(&listener);
    check_file(data);
    unlink(data);

    rlim_t limit = set_limit(RLIMIT_FSIZE, 0);
    WORKS(gpud_socket_listen(&listener, path, NULL, &e));
    set_limit(RLIMIT_FSIZE, limit);
    gpud_socket_unlisten(&listener);
    CHECK_EQUAL(count_entries(base), 1);

    in_base(path, "obstacle");
    gpud_print(lock, "%s.lock", path);

    /* A file that is not a socket is user data. */
    make_file(path);
    EXPECT(GPUD_NO_ACCESS, "is not a socket", gpud_socket_listen(&listener, path, NULL, &e));
    check_file(path);
    unlink(path);
    CHECK(symlink("/etc/passwd", path) == 0, "symlink");
    EXPECT(GPUD_NO_ACCESS, "is not a socket", gpud_socket_listen(&listener, path, NULL, &e));
    unlink(path);

    /* A lock file that is a link is not followed. */
    char victim[GPUD_SOCKET_PATH_MAX];
    in_base(victim, "victim");
    CHECK(symlink(victim, lock) == 0, "symlink");
    error = (struct gpud_error){.reason = ""};
    CHECK(gpud_socket_listen(&listener, path, NULL, &error) != GPUD_OK, "the link was followed");
    CHECK_SAYS(error.reason, "lock file");
    CHECK(access(victim, F_OK) < 0, "a file was made through a link");
    unlink(lock);

    EXPECT(GPUD_IO, "no folder /nonexistent-directory for the socket: make it (mkdir -p /nonex",
           gpud_socket_listen(&listener, "/nonexistent-directory/x", NULL, &e));
    CHECK_EQUAL(count_entries(base), 1);
}

/* Many open and close the same address at once: never two have it, and one always gets it. */
static char contended[GPUD_SOCKET_PATH_MAX];
static atomic_int holders;
static atomic_uint wins, losses;

static void *contend(void *arg)
{
    for (int i = 0; i < 300; i++) {
        struct gpud_socket_listener listener;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_socket_listen(&listener, contended, NULL, &error);
        if (status == GPUD_OK) {
            CHECK(atomic_fetch_add(&holders, 1) == 0, "two listeners on one address");
            int fd;
            struct gpud_peer peer;
            WORKS(gpud_socket_connect(contended, NULL, &fd, &peer, &e));
            gpud_fd_close(&fd);
            atomic_fetch_sub(&holders, 1);
            gpud_socket_unlisten(&listener);
            atomic_fetch_add(&wins, 1);
        } else {
            CHECK(status == GPUD_IO && error.native == EADDRINUSE,
                  "an address that is taken gives: %s", error.reason);
            atomic_fetch_add(&losses, 1);
        }
    }
    return NULL;
}

int main(void)
{
    gpud_print(base, "/tmp/gpud-address-XXXXXX");
    CHECK(mkdtemp(base), "mkdtemp: %s", strerror(errno));
    gpud_print(runtime_dir, "%s/run", base);
    CHECK(mkdir(runtime_dir, 0700) == 0, "mkdir");
    setenv("XDG_RUNTIME_DIR", runtime_dir, 1);

    SAY("names");
    test_hosts();
    test_names();
    SAY("directories that others can enter");
    test_directories();
    test_given_directories();
    SAY("hints for receivers that wait in vain");
    test_hints();
    SAY("an address has one holder");
    test_claim();
    SAY("many want the same address");
    in_base(contended, "race");
    run_threads(4, contend, NULL);
    SAY("  %u got it, %u did not", atomic_load(&wins), atomic_load(&losses));
    CHECK(atomic_load(&wins) > 0, "the address was never obtained");
    CHECK_EQUAL(count_entries(base), 1);

    char directory[GPUD_SOCKET_PATH_MAX];
    gpud_print_n(directory, sizeof(directory), "%s/gpudirect", runtime_dir);
    rmdir(directory);
    rmdir(runtime_dir);
    CHECK(rmdir(base) == 0, "something is left in %s", base);
    return 0;
}

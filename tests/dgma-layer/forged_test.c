/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forged files behind bus addresses, and a /dev/shm that is full: each import is refused with a
 * sentence before anything is mapped, a pair that works goes on, and nothing is left behind. In a
 * mount namespace of its own, so that no other program's files are touched. */

#include "common.h"
#include "../support/count.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHM "/dev/shm"
#define SHM_SIZE (16 * MIB)
#define SLOT 0x4242u
#define OTHER_USER 65534
#define SURFACE ((cl_ulong)SLOT << 32)

static int log_fd;
static unsigned frame_number;

/* --- what is seen ------------------------------------------------------------------------- */

/* The layer's sentences go to stderr, which is a file from here on. */
static void catch_log(void)
{
    log_fd = memfd_create("log", MFD_CLOEXEC);
    CHECK(log_fd >= 0 && setenv("GPUDIRECT_DGMA_LOG", "1", 1) == 0);
}

static void expect_said(const char *what, const char *says, const char *log)
{
    if (!strstr(log, says))
        FAIL("%s: the log says \"%s\" and not \"%s\"", what, log, says);
}

/* stderr goes to the file while the call is made. */
static cl_mem create_logged(struct cl *cl, cl_mem_flags flags, size_t size, void *address,
                            char log[2048], cl_int *status)
{
    int before = dup(STDERR_FILENO);
    CHECK(before >= 0 && ftruncate(log_fd, 0) == 0 && lseek(log_fd, 0, SEEK_SET) == 0);
    CHECK(dup2(log_fd, STDERR_FILENO) >= 0);
    cl_mem mem = clCreateBuffer(cl->context, flags, size, address, status);
    fflush(stderr);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    ssize_t got = pread(log_fd, log, 2047, 0);
    log[got > 0 ? got : 0] = '\0';
    return mem;
}

static void refused_at(struct cl *cl, cl_ulong surface, const char *what, const char *says)
{
    char log[2048];
    cl_int status;
    struct bus_address address = {surface, surface + PAGE};
    cl_mem mem = create_logged(cl, EXTERNAL_PHYSICAL, PAGE, &address, log, &status);
    printf("%s\n", what);
    fflush(stdout);
    if (mem)
        FAIL("%s: taken", what);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    expect_said(what, says, log);
}

/* --- a pair that works --------------------------------------------------------------------- */

static void close_gone(struct pair *pair)
{
    close_pair(pair);
    wait_until_gone(&pair->address);
}

static void send_frame(struct cl *cl, struct pair *pair)
{
    unsigned char byte = (unsigned char)++frame_number, got[PAGE];
    AUTO(drop_event) cl_event waited = NULL;
    OK(cl->wait_signal(cl->queue, pair->bus, frame_number, 0, NULL, &waited));
    AUTO(drop_queue) cl_command_queue writer = new_queue(cl, 0, false);
    fill(writer, pair->external, 0, PAGE, byte);
    OK(cl->write_signal(writer, pair->external, frame_number, 0, 0, NULL, NULL));
    OK(clFinish(writer));
    CHECK(event_done_within(waited, 20000));
    read_back(cl->queue, pair->bus, PAGE, got);
    for (size_t i = 0; i < PAGE; i++)
        CHECK(got[i] == byte);
}

/* --- forgeries ------------------------------------------------------------------------------ */

static char path[80];

/* A process that says by its lock that it owns the slot. */
static pid_t claim(unsigned slot)
{
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        char locks[64];
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
        alarm(120);
        snprintf(locks, sizeof locks, SHM "/gpudirect-dgma-%u", (unsigned)geteuid());
        int fd = open(locks, O_RDWR | O_CREAT, 0600);
        if (fcntl(fd, F_SETLK, &lock) == 0)
            (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static void put_file(off_t size, mode_t mode, bool backed)
{
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && fchmod(fd, mode) == 0 && ftruncate(fd, size) == 0);
    CHECK(!backed || posix_fallocate(fd, 0, size) == 0);
    close(fd);
}

static void put_socket(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(path);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    close(fd);
}

static void kinds_of_files(struct cl *cl, struct pair *pair)
{
    char target[80];
    refused_at(cl, SURFACE, "no file", "does its owner live");
    CHECK(symlink("/dev/zero", path) == 0);
    refused_at(cl, SURFACE, "a link to a device", "no buffer of this user has");
    unlink(path);
    name_object(&pair->address, target);
    CHECK(symlink(target, path) == 0);
    refused_at(cl, SURFACE, "a link to a good one", "no buffer of this user has");
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0);
    refused_at(cl, SURFACE, "a pipe", "not a file of this user alone");
    unlink(path);
    CHECK(mkdir(path, 0700) == 0);
    refused_at(cl, SURFACE, "a folder", "no buffer of this user has");
    rmdir(path);
    put_socket();
    refused_at(cl, SURFACE, "a socket", "no buffer of this user has");
    send_frame(cl, pair);
}

static void modes_and_owners(struct cl *cl, struct pair *pair)
{
    static const mode_t modes[] = {0666, 0660, 0604, 0610};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        put_file(2 * (off_t)PAGE, modes[i], true);
        refused_at(cl, SURFACE, "a file that others can use", "not a file of this user alone");
    }
    put_file(2 * (off_t)PAGE, 0600, true);
    if (chown(path, OTHER_USER, OTHER_USER) == 0)
        refused_at(cl, SURFACE, "a file of another user", "not a file of this user alone");
    send_frame(cl, pair);
}

static void sizes(struct cl *cl, struct pair *pair)
{
    const off_t bad[] = {0,
                         1,
                         (off_t)PAGE,
                         2 * (off_t)PAGE - 1,
                         2 * (off_t)PAGE + 1,
                         ((off_t)1 << 32) + (off_t)PAGE,
                         (off_t)1 << 42};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_file(bad[i], 0600, false);
        refused_at(cl, SURFACE, "a wrong size", "no buffer can have its size");
    }
    /* The first write into memory that is promised and not there would be a SIGBUS. */
    put_file((off_t)1 << 32, 0600, false);
    refused_at(cl, SURFACE, "a size that /dev/shm has not", "not fully allocated");
    put_file(2 * (off_t)PAGE, 0600, false);
    refused_at(cl, SURFACE, "a hole", "not fully allocated");
    send_frame(cl, pair);
}

static void without_an_owner(struct cl *cl)
{
    put_file(2 * (off_t)PAGE, 0600, true);
    refused_at(cl, SURFACE, "it has no owner", "the process that owned it is dead");
    CHECK(access(path, F_OK) < 0);
}

/* The memory that is mapped stays; its name is another file's. */
static void replaced(struct cl *cl)
{
    AUTO(close_gone) struct pair pair = open_pair(cl, cl, PAGE);
    name_object(&pair.address, path);
    send_frame(cl, &pair);
    put_file(0, 0600, false);
    send_frame(cl, &pair);
    put_file(64 * (off_t)PAGE, 0666, false);
    send_frame(cl, &pair);
    unlink(path);
    send_frame(cl, &pair);
    name_object(&(struct bus_address){SURFACE, 0}, path);
}

/* What a device that keeps a copy is told of what was written: all bits, and wrong counts. */
static void written_map(struct cl *cl)
{
    char name[96];
    struct stat st;
    AUTO(close_gone) struct pair pair = open_pair(cl, cl, PAGE);
    name_object(&pair.address, name);
    strcat(name, "-written");
    int fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        CHECK(fstat(fd, &st) == 0);
        unsigned char *map =
            mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(map != MAP_FAILED);
        memset(map + 64, 0xff, (size_t)st.st_size - 64);
        send_frame(cl, &pair);
        memset(map, 0xa5, 12); /* a signal is being written, for ever */
        send_frame(cl, &pair);
        munmap(map, (size_t)st.st_size);
        close(fd);
        /* A writer that finds another map there works in place. */
        CHECK(unlink(name) == 0 && symlink("/dev/zero", name) == 0);
        send_frame(cl, &pair);
    }
}

/* --- where the locks are -------------------------------------------------------------------- */

/* In a process that has not opened them yet: no bus addresses, a sentence, and no harm. */
static void lock_files(const char *what)
{
    static const char *const says = "not a file of this user alone";
    char locks[64], log[2048];
    cl_int status;
    snprintf(locks, sizeof locks, SHM "/gpudirect-dgma-%u", (unsigned)geteuid());
    unlink(locks);
    if (strcmp(what, "link") == 0)
        CHECK(symlink("/dev/null", locks) == 0);
    else if (strcmp(what, "folder") == 0)
        CHECK(mkdir(locks, 0700) == 0);
    else if (strcmp(what, "pipe") == 0)
        CHECK(mkfifo(locks, 0600) == 0);
    else if (strcmp(what, "mode") == 0)
        CHECK(close(open(locks, O_RDWR | O_CREAT, 0600)) == 0 && chmod(locks, 0666) == 0);
    else
        CHECK(close(open(locks, O_RDWR | O_CREAT, 0600)) == 0 &&
              chown(locks, OTHER_USER, OTHER_USER) == 0);
    struct cl cl = open_cl(60);
    catch_log();
    cl_mem mem = create_logged(&cl, BUS_ADDRESSABLE, PAGE, NULL, log, &status);
    CHECK(!mem);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    expect_said(what,
                strcmp(what, "link") == 0 || strcmp(what, "folder") == 0
                    ? "no bus addresses without the file"
                    : says,
                log);
    close_cl(&cl);
    CHECK(rmdir(locks) == 0 || unlink(locks) == 0);
}

/* --- no room -------------------------------------------------------------------------------- */

#define MANY 64

static void no_room(struct cl *cl, struct pair *pair)
{
    char log[2048];
    cl_mem taken[MANY];
    unsigned count = 0, entries = count_entries(SHM);
    cl_int status;
    while (count < MANY &&
           (taken[count] = create_logged(cl, BUS_ADDRESSABLE, MIB, NULL, log, &status)))
        count++;
    printf("%u buffers of 1 MiB in %zu MiB\n", count, SHM_SIZE / MIB);
    CHECK(count > 4 && count < SHM_SIZE / MIB);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    expect_said("no room", "make " SHM " larger", log);
    send_frame(cl, pair);
    for (unsigned i = 0; i < count; i++)
        OK(clReleaseMemObject(taken[i]));
    for (int i = 0; i < 20000 && count_entries(SHM) > entries; i++)
        sleep_ms(1);
    CHECK(count_entries(SHM) == entries);
    cl_mem again = create_logged(cl, BUS_ADDRESSABLE, MIB, NULL, log, &status);
    OK(status);
    OK(clReleaseMemObject(again));
    send_frame(cl, pair);
}

/* --- the namespace --------------------------------------------------------------------------- */

static void own_shm(const char *options)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("gpudirect-test", SHM, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0) {
        printf("skipped: only root can have a /dev/shm of its own\n");
        exit(77);
    }
}

int main(int argc, char **argv)
{
    char options[32];
    if (argc > 1) {
        lock_files(argv[1]);
        return 0;
    }
    snprintf(options, sizeof options, "size=%zu,mode=1777", SHM_SIZE);
    own_shm(options);
    static const char *const locks[] = {"link", "folder", "pipe", "mode", "owner"};
    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++) {
        printf("locks in a file of another kind: %s\n", locks[i]);
        fflush(stdout);
        struct child child = start(locks[i]);
        join(&child);
    }
    struct cl cl = open_cl(120);
    catch_log();
    struct pair pair = open_pair(&cl, &cl, PAGE);
    send_frame(&cl, &pair);
    name_object(&(struct bus_address){SURFACE, 0}, path);
    unsigned fds = count_fds(), files = count_entries(SHM);
    pid_t owner = claim(SLOT);
    kinds_of_files(&cl, &pair);
    modes_and_owners(&cl, &pair);
    sizes(&cl, &pair);
    CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, NULL, 0) == owner);
    without_an_owner(&cl);
    replaced(&cl);
    written_map(&cl);
    no_room(&cl, &pair);
    send_frame(&cl, &pair);
    CHECK(count_fds() == fds && count_entries(SHM) == files);
    close_gone(&pair);
    close_cl(&cl);
    return 0;
}

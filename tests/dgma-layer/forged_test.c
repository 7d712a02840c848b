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

static void expect_said(const char *what, const char *says, const char *log)
{
    if (!strstr(log, says))
        FAIL("%s: the log says \"%s\" and not \"%s\"", what, log, says);
}

/* stderr, and with it the layer's sentences, goes to a file while the call is made. */
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

static void refused(struct cl *cl, const char *what, const char *says)
{
    char log[2048];
    cl_int status;
    struct bus_address address = {SURFACE, SURFACE + PAGE};
    cl_mem mem = create_logged(cl, EXTERNAL_PHYSICAL, PAGE, &address, log, &status);
    printf("%s\n", what);
    fflush(stdout);
    if (mem)
        FAIL("%s: taken", what);
    CHECK_CL(CL_MEM_OBJECT_ALLOCATION_FAILURE, status);
    expect_said(what, says, log);
}

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
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    CHECK(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    close(fd);
}

/* What lies at the address that another process claims. */
static void forgeries(struct cl *cl, struct pair *pair)
{
    enum kind { NONE, LINK, PIPE, FOLDER, SOCKET, FILE_, HOLES };
    const off_t one = (off_t)PAGE, two = 2 * one;
    static const char *const others = "not a file of this user alone",
                             *const none = "no buffer of this user has",
                             *const size = "no buffer can have its size",
                             *const hole = "not fully allocated";
    char good[80];
    name_object(&pair->address, good);
    const struct {
        const char *what, *says;
        enum kind kind;
        const char *target;
        off_t size;
        mode_t mode;
    } cases[] = {
        {"no file", "does its owner live", NONE, NULL, 0, 0},
        {"a link to a device", none, LINK, "/dev/zero", 0, 0},
        {"a link to a good one", none, LINK, good, 0, 0},
        {"a pipe", others, PIPE, NULL, 0, 0},
        {"a folder", none, FOLDER, NULL, 0, 0},
        {"a socket", none, SOCKET, NULL, 0, 0},
        {"a file that others can use", others, FILE_, NULL, two, 0666},
        {"a file that others can use", others, FILE_, NULL, two, 0660},
        {"a file that others can use", others, FILE_, NULL, two, 0604},
        {"a file that others can use", others, FILE_, NULL, two, 0610},
        {"a wrong size", size, HOLES, NULL, 0, 0600},
        {"a wrong size", size, HOLES, NULL, 1, 0600},
        {"a wrong size", size, HOLES, NULL, one, 0600},
        {"a wrong size", size, HOLES, NULL, two - 1, 0600},
        {"a wrong size", size, HOLES, NULL, two + 1, 0600},
        {"a wrong size", size, HOLES, NULL, ((off_t)1 << 32) + one, 0600},
        {"a wrong size", size, HOLES, NULL, (off_t)1 << 42, 0600},
        /* The first write into memory that is promised and not there would be a SIGBUS. */
        {"a size that /dev/shm has not", hole, HOLES, NULL, (off_t)1 << 32, 0600},
        {"a hole", hole, HOLES, NULL, two, 0600},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].kind == LINK)
            CHECK(symlink(cases[i].target, path) == 0);
        else if (cases[i].kind == PIPE)
            CHECK(mkfifo(path, 0600) == 0);
        else if (cases[i].kind == FOLDER)
            CHECK(mkdir(path, 0700) == 0);
        else if (cases[i].kind == SOCKET)
            put_socket();
        else if (cases[i].kind != NONE)
            put_file(cases[i].size, cases[i].mode, cases[i].kind == FILE_);
        refused(cl, cases[i].what, cases[i].says);
        CHECK(cases[i].kind == NONE || remove(path) == 0);
        send_frame(cl, pair);
    }
    put_file(two, 0600, true);
    if (chown(path, OTHER_USER, OTHER_USER) == 0)
        refused(cl, "a file of another user", others);
    send_frame(cl, pair);
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
    log_fd = memfd_create("log", MFD_CLOEXEC);
    CHECK(log_fd >= 0 && setenv("GPUDIRECT_DGMA_LOG", "1", 1) == 0);
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
    log_fd = memfd_create("log", MFD_CLOEXEC);
    CHECK(log_fd >= 0 && setenv("GPUDIRECT_DGMA_LOG", "1", 1) == 0);
    struct pair pair = open_pair(&cl, &cl, PAGE);
    send_frame(&cl, &pair);
    name_object(&(struct bus_address){SURFACE, 0}, path);
    unsigned fds = count_fds(), files = count_entries(SHM);
    pid_t owner = claim(SLOT);
    forgeries(&cl, &pair);
    CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, NULL, 0) == owner);
    put_file(2 * (off_t)PAGE, 0600, true);
    refused(&cl, "it has no owner", "the process that owned it is dead");
    CHECK(access(path, F_OK) < 0);
    replaced(&cl);
    written_map(&cl);
    no_room(&cl, &pair);
    send_frame(&cl, &pair);
    CHECK(count_fds() == fds && count_entries(SHM) == files);
    close_gone(&pair);
    close_cl(&cl);
    return 0;
}

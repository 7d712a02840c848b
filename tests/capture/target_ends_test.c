/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* target-ends@DEVICE: a writer that dies, goes on when this side has gone, or comes back; and the
 * file that it reads. */
#include "target/target.h"
#include "support/spawn_again.h"
#include "target_ends.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* --- ends ---------------------------------------------------------------------------------- */

static void test_held_after_destroy(void)
{
    struct ends ends;
    SAY("held frames outlive the target, and are still watched");
    start(&ends);
    writer_write(&ends.writer);
    struct gpud_frame *held = take(&ends);
    gpud_target_destroy(&ends.target);
    check_picture(&ends, held, 0);
    CHECK(!is_corrupted(held), "it was not written");
    for (uint32_t i = 1; i < SLOTS; i++)
        writer_write(&ends.writer);
    UNTIL(is_corrupted(held));
    gpud_frame_release(&held);
    end(&ends);
}

static struct gpud_target_slot slot_of(struct ends *ends, uint32_t index)
{
    struct gpud_target_info info = info_now(ends);
    return *info.slot[index];
}

static void test_writer_goes_on(void)
{
    struct ends ends;
    struct writer late;
    SAY("a writer that continues after the target was destroyed writes into unused memory");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "cam1");
    bool bus = ends.writer.on_bus;
    struct gpud_target_slot before = slot_of(&ends, 1);
    for (uint32_t i = 0; i < 5; i++)
        writer_write(&ends.writer);
    see_all(&ends);
    expect(&ends, 4, GPUD_FRAME_DISCONTINUITY, 4);
    gpud_target_destroy(&ends.target);
    writer_write(&ends.writer);

    ends.params.name = "cam2";
    make_target(&ends);
    writer_open(&late, ends.target);
    CHECK(!bus || slot_of(&ends, 1).surface_address != before.surface_address,
          "another target has the memory already");
    writer_write(&late);
    struct gpud_frame *frame = take(&ends);
    for (uint32_t i = 0; i < 2 * SLOTS; i++)
        writer_write(&ends.writer);
    check_picture(&ends, frame, 0);
    CHECK(!is_corrupted(frame), "the other's writer is not this one's");
    gpud_frame_release(&frame);
    atomic_store(late.stopped, 1);
    writer_close(&late);
    gpud_target_destroy(&ends.target);

    ends.params.name = "cam1";
    make_target(&ends);
    if (bus) {
        SAY("and goes on in the next target of its name, which has the same memory");
        CHECK_EQUAL(slot_of(&ends, 1).surface_address, before.surface_address);
        CHECK_EQUAL(slot_of(&ends, 1).marker_address, before.marker_address);
        see_all(&ends);
        CHECK_EQUAL(atomic_load(ends.writer.next), ends.writer.number);
        ends.target->ring->next = ends.writer.number; /* what it wrote meanwhile is over */
        uint32_t number = ends.writer.number;
        writer_write(&ends.writer);
        expect(&ends, number, GPUD_FRAME_DISCONTINUITY, 0);
        atomic_store(ends.writer.stopped, 1);
        gpud_target_destroy(&ends.target);
        make_target(&ends);
        struct gpud_target_slot fresh = slot_of(&ends, 1);
        SAY("which is free when the writer has stopped");
        CHECK_EQUAL(atomic_load(ends.writer.next), number + 1);
        writer_close(&ends.writer);
        writer_open(&ends.writer, ends.target);
        CHECK(fresh.surface_address && ends.writer.number == 0, "a new ring begins at 0");
    } else {
        writer_close(&ends.writer);
        writer_open(&ends.writer, ends.target);
    }
    writer_write(&ends.writer);
    expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    end(&ends);
}

/* A writer that does not stop, and a context that ends. */
static void test_context_ends(void)
{
    struct ends ends;
    SAY("memory that may still be written stays when the context ends");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "cam1");
    writer_write(&ends.writer);
    expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    gpud_target_destroy(&ends.target);
    gpud_context_destroy(&ends.context);
    for (uint32_t i = 0; i < 3 * SLOTS; i++)
        writer_write(&ends.writer);
    writer_close(&ends.writer);
}

/* --- the file ------------------------------------------------------------------------------ */

static void refuse_name(struct ends *ends, const char *name)
{
    struct gpud_target *none = NULL;
    struct gpud_target_params params = ends->params;
    params.name = name;
    EXPECT(GPUD_INVALID, "is not a target name",
           gpud_target_create(ends->context, &params, &none, &e));
}

static void test_file(void)
{
    struct ends ends;
    struct gpud_target *second = NULL;
    struct stat st;
    SAY("the file is the user's alone, and there as long as the target is");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "cam-1.a_B");
    struct gpud_target_info info = info_now(&ends);
    CHECK(strstr(info.file, "/gpudirect/cam-1.a_B.target"), "%s", info.file);
    CHECK(stat(info.file, &st) == 0 && S_ISREG(st.st_mode), "%s: %m", info.file);
    CHECK_EQUAL(st.st_mode & 0777, 0600);
    CHECK_EQUAL(st.st_nlink, 1);
    EXPECT(GPUD_IO, "another target has the name",
           gpud_target_create(ends.context, &ends.params, &second, &e));
    CHECK(access(info.file, F_OK) == 0, "the refused one removed it");
    static const char *const bad[] = {
        "",     ".",
        "..",   ".a",
        "a/b",  "../x",
        "a b",  "a\n",
        "\xff", "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse_name(&ends, bad[i]);
    end(&ends);
    CHECK(access(info.file, F_OK) < 0, "it is still there");

    SAY("a stale one is replaced, and another's stale one goes");
    char other[256];
    snprintf(other, sizeof(other), "%s/gpudirect/other.target", runtime);
    for (unsigned i = 0; i < 2; i++) {
        int fd = open(i ? other : info.file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && write(fd, "old", 3) == 3, "%m");
        close(fd);
    }
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "cam-1.a_B");
    CHECK(access(other, F_OK) < 0, "%s is still there", other);
    CHECK(stat(info.file, &st) == 0 && st.st_size > 100, "not replaced");
    if (ends.writer.on_host || ends.writer.on_bus) {
        writer_close(&ends.writer);
        writer_open_file(&ends.writer, info.file);
        writer_write(&ends.writer);
        expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    }

    SAY("another's file of that name stays");
    CHECK(unlink(info.file) == 0, "%m");
    int fd = open(info.file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    end(&ends);
    CHECK(access(info.file, F_OK) == 0, "it was another's");
    close(fd);
    unlink(info.file);

    SAY("nothing is left in the directory");
    char path[256];
    snprintf(path, sizeof(path), "%s/gpudirect", runtime);
    DIR *entries = opendir(path);
    for (struct dirent *entry; (entry = readdir(entries));)
        CHECK(strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0, "%s",
              entry->d_name);
    closedir(entries);
}

static void test_list(void)
{
    struct ends ends;
    struct gpud_target_list *targets;
    struct gpud_target_entry entry = GPUD_INFO_INIT(entry);
    char path[2][256];
    SAY("only live targets are listed");
    start_with(&ends, GPUD_TARGET_PACED, "cam1");
    snprintf(path[0], sizeof(path[0]), "%s/gpudirect/other.target", runtime);
    snprintf(path[1], sizeof(path[1]), "%s/gpudirect/wrong.target", runtime);
    int fds[2];
    for (unsigned i = 0; i < 2; i++) { /* one without an owner, and an empty one */
        fds[i] = open(path[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        CHECK(fds[i] >= 0 && write(fds[i], "gpudirect-target=1\nname=other\n", 30) == 30, "%m");
    }
    CHECK(flock(fds[1], LOCK_EX) == 0, "%m");
    uint32_t count;
    WORKS(gpud_target_list_create(&targets, &count, &e));
    CHECK_EQUAL(count, 1);
    WORKS(gpud_target_list_get_info(targets, 0, &entry, &e));
    CHECK(strcmp(entry.name, "cam1") == 0 && entry.pid == getpid() && entry.program[0],
          "%s of %lld (%s)", entry.name, (long long)entry.pid, entry.program);
    CHECK(entry.pace == GPUD_TARGET_PACED && entry.slots == SLOTS, "%u slots", entry.slots);
    CHECK(entry.kind == (ends.writer.on_bus    ? GPUD_TARGET_BUS_ADDRESS
                         : ends.writer.on_host ? GPUD_TARGET_HOST
                                               : GPUD_TARGET_DMABUF),
          "kind %d", entry.kind);
    CHECK(strcmp(entry.format, ends.layout.format) == 0 && entry.width == ends.layout.width &&
              entry.height == ends.layout.height,
          "%s %ux%u", entry.format, entry.width, entry.height);
    CHECK(entry.fps_num == ends.params.fps_num && entry.fps_den == ends.params.fps_den, "%u/%u",
          entry.fps_num, entry.fps_den);
    EXPECT(GPUD_INVALID, "target 1 of 1", gpud_target_list_get_info(targets, 1, &entry, &e));
    gpud_target_list_destroy(&targets);
    gpud_target_list_destroy(&targets);
    for (unsigned i = 0; i < 2; i++) {
        close(fds[i]);
        unlink(path[i]);
    }
    end(&ends);
    WORKS(gpud_target_list_create(&targets, &count, &e));
    CHECK_EQUAL(count, 0);
    gpud_target_list_destroy(&targets);
}

/* --- a writer in another process ----------------------------------------------------------- */

/* Writes politely until it is killed, or in the middle of frame `half` stands still. */
static int be_writer(const char *path, uint32_t half)
{
    struct writer writer;
    writer_open_file(&writer, path);
    for (;;) {
        if (writer.paced)
            writer_await(&writer);
        if (writer.number == half) {
            writer_fill(&writer, half % writer.slots, half, writer.size / 2);
            kill(getpid(), SIGSTOP);
        }
        writer_write(&writer);
    }
    return 0;
}

static pid_t spawn_writer(const char *path, uint32_t half)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", half);
    char *argv[] = {"target", "--writer", (char *)path, number, NULL};
    pid_t pid;
    CHECK(spawn_again(&pid, NULL, argv, environ) == 0, "cannot start a writer");
    return pid;
}

static void test_killed(void)
{
    struct ends ends;
    struct gpud_frame *none = NULL;
    start_with(&ends, GPUD_TARGET_PACED, "cam1");
    if (!ends.writer.on_bus && !ends.writer.on_host) {
        end(&ends); /* a dma-buf is handed over by descriptor alone */
        return;
    }
    SAY("a writer in another process is killed in mid-frame, and a new one goes on");
    struct gpud_target_info info = info_now(&ends);
    uint32_t number = 0;
    for (unsigned round = 0; round < 5; round++) {
        uint32_t half = number + 7 + round;
        pid_t pid = spawn_writer(info.file, half);
        int status;
        for (; number < half; number++)
            expect(&ends, number, number ? 0 : GPUD_FRAME_DISCONTINUITY, 0);
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "status %x", status);
        EXPECT(GPUD_TIMEOUT, "", gpud_target_acquire(ends.target, 30 * GPUD_MSEC, &none, &e));
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "status %x", status);
    }
    CHECK_EQUAL(info_now(&ends).dropped, 0);
    end(&ends);
}

static void everything(void)
{
    test_held_after_destroy();
    test_writer_goes_on();
    test_file();
    test_list();
    test_killed();
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--writer") == 0)
        return be_writer(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    int result = run_twice(argc, argv, everything);
    test_context_ends(); /* which leaves something behind */
    return result;
}

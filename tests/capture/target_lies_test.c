/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* target-lies@DEVICE: a writer outside that writes anything into each word of its page, at any
 * time, also when this side has gone; and forged files in the folder where the writers look.
 * Another target of the same context loses no frame by it. */
#include "target/target.h"
#include "target_ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

static struct gpud_target *beside;
static struct writer beside_writer;

/* --- the other target ---------------------------------------------------------------------- */

static void open_beside(struct ends *ends)
{
    struct gpud_target_params params = ends->params;
    params.name = "beside";
    WORKS(gpud_target_create(ends->context, &params, &beside, &e));
    writer_open(&beside_writer, beside);
}

static void beside_goes_on(void)
{
    struct gpud_frame *frame = NULL;
    uint32_t number = beside_writer.number;
    writer_write(&beside_writer);
    WORKS(gpud_target_acquire(beside, LONG, &frame, &e));
    CHECK_EQUAL(info_of(frame).offset, number);
    CHECK_EQUAL(info_of(frame).dropped, 0);
    gpud_frame_release(&frame);
}

static void close_beside(void)
{
    atomic_store(beside_writer.stopped, 1);
    writer_close(&beside_writer);
    gpud_target_destroy(&beside);
}

/* --- one word ------------------------------------------------------------------------------- */

#define WORDS ((unsigned)(GPUD_TARGET_MARKER(SLOTS) / 4))

static _Atomic uint32_t *word_at(struct ends *ends, unsigned at)
{
    return (_Atomic uint32_t *)(void *)((char *)ends->writer.maps[0] + at * sizeof(uint32_t));
}

/* Frames, silence, or an end with a sentence: nothing else, and no wait beyond its deadline. */
static bool take_what_comes(struct ends *ends)
{
    for (unsigned i = 0; i < 2 * SLOTS; i++) {
        struct gpud_frame *frame = NULL;
        struct gpud_error why = {.reason = ""};
        enum gpud_status status = gpud_target_acquire(ends->target, 0, &frame, &why);
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        CHECK(status == GPUD_OK || strlen(why.reason) > 10, "%s without a sentence",
              gpud_status_string(status));
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT || status == GPUD_PEER ||
                  status == GPUD_CLOSED,
              "%s: %s", gpud_status_string(status), why.reason);
        if (status == GPUD_PEER || status == GPUD_CLOSED)
            return true;
    }
    return false;
}

static void begin_again(struct ends *ends)
{
    atomic_store(ends->writer.stopped, 1);
    writer_close(&ends->writer);
    gpud_target_destroy(&ends->target);
    make_target(ends);
    writer_open(&ends->writer, ends->target);
}

static void test_each_word(void)
{
    static const uint32_t values[] = {0,
                                      1,
                                      2,
                                      SLOTS + 1,
                                      GPUD_TARGET_FRAMES_MAX,
                                      GPUD_TARGET_FRAMES_MAX + 1,
                                      INT32_MAX,
                                      UINT32_C(1) << 31,
                                      UINT32_MAX};
    struct ends ends;
    unsigned ended = 0;
    SAY("each word of the page has each value, while a frame is held and while none is");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "liar");
    if (ends.writer.on_bus) { /* whose markers are elsewhere */
        end(&ends);
        return;
    }
    open_beside(&ends);
    /* A line has one word that means anything. */
    for (unsigned at = 0; at < WORDS; at += ends.writer.on_host ? 1 : 16) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            struct gpud_frame *held = NULL;
            writer_write(&ends.writer);
            WORKS(gpud_target_acquire(ends.target, LONG, &held, &e));
            uint32_t before = atomic_exchange(word_at(&ends, at), values[i]);
            bool broken = take_what_comes(&ends);
            gpud_frame_release(&held);
            broken |= take_what_comes(&ends);
            ended += broken;
            if (!broken)
                atomic_store(word_at(&ends, at), before);
            if (broken || take_what_comes(&ends) || at >= GPUD_TARGET_MARKER(0) / 4)
                begin_again(&ends);
        }
        beside_goes_on();
    }
    SAY("%u lies ended the target", ended);
    CHECK(ended >= 5 * SLOTS, "only %u lies were seen", ended);
    close_beside();
    end(&ends);
}

/* --- all words, all the time ---------------------------------------------------------------- */

struct scribbler {
    struct ends *ends;
    atomic_bool stop;
    uint32_t state;
};

static void *scribble(void *arg)
{
    struct scribbler *scribbler = arg;
    while (!atomic_load(&scribbler->stop)) {
        uint32_t n = scribbler->state = scribbler->state * 1664525 + 1013904223;
        unsigned at = (n >> 8) % WORDS;
        uint32_t value = n >> 30 == 0 ? UINT32_MAX : n >> 30 == 1 ? n >> 20 : (n >> 16) % 16;
        if (at == GPUD_TARGET_STOPPED / 4)
            continue; /* that is the writer's word that it writes no more */
        atomic_store(word_at(scribbler->ends, at), value);
    }
    return NULL;
}

static void test_scribbler(void)
{
    struct ends ends;
    SAY("a thread writes all words without end");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "liar");
    if (ends.writer.on_bus) {
        end(&ends);
        return;
    }
    open_beside(&ends);
    for (uint32_t round = 0; round < (ends.writer.on_host ? 200 : 30); round++) {
        struct scribbler scribbler = {.ends = &ends, .state = round};
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, scribble, &scribbler) == 0, "no thread");
        int64_t until = gpud_deadline(LONG);
        while (!take_what_comes(&ends) && gpud_now() < until)
            ;
        CHECK(gpud_now() < until, "the liar was never found out");
        beside_goes_on();
        atomic_store(&scribbler.stop, true);
        pthread_join(thread, NULL);
        begin_again(&ends);
    }
    close_beside();
    end(&ends);
}

/* --- after the end -------------------------------------------------------------------------- */

static void test_after_close(void)
{
    struct ends ends;
    SAY("markers that lie when this side has gone: the next target of the name begins anew");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "liar");
    open_beside(&ends);
    for (uint32_t round = 0; round < 3; round++) {
        writer_write(&ends.writer);
        struct gpud_frame *frame = take(&ends);
        gpud_frame_release(&frame);
        gpud_target_destroy(&ends.target);
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            writer_mark(&ends.writer, slot, slot == round ? UINT32_C(0x7fffffff) : 1);
        writer_close(&ends.writer);
        make_target(&ends);
        writer_open(&ends.writer, ends.target);
        if (ends.writer.on_bus) {
            take_what_comes(&ends);
        } else {
            uint32_t number = ends.writer.number;
            writer_write(&ends.writer);
            expect(&ends, number, GPUD_FRAME_DISCONTINUITY, 0);
        }
        beside_goes_on();
    }
    close_beside();
    end(&ends);
}

/* --- files ---------------------------------------------------------------------------------- */

static char folder[200], path[256];

static int put(const char *name, const char *text, size_t size)
{
    snprintf(path, sizeof(path), "%s/%s.target", folder, name);
    unlink(path);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, size) == (ssize_t)size && flock(fd, LOCK_EX) == 0, "%m");
    return fd;
}

static size_t count_targets(const char *name, struct gpud_target_entry *found)
{
    struct gpud_target_list *targets;
    uint32_t count;
    WORKS(gpud_target_list_create(&targets, &count, &e));
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_target_entry entry = GPUD_INFO_INIT(entry);
        WORKS(gpud_target_list_get_info(targets, i, &entry, &e));
        if (strcmp(entry.name, name) == 0)
            *found = entry;
    }
    gpud_target_list_destroy(&targets);
    return count;
}

#define GOOD(rate, more)                                                                         \
    "gpudirect-target=1\nname=forged\nprocess=1\nkind=host\npace=paced\nformat=UYVY\nwidth=64\n" \
    "height=48\nslots=4\nframerate=" rate "\n" more

static void forged_files(void)
{
    static const struct {
        const char *what, *text;
        bool listed;
    } said[] = {
        {"a good one", GOOD("50/1", ""), true},
        {"a rate beyond all cards", GOOD("4294967295/2147483648", ""), true},
        {"a rate of nothing", GOOD("50/0", ""), true},
        {"a rate below nothing", GOOD("-1/-1", ""), true},
        {"a rate that is a text", GOOD("\x1b[2J", ""), true},
        {"another version", "gpudirect-target=2\nname=forged\n", false},
        {"a name of another file", "gpudirect-target=1\nname=liar\nprocess=1\n", false},
        {"a process that cannot be", "gpudirect-target=1\nname=forged\nprocess=-1\n", false},
        {"no line's end", "gpudirect-target=1", false},
        {"a key alone", "=\n=\n\n\n=", false},
    };
    struct gpud_target_entry entry = {.size = 0};
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        int fd = put("forged", said[i].text, strlen(said[i].text));
        entry.name[0] = '\0';
        CHECK_EQUAL(count_targets("forged", &entry), 1 + said[i].listed);
        CHECK(!said[i].listed || strcmp(entry.name, "forged") == 0, "%s", said[i].what);
        CHECK(entry.fps_num <= INT32_MAX && entry.fps_den <= INT32_MAX &&
                  (entry.fps_num == 0) == (entry.fps_den == 0),
              "%s: %u/%u", said[i].what, entry.fps_num, entry.fps_den);
        for (const char *c = entry.format; *c; c++)
            CHECK(*c >= ' ' && *c != 0x7f, "%s: a control character", said[i].what);
        close(fd);
    }
    static char large[1 << 20];
    memset(large, 'a', sizeof(large));
    int fd = put("forged", large, sizeof(large));
    CHECK_EQUAL(count_targets("forged", &entry), 1);
    close(fd);
    fd = put("forged", "\0\0\0gpudirect-target=1\n", 22);
    CHECK_EQUAL(count_targets("forged", &entry), 1);
    CHECK(ftruncate(fd, (off_t)1 << 40) == 0, "%m");
    CHECK_EQUAL(count_targets("forged", &entry), 1);
    close(fd);
    unlink(path);
    CHECK(symlink("liar.target", path) == 0, "%m");
    CHECK_EQUAL(count_targets("forged", &entry), 1);
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0, "%m");
    CHECK_EQUAL(count_targets("forged", &entry), 1);
    unlink(path);
}

/* In the way of a target that wants the name. */
static void in_the_way(struct ends *ends)
{
    struct gpud_target_params params = ends->params;
    struct gpud_target *none = NULL;
    struct stat st;
    params.name = "forged";
    CHECK(mkdir(path, 0700) == 0, "%m");
    EXPECT(GPUD_IO, "forged", gpud_target_create(ends->context, &params, &none, &e));
    CHECK(rmdir(path) == 0, "%m");
    CHECK(symlink("/etc/passwd", path) == 0, "%m");
    EXPECT(GPUD_IO, "forged", gpud_target_create(ends->context, &params, &none, &e));
    CHECK(unlink(path) == 0 && stat("/etc/passwd", &st) == 0, "%m");
    int fd = put("forged", "x", 1); /* whose lock is held */
    EXPECT(GPUD_IO, "another target has the name",
           gpud_target_create(ends->context, &params, &none, &e));
    close(fd);
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0, "%m");
    WORKS(gpud_target_create(ends->context, &params, &none, &e)); /* not locked: replaced */
    CHECK(lstat(path, &st) == 0 && S_ISREG(st.st_mode), "not replaced");
    gpud_target_destroy(&none);
}

static void test_files(void)
{
    struct ends ends;
    SAY("forged files are not listed, or with what they may say");
    start_with(&ends, GPUD_TARGET_FREE_RUNNING, "liar");
    snprintf(folder, sizeof(folder), "%s/gpudirect", runtime);
    forged_files();
    if (ends.writer.on_host) {
        SAY("files that are in the way");
        in_the_way(&ends);
    }
    end(&ends);
}

static void everything(void)
{
    test_each_word();
    test_scribbler();
    test_after_close();
    test_files();
}

int main(int argc, char **argv)
{
    alarm(850);
    return run_twice(argc, argv, everything);
}

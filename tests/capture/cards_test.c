/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which capture cards there are: every node of V4L2 and nothing else, each with what it offers and
 * how its frames get to each device; and nothing is changed that a program that captures would
 * notice.
 *
 *     capture-cards [GPU]     with a GPU beside the host
 */
#include "bench.h"

#include "base/base.h"
#include "capture/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *gpu; /* NULL: none */
static char folder[] = "/tmp/gpudirect-cards-XXXXXX";

/* --- a folder with nodes ------------------------------------------------------------------- */

static void in_folder(char path[128], const char *name)
{
    snprintf(path, 128, "%s/dev%s%s", folder, name[0] ? "/" : "", name);
}

static const char *const names[] = {"video10", "video2",       "video",  "video-codec", "vide",
                                    "video2x", "videooutput0", "media0", "v4l-subdev0"};

static void make_folder(void)
{
    char path[128];
    CHECK(mkdtemp(folder), "no folder");
    gpud_sysfs_root = folder;
    in_folder(path, "");
    CHECK(mkdir(path, 0700) == 0, "no folder");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        in_folder(path, names[i]);
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        CHECK(fd >= 0, "no file");
        close(fd);
    }
}

static void remove_folder(void)
{
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        in_folder(path, names[i]);
        unlink(path);
    }
    in_folder(path, "");
    CHECK(rmdir(path) == 0 && rmdir(folder) == 0, "a file is left");
}

static struct gpud_capture_card_list *look(struct bench *bench)
{
    struct gpud_capture_card_list *cards = NULL;
    uint32_t count;
    bench->driver.node = "/dev/video10";
    bench_prepare(bench);
    WORKS(gpud_capture_card_list_look(bench->context, &fake_system, &cards, &count, &e));
    CHECK_EQUAL(count, 2);
    return cards;
}

static struct gpud_capture_card_info info_at(const struct gpud_capture_card_list *cards,
                                             uint32_t index)
{
    struct gpud_capture_card_info info = GPUD_INFO_INIT(info);
    WORKS(gpud_capture_card_list_get_info(cards, index, &info, &e));
    return info;
}

static void end(struct bench *bench, struct gpud_capture_card_list **cards)
{
    CHECK_EQUAL(bench->driver.opened, 0);
    CHECK_EQUAL(bench->driver.changes, 0);
    gpud_capture_card_list_destroy(cards);
    gpud_capture_card_list_destroy(cards);
    bench_close(bench);
}

/* --- what is listed ------------------------------------------------------------------------ */

static void test_nodes(void)
{
    struct bench bench = {0};
    struct gpud_capture_card_list *cards = look(&bench);
    struct gpud_capture_card_info info = info_at(cards, 0);
    CHECK(strcmp(info.address, "v4l2:///dev/video2") == 0, "%s", info.address);
    CHECK(!info.usable && strstr(info.reason, "there is no /dev/video2"), "%s", info.reason);
    CHECK_EQUAL(info.modes, 0);
    CHECK_EQUAL(info.paths, 0);
    info = info_at(cards, 1);
    CHECK(strcmp(info.address, "v4l2:///dev/video10") == 0, "%s", info.address);
    CHECK(info.usable && !info.reason[0], "%s", info.reason);
    CHECK(strcmp(info.driver, "fake") == 0 && info.card[0] == 'x', "%s", info.driver);
    CHECK(strcmp(info.bus, "pci") == 0 && info.signal && !info.signal_reason[0], "%s", info.bus);
    info.size = sizeof(info);
    EXPECT(GPUD_INVALID, "capture card 2 of 2",
           gpud_capture_card_list_get_info(cards, 2, &info, &e));
    end(&bench, &cards);
}

static void test_no_folder(void)
{
    struct gpud_capture_card_list *cards = NULL;
    uint32_t count;
    struct bench bench = {0};
    bench_prepare(&bench);
    gpud_sysfs_root = "/nonexistent";
    WORKS(gpud_capture_card_list_look(bench.context, &fake_system, &cards, &count, &e));
    gpud_sysfs_root = folder;
    CHECK_EQUAL(count, 0);
    end(&bench, &cards);
}

/* As gpud_capture_list_modes() tells them. */
static void test_modes(void)
{
    static struct gpud_capture_mode asked[64];
    struct bench bench = {.driver.sizes = FAKE_DISCRETE};
    struct gpud_capture_card_list *cards = look(&bench);
    const struct gpud_capture_card_info info = info_at(cards, 1);
    const size_t count = info.modes;
    for (size_t i = 0; i < 64; i++)
        asked[i].size = sizeof(asked[i]);
    bench.driver.node = NULL;
    WORKS(bench_create(&bench, &e));
    CHECK_EQUAL(gpud_capture_list_modes(bench.capture, NULL, asked, 64), count);
    CHECK(count > 2 && count < 64, "%zu modes", count);
    for (size_t i = 0; i < count; i++)
        CHECK(memcmp(info.mode[i], &asked[i], sizeof(asked[i])) == 0, "mode %zu differs", i);
    gpud_capture_destroy(&bench.capture);
    bench.driver.changes = 0;
    end(&bench, &cards);
}

/* A signal that the card is not set to: gpud_capture_create() would set it, a list does not. */
static void test_signal(void)
{
    struct bench bench = {.driver = {.digital = true,
                                     .sizes = FAKE_SILENT,
                                     .timings = {.width = 320, .height = 180, .pixelclock = 1},
                                     .detected = {.width = 640, .height = 360, .pixelclock = 1}}};
    struct gpud_capture_card_list *cards = look(&bench);
    CHECK(info_at(cards, 1).signal, "no signal");
    CHECK(info_at(cards, 1).modes > 0, "no mode");
    CHECK_EQUAL(info_at(cards, 1).mode[0]->width_max, 640);
    CHECK_EQUAL(bench.driver.timings.width, 320);
    end(&bench, &cards);

    struct bench without = {.driver = {.digital = true, .detects = ENOLINK}};
    cards = look(&without);
    CHECK(!info_at(cards, 1).signal, "a signal");
    CHECK(strstr(info_at(cards, 1).signal_reason, "is a source connected"), "%s",
          info_at(cards, 1).signal_reason);
    end(&without, &cards);
}

/* --- ways to devices ----------------------------------------------------------------------- */

static struct gpud_capture_card_path way(const struct gpud_capture_card_list *cards,
                                         const char *device)
{
    const struct gpud_capture_card_info info = info_at(cards, 1);
    for (uint32_t i = 0; i < info.paths; i++)
        if (strcmp(info.path[i]->device, device) == 0)
            return *info.path[i];
    FAIL("no way to %s is told", device);
}

static void expect_way(const struct fake_driver *driver, const char *device, bool direct,
                       const char *by, const char *why)
{
    struct bench bench = {.driver = *driver};
    struct gpud_capture_card_list *cards = look(&bench);
    struct gpud_capture_card_path path = way(cards, device);
    CHECK(path.direct == direct, "%s: %s", device, path.reason);
    CHECK(strcmp(path.path, by) == 0, "%s by %s", device, path.path);
    CHECK(why[0] ? strstr(path.reason, why) != NULL : !path.reason[0], "%s: %s", device,
          path.reason);
    end(&bench, &cards);
}

static void test_host(void)
{
    const uint32_t mmap = V4L2_BUF_CAP_SUPPORTS_MMAP, user = V4L2_BUF_CAP_SUPPORTS_USERPTR;
    expect_way(&(struct fake_driver){.memories = 0}, "host", true, "v4l2-userptr", "");
    expect_way(&(struct fake_driver){.memories = mmap | user}, "host", true, "v4l2-userptr", "");
    expect_way(&(struct fake_driver){.memories = mmap}, "host", true, "v4l2-mmap", "");
}

static void test_gpu(void)
{
    const uint32_t mmap = V4L2_BUF_CAP_SUPPORTS_MMAP, dmabuf = V4L2_BUF_CAP_SUPPORTS_DMABUF;
    expect_way(&(struct fake_driver){.memories = mmap | dmabuf}, gpu, true, "v4l2-dmabuf", "");
    expect_way(&(struct fake_driver){.memories = 0}, gpu, true, "v4l2-dmabuf", "");
    expect_way(&(struct fake_driver){.memories = mmap}, gpu, false, "v4l2-mmap",
               "the driver does not take dma-bufs");
    expect_way(&(struct fake_driver){.memories = mmap | dmabuf, .bus = "usb"}, gpu, false,
               "v4l2-mmap", "for cards on the PCI bus alone, and this one is on usb");
}

int main(int argc, char **argv)
{
    gpu = argc > 1 ? argv[1] : NULL;
    make_folder();
    test_nodes();
    test_no_folder();
    test_modes();
    test_signal();
    test_host();
    if (gpu)
        test_gpu();
    remove_folder();
    return 0;
}

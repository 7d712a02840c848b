/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A card's inputs and controls: found by name or number, changed while frames are captured, refused
 * with what there is. */
#include "bench.h"

#include <errno.h>

static enum gpud_status set(struct bench *bench, const char *name, int64_t value,
                            struct gpud_error *error)
{
    struct gpud_capture_control control = {.name = name, .value = value};
    return configure_controls(bench->capture, &control, 1, error);
}

static enum gpud_status set_text(struct bench *bench, const char *name, const char *text,
                                 struct gpud_error *error)
{
    struct gpud_capture_control control = {.name = name, .text = text};
    return configure_controls(bench->capture, &control, 1, error);
}

/* --- controls ------------------------------------------------------------------------------ */

static void test_controls(bool old)
{
    struct bench bench = {.driver = {.has_controls = true, .old_controls = old}};
    const int64_t *now = bench.driver.controls;
    bench_stream(&bench);
    WORKS(set(&bench, "Brightness", 10, &e));
    CHECK_EQUAL(now[FAKE_BRIGHTNESS], 10);
    WORKS(set(&bench, "brightness", 15, &e));
    WORKS(set(&bench, "0x00980900", 20, &e));
    CHECK_EQUAL(now[FAKE_BRIGHTNESS], 20);
    WORKS(set(&bench, "bits", 6, &e));
    CHECK_EQUAL(now[FAKE_BITS], 6);
    WORKS(set(&bench, "exposure_auto", 3, &e));
    CHECK_EQUAL(now[FAKE_AUTO], 3);
    WORKS(set_text(&bench, "Exposure, Auto", "Manual Mode", &e));
    CHECK_EQUAL(now[FAKE_AUTO], 1);
    WORKS(set_text(&bench, "serial", "abc", &e));
    CHECK(strcmp(bench.driver.serial, "abc") == 0, "%s", bench.driver.serial);
    if (!old) {
        WORKS(set(&bench, "long_one", INT64_C(-1000000000000), &e));
        CHECK_EQUAL(now[FAKE_LONG], -1000000000000);
    }

    uint32_t before = bench.driver.controls_set;
    EXPECT(GPUD_INVALID,
           "no control \"contrast\"; it has brightness, bits, serial, long_one, exposure_auto",
           set(&bench, "contrast", 1, &e));
    EXPECT(GPUD_INVALID, "\"Brightness\" of /dev/fake takes 0 to 250 in steps of 5, not 300",
           set(&bench, "brightness", 300, &e));
    EXPECT(GPUD_INVALID, "in steps of 5, not 12", set(&bench, "brightness", 12, &e));
    EXPECT(GPUD_INVALID, "takes a number", set_text(&bench, "brightness", "bright", &e));
    EXPECT(GPUD_INVALID, "not 1", set(&bench, "bits", 1, &e));
    EXPECT(GPUD_INVALID,
           "no entry 2; it has 0 \"Auto Mode\", 1 \"Manual Mode\", 3 \"Aperture Priority Mode\"",
           set(&bench, "exposure_auto", 2, &e));
    EXPECT(GPUD_INVALID, "no entry Manual;", set_text(&bench, "exposure_auto", "Manual", &e));
    EXPECT(GPUD_INVALID, "takes a text", set(&bench, "serial", 1, &e));
    EXPECT(GPUD_INVALID, "1 to 8 characters", set_text(&bench, "serial", "123456789", &e));
    EXPECT(GPUD_INVALID, "no control \"table\"", set(&bench, "table", 1, &e));
    EXPECT(GPUD_UNSUPPORTED, "\"Gain\" of /dev/fake can only be read", set(&bench, "gain", 1, &e));
    EXPECT(GPUD_INVALID, "no name", set(&bench, "", 1, &e));
    CHECK_EQUAL(bench.driver.controls_set, before);
    bench.driver.fault = (struct fake_fault){.request = VIDIOC_S_CTRL, .times = 1, .error = EBUSY};
    EXPECT(GPUD_IO, "cannot be changed now", set(&bench, "brightness", 5, &e));
    struct gpud_frame *frame = bench_pass(&bench, 0, 1); /* nothing of it disturbs */
    CHECK_EQUAL(bench_info_of(frame).epoch, 1);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

/* One that another one switches on may stand before it. */
static void test_order(void)
{
    struct bench bench = {.driver.has_controls = true};
    bench_open(&bench);
    EXPECT(GPUD_UNSUPPORTED, "\"Exposure Time, Absolute\" of /dev/fake has no effect now",
           set(&bench, "exposure_time_absolute", 50, &e));
    const struct gpud_capture_control both[] = {{.name = "exposure_time_absolute", .value = 50},
                                                {.name = "exposure_auto", .value = 1}};
    WORKS(configure_controls(bench.capture, both, 2, &e));
    CHECK_EQUAL(bench.driver.controls[FAKE_EXPOSURE], 50);
    bench_close(&bench);
}

/* Params set them, and a card that comes back has them again, as they were changed last. */
static void test_params(void)
{
    struct bench bench = {.driver = {.has_controls = true, .inputs = {"Camera", "SDI 1"}}};
    static const struct gpud_capture_control at_first[] = {{.name = "brightness", .value = 100},
                                                           {.name = "bits", .value = 2}};
    bench.params = (struct gpud_capture_params){.controls = at_first, .control_count = 2};
    bench.params.input = "sdi 1";
    bench_stream(&bench);
    CHECK_EQUAL(bench.driver.controls[FAKE_BRIGHTNESS], 100);
    CHECK_EQUAL(bench.driver.input, 1);
    WORKS(set(&bench, "brightness", 50, &e));

    struct gpud_frame *frame;
    fake_unplug(&bench.driver, true);
    EXPECT(GPUD_NO_DEVICE, "", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_wait(bench.capture, 0, &e));
    EXPECT(GPUD_NO_DEVICE, "unplugged", set(&bench, "brightness", 60, &e));
    EXPECT(GPUD_NO_DEVICE, "unplugged", configure_input(bench.capture, "0", &e));
    memset(bench.driver.controls, 0, sizeof(bench.driver.controls));
    bench.driver.input = 0;
    fake_unplug(&bench.driver, false);
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    CHECK_EQUAL(bench.driver.controls[FAKE_BRIGHTNESS], 50);
    CHECK_EQUAL(bench.driver.controls[FAKE_BITS], 2);
    CHECK_EQUAL(bench.driver.input, 1);
    bench_close(&bench);

    bench = (struct bench){.driver.has_controls = true};
    bench.params.controls = at_first;
    bench.params.control_count = GPUD_CAPTURE_CONTROLS_MAX + 1;
    bench_prepare(&bench);
    EXPECT(GPUD_INVALID, "up to 64", bench_create(&bench, &e));
    bench.params.control_count = 2;
    bench.driver.has_controls = false;
    EXPECT(GPUD_INVALID, "has no control \"brightness\"; it has none", bench_create(&bench, &e));
    bench.params.control_count = 0;
    bench.params.input = "0";
    EXPECT(GPUD_INVALID, "none to choose from", bench_create(&bench, &e));
    bench.driver.inputs[0] = "Camera";
    bench.driver.inputs[1] = "SDI 1";
    bench.params.input = "HDMI";
    EXPECT(GPUD_INVALID, "no input \"HDMI\"; it has 0 \"Camera\", 1 \"SDI 1\"",
           bench_create(&bench, &e));
    bench.params.input = "2";
    EXPECT(GPUD_INVALID, "no input \"2\"", bench_create(&bench, &e));
    bench_close(&bench);
}

/* --- inputs -------------------------------------------------------------------------------- */

static void expect_size(struct bench *bench, uint32_t width, uint32_t epoch)
{
    struct gpud_frame *frame = bench_pass(bench, epoch, 7);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.layout.width, width);
    CHECK_EQUAL(info.epoch, epoch);
    gpud_frame_release(&frame);
}

static void begin(struct bench *bench)
{
    bench->driver.inputs[0] = "HDMI 0";
    bench->driver.inputs[1] = "HDMI 1";
    bench->driver.widths[0] = 320;
    bench->driver.widths[1] = 640;
    bench->driver.digital = bench->driver.tells = true;
    bench_prepare(bench);
    fake_signal(&bench->driver, 320, 180, false, 0);
    bench->driver.events = 0;
    WORKS(bench_create(bench, &e));
    struct gpud_capture_mode mode = {.size = sizeof(mode), .format = "UYVY", .fps_den = 1};
    WORKS(configure_mode(bench->capture, &mode, &e));
    expect_size(bench, 320, 1);
}

static void test_inputs(bool use_gpu)
{
    struct bench bench = {.use_gpu = use_gpu};
    begin(&bench);
    CHECK(strcmp(bench_info(&bench).input, "HDMI 0") == 0, "%s", bench_info(&bench).input);
    struct gpud_frame *held = bench_pass(&bench, 1, 9);
    for (uint32_t i = 0; i < 20; i++) {
        WORKS(configure_input(bench.capture, i % 2 ? "0" : "hdmi 1", &e));
        WORKS(configure_input(bench.capture, i % 2 ? "HDMI 0" : "1", &e)); /* no news */
        CHECK(strcmp(bench_info(&bench).input, i % 2 ? "HDMI 0" : "HDMI 1") == 0, "%s",
              bench_info(&bench).input);
        expect_size(&bench, i % 2 ? 320 : 640, i + 2);
    }
    bench_check_plane(held, 0, 9);
    gpud_frame_release(&held);

    /* A refusal leaves everything as it is. */
    EXPECT(GPUD_INVALID, "it has 0 \"HDMI 0\", 1 \"HDMI 1\"",
           configure_input(bench.capture, "SDI", &e));
    expect_size(&bench, 320, 21);
    bench.driver.fault = (struct fake_fault){.request = VIDIOC_S_INPUT, .times = 1, .error = EBUSY};
    EXPECT(GPUD_IO, "cannot be switched to its input 1, for another program holds it",
           configure_input(bench.capture, "1", &e));
    CHECK_EQUAL(bench.driver.input, 0);
    expect_size(&bench, 320, 22); /* in another ring */
    EXPECT(GPUD_INVALID, "needed", configure_input(bench.capture, NULL, &e));
    bench_close(&bench);
}

/* A driver that keeps its buffers while they are mapped. back: the first input is asked for again
 * before that. */
static void test_held(bool back)
{
    struct bench bench = {.method = "mmap", .driver.keeps_mapped = true};
    struct gpud_frame *frame;
    begin(&bench);
    struct gpud_frame *held = bench_pass(&bench, 1, 1);
    bench.driver.mapped = 1;
    WORKS(configure_input(bench.capture, "1", &e));
    CHECK_EQUAL(bench.driver.input, 0);
    if (back)
        WORKS(configure_input(bench.capture, "0", &e));
    EXPECT(GPUD_TIMEOUT, "release them", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench.driver.mapped = 0;
    gpud_frame_release(&held);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, GPUD_MSEC, &frame, &e));
    CHECK_EQUAL(bench.driver.input, back ? 0 : 1);
    expect_size(&bench, back ? 320 : 640, 2);
    bench_close(&bench);
}

/* The other input was asked for, and the stream ends before the frames are released. */
static void test_held_until_end(void)
{
    struct bench bench = {.method = "mmap", .driver.keeps_mapped = true};
    struct gpud_capture_mode mode = {.size = sizeof(mode), .format = "UYVY", .fps_den = 1};
    begin(&bench);
    struct gpud_frame *held = bench_pass(&bench, 1, 1);
    bench.driver.mapped = 1;
    WORKS(configure_input(bench.capture, "1", &e));
    EXPECT(GPUD_IO, "release them", configure_mode(bench.capture, &mode, &e));
    CHECK_EQUAL(bench.driver.input, 0);
    bench.driver.mapped = 0;
    gpud_frame_release(&held);
    WORKS(configure_mode(bench.capture, &mode, &e));
    CHECK_EQUAL(bench.driver.input, 1);
    expect_size(&bench, 640, 2);
    bench_close(&bench);
}

/* A size that had to be said at an input without one is not asked of another input. */
static void test_sizes(void)
{
    struct bench bench = {.driver = {.inputs = {"Camera", "HDMI"}}};
    bench_stream(&bench);
    expect_size(&bench, 320, 1);
    bench.driver.digital = true;
    fake_signal(&bench.driver, 640, 360, false, 0);
    WORKS(configure_input(bench.capture, "HDMI", &e));
    expect_size(&bench, 640, 2);
    bench.driver.digital = false;
    WORKS(configure_input(bench.capture, "Camera", &e));
    expect_size(&bench, 320, 3);

    /* And the other way round the pictures stay as large as they are. */
    bench.driver.digital = true;
    WORKS(configure_input(bench.capture, "HDMI", &e));
    struct gpud_capture_mode mode = {.size = sizeof(mode), .format = "UYVY", .fps_den = 1};
    WORKS(configure_mode(bench.capture, &mode, &e));
    expect_size(&bench, 640, 5);
    bench.driver.digital = false;
    WORKS(configure_input(bench.capture, "Camera", &e));
    expect_size(&bench, 640, 6);
    bench_close(&bench);
}

/* --- alpha --------------------------------------------------------------------------------- */

static bool lists(struct bench *bench, const char *format)
{
    struct gpud_capture_mode modes[32] = {GPUD_INFO_INIT(modes[0])};
    size_t count = gpud_capture_list_modes(bench->capture, NULL, modes, 32);
    for (size_t i = 0; i < count && i < 32; i++)
        if (strcmp(modes[i].format, format) == 0)
            return true;
    return false;
}

static struct gpud_layout layout_of(struct bench *bench)
{
    return bench_info(bench).media.picture.layout;
}

/* Pictures are opaque if the card fills in alpha, and have none otherwise. */
static void test_alpha(void)
{
    struct bench bench = {.driver = {.has_controls = true, .more_format = V4L2_PIX_FMT_ABGR32}};
    bench_open(&bench);
    CHECK(lists(&bench, "BGRx") && !lists(&bench, "BGRA"), "alpha that is not filled in");
    EXPECT(GPUD_UNSUPPORTED, "does not offer BGRA; it has UYVY, NV12, BGR, BGRx",
           configure_format(bench.capture, "BGRA", 320, 180, 0, 1, &e));
    WORKS(configure_format(bench.capture, "BGRx", 320, 180, 0, 1, &e));
    CHECK(strcmp(layout_of(&bench).format, "BGRx") == 0, "%s", layout_of(&bench).format);
    bench_close(&bench);

    bench = (struct bench){
        .driver = {.has_controls = true, .has_alpha = true, .more_format = V4L2_PIX_FMT_ABGR32}};
    bench_open(&bench);
    CHECK(lists(&bench, "BGRA") && !lists(&bench, "BGRx"), "no alpha");
    WORKS(configure_format(bench.capture, "BGRA", 320, 180, 0, 1, &e));
    CHECK(strcmp(layout_of(&bench).format, "BGRA") == 0, "%s", layout_of(&bench).format);
    CHECK_EQUAL(bench.driver.controls[FAKE_ALPHA], 255);
    WORKS(set(&bench, "alpha_component", 100, &e));
    WORKS(configure_format(bench.capture, "BGRA", 640, 360, 0, 1, &e));
    CHECK_EQUAL(bench.driver.controls[FAKE_ALPHA], 100); /* as requested */
    bench_close(&bench);
}

int main(void)
{
    test_alpha();
    test_sizes();
    test_controls(false);
    test_controls(true);
    test_order();
    test_params();
    test_inputs(false);
    test_inputs(true);
    test_held(false);
    test_held(true);
    test_held_until_end();
    puts("ok");
    return 0;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a capture card's frames cost, and how old they are when they can be shown: acquired and
 * mapped. Their age is known by the driver's stamps, and by the clock that a test card draws into
 * its pictures.
 *
 * The kernel's vivid writes " HH:MM:SS:mmm N" at (16,16), in letters of 8x16 pixels: the time since
 * the stream began, to the kernel's tick, and the picture's number. The font is unknown here: the
 * driver reports each picture's number, from which the digits are learned, and each number is
 * checked. */
#include "ceilings/ceilings.h"
#include "stats.h"
#include "clock.h"
#include "json.h"

#include <gpudirect/gpudirect.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2
#define EXIT_DAMAGE 3

struct job {
    const char *address;
    gchar *to, *route, *format; /* NULL: the host, the best, the card's choice */
    gchar *fps;                 /* NULL: the card's choice */
    guint fps_num, fps_den;
    gint width, height; /* 0: the card's choice */
    gint frames, warmup, timeout;
};

struct result {
    struct gpud_capture_info info;                               /* at the end */
    uint64_t frames, dropped, corrupted, copies_cpu, copies_gpu; /* in the measured section */
    double seconds, cpu;                                         /* cpu: us a frame */
    bool stamped; /* latencies by the driver's stamps are known */
    struct stats_latency stamp;
    const char *no_clock; /* why the pictures' own clock is unknown; NULL: it is known */
    /* The picture's clock began when the driver was asked to stream, or up to this much later: */
    double slack;                 /* us */
    double step;                  /* of that clock, us */
    struct stats_latency at_most; /* at least: this less `slack` */
    uint64_t timed, right;        /* frames with a time; with the number that the driver reports */
};

/* What each digit looks like. */
struct clock {
    uint8_t digit[10][16];
    bool known[10];
};

#define CELLS 24

/* The letters of one picture: a bit for each pixel, set if it is bright. */
struct text {
    uint8_t cell[CELLS][16];
};

/* === pictureclock ============================================================================ */

#define LEFT 16
#define TOP 16
#define COLUMNS 8
#define ROWS 16
#define BRIGHT 0x60 /* letters are 0xb3 or more on black */

/* Positions in the text. */
#define TIME 1
#define NUMBER 14

/* --- the picture -------------------------------------------------------------------------- */

/* Where a format has its brightness: the bytes from one pixel to the next, and the byte within. */
static const struct {
    const char *name;
    uint8_t step, byte;
} formats[] = {
    {"UYVY", 2, 1}, {"VYUY", 2, 1}, {"YUY2", 2, 0}, {"YVYU", 2, 0},  {"NV12", 1, 0},
    {"NV21", 1, 0}, {"NV16", 1, 0}, {"NV61", 1, 0}, {"NV24", 1, 0},  {"I420", 1, 0},
    {"YV12", 1, 0}, {"Y42B", 1, 0}, {"Y444", 1, 0}, {"GRAY8", 1, 0}, {"BGRx", 4, 1},
    {"BGRA", 4, 1}, {"RGBx", 4, 1}, {"RGBA", 4, 1}, {"RGB", 3, 1},   {"BGR", 3, 1},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

/* false: pictures of this layout cannot be read, *reason says why. */
static bool clock_look(const struct gpud_layout *layout, const void *data, struct text *text,
                       const char **reason)
{
    const struct gpud_plane *plane = &layout->plane[0];
    size_t format = 0;
    while (format < FORMATS && strcmp(formats[format].name, layout->format) != 0)
        format++;
    if (format == FORMATS) {
        *reason = "text is not read from pictures of this format: take UYVY, NV12 or BGRx";
        return false;
    }
    if (layout->width < LEFT + COLUMNS * CELLS || layout->height < TOP + ROWS) {
        *reason = "the pictures are too small for text";
        return false;
    }
    memset(text, 0, sizeof(*text));
    for (uint32_t row = 0; row < ROWS; row++) {
        const uint8_t *pixels =
            (const uint8_t *)data + plane->offset + (uint64_t)(TOP + row) * plane->stride;
        for (uint32_t x = 0; x < COLUMNS * CELLS; x++)
            if (pixels[(LEFT + x) * formats[format].step + formats[format].byte] > BRIGHT)
                text->cell[x / COLUMNS][row] |= (uint8_t)(0x80 >> x % COLUMNS);
    }
    return true;
}

/* --- the text ----------------------------------------------------------------------------- */

static bool same(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, ROWS) == 0;
}

/* All bright or all dark is not a letter. */
static bool is_letter(const uint8_t *cell)
{
    bool some = false, all = true;
    for (uint32_t row = 0; row < ROWS; row++) {
        some = some || cell[row] != 0;
        all = all && cell[row] == 0xff;
    }
    return some && !all;
}

static bool is_space(const uint8_t *cell)
{
    static const uint8_t blank[ROWS];
    return same(cell, blank);
}

/* The form in which vivid writes a time: the same letter between the digits, blanks around it. */
static bool has_form(const struct text *text)
{
    const uint8_t *colon = text->cell[TIME + 2];
    return is_letter(colon) && same(colon, text->cell[TIME + 5]) &&
           same(colon, text->cell[TIME + 8]) && is_space(text->cell[0]) &&
           is_space(text->cell[NUMBER - 1]);
}

/* Learns from all pictures, with their numbers. false: they carry no such clock. */
static bool clock_learn(struct clock *clock, const struct text *texts, const uint32_t *numbers,
                        size_t count)
{
    memset(clock, 0, sizeof(*clock));
    for (size_t i = 0; i < count; i++) {
        char digits[16];
        int length = snprintf(digits, sizeof(digits), "%u", numbers[i]);
        if (!has_form(&texts[i]))
            return false;
        for (int k = 0; k < length; k++) {
            const uint8_t *cell = texts[i].cell[NUMBER + k];
            int digit = digits[k] - '0';
            if (!clock->known[digit])
                memcpy(clock->digit[digit], cell, ROWS);
            clock->known[digit] = true;
        }
    }
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < a; b++)
            if (clock->known[a] && clock->known[b] && same(clock->digit[a], clock->digit[b]))
                return false;
    return count > 0;
}

static int digit_of(const struct clock *clock, const uint8_t *cell)
{
    for (int digit = 0; digit < 10; digit++)
        if (clock->known[digit] && same(clock->digit[digit], cell))
            return digit;
    return -1;
}

static bool shows(const struct clock *clock, const struct text *text, uint32_t number)
{
    char digits[16];
    int length = snprintf(digits, sizeof(digits), "%u", number);
    for (int k = 0; k < length; k++)
        if (digit_of(clock, text->cell[NUMBER + k]) != digits[k] - '0')
            return false;
    return digit_of(clock, text->cell[NUMBER + length]) < 0;
}

/* The picture's time, ms since the stream began; -1: it cannot be read. *right: its number is the
 * driver's. */
static int64_t clock_tell(const struct clock *clock, const struct text *text, uint32_t number,
                          bool *right)
{
    static const struct {
        uint8_t place;
        int64_t ms;
    } digits[] = {{0, 36000000}, {1, 3600000}, {3, 600000}, {4, 60000}, {6, 10000},
                  {7, 1000},     {9, 100},     {10, 10},    {11, 1}};
    int64_t time = 0;
    *right = shows(clock, text, number);
    for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
        int digit = digit_of(clock, text->cell[TIME + digits[i].place]);
        if (digit < 0)
            return -1;
        time += digit * digits[i].ms;
    }
    return time;
}

/* === capture ================================================================================= */
/* Measures from the card to the point where a frame can be shown: acquired and mapped. */

#define MODES_MAX 1024

/* What is noted for each frame. */
struct samples {
    size_t count;
    int64_t *stamps, *came, *shown; /* monotonic ns; stamps: -1 if the driver's is unknown */
    uint32_t *numbers;
    struct text *texts;
    const char *no_text; /* why there is no text */
};

static void samples_init(struct samples *samples, size_t count)
{
    *samples = (struct samples){
        .stamps = g_new0(int64_t, count),
        .came = g_new0(int64_t, count),
        .shown = g_new0(int64_t, count),
        .numbers = g_new0(uint32_t, count),
        .texts = g_new0(struct text, count),
    };
}

static void samples_clear(struct samples *samples)
{
    g_free(samples->stamps);
    g_free(samples->came);
    g_free(samples->shown);
    g_free(samples->numbers);
    g_free(samples->texts);
}

static struct gpud_capture_info info_of(struct gpud_capture *capture)
{
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    gpud_capture_get_info(capture, &info);
    return info;
}

/* --- setting the card up -------------------------------------------------------------------- */

static double rate_of(uint32_t num, uint32_t den)
{
    return den ? (double)num / den : 0;
}

/* The fastest mode, and the largest of these, because latency is measured. */
static bool is_better(const struct gpud_capture_mode *mode, const struct gpud_capture_mode *best)
{
    double fps = rate_of(mode->fps_num, mode->fps_den);
    double best_fps = rate_of(best->fps_num, best->fps_den);
    uint64_t size = (uint64_t)mode->width_min * mode->height_min;
    return fps > best_fps ||
           (fps == best_fps && size > (uint64_t)best->width_min * best->height_min);
}

/* A mode of the requested format, else of UYVY, else of the card's first. */
static bool choose_mode(struct gpud_capture *capture, const struct job *job,
                        struct gpud_capture_mode *mode)
{
    struct gpud_capture_mode *modes = g_new0(struct gpud_capture_mode, MODES_MAX);
    modes[0].size = sizeof(modes[0]);
    size_t count = MIN(gpud_capture_list_modes(capture, NULL, modes, MODES_MAX), MODES_MAX);
    const char *format = job->format ? job->format : count ? modes[0].format : "UYVY";
    for (size_t i = 0; i < count && !job->format; i++)
        if (strcmp(modes[i].format, "UYVY") == 0)
            format = modes[i].format;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(modes[i].format, format) != 0 || (found && !is_better(&modes[i], mode)))
            continue;
        *mode = modes[i];
        found = true;
    }
    g_strlcpy(mode->format, format, sizeof(mode->format));
    mode->size = sizeof(*mode);
    g_free(modes);
    return found;
}

static enum gpud_status configure(struct gpud_capture *capture, const struct job *job,
                                  struct gpud_error *error)
{
    struct gpud_capture_info info = info_of(capture);
    struct gpud_capture_mode mode = GPUD_INFO_INIT(mode);
    bool found = choose_mode(capture, job, &mode);
    mode.scan = GPUD_SCAN_ANY;
    if (job->width) {
        mode.width_min = (uint32_t)job->width;
        mode.height_min = (uint32_t)job->height;
    } else if (info.signal_width || !found) {
        mode.width_min = mode.height_min = 0; /* the signal's own */
    }
    mode.fps_num = job->fps ? job->fps_num : job->width ? 0 : mode.fps_num;
    mode.fps_den = job->fps ? job->fps_den : job->width || !mode.fps_den ? 1 : mode.fps_den;
    const struct gpud_capture_config config = {.size = sizeof(config), .mode = &mode};
    return gpud_capture_configure(capture, &config, error);
}

/* --- measuring ----------------------------------------------------------------------------- */

static enum gpud_status take(struct gpud_capture *capture, int64_t timeout, struct samples *samples,
                             struct gpud_error *error)
{
    struct gpud_frame *frame = NULL;
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;
    size_t i = samples->count;
    enum gpud_status status = gpud_capture_acquire(capture, timeout, &frame, error);
    if (status != GPUD_OK)
        return status;
    gpud_frame_get_info(frame, &info);
    status = gpud_frame_map(frame, GPUD_READ, timeout, &data, error);
    if (status == GPUD_OK) {
        samples->shown[i] = clock_now();
        samples->came[i] = (int64_t)info.submitted_ns;
        samples->stamps[i] = info.pts_ns == GPUD_TIME_NONE ? -1 : (int64_t)info.pts_ns;
        samples->numbers[i] = (uint32_t)info.offset;
        if (!samples->no_text &&
            !clock_look(&info.layout, data, &samples->texts[i], &samples->no_text))
            memset(&samples->texts[i], 0, sizeof(samples->texts[i]));
        samples->count++;
        gpud_frame_unmap(frame);
    }
    gpud_frame_release(&frame);
    return status;
}

static enum gpud_status take_all(struct gpud_capture *capture, const struct job *job,
                                 int64_t timeout, struct samples *samples, struct result *result,
                                 struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (gint i = 0; i < job->warmup && status == GPUD_OK; i++) {
        status = take(capture, timeout, samples, error);
        samples->count = 0;
    }
    struct gpud_capture_info before = info_of(capture);
    int64_t begin = clock_now(), cpu = clock_cpu_time();
    while (status == GPUD_OK && samples->count < (size_t)job->frames)
        status = take(capture, timeout, samples, error);
    if (status != GPUD_OK)
        return status;
    result->seconds = (double)(clock_now() - begin) / (double)GPUD_SEC;
    result->cpu = (double)(clock_cpu_time() - cpu) / (double)job->frames / 1000;
    result->info = info_of(capture);
    result->frames = samples->count;
    result->dropped = result->info.dropped - before.dropped;
    result->corrupted = result->info.corrupted - before.corrupted;
    result->copies_cpu = result->info.copies_cpu - before.copies_cpu;
    result->copies_gpu = result->info.copies_gpu - before.copies_gpu;
    return GPUD_OK;
}

/* --- figures -------------------------------------------------------------------------------- */

static void compare_stamps(const struct samples *samples, struct result *result)
{
    int64_t *ages = g_new0(int64_t, samples->count);
    result->stamped = true;
    for (size_t i = 0; i < samples->count; i++) {
        result->stamped = result->stamped && samples->stamps[i] >= 0;
        ages[i] = samples->shown[i] - samples->stamps[i];
    }
    if (result->stamped)
        result->stamp = stats_latency_of(ages, samples->count);
    g_free(ages);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The driver is asked to stream before the card's clock begins, and a picture is drawn before it
 * arrives. The clock's start is unknown between these times. */
static void compare_pictures(const struct samples *samples, struct result *result)
{
    struct clock clock;
    int64_t *ages = g_new0(int64_t, samples->count);
    int64_t began = (int64_t)result->info.started_ns, slack = INT64_MAX, step = 0;
    if (samples->no_text)
        result->no_clock = samples->no_text;
    else if (!clock_learn(&clock, samples->texts, samples->numbers, samples->count))
        result->no_clock = "the pictures carry no clock: vivid draws one after v4l2-ctl -d NODE -c "
                           "osd_text_mode=1";
    for (size_t i = 0; i < samples->count && !result->no_clock; i++) {
        bool right;
        int64_t ms = clock_tell(&clock, &samples->texts[i], samples->numbers[i], &right);
        result->right += right;
        if (ms < 0)
            continue;
        int64_t drawn = began + ms * GPUD_MSEC;
        slack = MIN(slack, samples->came[i] - drawn);
        step = common_divisor(step, ms);
        ages[result->timed++] = samples->shown[i] - drawn;
    }
    if (!result->no_clock && !result->timed)
        result->no_clock = "it shows digits that appeared in no number: measure more --frames";
    if (!result->no_clock) {
        result->slack = (double)MAX(slack, 0) / 1000;
        result->step = (double)step * 1000;
        result->at_most = stats_latency_of(ages, (size_t)result->timed);
    }
    g_free(ages);
}

/* --- a run --------------------------------------------------------------------------------- */

static enum gpud_status measure(const struct job *job, struct result *result,
                                struct gpud_error *error)
{
    struct gpud_context *context = NULL;
    struct gpud_capture *capture = NULL;
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    struct samples samples;
    params.address = job->address;
    params.device = job->to ? job->to : "host";
    params.method = job->route;
    samples_init(&samples, (size_t)job->frames);
    enum gpud_status status = gpud_context_create(NULL, &context, error);
    if (status == GPUD_OK)
        status = gpud_capture_create(context, &params, &capture, error);
    if (status == GPUD_OK)
        status = configure(capture, job, error);
    if (status == GPUD_OK)
        status = take_all(capture, job, job->timeout * GPUD_SEC, &samples, result, error);
    if (status == GPUD_OK) {
        compare_stamps(&samples, result);
        compare_pictures(&samples, result);
    }
    gpud_capture_destroy(&capture);
    gpud_context_destroy(&context);
    samples_clear(&samples);
    return status;
}

/* === report ================================================================================== */

/* us; null: unknown. */
static void put_latency(JsonBuilder *builder, const char *key, bool known,
                        const struct stats_latency *latency, double less)
{
    if (!known) {
        json_put_string(builder, key, NULL);
        return;
    }
    json_begin_object(builder, key);
    json_put_number(builder, "p50", latency->p50 - less);
    json_put_number(builder, "p99", latency->p99 - less);
    json_put_number(builder, "max", latency->max - less);
    json_put_number(builder, "jitter", latency->jitter);
    json_builder_end_object(builder);
}

static void print_report(const struct job *job, const struct result *result)
{
    const struct gpud_capture_info *info = &result->info;
    const struct gpud_picture *picture = &info->media.picture;
    bool clock = !result->no_clock;
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_text(builder, "capture", job->address);
    json_put_text(builder, "card", info->card);
    json_put_text(builder, "driver", info->driver);
    json_put_text(builder, "device", info->device);
    json_put_text(builder, "format", picture->layout.format);
    json_put_int(builder, "width", picture->layout.width);
    json_put_int(builder, "height", picture->layout.height);
    json_put_number(builder, "fps", rate_of(picture->rate.num, picture->rate.den));
    json_put_text(builder, "path", info->path);
    json_put_text(builder, "fallback_reason", info->fallback_reason);
    json_put_int(builder, "frames", (gint64)result->frames);
    json_put_number(builder, "seconds", result->seconds);
    json_put_int(builder, "dropped", (gint64)result->dropped);
    json_put_int(builder, "corrupted", (gint64)result->corrupted);
    json_put_number(builder, "cpu_us_per_frame", result->cpu);
    json_put_int(builder, "copies_cpu", (gint64)result->copies_cpu);
    json_put_int(builder, "copies_gpu", (gint64)result->copies_gpu);
    json_put_text(builder, "stamps",
                  !result->stamped     ? "unknown"
                  : info->stamps_start ? "start-of-exposure"
                                       : "end-of-frame");
    /* Negative where the driver stamps a frame at its start with its estimated end. */
    put_latency(builder, "latency_stamps_us", result->stamped, &result->stamp, 0);
    json_put_text(builder, "no_picture_clock", result->no_clock);
    put_latency(builder, "latency_picture_at_most_us", clock, &result->at_most, 0);
    put_latency(builder, "latency_picture_at_least_us", clock, &result->at_most, result->slack);
    json_put_number(builder, "picture_clock_step_us", result->step);
    json_put_int(builder, "pictures_timed", (gint64)result->timed);
    json_put_int(builder, "pictures_right", (gint64)result->right);
    json_builder_end_object(builder);
    json_print(builder, true);
}

static bool parse_rate(struct job *job)
{
    char end;
    job->fps_den = 1;
    return !job->fps || ((sscanf(job->fps, "%u%c", &job->fps_num, &end) == 1 ||
                          sscanf(job->fps, "%u/%u%c", &job->fps_num, &job->fps_den, &end) == 2) &&
                         job->fps_num > 0 && job->fps_den > 0);
}

int main(int argc, char **argv)
{
    struct job job = {.frames = 300, .warmup = 32, .timeout = 60};
    const GOptionEntry entries[] = {
        {"to", 0, 0, G_OPTION_ARG_STRING, &job.to, "The frames' device (host)", "DEVICE"},
        {"route", 0, 0, G_OPTION_ARG_STRING, &job.route, "dmabuf, userptr or mmap (the best)",
         "ROUTE"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &job.format, "GStreamer's name of it", "FORMAT"},
        {"width", 0, 0, G_OPTION_ARG_INT, &job.width, "With --height (the signal's)", "PIXELS"},
        {"height", 0, 0, G_OPTION_ARG_INT, &job.height, "(the signal's)", "PIXELS"},
        {"fps", 0, 0, G_OPTION_ARG_STRING, &job.fps, "60 or 60000/1001 (the fastest)", "RATE"},
        {"frames", 0, 0, G_OPTION_ARG_INT, &job.frames, "Frames to measure (300)", "N"},
        {"warmup", 0, 0, G_OPTION_ARG_INT, &job.warmup, "Frames before those (32)", "N"},
        {"timeout", 0, 0, G_OPTION_ARG_INT, &job.timeout, "For one frame (60)", "SECONDS"},
        {NULL},
    };
    GError *wrong = NULL;
    GOptionContext *context = g_option_context_new("ADDRESS — how old a card's frames are");
    g_option_context_add_main_entries(context, entries, NULL);
    bool good = g_option_context_parse(context, &argc, &argv, &wrong);
    g_option_context_free(context);
    if (!good || argc != 2 || !job.width != !job.height || job.frames < 2 || job.warmup < 0 ||
        !parse_rate(&job)) {
        fprintf(stderr, "tools-capture-age: %s\n",
                good ? "an address, frames, --width and --height together, and a rate like 60 or "
                       "60000/1001"
                     : wrong->message);
        return EXIT_USAGE;
    }
    struct gpud_error error = {.reason = ""};
    struct result *result = g_new0(struct result, 1);
    job.address = argv[1];
    enum gpud_status status = measure(&job, result, &error);
    if (status != GPUD_OK) {
        fprintf(stderr, "tools-capture-age: %s\n", error.reason);
        if (status == GPUD_NO_DEVICE)
            fputs("tools-capture-age: without a capture card, use the kernel's test card: as root, "
                  "modprobe vivid; v4l2-ctl --list-devices says which node it is\n",
                  stderr);
        return status == GPUD_INVALID ? EXIT_USAGE : EXIT_FAILURE;
    }
    print_report(&job, result);
    uint64_t wrong_numbers = result->no_clock ? 0 : result->frames - result->right;
    bool damaged = result->corrupted || wrong_numbers;
    if (damaged)
        fprintf(stderr,
                "tools-capture-age: damage: the card reported %llu of %llu frames as corrupted, "
                "and %llu show another number than the driver's\n",
                (unsigned long long)result->corrupted, (unsigned long long)result->frames,
                (unsigned long long)wrong_numbers);
    g_free(result);
    return damaged ? EXIT_DAMAGE : EXIT_SUCCESS;
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Scarce resources: an address space that is exhausted at each step of connecting, and a full
 * runtime directory. What does not fit is refused with a reason, nothing hangs, no
 * signal ends the process, and another receiver of the same sender loses no frame. */
#include "actor.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define FRAMES 20
#define CHILD "--child"
#define REFUSED 3 /* the exit status of a process that was told why */

static struct background background;

static atomic_uint sentences;

static void check_reason(const char *text)
{
    CHECK(!strstr(text, "different machines"), "it says \"%s\" on one machine", text);
}

static void on_log(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    check_reason(text);
    if (level <= GPUD_LOG_WARNING && strlen(text) > 10)
        atomic_fetch_add(&sentences, 1);
}

static bool is_good(const char *what, enum gpud_status status, const struct gpud_error *error)
{
    if (status == GPUD_OK)
        return true;
    check_reason(error->reason);
    if (strlen(error->reason) <= 10)
        FAIL("%s ends with \"%s\" and without a sentence", what, gpud_status_string(status));
    return false;
}

static void limit_address_space(uint64_t more)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%lu", &pages) == 1, "statm");
    fclose(file);
    struct rlimit limit = {.rlim_cur = pages * 4096 + more, .rlim_max = RLIM_INFINITY};
    if (more)
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

static int receive_some(struct gpud_context *context, const char *address)
{
    struct gpud_receiver *receiver;
    struct gpud_error error = {.reason = ""};
    unsigned got = 0;
    enum gpud_status created = gpud_receiver_create(
        context, WITH_SIZE(gpud_receiver_params, .address = address), &receiver, &error);
    if (!is_good("create", created, &error))
        return REFUSED;
    /* A sender that could not serve it says so, and it tries again: that is not waited for. */
    for (unsigned tries = 0; got < FRAMES && tries < 100; tries++) {
        if (tries > 5 && got == 0 && atomic_load(&sentences) > 0)
            break;
        struct gpud_frame *frame;
        void *data;
        error = (struct gpud_error){.reason = ""};
        enum gpud_status status = gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &error);
        if (status == GPUD_TIMEOUT || !is_good("acquire", status, &error)) {
            atomic_fetch_add(&sentences, strlen(error.reason) > 10);
            continue;
        }
        if (is_good("map", gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, &error), &error)) {
            gpud_frame_unmap(frame);
            got++;
        }
        gpud_frame_release(&frame);
    }
    gpud_receiver_destroy(&receiver);
    CHECK(got == FRAMES || atomic_load(&sentences) > 0, "%u frames, and no sentence", got);
    return got == FRAMES ? 0 : REFUSED;
}

static int send_some(struct gpud_context *context, const char *address)
{
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_error error = {.reason = ""};
    int result = 0;
    enum gpud_status created = gpud_sender_create(
        context, WITH_SIZE(gpud_sender_params, .address = address), &sender, &error);
    if (!is_good("create", created, &error)) {
        SAY("  %s", error.reason);
        return REFUSED;
    }
    WORKS(gpud_layout_init(&layout, "NV12", 1920, 1080, 0, &e));
    if (!is_good("configure", gpud_sender_configure(sender, PICTURE(&layout), &error), &error))
        result = REFUSED;
    for (unsigned i = 0; i < FRAMES && result == 0; i++) {
        struct gpud_frame *frame = NULL;
        if (!is_good("acquire", gpud_sender_acquire(sender, GPUD_SEC, &frame, &error), &error) ||
            !is_good("submit", gpud_sender_submit(sender, &frame, GPUD_SEC, &error), &error))
            result = REFUSED;
        if (frame)
            gpud_frame_release(&frame);
    }
    gpud_sender_destroy(&sender);
    return result;
}

/* Ends with 0 or REFUSED, after it has closed everything. */
static int be_short(const char *what, uint64_t more)
{
    const struct gpud_context_params params = {
        .size = sizeof(params), .log = on_log, .log_level = GPUD_LOG_WARNING};
    struct gpud_context *context;
    struct gpud_error error = {.reason = ""};
    test_alarm(60);
    struct baseline before = baseline_take();
    limit_address_space(more);
    if (!is_good("context", gpud_context_create(&params, &context, &error), &error))
        return REFUSED;
    int result = strcmp(what, "receive") == 0 ? receive_some(context, BACKGROUND_ADDRESS)
                                              : send_some(context, "scarce");
    gpud_context_destroy(&context);
    limit_address_space(1 << 30);
    if (result == 0)
        BASELINE_CHECK(before);
    return result;
}

/* What a process with so much ends with. */
static int spawn(const char *what, uint64_t number)
{
    char text[24];
    int state;
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "scarce", CHILD, what, text, (char *)NULL);
        _exit(127);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) &&
              (WEXITSTATUS(state) == 0 || WEXITSTATUS(state) == REFUSED ||
               (WEXITSTATUS(state) == 77 && strcmp(what, "directory") == 0)),
          "%s with %s ends with %x", what, text, state);
    return WEXITSTATUS(state);
}

/* More than enough succeeds, too little is refused. */
struct count {
    unsigned of[REFUSED + 1];
};

static void check_count(const struct count *count)
{
    SAY("  %u are enough, %u are refused", count->of[0], count->of[REFUSED]);
    CHECK(count->of[0] > 0 && count->of[REFUSED] > 0, "they are not around what is needed");
}

static void each_size(const char *what)
{
    struct count count = {0};
    /* First in pages, then in what threads and rings take. */
    for (uint64_t more = 16 * KIB; more <= 96 * MIB; more += more / 2)
        count.of[spawn(what, more)]++;
    CHECK_EQUAL(spawn(what, 0), 0);
    check_count(&count);
}

static void receivers(void)
{
    each_size("receive");
}

static void senders(void)
{
    each_size("send");
}

static int with_few_descriptors(unsigned left)
{
    const struct gpud_context_params params = {
        .size = sizeof(params), .log = on_log, .log_level = GPUD_LOG_INFO};
    struct gpud_context *context;
    test_alarm(60);
    WORKS(gpud_context_create(&params, &context, &e));
    /* Until so many are left. */
    int fd, last = -1;
    struct rlimit limit = {.rlim_cur = 256, .rlim_max = 256};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        last = fd;
    for (unsigned i = 0; i < left; i++)
        close(last - (int)i);
    int result = receive_some(context, BACKGROUND_ADDRESS);
    gpud_context_destroy(&context);
    return result;
}

static void few_descriptors(void)
{
    struct count count = {0};
    for (uint64_t left = 0; left <= 16; left++)
        count.of[spawn("descriptors", left)]++;
    check_count(&count);
}

/* --- the runtime directory ---------------------------------------------------------------------
 */

static int in_a_small_directory(unsigned inodes)
{
    char options[64], folder[] = "/tmp/gpudirect-scarce-XXXXXX";
    snprintf(options, sizeof(options), "size=4k,nr_inodes=%u,mode=700", inodes);
    if (!mkdtemp(folder) || unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("gpudirect-test", folder, "tmpfs", 0, options) < 0)
        return 77;
    setenv("XDG_RUNTIME_DIR", folder, 1);
    int result = be_short("send", 0);
    umount(folder);
    rmdir(folder);
    return result;
}

static void full_directory(void)
{
    struct count count = {0};
    for (unsigned inodes = 1; inodes <= 6; inodes++) {
        int result = spawn("directory", inodes);
        if (result == 77) {
            SAY("  left out: only root can mount a directory of its own");
            return;
        }
        count.of[result]++;
    }
    check_count(&count);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"receivers whose address space ends at each size", receivers},
        {"senders whose address space ends at each size", senders},
        {"receivers with few descriptors", few_descriptors},
        {"senders whose runtime directory is full", full_directory},
    };
    if (argc == 4 && strcmp(argv[1], CHILD) == 0) {
        uint64_t number = strtoull(argv[3], NULL, 10);
        if (strcmp(argv[2], "descriptors") == 0)
            return with_few_descriptors((unsigned)number);
        return strcmp(argv[2], "directory") == 0 ? in_a_small_directory((unsigned)number)
                                                 : be_short(argv[2], number);
    }
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}

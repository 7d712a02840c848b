/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The kill matrix: at each named point of the hand-off, on each way of a frame, processes are
 * killed exactly there. The survivors stream again, a crash is told as one, nothing is lost without
 * a word (I1, I2, I3), nothing leaks (I4). Every cell runs in a process of its own, some at a time;
 * at the end a table says how often each point was died at, and after how many ms at most frames
 * came again. */
#include "kill.h"
#include "support/copies.h"

/* --- points ----------------------------------------------------------------------------------- */

#define MAP_GPU (WAY_CUDA | WAY_HIP)
#define PEER_GPU (WAY_PEER | WAY_HIP_PEER)
#define BETWEEN_HOSTS (WAY_RDMA | WAY_TCP)
#define STAGED (WAY_STAGED | WAY_UP | WAY_DOWN)
#define TAKES_BACK (WAY_HOST | WAY_VULKAN | MAP_GPU | PEER_GPU | STAGED | WAY_DIRECTGMA | WAY_PUSH)
#define ALL (TAKES_BACK | BETWEEN_HOSTS)
/* What dies is the main sender of a group, or the group. */
#define GROUPED (ALL | WAYS_OF_GROUPS)
/* Of a sender that dies: where another one stands by, too. */
#define MAY_STAND_BY (GROUPED | WAY_STANDBY)
#define SHARED (WAY_HOST | WAY_VULKAN | MAP_GPU | STAGED) /* a ring of the sender's */
#define SIGNALLED (MAP_GPU | PEER_GPU | WAY_DIRECTGMA)    /* words that the devices write */
#define BY_QUEUE (MAP_GPU | PEER_GPU)                     /* and that the page holds */

const struct point points[] = {
    {"sender: connection accepted", BY_CONNECTING, MAY_STAND_BY},
    {"sender: HELLO read", BY_CONNECTING, MAY_STAND_BY},
    {"sender: OFFER sent", BY_CONNECTING, MAY_STAND_BY},
    {"sender: ACCEPT read", BY_CONNECTING, MAY_STAND_BY},
    {"sender: test frame published", BY_CONNECTING, MAY_STAND_BY},
    {"sender: CANARY sent", BY_CONNECTING, MAY_STAND_BY},
    {"sender: READY read", BY_CONNECTING, MAY_STAND_BY},
    {"sender: before a credit is taken", BY_FRAMES, MAY_STAND_BY},
    {"sender: credit taken", BY_FRAMES, MAY_STAND_BY},
    {"sender: described", BY_FRAMES, MAY_STAND_BY},
    {"sender: signal posted", BY_FRAMES, SIGNALLED},
    {"sender: copy enqueued", BY_FRAMES, MAY_STAND_BY},
    {"sender: published", BY_FRAMES, MAY_STAND_BY},
    {"sender: reaped", BY_FRAMES, MAY_STAND_BY},
    {"sender: wait enqueued", BY_A_HELD_GPU, BY_QUEUE},
    {"sender: revoked", BY_SLOWNESS, TAKES_BACK | WAY_STANDBY | WAYS_OF_GROUPS},
    {"sender: frame waits", BY_SLOWNESS, BETWEEN_HOSTS},
    {"sender: waiting frame published", BY_SLOWNESS, BETWEEN_HOSTS},
    {"sender: message sent, not counted", BY_EVENTS, MAY_STAND_BY},
    {"sender: event sent", BY_EVENTS, MAY_STAND_BY},
    {"sender: EOS sent", BY_ENDS, MAY_STAND_BY},
    {"sender: new epoch's OFFER sent", BY_EPOCHS, MAY_STAND_BY},
    {"sender: GROW sent", BY_GROWTH, SHARED | WAY_STANDBY | WAYS_OF_GROUPS},
    {"sender: BYE sent", BY_LEAVING, GROUPED},
    {"receiver: HELLO sent", BY_CONNECTING, GROUPED},
    {"receiver: OFFER read", BY_CONNECTING, GROUPED},
    {"receiver: ring imported", BY_CONNECTING, GROUPED},
    {"receiver: ACCEPT sent", BY_CONNECTING, GROUPED},
    {"receiver: test frame claimed", BY_CONNECTING, GROUPED},
    {"receiver: READY sent", BY_CONNECTING, GROUPED},
    {"receiver: claimed, descriptor not read", BY_FRAMES, GROUPED},
    {"receiver: descriptor read", BY_FRAMES, GROUPED},
    {"receiver: upload enqueued", BY_FRAMES, WAY_STAGED | WAY_UP | WAY_PUSH},
    {"receiver: frame handed out", BY_FRAMES, GROUPED},
    {"receiver: wait enqueued", BY_FRAMES, SIGNALLED},
    {"receiver: release posted", BY_FRAMES, BY_QUEUE},
    {"receiver: before giving back", BY_FRAMES, GROUPED},
    {"receiver: given back", BY_FRAMES, GROUPED},
    {"receiver: event handled", BY_EVENTS, GROUPED},
    {"receiver: EOS read", BY_ENDS, GROUPED},
    {"receiver: new epoch's OFFER read", BY_EPOCHS, GROUPED},
    {"receiver: GROW imported", BY_GROWTH, SHARED | WAYS_OF_GROUPS},
    {"receiver: BYE sent", BY_LEAVING, GROUPED},
};
const int point_count = sizeof(points) / sizeof(points[0]);

bool point_is_the_senders(const struct point *point)
{
    return strncmp(point->name, "sender: ", 8) == 0;
}

/* --- a cell ----------------------------------------------------------------------------------- */

#define A_SEGMENT                                                                  \
    100 /* kills with one honest receiver, which lives no longer than some minutes \
         */
#define SLACK_REAL ((size_t)64 << 20) /* what others may take on a GPU that is not ours alone */
#define SLACK_RSS 8192                /* KiB that an allocator may keep */

const struct way ways[WAYS] = {
    {"map host", WAY_HOST, "host", "host", "map"},
    {"map cuda", WAY_CUDA, "cuda:0", "cuda:0", "map"},
    {"peer", WAY_PEER, "cuda:0", "cuda:1", "peer"},
    {"staged", WAY_STAGED, "cuda:0", "cuda:1", "staged"},
    {"staged up", WAY_UP, "host", "vulkan:0", "staged"},
    {"staged down", WAY_DOWN, "vulkan:0", "host", "staged"},
    {"directgma", WAY_DIRECTGMA, "opencl:0", "opencl:0", "directgma"},
    {"map hip", WAY_HIP, "hip:0", "hip:0", "map"},
    {"peer hip", WAY_HIP_PEER, "hip:0", "hip:1", "peer"},
    {"staged push", WAY_PUSH, "hip:0", "hip:1", "staged-push"},
    {"map vulkan", WAY_VULKAN, "vulkan:0", "vulkan:0", "map"},
    {"rdma host", WAY_RDMA, "host", "host", "rdma-host"},
    {"tcp host", WAY_TCP, "host", "host", "tcp-host"},
    {"standby", WAY_STANDBY, "host", "host", "map"},
    {"group", WAY_GROUP, "host", "host", "map"},
    {"group of sound", WAY_SOUND, "host", "host", "map"},
};

void honest_start(struct peer *honest, const struct cell *cell)
{
    struct peer_orders orders = {0};
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address(KILL_NAME));
    snprintf(orders.device, sizeof(orders.device), "%s", cell->way->to);
    peer_start(honest, &orders);
}

static int64_t survive(const struct cell *cell, int kills, enum gpud_slow_receiver policy)
{
    if (!point_is_the_senders(cell->point))
        return survive_sending(cell, kills, policy);
    return cell->way->bit & WAYS_OF_GROUPS ? survive_grouped(cell, kills)
                                           : survive_receiving(cell, kills, policy);
}

/* --- leaks ------------------------------------------------------------------------------------ */

/* KiB; under a sanitizer, which keeps what is freed, nothing. */
static long resident(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    long total, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%ld %ld", &total, &pages) == 2, "no /proc/self/statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
#endif
}

/* What is in use on the GPUs of this way; 0 on others. */
static size_t gpu_memory(const struct way *way)
{
    const char *names[] = {way->from, way->to};
    size_t used = 0;
    if (!gpu_is_behind(way->from))
        return 0;
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    for (int i = 0; i < 2; i++) {
        struct gpu gpu;
        struct gpud_device *device = OPEN_DEVICE(context, names[i]);
        gpu_open(&gpu, names[i], VIEW_FRAME_MIN);
        used += gpu_used(&gpu);
        gpu_close(&gpu);
        gpud_device_close(&device);
    }
    return used;
}

static void gpu_memory_is_back(const struct way *way, size_t before)
{
    /* An account of our own is exact; see cell_run(). */
    size_t slack = getenv("GPUD_FAKE_CUDA_STRICT") ? 0 : SLACK_REAL, now = before;
    for (int64_t until = gpud_test_now() + 5 * GPUD_SEC; gpud_test_now() < until;
         gpud_test_nap(20)) {
        now = gpu_memory(way);
        if (now <= before + slack)
            return;
    }
    FAIL("I4: memory of GPUs leaks: %zu bytes were in use, %zu are", before, now);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* For this process, and for those to come: what takes a network card's place, or the card of an
 * address of this host, on a port of the cell's own. */
static void choose_network(const struct cell *cell)
{
    const char *host = getenv("GPUD_TEST_HOST");
    char address[108];
    if (host) {
        snprintf(address, sizeof(address), "rdma://%s:%d", host,
                 7200 + (int)(cell->point - points));
        setenv("GPUD_TEST_ADDRESS", address, 1);
    } else {
        setenv("GPUD_TEST_COPIES", "1", 1);
        copies_install();
    }
}

static void choose_tcp(const struct cell *cell)
{
    char text[108];
    snprintf(text, sizeof(text), "tcp://127.0.0.1:%u", find_free_port());
    setenv("GPUD_TEST_ADDRESS", text, 1);
    if ((cell->point - points) % 2 == 0)
        return;
    snprintf(text, sizeof(text), "%s/key", getenv("XDG_RUNTIME_DIR"));
    make_key(text, "a key of both ends");
    setenv("GPUD_TEST_KEY", text, 1);
}

void cell_run(struct cell *cell)
{
    char account[128];
    if (cell->way->bit == WAY_RDMA)
        choose_network(cell);
    runtime_make();
    if (cell->way->bit == WAY_TCP)
        choose_tcp(cell);
    snprintf(account, sizeof(account), "%s/account", getenv("XDG_RUNTIME_DIR"));
    setenv("GPUD_FAKE_CUDA_ACCOUNT", account, 1);

    /* What drivers and allocators keep they have after the first one. */
    gpu_memory(cell->way);
    cell->worst = survive(cell, 1, GPUD_SLOW_BLOCK);
    struct baseline before = baseline_take();
    size_t used = gpu_memory(cell->way);
    long kib = resident();
    for (int left = cell->kills - 1, segment = 0; left; segment++) {
        int kills = segment == 0 ? (left + 1) / 2 : left;
        kills = kills < A_SEGMENT ? kills : A_SEGMENT;
        int64_t took = survive(cell, kills, segment % 2 ? GPUD_SLOW_BLOCK : GPUD_SLOW_DROP_OLDEST);
        cell->worst = took > cell->worst ? took : cell->worst;
        left -= kills;
    }
    BASELINE_CHECK(before);
    gpu_memory_is_back(cell->way, used);
    /* An emulator's own memory, which it translates into, counts as the program's. */
    CHECK(getenv("MESON_EXE_WRAPPER") || resident() <= kib + SLACK_RSS,
          "I4: %ld KiB were resident, %ld are", kib, resident());
    unlink(account);
    if (peer_key())
        unlink(peer_key());
    /* A sender that was killed last leaves its socket behind, and the next one takes it over. */
    runtime_done();
}

#define JOBS_MAX 16
#define POINTS_MAX 64

enum result { NOT_RUN, ABSENT, DONE, FAILED, SKIPPED };

static struct table {
    struct {
        enum result result;
        int output; /* of a cell that failed */
        struct cell cell;
    } at[POINTS_MAX][WAYS];
} * table; /* shared with the cells */

static struct job {
    pid_t pid;
    int point, way, output;
} jobs[JOBS_MAX];
static int running, failed;

/* --- cells at a time -------------------------------------------------------------------------- */

/* Whether the way's devices are there at all; in a process of its own, as drivers do not like to be
 * forked. */
static bool is_there(const struct way *way)
{
    int state = 0;
#ifdef __SANITIZE_THREAD__
    if (way->bit == WAY_DIRECTGMA) {
        SAY("%s is skipped: OpenCL's runtime was not built for this sanitizer", way->name);
        return false;
    }
#endif
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        struct gpud_context *context;
        struct gpud_device *device;
        struct gpud_error error = {.reason = ""};
        const char *names[] = {way->from, way->to};
        WORKS(gpud_context_create(NULL, &context, &e));
        for (int i = 0; i < 2; i++) {
            enum gpud_status status = gpud_device_open(context, names[i], &device, &error);
            if (status == GPUD_NO_DEVICE) {
                SAY("%s is skipped: %s", way->name, error.reason);
                _exit(77);
            }
            CHECK(status == GPUD_OK, "%s: %s", names[i], error.reason);
            gpud_device_close(&device);
        }
        gpud_context_destroy(&context);
        _exit(0);
    }
    waitpid(pid, &state, 0);
    CHECK(WIFEXITED(state) && (WEXITSTATUS(state) == 0 || WEXITSTATUS(state) == 77),
          "%s cannot be opened: state %#x", way->name, state);
    return WEXITSTATUS(state) == 0;
}

static void start(int point, int way)
{
    struct job *job = jobs;
    while (job->pid)
        job++;
    struct cell *cell = &table->at[point][way].cell;
    *job = (struct job){.point = point, .way = way};
    job->output = memfd_create("output", MFD_CLOEXEC);
    CHECK(job->output >= 0, "memfd_create: %s", strerror(errno));
    job->pid = fork();
    CHECK(job->pid >= 0, "fork: %s", strerror(errno));
    if (job->pid == 0) {
        dup2(job->output, 1);
        dup2(job->output, 2);
        alarm(CELL_MAX(cell->kills));
        cell_run(cell);
        exit(0);
    }
    running++;
}

static void wait_for_one(void)
{
    int state = 0;
    pid_t pid = waitpid(-1, &state, 0);
    for (struct job *job = jobs; job < jobs + JOBS_MAX; job++) {
        if (job->pid != pid)
            continue;
        bool good = WIFEXITED(state) && WEXITSTATUS(state) == 0;
        table->at[job->point][job->way].result = good ? DONE : FAILED;
        if (!good) {
            failed++;
            SAY("FAILED: %s, %s (%s %d): see below", points[job->point].name, ways[job->way].name,
                WIFEXITED(state) ? "status" : "signal",
                WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
            table->at[job->point][job->way].output = job->output;
        } else {
            close(job->output);
        }
        job->pid = 0;
        running--;
    }
}

/* --- the table -------------------------------------------------------------------------------- */

static void print_cell(int point, int way)
{
    const struct cell *cell = &table->at[point][way].cell;
    static const char *const texts[] = {
        [NOT_RUN] = " ", [ABSENT] = "-", [DONE] = "", [FAILED] = "FAILED", [SKIPPED] = "skipped"};
    enum result result = table->at[point][way].result;
    char text[32];
    snprintf(text, sizeof(text), "%s", texts[result]);
    if (result == DONE)
        snprintf(text, sizeof(text), "%d  %lld ms", cell->kills,
                 (long long)(cell->worst / GPUD_MSEC));
    printf("  %14s", text);
}

static void print_table(void)
{
    long long kills = 0;
    SAY("\nkills, and the longest time until frames came again; -: the way has no such point");
    printf("%-40s", "killed at");
    for (int way = 0; way < WAYS; way++)
        printf("  %14s", ways[way].name);
    putchar('\n');
    for (int point = 0; point < point_count; point++) {
        printf("%-40s", points[point].name);
        for (int way = 0; way < WAYS; way++) {
            print_cell(point, way);
            if (table->at[point][way].result == DONE)
                kills += table->at[point][way].cell.kills;
        }
        putchar('\n');
    }
    SAY("%lld kills, each exactly at its point", kills);
}

static void print_output(int fd)
{
    char bytes[4096];
    ssize_t got;
    lseek(fd, 0, SEEK_SET);
    fflush(stdout);
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        fwrite(bytes, 1, (size_t)got, stdout);
    fflush(stdout);
}

/* --- how long it takes ------------------------------------------------------------------------ */

/* What else runs on the machine decides how long a stream stays away, so that a limit holds for an
 * idle one alone. 0: no limit. */
static int64_t find_limit(void)
{
    const char *text = getenv("GPUD_TEST_AGAIN_MS");
    double load = 0;
    if (!text)
        return 0;
    CHECK(getloadavg(&load, 1) == 1, "no load average");
    if (load < 0.5 * (double)sysconf(_SC_NPROCESSORS_ONLN))
        return atoi(text) * GPUD_MSEC;
    SAY("the machine is not idle (load %.1f): times are printed, not judged", load);
    return 0;
}

static void judge_times(int64_t limit)
{
    for (int point = 0; point < point_count; point++)
        for (int way = 0; way < WAYS; way++) {
            const struct cell *cell = &table->at[point][way].cell;
            if (table->at[point][way].result != DONE || cell->worst <= limit)
                continue;
            SAY("TOO LATE: %s, %s: %lld ms", points[point].name, ways[way].name,
                (long long)(cell->worst / GPUD_MSEC));
            failed++;
        }
}

/* --- all of it -------------------------------------------------------------------------------- */

/* A sample has every point on the host and, where it exists there, on one way in four, another four
 * at each point: all points and all ways are met. */
static bool is_in_sample(int point, int way)
{
    return ways[way].bit == WAY_HOST || (point + way) % 4 == 0;
}

/* A kind of points: one side passes them for one cause. */
static bool is_of_kind(int point, int other)
{
    return points[point].provoke == points[other].provoke &&
           point_is_the_senders(&points[point]) == point_is_the_senders(&points[other]);
}

/* Whether no point of the kind is among these. */
static bool is_none_of_kind(int point, int from, int to)
{
    for (int i = from; i < to; i++)
        if (is_of_kind(i, point))
            return false;
    return true;
}

static bool is_first_of_kind(int point)
{
    return is_none_of_kind(point, 0, point);
}

/* The n-th of the ways on which the point exists, counted round and round. */
static bool is_nth_way(int point, int way, int n)
{
    int before = 0, all = 0;
    for (int i = 0; i < WAYS; i++) {
        bool exists = points[point].ways & ways[i].bit;
        before += exists && i < way;
        all += exists;
    }
    return (points[point].ways & ways[way].bit) && n % all == before;
}

/* Of each kind the first point and the last one, where those are two, on one way each, another one
 * for each kind: so that all ways but the group's are met, too. */
static bool is_among_kinds(int point, int way)
{
    int kind = 0;
    for (int i = 0; i < point && !is_of_kind(i, point); i++)
        kind += is_first_of_kind(i);
    return (is_first_of_kind(point) && is_nth_way(point, way, kind)) ||
           (is_none_of_kind(point, point + 1, point_count) && !is_first_of_kind(point) &&
            is_nth_way(point, way, kind + 5));
}

static bool is_any(int point, int way)
{
    return true;
}

/* kill-matrix [kills on the host [kills on other ways [part of a way's name [part of a point's
 * name]]]]
 * kill-matrix sample     a kill in each cell of a sample
 * kill-matrix kinds      a kill in a cell or two of each kind
 *
 * With GPUD_TEST_AGAIN_MS set, and nothing else to do on the machine, one cell at a time, and none
 * may take longer than that until frames come again. */
int main(int argc, char **argv)
{
    copies_install_if_asked();
    peer_main(argc, argv);
    child_main(argc, argv);
    int on_host = argc > 1 ? atoi(argv[1]) : 50, elsewhere = argc > 2 ? atoi(argv[2]) : 5;
    bool (*is_chosen)(int point, int way) = is_any;
    if (argc > 1 && strcmp(argv[1], "sample") == 0)
        is_chosen = is_in_sample;
    else if (argc > 1 && strcmp(argv[1], "kinds") == 0)
        is_chosen = is_among_kinds;
    if (is_chosen != is_any)
        on_host = elsewhere = 1;
    CHECK(on_host > 0 && elsewhere > 0, "no kills: give numbers");
    const char *only_way = argc > 3 ? argv[3] : "", *only_point = argc > 4 ? argv[4] : "";
    /* They wait more than they work. */
    int most = 2 * (int)sysconf(_SC_NPROCESSORS_ONLN);
    most = most < JOBS_MAX ? most : JOBS_MAX;
    int64_t limit = find_limit();
    if (limit)
        most = 1;
    setenv("GPUDIRECT_LOG", "info", 1); /* seen only where a cell fails */
    CHECK(point_count <= POINTS_MAX, "the table has room for %d points", POINTS_MAX);
    table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "mmap: %s", strerror(errno));
    for (int way = 0; way < WAYS; way++) {
        bool wanted = strstr(ways[way].name, only_way), there = wanted && is_there(&ways[way]);
        for (int point = 0; point < point_count; point++) {
            table->at[point][way].cell = (struct cell){
                .point = &points[point],
                .way = &ways[way],
                .kills = ways[way].bit == WAY_HOST ? on_host : elsewhere,
            };
            if (!(points[point].ways & ways[way].bit)) {
                table->at[point][way].result = ABSENT;
                continue;
            }
            if (!there && wanted)
                table->at[point][way].result = SKIPPED;
            if (!there || !strstr(points[point].name, only_point) || !is_chosen(point, way))
                continue;
            if (running == most)
                wait_for_one();
            start(point, way);
        }
    }
    while (running)
        wait_for_one();
    print_table();
    /* At the very end: of a long log it is the end that people see. */
    for (int point = 0; point < point_count; point++)
        for (int way = 0; way < WAYS; way++)
            if (table->at[point][way].result == FAILED) {
                SAY("\n%s, %s:", points[point].name, ways[way].name);
                print_output(table->at[point][way].output);
            }
    if (limit)
        judge_times(limit);
    if (failed)
        FAIL("%d cells of the matrix failed", failed);
    return 0;
}

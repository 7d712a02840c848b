/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the machine can do at best, without gpudirect: what the processor does, and which ceilings a
 * job has. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ROUNDS 7
#define ROUND (40 * GPUD_MSEC)

static void add(struct bench_ceilings *list, const char *key, const char *what, double value,
                const char *unit, double p99)
{
    if (list->count < BENCH_CEILINGS_MAX)
        list->ceiling[list->count++] = (struct bench_ceiling){.key = key,
                                                              .what = what,
                                                              .value = value,
                                                              .unit = unit,
                                                              .p99 = p99,
                                                              .cpu_sender = NAN,
                                                              .cpu_receiver = NAN};
}

/* === a copy by the CPU, in one thread ========================================================= */

#define POOL_MAX (UINT64_C(384) << 20)

uint32_t bench_buffers_of(uint64_t size)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t pool = cache > 0 ? 4 * (uint64_t)cache : UINT64_C(128) << 20;
    return (uint32_t)CLAMP(MIN(pool, POOL_MAX) / size, 3, 512);
}

static double copy_for_a_while(char *from, char *to, uint64_t size, uint32_t buffers)
{
    int64_t start = clock_now(), now = start;
    uint64_t copies = 0;
    while (now - start < ROUND || copies < 2) {
        uint64_t offset = copies % buffers * size;
        memcpy(to + offset, from + offset, size);
        /* Keeps the compiler from removing the copy. */
        __asm__ volatile("" : : "r"(to) : "memory");
        copies++;
        now = clock_now();
    }
    return (double)copies * 1e9 / (double)(now - start);
}

static bool measure_memcpy(const struct bench_job *job, struct bench_ceilings *list)
{
    uint64_t size = bench_layout_of(job).size;
    uint32_t buffers = bench_buffers_of(size);
    char *from = malloc(size * buffers), *to = malloc(size * buffers);
    double rates[ROUNDS];
    bool good = from && to;
    if (good) {
        memset(from, 1, size * buffers);
        memset(to, 2, size * buffers);
        for (int i = 0; i < ROUNDS; i++)
            rates[i] = copy_for_a_while(from, to, size, buffers);
        add(list, "memcpy", "memcpy of the same frame, one thread, buffers larger than the caches",
            stats_median(rates, ROUNDS), "frames/s", NAN);
    }
    free(from);
    free(to);
    return good || bench_fail(GPUD_NO_MEMORY, "out of memory for the memcpy to compare with");
}

/* === waking another process through an eventfd ================================================ */
/* It answers through a second one. */

#define PINGS_MAX 600
#define WAKE_WARMUP 10
#define ANSWER_MS 10000
#define SLOWEST (100 * GPUD_MSEC)

void bench_run_echo(void)
{
    const struct bench_result result = {.latencies = bench_job.frames};
    struct bench_page *page = bench_page_map(bench_job.page);
    int64_t *latencies = g_new0(int64_t, bench_job.frames);
    bool works = page != NULL;
    for (uint32_t i = 0; works && i < bench_job.frames + WAKE_WARMUP; i++) {
        uint64_t one;
        works = read(bench_job.ping, &one, sizeof(one)) == sizeof(one);
        int64_t now = clock_now();
        if (works && i >= WAKE_WARMUP)
            latencies[i - WAKE_WARMUP] = now - atomic_load(&page->pinged);
        works = works && write(bench_job.pong, &one, sizeof(one)) == sizeof(one);
    }
    if (!works)
        bench_die(GPUD_IO, "cannot answer through an eventfd: %s", g_strerror(errno));
    bench_send_result(&result, latencies);
    g_free(latencies);
}

static bool wait_for_pong(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t value;
    int polled;
    do
        polled = poll(&ready, 1, ANSWER_MS);
    while (polled < 0 && errno == EINTR && !bench_caught_signal());
    return polled > 0 && read(fd, &value, sizeof(value)) == sizeof(value);
}

static bool wake_child(const struct bench_job *job, struct bench_page *page,
                       struct bench_ceilings *list)
{
    struct bench_child echo;
    bool good = bench_start(&echo, "echo", 0, job);
    int64_t first = clock_now();
    for (uint32_t i = 1; good && i <= job->frames + WAKE_WARMUP; i++) {
        const uint64_t one = 1;
        /* A process that sleeps longer than this is woken alike, and would take a minute. */
        clock_sleep_until(first + MIN(bench_paced_time(job, i), i * SLOWEST));
        atomic_store(&page->pinged, clock_now());
        good = write(job->ping, &one, sizeof(one)) == sizeof(one) && wait_for_pong(job->pong);
        if (!good)
            bench_fail(GPUD_PEER, "%s",
                       bench_caught_signal() ? "interrupted"
                                             : "the process to be woken does not answer");
    }
    good = good && bench_wait(&echo, 1, 0, 1, BENCH_IS_FINISHED, clock_now() + BENCH_STEP_TIMEOUT,
                              "the process that was woken does not report");
    if (good) {
        struct stats_latency latency = stats_latency_of(echo.latencies, echo.result.latencies);
        bool slow = bench_paced_time(job, 1) > SLOWEST;
        add(list, "wake",
            slow ? "p50 of waking another process through an eventfd, ten times a second"
                 : "p50 of waking another process through an eventfd at the same pace",
            latency.p50, "us", latency.p99);
    }
    bench_stop(&echo, good ? clock_now() + GPUD_SEC : 0);
    return good;
}

static bool measure_wake(const struct bench_job *wanted, struct bench_ceilings *list)
{
    struct bench_job job = *wanted;
    job.frames = MIN(wanted->frames, PINGS_MAX);
    job.ping = eventfd(0, EFD_CLOEXEC);
    job.pong = eventfd(0, EFD_CLOEXEC);
    job.page = bench_page_create(0);
    struct bench_page *page = bench_page_map(job.page);
    bool good = job.ping >= 0 && job.pong >= 0 && page
                    ? wake_child(&job, page, list)
                    : bench_fail(GPUD_IO, "no eventfd to compare with: %s", g_strerror(errno));
    const int fds[] = {job.ping, job.pong, job.page};
    for (size_t i = 0; i < G_N_ELEMENTS(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return good;
}

/* === words =================================================================================== */
/* The reference for a hand-off that copies nothing: words in shared memory between two processes,
 * one each way for a frame, as many in flight as there are slots. A side sleeps if it finds
 * nothing, and is woken only then. */

/* A process that has just started takes its time, on a busy machine a long one. */
#define ANSWER_MAX (20 * GPUD_SEC)

void bench_run_words(void)
{
    const struct bench_result result = {0};
    struct bench_page *page = bench_page_map(bench_job.page);
    if (!page)
        bench_die(GPUD_IO, "no shared page: %s", g_strerror(errno));
    for (uint32_t answered = 0; !atomic_load(&page->stop);) {
        if (atomic_load_explicit(&page->there->word, memory_order_acquire) == answered)
            bench_word_await(page->there, answered);
        else
            bench_word_send(page->back, ++answered);
    }
    bench_send_result(&result, NULL);
}

/* Words a second; 0: the other side does not answer. */
static double send_for_a_while(struct bench_page *page, uint32_t slots)
{
    int64_t start = clock_now(), now = start, last = start;
    uint32_t sent = atomic_load(&page->there->word), first = sent;
    while (now - start < ROUND || sent == first) {
        uint32_t answered = atomic_load_explicit(&page->back->word, memory_order_acquire);
        if (sent - answered == slots) {
            bench_word_await(page->back, answered);
        } else {
            bench_word_send(page->there, ++sent);
            last = now;
            if (sent % 16)
                continue;
        }
        now = clock_now();
        if (now - last > ANSWER_MAX || bench_caught_signal())
            return 0;
    }
    return (double)(sent - first) * 1e9 / (double)(now - start);
}

static bool measure_words(const struct bench_job *wanted, struct bench_ceilings *list)
{
    struct bench_job job = *wanted;
    struct bench_child child;
    double rates[ROUNDS];
    job.page = bench_page_create(0);
    struct bench_page *page = bench_page_map(job.page);
    bool good = page ? bench_start(&child, "words", 0, &job)
                     : bench_fail(GPUD_IO, "no shared memory for words to compare with: %s",
                                  g_strerror(errno));
    if (good) {
        bool answers = true;
        for (int i = 0; i < ROUNDS && answers; i++) {
            rates[i] = send_for_a_while(page, job.slots);
            answers = rates[i] > 0;
        }
        atomic_store(&page->stop, true);
        /* Wait even without an answer: the other process reports the cause. */
        good = bench_wait(&child, 1, 0, 1, BENCH_IS_FINISHED, clock_now() + BENCH_STEP_TIMEOUT,
                          "the process that answers words does not report") &&
               (answers || bench_fail(GPUD_PEER, "%s",
                                      bench_caught_signal()
                                          ? "interrupted"
                                          : "the process to exchange words with, as a ceiling, "
                                            "does not answer"));
        bench_stop(&child, good ? clock_now() + GPUD_SEC : 0);
    }
    if (good)
        add(list, "words", "words to another process and back, one each a frame, as many as slots",
            stats_median(rates, ROUNDS), "frames/s", NAN);
    if (job.page >= 0)
        close(job.page);
    return good;
}

/* === a network =============================================================================== */

/* What is measured there without gpudirect, and what failures say. */
static const struct plain {
    const char *key;
    const char *rate, *rate_in_turn; /* what it is; with several receivers */
    const char *latency;
    const char *not_opened, *too_slow;
} plain_rdma =
    {
        .key = "write",
        .rate = "plain RDMA writes of the same frame, as many at once as there are slots",
        .rate_in_turn =
            "plain RDMA writes of the same frame, as many at once as there are slots, to "
            "each receiver in turn",
        .latency =
            "p50 of a plain RDMA write of the same frame, until it wakes the other process, at "
            "the same pace",
        .not_opened = "the network card could not be opened in time: does it work with rping?",
        .too_slow =
            "plain writes by the network card took too long: does the card work with rping, "
            "or with smaller frames?",
},
  plain_tcp = {
      .key = "tcp",
      .rate = "plain send and recv of the same frame over one TCP connection",
      .rate_in_turn = "plain send and recv of the same frame over one TCP connection, to each "
                      "receiver in turn",
      .latency = "p50 of plain send and recv of the same frame over one TCP connection, until the "
                 "last byte is read, at the same pace",
      .not_opened = "the process that sends by plain TCP did not start in time",
      .too_slow = "plain TCP took too long: are smaller frames faster, or does a firewall keep its "
                  "port?",
};

static const struct plain *plain_of(const struct bench_job *job)
{
    return bench_is_tcp(job->network) ? &plain_tcp : &plain_rdma;
}

uint32_t bench_raw_paced(const struct bench_job *job)
{
    return job->fps_num ? MIN(job->frames, 600) : 0;
}

struct bench_ceiling bench_ceiling_of_network(const struct bench_job *job, double rate,
                                              double cpu_sender, double cpu_receiver)
{
    const struct plain *plain = plain_of(job);
    return (struct bench_ceiling){
        .key = plain->key,
        .what = job->receivers > 1 ? plain->rate_in_turn : plain->rate,
        .value = rate > 0 ? rate / job->receivers : NAN,
        .unit = "frames/s",
        .p99 = NAN,
        .cpu_sender = cpu_sender,
        .cpu_receiver = cpu_receiver,
    };
}

/* children: the writer and the target. */
static bool run_plain(struct bench_child *children, struct bench_job *job)
{
    const struct plain *plain = plain_of(job);
    int64_t duration = 18 * BENCH_STEP_TIMEOUT;
    if (!bench_start(&children[0], "raw-writer", 0, job) ||
        !bench_wait(children, 1, 0, 1, BENCH_IS_READY, clock_now() + 2 * BENCH_STEP_TIMEOUT,
                    plain->not_opened))
        return false;
    job->raw_port = children[0].port;
    if (job->remote)
        bench_remotes_start_target(job, &children[1]);
    else if (!bench_start(&children[1], "raw-target", 0, job))
        return false;
    if (job->fps_num)
        duration += bench_paced_time(job, bench_raw_paced(job) + BENCH_RAW_WARMUP);
    return bench_wait(children, 2, 0, 2, BENCH_IS_FINISHED, clock_now() + duration,
                      plain->too_slow);
}

/* With the encryption, and the congestion control that the system gives to every connection: both
 * decide much. */
static const char *name_ways(const char *what, bool encrypted)
{
    char name[16] = "unknown";
    socklen_t size = sizeof(name) - 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0)
        name[size] = '\0';
    if (fd >= 0)
        close(fd);
    gchar *text = g_strdup_printf("%s%s (congestion control: %s)", what,
                                  encrypted ? ", with AES-128-GCM" : "", name);
    const char *kept = g_intern_string(text);
    g_free(text);
    return kept;
}

/* µs a frame; NAN: this kind does not measure it. */
static double plain_cpu(const struct bench_child *child)
{
    const struct bench_result *result = &child->result;
    return result->cpu_ns > 0 && result->frames > 0
               ? (double)result->cpu_ns / 1e3 / (double)result->frames
               : NAN;
}

/* With a pace, and within one host (one clock), it is the latency until the other process has the
 * frame. */
static bool measure_network(const struct bench_job *wanted, struct bench_ceilings *list)
{
    struct bench_job job = *wanted;
    struct bench_child children[2] = {{.pid = 0}};
    if (job.remote)
        job.fps_num = 0;
    bool good = run_plain(children, &job);
    if (good) {
        /* RDMA's writer knows when a frame has arrived, TCP's target alone does. */
        double rate = MAX(children[0].result.raw_rate, children[1].result.raw_rate);
        struct bench_ceiling *ceiling = &list->ceiling[list->count++];
        *ceiling = bench_ceiling_of_network(wanted, rate, plain_cpu(&children[0]),
                                            plain_cpu(&children[1]));
        if (job.fps_num) {
            struct stats_latency latency =
                stats_latency_of(children[1].latencies, children[1].result.latencies);
            ceiling->what = plain_of(&job)->latency;
            ceiling->value = latency.p50;
            ceiling->unit = "us";
            ceiling->p99 = latency.p99;
        }
        /* Another host may have another one. */
        if (bench_is_tcp(job.network) && !job.remote)
            ceiling->what = name_ways(ceiling->what, job.encrypted);
    }
    if (job.remote)
        children[1].fd = 0; /* the connection stays the other bench's */
    return bench_stop_all(children, G_N_ELEMENTS(children), good, 0);
}

/* === all ceilings of a job ==================================================================== */

static bool measure_gpus(const struct bench_job *job, struct bench_raw_gpu *raw)
{
    struct bench_child child = {.pid = 0};
    bool good = bench_start(&child, "raw", 0, job) &&
                bench_wait(&child, 1, 0, 1, BENCH_IS_FINISHED, clock_now() + 6 * BENCH_STEP_TIMEOUT,
                           "the GPU's driver alone took too long: see dmesg");
    *raw = child.result.raw;
    return bench_stop_all(&child, 1, good, 0);
}

/* Of a GPU; nothing if it was not measured. */
static void add_raw(struct bench_ceilings *list, const char *key, const char *what, double value,
                    const char *unit)
{
    if (value > 0)
        add(list, key, what, value, unit, NAN);
}

static void add_copies(struct bench_ceilings *list, const struct bench_raw_gpu *raw)
{
    const char *unit = "frames/s";
    add_raw(list, "copy", "raw copies of the same frame within the GPU", raw->copy, unit);
    add_raw(list, "peer", "raw copies of the same frame to the receiver's GPU", raw->peer, unit);
    add_raw(list, "fan_out",
            "raw copies of the same frame to all receivers' GPUs at once, for each", raw->fan_out,
            unit);
    add_raw(list, "download", "raw copies of the same frame from the GPU to pinned memory",
            raw->download, unit);
    add_raw(list, "upload", "raw copies of the same frame from pinned memory to the GPU",
            raw->upload, unit);
}

static void add_marks(struct bench_ceilings *list, const struct bench_raw_gpu *raw)
{
    add_raw(list, "marker", "a word from stream to stream, half of a round trip", raw->marker,
            "us");
    add_raw(list, "handoff", "p50 of a word from the CPU's call through both streams to the CPU",
            raw->handoff, "us");
}

/* The ceiling for the one copy that a frame of this job needs; within one GPU, which needs none,
 * for the copy that is saved. */
static const char *needed_copy(const struct bench_job *job)
{
    bool leaves = false, arrives = false;
    unsigned from, to;
    const struct raw_driver *driver = raw_driver_of(job->from, &from);
    for (uint32_t i = 1; driver && i <= job->receivers; i++) {
        char device[32];
        bench_device_of(job, i, device, sizeof(device));
        bool same = raw_driver_of(device, &to) == driver;
        leaves = leaves || !same || to != from;
        arrives = arrives || same;
    }
    if (!driver)
        return "upload";
    if (!arrives)
        return "download";
    if (!leaves)
        return "copy";
    return job->receivers > 1 ? "fan_out" : "peer";
}

void bench_ceilings_choose(struct bench_ceilings *list, const char *key)
{
    for (unsigned i = 0; i < list->count; i++)
        if (strcmp(list->ceiling[i].key, key) == 0)
            list->main = i;
}

bool bench_ceilings_measure(const struct bench_job *job, struct bench_ceilings *list)
{
    struct bench_raw_gpu raw = {0};
    *list = (struct bench_ceilings){.count = 0};
    if (job->no_ceilings) {
        add(list, "none", "nothing, by --no-ceilings", NAN, "frames/s", NAN);
        return true;
    }
    if (bench_uses_gpu(job) && !job->remote && !measure_gpus(job, &raw))
        return false;
    bool network = job->network[0], paced = job->fps_num > 0;
    if (network ? !measure_network(job, list) : paced && !measure_wake(job, list))
        return false;
    if (network || !paced)
        add_copies(list, &raw);
    if (!list->count && !measure_memcpy(job, list))
        return false;
    if (!network && !paced)
        bench_ceilings_choose(list, needed_copy(job));
    add_marks(list, &raw);
    if (network || paced)
        return true;
    /* If GPUs' streams cannot pass words, processes do. */
    if (raw.words > 0)
        add_raw(list, "words", "words from stream to stream and back, one each a frame", raw.words,
                "frames/s");
    return raw.words > 0 || measure_words(job, list);
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Other programs over the same network as the link, in the same run: what they reach with messages
 * of a frame's size stands among the ceilings. Each is a server where the receivers run and a
 * client where the sender runs; the CPU time of both is the kernel's count of their processes, so
 * that it includes their start. A program that is not installed, fails or hangs is skipped with the
 * reason, and does not end the run. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE (60 * GPUD_SEC) /* for one program */
#define SERVER_END (5 * GPUD_SEC)
#define RETRY_US 100000
#define OUTPUT_MAX (1 << 20)
#define BYTES_MOVED (UINT64_C(1) << 30) /* by a program that takes a number of messages */

/* What a program has printed about the messages. */
struct figures {
    double rate;   /* a second */
    double us;     /* one takes; NAN: not known */
    double number; /* of them in the measurement; NAN: they have no CPU time of their own */
};

/* The number behind a text, after another text; NAN: it is not there. */
static double number_after(const char *text, const char *first, const char *second)
{
    const char *at = strstr(text, first);
    at = at ? strstr(at, second) : NULL;
    return at ? g_ascii_strtod(at + strlen(second), NULL) : NAN;
}

/* The last line that begins with a digit, after blanks. */
static const char *last_numbers(char *text)
{
    const char *found = "";
    char *state;
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        line += strspn(line, " ");
        if (g_ascii_isdigit(line[0]))
            found = line;
    }
    return found;
}

static double column(const char *line, const char *separators, unsigned index)
{
    for (; index > 0; index--) {
        line += strcspn(line, separators);
        line += strspn(line, separators);
    }
    return line[0] ? g_ascii_strtod(line, NULL) : NAN;
}

/* Its JSON. */
static struct figures read_iperf3(char *text, double size, double number)
{
    return (struct figures){
        .rate = number_after(text, "\"sum_received\"", "\"bits_per_second\":") / 8 / size,
        .us = NAN,
        .number = number_after(text, "\"sum_received\"", "\"bytes\":") / size,
    };
}

/* +R:BLOCKS:AES-128-GCM:SECONDS */
static struct figures read_openssl(char *text, double size, double number)
{
    double blocks = number_after(text, "+R:", "+R:"), seconds = number_after(text, "+R:", "GCM:");
    return (struct figures){.rate = blocks * 16384 / seconds / size, .us = NAN, .number = NAN};
}

/* NUMBER,p50,average,overall,average MiB/s,overall MiB/s,… */
static struct figures read_ucx_rate(char *text, double size, double number)
{
    double mebibytes = column(last_numbers(text), ",", 5);
    return (struct figures){.rate = mebibytes * (1 << 20) / size, .us = NAN, .number = number};
}

static struct figures read_ucx_latency(char *text, double size, double number)
{
    double us = column(last_numbers(text), ",", 1);
    return (struct figures){.rate = 1e6 / us, .us = us, .number = 2 * number};
}

/* bytes, #sent, #ack, total, time, MB/sec, usec/xfer: they go there and back. */
static struct figures read_pingpong(char *text, double size, double number)
{
    double us = column(last_numbers(text), " ", 6);
    return (struct figures){.rate = 1e6 / us, .us = us, .number = 2 * number};
}

/* In the commands {peer} is the server's address, {port} its port, {bytes} a frame's size and
 * {number} how many messages are sent. */
static const struct peer {
    const char *key, *package;
    bool latency; /* for jobs with a pace; else for those without */
    const char *what, *server, *client;
    struct figures (*read)(char *text, double size, double number);
} peers[] = {
    {"iperf3", "iperf3", false, "iperf3, one stream, in frames of this size",
     "iperf3 -s -1 -B {peer} -p {port}", "iperf3 -c {peer} -p {port} -t 3 -J", read_iperf3},
    {"aes128gcm", "openssl", false,
     "openssl speed, AES-128-GCM of 16 KiB by one processor, in frames of this size", NULL,
     "openssl speed -evp aes-128-gcm -bytes 16384 -seconds 2 -mr", read_openssl},
    {"ucx", "ucx-utils", false, "ucx_perftest -t tag_bw over TCP, messages of this size",
     "env UCX_TLS=tcp ucx_perftest -p {port}",
     "env UCX_TLS=tcp ucx_perftest {peer} -p {port} -t tag_bw -s {bytes} -n {number} -w 5 -f -v",
     read_ucx_rate},
    {"libfabric", "libfabric-bin", false,
     "fi_pingpong over TCP, messages of this size, one at a time",
     "fi_pingpong -p tcp -e msg -B {port} -S {bytes} -I {number}",
     "fi_pingpong -p tcp -e msg -P {port} -S {bytes} -I {number} {peer}", read_pingpong},
    {"ucx", "ucx-utils", true,
     "p50 of ucx_perftest -t tag_lat over TCP, messages of this size, without a pace",
     "env UCX_TLS=tcp ucx_perftest -p {port}",
     "env UCX_TLS=tcp ucx_perftest {peer} -p {port} -t tag_lat -s {bytes} -n {number} -w 5 -f -v",
     read_ucx_latency},
    {"libfabric", "libfabric-bin", true,
     "the mean of fi_pingpong over TCP, messages of this size, without a pace",
     "fi_pingpong -p tcp -e msg -B {port} -S {bytes} -I {number}",
     "fi_pingpong -p tcp -e msg -P {port} -S {bytes} -I {number} {peer}", read_pingpong},
};

/* === processes =============================================================================== */

struct process {
    GPid pid; /* 0: none */
    int output;
    double cpu; /* µs, once it has ended */
    int status;
};

/* In the new process. receiver: NULL: the sender's side. */
static void set_up(gpointer receiver)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    if (!bench_enter_space(receiver != NULL))
        _exit(EXIT_FAILURE);
}

static bool start(struct process *process, const char *command, bool server, GError **error)
{
    GSpawnFlags flags = G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD;
    gchar **argv = NULL;
    *process = (struct process){.output = -1};
    bool good = g_shell_parse_argv(command, NULL, &argv, error) &&
                g_spawn_async_with_pipes(NULL, argv, NULL,
                                         flags | (server ? G_SPAWN_STDOUT_TO_DEV_NULL : 0), set_up,
                                         server ? process : NULL, &process->pid, NULL,
                                         server ? NULL : &process->output, NULL, error);
    g_strfreev(argv);
    return good;
}

/* Whether it has ended, at the deadline at the latest. */
static bool has_ended(struct process *process, int64_t deadline)
{
    while (process->pid > 0) {
        struct rusage used;
        pid_t got = wait4(process->pid, &process->status, WNOHANG, &used);
        if (got == process->pid) {
            process->pid = 0;
            process->cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
                           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
        } else if (clock_now() >= deadline) {
            return false;
        } else {
            g_usleep(1000);
        }
    }
    return true;
}

static void end(struct process *process)
{
    if (!has_ended(process, 0)) {
        kill(process->pid, SIGKILL);
        has_ended(process, clock_now() + SERVER_END);
    }
    if (process->output >= 0)
        close(process->output);
    process->output = -1;
}

/* Reads to the end of the client's output; false: it did not come in time. */
static bool read_output(const struct process *process, GString *text, int64_t deadline)
{
    for (;;) {
        struct pollfd ready = {.fd = process->output, .events = POLLIN};
        char part[4096];
        if (clock_now() > deadline || bench_caught_signal())
            return false;
        if (poll(&ready, 1, 200) <= 0)
            continue;
        ssize_t got = read(process->output, part, sizeof(part));
        if (got == 0)
            return true;
        if (got > 0 && text->len < OUTPUT_MAX)
            g_string_append_len(text, part, got);
    }
}

/* === one program ============================================================================= */

static gchar *fill_in(const char *template, const struct bench_job *job, uint64_t number)
{
    GString *text = g_string_new(template);
    char port[16], bytes[32], count[32];
    g_snprintf(port, sizeof(port), "%u", bench_network_control_port(job->network));
    g_snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)bench_layout_of(job).size);
    g_snprintf(count, sizeof(count), "%llu", (unsigned long long)number);
    g_string_replace(text, "{peer}", job->peer_host, 0);
    g_string_replace(text, "{port}", port, 0);
    g_string_replace(text, "{bytes}", bytes, 0);
    g_string_replace(text, "{number}", count, 0);
    return g_string_free(text, FALSE);
}

/* The last line of what it has printed says most about a failure. */
static const char *last_line(GString *text)
{
    g_strchomp(text->str);
    const char *line = strrchr(text->str, '\n');
    return line ? line + 1 : text->str;
}

/* Runs the client until it finds the server, and reads its figures. NULL, or why there are none, to
 * be freed. A program may say by its output alone that it has found no server. */
static gchar *run_client(const struct peer *peer, const struct bench_job *job, uint64_t number,
                         struct process *server, struct figures *figures, double *cpu)
{
    gchar *command = fill_in(peer->client, job, number), *why = NULL;
    double size = (double)bench_layout_of(job).size;
    int64_t deadline = clock_now() + PATIENCE;
    GString *text = g_string_new(NULL);
    for (bool again = true; again;) {
        struct process client;
        GError *error = NULL;
        g_clear_pointer(&why, g_free);
        g_string_truncate(text, 0);
        if (!start(&client, command, false, &error)) {
            why = g_strdup(error->message);
            g_clear_error(&error);
            break;
        }
        bool whole = read_output(&client, text, deadline) && has_ended(&client, deadline);
        end(&client);
        *cpu = client.cpu;
        if (!whole) {
            why = g_strdup(bench_caught_signal() ? "interrupted" : "it did not end in time");
            break;
        }
        gchar *copy = g_strdup(text->str);
        *figures = peer->read(copy, size, (double)number);
        g_free(copy);
        if (!WIFEXITED(client.status) || WEXITSTATUS(client.status) != 0)
            why = g_strdup_printf("it failed: %.200s", last_line(text));
        else if (!isfinite(figures->rate) || figures->rate <= 0)
            why = g_strdup("its output has no figures");
        again = why && !has_ended(server, 0) && clock_now() < deadline;
        if (again)
            g_usleep(RETRY_US);
    }
    g_string_free(text, TRUE);
    g_free(command);
    return why;
}

/* Why it was not measured, to be freed; NULL: it was. */
static gchar *measure(const struct peer *peer, const struct bench_job *job,
                      struct bench_ceiling *ceiling)
{
    uint64_t number =
        (uint64_t)CLAMP((double)BYTES_MOVED / (double)bench_layout_of(job).size, 20, 300);
    struct process server = {.output = -1};
    struct figures figures = {NAN, NAN, NAN};
    double cpu = NAN;
    GError *error = NULL;
    gchar *command = peer->server ? fill_in(peer->server, job, number) : NULL, *why = NULL;
    if (command && !start(&server, command, true, &error)) {
        why = g_strdup(error->message);
        g_clear_error(&error);
    } else {
        why = run_client(peer, job, number, &server, &figures, &cpu);
    }
    has_ended(&server, why ? 0 : clock_now() + SERVER_END);
    end(&server);
    if (!why) {
        ceiling->value = peer->latency ? figures.us : figures.rate;
        ceiling->cpu_sender = cpu / figures.number;
        ceiling->cpu_receiver = peer->server ? server.cpu / figures.number : NAN;
    }
    g_free(command);
    return why;
}

/* The program of a command, after env and its variables. */
static gchar *program_of(const char *command)
{
    gchar **words = g_strsplit(command, " ", -1);
    guint i = 0;
    while (words[i + 1] && (strcmp(words[i], "env") == 0 || strchr(words[i], '=')))
        i++;
    gchar *program = g_strdup(words[i]);
    g_strfreev(words);
    return program;
}

void bench_peers_measure(const struct bench_job *job, struct bench_ceilings *list)
{
    for (size_t i = 0; i < G_N_ELEMENTS(peers) && !bench_caught_signal(); i++) {
        const struct peer *peer = &peers[i];
        if (peer->latency != (job->fps_num > 0) || list->count == BENCH_CEILINGS_MAX)
            continue;
        struct bench_ceiling *ceiling = &list->ceiling[list->count++];
        *ceiling = (struct bench_ceiling){.key = peer->key,
                                          .what = peer->what,
                                          .value = NAN,
                                          .unit = peer->latency ? "us" : "frames/s",
                                          .p99 = NAN,
                                          .cpu_sender = NAN,
                                          .cpu_receiver = NAN};
        gchar *program = program_of(peer->client), *path = g_find_program_in_path(program);
        gchar *why = path ? measure(peer, job, ceiling)
                          : g_strdup_printf("it is not installed (apt install %s)", peer->package);
        /* As long as the report, whose fields are not freed. */
        ceiling->skipped = why ? g_intern_string(why) : NULL;
        g_free(why);
        g_free(path);
        g_free(program);
    }
}

/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the kernel's TCP achieves without gpudirect: one process sends frames with send(), another
 * one reads them with recv(), over one connection. Nothing is done but that, and each call is given
 * the whole rest of a frame:
 *
 *     writer                                    target
 *     listens, says on which port
 *        |<-- connects, with the size of a frame ------------|
 *        |==== frames ======================================>|
 *        |---- the end of the stream ----------------------->|
 *
 * With a pace, a frame begins with the time of its first send(), and the target measures the time
 * until it has the last byte. Both have the congestion control that the system gives to every
 * connection.
 *
 * Beside a link with TLS the frames are encrypted as by TLS, with AES-128-GCM in pieces of 16 KiB,
 * straight from and to their memory. The key is zero: this measures the least that encryption
 * costs, and protects nothing. */
#include "bench.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 5
#define ROUND (400 * GPUD_MSEC)
#define SILENCE_S 60 /* the longest time without a byte */
#define PIECE UINT64_C(16384)
#define CALL (16 * PIECE) /* of a frame's bytes, for one call of send() */
#define TAG 16
#define MAGIC UINT64_C(0x6770756474637031)
#define REACHES "measuring what TCP reaches alone: "

/* What the target says first. Big endian. */
struct greeting {
    uint64_t magic, size; /* of a frame */
};

static int connection;
static uint64_t size;  /* of a frame */
static uint32_t slots; /* frames in the memory, used in turn */
static uint32_t paced; /* how many frames are counted, one by one; 0: as fast as possible */
static char *memory;
static EVP_CIPHER_CTX *cipher;                /* NULL: frames are not encrypted */
static unsigned char packed[CALL + 16 * TAG]; /* pieces of a frame, each with its tag behind it */

static void check(const char *what, bool works)
{
    if (!works)
        bench_die(GPUD_IO, REACHES "%s: %s", what,
                  errno == EAGAIN ? "no byte moved within a minute" : g_strerror(errno));
}

static void open_memory(bool writes)
{
    static const unsigned char key[16];
    size = bench_layout_of(&bench_job).size;
    slots = bench_job.slots;
    paced = bench_raw_paced(&bench_job);
    memory = malloc(size * slots);
    check("memory for the frames", memory != NULL);
    memset(memory, 1, size * slots);
    cipher = bench_job.encrypted ? EVP_CIPHER_CTX_new() : NULL;
    check("AES-128-GCM of OpenSSL",
          !bench_job.encrypted ||
              EVP_CipherInit_ex(cipher, EVP_aes_128_gcm(), NULL, key, NULL, writes) == 1);
}

/* Frames leave at once, and a call waits for a peer that has stopped no longer than this. */
static void set_up_connection(void)
{
    const struct timeval silence = {.tv_sec = SILENCE_S};
    const int one = 1;
    check("setsockopt",
          setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
              setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence)) == 0 &&
              setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence)) == 0);
}

/* false: the stream has ended, which is allowed before the first byte of a frame alone. */
static bool receive_all(void *data, uint64_t length, bool begun)
{
    for (uint64_t done = 0; done < length;) {
        ssize_t got = recv(connection, (char *)data + done, length - done, 0);
        if (got == 0 && done == 0 && !begun)
            return false;
        if (got == 0)
            bench_die(GPUD_PEER, REACHES "the other process hung up within a frame");
        check("recv", got > 0 || errno == EINTR);
        done += got > 0 ? (uint64_t)got : 0;
    }
    return true;
}

/* Encrypts bytes of a frame into `packed`, or decrypts them from there. Returns their size there.
 */
static uint64_t crypt_packed(void *bytes, uint64_t length)
{
    static uint64_t nonce[2];
    bool writes = EVP_CIPHER_CTX_is_encrypting(cipher);
    unsigned char *plain = bytes, *at = packed, none[TAG];
    for (uint64_t left = length; left > 0;) {
        int part = (int)MIN(left, PIECE), done;
        nonce[0]++;
        check("AES-128-GCM",
              EVP_CipherInit_ex(cipher, NULL, NULL, NULL, (unsigned char *)nonce, -1) == 1 &&
                  EVP_CipherUpdate(cipher, writes ? at : plain, &done, writes ? plain : at, part) &&
                  (writes || EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, TAG, at + part)) &&
                  EVP_CipherFinal_ex(cipher, none, &done) == 1 &&
                  (!writes || EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, TAG, at + part)));
        plain += part;
        at += part + TAG;
        left -= (uint64_t)part;
    }
    return (uint64_t)(at - packed);
}

/* === the writer ============================================================================== */

static void accept_target(void)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    struct greeting target;
    if (!bench_network_resolve(bench_job.network, 0, &address))
        bench_die(bench_failure.status, "%s", bench_failure.reason);
    int listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check("a socket on the address of --to",
          listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 &&
              listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    uint16_t port =
        be16toh(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                              : ((struct sockaddr_in *)&address)->sin_port);
    bench_send(bench_control, BENCH_LISTENING, &port, sizeof(port));
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    if (poll(&ready, 1, (int)(2 * BENCH_STEP_TIMEOUT / GPUD_MSEC)) <= 0)
        bench_die(GPUD_TIMEOUT, REACHES "no target connected: does a firewall keep TCP port %u?",
                  port);
    connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    check("accept", connection >= 0);
    close(listener);
    set_up_connection();
    if (!receive_all(&target, sizeof(target), false) || be64toh(target.magic) != MAGIC ||
        be64toh(target.size) != size)
        bench_die(GPUD_PEER, REACHES "the peer is not a gpudirect-bench, or has frames of another "
                                     "size");
}

static void send_all(const void *data, uint64_t length)
{
    for (uint64_t done = 0; done < length;) {
        ssize_t sent = send(connection, (const char *)data + done, length - done, MSG_NOSIGNAL);
        check("send", sent > 0 || errno == EINTR);
        done += sent > 0 ? (uint64_t)sent : 0;
    }
}

static void send_frame(char *frame)
{
    if (!cipher)
        send_all(frame, size);
    for (uint64_t done = 0; cipher && done < size; done += CALL)
        send_all(packed, crypt_packed(frame + done, MIN(size - done, CALL)));
}

void bench_run_tcp_writer(void)
{
    struct bench_result result = {0};
    uint64_t number = 0;
    int64_t first = clock_now(), cpu = 0;
    open_memory(true);
    accept_target();
    /* At least one frame more than the target does not count. */
    for (bool more = true; more; number++) {
        char *frame = memory + number % slots * size;
        if (number == BENCH_RAW_WARMUP) {
            result.start = clock_now();
            cpu = clock_cpu_time();
        }
        if (paced) {
            clock_sleep_until(first + bench_paced_time(&bench_job, (double)number + 1));
            int64_t now = clock_now();
            memcpy(frame, &now, sizeof(now));
        }
        send_frame(frame);
        more = number <= BENCH_RAW_WARMUP || (paced ? number + 1 < paced + BENCH_RAW_WARMUP
                                                    : clock_now() - result.start < ROUNDS * ROUND);
    }
    check("shutdown", shutdown(connection, SHUT_WR) == 0);
    result.cpu_ns = clock_cpu_time() - cpu;
    result.frames = number - BENCH_RAW_WARMUP;
    bench_send_result(&result, NULL);
    /* The target ends the connection when it has read everything. */
    char rest;
    receive_all(&rest, sizeof(rest), false);
}

/* === the target ============================================================================== */

static void connect_to_writer(void)
{
    const struct greeting greeting = {.magic = htobe64(MAGIC), .size = htobe64(size)};
    struct sockaddr_storage address;
    if (!bench_network_resolve(bench_job.network, bench_job.raw_port, &address))
        bench_die(bench_failure.status, "%s", bench_failure.reason);
    connection = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check("a socket", connection >= 0);
    set_up_connection();
    check("connect",
          connect(connection, (struct sockaddr *)&address, sizeof(address)) == 0 &&
              send(connection, &greeting, sizeof(greeting), MSG_NOSIGNAL) == sizeof(greeting));
}

/* false: the stream has ended. */
static bool receive_frame(char *frame)
{
    if (!cipher)
        return receive_all(frame, size, false);
    for (uint64_t done = 0; done < size; done += CALL) {
        uint64_t part = MIN(size - done, CALL);
        if (!receive_all(packed, part + (part + PIECE - 1) / PIECE * TAG, done > 0))
            return false;
        crypt_packed(frame + done, part);
    }
    return true;
}

/* The first frames find cold caches and a small window, and are not counted. */
void bench_run_tcp_target(void)
{
    struct bench_result result = {0};
    double rates[ROUNDS];
    uint64_t number = 0, round_first = 0;
    int64_t now = 0, round = 0, cpu = 0;
    size_t round_count = 0;
    open_memory(false);
    int64_t *latencies = g_new0(int64_t, paced + 1);
    connect_to_writer();
    for (;; number++) {
        char *frame = memory + number % slots * size;
        if (number == BENCH_RAW_WARMUP) {
            round = result.start = now;
            round_first = number;
            cpu = clock_cpu_time();
        }
        if (!receive_frame(frame))
            break;
        now = clock_now();
        if (number < BENCH_RAW_WARMUP)
            continue;
        if (result.latencies < paced) {
            int64_t sent;
            memcpy(&sent, frame, sizeof(sent));
            latencies[result.latencies++] = now - sent;
        }
        if (now - round >= ROUND && round_count < ROUNDS) {
            rates[round_count++] = (double)(number + 1 - round_first) * 1e9 / (double)(now - round);
            round = now;
            round_first = number + 1;
        }
    }
    if (number <= BENCH_RAW_WARMUP)
        bench_die(GPUD_PEER, REACHES "the other process hung up before it was measured");
    result.end = now;
    result.cpu_ns = clock_cpu_time() - cpu;
    result.frames = number - BENCH_RAW_WARMUP;
    result.raw_rate = round_count ? stats_median(rates, round_count)
                                  : (double)result.frames * 1e9 / (double)(now - result.start);
    bench_send_result(&result, latencies);
    g_free(latencies);
}

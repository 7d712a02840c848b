/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who may connect by TCP, and what each end says of one that may not, while a third party's
 * connection goes on. Both ends are in this process; certificates are made by the openssl program.
 * Arguments: the names of cases, else all. */
#include "tcp.h"

#include "support/make.h"
#include "support/peer.h"
#include "wire/tcp/kind.h"

#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* --- rules ------------------------------------------------------------------------------------ */

static struct gpud_access_rule nothing(void)
{
    return (struct gpud_access_rule){.kind = GPUD_ACCESS_USER};
}

static struct gpud_access_rule keyed(const char *name, const char *text)
{
    make_key(path_of(name), text);
    return with_key(path_of(name));
}

/* Those of one end: NAME.pem, NAME.key, and whose certificates it trusts. */
static struct gpud_access_rule certified(const char *name, const char *ca)
{
    struct gpud_access_rule access = nothing();
    char file[64];
    gpud_print(file, "%s.pem", name);
    gpud_print(access.tls_certificate, "%s", path_of(file));
    gpud_print(file, "%s.key", name);
    gpud_print(access.tls_key, "%s", path_of(file));
    gpud_print(file, "%s.pem", ca);
    gpud_print(access.tls_ca, "%s", path_of(file));
    return access;
}

static void run(const char *command)
{
    int status = system(command);
    CHECK(status == 0, "%s: status %x", command, status);
}

#define NEW_KEY "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -batch "

static void make_ca(const char *name)
{
    char command[600];
    gpud_print(command,
               "cd %s && " NEW_KEY "-x509 -days 2 -subj /CN=%s -keyout %s.key -out %s.pem "
               "2>ca.log || { cat ca.log; exit 1; }",
               getenv("XDG_RUNTIME_DIR"), name, name, name);
    run(command);
}

/* One of that CA for that host: "IP:127.0.0.1". */
static void make_certificate(const char *name, const char *ca, const char *host, bool expired)
{
    static const char past[] = "-not_before 20200101000000Z -not_after 20200201000000Z";
    char command[1200];
    gpud_print(command,
               "cd %s && exec 2>%s.log && " NEW_KEY "-subj /CN=%s -keyout %s.key -out %s.csr && "
               "echo subjectAltName=%s >%s.ext && "
               "issue() { openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial "
               "-extfile %s.ext -out %s.pem \"$@\"; } && { issue %s || issue -days -1; }",
               getenv("XDG_RUNTIME_DIR"), name, name, name, name, host, name, name, ca, ca, name,
               name, expired ? past : "-days 2");
    run(command);
}

/* --- meeting ---------------------------------------------------------------------------------- */

struct ends {
    struct gpud_channel *sender, *receiver;
    struct gpud_error of_sender, of_receiver; /* how they ended; status OK: not */
};

static void drive(struct gpud_channel *channel, struct gpud_error *end)
{
    struct gpud_message message;
    if (!channel || end->status != GPUD_OK)
        return;
    enum gpud_status status = gpud_channel_receive(channel, &message, end);
    if (status == GPUD_AGAIN)
        end->status = GPUD_OK;
}

/* One step of both ends, as far as there are two; a sender that refuses has ended. */
static void step(struct gpud_listener *listener, struct ends *ends)
{
    struct gpud_peer peer;
    struct gpud_error error = {.status = GPUD_OK};
    drive(ends->receiver, &ends->of_receiver);
    if (ends->sender) {
        drive(ends->sender, &ends->of_sender);
    } else if (ends->of_sender.status == GPUD_OK) {
        enum gpud_status status = gpud_listener_accept(listener, &ends->sender, &peer, &error);
        if (status != GPUD_OK && status != GPUD_AGAIN)
            ends->of_sender = error;
    }
    usleep(500);
}

static bool is_connected(const struct ends *ends)
{
    return ends->sender && atomic_load(&ends->sender->connected) &&
           atomic_load(&ends->receiver->connected);
}

static void close_ends(struct ends *ends)
{
    gpud_channel_unref(&ends->receiver);
    gpud_channel_unref(&ends->sender);
}

static struct ends meet(struct gpud_listener *listener, const char *text,
                        const struct gpud_access_rule *access)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    struct ends ends = {.receiver = begin_to_connect(text, access)};
    while (!is_connected(&ends)) {
        step(listener, &ends);
        CHECK(gpud_now() < deadline, "no connection");
        CHECK(ends.of_sender.status == GPUD_OK && ends.of_receiver.status == GPUD_OK,
              "no connection: \"%s\", \"%s\"", ends.of_sender.reason, ends.of_receiver.reason);
    }
    return ends;
}

/* Both end, with these sentences. */
static void expect_ends(struct gpud_listener *listener, struct ends *ends, const char *of_sender,
                        const char *of_receiver)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    while (ends->of_sender.status == GPUD_OK || ends->of_receiver.status == GPUD_OK) {
        step(listener, ends);
        CHECK(gpud_now() < deadline, "no end: \"%s\", \"%s\"", ends->of_sender.reason,
              ends->of_receiver.reason);
    }
    CHECK_SAYS(ends->of_sender.reason, of_sender);
    CHECK_SAYS(ends->of_receiver.reason, of_receiver);
    close_ends(ends);
}

static void expect_refused(struct gpud_listener *listener, const char *text,
                           const struct gpud_access_rule *access, const char *of_sender,
                           const char *of_receiver)
{
    struct ends ends = {.receiver = begin_to_connect(text, access)};
    expect_ends(listener, &ends, of_sender, of_receiver);
}

/* A sender, a receiver that has it all the time, and how both are encrypted. */
static struct gpud_listener *open_with_bystander(const struct gpud_access_rule *of_sender,
                                                 const struct gpud_access_rule *of_receiver,
                                                 struct bystander *bystander,
                                                 const char *encryption)
{
    struct gpud_listener *listener = listen_on(address_of("/cam1"), of_sender);
    struct ends ends = meet(listener, address_of("/cam1"), of_receiver);
    *bystander = (struct bystander){ends.sender, ends.receiver};
    CHECK(strncmp(ends.sender->encryption, encryption, strlen(encryption)) == 0,
          "the sender's end is encrypted by \"%s\"", ends.sender->encryption);
    CHECK_TEXT(ends.receiver->encryption, ends.sender->encryption);
    bystander_check(bystander);
    return listener;
}

/* --- keys ------------------------------------------------------------------------------------- */

static void test_keys(void)
{
    struct gpud_access_rule key = keyed("key", "a key that both have"), none = everybody();
    struct gpud_access_rule wrong = keyed("wrong", "a key that only one has");
    struct bystander bystander;
    struct gpud_listener *listener, *refused;
    EXPECT(GPUD_NO_ACCESS, "psk-file",
           try_to_listen(address_at("0.0.0.0", ""), &(struct gpud_access_rule){0}, &refused, &e));
    listener = open_with_bystander(&key, &key, &bystander, "TLS 1.3 AES-128-GCM");
    const char *address = address_of("/cam1");
    expect_refused(listener, address, &wrong, "the keys differ: the proof of the receiver at",
                   "the keys differ: tcp://");
    expect_refused(listener, address, &none, "neither a key nor a certificate", "wants a key");
    bystander_end(&bystander);
    gpud_listener_close(&listener);

    listener = open_with_bystander(&none, &none, &bystander, "no");
    expect_refused(listener, address, &key, "set psk-file here, too",
                   "has neither a key nor a certificate");
    bystander_end(&bystander);
    gpud_listener_close(&listener);
}

/* Is read at each handshake: who is connected stays so. */
static void test_replaced_key(void)
{
    struct gpud_access_rule of_sender = keyed("key", "the key of yesterday"), old, new;
    struct bystander bystander;
    old = keyed("old", "the key of yesterday");
    new = keyed("new", "the key of today");
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = open_with_bystander(&of_sender, &old, &bystander, "TLS 1.3");
    const char *address = address_of("/cam1");
    expect_refused(listener, address, &new, "the keys differ", "the keys differ");
    make_key(path_of("key"), "the key of today");
    expect_refused(listener, address, &old, "the keys differ", "the keys differ");
    struct ends ends = meet(listener, address, &new);
    close_ends(&ends);
    CHECK(chmod(path_of("key"), 0644) == 0, "chmod: %m");
    expect_refused(listener, address, &new, "chmod", "the connection");
    CHECK(unlink(path_of("key")) == 0, "unlink: %m");
    expect_refused(listener, address, &new, path_of("key"), "the connection");
    make_key(path_of("key"), "the key of today");
    ends = meet(listener, address, &new);
    close_ends(&ends);
    bystander_end(&bystander);
}

/* --- certificates ----------------------------------------------------------------------------- */

static void make_all(void)
{
    make_ca("ca");
    make_ca("foreign-ca");
    make_certificate("good", "ca", "IP:127.0.0.1,IP:::1,DNS:localhost", false);
    make_certificate("viewer", "ca", "DNS:viewer.example", false); /* no host is meant */
    make_certificate("expired", "ca", "IP:127.0.0.1", true);
    make_certificate("foreign", "foreign-ca", "IP:127.0.0.1", false);
    make_certificate("other-host", "ca", "IP:10.9.8.7,DNS:studio.example", false);
}

static void test_certificates(void)
{
    struct bystander bystander;
    make_all();
    struct gpud_access_rule good = certified("good", "ca"), viewer = certified("viewer", "ca");
    struct gpud_access_rule key = keyed("key", "a key of both ends"), none = everybody(), one;
    const char *address = address_of("/cam1");
    AUTO(gpud_listener_close)
    struct gpud_listener *listener =
        open_with_bystander(&good, &viewer, &bystander, "TLS 1.3 AES-128-GCM");

    one = certified("expired", "ca");
    expect_refused(listener, address, &one,
                   "the certificate of the receiver at 127.0.0.1 is refused: it has expired by "
                   "this host's clock",
                   "refused this end's certificate, which has expired");
    one = certified("foreign", "ca");
    expect_refused(listener, address, &one,
                   "the certificate of the receiver at 127.0.0.1 is refused: it is not of a CA in "
                   "the tls-ca file here",
                   "it is not of a CA in the tls-ca file there");
    one = certified("viewer", "foreign-ca"); /* does not trust the sender */
    expect_refused(listener, address, &one, "it is not of a CA in the tls-ca file there",
                   "the certificate of tcp://");
    expect_refused(listener, address, &key, "a key, and this sender wants a certificate",
                   "wants a certificate");
    expect_refused(listener, address, &none, "neither a key nor a certificate",
                   "wants a certificate");

    /* By its name, too, which is in the certificate. */
    struct ends ends = meet(listener, address_at("localhost", "/cam1"), &viewer);
    close_ends(&ends);
    gpud_listener_close(&listener);
    bystander_check(&bystander);

    /* Of the sender. */
    static const struct {
        const char *name, *of_sender, *of_receiver;
    } senders[] = {
        {"expired", "refused this end's certificate, which has expired",
         "it has expired by this host's"},
        {"foreign", "it is not of a CA in the tls-ca file there", "in the tls-ca file here"},
        {"other-host", "refused this end's certificate", "its subjectAltName has to list"},
    };
    for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++) {
        one = certified(senders[i].name, "ca");
        listener = listen_on(address, &one);
        expect_refused(listener, address, &viewer, senders[i].of_sender, senders[i].of_receiver);
        gpud_listener_close(&listener);
    }
    listener = listen_on(address, &good);
    make_certificate("good", "ca", "IP:127.0.0.1", true); /* is replaced while it listens */
    expect_refused(listener, address, &viewer, "refused this end's certificate", "has expired");
    make_certificate("good", "ca", "IP:127.0.0.1", false);
    ends = meet(listener, address, &viewer);
    close_ends(&ends);
    bystander_end(&bystander);
}

static void expect_unusable(const struct gpud_access_rule *access, enum gpud_status wanted,
                            const char *text)
{
    struct gpud_address address;
    struct gpud_listener *listener;
    struct gpud_channel *channel;
    EXPECT(wanted, text, try_to_listen(address_of(""), access, &listener, &e));
    WORKS(gpud_address_resolve(address_of(""), &address, &e));
    EXPECT(wanted, text, gpud_channel_connect(&address, access, &channel, &e));
}

static void test_files(void)
{
    make_all();
    struct gpud_access_rule one = certified("good", "ca");
    gpud_print(one.tls_certificate, "%s", path_of("missing.pem"));
    expect_unusable(&one, GPUD_IO, "missing.pem: No such file");
    one = certified("good", "ca");
    gpud_print(one.tls_key, "%s", path_of("missing.key"));
    expect_unusable(&one, GPUD_IO, "missing.key");
    one = certified("good", "ca");
    gpud_print(one.tls_ca, "%s", path_of("missing-ca.pem"));
    expect_unusable(&one, GPUD_IO, "missing-ca.pem: No such file");
    one = certified("good", "ca");
    gpud_print(one.tls_key, "%s", path_of("viewer.key"));
    expect_unusable(&one, GPUD_INVALID, "viewer.key is not that of the tls-certificate");
    run("cd $XDG_RUNTIME_DIR && umask 077 && "
        "openssl pkcs8 -topk8 -in good.key -passout pass:secret -out encrypted.key");
    gpud_print(one.tls_key, "%s", path_of("encrypted.key"));
    expect_unusable(&one, GPUD_INVALID, "encrypted by a pass phrase");
    gpud_print(one.tls_key, "%s", path_of(""));
    expect_unusable(&one, GPUD_INVALID, "not a regular file");
    one = certified("good", "ca");
    CHECK(chmod(one.tls_key, 0640) == 0, "chmod: %m");
    expect_unusable(&one, GPUD_NO_ACCESS, "chmod 600");
    one = certified("good", "ca");
    CHECK(chmod(one.tls_key, 0600) == 0, "chmod: %m");
    gpud_print(one.tls_ca, "%s", one.tls_key);
    expect_unusable(&one, GPUD_INVALID, "is it a PEM file?");
}

/* --- strangers -------------------------------------------------------------------------------- */

static struct gpud_channel *accept_raw(struct gpud_listener *listener, int fd)
{
    uint8_t reply[8];
    struct gpud_channel *channel = accept_one(listener);
    read_raw(fd, reply, sizeof(reply));
    CHECK(memcmp(reply, "GPUR\x01\x08\x02\x00", 8) == 0, "another reply");
    return channel;
}

/* What is no TLS behind a request that could be one of ours; one byte at a time, too. */
static void test_plain(void)
{
    static const char *const texts[] = {
        "GET /cam1 HTTP/1.1\r\nHost: studio\r\n\r\n",
        "hello, is anybody there? I would like to see something",
        "\x16\x03\x01\xff\xff garbage that begins as TLS does, and goes on with something else",
    };
    struct gpud_access_rule key = keyed("key", "a key of both ends");
    struct bystander bystander;
    uint8_t request[64];
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = open_with_bystander(&key, &key, &bystander, "TLS 1.3");
    size_t size = make_request(request, 2, "cam1");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int fd = connect_raw(request, size);
        struct gpud_channel *channel = accept_raw(listener, fd);
        write_raw(fd, texts[i], strlen(texts[i]));
        lose(channel, GPUD_PEER, "the receiver at 127.0.0.1 does not speak TLS");
        expect_raw_end(fd, 7); /* an alert */
        bystander_check(&bystander);
    }
    int fd = connect_raw(request, size);
    struct gpud_channel *channel = accept_raw(listener, fd);
    close(fd);
    lose(channel, GPUD_CLOSED, "the connection");
    bystander_end(&bystander);
}

/* By OpenSSL, in a thread that may wait. */
struct tls_client {
    int fd, version;
    unsigned long error;
};

static unsigned give_key(SSL *ssl, const char *hint, char *identity, unsigned most,
                         unsigned char *key, unsigned key_most)
{
    snprintf(identity, most, "gpudirect/1 ");
    memset(key, 7, 32);
    return 32;
}

static void *run_tls_client(void *arg)
{
    struct tls_client *client = arg;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    CHECK(context && SSL_CTX_set_max_proto_version(context, client->version), "no such TLS");
    SSL_CTX_set_psk_client_callback(context, give_key);
    SSL *ssl = SSL_new(context);
    CHECK(ssl && SSL_set_fd(ssl, client->fd) == 1, "no SSL");
    CHECK(SSL_connect(ssl) != 1, "a stranger is let in");
    client->error = ERR_peek_error();
    ERR_clear_error();
    SSL_free(ssl);
    SSL_CTX_free(context);
    return NULL;
}

static void expect_stranger(struct gpud_listener *listener, int version, enum gpud_status wanted,
                            const char *text, int alert)
{
    uint8_t request[64];
    struct tls_client client = {.version = version};
    client.fd = connect_raw(request, make_request(request, 2, "cam1"));
    struct gpud_channel *channel = accept_raw(listener, client.fd);
    pthread_t thread = NEW_THREAD(run_tls_client, &client);
    lose(channel, wanted, text);
    pthread_join(thread, NULL);
    /* A wrong proof by a key is an illegal parameter to OpenSSL 3.0, and a failed decryption
     * to 3.5. */
    int got = ERR_GET_REASON(client.error);
    CHECK(got == alert || (alert == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER &&
                           got == SSL_R_TLSV1_ALERT_DECRYPT_ERROR),
          "the alert %d, which should be %d", got, alert);
    close(client.fd);
}

static void test_other_tls(void)
{
    struct gpud_access_rule key = keyed("key", "a key of both ends");
    struct bystander bystander;
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = open_with_bystander(&key, &key, &bystander, "TLS 1.3");
    expect_stranger(listener, TLS1_2_VERSION, GPUD_NO_ACCESS, "an older TLS than 1.3",
                    SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
    bystander_check(&bystander);
    /* Without the name of the channel in the handshake, and with another key. */
    expect_stranger(listener, TLS1_3_VERSION, GPUD_NO_ACCESS, "the keys differ",
                    SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER);
    bystander_end(&bystander);
}

/* --- a man in the middle ---------------------------------------------------------------------- */

enum trick { FORWARD, CUT, REPLAY, FLIP, SWALLOW };

/* Carries bytes between a receiver and the sender, until it does something else to those that the
 * sender sends. */
struct middle {
    int listening;
    uint16_t port;
    atomic_int trick; /* done once, with the next bytes */
    bool redirects;   /* makes a request for cam1 one for cam2 */
    pthread_t thread;
};

static bool carry(int from, int to, struct middle *middle, bool tricked)
{
    static char bytes[65536], last[65536];
    static ssize_t last_size;
    ssize_t got = recv(from, bytes, sizeof(bytes), 0);
    if (got <= 0)
        return false;
    char *name = middle->redirects && !tricked ? memmem(bytes, (size_t)got, "cam1", 4) : NULL;
    if (name) {
        name[3] = '2';
        middle->redirects = false;
    }
    int trick = tricked ? atomic_exchange(&middle->trick, FORWARD) : FORWARD;
    if (trick == CUT) {
        send(to, bytes, (size_t)got / 2, MSG_NOSIGNAL);
        return false;
    }
    if (trick == FLIP)
        bytes[got - 1] ^= 1;
    if (trick == REPLAY) /* what was sent before comes once more, instead */
        send(to, last, (size_t)last_size, MSG_NOSIGNAL);
    else if (trick != SWALLOW)
        send(to, bytes, (size_t)got, MSG_NOSIGNAL);
    if (tricked) {
        memcpy(last, bytes, (size_t)got);
        last_size = got;
    }
    return true;
}

static void *run_middle(void *arg)
{
    struct middle *middle = arg;
    int receiver = accept4(middle->listening, NULL, NULL, SOCK_CLOEXEC);
    int sender = connect_raw(NULL, 0);
    bool lives = receiver >= 0;
    while (lives) {
        struct pollfd fds[] = {{.fd = receiver, .events = POLLIN},
                               {.fd = sender, .events = POLLIN}};
        CHECK(poll(fds, 2, (int)(PATIENCE / GPUD_MSEC)) > 0, "nothing is carried");
        if (fds[0].revents)
            lives = carry(receiver, sender, middle, false);
        if (lives && fds[1].revents)
            lives = carry(sender, receiver, middle, true);
    }
    close(receiver);
    close(sender);
    return NULL;
}

static void begin_middle(struct middle *middle)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    middle->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(middle->listening >= 0 &&
              bind(middle->listening, (const struct sockaddr *)&address, size) == 0 &&
              listen(middle->listening, 1) == 0 &&
              getsockname(middle->listening, (struct sockaddr *)&address, &size) == 0,
          "listen: %m");
    middle->port = ntohs(address.sin_port);
    middle->thread = NEW_THREAD(run_middle, middle);
}

static void end_middle(struct middle *middle)
{
    pthread_join(middle->thread, NULL);
    close(middle->listening);
}

/* A trick on what the sender says; what both ends say of it. */
static void expect_noticed(enum trick trick, const char *of_sender, const char *of_receiver)
{
    struct gpud_access_rule key = keyed("key", "a key of both ends");
    struct bystander bystander;
    struct middle middle = {.trick = FORWARD};
    char address[64];
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = open_with_bystander(&key, &key, &bystander, "TLS 1.3");
    begin_middle(&middle);
    gpud_print(address, "tcp://127.0.0.1:%u/cam1", middle.port);
    struct ends ends = meet(listener, address, &key);
    greet(ends.sender, 1);
    expect_greeting(ends.receiver, 1);
    atomic_store(&middle.trick, trick);
    while (atomic_load(&middle.trick) != FORWARD && !gpud_channel_is_dead(ends.sender)) {
        greet(ends.sender, 2); /* or a PING is the victim */
        usleep(1000);
    }
    if (trick == SWALLOW)
        greet(ends.sender, 3);
    expect_ends(listener, &ends, of_sender, of_receiver);
    end_middle(&middle);
    bystander_end(&bystander);
}

#define CHANGED "was changed, repeated or left out on the way"

static void test_cut(void)
{
    expect_noticed(CUT, "cut the connection", "cut the connection");
}

/* The sender gets the alert, or, if it was sending, only the end. */
static void test_replay(void)
{
    expect_noticed(REPLAY, "the connection", CHANGED);
}

static void test_flip(void)
{
    expect_noticed(FLIP, "the connection", CHANGED);
}

static void test_swallow(void)
{
    expect_noticed(SWALLOW, "the connection", CHANGED);
}

/* The request, which anybody can change, does not lead to another channel of the same key. */
static void test_other_channel(void)
{
    struct gpud_access_rule key = keyed("key", "a key of both ends");
    AUTO(gpud_listener_close)
    struct gpud_listener *cam1 = listen_on(address_of("/cam1"), &key);
    AUTO(gpud_listener_close)
    struct gpud_listener *cam2 = listen_on(address_of("/cam2"), &key);
    struct middle middle = {.trick = FORWARD, .redirects = true};
    char address[64];
    begin_middle(&middle);
    gpud_print(address, "tcp://127.0.0.1:%u/cam1", middle.port);
    expect_refused(cam2, address, &key, "do not mean the same channel",
                   "do not mean the same channel");
    end_middle(&middle);
    struct ends ends = meet(cam1, address_of("/cam1"), &key);
    close_ends(&ends);
}

int main(int argc, char **argv)
{
    static const struct network_case cases[] = {
        {"keys", test_keys},
        {"replaced-key", test_replaced_key},
        {"certificates", test_certificates},
        {"files", test_files},
        {"plain", test_plain},
        {"other-tls", test_other_tls},
        {"cut", test_cut},
        {"replay", test_replay},
        {"flip", test_flip},
        {"swallow", test_swallow},
        {"other-channel", test_other_channel},
        {NULL},
    };
    tcp_begin();
    run_cases(cases, argc, argv);
    return tcp_done();
}

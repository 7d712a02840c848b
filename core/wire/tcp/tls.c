/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* TLS 1.3 over a connected socket, by OpenSSL. Both ends prove who they are: by a key that both
 * have, as an external PSK with an ephemeral key exchange (psk_dhe_ke: a key that leaks
 * later does not reveal recorded traffic), or by certificates of a CA that both trust.
 *
 * The name of the channel is the application protocol (ALPN) of the handshake, so that the request
 * before it, which can be changed on the way, cannot lead to another channel.
 *
 * The kernel's TLS is not used: kernels before 6.14 cannot change a key, which has to be changed
 * after six minutes of 3840x2160 at 60 a second (RFC 8446, 5.5). */
#include "wire/tcp/tcp.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Resumption has no use where connections last for hours, and SHA-256 is what the PSK is for. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define PSK_SIZE 32

/* For what is encrypted in one turn. */
#define OUT_ROOM (TCP_CHUNK + 64 * 1024)

/* For what one read of the socket may take: several records. */
#define IN_ROOM TCP_CHUNK

#define PROTOCOL "gpudirect/1 "

/* AES_128_GCM_SHA256, by which OpenSSL learns the PSK's hash. */
static const unsigned char psk_suite[] = {0x13, 0x01};

/* 2^22 records of 16 KiB, a sixth of what is allowed. */
uint64_t gpud_tls_bytes_a_key = UINT64_C(64) << 30;

struct tcp_tls {
    SSL_CTX *context;
    SSL *ssl;
    bool is_sender;
    enum tcp_proof proof;
    unsigned char psk[PSK_SIZE];
    unsigned char protocol[sizeof(PROTOCOL) + GPUD_PLACE_NAME_MAX + 1]; /* with its length */
    size_t protocol_size;
    char peer[GPUD_ADDRESS_MAX];
    bool is_shaken, is_confirmed;
    int fd;
    char *out; /* encrypted, to be sent */
    size_t out_size, out_sent, out_room;
    char *in; /* as received, to be decrypted: IN_ROOM */
    size_t in_size, in_taken;
    uint64_t sent; /* by the present key */
};

enum tcp_proof gpud_tls_proof(const struct gpud_access_rule *access)
{
    if (access && access->key_file[0])
        return TCP_PROOF_KEY;
    return access && access->tls_certificate[0] ? TCP_PROOF_CERTIFICATE : TCP_PROOF_NONE;
}

/* --- reasons -------------------------------------------------------------------------------- */

/* "certificate has expired", of the last error; clears the list of errors. */
static const char *last_error(char text[GPUD_REASON_MAX], unsigned long *code)
{
    unsigned long first = ERR_peek_error();
    const char *reason = ERR_reason_error_string(first);
    gpud_print_n(text, GPUD_REASON_MAX, "%s", reason ? reason : "unknown error");
    ERR_clear_error();
    *code = first;
    return text;
}

static enum gpud_status explain_alert(const struct tcp_tls *tls, int reason, const char *text,
                                      struct gpud_error *error)
{
    bool by_key = tls->proof == TCP_PROOF_KEY;
    switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the keys differ: the proof of %s is wrong; copy the key file of one end "
                         "to the other",
                         tls->peer);
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY:
        if (by_key)
            return gpud_fail(error, GPUD_NO_ACCESS,
                             "the keys differ: %s refused this end's proof; copy the key file of "
                             "one end to the other",
                             tls->peer);
        break;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s refused this end's certificate, which has expired by its clock",
                         tls->peer);
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s refused this end's certificate: it is not of a CA in the tls-ca file "
                         "there",
                         tls->peer);
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s refused this end's certificate; its log says why", tls->peer);
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "one end sent no certificate: set tls-certificate and tls-key at both");
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s speaks an older TLS than 1.3, so it is not a gpudirect program",
                         tls->peer);
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_DATA_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_UNEXPECTED_MESSAGE:
        return gpud_fail(
            error, GPUD_PEER,
            "%s does not speak TLS: is a gpudirect program there, and no proxy between?",
            tls->peer);
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
        return gpud_fail(error, GPUD_PEER,
                         "the connection with %s is broken off: something in it was changed, "
                         "repeated or left out on the way",
                         tls->peer);
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the ends do not mean the same channel: something between the hosts "
                         "changes the connection");
    default:
        break;
    }
    return gpud_fail(error, GPUD_NO_ACCESS, "TLS with %s failed: %s", tls->peer, text);
}

/* What is wrong with the other end's certificate. OpenSSL's words say what it looked for, and not
 * what to change. */
static const char *explain_certificate(long verified)
{
    switch (verified) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "it has expired by this host's clock: replace it there, or set the clock here";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "it is not valid yet by this host's clock: is the clock right?";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "it is for other hosts: its subjectAltName has to list the host of the address, as "
               "DNS:name or IP:number";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return "it is not of a CA in the tls-ca file here";
    case X509_V_ERR_INVALID_PURPOSE:
        return "its extendedKeyUsage is for another purpose: a sender needs serverAuth, a receiver "
               "clientAuth, or neither of them a limit";
    default:
        return X509_verify_cert_error_string(verified);
    }
}

/* Why a call of OpenSSL's failed, other than that it has to wait. */
static enum gpud_status explain(const struct tcp_tls *tls, int kind, int number,
                                struct gpud_error *error)
{
    char text[GPUD_REASON_MAX];
    unsigned long code;
    long verified = SSL_get_verify_result(tls->ssl);
    if (kind == SSL_ERROR_SSL) {
        last_error(text, &code);
        if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
            return gpud_fail(error, GPUD_NO_ACCESS, "the certificate of %s is refused: %s",
                             tls->peer, explain_certificate(verified));
        return explain_alert(tls, ERR_GET_REASON(code), text, error);
    }
    ERR_clear_error();
    if (kind == SSL_ERROR_SYSCALL && number)
        return gpud_fail_native(error, GPUD_CLOSED, "errno", number,
                                "the connection with %s broke: %s", tls->peer, strerror(number));
    return gpud_fail(error, GPUD_CLOSED, "%s cut the connection", tls->peer);
}

/* --- keys and certificates ------------------------------------------------------------------ */

/* The key file serves rdma's proofs, too: a PSK of its own keeps the two apart. */
static enum gpud_status derive_psk(struct tcp_tls *tls, const char *path, struct gpud_error *error)
{
    static const char label[] = "gpudirect tls 1.3 external psk";
    struct gpud_auth_key key = {0};
    unsigned size = PSK_SIZE;
    enum gpud_status status = gpud_auth_read_key(path, &key, error);
    if (status == GPUD_OK && !HMAC(EVP_sha256(), key.bytes, (int)key.size,
                                   (const unsigned char *)label, sizeof(label), tls->psk, &size))
        status = gpud_fail(error, GPUD_IO, "OpenSSL derives no key");
    gpud_auth_wipe_key(&key);
    return status;
}

/* An end's one key, whatever the other calls it. */
static SSL_SESSION *make_session(const struct tcp_tls *tls)
{
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(tls->ssl, psk_suite);
    if (session && cipher && SSL_SESSION_set1_master_key(session, tls->psk, PSK_SIZE) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int use_psk(SSL *ssl, const EVP_MD *hash, const unsigned char **identity, size_t *size,
                   SSL_SESSION **session)
{
    const struct tcp_tls *tls = SSL_get_app_data(ssl);
    *session = NULL;
    *identity = (const unsigned char *)PROTOCOL;
    *size = strlen(PROTOCOL);
    if (hash && hash != EVP_sha256() && EVP_MD_get_type(hash) != EVP_MD_get_type(EVP_sha256()))
        return 1;
    *session = make_session(tls);
    return *session != NULL;
}

static int find_psk(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session)
{
    *session = make_session(SSL_get_app_data(ssl));
    return *session != NULL;
}

/* A private key's file has to be its owner's alone, as a key file. */
static enum gpud_status check_file(const char *what, const char *path, bool is_private,
                                   struct gpud_error *error)
{
    struct stat st;
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        return gpud_fail_errno(error, "cannot read the %s %s", what, path);
    if (!S_ISREG(st.st_mode))
        return gpud_fail(error, GPUD_INVALID,
                         "the %s %s is not a regular file: give a PEM file", what, path);
    if (is_private && ((st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & 077))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "users other than its owner can use the %s %s (mode %04o, of user %u): "
                         "chmod 600 %s",
                         what, path, st.st_mode & 07777, st.st_uid, path);
    return GPUD_OK;
}

/* OpenSSL would ask for it on the terminal, at each connection, and keep all others waiting. */
static int give_no_pass_phrase(char *buffer, int size, int writes, void *asked)
{
    *(bool *)asked = true;
    return -1;
}

static enum gpud_status load_certificates(struct tcp_tls *tls, const struct gpud_access_rule *rule,
                                          struct gpud_error *error)
{
    char text[GPUD_REASON_MAX];
    unsigned long code;
    bool asked = false;
    const char *what = "tls-certificate", *file = rule->tls_certificate;
    enum gpud_status status = check_file(what, file, false, error);
    if (status == GPUD_OK)
        status = check_file("tls-key", rule->tls_key, true, error);
    if (status == GPUD_OK)
        status = check_file("tls-ca", rule->tls_ca, false, error);
    if (status != GPUD_OK)
        return status;
    SSL_CTX_set_default_passwd_cb(tls->context, give_no_pass_phrase);
    SSL_CTX_set_default_passwd_cb_userdata(tls->context, &asked);
    bool done = SSL_CTX_use_certificate_chain_file(tls->context, file) == 1;
    if (done) {
        what = "tls-key";
        file = rule->tls_key;
        done = SSL_CTX_use_PrivateKey_file(tls->context, file, SSL_FILETYPE_PEM) == 1;
    }
    if (done) {
        what = "tls-ca";
        file = rule->tls_ca;
        done = SSL_CTX_load_verify_locations(tls->context, file, NULL) == 1;
    }
    SSL_CTX_set_default_passwd_cb_userdata(tls->context, NULL);
    if (done) {
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        return GPUD_OK;
    }
    last_error(text, &code);
    if (asked)
        return gpud_fail(error, GPUD_INVALID,
                         "the %s %s is encrypted by a pass phrase, for which nothing can ask: "
                         "(umask 077; openssl pkey -in %s -out PATH) writes it without one",
                         what, file, file);
    if (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH)
        return gpud_fail(error, GPUD_INVALID, "the %s %s is not that of the tls-certificate %s",
                         what, file, rule->tls_certificate);
    return gpud_fail(error, GPUD_INVALID, "the %s %s cannot be used: is it a PEM file? OpenSSL: %s",
                     what, file, text);
}

/* --- the channel's name ---------------------------------------------------------------------- */

static int select_protocol(SSL *ssl, const unsigned char **selected, unsigned char *size,
                           const unsigned char *offered, unsigned offered_size, void *arg)
{
    const struct tcp_tls *tls = arg;
    if (offered_size != tls->protocol_size ||
        memcmp(offered, tls->protocol, tls->protocol_size) != 0)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *selected = tls->protocol + 1;
    *size = (unsigned char)(tls->protocol_size - 1);
    return SSL_TLSEXT_ERR_OK;
}

/* --- the socket ------------------------------------------------------------------------------ */

/* OpenSSL reads the header of each record, and then its rest. OpenSSL's own read-ahead takes as few
 * calls of recv(), but moves all that is left in its buffer to the front for each record. */
static int in_read(BIO *bio, char *bytes, int size)
{
    struct tcp_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->in_taken == tls->in_size) {
        ssize_t got;
        do
            got = recv(tls->fd, tls->in, IN_ROOM, MSG_DONTWAIT);
        while (got < 0 && errno == EINTR);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            BIO_set_retry_read(bio);
        if (got <= 0)
            return (int)got;
        tls->in_size = (size_t)got;
        tls->in_taken = 0;
    }
    size_t left = tls->in_size - tls->in_taken;
    size_t taken = left < (size_t)size ? left : (size_t)size;
    memcpy(bytes, tls->in + tls->in_taken, taken);
    tls->in_taken += taken;
    return (int)taken;
}

/* What OpenSSL writes: kept, to be sent in one call where that is several records. A socket's BIO
 * would make a packet of each, and raise SIGPIPE in the application's threads. */
static int out_write(BIO *bio, const char *bytes, int size)
{
    struct tcp_tls *tls = BIO_get_data(bio);
    size_t wanted = tls->out_size + (size_t)size;
    if (wanted > tls->out_room) {
        size_t room = wanted < OUT_ROOM ? OUT_ROOM : 2 * wanted;
        void *out = realloc(tls->out, room);
        if (!out)
            return -1;
        tls->out = out;
        tls->out_room = room;
    }
    memcpy(tls->out + tls->out_size, bytes, (size_t)size);
    tls->out_size = wanted;
    return size;
}

static long control(BIO *bio, int command, long number, void *arg)
{
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "gpudirect");
    if (made && BIO_meth_set_read(made, in_read) && BIO_meth_set_write(made, out_write) &&
        BIO_meth_set_ctrl(made, control))
        method = made;
}

static BIO *make_bio(struct tcp_tls *tls)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, tls);
        BIO_set_init(bio, 1);
    }
    return bio;
}

bool gpud_tls_is_behind(const struct tcp_tls *tls)
{
    return tls->out_sent < tls->out_size;
}

/* −1 and errno, EAGAIN also while some is left. */
static int flush(struct tcp_tls *tls)
{
    while (gpud_tls_is_behind(tls)) {
        ssize_t put = send(tls->fd, tls->out + tls->out_sent, tls->out_size - tls->out_sent,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EINTR)
            return -1;
        tls->out_sent += put > 0 ? (size_t)put : 0;
    }
    tls->out_sent = tls->out_size = 0;
    return 0;
}

/* --- beginning and ending -------------------------------------------------------------------- */

static enum gpud_status make_context(struct tcp_tls *tls, const struct gpud_access_rule *access,
                                     struct gpud_error *error)
{
    tls->context = SSL_CTX_new(tls->is_sender ? TLS_server_method() : TLS_client_method());
    if (!tls->context || !SSL_CTX_set_min_proto_version(tls->context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(tls->context, SUITES))
        return gpud_fail(error, GPUD_UNSUPPORTED, "this system's OpenSSL has no TLS 1.3");
    SSL_CTX_set_options(tls->context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_num_tickets(tls->context, 0);
    SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
    if (tls->is_sender)
        SSL_CTX_set_alpn_select_cb(tls->context, select_protocol, tls);
    if (tls->proof == TCP_PROOF_CERTIFICATE)
        return load_certificates(tls, access, error);
    SSL_CTX_set_psk_use_session_callback(tls->context, use_psk);
    SSL_CTX_set_psk_find_session_callback(tls->context, find_psk);
    return derive_psk(tls, access->key_file, error);
}

/* A receiver checks that the certificate is of the host that it means. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[16];
    bool is_address = inet_pton(AF_INET, host, address) == 1 ||
                      inet_pton(AF_INET6, host, address) == 1 || strchr(host, '%');
    char plain[GPUD_ADDRESS_MAX];
    gpud_print(plain, "%.*s", (int)strcspn(host, "%"), host); /* without an interface */
    return is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), plain) == 1
                      : SSL_set1_host(ssl, plain) == 1 && SSL_set_tlsext_host_name(ssl, plain) == 1;
}

static enum gpud_status make(struct tcp_tls **tls, bool is_sender,
                             const struct gpud_access_rule *access, struct gpud_error *error)
{
    enum gpud_status status = gpud_openssl_open(error);
    if (status != GPUD_OK)
        return status;
    struct tcp_tls *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for TLS");
    made->is_sender = is_sender;
    made->proof = gpud_tls_proof(access);
    status = make_context(made, access, error);
    if (status == GPUD_OK)
        *tls = made;
    else
        gpud_tls_end(&made);
    return status;
}

enum gpud_status gpud_tls_check(const struct gpud_access_rule *access, bool is_sender,
                                struct gpud_error *error)
{
    struct tcp_tls *tls = NULL;
    enum gpud_status status =
        gpud_tls_proof(access) == TCP_PROOF_NONE ? GPUD_OK : make(&tls, is_sender, access, error);
    gpud_tls_end(&tls);
    return status;
}

enum gpud_status gpud_tls_begin(struct tcp_tls **tls, int fd, bool is_sender,
                                const struct gpud_access_rule *access, const char *name,
                                const char *host, const char *peer, struct gpud_error *error)
{
    struct tcp_tls *made;
    enum gpud_status status = make(&made, is_sender, access, error);
    if (status != GPUD_OK)
        return status;
    gpud_print(made->peer, "%s", peer);
    made->protocol_size = (size_t)gpud_print_n((char *)made->protocol + 1,
                                               sizeof(made->protocol) - 1, "%s%s", PROTOCOL, name) +
                          1;
    made->protocol[0] = (unsigned char)(made->protocol_size - 1);
    made->ssl = SSL_new(made->context);
    made->fd = fd;
    made->in = malloc(IN_ROOM); /* not cleared: a sender of many receivers needs little of each */
    BIO *bio = make_bio(made);
    bool done = made->ssl && made->in && bio;
    if (done) {
        SSL_set_bio(made->ssl, bio, bio);
        SSL_set_app_data(made->ssl, made);
    } else {
        BIO_free(bio);
    }
    if (done && !is_sender)
        done = SSL_set_alpn_protos(made->ssl, made->protocol, (unsigned)made->protocol_size) == 0 &&
               (made->proof == TCP_PROOF_KEY || expect_host(made->ssl, host));
    if (done) {
        if (is_sender)
            SSL_set_accept_state(made->ssl);
        else
            SSL_set_connect_state(made->ssl);
        *tls = made;
        return GPUD_OK;
    }
    ERR_clear_error();
    gpud_tls_end(&made);
    return gpud_fail(error, GPUD_NO_MEMORY, "OpenSSL makes no connection");
}

void gpud_tls_end(struct tcp_tls **tls)
{
    struct tcp_tls *gone = *tls;
    *tls = NULL;
    if (!gone)
        return;
    SSL_free(gone->ssl);
    SSL_CTX_free(gone->context);
    explicit_bzero(gone->psk, sizeof(gone->psk));
    free(gone->in);
    free(gone->out);
    free(gone);
}

/* --- use ------------------------------------------------------------------------------------- */

/* The handshake, and one byte from the sender behind it: in TLS 1.3 the receiver is done before the
 * sender has looked at its certificate, and would take the refusal for a broken connection. */
static int shake_hands(struct tcp_tls *tls)
{
    char byte = '.';
    size_t done;
    if (!tls->is_shaken && SSL_do_handshake(tls->ssl) != 1)
        return 0;
    tls->is_shaken = true;
    if (!tls->is_confirmed)
        tls->is_confirmed = tls->is_sender ? SSL_write_ex(tls->ssl, &byte, 1, &done) == 1
                                           : SSL_read_ex(tls->ssl, &byte, 1, &done) == 1;
    return tls->is_confirmed;
}

enum gpud_status gpud_tls_handshake(struct tcp_tls *tls, bool *wants_write,
                                    struct gpud_error *error)
{
    const unsigned char *selected;
    unsigned size;
    ERR_clear_error();
    errno = 0;
    int done = shake_hands(tls), number = errno;
    int kind = done == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, done);
    int flushed = flush(tls); /* also the alert of a failure */
    *wants_write = gpud_tls_is_behind(tls);
    if (done != 1 && kind != SSL_ERROR_WANT_READ)
        return explain(tls, kind, number, error);
    if (flushed < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return explain(tls, SSL_ERROR_SYSCALL, errno, error);
    if (done != 1 || *wants_write)
        return GPUD_AGAIN;
    SSL_get0_alpn_selected(tls->ssl, &selected, &size);
    if (size != tls->protocol_size - 1 || memcmp(selected, tls->protocol + 1, size) != 0)
        return gpud_fail(error, GPUD_NO_ACCESS, "%s does not send this channel", tls->peer);
    explicit_bzero(tls->psk, sizeof(tls->psk));
    return GPUD_OK;
}

void gpud_tls_describe(const struct tcp_tls *tls, char *text, size_t size)
{
    const char *name = SSL_CIPHER_get_name(SSL_get_current_cipher(tls->ssl));
    gpud_print_n(text, size, "TLS 1.3 %s",
                 strstr(name, "CHACHA20") ? "ChaCha20-Poly1305" : "AES-128-GCM");
}

/* −1 and EPROTO, with the reason. */
static ssize_t fail_use(struct tcp_tls *tls, int kind, int number, struct gpud_error *error)
{
    explain(tls, kind, number, error);
    errno = EPROTO;
    return -1;
}

ssize_t gpud_tls_receive(struct tcp_tls *tls, void *bytes, size_t size, struct gpud_error *error)
{
    size_t got;
    ERR_clear_error();
    errno = 0;
    int done = SSL_read_ex(tls->ssl, bytes, size, &got), number = errno;
    int kind = done == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, done);
    if (done == 1)
        return (ssize_t)got;
    errno = EAGAIN;
    if (kind == SSL_ERROR_WANT_READ)
        return -1;
    return kind == SSL_ERROR_ZERO_RETURN ? 0 : fail_use(tls, kind, number, error);
}

ssize_t gpud_tls_send(struct tcp_tls *tls, const struct iovec *parts, size_t count,
                      struct gpud_error *error)
{
    ssize_t all = 0;
    if (flush(tls) < 0)
        return -1;
    ERR_clear_error();
    if (tls->sent >= gpud_tls_bytes_a_key &&
        SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        tls->sent = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0, put; at < parts[i].iov_len; at += put) {
            const char *bytes = (const char *)parts[i].iov_base + at;
            if (SSL_write_ex(tls->ssl, bytes, parts[i].iov_len - at, &put) != 1)
                return fail_use(tls, SSL_ERROR_SSL, 0, error);
            all += (ssize_t)put;
        }
    tls->sent += (uint64_t)all;
    flush(tls); /* the next call reports a failure */
    return all;
}

void gpud_tls_shut_down(struct tcp_tls *tls)
{
    SSL_shutdown(tls->ssl);
    ERR_clear_error();
    flush(tls);
}

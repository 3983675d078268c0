#include "server/grpc/grpc_frames.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sanitizer.h"
#include "runtime/base/thread.h"
#include "server/base/sockets.h"
#include "server/grpc/h2_frames.h"
#include "server/grpc/read_turns.h"
#include "server/metrics/metrics.h"
#include "server/grpc/send_hook.h"

enum {
    /* Maximum number of bytes for padding, priority and table size updates in a header block. */
    BLOCK_EXTRA = 1024,
    LARGEST_LIST = 1 << 30,
    LOG_EVERY_MS = 1000,
    /* Every connection may have this number of bytes of incomplete bodies, regardless of the other
     * connections. */
    HELD_ANYWAY = 64 << 10,
    IS_CUT_OFF = -2,
    /* A TLS record of less than SRV_H2_LARGE_DATA bytes takes about 2 us, even if it is empty.
     * SMALL_RECORDS of them count as one frame that costs work. */
    SMALL_RECORDS = 8,
    RECORD_BYTES = 5, /* size in bytes of a TLS record's header */
};

/* The sanitizer's interceptor of recvmsg is not called, because this program defines recvmsg
 * itself. This definition must therefore call the interceptor. */
#if RT_HAS_SANITIZER
ssize_t __interceptor_recvmsg(int fd, struct msghdr *message, int flags);
#define REAL_RECVMSG(fd, message, flags) __interceptor_recvmsg(fd, message, flags)
#else
#define REAL_RECVMSG(fd, message, flags) syscall(SYS_recvmsg, fd, message, flags)
#endif

#if RT_HAS_TSAN
int __interceptor_close(int fd);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#endif

static struct {
    struct srv_metrics *metrics;
    uint32_t max_block;
    _Atomic int64_t logged_ms;
    _Atomic int64_t held; /* total number of bytes of incomplete bodies on all connections */
    int64_t max_held;
} watch;

/* An inspected connection. Threads of the core read from it one after another. The atomic
 * is_watched shows this order to the thread sanitizer. Other threads may write to the connection at
 * the same time. */
struct watched {
    _Atomic bool is_watched;
    struct rt_mutex mu;
    struct srv_h2_frames frames; /* `mu` guards `frames` and `held` */
    int64_t held;                /* number of the connection's bytes that watch.held includes */
};

static int64_t now_ms(void)
{
    return rt_now_ns() / 1000000;
}

void srv_grpc_frames_start(struct srv_metrics *metrics, const grpc_channel_args *args,
                           int64_t max_held)
{
    int list = 0;

    for (size_t i = 0; i < args->num_args; i++) {
        const grpc_arg *a = &args->args[i];
        if (a->type == GRPC_ARG_INTEGER && strcmp(a->key, GRPC_ARG_MAX_METADATA_SIZE) == 0)
            list = a->value.integer;
    }
    if (list < 0 || list > LARGEST_LIST)
        list = LARGEST_LIST;
    watch.metrics = metrics;
    watch.max_held = max_held;
    /* A header block is never larger than its header list, whose size includes 32 extra bytes per
     * header. The limit for blocks is twice the limit for lists. If a list exceeds its limit but
     * not twice this limit, the core itself refuses it with an error message. */
    watch.max_block = 2 * (uint32_t)list + BLOCK_EXTRA;
}

/* Logs why a connection was cut off, at most once per second, because the client may reconnect
 * immediately. */
static void report(enum srv_h2_verdict v)
{
    static const struct {
        const char *event, *text;
    } of[] = {
        [SRV_H2_LARGE_BLOCK] = {"grpc_headers_cut_off", "sent headers of more than twice "
                                                        "--max_header_bytes"},
        [SRV_H2_NO_SETTINGS_ACK] = {"grpc_unsettled_cut_off",
                                    "opened many calls and did not acknowledge "
                                    "the settings"},
        [SRV_H2_FLOOD] = {"grpc_flood_cut_off", "flooded the server with frames that ask for "
                                                "nothing"},
        [SRV_H2_NO_PREFACE] = {"grpc_preface_cut_off",
                               "does not use HTTP/2. REST requests belong to "
                               "the REST port"},
        [SRV_H2_HOLDS_MUCH] = {"grpc_unfinished_cut_off", "sent more of requests without an end "
                                                          "than others leave room for"},
    };
    int64_t now = now_ms(), last = atomic_load(&watch.logged_ms);

    srv_metrics_event(watch.metrics, of[v].event);
    if ((!last || now - last >= LOG_EVERY_MS) &&
        atomic_compare_exchange_strong(&watch.logged_ms, &last, now))
        RT_LOG(RT_LOG_WARNING, "gRPC: cut off a connection that %s", of[v].text);
}

/* ---- incomplete bodies ---- */

/* Returns whether the incomplete bodies of a connection have too many bytes. The maximum for one
 * connection is the common limit of all connections minus the bytes of all connections together. A
 * single connection may thus have half of the common limit, and each of n equal connections
 * `1 / (n + 1)` of the common limit. The connections with the most bytes are cut off first. */
static bool holds_much(struct watched *w) RT_REQUIRES(w->mu)
{
    const int64_t now = (int64_t)w->frames.uploads.held, more = now - w->held;

    w->held = now;
    if (!more)
        return false;
    const int64_t all = atomic_fetch_add_explicit(&watch.held, more, memory_order_relaxed) + more;
    return more > 0 && now > HELD_ANYWAY && now > watch.max_held - all;
}

static enum srv_h2_verdict take(struct watched *w, const void *p, size_t n) RT_REQUIRES(w->mu)
{
    enum srv_h2_verdict v = srv_h2_frames_take(&w->frames, p, n);
    const bool much = holds_much(w);

    return !v && much ? SRV_H2_HOLDS_MUCH : v;
}

static void look_at_sent(struct watched *w, const void *p, size_t n)
{
    rt_mutex_lock(&w->mu);
    srv_h2_frames_sent(&w->frames, p, n);
    holds_much(w);
    rt_mutex_unlock(&w->mu);
}

/* Ends the inspection of a closed connection, and subtracts its bytes from the total. */
static void end(struct watched *w)
{
    if (!atomic_exchange_explicit(&w->is_watched, false, memory_order_acq_rel))
        return;
    rt_mutex_lock(&w->mu);
    srv_h2_frames_clear(&w->frames);
    holds_much(w);
    rt_mutex_unlock(&w->mu);
}

static void begin(struct watched *w, uint64_t sent)
{
    end(w);
    rt_mutex_lock(&w->mu);
    srv_h2_frames_init(&w->frames, watch.max_block, now_ms(), sent);
    rt_mutex_unlock(&w->mu);
    atomic_store_explicit(&w->is_watched, true, memory_order_release);
}

/* ---- connections ---- */

/* Time in milliseconds at which the connection with this descriptor was accepted or last read. 0
 * means that the descriptor belongs to no connection. connections_mu guards changes from and to
 * 0. */
static _Atomic int64_t read_ms[SRV_GRPC_MAX_FD];
static _Atomic int n_connections; /* number of elements of read_ms that are not 0 */
static struct rt_mutex connections_mu = RT_MUTEX_INIT;

/* Records that the descriptor belongs to no connection. */
static void forget_connection(int fd) RT_REQUIRES(connections_mu)
{
    if (atomic_exchange_explicit(&read_ms[fd], 0, memory_order_relaxed))
        atomic_fetch_sub_explicit(&n_connections, 1, memory_order_relaxed);
}

int srv_grpc_frames_n_open(void)
{
    return atomic_load_explicit(&n_connections, memory_order_relaxed);
}

static void record_read(int fd)
{
    int64_t before = fd < SRV_GRPC_MAX_FD ? atomic_load(&read_ms[fd]) : 0;

    if (before)
        atomic_compare_exchange_strong(&read_ms[fd], &before, now_ms());
}

static bool is_connection(int fd)
{
    return fd >= 0 && fd < SRV_GRPC_MAX_FD &&
           atomic_load_explicit(&read_ms[fd], memory_order_relaxed);
}

/* Returns the descriptor below max_fd whose connection has been idle for the longest time. Returns
 * -1 if no connection has been idle since before_ms. */
static int longest_idle(int max_fd, int64_t before_ms, bool (*has_calls)(const void *arg, int fd),
                        const void *arg) RT_REQUIRES(connections_mu)
{
    int found = -1;

    for (int fd = 0; fd < max_fd; fd++) {
        int64_t at_ms = atomic_load_explicit(&read_ms[fd], memory_order_relaxed);
        if (!at_ms || at_ms > before_ms || has_calls(arg, fd) || srv_socket_has_unread(fd))
            continue;
        before_ms = at_ms - 1;
        found = fd;
    }
    return found;
}

bool srv_grpc_frames_close_idle(int max_fd, int64_t idle_ms,
                                bool (*has_calls)(const void *arg, int fd), const void *arg)
{
    /* The core cannot close the descriptor while this thread holds the lock, because `close` waits
     * for the lock. */
    rt_mutex_lock(&connections_mu);
    int fd = longest_idle(max_fd, now_ms() - idle_ms, has_calls, arg);
    if (fd >= 0) {
        shutdown(fd, SHUT_RDWR);
        forget_connection(fd);
    }
    rt_mutex_unlock(&connections_mu);
    if (fd >= 0)
        srv_metrics_event(watch.metrics, "grpc_idle_connection_closed");
    return fd >= 0;
}

/* ---- plain ---- */

/* The array takes 21 MB of address space, but only used pages take memory. The mutexes need no
 * initialisation, because an all-zero mutex is unlocked. */
static struct watched plain[SRV_GRPC_MAX_FD];

/* Returns the plain connection with the descriptor fd. Returns NULL if this connection is not
 * inspected or was cut off. */
static struct watched *plain_of(int fd)
{
    struct watched *w = fd >= 0 && fd < SRV_GRPC_MAX_FD ? &plain[fd] : NULL;

    return w && atomic_load_explicit(&w->is_watched, memory_order_acquire) ? w : NULL;
}

void srv_grpc_frames_begin(int fd, bool is_plain)
{
    uint64_t sent = 0;

    srv_socket_sent(fd, &sent);
    if (is_plain)
        begin(&plain[fd], sent);
    if (!atomic_exchange_explicit(&read_ms[fd], now_ms(), memory_order_relaxed))
        atomic_fetch_add_explicit(&n_connections, 1, memory_order_relaxed);
}

void srv_grpc_frames_sent(int fd, const struct msghdr *message, size_t n)
{
    struct watched *w = plain_of(fd);

    for (size_t i = 0; w && i < message->msg_iovlen && n; i++) {
        const struct iovec *part = &message->msg_iov[i];
        size_t k = part->iov_len < n ? part->iov_len : n;
        look_at_sent(w, part->iov_base, k);
        n -= k;
    }
}

/* Closes the descriptor through the interceptor of the thread sanitizer, which tracks descriptors.
 * At its shutdown, the core closes some descriptors on a thread that did not open them. The
 * sanitizer must not report this as a data race. */
static int really_close(int fd)
{
#if RT_HAS_TSAN
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    int status = __interceptor_close(fd);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    return status;
#else
    return (int)syscall(SYS_close, fd);
#endif
}

/* Ends the inspection of the connection with the descriptor `fd`. The core closes every socket that
 * it reads, even after invalid data, so every inspection of a plain connection ends here. */
int close(int fd)
{
    struct watched *w = plain_of(fd);

    if (w)
        end(w);
    if (is_connection(fd)) {
        rt_mutex_lock(&connections_mu);
        forget_connection(fd);
        rt_mutex_unlock(&connections_mu);
    }
    return really_close(fd);
}

/* Records when a thread of the core begins and ends waiting for events. epoll_pwait without a
 * signal mask is equivalent to epoll_wait. */
int epoll_wait(int epoll, struct epoll_event *events, int n, int timeout)
{
    srv_turns_wait_begins(epoll);
    int got = epoll_pwait(epoll, events, n, timeout, NULL);
    srv_turns_wait_ends();
    return got;
}

static enum srv_h2_verdict look_at_message(struct watched *w, const struct msghdr *message,
                                           size_t n) RT_REQUIRES(w->mu)
{
    enum srv_h2_verdict v = SRV_H2_GOES_ON;

    for (size_t i = 0; i < message->msg_iovlen && n && !v; i++) {
        const struct iovec *part = &message->msg_iov[i];
        size_t k = part->iov_len < n ? part->iov_len : n;
        v = take(w, part->iov_base, k);
        n -= k;
    }
    return v;
}

/* Reads at most `limit` bytes into the buffers of `message`. *is_all is set if no more bytes were
 * available. */
static ssize_t read_some(int fd, struct msghdr *message, size_t limit, bool *is_all)
{
    size_t n_parts = message->msg_iovlen, capacity = 0, cut = 0, i = 0;

    while (i < n_parts && capacity < limit)
        capacity += message->msg_iov[i++].iov_len;
    if (capacity > limit)
        cut = capacity - limit;
    message->msg_iovlen = i;
    if (cut)
        message->msg_iov[i - 1].iov_len -= cut;
    ssize_t n = REAL_RECVMSG(fd, message, 0);
    message->msg_iovlen = n_parts;
    if (cut)
        message->msg_iov[i - 1].iov_len += cut;
    *is_all = n < (ssize_t)(capacity - cut);
    return n;
}

/* The descriptor from which this thread last read, and whose bytes SSL_read decrypts. */
static _Thread_local int read_last = -1;

/* Ends a connection that was cut off. When the core closes the descriptor, the connection is reset.
 * Otherwise the kernel would keep the socket for another minute, and a client that is still sending
 * would wait for the receive window to reopen. */
static void cut_off(int fd)
{
    const struct linger reset = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    shutdown(fd, SHUT_RDWR);
}

/* Inspects n bytes that were read from `fd`. Returns the number of frames in them that cost work,
 * or IS_CUT_OFF if the connection was cut off. Returns -1 if `fd` is not an inspected plain
 * connection. */
static int64_t look_at_plain(int fd, const struct msghdr *message, size_t n)
{
    struct watched *w = plain_of(fd);
    uint64_t sent = 0;

    if (!w)
        return -1;
    srv_socket_sent(fd, &sent);
    rt_mutex_lock(&w->mu);
    srv_h2_frames_fill(&w->frames, now_ms(), sent);
    uint32_t n_work = w->frames.n_work;
    enum srv_h2_verdict v = look_at_message(w, message, n);
    n_work = w->frames.n_work - n_work;
    rt_mutex_unlock(&w->mu);
    if (v) {
        end(w);
        report(v);
        cut_off(fd);
    }
    return v ? IS_CUT_OFF : (int64_t)n_work;
}

static bool is_unix_socket(int fd)
{
    int domain = AF_UNSPEC;
    socklen_t n = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    /* Linux ignores MSG_ERRQUEUE on a UNIX socket, so the core, which asks for errors, would take
     * ordinary data, and descriptors that the client has sent, which it would never close. */
    if (flags & MSG_ERRQUEUE && is_connection(fd) && is_unix_socket(fd)) {
        errno = EAGAIN;
        return -1;
    }
    if (flags || !is_connection(fd))
        return REAL_RECVMSG(fd, message, flags);
    if (srv_turns_is_gone(fd))
        return 0;
    size_t limit = srv_turns_limit(fd);
    if (!limit) {
        errno = EAGAIN;
        return -1;
    }
    bool is_all;
    ssize_t n = read_some(fd, message, limit, &is_all);
    if (n > 0) {
        record_read(fd);
        int64_t n_frames = look_at_plain(fd, message, (size_t)n);
        if (n_frames == IS_CUT_OFF)
            return 0;
        read_last = fd;
        srv_turns_took(fd, (size_t)n, n_frames, is_all);
    } else if ((n == 0 || errno != EAGAIN) && srv_turns_end(fd)) {
        errno = EAGAIN;
        return -1;
    }
    return n;
}

/* ---- TLS ---- */

/* The ex-data of an OpenSSL session. The core holds a lock while it reads or writes the session. */
struct watched_tls {
    struct watched w; /* w.is_watched is cleared when the connection is cut off */
    _Atomic uint64_t sent;
    /* Numbers of key updates and of small records since the last inspection; used by the reading
     * thread. */
    uint32_t n_rekeyed, n_small;
};

static int (*real_handshake)(SSL *tls);
static int (*real_read)(SSL *tls, void *p, int n);
static int (*real_write)(SSL *tls, const void *p, int n);
static int tls_index = -1;
static pthread_once_t tls_once = PTHREAD_ONCE_INIT;

static void free_tls(void *parent, void *p, CRYPTO_EX_DATA *data, int index, long l, void *arg)
{
    struct watched_tls *t = p;

    (void)parent, (void)data, (void)index, (void)l, (void)arg;
    if (t)
        end(&t->w);
    free(t);
}

static void find_tls(void)
{
    *(void **)&real_handshake = dlsym(RTLD_NEXT, "SSL_do_handshake");
    *(void **)&real_read = dlsym(RTLD_NEXT, "SSL_read");
    *(void **)&real_write = dlsym(RTLD_NEXT, "SSL_write");
    tls_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_tls);
}

/* Counts small records and key updates. TLS 1.3 permits any number of key updates. OpenSSL handles
 * all key updates that have arrived in one call of SSL_read, but without SSL_MODE_AUTO_RETRY it
 * returns after each. A connection loses this mode when it is certain to be cut off. */
static void on_message(int is_sent, int version, int type, const void *p, size_t n, SSL *tls,
                       void *arg)
{
    struct watched_tls *t = arg;
    const uint8_t *byte = p;

    (void)version;
    if (is_sent)
        return;
    if (type == SSL3_RT_HEADER && n == RECORD_BYTES)
        t->n_small += (byte[3] << 8 | byte[4]) < SRV_H2_LARGE_DATA;
    else if (type == SSL3_RT_HANDSHAKE && n && *byte == SSL3_MT_KEY_UPDATE &&
             ++t->n_rekeyed > SRV_H2_MAX_REKEYS)
        SSL_clear_mode(tls, SSL_MODE_AUTO_RETRY);
}

/* Returns the ex-data of a server's TLS session, which is created on first use. Returns NULL if
 * memory runs out. */
static struct watched_tls *tls_of(SSL *tls)
{
    struct watched_tls *t = SSL_get_ex_data(tls, tls_index);

    if (t)
        return t;
    t = calloc(1, sizeof *t);
    if (!t || !SSL_set_ex_data(tls, tls_index, t)) {
        free(t);
        return NULL;
    }
    begin(&t->w, 0);
    SSL_set_msg_callback(tls, on_message);
    SSL_set_msg_callback_arg(tls, t);
    return t;
}

/* Inspects the n bytes that SSL_read returned, and the TLS key updates before them. Returns false
 * if the connection was cut off. The caller must then fail the read. */
static bool look_at_tls(struct watched_tls *t, const void *p, size_t n)
{
    enum srv_h2_verdict v = SRV_H2_GOES_ON;

    if (!t || !atomic_load_explicit(&t->w.is_watched, memory_order_acquire))
        return false;
    if (!n && !t->n_rekeyed)
        return true;
    rt_mutex_lock(&t->w.mu);
    srv_h2_frames_fill(&t->w.frames, now_ms(),
                       atomic_load_explicit(&t->sent, memory_order_relaxed));
    uint32_t n_work = t->w.frames.n_work;
    if (t->n_rekeyed)
        v = srv_h2_frames_rekeyed(&t->w.frames, t->n_rekeyed);
    t->n_rekeyed = 0;
    if (n && !v)
        v = take(&t->w, p, n);
    n_work = t->w.frames.n_work - n_work + t->n_small / SMALL_RECORDS;
    t->n_small %= SMALL_RECORDS;
    rt_mutex_unlock(&t->w.mu);
    srv_turns_held_frames(read_last, n_work);
    if (v) {
        end(&t->w);
        report(v);
    }
    return !v;
}

int SSL_do_handshake(SSL *tls)
{
    pthread_once(&tls_once, find_tls);
    int64_t begun_ns = rt_now_ns();
    int status = real_handshake(tls);

    if (watch.metrics && SSL_is_server(tls))
        srv_turns_handshake(read_last, rt_now_ns() - begun_ns, status == 1);
    return status;
}

int SSL_read(SSL *tls, void *p, int n)
{
    pthread_once(&tls_once, find_tls);
    /* The program's own TLS clients also call SSL_read. Their connections are not inspected. */
    struct watched_tls *t = watch.metrics && SSL_is_server(tls) ? tls_of(tls) : NULL;
    int got = real_read(tls, p, n);

    if (!watch.metrics || !SSL_is_server(tls) || look_at_tls(t, p, got > 0 ? (size_t)got : 0))
        return got;
    ERR_raise_data(ERR_LIB_USER, ERR_R_OPERATION_FAIL, "the connection was cut off");
    return -1;
}

int SSL_write(SSL *tls, const void *p, int n)
{
    pthread_once(&tls_once, find_tls);
    int put = real_write(tls, p, n);
    struct watched_tls *t = put > 0 && watch.metrics && SSL_is_server(tls) ? tls_of(tls) : NULL;

    if (!t)
        return put;
    atomic_fetch_add_explicit(&t->sent, (uint64_t)put, memory_order_relaxed);
    if (atomic_load_explicit(&t->w.is_watched, memory_order_acquire))
        look_at_sent(&t->w, p, (size_t)put);
    return put;
}

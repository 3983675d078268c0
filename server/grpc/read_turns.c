#include "server/grpc/read_turns.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/base/sockets.h"
#include "server/grpc/grpc_frames.h"

enum {
    TICK_NS = 500000, /* interval between checks of the paused connections */
    /* maximum number of pauses that one check ends, not counting those of handshakes */
    AT_ONCE = 2,
    /* maximum number of paused connections examined in a check, oldest first */
    LOOKED_AT = 32,
    /* Minimum time between the ends of two connections, so that their teardown is spread over
     * time. */
    END_NS = 5000000,
    /* time after which the oldest pause is ended if no other pause has ended in the meantime */
    PAUSE_NS = 100000000,
    TURN_FRAMES = 64, /* maximum number of frames per turn if there is a crowd */
    /* maximum number of bytes if is_heavy, per read and, if there is a crowd, also per turn */
    TURN_BYTES = 8192,
    ALONE = 4, /* factor by which turns are longer while there is no crowd */
    /* There is a crowd if at least CROWD connections reached a limit of a turn within the current
     * or the previous period of CROWD_NS nanoseconds. */
    CROWD = 4,
    /* period in nanoseconds over which connections are counted to detect a crowd */
    CROWD_NS = 1000000000,
    FEW_FRAMES = TURN_FRAMES / 8,
    /* While no I/O loop is idle, handshakes take at most `1 / HANDSHAKE_SHARE` of the time of a
     * thread. Unused time accumulates up to HANDSHAKE_NS. */
    HANDSHAKE_SHARE = 2,
    HANDSHAKE_NS = 20000000,
    /* maximum number of bytes per read unless is_heavy; this number of bytes may contain thousands
     * of frames */
    LARGEST_READ = 1 << 16,
    /* number of bytes after which, unless is_heavy, the counts of the turn's frames and bytes are
     * reset to 0 */
    BULK_BYTES = 1 << 18,
    TURN_BULK = 1 << 20, /* maximum number of bytes per turn if there is a crowd */
    /* a connection is assumed to have ended if the number of calls has dropped by at least this
     * number since the last check */
    FEWER_CALLS = 4,
    MAX_LOOPS = 64,
    NONE = -1,
};

enum phase { READING, IS_OVER, PAUSED };

/* State of a connection. `next`, `reader` and `reader_cpu_ns` describe a pause and are guarded by
 * mu. The other members after `phase` are used by the thread that reads the connection. The thread
 * that ends a pause sets `may_handshake` before `phase`. */
struct turn {
    _Atomic int phase;
    /* true for a TCP socket; stored after the members that follow, and loaded before them */
    _Atomic bool may_pause;
    bool is_over; /* the turn has ended; the next permitted read begins a new turn */
    /* whether reads are limited to TURN_BYTES, because the last turn had many frames or this is the
     * first turn */
    bool is_heavy;
    bool at_its_end; /* the end of the connection has already been delayed */
    /* whether the TLS handshake has not ended yet, so that each read needs permission */
    bool is_handshaking;
    bool may_handshake; /* one read is permitted, because a pause has ended */
    uint32_t frames;    /* in this turn */
    uint32_t bytes;     /* number of bytes read in this turn, reset together with `frames` */
    uint64_t bulk;      /* number of bytes read in this turn */
    uint64_t n_frames;
    int64_t crowd; /* the period of CROWD_NS in which the connection was last counted */
    int next;      /* next connection of the same queue of paused connections */
    clockid_t reader;
    int64_t reader_cpu_ns;
};

/* The array takes 8 MB of address space, of which only used pages are allocated. */
static struct turn turns[SRV_GRPC_MAX_FD];

/* Paused connections in the order of pausing; guarded by all.mu. */
struct queue {
    int first, last; /* the oldest and the newest connection, or NONE */
    /* time at which a pause ended most recently, or at which the queue became non-empty */
    int64_t released_ns;
};

static struct {
    _Atomic bool is_on;
    _Atomic int n_loops;
    /* for each I/O loop, 1 + the epoll descriptor on which it waits, or 0 if it does not wait */
    _Atomic int loop_epoll[MAX_LOOPS];
    _Atomic int64_t crowd; /* number of the current period of CROWD_NS nanoseconds */
    /* numbers of connections that reached a limit of a turn in the current period and in the
     * previous one */
    _Atomic int n_crowd, n_crowd_last;
    struct rt_mutex mu;
    struct rt_cond changed;
    /* connections whose turn is over, and connections whose TLS handshake waits */
    struct queue turn_over, handshakes;
    bool is_stopping;
    bool has_tls; /* whether connections begin with a TLS handshake; set at start */
    /* handshake_ns is the time for which handshakes may run while no I/O loop is idle, and
     * handshake_filled_ns is when this time was last increased; both are guarded by mu */
    int64_t handshake_ns, handshake_filled_ns;
    /* whether a step of a handshake was permitted and its end has not been reported yet; guarded by
     * mu */
    bool is_handshaking;
    const _Atomic int *n_calls; /* NULL means unknown */
    int n_calls_before;         /* the value of *n_calls at the last check */
    /* most recent time at which a connection ended, or at which at least FEWER_CALLS calls had
     * ended since the last check */
    int64_t ended_ns;
    pthread_t thread;
} all = {.mu = RT_MUTEX_INIT, .turn_over = {NONE, NONE, 0}, .handshakes = {NONE, NONE, 0}};

static struct turn *turn_of(int fd)
{
    if (fd < 0 || fd >= SRV_GRPC_MAX_FD || !atomic_load_explicit(&all.is_on, memory_order_acquire))
        return NULL;
    return atomic_load_explicit(&turns[fd].may_pause, memory_order_acquire) ? &turns[fd] : NULL;
}

/* Publishes the members used by the reading thread, because another thread may read the connection
 * next. */
static void changed(struct turn *t)
{
    atomic_store_explicit(&t->may_pause, true, memory_order_release);
}

/* ---- ends of pauses ---- */

/* Makes the kernel report the socket's readiness to the core again, by setting SO_RCVLOWAT to 1 or,
 * for a socket that was reset, by calling shutdown. Neither call does harm if the descriptor
 * already refers to another socket. The default of SO_RCVLOWAT is 1, and a socket that has hung up
 * will be shut down anyway. */
static void rearm(int fd)
{
    struct pollfd now = {.fd = fd};
    int one = 1;

    if (poll(&now, 1, 0) == 1 && now.revents & (POLLERR | POLLHUP))
        shutdown(fd, SHUT_RDWR);
    else
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

static int64_t cpu_ns(clockid_t clock)
{
    struct timespec t;

    if (clock_gettime(clock, &t))
        return 0; /* the thread no longer exists, so its clock cannot be read */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns whether a thread has spent less than half of the last past_ns nanoseconds on the CPU.
 * *spent_ns must contain the thread's CPU time at the previous call, and receives its current CPU
 * time. */
static bool rests(clockid_t thread, int64_t *spent_ns, int64_t past_ns)
{
    int64_t now = cpu_ns(thread), spent = now - *spent_ns;

    *spent_ns = now;
    return spent < past_ns / 2;
}

/* Returns whether an I/O loop is idle, that is, waits for events while no event is pending. */
static bool is_loop_free(void)
{
    int n = atomic_load(&all.n_loops);
    bool is_free = !n;

    for (int i = 0; i < n && i < MAX_LOOPS && !is_free; i++) {
        struct pollfd at = {.fd = atomic_load(&all.loop_epoll[i]) - 1, .events = POLLIN};
        is_free = at.fd >= 0 && poll(&at, 1, 0) == 0;
    }
    return is_free;
}

/* Returns whether another connection may end. The core destroys the calls of an ended connection on
 * its own threads, and thereby takes CPU time from other connections. So no further connection may
 * end for END_NS. */
static bool may_one_end(int64_t now) RT_REQUIRES(all.mu)
{
    int n = all.n_calls ? atomic_load(all.n_calls) : 0;

    if (all.n_calls_before - n >= FEWER_CALLS)
        all.ended_ns = now;
    all.n_calls_before = n;
    return now - all.ended_ns > END_NS;
}

/* Removes a connection from a queue. `before` is the connection before it in the queue, or NONE. */
static void take(struct queue *q, int before, int fd, int64_t now) RT_REQUIRES(all.mu)
{
    *(before == NONE ? &q->first : &turns[before].next) = turns[fd].next;
    if (q->last == fd)
        q->last = before;
    q->released_ns = now;
}

/* Removes the connections whose pause ends from the queue of connections whose turn is over.
 * Returns the number of connections removed. */
static int take_released(int released[AT_ONCE], int64_t now, int64_t past_ns, bool is_free)
    RT_REQUIRES(all.mu)
{
    struct queue *q = &all.turn_over;
    bool is_overdue = now - q->released_ns > PAUSE_NS, may_end = may_one_end(now);
    int n = 0, before = NONE, fd = q->first;

    for (int i = 0; i < LOOKED_AT && fd != NONE && n < AT_ONCE; i++) {
        struct turn *t = &turns[fd];
        int next = t->next;
        bool may_go_on = rests(t->reader, &t->reader_cpu_ns, past_ns) && is_free;
        if (t->at_its_end) {
            may_go_on &= may_end;
            may_end &= !may_go_on;
        }
        if (may_go_on || is_overdue) {
            if (t->at_its_end)
                all.ended_ns = now;
            take(q, before, fd, now);
            is_overdue = false;
            released[n++] = fd;
        } else {
            before = fd;
        }
        fd = next;
    }
    return n;
}

/* Returns whether a step of a handshake may begin although the I/O loops are busy. A step may begin
 * if no other step is running and handshakes have had less than their share of time. If a permitted
 * read finds nothing, no end of the step is reported. Therefore a step counts as ended after
 * PAUSE_NS. */
static bool has_handshake_time(int64_t now) RT_REQUIRES(all.mu)
{
    all.handshake_ns += (now - all.handshake_filled_ns) / HANDSHAKE_SHARE;
    if (all.handshake_ns > HANDSHAKE_NS)
        all.handshake_ns = HANDSHAKE_NS;
    all.handshake_filled_ns = now;
    return all.handshake_ns > 0 &&
           (!all.is_handshaking || now - all.handshakes.released_ns >= PAUSE_NS);
}

/* If the first handshake may continue, removes it from its queue and returns 1. Otherwise returns
 * 0. */
static int take_handshake(int *released, int64_t now, bool is_free) RT_REQUIRES(all.mu)
{
    int fd = all.handshakes.first;

    if (fd == NONE || !(is_free || has_handshake_time(now)))
        return 0;
    take(&all.handshakes, NONE, fd, now);
    turns[fd].may_handshake = all.is_handshaking = true;
    *released = fd;
    return 1;
}

/* points to the entry of this thread's I/O loop in all.loop_epoll */
static _Thread_local _Atomic int *own_epoll;

void srv_turns_begin_loop(void)
{
    int i = atomic_fetch_add(&all.n_loops, 1);

    own_epoll = i < MAX_LOOPS ? &all.loop_epoll[i] : NULL;
}

void srv_turns_wait_begins(int epoll)
{
    if (own_epoll)
        atomic_store_explicit(own_epoll, epoll + 1, memory_order_release);
}

void srv_turns_wait_ends(void)
{
    if (own_epoll)
        atomic_store_explicit(own_epoll, 0, memory_order_release);
}

static void *end_pauses(void *arg)
{
    int64_t looked_ns = 0;

    (void)arg;
    rt_mutex_lock(&all.mu);
    while (!all.is_stopping) {
        int released[AT_ONCE + 1];
        int64_t now = rt_now_ns();
        if (all.turn_over.first == NONE && all.handshakes.first == NONE) {
            rt_cond_wait(&all.changed, &all.mu);
            looked_ns = rt_now_ns();
            continue;
        }
        if (now - looked_ns < TICK_NS) {
            rt_cond_wait_until(&all.changed, &all.mu, looked_ns + TICK_NS);
            continue;
        }
        bool is_free = is_loop_free();
        int n = take_released(released, now, now - looked_ns, is_free);
        n += take_handshake(released + n, now, is_free);
        looked_ns = now;
        for (int i = 0; i < n; i++)
            atomic_store_explicit(&turns[released[i]].phase, READING, memory_order_release);
        rt_mutex_unlock(&all.mu);
        for (int i = 0; i < n; i++)
            rearm(released[i]);
        rt_mutex_lock(&all.mu);
    }
    rt_mutex_unlock(&all.mu);
    return NULL;
}

/* ---- turns ---- */

static void begin_pause(int fd, struct turn *t, struct queue *q)
{
    if (pthread_getcpuclockid(pthread_self(), &t->reader))
        return;
    rt_mutex_lock(&all.mu);
    t->reader_cpu_ns = rt_thread_cpu_ns();
    t->next = NONE;
    if (q->first == NONE) {
        q->first = fd;
        q->released_ns = rt_now_ns();
        rt_cond_signal(&all.changed);
    } else {
        turns[q->last].next = fd;
    }
    q->last = fd;
    atomic_store_explicit(&t->phase, PAUSED, memory_order_release);
    rt_mutex_unlock(&all.mu);
}

/* Called when a connection has reached a limit of a turn. Counts the connection once in each period
 * of CROWD_NS nanoseconds. Returns whether there is a crowd (see CROWD). */
static bool is_crowd(struct turn *t)
{
    int64_t now = rt_now_ns() / CROWD_NS, before = atomic_load(&all.crowd);

    if (now != before && atomic_compare_exchange_strong(&all.crowd, &before, now)) {
        int n = atomic_exchange(&all.n_crowd, 0);
        atomic_store(&all.n_crowd_last, now == before + 1 ? n : 0);
    }
    if (t->crowd != now) {
        t->crowd = now;
        atomic_fetch_add(&all.n_crowd, 1);
    }
    return atomic_load(&all.n_crowd) >= CROWD || atomic_load(&all.n_crowd_last) >= CROWD;
}

/* Ends the turn of a connection if it has read the permitted number of bytes or frames. */
static void look_at_turn(struct turn *t)
{
    uint32_t most = t->is_heavy ? TURN_BYTES : UINT32_MAX / ALONE;

    bool is_bulk = t->bulk >= TURN_BULK;

    if ((t->frames < TURN_FRAMES && t->bytes < most && !is_bulk) || t->is_over)
        return;
    bool is_in_crowd = is_crowd(t);
    uint32_t times = is_in_crowd ? 1 : ALONE;
    if (t->frames < times * TURN_FRAMES && t->bytes < times * most && !(is_bulk && is_in_crowd))
        return;
    t->is_over = true;
    atomic_store_explicit(&t->phase, IS_OVER, memory_order_relaxed);
}

/* Sets the counts of a turn to 0. */
static void count_anew(struct turn *t)
{
    t->frames = t->bytes = 0;
    t->bulk = 0;
}

/* Begins a new turn at the start of a read, once the frames in all bytes of earlier reads have been
 * counted. */
static void begin_turn(struct turn *t)
{
    t->is_over = false;
    t->is_heavy = t->frames >= FEW_FRAMES;
    count_anew(t);
}

void srv_turns_begin(int fd)
{
    int domain = 0;
    socklen_t n = sizeof domain;

    if (fd < 0 || fd >= SRV_GRPC_MAX_FD || !atomic_load(&all.is_on))
        return;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n);
    rt_mutex_lock(&all.mu);
    /* If an earlier connection with the same descriptor is still paused, this connection takes over
     * the pause. */
    if (atomic_load_explicit(&turns[fd].phase, memory_order_relaxed) != PAUSED)
        atomic_store_explicit(&turns[fd].phase, READING, memory_order_relaxed);
    atomic_load_explicit(&turns[fd].may_pause, memory_order_acquire);
    turns[fd].is_heavy = true;
    turns[fd].is_over = turns[fd].at_its_end = turns[fd].may_handshake = false;
    turns[fd].is_handshaking = all.has_tls;
    count_anew(&turns[fd]);
    turns[fd].n_frames = 0;
    atomic_store_explicit(&turns[fd].may_pause, domain == AF_INET || domain == AF_INET6,
                          memory_order_release);
    rt_mutex_unlock(&all.mu);
}

/* Returns whether a connection may read a part of its handshake. Otherwise the connection is
 * paused. A read that will find nothing needs no permission, because the core reads until nothing
 * is left. */
static bool may_handshake(int fd, struct turn *t)
{
    bool may = t->may_handshake;

    if (!srv_socket_has_unread(fd))
        return true;
    t->may_handshake = false;
    if (!may) {
        int64_t now = rt_now_ns();
        rt_mutex_lock(&all.mu);
        may = all.handshakes.first == NONE && has_handshake_time(now);
        if (may) {
            all.handshakes.released_ns = now;
            all.is_handshaking = true;
        }
        rt_mutex_unlock(&all.mu);
    }
    if (!may)
        begin_pause(fd, t, &all.handshakes);
    return may;
}

size_t srv_turns_limit(int fd)
{
    struct turn *t = turn_of(fd);
    int phase = t ? atomic_load_explicit(&t->phase, memory_order_acquire) : READING;

    if (phase == IS_OVER)
        begin_pause(fd, t, &all.turn_over);
    if (phase != READING || (t && t->is_handshaking && !may_handshake(fd, t)))
        return 0;
    if (!t)
        return SIZE_MAX;
    if (t->is_over)
        begin_turn(t);
    return t->is_heavy ? TURN_BYTES : LARGEST_READ;
}

void srv_turns_took(int fd, size_t n, int64_t n_frames, bool is_all)
{
    struct turn *t = turn_of(fd);

    if (!t)
        return;
    if (is_all)
        count_anew(t);
    t->bulk += n;
    t->frames += n_frames > 0 ? (uint32_t)n_frames : 0;
    t->n_frames += n_frames > 0 ? (uint64_t)n_frames : 0;
    t->bytes += (uint32_t)n;
    if (t->is_heavy && n_frames >= 0 && t->bytes >= TURN_BYTES && t->frames < FEW_FRAMES)
        t->is_heavy = false;
    if (!t->is_heavy && t->bytes >= BULK_BYTES)
        t->frames = t->bytes = 0;
    look_at_turn(t);
    changed(t);
}

void srv_turns_held_frames(int fd, uint32_t n)
{
    struct turn *t = turn_of(fd);

    if (!t)
        return;
    t->n_frames += n;
    t->frames += n;
    look_at_turn(t);
    changed(t);
}

void srv_turns_handshake(int fd, int64_t took_ns, bool has_ended)
{
    struct turn *t = turn_of(fd);

    if (!t)
        return;
    rt_mutex_lock(&all.mu);
    all.handshake_ns -= took_ns;
    /* Steps that began while a loop was idle may have exceeded the handshakes' share of time. The
     * excess is limited to the duration of the last step. */
    if (all.handshake_ns < -took_ns)
        all.handshake_ns = -took_ns;
    all.is_handshaking = false;
    rt_mutex_unlock(&all.mu);
    t->is_handshaking &= !has_ended;
    changed(t);
}

bool srv_turns_end(int fd)
{
    struct turn *t = turn_of(fd);

    if (!t || t->at_its_end || t->n_frames < TURN_FRAMES)
        return false;
    t->at_its_end = true;
    begin_pause(fd, t, &all.turn_over);
    changed(t);
    return atomic_load_explicit(&t->phase, memory_order_relaxed) != READING;
}

/* ---- start and stop ---- */

/* Connects two TCP sockets over the loopback interface. */
static bool connect_pair(int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fds[0] = fds[1] = -1;
    if (listener >= 0 && bind(listener, (struct sockaddr *)&at, n) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &n) == 0) {
        fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[0] >= 0 && connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0)
            fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    if (listener >= 0)
        close(listener);
    return fds[1] >= 0;
}

static bool comes(int epoll)
{
    struct epoll_event event;

    return epoll_wait(epoll, &event, 1, 1000) == 1;
}

/* Returns whether setting SO_RCVLOWAT makes the kernel report an edge again after epoll_wait has
 * returned it. */
static bool can_rearm(void)
{
    struct epoll_event want = {.events = EPOLLIN | EPOLLET};
    int fds[2], epoll = epoll_create1(EPOLL_CLOEXEC);
    bool ok = connect_pair(fds) && epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, fds[1], &want) &&
              write(fds[0], "x", 1) == 1 && comes(epoll);

    if (ok) {
        rearm(fds[1]);
        ok = comes(epoll);
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (epoll >= 0)
        close(epoll);
    return ok;
}

bool srv_turns_start(const _Atomic int *n_calls, bool has_tls)
{
    if (!can_rearm()) {
        RT_LOG(RT_LOG_INFO, "gRPC: this system does not report a socket anew; connections that "
                            "send much are not made to wait for others");
        return false;
    }
    rt_cond_init(&all.changed);
    all.is_stopping = false;
    all.n_calls = n_calls;
    all.has_tls = has_tls;
    all.handshake_ns = HANDSHAKE_NS;
    all.handshake_filled_ns = rt_now_ns();
    all.is_handshaking = false;
    if (rt_thread_start(&all.thread, "grpc-turns", end_pauses, NULL)) {
        rt_cond_clear(&all.changed);
        return false;
    }
    atomic_store_explicit(&all.is_on, true, memory_order_release);
    return true;
}

static void end_all_pauses(struct queue *q)
{
    while (q->first != NONE) {
        int fd = q->first;
        q->first = turns[fd].next;
        atomic_store_explicit(&turns[fd].phase, READING, memory_order_release);
        rearm(fd);
    }
    q->last = NONE;
}

void srv_turns_stop(void)
{
    if (!atomic_exchange(&all.is_on, false))
        return;
    rt_mutex_lock(&all.mu);
    all.is_stopping = true;
    rt_cond_signal(&all.changed);
    rt_mutex_unlock(&all.mu);
    pthread_join(all.thread, NULL);
    end_all_pauses(&all.turn_over);
    end_all_pauses(&all.handshakes);
    atomic_store(&all.n_loops, 0);
    rt_cond_clear(&all.changed);
}

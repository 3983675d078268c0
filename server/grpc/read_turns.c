#include "server/grpc/read_turns.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "server/base/sockets.h"
#include "server/grpc/grpc_frames.h"
#include "server/grpc/rearm.h"

enum {
    TICK_NS = 500000, /* interval between checks of the paused connections */
    /* A check ends at most AT_ONCE pauses, or fewer if the sum of their costs reaches AT_ONCE
     * earlier. Pauses of handshakes do not count. */
    AT_ONCE = 16,
    HIGHEST_COST = AT_ONCE / 2,
    /* Maximum number of paused connections that one check examines in a queue. A check examines the
     * oldest connections to end their pauses. Consecutive checks examine the whole queue in turn,
     * to find connections that their peers have closed. */
    LOOKED_AT = 32,
    /* The core learns of at most one ended connection per END_NS nanoseconds, so that it does not
     * destroy many connections at once. If the delay would exceed about ENDS_NS nanoseconds, the
     * core learns of several ended connections at a time. */
    END_NS = 5000000,
    ENDS_NS = 500000000,
    /* if no pause has ended for PAUSE_NS, the oldest pause is ended */
    PAUSE_NS = 100000000,
    /* Frames after which a connection counts towards a crowd (see CROWD), and the least number of
     * frames after which a turn may end. */
    TURN_FRAMES = 64,
    /* While every connection of a crowd has one turn, about ROUND_FRAMES are read in total, unless
     * the crowd is so large that its turns have TURN_FRAMES each. */
    ROUND_FRAMES = 2048,
    /* Maximum number of bytes per read while is_heavy is set, and per turn during a crowd (see
     * CROWD). */
    TURN_BYTES = 8192,
    /* Factor by which the limit on a turn's bytes is larger without a crowd (see CROWD), and by
     * which the limit on its frames is larger without a crowd or in a small one. */
    ALONE = 4,
    /* There is a crowd if at least CROWD connections have reached a limit of their turns within the
     * current or the previous period of CROWD_NS nanoseconds. */
    CROWD = 4,
    /* period in nanoseconds over which connections are counted to detect a crowd */
    CROWD_NS = 1000000000,
    FEW_FRAMES = TURN_FRAMES / 8,
    /* While no I/O loop is idle, handshakes may take at most `1 / HANDSHAKE_SHARE` of one thread's
     * time. Unused time accumulates up to HANDSHAKE_NS. */
    HANDSHAKE_SHARE = 2,
    HANDSHAKE_NS = 20000000,
    /* maximum number of bytes per read while is_heavy is not set; a read may contain thousands of
     * frames */
    LARGEST_READ = 1 << 16,
    /* after this number of bytes, `frames` and `bytes` are reset to 0 if is_heavy is not set */
    BULK_BYTES = 1 << 18,
    TURN_BULK = 1 << 20, /* maximum number of bytes per turn during a crowd (see CROWD) */
    /* A sender is a connection that has sent at least SENDER_BYTES in a turn. While every sender
     * has one turn, about ROUND_BYTES are read in total. */
    SENDER_BYTES = TURN_BYTES,
    ROUND_BYTES = 1 << 25,
    /* maximum number of senders whose turns may have TURN_BULK bytes */
    FEW_SENDERS = ROUND_BYTES / TURN_BULK,
    /* With more than FEW_SENDERS senders, a read that empties the socket resets `bulk` only if the
     * turn is at least this number of nanoseconds old. */
    SENDER_NS = 250000000,
    /* if the number of open calls decreases by at least this number between two checks, a
     * connection is considered to have ended */
    FEWER_CALLS = 4,
    MAX_LOOPS = 64,
    NONE = -1,
};

enum phase { READING, IS_OVER, PAUSED };

/* State of a connection. mu guards `next`, `reader`, `reader_cpu_ns` and `cost`, which describe a
 * pause. The thread that reads the connection uses the members after `phase`. The thread that ends
 * a pause sets `may_handshake` and `is_gone` before `phase`. */
struct turn {
    _Atomic int phase;
    /* whether the socket is a TCP socket; written after the members below, and read before them */
    _Atomic bool may_pause;
    bool is_over; /* the turn has ended, and the next permitted read begins a new one */
    /* Whether reads are limited to TURN_BYTES. Set in the first turn, and if the last turn had many
     * frames. */
    bool is_heavy;
    bool at_its_end; /* a read has found the end of the connection */
    /* whether the TLS handshake is incomplete, so that each read needs permission */
    bool is_handshaking;
    bool may_handshake; /* whether one read is permitted because a pause has ended */
    bool is_gone;       /* whether the peer closed the connection during a pause */
    uint32_t frames;    /* in this turn */
    uint32_t bytes;     /* number of bytes read since `frames` was last reset */
    uint64_t bulk;      /* number of bytes read in this turn */
    uint64_t n_frames;
    /* the periods in which all.crowd and all.senders last counted the connection, or 0 */
    int64_t crowd, sender;
    /* time at which the counts of the turn were last reset; 0 if there were at most FEW_SENDERS
     * senders */
    int64_t begun_ns;
    int next; /* next connection of the same queue of paused connections */
    clockid_t reader;
    int64_t reader_cpu_ns;
    int cost; /* expected cost of the next turn, from 1 to HIGHEST_COST */
};

/* The array takes 11 MiB of address space, but only used pages take memory. */
static struct turn turns[SRV_GRPC_MAX_FD];

/* Paused connections in the order of pausing; guarded by all.mu. */
struct queue {
    int first, last; /* the oldest and the newest paused connection, or NONE */
    int n;
    int looked_at; /* the connection that take_gone examined last, or NONE */
    /* Time at which the queue last became non-empty or, in turn_over, a turn last began after a
     * pause. Used only in turn_over. */
    int64_t released_ns;
};

/* Counts connections within the current and the previous period of CROWD_NS nanoseconds. */
struct tally {
    _Atomic int64_t period; /* number of the current period */
    /* number of connections in the current period and in the previous period */
    _Atomic int n, n_last;
};

static struct {
    _Atomic bool is_on;
    _Atomic int n_loops;
    /* for each I/O loop, `1 + descriptor` of the epoll instance on which it waits, or 0 if it does
     * not wait */
    _Atomic int loop_epoll[MAX_LOOPS];
    /* `crowd` counts the connections that reached a limit of their turn, and `senders` counts the
     * senders */
    struct tally crowd, senders;
    struct rt_mutex mu;
    struct rt_cond changed;
    /* Paused connections. turn_over: their turn is over. handshakes: their TLS handshake has not
     * ended. ended: the core does not know yet that they have ended. */
    struct queue turn_over, handshakes, ended;
    /* The integral over time of the number of connections in `ended`, in connections times
     * nanoseconds. When it has reached ENDS_NS, one connection ends without further conditions, and
     * ENDS_NS is subtracted. Guarded by mu. */
    int64_t ends_due;
    bool is_stopping;
    bool has_tls; /* whether connections begin with a TLS handshake; set by srv_turns_start */
    /* handshake_ns: time that handshakes may take while no I/O loop is idle. handshake_filled_ns:
     * time at which handshake_ns was last increased. mu guards both. */
    int64_t handshake_ns, handshake_filled_ns;
    /* Whether a step of a handshake was permitted and has not been reported as ended. Guarded by
     * mu. */
    bool is_handshaking;
    /* time at which a step of a handshake was last permitted; guarded by mu */
    int64_t handshake_begun_ns;
    const _Atomic int *n_calls; /* NULL means unknown */
    int n_calls_before;         /* value of *n_calls at the last check */
    /* last time at which a connection ended, or at which a check found that the number of open
     * calls had decreased by at least FEWER_CALLS */
    int64_t ended_ns;
    pthread_t thread;
} all = {.mu = RT_MUTEX_INIT,
         .turn_over = {NONE, NONE, 0, NONE, 0},
         .handshakes = {NONE, NONE, 0, NONE, 0},
         .ended = {NONE, NONE, 0, NONE, 0}};

static struct turn *turn_of(int fd)
{
    if (fd < 0 || fd >= SRV_GRPC_MAX_FD || !atomic_load_explicit(&all.is_on, memory_order_acquire))
        return NULL;
    return atomic_load_explicit(&turns[fd].may_pause, memory_order_acquire) ? &turns[fd] : NULL;
}

/* Publishes the members that the reading thread has changed. Another thread may read the connection
 * next. */
static void changed(struct turn *t)
{
    atomic_store_explicit(&t->may_pause, true, memory_order_release);
}

/* ---- ends of pauses ---- */

static int64_t cpu_ns(clockid_t clock)
{
    struct timespec t;

    if (clock_gettime(clock, &t))
        return 0; /* the thread has ended, so its clock cannot be read */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns whether a thread has spent less than half of the last past_ns nanoseconds on the CPU.
 * *spent_ns must be the thread's CPU time at the previous call. The function sets it to the current
 * CPU time. */
static bool rests(clockid_t thread, int64_t *spent_ns, int64_t past_ns)
{
    int64_t now = cpu_ns(thread), spent = now - *spent_ns;

    *spent_ns = now;
    return spent < past_ns / 2;
}

/* Returns whether an I/O loop is idle: it waits for events, and no event is pending. */
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

/* Returns whether another connection may end. The core then destroys the connection's calls on its
 * own threads. This work takes CPU time from other connections, so END_NS must pass between the
 * ends of two connections. */
static bool may_one_end(int64_t now) RT_REQUIRES(all.mu)
{
    int n = all.n_calls ? atomic_load(all.n_calls) : 0;

    if (all.n_calls_before - n >= FEWER_CALLS)
        all.ended_ns = now;
    all.n_calls_before = n;
    return now - all.ended_ns > END_NS;
}

/* Removes the connection after `before` from a queue. `before` is NONE for the first connection. */
static void take(struct queue *q, int before, int fd) RT_REQUIRES(all.mu)
{
    *(before == NONE ? &q->first : &turns[before].next) = turns[fd].next;
    if (q->last == fd)
        q->last = before;
    if (q->looked_at == fd)
        q->looked_at = before;
    q->n--;
}

/* Removes from all.turn_over the connections whose pauses should end. Returns their number. */
static int take_released(int released[AT_ONCE], int64_t now, int64_t past_ns, bool is_free)
    RT_REQUIRES(all.mu)
{
    struct queue *q = &all.turn_over;
    bool is_overdue = now - q->released_ns > PAUSE_NS;
    int n = 0, before = NONE, fd = q->first, left = AT_ONCE;

    for (int i = 0; i < LOOKED_AT && fd != NONE && left > 0; i++) {
        struct turn *t = &turns[fd];
        int next = t->next;
        bool may_go_on = rests(t->reader, &t->reader_cpu_ns, past_ns) && is_free;
        if (may_go_on || is_overdue) {
            take(q, before, fd);
            q->released_ns = now;
            is_overdue = false;
            left -= t->cost;
            released[n++] = fd;
        } else {
            before = fd;
        }
        fd = next;
    }
    return n;
}

/* Removes from all.ended at most AT_ONCE connections that may end now. Returns their number. This
 * queue is separate so that live connections do not wait behind ended ones. */
static int take_ended(int released[AT_ONCE], int64_t now, int64_t past_ns, bool is_free)
    RT_REQUIRES(all.mu)
{
    struct queue *q = &all.ended;
    bool may_end = may_one_end(now);
    int n = 0;

    all.ends_due += q->n * (past_ns < PAUSE_NS ? past_ns : PAUSE_NS);
    while (q->first != NONE && n < AT_ONCE) {
        struct turn *t = &turns[q->first];
        const bool is_due = all.ends_due >= ENDS_NS;
        if (!is_due && !(may_end && is_free && rests(t->reader, &t->reader_cpu_ns, past_ns)))
            break;
        all.ends_due -= is_due ? ENDS_NS : 0;
        all.ended_ns = now;
        may_end = false;
        released[n++] = q->first;
        take(q, NONE, q->first);
    }
    if (q->first == NONE)
        all.ends_due = 0;
    return n;
}

/* Returns whether a step of a handshake may begin although the I/O loops are busy. This is the case
 * if no other step is running and handshakes have had less than their share of time. If the read of
 * a step finds no bytes, the end of the step is not reported. Therefore each step counts as ended
 * after PAUSE_NS. */
static bool has_handshake_time(int64_t now) RT_REQUIRES(all.mu)
{
    all.handshake_ns += (now - all.handshake_filled_ns) / HANDSHAKE_SHARE;
    if (all.handshake_ns > HANDSHAKE_NS)
        all.handshake_ns = HANDSHAKE_NS;
    all.handshake_filled_ns = now;
    return all.handshake_ns > 0 &&
           (!all.is_handshaking || now - all.handshake_begun_ns >= PAUSE_NS);
}

/* Removes the oldest handshake from all.handshakes if it may continue, and stores its descriptor in
 * *released. Returns the number of removed handshakes, 0 or 1. */
static int take_handshake(int *released, int64_t now, bool is_free) RT_REQUIRES(all.mu)
{
    int fd = all.handshakes.first;

    if (fd == NONE || !(is_free || has_handshake_time(now)))
        return 0;
    take(&all.handshakes, NONE, fd);
    turns[fd].may_handshake = all.is_handshaking = true;
    all.handshake_begun_ns = now;
    *released = fd;
    return 1;
}

/* Returns whether the peer has closed the connection or its sending side. */
static bool is_hung_up(int fd)
{
    struct pollfd now = {.fd = fd, .events = POLLRDHUP};

    return poll(&now, 1, 0) == 1 && now.revents;
}

static void append(struct queue *q, int fd) RT_REQUIRES(all.mu)
{
    turns[fd].next = NONE;
    if (q->first == NONE) {
        q->first = fd;
        q->released_ns = rt_now_ns();
        rt_cond_signal(&all.changed);
    } else {
        turns[q->last].next = fd;
    }
    q->last = fd;
    q->n++;
}

/* Examines up to LOOKED_AT connections of a queue, and removes those whose peers have closed them.
 * Returns the number of removed connections. */
static int take_gone(struct queue *q, int gone[LOOKED_AT]) RT_REQUIRES(all.mu)
{
    int n = 0;

    for (int i = 0; i < LOOKED_AT; i++) {
        int fd = q->looked_at == NONE ? q->first : turns[q->looked_at].next;
        if (fd == NONE) {
            q->looked_at = NONE;
            break;
        }
        if (is_hung_up(fd)) {
            take(q, q->looked_at, fd);
            turns[fd].is_gone = true;
            gone[n++] = fd;
        } else {
            q->looked_at = fd;
        }
    }
    return n;
}

/* Removes from all.handshakes the connections that their peers have closed. Connections that are
 * paused after a turn are moved to all.ended instead, because the core may still have calls on
 * these connections. */
static int take_all_gone(int released[LOOKED_AT]) RT_REQUIRES(all.mu)
{
    int ended[LOOKED_AT], n = take_gone(&all.turn_over, ended);

    for (int i = 0; i < n; i++)
        append(&all.ended, ended[i]);
    return take_gone(&all.handshakes, released);
}

/* the entry of this thread's I/O loop in all.loop_epoll */
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
        int released[2 * AT_ONCE + 1 + LOOKED_AT];
        int64_t now = rt_now_ns();
        if (!all.turn_over.n && !all.handshakes.n && !all.ended.n) {
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
        n += take_all_gone(released + n);
        n += take_handshake(released + n, now, is_free);
        n += take_ended(released + n, now, now - looked_ns, is_free);
        looked_ns = now;
        for (int i = 0; i < n; i++)
            atomic_store_explicit(&turns[released[i]].phase, READING, memory_order_release);
        rt_mutex_unlock(&all.mu);
        for (int i = 0; i < n; i++)
            srv_socket_rearm(released[i]);
        rt_mutex_lock(&all.mu);
    }
    rt_mutex_unlock(&all.mu);
    return NULL;
}

/* ---- turns ---- */

/* Returns the number of connections counted in the current period or in the previous one, whichever
 * is larger. Begins a new period if `period` is not the current one. */
static int tallied(struct tally *tally, int64_t period)
{
    int64_t before = atomic_load(&tally->period);

    if (period != before && atomic_compare_exchange_strong(&tally->period, &before, period)) {
        int n = atomic_exchange(&tally->n, 0);
        atomic_store(&tally->n_last, period == before + 1 ? n : 0);
    }
    int n = atomic_load(&tally->n), n_last = atomic_load(&tally->n_last);
    return n > n_last ? n : n_last;
}

/* Counts a connection once per period. *counted is the period in which the connection was last
 * counted. Returns the number of connections counted in the current period or in the previous one,
 * whichever is larger. */
static int tally_up(struct tally *tally, int64_t *counted)
{
    int64_t period = rt_now_ns() / CROWD_NS;
    int n = tallied(tally, period);

    if (*counted == period)
        return n;
    *counted = period;
    int n_now = atomic_fetch_add(&tally->n, 1) + 1;
    return n > n_now ? n : n_now;
}

/* Returns the maximum number of bytes per turn during a crowd (see CROWD). It is less than
 * TURN_BULK if and only if there are more than FEW_SENDERS senders. */
static uint32_t most_bulk(void)
{
    /* Every read calls this function, so it reads the clock only if there may be more than
     * FEW_SENDERS senders. */
    if (atomic_load(&all.senders.n) <= FEW_SENDERS &&
        atomic_load(&all.senders.n_last) <= FEW_SENDERS)
        return TURN_BULK;
    uint32_t n = (uint32_t)tallied(&all.senders, rt_now_ns() / CROWD_NS);

    if (n <= FEW_SENDERS)
        return TURN_BULK;
    return n < ROUND_BYTES / TURN_BYTES ? ROUND_BYTES / n : TURN_BYTES;
}

/* Estimates the cost of a connection's next turn from its last turn. */
static int cost_of(const struct turn *t)
{
    return t->is_heavy || t->frames >= TURN_FRAMES
               ? HIGHEST_COST
               : (int)(1 + most_bulk() / (TURN_BULK / (HIGHEST_COST - 1)));
}

/* Pauses a connection. Returns false if this is not possible. The pause may end before the function
 * returns. */
static bool begin_pause(int fd, struct turn *t, struct queue *q)
{
    if (pthread_getcpuclockid(pthread_self(), &t->reader))
        return false;
    rt_mutex_lock(&all.mu);
    t->reader_cpu_ns = rt_thread_cpu_ns();
    t->cost = cost_of(t);
    append(q, fd);
    atomic_store_explicit(&t->phase, PAUSED, memory_order_release);
    rt_mutex_unlock(&all.mu);
    return true;
}

/* Returns the maximum number of frames per turn if n connections have sent TURN_FRAMES frames or
 * reached another limit of their turns (see CROWD). */
static uint32_t most_frames(int n)
{
    const int share = ROUND_FRAMES / (n > 0 ? n : 1);

    if (share < TURN_FRAMES)
        return TURN_FRAMES;
    return share < ALONE * TURN_FRAMES ? (uint32_t)share : ALONE * TURN_FRAMES;
}

/* Ends the turn of a connection if it has read the permitted number of bytes or frames. */
static void look_at_turn(struct turn *t)
{
    uint32_t most = t->is_heavy ? TURN_BYTES : UINT32_MAX / ALONE, bulk = most_bulk();
    bool is_bulk = t->bulk >= bulk;

    if (t->bulk >= SENDER_BYTES)
        tally_up(&all.senders, &t->sender);
    if ((t->frames < TURN_FRAMES && t->bytes < most && !is_bulk) || t->is_over)
        return;
    const int n_crowd = tally_up(&all.crowd, &t->crowd);
    const bool is_in_crowd = n_crowd >= CROWD;
    if (t->frames < most_frames(n_crowd) && t->bytes < (is_in_crowd ? 1 : ALONE) * most &&
        !(is_bulk && is_in_crowd))
        return;
    t->is_over = true;
    /* A closed connection may already be paused while bytes that were read earlier are decrypted.
     * It must not enter a second queue. */
    int reading = READING;
    atomic_compare_exchange_strong(&t->phase, &reading, IS_OVER);
}

static void count_anew(struct turn *t)
{
    t->frames = t->bytes = 0;
    t->bulk = 0;
    t->begun_ns = most_bulk() == TURN_BULK ? 0 : rt_now_ns();
}

/* Begins a new turn after a read that has emptied the socket. The bytes of this read belong to the
 * new turn. If there are many senders, the bytes of the last turn stay counted until that turn is
 * SENDER_NS old. Thousands of sockets with few bytes each delay other connections as much as a few
 * full sockets do. */
static void count_anew_if_empty(struct turn *t)
{
    uint64_t bulk = t->bulk;
    int64_t begun_ns = t->begun_ns;

    count_anew(t);
    if (!t->begun_ns || t->begun_ns - begun_ns >= SENDER_NS)
        return;
    t->bulk = bulk;
    t->begun_ns = begun_ns;
}

/* Begins a new turn at the start of a read. The frames in all earlier bytes have been counted by
 * then. */
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
    /* If an earlier connection with the same descriptor is still paused, the new connection takes
     * over the pause. */
    if (atomic_load_explicit(&turns[fd].phase, memory_order_relaxed) != PAUSED)
        atomic_store_explicit(&turns[fd].phase, READING, memory_order_relaxed);
    atomic_load_explicit(&turns[fd].may_pause, memory_order_acquire);
    turns[fd].is_heavy = true;
    turns[fd].is_over = turns[fd].at_its_end = turns[fd].may_handshake = false;
    turns[fd].is_gone = false;
    turns[fd].is_handshaking = all.has_tls;
    count_anew(&turns[fd]);
    turns[fd].n_frames = 0;
    atomic_store_explicit(&turns[fd].may_pause, domain == AF_INET || domain == AF_INET6,
                          memory_order_release);
    rt_mutex_unlock(&all.mu);
}

/* Returns whether a connection may read more of its handshake. If not, pauses it. A read from an
 * empty socket needs no permission, because the core reads until the socket is empty. */
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
            all.handshake_begun_ns = now;
            all.is_handshaking = true;
        }
        rt_mutex_unlock(&all.mu);
    }
    if (!may)
        begin_pause(fd, t, &all.handshakes);
    return may;
}

bool srv_turns_is_gone(int fd)
{
    struct turn *t = turn_of(fd);

    return t && atomic_load_explicit(&t->phase, memory_order_acquire) != PAUSED && t->is_gone;
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
    if (t->is_heavy)
        return TURN_BYTES;
    const size_t bulk = most_bulk();
    return bulk < LARGEST_READ ? bulk : LARGEST_READ;
}

void srv_turns_took(int fd, size_t n, int64_t n_frames, bool is_all)
{
    struct turn *t = turn_of(fd);

    if (!t)
        return;
    if (is_all)
        count_anew_if_empty(t);
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
    /* Handshake steps that began while an I/O loop was idle may have exceeded the handshakes' share
     * of the time. The excess counts only up to the duration of the last step. */
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

    if (!t || t->at_its_end || t->is_gone || t->n_frames < TURN_FRAMES)
        return false;
    t->at_its_end = true;
    const bool is_paused = begin_pause(fd, t, &all.ended);
    changed(t);
    return is_paused;
}

/* ---- start and stop ---- */

bool srv_turns_start(const _Atomic int *n_calls, bool has_tls)
{
    if (!srv_socket_can_rearm()) {
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
        srv_socket_rearm(fd);
    }
    q->last = q->looked_at = NONE;
    q->n = 0;
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
    end_all_pauses(&all.ended);
    all.ends_due = 0;
    atomic_store(&all.n_loops, 0);
    rt_cond_clear(&all.changed);
}

/*
 * Decides which load begins next, and which load must make way for others. The algorithm is a
 * multi-level feedback queue. The functions are pure: they use no clock, locks or threads, and
 * allocate no memory.
 *
 * The duration of a load is not known in advance. A load may even never end, because an init op or
 * a warm-up may loop. Therefore every load begins at level 0. Each level has `n_slots` slots, a
 * list of loads that wait for a slot, and a slice of time. The slice is SRV_LOAD_SLICE_NS at level
 * 0, and grows by the factor SRV_LOAD_SLICE_GROWTH at each further level.
 *
 * A load that has used its slice makes way if another load waits for its slot. If the next level
 * has a free slot, the load continues there. Otherwise the load is stopped, waits at the next
 * level, and begins again. A load that is stopped at the highest level waits there again, and its
 * next slice is twice as long.
 *
 * Bounds:
 * - At each level, a load waits for at most two loads of each model that is already waiting there.
 * Each of these loads delays the new load by at most the level's slice divided by the number of
 * slots. Other loads do not delay the new load, except that the newest loads of level 0 may as much
 * as double its wait there.
 * - Each level has its own slots. Short loads thus never keep a long load from running, and long
 * loads never keep a short load from beginning.
 * - A stopped load repeats its work. The work that is lost takes at most the slices of all levels
 * below the level at which the load ends. These slices together are a ninth of that level's slice.
 * A load that is stopped at the highest level loses at most about as much time as its last slice.
 *
 * A load whose run waits, for example for an element of a queue that its init op reads, needs no
 * processor. Up to SRV_LOAD_MAX_ASIDE of these loads at each level are set aside: they go on
 * without a slot. A load that is set aside makes way like others if a further load would be set
 * aside.
 *
 * The loads that wait at a level begin in rounds. In each round, each model begins one load. A
 * model with many versions therefore does not delay other models. At level 0, every second load
 * that begins is instead the newest load of those whose model had no other load there. A load that
 * is added while hundreds of loads wait therefore begins after about two slices.
 *
 * Owner: the caller owns the structs, and the queue links them.
 * Threads: the caller must guard all calls with one lock.
 */
#ifndef SRV_LOAD_QUEUE_H
#define SRV_LOAD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { SRV_LOAD_LEVELS = 4, SRV_LOAD_SLICE_GROWTH = 10, SRV_LOAD_MAX_ASIDE = 16 };
/* Models with few nodes load within 10 ms of processor time. */
#define SRV_LOAD_SLICE_NS INT64_C(20000000)

/* For each level, the round in which the model's latest load begins. All queued loads of a model
 * point to the same struct, which is initially zero. */
struct srv_load_rounds {
    int64_t round[SRV_LOAD_LEVELS];
};

enum srv_load_place { SRV_LOAD_OUT, SRV_LOAD_WAITS, SRV_LOAD_RUNS };

struct srv_queued_load {
    /* The caller sets `rounds` before srv_load_queue_add. The struct must outlive the load. */
    struct srv_load_rounds *rounds;
    /* Time that the load has used since it last began. The caller sets it before
     * srv_load_queue_make_way. */
    int64_t used_ns;

    bool is_blocked; /* as the last call of srv_load_queue_set_blocked said; only to be read */

    /* The members below are private to the queue, and initially zero. */
    bool is_aside;                           /* whether the running load occupies no slot */
    struct srv_queued_load *next, *previous; /* neighbours in one of the level's lists */
    enum srv_load_place place;
    bool is_new; /* whether its model had no other load at the level when this one was added */
    int level;
    int n_stopped_at_top; /* number of times that the load was stopped at the highest level */
    int64_t round;
};

struct srv_load_level {
    struct srv_queued_load *first, *last; /* waiting loads in ascending order of `round` */
    struct srv_queued_load *running;      /* running loads in any order */
    int n_waiting, n_running, n_aside;    /* n_running includes n_aside */
    int64_t round;     /* the latest round of a load that has begun in its turn */
    bool takes_newest; /* whether the next load to begin is the newest one; only set at level 0 */
};

struct srv_load_queue {
    int n_slots; /* number of slots of each level; set by the caller, at least 1 */
    struct srv_load_level levels[SRV_LOAD_LEVELS];
};

/* Returns the slice of a load. A load that has run for the duration of its slice makes way for
 * other loads. */
int64_t srv_load_slice_ns(const struct srv_queued_load *load);

/* Adds a load to the loads that wait at its level. */
void srv_load_queue_add(struct srv_load_queue *q, struct srv_queued_load *load);
/* Begins the next load that has a slot, and returns it. Returns NULL if no load has a slot. */
struct srv_queued_load *srv_load_queue_begin(struct srv_load_queue *q);
/* Makes a running load wait again, before all other waiting loads of its level. */
void srv_load_queue_undo_begin(struct srv_load_queue *q, struct srv_queued_load *load);
/* Records whether the run of a running load waits for something other than a processor. */
void srv_load_queue_set_blocked(struct srv_load_queue *q, struct srv_queued_load *load,
                                bool is_blocked);
void srv_load_queue_remove(struct srv_load_queue *q, struct srv_queued_load *load);
/* Makes running loads that have used their slices make way for waiting loads. Returns the loads
 * that must be stopped, linked by `next`. They no longer occupy a slot. When a returned load has
 * ended, the caller must add it again or abandon it. */
struct srv_queued_load *srv_load_queue_make_way(struct srv_load_queue *q);
/* Returns the time that some running load must still use before srv_load_queue_make_way has work.
 * Returns INT64_MAX if no load waits or every running load has used its slice. */
int64_t srv_load_queue_least_left_ns(const struct srv_load_queue *q);

#endif

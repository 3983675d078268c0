/*
 * Decides which load begins next, and which load must make way for others: a multi-level feedback
 * queue. The functions are pure: they use no clock, locks or threads, and allocate no memory.
 *
 * Nobody knows in advance what a load costs, and a load may never end, because an init op or a
 * warm-up may loop. Therefore every load begins at level 0. Each level has `n_slots` slots, a list
 * of loads that wait for one of them, and a slice of time: SRV_LOAD_SLICE_NS at level 0, and
 * SRV_LOAD_SLICE_GROWTH times the slice of the level below at the others. A load that has used its
 * slice makes way if another load wants its slot. If the next level has a slot for it, it goes on
 * there. Otherwise it is stopped, and waits at the next level to begin again. A load that is
 * stopped at the highest level waits there again, and its next slice is twice as long.
 *
 * The bounds follow from this:
 *   - A load waits at each level for at most two loads of each model that waits there already, one
 *     slice of the level for each, divided by the number of slots. Other loads do not matter.
 *   - Each level has slots of its own, so no number of short loads keeps a long one from running,
 *     and no number of long loads keeps a short one from beginning.
 *   - Stopped loads lose, in all, at most the slices of the levels below the one at which they end,
 *     a ninth of its slice; at the highest level, as much as their last slice.
 *
 * The loads that wait at a level begin in rounds. In each round, each model begins one load, so
 * that the number of versions of one model does not delay other models.
 *
 * Owner: the caller owns the structs; the queue links the loads. Threads: the caller must guard all
 * calls with one lock.
 */
#ifndef SRV_LOAD_QUEUE_H
#define SRV_LOAD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { SRV_LOAD_LEVELS = 4, SRV_LOAD_SLICE_GROWTH = 10 };
/* Models of a few nodes load within 10 ms of processor time. */
#define SRV_LOAD_SLICE_NS INT64_C(20000000)

/* The round in which a model's latest load of each level begins. All queued loads of a model point
 * to the same struct, which is initially zero. */
struct srv_load_rounds {
    int64_t round[SRV_LOAD_LEVELS];
};

enum srv_load_place { SRV_LOAD_OUT, SRV_LOAD_WAITS, SRV_LOAD_RUNS };

/* A load as the queue sees it. */
struct srv_queued_load {
    /* Set by the caller before srv_load_queue_add; must outlive the load. */
    struct srv_load_rounds *rounds;
    /* Time that the load has used since it last began; set by the caller before
     * srv_load_queue_make_way. */
    int64_t used_ns;

    /* The members below are the queue's; all are initially zero. */
    struct srv_queued_load *next, *previous; /* neighbours in a list of the level */
    enum srv_load_place place;
    int level;
    int n_stopped_at_top; /* how often the load was stopped at the highest level */
    int64_t round;        /* the round in which the load begins */
};

struct srv_load_level {
    struct srv_queued_load *first, *last; /* loads that wait, in ascending order of `round` */
    struct srv_queued_load *running;      /* loads that run, in any order */
    int n_waiting, n_running;
    int64_t round; /* the latest round of a load that has begun */
};

struct srv_load_queue {
    int n_slots; /* number of slots of each level; set by the caller, at least 1 */
    struct srv_load_level levels[SRV_LOAD_LEVELS];
};

/* Returns the slice of a load: the time after which it makes way for others. */
int64_t srv_load_slice_ns(const struct srv_queued_load *load);

/* Lets a load wait for a slot at its level. */
void srv_load_queue_add(struct srv_load_queue *q, struct srv_queued_load *load);
/* Begins the next load that has a slot, and returns it. Returns NULL if there is none. */
struct srv_queued_load *srv_load_queue_begin(struct srv_load_queue *q);
/* Makes a load that has begun wait again, before all others of its level. */
void srv_load_queue_undo_begin(struct srv_load_queue *q, struct srv_queued_load *load);
/* Removes a load that waits or runs. */
void srv_load_queue_remove(struct srv_load_queue *q, struct srv_queued_load *load);
/* Makes running loads that have used their slices make way for loads that wait. Returns the loads
 * that must be stopped, linked by `next`. They occupy no slot any more. When such a load has ended,
 * the caller must add it again or give it up. */
struct srv_queued_load *srv_load_queue_make_way(struct srv_load_queue *q);
/* Returns the least time that any running load must still use before srv_load_queue_make_way may
 * find more to do, or INT64_MAX if no load waits, or every running load has used its slice. */
int64_t srv_load_queue_least_left_ns(const struct srv_load_queue *q);

#endif

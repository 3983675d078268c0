#include "server/versions/load_queue.h"

#include <stddef.h>

enum { TOP = SRV_LOAD_LEVELS - 1 };

int64_t srv_load_slice_ns(const struct srv_queued_load *load)
{
    int64_t ns = SRV_LOAD_SLICE_NS;
    for (int i = 0; i < load->level; i++)
        ns *= SRV_LOAD_SLICE_GROWTH;
    for (int i = 0; i < load->n_stopped_at_top && ns <= INT64_MAX / 2; i++)
        ns *= 2;
    return ns;
}

/* Returns the number of free slots. If loads that were set aside need a processor again, the number
 * is negative. */
static int n_free(const struct srv_load_queue *q, int level)
{
    return q->n_slots - (q->levels[level].n_running - q->levels[level].n_aside);
}

static bool has_slot(const struct srv_load_queue *q, int level)
{
    return n_free(q, level) > 0;
}

static bool may_set_aside(const struct srv_load_queue *q, const struct srv_queued_load *load,
                          int level)
{
    return load->is_blocked && q->levels[level].n_aside < SRV_LOAD_MAX_ASIDE;
}

static void set_aside(struct srv_load_level *level, struct srv_queued_load *load, bool is_aside)
{
    level->n_aside += is_aside - load->is_aside;
    load->is_aside = is_aside;
}

/* Inserts a load into the list of waiting loads after `at`, or at the front if `at` is NULL. */
static void insert(struct srv_load_level *level, struct srv_queued_load *at,
                   struct srv_queued_load *load)
{
    load->place = SRV_LOAD_WAITS;
    load->previous = at;
    load->next = at ? at->next : level->first;
    *(at ? &at->next : &level->first) = load;
    *(load->next ? &load->next->previous : &level->last) = load;
    level->n_waiting++;
}

/* Sets the load's round to the first round after level->round in which the load's model has no load
 * at this level yet. */
static void take_round(struct srv_load_level *level, struct srv_queued_load *load)
{
    int64_t *latest = &load->rounds->round[load->level];
    load->is_new = *latest <= level->round;
    *latest = load->round = (*latest > level->round ? *latest : level->round) + 1;
}

void srv_load_queue_add(struct srv_load_queue *q, struct srv_queued_load *load)
{
    struct srv_load_level *level = &q->levels[load->level];
    struct srv_queued_load *at = level->last;

    take_round(level, load);
    /* Searches from the end. If many loads wait, most belong to the same model, and that model's
     * next load belongs at the end. */
    while (at && at->round > load->round)
        at = at->previous;
    insert(level, at, load);
}

static void run(struct srv_load_level *level, struct srv_queued_load *load)
{
    load->place = SRV_LOAD_RUNS;
    load->previous = NULL;
    load->next = level->running;
    if (level->running)
        level->running->previous = load;
    level->running = load;
    level->n_running++;
}

void srv_load_queue_set_blocked(struct srv_load_queue *q, struct srv_queued_load *load,
                                bool is_blocked)
{
    struct srv_load_level *level = &q->levels[load->level];

    if (load->place != SRV_LOAD_RUNS)
        return;
    load->is_blocked = is_blocked;
    if (!is_blocked || may_set_aside(q, load, load->level))
        set_aside(level, load, is_blocked);
}

void srv_load_queue_remove(struct srv_load_queue *q, struct srv_queued_load *load)
{
    struct srv_load_level *level = &q->levels[load->level];
    const bool waits = load->place == SRV_LOAD_WAITS;

    set_aside(level, load, false);
    *(load->previous ? &load->previous->next
      : waits        ? &level->first
                     : &level->running) = load->next;
    if (load->next)
        load->next->previous = load->previous;
    else if (waits)
        level->last = load->previous;
    level->n_waiting -= waits;
    level->n_running -= !waits;
    load->place = SRV_LOAD_OUT;
    load->next = load->previous = NULL;
}

/* Returns the load that begins next, or NULL if no load waits. Sets *is_newest to whether it begins
 * out of its turn. */
static struct srv_queued_load *next(const struct srv_load_level *level, bool *is_newest)
{
    struct srv_queued_load *load = level->takes_newest ? level->last : NULL;

    while (load && !load->is_new)
        load = load->previous;
    *is_newest = load;
    return load ? load : level->first;
}

struct srv_queued_load *srv_load_queue_begin(struct srv_load_queue *q)
{
    for (int i = 0; i < SRV_LOAD_LEVELS; i++) {
        struct srv_load_level *level = &q->levels[i];
        bool is_newest;
        struct srv_queued_load *load = next(level, &is_newest);
        if (!load || !has_slot(q, i))
            continue;
        srv_load_queue_remove(q, load);
        if (!is_newest && load->round > level->round)
            level->round = load->round;
        level->takes_newest = i == 0 && !is_newest;
        load->used_ns = 0;
        load->is_blocked = false;
        run(level, load);
        return load;
    }
    return NULL;
}

void srv_load_queue_undo_begin(struct srv_load_queue *q, struct srv_queued_load *load)
{
    srv_load_queue_remove(q, load);
    insert(&q->levels[load->level], NULL, load);
    q->levels[load->level].takes_newest = false;
}

/* Among the loads that have used their slices at the level, and that are set aside or not, returns
 * the load that has used the most time. Returns NULL if there is none. */
static struct srv_queued_load *longest(const struct srv_load_level *level, bool is_aside)
{
    struct srv_queued_load *found = NULL;
    for (struct srv_queued_load *r = level->running; r; r = r->next)
        if (r->is_aside == is_aside && r->used_ns >= srv_load_slice_ns(r) &&
            (!found || r->used_ns > found->used_ns))
            found = r;
    return found;
}

/* Moves the load to the next level if that level has a free slot or can set the load aside.
 * Otherwise prepends the load to *stopped. */
static void displace(struct srv_load_queue *q, struct srv_queued_load *load,
                     struct srv_queued_load **stopped)
{
    const int i = load->level;
    const bool goes_on =
        i < TOP && !q->levels[i + 1].first && (has_slot(q, i + 1) || may_set_aside(q, load, i + 1));
    srv_load_queue_remove(q, load);
    if (i < TOP)
        load->level++;
    else
        load->n_stopped_at_top++;
    if (goes_on) {
        take_round(&q->levels[i + 1], load);
        run(&q->levels[i + 1], load);
        srv_load_queue_set_blocked(q, load, load->is_blocked);
    } else {
        load->next = *stopped;
        *stopped = load;
    }
}

/* Frees a slot at level i. If a higher level is full and one of its loads has used its slice, may
 * first free a slot of the higher level. Returns false if no load at level i has used its slice. */
static bool free_slot(struct srv_load_queue *q, int i, struct srv_queued_load **stopped)
{
    int last = i;
    if (!longest(&q->levels[i], false))
        return false;
    while (last < TOP && !has_slot(q, last + 1) && !q->levels[last + 1].first &&
           longest(&q->levels[last + 1], false))
        last++;
    for (; last >= i; last--)
        displace(q, longest(&q->levels[last], false), stopped);
    return true;
}

/* If level i has no room to set further loads aside, makes those that have used their slices make
 * way, one for each waiting load. Then sets blocked loads aside. */
static void renew_aside(struct srv_load_queue *q, int i, struct srv_queued_load **stopped)
{
    struct srv_load_level *level = &q->levels[i];
    struct srv_queued_load *load;
    int n = level->n_aside == SRV_LOAD_MAX_ASIDE ? level->n_waiting - n_free(q, i) : 0;

    for (; n > 0 && (load = longest(level, true)); n--)
        displace(q, load, stopped);
    for (load = level->running; load; load = load->next)
        srv_load_queue_set_blocked(q, load, load->is_blocked);
}

struct srv_queued_load *srv_load_queue_make_way(struct srv_load_queue *q)
{
    struct srv_queued_load *stopped = NULL;
    for (int i = TOP; i >= 0; i--) {
        renew_aside(q, i, &stopped);
        while (q->levels[i].n_waiting > n_free(q, i) && free_slot(q, i, &stopped))
            ;
    }
    return stopped;
}

int64_t srv_load_queue_least_left_ns(const struct srv_load_queue *q)
{
    int64_t least = INT64_MAX;
    bool waits = false;
    for (int i = 0; i < SRV_LOAD_LEVELS; i++) {
        waits |= q->levels[i].first != NULL;
        for (const struct srv_queued_load *r = q->levels[i].running; r; r = r->next) {
            const int64_t left = srv_load_slice_ns(r) - r->used_ns;
            if (left > 0 && left < least)
                least = left;
        }
    }
    return waits ? least : INT64_MAX;
}

/*
 * A request with more rows than a batch may hold, cut into jobs of its own that run in any order
 * and on any worker; the last of them joins the outputs.
 *
 * Owner: everything lives in the whole job's arena.
 * Threads: cut on the submitting thread; the pieces end on any.
 */
#ifndef SRV_SUB_REQUESTS_H
#define SRV_SUB_REQUESTS_H

#include "server/batching/job.h"

/*
 * *first: the pieces, by `next`: one of first_rows rows (0: none of that size), then of `rows`,
 * then the rest. `joined` is called once, when all pieces are over and *whole has its status and
 * outputs; on the thread of the last piece. `follows_rows`: false when dimension 0 of an output was
 * not the number of rows, and the whole was run uncut for that.
 */
enum rt_status srv_sub_requests_split(
    struct srv_job *parent, int64_t first_rows, int64_t rows, struct rt_pool *pool,
    void (*parent_done)(struct srv_job *parent, bool follows_rows), struct srv_job **first);

#endif

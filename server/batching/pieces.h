/*
 * A request with more rows than a batch may hold, cut into jobs of its own that run in any order
 * and on any worker; the last of them joins the outputs.
 *
 * Owner: everything lives in the whole job's arena.
 * Threads: cut on the submitting thread; the pieces end on any.
 */
#ifndef SRV_PIECES_H
#define SRV_PIECES_H

#include "server/batching/job.h"

/*
 * *first: the pieces, by `next`: one of first_rows rows (0: none of that size), then of `rows`,
 * then the rest. `joined` is called once, when all pieces are over and *whole has its status and
 * outputs; on the thread of the last piece. `follows_rows`: false when dimension 0 of an output was
 * not the number of rows, and the whole was run uncut for that.
 */
enum rt_status srv_pieces_cut(struct srv_job *whole, int64_t first_rows, int64_t rows,
                              struct rt_pool *pool,
                              void (*joined)(struct srv_job *whole, bool follows_rows),
                              struct srv_job **first);

#endif

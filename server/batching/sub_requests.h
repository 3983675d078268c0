/*
 * If enable_large_batch_splitting is set, a request with more rows than a batch may have is split
 * into sub-requests. Sub-requests run in any order on any worker, and the last of them to end
 * concatenates the outputs. The scheduler chooses their sizes (submit_sub_requests). Sub-requests
 * differ from the micro-batches of runtime/compile, into which one run of a plan is split.
 *
 * Owner: everything lives in the parent job's arena.
 * Threads: the submitting thread splits; sub-requests end on any thread.
 */
#ifndef SRV_SUB_REQUESTS_H
#define SRV_SUB_REQUESTS_H

#include "server/batching/job.h"

/*
 * Splits `parent`. *first receives a list of sub-requests, linked by `next`: the first one with
 * first_rows rows (unless first_rows is 0), the next ones with `rows` rows each, and the last one
 * with the remaining rows. `parent_done` is called once, on the thread of the last sub-request,
 * when all sub-requests have ended and *parent has its status and outputs. If dimension 0 of an
 * output was not the number of rows, the parent was run again without splitting, and the argument
 * `follows_rows` is false.
 */
enum rt_status srv_sub_requests_split(
    struct srv_job *parent, int64_t first_rows, int64_t rows, struct rt_pool *pool,
    void (*parent_done)(struct srv_job *parent, bool follows_rows), struct srv_job **first);

#endif

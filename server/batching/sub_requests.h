/*
 * If enable_large_batch_splitting is set, a request with more rows than a batch may have is split
 * into sub-requests. The scheduler chooses their sizes in submit_sub_requests. They run in any
 * order on any worker, and the last of them to end concatenates the outputs. Unlike the
 * micro-batches of runtime/compile, into which one run is split, each sub-request is queued and run
 * as a job.
 *
 * Owner: all memory is allocated in the parent job's arena.
 * Threads: the thread that submits the request splits it; sub-requests end on any thread.
 */
#ifndef SRV_SUB_REQUESTS_H
#define SRV_SUB_REQUESTS_H

#include "server/batching/job.h"

/*
 * Splits `parent` into a list of sub-requests, linked by `next`, and stores the list in *first. If
 * first_rows is not 0, the first sub-request has first_rows rows. The others have `rows` rows each,
 * and the last one has the remaining rows. `parent_done` is called once, on the thread of the last
 * sub-request to end, when *parent has its status and outputs. If a sub-request had an output
 * without one row per input row, the parent was run again without splitting, and the argument
 * `follows_rows` of `parent_done` is false.
 */
enum rt_status srv_sub_requests_split(
    struct srv_job *parent, int64_t first_rows, int64_t rows, struct rt_pool *pool,
    void (*parent_done)(struct srv_job *parent, bool follows_rows), struct srv_job **first);

#endif

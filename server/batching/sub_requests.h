/*
 * If enable_large_batch_splitting is set, a request with more rows than a batch may have is split
 * into sub-requests. submit_sub_requests in scheduler.c chooses their sizes. Sub-requests run in
 * any order on any worker. The last sub-request to end concatenates the outputs. Each sub-request
 * is queued and run as a job, unlike the micro-batches of runtime/compile, which belong to one run.
 *
 * Owner: all memory is allocated in the parent job's arena.
 * Threads: the thread that submits the request splits it. Sub-requests end on any thread.
 */
#ifndef SRV_SUB_REQUESTS_H
#define SRV_SUB_REQUESTS_H

#include "server/batching/job.h"

/*
 * Splits `parent` into sub-requests, and stores the list, linked by `next`, in *first. If
 * first_rows is not 0, the first sub-request has first_rows rows. The other sub-requests have
 * `rows` rows each, except that the last one has the remaining rows.
 *
 * `parent_done` is called once, on the thread of the last sub-request, after *parent has its status
 * and outputs. If an output of a sub-request did not have one row per input row, the parent was run
 * again without splitting, and the argument `follows_rows` is false.
 */
enum rt_status srv_sub_requests_split(
    struct srv_job *parent, int64_t first_rows, int64_t rows, struct rt_pool *pool,
    void (*parent_done)(struct srv_job *parent, bool follows_rows), struct srv_job **first);

#endif

/*
 * The scheduler with a model that the tests control: the fixture replaces rt_callable_run, so that
 * a test sets the duration of a run and counts the runs. The model returns floats doubled and
 * strings unchanged, and refuses an input that contains the number 13.
 *
 * A test begins a world (a server with one model) and submits requests from its own thread, which
 * is the only I/O loop. Then the test ends the loop's turn, waits for the responses, drops the
 * requests and ends the world.
 */
#ifndef TESTS_UNIT_BATCHING_SCHEDULER_FIXTURE_H
#define TESTS_UNIT_BATCHING_SCHEDULER_FIXTURE_H

#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "server/batching/io_loop.h"
#include "server/batching/scheduler.h"

/* Settings and counters of the model. Beginning a world sets all of them to zero. */
extern struct sched_model {
    /* Number of runs that have begun, number of runs in progress, and largest number of runs that
     * were in progress at the same time. */
    _Atomic int runs, together, most_together;
    /* Numbers of rows in the inputs of the first 64 runs; -1 stands for a scalar. */
    _Atomic int64_t rows[64];
    _Atomic bool held; /* while true, runs wait before they return */
    /* While true, runs whose input begins with the number 7 wait before they return. */
    _Atomic bool sevens_are_held;
    /* While true, outputs have one row, however many rows the input has. */
    _Atomic bool one_output_row;
    /* While true, runs of merged rows fail, as if the plan were not row-wise. */
    _Atomic bool unproved;
    /* Largest number of rows with which a run does not run out of memory; 0 means no limit. */
    _Atomic int64_t most_rows;
    /* Duration of each run, in all and per row, which a test sets before the first request. */
    int64_t sleep_us, row_us;
    _Atomic int n_compiled_asked; /* number of calls of rt_callable_is_compiled */
    _Atomic int on_gpu[2];        /* numbers of runs by rt_run_options.accelerator */
    /* GPUs that the model uses; sched_begin_on_gpus sets them. */
    struct rt_session_accelerators gpus;
} sched_model;

struct world {
    double queue_share; /* --quota_queue_share */
    struct srv_server server;
    struct srv_map map;
    struct srv_io_loop io_loop;
    struct rt_tensor_spec in, out;
    struct rt_signature def;
    struct rt_model_signature signature;
    struct rt_model loaded;
    struct srv_version version;
    struct rt_device gpu[2];
    struct srv_version *other;      /* version of later requests; NULL means `version` */
    size_t max_inline_bytes;        /* srv_job.max_inline_bytes of later requests */
    struct srv_quota_client client; /* srv_job.client of later requests */
    /* srv_job.decode and srv_job.prepare of later requests */
    enum rt_status (*decode)(struct srv_job *job), (*prepare)(struct srv_job *job);
    _Atomic int n_done; /* number of requests that have a response */
};

struct request {
    struct srv_job job;
    struct rt_tensor feed, fetch;
    struct rt_arena *arena;
    struct world *w;
};

/* Starts a server with one model version that has one signature. `parameters` is the text of the
 * batching parameters file, or NULL if there is no file. sched_end frees the server after every
 * request has completed. */
struct world *sched_begin_with(int n_workers, bool rowwise, bool writes, enum srv_maybe batching,
                               const char *parameters);
/* Starts a server with one worker, whose clients may take a part of each queue. */
struct world *sched_begin_with_shares(double part, enum srv_maybe batching, const char *parameters);
/* Starts a server without --enable_batching. */
struct world *sched_begin(int n_workers, bool rowwise, bool writes);
/* Starts a server with --enable_batching=true, one worker, and a signature that is not known to be
 * row-wise. */
struct world *sched_begin_as_tensorflow(const char *parameters);
/* Starts a server with one worker for the CPU and n GPUs, which have two streams each. The model
 * uses the GPU with index `gpu`, or all if `gpu` is -1. */
struct world *sched_begin_on_gpus(int n, int gpu);
/* Lets spare workers take batches of the world, as in a server. Otherwise only workers take
 * batches, however long a busy machine delays them or a test that holds their runs. */
void sched_have_spares(struct world *w);
void sched_end(struct world *w);

/* Submits a request of the given shape whose numbers are value, value + step, value + 2 step, ...
 * sched_drop frees it. */
struct request *sched_submit_shaped(struct world *w, int rank, const int64_t *dim, float value,
                                    float step, int64_t deadline);
/* Submits a request with `rows` rows of two numbers, all equal to `value`, or with a scalar if
 * `rows` is 0. */
struct request *sched_submit(struct world *w, int64_t rows, float value, int64_t deadline);
/* The `done` callback of an srv_job whose owner is a struct request. Counts the request in
 * n_done. */
void sched_on_done(struct srv_job *job);
/* Frees a request that has completed. */
void sched_drop(struct request *r);

/* Submits a request that occupies the only worker until sched_model.held is false, so that later
 * requests have to queue. Returns when the request runs. */
struct request *sched_block(struct world *w);
/* Waits until n requests have completed (sched_wait_done) or n runs have begun (sched_wait_runs).
 * Fails the test if there are more than n. */
void sched_wait_done(struct world *w, int n);
void sched_wait_runs(int n);
/* Asserts that the request succeeded with the model's output for the input of sched_submit(w, rows,
 * value, ...). */
void sched_expect(struct request *r, int64_t rows, float value);

#endif

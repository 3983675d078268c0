/*
 * One request of a replay (warmup.h, model_warmup.h), performed against a version that is not
 * published yet. All replays that run at the same time share a budget for the feeds of their
 * requests and for their responses.
 *
 * Threads: the functions are called on the threads of a replay, and may block.
 */
#ifndef SRV_REPLAY_REQUEST_H
#define SRV_REPLAY_REQUEST_H

#include "server/inference/inference.h"

/* maximum duration of a replay in seconds, as for a model's init op */
enum { SRV_REPLAY_LIMIT_S = 600 };

struct srv_replay_target {
    /* the version to replay against; only `model`, `version` and `loaded` are read */
    struct srv_version *version;
    const struct srv_options *options;
    /* The budget of all replays that run at the same time. It is apart from that for the requests
     * of clients, which would otherwise make loads fail. */
    struct srv_budget *budget;
    size_t *charged; /* number of bytes that the caller has charged for the feeds, or NULL */
    struct rt_run_options run; /* the end of the replay, and the flag that cancels it */
};

/* Checks whether the replay was cancelled or its end has passed. Must be called before each
 * request, because small requests end without checking this. */
enum rt_status srv_replay_may_go_on(const struct srv_replay_target *t, struct rt_error *err);
/* Waits for other replays after bytes did not fit in the budget, and then checks whether the replay
 * may go on. The caller must hold no bytes of the budget, because the other replays may wait too.
 * Gives back what others have held for longer than SRV_REPLAY_HOLD_S (srv_replay_hold). */
enum rt_status srv_replay_wait(const struct srv_replay_target *t, struct rt_error *err);

enum { SRV_REPLAY_HOLD_S = 10 };
/* `*own` bytes of a budget that a replay holds while it does long work. */
struct srv_replay_held {
    struct srv_budget *budget;
    size_t *own;
    int64_t since_ns;
    struct srv_replay_held *next, **at; /* links in the list of all of them */
};
/* Permits other replays that wait to give the bytes back after SRV_REPLAY_HOLD_S, so that work that
 * does not end holds nobody up for longer. The work keeps its memory beyond the budget then; a load
 * has few such works. Until srv_replay_release, the caller must not use `*own`. */
void srv_replay_hold(struct srv_replay_held *h, struct srv_budget *budget, size_t *own);
/* Does nothing if srv_replay_hold was not called for the zeroed struct. */
void srv_replay_release(struct srv_replay_held *h);
/* Gives all of `*own` back. If it is large, then lets replays that wait take it first, because a
 * replay of many large requests would otherwise always take it again itself. */
void srv_replay_give(struct srv_budget *budget, size_t *own);

/*
 * Performs the steps of an inference from `init` to `finish`. The arena is reset before. Waits
 * while the feeds do not fit in the budget beside those of other replays. Fails with
 * RESOURCE_EXHAUSTED if they would never fit. If the run waits, for example for an element of a
 * queue, the feeds are given back to the budget first, although the run still holds them: it may
 * wait until the replay ends, and a load has few such runs. The feeds are freed and their bytes
 * given back before the function returns, but their shapes stay, because the writers of responses
 * need them. The caller must call srv_inference_clear, after a failure too.
 */
enum rt_status srv_replay_perform(const struct srv_replay_target *t, struct srv_inference *inf,
                                  struct srv_job *job, const struct srv_inference_steps *steps,
                                  struct rt_span request, struct rt_arena *arena,
                                  struct rt_error *err);

#endif

/* Parses the input as config.pbtxt of a model in a Triton repository and applies it, and as a file
 * of labels. */
#include <string.h>

#include "runtime/base/arena.h"
#include "server/batching/scheduler_core.h"
#include "server/triton/triton_labels.h"
#include "tests/fuzz/cost.h"

const struct fuzz_cost fuzz_cost = FUZZ_MESSAGE;

/* Parses the input as a file of labels, which must cover all of its bytes. */
static void parse_labels(const uint8_t *data, size_t size)
{
    struct rt_arena *arena = rt_arena_new(64 << 20);
    struct srv_triton_labels l = {.n = 0};
    struct rt_error err = {0};

    if (arena && !srv_triton_parse_labels(rt_span_of(data, size), arena, &l, &err)) {
        size_t n = 0;
        for (int i = 0; i < l.n; i++) {
            if (srv_triton_label(&l, i).n && memchr(l.label[i].p, '\n', l.label[i].n))
                __builtin_trap();
            n += l.label[i].n;
        }
        if (n > size || srv_triton_label(&l, l.n).n)
            __builtin_trap();
    }
    rt_arena_free(arena);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct srv_batching b;
    static struct srv_core_policy policy;
    struct srv_model_config m = {.name = "m", .policy = SRV_POLICY_LATEST, .n_latest = 1};
    struct srv_triton *t = NULL;
    struct srv_triton_gpus gpus;
    struct rt_error err = {0};

    parse_labels(data, size);
    if (srv_triton_parse(rt_span_of(data, size), "f", &t, &err)) {
        if (t || strncmp(rt_error_text(&err), "f:", 2) != 0)
            __builtin_trap();
        return;
    }
    srv_triton_policy(t, &m);
    b = (struct srv_batching){
        .mode = SRV_BATCHING_ROW_WISE, .max_batch_size = 8, .max_execution_batch_size = 8};
    srv_triton_batching(t, &b);
    srv_core_policy_of(&b, &policy);
    if (policy.max_rows < 1 || policy.timeout_ns < 0 || policy.max_queued_ns < 0 ||
        policy.max_running < 0 || policy.max_jobs < 0 ||
        (m.policy == SRV_POLICY_LATEST && m.n_latest < 1) || m.n_specific < 0)
        __builtin_trap();
    for (int i = 0; i < policy.n_preferred; i++)
        if (policy.preferred[i] < 1 || policy.preferred[i] > policy.max_rows ||
            (i && policy.preferred[i] < policy.preferred[i - 1]))
            __builtin_trap();
    if (!srv_triton_gpus(t, 3, &gpus, &err) && (gpus.allowed > 7 || gpus.instances < 0))
        __builtin_trap();
    srv_triton_free(t);
}

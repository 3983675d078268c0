#include "tests/support/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/graph_session.h"
#include "tests/support/registry.h"
#include "tests/support/test.h"

struct rt_callable *answer_open(const struct question *q, bool no_fusion, struct rt_session **s)
{
    static const char *const x[] = {"x:0"};
    const char *fetches[] = {"y:0", q->also};
    const struct rt_session_options options = {
        .registry = test_registry,
        .parallel = q->cores,
        .tuning = {.no_fusion = no_fusion, .no_specialise = q->no_specialise}};
    struct rt_call_spec spec = {.feeds = q->feeds, .fetches = fetches, .n_fetches = 1 + !!q->also};

    while (spec.n_feeds < ANSWER_FEEDS && q->feeds[spec.n_feeds])
        spec.n_feeds++;
    if (!spec.n_feeds) {
        spec.feeds = x;
        spec.n_feeds = 1;
    }
    *s = gs_open(gd_span(q->graph), &options);
    return gs_prepare(*s, &spec);
}

void answer_ask(const struct question *q, const struct rt_tensor *in, bool no_fusion,
                struct answer *a)
{
    struct rt_session *s = NULL;
    struct rt_callable *c = answer_open(q, no_fusion, &s);
    struct rt_tensor out[2] = {{0}};
    struct rt_session_stats stats;
    struct rt_error err = {0};

    memset(a, 0, sizeof *a);
    a->status = rt_callable_run(c, in, out, NULL, &err);
    if (a->status)
        snprintf(a->text, sizeof a->text, "%s", rt_error_text(&err));
    rt_session_stats(s, &stats);
    a->nodes = stats.nodes_run;
    rt_tensor_clear(&out[1]);
    a->y = out[0];
    rt_session_free(s);
}

void answer_alike(const struct rt_tensor *a, const struct rt_tensor *b, float tolerance)
{
    const float *p = a->data, *q = b->data;
    float most = 1;

    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (isfinite(p[i]) && fabsf(p[i]) > most)
            most = fabsf(p[i]);
    for (int64_t i = 0; i < rt_tensor_count(a); i++)
        if (!(fabsf(p[i] - q[i]) <= tolerance * most) && !(isnan(p[i]) && isnan(q[i])) &&
            p[i] != q[i])
            fail_msg("element %lld: %.9g and %.9g", (long long)i, (double)p[i], (double)q[i]);
}

int64_t answer_both(const struct question *q, const struct rt_tensor *in, float tolerance)
{
    struct answer unfused, fused;

    answer_ask(q, in, true, &unfused);
    answer_ask(q, in, false, &fused);
    if (unfused.status != fused.status)
        fail_msg("unfused: %s %s, fused: %s %s", rt_status_name(unfused.status), unfused.text,
                 rt_status_name(fused.status), fused.text);
    if (unfused.status)
        assert_int_equal(unfused.status, RT_INVALID_ARGUMENT);
    else
        answer_alike(&unfused.y, &fused.y, tolerance);
    rt_tensor_clear(&unfused.y);
    rt_tensor_clear(&fused.y);
    return unfused.status ? -1 : fused.nodes;
}

bool answer_is_emulated(void)
{
    const char *accelerator = getenv("SLIPWAY_TEST_ACCELERATOR");
    return accelerator && strcmp(accelerator, "gpu") == 0;
}

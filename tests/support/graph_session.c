#include "tests/support/graph_session.h"

#include "tests/support/test.h"

struct rt_session *gs_open(struct rt_span graph, const struct rt_session_options *options)
{
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_error err = {0};

    assert_ok(rt_library_import(&l, graph, options->registry, &err), &err);
    assert_ok(rt_session_new(&s, l, options, &err), &err);
    return s;
}

struct rt_callable *gs_prepare(struct rt_session *s, const struct rt_call_spec *spec)
{
    struct rt_callable *c = NULL;
    struct rt_error err = {0};

    assert_ok(rt_session_prepare(s, spec, &c, &err), &err);
    return c;
}

struct rt_callable *gs_call(struct rt_session *s, const char *feed, const char *fetch)
{
    const struct rt_call_spec spec = {
        .feeds = &feed, .n_feeds = feed != NULL, .fetches = &fetch, .n_fetches = fetch != NULL};

    return gs_prepare(s, &spec);
}

void gs_load(struct rt_session *s, const char *target)
{
    const struct rt_call_spec spec = {.targets = &target, .n_targets = 1, .is_load = true};
    struct rt_callable *c = gs_prepare(s, &spec);
    struct rt_error err = {0};

    assert_ok(rt_callable_run(c, NULL, NULL, NULL, &err), &err);
}

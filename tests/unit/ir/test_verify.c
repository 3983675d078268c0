/* Tests that the verifier of the compiler's graph (runtime/ir/verify.h) accepts a valid graph and
 * finds each fault that a test inserts. */
#include <string.h>

#include "runtime/ir/verify.h"
#include "tests/support/test.h"

/* The graph is x -> Neg -> Exp. Exp is fetched, and a control edge leads from Neg to Exp. */
enum { X, NEG, EXP, N };

struct small {
    struct pl_graph g;
    struct rt_node def[N];
    struct rt_schema schema[N];
    struct pl_edge in[N], fetch;
    uint8_t dtype[N], fetch_dtype;
    int ctrl, target;
    struct rt_error err;
};

static int set_up(void **state)
{
    static const char *const names[N] = {"Placeholder", "Neg", "Exp"};
    static struct small s;
    s = (struct small){.ctrl = NEG, .target = EXP, .fetch = {EXP, 0}, .fetch_dtype = RT_F32};
    for (int i = 0; i < N; i++) {
        const int at = pl_add(&s.g, &s.err);
        assert_int_equal(at, i);
        s.schema[i] = (struct rt_schema){.name = names[i]};
        s.dtype[i] = RT_F32;
        s.def[i] = (struct rt_node){.name = names[i],
                                    .schema = &s.schema[i],
                                    .n_in = i > 0,
                                    .n_out = 1,
                                    .in_dtype = &s.dtype[i],
                                    .out_dtype = &s.dtype[i]};
        s.in[i] = (struct pl_edge){i - 1, 0};
        struct pl_node *n = &s.g.node[i];
        n->kind = i ? PL_OP : PL_FEED;
        n->def = &s.def[i];
        n->name = names[i];
        n->n_in = i > 0;
        n->n_out = 1;
        n->in = &s.in[i];
        if (i == X) {
            n->feed = 0;
            n->feed_dtype = RT_F32;
        }
    }
    s.g.node[EXP].ctrl = &s.ctrl;
    s.g.node[EXP].n_ctrl = 1;
    s.g.n_feeds = s.g.n_fetches = 1;
    s.g.fetch = &s.fetch;
    s.g.fetch_dtype = &s.fetch_dtype;
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    struct small *s = *state;
    free(s->g.node);
    return 0;
}

static void refused(struct small *s, const char *text)
{
    assert_int_equal(pl_verify(&s->g, true, &s->err), RT_INTERNAL);
    if (!strstr(rt_error_text(&s->err), text))
        fail_msg("'%s' does not say '%s'", rt_error_text(&s->err), text);
}

static void a_sound_graph_is_accepted(void **state)
{
    struct small *s = *state;
    assert_int_equal(pl_verify(&s->g, true, &s->err), RT_OK);
}

static void an_edge_from_no_node_is_found(void **state)
{
    struct small *s = *state;
    s->in[EXP].node = N;
    refused(s, "edge 0 of 'Exp' is from node 3 of 3");
    s->in[EXP].node = -1;
    refused(s, "edge 0 of 'Exp' is from node -1 of 3");
}

static void an_edge_from_no_output_is_found(void **state)
{
    struct small *s = *state;
    s->in[EXP].out = 1;
    refused(s, "edge 0 of 'Exp' is output 1 of 'Neg', which has 1");
}

static void a_fetch_of_no_output_is_found(void **state)
{
    struct small *s = *state;
    s->fetch.out = 2;
    refused(s, "edge 0 of 'a fetch' is output 2 of 'Exp'");
}

static void a_target_of_no_node_is_found(void **state)
{
    struct small *s = *state;
    s->target = N;
    s->g.target = &s->target;
    s->g.n_targets = 1;
    refused(s, "edge 0 of 'a target' is from node 3");
}

static void a_control_edge_from_no_node_is_found(void **state)
{
    struct small *s = *state;
    s->ctrl = N + 4;
    refused(s, "edge 1 of 'Exp' is from node 7 of 3");
}

static void a_wrong_type_is_found(void **state)
{
    struct small *s = *state;
    s->g.node[X].feed_dtype = RT_I32;
    refused(s, "input 0 of 'Neg' is int32, expected float");
    assert_int_equal(pl_verify(&s->g, false, &s->err), RT_OK);
}

/* A resource handle given as an input of a different type counts as a read of the variable. */
static void a_handle_may_stand_for_its_value(void **state)
{
    struct small *s = *state;
    s->g.node[X].feed_dtype = RT_RESOURCE;
    assert_int_equal(pl_verify(&s->g, true, &s->err), RT_OK);
}

static void a_cycle_is_found(void **state)
{
    struct small *s = *state;
    s->in[NEG] = (struct pl_edge){EXP, 0};
    refused(s, "is part of a cycle");
}

static void a_cycle_through_next_iteration_is_legal(void **state)
{
    struct small *s = *state;
    s->schema[EXP].name = "NextIteration";
    s->in[NEG] = (struct pl_edge){EXP, 0};
    assert_int_equal(pl_verify(&s->g, true, &s->err), RT_OK);
}

static void a_reader_of_a_removed_node_is_found(void **state)
{
    struct small *s = *state;
    s->g.node[NEG].kind = PL_GONE;
    refused(s, "edge 0 of 'Exp' is from node 1, which was removed");
}

static void a_node_that_nothing_reaches_may_be_anything(void **state)
{
    struct small *s = *state;
    s->fetch.node = X;
    s->g.node[NEG].kind = PL_GONE;
    assert_int_equal(pl_verify(&s->g, true, &s->err), RT_OK);
}

static void a_feed_without_a_number_is_found(void **state)
{
    struct small *s = *state;
    s->g.node[X].feed = 1;
    refused(s, "'Placeholder' is feed 1 of 1");
}

static void a_missing_sub_plan_is_found(void **state)
{
    struct small *s = *state;
    struct rt_plan *none = NULL;
    s->g.node[NEG].sub = &none;
    s->g.node[NEG].n_sub = 1;
    refused(s, "'Neg' has no sub-plan 0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_graph_is_accepted),
        TEST(an_edge_from_no_node_is_found),
        TEST(an_edge_from_no_output_is_found),
        TEST(a_fetch_of_no_output_is_found),
        TEST(a_target_of_no_node_is_found),
        TEST(a_control_edge_from_no_node_is_found),
        TEST(a_wrong_type_is_found),
        TEST(a_handle_may_stand_for_its_value),
        TEST(a_cycle_is_found),
        TEST(a_cycle_through_next_iteration_is_legal),
        TEST(a_reader_of_a_removed_node_is_found),
        TEST(a_node_that_nothing_reaches_may_be_anything),
        TEST(a_feed_without_a_number_is_found),
        TEST(a_missing_sub_plan_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

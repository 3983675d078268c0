/* Tests fused ops (runtime/core/fused_op.h). Their kernels read the attributes and inputs that the
 * fusion pass has set in the node. */
#include "tests/support/test.h"

#include "runtime/base/arena.h"
#include "runtime/core/op.h"
#include "runtime/ir/rewrite.h"

enum way { UP, DOWN };
#define T_SCALE_INPUTS(IN, op)                                                                     \
    IN(op, X, x, ONE)                                                                              \
    IN(op, BY, by, OPTIONAL)                                                                       \
    IN(op, OFFSET, offset, OPTIONAL)                                                               \
    IN(op, OTHERS, others, LIST)
#define T_SCALE_OUTPUTS(OUT)                                                                       \
    OUT(y)                                                                                         \
    OUT(rest)
#define T_SCALE_ATTRS(ATTR)                                                                        \
    ATTR(INT, axis)                                                                                \
    ATTR(FLOAT, epsilon)                                                                           \
    ATTR(BOOL, divides)                                                                            \
    ATTR(ENUM, way)                                                                                \
    ATTR(STRING, name)                                                                             \
    ATTR(INTS, sizes)
RT_FUSED_OP(T_SCALE, t_scale, "_TestScale");

#define T_SHRUNK_INPUTS(IN, op) IN(op, X, x, ONE)
#define T_SHRUNK_OUTPUTS(OUT)   OUT(y)
#define T_SHRUNK_ATTRS(ATTR)    ATTR(INT, axis)
RT_FUSED_OP(T_SHRUNK, t_shrunk, "_TestScale");

static const int64_t sizes[] = {3, 4};
static const struct t_scale given = {.axis = INT64_C(1) << 40,
                                     .epsilon = 0.5f,
                                     .divides = true,
                                     .way = DOWN,
                                     .name = "layer/scale",
                                     .sizes = {2, sizes}};

/* A graph of three feeds of different types and two nodes, GOING and AT, which are fused into the
 * node AT. */
enum { F32_FEED, BOOL_FEED, I64_FEED, GOING, AT, N_NODES };
struct plan {
    struct rt_registry *registry;
    struct rt_session session;
    struct pl_graph g;
    struct rt_error err;
};

static void start(struct plan *p, const struct rt_op *op)
{
    static const uint8_t feed_type[] = {RT_F32, RT_BOOL, RT_I64};
    memset(p, 0, sizeof *p);
    p->registry = rt_registry_new();
    assert_non_null(p->registry);
    if (op)
        assert_true(rt_registry_add_op(p->registry, op));
    p->session.options.registry = p->registry;
    p->g = (struct pl_graph){.session = &p->session, .arena = rt_arena_new(1 << 20)};
    assert_non_null(p->g.arena);
    for (int i = 0; i < N_NODES; i++)
        assert_int_equal(pl_add(&p->g, &p->err), i);
    for (int i = 0; i < 3; i++) {
        p->g.node[i].kind = PL_FEED;
        p->g.node[i].feed_dtype = feed_type[i];
    }
    p->g.node[GOING].kind = p->g.node[AT].kind = PL_OP;
    p->g.node[AT].name = "at";
    p->g.node[AT].depth = 3;
}

static void end(struct plan *p)
{
    pl_graph_clear(&p->g);
    rt_registry_free(p->registry);
}

static const struct rt_op scale_op = {.name = "_TestScale", .internal_schema = &t_scale_schema};
static const int cluster[] = {AT, GOING};

static void a_kernel_reads_what_a_pass_has_set(void **state)
{
    const struct pl_edge in[] = {[T_SCALE_X] = {F32_FEED, 0},
                                 [T_SCALE_BY] = {BOOL_FEED, 0},
                                 [T_SCALE_OFFSET] = {I64_FEED, 0},
                                 [T_SCALE_OTHERS] = {F32_FEED, 0},
                                 [T_SCALE_OTHERS + 1] = {I64_FEED, 0}};
    struct t_scale got;
    struct plan p;
    (void)state;

    start(&p, &scale_op);
    assert_ok(pl_put_fused(&p.g, cluster, 2, t_scale_op(&given), in, 5, &p.err), &p.err);
    const struct pl_node *n = &p.g.node[AT];
    assert_true(pl_is(n, "_TestScale"));
    assert_string_equal(n->name, "at");
    assert_int_equal(p.g.node[GOING].kind, PL_GONE);
    assert_int_equal(n->n_in, 5);
    assert_int_equal(n->n_out, 2);
    assert_int_equal(n->def->in_dtype[T_SCALE_BY], RT_BOOL);
    assert_int_equal(n->def->in_dtype[T_SCALE_OTHERS + 1], RT_I64);
    assert_int_equal(n->def->out_dtype[1], RT_F32);
    t_scale_read(n->def, &got);
    assert_true(got.axis == given.axis && got.epsilon == given.epsilon && got.divides);
    assert_int_equal(got.way, DOWN);
    assert_string_equal(got.name, given.name);
    assert_int_equal(got.sizes.n, 2);
    assert_true(got.sizes.v[0] == 3 && got.sizes.v[1] == 4);
    assert_int_equal(got.in.x, 0);
    assert_int_equal(got.in.by, 1);
    assert_int_equal(got.in.offset, 2);
    assert_int_equal(got.in.others, 3);
    assert_true(rt_attr_int(n->def, "axis") == given.axis);
    end(&p);
}

static void inputs_behind_one_that_is_left_out_move_up(void **state)
{
    const struct pl_edge in[] = {
        [T_SCALE_X] = {F32_FEED, 0}, [T_SCALE_BY] = {-1, 0}, [T_SCALE_OFFSET] = {I64_FEED, 0}};
    struct t_scale got;
    struct plan p;
    (void)state;

    start(&p, &scale_op);
    assert_ok(pl_put_fused(&p.g, cluster, 2, t_scale_op(&given), in, 3, &p.err), &p.err);
    const struct pl_node *n = &p.g.node[AT];
    assert_int_equal(n->n_in, 2);
    assert_int_equal(n->in[1].node, I64_FEED);
    assert_int_equal(n->def->in_dtype[1], RT_I64);
    t_scale_read(n->def, &got);
    assert_int_equal(got.in.x, 0);
    assert_int_equal(got.in.by, -1);
    assert_int_equal(got.in.offset, 1);
    assert_int_equal(got.in.others, -1);
    end(&p);
}

static void what_does_not_fit_the_header_is_refused(void **state)
{
    const struct pl_edge in[] = {{-1, 0}, {BOOL_FEED, 0}, {I64_FEED, 0}};
    static const struct rt_op shrunk = {.name = "_TestScale", .internal_schema = &t_shrunk_schema};
    struct plan p;
    (void)state;

    start(&p, &scale_op);
    assert_fails(pl_put_fused(&p.g, cluster, 2, t_scale_op(&given), in, 3, &p.err), RT_INTERNAL,
                 &p.err, "op '_TestScale': input 0 is missing");
    assert_fails(pl_put_fused(&p.g, cluster, 2, t_scale_op(&given), in, 2, &p.err), RT_INTERNAL,
                 &p.err, "op '_TestScale' cannot have 2 inputs");
    assert_int_equal(p.g.node[GOING].kind, PL_OP);
    end(&p);

    start(&p, &shrunk);
    assert_fails(pl_put_fused(&p.g, cluster, 2, t_scale_op(&given), in, 3, &p.err), RT_INTERNAL,
                 &p.err, "op '_TestScale' was registered with another schema");
    const struct pl_edge x = {F32_FEED, 0};
    struct t_shrunk got;
    assert_ok(
        pl_put_fused(&p.g, cluster, 2, t_shrunk_op(&(struct t_shrunk){.axis = -1}), &x, 1, &p.err),
        &p.err);
    t_shrunk_read(p.g.node[AT].def, &got);
    assert_true(got.axis == -1 && got.in.x == 0);
    end(&p);

    start(&p, NULL);
    assert_fails(
        pl_put_fused(&p.g, cluster, 2, t_shrunk_op(&(struct t_shrunk){.axis = 1}), &x, 1, &p.err),
        RT_NOT_FOUND, &p.err, "_TestScale");
    end(&p);
}

static void an_op_is_not_registered_with_the_schema_of_another(void **state)
{
    static const struct rt_op other = {.name = "_TestOther", .internal_schema = &t_scale_schema};
    static const struct rt_schema bare = {.name = "TestScale"};
    static const struct rt_op public = {.name = "TestScale", .internal_schema = &bare};
    struct rt_registry *r = rt_registry_new();
    (void)state;

    assert_non_null(r);
    assert_false(rt_registry_add_op(r, &other));
    /* An op whose name has no "_" is refused, because a model file could use it. */
    assert_false(rt_registry_add_op(r, &public));
    assert_true(rt_registry_add_op(r, &scale_op));
    rt_registry_free(r);
}

static void a_cluster_holds_each_node_once_and_knows_its_limit(void **state)
{
    struct plan p;
    struct pl_uses uses;
    (void)state;

    start(&p, NULL);
    assert_ok(pl_uses_count(&uses, &p.g, &p.err), &p.err);
    struct pl_cluster c = pl_cluster_from(&p.g, &uses, AT);
    pl_cluster_take(&c, (struct pl_edge){AT, 0});
    assert_int_equal(c.n, 1);
    assert_true(pl_cluster_is_closed(&c));
    for (int i = 0; i <= PL_CLUSTER_MOST; i++)
        pl_cluster_take(&c, (struct pl_edge){100 + i, 0});
    assert_int_equal(c.n, PL_CLUSTER_MOST + 1);
    assert_false(pl_cluster_is_closed(&c));
    pl_uses_free(&uses);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_reads_what_a_pass_has_set),
        cmocka_unit_test(inputs_behind_one_that_is_left_out_move_up),
        cmocka_unit_test(what_does_not_fit_the_header_is_refused),
        cmocka_unit_test(an_op_is_not_registered_with_the_schema_of_another),
        cmocka_unit_test(a_cluster_holds_each_node_once_and_knows_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

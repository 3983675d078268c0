/*
 * Tests specialisations for exact shapes (runtime/compile/specialise.c). A specialised run must
 * give the same bits and errors as a run node by node. Specialisations use a bounded amount of
 * memory and are made only for shapes that recur.
 */
#include "tests/support/test.h"

#include <pthread.h>

#include "kernels/kernels.h"
#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/session/compiler.h"
#include "runtime/session/idle_cache.h"
#include "runtime/exec/trace.h"
#include "tests/support/graph_session.h"
#include "tests/support/tiers.h"

static int set_up(void **state)
{
    const int failed = tiers_set_up(state);
    ((struct tiers *)*state)->no_fusion = true;
    return failed;
}

static void node(struct tiers *x, const char *name, const char *op, const char *inputs,
                 const char *attrs)
{
    gd_node(&x->g, name, op, inputs, attrs);
}

static struct rt_tensor rows(int n)
{
    struct rt_tensor t;
    struct rt_error err = {0};
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 2, (int64_t[]){n, 4}, &err), &err);
    for (int i = 0; i < 4 * n; i++)
        ((float *)t.data)[i] = (float)((i * 37 + n) % 23) / 7 - 1.5f;
    return t;
}

static void compare_rows(struct tiers *x, int n)
{
    struct rt_tensor t = rows(n);
    tiers_compare(x, &t);
    rt_tensor_clear(&t);
}

static void constants(struct tiers *x)
{
    node(x, "x", "Placeholder", "", "dtype=float");
    node(x, "flat", "Const", "", "dtype=int32 value=int32<1>:-1");
    node(x, "square", "Const", "", "dtype=int32 value=int32<2>:-1,4");
    node(x, "zero", "Const", "", "dtype=int32 value=int32<>:0");
    node(x, "one", "Const", "", "dtype=int32 value=int32<>:1");
    node(x, "swap", "Const", "", "dtype=int32 value=int32<2>:1,0");
    node(x, "half", "Const", "", "dtype=float value=float<>:0.5");
    node(x, "both", "Const", "", "dtype=int32 value=int32<2>:0,1");
    node(x, "w", "Const", "", "dtype=float value=float<4,4>:1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7");
}

static void views_share_bytes_and_may_be_fetched(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "r", "Relu", "x", "T=float");
    node(x, "line", "Reshape", "r flat", "T=float Tshape=int32");
    node(x, "i", "Identity", "line", "T=float");
    node(x, "n", "Neg", "i", "T=float");
    node(x, "back", "Reshape", "n square", "T=float Tshape=int32");
    node(x, "sum", "AddV2", "back r", "T=float");
    node(x, "view", "Identity", "sum", "T=float");
    node(x, "feed_view", "Reshape", "x flat", "T=float Tshape=int32");
    node(x, "w_view", "Reshape", "w flat", "T=float Tshape=int32");
    tiers_open(x, "x", (const char *[]){"view", "line", "back", "feed_view", "w_view", "sum"}, 6);
    compare_rows(x, 3);
    compare_rows(x, 0);
    compare_rows(x, 300);
    assert_int_equal(tiers_specialisations(x), 3);
}

static void values_that_follow_from_shapes_are_known(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "shape", "Shape", "n", "T=float out_type=int32");
    node(x, "total", "Prod", "shape zero", "T=int32 Tidx=int32 keep_dims=true");
    node(x, "line", "Reshape", "n total", "T=float Tshape=int32");
    node(x, "y", "Square", "line", "T=float");
    tiers_open(x, "x", (const char *[]){"y", "shape", "total"}, 3);
    compare_rows(x, 5);
    compare_rows(x, 6);
    assert_int_equal(tiers_specialisations(x), 2);
}

static void segments_end_where_shapes_follow_from_values(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "more", "Greater", "n half", "T=float");
    node(x, "where", "Where", "more", "T=bool");
    node(x, "found", "GatherNd", "n where", "Tparams=float Tindices=int64");
    node(x, "twice", "AddV2", "found found", "T=float");
    node(x, "sum", "Sum", "twice zero", "T=float Tidx=int32");
    node(x, "y", "AddV2", "n sum", "T=float");
    tiers_open(x, "x", (const char *[]){"y", "twice", "n"}, 3);
    compare_rows(x, 5);
    compare_rows(x, 1);
    compare_rows(x, 5);
    assert_int_equal(tiers_specialisations(x), 4);
}

static void fed_values_are_no_part_of_a_specialisation(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "first", "StridedSlice", "x zero4 one4 ones4",
         "T=float Index=int32 begin_mask=0 end_mask=0 ellipsis_mask=0 new_axis_mask=0 "
         "shrink_axis_mask=3");
    node(x, "zero4", "Const", "", "dtype=int32 value=int32<2>:0,0");
    node(x, "one4", "Const", "", "dtype=int32 value=int32<2>:1,1");
    node(x, "ones4", "Const", "", "dtype=int32 value=int32<2>:1,1");
    node(x, "n", "Cast", "first", "SrcT=float DstT=int32");
    node(x, "range", "Range", "zero n one", "Tidx=int32");
    node(x, "y", "AddV2", "range range", "T=int32");
    tiers_open(x, "x", (const char *[]){"y"}, 1);
    for (int v = 1; v < 6; v++) {
        struct rt_tensor t = rows(2);
        *(float *)t.data = (float)v;
        tiers_compare(x, &t);
        rt_tensor_clear(&t);
    }
}

static void errors_say_the_same(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "i", "Cast", "n", "SrcT=float DstT=int32");
    node(x, "y", "GatherV2", "w i zero", "Tparams=float Tindices=int32 Taxis=int32");
    node(x, "z", "MatMul", "n w", "T=float");
    tiers_open(x, "x", (const char *[]){"y", "z"}, 2);
    compare_rows(x, 4); /* some of GatherV2's indices are negative */
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, RT_F32, 2, (int64_t[]){2, 3}, &x->err), &x->err);
    memset(t.data, 0, rt_tensor_bytes(&t));
    tiers_compare(x, &t);
    rt_tensor_clear(&t);
}

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void what_no_run_could_hold_is_refused(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "huge", "Const", "", "dtype=int64 value=int64<1>:2305843009213693952");
    node(x, "two", "Const", "", "dtype=double value=double<>:2");
    node(x, "n", "Neg", "x", "T=float");
    node(x, "fill", "Fill", "huge two", "T=double index_type=int64");
    node(x, "f", "Neg", "fill", "T=double");
    node(x, "sum", "Sum", "f zero", "T=double Tidx=int32");
    node(x, "s", "Cast", "sum", "SrcT=double DstT=float Truncate=false");
    node(x, "y", "AddV2", "n s", "T=float");
    tiers_open(x, "x", (const char *[]){"y"}, 1);
    struct rt_tensor t = rows(2), y;
    assert_int_equal(rt_callable_run(x->call[0], &t, &y, NULL, &x->err), RT_RESOURCE_EXHAUSTED);
    rt_tensor_clear(&t);
    compare_rows(x, 2);
}

/* Adds n values of 4 columns, "v0", "v1", ..., each computed from earlier ones. */
static void random_graph(struct tiers *x, unsigned *seed, int n)
{
    static const char *const unary[] = {"Relu", "Neg", "Abs", "Square", "Identity", "Tanh"};
    static const char *const binary[] = {"AddV2", "Sub", "Maximum", "Mul"};
    char name[32], in[160], a[32], b[32];
    constants(x);
    node(x, "v0", "Identity", "x", "T=float");
    for (int i = 1; i < n; i++) {
        snprintf(name, sizeof name, "v%d", i);
        snprintf(a, sizeof a, "v%u", next(seed) % (unsigned)i);
        snprintf(b, sizeof b, "v%d", i - 1 - (int)(next(seed) % (unsigned)(i < 6 ? i : 6)));
        switch (next(seed) % 10) {
        case 0:
        case 1:
        case 2:
            node(x, name, unary[next(seed) % 6], b, "T=float");
            break;
        case 3: /* adds nodes that flatten a value and reshape it back */
            snprintf(in, sizeof in, "%s flat", b);
            snprintf(a, sizeof a, "line%d", i);
            node(x, a, "Reshape", in, "T=float Tshape=int32");
            snprintf(in, sizeof in, "%s square", a);
            node(x, name, "Reshape", in, "T=float Tshape=int32");
            break;
        case 4: /* adds nodes that swap the left and right halves of the columns */
            snprintf(in, sizeof in, "one %s", b);
            snprintf(a, sizeof a, "split%d", i);
            node(x, a, "Split", in, "T=float num_split=2");
            snprintf(in, sizeof in, "%s:1 %s:0 one", a, a);
            node(x, name, "ConcatV2", in, "T=float N=2 Tidx=int32");
            break;
        case 5:
            snprintf(in, sizeof in, "%s swap", b);
            snprintf(a, sizeof a, "transposed%d", i);
            node(x, a, "Transpose", in, "T=float Tperm=int32");
            snprintf(in, sizeof in, "%s swap", a);
            node(x, name, "Transpose", in, "T=float Tperm=int32");
            break;
        case 6:
            if (next(seed) % 4 == 0) {
                snprintf(in, sizeof in, "%s half", b);
                snprintf(a, sizeof a, "more%d", i);
                node(x, a, "Greater", in, "T=float");
                snprintf(in, sizeof in, "%s", a);
                snprintf(a, sizeof a, "where%d", i);
                node(x, a, "Where", in, "T=bool");
                snprintf(in, sizeof in, "%s %s", b, a);
                snprintf(a, sizeof a, "found%d", i);
                node(x, a, "GatherNd", in, "Tparams=float Tindices=int64");
                snprintf(in, sizeof in, "%s zero", a);
                snprintf(a, sizeof a, "all%d", i);
                node(x, a, "Sum", in, "T=float Tidx=int32");
                snprintf(in, sizeof in, "%s %s", b, a);
                node(x, name, "AddV2", in, "T=float");
                break;
            } /* fall through */
        default:
            snprintf(in, sizeof in, "%s %s", a, b);
            node(x, name, binary[next(seed) % 4], in, "T=float");
        }
    }
}

static void any_graph_answers_the_same(void **state)
{
    struct tiers *x = *state;
    for (unsigned seed = 1; seed < 40; seed++) {
        unsigned s = seed * 7919;
        char name[TIERS_FETCHES][16];
        const char *fetches[TIERS_FETCHES];
        const int n = 40 + (int)(seed % 4) * 40;
        rt_bytes_clear(&x->g);
        rt_bytes_init(&x->g, 1 << 24);
        random_graph(x, &s, n);
        for (int k = 0; k < 4; k++) {
            snprintf(name[k], sizeof name[k], "v%u", k ? next(&s) % (unsigned)n : (unsigned)n - 1);
            fetches[k] = name[k];
        }
        tiers_open(x, "x", fetches, 4);
        compare_rows(x, 3);
        compare_rows(x, 17);
        compare_rows(x, 3);
        for (int tier = 0; tier < 2; tier++) {
            rt_session_free(x->tier[tier]);
            x->tier[tier] = NULL;
        }
    }
}

static void what_is_kept_is_bounded(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "y", "AddV2", "n half", "T=float");
    tiers_open(x, "x", (const char *[]){"y"}, 1);
    for (int n = 0; n < 3000; n++) {
        struct rt_tensor t = rows(n % 1500), y;
        assert_ok(rt_callable_run(x->call[1], &t, &y, NULL, &x->err), &x->err);
        assert_int_equal(y.dim[0], n % 1500);
        rt_tensor_clear(&t);
        rt_tensor_clear(&y);
    }
    assert_true(tiers_specialisations(x) > 0 && tiers_specialisations(x) <= 64);
}

/* A session on the fixture's graph, and its callable, which feeds "x" and fetches one tensor. */
struct opened {
    struct rt_session *session;
    struct rt_callable *call;
};

static struct opened open_one(struct tiers *x, const char *fetch,
                              const struct rt_session_options *options)
{
    struct opened o = {.session = gs_open(gd_span(&x->g), options)};
    o.call = gs_call(o.session, "x", fetch);
    return o;
}

static struct rt_session_stats run_one(const struct opened *o, int n)
{
    struct rt_error err = {0};
    struct rt_session_stats stats;
    struct rt_tensor t = rows(n), y;
    assert_ok(rt_callable_run(o->call, &t, &y, NULL, &err), &err);
    assert_int_equal(y.dim[0], n);
    rt_tensor_clear(&y);
    rt_tensor_clear(&t);
    rt_session_stats(o->session, &stats);
    return stats;
}

/* Opens the compiled session of the fixture with the given options, and prepares a callable that
 * feeds "x" and fetches "y". */
static void open_compiled(struct tiers *x, const struct rt_session_options *options)
{
    const struct opened o = open_one(x, "y", options);
    x->tier[1] = o.session;
    x->call[1] = o.call;
}

static void close_compiled(struct tiers *x)
{
    rt_session_free(x->tier[1]);
    x->tier[1] = NULL;
}

enum { SESSIONS = 12 };

static void specialisations_of_many_sessions_are_bounded(void **state)
{
    struct tiers *x = *state;
    struct rt_idle_cache *idle_cache = rt_idle_cache_new(RT_IDLE_CACHE_BYTES, 64 << 10);
    struct rt_session_options options = {
        .registry = x->ops, .idle_cache = idle_cache, .compiles_inline = true};
    struct opened o[SESSIONS];
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "y", "MatMul", "n w", "T=float");
    for (int i = 0; i < SESSIONS; i++)
        o[i] = open_one(x, "y", &options);
    for (int n = 0; n < 300; n++)
        for (int i = 0; i < SESSIONS; i++)
            run_one(&o[i], n);
    size_t bytes = 0;
    int n = 0;
    for (int i = 0; i < SESSIONS; i++) {
        const struct rt_session_stats s = run_one(&o[i], 1);
        assert_true(s.n_specialisations > 0 && s.n_specialisations <= 64);
        bytes += s.specialisation_bytes;
        n += s.n_specialisations;
    }
    assert_int_equal(bytes, atomic_load(&idle_cache->specialisations.used));
    assert_int_equal(n, rt_idle_cache_specialisations(idle_cache));
    for (int i = 0; i < SESSIONS; i++)
        rt_session_free(o[i].session);
    assert_int_equal(atomic_load(&idle_cache->specialisations.used), 0);
    assert_int_equal(rt_idle_cache_specialisations(idle_cache), 0);
    rt_idle_cache_free(idle_cache);
}

static void idle_memory_of_many_sessions_is_bounded(void **state)
{
    struct tiers *x = *state;
    struct rt_idle_cache *idle_cache =
        rt_idle_cache_new(8 << 20, RT_IDLE_CACHE_SPECIALISATION_BYTES);
    struct rt_session_options options = {
        .registry = x->ops, .idle_cache = idle_cache, .compiles_inline = true};
    struct opened o[SESSIONS];
    constants(x);
    node(x, "n", "MatMul", "x w", "T=float");
    node(x, "m", "MatMul", "n w", "T=float");
    node(x, "y", "Neg", "m", "T=float");
    for (int i = 0; i < SESSIONS; i++)
        o[i] = open_one(x, "y", &options);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < SESSIONS; i++) { /* each value of the graph takes 1 MB */
            run_one(&o[i], 1 << 16);
            assert_true(atomic_load(&idle_cache->idle.used) <= idle_cache->idle.limit);
        }
    size_t bytes = 0;
    for (int i = 0; i < SESSIONS; i++) {
        struct rt_session_stats stats;
        rt_session_stats(o[i].session, &stats);
        bytes += stats.idle_bytes;
    }
    assert_true(bytes >= 1 << 20);
    assert_int_equal(bytes, atomic_load(&idle_cache->idle.used));
    for (int i = 0; i < SESSIONS; i++)
        rt_session_free(o[i].session);
    assert_int_equal(atomic_load(&idle_cache->idle.used), 0);
    rt_idle_cache_free(idle_cache);
}

struct user {
    const struct opened *o;
    int first;
    pthread_t thread;
};

static void *use_all(void *arg)
{
    const struct user *u = arg;
    for (int i = 0; i < 200; i++)
        run_one(&u->o[(u->first + i) % SESSIONS], 1 << (i + u->first) % 12);
    return NULL;
}

static void threads_give_way_to_each_other(void **state)
{
    struct tiers *x = *state;
    struct rt_idle_cache *idle_cache = rt_idle_cache_new(200 << 10, 32 << 10);
    struct rt_session_options options = {
        .registry = x->ops, .idle_cache = idle_cache, .compiles_inline = true};
    struct opened o[SESSIONS];
    struct user u[4];
    constants(x);
    node(x, "n", "MatMul", "x w", "T=float");
    node(x, "m", "MatMul", "n w", "T=float");
    node(x, "y", "Neg", "m", "T=float");
    for (int i = 0; i < SESSIONS; i++)
        o[i] = open_one(x, "y", &options);
    for (int i = 0; i < 4; i++) {
        u[i] = (struct user){.o = o, .first = i * 5};
        assert_int_equal(pthread_create(&u[i].thread, NULL, use_all, &u[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(u[i].thread, NULL);
    assert_true(atomic_load(&idle_cache->idle.used) <= idle_cache->idle.limit);
    for (int i = 0; i < SESSIONS; i++)
        rt_session_free(o[i].session);
    assert_int_equal(atomic_load(&idle_cache->idle.used), 0);
    rt_idle_cache_free(idle_cache);
}

static void a_run_holds_no_more_than_its_limit(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "y", "MatrixInverse", "x", "T=float");
    /* The kernel's scratch memory takes 2,099,264 bytes, and its output takes 262,144 bytes. */
    for (int i = 0; i < 4; i++) {
        const struct rt_session_options options = {.registry = x->ops,
                                                   .tuning = {.no_specialise = i % 2},
                                                   .compiles_inline = true,
                                                   .run_memory_limit =
                                                       i < 2 ? 2400 << 10 : 2100 << 10};
        struct opened o = open_one(x, "y", &options);
        struct rt_tensor t, y;
        assert_ok(rt_tensor_new(&t, NULL, RT_F32, 2, (int64_t[]){256, 256}, &x->err), &x->err);
        memset(t.data, 0, rt_tensor_bytes(&t));
        for (int k = 0; k < 256; k++)
            ((float *)t.data)[257 * k] = 2;
        for (int again = 0; again < 3; again++) {
            const enum rt_status st = rt_callable_run(o.call, &t, &y, NULL, &x->err);
            assert_int_equal(st, i < 2 ? RT_OK : RT_RESOURCE_EXHAUSTED);
            if (!st)
                rt_tensor_clear(&y);
        }
        rt_tensor_clear(&t);
        rt_session_free(o.session);
    }
}

static void a_run_ends_at_its_deadline(void **state)
{
    struct tiers *x = *state;
    char in[32], name[32];
    constants(x);
    node(x, "v0", "Identity", "x", "T=float");
    for (int i = 1; i < 300; i++) {
        snprintf(name, sizeof name, "v%d", i);
        snprintf(in, sizeof in, "v%d", i - 1);
        node(x, name, "Neg", in, "T=float");
    }
    tiers_open(x, "x", (const char *[]){"v299"}, 1);
    struct rt_tensor t = rows(4), y;
    assert_ok(rt_callable_run(x->call[1], &t, &y, NULL, &x->err), &x->err);
    rt_tensor_clear(&y);
    assert_int_equal(tiers_specialisations(x), 1);
    assert_int_equal(rt_callable_run(x->call[1], &t, &y,
                                     &(struct rt_run_options){.deadline_ns = rt_now_ns() - 1},
                                     &x->err),
                     RT_DEADLINE_EXCEEDED);
    _Atomic bool cancelled = true;
    assert_int_equal(rt_callable_run(x->call[1], &t, &y,
                                     &(struct rt_run_options){.cancelled = &cancelled}, &x->err),
                     RT_CANCELLED);
    rt_tensor_clear(&t);
}

static void a_trace_tells_of_every_step(void **state)
{
    struct tiers *x = *state;
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "y", "AddV2", "n half", "T=float");
    tiers_open(x, "x", (const char *[]){"y"}, 1);
    compare_rows(x, 2);
    struct rt_trace trace = {.arena = rt_arena_new(1 << 20), .wants_times = true};
    struct rt_tensor t = rows(2), y;
    assert_ok(
        rt_callable_run(x->call[1], &t, &y, &(struct rt_run_options){.trace = &trace}, &x->err),
        &x->err);
    assert_int_equal(trace.n_nodes, 2);
    assert_string_equal(trace.first->name, "n");
    assert_string_equal(trace.last->op, "AddV2");
    assert_int_equal(trace.last->outputs[0].shape.dim[0], 2);
    rt_tensor_clear(&y);
    rt_tensor_clear(&t);
    rt_arena_free(trace.arena);
}

static void idle_memory_takes_no_others_budget(void **state)
{
    struct tiers *x = *state;
    struct rt_budget budget = {.limit = (size_t)24 << 20};
    struct rt_session_options options = {
        .registry = x->ops, .budget = &budget, .compiles_inline = true};
    constants(x);
    node(x, "m", "MatMul", "x w", "T=float");
    node(x, "m2", "MatMul", "m w", "T=float");
    node(x, "m3", "MatMul", "m2 w", "T=float");
    node(x, "y", "Neg", "m3", "T=float");
    open_compiled(x, &options);
    /* Each of three values takes 16 bytes per row. Two of the values are in the activation buffer,
     * and one is fetched. */
    for (int i = 0; i < 6; i++) {
        struct rt_tensor t = rows((5 << 20) / 16 + i * 100), y;
        assert_ok(rt_callable_run(x->call[1], &t, &y, NULL, &x->err), &x->err);
        rt_tensor_clear(&y);
        rt_tensor_clear(&t);
        assert_true(atomic_load(&budget.used) <= budget.limit / 2);
    }
    assert_int_equal(tiers_specialisations(x), 6);
    close_compiled(x);
    assert_int_equal(atomic_load(&budget.used), 0);
}

struct runner {
    struct tiers *x;
    int first;
    pthread_t thread;
};

static void *run_many(void *arg)
{
    const struct runner *r = arg;
    for (int i = 0; i < 300; i++) {
        struct rt_error err = {0};
        int n = (r->first + i) % 70;
        struct rt_tensor t = rows(n), y;
        assert_ok(rt_callable_run(r->x->call[1], &t, &y, NULL, &err), &err);
        for (int k = 0; k < 4 * n; k++)
            assert_true(((float *)y.data)[k] == ((float *)t.data)[k]);
        rt_tensor_clear(&y);
        rt_tensor_clear(&t);
    }
    return NULL;
}

static void shapes_may_change_on_many_threads(void **state)
{
    struct tiers *x = *state;
    struct runner r[4];
    char in[32], name[32];
    constants(x);
    node(x, "v0", "Identity", "x", "T=float");
    for (int i = 1; i <= 20; i++) {
        snprintf(name, sizeof name, "v%d", i);
        snprintf(in, sizeof in, "v%d", i - 1);
        node(x, name, "Neg", in, "T=float");
    }
    tiers_open(x, "x", (const char *[]){"v20"}, 1);
    for (int i = 0; i < 4; i++) {
        r[i] = (struct runner){.x = x, .first = i * 5};
        assert_int_equal(pthread_create(&r[i].thread, NULL, run_many, &r[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(r[i].thread, NULL);
}

static void run_rows(struct tiers *x, int n)
{
    struct rt_tensor t = rows(n), y;
    assert_ok(rt_callable_run(x->call[1], &t, &y, NULL, &x->err), &x->err);
    rt_tensor_clear(&y);
    rt_tensor_clear(&t);
}

static void a_shape_is_compiled_when_it_recurs(void **state)
{
    struct tiers *x = *state;
    struct rt_session_options options = {.registry = x->ops};
    constants(x);
    node(x, "y", "Neg", "x", "T=float");
    open_compiled(x, &options);
    run_rows(x, 3);
    assert_int_equal(rt_session_compile(x->tier[1]), 0);
    for (int i = 0; i < 4; i++)
        run_rows(x, 3);
    assert_int_equal(tiers_specialisations(x), 0);
    assert_int_equal(rt_session_compile(x->tier[1]), 1);
    assert_int_equal(rt_session_compile(x->tier[1]), 0);
    assert_int_equal(tiers_specialisations(x), 1);
    struct rt_shape shape = {.rank = 2, .dim = {9, 4}};
    rt_callable_request_compilation(x->call[1], &shape);
    assert_int_equal(tiers_specialisations(x), 1);
    assert_int_equal(rt_session_compile(x->tier[1]), 1);
    assert_int_equal(tiers_specialisations(x), 2);
    rt_callable_request_compilation(x->call[1], &shape);
    assert_int_equal(rt_session_compile(x->tier[1]), 0);
}

static void a_compiler_does_so_beside_the_runs(void **state)
{
    struct tiers *x = *state;
    struct rt_compiler *compiler = rt_compiler_new();
    struct rt_session_options options = {.registry = x->ops, .compiler = compiler};
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "y", "Tanh", "n", "T=float");
    for (int round = 0; round < 3; round++) {
        open_compiled(x, &options);
        for (int i = 0; i < 40; i++)
            run_rows(x, i % 10);
        if (round < 2) {
            rt_compiler_wait(compiler);
            assert_int_equal(tiers_specialisations(x), 10);
        } /* In the last round, the session may be freed while the compiler works on it. */
        close_compiled(x);
    }
    rt_compiler_free(compiler);
}

static void a_compiler_leaves_what_is_compiled_at_once(void **state)
{
    struct tiers *x = *state;
    struct rt_compiler *compiler = rt_compiler_new();
    struct rt_session_options options = {.registry = x->ops, .compiler = compiler};
    struct rt_shape shape = {.rank = 2, .dim = {50, 4}};
    constants(x);
    node(x, "n", "Neg", "x", "T=float");
    node(x, "y", "Tanh", "n", "T=float");
    open_compiled(x, &options);
    /* the compiler may make specialisations for the ten shapes at the same time */
    for (int i = 0; i < 40; i++)
        run_rows(x, i % 10);
    rt_session_loading(x->tier[1], true, NULL);
    const int before = tiers_specialisations(x) + rt_session_compile(x->tier[1]);
    assert_int_equal(before, 10);
    for (int n = 20; n < 25; n++)
        run_rows(x, n);
    rt_callable_request_compilation(x->call[1], &shape);
    rt_compiler_wait(compiler);
    assert_int_equal(tiers_specialisations(x), 10);
    assert_int_equal(rt_session_compile(x->tier[1]), 6);
    run_rows(x, 30); /* the shape with 30 rows is specialised when loading ends */
    rt_session_loading(x->tier[1], false, NULL);
    rt_compiler_wait(compiler);
    assert_int_equal(tiers_specialisations(x), 17);
    close_compiled(x);
    rt_compiler_free(compiler);
}

/* The callables of one session together need more specialisations than the session may store. Each
 * callable runs on its own thread, concurrently with the compiler's thread, so plans evict each
 * other's specialisations while they run. */
enum { RIVALS = 8, RIVAL_RUNS = 1500, RUNS_PER_SHAPE = 3 };

struct rival {
    struct rt_callable *call;
    struct rt_compiler *compiler;
    pthread_t thread;
    enum rt_status failed;
};

static void *run_rival(void *arg)
{
    struct rival *r = arg;
    struct rt_error err = {0};
    for (int i = 0; i < RIVAL_RUNS && !r->failed; i++) {
        struct rt_tensor t = rows(1 + i / RUNS_PER_SHAPE), y = {0};
        r->failed = rt_callable_run(r->call, &t, &y, NULL, &err);
        if (!r->failed && y.dim[0] != t.dim[0])
            r->failed = RT_INTERNAL;
        rt_tensor_clear(&y);
        rt_tensor_clear(&t);
        if (i % RUNS_PER_SHAPE == RUNS_PER_SHAPE - 1)
            rt_compiler_wait(r->compiler);
    }
    return NULL;
}

static void specialisations_of_many_plans_take_each_others_place(void **state)
{
    struct tiers *x = *state;
    struct rt_idle_cache *idle_cache =
        rt_idle_cache_new(RT_IDLE_CACHE_BYTES, RT_IDLE_CACHE_SPECIALISATION_BYTES);
    struct rt_compiler *compiler = rt_compiler_new();
    struct rt_session_options options = {
        .registry = x->ops, .idle_cache = idle_cache, .compiler = compiler};
    struct rival rivals[RIVALS] = {{.call = NULL}};
    const char *fetch[RIVALS] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    constants(x);
    for (int i = 0; i < RIVALS; i++)
        node(x, fetch[i], "Neg", i ? fetch[i - 1] : "x", "T=float");
    struct opened o = open_one(x, fetch[0], &options);
    for (int i = 0; i < RIVALS; i++) {
        rivals[i].compiler = compiler;
        rivals[i].call = gs_call(o.session, "x", fetch[i]);
    }
    for (int i = 0; i < RIVALS; i++)
        assert_int_equal(rt_thread_start(&rivals[i].thread, "rival", run_rival, &rivals[i]), 0);
    for (int i = 0; i < RIVALS; i++) {
        pthread_join(rivals[i].thread, NULL);
        assert_int_equal(rivals[i].failed, RT_OK);
    }
    rt_compiler_wait(compiler);
    struct rt_session_stats stats;
    rt_session_stats(o.session, &stats);
    assert_true(stats.n_specialisations > 0 && stats.n_specialisations <= 256);
    assert_int_equal(stats.n_specialisations, rt_idle_cache_specialisations(idle_cache));
    assert_int_equal(stats.specialisation_bytes, atomic_load(&idle_cache->specialisations.used));
    rt_session_free(o.session);
    assert_int_equal(atomic_load(&idle_cache->specialisations.used), 0);
    rt_compiler_free(compiler);
    rt_idle_cache_free(idle_cache);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tiers_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(views_share_bytes_and_may_be_fetched),
        TEST(values_that_follow_from_shapes_are_known),
        TEST(segments_end_where_shapes_follow_from_values),
        TEST(fed_values_are_no_part_of_a_specialisation),
        TEST(errors_say_the_same),
        TEST(what_no_run_could_hold_is_refused),
        TEST(any_graph_answers_the_same),
        TEST(what_is_kept_is_bounded),
        TEST(specialisations_of_many_sessions_are_bounded),
        TEST(idle_memory_of_many_sessions_is_bounded),
        TEST(threads_give_way_to_each_other),
        TEST(a_run_holds_no_more_than_its_limit),
        TEST(a_run_ends_at_its_deadline),
        TEST(a_trace_tells_of_every_step),
        TEST(idle_memory_takes_no_others_budget),
        TEST(shapes_may_change_on_many_threads),
        TEST(a_shape_is_compiled_when_it_recurs),
        TEST(a_compiler_does_so_beside_the_runs),
        TEST(specialisations_of_many_plans_take_each_others_place),
        TEST(a_compiler_leaves_what_is_compiled_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

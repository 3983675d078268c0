/* Tests that graphs with many inputs, values, arguments or frames load in time proportional to
 * their size. */
#include "tests/support/test.h"

#include <time.h>

#include "runtime/base/arena.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"
#include "tests/support/registry.h"
#include "tests/unit/limits/graph_attempt.h"

/* Writes n names that end in the numbers 0 to n - 1: "x0 x1 x2". */
static void names(struct rt_bytes *out, const char *prefix, int n)
{
    rt_bytes_init(out, 1 << 24);
    for (int i = 0; i < n; i++)
        rt_bytes_addf(out, "%s%s%d", i ? " " : "", prefix, i);
}

static void many_nodes(struct rt_bytes *g, const char *prefix, int n, const char *op,
                       const char *inputs, const char *attrs)
{
    char name[20];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s%d", prefix, i);
        gd_node(g, name, op, inputs, attrs);
    }
}

static void sum(struct rt_bytes *g, const char *y, const char *prefix, int n)
{
    struct rt_bytes inputs;
    char attrs[40];
    names(&inputs, prefix, n);
    snprintf(attrs, sizeof attrs, "T=float N=%d", n);
    gd_node(g, y, "AddN", inputs.p, attrs);
    rt_bytes_clear(&inputs);
}

static void inputs_that_nothing_reads(struct rt_bytes *g, int n)
{
    many_nodes(g, "x", n, "Placeholder", "", "dtype=float");
    gd_node(g, "y", "Neg", "x0", "T=float");
}

static void inputs_of_one_node(struct rt_bytes *g, int n)
{
    many_nodes(g, "x", n, "Placeholder", "", "dtype=float");
    sum(g, "y", "x", n);
}

static void values_of_one_node(struct rt_bytes *g, int n)
{
    gd_node(g, "x0", "Placeholder", "", "dtype=float");
    many_nodes(g, "n", n, "Neg", "x0", "T=float");
    sum(g, "y", "n", n);
}

static void parts_of_one_concat(struct rt_bytes *g, int n)
{
    struct rt_bytes inputs;
    char attrs[60];
    many_nodes(g, "x", n, "Placeholder", "", "dtype=float");
    gd_node(g, "axis", "Const", "", "dtype=int32 value=int32<>:0");
    names(&inputs, "x", n);
    rt_bytes_adds(&inputs, " axis");
    snprintf(attrs, sizeof attrs, "T=float Tidx=int32 N=%d", n);
    gd_node(g, "y", "ConcatV2", inputs.p, attrs);
    rt_bytes_clear(&inputs);
}

static void arguments_of_one_function(struct rt_bytes *g, int n)
{
    struct rt_bytes inputs, args, attrs, nodes;
    gd_node(g, "x0", "Placeholder", "", "dtype=float");
    many_nodes(g, "n", n, "Neg", "x0", "T=float");
    names(&inputs, "n", n);
    rt_bytes_init(&args, 1 << 24);
    rt_bytes_init(&attrs, 1 << 24);
    rt_bytes_init(&nodes, 1 << 24);
    rt_bytes_adds(&attrs, "Tout=[float] f=@f Tin=[");
    for (int i = 0; i < n; i++) {
        rt_bytes_addf(&args, "%sa%d:float", i ? " " : "", i);
        rt_bytes_addf(&attrs, "%sfloat", i ? "," : "");
    }
    rt_bytes_addc(&attrs, ']');
    sum(&nodes, "s", "a", n);
    gd_function(g, "f", args.p, "o:float", &nodes, "o=s:sum:0", "");
    gd_node(g, "y", "PartitionedCall", inputs.p, attrs.p);
    rt_bytes_clear(&inputs);
    rt_bytes_clear(&args);
    rt_bytes_clear(&attrs);
    rt_bytes_clear(&nodes);
}

static void enter(struct rt_bytes *g, const char *name, const char *input, const char *frame)
{
    struct rt_bytes attrs;
    rt_bytes_init(&attrs, 1 << 24);
    rt_bytes_addf(&attrs, "T=float frame_name='%s' is_constant=false parallel_iterations=1", frame);
    gd_node(g, name, "Enter", input, attrs.p);
    rt_bytes_clear(&attrs);
}

/* A chain of n / 8 loops in the form that TensorFlow 1's tf.while_loop writes. The frames of all
 * loops have the same name of n / 4 bytes. */
static void loops_in_frames_of_one_name(struct rt_bytes *g, int n)
{
    static const struct {
        const char *name, *op, *inputs, *attrs;
    } nodes[] = {
        {"m", "Merge", "e# n#", "T=float N=2"},
        {"k", "Const", "^m#", "dtype=bool value=bool<>:false"},
        {"c", "LoopCond", "k#", ""},
        {"s", "Switch", "m# c#", "T=float"},
        {"b", "Neg", "s#:1", "T=float"},
        {"n", "NextIteration", "b#", "T=float"},
        {"o", "Exit", "s#", "T=float"},
    };
    const size_t size = (size_t)n / 4;
    char *frame = malloc(size + 1), name[20], inputs[60], from[20] = "x0";
    memset(frame, 'f', size);
    frame[size] = '\0';
    gd_node(g, "x0", "Placeholder", "", "dtype=float");
    for (int i = 0; i < n / 8; i++) {
        snprintf(name, sizeof name, "e%d", i);
        enter(g, name, from, frame);
        for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++) {
            snprintf(name, sizeof name, "%s%d", nodes[k].name, i);
            ga_numbered(nodes[k].inputs, i, inputs);
            gd_node(g, name, nodes[k].op, inputs, nodes[k].attrs);
        }
        snprintf(from, sizeof from, "o%d", i);
    }
    gd_node(g, "y", "Identity", from, "T=float");
    free(frame);
}

static void frames_side_by_side(struct rt_bytes *g, int n)
{
    char name[20], frame[20];
    gd_node(g, "x0", "Placeholder", "", "dtype=float");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "e%d", i);
        snprintf(frame, sizeof frame, "f%d", i);
        enter(g, name, "x0", frame);
        snprintf(frame, sizeof frame, "o%d", i);
        gd_node(g, frame, "Exit", name, "T=float");
    }
    sum(g, "y", "o", n);
}

/* n nodes in one frame, each with two input edges. The frame's name has 50 * n bytes. */
static void edges_into_a_frame_with_a_long_name(struct rt_bytes *g, int n)
{
    const size_t size = 50 * (size_t)n;
    char *frame = malloc(size + 1);
    memset(frame, 'f', size);
    frame[size] = '\0';
    gd_node(g, "x0", "Placeholder", "", "dtype=float");
    enter(g, "e0", "x0", frame);
    enter(g, "e1", "x0", frame);
    many_nodes(g, "n", n, "AddV2", "e0 e1", "T=float");
    sum(g, "s", "n", n);
    gd_node(g, "y", "Exit", "s", "T=float");
    free(frame);
}

struct grows {
    const char *name;
    void (*build)(struct rt_bytes *g, int n);
    bool feeds_all; /* whether the graph's inputs are x0 to x(n-1) instead of only x0 */
};

static double cpu_seconds(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns the CPU time from the import of the graph to the end of its second run, which is
 * compiled. */
static double seconds_to_load(const struct grows *of, int n)
{
    const int n_feeds = of->feeds_all ? n : 1;
    const char **feeds = calloc((size_t)n_feeds, sizeof *feeds), *fetch = "y:0";
    struct rt_tensor *in = calloc((size_t)n_feeds, sizeof *in), out = {0};
    struct rt_shape *shapes = calloc((size_t)n_feeds, sizeof *shapes);
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct rt_session_options options = {.registry = test_registry};
    struct rt_error err = {0};
    struct rt_missing *missing;
    struct rt_callable *call;
    struct rt_library *l;
    struct rt_session *s;
    struct rt_bytes g;
    float one = 1;
    int n_missing;

    rt_bytes_init(&g, 1 << 26);
    of->build(&g, n);
    for (int i = 0; i < n_feeds; i++) {
        feeds[i] = rt_arena_printf(arena, "x%d:0", i);
        in[i] = (struct rt_tensor){.dtype = RT_F32, .rank = 1, .dim = {1}, .data = &one};
        shapes[i] = (struct rt_shape){.rank = 1, .dim = {1}};
    }
    const struct rt_call_spec spec = {
        .feeds = feeds, .fetches = &fetch, .n_feeds = n_feeds, .n_fetches = 1};
    const double start = cpu_seconds();
    assert_ok(rt_library_import(&l, gd_span(&g), test_registry, &err), &err);
    assert_ok(rt_session_new(&s, l, &options, &err), &err);
    assert_ok(rt_session_missing(s, &spec, arena, &missing, &n_missing, &err), &err);
    assert_int_equal(n_missing, 0);
    assert_ok(rt_session_prepare(s, &spec, &call, &err), &err);
    (void)rt_callable_is_rowwise(call, shapes, &err);
    rt_callable_request_compilation(call, shapes);
    for (int turn = 0; turn < 2; turn++) {
        rt_session_compile(s);
        assert_ok(rt_callable_run(call, in, &out, NULL, &err), &err);
        rt_tensor_clear(&out);
    }
    const double seconds = cpu_seconds() - start;
    rt_session_free(s);
    rt_arena_free(arena);
    rt_bytes_clear(&g);
    free(feeds);
    free(shapes);
    free(in);
    return seconds;
}

/* In measurements, a graph eight times as large took 8 to 12 times as long. A quadratic algorithm
 * would take up to 64 times as long. */
static void loading_takes_time_in_proportion_to_the_graph(void **state)
{
    (void)state;
    enum { SMALL = 4000, LARGE = 8 * SMALL, MAX_RATIO = 24, ATTEMPTS = 3 };
    static const struct grows graphs[] = {
        {"inputs that nothing reads", inputs_that_nothing_reads, true},
        {"inputs of one node", inputs_of_one_node, true},
        {"values of one node", values_of_one_node, false},
        {"parts of one concat", parts_of_one_concat, true},
        {"arguments of one function", arguments_of_one_function, false},
        {"loops of one name", loops_in_frames_of_one_name, false},
        {"frames side by side", frames_side_by_side, false},
        {"edges into one frame", edges_into_a_frame_with_a_long_name, false},
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        double ratio = 1e9;
        for (int k = 0; k < ATTEMPTS && ratio > MAX_RATIO; k++) {
            const double small = seconds_to_load(&graphs[i], SMALL);
            const double large = seconds_to_load(&graphs[i], LARGE);
            print_message("%-26s %d: %.3f s, %d: %.3f s\n", graphs[i].name, SMALL, small, LARGE,
                          large);
            ratio = large / small;
        }
        if (ratio > MAX_RATIO)
            fail_msg("%s: %d of them take %.1f times as long as %d", graphs[i].name, LARGE, ratio,
                     SMALL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_takes_time_in_proportion_to_the_graph),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}

/*
 * Graphs that are small in bytes and large in what they name: deep, wide or self-referring
 * functions, branches, loops and attributes. Each is imported, searched for what is missing,
 * planned, run and freed in a process of its own, on a thread with a small stack; it may be
 * refused, with the limit in the text, but never takes more memory or time than its bounds. And
 * graphs that are as large as their bytes: they take time in proportion.
 */
#include "tests/support/test.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/api/describe.h"
#include "runtime/session/session.h"
#include "tests/support/graph_def.h"
#include "tests/support/registry.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* A sixteenth of the 8 MB that the server's threads have (glibc's default, no attribute is set);
 * sanitizers' frames are several times larger. */
enum { STACK = 512 << 10, STACK_SANITIZED = 4 << 20, MAX_MB = 256, MAX_S = 5, TEXT = 2000 };

static struct rt_bytes graph; /* of the child: built before the thread starts */

struct outcome {
    enum rt_status status;
    char text[TEXT];
};

static void *work(void *arg)
{
    static char buffer[TEXT];
    struct outcome *o = arg;
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_error err = {.arena = rt_arena_new(1 << 20)};
    const char *feed = "x:0", *fetch = "y:0";
    struct rt_call_spec spec = {.feeds = &feed, .fetches = &fetch, .n_feeds = 1, .n_fetches = 1};
    struct rt_session_options options = {.registry = test_registry, .run_memory_limit = 64 << 20};
    struct rt_arena *arena = rt_arena_new(SIZE_MAX);
    struct rt_missing *missing;
    struct rt_callable *call;
    int n_missing = 0;
    bool yes = true;
    struct rt_tensor in = {.dtype = RT_BOOL, .data = &yes}, out = {0};

    o->status = rt_library_import(&l, gd_span(&graph), test_registry, &err);
    if (!o->status)
        o->status = rt_session_new(&s, l, &options, &err);
    if (o->status)
        rt_library_free(l);
    if (!o->status)
        o->status = rt_session_missing(s, &spec, arena, &missing, &n_missing, &err);
    if (!o->status || (s && getenv("SKIP_MISSING")))
        o->status = rt_session_prepare(s, &spec, &call, &err);
    for (int turn = 0; turn < 3 && !o->status; turn++) { /* node by node, then compiled */
        struct rt_run_options run = {.deadline_ns = rt_now_ns() + INT64_C(20000000000)};
        rt_tensor_clear(&out);
        o->status = rt_callable_run(call, &in, &out, &run, &err);
        rt_session_compile(s);
    }
    if (!o->status) {
        const struct rt_shape rows = {.rank = 1, .dim = {-1}};
        struct rt_described_plan plan;
        struct rt_error ignored = {0};
        (void)rt_callable_is_rowwise(call, &rows, &ignored);
        o->status = rt_callable_describe(call, arena, &plan, &err);
    }
    rt_tensor_clear(&out);
    if (o->status)
        snprintf(buffer, sizeof buffer, "%s", rt_error_text(&err));
    memcpy(o->text, buffer, sizeof buffer);
    rt_session_free(s);
    rt_arena_free(arena);
    rt_arena_free(err.arena);
    return NULL;
}

static void child(void (*build)(struct rt_bytes *g), int to)
{
    static struct outcome o;
    pthread_attr_t attr;
    pthread_t thread;

    rt_bytes_init(&graph, 1 << 26);
    build(&graph);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SANITIZED ? STACK_SANITIZED : STACK);
    if (pthread_create(&thread, &attr, work, &o) || pthread_join(thread, NULL) ||
        write(to, &o, sizeof o) != (ssize_t)sizeof o)
        _exit(2);
    rt_bytes_clear(&graph);
    _exit(0);
}

/* `words`: in the error; NULL: it must run. */
static void attempt(const char *name, void (*build)(struct rt_bytes *g), const char *words)
{
    struct outcome o = {0};
    struct rusage use;
    int pipes[2], status;
    const int64_t start = rt_now_ns();

    assert_int_equal(pipe(pipes), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(build, pipes[1]);
    close(pipes[1]);
    const ssize_t n = read(pipes[0], &o, sizeof o);
    close(pipes[0]);
    assert_int_equal(wait4(pid, &status, 0, &use), pid);
    const double seconds = (double)use.ru_utime.tv_sec + (double)use.ru_utime.tv_usec / 1e6 +
                           (double)use.ru_stime.tv_sec + (double)use.ru_stime.tv_usec / 1e6;
    print_message("%-24s %4ld MB %5.2f s (wall %.2f) %s\n", name, use.ru_maxrss >> 10, seconds,
                  (double)(rt_now_ns() - start) / 1e9, o.text);
    if (n != (ssize_t)sizeof o || status)
        fail_msg("%s: the process died with %#x", name, status);
    if (words && (!o.status || !strstr(o.text, words)))
        fail_msg("%s: \"%s\" does not hold \"%s\"", name, o.text, words);
    if (!words && o.status)
        fail_msg("%s: %s", name, o.text);
    if (!SANITIZED && use.ru_maxrss >> 10 > MAX_MB)
        fail_msg("%s: took %ld MB, at most %d", name, use.ru_maxrss >> 10, MAX_MB);
    if (seconds > MAX_S * (SANITIZED ? 10 : 1))
        fail_msg("%s: took %.1f s, at most %d", name, seconds, MAX_S);
}

/* ---- graphs ---- */

static void main_call(struct rt_bytes *g, const char *f)
{
    char attrs[200];
    snprintf(attrs, sizeof attrs, "Tin=[bool] Tout=[bool] f=@%s", f);
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", attrs);
}

/* One function of one bool to one bool: `nodes` leaves the result in node "r". */
static void function(struct rt_bytes *g, const char *name, const char *op, const char *inputs,
                     const char *attrs)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", op, inputs, attrs);
    const bool calls = strcmp(op, "Identity") != 0;
    gd_function(g, name, "a:bool", "o:bool", &nodes, calls ? "o=r:output:0" : "o=r:output:0", "");
    rt_bytes_clear(&nodes);
}

enum { CHAIN = 12000 };

/* `out`: `text` with each '#' as the number. */
static void numbered(const char *text, int number, char *out)
{
    for (; *text; text++)
        if (*text == '#')
            out += snprintf(out, 12, "%d", number);
        else
            *out++ = *text;
    *out = '\0';
}

static void chain(struct rt_bytes *g, int n, const char *op, const char *inputs, const char *attrs)
{
    char name[20], text[300];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "f%d", i);
        numbered(attrs, i + 1, text);
        function(g, name, op, inputs, text);
    }
    snprintf(name, sizeof name, "f%d", n);
    function(g, name, "Identity", "a", "T=bool");
    main_call(g, "f0");
}

#define CALL  "Tin=[bool] Tout=[bool] f=@f#"
#define IF    "Tcond=bool Tin=[bool] Tout=[bool] then_branch=@f# else_branch=@f# output_shapes=[]"
#define CASE  "Tin=[bool] Tout=[bool] branches=[@f#,@f#,@f#,@f#] output_shapes=[]"
#define WHILE "T=[bool] cond=@f# body=@f# output_shapes=[] parallel_iterations=10"

static void short_chain_of_calls(struct rt_bytes *g)
{
    chain(g, 150, "PartitionedCall", "a", CALL);
}
static void long_chain_of_calls(struct rt_bytes *g)
{
    chain(g, CHAIN, "PartitionedCall", "a", CALL);
}
static void long_chain_of_stateful_calls(struct rt_bytes *g)
{
    chain(g, CHAIN, "StatefulPartitionedCall", "a", CALL);
}
static void long_chain_of_branches(struct rt_bytes *g)
{
    chain(g, CHAIN, "If", "a a", IF);
}
static void long_chain_of_loops(struct rt_bytes *g)
{
    chain(g, CHAIN, "While", "a", WHILE);
}
static void doubling_branches(struct rt_bytes *g)
{
    chain(g, 20, "If", "a a", IF);
}
static void doubling_stateless_branches(struct rt_bytes *g)
{
    chain(g, 20, "StatelessIf", "a a", IF);
}
static void doubling_loops(struct rt_bytes *g)
{
    chain(g, 20, "StatelessWhile", "a", WHILE);
}

static void quadrupling_cases(struct rt_bytes *g)
{
    char name[20], attrs[300];
    for (int i = 0; i < 20; i++) {
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 20);
        gd_node(&nodes, "k", "Cast", "a", "SrcT=bool DstT=int32");
        numbered(CASE, i + 1, attrs);
        gd_node(&nodes, "r", "StatelessCase", "k:y:0 a", attrs);
        snprintf(name, sizeof name, "f%d", i);
        gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:output:0", "");
        rt_bytes_clear(&nodes);
    }
    function(g, "f20", "Identity", "a", "T=bool");
    main_call(g, "f0");
}

static void doubling_calls(struct rt_bytes *g)
{
    char name[20], attrs[300];
    for (int i = 0; i < 40; i++) {
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 20);
        numbered(CALL, i + 1, attrs);
        gd_node(&nodes, "p", "PartitionedCall", "a", attrs);
        gd_node(&nodes, "q", "PartitionedCall", "a", attrs);
        gd_node(&nodes, "r", "LogicalAnd", "p:output:0 q:output:0", "");
        snprintf(name, sizeof name, "f%d", i);
        gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:z:0", "");
        rt_bytes_clear(&nodes);
    }
    function(g, "f40", "Identity", "a", "T=bool");
    main_call(g, "f0");
}

static void function_that_calls_itself(struct rt_bytes *g)
{
    function(g, "f0", "PartitionedCall", "a", "Tin=[bool] Tout=[bool] f=@f0");
    main_call(g, "f0");
}

static void functions_that_call_each_other(struct rt_bytes *g)
{
    function(g, "f0", "PartitionedCall", "a", "Tin=[bool] Tout=[bool] f=@f1");
    function(g, "f1", "If", "a a",
             "Tcond=bool Tin=[bool] Tout=[bool] then_branch=@f0 else_branch=@f0 output_shapes=[]");
    main_call(g, "f0");
}

static void branch_that_calls_itself(struct rt_bytes *g)
{
    function(g, "f0", "If", "a a",
             "Tcond=bool Tin=[bool] Tout=[bool] then_branch=@f0 else_branch=@f0 output_shapes=[]");
    main_call(g, "f0");
}

static void loop_that_calls_itself(struct rt_bytes *g)
{
    function(g, "f0", "While", "a", "T=[bool] cond=@f0 body=@f0 output_shapes=[]");
    main_call(g, "f0");
}

/* f calls f with the attribute h, which is a function given the h of before. */
static void growing_attribute(struct rt_bytes *g)
{
    function(g, "f0", "PartitionedCall", "a", "Tin=[bool] Tout=[bool] f=@f0(h=@f0(h=$h))");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", "Tin=[bool] Tout=[bool] f=@f0(h=@f0)");
}

/* The same, twice as large each time. */
static void doubling_attribute(struct rt_bytes *g)
{
    function(g, "f0", "PartitionedCall", "a",
             "Tin=[bool] Tout=[bool] f=@f0(h=[@f0(h=$h),@f0(h=$h)])");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", "Tin=[bool] Tout=[bool] f=@f0(h=[@f0])");
}

/* Every level calls the next with two different attributes: 2^30 bodies of 30 functions. */
static void doubling_bodies(struct rt_bytes *g)
{
    char name[20], attrs[300];
    for (int i = 0; i < 30; i++) {
        struct rt_bytes nodes;
        rt_bytes_init(&nodes, 1 << 20);
        numbered("Tin=[bool] Tout=[bool] f=@f#(h=@a(h=$h))", i + 1, attrs);
        gd_node(&nodes, "p", "PartitionedCall", "a", attrs);
        numbered("Tin=[bool] Tout=[bool] f=@f#(h=@b(h=$h))", i + 1, attrs);
        gd_node(&nodes, "q", "PartitionedCall", "a", attrs);
        gd_node(&nodes, "r", "LogicalAnd", "p:output:0 q:output:0", "");
        snprintf(name, sizeof name, "f%d", i);
        gd_function(g, name, "a:bool", "o:bool", &nodes, "o=r:z:0", "");
        rt_bytes_clear(&nodes);
    }
    function(g, "f30", "Identity", "a", "T=bool");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "PartitionedCall", "x", "Tin=[bool] Tout=[bool] f=@f0(h=@a)");
}

/* x -> Enter * n -> Exit * n -> y, each Enter into a frame of its own. */
static void frames(struct rt_bytes *g, int n)
{
    char name[20], input[20], attrs[100];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    snprintf(input, sizeof input, "x");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "e%d", i);
        snprintf(attrs, sizeof attrs,
                 "T=bool frame_name='f%d' is_constant=false parallel_iterations=1", i);
        gd_node(g, name, "Enter", input, attrs);
        snprintf(input, sizeof input, "%s", name);
    }
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, i == n - 1 ? "y" : "x%d", i);
        gd_node(g, name, "Exit", input, "T=bool");
        snprintf(input, sizeof input, "%s", name);
    }
}
static void a_few_frames(struct rt_bytes *g)
{
    frames(g, 20);
}
static void nested_frames(struct rt_bytes *g)
{
    frames(g, 40000);
}

/* tf.while_loop as TensorFlow 1 writes it, n of them one inside the other's body. */
static void nested_loops(struct rt_bytes *g, int n)
{
    char name[40], input[40], attrs[100];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    snprintf(input, sizeof input, "x");
    for (int i = 0; i < n; i++) {
        char merge[90];
        snprintf(name, sizeof name, "e%d", i);
        snprintf(attrs, sizeof attrs,
                 "T=bool frame_name='f%d' is_constant=false parallel_iterations=1", i);
        gd_node(g, name, "Enter", input, attrs);
        snprintf(merge, sizeof merge, "e%d n%d", i, i);
        snprintf(name, sizeof name, "m%d", i);
        gd_node(g, name, "Merge", merge, "T=bool N=2");
        snprintf(name, sizeof name, "c%d", i);
        snprintf(merge, sizeof merge, "m%d", i);
        gd_node(g, name, "LoopCond", merge, "");
        snprintf(name, sizeof name, "s%d", i);
        snprintf(merge, sizeof merge, "m%d c%d", i, i);
        gd_node(g, name, "Switch", merge, "T=bool");
        snprintf(input, sizeof input, "s%d:1", i);
    }
    gd_node(g, "inside", "LogicalNot", input, "");
    snprintf(input, sizeof input, "inside");
    for (int i = n - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "n%d", i);
        gd_node(g, name, "NextIteration", input, "T=bool");
        snprintf(name, sizeof name, i ? "x%d" : "y", i);
        snprintf(input, sizeof input, "s%d", i);
        gd_node(g, name, "Exit", input, "T=bool");
        snprintf(input, sizeof input, "x%d", i);
    }
}
static void a_few_loops(struct rt_bytes *g)
{
    nested_loops(g, 6);
}
static void many_nested_loops(struct rt_bytes *g)
{
    nested_loops(g, 2000);
}

/* tf.cond as TensorFlow 1 writes it, n of them one inside the other. */
static void nested_conds(struct rt_bytes *g, int n)
{
    char name[40], input[100];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "p%d", i);
        snprintf(input, sizeof input, "s%d:1", i - 1);
        if (!i)
            snprintf(input, sizeof input, "x");
        gd_node(g, name, "LogicalNot", input, "");
        snprintf(name, sizeof name, "s%d", i);
        snprintf(input, sizeof input, "s%d:1 p%d", i - 1, i);
        if (!i)
            snprintf(input, sizeof input, "x p0");
        gd_node(g, name, "Switch", input, "T=bool");
    }
    for (int i = n - 1; i >= 0; i--) {
        snprintf(name, sizeof name, i ? "m%d" : "y", i);
        if (i == n - 1)
            snprintf(input, sizeof input, "s%d s%d:1", i, i);
        else
            snprintf(input, sizeof input, "s%d m%d", i, i + 1);
        gd_node(g, name, "Merge", input, "T=bool N=2");
    }
}
static void a_few_conds(struct rt_bytes *g)
{
    nested_conds(g, 20);
}
static void many_nested_conds(struct rt_bytes *g)
{
    nested_conds(g, CHAIN);
}

static void long_row_of_nodes(struct rt_bytes *g)
{
    char name[20], input[20] = "x";
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, i == 99999 ? "y" : "i%d", i);
        gd_node(g, name, i % 2 ? "Identity" : "LogicalNot", input, i % 2 ? "T=bool" : "");
        snprintf(input, sizeof input, "%s", name);
    }
}

/* A list that holds the list of the turn before: 50,000 lists, each in the next. */
static void lists_in_lists(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "n", "Const", "", "dtype=int32 value=int32<>:50000");
    gd_node(&nodes, "r", "Less", "i n:output:0", "T=int32");
    gd_function(g, "more", "i:int32 l:variant", "o:bool", &nodes, "o=r:z:0", "");
    rt_bytes_clear(&nodes);
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "one", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(&nodes, "shape", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(&nodes, "next", "AddV2", "i one:output:0", "T=int32");
    gd_node(&nodes, "e", "EmptyTensorList", "shape:output:0 shape:output:0",
            "element_dtype=variant shape_type=int32");
    gd_node(&nodes, "r", "TensorListPushBack", "e:handle:0 l", "element_dtype=variant");
    gd_function(g, "nest", "i:int32 l:variant", "j:int32 m:variant", &nodes,
                "j=next:z:0 m=r:output_handle:0", "");
    rt_bytes_clear(&nodes);
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "zero", "Const", "^x", "dtype=int32 value=int32<>:0");
    gd_node(g, "shape", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "first", "EmptyTensorList", "shape shape", "element_dtype=variant shape_type=int32");
    gd_node(g, "w", "While", "zero first",
            "T=[int32,variant] cond=@more body=@nest output_shapes=[]");
    gd_node(g, "n", "TensorListLength", "w:1", "");
    gd_node(g, "y", "Cast", "n", "SrcT=int32 DstT=bool");
}

static void array_that_holds_itself(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "n", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "i", "Const", "", "dtype=int32 value=int32<>:0");
    gd_node(g, "a", "TensorArrayV3", "n", "dtype=resource");
    gd_node(g, "w", "TensorArrayWriteV3", "a i a a:1", "T=resource");
    gd_node(g, "s", "TensorArraySizeV3", "a w", "");
    gd_node(g, "y", "Cast", "s", "SrcT=int32 DstT=bool");
}
static void stack_that_holds_itself(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "n", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "a", "StackV2", "n", "elem_type=resource");
    gd_node(g, "p", "StackPushV2", "a a", "T=resource");
    gd_node(g, "y", "Identity", "x ^p", "T=bool");
}
static void list_that_holds_an_array(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "n", "Const", "", "dtype=int32 value=int32<>:1");
    gd_node(g, "a", "TensorArrayV3", "n", "dtype=variant");
    gd_node(g, "m", "Const", "", "dtype=int32 value=int32<>:-1");
    gd_node(g, "e", "EmptyTensorList", "m m", "element_dtype=resource shape_type=int32");
    gd_node(g, "l", "TensorListPushBack", "e a", "element_dtype=resource");
    gd_node(g, "y", "Identity", "x ^l", "T=bool");
}
static void variable_that_holds_itself(struct rt_bytes *g)
{
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "v", "VarHandleOp", "", "dtype=resource shape=<>");
    gd_node(g, "w", "AssignVariableOp", "v v", "dtype=resource");
    gd_node(g, "y", "Identity", "x ^w", "T=bool");
}

/* A dynamic RNN's while loop whose condition is 50,000 LogicalAnds, one in the other. */
static void deep_condition(struct rt_bytes *g)
{
    char name[20], inputs[60], last[20] = "less";
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "k", "Cast", "x", "SrcT=bool DstT=int32");
    gd_node(g, "e", "Enter", "k", "T=int32 frame_name='f' is_constant=false");
    gd_node(g, "m", "Merge", "e n", "T=int32 N=2");
    gd_node(g, "ten", "Const", "^m", "dtype=int32 value=int32<>:10");
    gd_node(g, "less", "Less", "m ten", "T=int32");
    for (int i = 0; i < 50000; i++) {
        snprintf(name, sizeof name, "a%d", i);
        snprintf(inputs, sizeof inputs, "%s less", last);
        gd_node(g, name, "LogicalAnd", inputs, "");
        snprintf(last, sizeof last, "%s", name);
    }
    gd_node(g, "c", "LoopCond", last, "");
    gd_node(g, "s", "Switch", "m c", "T=int32");
    gd_node(g, "one", "Const", "^s", "dtype=int32 value=int32<>:1");
    gd_node(g, "add", "AddV2", "s:1 one", "T=int32");
    gd_node(g, "n", "NextIteration", "add", "T=int32");
    gd_node(g, "out", "Exit", "s", "T=int32");
    gd_node(g, "y", "Cast", "out", "SrcT=int32 DstT=bool");
}

static void nodes_of_many_outputs(struct rt_bytes *g)
{
    char name[20];
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "Identity", "x", "T=bool");
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "u%d", i);
        gd_node(g, name, "Unpack", "x", "T=bool num=65000 axis=0");
    }
}

/* Calls by name of one function of 20,000 outputs. */
static void calls_of_a_large_signature(struct rt_bytes *g)
{
    struct rt_bytes outs, rets;
    char name[40];
    rt_bytes_init(&outs, 1 << 24);
    rt_bytes_init(&rets, 1 << 24);
    for (int i = 0; i < 20000; i++) {
        rt_bytes_addf(&outs, "o%d:bool ", i);
        rt_bytes_addf(&rets, "o%d=a ", i);
    }
    outs.p[--outs.n] = '\0';
    rets.p[--rets.n] = '\0';
    gd_function(g, "wide", "a:bool", outs.p, NULL, rets.p, "");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "Identity", "c0:19999", "T=bool");
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "c%d", i);
        gd_node(g, name, "wide", "x", "");
    }
    rt_bytes_clear(&outs);
    rt_bytes_clear(&rets);
}

/* A function of 60,000 named outputs, each returned by its own entry and read by its name. */
static void names_of_a_large_signature(struct rt_bytes *g)
{
    enum { N = 60000 };
    struct rt_bytes outs, rets, nodes, read, types;
    char name[60];
    rt_bytes_init(&outs, 1 << 24);
    rt_bytes_init(&rets, 1 << 24);
    rt_bytes_init(&read, 1 << 24);
    rt_bytes_init(&nodes, 1 << 24);
    rt_bytes_init(&types, 1 << 24);
    rt_bytes_adds(&types, "T=[");
    for (int i = 0; i < N; i++) {
        rt_bytes_addf(&types, "%sbool", i ? "," : "");
        rt_bytes_addf(&outs, "%sa_long_name_of_an_output_%d:bool", i ? " " : "", i);
        rt_bytes_addf(&rets, "%sa_long_name_of_an_output_%d=a", i ? " " : "", i);
        rt_bytes_addf(&read, "%sc:a_long_name_of_an_output_%d:0", i ? " " : "", i);
    }
    gd_function(g, "wide", "a:bool", outs.p, NULL, rets.p, "");
    gd_node(&nodes, "c", "wide", "a", "");
    rt_bytes_addf(&types, "]");
    gd_node(&nodes, "all", "IdentityN", read.p, types.p);
    snprintf(name, sizeof name, "o=all:output:%d", N - 1);
    gd_function(g, "f", "a:bool", "o:bool", &nodes, name, "");
    main_call(g, "f");
    rt_bytes_clear(&outs);
    rt_bytes_clear(&rets);
    rt_bytes_clear(&read);
    rt_bytes_clear(&types);
    rt_bytes_clear(&nodes);
}

/* The call says bool, the function returns another type. */
static void call_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=bool DstT=int8");
    gd_function(g, "f", "a:bool", "o:int8", &nodes, "o=r:y:0", "");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "z", "PartitionedCall", "x", "Tin=[bool] Tout=[int64] f=@f");
    gd_node(g, "k", "Const", "", "dtype=int64 value=int64<>:1");
    gd_node(g, "y", "AddV2", "z k", "T=int64");
    rt_bytes_clear(&nodes);
}
static void branch_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=bool DstT=int8");
    gd_function(g, "f", "a:bool", "o:int8", &nodes, "o=r:y:0", "");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "z", "If", "x x",
            "Tcond=bool Tin=[bool] Tout=[int64] then_branch=@f else_branch=@f output_shapes=[]");
    gd_node(g, "k", "Const", "", "dtype=int64 value=int64<>:1");
    gd_node(g, "y", "AddV2", "z k", "T=int64");
    rt_bytes_clear(&nodes);
}
static void argument_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=int64 DstT=bool");
    gd_function(g, "f", "a:int64", "o:bool", &nodes, "o=r:y:0", "");
    main_call(g, "f");
    rt_bytes_clear(&nodes);
}

static void body_of_another_type(struct rt_bytes *g)
{
    struct rt_bytes nodes;
    rt_bytes_init(&nodes, 1 << 20);
    gd_node(&nodes, "r", "Cast", "a", "SrcT=bool DstT=int64");
    gd_function(g, "f", "a:bool", "o:int64", &nodes, "o=r:y:0", "");
    function(g, "c", "Identity", "a", "T=bool");
    gd_node(g, "x", "Placeholder", "", "dtype=bool");
    gd_node(g, "y", "While", "x", "T=[bool] cond=@c body=@f output_shapes=[]");
    rt_bytes_clear(&nodes);
}

/* ---- graphs whose cost grows with their size, and no faster ---- */

/* "PREFIX0 PREFIX1 ..." */
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

struct grows {
    const char *name;
    void (*build)(struct rt_bytes *g, int n);
    bool feeds_all; /* x0, x1, ... up to n; else x0 alone */
};

static double cpu_seconds(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The processor time of all from the import to the end of a second, compiled, run. */
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

/* Eight times the size takes about 8 to 12 times as long; what is quadratic, up to 64 times. */
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

#define TRY(graph, words) attempt(#graph, graph, words)

static void graphs_of_usual_depth_run(void **state)
{
    (void)state;
    TRY(short_chain_of_calls, NULL);
    TRY(a_few_frames, NULL);
    TRY(a_few_loops, NULL);
    TRY(a_few_conds, NULL);
}

static void chains_of_functions_are_bounded(void **state)
{
    (void)state;
    TRY(long_chain_of_calls,
        "is called too deep: calls, branches and loops are nested more than 200");
    TRY(long_chain_of_stateful_calls, "is called too deep: calls");
    TRY(long_chain_of_branches, "nested more than");
    TRY(long_chain_of_loops, "nested more than");
    TRY(function_that_calls_itself, "Function 'f0' calls itself: calls, ");
    TRY(functions_that_call_each_other, "' calls itself: calls, ");
    TRY(branch_that_calls_itself, "Function 'f0' calls itself: calls, ");
    TRY(loop_that_calls_itself, "Function 'f0' calls itself: calls, ");
}

static void attributes_that_grow_are_bounded(void **state)
{
    (void)state;
    TRY(growing_attribute, "functions deep");
    TRY(doubling_attribute, "more than");
    TRY(doubling_bodies, "more than");
}

static void graphs_that_double_are_bounded(void **state)
{
    (void)state;
    TRY(doubling_calls, "more than");
    TRY(doubling_branches, "more than");
    TRY(doubling_stateless_branches, "more than");
    TRY(doubling_loops, "more than");
    TRY(quadrupling_cases, "more than");
}

static void frames_loops_and_branches_of_tensorflow_1_are_bounded(void **state)
{
    (void)state;
    TRY(nested_frames, "nested more than");
    TRY(many_nested_loops, "nested more than");
    TRY(many_nested_conds, NULL);
}

static void counts_size_nothing_beyond_the_bytes(void **state)
{
    (void)state;
    TRY(long_row_of_nodes, NULL);
    TRY(nodes_of_many_outputs, "more than");
    TRY(calls_of_a_large_signature, "more than");
    TRY(names_of_a_large_signature, NULL);
}

static void deep_values_and_conditions_take_no_stack(void **state)
{
    (void)state;
    TRY(lists_in_lists, NULL);
    TRY(deep_condition, NULL);
}

static void nothing_holds_handles(void **state)
{
    (void)state;
    TRY(array_that_holds_itself, "of resource handles");
    TRY(stack_that_holds_itself, "of resource handles");
    TRY(list_that_holds_an_array, "of resource handles");
    TRY(variable_that_holds_itself, "of resource handles");
}

static void a_function_must_be_of_the_types_that_its_call_says(void **state)
{
    (void)state;
    TRY(call_of_another_type, "int8");
    TRY(branch_of_another_type, "int8");
    TRY(argument_of_another_type, "int64");
    TRY(body_of_another_type, "int64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_of_usual_depth_run),
        cmocka_unit_test(chains_of_functions_are_bounded),
        cmocka_unit_test(attributes_that_grow_are_bounded),
        cmocka_unit_test(graphs_that_double_are_bounded),
        cmocka_unit_test(frames_loops_and_branches_of_tensorflow_1_are_bounded),
        cmocka_unit_test(counts_size_nothing_beyond_the_bytes),
        cmocka_unit_test(deep_values_and_conditions_take_no_stack),
        cmocka_unit_test(nothing_holds_handles),
        cmocka_unit_test(a_function_must_be_of_the_types_that_its_call_says),
        cmocka_unit_test(loading_takes_time_in_proportion_to_the_graph),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}

/*
 * Builds graphs from the input. The graphs contain functions that call each other directly or from
 * branches and loops, attributes whose values are functions, TensorFlow 1's Switch, Merge and loop
 * frames, and count attributes that are sometimes wrong. Within small limits, each graph is
 * imported, its functions are instantiated, and its fetches are checked for unsupported ops,
 * planned, analysed, compiled, run, described and freed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/api/describe.h"
#include "runtime/session/session.h"
#include "tests/fuzz/cost.h"
#include "tests/support/graph_def.h"

const struct fuzz_cost fuzz_cost = FUZZ_GRAPH;

enum { MAX_NODES = 24, MAX_FUNCTIONS = 8, MAX_REFS = 128, RUN_NS = 30 * 1000 * 1000 };

/*
 * The letters in `in` and `out` are types: f (float), b (bool), i (int32) and s (string). In
 * `attrs`, '@' stands for a function from two floats to two floats, and '^' for a function from two
 * floats to a bool. '#' stands for a count, and '?' for true or false.
 */
static const struct {
    const char *op, *in, *out, *attrs;
} templates[] = {
    {"PartitionedCall", "ff", "ff", "Tin=[float,float] Tout=[float,float] f=@"},
    {"StatefulPartitionedCall", "ff", "ff", "Tin=[float,float] Tout=[float,float] f=@"},
    {"If", "bff", "ff",
     "Tcond=bool Tin=[float,float] Tout=[float,float] then_branch=@ else_branch=@ "
     "output_shapes=[]"},
    {"StatelessIf", "bff", "ff",
     "Tcond=bool Tin=[float,float] Tout=[float,float] then_branch=@ else_branch=@ "
     "output_shapes=[]"},
    {"If", "fff", "ff",
     "Tcond=float Tin=[float,float] Tout=[float,float] then_branch=@ else_branch=@ "
     "output_shapes=[]"},
    {"StatelessCase", "iff", "ff",
     "Tin=[float,float] Tout=[float,float] branches=[@,@,@] output_shapes=[]"},
    {"StatelessWhile", "ff", "ff", "T=[float,float] cond=^ body=@ output_shapes=[]"},
    {"While", "ff", "ff", "T=[float,float] cond=^ body=@ output_shapes=[] parallel_iterations=#"},
    {"Switch", "fb", "ff", "T=float"},
    {"Merge", "ff", "fi", "T=float N=2"},
    {"Enter", "f", "f", "T=float frame_name='w' is_constant=? parallel_iterations=#"},
    {"Enter", "f", "f", "T=float frame_name='v' is_constant=?"},
    {"Exit", "f", "f", "T=float"},
    {"NextIteration", "f", "f", "T=float"},
    {"LoopCond", "b", "b", ""},
    {"Less", "ff", "b", "T=float"},
    {"LogicalNot", "b", "b", ""},
    {"LogicalAnd", "bb", "b", ""},
    {"Cast", "f", "i", "SrcT=float DstT=int32"},
    {"Cast", "i", "f", "SrcT=int32 DstT=float"},
    {"AddV2", "ff", "f", "T=float"},
    {"Neg", "f", "f", "T=float"},
    {"Identity", "f", "f", "T=float"},
    {"Identity", "b", "b", "T=bool"},
    {"IdentityN", "ffb", "ffb", "T=[float,float,bool]"},
    {"Const", "", "f", "dtype=float value=float<>:1"},
    {"Const", "", "f", "dtype=float value=float<#,#>:1"},
    {"Const", "", "b", "dtype=bool value=bool<>:1"},
    {"Const", "", "i", "dtype=int32 value=int32<>:1"},
    {"Const", "", "i", "dtype=int32 value=int32<2>:#,#"},
    {"Fill", "if", "f", "T=float index_type=int32"},
    {"Reshape", "fi", "f", "T=float Tshape=int32"},
    {"Pack", "ff", "f", "T=float N=2 axis=0"},
    {"Unpack", "f", "ff", "T=float num=2 axis=0"},
    {"Unpack", "f", "f", "T=float num=# axis=0"},
    {"Split", "if", "ff", "T=float num_split=#"},
    {"ConcatV2", "ffi", "f", "T=float N=# Tidx=int32"},
    {"AddN", "fff", "f", "T=float N=3"},
    {"Select", "bff", "f", "T=float"},
    {"MatMul", "ff", "f", "T=float transpose_a=?"},
    {"Relu", "f", "f", "T=float"},
    {"VarHandleOp", "", "r", "dtype=float shape=<>"},
    {"AssignVariableOp", "rf", "", "dtype=float"},
    {"ReadVariableOp", "r", "f", "dtype=float"},
    {"TensorListReserve", "ii", "l", "element_dtype=float shape_type=int32"},
    {"TensorListSetItem", "lif", "l", "element_dtype=float"},
    {"TensorListStack", "li", "f", "element_dtype=float num_elements=#"},
    {"ParseExampleV2", "sssssff", "",
     "num_sparse=# Tdense=[float,float] sparse_types=[float] ragged_value_types=[float] "
     "ragged_split_types=[int32] dense_shapes=[<1>,<#>]"},
    {"AsString", "f", "s", "T=float"},
    {"Assert", "bf", "", "T=[float]"},
    {"NoOp", "", "", ""},
};
enum { N_TEMPLATES = (int)(sizeof templates / sizeof *templates) };

struct reader {
    const uint8_t *p, *end;
};

static unsigned next(struct reader *r)
{
    return r->p < r->end ? *r->p++ : 0;
}

/* Names of the values that a node in a function's body or in the main graph may read. */
struct scope {
    char text[MAX_REFS][40];
    char type[MAX_REFS];
    int n;
    bool is_body;
};

static void add_ref(struct scope *s, char type, const char *text)
{
    if (s->n == MAX_REFS)
        return;
    s->type[s->n] = type;
    snprintf(s->text[s->n++], sizeof s->text[0], "%s", text);
}

/* Returns the name of one of the last 32 values of the given type or, rarely, of any type. Returns
 * "nothing" if there is no value of the given type. */
static const char *pick(const struct scope *s, struct reader *r, char type)
{
    const unsigned by = next(r);
    int left = (int)(by & 31);
    const char *found = "nothing";
    for (int turn = 0; turn < 2; turn++)
        for (int i = s->n - 1; i >= 0; i--)
            if (s->type[i] == type || by > 250) {
                found = s->text[i];
                if (left-- == 0)
                    return found;
            }
    return found;
}

static void put_function(char *out, size_t capacity, struct reader *r, char kind)
{
    static const char *const attrs[] = {
        "", "", "", "(h=$h)", "(h=@f1)", "(T=float)", "(h=@f0(h=$h))", "(h=[@f0(h=$h),@f1(h=$h)])"};
    const unsigned by = next(r);
    snprintf(out, capacity, "@%c%u%s", kind, by % MAX_FUNCTIONS, attrs[(by >> 4) % 8]);
}

static void fill_attrs(char *out, size_t capacity, const char *text, struct reader *r)
{
    static const int counts[] = {0, 1, 2, 3, 2, 1, 7, 100, 65000, -1};
    const size_t last = capacity - 1;
    size_t n = 0;
    for (; *text && n < last; text++) {
        char some[80] = {*text, '\0'};
        if (*text == '@')
            put_function(some, sizeof some, r, 'f');
        else if (*text == '^')
            put_function(some, sizeof some, r, 'c');
        else if (*text == '#')
            snprintf(some, sizeof some, "%d", counts[next(r) % 10]);
        else if (*text == '?')
            snprintf(some, sizeof some, "%s", next(r) & 1 ? "true" : "false");
        else if (*text == '2' && next(r) > 250) /* sometimes replaces a count of 2 with 3 */
            some[0] = '3';
        for (const char *p = some; *p && n < last; p++)
            out[n++] = *p;
    }
    out[n] = '\0';
}

static void add_node(struct rt_bytes *g, struct scope *s, struct reader *r, int number)
{
    const unsigned which = next(r) % N_TEMPLATES, way = next(r);
    char name[20], inputs[400] = "", attrs[600], text[60];
    const char *op = templates[which].op;
    const struct rt_schema *schema = rt_schema_find(op);
    size_t n = 0;
    snprintf(name, sizeof name, "n%d", number);
    fill_attrs(attrs, sizeof attrs, templates[which].attrs, r);
    for (const char *t = templates[which].in; *t && n < sizeof inputs - 60; t++) {
        const char *from = pick(s, r, *t);
        char later[40];
        if (way > 200 && strcmp(op, "Merge") == 0 && t > templates[which].in) {
            snprintf(later, sizeof later, s->is_body ? "n%u:output:0" : "n%u",
                     (unsigned)number + 1 + way % 8);
            from = later;
        }
        n += (size_t)snprintf(inputs + n, sizeof inputs - n, "%s%s", n ? " " : "", from);
    }
    if (way % 16 == 1 && number)
        snprintf(inputs + n, sizeof inputs - n, "%s^n%u", n ? " " : "",
                 next(r) % (unsigned)(number + 1));
    gd_node(g, name, op, inputs, attrs);
    for (int k = 0; templates[which].out[k] && schema->n_out; k++) {
        const int arg = schema->n_out > 1 ? k % schema->n_out : 0;
        if (s->is_body)
            snprintf(text, sizeof text, "%s:%s:%d", name, schema->out[arg].name,
                     schema->n_out > 1 ? 0 : k);
        else
            snprintf(text, sizeof text, "%s:%d", name, k);
        add_ref(s, templates[which].out[k], text);
    }
}

static void add_function(struct rt_bytes *g, struct reader *r, char kind, int number)
{
    struct scope s = {.is_body = true};
    struct rt_bytes nodes;
    char name[20], rets[120];
    rt_bytes_init(&nodes, 1 << 20);
    add_ref(&s, 'f', "a");
    add_ref(&s, 'f', "b");
    const int n = (int)(next(r) % 8);
    for (int i = 0; i < n; i++)
        add_node(&nodes, &s, r, i);
    snprintf(name, sizeof name, "%c%d", kind, number);
    if (kind == 'f')
        snprintf(rets, sizeof rets, "p=%s q=%s", pick(&s, r, 'f'), pick(&s, r, 'f'));
    else if (strcmp(pick(&s, r, 'b'), "nothing") == 0) {
        gd_node(&nodes, "less", "Less", "a b", "T=float");
        snprintf(rets, sizeof rets, "p=less:z:0");
    } else
        snprintf(rets, sizeof rets, "p=%s", pick(&s, r, 'b'));
    gd_function(g, name, "a:float b:float", kind == 'f' ? "p:float q:float" : "p:bool", &nodes,
                rets, "");
    rt_bytes_clear(&nodes);
}

static void make_graph(struct rt_bytes *g, struct reader *r, char fetch[3][40])
{
    struct scope s = {.is_body = false};
    const unsigned n_functions = next(r) % (MAX_FUNCTIONS + 1);
    for (unsigned i = 0; i < n_functions; i++) {
        add_function(g, r, 'f', (int)i);
        if (i % 2 == 0)
            add_function(g, r, 'c', (int)i);
    }
    gd_node(g, "x", "Placeholder", "", "dtype=float");
    add_ref(&s, 'f', "x");
    for (int i = 0; i < MAX_NODES && r->p < r->end; i++)
        add_node(g, &s, r, i);
    for (int k = 0; k < 3; k++)
        snprintf(fetch[k], 40, "%s", s.text[s.n - 1 - k % s.n]);
}

static void use(struct rt_session *s, const char *const *fetches, int n)
{
    struct rt_arena *arena = rt_arena_new(64 << 20);
    struct rt_error err = {.arena = arena};
    const char *feed = "x:0";
    struct rt_call_spec spec = {.feeds = &feed, .fetches = fetches, .n_feeds = 1, .n_fetches = n};
    float v[4] = {1, 2, 3, 4};
    struct rt_tensor in = {.dtype = RT_F32, .rank = 1, .dim = {4}, .data = v}, out[3] = {0};
    const struct rt_shape shape = {.rank = 1, .dim = {-1}};
    struct rt_missing *missing;
    struct rt_described_plan plan;
    struct rt_callable *c;
    int n_missing;

    if (arena)
        (void)rt_session_missing(s, &spec, arena, &missing, &n_missing, &err);
    if (arena && rt_session_prepare(s, &spec, &c, &err) == RT_OK) {
        (void)rt_callable_is_rowwise(c, &shape, &err);
        for (int turn = 0; turn < 2; turn++) {
            struct rt_run_options options = {.deadline_ns = rt_now_ns() + RUN_NS};
            if (rt_callable_run(c, &in, out, &options, &err) == RT_OK)
                for (int k = 0; k < n; k++)
                    rt_tensor_clear(&out[k]);
            (void)rt_session_compile(s);
        }
        (void)rt_callable_describe(c, arena, &plan, &err);
    }
    rt_arena_free(arena);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct rt_registry *ops;
    struct reader r = {data, data + size};
    struct rt_bytes g;
    struct rt_error err = {0};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    char fetch[3][40];
    const char *fetches[3] = {fetch[0], fetch[1], fetch[2]};

    if (!ops && (!(ops = rt_registry_new()) || !kn_register(ops)))
        return;
    rt_bytes_init(&g, 1 << 24);
    make_graph(&g, &r, fetch);
    const struct rt_session_options options = {
        .registry = ops, .run_memory_limit = 16 << 20, .tuning = {.no_autotune = true}};
    if (rt_library_import(&l, gd_span(&g), ops, &err) == RT_OK &&
        rt_session_new(&s, l, &options, &err))
        rt_library_free(l);
    if (s)
        use(s, fetches, 1 + (int)(size % 3));
    rt_session_free(s);
    rt_bytes_clear(&g);
}

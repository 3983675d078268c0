#include "tests/support/row_graph.h"

#include <string.h>

#include "kernels/kernels.h"
#include "tests/support/op.h"
#include "tests/support/test.h"

static const struct gd_line base[] = {
    {"x", "Placeholder", "", "dtype=float shape=<?>"},
    {"shape", "Shape", "x", "T=float out_type=int32"},
    RG_INT("v0", "<1>:0"),
    RG_INT("v1", "<1>:1"),
    RG_INT("v2", "<1>:2"),
    RG_INT("v4", "<1>:4"),
    RG_INT("c0", "<>:0"),
    RG_INT("c1", "<>:1"),
    RG_INT("c2", "<>:2"),
    RG_INT("c3", "<>:3"),
    RG_INT("c4", "<>:4"),
    RG_INT("c5", "<>:5"),
    RG_INT("c6", "<>:6"),
    RG_INT("c12", "<>:12"),
    RG_INT("c13", "<>:13"),
    RG_INT("all", "<>:-1"),
    {"f0", "Const", "", "dtype=float value=float<>:0"},
    {"f1", "Const", "", "dtype=float value=float<>:1"},
    {"n", "StridedSlice", "shape v0 v1 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
    {"d", "StridedSlice", "shape v1 v2 v1", "T=int32 Index=int32 shrink_axis_mask=1"},
    {"flat", "Pack", "n c12", "T=int32 N=2"},
    {"row", "Reshape", "x flat", "T=float Tshape=int32"},         /* "row" has shape [n, 12] */
    {"sums", "Sum", "x c1", "T=float Tidx=int32 keep_dims=true"}, /* "sums" has shape [n, 1, 4] */
    {"k1", "AddV2", "k c1", "T=int32"},
    {"k2", "AddV2", "k c2", "T=int32"},
    {"kr", "Sub", "c2 k", "T=int32"},
    {"axes", "Pack", "k1", "T=int32 N=1"},
    RG_INT("axes12", "<2>:1,2"),
    {"peak", "Max", "x axes12", "T=float Tidx=int32"},
    {"whole", "Cast", "peak", "SrcT=float DstT=int32"},
    {"at", "FloorMod", "whole c4", "T=int32"}, /* "at" has shape [n] and elements from 0 to 3 */
    {"var", "VarHandleOp", "", "dtype=float shape=<?>"},
    {"first", "Const", "", "dtype=float value=float<4>:1,2,4,8"},
    {"put", "AssignVariableOp", "var first", "dtype=float"},
    /* "got" has shape [n] in a run, but its rank is unknown in the graph. */
    {"got", "ResourceGather", "var at", "dtype=float Tindices=int32"},
    {NULL, NULL, NULL, NULL},
};

static enum rt_status open_graph(struct rg_graph *g, const struct gd_line *lines,
                                 const struct gd_line *more, struct rt_error *err)
{
    static const char *const feed = "x", *const fetch = "out", *const put = "put";
    const struct rt_call_spec puts = {.targets = &put, .n_targets = 1};
    const struct rt_call_spec spec = {
        .feeds = &feed, .fetches = &fetch, .n_feeds = 1, .n_fetches = 1};
    struct rt_library *library = NULL;

    rt_bytes_init(&g->bytes, 1 << 20);
    gd_lines(&g->bytes, base, NULL);
    gd_lines(&g->bytes, lines, NULL);
    gd_lines(&g->bytes, more, NULL);
    g->registry = rt_registry_new();
    assert_true(g->registry && kn_register(g->registry));
    const struct rt_session_options options = {.registry = g->registry};
    enum rt_status st = rt_library_import(&library, gd_span(&g->bytes), g->registry, err);
    st = st ? st : rt_session_new(&g->session, library, &options, err);
    st = st ? st : rt_session_prepare(g->session, &puts, &g->callable, err);
    st = st ? st : rt_callable_run(g->callable, NULL, NULL, NULL, err);
    return st ? st : rt_session_prepare(g->session, &spec, &g->callable, err);
}

void rg_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more)
{
    struct rt_error err = {0};
    assert_ok(open_graph(g, lines, more, &err), &err);
}

bool rg_try_open(struct rg_graph *g, const struct gd_line *lines, const struct gd_line *more)
{
    struct rt_error err = {0};
    return open_graph(g, lines, more, &err) == RT_OK;
}

void rg_close(struct rg_graph *g)
{
    rt_session_free(g->session);
    rt_registry_free(g->registry);
    rt_bytes_clear(&g->bytes);
}

struct rt_tensor rg_rows(const struct rt_shape *row, int64_t from, int64_t n)
{
    int64_t dim[RT_MAX_RANK] = {n}, each = 1;
    for (int d = 1; d < row->rank; d++)
        each *= dim[d] = row->dim[d];
    struct rt_tensor in = op_tensor(RT_F32, row->rank, dim, NULL);
    for (int64_t i = 0; i < n * each; i++)
        ((float *)in.data)[i] = (float)(((from * each + i) * 7919) % 101) - 50;
    return in;
}

enum rt_status rg_run(struct rg_graph *g, const struct rt_shape *row, int64_t from, int64_t n,
                      struct rt_tensor *out, struct rt_error *err)
{
    struct rt_tensor in = rg_rows(row, from, n);
    const enum rt_status st = rt_callable_run(g->callable, &in, out, NULL, err);
    rt_tensor_clear(&in);
    return st;
}

/* Returns whether `both` holds the rows of `first` and then the rows of `second`, bit for bit. */
static bool is_concatenation(const struct rt_tensor *both, const struct rt_tensor *first,
                             const struct rt_tensor *second, int64_t a, int64_t b)
{
    const size_t bytes = rt_tensor_bytes(first), more = rt_tensor_bytes(second);
    return both->rank >= 1 && both->rank == first->rank && both->rank == second->rank &&
           first->dim[0] == a && second->dim[0] == b && both->dim[0] == a + b &&
           rt_tensor_bytes(both) == bytes + more &&
           memcmp(both->dim + 1, first->dim + 1, sizeof *both->dim * (size_t)(both->rank - 1)) ==
               0 &&
           memcmp(both->data, first->data, bytes) == 0 &&
           memcmp((char *)both->data + bytes, second->data, more) == 0;
}

int rg_check_merged(struct rg_graph *g, const struct rt_shape *row, const char *what,
                    const char *which)
{
    static const int64_t sizes[] = {1, 2, 5, 6, 12, 13, 20};
    enum { N = sizeof sizes / sizeof *sizes };
    int n_answered = 0;
    for (int i = 0; i < N; i++)
        for (int j = i; j < N; j++) {
            const int64_t a = sizes[i], b = sizes[j];
            struct rt_tensor first = {0}, second = {0}, both = {0};
            struct rt_error err = {0}, why = {0};
            const bool alone =
                !rg_run(g, row, 0, a, &first, &why) && !rg_run(g, row, a, b, &second, &why);
            const bool together = !rg_run(g, row, 0, a + b, &both, &err);
            if (alone != together)
                fail_msg("%s of %s is proved, but requests of %lld and %lld rows are refused %s: "
                         "%s",
                         what, which, (long long)a, (long long)b,
                         alone ? "only together" : "only alone",
                         rt_error_text(alone ? &err : &why));
            if (alone && !is_concatenation(&both, &first, &second, a, b))
                fail_msg("%s of %s is proved, but requests of %lld and %lld rows get other answers "
                         "together than alone",
                         what, which, (long long)a, (long long)b);
            n_answered += alone;
            rt_tensor_clear(&first);
            rt_tensor_clear(&second);
            rt_tensor_clear(&both);
        }
    return n_answered;
}

/*
 * Tests random graphs, some with values of unknown rank or with assertions. If the row analysis
 * (runtime/passes/rows.c) accepts a graph, requests must get the same outputs whether they run
 * merged or alone.
 */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/draw.h"
#include "tests/support/row_graph.h"

enum { N_GRAPHS = 3000, MOST_STEPS = 4, TEXT = 64 };

/* In `inputs`, $ stands for an earlier float value, % for an axis, and & for a small integer. */
struct step {
    const char *op, *inputs, *attrs;
};
static const struct step steps[] = {
    {"Neg", "$", "T=float"},
    {"Sqrt", "$", "T=float"},
    {"AddV2", "$ $", "T=float"},
    {"Mul", "$ $", "T=float"},
    {"Cumsum", "$ %", "T=float Tidx=int32"},
    {"Cumprod", "$ %", "T=float Tidx=int32 reverse=true"},
    {"Roll", "$ & %", "T=float Tshift=int32 Taxis=int32"},
    {"Sum", "$ %", "T=float Tidx=int32"},
    {"Max", "$ %", "T=float Tidx=int32 keep_dims=true"},
    {"Mean", "$ %", "T=float Tidx=int32 keep_dims=true"},
    {"Split", "% $", "T=float num_split=2"},
    {"Unpack", "$", "T=float num=3 axis=-1"},
    {"Unpack", "$", "T=float num=3 axis=1"},
    {"Pack", "$ $", "T=float N=2 axis=-1"},
    {"Pack", "$ $", "T=float N=2 axis=1"},
    {"ConcatV2", "$ $ %", "T=float Tidx=int32 N=2"},
    {"ExpandDims", "$ %", "T=float Tdim=int32"},
    {"Squeeze", "$", "T=float squeeze_dims=[]"},
    {"Squeeze", "$", "T=float squeeze_dims=[-1]"},
    {"Softmax", "$", "T=float"},
    {"TopKV2", "$ c2", "T=float"},
    {"Reshape", "$ flat", "T=float Tshape=int32"},
    {"Reshape", "$ shape", "T=float Tshape=int32"},
    {"Reshape", "$ back", "T=float Tshape=int32"},
    {"BroadcastTo", "$ shape", "T=float Tidx=int32"},
    {"Transpose", "$ perm", "T=float Tperm=int32"},
    {"Transpose", "$ perm2", "T=float Tperm=int32"},
    {"GatherV2", "$ & %", "Tparams=float Tindices=int32 Taxis=int32"},
    {"GatherV2", "$ at %", "Tparams=float Tindices=int32 Taxis=int32"},
    {"ReverseV2", "$ back0", "T=float Tidx=int32"},
    {"MatMul", "$ $", "T=float"},
    {"BatchMatMulV2", "$ $", "T=float adj_y=true"},
    {"Tile", "$ twice", "T=float Tmultiples=int32"},
    {"Tile", "$ rows", "T=float Tmultiples=int32"},
    {"StridedSlice", "$ v0 v1 v1", "T=float Index=int32 shrink_axis_mask=1"},
    {"StridedSlice", "$ v0 v2 v1", "T=float Index=int32 end_mask=1"},
    {"SelectV2", "wide $ $", "T=float"},
    {"BiasAdd", "$ four", "T=float"},
    {"MatrixDiag", "$", "T=float"},
    {"OneHot", "at & $ $", "T=float TI=int32"},
    {"CheckNumerics", "$", "T=float message='m'"},
};
static const struct gd_line more[] = {
    {"k", "Identity", "c0", "T=int32"},
    RG_INT("minus2", "<>:-2"),
    RG_INT("back", "<2>:-1,4"),
    RG_INT("back0", "<1>:-1"),
    RG_INT("perm", "<3>:0,2,1"),
    RG_INT("perm2", "<2>:1,0"),
    RG_INT("twice", "<3>:1,2,1"),
    {"rows", "Pack", "n c1 c1", "T=int32 N=3"},
    {"four", "Const", "", "dtype=float value=float<4>:1,2,3,4"},
    {"wide", "Greater", "x f0", "T=float"},
    {NULL, NULL, NULL, NULL},
};

static const char *any(const char *const *of, int64_t n)
{
    return of[draw_below(n)];
}

/* Writes the inputs of step number `n_values`. The inputs may be results of earlier steps. */
static void fill(char *out, size_t capacity, const char *pattern, int n_values)
{
    static const char *const values[] = {"got", "x", "peak", "sums", "row"};
    static const char *const axes[] = {"all", "c0", "c1", "c2", "minus2"};
    static const char *const small[] = {"c0", "c1", "c2", "c3"};
    size_t at = 0;
    for (; *pattern; pattern++) {
        const char *word = NULL;
        char made[8];
        if (*pattern == '$' && n_values && draw_below(4)) {
            snprintf(made, sizeof made, "y%d",
                     (int)(n_values - 1 - draw_below(draw_below(3) ? 1 : n_values)));
            word = made;
        } else if (*pattern == '$') {
            word = any(values, 5);
        } else if (*pattern == '%') {
            word = any(axes, 5);
        } else if (*pattern == '&') {
            word = any(small, 4);
        }
        if (word)
            at += (size_t)snprintf(out + at, capacity - at, "%s", word);
        else
            out[at++] = *pattern;
    }
    out[at] = '\0';
}

static void what_is_drawn_and_rowwise_gets_together_what_it_gets_alone(void **state)
{
    static const struct rt_shape shape = {.rank = 3, .dim = {-1, 3, 4}};
    int n_rowwise = 0, n_run = 0, n_answered = 0;
    (void)state;
    for (int i = 0; i < N_GRAPHS; i++) {
        char name[MOST_STEPS][8], input[MOST_STEPS + 1][TEXT], what[8 * TEXT] = "";
        struct gd_line line[RG_MOST_LINES] = {{NULL, NULL, NULL, NULL}};
        const int n = 1 + (int)draw_below(MOST_STEPS);
        for (int k = 0; k < n; k++) {
            const struct step *s = &steps[draw_below(sizeof steps / sizeof *steps)];
            snprintf(name[k], sizeof name[k], "y%d", k);
            fill(input[k], TEXT, s->inputs, k);
            line[k] = (struct gd_line){name[k], s->op, input[k], s->attrs};
            snprintf(what + strlen(what), sizeof what - strlen(what), "%s(%s) ", s->op, input[k]);
        }
        snprintf(input[n], TEXT, "y%d", n - 1);
        line[n] = (struct gd_line){"out", "Identity", input[n], "T=float"};
        struct rg_graph g = {0};
        struct rt_error err = {0};
        if (!rg_try_open(&g, line, more)) {
            rg_close(&g);
            continue;
        }
        n_run++;
        if (rt_callable_is_rowwise(g.callable, &shape, &err)) {
            n_rowwise++;
            n_answered += rg_check_merged(&g, &shape, what, "chance") > 0;
        }
        rg_close(&g);
    }
    print_message("%d graphs, %d proved, %d answered\n", n_run, n_rowwise, n_answered);
    assert_true(n_answered > N_GRAPHS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_drawn_and_rowwise_gets_together_what_it_gets_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

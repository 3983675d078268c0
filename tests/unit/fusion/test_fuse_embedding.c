/*
 * Tests that sums and means of embedding rows become one node (runtime/fusion/fuse_embedding.c).
 * The outputs are compared with those of the same graph without fusion.
 */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/answer.h"
#include "tests/support/draw.h"
#include "tests/support/registry.h"

enum { ROWS = 7 };
static struct rt_error err;

struct way {
    const char *reduce; /* the op that reduces rows, "Sum" or "Mean" */
    int axis;
    bool keep;
    /* "rows by": a Mul multiplies the rows, its first input, by weights. "by rows": the rows are
     * the second input of the Mul. "mask": a mask hides rows. NULL: there are neither weights nor a
     * mask. */
    const char *by;
    double otherwise; /* the value that replaces the rows that the mask hides */
};

/* Writes the graph to `g`. In the fourth row of the embedding table, every second element is
 * NaN. */
static void write(struct rt_bytes *g, const struct way *w, int width, const char *tindices)
{
    char text[8000], attrs[64];
    size_t at = (size_t)snprintf(text, sizeof text, "dtype=float value=float<%d,%d>:", ROWS, width);

    for (int i = 0; i < ROWS * width; i++) {
        const bool is_nan = i / width == 3 && i % 2;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? "," : "",
                               is_nan ? "nan" : "");
        if (!is_nan)
            at += (size_t)snprintf(text + at, sizeof text - at, "%.9g", (double)draw());
    }
    rt_bytes_init(g, 1 << 20);
    gd_node(g, "table", "Const", "", text);
    snprintf(text, sizeof text, "dtype=%s", tindices);
    gd_node(g, "x", "Placeholder", "", text);
    gd_node(g, "by", "Placeholder", "",
            w->by && strcmp(w->by, "mask") == 0 ? "dtype=bool" : "dtype=float");
    gd_node(g, "first", "Const", "", "dtype=int32 value=int32<>:0");
    snprintf(text, sizeof text, "dtype=float value=float<>:%g", w->otherwise);
    gd_node(g, "otherwise", "Const", "", text);
    snprintf(text, sizeof text, "dtype=int32 value=int32<1>:%d", w->axis);
    gd_node(g, "axis", "Const", "", text);
    snprintf(text, sizeof text, "Tparams=float Tindices=%s Taxis=int32", tindices);
    gd_node(g, "rows", "GatherV2", "table x first", text);
    if (w->by && strcmp(w->by, "mask") == 0)
        gd_node(g, "part", "SelectV2", "by rows otherwise", "T=float");
    else if (w->by)
        gd_node(g, "part", "Mul", w->by, "T=float");
    snprintf(attrs, sizeof attrs, "T=float Tidx=int32 keep_dims=%s", w->keep ? "true" : "false");
    gd_node(g, "y", w->reduce, w->by ? "part axis" : "rows axis", attrs);
    gd_node(g, "twice", "AddV2", "rows rows", "T=float");
}

/* The outputs of the same graph without and with fusion. */
struct pair {
    struct answer unfused, fused;
};

static struct pair ask(const struct rt_bytes *g, const struct rt_tensor *in, const char *also)
{
    const struct question q = {.graph = g, .feeds = {"x:0", "by:0"}, .also = also};
    struct pair p;
    answer_ask(&q, in, true, &p.unfused);
    answer_ask(&q, in, false, &p.fused);
    assert_int_equal(p.unfused.status, p.fused.status);
    assert_string_equal(p.unfused.text, p.fused.text);
    if (!p.unfused.status)
        answer_alike(&p.unfused.y, &p.fused.y, 1e-5f);
    return p;
}

static void clear(struct pair *p, struct rt_tensor in[2], struct rt_bytes *g)
{
    rt_tensor_clear(&p->unfused.y);
    rt_tensor_clear(&p->fused.y);
    rt_tensor_clear(&in[0]);
    rt_tensor_clear(&in[1]);
    rt_bytes_clear(g);
}

static struct rt_tensor indices(enum rt_dtype dtype, int rank, const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, dtype, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++) {
        const int64_t v = draw_below(ROWS);
        if (dtype == RT_I32)
            ((int32_t *)t.data)[i] = (int32_t)v;
        else
            ((int64_t *)t.data)[i] = v;
    }
    return t;
}

/* Returns a tensor of weights, or a mask if `dtype` is bool. */
static struct rt_tensor others(enum rt_dtype dtype, int rank, const int64_t *dim)
{
    struct rt_tensor t;
    assert_ok(rt_tensor_new(&t, NULL, dtype, rank, dim, &err), &err);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++) {
        if (dtype == RT_BOOL)
            ((bool *)t.data)[i] = draw_below(3) > 0;
        else
            ((float *)t.data)[i] = (float)draw_below(5) - 2;
    }
    return t;
}

/* Compares runs with and without fusion. The indices have the shape `dim`. The weights or the mask
 * have the shape `by_dim`. */
static void compare(const struct way *w, int width, enum rt_dtype dtype, int rank,
                    const int64_t *dim, int by_rank, const int64_t *by_dim)
{
    struct rt_bytes g;
    const bool is_mask = w->by && strcmp(w->by, "mask") == 0;

    write(&g, w, width, dtype == RT_I32 ? "int32" : "int64");
    struct rt_tensor in[2] = {indices(dtype, rank, dim),
                              others(is_mask ? RT_BOOL : RT_F32, by_rank, by_dim)};
    struct pair p = ask(&g, in, NULL);
    if (!p.fused.status && w->otherwise == 0)
        assert_int_equal(p.fused.nodes, 1);
    clear(&p, in, &g);
}

static const char *const reduces[] = {"Sum", "Mean"};
static const char *const bys[] = {NULL, "rows by", "by rows", "mask"};

static void sums_and_means_are_those_of_the_rows_that_are_looked_up(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{4, 5, 1}, {3, 0, 1}, {0, 6, 1}, {1, 150, 1}, {2, 1, 1}};
    for (int r = 0; r < 2; r++)
        for (int b = 0; b < 4; b++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                struct way w = {.reduce = reduces[r], .axis = -2, .by = bys[b], .keep = s % 2};
                compare(&w, 16, RT_I32, 2, shapes[s], 3, shapes[s]);
                w.axis = 1;
                compare(&w, 3, RT_I64, 2, shapes[s], 3, shapes[s]);
                compare(&w, 83, RT_I32, 2, shapes[s], 3, shapes[s]);
            }
}

static void any_axis_may_be_summed(void **state)
{
    (void)state;
    static const int64_t dim[4] = {2, 3, 4, 1};
    for (int b = 0; b < 4; b++)
        for (int axis = -5; axis <= 4; axis++) {
            const struct way w = {.reduce = reduces[b % 2], .axis = axis, .by = bys[b]};
            compare(&w, 5, RT_I32, 3, dim, 4, dim);
            compare(&w, 1, RT_I64, 3, dim, 4, dim);
            compare(&w, 5, RT_I64, 0, dim, 0, dim);
        }
}

static void what_is_masked_may_be_another_number(void **state)
{
    (void)state;
    static const int64_t dim[3] = {4, 5, 1};
    for (int r = 0; r < 2; r++) {
        const struct way w = {.reduce = reduces[r], .axis = 1, .by = "mask", .otherwise = 0.5};
        compare(&w, 6, RT_I32, 2, dim, 3, dim);
    }
}

static void weights_and_masks_of_any_shape_are_broadcast_or_refused_alike(void **state)
{
    (void)state;
    static const int64_t dim[2] = {4, 5}, one_row[3] = {1, 5, 1}, columns[1] = {6},
                         all[3] = {4, 5, 6}, more[4] = {2, 4, 5, 1}, wrong[3] = {4, 6, 1},
                         single[2] = {1, 1};
    for (int b = 1; b < 4; b++) {
        const struct way w = {.reduce = reduces[b % 2], .axis = -2, .by = bys[b]};
        compare(&w, 6, RT_I32, 2, dim, 3, one_row);
        compare(&w, 6, RT_I32, 2, dim, 1, columns);
        compare(&w, 6, RT_I32, 2, dim, 3, all);
        compare(&w, 6, RT_I32, 2, dim, 4, more);
        compare(&w, 6, RT_I32, 2, dim, 3, wrong);
        compare(&w, 6, RT_I32, 2, dim, 0, NULL);
        compare(&w, 6, RT_I32, 2, single, 3, all);
    }
}

static void an_index_out_of_range_is_refused_in_the_words_of_the_lookup(void **state)
{
    (void)state;
    static const int64_t dim[2] = {3, 4}, by_dim[3] = {3, 4, 1};
    for (int b = 0; b < 4; b++)
        for (int k = 0; k < 4; k++) {
            const struct way w = {.reduce = "Sum", .axis = 1, .by = bys[b]};
            const bool is_mask = b == 3;
            struct rt_bytes g;
            write(&g, &w, 4, k < 2 ? "int32" : "int64");
            struct rt_tensor in[2] = {indices(k < 2 ? RT_I32 : RT_I64, 2, dim),
                                      others(is_mask ? RT_BOOL : RT_F32, 3, by_dim)};
            const int64_t bad = k % 2 ? -1 : ROWS;
            for (int i = 6; i < 9; i++) {
                if (k < 2)
                    ((int32_t *)in[0].data)[i] = (int32_t)bad;
                else
                    ((int64_t *)in[0].data)[i] = bad;
            }
            struct pair p = ask(&g, in, NULL);
            assert_string_equal(p.fused.text, bad < 0 ? "indices[1,2] = -1 is not in [0, 7)\n\t "
                                                        "[[{{node rows}}]]"
                                                      : "indices[1,2] = 7 is not in [0, 7)\n\t "
                                                        "[[{{node rows}}]]");
            clear(&p, in, &g);
        }
}

static void rows_that_somebody_else_reads_are_made(void **state)
{
    (void)state;
    static const int64_t dim[2] = {3, 4}, by_dim[3] = {3, 4, 1};
    const struct way w = {.reduce = "Sum", .axis = 1};
    struct rt_bytes g;
    write(&g, &w, 4, "int32");
    struct rt_tensor in[2] = {indices(RT_I32, 2, dim), others(RT_F32, 3, by_dim)};
    struct pair p = ask(&g, in, "twice:0");
    assert_true(p.fused.nodes > 2);
    clear(&p, in, &g);
}

/* ---- bags of ids ---- */

static void write_bag(struct rt_bytes *g, const char *op, const char *ids, const char *inputs)
{
    char text[2000];
    size_t at = (size_t)snprintf(text, sizeof text, "dtype=float value=float<%d,3>:", ROWS);

    for (int i = 0; i < ROWS * 3; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.9g", i ? "," : "", (double)draw());
    rt_bytes_init(g, 1 << 20);
    gd_node(g, "table", "Const", "", text);
    snprintf(text, sizeof text, "dtype=%s", ids);
    gd_node(g, "x", "Placeholder", "", text);
    gd_node(g, "by", "Placeholder", "", "dtype=int64");
    gd_node(g, "first", "Const", "", "dtype=int32 value=int32<>:0");
    snprintf(text, sizeof text, "T=%s out_idx=int32", ids);
    gd_node(g, "once", "Unique", "x", text);
    snprintf(text, sizeof text, "Tparams=float Tindices=%s Taxis=int32", ids);
    gd_node(g, "rows", "GatherV2", "table once first", text);
    gd_node(g, "y", op, inputs, "T=float Tidx=int32 Tsegmentids=int64");
    snprintf(text, sizeof text, "T=%s", ids);
    gd_node(g, "other", "Neg", "once", text);
}

/* Runs an embedding bag without and with fusion. `refused` is part of the error that both must
 * give, or NULL if the outputs must have the same bits. */
static void compare_bag(const char *op, enum rt_dtype dtype, int rank, int64_t n, const int64_t *id,
                        int64_t n_segments, const int64_t *segment, const char *refused)
{
    struct rt_bytes g;
    const int64_t dim[2] = {n, 1};
    struct rt_tensor in[2];

    write_bag(&g, op, dtype == RT_I32 ? "int32" : "int64", "rows once:1 by");
    in[0] = indices(dtype, rank, dim);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == RT_I32)
            ((int32_t *)in[0].data)[i] = (int32_t)id[i];
        else
            ((int64_t *)in[0].data)[i] = id[i];
    }
    in[1] = indices(RT_I64, 1, &n_segments);
    if (n_segments)
        memcpy(in[1].data, segment, (size_t)n_segments * sizeof *segment);
    struct pair p = ask(&g, in, NULL);
    if (refused) {
        if (!strstr(p.fused.text, refused))
            fail_msg("%s: not %s", p.fused.text, refused);
    } else {
        assert_int_equal(p.fused.nodes, 1);
        if (rt_tensor_count(&p.fused.y))
            assert_memory_equal(p.fused.y.data, p.unfused.y.data, rt_tensor_bytes(&p.fused.y));
    }
    clear(&p, in, &g);
}

static void bags_are_those_of_rows_that_are_looked_up_once(void **state)
{
    (void)state;
    static const char *const ops[] = {"SparseSegmentSum", "SparseSegmentMean",
                                      "SparseSegmentSqrtN"};
    static const int64_t ids[] = {6, 1, 6, 0, 1, 6, 3}, segments[] = {0, 0, 0, 2, 2, 5, 5};
    static const int64_t beyond[] = {6, 6, 1, 6, 7, 9, 1}, below[] = {-1, 6, 1, 6, 7, 9, 1};
    static const int64_t back[] = {0, 0, 2, 1, 2, 5, 5}, negative[] = {-2, 0, 0, 2, 2, 5, 5};
    for (int k = 0; k < 3; k++)
        for (int wide = 0; wide < 2; wide++) {
            const enum rt_dtype d = wide ? RT_I64 : RT_I32;
            compare_bag(ops[k], d, 1, 7, ids, 7, segments, NULL);
            compare_bag(ops[k], d, 1, 0, ids, 0, segments, NULL);
            compare_bag(ops[k], d, 1, 7, beyond, 7, segments,
                        "indices[2] = 7 is not in [0, 7)\n\t [[{{node rows}}]]");
            compare_bag(ops[k], d, 1, 7, below, 7, segments,
                        "indices[0] = -1 is not in [0, 7)\n\t [[{{node rows}}]]");
            compare_bag(ops[k], d, 2, 7, ids, 7, segments,
                        "unique expects a 1D vector.\n\t [[{{node once}}]]");
            compare_bag(ops[k], d, 1, 7, ids, 6, segments, "should have same size");
            compare_bag(ops[k], d, 1, 7, ids, 7, back, "segment ids are not increasing");
            compare_bag(ops[k], d, 1, 7, ids, 7, negative, "[[{{node y}}]]");
        }
}

static void equal_ids_that_somebody_else_reads_are_found(void **state)
{
    (void)state;
    static const int64_t n = 3;
    struct rt_bytes g;
    write_bag(&g, "SparseSegmentSum", "int64", "rows once:1 by");
    struct rt_tensor in[2] = {indices(RT_I64, 1, &n), indices(RT_I64, 1, &n)};
    for (int i = 0; i < 3; i++)
        ((int64_t *)in[1].data)[i] = i;
    struct pair p = ask(&g, in, "other:0");
    assert_true(p.fused.nodes > 1);
    clear(&p, in, &g);
}

/* In an embedding bag, the segment op reads the position of each id among the unique ids. In this
 * graph, the segment op reads the unique ids themselves, so fusion would change the result. */
static void bags_of_other_rows_are_theirs(void **state)
{
    (void)state;
    static const int64_t n = 3, n_segments = 2;
    static const int32_t id[] = {1, 0, 1};
    struct rt_bytes g;
    write_bag(&g, "SparseSegmentSum", "int32", "rows once by");
    struct rt_tensor in[2] = {indices(RT_I32, 1, &n), indices(RT_I64, 1, &n_segments)};
    memcpy(in[0].data, id, sizeof id);
    ((int64_t *)in[1].data)[0] = 0;
    ((int64_t *)in[1].data)[1] = 1;
    struct pair p = ask(&g, in, NULL);
    assert_int_equal(p.unfused.status, RT_OK);
    clear(&p, in, &g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_means_are_those_of_the_rows_that_are_looked_up),
        cmocka_unit_test(any_axis_may_be_summed),
        cmocka_unit_test(what_is_masked_may_be_another_number),
        cmocka_unit_test(weights_and_masks_of_any_shape_are_broadcast_or_refused_alike),
        cmocka_unit_test(an_index_out_of_range_is_refused_in_the_words_of_the_lookup),
        cmocka_unit_test(rows_that_somebody_else_reads_are_made),
        cmocka_unit_test(bags_are_those_of_rows_that_are_looked_up_once),
        cmocka_unit_test(equal_ids_that_somebody_else_reads_are_found),
        cmocka_unit_test(bags_of_other_rows_are_theirs),
    };
    return cmocka_run_group_tests(tests, test_registry_make, test_registry_drop);
}

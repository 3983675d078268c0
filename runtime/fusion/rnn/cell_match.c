#include "runtime/fusion/rnn/cell_match.h"

#include <math.h>
#include <string.h>

/* ---- one node ---- */

bool pl_op_of(const struct pl_match *m, struct pl_edge e, const char *op, struct pl_edge *in,
              int n_in)
{
    const struct pl_node *n = pl_float_by(m->g, e, op, n_in);

    if (!n || n->effect != RT_PURE)
        return false;
    for (int k = 0; k < n_in; k++)
        in[k] = n->in[k];
    return true;
}

bool pl_sum_of(const struct pl_match *m, struct pl_edge e, struct pl_edge in[2])
{
    const struct pl_node *n = pl_float_sum(m->g, e);

    if (!n || n->effect != RT_PURE)
        return false;
    in[0] = n->in[0];
    in[1] = n->in[1];
    return true;
}

/* ---- activations ---- */

/* Matches two inputs, the second of which is a scalar constant. With `swaps`, the first input may
 * be the constant instead. */
static bool one_number(const struct pl_match *m, struct pl_edge in[2], bool swaps,
                       struct pl_edge *of, float *v)
{
    if (swaps && !pl_float_constant(m->g, in[1], v))
        pl_swap(in);
    *of = in[0];
    return pl_float_constant(m->g, in[1], v);
}

/* Matches `e = op(*of, v)`, where v is a scalar constant. */
static bool with_number(const struct pl_match *m, struct pl_edge e, const char *op, bool swaps,
                        struct pl_edge *of, float *v)
{
    struct pl_edge in[2];

    return pl_op_of(m, e, op, in, 2) && one_number(m, in, swaps, of, v);
}

/* Matches `e = *of + v`, where v is a scalar constant. */
static bool plus_number(const struct pl_match *m, struct pl_edge e, struct pl_edge *of, float *v)
{
    struct pl_edge in[2];

    return pl_sum_of(m, e, in) && one_number(m, in, true, of, v);
}

static bool is_close(float v, double want)
{
    return fabs((double)v - want) <= 1e-6 * want;
}

/* Matches `e = clip(*of, low, high)`. */
static bool is_between(const struct pl_match *m, struct pl_edge e, struct pl_edge *of, float *low,
                       float *high)
{
    if (with_number(m, e, "Maximum", true, &e, low))
        return with_number(m, e, "Minimum", true, of, high);
    return with_number(m, e, "Minimum", true, &e, high) &&
           with_number(m, e, "Maximum", true, of, low);
}

bool pl_clip_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of, float *v)
{
    float low;

    return is_between(m, e, of, &low, v) && *v > 0 && low == -*v;
}

/* Matches `e = clip(*of * slope + 1/2, 0, 1)`. Instead of the product, the model may divide by `1 /
 * slope`. */
static bool is_hard_sigmoid(const struct pl_match *m, struct pl_edge e, double slope,
                            struct pl_edge *of)
{
    float low, high, half, by;

    if (!is_between(m, e, &e, &low, &high) || low != 0 || high != 1 ||
        !plus_number(m, e, &e, &half) || half != 0.5f)
        return false;
    if (with_number(m, e, "Mul", true, of, &by))
        return is_close(by, slope);
    return with_number(m, e, "RealDiv", false, of, &by) && is_close(by, 1 / slope);
}

/* Matches `e = relu6(*of + 3) / 6`, which is how Keras 3 writes the hard sigmoid. */
static bool is_relu6_sixth(const struct pl_match *m, struct pl_edge e, struct pl_edge *of)
{
    float by, three;

    if (!(with_number(m, e, "RealDiv", false, &e, &by) && by == 6) &&
        !(with_number(m, e, "Mul", true, &e, &by) && is_close(by, 1.0 / 6)))
        return false;
    return pl_op_of(m, e, "Relu6", &e, 1) && plus_number(m, e, of, &three) && three == 3;
}

enum rt_cell_act pl_act_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of)
{
    if (pl_op_of(m, e, "Sigmoid", of, 1))
        return RT_CELL_ACT_sigmoid;
    if (pl_op_of(m, e, "Tanh", of, 1))
        return RT_CELL_ACT_tanh;
    if (pl_op_of(m, e, "Relu", of, 1))
        return RT_CELL_ACT_relu;
    if (is_hard_sigmoid(m, e, 1.0 / 5, of))
        return RT_CELL_ACT_hard_sigmoid;
    if (is_hard_sigmoid(m, e, 1.0 / 6, of) || is_relu6_sixth(m, e, of))
        return RT_CELL_ACT_hard_sigmoid_6;
    *of = e;
    return RT_CELL_ACT_linear;
}

/* ---- sums of matrix products ---- */

/* Matches a constant float matrix, and sets *rows and *cols to its dimensions. */
static bool matrix_of(const struct pl_match *m, struct pl_edge e, int64_t *rows, int64_t *cols)
{
    const struct rt_tensor *t = pl_matrix_constant(m->g, e);

    if (!t)
        return false;
    *rows = t->dim[0];
    *cols = t->dim[1];
    return *rows > 0 && *cols > 0 && t->buf;
}

static bool is_vector(const struct pl_match *m, struct pl_edge e, int64_t n)
{
    const struct rt_tensor *t = pl_row_constant(m->g, e);
    return t && t->rank == 1 && t->dim[0] == n;
}

static bool add_matmul(const struct pl_match *m, struct pl_edge e, struct pl_terms *t)
{
    struct pl_edge in[2];
    int64_t cols;

    if (t->n_matmuls == 2 || !pl_op_of(m, e, "MatMul", in, 2))
        return false;
    const struct rt_node *def = m->g->node[e.node].def;
    const int k = t->n_matmuls++;
    t->a[k] = in[0];
    t->matrix[k] = in[1];
    return !rt_attr_bool(def, "transpose_a") && !rt_attr_bool(def, "transpose_b") &&
           matrix_of(m, in[1], &t->rows[k], &cols) && cols == t->cols;
}

/* Adds the matmuls and the bias of the sum `e` to *t. The bias is optional. It must have one
 * element for each column of the matmuls. */
static bool add_terms(const struct pl_match *m, struct pl_edge e, struct pl_terms *t, int depth)
{
    struct pl_edge in[2];

    if (depth > 4)
        return false;
    if (pl_is(&m->g->node[e.node], "MatMul"))
        return add_matmul(m, e, t);
    if (pl_op_of(m, e, "BiasAdd", in, 2)) {
        if (t->n_biases++ || !is_vector(m, in[1], t->cols) ||
            !rt_span_is(rt_attr_str(m->g->node[e.node].def, "data_format"), "NHWC"))
            return false;
        t->bias = in[1];
        return add_terms(m, in[0], t, depth + 1);
    }
    if (!pl_sum_of(m, e, in))
        return false;
    for (int k = 0; k < 2; k++)
        if (is_vector(m, in[k], t->cols)) {
            if (t->n_biases++)
                return false;
            t->bias = in[k];
            return add_terms(m, in[1 - k], t, depth + 1);
        }
    return add_terms(m, in[0], t, depth + 1) && add_terms(m, in[1], t, depth + 1);
}

/* Follows inputs from `e` to the first constant matrix and returns its number of columns, or 0 if
 * there is no such matrix. */
static int64_t columns_below(const struct pl_match *m, struct pl_edge e)
{
    for (int hops = 0; hops < 8; hops++) {
        const struct pl_node *n = &m->g->node[e.node];
        int64_t rows, cols;
        if (pl_is(n, "MatMul") && n->n_in == 2)
            return matrix_of(m, n->in[1], &rows, &cols) ? cols : 0;
        if (!(pl_is(n, "BiasAdd") || pl_is_add(n)) || n->n_in != 2)
            return 0;
        e = pl_is_constant(m->g, n->in[0]) ? n->in[1] : n->in[0];
    }
    return 0;
}

bool pl_terms_of(const struct pl_match *m, struct pl_edge e, struct pl_terms *t)
{
    *t = (struct pl_terms){.bias = {-1, 0}, .cols = columns_below(m, e)};
    return t->cols > 0 && add_terms(m, e, t, 0) && t->n_matmuls > 0;
}

/* ---- columns ---- */

bool pl_columns_of(const struct pl_match *m, struct pl_edge e, struct pl_edge *of)
{
    struct pl_edge in[4];

    if (pl_op_of(m, (struct pl_edge){e.node, 0}, "Split", in, 2))
        *of = in[1];
    else if (pl_op_of(m, (struct pl_edge){e.node, 0}, "SplitV", in, 3) ||
             pl_op_of(m, e, "StridedSlice", in, 4))
        *of = in[0];
    else
        return false;
    return true;
}

/* Finds the first column and the width of output `out` of a SplitV. One of the sizes may be -1,
 * which stands for the remaining columns. */
static bool part_of(const struct pl_match *m, struct pl_edge sizes, int n, int out, int64_t cols,
                    int64_t *first, int64_t *width)
{
    enum { MOST = 8 };
    int64_t v[MOST], sum = 0;
    int open = -1;

    if (n < 1 || n > MOST || out >= n || !pl_ints_constant(m->g, sizes, n, v))
        return false;
    for (int i = 0; i < n; i++) {
        if (v[i] > cols || v[i] < -1 || (v[i] == -1 && open >= 0))
            return false;
        if (v[i] == -1)
            open = i;
        else
            sum += v[i];
    }
    if (open >= 0 ? sum > cols : sum != cols)
        /* If the sizes of a SplitV are invalid, the loop is not fused, and reports the error when
         * it runs. */
        return false;
    if (open >= 0)
        v[open] = cols - sum;
    *first = 0;
    for (int i = 0; i < out; i++)
        *first += v[i];
    *width = v[out];
    return true;
}

bool pl_is_column(const struct pl_match *m, struct pl_edge e, struct pl_edge of, int64_t cols,
                  int64_t units, int *k)
{
    const struct rt_node *def = m->g->node[e.node].def;
    struct pl_edge in[4], from;
    int64_t axis, begin[2], end[2], step[2];

    if (!pl_columns_of(m, e, &from) || !pl_same(from, of))
        return false;
    if (pl_op_of(m, (struct pl_edge){e.node, 0}, "Split", in, 2)) {
        *k = e.out;
        return rt_attr_int(def, "num_split") * units == cols &&
               pl_int_constant(m->g, in[0], &axis) && (axis == 1 || axis == -1);
    }
    int64_t first, width;
    if (pl_op_of(m, (struct pl_edge){e.node, 0}, "SplitV", in, 3)) {
        const int n = (int)rt_attr_int(def, "num_split");
        if (!part_of(m, in[1], n, e.out, cols, &first, &width))
            return false;
        *k = (int)(first / units);
        return width == units && first % units == 0 && pl_int_constant(m->g, in[2], &axis) &&
               (axis == 1 || axis == -1);
    }
    if (!pl_op_of(m, e, "StridedSlice", in, 4) || !pl_ints_constant(m->g, in[1], 2, begin) ||
        !pl_ints_constant(m->g, in[2], 2, end) || !pl_ints_constant(m->g, in[3], 2, step))
        return false;
    const int64_t begins = rt_attr_int(def, "begin_mask"), ends = rt_attr_int(def, "end_mask");
    if (!(begins & ends & 1) || step[0] != 1 || step[1] != 1 || rt_attr_int(def, "ellipsis_mask") ||
        rt_attr_int(def, "new_axis_mask") || rt_attr_int(def, "shrink_axis_mask"))
        return false;
    first = begins & 2 ? 0 : begin[1];
    const int64_t last = ends & 2 ? cols : end[1];
    *k = (int)(first / units);
    return first >= 0 && last <= cols && last - first == units && first % units == 0;
}

/* ---- the matrix products of x and the state ---- */

bool pl_side_by_side(const struct pl_match *m, const struct pl_terms *t, struct pl_edge *x,
                     struct pl_edge *h)
{
    struct pl_edge in[3];
    int64_t axis;

    if (t->n_matmuls != 1 || !pl_op_of(m, t->a[0], "ConcatV2", in, 3) ||
        !pl_int_constant(m->g, in[2], &axis) || (axis != 1 && axis != -1) ||
        t->rows[0] <= m->c->width)
        return false;
    *x = in[0];
    *h = in[1];
    return true;
}

static bool is_concatenated(struct pl_match *m, const struct pl_terms *t, struct pl_edge h)
{
    struct pl_cell *c = m->c;

    if (!pl_side_by_side(m, t, &c->in[RT_RNN_X], &c->in[RT_RNN_H]))
        return false;
    c->in[RT_RNN_W] = c->in[RT_RNN_R] = t->matrix[0];
    c->depth = t->rows[0] - c->width;
    c->x_row = 0;
    c->h_row = c->depth;
    return pl_same(c->in[RT_RNN_H], h) && !pl_same(c->in[RT_RNN_X], h);
}

/* Matches a sum of two matmuls. One matmul multiplies the state `h`, and the other multiplies x. */
static bool is_separate(struct pl_match *m, const struct pl_terms *t, struct pl_edge h)
{
    struct pl_cell *c = m->c;

    if (t->n_matmuls != 2)
        return false;
    const int k = pl_same(t->a[0], h) ? 0 : 1;
    if (!pl_same(t->a[k], h) || pl_same(t->a[1 - k], h) || t->rows[k] != c->width)
        return false;
    c->in[RT_RNN_H] = h;
    c->in[RT_RNN_R] = t->matrix[k];
    c->in[RT_RNN_X] = t->a[1 - k];
    c->in[RT_RNN_W] = t->matrix[1 - k];
    c->depth = t->rows[1 - k];
    return true;
}

bool pl_x_and_state(struct pl_match *m, const struct pl_terms *t, struct pl_edge h)
{
    m->c->in[RT_RNN_BIAS] = t->bias;
    return is_separate(m, t, h) || is_concatenated(m, t, h);
}

/* Sets the weights and biases of gate g. Matmul i of the sum `x` multiplies the cell's input, and
 * matmul k of the sum `of_h` multiplies the state. */
static bool set_gate(struct pl_match *m, int g, struct pl_edge h, const struct pl_terms *x, int i,
                     const struct pl_terms *of_h, int k)
{
    struct pl_cell *c = m->c;

    if (!pl_same(of_h->a[k], h) || pl_same(x->a[i], h) || of_h->rows[k] != c->width ||
        x->cols != c->units || of_h->cols != c->units)
        return false;
    if (g == 0) {
        c->in[RT_RNN_H] = h;
        c->in[RT_RNN_X] = x->a[i];
        c->depth = x->rows[i];
    }
    c->by_gate = true;
    c->gate[0][g] = x->matrix[i];
    c->gate[RT_RNN_R - RT_RNN_W][g] = of_h->matrix[k];
    c->gate[RT_RNN_BIAS - RT_RNN_W][g] = x->bias;
    if (of_h != x)
        c->gate[RT_RNN_R_BIAS - RT_RNN_W][g] = of_h->bias;
    return pl_same(c->in[RT_RNN_X], x->a[i]) && x->rows[i] == c->depth;
}

bool pl_own_gate(struct pl_match *m, struct pl_edge e, struct pl_edge h, int g)
{
    struct pl_terms t;

    if (!pl_terms_of(m, e, &t) || t.n_matmuls != 2)
        return false;
    const int k = pl_same(t.a[0], h) ? 0 : 1;
    return set_gate(m, g, h, &t, 1 - k, &t, k);
}

bool pl_own_sides(struct pl_match *m, const struct pl_edge side[2], struct pl_edge h, int g)
{
    struct pl_terms t[2];

    for (int k = 0; k < 2; k++)
        if (!pl_terms_of(m, side[k], &t[k]) || t[k].n_matmuls != 1)
            return false;
    const int k = pl_same(t[0].a[0], h) ? 0 : 1;
    return set_gate(m, g, h, &t[1 - k], 0, &t[k], 0);
}

bool pl_unit_vector(const struct pl_match *m, struct pl_edge e)
{
    return is_vector(m, e, m->c->units);
}

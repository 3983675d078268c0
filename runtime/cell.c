#include "runtime/cell.h"

#include <string.h>

static bool swap_edges(struct pl_edge *a, struct pl_edge *b)
{
    const struct pl_edge t = *a;
    *a = *b;
    *b = t;
    return true;
}

/* ---- one node ---- */

struct search {
    const struct pl_graph *g;
    struct pl_cell *c;
};

/* Output 0 of a pure float node of this op; its inputs are copied. */
static bool op_of(struct search *s, struct pl_edge e, const char *op, struct pl_edge *in, int n_in)
{
    const struct pl_node *n = pl_float_by(s->g, e, op, n_in);

    if (!n || n->effect != RT_PURE)
        return false;
    for (int k = 0; k < n_in; k++)
        in[k] = n->in[k];
    return true;
}

static bool unary(struct search *s, struct pl_edge e, const char *op, struct pl_edge *in)
{
    return op_of(s, e, op, in, 1);
}

static bool sum_of(struct search *s, struct pl_edge e, struct pl_edge *in)
{
    return op_of(s, e, "AddV2", in, 2) || op_of(s, e, "Add", in, 2);
}

/* e = a * b where a is made by `op`. */
static bool product_with(struct search *s, struct pl_edge e, const char *op, struct pl_edge *of_op,
                         struct pl_edge *other)
{
    struct pl_edge in[2];

    if (!op_of(s, e, "Mul", in, 2))
        return false;
    if (!unary(s, in[0], op, of_op) && (!swap_edges(&in[0], &in[1]) || !unary(s, in[0], op, of_op)))
        return false;
    *other = in[1];
    return true;
}

/* ---- sums of products ---- */

struct terms {
    int n_products, n_biases;
    struct pl_edge a[2], matrix[2], bias;
};

/* The dimensions of a constant float matrix. */
static bool matrix_of(const struct search *s, struct pl_edge e, int64_t *rows, int64_t *cols)
{
    const struct rt_tensor *t = pl_matrix_constant(s->g, e);
    if (!t)
        return false;
    *rows = t->dim[0];
    *cols = t->dim[1];
    return *rows > 0 && *cols > 0 && t->buf;
}

static bool is_vector(const struct search *s, struct pl_edge e, int64_t n)
{
    const struct rt_tensor *t = pl_row_constant(s->g, e);
    return t && t->rank == 1 && t->dim[0] == n;
}

static bool product_of(struct search *s, struct pl_edge e, struct terms *t)
{
    struct pl_edge in[2];

    if (t->n_products == 2 || !op_of(s, e, "MatMul", in, 2))
        return false;
    const struct rt_node *def = s->g->node[e.node].def;
    if (rt_attr_bool(def, "transpose_a") || rt_attr_bool(def, "transpose_b"))
        return false;
    t->a[t->n_products] = in[0];
    t->matrix[t->n_products++] = in[1];
    return true;
}

/* Products and at most one bias of `cols` values; TensorFlow refuses others in BiasAdd itself. */
static bool add_terms(struct search *s, struct pl_edge e, int64_t cols, struct terms *t, int depth)
{
    struct pl_edge in[2];

    if (depth > 4)
        return false;
    if (product_of(s, e, t))
        return true;
    if (op_of(s, e, "BiasAdd", in, 2)) {
        if (t->n_biases++ ||
            !rt_span_is(rt_attr_str(s->g->node[e.node].def, "data_format"), "NHWC"))
            return false;
        t->bias = in[1];
        return add_terms(s, in[0], cols, t, depth + 1);
    }
    if (!sum_of(s, e, in))
        return false;
    for (int k = 0; k < 2; k++)
        if (is_vector(s, in[k], cols)) {
            if (t->n_biases++)
                return false;
            t->bias = in[k];
            return add_terms(s, in[1 - k], cols, t, depth + 1);
        }
    return add_terms(s, in[0], cols, t, depth + 1) && add_terms(s, in[1], cols, t, depth + 1);
}

static bool terms_of(struct search *s, struct pl_edge e, int64_t cols, struct terms *t)
{
    *t = (struct terms){.bias = {-1, 0}};
    return add_terms(s, e, cols, t, 0);
}

/* The columns that all gates have together, known by the first constant matrix below `e`. */
static int64_t columns_below(const struct search *s, struct pl_edge e)
{
    for (int hops = 0; hops < 8; hops++) {
        const struct pl_node *n = &s->g->node[e.node];
        int64_t rows, cols;
        if (pl_is(n, "MatMul") && n->n_in == 2)
            return matrix_of(s, n->in[1], &rows, &cols) ? cols : 0;
        if (!(pl_is(n, "BiasAdd") || pl_is(n, "AddV2") || pl_is(n, "Add")) || n->n_in != 2)
            return 0;
        e = pl_is_constant(s->g, n->in[0]) ? n->in[1] : n->in[0];
    }
    return 0;
}

/* Columns [k, k + 1) * units of a matrix with `cols` columns: by a split or a slice. *of: the
 * matrix. */
static bool columns_of(struct search *s, struct pl_edge e, struct pl_edge *of)
{
    struct pl_edge in[4];

    if (op_of(s, (struct pl_edge){e.node, 0}, "Split", in, 2))
        *of = in[1];
    else if (op_of(s, (struct pl_edge){e.node, 0}, "SplitV", in, 3) ||
             op_of(s, e, "StridedSlice", in, 4))
        *of = in[0];
    else
        return false;
    return true;
}

/* Where output `out` of a SplitV begins and how wide it is; one size may be left open. */
static bool part_of(struct search *s, struct pl_edge sizes, int n, int out, int64_t cols,
                    int64_t *first, int64_t *width)
{
    enum { MOST = 8 };
    int64_t v[MOST], sum = 0;
    int open = -1;

    if (n < 1 || n > MOST || out >= n || !pl_ints_constant(s->g, sizes, n, v))
        return false;
    for (int i = 0; i < n; i++) {
        if (v[i] > cols || v[i] < -1 || (v[i] == -1 && open >= 0))
            return false;
        if (v[i] == -1)
            open = i;
        else
            sum += v[i];
    }
    if (open >= 0)
        v[open] = cols - sum;
    *first = 0;
    for (int i = 0; i < out; i++)
        *first += v[i];
    *width = v[out];
    return *width >= 0 && *first + *width <= cols;
}

static bool is_column(struct search *s, struct pl_edge e, struct pl_edge of, int64_t cols,
                      int64_t units, int *k)
{
    const struct rt_node *def = s->g->node[e.node].def;
    struct pl_edge in[4], from;
    int64_t axis, begin[2], end[2], step[2];

    if (!columns_of(s, e, &from) || !pl_same(from, of))
        return false;
    if (op_of(s, (struct pl_edge){e.node, 0}, "Split", in, 2)) {
        *k = e.out;
        return rt_attr_int(def, "num_split") * units == cols &&
               pl_int_constant(s->g, in[0], &axis) && (axis == 1 || axis == -1);
    }
    int64_t first, width;
    if (op_of(s, (struct pl_edge){e.node, 0}, "SplitV", in, 3)) {
        const int n = (int)rt_attr_int(def, "num_split");
        if (!part_of(s, in[1], n, e.out, cols, &first, &width))
            return false;
        *k = (int)(first / units);
        return width == units && first % units == 0 && pl_int_constant(s->g, in[2], &axis) &&
               (axis == 1 || axis == -1);
    }
    if (!op_of(s, e, "StridedSlice", in, 4) || !pl_ints_constant(s->g, in[1], 2, begin) ||
        !pl_ints_constant(s->g, in[2], 2, end) || !pl_ints_constant(s->g, in[3], 2, step))
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

/* x and h side by side times one matrix. */
static bool joined(struct search *s, const struct terms *t, int64_t cols)
{
    struct pl_cell *c = s->c;
    struct pl_edge in[3];
    int64_t axis, rows, n;

    if (t->n_products != 1 || !op_of(s, t->a[0], "ConcatV2", in, 3) ||
        !pl_int_constant(s->g, in[2], &axis) || (axis != 1 && axis != -1) ||
        !matrix_of(s, t->matrix[0], &rows, &n) || n != cols || rows <= c->units)
        return false;
    c->w = c->r = t->matrix[0];
    c->depth = rows - c->units;
    c->x = in[0];
    c->h = in[1];
    c->x_row = 0;
    c->h_row = c->depth;
    return true;
}

/* The product that multiplies x and the one that multiplies h, by their shapes and `h`. */
static bool apart(struct search *s, const struct terms *t, struct pl_edge h, int64_t cols)
{
    struct pl_cell *c = s->c;
    int64_t rows[2], n[2];

    if (t->n_products != 2 || !matrix_of(s, t->matrix[0], &rows[0], &n[0]) ||
        !matrix_of(s, t->matrix[1], &rows[1], &n[1]) || n[0] != cols || n[1] != cols)
        return false;
    const int k = pl_same(t->a[0], h) ? 0 : 1;
    if (!pl_same(t->a[k], h) || pl_same(t->a[1 - k], h) || rows[k] != c->units)
        return false;
    c->h = h;
    c->r = t->matrix[k];
    c->x = t->a[1 - k];
    c->w = t->matrix[1 - k];
    c->depth = rows[1 - k];
    return true;
}

/* ---- LSTM ---- */

/* c_new = sigmoid(forget) * c + sigmoid(in) * tanh(fresh), in any order. */
static bool lstm_state(struct search *s, struct pl_edge e, struct pl_edge *forget,
                       struct pl_edge *in, struct pl_edge *fresh)
{
    struct pl_edge half[2], other;

    if (!sum_of(s, e, half))
        return false;
    for (int k = 0; k < 2; k++)
        if (product_with(s, half[k], "Tanh", fresh, &other) && unary(s, other, "Sigmoid", in) &&
            product_with(s, half[1 - k], "Sigmoid", forget, &s->c->c))
            return true;
    return false;
}

static bool find_lstm(struct search *s, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = s->c;
    struct pl_edge gate[4], of, in[2]; /* in the order i, f, g, o */
    struct terms t;
    int k;

    if (!product_with(s, h_new, "Tanh", &c->c_new, &gate[3]) ||
        !unary(s, gate[3], "Sigmoid", &gate[3]) ||
        !lstm_state(s, c->c_new, &gate[1], &gate[0], &gate[2]))
        return false;
    /* TensorFlow 1 adds the forget bias to the gate. */
    if (sum_of(s, gate[1], in)) {
        if (!pl_float_constant(s->g, in[1], &c->forget_bias) &&
            (!swap_edges(&in[0], &in[1]) || !pl_float_constant(s->g, in[1], &c->forget_bias)))
            return false;
        gate[1] = in[0];
    }
    if (!columns_of(s, gate[0], &of))
        return false;
    const int64_t cols = columns_below(s, of);
    if (cols <= 0 || cols % 4)
        return false;
    c->kind = PL_LSTM;
    c->units = cols / 4;
    for (int i = 0; i < 4; i++) {
        if (!is_column(s, gate[i], of, cols, c->units, &k) || k > 3 || c->order[k])
            return false;
        c->order[k] = "ifgo"[i];
    }
    if (!terms_of(s, of, cols, &t) || !(apart(s, &t, h, cols) || joined(s, &t, cols)))
        return false;
    c->bias = t.bias;
    c->r_bias = (struct pl_edge){-1, 0};
    return pl_same(c->h, h);
}

/* ---- GRU ---- */

/* One of the two sums that the gates are columns of: of x or of the state. */
struct side {
    struct pl_edge of;
    int64_t cols;
    struct terms t;
};

static bool side_of(struct search *s, struct pl_edge column, struct side *side)
{
    int64_t rows, cols;

    if (!columns_of(s, column, &side->of))
        return false;
    side->cols = columns_below(s, side->of);
    return side->cols > 0 && terms_of(s, side->of, side->cols, &side->t) &&
           side->t.n_products == 1 && matrix_of(s, side->t.matrix[0], &rows, &cols) &&
           cols == side->cols;
}

/* gate = sigmoid(column k of x's side + column k of the state's), in any order. */
static bool gru_gate(struct search *s, struct pl_edge e, const struct side *x, const struct side *h,
                     int *k)
{
    const int64_t units = s->c->units;
    struct pl_edge in[2];
    int other;

    if (!unary(s, e, "Sigmoid", &e) || !sum_of(s, e, in))
        return false;
    if (!is_column(s, in[0], x->of, x->cols, units, k))
        swap_edges(&in[0], &in[1]);
    return is_column(s, in[0], x->of, x->cols, units, k) &&
           is_column(s, in[1], h->of, h->cols, units, &other) && other == *k;
}

/* The two sides, told apart by what is multiplied. */
static bool gru_sides(struct search *s, struct pl_edge update, struct pl_edge h, struct side *x,
                      struct side *of_h)
{
    struct pl_edge in[2];

    if (!unary(s, update, "Sigmoid", &update) || !sum_of(s, update, in) || !side_of(s, in[0], x) ||
        !side_of(s, in[1], of_h))
        return false;
    if (pl_same(x->t.a[0], h)) {
        const struct side t = *x;
        *x = *of_h;
        *of_h = t;
    }
    return pl_same(of_h->t.a[0], h) && !pl_same(x->t.a[0], h);
}

/* h_new = update * h + (1 - update) * tanh(fresh), in any order. */
static bool gru_state(struct search *s, struct pl_edge e, struct pl_edge h, struct pl_edge *update,
                      struct pl_edge *fresh)
{
    struct pl_edge half[2], other, in[2];
    float one;

    if (!sum_of(s, e, half))
        return false;
    for (int k = 0; k < 2; k++) {
        if (!product_with(s, half[k], "Tanh", fresh, &other) || !op_of(s, other, "Sub", in, 2) ||
            !pl_float_constant(s->g, in[0], &one) || one != 1)
            continue;
        *update = in[1];
        return op_of(s, half[1 - k], "Mul", in, 2) &&
               ((pl_same(in[0], *update) && pl_same(in[1], h)) ||
                (pl_same(in[1], *update) && pl_same(in[0], h)));
    }
    return false;
}

/* The reset gate behind the product: tanh(column of x + reset * column of the state). */
static bool reset_after(struct search *s, struct pl_edge e, const struct side *h,
                        struct pl_edge *reset)
{
    struct pl_edge in[2];
    int k;

    if (!op_of(s, e, "Mul", in, 2) || h->cols != 3 * s->c->units)
        return false;
    if (!is_column(s, in[1], h->of, h->cols, s->c->units, &k))
        swap_edges(&in[0], &in[1]);
    *reset = in[0];
    s->c->kind = PL_GRU;
    return is_column(s, in[1], h->of, h->cols, s->c->units, &k) && k == 2;
}

/* ... or before it: tanh(column of x + (reset * h) R). */
static bool reset_before(struct search *s, struct pl_edge e, struct pl_edge h,
                         const struct side *of_h, struct pl_edge *reset)
{
    struct terms t = {.n_products = 0};
    struct pl_edge in[2];
    int64_t rows, cols;

    if (!product_of(s, e, &t) || !matrix_of(s, t.matrix[0], &rows, &cols) || rows != s->c->units ||
        cols != s->c->units || of_h->cols != 2 * s->c->units || of_h->t.n_biases ||
        !op_of(s, t.a[0], "Mul", in, 2))
        return false;
    if (!pl_same(in[1], h))
        swap_edges(&in[0], &in[1]);
    *reset = in[0];
    s->c->r_new = t.matrix[0];
    s->c->kind = PL_GRU_BEFORE;
    return pl_same(in[1], h);
}

static bool find_gru(struct search *s, struct pl_edge h_new, struct pl_edge h)
{
    struct pl_cell *c = s->c;
    struct pl_edge update, fresh, reset, in[2];
    struct side x, of_h;
    int64_t rows, cols;
    int k;

    if (!gru_state(s, h_new, h, &update, &fresh) || !gru_sides(s, update, h, &x, &of_h) ||
        x.cols % 3)
        return false;
    c->units = x.cols / 3;
    if (!sum_of(s, fresh, in))
        return false;
    if (!is_column(s, in[0], x.of, x.cols, c->units, &k))
        swap_edges(&in[0], &in[1]);
    if (!is_column(s, in[0], x.of, x.cols, c->units, &k) || k != 2 ||
        !(reset_after(s, in[1], &of_h, &reset) || reset_before(s, in[1], h, &of_h, &reset)))
        return false;
    if (!gru_gate(s, update, &x, &of_h, &k) || k > 1)
        return false;
    memcpy(c->order, k == 0 ? "zrn" : "rzn", 4);
    if (!gru_gate(s, reset, &x, &of_h, &k) || k > 1 || c->order[k] != 'r')
        return false;
    matrix_of(s, of_h.t.matrix[0], &rows, &cols);
    if (rows != c->units)
        return false;
    matrix_of(s, x.t.matrix[0], &c->depth, &cols);
    c->x = x.t.a[0];
    c->h = h;
    c->w = x.t.matrix[0];
    c->r = of_h.t.matrix[0];
    c->bias = x.t.bias;
    c->r_bias = of_h.t.bias;
    return true;
}

bool pl_find_cell(const struct pl_graph *g, struct pl_edge h_new, struct pl_edge h,
                  struct pl_cell *c)
{
    struct search s = {g, c};

    *c = (struct pl_cell){.r_new = {-1, 0}};
    if (find_lstm(&s, h_new, h))
        return true;
    *c = (struct pl_cell){.r_new = {-1, 0}};
    return find_gru(&s, h_new, h);
}

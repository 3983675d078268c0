/*
 * Finds activation functions that a model computes in several nodes: swish as `x * sigmoid(x)`,
 * GELU as `0.5 * x * (1 + erf(x / sqrt(2)))`, and so on, with the factors in any order.
 *
 * The search starts at a value x. It collects nodes that read only x, each other and scalar
 * constants, until only one collected node has readers outside the collection. The formula of this
 * node's value is normalised (products and sums are flattened, their operands sorted, and constants
 * named) and looked up in a table.
 */
#include "runtime/fusion/fuse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- formulas ---- */

enum { MOST_PARTS = 4, TEXT = 96 };

/* A formula: `number * part * part ...` or, if is_sum is set, `number + part + part ...`. The parts
 * are sorted. */
struct formula {
    bool is_sum;
    double number;
    int n;
    char part[MOST_PARTS][TEXT];
};

struct reading {
    const struct pl_graph *g;
    int x;
    bool has_number; /* whether the formula contains a constant that is not in `known` */
    double value;
    int steps;
};

/* Reads a constant of rank 0. A constant of higher rank could give the value more axes than x
 * has. */
static bool scalar_of(const struct pl_graph *g, struct pl_edge e, double *out)
{
    float v;
    if (!pl_float_constant(g, e, &v))
        return false;
    *out = (double)v;
    return isfinite(v);
}

static const char *name_of(struct reading *r, double v)
{
    static const struct {
        double value;
        const char *name;
    } known[] = {{1, "1"},
                 {0, "0"},
                 {3, "3"},
                 {0.5, "1/2"},
                 {1.0 / 6, "1/6"},
                 {M_SQRT1_2, "sqrt1/2"},
                 {-M_SQRT1_2, "-sqrt1/2"},
                 {0.79788456080286536, "sqrt2/pi"},
                 {0.044715, "0.044715"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fabs(v - known[i].value) <= 3e-7 * fabs(known[i].value))
            return known[i].name;
    if (r->has_number && r->value != v)
        return NULL;
    r->has_number = true;
    r->value = v;
    return "a";
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool put_text(struct reading *r, struct formula *f, char text[TEXT])
{
    const bool alone = f->n == 1 && f->number == (f->is_sum ? 0 : 1);
    const char *name = alone ? "" : name_of(r, f->number);
    int at = 0;

    if (!name)
        return false;
    qsort(f->part, (size_t)f->n, sizeof *f->part, by_text);
    if (!alone)
        at = snprintf(text, TEXT, "%s%s", f->is_sum ? "S" : "P", name);
    for (int i = 0; i < f->n && at < TEXT; i++)
        at += snprintf(text + at, TEXT - (size_t)at, alone ? "%s" : " (%s)", f->part[i]);
    return at < TEXT;
}

static bool add_part(struct formula *f, const char *text)
{
    if (f->n == MOST_PARTS)
        return false;
    snprintf(f->part[f->n++], TEXT, "%s", text);
    return true;
}

static bool formula_of(struct reading *r, struct pl_edge e, struct formula *f);

/* Sets *f to `f * g` or, if `sum` is true, to `f + g`. */
static bool combine(struct reading *r, struct formula *f, struct formula *g, bool sum)
{
    char text[TEXT];
    struct formula *both[] = {f, g};
    struct formula out = {.is_sum = sum, .number = sum ? 0 : 1};

    for (int k = 0; k < 2; k++) {
        const struct formula *h = both[k];
        /* A formula without parts is only a number, so it is both a sum and a product. */
        if (h->is_sum == sum || h->n == 0) {
            out.number = sum ? out.number + h->number : out.number * h->number;
            for (int i = 0; i < h->n; i++)
                if (!add_part(&out, h->part[i]))
                    return false;
        } else if (!put_text(r, both[k], text) || !add_part(&out, text)) {
            return false;
        }
    }
    *f = out;
    return true;
}

static void make_number(struct formula *f, double v)
{
    *f = (struct formula){.number = v};
}

static void make_x(struct formula *f)
{
    *f = (struct formula){.number = 1, .n = 1, .part = {"x"}};
}

/* Sets *f to a formula whose only part is the string "NAME OPERAND". */
static bool call(struct reading *r, const char *name, struct pl_edge operand, struct formula *f)
{
    char text[TEXT], whole[TEXT];

    if (!formula_of(r, operand, f) || !put_text(r, f, text))
        return false;
    if (snprintf(whole, TEXT, "%s %s", name, text) >= TEXT)
        return false;
    *f = (struct formula){.number = 1, .n = 1};
    memcpy(f->part[0], whole, TEXT);
    return true;
}

static bool arithmetic(struct reading *r, const struct pl_node *n, struct formula *f)
{
    struct formula second;
    double v;

    if (!formula_of(r, n->in[0], f))
        return false;
    if (pl_is(n, "Neg") || pl_is(n, "Square")) {
        make_number(&second, -1);
        if (pl_is(n, "Square"))
            second = *f;
        return combine(r, f, &second, false);
    }
    if (pl_is(n, "RealDiv") || pl_is(n, "Pow")) {
        if (!scalar_of(r->g, n->in[1], &v) || v == 0)
            return false;
        if (pl_is(n, "RealDiv")) {
            make_number(&second, 1 / v);
            return combine(r, f, &second, false);
        }
        const struct formula base = *f;
        if (v != 2 && v != 3)
            return false;
        for (int i = 1; i < (int)v; i++) {
            second = base;
            if (!combine(r, f, &second, false))
                return false;
        }
        return true;
    }
    if (!formula_of(r, n->in[1], &second))
        return false;
    if (pl_is(n, "Sub")) { /* The second operand of a subtraction must be a number. */
        if (second.n)
            return false;
        second.number = -second.number;
    }
    return combine(r, f, &second, !pl_is(n, "Mul"));
}

/* The ops that may be part of a formula. A function appears in a formula by the name of its op. The
 * arithmetic ops of a formula are normalised. */
static const char *const function[] = {"Relu", "Relu6", "Sigmoid",   "Tanh", "Elu",
                                       "Erf",  "Erfc",  "LeakyRelu", NULL};
static const char *const calculation[] = {"Neg", "Mul",    "AddV2",   "Add", "Sub",
                                          "Pow", "Square", "RealDiv", NULL};

static const char *name_among(const struct pl_node *n, const char *const name[])
{
    while (*name && !pl_is(n, *name))
        name++;
    return *name;
}

static bool formula_of(struct reading *r, struct pl_edge e, struct formula *f)
{
    double v;

    if (++r->steps > 200)
        return false;
    if (e.node == r->x) {
        make_x(f);
        return true;
    }
    if (scalar_of(r->g, e, &v)) {
        make_number(f, v);
        return true;
    }
    const struct pl_node *n = &r->g->node[e.node];
    const char *name = name_among(n, function);
    return name ? call(r, name, n->in[0], f) : arithmetic(r, n, f);
}

/* ---- the search ---- */

static const struct {
    const char *formula;
    enum rt_activation act;
    bool has_one; /* whether alpha is 1; the formula then does not contain alpha */
} table[] = {
    {"Relu x", RT_ACT_RELU, false},
    {"Relu6 x", RT_ACT_RELU6, false},
    {"Sigmoid x", RT_ACT_SIGMOID, false},
    {"Tanh x", RT_ACT_TANH, false},
    {"Elu x", RT_ACT_ELU, false},
    {"LeakyRelu x", RT_ACT_LEAKY_RELU, false},
    {"P1 (Sigmoid x) (x)", RT_ACT_SWISH, true},
    {"P1 (Sigmoid Pa (x)) (x)", RT_ACT_SWISH, false},
    {"P1/6 (Relu6 S3 (x))", RT_ACT_HARD_SIGMOID, false},
    {"P1/6 (Relu6 S3 (x)) (x)", RT_ACT_HARD_SWISH, false},
    {"P1/2 (S1 (Erf Psqrt1/2 (x))) (x)", RT_ACT_GELU, false},
    {"P1/2 (Erfc P-sqrt1/2 (x)) (x)", RT_ACT_GELU, false},
    {"P1/2 (S1 (Tanh Psqrt2/pi (S0 (P0.044715 (x) (x) (x)) (x)))) (x)", RT_ACT_GELU_TANH, false},
};

static bool look_up(const struct pl_graph *g, int x, struct pl_activation *a)
{
    struct reading r = {.g = g, .x = x};
    const struct pl_node *last = &g->node[a->node[a->n - 1]];
    struct formula f;
    char text[TEXT];

    if (!formula_of(&r, (struct pl_edge){a->node[a->n - 1], 0}, &f) || !put_text(&r, &f, text))
        return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(text, table[i].formula) != 0)
            continue;
        a->act = table[i].act;
        a->has_number = r.has_number || table[i].has_one;
        a->number = table[i].has_one ? 1 : (float)r.value;
        if (pl_is(last, "LeakyRelu")) {
            a->has_number = true;
            a->number = rt_attr_float(last->def, "alpha");
        }
        return isfinite(a->number);
    }
    return false;
}

static bool is_step(const struct pl_graph *g, int i, int x, const struct pl_activation *a)
{
    const struct pl_node *n = &g->node[i];
    double v;

    if (n->kind != PL_OP || !n->def || !n->def->op || n->call || n->n_ctrl || n->n_out != 1 ||
        n->def->n_extra || n->def->out_dtype[0] != RT_F32)
        return false;
    bool known = name_among(n, function) || name_among(n, calculation);
    for (int k = 0; k < n->n_in && known; k++) {
        bool inside = n->in[k].node == x && n->in[k].out == 0;
        for (int j = 0; j < a->n && !inside; j++)
            inside = n->in[k].node == a->node[j] && n->in[k].out == 0;
        known = inside || scalar_of(g, n->in[k], &v);
    }
    return known;
}

static bool holds(const struct pl_activation *a, int i)
{
    for (int k = 0; k < a->n; k++)
        if (a->node[k] == i)
            return true;
    return false;
}

/* Returns whether nodes outside the set read only the value of the set's last node. */
static bool is_alone(const struct pl_graph *g, const struct pl_uses *u, int x,
                     const struct pl_activation *a)
{
    struct pl_cluster m = pl_cluster_from(g, u, a->node[a->n - 1]);

    pl_cluster_take(&m, (struct pl_edge){x, 0});
    for (int k = 0; k < a->n - 1; k++)
        pl_cluster_take(&m, (struct pl_edge){a->node[k], 0});
    return pl_cluster_is_closed(&m);
}

/* Returns the next node for the set of matched nodes: one that reads x or a value of the set.
 * Returns -1 if there is none. */
static int next_step(const struct pl_graph *g, const struct pl_readers *r, int x,
                     const struct pl_activation *a)
{
    for (int k = -1; k < a->n; k++) {
        const int from = k < 0 ? x : a->node[k];
        if (r->first[from + 1] - r->first[from] > PL_MOST_ACTIVATION)
            return -1;
        for (int j = r->first[from]; j < r->first[from + 1]; j++)
            if (!holds(a, r->of[j].node) && is_step(g, r->of[j].node, x, a))
                return r->of[j].node;
    }
    return -1;
}

bool pl_find_activation(const struct pl_graph *g, const struct pl_uses *u,
                        const struct pl_readers *r, int x, struct pl_activation *out)
{
    *out = (struct pl_activation){.n = 0};
    while (out->n < PL_MOST_ACTIVATION) {
        const int i = next_step(g, r, x, out);
        if (i < 0)
            return false;
        out->node[out->n++] = i;
        if (is_alone(g, u, x, out) && look_up(g, x, out))
            return true;
    }
    return false;
}

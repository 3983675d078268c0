#include "kernels/matmul/einsum_equation.h"

#include <string.h>

/* The subscripts of one operand or of the result. `dots` is the number of labels before "...", or
 * -1 if there is no "...". */
struct subscripts {
    struct rt_span text;
    int n_named, dots;
};

static struct subscripts subscripts_of(struct rt_span text)
{
    struct subscripts s = {.text = text, .dots = -1};
    for (size_t i = 0; i < text.n; i++) {
        if (i + 2 < text.n && memcmp(text.p + i, "...", 3) == 0) {
            s.dots = s.n_named;
            i += 2;
        } else if (s.n_named < INT32_MAX) {
            s.n_named++;
        }
    }
    return s;
}

struct parts {
    int n_in;
    struct subscripts in[2], out;
};

static enum rt_status split(const struct rt_node *n, struct parts *p, struct rt_error *err)
{
    const struct rt_span eq = rt_attr_str(n, "equation");
    int arrows = 0, commas = 0;
    size_t arrow = 0, comma = 0;

    for (size_t i = 0; i + 1 < eq.n; i++)
        if (eq.p[i] == '-' && eq.p[i + 1] == '>') {
            arrows++;
            arrow = i;
        }
    if (arrows != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expecting exactly one '->' in einsum equation: %.*s", (int)eq.n,
                       (const char *)eq.p);
    for (size_t i = 0; i < arrow; i++)
        if (eq.p[i] == ',') {
            commas++;
            comma = i;
        }
    if (commas > 1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expecting 1 or 2 input subscripts in equation '%.*s' but got: %d",
                       (int)eq.n, (const char *)eq.p, commas + 1);
    p->n_in = commas + 1;
    if (n->n_in != p->n_in)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Expected %d inputs but got: %d", p->n_in,
                       n->n_in);
    p->in[0] = subscripts_of(rt_span_of(eq.p, commas ? comma : arrow));
    if (commas)
        p->in[1] = subscripts_of(rt_span_of(eq.p + comma + 1, arrow - comma - 1));
    p->out = subscripts_of(rt_span_of(eq.p + arrow + 2, eq.n - arrow - 2));
    return RT_OK;
}

enum rt_status kn_einsum_check(const struct rt_node *n, struct rt_error *err)
{
    struct parts p;
    return split(n, &p, err);
}

/* Sets the labels of an operand or of the result, whose rank the caller has checked. */
static void assign(const struct subscripts *s, int rank, struct kn_einsum_labels *l)
{
    const int n_dots = rank - s->n_named;
    size_t at = 0;

    l->n = rank;
    for (int k = 0, named = 0; k < rank;) {
        if (named == s->dots && k == named) {
            for (int i = 0; i < n_dots; i++)
                l->id[k++] = KN_EINSUM_ELLIPSIS + n_dots - 1 - i;
            at += 3;
            if (n_dots)
                continue;
        }
        l->id[k++] = s->text.p[at++];
        named++;
    }
}

int kn_einsum_find(const struct kn_einsum_equation *e, int id)
{
    for (int i = 0; i < e->n_labels; i++)
        if (e->id[i] == id)
            return i;
    return -1;
}

static bool has_label(const struct kn_einsum_labels *l, int id)
{
    for (int k = 0; k < l->n; k++)
        if (l->id[k] == id)
            return true;
    return false;
}

/* Returns whether a label whose length was 0 so far may have length n in the operand with index
 * `input`. TensorFlow compares a label's length with the length before it only if that one is not
 * 0. It then sums the label over nothing, or, if the result has the label, broadcasts the axis of
 * the second operand. */
static bool may_differ_from_0(const struct kn_einsum_equation *e, const struct parts *p, int id,
                              int input, int64_t n)
{
    return !memchr(p->out.text.p, id, p->out.text.n) ||
           (n == 1 && input == 1 && has_label(&e->in[0], id));
}

/* Adds the dimensions of the operand with index `input`. last[i] is the last length of the label
 * with index i. It differs from e->dim[i] if e->dim[i] is 0 (may_differ_from_0). */
static enum rt_status add_dims(struct kn_einsum_equation *e, const struct parts *p, int input,
                               int64_t *last, const struct rt_info *in, struct rt_error *err)
{
    const struct kn_einsum_labels *l = &e->in[input];
    const struct rt_shape *s = &in[input].shape, *other = &in[0].shape;
    char ts[160], to[160];

    for (int k = 0; k < l->n; k++) {
        int i = kn_einsum_find(e, l->id[k]);
        if (i < 0) {
            i = e->n_labels++;
            e->id[i] = l->id[k];
            e->dim[i] = last[i] = s->dim[k];
        } else if (l->id[k] >= KN_EINSUM_ELLIPSIS && (e->dim[i] == 1 || s->dim[k] == 1)) {
            if (e->dim[i] == 1)
                e->dim[i] = last[i] = s->dim[k];
        } else if (l->id[k] < KN_EINSUM_ELLIPSIS && last[i] == 0 &&
                   may_differ_from_0(e, p, l->id[k], input, s->dim[k])) {
            last[i] = s->dim[k];
        } else if (last[i] != s->dim[k]) {
            if (l->id[k] >= KN_EINSUM_ELLIPSIS)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "Invalid broadcasting dimensions: %s vs. %s",
                               rt_shape_text(to, sizeof to, other->rank, other->dim),
                               rt_shape_text(ts, sizeof ts, s->rank, s->dim));
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected dimension %lld at axis %d of the input shaped %s but got "
                           "dimension %lld",
                           (long long)last[i], k, rt_shape_text(ts, sizeof ts, s->rank, s->dim),
                           (long long)s->dim[k]);
        }
    }
    return RT_OK;
}

enum rt_status kn_einsum_solve(const struct rt_node *n, const struct rt_info *in,
                               struct kn_einsum_equation *e, struct rt_error *err)
{
    struct parts p;
    int64_t last[KN_EINSUM_MAX_LABELS];
    int n_dots = 0;

    enum rt_status st = split(n, &p, err);
    if (st)
        return st;
    memset(e, 0, sizeof *e);
    e->n_in = p.n_in;
    for (int k = 0; k < p.n_in; k++) {
        const int rank = in[k].shape.rank, named = p.in[k].n_named;
        if (p.in[k].dots < 0 && rank != named)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected input %d to have rank %d but got: %d", k, named, rank);
        if (rank < named)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Expected input %d to have rank at least %d but got: %d", k, named,
                           rank);
        if (rank - named > n_dots)
            n_dots = rank - named;
        assign(&p.in[k], rank, &e->in[k]);
        st = add_dims(e, &p, k, last, in, err);
        if (st)
            return st;
    }
    if (n_dots && p.out.dots < 0)
        return rt_fail(
            err, RT_INVALID_ARGUMENT,
            "Output contains %d broadcasting dimension(s) but no ellipsis (...) was found "
            "in the output subscripts.",
            n_dots);
    const int rank = p.out.n_named + (p.out.dots < 0 ? 0 : n_dots);
    if (rank > RT_MAX_RANK)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Einsum: an output of rank %d", rank);
    assign(&p.out, rank, &e->out);
    for (int k = 0; k < rank; k++)
        if (kn_einsum_find(e, e->out.id[k]) < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Einsum: output subscript '%c' is in no input",
                           e->out.id[k]);
    return RT_OK;
}

bool kn_einsum_has_diagonal(const struct kn_einsum_labels *l)
{
    for (int k = 0; k < l->n; k++)
        for (int j = 0; j < k; j++)
            if (l->id[j] == l->id[k])
                return true;
    return false;
}

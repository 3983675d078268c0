#include "kernels/cpu/tail.h"

#include <string.h>

#include "kernels/cpu/types.h"

static bool has_operand(enum kn_tail_op op)
{
    return op == KN_TAIL_MUL || op == KN_TAIL_ADD;
}

void kn_tail_read(struct kn_tail *t, const struct rt_node *n)
{
    static const char *const name[] = {"mul", "add", "relu", "relu6"};
    int input = n->schema->n_in;

    t->n = 0;
    for (int i = 0; i < n->n_extra; i++) {
        if (strcmp(n->extra[i].name, "_tail") != 0)
            continue;
        for (const char *s = n->extra[i].value.v.s; *s && t->n < KN_TAIL_STEPS;) {
            const size_t len = strcspn(s, " ");
            for (int k = 0; k < 4; k++)
                if (strlen(name[k]) == len && memcmp(name[k], s, len) == 0) {
                    t->step[t->n].op = (enum kn_tail_op)k;
                    t->step[t->n++].input = has_operand((enum kn_tail_op)k) ? input++ : 0;
                }
            s += len + (s[len] == ' ');
        }
    }
}

/* ---- loops ---- */

KN_CLONES static void scale(float *restrict y, const float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] *= v[i];
}
KN_CLONES static void shift(float *restrict y, const float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += v[i];
}
KN_CLONES static void cut(float *y, float most, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = y[i] < 0 ? 0 : y[i]; /* NaN stays */
        y[i] = v > most ? most : v;
    }
}

void kn_tail_apply(const struct kn_tail *t, const struct rt_run *r, float *y, int64_t rows,
                   int64_t cols)
{
    for (int64_t i = 0; t->n && i < rows; i++, y += cols)
        for (int k = 0; k < t->n; k++) {
            const float *v = t->step[k].input ? r->in[t->step[k].input].data : NULL;
            if (t->step[k].op == KN_TAIL_MUL)
                scale(y, v, cols);
            else if (t->step[k].op == KN_TAIL_ADD)
                shift(y, v, cols);
            else
                cut(y, t->step[k].op == KN_TAIL_RELU6 ? 6 : __builtin_inff(), cols);
        }
}

void kn_tail_finish(const struct kn_tail *t, float *y, int64_t n)
{
    if (t->n && !has_operand(t->step[t->n - 1].op))
        cut(y, t->step[t->n - 1].op == KN_TAIL_RELU6 ? 6 : __builtin_inff(), n);
}

/* ---- post-ops ---- */

static dnnl_status_t vector_md(int rank, int64_t channels, dnnl_memory_desc_t *md)
{
    dnnl_dims_t dim = {1, channels, 1, 1, 1}, stride = {channels, 1, 1, 1, 1};
    return dnnl_memory_desc_init_by_strides(md, rank, dim, dnnl_f32, stride);
}

dnnl_status_t kn_tail_attr(const struct kn_tail *t, int rank, int64_t channels,
                           dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_memory_desc_t md;

    dnnl_status_t s = kn_dnnl_attr(out);
    if (!s)
        s = dnnl_post_ops_create(&ops);
    if (!s)
        s = vector_md(rank, channels, &md);
    for (int k = 0; !s && k < t->n; k++) {
        if (has_operand(t->step[k].op))
            s = dnnl_post_ops_append_binary(
                ops, t->step[k].op == KN_TAIL_MUL ? dnnl_binary_mul : dnnl_binary_add, &md);
    }
    if (!s)
        s = dnnl_primitive_attr_set_post_ops(*out, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

void kn_tail_args(const struct kn_tail *t, int rank, int64_t channels, struct kn_dnnl *d)
{
    for (int k = 0; k < t->n; k++) {
        if (!has_operand(t->step[k].op))
            continue;
        d->arg[d->n] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(k) | DNNL_ARG_SRC_1;
        vector_md(rank, channels, &d->md[d->n++]);
    }
}

int kn_tail_data(const struct kn_tail *t, const struct rt_run *r, const void **data)
{
    int n = 0;
    for (int k = 0; k < t->n; k++)
        if (has_operand(t->step[k].op))
            data[n++] = r->in[t->step[k].input].data;
    return n;
}

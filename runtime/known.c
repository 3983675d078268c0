/* Small values that are known before a plan runs: by constants, or by shapes alone. */
#include "runtime/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE_ELEMENTS = 256, MAX_READ_ELEMENTS = 4096 };

void rt_info_of(struct rt_info *x, const struct rt_tensor *t)
{
    x->dtype = (enum rt_dtype)t->dtype;
    x->shape.rank = t->rank;
    memcpy(x->shape.dim, t->dim, sizeof t->dim);
    x->value = t;
}

bool rt_shape_is_exact(const struct rt_shape *s)
{
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] < 0)
            return false;
    return s->rank >= 0;
}

bool rt_plan_know(struct rt_session *s, struct pl_node *n, const struct rt_info *in,
                  const struct rt_info *out, struct rt_tensor *result)
{
    bool by_shape = n->def->op->rows == rt_rows_shape;
    if (n->n_out != 1 || n->effect != RT_PURE || !rt_dtype_is_plain(out->dtype))
        return false;
    if (rt_shape_is_exact(&out->shape) &&
        rt_count(out->shape.rank, out->shape.dim) > MAX_VALUE_ELEMENTS)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct rt_tensor *v = in[k].value;
        if (v ? rt_tensor_is_lazy(v) || rt_tensor_count(v) > MAX_READ_ELEMENTS
              : !by_shape || !rt_shape_is_exact(&in[k].shape))
            return false;
    }
    struct rt_tensor *t = calloc((size_t)n->n_in + 1, sizeof *t);
    if (!t)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        if (in[k].value) {
            t[k] = *in[k].value;
            continue;
        }
        t[k].dtype = (uint8_t)in[k].dtype;
        t[k].rank = (int8_t)in[k].shape.rank;
        memcpy(t[k].dim, in[k].shape.dim, sizeof t[k].dim);
    }
    struct rt_error err = {0};
    bool known = rt_plan_fold(s, n, t, 0, result, &err) == RT_OK;
    free(t);
    return known;
}

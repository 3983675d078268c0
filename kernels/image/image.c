#include "kernels/image/image.h"

#include <string.h>

enum rt_status kn_image_fail_shape(struct rt_error *err, const char *words,
                                   const struct rt_shape *s)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim));
}

struct rt_shape kn_image_unknown(int rank)
{
    struct rt_shape s = {.rank = rank};

    for (int d = 0; d < rank; d++)
        s.dim[d] = -1;
    return s;
}

struct rt_shape kn_image_shape_of(const struct rt_tensor *t)
{
    struct rt_shape s = {.rank = t->rank};

    memcpy(s.dim, t->dim, sizeof s.dim);
    return s;
}

void kn_image_rows_outer(struct rt_rows *r, int inner)
{
    const struct rt_dep *d = &r->in_dep[0];

    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    if (d->kind == RT_DEP_ROWS && d->axis < r->in[0].shape.rank - inner)
        r->out_dep[0] = *d;
}

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

enum rt_status kn_image_match_boxes(const struct rt_shape *boxes, const struct rt_shape *index,
                                    int64_t *n, struct rt_error *err)
{
    const bool two = boxes->rank == 2, one = index->rank == 1;
    const bool any = (two && boxes->dim[0] > 0 && boxes->dim[1] > 0) || (one && index->dim[0] > 0);
    const bool none =
        (two && (boxes->dim[0] == 0 || boxes->dim[1] == 0)) || (one && index->dim[0] == 0);

    if (!any) {
        *n = none ? 0 : -1;
        return RT_OK;
    }
    if (two && boxes->dim[1] >= 0 && boxes->dim[1] != 4)
        return rt_fail(err, RT_INVALID_ARGUMENT, "boxes must have 4 columns");
    if (two && one && boxes->dim[0] >= 0 && index->dim[0] >= 0 && boxes->dim[0] != index->dim[0])
        return rt_fail(err, RT_INVALID_ARGUMENT, "box_index has incompatible shape");
    *n = two ? boxes->dim[0] : -1;
    return RT_OK;
}

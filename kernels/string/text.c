#include "kernels/string/text.h"

#include "kernels/array/array.h"

/* Returns whether the text may grow. If not, sets r->err to the reason, which kn_text_failed
 * returns. */
static bool may_grow(void *arg, size_t capacity, size_t wanted)
{
    struct rt_run *r = arg;
    return !rt_pool_charge(rt_run_pool(r), wanted - capacity, "a text", r->err);
}

void kn_text_begin(struct rt_bytes *b, struct rt_run *r)
{
    rt_bytes_init(b, SIZE_MAX / 4);
    b->may_grow = may_grow;
    b->grow_arg = r;
    r->err->code = RT_OK;
}

enum rt_status kn_text_failed(const struct rt_bytes *b)
{
    struct rt_run *r = b->grow_arg;
    return r->err->code ? r->err->code : rt_fail_memory(r->err, "a text", b->n);
}

void kn_text_end(struct rt_bytes *b)
{
    struct rt_run *r = b->grow_arg;
    rt_pool_discharge(rt_run_pool(r), b->capacity);
    rt_bytes_clear(b);
}

static void broadcast_steps(int64_t *step, const struct rt_tensor *out, const struct rt_tensor *in)
{
    int64_t stride[RT_MAX_RANK];
    const int missing = out->rank - in->rank;

    kn_strides(in->rank, in->dim, stride);
    for (int i = 0; i < out->rank; i++)
        step[i] = i < missing || in->dim[i - missing] == 1 ? 0 : stride[i - missing];
}

void kn_pairs_begin(struct kn_pairs *p, const struct rt_tensor *out, const struct rt_tensor *a,
                    const struct rt_tensor *b)
{
    *p = (struct kn_pairs){.rank = out->rank};
    memcpy(p->dim, out->dim, sizeof p->dim);
    broadcast_steps(p->step_a, out, a);
    broadcast_steps(p->step_b, out, b);
}

void kn_pairs_next(struct kn_pairs *p)
{
    for (int i = p->rank - 1; i >= 0; i--) {
        p->a += p->step_a[i];
        p->b += p->step_b[i];
        if (++p->at[i] < p->dim[i])
            return;
        p->a -= p->step_a[i] * p->dim[i];
        p->b -= p->step_b[i] * p->dim[i];
        p->at[i] = 0;
    }
}

/*
 * "_LayerNorm" (runtime/fusion/layer_norm.h).
 *
 * Most models normalise along the last axis. A row is then read, centred and written while it is in
 * the cache. Normalisation along other axes, or with broadcast operands, is computed element by
 * element.
 */
#include <math.h>
#include <string.h>

#include "kernels/math/elementwise.h"
#include "kernels/cpu/parallel.h"
#include "runtime/fusion/layer_norm.h"

enum {
    LANES = 32,
    /* The work per element, in units of rt_run_spend. Each element is read three times and written
     * once. */
    WORK = 4,
    OWN = 1 << 17, /* number of elements that fit in the private cache of a core */
};

/* Checks that axis `rank` and all later axes have length 1, as the Reshape that the fusion replaced
 * required. */
static enum rt_status check_rank(const struct rt_shape *in, int64_t rank, struct rt_error *err)
{
    int64_t behind = 1;
    if (rank > in->rank)
        return rt_fail(err, RT_INVALID_ARGUMENT, "slice index %d of dimension 0 out of bounds.",
                       in->rank);
    for (int64_t i = rank; rank && i < in->rank; i++)
        if (in->dim[i] > 1)
            behind = in->dim[i];
    return behind == 1 || rt_count(in->rank, in->dim) <= 0
               ? RT_OK
               : rt_fail(err, RT_INVALID_ARGUMENT,
                         "Input to reshape is a tensor of rank %d, but the requested shape has "
                         "the axes of one of rank %lld",
                         in->rank, (long long)rank);
}

static enum rt_status layer_norm_infer(struct rt_infer *x)
{
    const struct rt_shape *in = &x->in[RT_LAYER_NORM_X].shape;
    struct rt_shape out = *in;
    struct rt_layer_norm op;

    rt_layer_norm_read(x->node, &op);
    if (in->rank < 0)
        return RT_OK;
    const enum rt_status ok = check_rank(in, op.rank, x->err);
    if (ok)
        return ok;
    if ((op.axis < -in->rank || op.axis >= in->rank) && !op.joins)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "Invalid reduction dimension (%lld for input with %d dimension(s)",
                       (long long)op.axis, in->rank);
    for (int k = 1; k < x->n_in; k++) {
        const struct rt_shape before = out;
        const enum rt_status st = kn_broadcast(&out, &before, &x->in[k].shape, x->err);
        if (st)
            return st;
    }
    x->out[0].shape = out;
    if (kn_shape_eq(in, &out))
        x->alias[0] = 0;
    return RT_OK;
}

/* Marks the op as row-wise if the batch axis is not normalised. Scale and offset, which are vectors
 * along the last axis, must not depend on the batch. */
static void rows(struct rt_rows *r)
{
    const int rank = r->in[RT_LAYER_NORM_X].shape.rank, out_rank = r->out[0].shape.rank;
    const struct rt_dep d = r->in_dep[RT_LAYER_NORM_X];
    struct rt_layer_norm op;

    rt_layer_norm_read(r->node, &op);
    for (int k = 1; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    if (rank < 0 || out_rank < rank || d.kind != RT_DEP_ROWS ||
        d.axis == (op.axis < 0 ? op.axis + rank : op.axis) || (r->n_in > 1 && d.axis == rank - 1) ||
        (op.joins && d.axis > op.axis))
        return;
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, d.axis + out_rank - rank};
}

struct norm {
    struct rt_layer_norm op;
    /* whether each row of x is normalised as a whole, and no operand is broadcast along a row */
    bool is_plain;
    int64_t n_rows, n; /* x has n_rows rows of n elements. */
    /* products of the lengths of x's axes before the normalised axes, of the normalised axes, and
     * of the axes after them */
    int64_t outer, along, inner;
    int64_t out_n, scale_n, offset_n;
};

static enum rt_status layer_norm_prepare(struct rt_prep *p, void **state)
{
    struct norm *k = rt_prep_alloc(p, sizeof *k);
    const struct rt_shape *x = &p->in[RT_LAYER_NORM_X].shape, *out = &p->out[0].shape;

    if (!k)
        return p->err->code;
    rt_layer_norm_read(p->node, &k->op);
    int64_t axis = k->op.axis;
    axis = axis < 0 ? axis + x->rank : axis > x->rank ? x->rank : axis;
    *state = k;
    if (rt_count(out->rank, out->dim) <= 0)
        return RT_OK; /* The output is empty, so the run uses no other member. */
    k->n = x->rank ? x->dim[x->rank - 1] : 1;
    k->out_n = out->rank ? out->dim[out->rank - 1] : 1;
    k->n_rows = 1;
    k->outer = k->along = k->inner = 1;
    const bool joins = k->op.joins;
    for (int i = 0; i < x->rank; i++) {
        k->n_rows *= i < x->rank - 1 ? x->dim[i] : 1;
        *(i < axis ? &k->outer : i == axis || joins ? &k->along : &k->inner) *= x->dim[i];
    }
    const struct rt_shape *s = k->op.in.scale < 0 ? NULL : &p->in[k->op.in.scale].shape;
    const struct rt_shape *o = k->op.in.offset < 0 ? NULL : &p->in[k->op.in.offset].shape;
    k->scale_n = s ? s->dim[s->rank - 1] : k->out_n;
    k->offset_n = o ? o->dim[o->rank - 1] : k->out_n;
    k->is_plain =
        axis == x->rank - 1 && k->out_n == k->n && k->scale_n == k->n && k->offset_n == k->n;
    if (joins && !s && !o) { /* all normalised axes form one row */
        k->is_plain = true;
        k->n = k->out_n = k->along;
        k->n_rows = k->outer;
    }
    if (!k->is_plain)
        p->scratch_bytes = (size_t)k->outer * (size_t)k->inner * 2 * sizeof(float);
    return RT_OK;
}

/* `scale` and `offset` may be NULL. */
KN_CLONES static void normalise(float *y, const float *x, const float *restrict scale,
                                const float *restrict offset, int64_t n_rows, int64_t n,
                                float epsilon, bool no_mean)
{
    for (int64_t r = 0; r < n_rows; r++, x += n, y += n) {
        float sum[LANES] = {0}, squares[LANES] = {0};
        int64_t i = 0;
        for (; !no_mean && i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++)
                sum[l] += x[i + l];
        for (; !no_mean && i < n; i++)
            sum[0] += x[i];
        for (int step = LANES / 2; step; step /= 2)
            for (int l = 0; l < step; l++)
                sum[l] += sum[l + step];
        const float mean = sum[0] / (float)n;
        for (i = 0; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++) {
                const float d = x[i + l] - mean;
                squares[l] += d * d;
            }
        for (; i < n; i++)
            squares[0] += (x[i] - mean) * (x[i] - mean);
        for (int step = LANES / 2; step; step /= 2)
            for (int l = 0; l < step; l++)
                squares[l] += squares[l + step];
        const float factor = 1 / sqrtf(squares[0] / (float)n + epsilon);
        if (scale && offset) {
            KN_IVDEP
            for (i = 0; i < n; i++)
                y[i] = (x[i] - mean) * (factor * scale[i]) + offset[i];
        } else if (scale) {
            KN_IVDEP
            for (i = 0; i < n; i++)
                y[i] = (x[i] - mean) * (factor * scale[i]);
        } else if (offset) {
            KN_IVDEP
            for (i = 0; i < n; i++)
                y[i] = (x[i] - mean) * factor + offset[i];
        } else {
            KN_IVDEP
            for (i = 0; i < n; i++)
                y[i] = (x[i] - mean) * factor;
        }
    }
}

struct job {
    const struct norm *k;
    float *y;
    const float *x, *scale, *offset;
};

static enum rt_status run_rows(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct job *j = arg;
    const struct norm *k = j->k;
    const int64_t chunk = KN_CHUNK / k->n + 1;
    int64_t left = RT_WORK;

    for (; from < to; from += chunk) {
        const int64_t n = to - from < chunk ? to - from : chunk;
        normalise(j->y + from * k->n, j->x + from * k->n, j->scale, j->offset, n, k->n,
                  k->op.epsilon, k->op.no_mean);
        if (rt_run_spend(r, &left, WORK * n * k->n))
            return r->err->code;
    }
    return RT_OK;
}

/* Normalises along any axes. Along the last axis, scale, offset and x may each have length 1 and be
 * broadcast. */
static enum rt_status run_any(struct rt_run *r, const struct job *j)
{
    const struct norm *k = j->k;
    float *mean = r->scratch, *factor = mean + k->outer * k->inner;
    int64_t left = RT_WORK;

    for (int64_t i = 0; i < k->outer * k->inner; i++) {
        const float *x = j->x + i / k->inner * k->along * k->inner + i % k->inner;
        double sum = 0, squares = 0;
        for (int64_t a = 0; !k->op.no_mean && a < k->along; a++)
            sum += x[a * k->inner];
        mean[i] = (float)(sum / (double)k->along);
        for (int64_t a = 0; a < k->along; a++)
            squares += (double)(x[a * k->inner] - mean[i]) * (x[a * k->inner] - mean[i]);
        factor[i] = 1 / sqrtf((float)(squares / (double)k->along) + k->op.epsilon);
        if (rt_run_spend(r, &left, 4 * k->along))
            return r->err->code;
    }
    for (int64_t row = 0; row < k->n_rows; row++) {
        for (int64_t c = 0; c < k->out_n; c++) {
            const int64_t at = row * k->n + (k->n == 1 ? 0 : c);
            const int64_t of = at / (k->along * k->inner) * k->inner + at % k->inner;
            const float scale = j->scale ? j->scale[k->scale_n == 1 ? 0 : c] : 1;
            /* adding -0.0 changes no number, not even -0.0 */
            const float offset = j->offset ? j->offset[k->offset_n == 1 ? 0 : c] : -0.0f;
            j->y[row * k->out_n + c] = (j->x[at] - mean[of]) * (factor[of] * scale) + offset;
        }
        if (rt_run_spend(r, &left, 16 * k->out_n))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status layer_norm_run(struct rt_run *r)
{
    const struct norm *k = r->state;
    struct job j = {.k = k,
                    .y = r->out[0].data,
                    .x = r->in[RT_LAYER_NORM_X].data,
                    .scale = k->op.in.scale < 0 ? NULL : r->in[k->op.in.scale].data,
                    .offset = k->op.in.offset < 0 ? NULL : r->in[k->op.in.offset].data};

    if (!rt_tensor_count(&r->out[0]))
        return RT_OK;
    if (!k->is_plain)
        return run_any(r, &j);
    /* If a core's rows fit in its cache, each core computes one contiguous range of rows, because
     * these rows may still be in its cache from the previous op. */
    const int64_t width = rt_run_width(r), own = kn_div_up(k->n_rows, width);
    const int64_t step = own * k->n <= OWN && own >= KN_SHARD_ROWS ? own : 1;
    return kn_parallel_rows(r, k->n_rows, WORK * k->n, step, run_rows, &j);
}

const struct kn_entry kn_layer_norm = {
    .op = {.name = "_LayerNorm",
           .infer = layer_norm_infer,
           .rows = rows,
           .internal_schema = &rt_layer_norm_schema},
    .kernels = KN_CPU("_LayerNorm", "layer_norm", 0, layer_norm_prepare, layer_norm_run),
};

/* Pad, PadV2, MirrorPad, MirrorPadGrad. */
#include "kernels/array/array.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

struct pads {
    int64_t before[RT_MAX_RANK], after[RT_MAX_RANK];
    struct rt_shape shape;
};

/* Reads the paddings. `big` is true for Pad, whose error messages differ from MirrorPad's in a
 * comma and a capital letter. */
static enum rt_status pads_of(const struct rt_shape *in, const struct rt_tensor *t, bool big,
                              struct pads *p, struct rt_error *err)
{
    if (t->rank != 2 || t->dim[1] != 2)
        return rt_fail(err, RT_INVALID_ARGUMENT, "paddings must be a matrix with 2 columns: %s",
                       KN_TEXT(t));
    if (t->dim[0] != in->rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "The first dimension of paddings must be the rank of inputs%s%s %s",
                       KN_TEXT(t), big ? "" : ",", KN_TEXT(in));
    p->shape.rank = in->rank;
    for (int i = 0; i < in->rank; i++) {
        p->before[i] = kn_int_at(t, 2 * i);
        p->after[i] = kn_int_at(t, 2 * i + 1);
        if (p->before[i] < 0 || p->after[i] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT, "%saddings must be non-negative: %lld %lld",
                           big ? "P" : "p", (long long)p->before[i], (long long)p->after[i]);
        if (!rt_add(in->dim[i], p->before[i], &p->shape.dim[i]) ||
            !rt_add(p->shape.dim[i], p->after[i], &p->shape.dim[i]))
            return rt_fail(err, RT_INVALID_ARGUMENT, "Pad: too many elements");
    }
    if (kn_shape_total(&p->shape) < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "Shape %s has too many elements",
                       KN_TEXT(&p->shape));
    return RT_OK;
}

static enum rt_status pad_infer(struct rt_infer *x)
{
    struct pads p;

    if (!kn_known(x, 2))
        return RT_OK;
    if (x->n_in > 2 && x->in[2].shape.rank != 0)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "constant_values must be a scalar. Found: %s",
                       KN_TEXT(&x->in[2].shape));
    enum rt_status st = pads_of(&x->in[0].shape, x->in[1].value, true, &p, x->err);
    if (!st)
        x->out[0].shape = p.shape;
    return st;
}

/* Fills n elements with the padding value, which is 0 for ops without a padding input. Strings of a
 * new output are empty, so these ops need not write them. */
static enum rt_status pad_with(struct rt_run *r, void *dst, int64_t n)
{
    const enum rt_dtype dt = kn_dtype(&r->out[0]);

    if (n <= 0)
        return RT_OK;
    if (r->n_in > 2)
        return kn_repeat(dt, dst, r->in[2].data, n, r);
    return rt_dtype_is_plain(dt) ? kn_zero_chunks(r, dst, (size_t)n * rt_dtype_size(dt)) : RT_OK;
}

static enum rt_status pad_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    struct rt_shape in = {.rank = t->rank};
    struct pads p;
    int64_t from = 0;
    enum rt_status st = kn_outputs(r, pad_infer);

    memcpy(in.dim, t->dim, sizeof in.dim);
    if (st || (st = pads_of(&in, &r->in[1], true, &p, r->err)))
        return st;
    struct rt_tensor *o = &r->out[0];
    if (rt_tensor_count(o) == rt_tensor_count(t))
        /* Nothing is padded, or both tensors are empty, possibly with different shapes. */
        return kn_view(r, 0, 0, p.shape.rank, p.shape.dim);
    if (rt_tensor_count(o) == 0)
        return RT_OK;
    st = pad_with(r, o->data, rt_tensor_count(o));
    if (st || rt_tensor_count(t) == 0)
        return st;
    struct kn_walk w = {.rank = t->rank};
    kn_strides(t->rank, t->dim, w.src);
    kn_strides(t->rank, o->dim, w.dst);
    for (int i = 0; i < t->rank; i++) {
        w.dim[i] = t->dim[i];
        from += w.dst[i] * p.before[i];
    }
    return kn_walk_copy(kn_dtype(t), &w, kn_at_mut(o, from), t->data, r);
}

static void pad_rows(struct rt_rows *r)
{
    const struct rt_tensor *t = r->in[1].value;

    if (kn_rows_independent(r) || r->in_dep[0].kind != RT_DEP_ROWS || !t || !kn_rows_free(r, 1))
        return;
    const int a = r->in_dep[0].axis;
    if (kn_int_at(t, 2 * a) == 0 && kn_int_at(t, 2 * a + 1) == 0)
        kn_rows_set(r, RT_DEP_ROWS, a);
}

const struct kn_entry kn_pad = {
    .op = {.name = "Pad", .shape_in = 2, .infer = pad_infer, .rows = pad_rows},
    .kernels = KN_CPU("Pad", "pad", 0, NULL, pad_run),
};
const struct kn_entry kn_pad_v2 = {
    .op = {.name = "PadV2", .shape_in = 2, .infer = pad_infer, .rows = pad_rows},
    .kernels = KN_CPU("PadV2", "pad_v2", 0, NULL, pad_run),
};

/* ---- MirrorPad ---- */

/* Returns 1 for REFLECT, which does not repeat the border, and 0 for SYMMETRIC. */
static int border_of(const struct rt_node *n)
{
    return rt_span_is(rt_attr_str(n, "mode"), "REFLECT") ? 1 : 0;
}

static enum rt_status mirror_infer(struct rt_infer *x)
{
    struct pads p;

    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    const int border = border_of(x->node);
    enum rt_status st = pads_of(in, x->in[1].value, false, &p, x->err);
    if (st)
        return st;
    for (int i = 0; i < in->rank; i++) {
        const int64_t d = in->dim[i], b = p.before[i], a = p.after[i];
        if (border && (b >= d || a >= d))
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "paddings must be less than the dimension size: %lld, %lld not less "
                           "than %lld",
                           (long long)b, (long long)a, (long long)d);
        if (b > d || a > d)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "paddings must be no greater than the dimension size: %lld, %lld "
                           "greater than %lld",
                           (long long)b, (long long)a, (long long)d);
    }
    x->out[0].shape = p.shape;
    return RT_OK;
}

static enum rt_status mirror_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    enum rt_status st = kn_outputs(r, mirror_infer);

    if (st)
        return st;
    struct rt_tensor *o = &r->out[0];
    const enum rt_dtype dt = kn_dtype(t);
    const int border = border_of(r->node), rank = t->rank;
    int64_t stride[RT_MAX_RANK], at[RT_MAX_RANK] = {0}, n_map = 0, *map[RT_MAX_RANK];
    const int64_t n = rt_tensor_count(o);
    if (n == 0 || (n == rt_tensor_count(t) && kn_hand_on(r, 0)))
        return RT_OK;
    if (rank == 0)
        return kn_copy_run(r, dt, o->data, t->data, 1);

    /* For each index along each dimension of the result, computes the number that the index adds to
     * the offset in the input. */
    kn_strides(rank, t->dim, stride);
    for (int i = 0; i < rank; i++)
        n_map += o->dim[i];
    int64_t *all = rt_scratch(r, (size_t)n_map * sizeof *all);
    if (!all)
        return r->err->code;
    for (int i = 0; i < rank; i++) {
        const int64_t d = t->dim[i], before = kn_int_at(&r->in[1], 2 * i);
        map[i] = all;
        for (int64_t k = 0; k < o->dim[i]; k++) {
            int64_t j = k - before;
            if (j < 0)
                j = -j - 1 + border;
            else if (j >= d)
                j = 2 * d - 1 - j - border;
            *all++ = j * stride[i];
            if (rt_run_tick(r, k))
                return r->err->code;
        }
    }
    const int last = rank - 1;
    int64_t left = RT_WORK;
    for (int64_t done = 0; done < n; done += o->dim[last]) {
        int64_t base = 0;
        for (int i = 0; i < last; i++)
            base += map[i][at[i]];
        for (int64_t k = 0; k < o->dim[last]; k++) {
            st = kn_copy_run(r, dt, kn_at_mut(o, done + k), kn_at(t, base + map[last][k]), 1);
            if (st || (st = rt_run_spend(r, &left, 4)))
                return st;
        }
        for (int i = last - 1; i >= 0 && ++at[i] == o->dim[i]; i--)
            at[i] = 0;
    }
    return RT_OK;
}

const struct kn_entry kn_mirror_pad = {
    .op = {.name = "MirrorPad", .shape_in = 2, .infer = mirror_infer, .rows = pad_rows},
    .kernels = KN_CPU("MirrorPad", "mirror_pad", 0, NULL, mirror_run),
};

/* ---- MirrorPadGrad ---- */

static enum rt_status mirror_grad_infer(struct rt_infer *x)
{
    struct pads p;

    if (!kn_known(x, 2))
        return RT_OK;
    const struct rt_shape *in = &x->in[0].shape;
    const int border = border_of(x->node);
    enum rt_status st = pads_of(in, x->in[1].value, true, &p, x->err);
    if (st)
        return st;
    x->out[0].shape.rank = in->rank;
    for (int i = 0; i < in->rank; i++) {
        const int64_t b = p.before[i], a = p.after[i], d = in->dim[i];
        if (b > INT64_MAX - a || b + a >= d)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "Total paddings must be less than the input dimension size: %lld was "
                           "not less than %lld",
                           (long long)(b > INT64_MAX - a ? INT64_MAX : b + a), (long long)d);
        const int64_t inside = d - b - a;
        if (b > inside - border || a > inside - border)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           border ? "paddings must be less than the output dimension size: %lld, "
                                    "%lld not less than %lld"
                                  : "paddings must be no greater than the output dimension size: "
                                    "%lld, %lld greater than %lld",
                           (long long)b, (long long)a, (long long)inside);
        x->out[0].shape.dim[i] = inside;
    }
    return RT_OK;
}

#define ADD_ROW(dt, T)                                                                             \
    case dt: {                                                                                     \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = KN_PUT(dt, (KN_U(dt))KN_GET(dt, d[i]) + (KN_U(dt))KN_GET(dt, s[i]));            \
        break;                                                                                     \
    }

static void add_row(enum rt_dtype dtype, void *dst, const void *src, int64_t n)
{
    switch (dtype) {
        KN_NUMBERS(ADD_ROW)
    default:
        break;
    }
}

/* Adds the slices of padding along one axis to the slices that they mirror. The tensor consists of
 * `outer` times `n` slices of `inner` elements. */
struct fold {
    int64_t outer, n, inner, before, after;
    int border;
};

static enum rt_status fold_axis(struct rt_run *r, const struct fold *f, const struct rt_tensor *t,
                                int64_t *left)
{
    enum { CHUNK = 1 << 16 };
    const int64_t end = f->n - f->after;

    for (int64_t o = 0; o < f->outer; o++)
        for (int64_t k = 0; k < f->before + f->after; k++) {
            const int64_t from = k < f->before ? k : end + k - f->before;
            const int64_t to =
                k < f->before ? 2 * f->before - 1 - k + f->border : 2 * end - 1 - from - f->border;
            for (int64_t i = 0; i < f->inner; i += CHUNK) {
                const int64_t n = f->inner - i < CHUNK ? f->inner - i : CHUNK;
                add_row(kn_dtype(t), kn_at_mut(t, (o * f->n + to) * f->inner + i),
                        kn_at(t, (o * f->n + from) * f->inner + i), n);
                if (rt_run_spend(r, left, 4 * n))
                    return r->err->code;
            }
        }
    return RT_OK;
}

static enum rt_status mirror_grad_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    enum rt_status st = kn_outputs(r, mirror_grad_infer);

    if (st || rt_tensor_count(&r->out[0]) == 0)
        return st;
    struct rt_tensor sums = *t;
    sums.data = rt_scratch(r, rt_tensor_bytes(t));
    if (!sums.data)
        return r->err->code;
    st = kn_copy_run(r, kn_dtype(t), sums.data, t->data, rt_tensor_count(t));
    struct kn_walk w = {.rank = t->rank};
    int64_t first = 0, left = RT_WORK;
    kn_strides(t->rank, t->dim, w.src);
    kn_strides(t->rank, r->out[0].dim, w.dst);
    for (int i = 0; i < t->rank && !st; i++) {
        const struct fold f = {.outer = rt_count(i, t->dim),
                               .n = t->dim[i],
                               .inner = w.src[i],
                               .before = kn_int_at(&r->in[1], 2 * i),
                               .after = kn_int_at(&r->in[1], 2 * i + 1),
                               .border = border_of(r->node)};
        w.dim[i] = r->out[0].dim[i];
        first += f.before * w.src[i];
        st = fold_axis(r, &f, &sums, &left);
    }
    return st ? st : kn_walk_copy(kn_dtype(t), &w, r->out[0].data, kn_at(&sums, first), r);
}

const struct kn_entry kn_mirror_pad_grad = {
    .op = {.name = "MirrorPadGrad", .shape_in = 2, .infer = mirror_grad_infer, .rows = pad_rows},
    .kernels =
        KN_CPU("MirrorPadGrad", "mirror_pad_grad", KN_SET(KN_NUMBERS), NULL, mirror_grad_run),
};

#include "kernels/array/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/matmul/gemm.h"
#include "kernels/cpu/parallel.h"

bool kn_known(const struct rt_infer *x, uint64_t values)
{
    for (int k = 0; k < x->n_in; k++) {
        if (!kn_shape_known(&x->in[k].shape))
            return false;
        if (k < 64 && (values >> k & 1) && !x->in[k].value)
            return false;
    }
    return true;
}

void kn_set_shape(struct rt_info *o, int rank, const int64_t *dim)
{
    o->shape.rank = rank;
    for (int i = 0; i < rank; i++)
        o->shape.dim[i] = dim[i];
}

void kn_set_vector(struct rt_info *o, int64_t n)
{
    kn_set_shape(o, 1, &n);
}

int64_t kn_shape_total(const struct rt_shape *s)
{
    return rt_count(s->rank, s->dim);
}

enum rt_status kn_infer_copy(struct rt_infer *x)
{
    x->out[0].shape = x->in[0].shape;
    return RT_OK;
}

enum rt_status kn_infer_scalars(struct rt_infer *x)
{
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape.rank = 0;
    return RT_OK;
}

int64_t kn_int_at(const struct rt_tensor *t, int64_t i)
{
    if (i == 0 && rt_tensor_count(t) == 0)
        return 0;
    switch (kn_dtype(t)) {
    case RT_I8:
    case RT_QI8:
        return ((const int8_t *)t->data)[i];
    case RT_U8:
    case RT_QU8:
        return ((const uint8_t *)t->data)[i];
    case RT_BOOL:
        return ((const uint8_t *)t->data)[i] != 0;
    case RT_I16:
    case RT_QI16:
        return ((const int16_t *)t->data)[i];
    case RT_U16:
    case RT_QU16:
        return ((const uint16_t *)t->data)[i];
    case RT_I32:
    case RT_QI32:
        return ((const int32_t *)t->data)[i];
    case RT_U32:
        return ((const uint32_t *)t->data)[i];
    case RT_I64:
        return ((const int64_t *)t->data)[i];
    case RT_U64:
        return (int64_t)((const uint64_t *)t->data)[i];
    default:
        return 0;
    }
}

bool kn_single(const struct rt_tensor *t, int64_t *v)
{
    if (rt_tensor_count(t) != 1 || !t->data)
        return false;
    *v = kn_int_at(t, 0);
    return true;
}

bool kn_scalar(const struct rt_tensor *t, int64_t *v)
{
    return t->rank == 0 && kn_single(t, v);
}

bool kn_scalar_float(const struct rt_tensor *t, double *v)
{
    float single;

    if (t->rank != 0 || !t->data)
        return false;
    if (t->dtype == RT_F64) {
        *v = *(const double *)t->data;
        return true;
    }
    kn_to_float(kn_dtype(t), t->data, &single, 1);
    *v = (double)single;
    return true;
}

int kn_ints(const struct rt_tensor *t, int64_t *v, int max)
{
    const int64_t n = rt_tensor_count(t);

    if (n > max)
        return -1;
    for (int64_t i = 0; i < n; i++)
        v[i] = kn_int_at(t, i);
    return (int)n;
}

enum rt_status kn_check_i32(const char *name, int64_t value, struct rt_error *err)
{
    if (value >= INT32_MIN && value <= INT32_MAX)
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "Attr %s has value %lld out of range for an int32",
                   name, (long long)value);
}

enum rt_status kn_check_container(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_span name = rt_attr_str(n, "container");

    for (size_t i = 0; i < name.n; i++) {
        const char c = (char)name.p[i];
        const bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' ||
                             (i > 0 && (c == '-' || c == '/'));
        if (!is_good)
            return rt_fail(err, RT_INVALID_ARGUMENT, "container contains invalid characters: %.*s",
                           (int)(name.n < 200 ? name.n : 200), (const char *)name.p);
    }
    return RT_OK;
}

enum rt_status kn_bad_indices(const struct rt_node *n, bool *skips, struct rt_error *err)
{
    const struct rt_span policy = rt_attr(n, "bad_indices_policy")
                                      ? rt_attr_str(n, "bad_indices_policy")
                                      : (struct rt_span){0};

    *skips = rt_span_is(policy, "IGNORE");
    if (*skips || policy.n == 0 || rt_span_is(policy, "DEFAULT") || rt_span_is(policy, "ERROR"))
        return RT_OK;
    return rt_fail(err, RT_INVALID_ARGUMENT, "Unknown bad indices handling attribute: %.*s",
                   (int)(policy.n < 200 ? policy.n : 200), (const char *)policy.p);
}

const char *kn_place_text(char *buf, size_t n, const struct rt_tensor *t, int64_t i)
{
    int64_t stride[RT_MAX_RANK];
    size_t len = 0;

    buf[0] = '\0';
    kn_strides(t->rank, t->dim, stride);
    for (int k = 0; k < t->rank && len < n; k++) {
        len += (size_t)snprintf(buf + len, n - len, "%s%lld", k ? "," : "[",
                                (long long)(i / stride[k]));
        i %= stride[k];
    }
    if (t->rank && len < n)
        snprintf(buf + len, n - len, "]");
    return buf;
}

enum rt_status kn_fail_outside(struct rt_error *err, const struct rt_tensor *index, int outer,
                               int depth, int64_t i, const struct rt_tensor *into,
                               const struct rt_node *node)
{
    struct rt_tensor tuples = *index;
    char where[RT_MAX_RANK * 22] = "", what[RT_MAX_RANK * 24] = "";
    size_t len = 0;

    tuples.rank = (int8_t)outer;
    for (int k = 0; k < depth; k++)
        len += (size_t)snprintf(what + len, sizeof what - len, "%s%lld", k ? ", " : "",
                                (long long)kn_int_at(index, i * depth + k));
    return rt_fail(err, RT_INVALID_ARGUMENT, "indices%s = [%s] does not index into %sshape %s%s%s",
                   kn_place_text(where, sizeof where, &tuples, i), what, node ? "param " : "",
                   KN_TEXT(into), node ? ", node name: " : "", node ? node->name : "");
}

void kn_put_int(struct rt_tensor *t, int64_t i, int64_t v)
{
    switch (rt_dtype_size(kn_dtype(t))) {
    case 1:
        ((int8_t *)t->data)[i] = (int8_t)v;
        break;
    case 2:
        ((int16_t *)t->data)[i] = (int16_t)v;
        break;
    case 4:
        ((int32_t *)t->data)[i] = (int32_t)v;
        break;
    default:
        ((int64_t *)t->data)[i] = v;
        break;
    }
}

void *kn_out(struct rt_run *r, int k, int rank, const int64_t *dim)
{
    struct rt_tensor *o = &r->out[k];

    if (o->dtype && o->rank == rank &&
        (rank == 0 || memcmp(o->dim, dim, (size_t)rank * sizeof *dim) == 0))
        /* The address of an output without elements is never dereferenced, but it must not be
         * NULL. */
        return o->data ? o->data : (void *)o;
    return rt_out(r, k, rank, dim);
}

enum rt_status kn_infer_now(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x),
                            struct rt_info *out)
{
    const size_t n_in = (size_t)r->n_in, n_out = (size_t)r->n_out;
    struct rt_info few[8];
    int8_t few_alias[16];
    struct rt_info *in = few;
    int8_t *alias = few_alias;

    /* If the arrays are too large for the stack, rt_run_alloc allocates them, because the kernel
     * that calls this function may already use rt_scratch. */
    if (n_in > 8 || n_out > 16) {
        in = rt_run_alloc(r, n_in * sizeof *in + n_out);
        if (!in)
            return r->err->code;
        alias = (int8_t *)(in + n_in);
    }
    for (size_t k = 0; k < n_in; k++) {
        in[k] = (struct rt_info){.dtype = kn_dtype(&r->in[k]), .value = &r->in[k]};
        in[k].shape.rank = r->in[k].rank;
        memcpy(in[k].shape.dim, r->in[k].dim, sizeof in[k].shape.dim);
    }
    for (size_t k = 0; k < n_out; k++) {
        out[k] = (struct rt_info){.dtype = r->node->out_dtype[k], .shape = {.rank = -1}};
        alias[k] = -1;
    }
    struct rt_infer x = {.node = r->node,
                         .n_in = r->n_in,
                         .n_out = r->n_out,
                         .in = in,
                         .out = out,
                         .alias = alias,
                         .err = r->err};
    enum rt_status st = infer(&x);
    if (in != few)
        rt_pool_free(in);
    return st;
}

enum rt_status kn_outputs(struct rt_run *r, enum rt_status (*infer)(struct rt_infer *x))
{
    struct rt_info few[16];
    struct rt_info *out = few;
    bool all = true;

    for (int k = 0; k < r->n_out; k++)
        all = all && r->out[k].dtype != RT_NO_DTYPE;
    if (all)
        return RT_OK;
    if (r->n_out > 16 && !(out = rt_scratch(r, (size_t)r->n_out * sizeof *out)))
        return r->err->code;
    enum rt_status st = kn_infer_now(r, infer, out);
    if (st)
        return st;
    for (int k = 0; k < r->n_out; k++) {
        if (r->out[k].dtype)
            continue;
        if (!kn_shape_known(&out[k].shape))
            return rt_fail(r->err, RT_INTERNAL, "%s: output %d has no shape", r->node->schema->name,
                           k);
        if (!rt_out(r, k, out[k].shape.rank, out[k].shape.dim))
            return r->err->code;
    }
    return RT_OK;
}

enum rt_status kn_view(struct rt_run *r, int k, int in, int rank, const int64_t *dim)
{
    struct rt_tensor *o = &r->out[k];

    if (!o->data || o->data != r->in[in].data)
        return rt_out_view(r, k, in, rank, dim);
    /* the output already uses the input's memory, so only the output's shape is set */
    o->rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        o->dim[i] = dim[i];
    return RT_OK;
}

bool kn_hand_on(struct rt_run *r, int in)
{
    const struct rt_tensor *o = &r->out[0];
    struct rt_tensor t = r->in[in];

    if (!t.alias_of || !t.buf || t.data == o->data)
        return false;
    t.dtype = o->dtype;
    t.rank = o->rank;
    memcpy(t.dim, o->dim, sizeof t.dim);
    rt_out_tensor(r, 0, &t);
    return true;
}

bool kn_is_aligned(enum rt_dtype dtype, int64_t n)
{
    return n * (int64_t)rt_dtype_size(dtype) % 64 == 0;
}

/* Returns whether TensorFlow's slice shares the tensor's buffer instead of being a copy: the slice
 * must be the whole tensor or consist of whole rows whose size is a multiple of 64 bytes. Sharing
 * is visible if the tensor is an alias of a variable. */
static bool shares_rows(const struct rt_tensor *t, int64_t first, int rank, const int64_t *dim)
{
    const int64_t all = rt_tensor_count(t), n = rt_count(rank, dim);
    const int64_t row = t->rank && t->dim[0] ? all / t->dim[0] : 0;

    return n == all || (row && kn_is_aligned(kn_dtype(t), row) && !(first % row) && !(n % row));
}

enum rt_status kn_out_slice(struct rt_run *r, int k, int in, int64_t first, int rank,
                            const int64_t *dim)
{
    struct rt_tensor part = r->in[in];

    if (!shares_rows(&part, first, rank, dim))
        part.alias_of = 0;
    part.rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        part.dim[i] = dim[i];
    if (rt_tensor_count(&part) > 0)
        part.data = kn_at_mut(&r->in[in], first);
    rt_out_tensor(r, k, &part);
    return RT_OK;
}

/* ---- strided copy ---- */

void kn_strides(int rank, const int64_t *dim, int64_t *stride)
{
    int64_t s = 1;

    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = s;
        s *= dim[i];
    }
}

/* Drops dimensions of length 1, and merges neighbouring dimensions that are contiguous in both src
 * and dst. */
static void simplify(const struct kn_walk *w, struct kn_walk *o)
{
    o->rank = 0;
    for (int i = 0; i < w->rank; i++) {
        if (w->dim[i] == 1)
            continue;
        const int l = o->rank - 1;
        if (l >= 0 && o->dst[l] == w->dst[i] * w->dim[i] && o->src[l] == w->src[i] * w->dim[i]) {
            o->dim[l] *= w->dim[i];
            o->dst[l] = w->dst[i];
            o->src[l] = w->src[i];
            continue;
        }
        o->dim[o->rank] = w->dim[i];
        o->dst[o->rank] = w->dst[i];
        o->src[o->rank] = w->src[i];
        o->rank++;
    }
    if (o->rank == 0) {
        o->rank = 1;
        o->dim[0] = 1;
        o->dst[0] = o->src[0] = 1;
    }
}

struct b16 {
    uint64_t a, b;
};

#define RUN(N, T)                                                                                  \
    static void run_##N(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n)             \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        if (ss == 0 && ds == 1) {                                                                  \
            const T v = *s;                                                                        \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = v;                                                                          \
        } else if (ds == 1) {                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = s[i * ss];                                                                  \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i * ds] = s[i * ss];                                                             \
        }                                                                                          \
    }                                                                                              \
    /* Transposes a matrix in square blocks that fit in the cache. dst is contiguous along         \
     * dimension 1, and src is contiguous along dimension 0. */                                    \
    static void transpose_##N(void *dst, int64_t d0, const void *src, int64_t s1, int64_t n0,      \
                              int64_t n1)                                                          \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        for (int64_t a = 0; a < n0; a += 16)                                                       \
            for (int64_t b = 0; b < n1; b += 16) {                                                 \
                const int64_t ae = a + 16 < n0 ? a + 16 : n0, be = b + 16 < n1 ? b + 16 : n1;      \
                for (int64_t i = a; i < ae; i++)                                                   \
                    for (int64_t j = b; j < be; j++)                                               \
                        d[i * d0 + j] = s[i + j * s1];                                             \
            }                                                                                      \
    }
RUN(1, uint8_t)
RUN(2, uint16_t)
RUN(4, uint32_t)
RUN(8, uint64_t)
RUN(16, struct b16)

typedef void run_fn(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n);
typedef void transpose_fn(void *dst, int64_t d0, const void *src, int64_t s1, int64_t n0,
                          int64_t n1);

static run_fn *run_of(size_t size)
{
    return size == 1 ? run_1 : size == 2 ? run_2 : size == 4 ? run_4 : size == 8 ? run_8 : run_16;
}

static transpose_fn *transpose_of(size_t size)
{
    return size == 1   ? transpose_1
           : size == 2 ? transpose_2
           : size == 4 ? transpose_4
           : size == 8 ? transpose_8
                       : transpose_16;
}

/* Advances `at`, the indices of dimensions [0, rank), and the offsets *d and *s. Returns false
 * after the last index. */
static bool step(const struct kn_walk *w, int rank, int64_t *at, int64_t *d, int64_t *s)
{
    for (int i = rank - 1; i >= 0; i--) {
        *d += w->dst[i];
        *s += w->src[i];
        if (++at[i] < w->dim[i])
            return true;
        *d -= w->dst[i] * w->dim[i];
        *s -= w->src[i] * w->dim[i];
        at[i] = 0;
    }
    return false;
}

/* The number of elements copied between two deadline checks. */
enum { LONG_RUN = 1 << 20 };

static enum rt_status spend(struct rt_run *r, int64_t work)
{
    return r ? rt_run_spend(r, &r->left, work) : RT_OK;
}

/* Transposes a matrix in parts that consist of complete 16 x 16 blocks, with a deadline check after
 * each part. */
static enum rt_status transpose_all(transpose_fn *transpose, char *dst, int64_t d0, const char *src,
                                    int64_t s1, int64_t n0, int64_t n1, int64_t bytes,
                                    struct rt_run *r)
{
    const int64_t cols = n1 < LONG_RUN / 16 ? n1 : LONG_RUN / 16;
    const int64_t rows = LONG_RUN / cols / 16 * 16;
    enum rt_status st = RT_OK;
    for (int64_t i = 0; i < n0 && !st; i += rows)
        for (int64_t j = 0; j < n1 && !st; j += cols) {
            const int64_t n = n0 - i < rows ? n0 - i : rows, m = n1 - j < cols ? n1 - j : cols;
            transpose(dst + (i * d0 + j) * bytes, d0, src + (i + j * s1) * bytes, s1, n, m);
            st = spend(r, 4 * n * m);
        }
    return st;
}

/* Performs the strided copy `w` for elements of `size` bytes. r is the run whose deadline is
 * checked during the copy, or NULL. */
static enum rt_status walk_plain(size_t size, struct kn_walk *w, char *dst, const char *src,
                                 struct rt_run *r)
{
    int64_t at[KN_WALK_RANK] = {0}, d = 0, s = 0;
    const int64_t bytes = (int64_t)size;
    enum rt_status st = RT_OK;
    int last = w->rank - 1;

    if (last >= 1 && w->dst[last] == 1 && w->src[last] != 1 && w->src[last] != 0) {
        for (int i = 0; i < last; i++) {
            if (w->src[i] != 1)
                continue;
            /* Dimension i and the last dimension are transposed. The other dimensions become outer
             * loops. */
            const int64_t n0 = w->dim[i], d0 = w->dst[i], n1 = w->dim[last], s1 = w->src[last];
            transpose_fn *transpose = transpose_of(size);
            for (int j = i; j < last - 1; j++) {
                w->dim[j] = w->dim[j + 1];
                w->dst[j] = w->dst[j + 1];
                w->src[j] = w->src[j + 1];
            }
            do
                st = transpose_all(transpose, dst + d * bytes, d0, src + s * bytes, s1, n0, n1,
                                   bytes, r);
            while (!st && step(w, last - 1, at, &d, &s));
            return st;
        }
    }
    const bool flat = w->dst[last] == 1 && w->src[last] == 1;
    run_fn *run = run_of(size);
    do
        for (int64_t k = 0; k < w->dim[last] && !st; k += LONG_RUN) {
            const int64_t n = w->dim[last] - k < LONG_RUN ? w->dim[last] - k : LONG_RUN;
            char *to = dst + (d + k * w->dst[last]) * bytes;
            const char *from = src + (s + k * w->src[last]) * bytes;
            if (flat)
                memcpy(to, from, (size_t)(n * bytes));
            else
                run(to, w->dst[last], from, w->src[last], n);
            /* 8 is the cost of starting a row, in units of rt_run_spend. */
            st = spend(r, (flat ? n : 4 * n) + 8);
        }
    while (!st && step(w, last, at, &d, &s));
    return st;
}

/* A strided copy that is sharded along its outermost dimension. `size` is the element size. */
struct slices {
    size_t size;
    const struct kn_walk *walk;
    char *dst;
    const char *src;
};

static enum rt_status walk_slices(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct slices *s = arg;
    const int64_t size = (int64_t)s->size;
    struct kn_walk w = *s->walk;
    w.dim[0] = to - from;
    return walk_plain(s->size, &w, s->dst + from * w.dst[0] * size, s->src + from * w.src[0] * size,
                      r);
}

static enum rt_status walk_blocks(size_t size, struct kn_walk *w, char *dst, const char *src,
                                  struct rt_run *r)
{
    struct slices s = {size, w, dst, src};
    int64_t n = 1;
    for (int i = 1; i < w->rank; i++)
        n *= w->dim[i];
    return kn_parallel_rows(r, w->dim[0], n,
                            w->rank == 1     ? 64
                            : w->src[0] == 1 ? 16
                                             : 1,
                            walk_slices, &s);
}

static enum rt_status walk_all(enum rt_dtype dtype, const struct kn_walk *walk, void *dst,
                               const void *src, struct rt_run *r)
{
    struct kn_walk w;
    int64_t at[KN_WALK_RANK] = {0}, d = 0, s = 0;
    const int64_t size = (int64_t)rt_dtype_size(dtype);
    enum rt_status st;

    for (int i = 0; i < walk->rank; i++)
        if (walk->dim[i] == 0)
            return RT_OK;
    simplify(walk, &w);
    if (rt_dtype_is_plain(dtype))
        return r && w.rank ? walk_blocks((size_t)size, &w, dst, src, r)
                           : walk_plain((size_t)size, &w, dst, src, r);
    do {
        rt_copy_elements(dtype, (char *)dst + d * size, (const char *)src + s * size, 1);
        st = spend(r, 128); /* copying a string takes about 50 ns */
    } while (!st && step(&w, w.rank, at, &d, &s));
    return st;
}

enum rt_status kn_walk_copy(enum rt_dtype dtype, const struct kn_walk *walk, void *dst,
                            const void *src, struct rt_run *r)
{
    return walk_all(dtype, walk, dst, src, r);
}

void kn_walk_write(enum rt_dtype dtype, const struct kn_walk *walk, void *dst, const void *src)
{
    (void)walk_all(dtype, walk, dst, src, NULL); /* walk_all can fail only if it is given a run */
}

/* CHUNK is the number of bytes, and STRING_CHUNK the number of strings, that are copied between two
 * deadline checks. Copies of a string share its bytes. */
enum { CHUNK = 4 << 20, STRING_CHUNK = 1 << 14 };

enum rt_status kn_copy_chunks(struct rt_run *r, enum rt_dtype dtype, void *dst, const void *src,
                              int64_t n)
{
    const int64_t size = (int64_t)rt_dtype_size(dtype);
    const int64_t most = rt_dtype_is_plain(dtype) ? CHUNK / size : STRING_CHUNK;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < n && !st; i += most) {
        const int64_t some = n - i < most ? n - i : most;
        kn_copy(dtype, (char *)dst + i * size, (const char *)src + i * size, some);
        st = rt_run_spend(r, &r->left, rt_dtype_is_plain(dtype) ? some * size / 4 : 128 * some);
    }
    return st;
}

enum rt_status kn_zero_chunks(struct rt_run *r, void *dst, size_t bytes)
{
    enum rt_status st = RT_OK;

    for (size_t i = 0; i < bytes && !st; i += CHUNK) {
        const size_t some = bytes - i < CHUNK ? bytes - i : CHUNK;
        memset((char *)dst + i, 0, some);
        st = rt_run_spend(r, &r->left, (int64_t)some);
    }
    return st;
}

enum rt_status kn_copy_long_text(struct rt_run *r, int64_t *left, char *dst, const char *src,
                                 size_t n)
{
    enum rt_status st = RT_OK;

    for (size_t some; n && !st; n -= some, src += some, dst += some) {
        some = kn_text_chunk(n);
        memcpy(dst, src, some);
        st = rt_run_spend(r, left, (int64_t)some);
    }
    return st;
}

bool kn_same_text(const char *a, const char *b, size_t n, struct kn_reader *t)
{
    for (; n > KN_TEXT_CHUNK; n -= KN_TEXT_CHUNK, a += KN_TEXT_CHUNK, b += KN_TEXT_CHUNK)
        if (memcmp(a, b, KN_TEXT_CHUNK) != 0 || !kn_read_on(t, 2 * (size_t)KN_TEXT_CHUNK))
            return false;
    return memcmp(a, b, n) == 0;
}

enum rt_status kn_repeat(enum rt_dtype dtype, void *dst, const void *src, int64_t n,
                         struct rt_run *r)
{
    const struct kn_walk w = {.rank = 1, .dim = {n}, .dst = {1}, .src = {0}};

    return kn_walk_copy(dtype, &w, dst, src, r);
}

bool kn_one(enum rt_dtype dtype, void *elem)
{
    memset(elem, 0, rt_dtype_size(dtype));
    switch (dtype) {
    case RT_F32:
    case RT_C64:
        *(float *)elem = 1;
        return true;
    case RT_F64:
    case RT_C128:
        *(double *)elem = 1;
        return true;
    case RT_F16:
        *(uint16_t *)elem = 0x3c00;
        return true;
    case RT_BF16:
        *(uint16_t *)elem = 0x3f80;
        return true;
    case RT_I8:
    case RT_U8:
    case RT_BOOL:
    case RT_I4:
    case RT_U4:
    case RT_I2:
    case RT_U2:
        *(uint8_t *)elem = 1;
        return true;
    case RT_I16:
    case RT_U16:
        *(uint16_t *)elem = 1;
        return true;
    case RT_I32:
    case RT_U32:
        *(uint32_t *)elem = 1;
        return true;
    case RT_I64:
    case RT_U64:
        *(uint64_t *)elem = 1;
        return true;
    default:
        return false;
    }
}

/* ---- row-wise analysis ---- */

void kn_rows_set(struct rt_rows *r, enum rt_dep_kind kind, int axis)
{
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = (struct rt_dep){.kind = kind, .axis = axis};
}

bool kn_rows_free(const struct rt_rows *r, int first)
{
    for (int k = first; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return false;
    return true;
}

bool kn_rows_independent(struct rt_rows *r)
{
    enum rt_dep_kind worst = RT_DEP_NONE;

    for (int k = 0; k < r->n_in; k++)
        if (r->in_dep[k].kind > worst)
            worst = r->in_dep[k].kind;
    if (worst == RT_DEP_ROWS)
        return false;
    /* Every output gets the strongest dependence of any input: RT_DEP_NONE, RT_DEP_SIZE or
     * RT_DEP_MIXED. */
    kn_rows_set(r, worst, 0);
    return true;
}

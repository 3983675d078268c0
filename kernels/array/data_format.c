/*
 * Ops that convert from one data format to another, for example from NHWC to NCHW. DataFormatDimMap
 * converts axis numbers. DataFormatVecPermute reorders vectors that have one element for each axis.
 */
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/entry.h"

enum { MOST = 5 };

/* Checks the formats' lengths, and that each is a permutation of the other. */
static enum rt_status check_formats(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_span src = rt_attr_str(n, "src_format"), dst = rt_attr_str(n, "dst_format");
    bool fits = src.n == dst.n;

    if (src.n != 4 && src.n != 5)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Source format must be of length 4 or 5, received src_format = %.*s",
                       (int)src.n, (const char *)src.p);
    if (dst.n != 4 && dst.n != 5)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Destination format must be of length 4 or 5, received dst_format = %.*s",
                       (int)dst.n, (const char *)dst.p);
    for (size_t i = 0; i < src.n && fits; i++)
        fits = memchr(dst.p, src.p[i], dst.n) && memchr(src.p, dst.p[i], src.n) &&
               !memchr(src.p + i + 1, src.p[i], src.n - i - 1);
    if (!fits)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Destination and source format must determine a permutation, got %.*s and "
                       "%.*s",
                       (int)src.n, (const char *)src.p, (int)dst.n, (const char *)dst.p);
    return RT_OK;
}

static enum rt_status map_run(struct rt_run *r)
{
    const struct rt_span src = rt_attr_str(r->node, "src_format");
    const struct rt_span dst = rt_attr_str(r->node, "dst_format");
    const struct rt_tensor *x = &r->in[0];
    const int64_t n = (int64_t)src.n, total = rt_tensor_count(x);
    int64_t to[MOST];
    enum rt_status st = check_formats(r->node, r->err);

    if (st || !kn_out(r, 0, x->rank, x->dim))
        return r->err->code;
    for (int64_t i = 0; i < n; i++)
        to[i] = (const unsigned char *)memchr(dst.p, src.p[i], dst.n) - dst.p;
    for (int64_t i = 0; i < total && !st; i++) {
        kn_put_int(&r->out[0], i, to[(kn_int_at(x, i) % n + n) % n]);
        st = rt_run_tick(r, i);
    }
    return st;
}

/* Copies the letters of a format to `to`, without N and C if `spatial` is set. Returns the number
 * of letters. */
static int64_t letters(struct rt_span format, bool spatial, unsigned char *to)
{
    int64_t n = 0;

    for (size_t i = 0; i < format.n; i++)
        if (!spatial || (format.p[i] != 'N' && format.p[i] != 'C'))
            to[n++] = format.p[i];
    return n;
}

static enum rt_status permute_run(struct rt_run *r)
{
    const struct rt_span format = rt_attr_str(r->node, "src_format");
    const struct rt_tensor *x = &r->in[0];
    const int64_t full = (int64_t)format.n;
    unsigned char src[MOST], dst[MOST];
    enum rt_status st = check_formats(r->node, r->err);

    if (st)
        return st;
    if (x->rank != 1 && x->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "input must be a vector or 2D tensor, but got shape %s", KN_TEXT(x));
    if (x->dim[0] != full && x->dim[0] != full - 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       x->rank == 1 ? "1D input must be of size %lld or %lld, but got shape %s"
                                    : "First dimension of 2D input must be of size %lld or %lld, "
                                      "but got shape %s",
                       (long long)full - 2, (long long)full, KN_TEXT(x));
    if (x->rank == 2 && x->dim[1] != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Second dimension of 2D input must be of size 2, but got shape %s",
                       KN_TEXT(x));
    const int64_t n = x->dim[0], each = x->rank == 2 ? 2 : 1;
    const int64_t n_src = letters(format, n != full, src);
    const int64_t n_dst = letters(rt_attr_str(r->node, "dst_format"), n != full, dst);
    if (n_src != n || n_dst != n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "the formats must hold N and C for an input of size %lld", (long long)n);
    if (!kn_out(r, 0, x->rank, x->dim))
        return r->err->code;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = (const unsigned char *)memchr(src, dst[i], (size_t)n) - src;
        for (int64_t k = 0; k < each; k++)
            kn_put_int(&r->out[0], i * each + k, kn_int_at(x, from * each + k));
    }
    return RT_OK;
}

#define FORMAT(symbol, op_, run_)                                                                  \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .infer = kn_infer_copy},                                             \
        .kernels = KN_CPU(op_, #symbol, RT_T(RT_I32) | RT_T(RT_I64), NULL, run_),                  \
    };
FORMAT(data_format_dim_map, "DataFormatDimMap", map_run)
FORMAT(data_format_vec_permute, "DataFormatVecPermute", permute_run)

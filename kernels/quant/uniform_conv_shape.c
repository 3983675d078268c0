#include <stdio.h>
#include <string.h>

#include "kernels/parsing/wire_example.h"
#include "kernels/quant/uniform_conv.h"
#include "runtime/base/checked.h"

/* ---- the message UniformQuantizedConvolutionDimensionNumbersAttr ---- */

enum { INPUT, KERNEL, OUTPUT, LAYOUTS };

/* The message as read: numbers of each kind for each tensor. `n` counts spatial dimensions, also
 * those beyond the capacity of `layout`. */
struct numbers {
    struct kn_u_layout layout[LAYOUTS];
    int64_t n[LAYOUTS];
};

static void add_spatial(struct numbers *m, int which, uint64_t v)
{
    if (m->n[which] < KN_U_SPATIAL)
        m->layout[which].spatial[m->n[which]] = (int64_t)v;
    m->n[which]++;
}

/* The kernel's fields 4 and 5 are its input feature and its output feature. */
static void set_number(struct numbers *m, uint64_t field, uint64_t v)
{
    const int which = (int)((field - 1) / 3);
    const bool is_kernel = which == KERNEL;

    if (field % 3 == 0)
        add_spatial(m, which, v);
    else if ((field % 3 == 1) != is_kernel)
        m->layout[which].batch = (int64_t)v;
    else
        m->layout[which].feature = (int64_t)v;
}

static bool read_numbers(struct rt_span text, struct numbers *m)
{
    struct kn_wire w = kn_wire_of(text);

    memset(m, 0, sizeof *m);
    while (kn_wire_left(&w)) {
        const struct kn_wire start = w;
        uint64_t tag, v;
        struct rt_span packed;
        if (!kn_wire_varint(&w, &tag) || tag >> 3 == 0)
            return false;
        const uint64_t field = tag >> 3;
        if (field <= 9 && (tag & 7) == 0) {
            if (!kn_wire_varint(&w, &v))
                return false;
            set_number(m, field, v);
        } else if (field <= 9 && field % 3 == 0 && (tag & 7) == 2) {
            if (!kn_wire_bytes(&w, &packed))
                return false;
            for (struct kn_wire list = kn_wire_of(packed); kn_wire_left(&list);) {
                if (!kn_wire_varint(&list, &v))
                    return false;
                add_spatial(m, (int)((field - 1) / 3), v);
            }
        } else {
            w = start;
            if (!kn_wire_skip(&w))
                return false;
        }
    }
    return true;
}

static void default_numbers(struct numbers *m, int rank)
{
    for (int k = 0; k < LAYOUTS; k++) {
        m->layout[k] = (struct kn_u_layout){.batch = 0, .feature = 1};
        m->n[k] = rank - 2;
        for (int i = 0; i < KN_U_SPATIAL; i++)
            m->layout[k].spatial[i] = 2 + i;
    }
}

/* Fails unless each dimension of a tensor of the given rank has exactly one meaning. TensorFlow
 * accepts repeated dimensions and then reads elements that have no defined place. */
static enum rt_status check_layout(const struct kn_u_layout *l, int rank, struct rt_error *err)
{
    unsigned seen = 0;

    for (int i = 0; i < rank; i++) {
        const int64_t d = i == 0 ? l->batch : i == 1 ? l->feature : l->spatial[i - 2];
        if (d < 0 || d >= rank)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Each dimension number must be in region [0, rank). Given rank %d and "
                           "dimension number value %lld",
                           rank, (long long)d);
        if (seen >> d & 1)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Each dimension number must occur once. Given dimension number value "
                           "%lld twice",
                           (long long)d);
        seen |= 1U << d;
    }
    return RT_OK;
}

static enum rt_status read_layouts(const struct rt_node *n, int rank, struct kn_u_conv *c,
                                   struct rt_error *err)
{
    const struct rt_span text = rt_attr_str(n, "dimension_numbers");
    struct kn_u_layout *const to[] = {&c->input, &c->kernel, &c->output};
    struct numbers m;

    if (text.n == 0)
        default_numbers(&m, rank);
    else if (!read_numbers(text, &m))
        return rt_fail(err, RT_INVALID_ARGUMENT, "Error parsing convolution dimension numbers.");
    for (int k = 0; k < LAYOUTS; k++) {
        if (m.n[k] != rank - 2)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "Spatial dimensions size must be rank - 2. Given rank %d and spatial "
                           "dimensions size %lld",
                           rank, (long long)m.n[k]);
        if (check_layout(&m.layout[k], rank, err))
            return err->code;
        *to[k] = m.layout[k];
    }
    return RT_OK;
}

/* ---- attributes ---- */

static const char *const lists[] = {"window_strides", "lhs_dilation", "rhs_dilation"};
enum { N_LISTS = sizeof lists / sizeof *lists, LIST_BYTES = 200 };

static bool is_padding(const struct rt_node *n, const char *name)
{
    const struct rt_span s = rt_attr_str(n, "padding");

    return s.n == strlen(name) && memcmp(s.p, name, s.n) == 0;
}

/* Formats a list of integers, as in "1, 2". The text of a long list is cut off. */
static const char *list_text(char text[LIST_BYTES], const int64_t *v, size_t n)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < n && at < LIST_BYTES - 24; i++)
        at +=
            (size_t)snprintf(text + at, LIST_BYTES - at, "%s%lld", i ? ", " : "", (long long)v[i]);
    return text;
}

static enum rt_status check_padding(const struct rt_node *n, struct rt_error *err)
{
    const struct rt_span s = rt_attr_str(n, "padding");
    const int64_t *pads;
    const size_t n_pads = rt_attr_ints(n, "explicit_padding", &pads);
    char text[LIST_BYTES];

    if (!is_padding(n, "EXPLICIT") && !is_padding(n, "SAME") && !is_padding(n, "VALID"))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "padding Attr must be one of [EXPLICIT | SAME | VALID], but given: %.*s",
                       (int)(s.n < LIST_BYTES ? s.n : LIST_BYTES), (const char *)s.p);
    if (!is_padding(n, "EXPLICIT") && n_pads != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "If padding Attr is not 'EXPLICIT', explicit_padding Attr must be empty. "
                       "Given padding %.*s and explicit_padding of size %zu",
                       (int)s.n, (const char *)s.p, n_pads);
    for (size_t i = 0; i < n_pads; i++)
        if (pads[i] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "All explicit_padding elems must be >= 0, Given %s",
                           list_text(text, pads, n_pads));
    return RT_OK;
}

static enum rt_status check_groups(const struct rt_node *n, struct rt_error *err)
{
    const int64_t features = rt_attr_int(n, "feature_group_count");
    const int64_t batches = rt_attr_int(n, "batch_group_count");

    if (features <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "feature_group_count must be a positive integer, given: %lld",
                       (long long)features);
    if (batches <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_group_count Attr must be a positive integer. Given: %lld",
                       (long long)batches);
    return RT_OK;
}

static enum rt_status check(const struct rt_node *n, struct rt_error *err)
{
    char text[LIST_BYTES];

    for (int k = 0; k < N_LISTS; k++) {
        const int64_t *v;
        const size_t len = rt_attr_ints(n, lists[k], &v);
        for (size_t i = 0; i < len; i++)
            if (v[i] < 1)
                return rt_fail(err, RT_INVALID_ARGUMENT,
                               "All elements of %s must be >= 1. Given %s", lists[k],
                               list_text(text, v, len));
    }
    if (check_padding(n, err) || check_groups(n, err))
        return err->code;
    if (n->n_in == 8 && kn_u_axis(n, "lhs_") != -1)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "lhs_quantization_axis Attr must be -1 (per-tensor).");
    return RT_OK;
}

/* ---- shapes ---- */

/* Returns the length of n elements with step - 1 zeros between them. */
static int64_t dilated(int64_t n, int64_t step)
{
    return n == 0 ? 0 : rt_add_saturated(rt_mul_saturated(n - 1, step), 1);
}

/* Computes `out` and `lo` of a window from its other members, which must be known. */
static enum rt_status solve(struct kn_u_window *w, const struct rt_node *n, const int64_t *pads,
                            struct rt_error *err)
{
    const int64_t limit = INT64_MAX / 8;
    const int64_t in = dilated(w->in, w->in_dilation), size = dilated(w->size, w->dilation);

    if (in > limit || size > limit || (pads && (pads[0] > limit || pads[1] > limit)))
        return rt_fail(err, RT_INVALID_ARGUMENT, "the windows of the convolution are too large");
    const bool is_same = is_padding(n, "SAME");
    const int64_t least = in / w->stride + (in % w->stride != 0);
    const int64_t total = is_same ? (least - 1) * w->stride + size - in : 0;
    const int64_t spare = total > 0 ? total : 0;
    w->lo = pads ? pads[0] : spare / 2;
    const int64_t padded = in + spare + (pads ? pads[0] + pads[1] : 0);
    w->out = (padded - size) / w->stride + 1; /* rounded towards 0, as in TensorFlow */
    if (w->out < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Expected shape dimensions to be non-negative, got %lld", (long long)w->out);
    return RT_OK;
}

static enum rt_status read_windows(const struct rt_node *n, const struct rt_shape *lhs,
                                   const struct rt_shape *rhs, struct kn_u_conv *c,
                                   struct rt_error *err)
{
    const int64_t *v[N_LISTS], *pads;
    size_t len[N_LISTS];
    const size_t n_pads = rt_attr_ints(n, "explicit_padding", &pads);

    for (int k = 0; k < N_LISTS; k++) {
        len[k] = rt_attr_ints(n, lists[k], &v[k]);
        if (len[k] != 0 && len[k] != (size_t)c->n_spatial)
            return rt_fail(err, RT_INVALID_ARGUMENT, "Size of %s Attr must be dims - 2.", lists[k]);
    }
    if (is_padding(n, "EXPLICIT") && n_pads != 2 * (size_t)c->n_spatial)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Size of explicit_padding Attr must be 2 * (rank - 2). Given rank %d and "
                       "explicit_padding of size %zu",
                       lhs->rank, n_pads);
    for (int i = 0; i < c->n_spatial; i++) {
        struct kn_u_window *w = &c->window[i];
        *w = (struct kn_u_window){.in = lhs->dim[c->input.spatial[i]],
                                  .size = rhs->dim[c->kernel.spatial[i]],
                                  .stride = len[0] ? v[0][i] : 1,
                                  .in_dilation = len[1] ? v[1][i] : 1,
                                  .dilation = len[2] ? v[2][i] : 1,
                                  .out = -1};
        if (w->in >= 0 && w->size >= 0 && solve(w, n, n_pads ? pads + 2 * i : NULL, err))
            return err->code;
    }
    return RT_OK;
}

/* Checks the divisions into groups as far as the sizes are known. */
static enum rt_status check_division(const struct kn_u_conv *c, int64_t batch, int64_t in,
                                     int64_t kernel_in, int64_t out, struct rt_error *err)
{
    static const char *const names[] = {"feature_group_count", "batch_group_count"};
    const int64_t groups[] = {c->feature_groups, c->batch_groups};

    if (in >= 0 && in % groups[0] != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "feature_group_count must divide lhs feature dimension size, but %lld does "
                       "not divide %lld",
                       (long long)groups[0], (long long)in);
    if (in >= 0 && kernel_in >= 0 && (kernel_in == 0 || in % kernel_in != 0))
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "rhs input feature dimension must divide lhs feature dimension size, but "
                       "%lld does not divide %lld",
                       (long long)kernel_in, (long long)in);
    if (in >= 0 && kernel_in >= 0 && in / groups[0] != kernel_in)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "lhs feature dimension size divided by feature_group_count must equal the "
                       "rhs input feature dimension size, but %lld / %lld != %lld",
                       (long long)in, (long long)groups[0], (long long)kernel_in);
    if (batch >= 0 && batch % groups[1] != 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_group_count must divide lhs batch dimension size, but %lld does not "
                       "divide %lld",
                       (long long)groups[1], (long long)batch);
    for (int k = 0; k < 2; k++)
        if (out >= 0 && out % groups[k] != 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "rhs output dimension size must be a multiple of %s, but %lld is not a "
                           "multiple of %lld",
                           names[k], (long long)out, (long long)groups[k]);
    return RT_OK;
}

static enum rt_status check_axes(const struct rt_node *n, const struct kn_u_conv *c,
                                 struct rt_error *err)
{
    const int64_t rhs = kn_u_axis(n, "rhs_");
    const int64_t out = n->n_in == 8 ? kn_u_axis(n, "output_") : -1;

    if (rhs != -1 && rhs != c->kernel.batch)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "rhs_quantization_axis Attr must be -1 (per-tensor) or "
                       "dimension_numbers.kernel_output_feature_dimension (per-channel).");
    if (out != -1 && out != c->output.feature)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "output_quantization_axis Attr must be -1 (per-tensor) or "
                       "dimension_numbers.output_feature_dimension (per-channel).");
    return RT_OK;
}

enum rt_status kn_u_conv_read(const struct rt_node *n, const struct rt_shape *lhs,
                              const struct rt_shape *rhs, struct kn_u_conv *c, struct rt_shape *out,
                              struct rt_error *err)
{
    *c = (struct kn_u_conv){.n_spatial = lhs->rank - 2,
                            .batch_groups = rt_attr_int(n, "batch_group_count"),
                            .feature_groups = rt_attr_int(n, "feature_group_count")};
    if (lhs->rank != rhs->rank)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "lhs and rhs must have same dims. Given lhs and rhs of shapes: %s%s",
                       KN_TEXT(lhs), KN_TEXT(rhs));
    if (lhs->rank < 3)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "lhs and rhs shape dims must be at least 3. Given: %d", lhs->rank);
    if (read_layouts(n, lhs->rank, c, err))
        return err->code;
    const int64_t batch = lhs->dim[c->input.batch], features = rhs->dim[c->kernel.batch];
    if (check_division(c, batch, lhs->dim[c->input.feature], rhs->dim[c->kernel.feature], features,
                       err) ||
        read_windows(n, lhs, rhs, c, err) || check_axes(n, c, err))
        return err->code;
    out->rank = lhs->rank;
    out->dim[c->output.batch] = batch < 0 ? -1 : batch / c->batch_groups;
    out->dim[c->output.feature] = features;
    for (int i = 0; i < c->n_spatial; i++)
        out->dim[c->output.spatial[i]] = c->window[i].out;
    return RT_OK;
}

enum rt_status kn_u_conv_infer(struct rt_infer *x)
{
    struct kn_u_conv c;

    if (check(x->node, x->err))
        return x->err->code;
    if (x->in[0].shape.rank < 0 || x->in[1].shape.rank < 0)
        return RT_OK;
    return kn_u_conv_read(x->node, &x->in[0].shape, &x->in[1].shape, &c, &x->out[0].shape, x->err);
}

void kn_u_conv_rows(struct rt_rows *r)
{
    struct rt_error ignored;
    struct rt_shape out;
    struct kn_u_conv c;

    if (r->in[0].shape.rank < 0 || r->in[1].shape.rank < 0 ||
        kn_u_conv_read(r->node, &r->in[0].shape, &r->in[1].shape, &c, &out, &ignored) ||
        c.batch_groups != 1 || c.input.batch != 0 || c.output.batch != 0)
        return;
    rt_rows_first(r);
}

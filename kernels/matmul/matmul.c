/*
 * MatMul and all versions of BatchMatMul.
 *
 * Each of these ops has three kernels. "packed" has a constant right-hand matrix that is packed
 * once (fully_connected.h). "gemm" has plain operands (gemm.h). "plain" runs the reference loops,
 * for tests. A batch of left-hand matrices that share one right-hand matrix is computed as one GEMM
 * with more rows.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/fully_connected.h"
#include "kernels/cpu/parallel.h"
#include "kernels/fused/epilogue.h"
#include "kernels/entry.h"

enum { MAX_BATCH_RANK = RT_MAX_RANK - 2 };

/* The GEMMs that a node computes, determined by its attributes and shapes. */
struct batch_gemm {
    struct kn_gemm g;
    /* types of A, B and C in memory; g.dtype is the type of the computation */
    enum rt_dtype ta, tb, to;
    int rank; /* number of batch axes; axis 0 is the outermost */
    int64_t dim[MAX_BATCH_RANK];
    /* Number of elements from one matrix of the batch to the next along each axis, or 0 along an
     * axis where the operand is broadcast. */
    int64_t step_a[MAX_BATCH_RANK], step_b[MAX_BATCH_RANK];
    int64_t batches;
};

/* ---- shapes ---- */

/* Returns whether the op is BatchMatMul. Unlike its later versions, BatchMatMul does not broadcast
 * batch axes. */
static bool is_v1(const struct rt_node *n)
{
    return strcmp(n->schema->name, "BatchMatMul") == 0;
}

static bool is_2d(const struct rt_node *n)
{
    return strcmp(n->schema->name, "MatMul") == 0;
}

static enum rt_status fail_shapes(struct rt_error *err, const char *before, const char *between,
                                  const char *after, const struct rt_shape *a,
                                  const struct rt_shape *b)
{
    char ta[160], tb[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s%s%s%s", before,
                   rt_shape_text(ta, sizeof ta, a->rank, a->dim), between,
                   rt_shape_text(tb, sizeof tb, b->rank, b->dim), after);
}

static enum rt_status check_ranks(const struct rt_infer *x, const struct rt_shape *a,
                                  const struct rt_shape *b)
{
    const struct rt_shape *in[] = {a, b};

    const bool strict = is_v1(x->node) || is_2d(x->node);

    if (strict && a->rank != b->rank)
        return fail_shapes(x->err, "In[0] and In[1] has different ndims: ", " vs. ", "", a, b);
    if (is_2d(x->node) && a->rank != 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "In[0] and In[1] ndims must be == 2: %d",
                       a->rank);
    if (strict && a->rank < 2)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "In[0] and In[1] ndims must be >= 2: %d",
                       a->rank);
    for (int i = 0; i < 2; i++)
        if (in[i]->rank < 2)
            return rt_fail(x->err, RT_INVALID_ARGUMENT, "In[%d] ndims must be >= 2: %d", i,
                           in[i]->rank);
    return RT_OK;
}

static bool flag(const struct rt_node *n, const char *of_matmul, const char *of_batch)
{
    return rt_attr_bool(n, is_2d(n) ? of_matmul : of_batch);
}

static enum rt_status matmul_infer(struct rt_infer *x)
{
    const struct rt_shape *a = &x->in[0].shape, *b = &x->in[1].shape;
    struct rt_shape *o = &x->out[0].shape;

    if (a->rank < 0 || b->rank < 0) {
        if (is_2d(x->node))
            *o = (struct rt_shape){.rank = 2, .dim = {-1, -1}};
        return RT_OK;
    }
    const enum rt_status st = check_ranks(x, a, b);
    if (st)
        return st;

    const bool ta = flag(x->node, "transpose_a", "adj_x");
    const bool tb = flag(x->node, "transpose_b", "adj_y");
    const int64_t m = a->dim[a->rank - (ta ? 1 : 2)], ka = a->dim[a->rank - (ta ? 2 : 1)];
    const int64_t n = b->dim[b->rank - (tb ? 2 : 1)], kb = b->dim[b->rank - (tb ? 1 : 2)];

    o->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < o->rank - 2; i++) {
        const int ia = i - (o->rank - a->rank), ib = i - (o->rank - b->rank);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da >= 0 && db >= 0 && da != db) {
            if (is_v1(x->node)) {
                char words[80];
                snprintf(words, sizeof words,
                         "In[0].dim(%d) and In[1].dim(%d) must be the same: ", i, i);
                return fail_shapes(x->err, words, " vs ", "", a, b);
            }
            if (da != 1 && db != 1)
                return fail_shapes(
                    x->err, "In[0] and In[1] must have compatible batch dimensions: ", " vs. ", "",
                    a, b);
        }
        o->dim[i] = da == 1 ? db : db == 1 ? da : da < 0 ? db : da;
    }
    if (ka >= 0 && kb >= 0 && ka != kb)
        return fail_shapes(x->err, "Matrix size-incompatible: In[0]: ", ", In[1]: ",
                           is_2d(x->node) ? ""
                           : ta           ? tb ? " 1 1" : " 1 0"
                           : tb           ? " 0 1"
                                          : " 0 0",
                           a, b);
    o->dim[o->rank - 2] = m;
    o->dim[o->rank - 1] = n;
    return RT_OK;
}

/* ---- row dependence ---- */

/* Returns whether the operand does not depend on the rows of the batch. It may depend on the batch
 * size. */
static bool is_still(const struct rt_dep *d)
{
    return d->kind == RT_DEP_NONE || d->kind == RT_DEP_SIZE;
}

/* Returns the output axis that corresponds to axis `axis` of operand `k`, or -1 if the products are
 * summed along this axis. */
static int out_axis(const struct rt_rows *r, int k, int axis)
{
    const int rank = r->in[k].shape.rank, out_rank = r->out[0].shape.rank;
    const bool t =
        k == 0 ? flag(r->node, "transpose_a", "adj_x") : flag(r->node, "transpose_b", "adj_y");
    /* the matrix axis that becomes an axis of the output: A's rows or B's columns */
    const int own = rank - ((k == 0) == t ? 1 : 2);

    if (axis == own)
        return k == 0 ? out_rank - 2 : out_rank - 1;
    return axis < rank - 2 ? axis + out_rank - rank : -1;
}

/* Returns whether operand k is the same for every index of this output axis. */
static bool is_broadcast(const struct rt_rows *r, int k, int axis)
{
    const struct rt_shape *s = &r->in[k].shape;
    const int i = axis - (r->out[0].shape.rank - s->rank);
    if (axis >= r->out[0].shape.rank - 2)
        return true; /* the output axis is a matrix axis of the other operand */
    return i < 0 || s->dim[i] == 1;
}

static void rows(struct rt_rows *r)
{
    const struct rt_dep *a = &r->in_dep[0], *b = &r->in_dep[1];
    int axis[2] = {-1, -1};

    if (r->in[0].shape.rank < 2 || r->in[1].shape.rank < 2 || r->out[0].shape.rank < 2)
        return;
    if (is_still(a) && is_still(b)) {
        r->out_dep[0].kind = a->kind == RT_DEP_NONE ? b->kind : RT_DEP_SIZE;
        return;
    }
    for (int k = 0; k < 2; k++) {
        if (r->in_dep[k].kind == RT_DEP_MIXED)
            return;
        if (r->in_dep[k].kind == RT_DEP_ROWS) {
            axis[k] = out_axis(r, k, r->in_dep[k].axis);
            if (axis[k] < 0)
                return;
        }
    }
    const int ax = axis[0] >= 0 ? axis[0] : axis[1];
    for (int k = 0; k < 2; k++) {
        const bool moves = r->in_dep[k].kind == RT_DEP_ROWS;
        if (moves ? axis[k] != ax : !is_broadcast(r, k, ax))
            return;
        if (moves && r->in[k].shape.dim[r->in_dep[k].axis] != r->out[0].shape.dim[ax])
            return;
    }
    r->out_dep[0] = (struct rt_dep){RT_DEP_ROWS, ax};
}

/* ---- planning the GEMMs ---- */

static enum rt_dtype compute_type(enum rt_dtype a, enum rt_dtype b, enum rt_dtype out)
{
    return a == b && b == out ? out : out == RT_I32 ? RT_I32 : RT_F32;
}

/* Merges neighbouring batch axes if each operand can be traversed along both with a single
 * stride. */
static void merge_batch_axes(struct batch_gemm *p)
{
    int n = 0;
    for (int i = 0; i < p->rank; i++) {
        if (p->dim[i] == 1)
            continue;
        if (n && p->step_a[n - 1] == p->step_a[i] * p->dim[i] &&
            p->step_b[n - 1] == p->step_b[i] * p->dim[i]) {
            p->dim[n - 1] *= p->dim[i];
        } else {
            p->dim[n] = p->dim[i];
            n++;
        }
        p->step_a[n - 1] = p->step_a[i];
        p->step_b[n - 1] = p->step_b[i];
    }
    p->rank = n;
}

static void plan(struct batch_gemm *p, const struct rt_prep *prep)
{
    const struct rt_node *node = prep->node;
    const struct rt_shape *a = &prep->in[0].shape, *b = &prep->in[1].shape;
    const bool ta = flag(node, "transpose_a", "adj_x"), tb = flag(node, "transpose_b", "adj_y");
    const enum kn_trans transposed = is_2d(node) ? KN_TRANS : KN_ADJOINT;
    const int rank = a->rank > b->rank ? a->rank : b->rank;

    memset(p, 0, sizeof *p);
    p->ta = prep->in[0].dtype;
    p->tb = prep->in[1].dtype;
    p->to = prep->out[0].dtype;
    p->g = (struct kn_gemm){
        .dtype = compute_type(p->ta, p->tb, p->to),
        .ta = ta ? transposed : KN_AS_IS,
        .tb = tb ? transposed : KN_AS_IS,
        .m = a->dim[a->rank - (ta ? 1 : 2)],
        .k = a->dim[a->rank - (ta ? 2 : 1)],
        .n = b->dim[b->rank - (tb ? 2 : 1)],
        .lda = a->dim[a->rank - 1],
        .ldb = b->dim[b->rank - 1],
    };
    p->g.ldc = p->g.n;
    p->batches = 1;
    p->rank = rank - 2;
    int64_t step_a = p->g.m * p->g.k, step_b = p->g.k * p->g.n;
    for (int i = rank - 3; i >= 0; i--) {
        const int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        p->dim[i] = da == 1 ? db : da;
        p->step_a[i] = da == 1 ? 0 : step_a;
        p->step_b[i] = db == 1 ? 0 : step_b;
        p->batches *= p->dim[i];
        step_a *= da;
        step_b *= db;
    }
    merge_batch_axes(p);
    /* If all batch entries share one right-hand matrix, the batch axis is merged into the rows. */
    if (p->rank == 1 && p->step_b[0] == 0 && !ta && p->step_a[0] == p->g.m * p->g.k) {
        p->g.m *= p->dim[0];
        p->rank = 0;
        p->batches = p->batches ? 1 : 0;
    }
}

/* ---- plain operands ---- */

struct gemm_state {
    struct batch_gemm p;
    bool plain;
    struct kn_epilogue epilogue;
    /* size in bytes of each operand's converted copy in scratch memory, or 0 if the operand is used
     * in place */
    int64_t a_bytes, b_bytes, c_bytes;
    /* offset in scratch memory of the copy of the residual (kn_epilogue_copy_residual) */
    size_t epilogue_at;
};

static enum rt_status prepare_gemm(struct rt_prep *prep, void **state, bool plain)
{
    struct gemm_state *s = rt_prep_alloc(prep, sizeof *s);
    if (!s)
        return prep->err->code;
    plan(&s->p, prep);
    s->plain = plain;
    const struct kn_gemm *g = &s->p.g;
    size_t broadcast_bytes;
    const enum rt_status st = kn_epilogue_prepare(&s->epilogue, prep, &broadcast_bytes);
    if (st)
        return st;
    int64_t bytes = plain ? 0 : kn_gemm_scratch(g);
    /* the products below do not overflow, because tensors of m * k, k * n and m * n elements
     * exist */
    if (s->p.ta != g->dtype)
        s->a_bytes = (g->m * g->k * 4 + 63) / 64 * 64;
    if (s->p.tb != g->dtype)
        s->b_bytes = (g->k * g->n * 4 + 63) / 64 * 64;
    if (s->p.to != g->dtype)
        s->c_bytes = g->m * g->n * 4;
    if (bytes < 0)
        return rt_fail(prep->err, RT_RESOURCE_EXHAUSTED, "%s: the matrices are too large",
                       prep->node->name);
    s->epilogue_at = ((size_t)(bytes + s->a_bytes + s->b_bytes + s->c_bytes) + 63) / 64 * 64;
    prep->scratch_bytes = s->epilogue_at + kn_epilogue_residual_bytes(&s->epilogue);
    *state = s;
    return RT_OK;
}

static enum rt_status prepare_fast(struct rt_prep *prep, void **state)
{
    return prepare_gemm(prep, state, false);
}

static enum rt_status prepare_plain(struct rt_prep *prep, void **state)
{
    return prepare_gemm(prep, state, true);
}

/* Converts int8, uint8 or bfloat16 values to float or int32, the types in which BatchMatMulV3
 * multiplies operands of different types. Sets *wide to dst, or to src if no conversion is
 * needed. */
static enum rt_status widen(struct rt_run *r, enum rt_dtype from, enum rt_dtype to, const void *src,
                            void *dst, int64_t n, const void **wide)
{
    *wide = from == to ? src : dst;
    if (from == to)
        return RT_OK;
    if (to == RT_F32)
        return kn_to_float_rows(r, from, src, n, dst, 1, n);
    int32_t *out = dst;
    for (int64_t i = 0; i < n; i++) {
        out[i] = from == RT_I8 ? ((const int8_t *)src)[i] : ((const uint8_t *)src)[i];
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status matmul_multiply(const struct gemm_state *s, const char *a, const char *b,
                                      char *c, struct rt_run *r)
{
    char *scratch = r->scratch;
    const struct kn_gemm *g = &s->p.g;
    char *after_a = kn_offset(scratch, (size_t)s->a_bytes);
    char *after_b = kn_offset(after_a, (size_t)s->b_bytes);
    const void *fa, *fb;
    void *fc = s->c_bytes ? after_b : c;
    enum rt_status st = widen(r, s->p.ta, g->dtype, a, scratch, g->m * g->k, &fa);

    if (!st)
        st = widen(r, s->p.tb, g->dtype, b, after_a, g->k * g->n, &fb);
    if (!st)
        st = kn_gemm_blocks(g, s->plain, fa, fb, fc, kn_offset(after_b, (size_t)s->c_bytes), r);
    if (!st && s->c_bytes)
        st = kn_from_float_rows(r, s->p.to, fc, c, g->n, g->m, g->n);
    return st;
}

static enum rt_status matmul_finish(const struct gemm_state *s, struct rt_run *r, void *c)
{
    if (!kn_epilogue_any(&s->epilogue))
        return RT_OK;
    kn_epilogue_apply(&s->epilogue, r, KN_EPILOGUE_ALL, c, 0, s->p.batches * s->p.g.m, s->p.g.n);
    return kn_epilogue_broadcast(&s->epilogue, r, c);
}

/* Multiplies matrices [from, to) of the batch. `arg` is the address of C. */
static enum rt_status matmul_shard(struct rt_run *r, void *arg, int64_t from, int64_t to)
{
    const struct gemm_state *s = r->state;
    const struct batch_gemm *p = &s->p;
    const int64_t size_a = (int64_t)rt_dtype_size(p->ta), size_b = (int64_t)rt_dtype_size(p->tb);
    const int64_t step_c = p->g.m * p->g.n * (int64_t)rt_dtype_size(p->to);
    const char *a = r->in[0].data, *b = r->in[1].data;
    char *c = (char *)arg + from * step_c;
    int64_t at[MAX_BATCH_RANK] = {0}, left = RT_WORK, work = kn_gemm_work(&p->g), index = from;

    for (int ax = p->rank - 1; ax >= 0; ax--) {
        at[ax] = index % p->dim[ax];
        index /= p->dim[ax];
        a += at[ax] * p->step_a[ax] * size_a;
        b += at[ax] * p->step_b[ax] * size_b;
    }
    for (int64_t i = from; i < to; i++, c += step_c) {
        if (matmul_multiply(s, a, b, c, r))
            return r->err->code;
        for (int ax = p->rank - 1; ax >= 0; ax--) {
            a += p->step_a[ax] * size_a;
            b += p->step_b[ax] * size_b;
            if (++at[ax] < p->dim[ax])
                break;
            a -= p->step_a[ax] * size_a * p->dim[ax];
            b -= p->step_b[ax] * size_b * p->dim[ax];
            at[ax] = 0;
        }
        if (rt_run_spend(r, &left, work))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_gemm(struct rt_run *whole)
{
    const struct gemm_state *s = whole->state;
    const struct batch_gemm *p = &s->p;
    const int64_t step_c = p->g.m * p->g.n * (int64_t)rt_dtype_size(p->to);
    char *workspace = kn_offset(whole->scratch, s->epilogue_at);
    struct kn_epilogue_residual_copy kept;
    struct rt_run *r = kn_epilogue_copy_residual(&s->epilogue, whole, workspace, &kept);
    char *c = s->epilogue.broadcast_residual ? workspace : r->out[0].data;

    if (!step_c || !p->batches)
        return RT_OK;
    if (!p->g.k) { /* sums without terms are 0 */
        const enum rt_status st = kn_zero_chunks(r, c, (size_t)(p->batches * step_c));
        return st ? st : matmul_finish(s, r, c);
    }
    /* A single GEMM is split among cores by kn_gemm_blocks. Scratch memory, if any is needed,
     * suffices for only one GEMM at a time. */
    const enum rt_status st =
        p->batches == 1 || s->epilogue_at || s->plain
            ? matmul_shard(r, c, 0, p->batches)
            : kn_parallel_rows(r, p->batches, kn_gemm_work(&p->g) / 16 + 1, 1, matmul_shard, c);
    return st ? st : matmul_finish(s, r, c);
}

/* ---- constant right-hand matrix, packed ---- */

static int can_pack(const struct rt_prep *prep)
{
    struct batch_gemm p;

    plan(&p, prep);
    return p.rank == 0 && p.batches == 1 && p.ta == p.to && p.tb == p.to &&
                   kn_fully_connected_pays(prep, 1, &p.g)
               ? 3
               : 0;
}

static void release_packed(void *state)
{
    kn_fully_connected_clear(state);
}

static enum rt_status prepare_packed(struct rt_prep *prep, void **state)
{
    struct batch_gemm p;
    struct kn_fully_connected *s = rt_prep_alloc(prep, sizeof *s);
    if (!s)
        return prep->err->code;
    plan(&p, prep);
    const enum rt_status st = kn_fully_connected_prepare(s, prep, 1, &p.g, &prep->scratch_bytes);
    if (st)
        return st;
    prep->release = release_packed;
    *state = s;
    return RT_OK;
}

static enum rt_status run_packed(struct rt_run *r)
{
    return kn_fully_connected_run(r->state, r->in[0].data, r->in[1].data, r->out[0].data,
                                  r->scratch, r);
}

/* ---- rows of the table ---- */

#define PACK_TYPES (RT_T(RT_F32) | KN_SET(KN_HALFS))

/* Implements rt_op.epilogue. If all rows share one right-hand matrix, returns the number of output
 * columns, otherwise 0. Sets *rank to the output's minimum rank. */
static int64_t epilogue(const struct rt_node *n, const struct rt_info *in, int *rank)
{
    *rank = 2;
    return in[1].shape.rank == 2 ? in[1].shape.dim[flag(n, "transpose_b", "adj_y") ? 0 : 1] : 0;
}

/* If this node replaces a dense layer (runtime/fusion/fuse_dense.c), checks that input 0 has the
 * rank that the replaced nodes required. */
static enum rt_status check_rank(const struct rt_infer *x)
{
    const int rank = x->in[0].shape.rank;

    for (int i = 0; i < x->node->n_extra; i++) {
        const struct rt_named_attr *a = &x->node->extra[i];
        if (strcmp(a->name, "_rank") == 0 && rank >= 0 && rank != a->value.v.i)
            return rt_fail(x->err, RT_INVALID_ARGUMENT,
                           "transpose expects a vector of size %d. But input(1) is a vector of "
                           "size %lld",
                           rank, (long long)a->value.v.i);
    }
    return RT_OK;
}

static enum rt_status infer_epilogue(struct rt_infer *x)
{
    enum rt_status st = check_rank(x);
    if (!st)
        st = matmul_infer(x);
    const struct rt_shape own = x->out[0].shape;
    if (!st)
        st = kn_epilogue_infer(x);
    if (!st && kn_fully_connected_likely(&x->in[1]))
        kn_epilogue_infer_in_place(x, &own);
    return st;
}

static void rows_epilogue(struct rt_rows *r)
{
    kn_epilogue_rows(r, rows);
}

/* Returns whether BatchMatMulV3 supports the node's combination of types. The three types are
 * independent attributes. */
static bool takes_mixed(const struct rt_node *n)
{
    const uint64_t small = RT_T(RT_I8) | RT_T(RT_U8);
    const enum rt_dtype a = rt_attr_dtype(n, "Ta"), b = rt_attr_dtype(n, "Tb");
    const enum rt_dtype out = rt_attr_dtype(n, "Tout");
    const uint64_t both = RT_T(a) | RT_T(b);

    return (a == b && b == out) || (out == RT_I32 && !(both & ~small)) ||
           (out == RT_BF16 && !(both & ~(small | RT_T(RT_BF16))) && (both & RT_T(RT_BF16)));
}

/* Returns the number of FLOPs. Each element of `out` is a sum along one of the last two dimensions
 * of input 0. */
static double matmul_flops(const struct rt_node *n, const struct rt_shape *in, int n_in,
                           const struct rt_shape *out)
{
    (void)n_in;
    if (in[0].rank < 2)
        return 0;
    const bool transposed = rt_attr_bool(n, is_2d(n) ? "transpose_a" : "adj_x");
    return 2 * rt_shape_elements(out) * (double)in[0].dim[in[0].rank - (transposed ? 2 : 1)];
}

#define MATMUL(symbol, op_, name_, attr, all, epilogue_, takes_)                                   \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_,                                                                        \
               .infer = infer_epilogue,                                                            \
               .rows = rows_epilogue,                                                              \
               .epilogue = epilogue_,                                                              \
               .flops = matmul_flops},                                                             \
        .kernels = KN_KERNELS({.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_ ".packed",                                            \
                               .type_attr = attr,                                                  \
                               .types = PACK_TYPES,                                                \
                               .takes = takes_,                                                    \
                               .can = can_pack,                                                    \
                               .prepare = prepare_packed,                                          \
                               .run = run_packed},                                                 \
                              {.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_ ".gemm",                                              \
                               .type_attr = attr,                                                  \
                               .types = all,                                                       \
                               .takes = takes_,                                                    \
                               .can = can_gemm,                                                    \
                               .prepare = prepare_fast,                                            \
                               .run = run_gemm},                                                   \
                              {.op = op_,                                                          \
                               .device = "CPU",                                                    \
                               .name = name_ ".plain",                                             \
                               .type_attr = attr,                                                  \
                               .types = all,                                                       \
                               .takes = takes_,                                                    \
                               .prepare = prepare_plain,                                           \
                               .run = run_gemm}),                                                  \
    }

static int can_gemm(const struct rt_prep *prep)
{
    (void)prep;
    return 2;
}

MATMUL(mat_mul, "MatMul", "matmul", "T", KN_GEMM_TYPES, epilogue, NULL);
MATMUL(batch_mat_mul, "BatchMatMul", "batch_matmul", "T", KN_GEMM_TYPES, NULL, NULL);
MATMUL(batch_mat_mul_v2, "BatchMatMulV2", "batch_matmul", "T", KN_GEMM_TYPES, epilogue, NULL);
MATMUL(batch_mat_mul_v3, "BatchMatMulV3", "batch_matmul", "Ta",
       KN_GEMM_TYPES | RT_T(RT_I8) | RT_T(RT_U8), NULL, takes_mixed);

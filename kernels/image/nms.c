/*
 * Ops of non-maximum suppression: NonMaxSuppression and its versions V2 to V5,
 * NonMaxSuppressionWithOverlaps, and CombinedNonMaxSuppression.
 *
 * Candidates are taken from a heap in descending order of score. If the score of a candidate is
 * lowered, the candidate returns to the heap. The candidate is later compared only with the boxes
 * that were chosen in the meantime.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/array/array.h"
#include "kernels/array/sort.h"
#include "kernels/matmul/gemm.h"
#include "kernels/cpu/types.h"
#include "kernels/entry.h"
#include "runtime/base/checked.h"

/* ---- the heap: highest score first, then lowest index ---- */

struct candidate {
    float score;
    int32_t index;
    int32_t seen; /* number of chosen boxes with which the candidate has been compared */
};

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->index < b->index);
}

static void sink(struct candidate *h, int64_t n, int64_t i)
{
    for (;;) {
        int64_t best = i;
        for (int64_t c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
            if (before(&h[c], &h[best]))
                best = c;
        if (best == i)
            return;
        const struct candidate t = h[i];
        h[i] = h[best];
        h[best] = t;
        i = best;
    }
}

/* ---- similarity ---- */

/* Returns the intersection over union of two boxes. A box [y, x, y, x] consists of two opposite
 * corners in any order. */
static float iou(const float *a, const float *b)
{
    const float ay0 = fminf(a[0], a[2]), ax0 = fminf(a[1], a[3]);
    const float ay1 = fmaxf(a[0], a[2]), ax1 = fmaxf(a[1], a[3]);
    const float by0 = fminf(b[0], b[2]), bx0 = fminf(b[1], b[3]);
    const float by1 = fmaxf(b[0], b[2]), bx1 = fmaxf(b[1], b[3]);
    const float area_a = (ay1 - ay0) * (ax1 - ax0), area_b = (by1 - by0) * (bx1 - bx0);

    if (area_a <= 0 || area_b <= 0)
        return 0;
    const float h = fmaxf(fminf(ay1, by1) - fmaxf(ay0, by0), 0);
    const float w = fmaxf(fminf(ax1, bx1) - fmaxf(ax0, bx0), 0);
    return h * w / (area_a + area_b - h * w);
}

struct nms {
    const float *boxes;    /* n boxes, or NULL if `overlaps` is used */
    int64_t step;          /* number of floats from one box to the next */
    const float *overlaps; /* [n, n] matrix of overlaps, which is used if `boxes` is NULL */
    const float *scores;
    int64_t score_step, n, most;
    float threshold, score_threshold, sigma;
};

static float similarity(const struct nms *s, int32_t i, int32_t j)
{
    return s->boxes ? iou(s->boxes + i * s->step, s->boxes + j * s->step)
                    : s->overlaps[(int64_t)i * s->n + j];
}

/* Returns whether the caller must drop `c`, because `c` overlaps a chosen box by more than the
 * threshold. With soft suppression (sigma > 0), lowers the score of `c` instead. */
static bool suppressed(const struct nms *s, struct candidate *c, const struct candidate *chosen,
                       int64_t n_chosen)
{
    const float scale = s->sigma > 0 ? -0.5f / s->sigma : 0;

    for (int64_t j = n_chosen - 1; j >= c->seen; j--) {
        const float sim = similarity(s, c->index, chosen[j].index);
        c->score *= sim <= s->threshold ? expf(scale * sim * sim) : 0;
        if (s->sigma <= 0 && sim > s->threshold)
            return true;
        if (c->score <= s->score_threshold)
            break;
    }
    c->seen = (int32_t)n_chosen;
    return false;
}

/* Fills `chosen`, best first. Returns the number of chosen boxes, or -1 if the run has been
 * cancelled or its deadline has passed. `heap` has capacity for n candidates. */
static int64_t choose(struct rt_run *r, const struct nms *s, struct candidate *heap,
                      struct candidate *chosen)
{
    int64_t n = 0, found = 0;

    for (int64_t i = 0; i < s->n; i++) {
        const float v = s->scores[i * s->score_step];
        if (v > s->score_threshold)
            heap[n++] = (struct candidate){v, (int32_t)i, 0};
        if (rt_run_spend(r, &r->left, 4))
            return -1;
    }
    for (int64_t i = n / 2 - 1; i >= 0; i--) {
        sink(heap, n, i);
        if (rt_run_spend(r, &r->left, 64))
            return -1;
    }
    while (n && found < s->most) {
        if (rt_run_spend(r, &r->left, 64 + 4 * found))
            return -1;
        struct candidate c = heap[0];
        const float was = c.score;
        const bool out = suppressed(s, &c, chosen, found);

        if (!out && c.score != was && c.score > s->score_threshold) {
            heap[0] = c; /* the candidate stays in the heap with its lower score */
        } else {
            if (!out && c.score == was)
                chosen[found++] = c;
            heap[0] = heap[--n];
        }
        sink(heap, n, 0);
    }
    return found;
}

/* ---- one set of boxes ---- */

static bool op_is(const struct rt_node *n, const char *name)
{
    return strcmp(n->schema->name, name) == 0;
}

static enum rt_status fail_shape(struct rt_error *err, const char *words, const struct rt_shape *s,
                                 const char *after)
{
    char text[160];
    return rt_fail(err, RT_INVALID_ARGUMENT, "%s%s%s", words,
                   rt_shape_text(text, sizeof text, s->rank, s->dim), after);
}

static enum rt_status fail_rank(struct rt_error *err, const char *words, const struct rt_shape *s,
                                int rank)
{
    char after[80];
    snprintf(after, sizeof after, " (Shape must be rank %d but is rank %d)", rank, s->rank);
    return fail_shape(err, words, s, after);
}

static enum rt_status fail_scalar(const struct rt_infer *x, const char *name, int k)
{
    char words[64];
    snprintf(words, sizeof words, "%s must be 0-D, got shape ", name);
    return op_is(x->node, "NonMaxSuppressionV3") && k < 4
               ? fail_rank(x->err, words, &x->in[k].shape, 0)
               : fail_shape(x->err, words, &x->in[k].shape, "");
}

static bool pads(const struct rt_node *n)
{
    return rt_attr(n, "pad_to_max_output_size") && rt_attr_bool(n, "pad_to_max_output_size");
}

static enum rt_status infer_one(struct rt_infer *x)
{
    static const char *const scalar[] = {[2] = "max_output_size",
                                         [3] = "iou_threshold",
                                         [4] = "score_threshold",
                                         [5] = "soft_nms_sigma"};
    const struct rt_shape *b = &x->in[0].shape, *s = &x->in[1].shape;
    const bool overlaps = op_is(x->node, "NonMaxSuppressionWithOverlaps");

    if (overlaps && b->rank >= 0 && b->rank != 2)
        return fail_shape(x->err, "overlaps must be 2-D", b, "");
    if (overlaps && b->rank == 2 && b->dim[0] >= 0 && b->dim[1] >= 0 && b->dim[0] != b->dim[1])
        return fail_shape(x->err, "overlaps must be square", b, "");
    if (b->rank >= 0 && b->rank != 2)
        return fail_rank(x->err, "boxes must be 2-D", b, 2);
    if (!overlaps && b->rank == 2 && b->dim[1] >= 0 && b->dim[1] != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "boxes must have 4 columns (Dimension must be 4 but is %lld)",
                       (long long)b->dim[1]);
    if (s->rank >= 0 && s->rank != 1)
        return fail_rank(x->err, "scores must be 1-D", s, 1);
    if (b->rank == 2 && s->rank == 1 && b->dim[0] >= 0 && s->dim[0] >= 0 && b->dim[0] != s->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "scores has incompatible shape (Dimensions must be equal, but are %lld and "
                       "%lld)",
                       (long long)b->dim[0], (long long)s->dim[0]);
    for (int k = 2; k < x->n_in && k < 6; k++)
        if (x->in[k].shape.rank > 0)
            return fail_scalar(x, scalar[k], k);
    for (int k = 0; k < x->n_out; k++)
        x->out[k].shape = (struct rt_shape){.rank = 1, .dim = {-1}};
    if (x->n_out > 1)
        /* The last output, valid_outputs, is a scalar. */
        x->out[x->n_out - 1].shape = (struct rt_shape){.rank = 0};
    int64_t most;
    if (pads(x->node) && x->in[2].value && kn_scalar(x->in[2].value, &most))
        for (int k = 0; most >= 0 && k < x->n_out - 1; k++)
            x->out[k].shape.dim[0] = most;
    return RT_OK;
}

/* Returns the value of an input. Shape inference has checked that the input is a scalar. */
static float float_of(const struct rt_tensor *t)
{
    double v = 0;
    (void)kn_scalar_float(t, &v);
    return (float)v;
}

static enum rt_status read_one(struct rt_run *r, struct nms *s)
{
    const bool overlaps = op_is(r->node, "NonMaxSuppressionWithOverlaps");
    const int64_t most = kn_int_at(&r->in[2], 0);

    *s = (struct nms){.n = r->in[1].dim[0], .score_step = 1, .score_threshold = -FLT_MAX};
    if (s->n > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "too many boxes");
    if (most < 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "output size must be non-negative");
    s->most = most;
    s->threshold = r->n_in > 3 ? float_of(&r->in[3]) : rt_attr_float(r->node, "iou_threshold");
    if (r->n_in > 4)
        s->score_threshold = float_of(&r->in[4]);
    if (r->n_in > 5)
        s->sigma = float_of(&r->in[5]);
    if (!overlaps && !(s->threshold >= 0 && s->threshold <= 1))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "iou_threshold must be in [0, 1]");
    if (!(s->sigma >= 0))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "soft_nms_sigma_val must be >= 0");
    return RT_OK;
}

/* Returns the size in bytes of the float copies of half-precision inputs. These copies are at the
 * beginning of the scratch memory, before the heap and the chosen candidates. */
static size_t copies_bytes(const int64_t *counts, enum rt_dtype d)
{
    size_t n = 0;
    for (int k = 0; d != RT_F32 && k < 2; k++)
        n += ((size_t)counts[k] * sizeof(float) + 63) / 64 * 64;
    return n;
}

static enum rt_status prepare_one(struct rt_prep *p, void **state)
{
    const struct rt_shape *b = &p->in[0].shape, *s = &p->in[1].shape;
    const int64_t counts[] = {rt_count(b->rank, b->dim), rt_count(s->rank, s->dim)};

    (void)state;
    p->scratch_bytes = copies_bytes(counts, p->in[0].dtype) +
                       (size_t)(2 * s->dim[0] + 1) * sizeof(struct candidate);
    return RT_OK;
}

static enum rt_status put_one(struct rt_run *r, const struct candidate *chosen, int64_t found,
                              int64_t most)
{
    const bool pad = pads(r->node);
    const int64_t n = pad ? most : found;
    const int32_t valid = (int32_t)found;

    for (int k = 0; k < r->n_out; k++) {
        const bool is_count = r->n_out > 1 && k == r->n_out - 1;
        void *p = r->out[k].data;
        if (!r->out[k].dtype || !r->out[k].data)
            p = rt_out(r, k, is_count ? 0 : 1, &n);
        if (!p)
            return r->err->code;
        if (is_count) {
            *(int32_t *)p = valid;
            continue;
        }
        const enum rt_dtype dtype = (enum rt_dtype)r->node->out_dtype[k];
        const int64_t size = (int64_t)rt_dtype_size(dtype);
        for (int64_t i = 0; i < found; i++) {
            if (k == 0)
                ((int32_t *)p)[i] = chosen[i].index;
            else
                kn_from_float(dtype, &chosen[i].score, (char *)p + i * size, 1);
            if (rt_run_tick(r, i))
                return r->err->code;
        }
        if (kn_zero_chunks(r, (char *)p + found * size, (size_t)((n - found) * size)))
            return r->err->code;
    }
    return RT_OK;
}

static enum rt_status run_one(struct rt_run *r)
{
    struct nms s;
    const enum rt_status st = read_one(r, &s);
    if (st)
        return st;
    const enum rt_dtype d = (enum rt_dtype)r->in[0].dtype;
    const int64_t counts[] = {rt_tensor_count(&r->in[0]), rt_tensor_count(&r->in[1])};
    const float *first = r->in[0].data;
    char *workspace = r->scratch;
    s.scores = r->in[1].data;
    if (d != RT_F32) {
        float *copy = r->scratch, *copy2 = copy + (counts[0] + 15) / 16 * 16;
        if (kn_to_float_rows(r, d, r->in[0].data, counts[0], copy, 1, counts[0]) ||
            kn_to_float_rows(r, d, r->in[1].data, counts[1], copy2, 1, counts[1]))
            return r->err->code;
        first = copy;
        s.scores = copy2;
        workspace += copies_bytes(counts, d);
    }
    if (op_is(r->node, "NonMaxSuppressionWithOverlaps")) {
        s.overlaps = first;
    } else {
        s.boxes = first;
        s.step = 4;
    }
    const int64_t most = s.most; /* the padded output may be longer than the number of boxes */
    if (s.most > s.n)
        s.most = s.n;
    struct candidate *heap = (void *)workspace;
    const int64_t found = choose(r, &s, heap, heap + s.n);
    if (found < 0)
        return r->err->code;
    return put_one(r, heap + s.n, found, most);
}

/* ---- CombinedNonMaxSuppression: boxes [b, n, q, 4], scores [b, n, classes] ---- */

static enum rt_status check_combined(const struct rt_infer *x)
{
    static const char *const scalar[] = {[2] = "max_size_per_class",
                                         [3] = "max_total_size",
                                         [4] = "iou_threshold",
                                         [5] = "score_threshold"};
    const struct rt_shape *b = &x->in[0].shape, *s = &x->in[1].shape;

    if (b->rank >= 0 && b->rank != 4)
        return fail_shape(x->err, "boxes must be 4-D", b, "");
    if (s->rank >= 0 && s->rank != 3)
        return fail_shape(x->err, "scores must be 3-D", s, "");
    if (b->rank < 0 || s->rank < 0)
        return RT_OK;
    if (b->dim[0] >= 0 && s->dim[0] >= 0 && b->dim[0] != s->dim[0])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "boxes and scores must have same batch size");
    if (b->dim[1] >= 0 && s->dim[1] >= 0 && b->dim[1] != s->dim[1])
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "scores has incompatible shape");
    for (int k = 2; k < x->n_in; k++)
        if (x->in[k].shape.rank > 0)
            return fail_scalar(x, scalar[k], k);
    if (b->dim[3] >= 0 && b->dim[3] != 4)
        return rt_fail(x->err, RT_INVALID_ARGUMENT, "box must have 4 coordinates");
    if (b->dim[2] >= 0 && s->dim[2] >= 0 && b->dim[2] != 1 && b->dim[2] != s->dim[2])
        return rt_fail(x->err, RT_INVALID_ARGUMENT,
                       "third dimension of boxes must be either 1 or num classes");
    return RT_OK;
}

static bool value_of(const struct rt_info *in, int32_t *v)
{
    int64_t wide;

    if (!in->value || !kn_scalar(in->value, &wide))
        return false;
    *v = (int32_t)wide;
    return true;
}

/* Returns the number of detections in the output for each image. */
static int64_t combined_capacity(const struct rt_node *n, int32_t per_class, int32_t total,
                                 int64_t classes)
{
    const int64_t all = rt_mul_saturated(per_class, classes);
    return rt_attr_bool(n, "pad_per_class") && all < total ? all : total;
}

static enum rt_status infer_combined(struct rt_infer *x)
{
    const int64_t batch = x->in[0].shape.rank == 4 ? x->in[0].shape.dim[0] : -1;
    int32_t per_class, total;
    int64_t capacity = -1;

    const enum rt_status st = check_combined(x);
    if (st)
        return st;
    if (value_of(&x->in[2], &per_class) && value_of(&x->in[3], &total) && per_class > 0 &&
        total > 0 && x->in[1].shape.rank == 3 && x->in[1].shape.dim[2] >= 0)
        capacity = combined_capacity(x->node, per_class, total, x->in[1].shape.dim[2]);
    x->out[0].shape = (struct rt_shape){.rank = 3, .dim = {batch, capacity, 4}};
    x->out[1].shape = x->out[2].shape = (struct rt_shape){.rank = 2, .dim = {batch, capacity}};
    x->out[3].shape = (struct rt_shape){.rank = 1, .dim = {batch}};
    return RT_OK;
}

/* Marks the op as row-wise unless a size or a threshold depends on the batch. Images are
 * independent of each other. */
static void rows_combined(struct rt_rows *r)
{
    if (r->in_dep[0].kind != RT_DEP_ROWS || r->in_dep[1].kind != RT_DEP_ROWS ||
        r->in_dep[0].axis != 0 || r->in_dep[1].axis != 0)
        return;
    for (int k = 2; k < r->n_in; k++)
        if (r->in_dep[k].kind != RT_DEP_NONE)
            return;
    for (int k = 0; k < r->n_out; k++)
        r->out_dep[k] = (struct rt_dep){RT_DEP_ROWS, 0};
}

struct detection {
    float score;
    int32_t box, class_;
    /* position in the order of discovery, by which detections with equal scores are sorted */
    int64_t order;
};

static int by_score(const void *a_, const void *b_)
{
    const struct detection *a = a_, *b = b_;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

struct combined {
    int64_t n, q, classes, per_class, capacity;
    bool clip;
    float threshold, score_threshold;
    struct candidate *heap;
    struct detection *all;
};

/* Finds the boxes of all classes in one image, sorted by score. Returns the number of boxes, or -1
 * if the run has been cancelled or its deadline has passed. */
static int64_t find_all(struct rt_run *r, const struct combined *c, const float *boxes,
                        const float *scores)
{
    int64_t count = 0;

    for (int64_t k = 0; c->n && k < c->classes; k++) {
        const struct nms s = {.boxes = boxes + (c->q == 1 ? 0 : k * 4),
                              .step = c->q * 4,
                              .scores = scores + k,
                              .score_step = c->classes,
                              .n = c->n,
                              .most = c->per_class < c->n ? c->per_class : c->n,
                              .threshold = c->threshold,
                              .score_threshold = c->score_threshold};
        const struct candidate *chosen = c->heap + c->n;
        const int64_t found = choose(r, &s, c->heap, c->heap + c->n);
        if (found < 0)
            return -1;
        for (int64_t i = 0; i < found; i++, count++) {
            c->all[count] = (struct detection){chosen[i].score, chosen[i].index, (int32_t)k, count};
            if (rt_run_tick(r, i))
                return -1;
        }
    }
    return kn_sort(r, c->all, count, sizeof *c->all, by_score) ? -1 : count;
}

static float clipped(const struct combined *c, float v)
{
    return c->clip ? fmaxf(fminf(v, 1), 0) : v;
}

/* Writes the first n detections of an image, and zeros for the rest of the image's capacity. */
static enum rt_status put_picture(struct rt_run *r, const struct combined *c, const float *boxes,
                                  int64_t n, float *out_box, float *out_score, float *out_class)
{
    const size_t rest = (size_t)(c->capacity - n) * sizeof(float);

    for (int64_t i = 0; i < n; i++) {
        const struct detection *d = &c->all[i];
        const float *b = boxes + (d->box * c->q + (c->q == 1 ? 0 : d->class_)) * 4;
        for (int k = 0; k < 4; k++)
            out_box[4 * i + k] = clipped(c, b[k]);
        out_score[i] = d->score;
        out_class[i] = (float)d->class_;
        if (rt_run_tick(r, i))
            return r->err->code;
    }
    if (kn_zero_chunks(r, out_box + 4 * n, 4 * rest) || kn_zero_chunks(r, out_score + n, rest) ||
        kn_zero_chunks(r, out_class + n, rest))
        return r->err->code;
    return RT_OK;
}

static enum rt_status read_combined(struct rt_run *r, struct combined *c)
{
    const int32_t per_class = (int32_t)kn_int_at(&r->in[2], 0);
    const int32_t total = (int32_t)kn_int_at(&r->in[3], 0);

    *c = (struct combined){.n = r->in[0].dim[1],
                           .q = r->in[0].dim[2],
                           .classes = r->in[1].dim[2],
                           .per_class = per_class,
                           .clip = rt_attr_bool(r->node, "clip_boxes"),
                           .threshold = float_of(&r->in[4]),
                           .score_threshold = float_of(&r->in[5])};
    if (per_class <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "max_size_per_class must be positive");
    if (total <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "max_total_size must be > 0");
    if (!(c->threshold >= 0 && c->threshold <= 1))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "iou_threshold must be in [0, 1]");
    if (c->n > INT32_MAX)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "too many boxes");
    c->capacity = combined_capacity(r->node, per_class, total, c->classes);
    return RT_OK;
}

static enum rt_status prepare_combined(struct rt_prep *p, void **state)
{
    const int64_t n = p->in[1].shape.dim[1], classes = p->in[1].shape.dim[2];
    (void)state;
    p->scratch_bytes = (size_t)(n * classes + 1) * sizeof(struct detection) +
                       (size_t)(2 * n + 1) * sizeof(struct candidate);
    return RT_OK;
}

static enum rt_status run_combined(struct rt_run *r)
{
    const int64_t batch = r->in[0].dim[0];
    const float *boxes = r->in[0].data, *scores = r->in[1].data;
    struct combined c;

    const enum rt_status st = read_combined(r, &c);
    if (st)
        return st;
    const int64_t dims[] = {batch, c.capacity, 4};
    static const int rank[] = {3, 2, 2, 1};
    void *out[4];
    for (int k = 0; k < 4; k++) {
        out[k] = r->out[k].data ? r->out[k].data : rt_out(r, k, rank[k], dims);
        if (!out[k])
            return r->err->code;
    }
    c.all = r->scratch;
    c.heap = (void *)(c.all + c.n * c.classes + 1);
    float *out_box = out[0], *out_score = out[1], *out_class = out[2];
    int32_t *valid = out[3];
    for (int64_t i = 0; i < batch; i++) {
        const int64_t found = find_all(r, &c, boxes, scores);
        const int64_t n = found < c.capacity ? found : c.capacity;
        if (found < 0 || put_picture(r, &c, boxes, n, out_box, out_score, out_class))
            return r->err->code;
        valid[i] = (int32_t)n;
        if (c.n && c.classes) { /* without boxes or classes, no input data is read */
            boxes += c.n * c.q * 4;
            scores += c.n * c.classes;
        }
        out_box += c.capacity * 4;
        out_score += c.capacity;
        out_class += c.capacity;
    }
    return RT_OK;
}

/* ---- registry entries ---- */

#define NMS_TYPES (RT_T(RT_F32) | RT_T(RT_F16))
#define NMS(symbol, op_, types_)                                                                   \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = op_, .shape_in = 4, .infer = infer_one},                                    \
        .kernels = KN_CPU(op_, "nms", types_, prepare_one, run_one),                               \
    }
NMS(non_max_suppression, "NonMaxSuppression", 0);
NMS(non_max_suppression_v2, "NonMaxSuppressionV2", NMS_TYPES);
NMS(non_max_suppression_v3, "NonMaxSuppressionV3", NMS_TYPES);
NMS(non_max_suppression_v4, "NonMaxSuppressionV4", NMS_TYPES);
NMS(non_max_suppression_v5, "NonMaxSuppressionV5", NMS_TYPES);
NMS(non_max_suppression_with_overlaps, "NonMaxSuppressionWithOverlaps", 0);

const struct kn_entry kn_combined_non_max_suppression = {
    .op = {.name = "CombinedNonMaxSuppression",
           .shape_in = 12,
           .infer = infer_combined,
           .rows = rows_combined},
    .kernels =
        KN_CPU("CombinedNonMaxSuppression", "combined_nms", 0, prepare_combined, run_combined),
};

/* ComputeAccidentalHits, which finds true classes among the samples of a candidate sampler, and the
 * k-means ops KMC2ChainInitialization and NearestNeighbors. */
#include "kernels/array/array.h"
#include "kernels/array/sort.h"
#include "kernels/entry.h"
#include "kernels/random/philox.h"

#include <float.h>

/* ---- ComputeAccidentalHits ---- */

static enum rt_status check_hits(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];

    if (t->rank != 2 || t->dim[1] != rt_attr_int(r->node, "num_true"))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "true_candidates must be a batch_size * num_true matrix");
    if (r->in[1].rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sampled_candidates must be a vector, which is typically an output from "
                       "CandidateSampler");
    return RT_OK;
}

/* A sampled class and its position. */
struct sampled {
    int64_t id, at;
};

/* Returns the number of samples whose class is less than `id` or, if `after` is set, not greater
 * than `id`. The samples must be sorted. */
static int64_t bound(const struct sampled *s, int64_t n, int64_t id, bool after)
{
    int64_t low = 0;

    while (low < n) {
        const int64_t middle = low + (n - low) / 2;
        if (s[middle].id < id || (after && s[middle].id == id))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Orders samples by class and, within a class, by position. */
static int by_class(const void *a, const void *b)
{
    const struct sampled *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Writes the hits to the outputs, or only counts them if `rows` is NULL. */
static enum rt_status find_hits(struct rt_run *r, const struct sampled *s, int64_t n, int32_t *rows,
                                int64_t *n_hits)
{
    const struct rt_tensor *t = &r->in[0];
    const int64_t *classes = t->data;
    const int64_t count = rt_tensor_count(t);
    int64_t *ids = rows ? r->out[1].data : NULL;
    float *weights = rows ? r->out[2].data : NULL;
    enum rt_status st = RT_OK;

    *n_hits = 0;
    for (int64_t i = 0; i < count && !st; i++) {
        const int64_t end = bound(s, n, classes[i], true);
        if (end > 0 && s[end - 1].id == classes[i]) {
            if (rows) { /* of equal samples, TensorFlow finds the last one */
                rows[*n_hits] = (int32_t)(i / t->dim[1]);
                ids[*n_hits] = s[end - 1].at;
                weights[*n_hits] = -FLT_MAX;
            }
            ++*n_hits;
        }
        st = rt_run_spend(r, &r->left, 64);
    }
    return st;
}

static enum rt_status hits_run(struct rt_run *r)
{
    const int64_t n = rt_tensor_count(&r->in[1]), *samples = r->in[1].data;
    enum rt_status st = check_hits(r);
    int64_t n_hits;

    if (st)
        return st;
    struct sampled *s = rt_scratch(r, ((size_t)n + 1) * sizeof *s);
    if (!s)
        return r->err->code;
    for (int64_t i = 0; i < n && !st; i++) {
        s[i] = (struct sampled){samples[i], i};
        st = rt_run_tick(r, i);
    }
    if (!st)
        st = kn_sort(r, s, n, sizeof *s, by_class);
    if (!st)
        st = find_hits(r, s, n, NULL, &n_hits);
    for (int k = 0; k < 3 && !st; k++)
        st = rt_out(r, k, 1, &n_hits) ? RT_OK : r->err->code;
    return st || !n_hits ? st : find_hits(r, s, n, r->out[0].data, &n_hits);
}

const struct kn_entry kn_compute_accidental_hits = {
    .op = {.name = "ComputeAccidentalHits"},
    .kernels = KN_CPU("ComputeAccidentalHits", "compute_accidental_hits", 0, NULL, hits_run),
};

/* ---- KMC2ChainInitialization ---- */

static enum rt_status kmc2_run(struct rt_run *r)
{
    const struct rt_tensor *t = &r->in[0];
    const float *distances = t->data;
    const int64_t n = rt_tensor_count(t);
    int64_t seed, at = 0;

    if (t->rank != 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input distances should be a vector.");
    if (!kn_scalar(&r->in[1], &seed))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input seed should be a scalar.");
    if (n < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected distances_tensor.size() > 0.");
    struct kn_singles random = {
        .philox.key = {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)},
    };
    enum rt_status st = RT_OK;
    for (int64_t i = 1; i < n && !st; i++) {
        if (distances[i] > kn_unit_float(kn_next_bits(&random)) * distances[at])
            at = i;
        st = rt_run_spend(r, &r->left, 32);
    }
    int64_t *o = st ? NULL : kn_out(r, 0, 0, NULL);
    if (!o)
        return r->err->code;
    *o = at;
    return RT_OK;
}

const struct kn_entry kn_kmc2_chain_initialization = {
    .op = {.name = "KMC2ChainInitialization", .infer = kn_infer_scalars},
    .kernels = KN_CPU("KMC2ChainInitialization", "kmc2_chain_initialization", 0, NULL, kmc2_run),
};

/* ---- NearestNeighbors ---- */

/* A centre c near a point p. As in TensorFlow, centres are compared by `order`, c.c - 2 p.c. If p
 * is far away, `distance`, p.p + c.c - 2 p.c, may be equal for several centres. */
struct neighbour {
    float order, distance;
    int64_t at;
};

static bool is_nearer(const struct neighbour *a, const struct neighbour *b)
{
    return a->order < b->order || (a->order == b->order && a->at < b->at);
}

/* Restores the order of a heap of n neighbours whose root has been replaced. The root is the
 * farthest neighbour. */
static void sink(struct neighbour *heap, int64_t n)
{
    const struct neighbour moved = heap[0];
    int64_t at = 0;

    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_nearer(&heap[child], &heap[child + 1]))
            child++;
        if (!is_nearer(&moved, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void rise(struct neighbour *heap, int64_t at, struct neighbour e)
{
    for (; at > 0 && is_nearer(&heap[(at - 1) / 2], &e); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = e;
}

/* Compares point p with centre `at`, whose coordinates are c. Infinite coordinates yield NaN. */
static struct neighbour compare(const float *p, const float *c, int64_t n, int64_t at)
{
    double pp = 0, cc = 0, pc = 0;

    for (int64_t i = 0; i < n; i++) {
        pp += (double)p[i] * p[i];
        cc += (double)c[i] * c[i];
        pc += (double)p[i] * c[i];
    }
    return (struct neighbour){(float)(cc - 2 * pc), (float)(pp + cc - 2 * pc), at};
}

/* Finds the k centres that are nearest to a point. Writes their indices and distances, nearest
 * first. */
static enum rt_status nearest(struct rt_run *r, const float *point, struct neighbour *heap,
                              int64_t k, int64_t *at, float *distances)
{
    const struct rt_tensor *centers = &r->in[1];
    const int64_t size = centers->dim[1];
    int64_t n = 0;
    enum rt_status st = RT_OK;

    for (int64_t i = 0; i < centers->dim[0] && !st; i++) {
        const struct neighbour e = compare(point, kn_at(centers, i * size), size, i);
        if (n < k) {
            rise(heap, n++, e);
        } else if (is_nearer(&e, &heap[0])) {
            heap[0] = e;
            sink(heap, n);
        }
        st = rt_run_spend(r, &r->left, 6 * size + 32);
    }
    while (n > 0 && !st) {
        at[n - 1] = heap[0].at;
        distances[n - 1] = heap[0].distance;
        heap[0] = heap[--n];
        sink(heap, n);
        st = rt_run_spend(r, &r->left, 32);
    }
    return st;
}

static enum rt_status check_neighbours(struct rt_run *r, int64_t *k)
{
    const struct rt_tensor *points = &r->in[0], *centers = &r->in[1];

    if (points->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input points should be a matrix.");
    if (centers->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input centers should be a matrix.");
    if (!kn_scalar(&r->in[2], k))
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input k should be a scalar.");
    if (points->dim[0] < 1)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected points.rows() > 0.");
    if (points->dim[1] != centers->dim[1])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected point_dimensions == center_dimensions: %lld vs %lld.",
                       (long long)points->dim[1], (long long)centers->dim[1]);
    if (*k < 0) /* TensorFlow aborts its process in this case */
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "NearestNeighbors: k is %lld", (long long)*k);
    return RT_OK;
}

static enum rt_status neighbours_run(struct rt_run *r)
{
    const struct rt_tensor *points = &r->in[0], *centers = &r->in[1];
    int64_t k;
    enum rt_status st = check_neighbours(r, &k);

    if (st)
        return st;
    k = k < centers->dim[0] ? k : centers->dim[0];
    const int64_t n = points->dim[0], dim[2] = {n, k};
    int64_t *at = rt_out(r, 0, 2, dim);
    float *distances = at ? rt_out(r, 1, 2, dim) : NULL;
    struct neighbour *heap = distances ? rt_scratch(r, ((size_t)k + 1) * sizeof *heap) : NULL;
    if (!heap)
        return r->err->code;
    for (int64_t i = 0; i < n && k > 0 && !st; i++)
        st = nearest(r, kn_at(points, i * points->dim[1]), heap, k, at + i * k, distances + i * k);
    return st;
}

const struct kn_entry kn_nearest_neighbors = {
    .op = {.name = "NearestNeighbors"},
    .kernels = KN_CPU("NearestNeighbors", "nearest_neighbors", 0, NULL, neighbours_run),
};

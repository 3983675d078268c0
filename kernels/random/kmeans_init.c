/*
 * KmeansPlusPlusInitialization, which chooses the first centres of a clustering (Arthur,
 * Vassilvitskii: "k-means++: the advantages of careful seeding", 2007). A point is chosen with a
 * probability proportional to its squared distance from the nearest centre. With retries, the best
 * of several such points is chosen. With equal seeds, the points are those of TensorFlow.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/random/philox.h"

/* Points are rows of n x size numbers. Distances are half the squared distances. */
struct seeding {
    struct rt_run *r;
    const float *points;
    int64_t n, size;
    float *half_norm; /* half the squared length of each point */
    float *distance;  /* distance of each point from the nearest centre */
    float *candidate; /* these distances if a candidate were a centre, too */
    float *best;      /* these distances for the best candidate so far */
    float *sum;       /* sum of the distances of the points up to each point */
    bool *is_centre;
    int64_t n_centres;
    struct kn_singles random;
};

/* Draws a point that is not a centre. As in TensorFlow, the last point is returned, even if it is a
 * centre, if all distances are 0 or their sum is not a finite number. */
static enum rt_status draw_point(struct seeding *s, int64_t *out)
{
    int64_t low;
    enum rt_status st = RT_OK;

    if (s->n_centres == 0) {
        *out = (int64_t)kn_below_64(&s->random, (uint64_t)s->n);
        return RT_OK;
    }
    do {
        const float x = kn_unit_float(kn_next_bits(&s->random)) * s->sum[s->n - 1];
        int64_t n = s->n;
        for (low = 0; n > 0;) {
            const int64_t half = n / 2;
            if (x < s->sum[low + half]) {
                n = half;
            } else {
                low += half + 1;
                n -= half + 1;
            }
        }
        st = rt_run_spend(s->r, &s->r->left, 128);
    } while (low < s->n && s->is_centre[low] && !st);
    *out = low < s->n ? low : s->n - 1;
    return st;
}

/* Computes the scalar product of two points. */
static enum rt_status multiply(struct seeding *s, const float *p, const float *c, float *out)
{
    enum { CHUNK = 1 << 16 }; /* the number of coordinates between two deadline checks */
    enum rt_status st = RT_OK;

    *out = 0;
    for (int64_t at = 0; at < s->size && !st; at += CHUNK) {
        const int64_t end = s->size - at < CHUNK ? s->size : at + CHUNK;
        float sum = *out;
        for (int64_t k = at; k < end; k++)
            sum += p[k] * c[k];
        *out = sum;
        st = rt_run_spend(s->r, &s->r->left, 2 * (end - at));
    }
    return st ? st : rt_run_spend(s->r, &s->r->left, 16);
}

/* Computes the distances of all points from the nearest centre if point `at` becomes a centre.
 * *total receives their sum. */
static enum rt_status try_point(struct seeding *s, int64_t at, float *out, float *total)
{
    const float *c = s->points + at * s->size;
    enum rt_status st = RT_OK;

    *total = 0;
    for (int64_t i = 0; i < s->n && !st; i++) {
        float product;
        st = multiply(s, s->points + i * s->size, c, &product);
        const float d = s->half_norm[i] + s->half_norm[at] - product;
        out[i] = d < s->distance[i] ? d : s->distance[i];
        *total += out[i];
    }
    return st;
}

/* Chooses a point among 1 + n_retries candidates and makes it a centre. */
static enum rt_status choose(struct seeding *s, int64_t n_retries, int64_t *out)
{
    float least = INFINITY, total;
    int64_t at;
    enum rt_status st = RT_OK;

    *out = 0;
    for (int64_t k = 0; k <= n_retries && !st; k++) {
        st = draw_point(s, &at);
        if (!st)
            st = try_point(s, at, s->candidate, &total);
        if (!st && (total < least || n_retries == 0)) {
            float *was = s->best;
            s->best = s->candidate;
            s->candidate = was;
            least = total;
            *out = at;
        }
    }
    float *was = s->distance;
    s->distance = s->best;
    s->best = was;
    s->is_centre[*out] = true;
    s->n_centres++;
    s->distance[*out] = 0;
    total = 0;
    for (int64_t i = 0; i < s->n && !st; i++) {
        s->sum[i] = total += s->distance[i];
        st = rt_run_tick(s->r, i);
    }
    return st;
}

static enum rt_status begin(struct seeding *s)
{
    const size_t n = (size_t)s->n;
    float *memory = rt_scratch(s->r, n * (5 * sizeof *memory + sizeof *s->is_centre));
    enum rt_status st = RT_OK;

    if (!memory)
        return s->r->err->code;
    s->half_norm = memory;
    s->distance = memory + n;
    s->candidate = memory + 2 * n;
    s->best = memory + 3 * n;
    s->sum = memory + 4 * n;
    s->is_centre = (bool *)(memory + 5 * n);
    for (int64_t i = 0; i < s->n && !st; i++) {
        const float *p = s->points + i * s->size;
        float norm;
        st = multiply(s, p, p, &norm);
        s->half_norm[i] = 0.5f * norm;
        s->distance[i] = s->best[i] = INFINITY;
        s->is_centre[i] = false;
    }
    return st;
}

static enum rt_status check_inputs(struct rt_run *r, int64_t v[3])
{
    static const char *const name[3] = {"num_to_sample", "seed", "num_retries_per_sample"};
    const struct rt_tensor *points = &r->in[0];

    if (points->rank != 2)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input points should be a matrix.");
    for (int k = 0; k < 3; k++)
        if (!kn_scalar(&r->in[k + 1], &v[k]))
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %s should be a scalar.", name[k]);
    if (points->dim[0] <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected points.rows() > 0.");
    if (v[0] <= 0)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Expected num_to_sample > 0.");
    if (v[0] > points->dim[0])
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Expected num_to_sample <= points.rows(). %lld vs %lld.", (long long)v[0],
                       (long long)points->dim[0]);
    if (v[2] < 0)
        v[2] = 2 + (int64_t)log((double)v[0]);
    return RT_OK;
}

static enum rt_status kmeans_run(struct rt_run *r)
{
    int64_t v[3];
    enum rt_status st = check_inputs(r, v);

    if (st)
        return st;
    struct seeding s = {
        .r = r,
        .points = r->in[0].data,
        .n = r->in[0].dim[0],
        .size = r->in[0].dim[1],
        .random.philox.key = {(uint32_t)v[1], (uint32_t)((uint64_t)v[1] >> 32)},
    };
    const int64_t dim[2] = {v[0], s.size};
    float *o = rt_out(r, 0, 2, dim);
    if (!o)
        return r->err->code;
    st = begin(&s);
    for (int64_t k = 0, at = 0; k < v[0] && !st; k++) {
        st = choose(&s, v[2], &at);
        if (!st && s.size)
            st = kn_copy_run(r, RT_F32, o + k * s.size, s.points + at * s.size, s.size);
    }
    return st;
}

const struct kn_entry kn_kmeans_plus_plus_initialization = {
    .op = {.name = "KmeansPlusPlusInitialization"},
    .kernels = KN_CPU("KmeansPlusPlusInitialization", "kmeans_plus_plus_initialization", 0, NULL,
                      kmeans_run),
};

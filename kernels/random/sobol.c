/*
 * SobolSample draws the points of a Sobol sequence, a sequence that fills the unit cube evenly.
 * Point n is the exclusive or of the direction numbers of those digits that are 1 in the Gray code
 * of n (Bratley, Fox: "Algorithm 659", 1988). The direction numbers are those of Joe and Kuo:
 * "Constructing Sobol sequences with better two-dimensional projections", 2008.
 */
#include "kernels/array/array.h"
#include "kernels/entry.h"

#include <math.h>

/*
 * The initial direction numbers of each dimension but the first, in ascending order of the degrees
 * of the primitive polynomials. The bits of a dimension of degree d begin at the lowest bit of a
 * word. They contain d - 1 inner coefficients of the polynomial, and then the second to the d-th
 * direction number without their lowest bits, which are 1. Direction number i has i bits.
 */
#include "kernels/random/sobol_table.inc"

enum { MAX_DIM = 21200, MAX_DIGITS = 31, MAX_DEGREE = 18 };

/* Element i is the number of dimensions whose polynomial has degree i + 1. */
static const int16_t n_of_degree[MAX_DEGREE] = {1,  1,   2,   2,   6,   6,    18,   16,   48,
                                                60, 176, 144, 630, 756, 1800, 2048, 7710, 7776};

struct sobol {
    int64_t dim, first, n; /* first is the index of the first point */
    int digits;
    uint32_t *number; /* [digits, dim]: the direction numbers, aligned to `digits` bits */
    uint32_t *point;  /* [dim] */
};

/* Reads the next n bits of a dimension, and advances *at. */
static uint32_t take_bits(const uint32_t *word, int *at, int n)
{
    uint64_t pair = word[*at / 32];

    if (*at % 32 + n > 32)
        pair |= (uint64_t)word[*at / 32 + 1] << 32;
    const uint32_t bits = (uint32_t)(pair >> *at % 32) & ((UINT32_C(1) << n) - 1);
    *at += n;
    return bits;
}

/* Computes the direction numbers of a dimension by the recurrence of its polynomial. Returns the
 * number of words in the table that the dimension occupies. */
static int set_numbers(const uint32_t *word, int degree, uint32_t number[MAX_DIGITS])
{
    int at = 0;
    const uint32_t inner = degree > 1 ? take_bits(word, &at, degree - 1) : 0;

    number[0] = 1;
    for (int i = 1; i < degree; i++)
        number[i] = take_bits(word, &at, i) << 1 | 1;
    for (int i = degree; i < MAX_DIGITS; i++) {
        number[i] = number[i - degree] ^ number[i - degree] << degree;
        for (int k = 1; k < degree; k++)
            if (inner >> (k - 1) & 1)
                number[i] ^= number[i - k] << k;
    }
    return (at + 31) / 32;
}

static void fill_numbers(const struct sobol *s)
{
    const uint32_t *word = sobol_words;
    uint32_t number[MAX_DIGITS];
    int degree = 0, left = 1; /* number of dimensions of this degree that are left */

    for (int64_t j = 0; j < s->dim; j++) {
        if (degree == 0)
            for (int k = 0; k < MAX_DIGITS; k++)
                number[k] = 1;
        else
            word += set_numbers(word, degree, number);
        for (int k = 0; k < s->digits; k++)
            s->number[k * s->dim + j] = number[k] << (s->digits - 1 - k);
        if (--left == 0 && degree < MAX_DEGREE)
            left = n_of_degree[degree++];
    }
}

static void add_number(const struct sobol *s, int digit)
{
    const uint32_t *number = s->number + digit * s->dim;

    for (int64_t j = 0; j < s->dim; j++)
        s->point[j] ^= number[j];
}

/* Writes the point as element i of the output. TensorFlow's integer that represents 1 overflows at
 * 31 digits, so that the samples become negative. */
static void put_point(const struct sobol *s, struct rt_tensor *out, int64_t i)
{
    const double scale = ldexp(s->digits == MAX_DIGITS ? -1 : 1, -s->digits);

    for (int64_t j = 0; j < s->dim; j++)
        if (kn_dtype(out) == RT_F32)
            ((float *)out->data)[i * s->dim + j] = (float)s->point[j] * (float)scale;
        else
            ((double *)out->data)[i * s->dim + j] = s->point[j] * scale;
}

static enum rt_status write_points(struct rt_run *r, const struct sobol *s)
{
    const uint32_t gray = (uint32_t)(s->first ^ s->first >> 1);

    for (int k = 0; k < s->digits; k++)
        if (gray >> k & 1)
            add_number(s, k);
    for (int64_t i = 0; i < s->n; i++) {
        if (i)
            add_number(s, __builtin_ctz(~(uint32_t)(s->first + i - 1)));
        put_point(s, &r->out[0], i);
        if (rt_run_spend(r, &r->left, 4 * s->dim))
            return r->err->code;
    }
    return RT_OK;
}

/* ---- the op: inputs dim, num_results, skip ---- */

enum { DIM, NUM_RESULTS, SKIP };

static enum rt_status check_rank(const struct rt_info *in, int k, struct rt_error *err)
{
    static const char *const name[] = {"dim", "num_results", "skip"};

    return in[k].shape.rank > 0 ? rt_fail(err, RT_INVALID_ARGUMENT, "%s must be a scalar", name[k])
                                : RT_OK;
}

static enum rt_status check_values(int64_t dim, int64_t n, int64_t skip, struct rt_error *err)
{
    if (dim < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "dim must be at least one");
    if (dim > MAX_DIM)
        return rt_fail(err, RT_INVALID_ARGUMENT, "dim must be at most %d", MAX_DIM);
    if (n < 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_results must be at least one");
    if (skip < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "skip must be non-negative");
    if (n + skip >= INT32_MAX)
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_results+skip must be less than %d",
                       INT32_MAX);
    return RT_OK;
}

static enum rt_status infer(struct rt_infer *x)
{
    struct rt_shape *o = &x->out[0].shape;

    *o = (struct rt_shape){.rank = 2, .dim = {-1, -1}};
    for (int k = DIM; k <= SKIP; k++)
        if (check_rank(x->in, k, x->err))
            return x->err->code;
    for (int k = DIM; k <= SKIP; k++)
        if (!x->in[k].value)
            return RT_OK;
    const int64_t dim = kn_int_at(x->in[DIM].value, 0), n = kn_int_at(x->in[NUM_RESULTS].value, 0);
    const enum rt_status st = check_values(dim, n, kn_int_at(x->in[SKIP].value, 0), x->err);

    if (!st)
        *o = (struct rt_shape){.rank = 2, .dim = {n, dim}};
    return st;
}

static enum rt_status run(struct rt_run *r)
{
    const int64_t skip = kn_int_at(&r->in[SKIP], 0);
    struct sobol s = {.dim = kn_int_at(&r->in[DIM], 0),
                      .first = skip + 1,
                      .n = kn_int_at(&r->in[NUM_RESULTS], 0)};
    const enum rt_status st = check_values(s.dim, s.n, skip, r->err);

    if (st)
        return st;
    s.digits = 32 - __builtin_clz((uint32_t)(skip + s.n + 1));
    s.number = rt_scratch(r, (size_t)(s.dim * (s.digits + 1)) * sizeof *s.number);
    if (!s.number || !kn_out(r, 0, 2, (const int64_t[]){s.n, s.dim}))
        return r->err->code;
    s.point = s.number + s.dim * s.digits;
    memset(s.point, 0, (size_t)s.dim * sizeof *s.point);
    fill_numbers(&s);
    return write_points(r, &s);
}

const struct kn_entry kn_sobol_sample = {
    .op = {.name = "SobolSample",
           .shape_in = 1 << DIM | 1 << NUM_RESULTS | 1 << SKIP,
           .infer = infer},
    .kernels = KN_KERNELS({.op = "SobolSample",
                           .device = "CPU",
                           .name = "sobol_sample",
                           .type_attr = "dtype",
                           .types = RT_T(RT_F32) | RT_T(RT_F64),
                           .run = run}),
};

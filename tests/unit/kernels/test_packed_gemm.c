#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/draw.h"

#include "kernels/matmul/packed_gemm_internal.h"

/* Returns n random floats. One extra byte is allocated, because malloc(0) may return NULL. A
 * sanitizer still reports a read past the n floats. */
static float *floats(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p + 1);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        p[i] = draw();
    return p;
}

static float *copy_of(const float *p, int64_t n)
{
    float *d = malloc((size_t)n * sizeof *d + 1);
    assert_non_null(d);
    memcpy(d, p, (size_t)n * sizeof *d);
    return d;
}

struct sample {
    struct kn_packed_gemm p;
    int64_t rows, lda, ldc, ldb;
    bool transposed;
    float *a, *b, *c, *packed, *bias, *scale, *residual;
};

static int64_t extent(int64_t rows, int64_t ld, int64_t cols)
{
    return rows ? (rows - 1) * ld + cols : 0;
}

static struct sample make(const struct kn_packed_gemm_loops *loops, int64_t rows, int64_t k,
                          int64_t n)
{
    struct sample s = {
        .p = {.k = k, .n = n, .reuse = draw_below(2)}, .rows = rows, .transposed = draw_below(2)};

    assert_true(kn_packed_gemm_init_with(&s.p, loops));
    s.lda = k + draw_below(3) * 5;
    s.ldc = n + draw_below(3) * 7;
    s.ldb = (s.transposed ? k : n) + draw_below(2) * 3;
    s.a = floats(extent(rows, s.lda, k));
    s.b = s.transposed ? floats(extent(n, s.ldb, k)) : floats(extent(k, s.ldb, n));
    s.c = floats(extent(rows, s.ldc, n));
    s.residual = floats(extent(rows, s.ldc, n));
    s.bias = floats(n);
    s.scale = floats(n);
    s.packed = floats((int64_t)(kn_packed_gemm_pack_bytes(&s.p) / sizeof(float)));
    return s;
}

static void drop(struct sample *s)
{
    float *all[] = {s->a, s->b, s->c, s->packed, s->bias, s->scale, s->residual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static double b_at(const struct sample *s, bool scaled, int64_t l, int64_t j)
{
    const float v = s->transposed ? s->b[j * s->ldb + l] : s->b[l * s->ldb + j];
    return scaled ? (double)(v * s->scale[j]) : (double)v;
}

/* Returns the sum computed by a plain loop. *size receives the sum of the terms' magnitudes, from
 * which the tolerance is computed. */
static double plain(const struct sample *s, bool scaled, int64_t i, int64_t j, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t l = 0; l < s->p.k; l++) {
        const double v = (double)s->a[i * s->lda + l] * b_at(s, scaled, l, j);
        sum += v;
        *size += fabs(v);
    }
    return sum;
}

static void check(const struct sample *s, const float *c, int64_t ldc, bool scaled,
                  const struct kn_gemm_post_ops *e, const float *residual)
{
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->p.n; j++) {
            double size, right = plain(s, scaled, i, j, &size);
            right += e->bias ? (double)e->bias[j] : 0;
            right += residual ? (double)residual[i * s->ldc + j] : 0;
            if (e->clips)
                right = right < (double)e->least ? (double)e->least : right;
            if (e->clips)
                right = right > (double)e->most ? (double)e->most : right;
            const double got = (double)c[i * ldc + j];
            if (!(fabs(got - right) <= 1e-6 * (size + 4)) && !(isnan(got) && isnan(right)) &&
                right != got)
                fail_msg("%d lanes, %lld x %lld x %lld: [%lld, %lld] is %g, not %g",
                         s->p.loops->lanes, (long long)s->rows, (long long)s->p.k,
                         (long long)s->p.n, (long long)i, (long long)j, got, right);
        }
}

/* Asserts that the memory between the rows of c is unchanged. */
static void check_gaps(const struct sample *s, const float *before)
{
    for (int64_t i = 0; i + 1 < s->rows; i++)
        assert_memory_equal(s->c + i * s->ldc + s->p.n, before + i * s->ldc + s->p.n,
                            (size_t)(s->ldc - s->p.n) * sizeof(float));
}

static struct kn_packed_gemm_args args_of(const struct sample *s)
{
    struct kn_packed_gemm_args t = kn_packed_gemm_whole(&s->p, s->packed, s->a, s->c, s->rows);
    t.lda = s->lda;
    t.ldc = s->ldc;
    return t;
}

/* Runs the GEMM in eight parts. The rows, the panels and the terms of the sums are each split at a
 * random position. */
static void run_in_slices(const struct sample *s, const struct kn_gemm_post_ops *e)
{
    const int64_t split_k = draw_below(s->p.k + 1), split_panel = draw_below(s->p.panels + 1);
    const int64_t split_row = draw_below(s->rows + 1);

    for (int part = 0; part < 8; part++) {
        struct kn_packed_gemm_args t = args_of(s);
        struct kn_gemm_post_ops own = *e;
        const int64_t row = part & 1 ? split_row : 0;
        t.rows = part & 1 ? s->rows - split_row : split_row;
        t.from = part & 2 ? split_panel : 0;
        t.to = part & 2 ? s->p.panels : split_panel;
        t.k_from = part & 4 ? split_k : 0;
        t.k_to = part & 4 ? s->p.k : split_k;
        if (t.k_from == t.k_to && s->p.k)
            continue;
        if (part & 4 && !s->p.k)
            continue;
        t.a += row * s->lda + t.k_from;
        t.c += row * s->ldc;
        if (own.residual)
            own.residual += row * s->ldc;
        kn_packed_gemm_run(&s->p, &t, &own);
    }
}

static void same_columns(const struct sample *s, const float *one)
{
    for (int64_t i = 0; i < s->rows; i++)
        assert_memory_equal(s->c + i * s->ldc, one + i * s->ldc, (size_t)s->p.n * sizeof(float));
}

static void one_size(const struct kn_packed_gemm_loops *loops, int64_t rows, int64_t k, int64_t n)
{
    struct sample s = make(loops, rows, k, n);
    const int64_t size = extent(rows, s.ldc, n);
    const bool scaled = draw_below(2);
    float *before = copy_of(s.c, size), *in_place = copy_of(s.residual, size);
    struct kn_gemm_post_ops e = {.arg = NULL};

    kn_packed_gemm_pack(&s.p, s.b, s.ldb, s.transposed, scaled ? s.scale : NULL, s.packed);
    struct kn_packed_gemm_args t = args_of(&s);
    kn_packed_gemm_run(&s.p, &t, NULL);
    check(&s, s.c, s.ldc, scaled, &e, NULL);
    check_gaps(&s, before);
    if (draw_below(4))
        e.bias = s.bias;
    if (draw_below(2)) {
        e.residual = s.residual;
        e.ld_residual = s.ldc;
    }
    if (draw_below(2)) {
        e.clips = true;
        e.least = -0.25f;
        e.most = draw_below(2) ? INFINITY : 1.5f;
    }
    kn_packed_gemm_run(&s.p, &t, &e);
    check(&s, s.c, s.ldc, scaled, &e, e.residual);
    float *one = copy_of(s.c, size);
    run_in_slices(&s, &e);
    same_columns(&s, one);
    if (e.residual) { /* runs the GEMM once more and lets c overwrite the residual */
        e.residual = t.c = in_place;
        kn_packed_gemm_run(&s.p, &t, &e);
        check(&s, in_place, s.ldc, scaled, &e, s.residual);
        same_columns(&s, in_place);
    }
    check_gaps(&s, before);
    free(before);
    free(in_place);
    free(one);
    drop(&s);
}

static void on_every_instruction_set(void (*f)(const struct kn_packed_gemm_loops *loops))
{
    for (int which = 0; kn_packed_gemm_loops_of(which); which++)
        f(kn_packed_gemm_loops_of(which));
}

static void many_sizes(const struct kn_packed_gemm_loops *loops)
{
    for (int64_t rows = 0; rows < 32; rows++)
        one_size(loops, rows, 1 + draw_below(40), 1 + draw_below(80));
    for (int i = 0; i < 60; i++)
        one_size(loops, draw_below(70), draw_below(50), draw_below(150));
    one_size(loops, 5, 0, 33);
    one_size(loops, 5, 3, 0);
    one_size(loops, 400, 3, 17);
    one_size(loops, 29, 1700, 40); /* the terms of each sum are split into several blocks */
    one_size(loops, 1, 1700, 40);
    one_size(loops, 347, 800, 19); /* the terms and the rows are split into several blocks */
}
static void a_packed_gemm_is_the_plain_sums_on_every_instruction_set(void **state)
{
    (void)state;
    on_every_instruction_set(many_sizes);
}

static void special_values(const struct kn_packed_gemm_loops *loops)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0x1p-140f};

    for (int i = 0; i < 20; i++) {
        struct sample s = make(loops, 1 + draw_below(30), 1 + draw_below(20), 1 + draw_below(50));
        struct kn_gemm_post_ops e = {.bias = s.bias, .clips = true, .least = 0, .most = 6};
        s.a[draw_below(s.rows) * s.lda + draw_below(s.p.k)] = special[draw_below(5)];
        s.b[draw_below(s.transposed ? s.p.n : s.p.k) * s.ldb] = special[draw_below(5)];
        s.bias[draw_below(s.p.n)] = special[draw_below(5)];
        kn_packed_gemm_pack(&s.p, s.b, s.ldb, s.transposed, NULL, s.packed);
        struct kn_packed_gemm_args t = args_of(&s);
        kn_packed_gemm_run(&s.p, &t, &e);
        check(&s, s.c, s.ldc, false, &e, NULL);
        drop(&s);
    }
}
static void nan_and_infinity_go_where_the_plain_sum_has_them(void **state)
{
    (void)state;
    on_every_instruction_set(special_values);
}

static void rows_alone(const struct kn_packed_gemm_loops *loops)
{
    struct sample s = make(loops, 37, 1000, 70);
    struct kn_packed_gemm_args t = args_of(&s);
    struct kn_gemm_post_ops e = {.bias = s.bias};

    kn_packed_gemm_pack(&s.p, s.b, s.ldb, s.transposed, NULL, s.packed);
    kn_packed_gemm_run(&s.p, &t, &e);
    float *row = floats(70);
    for (int64_t i = 0; i < s.rows; i++) {
        struct kn_packed_gemm_args one = t;
        one.a += i * s.lda;
        one.c = row;
        one.rows = 1;
        kn_packed_gemm_run(&s.p, &one, &e);
        assert_memory_equal(row, s.c + i * s.ldc, 70 * sizeof *row);
    }
    free(row);
    drop(&s);
}
static void a_row_has_the_same_sums_among_any_others(void **state)
{
    (void)state;
    on_every_instruction_set(rows_alone);
}

/* ---- finishing ---- */

struct seen {
    const struct sample *s;
    int64_t n;
};
static void negate(const void *arg, float *at, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const struct seen *seen = arg;
    assert_ptr_equal(at, seen->s->c + row * seen->s->ldc + col);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            at[i * seen->s->ldc + j] *= -1;
    *(int64_t *)(uintptr_t)&seen->n += rows * cols;
}
static void every_output_is_finished_once(void **state)
{
    (void)state;
    struct sample s = make(kn_packed_gemm_loops_of(0), 351, 900, 45);
    struct seen seen = {&s, 0};
    const struct kn_gemm_post_ops plain_post_ops = {.bias = s.bias};
    const struct kn_gemm_post_ops e = {.bias = s.bias, .finish = negate, .arg = &seen};
    struct kn_packed_gemm_args t = args_of(&s);

    kn_packed_gemm_pack(&s.p, s.b, s.ldb, s.transposed, NULL, s.packed);
    kn_packed_gemm_run(&s.p, &t, &plain_post_ops);
    float *right = copy_of(s.c, extent(s.rows, s.ldc, 45));
    kn_packed_gemm_run(&s.p, &t, &e);
    assert_int_equal(seen.n, 351 * 45);
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t j = 0; j < 45; j++)
            assert_true(s.c[i * s.ldc + j] == -right[i * s.ldc + j]);
    free(right);
    drop(&s);
}

static void endless_sizes_are_refused(void **state)
{
    (void)state;
    struct kn_packed_gemm p = {.k = INT64_MAX / 2, .n = 64};
    assert_false(kn_packed_gemm_init(&p));
    p = (struct kn_packed_gemm){.k = 1, .n = INT64_MAX - 1};
    assert_false(kn_packed_gemm_init(&p));
    p = (struct kn_packed_gemm){.k = -1, .n = 4};
    assert_false(kn_packed_gemm_init(&p));
    p = (struct kn_packed_gemm){.k = 7, .n = 0};
    assert_true(kn_packed_gemm_init(&p));
    assert_int_equal(kn_packed_gemm_pack_bytes(&p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_gemm_is_the_plain_sums_on_every_instruction_set),
        cmocka_unit_test(nan_and_infinity_go_where_the_plain_sum_has_them),
        cmocka_unit_test(a_row_has_the_same_sums_among_any_others),
        cmocka_unit_test(every_output_is_finished_once),
        cmocka_unit_test(endless_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

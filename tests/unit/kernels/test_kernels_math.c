#include "tests/support/test.h"

#include <math.h>

#include "kernels/cpu/half.h"
#include "kernels/math/reduce.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/kernels.h"
#include "tests/support/op.h"

/*
 * Tests properties of math ops that the comparison with TensorFlow (tests/conformance) does not
 * show. The tests cover outputs that are written over inputs, the accuracy of Slipway's own
 * functions, the independence of rows, NaN in segments, and pairs of types that a kernel must
 * refuse.
 */

static uint64_t seed = 88172645463325252u;

static float draw(float lo, float hi)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return lo + (hi - lo) * (float)((double)(seed >> 11) * 0x1p-53);
}

static struct rt_tensor random_tensor(int rank, const int64_t *dim)
{
    struct rt_tensor t = op_tensor(RT_F32, rank, dim, NULL);
    for (int64_t i = 0; i < rt_tensor_count(&t); i++)
        ((float *)t.data)[i] = draw(-4, 4);
    return t;
}

static void every_op_is_registered_once(void **state)
{
    (void)state;
    struct rt_registry *r = rt_registry_new();
    assert_true(kn_register(r));
    assert_false(kn_register(r));
    rt_registry_free(r);
}

static void a_half_goes_to_float_and_back_unchanged(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1u << 16; i++) {
        const struct kn_half h = {(uint16_t)i};
        const struct kn_bfloat b = {(uint16_t)i};
        if (!isnan(kn_from_f16(h)))
            assert_int_equal(kn_to_f16(kn_from_f16(h)).bits, i);
        if (!isnan(kn_from_bf16(b)))
            assert_int_equal(kn_to_bf16(kn_from_bf16(b)).bits, i);
    }
    assert_true(isnan(kn_from_f16(kn_to_f16(NAN))));
    assert_true(isnan(kn_from_bf16(kn_to_bf16(kn_bits_float(0x7f800001)))));
}

static void halves_round_to_nearest_ties_to_even(void **state)
{
    (void)state;
    assert_int_equal(kn_to_f16(1 + 0x1p-11f).bits, 0x3c00);
    assert_int_equal(kn_to_f16(1 + 0x3p-11f).bits, 0x3c02);
    assert_int_equal(kn_to_f16(65519.0f).bits, 0x7bff);
    assert_int_equal(kn_to_f16(65520.0f).bits, 0x7c00);
    assert_int_equal(kn_to_f16(0x1p-25f).bits, 0);
    assert_int_equal(kn_to_f16(-0x3p-25f).bits, 0x8002);
    assert_int_equal(kn_to_bf16(1 + 0x1p-8f).bits, 0x3f80);
    assert_int_equal(kn_to_bf16(1 + 0x3p-8f).bits, 0x3f82);
    assert_int_equal(kn_to_bf16(3.4e38f).bits, 0x7f80);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void our_functions_are_within_three_units_in_the_last_place(void **state)
{
    (void)state;
    const struct {
        const char *name;
        float (*ours)(float);
        double (*exact)(double);
        float lo, hi;
    } f[] = {
        {"exp", kn_exp_f32, exp, -87.3f, 88.7f},
        {"expm1", kn_expm1_f32, expm1, -20, 88},
        {"log", kn_log_f32, log, 1e-30f, 100},
        {"log1p", kn_log1p_f32, log1p, -0.99f, 100},
        {"tanh", kn_tanh_f32, tanh, -10, 10},
        {"sigmoid", kn_sigmoid_f32, sigmoid, -80, 80},
        {"erf", kn_erf_f32, erf, -5, 5},
        {"expm1", kn_expm1_f32, expm1, -0.01f, 0.01f},
        {"log", kn_log_f32, log, 0.9f, 1.1f},
        {"log1p", kn_log1p_f32, log1p, -0.01f, 0.01f},
        {"tanh", kn_tanh_f32, tanh, -0.01f, 0.01f},
        {"erf", kn_erf_f32, erf, -0.01f, 0.01f},
    };
    for (size_t k = 0; k < sizeof f / sizeof *f; k++)
        for (int i = 0; i < 20000; i++) {
            const float x = draw(f[k].lo, f[k].hi);
            const double y = f[k].exact((double)x);
            const float near = fabsf((float)y), step = nextafterf(near, INFINITY) - near;
            if (!(fabs((double)f[k].ours(x) - y) <= 3 * (double)step))
                fail_msg("%s(%a) is %a, not %a", f[k].name, (double)x, (double)f[k].ours(x), y);
        }
}

static void our_functions_keep_nan_and_go_to_their_limits(void **state)
{
    (void)state;
    assert_true(isnan(kn_exp_f32(NAN)) && isnan(kn_log_f32(NAN)) && isnan(kn_tanh_f32(NAN)) &&
                isnan(kn_erf_f32(NAN)) && isnan(kn_sigmoid_f32(NAN)) && isnan(kn_log1p_f32(NAN)) &&
                isnan(kn_expm1_f32(NAN)));
    assert_true(isnan(kn_log_f32(-1)) && isnan(kn_log1p_f32(-2)));
    assert_true(kn_exp_f32(-INFINITY) == 0 && kn_exp_f32(INFINITY) == INFINITY);
    assert_true(kn_log_f32(0) == -INFINITY && kn_log_f32(INFINITY) == INFINITY);
    assert_true(kn_log1p_f32(-1) == -INFINITY && kn_log1p_f32(INFINITY) == INFINITY);
    assert_true(kn_expm1_f32(-INFINITY) == -1 && signbit(kn_expm1_f32(-0.0f)));
    assert_true(kn_tanh_f32(INFINITY) == 1 && kn_tanh_f32(-INFINITY) == -1);
    assert_true(kn_erf_f32(INFINITY) == 1 && kn_erf_f32(-INFINITY) == -1);
    assert_true(kn_sigmoid_f32(INFINITY) == 1 && kn_sigmoid_f32(-INFINITY) == 0);
}

/* Each op must give the same bits on fed inputs, which it must not change, and on outputs of Abs,
 * which it may overwrite. */
static void an_output_on_top_of_an_input_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attrs;
        int n_in;
    } ops[] = {
        {"AddV2", "T=float", 2},     {"Sub", "T=float", 2},      {"Maximum", "T=float", 2},
        {"Exp", "T=float", 1},       {"Tanh", "T=float", 1},     {"Softmax", "T=float", 1},
        {"Erf", "T=float", 1},       {"AddN", "T=float N=2", 2}, {"LogSoftmax", "T=float", 1},
        {"LeakyRelu", "T=float", 1}, {"Pow", "T=float", 2},
    };
    static const int64_t shapes[][2][2] = {
        {{1, 1}, {1, 1}},   {{3, 70}, {3, 70}}, {{3, 70}, {1, 70}},
        {{1, 70}, {3, 70}}, {{3, 1}, {3, 70}},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            if (strcmp(ops[k].op, "AddN") == 0 && s > 1)
                continue;
            struct op_call kept = {
                .op = ops[k].op, .attrs = ops[k].attrs, .n_in = ops[k].n_in, .n_out = 1};
            for (int i = 0; i < kept.n_in; i++)
                kept.in[i] = random_tensor(2, shapes[s][i]);
            /* `made` computes its inputs with Abs nodes, and `kept` is fed with the same values. */
            struct op_call made = kept;
            for (int i = 0; i < kept.n_in; i++) {
                made.before[i] = "Abs";
                made.before_attrs[i] = "T=float";
                kept.in[i] = op_tensor(RT_F32, 2, shapes[s][i], made.in[i].data);
                for (int64_t j = 0; j < rt_tensor_count(&kept.in[i]); j++)
                    ((float *)kept.in[i].data)[j] = fabsf(((float *)kept.in[i].data)[j]);
            }
            assert_ok(op_run(&kept), &kept.err);
            assert_ok(op_run(&made), &made.err);
            assert_memory_equal(kept.out[0].data, made.out[0].data, rt_tensor_bytes(&kept.out[0]));
            op_clear(&kept);
            op_clear(&made);
        }
}

/* Lengths up to 300 reach every vector loop and every loop over remaining elements. */
static void lines_and_columns_of_every_length_reduce_to_what_a_plain_loop_gives(void **state)
{
    (void)state;
    static union kn_acc acc[KN_REDUCE_WIDTH];
    static int8_t bytes[300];
    static int16_t shorts[300];
    static float floats[300];
    for (int i = 0; i < 300; i++) {
        bytes[i] = (int8_t)draw(-128, 127);
        shorts[i] = (int16_t)draw(-30000, 30000);
        /* The numbers are integers, so their sum does not depend on the order of the additions. */
        floats[i] = (float)(int)draw(-100, 100);
    }
    for (int64_t n = 1; n <= 300; n++) {
        int64_t sum[3] = {0}, max = INT8_MIN;
        for (int64_t i = 0; i < n; i++) {
            sum[0] += bytes[i];
            sum[1] += shorts[i];
            sum[2] += (int64_t)floats[i];
            max = bytes[i] > max ? bytes[i] : max;
        }
        const struct {
            const struct kn_reducer *f;
            const void *from;
            double want;
        } r[] = {
            {&kn_reduce_sum[RT_I8], bytes, (double)(int8_t)sum[0]},
            {&kn_reduce_sum[RT_I16], shorts, (double)(int16_t)sum[1]},
            {&kn_reduce_sum[RT_F32], floats, (double)sum[2]},
            {&kn_reduce_mean[RT_I8], bytes, (double)(sum[0] / n)},
            {&kn_reduce_mean[RT_I16], shorts, (double)(sum[1] / n)},
            {&kn_reduce_mean[RT_F32], floats, (double)(float)((double)sum[2] / (double)n)},
            {&kn_reduce_max[RT_I8], bytes, (double)max},
        };
        for (size_t k = 0; k < sizeof r / sizeof *r; k++)
            for (int columns = 0; columns < 2; columns++) {
                union kn_acc out;
                r[k].f->init(acc, 1);
                if (columns)
                    r[k].f->columns(acc, r[k].from, n, 1, 1);
                else
                    r[k].f->lines(acc, r[k].from, 1, n, n);
                r[k].f->finish(&out, acc, 1, n);
                const double got = r[k].from == bytes    ? *(int8_t *)&out
                                   : r[k].from == shorts ? *(int16_t *)&out
                                                         : (double)*(float *)&out;
                if (got != r[k].want)
                    fail_msg("reducer %zu of %lld, columns %d: %g, not %g", k, (long long)n,
                             columns, got, r[k].want);
            }
    }
}

static void nan_in_segments_gives_what_tensorflow_gives(void **state)
{
    (void)state;
    /* TensorFlow computes eight columns as vectors and the ninth as a scalar. */
    enum { ROWS = 4, WIDTH = 9 };
    const float n = NAN, i = INFINITY;
    static const char *const ops[] = {"SegmentMax", "SegmentMin", "UnsortedSegmentMax",
                                      "UnsortedSegmentMin"};
    const struct {
        int n_rows;
        float row[ROWS];
        /* The results of Max and Min. `packed` applies to the first eight columns, and `rest` to
         * the ninth column. */
        float packed[2], rest[2];
    } cases[] = {
        {3, {n, 1, 2}, {2, 1}, {2, 1}},
        {3, {1, n, 2}, {2, 1}, {2, 2}},
        {3, {2, n, 1}, {2, 1}, {1, 1}},
        {3, {1, 2, n}, {2, 1}, {n, n}},
        {4, {9, n, 1, 2}, {9, 1}, {2, 1}},
        {1, {n}, {n, n}, {n, n}},
        {2, {n, n}, {-i, i}, {n, n}},
        {2, {0.0f, -0.0f}, {0.0f, 0.0f}, {-0.0f, -0.0f}},
        {2, {-0.0f, 0.0f}, {-0.0f, -0.0f}, {0.0f, 0.0f}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int op = 0; op < 4; op++) {
            const bool sorted = op < 2;
            const int64_t dim[] = {cases[k].n_rows, WIDTH};
            struct op_call c = {.op = ops[op],
                                .attrs = sorted ? "T=float Tindices=int32"
                                                : "T=float Tindices=int32 Tnumsegments=int32",
                                .n_in = sorted ? 2 : 3,
                                .n_out = 1};
            c.in[0] = op_tensor(RT_F32, 2, dim, NULL);
            for (int64_t r = 0; r < rt_tensor_count(&c.in[0]); r++)
                ((float *)c.in[0].data)[r] = cases[k].row[r / WIDTH];
            c.in[1] = op_ints(cases[k].n_rows, (int32_t[ROWS]){0});
            if (!sorted)
                c.in[2] = op_int(1);
            assert_ok(op_run(&c), &c.err);
            for (int j = 0; j < WIDTH; j++) {
                const float got = ((float *)c.out[0].data)[j];
                const float want =
                    sorted && j < 8 ? cases[k].packed[op % 2] : cases[k].rest[op % 2];
                if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want))
                    fail_msg("%s, case %zu, column %d: %g, not %g", ops[op], k, j, (double)got,
                             (double)want);
            }
            op_clear(&c);
        }
}

static void a_sum_of_a_million_does_not_drift(void **state)
{
    (void)state;
    const int64_t line[] = {1 << 20}, column[] = {1 << 20, 1};
    for (int rank = 1; rank <= 2; rank++) {
        struct op_call c = {.op = "Sum", .attrs = "T=float Tidx=int32", .n_in = 2, .n_out = 1};
        c.in[0] = op_tensor(RT_F32, rank, rank == 1 ? line : column, NULL);
        c.in[1] = op_int(0);
        for (int64_t i = 0; i < 1 << 20; i++)
            ((float *)c.in[0].data)[i] = 0.1f;
        assert_ok(op_run(&c), &c.err);
        const double exact = (double)0.1f * (1 << 20);
        assert_true(fabs((double)*(float *)c.out[0].data - exact) < exact * 5e-7);
        op_clear(&c);
    }
}

static void a_row_alone_gives_the_bits_that_it_gives_in_a_batch(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attrs;
        bool has_axis;
    } ops[] = {
        {"Softmax", "T=float", false},
        {"LogSoftmax", "T=float", false},
        {"Sum", "T=float Tidx=int32", true},
        {"Max", "T=float Tidx=int32", true},
        {"Sigmoid", "T=float", false},
        {"ArgMax", "T=float Tidx=int32 output_type=int32", true},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        const int64_t many[] = {300, 77}, one[] = {1, 77};
        struct op_call batch = {
            .op = ops[k].op, .attrs = ops[k].attrs, .n_in = ops[k].has_axis ? 2 : 1, .n_out = 1};
        batch.in[0] = random_tensor(2, many);
        if (ops[k].has_axis)
            batch.in[1] = op_int(1);
        assert_ok(op_run(&batch), &batch.err);
        const size_t row_bytes = rt_tensor_bytes(&batch.out[0]) / 300;
        for (int64_t i = 0; i < 300; i += 97) {
            struct op_call alone = {
                .op = ops[k].op, .attrs = ops[k].attrs, .n_in = batch.n_in, .n_out = 1};
            alone.in[0] = op_tensor(RT_F32, 2, one, (float *)batch.in[0].data + i * 77);
            if (ops[k].has_axis)
                alone.in[1] = op_int(1);
            assert_ok(op_run(&alone), &alone.err);
            assert_memory_equal(alone.out[0].data,
                                (char *)batch.out[0].data + (size_t)i * row_bytes, row_bytes);
            op_clear(&alone);
        }
        op_clear(&batch);
    }
}

static void rows_are_independent_only_where_they_are(void **state)
{
    (void)state;
    const struct rt_shape wide = {.rank = 2, .dim = {-1, 5}}, line = {.rank = 1, .dim = {-1}};
    const struct rt_shape same[] = {wide, wide};
    struct op_call add = {.op = "AddV2", .attrs = "T=float", .n_in = 2, .n_out = 1};
    add.in[0].dtype = add.in[1].dtype = RT_F32;
    assert_true(op_is_rowwise(&add, same));

    struct op_call softmax = {.op = "Softmax", .attrs = "T=float", .n_in = 1, .n_out = 1};
    softmax.in[0].dtype = RT_F32;
    assert_true(op_is_rowwise(&softmax, &wide));
    assert_false(op_is_rowwise(&softmax, &line));

    struct op_call loss = {.op = "L2Loss", .attrs = "T=float", .n_in = 1, .n_out = 1};
    loss.in[0].dtype = RT_F32;
    assert_false(op_is_rowwise(&loss, &wide));
}

static void integer_division_by_zero_is_refused(void **state)
{
    (void)state;
    static const char *const ops[] = {"Div", "FloorDiv", "FloorMod", "Mod"};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        struct op_call c = {.op = ops[k], .attrs = "T=int32", .n_in = 2, .n_out = 1};
        c.in[0] = op_ints(3, (int32_t[]){1, INT32_MIN, 3});
        c.in[1] = op_ints(3, (int32_t[]){1, -1, 0});
        assert_fails(op_run(&c), RT_INVALID_ARGUMENT, &c.err, "Integer division by zero");
        op_clear(&c);
    }
}

static void shapes_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    struct op_call c = {.op = "Mul", .attrs = "T=int32", .n_in = 2, .n_out = 1};
    c.in[0] = op_ints(3, (int32_t[]){1, 2, 3});
    c.in[1] = op_ints(2, (int32_t[]){1, 2});
    assert_fails(op_run(&c), RT_INVALID_ARGUMENT, &c.err, "Incompatible shapes: [3] vs. [2]");
    op_clear(&c);
}

/* ---- types that do not go together ---- */

/* Runs an op on zeros of the given types. A sanitizer reports a kernel that writes beyond its
 * output. */
static enum rt_status run_zeros(const char *op, const char *attrs, int n_in,
                                const enum rt_dtype *in, int n_out, struct op_call *c)
{
    static const int64_t dim[] = {1, 4, 4, 4}, four = 4;
    *c = (struct op_call){.op = op, .attrs = attrs, .n_in = n_in, .n_out = n_out};
    for (int k = 0; k < n_in; k++) {
        const bool is_norm = n_in == 5;
        c->in[k] = is_norm && k ? op_tensor(in[k], 1, &four, NULL) : op_tensor(in[k], 4, dim, NULL);
        memset(c->in[k].data, 0, rt_tensor_bytes(&c->in[k]));
    }
    return op_run(c);
}

static void types_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attrs;
        int n_in;
        enum rt_dtype in[5];
        int n_out;
        const char *why; /* the message of the expected error, or NULL if the op runs */
    } cases[] = {
        {"Complex", "T=float Tout=complex64", 2, {RT_F32, RT_F32}, 1, NULL},
        {"Complex", "T=double Tout=complex128", 2, {RT_F64, RT_F64}, 1, NULL},
        {"Complex",
         "T=float Tout=complex128",
         2,
         {RT_F32, RT_F32},
         1,
         "op Complex has no kernel for T=float, Tout=complex128 on CPU (it has: complex64)"},
        {"Complex",
         "T=double Tout=complex64",
         2,
         {RT_F64, RT_F64},
         1,
         "op Complex has no kernel for T=double, Tout=complex64 on CPU (it has: complex128)"},
        {"Real", "T=complex64 Tout=float", 1, {RT_C64}, 1, NULL},
        {"Real", "T=complex128 Tout=double", 1, {RT_C128}, 1, NULL},
        {"Real", "T=complex64 Tout=double", 1, {RT_C64}, 1, "T=complex64, Tout=double"},
        {"Real", "T=complex128 Tout=float", 1, {RT_C128}, 1, "T=complex128, Tout=float"},
        {"Imag", "T=complex64 Tout=double", 1, {RT_C64}, 1, "T=complex64, Tout=double"},
        {"Imag", "T=complex128 Tout=float", 1, {RT_C128}, 1, "T=complex128, Tout=float"},
        {"Angle", "T=complex64 Tout=double", 1, {RT_C64}, 1, "T=complex64, Tout=double"},
        {"Angle", "T=complex128 Tout=float", 1, {RT_C128}, 1, "T=complex128, Tout=float"},
        {"ComplexAbs", "T=complex64 Tout=double", 1, {RT_C64}, 1, "T=complex64, Tout=double"},
        {"ComplexAbs", "T=complex128 Tout=float", 1, {RT_C128}, 1, "T=complex128, Tout=float"},
        {"BatchMatMulV3", "Ta=int8 Tb=uint8 Tout=int32", 2, {RT_I8, RT_U8}, 1, NULL},
        {"BatchMatMulV3", "Ta=bfloat16 Tb=int8 Tout=bfloat16", 2, {RT_BF16, RT_I8}, 1, NULL},
        {"BatchMatMulV3", "Ta=double Tb=double Tout=double", 2, {RT_F64, RT_F64}, 1, NULL},
        {"BatchMatMulV3",
         "Ta=float Tb=float Tout=int16",
         2,
         {RT_F32, RT_F32},
         1,
         "Ta=float, Tb=float, Tout=int16"},
        {"BatchMatMulV3",
         "Ta=double Tb=double Tout=float",
         2,
         {RT_F64, RT_F64},
         1,
         "Ta=double, Tb=double, Tout=float"},
        {"BatchMatMulV3",
         "Ta=float Tb=float Tout=int32",
         2,
         {RT_F32, RT_F32},
         1,
         "Ta=float, Tb=float, Tout=int32"},
        {"FusedBatchNormV3",
         "T=float U=float is_training=true",
         5,
         {RT_F32, RT_F32, RT_F32, RT_F32, RT_F32},
         6,
         NULL},
        {"FusedBatchNormV3",
         "T=float U=bfloat16 is_training=true",
         5,
         {RT_F32, RT_BF16, RT_BF16, RT_BF16, RT_BF16},
         6,
         "T=float, U=bfloat16 on CPU (it has: float)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct op_call c;
        const enum rt_status st =
            run_zeros(cases[i].op, cases[i].attrs, cases[i].n_in, cases[i].in, cases[i].n_out, &c);
        if (!cases[i].why)
            assert_ok(st, &c.err);
        else
            assert_fails(st, RT_UNIMPLEMENTED, &c.err, cases[i].why);
        op_clear(&c);
    }
}

/*
 * Ops whose kernels read their types from the tensors, not from one attribute. For every pair of
 * types that the schema allows, the op must run or be refused, and must not write beyond its
 * outputs.
 */
static void every_pair_of_types_keeps_to_its_output(void **state)
{
    (void)state;
    static const struct {
        const char *op, *in, *out;
        /* `typed` is the index of the output whose type is the attribute `out` */
        int n_in, n_out, typed;
    } ops[] = {
        {"Shape", "T", "out_type", 1, 1, 0},
        {"Size", "T", "out_type", 1, 1, 0},
        {"Cast", "SrcT", "DstT", 1, 1, 0},
        {"Bitcast", "T", "type", 1, 1, 0},
        {"Complex", "T", "Tout", 2, 1, 0},
        {"Real", "T", "Tout", 1, 1, 0},
        {"Imag", "T", "Tout", 1, 1, 0},
        {"Angle", "T", "Tout", 1, 1, 0},
        {"ComplexAbs", "T", "Tout", 1, 1, 0},
        {"Unique", "T", "out_idx", 1, 2, 1},
        {"UniqueWithCounts", "T", "out_idx", 1, 3, 2},
        {"ListDiff", "T", "out_idx", 2, 2, 1},
        {"LowerBound", "T", "out_type", 2, 1, 0},
        {"UpperBound", "T", "out_type", 2, 1, 0},
        {"ArgMax", "T", "output_type", 2, 1, 0},
        {"ArgMin", "T", "output_type", 2, 1, 0},
        {"TopKV2", "T", "index_type", 2, 2, 1},
        {"StringToNumber", NULL, "out_type", 1, 1, 0},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        const struct rt_schema *s = rt_schema_find(ops[k].op);
        assert_non_null(s);
        const int at_in = ops[k].in ? rt_schema_attr(s, ops[k].in) : -1;
        const int at_out = rt_schema_attr(s, ops[k].out);
        int ran = 0;
        for (int a = 1; a < RT_N_DTYPES; a++)
            for (int b = 1; b < RT_N_DTYPES; b++) {
                const uint64_t fits_a = at_in < 0 ? RT_T(RT_STRING) : s->attr[at_in].types;
                const uint64_t fits_b = s->attr[at_out].types;
                const uint64_t never = RT_T(RT_RESOURCE) | RT_T(RT_VARIANT);
                if ((fits_a && !(fits_a & RT_T(a))) || (fits_b && !(fits_b & RT_T(b))) ||
                    ((RT_T(a) | RT_T(b)) & never) || !rt_dtype_size((enum rt_dtype)a) ||
                    !rt_dtype_size((enum rt_dtype)b))
                    continue;
                char attrs[160];
                const bool by_axis = strstr(ops[k].op, "Arg") || strstr(ops[k].op, "TopK");
                snprintf(attrs, sizeof attrs, "%s%s%s %s=%s %s", ops[k].in ? ops[k].in : "",
                         ops[k].in ? "=" : "", ops[k].in ? rt_dtype_name((enum rt_dtype)a) : "",
                         ops[k].out, rt_dtype_name((enum rt_dtype)b),
                         !by_axis                    ? ""
                         : strstr(ops[k].op, "TopK") ? "Tk=int32"
                                                     : "Tidx=int32");
                struct op_call c = {
                    .op = ops[k].op, .attrs = attrs, .n_in = ops[k].n_in, .n_out = ops[k].n_out};
                const int64_t dim[] = {1, 37};
                const int rank = strstr(ops[k].op, "Bound") ? 2 : 1;
                for (int i = 0; i < c.n_in; i++) {
                    c.in[i] = i && by_axis ? op_int(0)
                                           : op_tensor((enum rt_dtype)a, rank,
                                                       rank == 2 ? dim : dim + 1, NULL);
                    if (a != RT_STRING && !(i && by_axis))
                        memset(c.in[i].data, 0, rt_tensor_bytes(&c.in[i]));
                }
                if (op_run(&c) == RT_OK) {
                    ran++;
                    assert_int_equal(c.out[ops[k].typed].dtype, b);
                }
                op_clear(&c);
            }
        if (!ran && at_in >= 0)
            fail_msg("%s never ran", ops[k].op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_is_registered_once),
        cmocka_unit_test(a_half_goes_to_float_and_back_unchanged),
        cmocka_unit_test(halves_round_to_nearest_ties_to_even),
        cmocka_unit_test(our_functions_are_within_three_units_in_the_last_place),
        cmocka_unit_test(our_functions_keep_nan_and_go_to_their_limits),
        cmocka_unit_test(an_output_on_top_of_an_input_changes_nothing),
        cmocka_unit_test(lines_and_columns_of_every_length_reduce_to_what_a_plain_loop_gives),
        cmocka_unit_test(nan_in_segments_gives_what_tensorflow_gives),
        cmocka_unit_test(a_sum_of_a_million_does_not_drift),
        cmocka_unit_test(a_row_alone_gives_the_bits_that_it_gives_in_a_batch),
        cmocka_unit_test(rows_are_independent_only_where_they_are),
        cmocka_unit_test(integer_division_by_zero_is_refused),
        cmocka_unit_test(shapes_that_do_not_go_together_are_refused),
        cmocka_unit_test(types_that_do_not_go_together_are_refused),
        cmocka_unit_test(every_pair_of_types_keeps_to_its_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

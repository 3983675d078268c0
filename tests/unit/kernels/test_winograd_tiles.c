#include "tests/support/test.h"

#include <math.h>

#include "kernels/cpu/parallel.h"
#include "kernels/conv/winograd_tiles.h"
#include "tests/support/draw.h"

static struct kn_winograd_tiles sample(void)
{
    return (struct kn_winograd_tiles){.batch = 3,
                                      .out_h = 13,
                                      .out_w = 22,
                                      .ci = 32,
                                      .co = 48,
                                      .window_h = 3,
                                      .window_w = 5,
                                      .tile_h = 2,
                                      .tile_w = 4};
}

static void each_output_is_in_one_tile_of_one_block(void **state)
{
    (void)state;
    for (int cores = 0; cores < 4; cores++) {
        struct kn_winograd_tiles t = sample();
        char seen[3][13][22] = {{{0}}};
        t.cores = cores;
        assert_true(kn_winograd_tiles_init(&t));
        for (int64_t block = 0; block < kn_winograd_tiles_blocks(&t); block++)
            for (int64_t i = 0; i < kn_winograd_tiles_in_block(&t, block); i++) {
                const struct kn_winograd_tile at = kn_winograd_tiles_at(&t, block, i);
                for (int64_t y = at.y; y < at.y + 2 && y < 13; y++)
                    for (int64_t x = at.x; x < at.x + 4 && x < 22; x++)
                        seen[at.image][y][x]++;
            }
        for (size_t i = 0; i < sizeof seen; i++)
            assert_int_equal((&seen[0][0][0])[i], 1);
        if (cores)
            assert_int_equal(kn_winograd_tiles_blocks(&t) % cores, 0);
    }
}

/* Cores take whole blocks if all cores get the same number of blocks or each gets at least three.
 * Otherwise all cores share the work of one block at a time. */
static void work_is_sharded_over_as_many_cores_as_it_is_worth(void **state)
{
    (void)state;
    struct kn_winograd_tiles t = sample();
    t.batch = 40;
    for (int width = 1; width < 70; width++) {
        t.cores = width;
        assert_true(kn_winograd_tiles_init(&t));
        const struct kn_winograd_sharding s = kn_winograd_sharding(&t, width);
        const int64_t blocks = kn_winograd_tiles_blocks(&t);
        const double work = kn_winograd_tiles_work(&t);
        assert_true(s.slots >= 1 && s.slots <= width);
        assert_true(s.slots == 1 || work >= (double)s.slots * KN_SHARD_MACS);
        assert_true(s.slots == width || work < (double)(s.slots + 1) * KN_SHARD_MACS);
        assert_true(s.by_blocks == (blocks % s.slots == 0 || blocks >= 3 * s.slots));
    }
    /* The only block is so large that all cores share its work. */
    t.batch = 1;
    t.cores = 0;
    t.out_h = t.out_w = 8;
    t.ci = t.co = 512;
    assert_true(kn_winograd_tiles_init(&t));
    assert_int_equal(kn_winograd_tiles_blocks(&t), 1);
    assert_int_equal(kn_winograd_sharding(&t, 3).slots, 3);
    assert_false(kn_winograd_sharding(&t, 3).by_blocks);
    assert_int_equal(kn_winograd_sharding(&t, 0).slots, 1);
    assert_true(kn_winograd_sharding(&t, 1).by_blocks);
    t.ci = t.co = 16;
    assert_true(kn_winograd_tiles_init(&t));
    assert_int_equal(kn_winograd_sharding(&t, 3).slots, 1);
}

/* Every position of the transform domain has its own weights. Positions 7 and above are multiplied
 * in one call, and positions 0 to 6 in one call per panel. */
static void each_point_of_the_transform_domain_has_its_gemm(void **state)
{
    (void)state;
    struct kn_winograd_tiles t = sample();
    assert_true(kn_winograd_tiles_init(&t));
    assert_int_equal(t.domain_size, 4 * 8);
    const int64_t tiles = t.block - 1, n = t.ci * t.co;
    float *weights = draw_floats(t.domain_size * n);
    float *packed = draw_floats((int64_t)(kn_winograd_tiles_pack_bytes(&t) / sizeof(float)));
    float *workspace =
        draw_floats((int64_t)(kn_winograd_tiles_workspace_bytes(&t) / sizeof(float)));
    for (int64_t i = 0; i < t.domain_size; i++)
        kn_packed_gemm_pack(&t.gemm, weights + i * n, t.co, false, NULL, packed + i * t.pack_step);
    kn_winograd_tiles_gemm(&t, packed, tiles, 7, t.domain_size, 0, t.gemm.panels, workspace);
    for (int64_t i = t.gemm.panels - 1; i >= 0; i--)
        kn_winograd_tiles_gemm(&t, packed, tiles, 0, 7, i, i + 1, workspace);
    for (int64_t i = 0; i < t.domain_size; i++)
        for (int64_t j = 0; j < tiles * t.co; j++) {
            double sum = 0;
            for (int64_t c = 0; c < t.ci; c++)
                sum += (double)workspace[i * t.in_step + j / t.co * t.ci + c] *
                       (double)weights[i * n + c * t.co + j % t.co];
            assert_true(fabs(sum - (double)workspace[t.results + i * t.out_step + j]) < 1e-5);
        }
    free(weights);
    free(packed);
    free(workspace);
}

/* Returns the error that kn_winograd_check_end finds if one channel of `pixel` is larger than the
 * direct sum by `add`, and all other outputs equal the direct sums. */
static double found(const struct kn_winograd_tiles *one, const float *filter, int64_t pixel,
                    float add)
{
    struct kn_winograd_check check;
    const int64_t row = (one->out_w + one->window_w - 1) * one->ci;

    assert_true(kn_winograd_check_begin(&check, one, kn_winograd_tiles_workspace_bytes(one)));
    for (int64_t i = 0; i < one->out_h * one->out_w * one->co; i++) {
        const int64_t p = i / one->co, y = p / one->out_w, x = p % one->out_w;
        const int64_t run = one->window_w * one->ci;
        double sum = 0;
        for (int64_t k = 0; k < one->window_h * run; k++)
            sum += (double)check.x[(y + k / run) * row + x * one->ci + k % run] *
                   (double)filter[k * one->co + i % one->co];
        check.y[i] = (float)(2 * sum);
    }
    check.y[pixel * one->co + 5] += add;
    float *scale = draw_floats(one->co);
    for (int64_t i = 0; i < one->co; i++)
        scale[i] = 2;
    const double apart = kn_winograd_check_end(&check, filter, scale);
    free(scale);
    return apart;
}

static void a_check_finds_how_far_sums_are_apart(void **state)
{
    (void)state;
    for (int line = 0; line < 2; line++) {
        struct kn_winograd_tiles one = sample();
        one.batch = 1;
        one.window_h = line ? 1 : 3;
        one.tile_h = one.out_h = line ? 1 : 2;
        one.out_w = 4;
        assert_true(kn_winograd_tiles_init(&one));
        assert_int_equal(kn_winograd_tiles_blocks(&one), 1);
        assert_int_equal(kn_winograd_tiles_in_block(&one, 0), 1);
        float *filter = draw_floats(one.window_h * one.window_w * one.ci * one.co);
        const int64_t last = one.out_h * one.out_w - 1;
        assert_true(found(&one, filter, 0, 0) < 1e-5);
        assert_true(found(&one, filter, 0, 1) > 1e-3);
        assert_true(found(&one, filter, last, -1) > 1e-3);
        assert_true(isnan(found(&one, filter, last, NAN)));
        filter[3] = NAN;
        assert_true(isnan(found(&one, filter, 0, 0)));
        free(filter);
    }
}

static void other_channels_and_endless_sizes_are_refused(void **state)
{
    (void)state;
    struct kn_winograd_tiles t = sample();
    t.ci = 24;
    assert_false(kn_winograd_tiles_init(&t));
    t = sample();
    t.co = 0;
    assert_false(kn_winograd_tiles_init(&t));
    t = sample();
    t.out_w = 0;
    assert_false(kn_winograd_tiles_init(&t));
    t = sample();
    t.batch = INT64_MAX / 2;
    assert_false(kn_winograd_tiles_init(&t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_output_is_in_one_tile_of_one_block),
        cmocka_unit_test(work_is_sharded_over_as_many_cores_as_it_is_worth),
        cmocka_unit_test(each_point_of_the_transform_domain_has_its_gemm),
        cmocka_unit_test(a_check_finds_how_far_sums_are_apart),
        cmocka_unit_test(other_channels_and_endless_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

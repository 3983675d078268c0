/* Tests that the image decoders stop when their callers tell them to, count memory before they
 * allocate it, and request no pixels for an image that is too large. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/image/codec.h"
#include "tests/support/test.h"

struct caller {
    struct kn_codec codec; /* first member, because its address is cast to `struct caller *` */
    struct rt_error err;
    int64_t work, most_work; /* `spend` fails when `work` exceeds most_work */
    size_t charged, most_bytes;
    /* n_asked counts the calls to `pixels`, and n_held the allocations that are not freed. */
    int n_asked, n_held;
    void *pixels;
};

static void *caller_pixels(struct kn_codec *c, int64_t frames, int64_t height, int64_t width,
                           int64_t channels)
{
    struct caller *a = (struct caller *)c;

    a->n_asked++;
    a->pixels = malloc((size_t)(frames * height * width * channels));
    assert_non_null(a->pixels);
    return a->pixels;
}

static enum rt_status caller_spend(struct kn_codec *c, int64_t work)
{
    struct caller *a = (struct caller *)c;

    a->work += work;
    return a->work > a->most_work ? rt_fail(c->err, RT_CANCELLED, "cancelled") : RT_OK;
}

static enum rt_status caller_charge(struct kn_codec *c, size_t bytes)
{
    struct caller *a = (struct caller *)c;

    if (bytes > a->most_bytes - a->charged)
        return rt_fail(c->err, RT_RESOURCE_EXHAUSTED, "too much memory");
    a->charged += bytes;
    return RT_OK;
}

static void *caller_memory(struct kn_codec *c, size_t bytes)
{
    if (caller_charge(c, bytes))
        return NULL;
    ((struct caller *)c)->n_held++;
    return calloc(bytes, 1);
}

static void caller_release(struct kn_codec *c, void *memory)
{
    ((struct caller *)c)->n_held -= memory ? 1 : 0;
    free(memory);
}

static void caller_init(struct caller *a)
{
    *a = (struct caller){.codec = {.pixels = caller_pixels,
                                   .spend = caller_spend,
                                   .charge = caller_charge,
                                   .memory = caller_memory,
                                   .release = caller_release},
                         .most_work = INT64_MAX,
                         .most_bytes = SIZE_MAX};
    a->codec.err = &a->err;
}

static struct rt_span file_read(const char *name)
{
    static unsigned char bytes[16384];
    char path[256];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", name);
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_in_range(n, 1, sizeof bytes - 1);
    return rt_span_of(bytes, n);
}

static enum rt_status decode(struct caller *a, struct rt_span file)
{
    static const struct kn_jpeg_options jpeg = {
        .ratio = 1, .fancy_upscaling = true, .acceptable_fraction = 1};

    switch (kn_image_format(file)) {
    case KN_IMAGE_JPEG:
        return kn_jpeg_decode(&a->codec, file, &jpeg);
    case KN_IMAGE_PNG:
        return kn_png_decode(&a->codec, file, 0, false);
    case KN_IMAGE_GIF:
        return kn_gif_decode(&a->codec, file, true);
    case KN_IMAGE_BMP:
        return kn_bmp_decode(&a->codec, file, 0);
    default:
        return kn_webp_decode(&a->codec, file, 0, true);
    }
}

static const char *const names[] = {
    "jpeg/rgb420_37x29.jpg", "jpeg/prog_37x29.jpg",     "png/r6d8i1_8x17.png", "gif/anim1_8x17.gif",
    "bmp/RGB_8x17.bmp",      "webp/lossless_8x17.webp", "webp/anim_8x17.webp"};
enum { N_NAMES = sizeof names / sizeof *names };

static void a_decoder_stops_when_its_work_is_to_end(void **unused)
{
    (void)unused;
    for (int i = 0; i < N_NAMES; i++) {
        struct caller a;
        int64_t all;
        caller_init(&a);
        assert_int_equal(decode(&a, file_read(names[i])), RT_OK);
        free(a.pixels);
        all = a.work;
        assert_true(all > 0);
        for (int part = 0; part < 4; part++) {
            caller_init(&a);
            a.most_work = all * part / 4;
            assert_int_equal(decode(&a, file_read(names[i])), RT_CANCELLED);
            assert_int_equal(a.err.code, RT_CANCELLED);
            assert_int_equal(a.n_held, 0);
            free(a.pixels);
        }
    }
}

static void memory_that_is_refused_ends_a_decoder(void **unused)
{
    (void)unused;
    for (int i = 0; i < N_NAMES; i++) {
        struct caller a;
        size_t all;
        caller_init(&a);
        assert_int_equal(decode(&a, file_read(names[i])), RT_OK);
        free(a.pixels);
        all = a.charged;
        if (all == 0)
            continue; /* the decoder requested no memory for the image */
        caller_init(&a);
        a.most_bytes = all - 1;
        assert_int_equal(decode(&a, file_read(names[i])), RT_RESOURCE_EXHAUSTED);
        assert_int_equal(a.n_held, 0);
        free(a.pixels);
    }
}

/* Writes `size` as a big- or little-endian number of n bytes. */
static void put(struct rt_span file, size_t at, uint32_t size, int n, bool is_big)
{
    unsigned char *p = (unsigned char *)(uintptr_t)file.p + at;

    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(size >> 8 * (is_big ? n - 1 - i : i));
}

static void an_image_beyond_the_limit_is_refused_before_its_pixels_exist(void **unused)
{
    struct rt_span file = file_read("jpeg/rgb420_37x29.jpg");
    struct caller a;
    size_t at = 0;

    (void)unused;
    while (memcmp(file.p + at, "\xff\xc0", 2) != 0)
        at++;
    put(file, at + 5, 65500, 2, true);
    put(file, at + 7, 65500, 2, true);
    caller_init(&a);
    assert_int_equal(decode(&a, file), RT_INVALID_ARGUMENT);
    assert_int_equal(a.n_asked, 0);

    file = file_read("bmp/RGB_8x17.bmp");
    put(file, 18, 30000, 4, false);
    put(file, 22, 30000, 4, false);
    caller_init(&a);
    assert_int_equal(decode(&a, file), RT_INVALID_ARGUMENT);
    assert_int_equal(a.n_asked, 0);

    /* a GIF of one frame of 65,535 lines, whose memory is refused */
    file = file_read("gif/a_8x17.gif");
    at = 13 + 3 * ((size_t)2 << (file.p[10] & 7));
    assert_true(file.p[10] & 0x80 ? file.p[at] == ',' || file.p[at] == '!' : true);
    while (file.p[at] != ',')
        at++;
    put(file, at + 5, 30000, 2, false);
    put(file, at + 7, 65535, 2, false);
    caller_init(&a);
    a.most_bytes = 1 << 20;
    assert_int_equal(decode(&a, file), RT_RESOURCE_EXHAUSTED);
    assert_int_equal(a.n_asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoder_stops_when_its_work_is_to_end),
        cmocka_unit_test(memory_that_is_refused_ends_a_decoder),
        cmocka_unit_test(an_image_beyond_the_limit_is_refused_before_its_pixels_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

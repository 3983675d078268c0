/* Tests floats and doubles as JSON text, with the C library as the reference for reading and
 * writing. */
#include "tests/support/test.h"

#include <math.h>

#include "server/json/json_number.h"

static void assert_float(float x, const char *want)
{
    char buffer[SRV_NUMBER_BYTES + 1];
    buffer[srv_float_write(buffer, x)] = '\0';
    assert_string_equal(buffer, want);
}

static void floats_are_printed_as_tensorflow_serving_does(void **state)
{
    (void)state;
    assert_float(9000000, "9e+06");
    assert_float(999999, "999999.0");
    assert_float(.5f, "0.5");
    assert_float(.0003f, "0.0003");
    assert_float(.00003f, "3e-05");
    assert_float(555557.5f, "555557.5");
    assert_float(NAN, "NaN");
    assert_float(INFINITY, "Infinity");
    assert_float(-INFINITY, "-Infinity");
    assert_float(3, "3.0");
    assert_float(-0.0f, "-0.0");
    assert_float(16777216, "16777216.0");
    assert_float(1.17549435e-38f, "1.17549435e-38");
    assert_float(3.40282347e38f, "3.40282347e+38");
    assert_float(1e-45f, "1.4013e-45");
}

/* A xorshift generator, which gives the same numbers in every run. */
static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void reference(char *buffer, double x, bool is_float)
{
    snprintf(buffer, 40, "%.6g", x);
    if (is_float ? (float)strtod(buffer, NULL) != (float)x : strtod(buffer, NULL) != x)
        snprintf(buffer, 40, "%.*g", is_float ? 9 : 17, x);
    if (!strpbrk(buffer, ".e"))
        memcpy(buffer + strlen(buffer), ".0", 3);
}

static void the_fast_printer_agrees_with_the_c_library(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 300000; i++) {
        char got[SRV_NUMBER_BYTES + 1], want[48];
        uint64_t r = next_random(&seed);
        float f;
        double d;
        uint32_t bits = (uint32_t)r;
        memcpy(&f, &bits, 4);
        memcpy(&d, &r, 8);
        switch (i % 4) {
        case 0:
            break;
        case 1:
            f = (float)(r % 2000001) / 1000 - 1000;
            d = (double)(r % 2000001) / 1000 - 1000;
            break;
        case 2:
            f = (float)(r >> 40) * 0x1p-24f;
            d = (double)(r >> 11) * 0x1p-53;
            break;
        default:
            f = (float)(r % 100000000);
            d = (double)(r >> (r & 63));
        }
        if (isfinite(f)) {
            got[srv_float_write(got, f)] = '\0';
            reference(want, (double)f, true);
            assert_string_equal(got, want);
        }
        if (isfinite(d)) {
            got[srv_double_write(got, d)] = '\0';
            reference(want, d, false);
            assert_string_equal(got, want);
        }
    }
}

/* Asserts that srv_float_read returns the value that strtod returns, rounded to a float. */
static void float_agrees(const char *text)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
    float got = 0, want = (float)strtod(text, NULL);
    assert_ptr_equal(srv_float_read(p, end, &got), end);
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s: %.9g, not %.9g", text, (double)got, (double)want);
}

static void floats_are_read_as_their_doubles_are(void **state)
{
    (void)state;
    uint64_t seed = 987654321;
    char text[64];
    for (int i = 0; i < 300000; i++) {
        uint64_t r = next_random(&seed);
        uint32_t bits = (uint32_t)r;
        float f, above;
        if (i % 2) /* limits the exponent to values that are common in requests */
            bits = (bits & 0x807fffff) | (uint32_t)(90 + r % 70) << 23;
        memcpy(&f, &bits, 4);
        if (!isfinite(f))
            continue;
        snprintf(text, sizeof text, "%.*g", (int)(r >> 40) % 18 + 1, (double)f);
        float_agrees(text);
        /* The text is the midpoint of two neighbouring floats, or a double next to it. */
        above = nextafterf(f, INFINITY);
        double middle = ((double)f + (double)above) / 2;
        for (int k = -3; k <= 3; k++) {
            snprintf(text, sizeof text, "%.17g", middle + k * fabs(middle) * 0x1p-52);
            float_agrees(text);
        }
    }
    static const char *const special_cases[] = {"0",
                                                "-0.0",
                                                "1e400",
                                                "-1e-400",
                                                "NaN",
                                                "-Infinity",
                                                "16777217",
                                                "16777217.000000000000001",
                                                "0.00000000000",
                                                "123456789012345678901",
                                                "00012.5",
                                                "3.4028235677973366e38",
                                                "1.401298464324817e-45",
                                                "0.1234567890123456789",
                                                "99999999.99999999",
                                                "1E5",
                                                "7"};
    for (size_t i = 0; i < sizeof special_cases / sizeof *special_cases; i++)
        float_agrees(special_cases[i]);
}

static void the_fast_reader_agrees_with_the_c_library(void **state)
{
    (void)state;
    uint64_t seed = 123456789;
    for (int i = 0; i < 300000; i++) {
        char text[64];
        uint64_t r = next_random(&seed);
        double d, got = 0;
        memcpy(&d, &r, 8);
        if (!isfinite(d))
            continue;
        d = fabs(d);
        if (i & 1)
            d = (double)(r >> 11) * 0x1p-53 * (double)(i % 1000);
        snprintf(text, sizeof text, "%.*g", (int)(r % 19) + 1, d);
        const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);
        assert_ptr_equal(srv_double_read(p, end, &got), end);
        double want = strtod(text, NULL);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("%s: %.17g, not %.17g", text, got, want);
    }
    static const char *const hard[] = {
        "9007199254740993",
        "9007199254740993.00000000000000000000000000000000000000000001",
        "1090544144181609348835077142190",
        "2.2250738585072011e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "0.000000000000000000000000000000000000000000000000000000000000000000000012345",
        "123456789012345678901234567890",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.00000000000000011102230246251565404236316680908203126",
        "0e5",
        "0.0",
    };
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        double got = -1, want = strtod(hard[i], NULL);
        const unsigned char *p = (const unsigned char *)hard[i];
        srv_double_read(p, p + strlen(hard[i]), &got);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("%s: %.17g, not %.17g", hard[i], got, want);
    }
}

static void an_integer_is_also_a_double(void **state)
{
    (void)state;
    static const char *const integers[] = {"0",
                                           "-0",
                                           "7",
                                           "-9007199254740993",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "18446744073709551615"};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        const unsigned char *p = (const unsigned char *)integers[i], *end = p + strlen(integers[i]);
        struct srv_number x;
        double want = strtod(integers[i], NULL);
        assert_ptr_equal(srv_number_read(p, end, &x), end);
        assert_int_not_equal(x.kind, SRV_NUMBER_DOUBLE);
        if (memcmp(&x.d, &want, sizeof want) != 0)
            fail_msg("%s: %.17g, not %.17g", integers[i], x.d, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_printed_as_tensorflow_serving_does),
        cmocka_unit_test(the_fast_printer_agrees_with_the_c_library),
        cmocka_unit_test(floats_are_read_as_their_doubles_are),
        cmocka_unit_test(the_fast_reader_agrees_with_the_c_library),
        cmocka_unit_test(an_integer_is_also_a_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

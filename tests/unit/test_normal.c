/* Tests for kernels/text/normal.h: Unicode normalisation and case folding. */
#include "kernels/text/normal.h"
#include "tests/support/test.h"

/* Normalises `text`, reading `step` bytes at a time, and compares the result. */
static void check(enum kn_normal_form form, const char *text, const char *want, size_t step)
{
    struct rt_bytes out;
    struct kn_normal n = {.form = form, .out = &out};
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);

    rt_bytes_init(&out, 1 << 20);
    rt_bytes_init(&n.segment, 1 << 20);
    rt_bytes_adds(&out, "");
    while (p < end)
        kn_normal_add(&n, &p, end, step);
    kn_normal_end(&n);
    rt_bytes_addc(&out, 0);
    assert_false(out.failed || n.segment.failed);
    assert_string_equal(out.p, want);
    rt_bytes_clear(&out);
    rt_bytes_clear(&n.segment);
}

static void same(enum kn_normal_form form, const char *text, const char *want)
{
    for (size_t step = 1; step < 8; step++)
        check(form, text, want, step);
    check(form, text, want, SIZE_MAX);
}

static void marks_are_ordered_and_composed(void **state)
{
    (void)state;
    same(KN_NFC, "e\u0301", "\u00e9");
    same(KN_NFD, "\u00e9", "e\u0301");
    /* The mark below (class 220) comes before the mark above (class 230). */
    same(KN_NFD, "a\u0301\u0323", "a\u0323\u0301");
    same(KN_NFC, "a\u0301\u0323", "\u1ea1\u0301");
    /* A second mark of the same class blocks composition. */
    same(KN_NFC, "x\u0301e\u0308\u0301", "x\u0301\u00eb\u0301");
    same(KN_NFC, "\u0301", "\u0301");
}

static void hangul_is_composed_by_arithmetic(void **state)
{
    (void)state;
    same(KN_NFC, "\u1112\u1161\u11ab", "\ud55c");
    same(KN_NFD, "\ud55c", "\u1112\u1161\u11ab");
    same(KN_NFC, "\uac00\u11a8", "\uac01");
}

static void compatible_characters_and_case_are_folded(void **state)
{
    (void)state;
    same(KN_NFC, "\ufb01", "\ufb01");
    same(KN_NFKC, "\ufb01\u2460", "fi1");
    same(KN_NFKC_CASEFOLD, "HeLLo STRA\u1e9eE \u0130", "hello strasse i\u0307");
    /* The soft hyphen and the zero-width joiner are ignorable. */
    same(KN_NFKC_CASEFOLD, "a\u00adb\u200dc", "abc");
}

static void malformed_bytes_stay_and_combine_with_nothing(void **state)
{
    (void)state;
    same(KN_NFC, "e\xff\u0301", "e\xff\u0301");
    same(KN_NFKC_CASEFOLD, "A\xe2\x82", "a\xe2\x82");
    same(KN_NFD, "\xed\xa0\x80\xc0\x80", "\xed\xa0\x80\xc0\x80");
}

static void a_buffer_that_is_full_ends_the_work(void **state)
{
    (void)state;
    const unsigned char text[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u0301";
    const unsigned char *p = text;
    struct rt_bytes out;
    struct kn_normal n = {.form = KN_NFC, .out = &out};

    rt_bytes_init(&out, 4);
    rt_bytes_init(&n.segment, 1 << 20);
    kn_normal_add(&n, &p, text + sizeof text - 1, SIZE_MAX);
    kn_normal_end(&n);
    assert_true(out.failed);
    rt_bytes_clear(&out);
    rt_bytes_clear(&n.segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_ordered_and_composed),
        cmocka_unit_test(hangul_is_composed_by_arithmetic),
        cmocka_unit_test(compatible_characters_and_case_are_folded),
        cmocka_unit_test(malformed_bytes_stay_and_combine_with_nothing),
        cmocka_unit_test(a_buffer_that_is_full_ends_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

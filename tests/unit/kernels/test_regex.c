/* Tests for the limits of patterns in kernels/string/regex.h. The matches themselves are compared
 * with TensorFlow's (tests/conformance/specs/regex.py). */
#include "kernels/string/regex.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* Returns whether RE2 gets the pattern that consists of n times `part`. */
static bool is_accepted(const char *part, size_t n, char *why, size_t size)
{
    const size_t len = strlen(part);
    char *const pattern = malloc(n * len);

    assert_non_null(pattern);
    for (size_t i = 0; i < n; i++)
        memcpy(pattern + i * len, part, len);
    struct kn_regex *const re = kn_regex_get(pattern, n * len, why, size);
    kn_regex_drop(re);
    free(pattern);
    return re;
}

/* Each class of these patterns has one character, so that RE2 itself would accept the patterns. */
static void a_pattern_has_at_most_1000_unicode_classes(void **state)
{
    static const char *const classes[] = {"\\p{Zl}", "\\P{^Zl}", "[\\p{Zl}]"};
    char why[100] = "";
    (void)state;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        assert_true(is_accepted(classes[i], KN_REGEX_MAX_CLASSES, why, sizeof why));
        assert_false(is_accepted(classes[i], KN_REGEX_MAX_CLASSES + 1, why, sizeof why));
        assert_string_equal(why, "pattern too large - compile failed");
    }
    /* The p that follows an escaped backslash is a letter. */
    assert_true(is_accepted("\\\\p", KN_REGEX_MAX_CLASSES + 1, why, sizeof why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_has_at_most_1000_unicode_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

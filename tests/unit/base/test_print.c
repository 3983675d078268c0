#include "tests/support/test.h"

#include <inttypes.h>
#include <stdarg.h>

#include "runtime/base/print.h"

static char *printed;
static size_t n_printed;
static FILE *out;

static void begin(void)
{
    free(printed);
    out = open_memstream(&printed, &n_printed);
    assert_non_null(out);
}

static const char *end(void)
{
    fclose(out);
    return printed;
}

static void strings_are_escaped_and_the_format_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *given, *shown;
    } cases[] = {
        {"plain_name/0:1 \\x", "plain_name/0:1 \\x"},
        {"a\x1b[2Jb", "a\\x1b[2Jb"},
        {"one\ntwo\tthree\rfour", "one\\ntwo\\tthree\\x0dfour"},
        {"\x7f\x01", "\\x7f\\x01"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* U+009B, CSI */
        {"\xe2\x80\xae"
         "gnp",
         "\\xe2\\x80\\xaegnp"},                                         /* U+202E, right to left */
        {"\xe2\x81\xa6\xe2\x81\xa9", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9"}, /* U+2066, U+2069 */
        {"\xe2\x80\xa8\xe2\x80\x8f\xd8\x9c", "\\xe2\\x80\\xa8\\xe2\\x80\\x8f\\xd8\\x9c"},
        {"gr\xc3\xbc\xc3\x9f\x65 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80", NULL},
        {"half \xe6\x97", "half \\xe6\\x97"}, /* no UTF-8 */
        {"\xff", "\\xff"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *shown = cases[i].shown ? cases[i].shown : cases[i].given;
        struct rt_bytes b;
        char want[200];
        begin();
        rt_print(out, "\x1b\n[%s]\n", cases[i].given);
        snprintf(want, sizeof want, "\x1b\n[%s]\n", shown);
        assert_string_equal(end(), want);
        rt_bytes_init(&b, 1000);
        rt_bytes_add_escaped(&b, cases[i].given);
        assert_string_equal(b.p ? b.p : "", shown);
        rt_bytes_clear(&b);
    }
}

/* A field width counts the escaped text. A precision counts the bytes of the argument. */
static void widths_and_precisions_are_kept(void **state)
{
    (void)state;
    static const char unended[] = {'a', '\n', 'b', (char)0xe6};

    begin();
    rt_print(out, "%6s|%-6s|%.2s|%.*s|%*s|%-*s|", "a\n", "a\n", "abc", 4, unended, 5, "x", -5, "y");
    assert_string_equal(end(), "   a\\n|a\\n   |ab|a\\nb\\xe6|    x|y    |");
}

static void check(const char *fmt, ...) RT_PRINTF(1, 2);
static char want[500];

static void check(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(want, sizeof want, fmt, ap);
    va_end(ap);
}

#define SAME(...)                                                                                  \
    do {                                                                                           \
        check(__VA_ARGS__);                                                                        \
        begin();                                                                                   \
        rt_print(out, __VA_ARGS__);                                                                \
        assert_string_equal(end(), want);                                                          \
    } while (0)

static void everything_else_is_printed_as_by_fprintf(void **state)
{
    (void)state;
    SAME("no arguments, 100 %%\n");
    SAME("%d %i %u %x %05d %+d %-6d| %c", -1, 2, 3U, 0xbeefU, 42, 7, 8, 'c');
    SAME("%lld %" PRId64 " %zu %ld %llu %jd", -5LL, INT64_MIN, SIZE_MAX, 5L, 6ULL, (intmax_t)9);
    SAME("%g %.3f %10.2f %e %.*f %-8.1f|", 0.1, 2.5, -3.14159, 1e10, 2, 1.005, 9.99);
    SAME("%*s%s %p", 7, "", "end", (void *)&n_printed);
    SAME("%*d|%-*d|%.3d", 6, 1, 6, 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped_and_the_format_is_not),
        cmocka_unit_test(widths_and_precisions_are_kept),
        cmocka_unit_test(everything_else_is_printed_as_by_fprintf),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(printed);
    return failed;
}

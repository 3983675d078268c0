/* Tests for kernels/text/whitespace.h: words of long texts, which are read in parts. */
#include "kernels/text/whitespace.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

enum { READ = 1 << 16, SIZE = 3 * READ + 100 };

/* U+0020, and U+3000, which has the bytes e3 80 80. */
static unsigned char spaces[0x3000 / 8 + 1];

static struct kn_words words_of(const unsigned char *text, size_t n)
{
    spaces[' ' / 8] = 1 << (' ' % 8);
    spaces[0x3000 / 8] = 1;
    return (struct kn_words){
        .spaces = rt_span_of(spaces, sizeof spaces), .p = text, .end = text + n};
}

/* Finds the next word. Returns false if there is none. */
static bool next(struct kn_words *w, struct rt_span *out)
{
    while (w->p < w->end) {
        const unsigned char *const from = w->p;
        const bool found = kn_words_next(w, out);
        assert_true(w->p > from);
        assert_true(w->p - from <= READ + 4);
        if (found)
            return true;
    }
    return false;
}

static void check_word(struct kn_words *w, const unsigned char *text, size_t begin, size_t end)
{
    struct rt_span word;

    assert_true(next(w, &word));
    assert_int_equal(word.p - text, begin);
    assert_int_equal(word.n, end - begin);
}

static void a_word_keeps_bytes_of_the_space_behind_it(void **state)
{
    static const unsigned char text[] = " a\xe3\x80\x80\xe3\x80\x80 bc  \xc3\xa9";
    struct kn_words w = words_of(text, sizeof text - 1);
    struct rt_span word;

    (void)state;
    check_word(&w, text, 1, 4);
    check_word(&w, text, 9, 11);
    check_word(&w, text, 13, 15);
    assert_false(next(&w, &word));
}

static void long_texts_are_read_in_parts(void **state)
{
    unsigned char *text = malloc(SIZE);
    struct rt_span word;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', SIZE);
    struct kn_words w = words_of(text, SIZE);
    assert_false(next(&w, &word));

    memset(text, 'a', SIZE);
    w = words_of(text, SIZE);
    check_word(&w, text, 0, SIZE);
    assert_false(next(&w, &word));

    /* A word ends, or begins, or a space has its bytes, around the end of the first part. */
    for (size_t at = READ - 4; at < READ + 4; at++) {
        memset(text, 'a', SIZE);
        memcpy(text + at, "\xe3\x80\x80", 3);
        w = words_of(text, SIZE);
        check_word(&w, text, 0, at + 2);
        check_word(&w, text, at + 3, SIZE);
        assert_false(next(&w, &word));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_keeps_bytes_of_the_space_behind_it),
        cmocka_unit_test(long_texts_are_read_in_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

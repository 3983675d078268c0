/* Tests that the table of passes (runtime/passes/pipeline.c) lists them in an order that meets
 * their requirements. */
#include <string.h>

#include "runtime/passes/pipeline.h"
#include "tests/support/test.h"

static int find(const struct pl_pass *p, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(p[i].name, name) == 0)
            return i;
    return -1;
}

static void names_are_unique(void **state)
{
    int n;
    const struct pl_pass *p = pl_passes(&n);
    (void)state;
    for (int i = 0; i < n; i++)
        assert_int_equal(find(p, n, p[i].name), i);
    assert_int_equal(find(p, n, PL_EXTRACT), -1);
}

static void a_pass_has_one_function(void **state)
{
    int n;
    const struct pl_pass *p = pl_passes(&n);
    (void)state;
    for (int i = 0; i < n; i++) {
        assert_true((p[i].run != NULL) != (p[i].change != NULL));
        if (p[i].repeat == PL_FUNCTIONALISE)
            assert_non_null(p[i].change);
    }
}

/* If pass A must run after pass B, then B must run on every graph on which A runs. */
static void a_pass_stands_behind_what_must_have_run(void **state)
{
    int n;
    const struct pl_pass *p = pl_passes(&n);
    (void)state;
    for (int i = 0; i < n; i++) {
        const int before = find(p, n, p[i].after);
        if (before < 0)
            assert_string_equal(p[i].after, PL_EXTRACT);
        else
            assert_int_equal(p[before].graphs & ~p[i].graphs, 0);
        assert_true(before < i);
    }
}

/* A group of passes is repeated as a unit, so its passes are adjacent in the table. */
static void groups_are_in_one_piece(void **state)
{
    int n, begun[PL_FUNCTIONALISE + 1] = {0};
    const struct pl_pass *p = pl_passes(&n);
    (void)state;
    for (int i = 0; i < n; i++)
        if (!i || p[i].repeat != p[i - 1].repeat)
            begun[p[i].repeat]++;
    assert_int_equal(begun[PL_TO_FIXED_POINT], 1);
    assert_int_equal(begun[PL_FUNCTIONALISE], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(a_pass_has_one_function),
        cmocka_unit_test(a_pass_stands_behind_what_must_have_run),
        cmocka_unit_test(groups_are_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Tests requests to models with ops that may fail by design, such as Assert (runtime/passes/rows.c,
 * row_extremes.c). Requests are merged only if the merged batch fails exactly when one of the
 * requests would fail alone.
 */
#include "tests/support/test.h"

#include "tests/support/row_graph.h"

struct graph {
    const char *what;
    bool is_rowwise;
    struct gd_line line[RG_MOST_LINES];
};
/* For each row, "at" contains an integer from 0 to 3, and "peak" contains a float from 39 to 50. */
#define ASSERT                                                                                     \
    {"a", "Assert", "ok x", "T=[float]"},                                                          \
    {                                                                                              \
        "out", "Neg", "x ^a", "T=float"                                                            \
    }
#define REDUCE(op, of)                                                                             \
    {                                                                                              \
        "ok", op, of " v0", "Tidx=int32"                                                           \
    }
#define INT(name, op, of)                                                                          \
    {                                                                                              \
        name, op, of " v0", "T=int32 Tidx=int32"                                                   \
    }
#define FLOAT(name, op, of)                                                                        \
    {                                                                                              \
        name, op, of " v0", "T=float Tidx=int32"                                                   \
    }

static const struct graph graphs[] = {
    {"all rows below 3", true, {{"p", "Less", "at c3", "T=int32"}, REDUCE("All", "p"), ASSERT}},
    {"no row of 3",
     true,
     {{"p", "GreaterEqual", "at c3", "T=int32"},
      {"q", "Any", "p v0", "Tidx=int32"},
      {"ok", "LogicalNot", "q", ""},
      ASSERT}},
    {"most < 3", true, {INT("m", "Max", "at"), {"ok", "Less", "m c3", "T=int32"}, ASSERT}},
    {"3 > most", true, {INT("m", "Max", "at"), {"ok", "Greater", "c3 m", "T=int32"}, ASSERT}},
    {"least >= 1",
     true,
     {INT("m", "Min", "at"), {"ok", "GreaterEqual", "m c1", "T=int32"}, ASSERT}},
    {"1 <= least", true, {INT("m", "Min", "at"), {"ok", "LessEqual", "c1 m", "T=int32"}, ASSERT}},
    {"not least < 1",
     true,
     {INT("m", "Min", "at"),
      {"p", "Less", "m c1", "T=int32"},
      {"ok", "LogicalNot", "p", ""},
      ASSERT}},
    {"0 < least and most < 3",
     true,
     {INT("m", "Max", "at"),
      {"p", "Less", "m c3", "T=int32"},
      INT("l", "Min", "at"),
      {"q", "Less", "c0 l", "T=int32"},
      {"ok", "LogicalAnd", "p q", ""},
      ASSERT}},
    {"most < 3 or a constant",
     true,
     {INT("m", "Max", "at"),
      {"p", "Less", "m c3", "T=int32"},
      {"q", "Const", "", "dtype=bool value=bool<>:0"},
      {"ok", "LogicalOr", "p q", ""},
      ASSERT}},
    {"most of floats < 48",
     true,
     {FLOAT("m", "Max", "peak"),
      {"f48", "Const", "", "dtype=float value=float<>:48"},
      {"ok", "Less", "m f48", "T=float"},
      ASSERT}},
    {"most of floats, some of them NaN, < 48",
     true,
     {{"f48", "Const", "", "dtype=float value=float<>:48"},
      {"s", "Sub", "peak f48", "T=float"},
      {"r", "Sqrt", "s", "T=float"},
      FLOAT("m", "Max", "r"),
      {"ok", "Less", "m f48", "T=float"},
      ASSERT}},
    {"least of floats, some of them NaN, >= 0",
     true,
     {{"f48", "Const", "", "dtype=float value=float<>:48"},
      {"s", "Sub", "peak f48", "T=float"},
      {"r", "Sqrt", "s", "T=float"},
      FLOAT("m", "Min", "r"),
      {"ok", "GreaterEqual", "m f0", "T=float"},
      ASSERT}},
    {"a data of the most",
     true,
     {INT("m", "Max", "at"),
      {"ok", "Less", "m c3", "T=int32"},
      {"a", "Assert", "ok m", "T=[int32]"},
      {"out", "Neg", "x ^a", "T=float"}}},
    {"n > 0", true, {{"ok", "Greater", "n c0", "T=int32"}, ASSERT}},
    {"n is not 0", true, {{"ok", "NotEqual", "n c0", "T=int32"}, ASSERT}},
    {"n = n",
     true,
     {{"y", "Neg", "x", "T=float"},
      {"s", "Shape", "y", "T=float out_type=int32"},
      {"p", "Equal", "s shape", "T=int32"},
      REDUCE("All", "p"),
      ASSERT}},
    {"d = 3", true, {{"ok", "Equal", "d c3", "T=int32"}, ASSERT}},
    {"numbers of each row",
     true,
     {{"f48", "Const", "", "dtype=float value=float<>:48"},
      {"s", "Sub", "peak f48", "T=float"},
      {"r", "Sqrt", "s", "T=float"},
      {"a", "CheckNumerics", "r", "T=float message='m'"},
      {"out", "Neg", "x ^a", "T=float"}}},
    {"a printed mean",
     true,
     {FLOAT("m", "Mean", "peak"),
      {"s", "AsString", "m", "T=float"},
      {"a", "PrintV2", "s", ""},
      {"out", "Neg", "x ^a", "T=float"}}},

    {"n >= 2", false, {{"ok", "GreaterEqual", "n c2", "T=int32"}, ASSERT}},
    {"n < 1000",
     false,
     {RG_INT("most_n", "<>:1000"), {"ok", "Less", "n most_n", "T=int32"}, ASSERT}},
    {"n is not 7", false, {RG_INT("c7", "<>:7"), {"ok", "NotEqual", "n c7", "T=int32"}, ASSERT}},
    {"n is even",
     false,
     {{"r", "FloorMod", "n c2", "T=int32"}, {"ok", "Equal", "r c0", "T=int32"}, ASSERT}},
    {"most > 0", false, {INT("m", "Max", "at"), {"ok", "Greater", "m c0", "T=int32"}, ASSERT}},
    {"least < 1", false, {INT("m", "Min", "at"), {"ok", "Less", "m c1", "T=int32"}, ASSERT}},
    {"a row of 3", false, {{"p", "Equal", "at c3", "T=int32"}, REDUCE("Any", "p"), ASSERT}},
    {"not all rows below 3",
     false,
     {{"p", "Less", "at c3", "T=int32"},
      {"q", "All", "p v0", "Tidx=int32"},
      {"ok", "LogicalNot", "q", ""},
      ASSERT}},
    {"all rows below 3 or all above 1",
     false,
     {{"p", "Less", "at c3", "T=int32"},
      {"all_p", "All", "p v0", "Tidx=int32"},
      {"q", "Greater", "at c1", "T=int32"},
      {"all_q", "All", "q v0", "Tidx=int32"},
      {"ok", "LogicalOr", "all_p all_q", ""},
      ASSERT}},
    {"most of one < least of another",
     false,
     {INT("m", "Max", "at"),
      {"more", "AddV2", "at c2", "T=int32"},
      INT("l", "Min", "more"),
      {"ok", "Less", "m l", "T=int32"},
      ASSERT}},
    {"most = 3", false, {INT("m", "Max", "at"), {"ok", "Equal", "m c3", "T=int32"}, ASSERT}},
    {"not least of floats < 48",
     false,
     {FLOAT("m", "Min", "peak"),
      {"f48", "Const", "", "dtype=float value=float<>:48"},
      {"p", "Less", "m f48", "T=float"},
      {"ok", "LogicalNot", "p", ""},
      ASSERT}},
    {"a sum", false, {INT("m", "Sum", "at"), {"ok", "Less", "m c13", "T=int32"}, ASSERT}},
    {"the first row",
     false,
     {{"f", "GatherV2", "at c0 c0", "Tparams=int32 Tindices=int32 Taxis=int32"},
      {"ok", "Less", "f c3", "T=int32"},
      ASSERT}},
    {"a data that may fail",
     false,
     {{"p", "Less", "at c4", "T=int32"},
      REDUCE("All", "p"),
      INT("m", "Min", "at"),
      {"y", "GatherV2", "v1 m c0", "Tparams=int32 Tindices=int32 Taxis=int32"},
      {"a", "Assert", "ok y", "T=[int32]"},
      {"out", "Neg", "x ^a", "T=float"}}},
    {"numbers of a sum",
     false,
     {FLOAT("m", "Mean", "peak"),
      {"a", "CheckNumerics", "m", "T=float message='m'"},
      {"out", "Neg", "x ^a", "T=float"}}},
};

static void what_may_fail_fails_together_just_when_it_fails_alone(void **state)
{
    static const struct gd_line k[] = {{"k", "Identity", "c0", "T=int32"},
                                       {NULL, NULL, NULL, NULL}};
    static const struct rt_shape shape = {.rank = 3, .dim = {-1, 3, 4}};
    int n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        struct rg_graph g = {0};
        struct rt_error err = {0};
        rg_open(&g, graphs[i].line, k);
        const bool yes = rt_callable_is_rowwise(g.callable, &shape, &err);
        n_wrong += yes != graphs[i].is_rowwise;
        if (yes != graphs[i].is_rowwise)
            print_error("%s: %s (%s)\n", graphs[i].what,
                        yes ? "proved, but must not be" : "not proved", rt_error_text(&err));
        else if (yes)
            rg_check_merged(&g, &shape, graphs[i].what, "an assertion");
        rg_close(&g);
    }
    assert_int_equal(n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_fail_fails_together_just_when_it_fails_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

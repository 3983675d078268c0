/* Recognises, by the names of ops, values that are extremes over the parts of a batch, as
 * row_extremes.h defines them. */
#include <string.h>

#include "runtime/passes/row_extremes.h"

/* Returns the only input that varies with the batch, or -1 if no input or several inputs vary. */
static int find_varying(int n_in, const struct rt_dep *dep)
{
    int at = -1, n = 0;
    for (int k = 0; k < n_in; k++)
        if (dep[k].kind != RT_DEP_NONE) {
            at = k;
            n++;
        }
    return n == 1 ? at : -1;
}

static enum rt_extreme opposite(enum rt_extreme e)
{
    return e == RT_NO_EXTREME ? e : e == RT_LEAST ? RT_MOST : RT_LEAST;
}

/* Returns `own`, the extreme that a reduction computes, if the reduced value has rows or is already
 * this extreme. Returns RT_NO_EXTREME otherwise, or if the axes are not constant. */
static enum rt_extreme reduce(const struct rt_info *in, const struct rt_dep *dep,
                              const enum rt_extreme *of, enum rt_extreme own)
{
    if (dep[1].kind != RT_DEP_NONE || in[0].shape.rank < 0 || !in[1].value)
        return RT_NO_EXTREME;
    return dep[0].kind == RT_DEP_ROWS || of[0] == own ? own : RT_NO_EXTREME;
}

/* Returns which extreme the result of a logical operation is. The And of least values is a least
 * value, and the Or of greatest values is a greatest value. If one operand is constant, the result
 * is the same extreme as the other operand. */
static enum rt_extreme join(const struct rt_dep *dep, const enum rt_extreme *of,
                            enum rt_extreme own)
{
    const int at = find_varying(2, dep);
    if (at >= 0)
        return of[at];
    return of[0] == own && of[1] == own ? own : RT_NO_EXTREME;
}

/* Returns which extreme the result of a comparison is. One operand is a constant and the other an
 * extreme. The result for floats is never a greatest value: Min and Max propagate NaN, and an
 * ordered comparison with NaN is false even if it is true for another element. */
static enum rt_extreme compare(const struct rt_info *in, const struct rt_dep *dep,
                               const enum rt_extreme *of, bool is_less)
{
    const int at = find_varying(2, dep);
    if (at < 0)
        return RT_NO_EXTREME;
    const enum rt_extreme e = is_less == (at == 0) ? opposite(of[at]) : of[at];
    const bool has_nan = in[0].dtype != RT_I32 && in[0].dtype != RT_I64;
    return e == RT_MOST && has_nan ? RT_NO_EXTREME : e;
}

enum rt_extreme rt_extreme_of_output(const struct rt_op *op, int n_in, const struct rt_info *in,
                                     const struct rt_dep *in_dep, const enum rt_extreme *of)
{
    enum kind { REDUCES, JOINS, COMPARES };
    static const struct {
        const char *name;
        enum kind kind;
        /* For COMPARES: RT_LEAST if the op is Less or LessEqual, and RT_MOST if the op is Greater
         * or GreaterEqual. For other kinds, the extreme that the op computes. */
        enum rt_extreme own;
    } ops[] = {
        {"All", REDUCES, RT_LEAST},      {"Min", REDUCES, RT_LEAST},
        {"Any", REDUCES, RT_MOST},       {"Max", REDUCES, RT_MOST},
        {"LogicalAnd", JOINS, RT_LEAST}, {"LogicalOr", JOINS, RT_MOST},
        {"Less", COMPARES, RT_LEAST},    {"LessEqual", COMPARES, RT_LEAST},
        {"Greater", COMPARES, RT_MOST},  {"GreaterEqual", COMPARES, RT_MOST},
    };
    if (n_in == 1 && strcmp(op->name, "Identity") == 0)
        return of[0];
    if (n_in == 1 && strcmp(op->name, "LogicalNot") == 0)
        return opposite(of[0]);
    for (size_t i = 0; i < sizeof ops / sizeof *ops && n_in == 2; i++) {
        if (strcmp(op->name, ops[i].name) != 0)
            continue;
        if (ops[i].kind == REDUCES)
            return reduce(in, in_dep, of, ops[i].own);
        if (ops[i].kind == JOINS)
            return join(in_dep, of, ops[i].own);
        return compare(in, in_dep, of, ops[i].own == RT_LEAST);
    }
    return RT_NO_EXTREME;
}

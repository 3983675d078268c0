#include "server/batching/cost.h"

static double at_least_1(int64_t n)
{
    return n < 1 ? 1 : (double)n;
}

void srv_cost_learn(struct srv_cost *c, int64_t rows, int64_t ns)
{
    const double decay = 0.85;
    double x = at_least_1(rows), y = at_least_1(ns);

    c->w = c->w * decay + 1;
    c->x = c->x * decay + x;
    c->y = c->y * decay + y;
    c->xx = c->xx * decay + x * x;
    c->xy = c->xy * decay + x * y;
    c->fastest = c->runs == 0 || y < c->fastest ? y : c->fastest * 1.05;
    if (c->fastest > y)
        c->fastest = y;
    c->runs++;
}

void srv_cost_line(const struct srv_cost *c, double *a, double *b)
{
    double variance = c->w * c->xx - c->x * c->x;
    *b = variance > 1e-6 * c->xx * c->w ? (c->w * c->xy - c->x * c->y) / variance : 0;
    if (*b < 0)
        *b = 0;
    *a = c->w > 0 ? (c->y - *b * c->x) / c->w : 0;
    if (*a < 0) {
        *a = 0;
        *b = c->x > 0 ? c->y / c->x : 0;
    }
}

int64_t srv_cost_of(const struct srv_cost *c, int64_t rows)
{
    double a, b;
    if (!c->runs)
        return 0;
    srv_cost_line(c, &a, &b);
    double ns = a + b * at_least_1(rows);
    return ns < 1 ? 1 : ns > 1e18 ? INT64_C(1000000000000000000) : (int64_t)ns;
}

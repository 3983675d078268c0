/*
 * Tests that activations after a convolution or a matmul become part of that node's epilogue
 * (runtime/fusion/fuse_activation.c), in each of the forms that frameworks export.
 */
#include "tests/support/epilogue_graph.h"

static void every_activation_joins_every_head(void **state)
{
    struct fused_graph *x = *state;
    int64_t dim[4];
    char what[80];

    for (int h = 0; h < EP_N_HEADS; h++)
        for (int k = 0; k < EP_N_ACTIVATIONS; k++)
            for (int64_t batch = 0; batch < 3; batch += 2) {
                snprintf(what, sizeof what, "activation %d behind %s, batch %d", k, ep_head_name[h],
                         (int)batch);
                ep_add_head(x, (enum ep_head)h, batch, dim);
                const int n = ep_add_activation(x, (enum ep_activation)k, "head");
                fg_fetch(x, "out");
                fg_compare(x, n, what);
            }
}

/* Activations in other forms than those that frameworks export, and expressions that only resemble
 * an activation. Fusion is optional where `saved` is 0. */
enum { MOST_NODES = 10 };
static const struct variant {
    const char *what;
    int saved;                       /* minimum number of nodes that fusion must remove */
    const char *node[MOST_NODES][3]; /* name, op and inputs of each node from "head" to "out" */
} variants[] = {
    {"hard sigmoid by a difference and a quotient",
     3,
     {{"a", "Sub", "head m3"}, {"r", "Relu6", "a"}, {"out", "RealDiv", "r n6"}}},
    {"a difference the other way round",
     0,
     {{"a", "Sub", "n3 head"}, {"r", "Relu6", "a"}, {"out", "RealDiv", "r n6"}}},
    {"hard swish of another number",
     0,
     {{"a", "AddV2", "head n31"},
      {"r", "Relu6", "a"},
      {"h", "RealDiv", "r n6"},
      {"out", "Mul", "h head"}}},
    {"gelu with a square",
     9,
     {{"sq", "Square", "head"},
      {"cube", "Mul", "sq head"},
      {"cc", "Mul", "cube c"},
      {"sum", "AddV2", "head cc"},
      {"ks", "Mul", "sum k"},
      {"t", "Tanh", "ks"},
      {"p", "AddV2", "t n1"},
      {"hx", "Mul", "head half"},
      {"out", "Mul", "p hx"}}},
    {"gelu of the fourth power",
     0,
     {{"cube", "Pow", "head n4"},
      {"cc", "Mul", "cube c"},
      {"sum", "AddV2", "head cc"},
      {"ks", "Mul", "sum k"},
      {"t", "Tanh", "ks"},
      {"p", "AddV2", "t n1"},
      {"hx", "Mul", "head half"},
      {"out", "Mul", "p hx"}}},
    {"gelu of the second power",
     0,
     {{"cube", "Pow", "head n2"},
      {"cc", "Mul", "cube c"},
      {"sum", "AddV2", "head cc"},
      {"ks", "Mul", "sum k"},
      {"t", "Tanh", "ks"},
      {"p", "AddV2", "t n1"},
      {"hx", "Mul", "head half"},
      {"out", "Mul", "p hx"}}},
    {"gelu of another factor",
     0,
     {{"cube", "Pow", "head n3"},
      {"cc", "Mul", "cube c"},
      {"sum", "AddV2", "head cc"},
      {"ks", "Mul", "sum k2"},
      {"t", "Tanh", "ks"},
      {"p", "AddV2", "t n1"},
      {"hx", "Mul", "head half"},
      {"out", "Mul", "p hx"}}},
    {"a vector less the value", 0, {{"out", "Sub", "v head"}}},
    {"the value less a vector", 1, {{"out", "Sub", "head v"}}},
};
/* The scalars that the nodes of `variants` read. */
static const struct {
    const char *name;
    double value;
} numbers[] = {{"n1", 1},   {"n2", 2},    {"n3", 3},     {"n4", 4},       {"n6", 6},
               {"m3", -3},  {"n31", 3.1}, {"half", 0.5}, {"c", 0.044715}, {"k", 0.7978845608028654},
               {"k2", 0.78}};

static void what_is_written_otherwise_gives_the_same(void **state)
{
    struct fused_graph *x = *state;
    int64_t dim[4];

    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        for (int h = 0; h < EP_N_HEADS; h++) {
            const struct variant *v = &variants[i];
            ep_add_head(x, (enum ep_head)h, 2, dim);
            ep_channels(x, "v", (enum ep_head)h, 1);
            for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
                fg_scalar(x, numbers[k].name, numbers[k].value);
            for (int k = 0; k < MOST_NODES && v->node[k][0]; k++)
                ep_step(x, v->node[k][0], v->node[k][1], v->node[k][2]);
            fg_fetch(x, "out");
            fg_compare(x, v->saved, v->what);
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fg_set_up, fg_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_activation_joins_every_head),
        TEST(what_is_written_otherwise_gives_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

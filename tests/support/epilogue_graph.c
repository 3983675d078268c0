#include "tests/support/epilogue_graph.h"

/* ---- heads ---- */

const char *const ep_head_name[EP_N_HEADS] = {"1x1",       "3x3",    "3x3 with stride", "winograd",
                                              "depthwise", "matmul", "small matmul"};
static const int channels[EP_N_HEADS] = {24, 20, 32, 32, 20, 64, 12};

int ep_add_head(struct fused_graph *x, enum ep_head h, int64_t batch, int64_t *dim)
{
    const int64_t side = h == EP_WINOGRAD ? 9 : 11;
    const int64_t ci = h == EP_WINOGRAD ? 32 : h == EP_MATMUL ? 96 : h == EP_SMALL_MATMUL ? 7 : 20;
    static const char *const filter[] = {"1x1x20x24", "3x3x20x20", "3x3x20x32", "3x3x32x32",
                                         "3x3x20x1",  "96x64",     "7x12"};

    fg_constant(x, "w", filter[h], 0);
    dim[0] = batch;
    if (h >= EP_MATMUL) {
        dim[1] = ci;
        fg_feed(x, "x", 2, dim);
        fg_node(x, "head", "MatMul", "x w", "T=float");
        dim[1] = channels[h];
        return 2;
    }
    dim[1] = dim[2] = side;
    dim[3] = ci;
    fg_feed(x, "x", 4, dim);
    fg_node(x, "head", h == EP_DEPTHWISE ? "DepthwiseConv2dNative" : "Conv2D", "x w",
            h == EP_CONV_STRIDE ? "T=float strides=[1,2,2,1] padding='SAME'"
                                : "T=float strides=[1,1,1,1] padding='SAME'");
    if (h == EP_CONV_STRIDE)
        dim[1] = dim[2] = (side + 1) / 2;
    dim[3] = channels[h];
    return 4;
}

void ep_channels(struct fused_graph *x, const char *name, enum ep_head h, float middle)
{
    char shape[16];
    snprintf(shape, sizeof shape, "%d", channels[h]);
    fg_constant(x, name, shape, middle);
}

/* ---- activations ---- */

enum { MOST_CONSTANTS = 5, MOST_NODES = 8 };

struct step {
    const char *name, *op, *inputs; /* "$" among the inputs stands for the tensor to activate */
};
struct activation {
    struct {
        const char *name;
        double value;
    } constant[MOST_CONSTANTS];
    struct step node[MOST_NODES];
};

static const struct activation activations[EP_N_ACTIVATIONS] = {
    [EP_RELU] = {.node = {{"out", "Relu", "$"}}},
    [EP_RELU6] = {.node = {{"out", "Relu6", "$"}}},
    [EP_SIGMOID] = {.node = {{"out", "Sigmoid", "$"}}},
    [EP_TANH] = {.node = {{"out", "Tanh", "$"}}},
    [EP_ELU] = {.node = {{"out", "Elu", "$"}}},
    [EP_LEAKY_RELU] = {.node = {{"out", "LeakyRelu", "$"}}},
    [EP_SWISH] = {.node = {{"s", "Sigmoid", "$"}, {"out", "Mul", "$ s"}}},
    [EP_SWISH_BETA] = {{{"beta", 1.5}},
                       {{"b", "Mul", "beta $"}, {"s", "Sigmoid", "b"}, {"out", "Mul", "$ s"}}},
    [EP_HARD_SIGMOID] = {{{"three", 3}, {"sixth", 1.0 / 6}},
                         {{"a", "AddV2", "$ three"},
                          {"r", "Relu6", "a"},
                          {"out", "Mul", "r sixth"}}},
    [EP_HARD_SWISH] = {{{"three", 3}, {"sixth", 1.0 / 6}},
                       {{"a", "AddV2", "$ three"},
                        {"r", "Relu6", "a"},
                        {"h", "Mul", "r sixth"},
                        {"out", "Mul", "$ h"}}},
    [EP_GELU] = {{{"half", 0.5}, {"root", 1.4142135623730951}, {"one", 1}},
                 {{"hx", "Mul", "half $"},
                  {"d", "RealDiv", "$ root"},
                  {"e", "Erf", "d"},
                  {"p", "AddV2", "one e"},
                  {"out", "Mul", "hx p"}}},
    [EP_GELU_KERAS3] = {{{"half", 0.5}, {"root", 0.7071067811865476}},
                        {{"hx", "Mul", "half $"},
                         {"n", "Neg", "$"},
                         {"d", "Mul", "n root"},
                         {"e", "Erfc", "d"},
                         {"out", "Mul", "hx e"}}},
    [EP_GELU_TANH] =
        {{{"half", 0.5}, {"one", 1}, {"three", 3}, {"c", 0.044715}, {"k", 0.7978845608028654}},
         {{"hx", "Mul", "half $"},
          {"cube", "Pow", "$ three"},
          {"cc", "Mul", "c cube"},
          {"sum", "AddV2", "$ cc"},
          {"ks", "Mul", "k sum"},
          {"t", "Tanh", "ks"},
          {"p", "AddV2", "one t"},
          {"out", "Mul", "hx p"}}},
};

void ep_step(struct fused_graph *x, const char *name, const char *op, const char *inputs)
{
    fg_node(x, name, op, inputs, strcmp(op, "LeakyRelu") == 0 ? "T=float alpha=0.3f" : "T=float");
}

int ep_add_activation(struct fused_graph *x, enum ep_activation kind, const char *in)
{
    const struct activation *a = &activations[kind];
    int n = 0;

    for (int k = 0; k < MOST_CONSTANTS && a->constant[k].name; k++)
        fg_scalar(x, a->constant[k].name, a->constant[k].value);
    for (; n < MOST_NODES && a->node[n].name; n++) {
        const char *pattern = a->node[n].inputs, *at = strchr(pattern, '$');
        char inputs[64];
        snprintf(inputs, sizeof inputs, "%.*s%s%s", at ? (int)(at - pattern) : 0, pattern,
                 at ? in : pattern, at ? at + 1 : "");
        ep_step(x, a->node[n].name, a->node[n].op, inputs);
    }
    return n;
}

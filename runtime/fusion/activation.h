/* The activations of an epilogue (epilogue.h). fuse_activation.c finds them;
 * kernels/fused/epilogue.c computes them. In the formulas below, `a` is the epilogue's alpha. */
#ifndef RT_ACTIVATION_H
#define RT_ACTIVATION_H

/* X(identifier, word in the attribute RT_EPILOGUE) */
#define RT_ACTIVATIONS(X)                                                                          \
    X(RELU, relu)                                                                                  \
    X(RELU6, relu6)                                                                                \
    X(SIGMOID, sigmoid)                                                                            \
    X(TANH, tanh)                                                                                  \
    X(ELU, elu)                                                                                    \
    X(LEAKY_RELU, leaky_relu)     /* `x` if `x > 0`, otherwise `a * x` */                          \
    X(SWISH, swish)               /* `x * sigmoid(a * x)` */                                       \
    X(HARD_SIGMOID, hard_sigmoid) /* `relu6(x + 3) / 6` */                                         \
    X(HARD_SWISH, hard_swish)     /* `x * hard_sigmoid(x)` */                                      \
    X(GELU, gelu)                 /* exact GELU, computed with erf or erfc */                      \
    X(GELU_TANH, gelu_tanh)       /* GELU approximated with tanh */

enum rt_activation {
    RT_ACT_NONE,
#define X(id, word) RT_ACT_##id,
    RT_ACTIVATIONS(X)
#undef X
        RT_N_ACTS
};

static inline const char *rt_activation_word(enum rt_activation a)
{
    static const char *const word[RT_N_ACTS] = {"",
#define X(id, word) #word,
                                                RT_ACTIVATIONS(X)
#undef X
    };
    return word[a];
}

#endif

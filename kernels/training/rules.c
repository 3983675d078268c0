/* The update rules, for all types, and the ops that apply them. */
#include <math.h>
#include <tgmath.h>

#include "kernels/cpu/types.h"
#include "kernels/training/apply.h"

/* ---- the loops for each type ---- */

#define PASTE(a, b) a##_##b
#define NAMED(a, b) PASTE(a, b)
#define FN(name)    NAMED(name, DT)
#define C           NAMED(KN_C, DT)
#define GET(x)      NAMED(KN_GET, DT)(x)
#define PUT(x)      NAMED(KN_PUT, DT)(x)
#define R(x)        GET(PUT(x))
#define SCALAR(k)   GET(*(const T *)u->scalar[k])
#define SQRT(x)     R(sqrt(x))
/* In half precision, TensorFlow's vectorised code rounds only the result. Its scalar code also
 * rounds the root. */
#define RSQRT(x)  R(1 / (u->inner == 1 ? SQRT(x) : sqrt(x)))
#define EXP(x)    R(exp(x))
#define POW(x, y) R(pow(x, y))
#define ABS(x)    fabs(x)
#define MAX(x, y) ((x) < (y) ? (y) : (x))
#define SIGN(x)   ((x) != (x) ? (x) : (C)(((x) > 0) - ((x) < 0)))
#define FAST

#define REAL
#define WIDE
#define DT RT_F64
#define T  double
#include "kernels/training/rule_loops.h"
#undef DT
#undef T
#undef FAST
#define FAST KN_CLONES
#define DT   RT_F32
#define T    float
#include "kernels/training/rule_loops.h"
#undef DT
#undef T
#undef WIDE
#define DT RT_BF16
#define T  struct kn_bfloat
#include "kernels/training/rule_loops.h"
#undef DT
#undef T
#undef FAST
#define FAST
#define DT RT_F16
#define T  struct kn_half
#include "kernels/training/rule_loops.h"
#undef DT
#undef T
#undef REAL
#define DT RT_C64
#define T  float _Complex
#include "kernels/training/rule_loops.h"
#undef DT
#undef T
#define DT RT_C128
#define T  double _Complex
#include "kernels/training/rule_loops.h"
#undef DT
#undef T

/* ---- the rules ---- */

#define FN_OF(dt, T, NAME) [dt] = NAME##_##dt,
#define SET_OF(dt, T, _)   | RT_T(dt)
#define RULE(NAME, LIST, N_VARS, GRAD, FLAG)                                                       \
    static const struct kn_rule NAME##_rule = {                                                    \
        .fn = {KN_FOR_##LIST(FN_OF, NAME)}, .n_vars = N_VARS, .grad = GRAD, .flag = FLAG}

#define KN_FOR_F16_WIDE(M, ...) KN_FOR_WIDE(M, __VA_ARGS__) M(RT_F16, struct kn_half, __VA_ARGS__)
#define KN_FOR_NOT_BF16(M, ...) KN_FOR_F16_WIDE(M, __VA_ARGS__) KN_FOR_COMPLEX(M, __VA_ARGS__)

RULE(gradient_descent, FLOATS_COMPLEX, 1, 2, NULL);
RULE(momentum, FLOATS_COMPLEX, 2, 3, "use_nesterov");
RULE(keras_momentum, FLOATS_COMPLEX, 2, 3, "use_nesterov");
RULE(adagrad, FLOATS_COMPLEX, 2, 3, "update_slots");
RULE(adagrad_v2, FLOATS_COMPLEX, 2, 4, "update_slots");
RULE(adadelta, FLOATS_COMPLEX, 3, 6, NULL);
RULE(rms_prop, FLOATS_COMPLEX, 3, 7, NULL);
RULE(centered_rms_prop, FLOATS_COMPLEX, 4, 8, NULL);
RULE(adam, FLOATS_COMPLEX, 3, 9, "use_nesterov");
RULE(adam_with_amsgrad, FLOATS, 4, 10, NULL);
RULE(ada_max, FLOATS, 3, 8, NULL);
RULE(add_sign, FLOATS, 2, 6, NULL);
RULE(power_sign, FLOATS, 2, 6, NULL);
RULE(ftrl, FLOATS, 3, 3, "multiply_linear_by_lr");
RULE(ftrl_v2, FLOATS, 3, 3, "multiply_linear_by_lr");
RULE(proximal_gradient_descent, WIDE, 1, 4, NULL);
RULE(proximal_adagrad, WIDE, 2, 5, NULL);
RULE(adagrad_da, WIDE, 3, 3, NULL);

/* ---- the ops ---- */

/* Defines the entry of the op NAME, which applies the rule RULE and accepts the types in LIST. The
 * other arguments are members of struct kn_apply. */
#define APPLY(SYMBOL, NAME, RULE, LIST, ...)                                                       \
    static enum rt_status run_##SYMBOL(struct rt_run *r)                                           \
    {                                                                                              \
        static const struct kn_apply op = {.rule = &RULE##_rule, __VA_ARGS__};                     \
        return kn_apply_run(r, &op);                                                               \
    }                                                                                              \
    const struct kn_entry kn_##SYMBOL = {                                                          \
        .op = {.name = NAME, .effect = RT_WRITES},                                                 \
        .kernels = KN_CPU(NAME, #SYMBOL, 0 KN_FOR_##LIST(SET_OF, ), NULL, run_##SYMBOL),           \
    }
#define PLAIN .slot = {NULL} /* for an op that needs no other members of struct kn_apply */
#define RESOURCE(RULE, NAME, LIST, ...)                                                            \
    APPLY(resource_apply_##RULE, "ResourceApply" NAME, RULE, LIST, __VA_ARGS__)
#define DENSE(RULE, NAME, LIST, ...)                                                               \
    RESOURCE(RULE, NAME, LIST, __VA_ARGS__);                                                       \
    APPLY(apply_##RULE, "Apply" NAME, RULE, LIST, .is_ref = true, __VA_ARGS__)
#define RESOURCE_SPARSE(RULE, NAME, LIST, ...)                                                     \
    APPLY(resource_sparse_apply_##RULE, "ResourceSparseApply" NAME, RULE, LIST, .is_sparse = true, \
          __VA_ARGS__)
#define SPARSE(RULE, NAME, LIST, ...)                                                              \
    RESOURCE_SPARSE(RULE, NAME, LIST, __VA_ARGS__);                                                \
    APPLY(sparse_apply_##RULE, "SparseApply" NAME, RULE, LIST, .is_sparse = true, .is_ref = true,  \
          __VA_ARGS__)

DENSE(gradient_descent, "GradientDescent", FLOATS_COMPLEX, PLAIN);
DENSE(momentum, "Momentum", FLOATS_COMPLEX, PLAIN);
SPARSE(momentum, "Momentum", FLOATS_COMPLEX, .space_after_lr = true);
RESOURCE(keras_momentum, "KerasMomentum", FLOATS_COMPLEX, PLAIN);
RESOURCE_SPARSE(keras_momentum, "KerasMomentum", FLOATS_COMPLEX, .space_after_lr = true,
                .gather_words = true);
DENSE(adagrad, "Adagrad", FLOATS_COMPLEX, PLAIN);
SPARSE(adagrad, "Adagrad", FLOATS_COMPLEX, .needs_inner = true, .needs_rank = true,
       .checks_first = true);
DENSE(adagrad_v2, "AdagradV2", FLOATS_COMPLEX, PLAIN);
SPARSE(adagrad_v2, "AdagradV2", FLOATS_COMPLEX, .needs_inner = true, .needs_rank = true,
       .checks_first = true);
DENSE(adadelta, "Adadelta", FLOATS_COMPLEX, PLAIN);
SPARSE(adadelta, "Adadelta", FLOATS_COMPLEX, .checks_first = true, .slot = {"accum_grad"});
DENSE(rms_prop, "RMSProp", FLOATS_COMPLEX, .space_after_lr = true);
SPARSE(rms_prop, "RMSProp", NOT_BF16, .checks_first = true);
DENSE(centered_rms_prop, "CenteredRMSProp", FLOATS_COMPLEX, .space_after_lr = true);
SPARSE(centered_rms_prop, "CenteredRMSProp", NOT_BF16, .checks_first = true);
DENSE(adam, "Adam", FLOATS_COMPLEX, .space_after_lr = true);
RESOURCE(adam_with_amsgrad, "AdamWithAmsgrad", FLOATS, .space_after_lr = true);
DENSE(ada_max, "AdaMax", F16_WIDE, .space_after_lr = true);
DENSE(add_sign, "AddSign", FLOATS, .check = {KN_ANY, KN_ANY, KN_SINGLE, KN_ANY});
DENSE(power_sign, "PowerSign", FLOATS, .check = {KN_ANY, KN_ANY, KN_SINGLE, KN_ANY});
DENSE(ftrl, "Ftrl", FLOATS, PLAIN);
SPARSE(ftrl, "Ftrl", FLOATS, .needs_inner = true,
       .check = {KN_POSITIVE_OR_FLAG, KN_NOT_NEGATIVE, KN_NOT_NEGATIVE, KN_NOT_POSITIVE});
DENSE(ftrl_v2, "FtrlV2", FLOATS, PLAIN);
SPARSE(ftrl_v2, "FtrlV2", FLOATS, .needs_inner = true,
       .check = {KN_POSITIVE_OR_FLAG, KN_NOT_NEGATIVE, KN_NOT_NEGATIVE, KN_NOT_NEGATIVE,
                 KN_NOT_POSITIVE});
DENSE(proximal_gradient_descent, "ProximalGradientDescent", WIDE, PLAIN);
SPARSE(proximal_gradient_descent, "ProximalGradientDescent", WIDE, .needs_inner = true);
DENSE(proximal_adagrad, "ProximalAdagrad", WIDE,
      .check = {KN_POSITIVE, KN_NOT_NEGATIVE, KN_NOT_NEGATIVE});
SPARSE(proximal_adagrad, "ProximalAdagrad", WIDE, .needs_inner = true,
       .check = {KN_POSITIVE, KN_NOT_NEGATIVE, KN_NOT_NEGATIVE});
DENSE(adagrad_da, "AdagradDA", WIDE, .slot = {"accum", "accum"});
SPARSE(adagrad_da, "AdagradDA", WIDE, .slot = {"accum", "accum"}, .needs_inner = true);

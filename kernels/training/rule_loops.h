/*
 * The loops of all update rules for one type (see rules.c). Variables of type T are computed in
 * type C. R rounds an intermediate result to T, because TensorFlow rounds after each operation.
 * SCALAR(k) is hyperparameter k. Slots have the names that TensorFlow's ops give them. If
 * TensorFlow computes the dense and the sparse form in different orders, the loops do the same, so
 * that even half-precision results are bitwise equal.
 */

FAST static void FN(gradient_descent)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0];
    const T *grads = u->grad;
    const C alpha = SCALAR(0);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++)
        vars[i] = PUT(GET(vars[i]) - R(GET(grads[i]) * alpha));
}

FAST static void FN(momentum)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *accums = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0), momentum = SCALAR(1);
    const bool nesterov = u->flag, is_dense = !u->inner;
    const C both = R(momentum * lr);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), accum = R(R(GET(accums[i]) * momentum) + g);
        const C old_step = is_dense ? R(R(accum * momentum) * lr) : R(accum * both);
        const C ahead = R(R(g * lr) + old_step), step = R(accum * lr);
        vars[i] = PUT(GET(vars[i]) - (nesterov ? ahead : step));
        accums[i] = PUT(accum);
    }
}

FAST static void FN(keras_momentum)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *accums = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0), momentum = SCALAR(1);
    const bool nesterov = u->flag;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C step = R(GET(grads[i]) * lr), accum = R(R(GET(accums[i]) * momentum) - step);
        vars[i] = PUT(GET(vars[i]) + (nesterov ? R(R(accum * momentum) - step) : accum));
        accums[i] = PUT(accum);
    }
}

FAST static void FN(adagrad)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *accums = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0);
    const bool update_slots = u->flag;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old = GET(accums[i]);
        const C accum = update_slots ? R(old + R(g * g)) : old;
        vars[i] = PUT(GET(vars[i]) - R(R(g * lr) * RSQRT(accum)));
        accums[i] = PUT(accum);
    }
}

FAST static void FN(adagrad_v2)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *accums = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0), epsilon = SCALAR(1);
    const bool update_slots = u->flag;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old = GET(accums[i]);
        const C accum = update_slots ? R(old + R(g * g)) : old;
        vars[i] = PUT(GET(vars[i]) - R(R(g * lr) / R(SQRT(accum) + epsilon)));
        accums[i] = PUT(accum);
    }
}

FAST static void FN(adadelta)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *accums = u->var[1], *updates = u->var[2];
    const T *grads = u->grad;
    const C lr = SCALAR(0), rho = SCALAR(1), epsilon = SCALAR(2), rest = R(1 - rho);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old = GET(updates[i]);
        const C accum = R(R(GET(accums[i]) * rho) + R(R(g * g) * rest));
        const C size = R(SQRT(R(old + epsilon)) * RSQRT(R(accum + epsilon)));
        const C update = R(size * g);
        vars[i] = PUT(GET(vars[i]) - R(update * lr));
        accums[i] = PUT(accum);
        updates[i] = PUT(R(old * rho) + R(R(update * update) * rest));
    }
}

FAST static void FN(rms_prop)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *mss = u->var[1], *moms = u->var[2];
    const T *grads = u->grad;
    const C lr = SCALAR(0), rho = SCALAR(1), momentum = SCALAR(2), epsilon = SCALAR(3);
    const C rest = R(1 - rho);
    const bool is_dense = !u->inner;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old = GET(mss[i]), square = R(g * g);
        const C ms =
            is_dense ? R(old + R(R(square - old) * rest)) : R(R(old * rho) + R(square * rest));
        const C mean = R(ms + epsilon);
        const C step = is_dense ? R(R(g * lr) / SQRT(mean)) : R(R(RSQRT(mean) * lr) * g);
        const C mom = R(R(GET(moms[i]) * momentum) + step);
        vars[i] = PUT(GET(vars[i]) - mom);
        mss[i] = PUT(ms);
        moms[i] = PUT(mom);
    }
}

FAST static void FN(centered_rms_prop)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *mgs = u->var[1], *mss = u->var[2], *moms = u->var[3];
    const T *grads = u->grad;
    const C lr = SCALAR(0), rho = SCALAR(1), momentum = SCALAR(2), epsilon = SCALAR(3);
    const C rest = R(1 - rho);
    const bool is_dense = !u->inner;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old_ms = GET(mss[i]), old_mg = GET(mgs[i]), square = R(g * g);
        const C ms = is_dense ? R(old_ms + R(R(square - old_ms) * rest))
                              : R(R(old_ms * rho) + R(square * rest));
        const C mg =
            is_dense ? R(old_mg + R(R(g - old_mg) * rest)) : R(R(old_mg * rho) + R(g * rest));
        const C variance =
            is_dense ? R(R(ms - R(mg * mg)) + epsilon) : R(R(ms + epsilon) - R(mg * mg));
        const C step = is_dense ? R(R(g * lr) / SQRT(variance)) : R(R(RSQRT(variance) * lr) * g);
        const C mom = R(R(GET(moms[i]) * momentum) + step);
        vars[i] = PUT(GET(vars[i]) - mom);
        mgs[i] = PUT(mg);
        mss[i] = PUT(ms);
        moms[i] = PUT(mom);
    }
}

/* Adam's step size with the correction for the bias of the first steps: Kingma and Ba, "Adam: a
 * method for stochastic optimization", the end of section 2. */
static inline C FN(adam_step)(C beta1_power, C beta2_power, C lr)
{
    return R(R(lr * SQRT(R(1 - beta2_power))) / R(1 - beta1_power));
}

FAST static void FN(adam)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *ms = u->var[1], *vs = u->var[2];
    const T *grads = u->grad;
    const C alpha = FN(adam_step)(SCALAR(0), SCALAR(1), SCALAR(2));
    const C beta1 = SCALAR(3), epsilon = SCALAR(5);
    const C rest1 = R(1 - beta1), rest2 = R(1 - SCALAR(4));
    const bool nesterov = u->flag;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old_m = GET(ms[i]), old_v = GET(vs[i]);
        const C m = R(old_m + R(R(g - old_m) * rest1));
        const C v = R(old_v + R(R(R(g * g) - old_v) * rest2));
        const C mean = nesterov ? R(R(g * rest1) + R(beta1 * m)) : m;
        vars[i] = PUT(GET(vars[i]) - R(R(mean * alpha) / R(SQRT(v) + epsilon)));
        ms[i] = PUT(m);
        vs[i] = PUT(v);
    }
}

#ifdef REAL
#include "kernels/training/real_rule_loops.h"
#endif

/*
 * The loops of the update rules that exist only for real types (see rule_loops.h). The rules inside
 * `#ifdef WIDE` exist only for float32 and float64, and do not round intermediate results.
 */

FAST static void FN(adam_with_amsgrad)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *ms = u->var[1], *vs = u->var[2], *vhats = u->var[3];
    const T *grads = u->grad;
    const C alpha = FN(adam_step)(SCALAR(0), SCALAR(1), SCALAR(2));
    const C rest1 = R(1 - SCALAR(3)), rest2 = R(1 - SCALAR(4)), epsilon = SCALAR(5);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old_m = GET(ms[i]), old_v = GET(vs[i]);
        const C m = R(old_m + R(R(g - old_m) * rest1));
        const C v = R(old_v + R(R(R(g * g) - old_v) * rest2));
        const C vhat = MAX(GET(vhats[i]), v);
        vars[i] = PUT(GET(vars[i]) - R(R(m * alpha) / R(SQRT(vhat) + epsilon)));
        ms[i] = PUT(m);
        vs[i] = PUT(v);
        vhats[i] = PUT(vhat);
    }
}

FAST static void FN(ada_max)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *ms = u->var[1], *vs = u->var[2];
    const T *grads = u->grad;
    const C step = R(SCALAR(1) / R(1 - SCALAR(0)));
    const C rest1 = R(1 - SCALAR(2)), beta2 = SCALAR(3), epsilon = SCALAR(4);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), old_m = GET(ms[i]);
        const C m = R(old_m + R(R(g - old_m) * rest1));
        const C v = MAX(R(beta2 * GET(vs[i])), ABS(g));
        vars[i] = PUT(GET(vars[i]) - R(step * R(m / R(v + epsilon))));
        ms[i] = PUT(m);
        vs[i] = PUT(v);
    }
}

FAST static void FN(add_sign)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *ms = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0), alpha = SCALAR(1), sign_decay = SCALAR(2), beta = SCALAR(3);
    const C rest = R(1 - beta);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), m = R(R(GET(ms[i]) * beta) + R(g * rest));
        const C size = R(alpha + R(sign_decay * (SIGN(g) * SIGN(m))));
        vars[i] = PUT(GET(vars[i]) - R(R(lr * size) * g));
        ms[i] = PUT(m);
    }
}

static void FN(power_sign)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *ms = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0), power = R(SCALAR(1) * SCALAR(2)), beta = SCALAR(3);
    const C rest = R(1 - beta);

    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), m = R(R(GET(ms[i]) * beta) + R(g * rest));
        const C size = EXP(R(power * (SIGN(g) * SIGN(m))));
        vars[i] = PUT(GET(vars[i]) - R(R(lr * size) * g));
        ms[i] = PUT(m);
    }
}

/*
 * FTRL-Proximal: McMahan et al., "Ad click prediction: a view from the trenches", algorithm 1.
 * `shrinkage` is the l2_shrinkage of FtrlV2, or 0. `is_root` means that lr_power is -0.5. All
 * callers pass `is_root` as a constant, so that the loop without powers vectorises.
 */
static inline __attribute__((always_inline)) void
FN(ftrl_rule)(const struct kn_update *u, int64_t n, C shrinkage, C lr_power, bool is_root)
{
    T *vars = u->var[0], *accums = u->var[1], *linears = u->var[2];
    const T *grads = u->grad;
    const C lr = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);
    /* If the attribute multiply_linear_by_lr is true, the stored linear term is multiplied by lr.
     * Otherwise, `factor` and `divisor` are 1, and do not change the results. A branch in the loop
     * would prevent vectorisation. */
    const C factor = u->flag ? lr : 1, divisor = u->flag ? 1 : lr;
    const C l1_here = R(l1 * factor), l2_here = R(2 * R(l2 * factor));
    const bool is_sparse = u->inner, is_single = u->inner == 1;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = GET(grads[i]), var = GET(vars[i]), old = GET(accums[i]);
        const C shrunk = shrinkage == 0 ? g : R(g + R(R(2 * shrinkage) * var));
        const C accum = R(old + R(g * g));
        const C power = is_root ? SQRT(accum) : POW(accum, -lr_power);
        const C rise = R(power - (is_root ? SQRT(old) : POW(old, -lr_power)));
        const C up = R(shrunk * factor), down = R(R(rise / divisor) * var);
        const C old_linear = GET(linears[i]), change = R(up - down), risen = R(old_linear + up);
        const C linear = is_single ? R(risen - down) : R(old_linear + change);
        const C quadratic = R(R(power / divisor) + l2_here);
        const C least = R(l1_here * SIGN(linear));
        const C clipped = ABS(linear) > l1_here ? least : linear;
        const C next = R(clipped - linear) / quadratic;
        vars[i] = PUT(is_sparse || ABS(linear) > l1_here ? next : 0);
        accums[i] = PUT(accum);
        linears[i] = PUT(linear);
    }
}

FAST static void FN(ftrl)(const struct kn_update *u, int64_t n)
{
    if (SCALAR(3) == (C)-0.5)
        FN(ftrl_rule)(u, n, 0, -0.5f, true);
    else
        FN(ftrl_rule)(u, n, 0, SCALAR(3), false);
}

FAST static void FN(ftrl_v2)(const struct kn_update *u, int64_t n)
{
    if (SCALAR(4) == (C)-0.5)
        FN(ftrl_rule)(u, n, SCALAR(3), -0.5f, true);
    else
        FN(ftrl_rule)(u, n, SCALAR(3), SCALAR(4), false);
}

#ifdef WIDE

/* Returns the minimiser of `(x - prox)^2 / 2 + step * (l1 |x| + l2 x^2 / 2)`: Duchi and Singer,
 * "Efficient online and batch learning using forward backward splitting", sections 3.1 to 3.3. */
static inline C FN(shrink)(C prox, C step, C l1, C l2)
{
    const C rest = MAX(ABS(prox) - step * l1, 0);
    return (l1 > 0 ? SIGN(prox) * rest : prox) / (1 + l2 * step);
}

FAST static void FN(proximal_gradient_descent)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0];
    const T *grads = u->grad;
    const C alpha = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++)
        vars[i] = FN(shrink)(vars[i] - grads[i] * alpha, alpha, l1, l2);
}

FAST static void FN(proximal_adagrad)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *accums = u->var[1];
    const T *grads = u->grad;
    const C lr = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = grads[i], accum = accums[i] + g * g, step = lr * RSQRT(accum);
        vars[i] = FN(shrink)(vars[i] - g * step, step, l1, l2);
        accums[i] = accum;
    }
}

/* Adagrad by dual averaging: Duchi, Hazan and Singer, "Adaptive subgradient methods for online
 * learning and stochastic optimization", equation 3. */
FAST static void FN(adagrad_da)(const struct kn_update *u, int64_t n)
{
    T *vars = u->var[0], *sums = u->var[1], *squares = u->var[2];
    const T *grads = u->grad;
    const C lr = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);
    const C steps = (C) * (const int64_t *)u->scalar[3];
    const bool is_row = u->inner > 1;

    KN_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const C g = grads[i], sum = sums[i] + g, square = squares[i] + g * g;
        /* In rows of a sparse gradient, TensorFlow divides the numerator and the denominator by the
         * number of steps. The result is therefore NaN before the first step. */
        const C size = is_row ? ABS(sum) / steps : ABS(sum), least = is_row ? l1 : l1 * steps;
        const C rest = l1 > 0 ? MAX(size - least, 0) : size;
        const C scale = is_row ? l2 + SQRT(square) / (steps * lr) : l2 * steps * lr + SQRT(square);
        vars[i] = -SIGN(sum) * rest * (is_row ? 1 : lr) / scale;
        sums[i] = sum;
        squares[i] = square;
    }
}

#endif

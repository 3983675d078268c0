/* Element-wise bitwise ops on integers. */
#include "kernels/math/elementwise.h"

#define AND(dt, x, y) ((x) & (y))
#define OR(dt, x, y)  ((x) | (y))
#define XOR(dt, x, y) ((x) ^ (y))
#define INVERT(dt, x) (~(x))
KN_BINARY(bitwise_and, "BitwiseAnd", INTS, AND)
KN_BINARY(bitwise_or, "BitwiseOr", INTS, OR)
KN_BINARY(bitwise_xor, "BitwiseXor", INTS, XOR)
KN_MAP(invert, "Invert", INTS, INVERT)

/* Negative shift counts, and counts beyond the last bit, are clamped to the nearest defined
 * count. */
#define LAST(T_OF)        ((int)sizeof(T_OF) * 8 - 1)
#define S_STEPS(x, y)     ((y) < 0 ? 0 : (y) > LAST(x) ? LAST(x) : (y))
#define U_STEPS(x, y)     ((y) > (unsigned)LAST(x) ? (unsigned)LAST(x) : (y))
#define S_LEFT(dt, x, y)  ((KN_U(dt))(x) << S_STEPS(x, y))
#define S_RIGHT(dt, x, y) ((x) >> S_STEPS(x, y))
#define U_LEFT(dt, x, y)  ((KN_U(dt))(x) << U_STEPS(x, y))
#define U_RIGHT(dt, x, y) ((x) >> U_STEPS(x, y))
KN_FOR_SIGNED(KN_BINARY_SAME, left_shift, S_LEFT)
KN_FOR_UNSIGNED(KN_BINARY_SAME, left_shift, U_LEFT)
KN_BINARY_OP(left_shift, "LeftShift", INTS, NULL)
KN_FOR_SIGNED(KN_BINARY_SAME, right_shift, S_RIGHT)
KN_FOR_UNSIGNED(KN_BINARY_SAME, right_shift, U_RIGHT)
KN_BINARY_OP(right_shift, "RightShift", INTS, NULL)

/* Counts the bits that are set. Negative numbers are not sign-extended first. */
#define POPULATION_COUNT(dt, T, U, NAME)                                                           \
    static void NAME##_##dt(void *dst, const void *src, int64_t n)                                 \
    {                                                                                              \
        uint8_t *d = dst;                                                                          \
        const T *s = src;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = (uint8_t)__builtin_popcountll((U)s[i]);                                         \
    }
POPULATION_COUNT(RT_I8, int8_t, uint8_t, population_count)
POPULATION_COUNT(RT_I16, int16_t, uint16_t, population_count)
POPULATION_COUNT(RT_I32, int32_t, uint32_t, population_count)
POPULATION_COUNT(RT_I64, int64_t, uint64_t, population_count)
POPULATION_COUNT(RT_U8, uint8_t, uint8_t, population_count)
POPULATION_COUNT(RT_U16, uint16_t, uint16_t, population_count)
POPULATION_COUNT(RT_U32, uint32_t, uint32_t, population_count)
POPULATION_COUNT(RT_U64, uint64_t, uint64_t, population_count)
KN_MAP_OP(population_count, "PopulationCount", INTS)

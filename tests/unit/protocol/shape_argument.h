/* SHAPE(2, 3) passes a rank and its dimensions as two arguments of a call: 2, (int64_t[]){2, 3}. */
#ifndef TESTS_UNIT_PROTOCOL_SHAPE_ARGUMENT_H
#define TESTS_UNIT_PROTOCOL_SHAPE_ARGUMENT_H

#include <stdint.h>

#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

#endif

/*
 * Includes cmocka with the headers that it needs, and defines assertions that print the message of
 * an rt_error.
 */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/status.h"

/* Asserts that `call` succeeds, and prints the error message otherwise. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        enum rt_status status_ = (call);                                                           \
        if (status_ != RT_OK)                                                                      \
            fail_msg("%s: %s", rt_status_name(status_), rt_error_text(err));                       \
    } while (0)

/* Asserts that `call` fails with `status` and that the error message contains `words`. */
#define assert_fails(call, status, err, words)                                                     \
    do {                                                                                           \
        enum rt_status status_ = (call);                                                           \
        if (status_ != (status))                                                                   \
            fail_msg("got %s (%s), not %s", rt_status_name(status_), rt_error_text(err),           \
                     rt_status_name(status));                                                      \
        if (!strstr(rt_error_text(err), (words)))                                                  \
            fail_msg("\"%s\" does not hold \"%s\"", rt_error_text(err), (words));                  \
    } while (0)

#endif

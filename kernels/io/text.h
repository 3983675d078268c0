/* Converts the names of files and saved tensors to C strings, for the ops that read and write
 * checkpoints. */
#ifndef KN_IO_TEXT_H
#define KN_IO_TEXT_H

#include <string.h>

#include "runtime/core/op.h"

/* The maximum length of a name of a file or tensor. Writing a longer name into error messages would
 * take too long. */
enum { KN_IO_MAX_TEXT = 1 << 20 };

/* Converts a string to a C string. Refuses a string of more than KN_IO_MAX_TEXT bytes, and a string
 * that contains a NUL byte, because the C string would end there and name a different file or
 * tensor. */
static inline enum rt_status kn_io_text(struct rt_run *r, const struct rt_str *s, const char *input,
                                        const char **out)
{
    *out = rt_str_data(s);
    if (s->n > KN_IO_MAX_TEXT)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %s has a name of %zu bytes, at most %d",
                       input, s->n, KN_IO_MAX_TEXT);
    if (rt_run_spend(r, &r->left, (int64_t)s->n))
        return r->err->code;
    if (strlen(*out) != s->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %s holds a NUL", input);
    return RT_OK;
}

#endif

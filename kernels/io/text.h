/* Names of files and of saved tensors, which are text here. */
#ifndef KN_IO_TEXT_H
#define KN_IO_TEXT_H

#include <string.h>

#include "runtime/core/op.h"

/* A text ends at a NUL, so a string that holds one would be taken for another: refused. */
static inline enum rt_status kn_io_text(struct rt_run *r, const struct rt_str *s, const char *input,
                                        const char **out)
{
    *out = rt_str_data(s);
    if (strlen(*out) != s->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %s holds a NUL", input);
    return RT_OK;
}

#endif

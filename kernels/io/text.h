/* What the ops that read and write checkpoints share: they convert strings that name files and
 * saved tensors to C strings, and check whether their run should end. */
#ifndef KN_IO_TEXT_H
#define KN_IO_TEXT_H

#include <string.h>

#include "runtime/core/op.h"

/* Refuses a string that contains a NUL byte, because as a C string it would end there and name a
 * different file or tensor. */
static inline enum rt_status kn_io_text(struct rt_run *r, const struct rt_str *s, const char *input,
                                        const char **out)
{
    *out = rt_str_data(s);
    if (strlen(*out) != s->n)
        return rt_fail(r->err, RT_INVALID_ARGUMENT, "Input %s holds a NUL", input);
    return RT_OK;
}

/* The `check` of a rt_checkpoint_run whose `arg` is the rt_run. */
static inline enum rt_status kn_io_check_run(void *arg, struct rt_error *err)
{
    (void)err; /* err is unused, because rt_run_check sets the run's own error */
    return rt_run_check(arg);
}

#endif

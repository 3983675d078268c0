/* Names the failed node in the error of a run, as TensorFlow does. */
#include "runtime/exec/executor.h"

#include <stdio.h>
#include <string.h>

enum rt_status rt_exec_fail_at(const struct rt_plan_step *n, struct rt_error *err)
{
    char tail[300];
    snprintf(tail, sizeof tail, "\n\t [[{{node %.250s}}]]", n->name);
    if (strstr(rt_error_text(err), "[[{{node "))
        return err->code;
    struct rt_error old = *err;
    return rt_fail(err, old.code, "%s%s", rt_error_text(&old), tail);
}

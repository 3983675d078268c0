#include "kernels/cuda/library/dnn_library.h"

#include <dlfcn.h>

#include "kernels/cuda/library/library.h"

#define LIBRARY "libcudnn.so.9"

static enum rt_status load_functions(struct dnn_library *d, struct rt_error *err)
{
#define FIND(name)                                                                                 \
    if (!kc_library_find(d->library, "cudnn" #name, &d->name))                                     \
        return rt_fail(err, RT_FAILED_PRECONDITION, "%s has no cudnn" #name, d->path);
#define X(result, name, params, args) FIND(name)
    DNN_FUNCTIONS(X)
#undef X
    FIND(GetLastErrorString)
#undef FIND
    return RT_OK;
}

enum rt_status dnn_library_open(struct dnn_library *d, struct rt_error *err)
{
    *d = (struct dnn_library){0};
    d->library = kc_library_open(LIBRARY, &d->path, err);
    if (!d->library)
        return err->code;
    enum rt_status st = load_functions(d, err);
    if (!st) {
        d->version = d->GetVersion();
        if (d->version < DNN_VERSION)
            st = rt_fail(err, RT_FAILED_PRECONDITION,
                         "%s is cuDNN %zu.%zu, but %d.%d or later is needed", d->path,
                         d->version / 10000, d->version / 100 % 100, DNN_VERSION / 10000,
                         DNN_VERSION / 100 % 100);
    }
    if (st)
        dnn_library_close(d);
    return st;
}

void dnn_library_close(struct dnn_library *d)
{
    if (d->library)
        dlclose(d->library);
    *d = (struct dnn_library){0};
}

enum rt_status dnn_fail(const struct dnn_library *d, int status, const char *what,
                        struct rt_error *err)
{
    char text[512] = "";
    d->GetLastErrorString(text, sizeof text);
    return rt_fail(err, RT_INTERNAL, "%s: %s: %s", what, d->GetErrorString(status), text);
}

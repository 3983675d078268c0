/*
 * Loads cuDNN at run time.
 *
 * Owner: the caller of dnn_library_open. Threads: the functions of the library may be called on any
 * thread, but a handle or descriptor only on one thread at a time.
 */
#ifndef KC_DNN_LIBRARY_H
#define KC_DNN_LIBRARY_H

#include "kernels/cuda/library/dnn_api.h"
#include "runtime/base/status.h"

struct dnn_library {
    void *library;
    const char *path; /* path of the loaded library; valid until dnn_library_close */
    size_t version;   /* as in DNN_VERSION */
#define X(result, name, params, args) result(*name) params;
    DNN_FUNCTIONS(X)
#undef X
    dnn_get_last_error *GetLastErrorString;
};

/* Loads libcudnn.so.9. Fails with RT_NOT_FOUND if the library is missing, and with
 * RT_FAILED_PRECONDITION if it cannot be used. */
enum rt_status dnn_library_open(struct dnn_library *d, struct rt_error *err);
/* Frees the handle of the library. Does nothing if `d` was never opened. */
void dnn_library_close(struct dnn_library *d);

/* Sets err to "`what`: NAME: TEXT", where NAME is cuDNN's name for `status`, and TEXT is cuDNN's
 * last error message. Returns RT_INTERNAL. */
enum rt_status dnn_fail(const struct dnn_library *d, int status, const char *what,
                        struct rt_error *err);

#endif

/*
 * The last errors of a model, for the web page: when, what and why. Memory is allocated at the
 * model's first error. It is bounded for a model, and by SRV_ERRORS_BYTES for all models together:
 * the errors of further models are not kept.
 *
 * Threads: any thread may add and copy errors at the same time.
 */
#ifndef SRV_LAST_ERRORS_H
#define SRV_LAST_ERRORS_H

#include <stdatomic.h>
#include <stdint.h>

#include "runtime/base/status.h"
#include "server/base/api.h"

enum {
    SRV_LAST_ERRORS = 16,      /* errors of a model that are kept */
    SRV_ERROR_TEXT = 300,      /* bytes of a text that are kept, with the ending NUL */
    SRV_ERRORS_BYTES = 8 << 20 /* bytes of the errors of all models */
};

struct srv_last_error {
    int64_t at_ms; /* time in milliseconds since 1970 */
    int64_t version;
    bool has_version; /* whether the request got as far as to a version */
    enum rt_status code;
    enum srv_api api;
    char text[SRV_ERROR_TEXT]; /* ends with "..." if it was longer */
};

struct srv_last_errors; /* NULL until the first error */

/* Keeps an error in place of the oldest one. `bytes` counts the bytes of the errors of all models.
 * The text of *e is set to `text`, shortened. */
void srv_last_errors_add(_Atomic(struct srv_last_errors *) *at, atomic_size_t *bytes,
                         struct srv_last_error *e, const char *text);
/* Copies the errors, the last one first. Returns how many there are. */
int srv_last_errors_copy(const _Atomic(struct srv_last_errors *) *at,
                         struct srv_last_error out[SRV_LAST_ERRORS]);
/* Returns the number of errors that were ever added. */
uint64_t srv_last_errors_count(const _Atomic(struct srv_last_errors *) *at);
void srv_last_errors_free(_Atomic(struct srv_last_errors *) *at, atomic_size_t *bytes);

#endif

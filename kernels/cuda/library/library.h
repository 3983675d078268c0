/* Loads a shared library that Slipway is not linked with. */
#ifndef KC_LIBRARY_H
#define KC_LIBRARY_H

#include "runtime/base/status.h"

/*
 * Loads the library `name` and returns its handle, which dlclose frees. The library itself stays in
 * memory until the process ends, because NVIDIA's libraries do not free all memory that they have
 * allocated.
 *
 * Sets *path to the path of the loaded file. The string is valid until dlclose. Returns NULL and
 * sets err if the library cannot be loaded. The error code is RT_NOT_FOUND if no file was found,
 * and otherwise RT_FAILED_PRECONDITION.
 */
void *kc_library_open(const char *name, const char **path, struct rt_error *err);

/* Sets the function pointer at `to` to the function `name` of the library. Returns false if there
 * is no such function. */
bool kc_library_find(void *library, const char *name, void *to);

#endif

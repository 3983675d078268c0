/*
 * Compares names, to find the one that a user meant. Threads: the function is pure.
 */
#ifndef SRV_EDIT_DISTANCE_H
#define SRV_EDIT_DISTANCE_H

#include <stddef.h>

enum { SRV_MAX_EDITED_NAME = 64 }; /* in bytes */

/* Returns the number of bytes that must be inserted, deleted or replaced to make `a` equal to `b`.
 * Returns INT_MAX if a name has more than SRV_MAX_EDITED_NAME bytes. */
int srv_edit_distance(const char *a, size_t n_a, const char *b);

#endif

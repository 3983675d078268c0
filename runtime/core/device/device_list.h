/*
 * A list of accelerators, as in --gpus: numbers, and UUIDs or the beginnings of UUIDs, separated by
 * commas.
 *
 * Threads: any.
 */
#ifndef RT_DEVICE_LIST_H
#define RT_DEVICE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* Fails if an item is empty, is neither a number nor a UUID, or stands twice in the list, or if
 * there are more than RT_MAX_ACCELERATORS items. */
enum rt_status rt_device_list_check(const char *list, struct rt_error *err);
size_t rt_device_item_length(const char *item);
/* Returns the item after `item`, or NULL if it is the last one. The list must have been checked. */
const char *rt_device_item_next(const char *item);
/* Returns the number that the item is, -1 if it is a UUID, or INT_MAX if the number is too large
 * for any accelerator. */
int rt_device_item_number(const char *item);
/* Returns whether the UUID of an accelerator begins with that of the item. Their prefixes, such as
 * "GPU-", may differ. */
bool rt_device_item_matches(const char *item, const char *uuid);

#endif

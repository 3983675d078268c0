/* Implements lists of accelerators (device_list.h). */
#include "runtime/core/device/device_list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/core/device.h"

enum {
    PREFIX = 4,     /* length of "GPU-" and "MIG-" */
    MAX_DIGITS = 5, /* an accelerator's number has at most so many digits */
};

size_t rt_device_item_length(const char *item)
{
    return strcspn(item, ",");
}

const char *rt_device_item_next(const char *item)
{
    item += rt_device_item_length(item);
    return *item ? item + 1 : NULL;
}

static bool is_uuid(const char *item)
{
    return strncasecmp(item, "GPU-", PREFIX) == 0 || strncasecmp(item, "MIG-", PREFIX) == 0;
}

int rt_device_item_number(const char *item)
{
    if (is_uuid(item))
        return -1;
    return rt_device_item_length(item) > MAX_DIGITS ? INT_MAX : (int)strtol(item, NULL, 10);
}

bool rt_device_item_matches(const char *item, const char *uuid)
{
    return is_uuid(item) && is_uuid(uuid) &&
           strncasecmp(uuid + PREFIX, item + PREFIX, rt_device_item_length(item) - PREFIX) == 0;
}

enum rt_status rt_device_list_check(const char *list, struct rt_error *err)
{
    int n = 0;
    for (const char *at = list; at; at = rt_device_item_next(at), n++) {
        const size_t length = rt_device_item_length(at);
        if (!length)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "'%s' has an empty item; single commas separate items", list);
        if (n == RT_MAX_ACCELERATORS)
            return rt_fail(err, RT_INVALID_ARGUMENT, "'%s' names more than %d GPUs", list,
                           RT_MAX_ACCELERATORS);
        if (!is_uuid(at) && strspn(at, "0123456789") != length)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "'%.*s' is neither the number nor the UUID of a GPU", (int)length, at);
        for (const char *before = list; before < at; before = rt_device_item_next(before))
            if (rt_device_item_length(before) == length && strncasecmp(before, at, length) == 0)
                return rt_fail(err, RT_INVALID_ARGUMENT, "'%s' names GPU %.*s twice", list,
                               (int)length, at);
    }
    return RT_OK;
}

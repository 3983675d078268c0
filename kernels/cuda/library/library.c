#include "kernels/cuda/library/library.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

void *kc_library_open(const char *name, const char **path, struct rt_error *err)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    struct link_map *map;
    *path = name;
    if (!library) {
        const char *reason = dlerror();
        rt_fail(err, strstr(reason, "No such file") ? RT_NOT_FOUND : RT_FAILED_PRECONDITION, "%s",
                reason);
    } else if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name && map->l_name[0]) {
        *path = map->l_name;
    }
    return library;
}

bool kc_library_find(void *library, const char *name, void *to)
{
    void *found = dlsym(library, name);
    if (found)
        memcpy(to, &found, sizeof found); /* ISO C cannot convert void * to a function pointer */
    return found != NULL;
}

#include "server/base/serving_map.h"

#include <stdlib.h>
#include <string.h>

struct srv_handles *srv_handles_new(int n_io_loops)
{
    const size_t bytes = (size_t)n_io_loops * sizeof(struct srv_handles);
    struct srv_handles *handles = aligned_alloc(_Alignof(struct srv_handles), bytes);

    return handles ? memset(handles, 0, bytes) : NULL;
}

/* Compares a name with the C string `s` in the order of strcmp. A name that contains a NUL is never
 * equal to `s`. */
static int compare(struct rt_span name, const char *s)
{
    size_t n = strlen(s), common = name.n < n ? name.n : n;
    int order = common ? memcmp(name.p, s, common) : 0;
    return order ? order : (name.n > n) - (name.n < n);
}

const struct srv_map_model *srv_map_model(const struct srv_map *map, struct rt_span name)
{
    int lo = 0, hi = map->n_models;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        int order = compare(name, map->models[mid].name);
        if (order == 0)
            return &map->models[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

enum rt_status srv_map_find(const struct srv_map *map, const struct srv_model_spec *spec,
                            struct srv_version **out, struct rt_error *err)
{
    const struct srv_map_model *m = srv_map_model(map, spec->name);
    bool has_version = spec->has_version;
    int64_t version = spec->version;

    *out = NULL;
    if (!has_version && spec->label.p) {
        for (int i = 0; m && i < m->n_labels && !has_version; i++) {
            has_version = compare(spec->label, m->labels[i].label) == 0;
            version = m->labels[i].version;
        }
        if (!has_version) {
            const struct rt_span label = rt_error_name(err, spec->label);
            return rt_fail(err, RT_INVALID_ARGUMENT, "Unrecognized servable version label: %.*s",
                           (int)label.n, (const char *)label.p);
        }
    }
    const struct rt_span name = rt_error_name(err, spec->name);
    if (!has_version) {
        if (!m || !m->n_versions)
            return rt_fail(err, RT_NOT_FOUND, "Servable not found for request: Latest(%.*s)",
                           (int)name.n, (const char *)name.p);
        *out = m->versions[0];
        return RT_OK;
    }
    int lo = 0, hi = m ? m->n_versions : 0;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (m->versions[mid]->version > version)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (m && lo < m->n_versions && m->versions[lo]->version == version) {
        *out = m->versions[lo];
        return RT_OK;
    }
    return rt_fail(err, RT_NOT_FOUND, "Servable not found for request: Specific(%.*s, %lld)",
                   (int)name.n, (const char *)name.p, (long long)version);
}

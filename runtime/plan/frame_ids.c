#include "runtime/plan/frame_ids.h"

/* Returns the number of the key. New keys are numbered 1, 2, 3 and so on. Returns 0 if out of
 * memory. */
static uintptr_t number_of(struct rt_map *m, const void *key, size_t n)
{
    const uintptr_t number = (uintptr_t)rt_map_getn(m, key, n);
    if (number)
        return number;
    const uintptr_t fresh = m->n + 1;
    return rt_map_putn(m, key, n, (void *)fresh) ? fresh : 0; // NOLINT(performance-no-int-to-ptr)
}

int rt_frame_id(struct rt_frame_ids *f, int parent, struct rt_span name)
{
    const uintptr_t number = number_of(&f->names, name.p ? name.p : (const void *)"", name.n);
    const int key[2] = {parent, (int)number};
    return number ? (int)number_of(&f->pairs, key, sizeof key) : 0;
}

void rt_frame_ids_clear(struct rt_frame_ids *f)
{
    rt_map_clear(&f->names);
    rt_map_clear(&f->pairs);
}

/* A model's calls by names of tensors, inside the runtime: see rt_model_make_dynamic. */
#ifndef RT_DYNAMIC_CALLABLE_H
#define RT_DYNAMIC_CALLABLE_H

struct rt_dynamic_callables;
struct rt_dynamic_callables *rt_dynamic_callables_new(void); /* NULL: out of memory */
void rt_dynamic_callables_free(struct rt_dynamic_callables *a);

#endif

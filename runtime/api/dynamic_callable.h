/* Dynamic callables: a model's calls by names of tensors, without a signature. The struct is
 * private to the runtime; rt_model_make_dynamic (saved_model.h) is what callers use. */
#ifndef RT_DYNAMIC_CALLABLE_H
#define RT_DYNAMIC_CALLABLE_H

struct rt_dynamic_callables;
struct rt_dynamic_callables *rt_dynamic_callables_new(void); /* NULL: out of memory */
void rt_dynamic_callables_free(struct rt_dynamic_callables *a);

#endif

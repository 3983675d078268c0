/* Dynamic callables are calls of a model that name tensors instead of a signature. The struct below
 * is private to the runtime; programs use rt_model_make_dynamic (saved_model.h). */
#ifndef RT_DYNAMIC_CALLABLE_H
#define RT_DYNAMIC_CALLABLE_H

struct rt_dynamic_callables;
/* makes an empty set of dynamic callables; returns NULL if out of memory */
struct rt_dynamic_callables *rt_dynamic_callables_new(void);
void rt_dynamic_callables_free(struct rt_dynamic_callables *a);

#endif

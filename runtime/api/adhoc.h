/* A model's calls by names of tensors, inside the runtime: see rt_model_make_adhoc. */
#ifndef RT_ADHOC_H
#define RT_ADHOC_H

struct rt_adhoc_calls;
struct rt_adhoc_calls *rt_adhoc_new(void); /* NULL: out of memory */
void rt_adhoc_free(struct rt_adhoc_calls *a);

#endif

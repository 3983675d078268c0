/*
 * Objects: the elements of resource and variant tensors, as variables, tables and tensor lists.
 *
 * Owner: counted by references; an object is freed with its last one.
 * Threads: the count is atomic. What an object holds is guarded as its type says.
 */
#ifndef RT_OBJECT_H
#define RT_OBJECT_H

#include <stdatomic.h>

/* An element of a resource or variant tensor is a pointer to an rt_object, with a reference, or
 * NULL. A type of objects has a struct whose first member is the rt_object. */
struct rt_object;
struct rt_object_type {
    const char *name; /* "variable", "hash table", "tensor list" */
    void (*free)(struct rt_object *o);
};
struct rt_object {
    const struct rt_object_type *type;
    struct rt_object *next_dead; /* used by rt_object_unref only */
    atomic_int refs;
};
void rt_object_init(struct rt_object *o, const struct rt_object_type *type); /* one reference */
struct rt_object *rt_object_ref(struct rt_object *o);                        /* NULL is fine */
void rt_object_unref(struct rt_object *o);                                   /* NULL is fine */

#endif

/*
 * Objects are the elements of resource and variant tensors, such as variables, tables and tensor
 * lists.
 *
 * Owner: an object has a reference count; dropping the last reference frees it. Threads: the
 * reference count is atomic. Each type of object determines how its contents are guarded.
 */
#ifndef RT_OBJECT_H
#define RT_OBJECT_H

#include <stdatomic.h>

/* An element of a resource or variant tensor is NULL or a counted reference to an rt_object. Each
 * type of object is a struct whose first member is an rt_object. */
struct rt_object;
struct rt_object_type {
    /* name of the object type, such as "variable", "hash table" or "tensor list" */
    const char *name;
    void (*free)(struct rt_object *o);
};
struct rt_object {
    const struct rt_object_type *type;
    struct rt_object *next_dead; /* link in a list of dead objects; used only by rt_object_unref */
    atomic_int refs;
};
/* makes an object with one reference */
void rt_object_init(struct rt_object *o, const struct rt_object_type *type);
struct rt_object *rt_object_ref(struct rt_object *o); /* returns NULL if `o` is NULL */
void rt_object_unref(struct rt_object *o);            /* does nothing if `o` is NULL */

#endif

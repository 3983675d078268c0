/*
 * Items of the session's containers of tensors: queues, stages and barriers. An item is a tuple of
 * tensors. The session's state counts the memory of the tensors (runtime/session/state.h).
 *
 * Owner: the container that holds the item, or the run that makes or takes it. Threads: an item is
 * used by one thread at a time; its container's lock guards the lists.
 */
#ifndef KN_QUEUE_ITEMS_H
#define KN_QUEUE_ITEMS_H

#include "kernels/array/array.h"
#include "kernels/entry.h"
#include "kernels/list/list.h"
#include "runtime/base/thread.h"
#include "runtime/session/state.h"

struct kn_item {
    struct kn_item *next;
    int n; /* number of tensors */
    struct rt_tensor part[];
};
/* A list of items. A zeroed struct is an empty list. */
struct kn_items {
    struct kn_item *first, *last;
    int64_t n;
};

/* Returns an item of n empty tensors, or NULL with the reason in r->err. */
struct kn_item *kn_item_new(struct rt_run *r, int n);
void kn_item_free(struct kn_item *i); /* `i` may be NULL */
void kn_items_push(struct kn_items *l, struct kn_item *i);
/* Removes the first item. The list must not be empty. */
struct kn_item *kn_items_pop(struct kn_items *l);
/* Moves all items of `from` to the front of `l`. */
void kn_items_restore(struct kn_items *l, struct kn_items *from);
void kn_items_clear(struct kn_items *l); /* frees all items */

/* Makes an item of the node's inputs, beginning with input `first`. */
enum rt_status kn_item_from_inputs(struct rt_run *r, int first, struct kn_item **out);
/* Moves the tensors of the item to the node's outputs, beginning with output `first`. */
void kn_item_to_outputs(struct rt_run *r, int first, struct kn_item *i);
/*
 * Sets output k to component `part` of the n items of the list, stacked along a new dimension 0.
 * Items that are smaller than the largest one are padded with zeros or empty strings.
 *
 * If there are no items, `shape` is the shape of the output's rows, and its unknown dimensions
 * become 0.
 */
enum rt_status kn_items_stack(struct rt_run *r, int k, const struct kn_items *l, int part,
                              const struct rt_shape *shape);

/* Returns the object in input 0 if its type is `type`. Otherwise returns NULL and writes the reason
 * to r->err. The message calls the object `what`. */
struct rt_object *kn_resource_of(struct rt_run *r, const struct rt_object_type *type,
                                 const char *what);
/* Writes the names of n types to `buf`, separated by ", ". */
const char *kn_types_text(char *buf, size_t size, const uint8_t *types, size_t n);
/* Writes a list of shapes to `buf`, like "[[2], []]". */
const char *kn_shapes_text(char *buf, size_t size, const struct rt_shape *shape, size_t n);
/*
 * Fails if the node's types differ from the n types of a resource. The node's types are those of
 * its inputs from index `in` on, and of its outputs from index `out` on. An index of -1 means that
 * there are no such inputs or outputs. `first` names the types of the inputs before index `in`, as
 * TensorFlow's message does.
 */
enum rt_status kn_check_signature(struct rt_run *r, const char *first, int in, int out,
                                  const uint8_t *types, int n);

#endif

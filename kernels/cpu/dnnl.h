/*
 * Wraps oneDNN so that several threads can use it safely. Primitives use scratch memory from the
 * caller, because threads that share the library's own scratchpad get wrong results. Primitives are
 * created and executed by threads whose OpenMP width is 1, because oneDNN reads the width both at
 * creation and at execution. The library's process-wide cache lets equal primitives share their
 * code as long as one of them exists.
 *
 * Threads: any number of threads may execute a primitive, each with its own scratch memory.
 */
#ifndef KN_CPU_DNNL_H
#define KN_CPU_DNNL_H

#include <dnnl.h>

#include "runtime/core/op.h"

enum { KN_DNNL_ARGS = 8 };

struct kn_dnnl_idle;

struct kn_dnnl {
    dnnl_primitive_t prim;     /* the primitive, or NULL until it is created */
    struct kn_dnnl_idle *idle; /* sets of arguments that earlier executions have left for reuse */
    size_t scratch_bytes;
    int n; /* number of arguments, not counting the scratchpad */
    int arg[KN_DNNL_ARGS];
    dnnl_memory_desc_t md[KN_DNNL_ARGS];
    dnnl_memory_desc_t scratch;
};

/* Returns oneDNN's CPU engine, or NULL if oneDNN could not be initialised. The call prepares the
 * calling thread for oneDNN, so each thread must call this function before any other function of
 * oneDNN. */
dnnl_engine_t kn_dnnl_engine(void);
/* Creates attributes for primitives that use scratch memory from the caller. */
dnnl_status_t kn_dnnl_attr(dnnl_primitive_attr_t *out);
enum rt_status kn_dnnl_fail(struct rt_error *err, dnnl_status_t s, const char *what);

/*
 * Creates p->prim from an op descriptor and sets its scratch size. If `attr` is NULL, the
 * attributes are those of kn_dnnl_attr. A primitive that oneDNN implements only by slow reference
 * code is refused as unimplemented. The caller sets n, arg and md, and uses kn_dnnl_md for memory
 * layouts that the descriptor left open.
 */
dnnl_status_t kn_dnnl_make(struct kn_dnnl *p, const void *op_desc, dnnl_primitive_attr_t attr);
dnnl_memory_desc_t kn_dnnl_md(const struct kn_dnnl *p, int arg);
void kn_dnnl_clear(struct kn_dnnl *p);
/* Executes the primitive. data[i] points to the memory of arg[i]. Inputs are not modified. */
enum rt_status kn_dnnl_run(const struct kn_dnnl *p, const void *const *data, void *scratch,
                           struct rt_error *err, const char *what);
/* Returns the number of neighbouring indices of dimension `dim` that a memory layout blocks
 * together, or 0 if the layout is not a simple blocked one. */
int64_t kn_dnnl_block(const dnnl_memory_desc_t *md, int dim);
/* Describes the part of packed memory with the indices [from, from + n) of `dim`, where `from` is
 * a multiple of kn_dnnl_block. Sets the part's memory layout and returns its offset in bytes. */
size_t kn_dnnl_slice(const dnnl_memory_desc_t *whole, int dim, int64_t from, int64_t n,
                     dnnl_memory_desc_t *slice);
/* Creates a primitive that copies between memory layouts. Its arguments are the source and the
 * destination. */
dnnl_status_t kn_dnnl_make_reorder(struct kn_dnnl *p, const dnnl_memory_desc_t *from,
                                   const dnnl_memory_desc_t *to);
/* Copies one tensor from one memory layout and type to another. The function creates a primitive
 * and destroys it after the copy. */
enum rt_status kn_dnnl_reorder(const dnnl_memory_desc_t *from, const void *src,
                               const dnnl_memory_desc_t *to, void *dst, struct rt_error *err);

#endif

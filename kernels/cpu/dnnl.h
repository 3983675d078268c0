/*
 * oneDNN, with the rules that keep it correct under our threads in one place.
 *
 * A primitive is made with scratch memory of the caller's, because the library's own is shared
 * between threads and gives wrong results. It is made and run by threads whose OpenMP width is 1,
 * because the width is fixed when it is made, and again when it runs. The library's process-wide
 * cache lets equal primitives share their code as long as one of them exists.
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
    dnnl_primitive_t prim;     /* NULL: the primitive is not made */
    struct kn_dnnl_idle *idle; /* sets of arguments that earlier executions left for later ones */
    size_t scratch_bytes;
    int n; /* number of arguments without the scratchpad */
    int arg[KN_DNNL_ARGS];
    dnnl_memory_desc_t md[KN_DNNL_ARGS];
    dnnl_memory_desc_t scratch;
};

/* The CPU's engine. The call prepares the calling thread for the library, so it comes before all
 * others. NULL: the library could not start. */
dnnl_engine_t kn_dnnl_engine(void);
/* Makes attributes for primitives that use the caller's scratch memory. */
dnnl_status_t kn_dnnl_attr(dnnl_primitive_attr_t *out);
enum rt_status kn_dnnl_fail(struct rt_error *err, dnnl_status_t s, const char *what);

/*
 * Makes p->prim from an op descriptor and sets its scratch size; `attr` may be NULL. A primitive
 * for which the library only has slow reference code is refused as unimplemented. The caller fills
 * in n, arg and md, using kn_dnnl_md for memory layouts that were left open.
 */
dnnl_status_t kn_dnnl_make(struct kn_dnnl *p, const void *op_desc, dnnl_primitive_attr_t attr);
dnnl_memory_desc_t kn_dnnl_md(const struct kn_dnnl *p, int arg);
void kn_dnnl_clear(struct kn_dnnl *p);
/* Executes the primitive: data[i] is the memory of arg[i]; inputs are not written. */
enum rt_status kn_dnnl_run(const struct kn_dnnl *p, const void *const *data, void *scratch,
                           struct rt_error *err, const char *what);
/* The number of neighbouring indices of dimension `dim` that a memory layout blocks together; 0:
 * the layout is not a simple blocked one. */
int64_t kn_dnnl_block(const dnnl_memory_desc_t *md, int dim);
/* Describes the part of packed bytes that holds indices [from, from + n) of `dim`, where `from` is
 * a multiple of kn_dnnl_block: sets its memory layout and returns its offset in bytes. */
size_t kn_dnnl_slice(const dnnl_memory_desc_t *whole, int dim, int64_t from, int64_t n,
                     dnnl_memory_desc_t *slice);
/* Makes a primitive that copies between memory layouts; its data: source, destination. */
dnnl_status_t kn_dnnl_make_reorder(struct kn_dnnl *p, const dnnl_memory_desc_t *from,
                                   const dnnl_memory_desc_t *to);
/* Copies one tensor once between memory layouts (and types). */
enum rt_status kn_dnnl_reorder(const dnnl_memory_desc_t *from, const void *src,
                               const dnnl_memory_desc_t *to, void *dst, struct rt_error *err);

#endif

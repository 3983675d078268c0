/*
 * oneDNN, with the rules that keep it right under our threads in one place.
 *
 * A primitive is made with scratch memory of the caller's (the library's own is shared between
 * threads and gives wrong answers) and by a thread of OpenMP width 1 (the width is fixed when it
 * is made, and again when it runs). The library's process-wide cache lets those that are alike
 * share their code, as long as somebody has one.
 *
 * Threads: a made primitive may be executed by any number of threads, each with its own scratch.
 */
#ifndef KN_CPU_DNNL_H
#define KN_CPU_DNNL_H

#include <dnnl.h>

#include "runtime/core/op.h"

enum { KN_DNNL_ARGS = 8 };

struct kn_dnnl_idle;

struct kn_dnnl {
    dnnl_primitive_t prim;     /* NULL: not made */
    struct kn_dnnl_idle *idle; /* arguments that earlier executions left for the next ones */
    size_t scratch_bytes;
    int n; /* arguments, the scratchpad not counted */
    int arg[KN_DNNL_ARGS];
    dnnl_memory_desc_t md[KN_DNNL_ARGS];
    dnnl_memory_desc_t scratch;
};

/* The CPU's engine. Makes the calling thread fit to use the library; call it first. NULL: the
 * library would not start. */
dnnl_engine_t kn_dnnl_engine(void);
/* Attributes with the caller's scratch memory. */
dnnl_status_t kn_dnnl_attr(dnnl_primitive_attr_t *out);
enum rt_status kn_dnnl_fail(struct rt_error *err, dnnl_status_t s, const char *what);

/*
 * Makes p->prim from an op descriptor and takes up its scratch size; `attr` may be NULL. A
 * primitive that the library only has as its slow reference code counts as unimplemented. The
 * caller fills in n, arg and md, asking kn_dnnl_md for layouts that were left open.
 */
dnnl_status_t kn_dnnl_make(struct kn_dnnl *p, const void *op_desc, dnnl_primitive_attr_t attr);
dnnl_memory_desc_t kn_dnnl_md(const struct kn_dnnl *p, int arg);
void kn_dnnl_clear(struct kn_dnnl *p);
/* data[i] for arg[i]; what the primitive only reads is not written. */
enum rt_status kn_dnnl_run(const struct kn_dnnl *p, const void *const *data, void *scratch,
                           struct rt_error *err, const char *what);
/* How many indices of dimension `dim` stand together in a layout; 0: it is not that simple. */
int64_t kn_dnnl_block(const dnnl_memory_desc_t *md, int dim);
/* The part of packed bytes that is indices [from, from + n) of `dim`, `from` a multiple of that
 * block: its layout, and where it begins in bytes. */
size_t kn_dnnl_slice(const dnnl_memory_desc_t *whole, int dim, int64_t from, int64_t n,
                     dnnl_memory_desc_t *slice);
/* A primitive that copies between layouts; data: source, destination. */
dnnl_status_t kn_dnnl_make_reorder(struct kn_dnnl *p, const dnnl_memory_desc_t *from,
                                   const dnnl_memory_desc_t *to);
/* Copies once between layouts (and types) of the same logical tensor. */
enum rt_status kn_dnnl_reorder(const dnnl_memory_desc_t *from, const void *src,
                               const dnnl_memory_desc_t *to, void *dst, struct rt_error *err);

#endif

/*
 * The contract of kernels: how an op is computed, for one device and a set of types. `prepare` sees
 * exact shapes, and chooses, packs constants and asks for scratch memory; `run` computes (run.h).
 *
 * Owner: a kernel is static data. What prepare makes lives in the caller's prepared kernel, until
 * its `release`.
 * Threads: takes, can and prepare are pure functions. run may be called in many contexts at the
 * same time with one state, and starts no threads.
 */
#ifndef RT_KERNEL_H
#define RT_KERNEL_H

#include "runtime/core/infer.h"
#include "runtime/core/run.h"
#include "runtime/core/tuning.h"

struct rt_pack;
struct rt_prepared;

/* ---- preparing ---- */

struct rt_prep {
    const struct rt_node *node;
    int n_in, n_out;
    /* Every input has an exact shape. An input has a `value` if it is a constant of the plan, which
     * may be lazy (then only rt_prep_pack may read it), or if it is in shape_in. A state may depend
     * on the values of inputs in shape_in: states are kept by shapes and these values. */
    const struct rt_info *in, *out; /* out: what rt_op.infer returned */
    size_t scratch_bytes;           /* set by prepare: size of run's scratch memory */
    void (*release)(void *state);   /* set by prepare if *state owns more than memory of
                                       rt_prep_alloc; called after a failure of prepare too */
    const struct rt_tuning *tuning;
    struct rt_prepared *self; /* used by the runtime only */
    struct rt_error *err;
};
/* n zeroed bytes that live as long as the state. NULL: out of memory, and *p->err is filled. */
void *rt_prep_alloc(struct rt_prep *p, size_t n);
/*
 * Packing: *out is the packed form of constant input `input`. It is made once per session and
 * shared by all plans that use one constant with equal format bytes (`fmt`). `fill` writes `bytes`
 * bytes from the plain row-major tensor, which is loaded for the call and dropped afterwards unless
 * others hold it. *out lives as long as the state. RT_OK with *out == NULL: the input is not a
 * constant.
 */
enum rt_status rt_prep_pack(struct rt_prep *p, int input, const void *fmt, size_t fmt_len,
                            size_t bytes,
                            enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                   const void *fmt, struct rt_error *err),
                            const struct rt_pack **out);
const void *rt_pack_data(const struct rt_pack *k); /* 64-byte aligned */

/* ---- the kernel ---- */

enum {
    RT_K_LAZY = 1,  /* the kernel accepts lazy inputs (assignments, Identity) */
    RT_K_VIEWS = 2, /* run makes the outputs, mostly views of inputs: none are allocated before */
    RT_K_TIMED = 4, /* of the kernels of an op that have this flag and can run a node, timing may
                       choose (runtime/select/choose.c); all others are chosen by `can` */
};

struct rt_kernel {
    const char *op, *device, *name; /* name: "conv2d.onednn", for logs and tests that force it */
    const char *type_attr;          /* the type attribute that `types` restricts; NULL: "T" */
    uint64_t types;                 /* accepted types of that attribute; 0: any */
    /* A second restricted attribute, for a kernel that accepts only some pairs of types. */
    const char *and_type_attr;
    uint64_t and_types;
    /* Whether the kernel accepts the node's types, where two attributes do not suffice to say. May
     * be NULL. */
    bool (*takes)(const struct rt_node *n);
    uint64_t host_in, host_out; /* bit k: input or output k stays in host memory */
    unsigned flags;
    /* The kernel's rank for this node: the highest is tried first; 0: it cannot run the node. NULL:
     * 1. If prepare returns RT_FAILED_PRECONDITION, the next kernel is tried. */
    int (*can)(const struct rt_prep *p);
    enum rt_status (*prepare)(struct rt_prep *p, void **state); /* may be NULL */
    enum rt_status (*run)(struct rt_run *r);
};

#endif

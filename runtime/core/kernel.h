/*
 * The contract of kernels. A kernel computes an op, on one device and for a set of types. `prepare`
 * receives exact shapes; it chooses an algorithm, packs constants and requests scratch memory.
 * `run` does the computation (run.h).
 *
 * Owner: a kernel is static data. The state that `prepare` makes belongs to the caller's prepared
 * kernel and is freed with it. Threads: `takes`, `can` and `prepare` are pure functions. `run` may
 * be called with one state in many contexts at the same time, and starts no threads.
 */
#ifndef RT_KERNEL_H
#define RT_KERNEL_H

#include "runtime/core/infer.h"
#include "runtime/core/run.h"
#include "runtime/core/tuning.h"

struct rt_device;
struct rt_pack;
struct rt_prepared;

/* ---- preparing ---- */

struct rt_prep {
    const struct rt_node *node;
    int n_in, n_out;
    /* The inputs and outputs. Every input has an exact shape. An input has a `value` if it is a
     * constant of the plan or is in shape_in. A constant may be lazy; only rt_prep_pack may read a
     * lazy value. The kernel's state may depend on the values of inputs in shape_in, because a
     * cached state is found by these values and the shapes. */
    const struct rt_info *in, *out; /* `out` is the result of rt_op.infer */
    /* size, in bytes, of the scratch memory that `run` needs; set by `prepare` */
    size_t scratch_bytes;
    /* Frees everything in *state that rt_prep_alloc did not allocate. `prepare` sets `release` if
     * there is anything to free. `release` is called even after `prepare` has failed. */
    void (*release)(void *state);
    const struct rt_tuning *tuning;
    struct rt_device *device; /* accelerator that is to run the kernel, or NULL for the CPU */
    struct rt_prepared *self; /* private to the runtime */
    struct rt_error *err;
};
/* Returns n zeroed bytes that live as long as the state. Returns NULL if memory runs out, with the
 * reason in *p->err. */
void *rt_prep_alloc(struct rt_prep *p, size_t n);
/*
 * Sets *out to the packed form of constant input `input`. A constant is packed once per session and
 * format (the bytes `fmt`), and all plans share the result. `fill` writes `bytes` bytes from the
 * unpacked row-major tensor. The tensor is loaded for the call and released afterwards. *out lives
 * as long as the state. If the input is not a constant, returns RT_OK and sets *out to NULL.
 */
enum rt_status rt_prep_pack(struct rt_prep *p, int input, const void *fmt, size_t fmt_len,
                            size_t bytes,
                            enum rt_status (*fill)(const struct rt_tensor *src, void *dst,
                                                   const void *fmt, struct rt_error *err),
                            const struct rt_pack **out);
/* returns the packed bytes, aligned to 64 bytes */
const void *rt_pack_data(const struct rt_pack *k);

/* ---- the kernel ---- */

enum {
    /* The kernel accepts lazy inputs, as the kernels of assignments and of Identity do. */
    RT_K_LAZY = 1,
    /* `run` makes the outputs, mostly as views of inputs. The runtime allocates no output. */
    RT_K_VIEWS = 2,
    /* Autotuning may choose among the kernels that have this flag and can run the node
     * (runtime/select/choose.c). Among kernels without the flag, the results of `can` decide. */
    RT_K_TIMED = 4,
};

struct rt_kernel {
    /* `name`, such as "conv2d.onednn", appears in logs. Tests use it to force a kernel. */
    const char *op, *device, *name;
    const char *type_attr; /* type attribute that `types` restricts; NULL means "T" */
    /* set of types accepted for type_attr; 0 means any type */
    uint64_t types;
    /* A second type attribute and its set of types, for a kernel that accepts only certain pairs of
     * types. */
    const char *and_type_attr;
    uint64_t and_types;
    /* Returns whether the kernel accepts the node's types. NULL if the two type attributes describe
     * these types completely. */
    bool (*takes)(const struct rt_node *n);
    uint64_t host_in, host_out; /* bit k is set if input or output k must be in host memory */
    unsigned flags;
    /* Returns 0 if the kernel cannot run the node, and otherwise the kernel's rank. The kernel with
     * the highest rank is tried first. If its `prepare` returns RT_FAILED_PRECONDITION, the next
     * kernel is tried. If `can` is NULL, the rank is 1. */
    int (*can)(const struct rt_prep *p);
    enum rt_status (*prepare)(struct rt_prep *p, void **state); /* may be NULL */
    enum rt_status (*run)(struct rt_run *r);
    /* Sets err for an invalid input that the kernel's code on the accelerator has found during a
     * run. The kernel defines the meaning of `value` and `position`. `explain` is NULL if the code
     * checks nothing. */
    enum rt_status (*explain)(const struct rt_run *r, int64_t position, int64_t value,
                              struct rt_error *err);
};

#endif

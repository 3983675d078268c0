/*
 * A region is a sequence of consecutive kernels of a specialisation that run on the session's
 * accelerator without involving the host. Its activations are in the block of a stream
 * (core/device.h). They are valid for one run of the region. At the start of a run, the values that
 * the region reads from outside are copied into the block. At the end, each value that is needed
 * outside is copied to the host, to a separate tensor in the accelerator's memory
 * (core/device/device_tensor.h), or to both. A tensor that is only in the accelerator's memory is
 * copied to the host when the host needs its bytes. A later region reads the tensor on the
 * accelerator. The run enqueues all copies and kernels and then waits once.
 *
 * Owner: the specialisation. Threads: a region is immutable, except for `bound`. Element k of
 * `bound` is used only by the run that has taken stream k.
 */
#ifndef RT_DEVICE_REGION_H
#define RT_DEVICE_REGION_H

#include "runtime/core/device/device_memory.h"

struct rt_extent;
struct rt_prepared;
struct rt_session;
struct rt_specialisation;
struct rt_upload;

struct rt_region_kernel {
    int node;
    struct rt_prepared *prepared;
    int in, out; /* indexes of the first input argument and the first output argument */
    int scratch; /* index of the scratch memory's extent, or -1 if there is none */
};

/* A value that enters or leaves a region. */
struct rt_crossing {
    /* For an input, the index of the specialisation's argument that holds the value. For an output,
     * the index of the region's argument from which the value is copied. */
    int arg;
    int value;  /* for an output, the value that becomes a separate tensor; otherwise -1 */
    int extent; /* for an input, the index of the extent in the block; otherwise -1 */
    /* For an output: whether its bytes are copied to the host, and whether they stay in the
     * accelerator's memory. At least one of the flags is set. */
    bool to_host, stays;
};

enum rt_region_arg_kind {
    RT_REGION_ACTIVATION, /* `data` is the index of an extent of the specialisation */
    RT_REGION_CONST,      /* `data` is an address in the accelerator's memory */
    /* `data` is the address in host memory of a constant that the kernel reads on the host */
    RT_REGION_HOST,
};

/* The steps and arguments of a region. Their pointers refer to the block of one stream. */
struct rt_bound_region {
    const void *memory;
    struct rt_region_steps steps;
    struct rt_tensor *arg;
};

struct rt_region {
    int n_kernels;
    struct rt_region_kernel *kernel;
    int n_args;
    struct rt_tensor *arg;
    uint8_t *arg_kind;
    int n_in, n_out;
    struct rt_crossing *in, *out;
    int n_uploads; /* number of constants in `upload`; these belong to this region alone */
    struct rt_device_memory *upload;
    int n_shared; /* number of references to uploads in `shared` (select/upload.h) */
    struct rt_upload **shared;
    struct rt_bound_region bound[RT_MAX_STREAMS];
};

/* Frees everything that the region owns (exec/specialisation.c). `d` is the accelerator of session
 * `s`. */
void rt_region_clear(struct rt_region *r, struct rt_session *s, struct rt_device *d);

#endif

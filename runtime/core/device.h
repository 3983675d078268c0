/*
 * An accelerator is a device with memory of its own, which the host cannot access. It runs regions
 * (plan/device_region.h), that is, consecutive steps of a specialisation whose shapes are known.
 * All other nodes run on the CPU.
 *
 * Work is enqueued on the accelerator's streams. A stream does its work in order, while the host
 * continues. A stream has one block of memory, which holds the activations of the region that uses
 * the stream. All sessions that use the accelerator share its streams (core/device_stream.h). Its
 * memory is allocated through core/device_memory.h, which limits and counts it.
 *
 * Owner: the module that defines the accelerator, which must outlive all sessions that use it.
 * Threads: the functions of a stream are called by the run that has taken the stream, and all other
 * functions on any thread.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/core/kernel.h"

/* the device of kernels that run on the host (rt_kernel.device) */
#define RT_CPU "CPU"

/* A step of a region, bound to the block of a stream. The pointers in `run` to inputs, outputs and
 * scratch memory are addresses in the accelerator's memory. */
struct rt_region_step {
    const struct rt_kernel *kernel;
    struct rt_run run;
};

/* Steps that are always run together, on the same stream and at the same addresses. */
struct rt_region_steps {
    struct rt_region_step *step;
    int n;
    /* What the accelerator keeps in order to run the steps again faster, such as a CUDA graph. NULL
     * before the first run. Freed by `forget`. */
    void *recorded;
};

enum rt_copy_kind {
    RT_COPY_IN,    /* from the host to the accelerator */
    RT_COPY_OUT,   /* from the accelerator to the host */
    RT_COPY_WITHIN /* within the accelerator's memory */
};

enum { RT_MAX_STREAMS = 8, RT_MAX_ACCELERATORS = 16 };

/* What an accelerator has done since it was opened. */
struct rt_device_totals {
    _Atomic int64_t regions;    /* number of regions that ran */
    _Atomic int64_t busy_ns;    /* time for which runs held streams, of all streams together */
    _Atomic int64_t waiting_ns; /* time for which runs waited for a stream */
    _Atomic int64_t recorded;   /* number of sequences of steps that were recorded */
    _Atomic int64_t bytes_in, bytes_out; /* bytes copied from and to the host by regions */
};

/* The state of an accelerator as its driver reports it; -1 stands for what is not known. */
struct rt_device_sensors {
    int64_t free_bytes, total_bytes; /* memory of the accelerator, whoever uses it */
    int utilisation_percent;         /* part of the time in which it was busy recently */
    int temperature_celsius;
};

struct rt_device {
    const char *type; /* name such as "GPU", used by kernels and the device strings of graphs */
    int index;
    const char *model,
        *uuid;     /* name of the product and unique identifier, for people; may be NULL */
    int n_streams; /* between 1 and RT_MAX_STREAMS */
    void *state;   /* data of the module that defines the accelerator */
    /* Returns memory of the accelerator, aligned to 64 bytes, or NULL if there is not enough. */
    void *(*alloc)(struct rt_device *d, size_t bytes);
    void (*free)(struct rt_device *d, void *p);
    /* Copies bytes. The copy is complete when the function returns. */
    enum rt_status (*copy)(struct rt_device *d, enum rt_copy_kind kind, void *to, const void *from,
                           size_t bytes, struct rt_error *err);
    /* Enqueues a copy on stream `stream`. Memory of the host must stay valid until `wait`
     * returns. */
    enum rt_status (*enqueue_copy)(struct rt_device *d, int stream, enum rt_copy_kind kind,
                                   void *to, const void *from, size_t bytes, struct rt_error *err);
    /* Enqueues the steps on stream `stream`, in order. If a step fails, sets *failed to it. */
    enum rt_status (*enqueue_steps)(struct rt_device *d, int stream, struct rt_region_steps *steps,
                                    const struct rt_region_step **failed, struct rt_error *err);
    /* Waits until all work that was enqueued on stream `stream` has been done. If a step failed,
     * sets *failed to it. Must be called even if enqueuing has failed, before the stream is given
     * back. */
    enum rt_status (*wait)(struct rt_device *d, int stream, const struct rt_region_step **failed,
                           struct rt_error *err);
    /* Frees steps->recorded, which may be NULL. The steps must not be running. */
    void (*forget)(struct rt_device *d, struct rt_region_steps *steps);
    /* Reads the sensors. NULL if the accelerator has none. */
    void (*sense)(struct rt_device *d, struct rt_device_sensors *out);
    struct rt_device_totals totals;
    /* Set when the accelerator has failed and cannot be used any more. All later work on it fails
     * with RT_UNAVAILABLE, and runs use the CPU. */
    _Atomic bool has_failed;
    /* Called once, on any thread, when the accelerator fails, or NULL. `reason` is valid during the
     * call. Set when the accelerator is opened. */
    void (*on_failure)(struct rt_device *d, const char *reason, void *arg);
    void *on_failure_arg;
    /* The following are made by rt_device_begin. */
    struct rt_device_streams *streams; /* private to device_stream.c */
    struct rt_device_budget *budget;   /* private to device_memory.c */
};

/* The accelerators of this machine that the process uses. */
struct rt_accelerators {
    int n;
    struct rt_device *device[RT_MAX_ACCELERATORS];
    void *state; /* data of the module that defines the accelerators */
    /* Closes the accelerators, which no session may be using. NULL if there is nothing to close. */
    void (*close)(struct rt_accelerators *a);
};
struct rt_accelerator_options {
    /* "none", "auto" (every usable accelerator), "all" (every accelerator) or a list such as "0,2".
     * With "auto", failures are logged, and there may be no accelerator. With "all" or a list, a
     * missing driver or accelerator is an error. */
    const char *which;
    int n_streams;          /* number of streams of each, between 1 and RT_MAX_STREAMS */
    double memory_fraction; /* part of the memory that may be used, or 0 for all */
    /* Whether products and convolutions keep the precision of float32. Otherwise, the accelerator
     * may round the inputs, which is faster (TF32). */
    bool full_precision;
    /* An accelerator has failed when it works for so many nanoseconds without an end, and for 20
     * times as long as it ever did before. 0 means that it is never given up. */
    int64_t hang_ns;
    /* the accelerators' on_failure and its argument; may be NULL */
    void (*on_failure)(struct rt_device *d, const char *reason, void *arg);
    void *on_failure_arg;
};
/* Opens accelerators. */
typedef enum rt_status rt_accelerators_open(struct rt_accelerators *out,
                                            const struct rt_accelerator_options *options,
                                            struct rt_error *err);

/* rt_device_begin prepares the streams of an accelerator and the accounts of its memory, of which
 * sessions may use `limit` bytes, or all if `limit` is 0. Returns false if memory runs out.
 * rt_device_end frees them, and the memory that the streams and the cache hold. */
bool rt_device_begin(struct rt_device *d, size_t limit);
void rt_device_end(struct rt_device *d);
/* Marks the accelerator as failed and calls on_failure, unless that was done before. */
void rt_device_fail(struct rt_device *d, const char *reason);

#endif

/*
 * An accelerator is a device whose own memory the host cannot access. It runs regions
 * (plan/device_region.h): consecutive steps of a specialisation whose shapes are known. All other
 * nodes run on the CPU.
 *
 * Work is enqueued on the accelerator's streams. A stream does its work in order, while the host
 * continues. Each stream has one block of memory for the activations of the region that uses the
 * stream. All sessions that use the accelerator share its streams (core/device/device_stream.h).
 * core/device/device_memory.h allocates, limits and counts its memory.
 *
 * Owner: the module that defines the accelerator, which must outlive all sessions that use it.
 * Threads: the run that has taken a stream calls the functions of this stream; all other functions
 * may be called on any thread.
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

/* A step of a region, bound to the block of a stream. `run` contains addresses in the accelerator's
 * memory for inputs, outputs and scratch memory. */
struct rt_region_step {
    const struct rt_kernel *kernel;
    struct rt_run run;
};

/* Steps that are always run together, on the same stream and at the same addresses. */
struct rt_region_steps {
    struct rt_region_step *step;
    int n;
    /* Data, such as a CUDA graph, with which the accelerator repeats the steps faster. NULL before
     * the first run. Freed by `forget`. */
    void *recorded;
};

enum rt_copy_kind {
    RT_COPY_IN,    /* copy from the host to the accelerator */
    RT_COPY_OUT,   /* copy from the accelerator to the host */
    RT_COPY_WITHIN /* copy within the accelerator's memory */
};

enum { RT_MAX_STREAMS = 8, RT_MAX_ACCELERATORS = 16 };

/* The work that an accelerator has done since it was opened. */
struct rt_device_totals {
    _Atomic int64_t regions;
    _Atomic int64_t busy_ns;
    _Atomic int64_t waiting_ns;
    _Atomic int64_t recorded;            /* number of recorded step sequences */
    _Atomic int64_t bytes_in, bytes_out; /* bytes that regions copied from and to the host */
};

/* The state of an accelerator as its driver reports it; unknown values are -1. */
struct rt_device_sensors {
    int64_t free_bytes, total_bytes; /* memory of the accelerator, including that of other
                                      * processes */
    int utilisation_percent;         /* recent share of time in which the accelerator was busy */
    int temperature_celsius;
};

struct rt_device {
    const char *type; /* name such as "GPU", used by kernels and the device strings of graphs */
    int index;
    const char *model, *uuid; /* product name and unique identifier, for people; may be NULL */
    int n_streams;            /* between 1 and RT_MAX_STREAMS */
    int64_t total_bytes;      /* size of the accelerator's memory, or 0 if it is not known */
    void *state;              /* data of the module that defines the accelerator */
    /* Returns memory of the accelerator, aligned to 64 bytes, or NULL if there is not enough. */
    void *(*alloc)(struct rt_device *d, size_t bytes);
    void (*free)(struct rt_device *d, void *p);
    /* Locks the pages of host memory, so that they can be copied faster (core/pinned.h).
     * Returns false if that fails. NULL if the accelerator cannot lock pages. */
    bool (*pin)(struct rt_device *d, void *p, size_t bytes);
    void (*unpin)(struct rt_device *d, void *p);
    /* Copies bytes. The copy is complete when the function returns. */
    enum rt_status (*copy)(struct rt_device *d, enum rt_copy_kind kind, void *to, const void *from,
                           size_t bytes, struct rt_error *err);
    /* Enqueues a copy on stream `stream`. The host's memory must stay valid until `wait`
     * returns. */
    enum rt_status (*enqueue_copy)(struct rt_device *d, int stream, enum rt_copy_kind kind,
                                   void *to, const void *from, size_t bytes, struct rt_error *err);
    /* Enqueues the steps on stream `stream`, in order. If a step fails, sets *failed to this
     * step. */
    enum rt_status (*enqueue_steps)(struct rt_device *d, int stream, struct rt_region_steps *steps,
                                    const struct rt_region_step **failed, struct rt_error *err);
    /* Waits until stream `stream` has done all enqueued work. If a step failed, sets *failed to
     * this step. Must be called before the stream is given back, even if enqueuing has failed. If
     * `is_hung` is set, may fail with RT_UNAVAILABLE although the work has not ended. */
    enum rt_status (*wait)(struct rt_device *d, int stream, const struct rt_region_step **failed,
                           struct rt_error *err);
    /* Frees steps->recorded, which may be NULL. No run may be using the steps. */
    void (*forget)(struct rt_device *d, struct rt_region_steps *steps);
    /* Reads the sensors. NULL if the accelerator has none. */
    void (*sense)(struct rt_device *d, struct rt_device_sensors *out);
    struct rt_device_totals totals;
    /* Set once the accelerator has failed and can no longer be used. All later work on it fails
     * with RT_UNAVAILABLE, and runs use the CPU. */
    _Atomic bool has_failed;
    /* Called once, on any thread, when the accelerator fails. `reason` is valid only during the
     * call. The module that opens the accelerator sets this member, which may be NULL. */
    void (*on_failure)(struct rt_device *d, const char *reason, void *arg);
    void *on_failure_arg;
    /* Made by rt_device_begin. */
    struct rt_device_streams *streams;
    struct rt_device_budget *budget;
    /* Set after has_failed if enqueued work may never end. Memory of the host to which enqueued
     * work copies must then never be freed (rt_device_keep). */
    _Atomic bool is_hung;
    _Atomic(struct rt_kept_buffer *) kept; /* buffers that are never freed */
};

struct rt_accelerators {
    int n;
    struct rt_device *device[RT_MAX_ACCELERATORS];
    void *state; /* data of the module that defines the accelerators */
    /* Closes the accelerators. No session may still use them. NULL if there is nothing to close. */
    void (*close)(struct rt_accelerators *a);
};
struct rt_accelerator_options {
    /* "none", "auto" (every usable accelerator), "all" (every accelerator) or a list such as "0,2".
     * With "auto", failures are logged, and there may be no accelerator. With "all" or a list, a
     * missing driver or accelerator is an error. */
    const char *which;
    int n_streams;          /* number of streams of each accelerator, between 1 and
                             * RT_MAX_STREAMS */
    double memory_fraction; /* fraction of the memory that sessions may use; 0 means all memory */
    size_t pinned_bytes;    /* maximum number of bytes of page-locked host memory
                               (core/pinned.h) */
    /* Time in nanoseconds after which work on an accelerator counts as a failure. The work must
     * also have taken 20 times as long as the longest work that has ended. 0 means no limit. */
    int64_t hang_ns;
    /* the accelerators' on_failure and its argument; may be NULL */
    void (*on_failure)(struct rt_device *d, const char *reason, void *arg);
    void *on_failure_arg;
};
/* Opens accelerators. */
typedef enum rt_status rt_accelerators_open(struct rt_accelerators *out,
                                            const struct rt_accelerator_options *options,
                                            struct rt_error *err);

/* rt_device_begin prepares the streams of an accelerator and the accounts of its memory. Sessions
 * may use `limit` bytes of the memory, or the complete memory if `limit` is 0. rt_device_begin
 * returns false if memory runs out. rt_device_end frees the streams, the accounts, and the memory
 * of the streams and of the cache. */
bool rt_device_begin(struct rt_device *d, size_t limit);
void rt_device_end(struct rt_device *d);
/* Marks the accelerator as failed and calls on_failure. Does nothing if the accelerator is already
 * marked. */
void rt_device_fail(struct rt_device *d, const char *reason);
/* Keeps a reference to the buffer for ever. */
void rt_device_keep(struct rt_device *d, struct rt_buffer *b);

#endif

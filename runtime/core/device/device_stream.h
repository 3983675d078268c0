/*
 * The streams of an accelerator. A run takes a stream and gives it back. Each stream has a block of
 * the accelerator's memory.
 *
 * Owner: the accelerator. Threads: any.
 */
#ifndef RT_DEVICE_STREAM_H
#define RT_DEVICE_STREAM_H

#include "runtime/core/device.h"

/* A stream that a run has taken. */
struct rt_stream {
    int index;   /* below n_streams */
    void *block; /* the stream's block in the accelerator's memory; NULL until one is
                  * requested */
    int64_t taken_ns;
};
/*
 * Takes a stream, and ensures that its block has at least `bytes` bytes. The contents of the block
 * are undefined. If no stream is free, waits for one and calls `check` every 10 ms. Fails if
 * `check` fails.
 */
enum rt_status rt_stream_take(struct rt_device *d, size_t bytes, const struct rt_check *check,
                              struct rt_stream *out, struct rt_error *err);
/* Gives a stream back. The caller must have waited for all its work. */
void rt_stream_give(struct rt_device *d, const struct rt_stream *stream);

/* Only device.c calls these functions. They make and free the streams' state and blocks. */
bool rt_device_streams_begin(struct rt_device *d);
void rt_device_streams_end(struct rt_device *d);

#endif

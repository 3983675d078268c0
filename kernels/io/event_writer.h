/*
 * Writers of event files: resources of a session that collect events and append them to a file that
 * TensorBoard reads. An event file consists of TFRecords (tfrecord.h), each of which is an Event
 * message.
 *
 *   event_writer.c   the resource and its file
 *   event_ops.c      the ops that make, open, flush and close writers, and write events
 *
 * A writer holds events until there are more than max_queue of them, or the last flush is longer
 * ago than flush_millis when an event is added, as in TensorFlow, or they have more than
 * KN_EVENT_BYTES bytes. It also writes them when it is flushed, closed or freed.
 *
 * Threads: any. A run locks the writer while it writes to the file, and other runs wait for it, at
 * most until their deadlines.
 */
#ifndef KN_IO_EVENT_WRITER_H
#define KN_IO_EVENT_WRITER_H

#include "runtime/base/bytes.h"
#include "runtime/base/span.h"
#include "runtime/base/thread.h"
#include "runtime/core/object.h"
#include "runtime/core/pool.h"
#include "runtime/core/run.h"

enum { KN_EVENT_BYTES = 1 << 20 }; /* maximum number of bytes that a writer holds */

struct kn_event_writer {
    struct rt_object o;
    char *name; /* the writer's container and name, for messages */
    struct rt_mutex mu;
    /* The members from here on are guarded by `mu`. */
    bool is_open;
    int fd;
    char *path;                  /* name of the file, for messages */
    int64_t size;                /* number of bytes in the file */
    int max_queue, flush_millis; /* no limit if negative */
    int64_t flushed_ns;          /* when the writer was last flushed */
    struct rt_bytes held;        /* the records that are not in the file yet */
    int64_t n_held;              /* their number */
    struct rt_pool *pool;        /* counts the bytes in `held` */
};

extern const struct rt_object_type kn_event_writer_type;
/* Makes a writer without a file. `container` is "" for the default container. Returns NULL if out
 * of memory. */
struct kn_event_writer *kn_event_writer_new(struct rt_span container, struct rt_span name);

struct kn_event_file {
    struct rt_span directory; /* name of the directory, which is made if it is missing */
    struct rt_span suffix;    /* end of the file's name */
    int max_queue, flush_millis;
};
/* Creates the writer's file and writes its first event. Does nothing if the writer is open. */
enum rt_status kn_event_writer_open(struct rt_run *r, struct kn_event_writer *w,
                                    const struct kn_event_file *file);
/* Returns RT_NOT_FOUND with TensorFlow's message if the writer is not open. */
enum rt_status kn_event_writer_check(struct rt_run *r, struct kn_event_writer *w);
/* Adds an event. A failed call adds nothing; the events that the writer holds stay. */
enum rt_status kn_event_writer_add(struct rt_run *r, struct kn_event_writer *w,
                                   struct rt_span event);
enum rt_status kn_event_writer_flush(struct rt_run *r, struct kn_event_writer *w);
/* Writes the events that the writer holds and closes the file. The writer stays open if the call
 * fails. */
enum rt_status kn_event_writer_close(struct rt_run *r, struct kn_event_writer *w);

/* Appends the field of an Event with the current time, which is its first field. */
void kn_put_wall_time(struct rt_bytes *b);

#endif

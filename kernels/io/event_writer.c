#include "kernels/io/event_writer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/tfrecord.h"
#include "runtime/core/copy.h"
#include "runtime/files/file.h"
#include "runtime/files/file_access.h"
#include "runtime/session/state.h"

/* ---- the resource ---- */

static atomic_int n_files; /* number of event files that all writers together have open */

/* Counts the growth of the buffer in the state's pool. */
static bool may_grow(void *arg, size_t capacity, size_t wanted)
{
    struct kn_event_writer *w = arg;
    struct rt_error err = {0};

    return rt_pool_hold(w->pool, wanted - capacity, 0, "events", &err) == RT_OK;
}

struct kn_event_writer *kn_event_writer_new(struct rt_span container, struct rt_span name)
{
    static const char default_container[] = "localhost";
    struct kn_event_writer *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    if (!container.n)
        container = rt_span_of(default_container, sizeof default_container - 1);
    if (asprintf(&w->name, "%.*s/%.*s", (int)container.n, (const char *)container.p, (int)name.n,
                 (const char *)name.p) < 0) {
        free(w);
        return NULL;
    }
    rt_object_init(&w->o, &kn_event_writer_type);
    rt_mutex_init(&w->mu);
    rt_bytes_init(&w->held, 2 * KN_EVENT_BYTES);
    w->held.may_grow = may_grow;
    w->held.grow_arg = w;
    w->fd = -1;
    return w;
}

/* Drops the events that the writer holds. */
static void drop_held(struct kn_event_writer *w) RT_REQUIRES(w->mu)
{
    rt_pool_release(w->pool, w->held.capacity);
    rt_bytes_clear(&w->held);
    w->held.failed = w->held.no_memory = false;
    w->n_held = 0;
}

static void close_file(struct kn_event_writer *w) RT_REQUIRES(w->mu)
{
    drop_held(w);
    if (w->fd >= 0) {
        close(w->fd);
        atomic_fetch_sub(&n_files, 1);
    }
    free(w->path);
    rt_pool_unref(w->pool);
    w->fd = -1;
    w->path = NULL;
    w->pool = NULL;
    w->is_open = false;
}

/* Writes what the writer holds, and then a record that it does not hold. A failed call writes
 * nothing and drops nothing, unless a part of a record stays in the file: the writer is then
 * closed. */
static enum rt_status write_out(struct kn_event_writer *w, struct rt_span event,
                                const struct rt_check *check, struct rt_error *err)
    RT_REQUIRES(w->mu)
{
    unsigned char header[RT_TFRECORD_HEADER], footer[RT_TFRECORD_FOOTER];
    struct rt_span pieces[4] = {rt_span_of(w->held.p, w->held.n)};
    int n = 1;

    if (event.p) {
        rt_tfrecord_header(header, event.n);
        rt_tfrecord_footer(footer, event.p, event.n);
        pieces[n++] = rt_span_of(header, sizeof header);
        pieces[n++] = event;
        pieces[n++] = rt_span_of(footer, sizeof footer);
    }
    /* A flush without events must not fail because the disk is full. */
    const bool is_empty = !event.p && !w->held.n;
    const enum rt_status st =
        is_empty ? RT_OK : rt_file_append(w->fd, w->path, &w->size, pieces, n, check, err);
    if (st == RT_DATA_LOSS)
        close_file(w);
    if (st)
        return st;
    drop_held(w);
    w->flushed_ns = rt_now_ns();
    return RT_OK;
}

static void writer_free(struct rt_object *o) RT_NO_ANALYSIS
{
    struct kn_event_writer *w = (struct kn_event_writer *)o;
    struct rt_error err = {0};

    if (w->is_open)
        (void)write_out(w, rt_span_of(NULL, 0), NULL, &err); /* nobody is left to be told */
    close_file(w);
    rt_mutex_clear(&w->mu);
    free(w->name);
    free(w);
}

const struct rt_object_type kn_event_writer_type = {"summary writer", writer_free};

/* ---- opening ---- */

void kn_put_wall_time(struct rt_bytes *b)
{
    enum { WALL_TIME = 0x09 };
    const double seconds = (double)(rt_wall_ns() / 1000) / 1e6;

    rt_bytes_addc(b, WALL_TIME);
    rt_bytes_add(b, &seconds, sizeof seconds);
}

/* Writes the first event, which tells the version of the format. */
static enum rt_status write_version(struct rt_run *r, struct kn_event_writer *w) RT_REQUIRES(w->mu)
{
    /* The fields file_version, and source_metadata with its field writer. */
    static const char version[] = "\x1a\x0d"
                                  "brain.Event:2"
                                  "R\x24\x0a\x22"
                                  "tensorflow.core.util.events_writer";
    const struct rt_check check = rt_run_as_check(r);
    struct rt_bytes b;

    rt_bytes_init(&b, 100);
    kn_put_wall_time(&b);
    rt_bytes_add(&b, version, sizeof version - 1);
    const enum rt_status st = b.failed ? rt_fail_memory(r->err, "an event", sizeof version)
                                       : write_out(w, rt_span_of(b.p, b.n), &check, r->err);
    rt_bytes_clear(&b);
    return st;
}

/* Counts the new file `fd` of a writer. Refuses it if too many event files are open, or if its
 * descriptor is reserved for other files. */
static enum rt_status count_file(int fd, struct rt_error *err)
{
    const int n = atomic_fetch_add(&n_files, 1), most = rt_file_most_kept();
    const enum rt_status st =
        n < most ? rt_file_check_unreserved(fd, "an event file", err)
                 : rt_fail(err, RT_RESOURCE_EXHAUSTED,
                           "%d event files are open, and summary writers may have %d", n, most);

    if (st)
        atomic_fetch_sub(&n_files, 1);
    return st;
}

/* Creates a file whose name differs from those of other writers, processes and machines. */
static enum rt_status create_file(struct rt_run *r, struct kn_event_writer *w,
                                  const struct kn_event_file *file) RT_REQUIRES(w->mu)
{
    enum { TRIES = 100 };
    static atomic_uint counter;
    char name[RT_FILE_NAME_BYTES], host[256] = "";
    enum rt_status st = RT_ALREADY_EXISTS;

    if (gethostname(host, sizeof host - 1))
        snprintf(host, sizeof host, "localhost");
    for (int i = 0; i < TRIES && st == RT_ALREADY_EXISTS; i++) {
        *r->err = (struct rt_error){.arena = r->err->arena};
        const int n = snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld.%u%s%.*s",
                               (long long)(rt_wall_ns() / 1000000000), host, (long)getpid(),
                               atomic_fetch_add(&counter, 1),
                               file->suffix.n && file->suffix.p[0] == '.' ? "" : ".",
                               (int)file->suffix.n, (const char *)file->suffix.p);
        if (n < 0 || (size_t)n >= sizeof name)
            return rt_fail(r->err, RT_INVALID_ARGUMENT, "%.200s...; File name too long", name);
        st = rt_file_access_create(rt_run_file_access(r), file->directory, name, &w->fd, r->err);
    }
    if (st)
        return st;
    if (asprintf(&w->path, "%.*s/%s", (int)file->directory.n, (const char *)file->directory.p,
                 name) < 0) {
        w->path = NULL;
        st = rt_fail_memory(r->err, "a summary writer", sizeof name);
    }
    if (!st)
        st = count_file(w->fd, r->err);
    if (st) {
        if (w->path)
            unlink(w->path);
        close(w->fd);
        w->fd = -1;
    }
    return st;
}

static enum rt_status open_file(struct rt_run *r, struct kn_event_writer *w,
                                const struct kn_event_file *file) RT_REQUIRES(w->mu)
{
    enum rt_status st = create_file(r, w, file);

    w->size = 0;
    w->pool = rt_pool_ref(rt_run_state(r)->pool);
    w->max_queue = file->max_queue;
    w->flush_millis = file->flush_millis;
    if (!st)
        st = write_version(r, w);
    if (st && w->fd >= 0)
        unlink(w->path); /* it contains no event */
    if (st)
        close_file(w);
    w->is_open = !st;
    return st;
}

enum rt_status kn_event_writer_open(struct rt_run *r, struct kn_event_writer *w,
                                    const struct kn_event_file *file)
{
    if (file->suffix.n >= RT_FILE_NAME_BYTES ||
        (file->suffix.n && memchr(file->suffix.p, 0, file->suffix.n)))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "filename_suffix contains a NUL or is too long");
    enum rt_status st = rt_run_lock(r, &w->mu);
    if (st)
        return st;
    st = w->is_open ? RT_OK : open_file(r, w, file);
    rt_mutex_unlock(&w->mu);
    return st;
}

/* ---- writing ---- */

/* Locks a writer that is open. */
static enum rt_status lock_open(struct rt_run *r, struct kn_event_writer *w) RT_NO_ANALYSIS
{
    const enum rt_status st = rt_run_lock(r, &w->mu);

    if (st || w->is_open)
        return st;
    rt_mutex_unlock(&w->mu);
    return rt_fail(r->err, RT_NOT_FOUND,
                   "Resource %s/N10tensorflow22SummaryWriterInterfaceE does not exist.", w->name);
}

enum rt_status kn_event_writer_check(struct rt_run *r, struct kn_event_writer *w) RT_NO_ANALYSIS
{
    const enum rt_status st = lock_open(r, w);

    if (!st)
        rt_mutex_unlock(&w->mu);
    return st;
}

/* Returns whether the event makes the writer write what it holds. */
static bool is_due(const struct kn_event_writer *w, size_t event_bytes) RT_REQUIRES(w->mu)
{
    enum { NS_PER_MS = 1000000 };
    const int64_t passed_ns = rt_now_ns() - w->flushed_ns;

    return (w->max_queue >= 0 && w->n_held >= w->max_queue) ||
           (w->flush_millis >= 0 && passed_ns > (int64_t)w->flush_millis * NS_PER_MS) ||
           event_bytes > KN_EVENT_BYTES || w->held.n + event_bytes > KN_EVENT_BYTES;
}

enum rt_status kn_event_writer_add(struct rt_run *r, struct kn_event_writer *w,
                                   struct rt_span event) RT_NO_ANALYSIS
{
    const struct rt_check check = rt_run_as_check(r);
    enum rt_status st = lock_open(r, w);

    if (st)
        return st;
    if (!is_due(w, event.n)) {
        rt_tfrecord_add(&w->held, event.p, event.n);
        if (!w->held.failed) {
            w->n_held++;
            goto done;
        }
        w->held.failed = w->held.no_memory = false; /* the event needs no memory in the file */
    }
    st = write_out(w, event, &check, r->err);
done:
    rt_mutex_unlock(&w->mu);
    return st;
}

/* Writes what an open writer holds, and closes it if `closes` is set and the write succeeds. */
static enum rt_status write_held(struct rt_run *r, struct kn_event_writer *w,
                                 bool closes) RT_NO_ANALYSIS
{
    const struct rt_check check = rt_run_as_check(r);
    enum rt_status st = lock_open(r, w);

    if (st)
        return st;
    st = write_out(w, rt_span_of(NULL, 0), &check, r->err);
    if (!st && closes)
        close_file(w);
    rt_mutex_unlock(&w->mu);
    return st;
}

enum rt_status kn_event_writer_flush(struct rt_run *r, struct kn_event_writer *w)
{
    return write_held(r, w, false);
}

enum rt_status kn_event_writer_close(struct rt_run *r, struct kn_event_writer *w)
{
    return write_held(r, w, true);
}

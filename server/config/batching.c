#include "server/config/batching.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/text.h"
#include "proto/unpack.h"
#include "runtime/base/regular_file.h"
#include "runtime/files/file.h"
#include "server/config/text_file.h"
#include "tensorflow_serving/servables/tensorflow/session_bundle_config.pb-c.h"

/* Maximum size of a version's parameters file, which limits the time of its parsing. */
enum { MAX_VERSION_BYTES = 64 << 10 };

typedef Tensorflow__Serving__BatchingParameters batching_message;

/* Sets the defaults that tensorflow_model_server uses without a batching parameters file. */
static void set_defaults(struct srv_batching *b)
{
    *b = (struct srv_batching){
        .mode = SRV_BATCHING_ALL, .max_batch_size = 1000, .max_enqueued_batches = 10};
}

static void take(int64_t *to, const Google__Protobuf__Int64Value *from)
{
    if (from)
        *to = from->value;
}

static enum rt_status check_sizes(const struct srv_batching *b, struct rt_error *err)
{
    for (int i = 0; i < b->n_sizes; i++)
        if (b->sizes[i] <= (i ? b->sizes[i - 1] : 0))
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "allowed_batch_sizes entries must be monotonically increasing");
    if (b->n_sizes && b->sizes[b->n_sizes - 1] > SRV_MAX_BATCH_ROWS)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "allowed_batch_sizes has an entry of %lld, at most %d is taken: a batch is "
                       "padded to it",
                       (long long)b->sizes[b->n_sizes - 1], (int)SRV_MAX_BATCH_ROWS);
    if (b->n_sizes && b->sizes[b->n_sizes - 1] != b->max_batch_size)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "Last entry in allowed_batch_sizes must match max_batch_size; last entry "
                       "was %lld; expected %lld",
                       (long long)b->sizes[b->n_sizes - 1], (long long)b->max_batch_size);
    return RT_OK;
}

static enum rt_status check(const struct srv_batching *b, struct rt_error *err)
{
    if (b->max_batch_size <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "max_batch_size must be positive; was %lld",
                       (long long)b->max_batch_size);
    if (b->batch_timeout_micros < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "batch_timeout_micros must be non-negative; was %lld",
                       (long long)b->batch_timeout_micros);
    if (b->max_enqueued_batches < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "max_enqueued_batches must be non-negative; was %lld",
                       (long long)b->max_enqueued_batches);
    if (b->num_batch_threads < 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_batch_threads must be positive; was %lld",
                       (long long)b->num_batch_threads);
    if (b->max_execution_batch_size <= 0)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "max_execution_batch_size must be positive; was %lld",
                       (long long)b->max_execution_batch_size);
    if (b->splits_large && b->max_execution_batch_size > b->max_batch_size)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "When enable_large_batch_splitting is true, max_batch_size must be greater "
                       "than or equal to max_execution_batch_size; they are %lld and %lld",
                       (long long)b->max_batch_size, (long long)b->max_execution_batch_size);
    return check_sizes(b, err);
}

enum rt_status srv_batching_from_message(struct srv_batching *b, const batching_message *m,
                                         struct rt_error *err)
{
    set_defaults(b);
    take(&b->max_batch_size, m->max_batch_size);
    take(&b->batch_timeout_micros, m->batch_timeout_micros);
    take(&b->max_enqueued_batches, m->max_enqueued_batches);
    if (m->num_batch_threads && m->num_batch_threads->value == 0)
        return rt_fail(err, RT_INVALID_ARGUMENT, "num_batch_threads must be positive; was 0");
    take(&b->num_batch_threads, m->num_batch_threads);
    if (m->n_allowed_batch_sizes > SRV_MAX_BATCH_SIZES)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "allowed_batch_sizes has %zu entries, at most %d are taken",
                       m->n_allowed_batch_sizes, (int)SRV_MAX_BATCH_SIZES);
    b->n_sizes = (int)m->n_allowed_batch_sizes;
    for (int i = 0; i < b->n_sizes; i++)
        b->sizes[i] = m->allowed_batch_sizes[i];
    b->pads = m->pad_variable_length_inputs;
    b->splits_large = m->enable_large_batch_splitting && m->enable_large_batch_splitting->value;
    b->max_execution_batch_size = b->max_batch_size;
    if (b->splits_large)
        take(&b->max_execution_batch_size, m->max_execution_batch_size);
    enum rt_status st = check(b, err);
    /* As in TensorFlow Serving, one batch may wait even if max_enqueued_batches is 0. */
    if (b->max_enqueued_batches == 0)
        b->max_enqueued_batches = 1;
    return st;
}

enum rt_status srv_batching_parse(struct srv_batching *out, struct rt_span text, const char *path,
                                  struct rt_error *err)
{
    ProtobufCMessage *message = NULL;
    struct srv_batching b;
    enum rt_status st = srv_text_parse(
        &message, &tensorflow__serving__batching_parameters__descriptor, text, path, NULL, err);
    if (st)
        return st;
    st = srv_batching_from_message(&b, (const batching_message *)message, err);
    pb_free(message);
    if (!st)
        *out = b;
    return st;
}

static enum rt_status read_file(struct srv_batching *out, const struct srv_options *o,
                                struct rt_error *err)
{
    ProtobufCMessage *message = NULL;
    enum rt_status st =
        srv_text_file_read(&message, &tensorflow__serving__batching_parameters__descriptor, o,
                           "batching_parameters_file", o->batching_parameters_file, err);
    if (!st)
        st = srv_batching_from_message(out, (const batching_message *)message, err);
    pb_free(message);
    return st;
}

enum rt_status srv_batching_of_server(struct srv_batching *out, const struct srv_options *o,
                                      struct rt_error *err)
{
    set_defaults(out);
    out->max_execution_batch_size = out->max_batch_size;
    if (o->enable_batching != SRV_YES) {
        out->mode = o->enable_batching == SRV_NO ? SRV_BATCHING_OFF : SRV_BATCHING_ROW_WISE;
        out->max_batch_size = out->max_execution_batch_size = o->max_batch_rows;
        return RT_OK;
    }
    if (o->platform_batching) {
        *out = *o->platform_batching;
        return RT_OK;
    }
    if (!o->batching_parameters_file || !*o->batching_parameters_file)
        return RT_OK;
    return read_file(out, o, err);
}

enum rt_status srv_batching_of_version(struct srv_batching *out, const struct srv_batching *server,
                                       const struct srv_options *o, const char *dir,
                                       struct rt_error *err)
{
    char path[4096];
    struct stat s;
    *out = *server;
    if (server->mode != SRV_BATCHING_ALL || !o->enable_per_model_batching_parameters)
        return RT_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/batching_params.pbtxt", dir) >= sizeof path)
        return rt_fail(err, RT_INVALID_ARGUMENT, "%s: the path is too long", dir);
    if (stat(path, &s) != 0 && rt_errno_is_absence(errno)) {
        out->mode = SRV_BATCHING_OFF;
        return RT_OK;
    }
    char *text = NULL;
    size_t n = 0;
    enum rt_status st = rt_file_read(path, MAX_VERSION_BYTES, &text, &n, err);
    if (!st)
        st = srv_batching_parse(out, rt_span_of(text, n), path, err);
    free(text);
    /* All models share the batch threads, so only the server's own file sets their number. */
    out->num_batch_threads = server->num_batch_threads;
    return st;
}

bool srv_batching_is_for_all(const struct srv_batching *b, const char *name)
{
    return b->mode == SRV_BATCHING_ALL && (!b->signature || strcmp(b->signature, name) == 0);
}

bool srv_batching_merges(const struct srv_batching *b, const char *name, bool rowwise)
{
    return srv_batching_is_for_all(b, name) || (b->mode != SRV_BATCHING_OFF && rowwise &&
                                                (b->mode == SRV_BATCHING_ROW_WISE || b->signature));
}

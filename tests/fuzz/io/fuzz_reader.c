/*
 * Reads arbitrary bytes as a file by a reader of each kind, with sizes and compression that the
 * first bytes choose. The remaining bytes are the file, and also the state that the reader is
 * restored from.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/files/file_access.h"
#include "runtime/session/session.h"
#include "tests/fuzz/cost.h"
#include "tests/support/graph_def.h"

/* The session of each input takes memory in addition to the reader's. Deflated bytes may inflate to
 * a thousand times their size. */
const struct fuzz_cost fuzz_cost = {
    .free_bytes = 128 << 20, .growth = 4096, .free_s = 2, .us_per_byte = 100};

enum { HEAD = 4, MOST_RUNS = 12 };

static char folder[64], path[80];

static void remove_file(void)
{
    unlink(path);
    rmdir(folder);
}

static bool write_file(const uint8_t *data, size_t size)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/slipway-fuzz-reader-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        snprintf(path, sizeof path, "%s/file", folder);
        atexit(remove_file);
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    const bool is_written = write(fd, data, size) == (ssize_t)size;
    close(fd);
    return is_written;
}

static void make_reader(struct rt_bytes *g, const uint8_t head[HEAD])
{
    static const char *const codings[] = {"", "ZLIB", "GZIP", "other"};
    static const int sizes[] = {0, 1, 2, 3, 5, 17, 4096, 1 << 30};
    char attrs[200];

    switch (head[0] % 5) {
    case 0:
        snprintf(attrs, sizeof attrs, "skip_header_lines=%d", head[1] % 4);
        gd_node(g, "reader", "TextLineReaderV2", "", attrs);
        return;
    case 1:
        snprintf(attrs, sizeof attrs, "compression_type='%s'", codings[head[1] % 4]);
        gd_node(g, "reader", "TFRecordReaderV2", "", attrs);
        return;
    case 2:
        snprintf(attrs, sizeof attrs,
                 "encoding='%s' record_bytes=%d header_bytes=%d footer_bytes=%d hop_bytes=%d",
                 codings[head[1] % 4], sizes[1 + head[2] % 7], sizes[head[2] >> 3 & 7],
                 sizes[head[3] & 7], sizes[head[3] >> 3 & 7]);
        gd_node(g, "reader", "FixedLengthRecordReaderV2", "", attrs);
        return;
    case 3:
        gd_node(g, "reader", "WholeFileReaderV2", "", "");
        return;
    default:
        gd_node(g, "reader", "IdentityReaderV2", "", "");
    }
}

static void make_graph(struct rt_bytes *g, const uint8_t head[HEAD])
{
    gd_node(g, "name", "Placeholder", "", "dtype=string");
    gd_node(g, "queue", "FIFOQueueV2", "", "component_types=[string]");
    gd_node(g, "enqueue", "QueueEnqueueV2", "queue name", "Tcomponents=[string]");
    gd_node(g, "close", "QueueCloseV2", "queue", "");
    make_reader(g, head);
    gd_node(g, "read", "ReaderReadV2", "reader queue", "");
    gd_node(g, "three", "Const", "", "dtype=int64 value=int64<>:3");
    gd_node(g, "many", "Const", "", "dtype=int64 value=int64<>:100000");
    gd_node(g, "up_to_3", "ReaderReadUpToV2", "reader queue three", "");
    gd_node(g, "up_to_many", "ReaderReadUpToV2", "reader queue many", "");
    gd_node(g, "state", "Placeholder", "", "dtype=string");
    gd_node(g, "restore", "ReaderRestoreStateV2", "reader state", "");
    gd_node(g, "save", "ReaderSerializeStateV2", "reader", "");
    gd_node(g, "all", "ReadFile", "name", "");
}

/* Runs a node, or fetches its first output. If `feed` is not NULL, feeds it the string `text`.
 * Returns whether the run succeeded. */
static bool run(struct rt_session *s, const char *node, bool fetches, const char *feed,
                struct rt_span text)
{
    struct rt_call_spec spec = {.feeds = &feed, .n_feeds = feed ? 1 : 0};
    struct rt_str element = {0};
    const struct rt_tensor in = {.dtype = RT_STRING, .data = &element};
    struct rt_error err = {0};
    struct rt_callable *c;
    struct rt_tensor out = {0};
    struct rt_run_options options = {.deadline_ns = rt_now_ns() + 200 * 1000 * 1000};

    if (fetches) {
        spec.fetches = &node;
        spec.n_fetches = 1;
    } else {
        spec.targets = &node;
        spec.n_targets = 1;
    }
    if (rt_session_prepare(s, &spec, &c, &err))
        abort(); /* The graph is always valid. */
    if (!rt_str_set(&element, NULL, text.p, text.n, &err))
        abort();
    const bool is_done = rt_callable_run(c, &in, fetches ? &out : NULL, &options, &err) == RT_OK;
    if (is_done && fetches)
        rt_tensor_clear(&out);
    rt_str_clear(&element);
    return is_done;
}

static void run_reader(struct rt_session *s, const uint8_t *data, size_t size)
{
    static const char *const reads[] = {"read", "up_to_3", "up_to_many"};
    const struct rt_span none = {NULL, 0}, name = rt_span_str(path);

    run(s, "all", true, "name", name);
    if (!run(s, "enqueue", false, "name", name) || !run(s, "enqueue", false, "name", name) ||
        !run(s, "close", false, NULL, none))
        abort();
    for (int k = 0; k < MOST_RUNS && run(s, reads[k % 3], true, NULL, none); k++)
        run(s, "save", true, NULL, none);
    run(s, "restore", false, "state", rt_span_of(data, size));
    run(s, "save", true, NULL, none);
    run(s, "read", true, NULL, none);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct rt_registry *ops;
    struct rt_error err = {0};
    struct rt_library *l = NULL;
    struct rt_session *s = NULL;
    struct rt_bytes g;

    if (size < HEAD || !write_file(data + HEAD, size - HEAD))
        return;
    if (!ops && (!(ops = rt_registry_new()) || !kn_register(ops)))
        return;
    rt_bytes_init(&g, 1 << 20);
    make_graph(&g, data);
    const struct rt_file_access files = {.read_dirs = folder};
    const struct rt_session_options options = {.registry = ops,
                                               .run_memory_limit = 64 << 20,
                                               .state_memory_limit = 64 << 20,
                                               .files = files};
    if (rt_library_import(&l, gd_span(&g), ops, &err) || rt_session_new(&s, l, &options, &err))
        abort();
    run_reader(s, data + HEAD, size - HEAD);
    rt_session_free(s);
    rt_bytes_clear(&g);
}

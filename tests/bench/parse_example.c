/*
 * Times one target of a graph: parse_example GRAPH FEED EXAMPLES OP N_OUT. GRAPH is a GraphDef,
 * FEED a placeholder of strings, and EXAMPLES a file of Examples, each preceded by its length (4
 * bytes, little endian). All N_OUT outputs of OP are fetched. For each number n on standard input,
 * OP runs n times, and the seconds are printed. tests/bench/bench_example.py starts this program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"
#include "runtime/files/file.h"
#include "runtime/session/session.h"

enum { MAX_EXAMPLES = 4096, MAX_OUT = 256 };

static void give_up(const char *what, const struct rt_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? rt_error_text(err) : "");
    exit(1);
}

/* Returns the CPU time of the process, which other programs on the machine do not increase. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct rt_span slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    const size_t most = (size_t)64 << 20;
    unsigned char *p = malloc(most);
    if (!f || !p)
        give_up(path, NULL);
    const size_t n = fread(p, 1, most, f);
    fclose(f);
    return rt_span_of(p, n);
}

static int64_t read_examples(struct rt_span s, struct rt_str *out)
{
    int64_t n = 0;
    uint32_t size;
    for (; s.n >= 4 && n < MAX_EXAMPLES; n++) {
        memcpy(&size, s.p, 4);
        if (size > s.n - 4 || !rt_str_set(&out[n], NULL, s.p + 4, size, NULL))
            give_up("examples", NULL);
        s = rt_span_of(s.p + 4 + size, s.n - 4 - size);
    }
    return n;
}

static struct rt_callable *open_op(const char *graph, const char *feed, const char *op, int n_out)
{
    static char name[MAX_OUT][128];
    const char *fetches[MAX_OUT];
    struct rt_registry *ops = rt_registry_new();
    struct rt_library *library;
    struct rt_session *session;
    struct rt_callable *c = NULL;
    struct rt_error err = {0};

    for (int k = 0; k < n_out; k++) {
        snprintf(name[k], sizeof name[k], "%s:%d", op, k);
        fetches[k] = name[k];
    }
    const struct rt_session_options options = {.registry = ops};
    const struct rt_call_spec spec = {
        .feeds = &feed, .fetches = fetches, .n_feeds = 1, .n_fetches = n_out};
    if (!ops || !kn_register(ops) || rt_library_import(&library, slurp(graph), ops, &err) ||
        rt_session_new(&session, library, &options, &err) ||
        rt_session_prepare(session, &spec, &c, &err))
        give_up(graph, &err);
    return c;
}

int main(int argc, char **argv)
{
    static struct rt_str example[MAX_EXAMPLES];
    static struct rt_tensor out[MAX_OUT];
    struct rt_error err = {0};
    long runs;
    int n_out = 0;

    if (argc != 6 || sscanf(argv[5], "%d", &n_out) != 1 || n_out < 1 || n_out > MAX_OUT)
        give_up("usage: parse_example GRAPH FEED EXAMPLES OP N_OUT", NULL);
    struct rt_tensor in = {.dtype = RT_STRING, .rank = 1, .data = example};
    in.dim[0] = read_examples(slurp(argv[3]), example);
    struct rt_callable *c = open_op(argv[1], argv[2], argv[4], n_out);
    while (scanf("%ld", &runs) == 1) {
        const double start = cpu_s();
        for (long i = 0; i < runs; i++) {
            if (rt_callable_run(c, &in, out, NULL, &err))
                give_up("run", &err);
            for (int k = 0; k < n_out; k++)
                rt_tensor_clear(&out[k]);
        }
        printf("%.9f\n", cpu_s() - start);
        fflush(stdout);
    }
    return 0;
}

/* Implements `slipway run`: runs a signature without a server, either once with inputs from a file,
 * or many times to measure it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/print.h"
#include "runtime/select/autotune.h"
#include "runtime/base/arena.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/machine.h"
#include "runtime/exec/parallel.h"
#include "server/commands/command_run.h"
#include "server/inference/inference.h"
#include "server/versions/loader.h"
#include "server/base/number.h"

enum {
    MAX_THREADS = 256,
    MAX_PROFILED = 10000,
    RUN_TIMEOUT_MS = 600000, /* default of --timeout: the server's default deadline */
    PLAN_TIMEOUT_MS = 120000 /* default of --timeout with --plan */
};
#define MAX_INPUT_BYTES ((size_t)4 << 30)
#define PINNED_BYTES    ((size_t)1 << 30) /* limit on page-locked memory, for a GPU */

static const char usage[] =
    "usage: slipway run DIR [--inputs FILE.json] [--signature NAME]\n"
    "       slipway run DIR --bench [--batch N] [--threads N] [--callers N] [--seconds S]\n"
    "                   [--signature NAME] [--inputs FILE.json] [--shape ALIAS=D0xD1...]... "
    "[--json]\n"
    "       slipway run DIR --compare [--precision bf16] [--fusion off] [--batch N] ...\n"
    "       slipway run DIR --profile [--runs N] [--profile_trace FILE] [--batch N] ...\n"
    "Runs a signature of the SavedModel in DIR (a version's or a model's directory) without a\n"
    "server.\n"
    "  --inputs FILE     a REST predict body ({\"instances\": ...} or {\"inputs\": ...}); -: "
    "standard\n"
    "                    input. A signature without inputs is run without this flag\n"
    "  --signature NAME  instead of serving_default\n"
    "  --bench           run it again and again and print median, 99th percentile and load time;\n"
    "                    without --inputs on random ones: integers 0 to 999, aliases with "
    "\"mask\"\n"
    "                    all ones\n"
    "  --profile         print where the time of a run goes: by op with what is fused into it,\n"
    "                    and by node, with the arithmetic and the bytes of tensors per second\n"
    "  --profile_clock C wall, or cpu: the processor time of the thread that calls, for a machine\n"
    "                    that others use (wall)\n"
    "  --runs N          how many runs are profiled (20)\n"
    "  --profile_trace F the last of them as a Chrome trace in file F (chrome://tracing, "
    "Perfetto)\n"
    "  --compare         print how far the answers are from those of a reference, which is this\n"
    "                    model in float32, not fused, not compiled: a row for each output, with\n"
    "                    the reference's largest magnitude, the largest difference, that as a\n"
    "                    part of the former, the mean difference, which part of the elements is\n"
    "                    not the very same, and in how many rows the largest element is at the\n"
    "                    same place\n"
    "  --batch N         rows of a random input (1)\n"
    "  --threads N       cores that the runs use, in all (1)\n"
    "  --callers N       runs at a time (1)\n"
    "  --seconds S       how long to measure, as 1.5; each caller runs 3 times at least (3)\n"
    "  --on_line         measure once for each line of standard input, a number of milliseconds\n"
    "  --shape A=2x3     the inner dimensions of input A, or all of them\n"
    "  --fusion on|off   do at once what one kernel does better than several nodes (on)\n"
    "  --specialise on|off  compile for the shapes that are run (on)\n"
    "  --winograd on|off 3x3, 1xN and Nx1 convolutions by tiles (on)\n"
    "  --autotune on|off time kernels that could do the same and take the fastest (on)\n"
    "  --autotune_cache FILE  keep what timing found\n"
    "  --timeout S       end the load, or a run, that takes longer than S seconds (600); 0: never\n"
    "  --precision P     float32, or bf16: constant weights in bfloat16 (float32)\n"
    "  --device D        cpu, gpu (the first), or gpu:N or a UUID as of `slipway serve --gpus` "
    "(cpu)\n"
    "  --gpu_precision P tf32, or float32: do not round the inputs of products on a GPU (tf32)\n"
    "  --json            with --bench {\"median_ms\": ..., \"p99_ms\": ..., \"cpu_ms\": ...,\n"
    "                    \"runs\": ..., \"runs_per_s\": ..., \"load_s\": ...}, cpu_ms being of a "
    "run;\n"
    "                    as well with --profile and --compare\n"
    "  --help, --version\n";

static const char plan_usage[] =
    "usage: slipway inspect DIR --plan [--batch N] [--shape ALIAS=D0xD1...]... [--inputs "
    "FILE.json]\n"
    "                   [--signature NAME] [--json]\n"
    "Prints what a signature of the SavedModel in DIR is compiled to for these shapes: the nodes\n"
    "that run, in their order, with what was fused into each, its kernel, why that one, the bytes\n"
    "of packed constants, and where its outputs lie in memory. (mul), (add) or (folded) as the\n"
    "name of an input: a constant that was made for this step of what was fused.\n"
    "  FLOP are those of a run of the node at the shapes beside it, which are a part of --batch\n"
    "where a batch runs a few rows at a time. \"by timing at [1,56,56,64]: A 0.1 ms, B 0.2 ms\":\n"
    "the kernels were run on that shape, the first that the node's constant met, mostly the\n"
    "warm-up's one row, and A was taken (of near equals the rule's is; times of four rows count\n"
    "as well).\n"
    "  As of `slipway run`: --batch, --shape, --inputs, --signature, --threads, --fusion,\n"
    "  --specialise, --winograd, --autotune, --autotune_cache, --precision, --device,\n"
    "  --gpu_precision. With a GPU, what runs on the processor has the reason beside it.\n"
    "  --timeout S       print what is known after S seconds (120), with exit status 1 and what "
    "was\n"
    "                    cut off; 0: never\n"
    "  --json, --help, --version\n";

/* ---- arguments ---- */

enum { ONCE = 1, BENCH = 2, PROFILE = 4, COMPARE = 8, PLAN = 16, ANY = 31 };

/* The flags of `slipway run`, with the modes that permit them and their accepted values. */
static const struct flag {
    const char *name;
    unsigned with;
    const char *takes; /* the accepted values, or NULL if the flag accepts any value */
} flags[] = {
    {"--batch", ANY, "a number from 1 to 2147483647"},
    {"--shape", ANY, "ALIAS=D0xD1..., numbers from 0 on"},
    {"--threads", ANY, "a number from 1 to 256"},
    {"--callers", BENCH, "a number from 1 to 256"},
    {"--seconds", BENCH, "a number from 0.001 to 3600"},
    {"--on_line", BENCH, NULL},
    {"--runs", PROFILE, "a number from 1 to 10000"},
    {"--profile_trace", PROFILE, NULL},
    {"--profile_clock", PROFILE, "wall or cpu"},
    {"--json", BENCH | PROFILE | COMPARE | PLAN, NULL},
    {"--fusion", ANY, "on or off"},
    {"--specialise", ANY, "on or off"},
    {"--winograd", ANY, "on or off"},
    {"--autotune", ANY, "on or off"},
    {"--precision", ANY, "float32 or bf16"},
    {"--device", ANY, "cpu, gpu, gpu:N or GPU-UUID"},
    {"--gpu_precision", ANY, "tf32 or float32"},
    {"--timeout", ANY, "a number from 0 to 86400"},
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

static const struct flag *find_flag(const char *arg)
{
    const size_t n = strcspn(arg, "=");
    for (int i = 0; i < N_FLAGS; i++)
        if (strlen(flags[i].name) == n && memcmp(flags[i].name, arg, n) == 0)
            return &flags[i];
    return NULL;
}

static unsigned mode_of(const struct srv_run *r)
{
    return r->plan ? PLAN : r->bench ? BENCH : r->profile ? PROFILE : r->compare ? COMPARE : ONCE;
}

static const char *mode_name(unsigned mode)
{
    return mode == PLAN      ? "--plan"
           : mode == BENCH   ? "--bench"
           : mode == PROFILE ? "--profile"
           : mode == COMPARE ? "--compare"
                             : "a single run";
}

/* Returns whether the mode permits all given flags. Prints an error about the first flag that it
 * does not permit. Bit i of `given` is set if flags[i] was given. */
static bool fits(const struct srv_run *r, unsigned given)
{
    const unsigned mode = mode_of(r);
    for (int i = 0; i < N_FLAGS; i++) {
        if (!(given >> i & 1))
            continue;
        if (!(flags[i].with & mode)) {
            rt_print(stderr, "slipway %s: %s has no meaning with %s\n", r->command, flags[i].name,
                     mode_name(mode));
            return false;
        }
        if (r->inputs && i < 2) {
            rt_print(stderr, "slipway %s: %s is for random inputs, and --inputs gives them\n",
                     r->command, flags[i].name);
            return false;
        }
    }
    return true;
}

static bool parse_shape(struct srv_run *r, const char *text)
{
    const char *p = strchr(text, '=');
    if (!p || r->n_shapes == SRV_RUN_SHAPES)
        return false;
    struct srv_run_shape *g = &r->shapes[r->n_shapes++];
    g->alias = text;
    g->alias_len = (size_t)(p - text);
    do {
        const char *start = ++p;
        p += strcspn(p, "x,");
        int64_t dim;
        if (g->shape.rank == RT_MAX_RANK || !srv_parse_int64(start, (size_t)(p - start), &dim) ||
            dim < 0)
            return false;
        g->shape.dim[g->shape.rank++] = dim;
    } while (*p);
    return true;
}

static bool parse_count(const char *text, int64_t max, int64_t *out)
{
    return srv_parse_int64(text, strlen(text), out) && *out >= 1 && *out <= max;
}

/* Parses the value of --seconds into milliseconds. */
static bool parse_duration(const char *text, int64_t *out_ms)
{
    return srv_parse_seconds(text, out_ms) && *out_ms >= 1 && *out_ms <= 3600000;
}

/* Sets *off to false for "on" and to true for "off". Returns false for any other text. */
static bool parse_switch(const char *text, bool *off)
{
    *off = strcmp(text, "off") == 0;
    return *off || strcmp(text, "on") == 0;
}

static bool parse_clock(const char *text, bool *cpu)
{
    *cpu = strcmp(text, "cpu") == 0;
    return *cpu || strcmp(text, "wall") == 0;
}

static bool parse_precision(const char *text, bool *bf16)
{
    *bf16 = strcmp(text, "bf16") == 0;
    return *bf16 || strcmp(text, "float32") == 0;
}

static bool parse_gpu_precision(const char *text, bool *full)
{
    *full = strcmp(text, "float32") == 0;
    return *full || strcmp(text, "tf32") == 0;
}

/* If the current argument is a flag that switches an optimisation, returns the flag's value, and
 * sets *off to the member that disables the optimisation. Otherwise returns NULL. */
static const char *switch_value(struct srv_args *a, struct srv_run *r, bool **off)
{
    const struct {
        const char *name;
        bool *off;
    } switches[] = {{"--fusion", &r->tuning.no_fusion},
                    {"--specialise", &r->tuning.no_specialise},
                    {"--winograd", &r->tuning.no_winograd},
                    {"--autotune", &r->tuning.no_autotune}};
    const char *value = NULL;
    for (size_t k = 0; k < sizeof switches / sizeof *switches && !value; k++) {
        value = srv_args_value(a, switches[k].name);
        *off = switches[k].off;
    }
    return value;
}

/* Sets *gpu to a value in the form of --gpus, or to NULL for the CPU. */
static bool parse_device(const char *text, const char **gpu)
{
    *gpu = strcmp(text, "gpu") == 0            ? "0"
           : strncmp(text, "gpu:", 4) == 0     ? text + 4
           : strncasecmp(text, "GPU-", 4) == 0 ? text
                                               : NULL;
    return *gpu ? **gpu && !strchr(*gpu, ',') : strcmp(text, "cpu") == 0;
}

/* The first error in the arguments. `missing` and `argument` are NULL if there is none. */
struct refusal {
    const char *missing;
    /* the invalid argument, and the value of that argument or NULL */
    const char *argument, *value;
    const struct flag *flag; /* the argument's entry in flags[], or NULL */
};

/* Returns -1 if the arguments are valid. Otherwise prints an error and returns the exit status. Bit
 * i of `given` is set if flags[i] was given. */
static int check_args(const struct srv_run *r, const struct refusal *w, unsigned given)
{
    if (w->missing)
        rt_print(stderr, "slipway %s: %s wants a value\n", r->command, w->missing);
    else if (w->value)
        rt_print(stderr, "slipway %s: %.*s cannot be %s%s%s\n", r->command,
                 (int)strcspn(w->argument, "="), w->argument, w->value,
                 w->flag && w->flag->takes ? ": it is " : "",
                 w->flag && w->flag->takes ? w->flag->takes : "");
    else if (w->argument)
        rt_print(stderr, "slipway %s: cannot use argument %s: it takes one DIR and flags\n",
                 r->command, w->argument);
    else if (!r->dir)
        rt_print(stderr, "slipway %s: no directory given\n", r->command);
    else if (r->bench + r->profile + r->compare + r->plan > 1)
        rt_print(stderr,
                 r->plan
                     ? "slipway %s: --plan is told alone, without --bench, --profile, --compare\n"
                     : "slipway %s: one of --bench, --profile and --compare at a time\n",
                 r->command);
    else if (fits(r, given))
        return -1;
    rt_print(stderr, "slipway %s%s --help says more\n", r->command, r->plan ? " --plan" : "");
    return SRV_EXIT_USAGE;
}

/* Parses the command line. Returns -1 if the command should continue, and otherwise the exit
 * status. */
static int parse_args(struct srv_run *r, int argc, const char *const *argv)
{
    struct srv_args a = {.argc = argc, .argv = argv};
    const char *wrong = NULL, *wrong_value = NULL, *v = NULL;
    const struct flag *flag = NULL;
    unsigned given = 0;
    bool *off = NULL;
    r->batch = r->n_threads = r->n_callers = 1;
    r->seconds_ms = 3000;
    r->timeout_ms = r->plan ? PLAN_TIMEOUT_MS : RUN_TIMEOUT_MS;
    r->n_runs = 20;
    for (a.i = 1; a.i < argc && !wrong && !a.missing; a.i++) {
        const char *arg = argv[a.i];
        v = NULL;
        flag = find_flag(arg);
        if (flag)
            given |= 1u << (flag - flags);
        if (srv_args_is(&a, "--help") || srv_args_is(&a, "-h")) {
            fputs(r->plan ? plan_usage : usage, stdout);
            return SRV_EXIT_OK;
        }
        if (srv_args_is(&a, "--version")) {
            rt_print(stdout, "slipway %s\n", SLIPWAY_VERSION);
            return SRV_EXIT_OK;
        }
        if (srv_args_is(&a, "--bench"))
            r->bench = true;
        else if (srv_args_is(&a, "--profile"))
            r->profile = true;
        else if (srv_args_is(&a, "--compare"))
            r->compare = true;
        else if (r->plan && srv_args_is(&a, "--plan"))
            continue;
        else if (srv_args_is(&a, "--json"))
            r->json = true;
        else if (srv_args_is(&a, "--on_line"))
            r->on_line = true;
        else if ((v = srv_args_value(&a, "--inputs")))
            r->inputs = v;
        else if ((v = srv_args_value(&a, "--signature")))
            r->signature = v;
        else if ((v = srv_args_value(&a, "--batch")))
            wrong = parse_count(v, INT32_MAX, &r->batch) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--threads")))
            wrong = parse_count(v, MAX_THREADS, &r->n_threads) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--callers")))
            wrong = parse_count(v, MAX_THREADS, &r->n_callers) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--runs")))
            wrong = parse_count(v, MAX_PROFILED, &r->n_runs) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--profile_trace"))) {
            r->profile_trace = v;
            r->profile = true;
        } else if ((v = srv_args_value(&a, "--seconds")))
            wrong = parse_duration(v, &r->seconds_ms) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--timeout")))
            wrong = srv_parse_timeout(v, &r->timeout_ms) ? NULL : arg;
        else if ((v = switch_value(&a, r, &off)))
            wrong = parse_switch(v, off) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--autotune_cache")))
            r->autotune_cache = v;
        else if ((v = srv_args_value(&a, "--profile_clock")))
            wrong = parse_clock(v, &r->cpu_clock) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--precision")))
            wrong = parse_precision(v, &r->tuning.bf16) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--device")))
            wrong = parse_device(v, &r->gpu) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--gpu_precision")))
            wrong = parse_gpu_precision(v, &r->tuning.full_precision) ? NULL : arg;
        else if ((v = srv_args_value(&a, "--shape")))
            wrong = parse_shape(r, v) ? NULL : arg;
        else if (!a.missing && *arg != '-' && !r->dir)
            r->dir = arg;
        else if (!a.missing)
            wrong = arg;
        wrong_value = wrong ? v : NULL;
    }
    const struct refusal why = {a.missing, wrong, wrong_value, flag};
    return check_args(r, &why, given);
}

/* ---- feeds ---- */

static enum rt_status read_all(const char *path, struct rt_bytes *out, struct rt_error *err)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f)
        return rt_fail(err, RT_NOT_FOUND, "%s: %s", path, strerror(errno));
    char block[65536];
    size_t n;
    while (!out->failed && (n = fread(block, 1, sizeof block, f)) > 0)
        rt_bytes_add(out, block, n);
    bool failed = ferror(f) != 0;
    if (f != stdin)
        fclose(f);
    if (failed)
        return rt_fail(err, RT_UNAVAILABLE, "%s: cannot be read", path);
    return out->failed ? rt_fail(err, RT_RESOURCE_EXHAUSTED, "%s: too large", path) : RT_OK;
}

static enum rt_status choose_signature(struct srv_run *r, struct rt_span name, struct rt_error *err)
{
    const char *wanted = r->signature ? r->signature : name.n ? NULL : "serving_default";
    if (wanted && !rt_model_signature(r->model, wanted)) {
        struct rt_bytes there;
        rt_bytes_init(&there, 4096);
        for (int i = 0; i < r->model->n_signatures; i++)
            rt_bytes_addf(&there, "%s%s", i ? ", " : "", r->model->signatures[i].def->name);
        rt_fail(err, RT_INVALID_ARGUMENT, "there is no signature \"%s\"; there is: %.*s", wanted,
                (int)there.n, there.p ? there.p : "");
        rt_bytes_clear(&there);
        return RT_INVALID_ARGUMENT;
    }
    enum rt_status st = srv_find_signature(
        r->model, r->signature ? rt_span_str(r->signature) : name, r->arena, &r->s,
        RT_INVALID_ARGUMENT, "Serving signature name: \"%s\" not found in signature def", err);
    if (st)
        return st;
    r->feeds = rt_arena_array(r->arena, (size_t)r->s->def->n_inputs + 1, sizeof *r->feeds);
    return r->feeds ? RT_OK : rt_fail_memory(err, "feeds", 0);
}

static enum rt_status feeds_from_file(struct srv_run *r, struct rt_error *err)
{
    struct rt_bytes text;
    struct srv_json_doc doc;
    struct rt_span name = {0};
    rt_bytes_init(&text, MAX_INPUT_BYTES);
    enum rt_status st = read_all(r->inputs, &text, err);
    if (!st)
        st = srv_json_check(&doc, rt_span_of(text.p, text.n), NULL, err);
    if (!st)
        st = srv_json_signature(&doc, r->arena, &name, err);
    if (!st)
        st = choose_signature(r, name, err);
    if (!st)
        st = srv_json_decode_predict(&doc, r->s->def, rt_span_str(r->s->def->name),
                                     &(struct srv_allowance){.left = MAX_INPUT_BYTES}, r->feeds,
                                     &r->form, err);
    rt_bytes_clear(&text);
    return st;
}

/* Chooses the signature of a single run without --inputs. Fails if the signature has inputs. */
static enum rt_status no_feeds(struct srv_run *r, struct rt_error *err)
{
    const enum rt_status st = choose_signature(r, (struct rt_span){0}, err);
    r->form = SRV_JSON_COLUMNAR;
    if (!st && r->s->def->n_inputs)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "signature \"%s\" has inputs: --inputs FILE.json, --bench, --profile or "
                       "--compare is needed",
                       r->s->def->name);
    return st;
}

static enum rt_status shape_of_input(const struct srv_run *r, const struct rt_tensor_spec *in,
                                     struct rt_shape *out, struct rt_error *err)
{
    const struct rt_shape *given = NULL;
    for (int i = 0; i < r->n_shapes; i++)
        if (rt_span_is(rt_span_of(r->shapes[i].alias, r->shapes[i].alias_len), in->alias))
            given = &r->shapes[i].shape;
    *out = in->shape;
    if (in->shape.rank < 0) {
        /* The rank is unknown, so the shape consists of the batch dimension and the dimensions from
         * --shape. */
        int n = given ? given->rank : 0;
        if (n >= RT_MAX_RANK)
            return rt_fail(err, RT_INVALID_ARGUMENT, "input \"%s\": more than %d dimensions",
                           in->alias, RT_MAX_RANK);
        out->rank = n + 1;
        out->dim[0] = r->batch;
        for (int d = 0; d < n; d++)
            out->dim[d + 1] = given->dim[d];
        return RT_OK;
    }
    int skip = given ? in->shape.rank - given->rank : 0;
    if (given && skip != 0 && skip != 1)
        return rt_fail(err, RT_INVALID_ARGUMENT, "--shape for input \"%s\": %d dimensions, not %d",
                       in->alias, given->rank, in->shape.rank);
    for (int d = 0; d < out->rank; d++) {
        int64_t is = given && d >= skip ? given->dim[d - skip] : d == 0 ? r->batch : -1;
        if (out->dim[d] >= 0 && given && d >= skip && is != out->dim[d])
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "--shape for input \"%s\": dimension %d is %lld in the signature",
                           in->alias, d, (long long)out->dim[d]);
        if (out->dim[d] < 0)
            out->dim[d] = is;
        if (out->dim[d] < 0)
            return rt_fail(err, RT_INVALID_ARGUMENT,
                           "input \"%s\": dimension %d is unknown, give --shape %s=...", in->alias,
                           d, in->alias);
    }
    return RT_OK;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void put_random(void *data, enum rt_dtype t, int64_t n, bool ones, uint64_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t random = next_random(state);
        int64_t whole = ones ? 1 : (int64_t)(random % 1000);
        double real = ones ? 1 : (double)(random >> 11) * 0x1p-53;
        switch (t) {
#define INTEGER(type, c)                                                                           \
    case type:                                                                                     \
        ((c *)data)[i] = (c)whole;                                                                 \
        break;
            INTEGER(RT_I64, int64_t)
            INTEGER(RT_U64, uint64_t)
            INTEGER(RT_I32, int32_t)
            INTEGER(RT_U32, uint32_t)
            INTEGER(RT_I16, int16_t)
            INTEGER(RT_U16, uint16_t)
            INTEGER(RT_I8, int8_t)
            INTEGER(RT_U8, uint8_t)
#undef INTEGER
        case RT_F32:
            ((float *)data)[i] = (float)real;
            break;
        case RT_F64:
            ((double *)data)[i] = real;
            break;
        case RT_BF16: /* each value is a random power of two from 1/8 to 1 */
            ((uint16_t *)data)[i] = ones ? 0x3f80 : (uint16_t)(0x3e00 + (random % 4 << 7));
            break;
        case RT_F16:
            ((uint16_t *)data)[i] = ones ? 0x3c00 : (uint16_t)(0x3000 + (random % 4 << 10));
            break;
        case RT_BOOL:
            ((bool *)data)[i] = ones || (random & 1);
            break;
        case RT_STRING: {
            char text[24];
            int len = snprintf(text, sizeof text, "word%d", (int)whole);
            rt_str_set((struct rt_str *)data + i, NULL, text, (size_t)len, NULL);
            break;
        }
        default:
            memset((char *)data + (size_t)i * rt_dtype_size(t), 0, rt_dtype_size(t));
            break;
        }
    }
}

static enum rt_status random_feeds(struct srv_run *r, struct rt_error *err)
{
    enum rt_status st = choose_signature(r, (struct rt_span){0}, err);
    uint64_t state = 42;
    for (int i = 0; !st && i < r->n_shapes; i++) {
        bool known = false;
        for (int k = 0; k < r->s->def->n_inputs; k++)
            known |= rt_span_is(rt_span_of(r->shapes[i].alias, r->shapes[i].alias_len),
                                r->s->def->inputs[k].alias);
        if (!known)
            st = rt_fail(err, RT_INVALID_ARGUMENT, "--shape: the signature has no input \"%.*s\"",
                         (int)r->shapes[i].alias_len, r->shapes[i].alias);
    }
    for (int i = 0; !st && i < r->s->def->n_inputs; i++) {
        const struct rt_tensor_spec *in = &r->s->def->inputs[i];
        enum rt_dtype t = rt_callable_feed_dtype(r->s->call, i);
        struct rt_shape shape = {0};
        st = shape_of_input(r, in, &shape, err);
        if (!st && !rt_dtype_is_plain(t) && t != RT_STRING)
            st = rt_fail(err, RT_UNIMPLEMENTED, "input \"%s\" is a %s: give --inputs", in->alias,
                         rt_dtype_name(t));
        if (!st)
            st = rt_tensor_new(&r->feeds[i], NULL, t, shape.rank, shape.dim, err);
        if (!st)
            put_random(r->feeds[i].data, t, rt_tensor_count(&r->feeds[i]),
                       strstr(in->alias, "mask") != NULL, &state);
    }
    return st;
}

/* ---- running ---- */

static enum rt_status run_once(const struct srv_run *r, struct rt_error *err)
{
    const struct rt_signature *def = r->s->def;
    struct rt_tensor *fetches =
        rt_arena_array(r->arena, (size_t)def->n_outputs + 1, sizeof *fetches);
    if (!fetches)
        return rt_fail_memory(err, "fetches", 0);
    enum rt_status st = srv_run_call(r, r->s->call, fetches, NULL, rt_now_ns(), err);
    struct rt_bytes out;
    rt_bytes_init(&out, SIZE_MAX / 2);
    if (!st)
        st = srv_json_encode_predict(&out, def, fetches, r->form, NULL, err);
    if (!st && out.failed)
        st = rt_fail_memory(err, "the answer", out.n);
    if (!st) {
        fwrite(out.p, 1, out.n, stdout);
        putchar('\n');
    }
    rt_bytes_clear(&out);
    for (int i = 0; i < def->n_outputs; i++)
        rt_tensor_clear(&fetches[i]);
    return st;
}

/* Loads the model within the time limit. With --plan, the warm-up may take only half of the time
 * limit, so that the runs with the requested shapes have time even if a run of the warm-up never
 * ends. After the load, the session's flag has no effect. */
static enum rt_status load(struct srv_run *r, const char *dir, struct rt_model_options *options,
                           struct rt_error *err)
{
    const int64_t start = rt_now_ns();
    options->warm_up_ns = r->timeout_ms * 500000;
    r->end_ns = start + r->timeout_ms * 1000000;
    if (r->timeout_ms)
        options->session.cancelled = srv_limit_time(r->timeout_ms);
    enum rt_status st = rt_model_load(&r->model, dir, options, err);
    if (st == RT_CANCELLED)
        st = rt_fail(err, RT_DEADLINE_EXCEEDED, "loading was given up after %g s (--timeout)",
                     (double)r->timeout_ms / 1000);
    r->load_ns = rt_now_ns() - start;
    return st;
}

/* Opens the GPU that --device names, if any, for the session. */
static enum rt_status open_gpu(const struct srv_run *r, struct rt_accelerators *gpus,
                               struct rt_session_options *session, struct rt_error *err)
{
    const struct rt_accelerator_options options = {
        .which = r->gpu, .n_streams = 2, .pinned_bytes = PINNED_BYTES};
    if (!r->gpu)
        return RT_OK;
    const enum rt_status st = rt_registry_open_accelerators(session->registry, gpus, &options, err);
    if (st || !gpus->n)
        return st ? st : rt_fail(err, RT_NOT_FOUND, "there is no GPU %s", r->gpu);
    session->accelerators = rt_one_accelerator(gpus->device[0]);
    return RT_OK;
}

int srv_command_run(int argc, const char *const *argv, const struct rt_registry *registry)
{
    struct srv_run r = {.command = argv[0], .plan = strcmp(argv[0], "inspect") == 0};
    int code = parse_args(&r, argc, argv);
    if (code >= 0)
        return code;
    r.arena = rt_arena_new(SIZE_MAX);
    struct rt_error err = {.arena = r.arena};
    const char *dir = NULL;
    struct rt_parallel *parallel = rt_parallel_new((int)r.n_threads, (int)r.n_threads);
    struct rt_autotune *autotune = NULL;
    struct rt_accelerators gpus = {0};
    struct rt_model_options options = {
        /* Compiles specialisations before the runs that need them, as in a server that has been
         * running for some time. */
        .session = {.registry = registry,
                    .parallel = parallel,
                    .tuning = r.tuning,
                    .compiles_inline = r.bench || r.profile || r.compare || r.plan || r.gpu},
        .allow_unsupported_signatures = true,
        .warm_up = r.bench || r.profile || r.plan};
    enum rt_status st = r.arena && parallel ? srv_find_version(r.dir, r.arena, &dir, &err)
                                            : rt_fail_memory(&err, "arena or threads", 0);
    if (!st)
        st = rt_autotune_open(&autotune, r.autotune_cache, &err);
    options.session.autotune = autotune;
    if (!st)
        st = open_gpu(&r, &gpus, &options.session, &err);
    if (!st && r.tuning.bf16 && !rt_machine_has_bf16())
        rt_print(stderr, "slipway %s: warning: " SRV_NO_BF16 "\n", r.command);
    if (!st && r.n_threads > rt_machine_cores())
        rt_print(stderr, "slipway %s: warning: --threads %lld, and %d core%s to run them\n",
                 r.command, (long long)r.n_threads, rt_machine_cores(),
                 rt_machine_cores() == 1 ? "" : "s");
    if (!st)
        st = load(&r, dir, &options, &err);
    if (!st)
        st = r.inputs              ? feeds_from_file(&r, &err)
             : mode_of(&r) == ONCE ? no_feeds(&r, &err)
                                   : random_feeds(&r, &err);
    if (!st)
        st = r.bench     ? srv_run_bench(&r, &err)
             : r.profile ? srv_run_profile(&r, &err)
             : r.compare ? srv_run_compare(&r, dir, registry, &err)
             : r.plan    ? srv_run_plan(&r, &err)
                         : run_once(&r, &err);
    if (st)
        srv_command_failed(r.command, &err);
    for (int i = 0; r.feeds && i < r.s->def->n_inputs; i++)
        rt_tensor_clear(&r.feeds[i]);
    rt_model_free(r.model);
    if (gpus.close)
        gpus.close(&gpus);
    rt_autotune_free(autotune);
    rt_parallel_free(parallel);
    rt_arena_free(r.arena);
    return st ? SRV_EXIT_FAILED : SRV_EXIT_OK;
}

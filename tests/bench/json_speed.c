/*
 * Measures how many megabytes of JSON per second one core decodes into a tensor and encodes from
 * one, for a float image of 224 x 224 x 3 in row form. The speed of jansson is printed for
 * comparison. Run as json_speed, or by `./run bench json`. Numbers have the digits that Slipway
 * writes, or the 16 or 17 digits that Python's json module writes for a float32 array.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/arena.h"
#include "server/protocol/tfs/json_tensor.h"

enum { SIDE = 224, DEPTH = 3, N = SIDE * SIDE * DEPTH, ROUNDS = 15 };

static float image[N];

static void fill_image(void)
{
    uint32_t x = 1;
    for (int i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        image[i] = (float)(x >> 24) / 255.0f;
    }
}

/* Returns the CPU time of this thread, which other programs on the core do not increase. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void give_up(const char *what)
{
    fprintf(stderr, "json_speed: %s\n", what);
    exit(1);
}

/* the body is {"instances": [[[[0.1, ...]]]]} */
static void make_text(struct rt_bytes *text, int digits)
{
    text->n = 0;
    rt_bytes_adds(text, "{\"instances\": [[");
    for (int i = 0; i < N; i++) {
        if (i % DEPTH == 0)
            rt_bytes_addf(text, "%s%s[", i ? ", " : "", i % (SIDE * DEPTH) == 0 ? "[" : "");
        else
            rt_bytes_adds(text, ", ");
        rt_bytes_addf(text, "%.*g", digits, (double)image[i]);
        if (i % DEPTH == DEPTH - 1)
            rt_bytes_addc(text, ']');
        if (i % (SIDE * DEPTH) == SIDE * DEPTH - 1)
            rt_bytes_addc(text, ']');
    }
    rt_bytes_adds(text, "]]}");
    if (text->failed)
        give_up("out of memory");
}

struct ours {
    struct rt_tensor_spec spec;
    struct rt_signature signature;
    struct rt_arena *arena;
    struct rt_bytes out;
    struct rt_tensor tensor;
};

static void decode_ours(struct ours *o, const char *text, size_t n)
{
    struct rt_error err = {.arena = o->arena};
    struct srv_json_doc doc;
    enum srv_json_form form;
    rt_tensor_clear(&o->tensor);
    memset(&o->tensor, 0, sizeof o->tensor);
    if (srv_json_check(&doc, rt_span_of(text, n), NULL, &err) ||
        srv_json_decode_predict(&doc, &o->signature, rt_span_of("", 0),
                                &(struct srv_allowance){.left = SIZE_MAX}, &o->tensor, &form, &err))
        give_up(rt_error_text(&err));
    if (memcmp(o->tensor.data, image, sizeof image) != 0)
        give_up("the tensor is not the image");
}

static void encode_ours(struct ours *o)
{
    struct rt_error err = {.arena = o->arena};
    o->out.n = 0;
    if (srv_json_encode_predict(&o->out, &o->signature, &o->tensor, SRV_JSON_ROW, NULL, &err))
        give_up(rt_error_text(&err));
}

/* Stores the numbers of a nested array at `to`, in order, and returns a pointer past the last
 * number. */
static float *flatten(const json_t *v, float *to)
{
    if (!json_is_array(v)) {
        *to = (float)json_number_value(v);
        return to + 1;
    }
    for (size_t i = 0; i < json_array_size(v); i++)
        to = flatten(json_array_get(v, i), to);
    return to;
}

static void decode_jansson(const char *text, size_t n)
{
    static float got[N];
    json_error_t error;
    json_t *top = json_loadb(text, n, 0, &error);
    if (!top || flatten(json_object_get(top, "instances"), got) != got + N ||
        memcmp(got, image, sizeof image) != 0)
        give_up("jansson does not read the image");
    json_decref(top);
}

static size_t encode_jansson(void)
{
    json_t *rows = json_array(), *top = json_object();
    const float *from = image;
    for (int y = 0; y < SIDE; y++) {
        json_t *row = json_array();
        for (int x = 0; x < SIDE; x++) {
            json_t *pixel = json_array();
            for (int c = 0; c < DEPTH; c++)
                json_array_append_new(pixel, json_real((double)*from++));
            json_array_append_new(row, pixel);
        }
        json_array_append_new(rows, row);
    }
    json_t *batch = json_array();
    json_array_append_new(batch, rows);
    json_object_set_new(top, "predictions", batch);
    char *text = json_dumps(top, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!text)
        give_up("jansson does not write the image");
    size_t n = strlen(text);
    free(text);
    json_decref(top);
    return n;
}

static void report(const char *what, size_t bytes, int64_t best_ns)
{
    printf("%-28s %8.0f MB/s  %7.2f ms  %zu bytes\n", what, (double)bytes * 1e3 / (double)best_ns,
           (double)best_ns / 1e6, bytes);
}

/* Sets `best` to the CPU time of the fastest of ROUNDS runs of `work`, because other programs on
 * the core slow runs down. */
#define BEST(best, work)                                                                           \
    do {                                                                                           \
        best = INT64_MAX;                                                                          \
        for (int round = 0; round < ROUNDS; round++) {                                             \
            int64_t began = cpu_ns();                                                              \
            work;                                                                                  \
            int64_t took = cpu_ns() - began;                                                       \
            best = took < best ? took : best;                                                      \
        }                                                                                          \
    } while (0)

int main(void)
{
    static const struct {
        const char *name;
        int digits;
    } texts[] = {{"9 digits", 9}, {"17 digits", 17}, {"4 digits", 4}};
    struct ours o = {.spec = {.alias = "x", .dtype = RT_F32}};
    int64_t best;
    struct rt_bytes text;
    size_t n;
    o.signature =
        (struct rt_signature){.n_inputs = 1, .inputs = &o.spec, .n_outputs = 1, .outputs = &o.spec};
    o.arena = rt_arena_new(1 << 20);
    rt_bytes_init(&o.out, SIZE_MAX / 2);
    rt_bytes_init(&text, SIZE_MAX / 2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char what[64];
        fill_image();
        /* The text with 4 digits per number contains rounded numbers. This loop rounds the image
         * in the same way. */
        if (i == 2)
            for (int k = 0; k < N; k++) {
                char number[32];
                snprintf(number, sizeof number, "%.4g", (double)image[k]);
                image[k] = strtof(number, NULL);
            }
        make_text(&text, texts[i].digits);
        snprintf(what, sizeof what, "read, %s", texts[i].name);
        BEST(best, decode_ours(&o, text.p, text.n));
        report(what, text.n, best);
        snprintf(what, sizeof what, "  jansson");
        BEST(best, decode_jansson(text.p, text.n));
        report(what, text.n, best);
        snprintf(what, sizeof what, "write");
        BEST(best, encode_ours(&o));
        report(what, o.out.n, best);
        BEST(best, n = encode_jansson());
        report("  jansson", n, best);
    }
    rt_bytes_clear(&text);
    rt_tensor_clear(&o.tensor);
    rt_bytes_clear(&o.out);
    rt_arena_free(o.arena);
    return 0;
}

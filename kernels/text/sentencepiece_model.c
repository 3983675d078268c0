#include "kernels/text/sentencepiece_model.h"

#include "kernels/parsing/wire_example.h"
#include "kernels/text/trie_builder.h"
#include "runtime/base/checked.h"
#include "runtime/core/copy.h"
#include "runtime/core/pool.h"

#include <float.h>

/* Numbers of the fields in the messages. */
enum { MODEL_PIECES = 1, MODEL_TRAINER, MODEL_NORMALIZER, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };
enum {
    TRAINER_KIND = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_BYTES = 35,
    TRAINER_UNKNOWN_SURFACE = 44,
    TRAINER_BEGIN = 46,
    TRAINER_END,
};
enum { RULES_MAP = 2, RULES_ADD, RULES_REMOVE, RULES_ESCAPE };

/* The fields of a message that are read, apart from the pieces. */
struct parsed {
    uint64_t kind;
    bool space_is_suffix;
    struct rt_span map, undo_map; /* precompiled replacements */
};

static enum rt_status fail_pieces(struct rt_error *err, const char *name, const char *what)
{
    return rt_fail(err, RT_INTERNAL, "%s: %s", name, what);
}

/* Calls the check at every 16,384th index of a loop. */
static enum rt_status tick(const struct rt_make *make, size_t i)
{
    return (i & 0x3fff) == 0x3fff ? rt_check_call(make->check, make->err) : RT_OK;
}

/* Allocates memory for n elements, or for one if n is 0. Returns NULL on failure, with the reason
 * in make->err. The check looks at the memory that the session now holds before it is written. */
static void *allocate(const struct rt_make *make, const char *name, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (!rt_mul_size(n ? n : 1, size, &bytes)) {
        rt_fail_memory(make->err, name, SIZE_MAX);
        return NULL;
    }
    p = rt_pool_alloc(make->pool, bytes, name, make->err);
    if (p && rt_check_call(make->check, make->err)) {
        rt_pool_free(p);
        return NULL;
    }
    return p;
}

/* ---- messages ---- */

/* The type of a varint field whose value is an enumerator of at most `max`. Other values are
 * unknown fields, which are skipped. */
static bool is_enumerator(const struct kn_field *f, uint64_t max)
{
    return f->type == KN_VARINT && f->value >= 1 && f->value <= max;
}

static bool read_piece(struct rt_span bytes, struct kn_sp_piece *out)
{
    struct kn_field f;
    int more;

    *out = (struct kn_sp_piece){.type = KN_SP_NORMAL};
    while ((more = kn_field_next(&bytes, &f)) > 0) {
        if (f.number == PIECE_TEXT && f.type == KN_BYTES)
            out->text = f.bytes;
        else if (f.number == PIECE_SCORE && f.type == KN_FIXED32)
            memcpy(&out->score, &(uint32_t){(uint32_t)f.value}, sizeof out->score);
        else if (f.number == PIECE_TYPE && is_enumerator(&f, KN_SP_BYTE))
            out->type = (enum kn_sp_type)f.value;
    }
    return more == 0;
}

static bool read_trainer(struct rt_span bytes, struct kn_sp_model *m, struct parsed *x)
{
    struct kn_field f;
    int more;

    while ((more = kn_field_next(&bytes, &f)) > 0) {
        if (f.number == TRAINER_KIND && is_enumerator(&f, KN_SP_CHAR))
            m->kind = (enum kn_sp_kind)f.value;
        else if (f.number == TRAINER_SUFFIX && f.type == KN_VARINT)
            x->space_is_suffix = f.value != 0;
        else if (f.number == TRAINER_BYTES && f.type == KN_VARINT)
            m->has_bytes = f.value != 0;
        else if (f.number == TRAINER_UNKNOWN_SURFACE && f.type == KN_BYTES)
            m->unknown_surface = f.bytes;
        else if (f.number == TRAINER_BEGIN && f.type == KN_BYTES)
            m->begin_piece = f.bytes;
        else if (f.number == TRAINER_END && f.type == KN_BYTES)
            m->end_piece = f.bytes;
    }
    return more == 0;
}

static bool read_rules(struct rt_span bytes, struct kn_sp_rules *rules, struct rt_span *map)
{
    struct kn_field f;
    int more;

    while ((more = kn_field_next(&bytes, &f)) > 0) {
        if (f.number == RULES_MAP && f.type == KN_BYTES)
            *map = f.bytes;
        else if (f.number == RULES_ADD && f.type == KN_VARINT)
            rules->adds_space = f.value != 0;
        else if (f.number == RULES_REMOVE && f.type == KN_VARINT)
            rules->removes_spaces = f.value != 0;
        else if (f.number == RULES_ESCAPE && f.type == KN_VARINT)
            rules->escapes_spaces = f.value != 0;
    }
    return more == 0;
}

static enum rt_status fail_message(const struct rt_make *make, const char *name)
{
    return fail_pieces(make->err, name, "could not parse ModelProto.");
}

/* Counts the pieces, and checks that the bytes are a message. */
static enum rt_status count_pieces(const struct rt_make *make, const char *name,
                                   struct rt_span bytes, size_t *n)
{
    struct kn_field f;
    int more;
    enum rt_status st = RT_OK;

    *n = 0;
    for (size_t i = 0; !st && (more = kn_field_next(&bytes, &f)) > 0; i++) {
        *n += f.number == MODEL_PIECES && f.type == KN_BYTES;
        st = tick(make, i);
    }
    return st || more == 0 ? st : fail_message(make, name);
}

static enum rt_status read_model(const struct rt_make *make, const char *name, struct rt_span bytes,
                                 struct kn_sp_model *m, struct parsed *x)
{
    struct kn_field f;
    bool ok = true;
    enum rt_status st = RT_OK;

    for (size_t i = 0; ok && !st && kn_field_next(&bytes, &f) > 0; i++) {
        st = tick(make, i);
        if (f.type != KN_BYTES)
            continue;
        if (f.number == MODEL_PIECES) {
            ok = read_piece(f.bytes, &m->pieces[m->n++]);
            /* check_types refuses an empty piece. Messages of 2 bytes, of which there may be very
             * many, are not read to their end before that. */
            if (ok && m->pieces[m->n - 1].text.n == 0)
                return RT_OK;
        }
        if (f.number == MODEL_TRAINER)
            ok = read_trainer(f.bytes, m, x);
        else if (f.number == MODEL_NORMALIZER)
            ok = read_rules(f.bytes, &m->rules, &x->map);
        else if (f.number == MODEL_DENORMALIZER)
            ok = read_rules(f.bytes, &m->undo, &x->undo_map);
    }
    return st || ok ? st : fail_message(make, name);
}

/* ---- replacements ---- */

/* Reads precompiled replacements: the size of the trie in bytes, the trie, and the replacements. */
static bool open_map(struct rt_span map, struct kn_sp_rules *rules)
{
    uint32_t size;

    if (map.n == 0)
        return true;
    if (map.n <= sizeof size)
        return false;
    memcpy(&size, map.p, sizeof size);
    map = rt_span_of(map.p + sizeof size, map.n - sizeof size);
    if (size < sizeof(uint32_t) || size > map.n)
        return false;
    rules->trie = (struct kn_vector){map.p, size / sizeof(uint32_t), sizeof(uint32_t)};
    rules->text = rt_span_of(map.p + size, map.n - size);
    return true;
}

/* ---- the vocabulary ---- */

int kn_sp_byte(struct rt_span text)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;

    if (text.n != 6 || memcmp(text.p, "<0x", 3) != 0 || text.p[5] != '>' || !text.p[3] ||
        !text.p[4])
        return -1;
    high = strchr(digits, text.p[3]);
    low = strchr(digits, text.p[4]);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Sets the unknown piece and the pieces of bytes. */
static enum rt_status check_types(const struct rt_make *make, struct kn_sp_model *m,
                                  const char *name)
{
    struct rt_error *err = make->err;
    bool has_byte[KN_SP_BYTES] = {false}, has_unknown = false;
    int n_bytes = 0;

    for (size_t i = 0; i < m->n; i++) {
        const struct kn_sp_piece *p = &m->pieces[i];
        if (p->text.n == 0)
            return rt_fail(err, RT_INTERNAL, "%s: piece %zu must not be empty", name, i);
        if (memchr(p->text.p, 0, p->text.n))
            return rt_fail(err, RT_INTERNAL, "%s: piece %zu contains a NUL", name, i);
        if (tick(make, i))
            return err->code;
        m->has_unused = m->has_unused || p->type == KN_SP_UNUSED;
        if (p->type == KN_SP_UNKNOWN) {
            if (has_unknown)
                return fail_pieces(err, name, "unk is already defined.");
            has_unknown = true;
            m->unknown = (uint32_t)i;
        } else if (p->type == KN_SP_BYTE) {
            const int byte = kn_sp_byte(p->text);
            if (!m->has_bytes || byte < 0)
                return rt_fail(err, RT_INTERNAL, "%s: byte piece %.*s is %s", name,
                               (int)(p->text.n < 64 ? p->text.n : 64), (const char *)p->text.p,
                               m->has_bytes ? "invalid."
                                            : "found although `byte_fallback` is false.");
            n_bytes += !has_byte[byte];
            has_byte[byte] = true;
            m->byte_id[byte] = (uint32_t)i;
        }
    }
    if (!has_unknown)
        return fail_pieces(err, name, "unk is not defined.");
    if (m->has_bytes && n_bytes != KN_SP_BYTES)
        return fail_pieces(err, name,
                           "there are not 256 byte pieces although `byte_fallback` is true.");
    return RT_OK;
}

static bool is_found(enum kn_sp_type type)
{
    return type == KN_SP_NORMAL || type == KN_SP_USER_DEFINED || type == KN_SP_UNUSED;
}

static bool is_symbol(enum kn_sp_type type)
{
    return type == KN_SP_USER_DEFINED;
}

static bool is_reserved(enum kn_sp_type type)
{
    return !is_found(type);
}

/* Builds a trie of the pieces whose type is `wanted`. */
static enum rt_status build(const struct rt_make *make, const struct kn_sp_model *m,
                            bool (*wanted)(enum kn_sp_type type), struct kn_trie_key *keys,
                            const char *name, struct kn_vector *out)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        if (wanted(m->pieces[i].type))
            keys[n++] = (struct kn_trie_key){m->pieces[i].text, (uint32_t)i};
    return kn_trie_build(make, keys, n, name, out);
}

static enum rt_status build_all(const struct rt_make *make, struct kn_sp_model *m, const char *name)
{
    struct kn_trie_key *keys = allocate(make, name, m->n, sizeof *keys);
    enum rt_status st;

    if (!keys)
        return make->err->code;
    st = build(make, m, is_found, keys, name, &m->found);
    if (!st)
        st = build(make, m, is_reserved, keys, name, &m->reserved);
    if (!st)
        st = build(make, m, is_symbol, keys, name, &m->symbols);
    if (!st && m->kind == KN_SP_UNIGRAM && m->found.n == 0)
        st = fail_pieces(make->err, name, "no pieces are loaded.");
    rt_pool_free(keys);
    return st;
}

static enum rt_status set_scores(const struct rt_make *make, struct kn_sp_model *m)
{
    enum rt_status st = RT_OK;

    m->min_score = FLT_MAX;
    m->max_score = FLT_MIN; /* As in SentencePiece, the least positive number. */
    for (size_t i = 0; i < m->n && !st; i++) {
        const float score = m->pieces[i].score;
        st = tick(make, i);
        if (m->pieces[i].type != KN_SP_NORMAL)
            continue;
        if (score < m->min_score)
            m->min_score = score;
        if (score > m->max_score)
            m->max_score = score;
    }
    return st;
}

/* ---- a model ---- */

enum rt_status kn_sp_open(const struct rt_make *make, struct rt_span bytes, const char *name,
                          struct kn_sp_model *out)
{
    static const struct kn_sp_rules rules = {
        .adds_space = true, .removes_spaces = true, .escapes_spaces = true};
    struct kn_sp_model m = {.kind = KN_SP_UNIGRAM,
                            .unknown_surface = rt_span_str(" \xe2\x81\x87 "),
                            .begin_piece = rt_span_str("<s>"),
                            .end_piece = rt_span_str("</s>"),
                            .rules = rules,
                            .undo = rules};
    struct parsed x = {.kind = 0};
    enum rt_status st = RT_OK;
    size_t n;

    if (bytes.n == 0)
        return rt_fail(make->err, RT_INVALID_ARGUMENT, "Model argument must be specified.");
    st = count_pieces(make, name, bytes, &n);
    if (st)
        return st;
    m.bytes = allocate(make, name, bytes.n, 1);
    m.pieces = m.bytes ? allocate(make, name, n, sizeof *m.pieces) : NULL;
    if (!m.pieces)
        st = make->err->code;
    if (!st)
        st = rt_copy_elements_checked(RT_U8, m.bytes, bytes.p, (int64_t)bytes.n, make->check,
                                      make->err);
    if (!st)
        st = read_model(make, name, rt_span_of(m.bytes, bytes.n), &m, &x);
    if (st)
        goto fail;
    m.rules.space_is_suffix = x.space_is_suffix;
    m.has_undo = x.undo_map.n > 0;
    if (!open_map(x.map, &m.rules) || !open_map(x.undo_map, &m.undo)) {
        st = fail_pieces(make->err, name, "Blob for normalization rule is broken.");
        goto fail;
    }
    st = set_scores(make, &m);
    if (!st)
        st = check_types(make, &m, name);
    if (!st)
        st = build_all(make, &m, name);
    if (st)
        goto fail;
    *out = m;
    return RT_OK;

fail:
    kn_sp_close(&m);
    return st;
}

void kn_sp_close(struct kn_sp_model *m)
{
    rt_pool_free(m->bytes);
    rt_pool_free(m->pieces);
    rt_pool_free((void *)(uintptr_t)m->found.p);
    rt_pool_free((void *)(uintptr_t)m->reserved.p);
    rt_pool_free((void *)(uintptr_t)m->symbols.p);
    *m = (struct kn_sp_model){.n = 0};
}

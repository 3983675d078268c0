#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/device/block.cuh"
#include "kernels/cuda/device/vector.cuh"
#include "runtime/fusion/attention_op.h"

enum {
    THREADS = 256, /* number of threads of a block */
    ROWS = KC_ATTENTION_ROWS,
    KEYS = 64,    /* number of keys in a group */
    DEPTH = 32,   /* number of elements per query and key that are in shared memory at a time */
    COLUMNS = 64, /* number of elements per value that are in shared memory at a time */
    PARTS = KC_ATTENTION_COLUMNS / COLUMNS,
    OWN = 4,                /* each thread computes OWN x OWN elements of a product */
    ACROSS = COLUMNS / OWN, /* number of threads that share a row */
    /* Distance in floats between the columns of a matrix in shared memory. Q, K and the scores are
     * stored column by column, so that a thread reads the elements of its OWN rows at once. The
     * padding reduces conflicts of memory banks. */
    STEP = ROWS + 4,
    STAGED = 2 * DEPTH * STEP,     /* the parts of Q and K need more space than the values */
    EACH = ROWS * DEPTH / THREADS, /* number of elements of Q and of K that a thread copies */
    PER_ROW = 4,                   /* number of threads that reduce one row of scores */
};

/* The tile that a block computes. */
struct tile {
    int64_t batch, head, row, column; /* the first row and the first column of the tile */
};

KC_DEVICE struct tile tile_of(const struct kc_attention *a, int64_t index)
{
    const int64_t down = (a->rows + ROWS - 1) / ROWS;
    const int64_t across = (a->d + KC_ATTENTION_COLUMNS - 1) / KC_ATTENTION_COLUMNS;
    struct tile t;
    t.column = index % across * KC_ATTENTION_COLUMNS;
    t.row = index / across % down * ROWS;
    t.head = index / across / down % a->heads;
    t.batch = index / across / down / a->heads;
    return t;
}

/* The vectors of Q or K of which a block reads a part. */
struct vectors {
    const float *from;
    int64_t stride;      /* distance between two vectors */
    int64_t first, most; /* index of the first vector of the part, and number of all vectors */
};

/* Returns the place of element k of this thread's part of a matrix of ROWS vectors. The threads of
 * a warp have 8 elements of 4 vectors each, which lie in different memory banks. */
KC_DEVICE int place_of(int k, int *row, int *column)
{
    const int part = k * (THREADS / KC_WARP) + KC_THREAD / KC_WARP, lane = KC_THREAD % KC_WARP;
    *column = part % (DEPTH / 8) * 8 + lane % 8;
    *row = part / (DEPTH / 8) * 4 + lane / 8;
    return *column * STEP + *row;
}

/* Reads this thread's part of DEPTH elements of each of ROWS vectors, beginning with element h.
 * Returns 0 for elements and vectors that do not exist. All of a thread's loads are independent, so
 * that it waits for memory once. */
KC_DEVICE void read_vectors(const struct vectors *v, int64_t h, int64_t length, float x[EACH])
{
    for (int k = 0; k < EACH; k++) {
        int row, column;
        place_of(k, &row, &column);
        x[k] = v->first + row < v->most && h + column < length
                   ? v->from[(v->first + row) * v->stride + h + column]
                   : 0;
    }
}

/* Writes what read_vectors has read to shared memory, column by column. */
KC_DEVICE void stage_vectors(float *to, const float x[EACH])
{
    for (int k = 0; k < EACH; k++) {
        int row, column;
        const int at = place_of(k, &row, &column);
        to[at] = x[k];
    }
}

KC_DEVICE float combine(int64_t op, float score, float x)
{
    switch (op) {
    case RT_ATTENTION_MUL:
        return score * x;
    case RT_ATTENTION_DIV:
        return score / x;
    case RT_ATTENTION_SUB:
        return score - x;
    default:
        return score + x;
    }
}

/* Applies the steps to the scores of OWN rows from `row` on with OWN keys from `key` on. Scores of
 * rows and keys that do not exist stay as they are. */
KC_DEVICE void apply_steps(const struct kc_attention *a, const struct tile *t, int64_t row,
                           int64_t key, struct kc_vector score[OWN])
{
    for (int k = 0; k < a->n_steps; k++) {
        const struct kc_attention_step *s = &a->step[k];
        const int is_mask = s->op == RT_ATTENTION_KEEP || s->op == RT_ATTENTION_REPLACE;
        const int is_scalar = !is_mask && !s->stride[2] && !s->stride[3];
        const int64_t first = t->batch * s->stride[0] + t->head * s->stride[1] +
                              row * s->stride[2] + key * s->stride[3];
        const uint8_t *mask = (const uint8_t *)KC_ADDRESS(s->operand);
        const float *operand = (const float *)KC_ADDRESS(s->operand);
        const float other = is_mask ? *KC_ADDRESS(s->other) : is_scalar ? operand[first] : 0;
        for (int j = 0; j < OWN; j++)
            for (int i = 0; i < OWN; i++) {
                const int64_t at = first + i * s->stride[2] + j * s->stride[3];
                float *x = &score[j].v[i];
                if (row + i >= a->rows || key + j >= a->keys)
                    continue;
                if (!is_mask)
                    *x = combine(s->op, *x, is_scalar ? other : operand[at]);
                else if ((mask[at] != 0) != (s->op == RT_ATTENTION_KEEP))
                    *x = other;
            }
    }
}

/* Computes the score of each row of the tile with each key of the group that begins at `first`. */
KC_DEVICE void compute_scores(const struct kc_attention *a, const struct tile *t, int64_t first,
                              float *stage, float *score)
{
    const int row = KC_THREAD / ACROSS * OWN, column = KC_THREAD % ACROSS * OWN;
    const struct vectors q = {KC_ADDRESS(a->q) + t->batch * a->q_at.batch + t->head * a->q_at.head,
                              a->q_at.row, t->row, a->rows};
    const struct vectors k = {KC_ADDRESS(a->k) + t->batch * a->k_at.batch + t->head * a->k_at.head,
                              a->k_at.row, first, a->keys};
    float *keys = stage + DEPTH * STEP, q_part[EACH], k_part[EACH];
    struct kc_vector sum[OWN]; /* for each of the thread's keys, the scores of its rows */
    for (int j = 0; j < OWN; j++)
        for (int i = 0; i < OWN; i++)
            sum[j].v[i] = 0;
    for (int64_t h = 0; h < a->h; h += DEPTH) {
        read_vectors(&q, h, a->h, q_part);
        read_vectors(&k, h, a->h, k_part);
        KC_BARRIER();
        stage_vectors(stage, q_part);
        stage_vectors(keys, k_part);
        KC_BARRIER();
        for (int c = 0; c < DEPTH; c++) {
            const struct kc_vector x = kc_load(stage + c * STEP + row, OWN);
            const struct kc_vector y = kc_load(keys + c * STEP + column, OWN);
            for (int j = 0; j < OWN; j++)
                for (int i = 0; i < OWN; i++)
                    sum[j].v[i] += x.v[i] * y.v[j];
        }
    }
    apply_steps(a, t, t->row + row, first + column, sum);
    for (int j = 0; j < OWN; j++)
        kc_store(score + (column + j) * STEP + row, sum[j], OWN);
}

/*
 * Replaces the scores of n keys by their exponentials relative to the maximum so far. Updates the
 * maximum `top` and the sum of each row. Sets `factor` to the number by which the exponentials of
 * earlier keys must be multiplied.
 *
 * For rows beyond the end of the tensor, the results are not used.
 */
KC_DEVICE void update_rows(int n, float *score, float *top, float *sum, float *factor)
{
    const int row = KC_THREAD / PER_ROW, lane = KC_THREAD % PER_ROW;
    float *s = score + row;
    const float before = top[row];
    float now = before, part = 0;
    for (int c = lane; c < n; c += PER_ROW)
        now = kc_max(now, s[c * STEP]);
    for (int mask = 1; mask < PER_ROW; mask *= 2)
        now = kc_max(now, KC_SHUFFLE_XOR(now, mask));
    /* If all scores so far are -inf, nothing is added. The row then ends as 0 / 0. */
    const float scale = now == -INFINITY ? 1 : expf(before - now);
    for (int c = lane; c < n; c += PER_ROW) {
        const float e = now == -INFINITY ? 0 : expf(s[c * STEP] - now);
        s[c * STEP] = e;
        part += e;
    }
    for (int mask = 1; mask < PER_ROW; mask *= 2)
        part += KC_SHUFFLE_XOR(part, mask);
    if (lane == 0) {
        top[row] = now;
        sum[row] = sum[row] * scale + part;
        factor[row] = scale;
    }
}

/* Adds the product of the exponentials of n keys and their values to `context`. */
KC_DEVICE void add_context(const struct kc_attention *a, const struct tile *t, int64_t first, int n,
                           float *stage, const float *score, const float *factor,
                           struct kc_vector context[PARTS][OWN])
{
    const int row = KC_THREAD / ACROSS * OWN, column = KC_THREAD % ACROSS * OWN;
    const float *v = KC_ADDRESS(a->v) + t->batch * a->v_at.batch + t->head * a->v_at.head;
    KC_UNROLL
    for (int p = 0; p < PARTS; p++) {
        const int64_t from = t->column + p * COLUMNS;
        if (from >= a->d)
            continue;
        float part[KEYS * COLUMNS / THREADS];
        for (int k = 0; k < KEYS * COLUMNS / THREADS; k++) {
            const int c = (KC_THREAD + k * THREADS) / COLUMNS;
            const int64_t at = from + KC_THREAD % COLUMNS;
            part[k] = c < n && at < a->d ? v[(first + c) * a->v_at.row + at] : 0;
        }
        KC_BARRIER();
        for (int k = 0; k < KEYS * COLUMNS / THREADS; k++)
            stage[KC_THREAD + k * THREADS] = part[k];
        KC_BARRIER();
        for (int i = 0; i < OWN; i++)
            for (int j = 0; j < OWN; j++)
                context[p][i].v[j] *= factor[row + i];
        for (int c = 0; c < n; c++) {
            const struct kc_vector x = kc_load(score + c * STEP + row, OWN);
            const struct kc_vector y = kc_load(stage + c * COLUMNS + column, OWN);
            for (int i = 0; i < OWN; i++)
                for (int j = 0; j < OWN; j++)
                    context[p][i].v[j] += x.v[i] * y.v[j];
        }
    }
}

KC_KERNEL_RESIDENT(kc_attention, kc_attention, args, 2)
{
    KC_SHARED(struct kc_vector, stage_vector, STAGED / 4);
    KC_SHARED(struct kc_vector, score_vector, KEYS * STEP / 4);
    KC_SHARED(float, top, ROWS);
    KC_SHARED(float, sum, ROWS);
    KC_SHARED(float, factor, ROWS);
    float *stage = (float *)stage_vector, *score = (float *)score_vector;
    const int row = KC_THREAD / ACROSS * OWN, column = KC_THREAD % ACROSS * OWN;
    const int64_t n_tiles = args.batches * args.heads * ((args.rows + ROWS - 1) / ROWS) *
                            ((args.d + KC_ATTENTION_COLUMNS - 1) / KC_ATTENTION_COLUMNS);
    for (int64_t index = KC_BLOCK; index < n_tiles; index += KC_N_BLOCKS) {
        const struct tile t = tile_of(&args, index);
        struct kc_vector context[PARTS][OWN];
        for (int p = 0; p < PARTS; p++)
            for (int i = 0; i < OWN; i++)
                for (int j = 0; j < OWN; j++)
                    context[p][i].v[j] = 0;
        KC_BARRIER(); /* another thread may still be using `sum` for the last tile */
        if (KC_THREAD < ROWS) {
            top[KC_THREAD] = -INFINITY;
            sum[KC_THREAD] = 0;
        }
        for (int64_t first = 0; first < args.keys; first += KEYS) {
            const int n = (int)(args.keys - first < KEYS ? args.keys - first : KEYS);
            KC_BARRIER(); /* another thread may still be reading the scores of the last group */
            compute_scores(&args, &t, first, stage, score);
            KC_BARRIER();
            update_rows(n, score, top, sum, factor);
            KC_BARRIER();
            add_context(&args, &t, first, n, stage, score, factor, context);
        }
        KC_BARRIER();
        float *out = KC_ADDRESS(args.out) + t.batch * args.out_at.batch + t.head * args.out_at.head;
        for (int p = 0; p < PARTS; p++)
            for (int i = 0; i < OWN; i++)
                for (int j = 0; j < OWN; j++) {
                    const int64_t r = t.row + row + i;
                    const int64_t c = t.column + p * COLUMNS + column + j;
                    if (r < args.rows && c < args.d)
                        out[r * args.out_at.row + c] =
                            args.keys ? context[p][i].v[j] / sum[row + i] : 0;
                }
    }
}

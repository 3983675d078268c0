/*
 * SparseMatrixOrderingAMD: an order of rows in which Cholesky factors have few values. In each step
 * the row with the fewest neighbours is eliminated, which makes its neighbours adjacent to each
 * other (Amestoy, Davis, Duff: "An approximate minimum degree ordering algorithm", 1996). A
 * quotient graph holds these cliques as elements, so that it needs no more room than the matrix.
 * TensorFlow's library breaks ties in another way, so its orders are others of the same quality.
 */
#include "kernels/sparse/csr.h"

#include "runtime/core/pool.h"

/* A row is a variable until it is eliminated, and an element afterwards. */
struct quotient {
    struct rt_run *r;
    int32_t n;
    /* Variable i has slots start[i] to start[i + 1] - 1 of `slots`: adjacent variables from the
     * front, elements from the back. */
    int64_t *start;
    int32_t *slots, *n_variables, *n_elements;
    /* The variables of element e are pool[at[e]] to pool[at[e] + size[e] - 1]. An element of size 0
     * has been absorbed into another one. */
    int64_t *at, used, capacity;
    int32_t *pool, *size;
    /* Lists of variables by degree. The degree of an element is -1. */
    int32_t *first, *next, *previous, *degree, least;
    int32_t *mark;    /* the last step in which a variable was found */
    int32_t *outside; /* how many variables of an element are not in the newest element */
    int32_t *counted; /* the step in which `outside` was counted */
};

static void unlink_variable(struct quotient *q, int32_t i)
{
    const int32_t next = q->next[i], previous = q->previous[i];

    if (next >= 0)
        q->previous[next] = previous;
    if (previous >= 0)
        q->next[previous] = next;
    else
        q->first[q->degree[i]] = next;
}

static void link_variable(struct quotient *q, int32_t i, int32_t degree)
{
    const int32_t next = q->first[degree];

    q->degree[i] = degree;
    q->previous[i] = -1;
    q->next[i] = next;
    if (next >= 0)
        q->previous[next] = i;
    q->first[degree] = i;
    if (degree < q->least)
        q->least = degree;
}

/* ---- the graph of a matrix ---- */

/* Calls `each` with the two rows of every element below the diagonal. The others are ignored. */
static enum rt_status each_edge(struct quotient *q, const struct kn_csr *m, int64_t b,
                                void (*each)(struct quotient *q, int32_t i, int32_t j))
{
    const int32_t *rows = kn_csr_row_starts(m, b), *columns = kn_csr_columns(m, b);
    enum rt_status st = RT_OK;

    for (int32_t row = 0; row < q->n && !st; row++) {
        for (int32_t k = rows[row]; k < rows[row + 1]; k++)
            if (columns[k] < row)
                each(q, row, columns[k]);
        st = rt_run_spend(q->r, &q->r->left, 16 * (int64_t)(rows[row + 1] - rows[row]));
    }
    return st;
}

static void count_edge(struct quotient *q, int32_t i, int32_t j)
{
    q->start[i + 1]++;
    q->start[j + 1]++;
}

static void put_edge(struct quotient *q, int32_t i, int32_t j)
{
    q->slots[q->start[i] + q->n_variables[i]++] = j;
    q->slots[q->start[j] + q->n_variables[j]++] = i;
}

/* Makes the graph. `slots` must have room for both directions of all edges. */
static enum rt_status make_graph(struct quotient *q, const struct kn_csr *m, int64_t b)
{
    enum rt_status st = RT_OK;

    for (int32_t i = 0; i < q->n && !st; i++) {
        q->start[i + 1] = 0;
        q->n_variables[i] = q->n_elements[i] = q->size[i] = 0;
        q->first[i] = q->mark[i] = q->counted[i] = -1;
        st = rt_run_tick(q->r, i);
    }
    q->start[0] = q->used = 0;
    if (!st)
        st = each_edge(q, m, b, count_edge);
    for (int32_t i = 0; i < q->n && !st; i++) {
        q->start[i + 1] += q->start[i];
        st = rt_run_tick(q->r, i);
    }
    return st ? st : each_edge(q, m, b, put_edge);
}

/* Links all variables by degree, except those with very many neighbours, which would make every
 * step slow. These come last in `order`. Returns how many they are. */
static int32_t link_variables(struct quotient *q, int32_t *order, enum rt_status *st)
{
    const double limit = fmax(16, 10 * sqrt((double)q->n));
    int32_t n_dense = 0;

    q->least = q->n;
    for (int32_t i = q->n - 1; i >= 0 && !*st; i--) {
        if (q->n_variables[i] > limit || q->n_variables[i] >= q->n) {
            order[q->n - ++n_dense] = i;
            q->degree[i] = -1;
        } else {
            link_variable(q, i, q->n_variables[i]);
        }
        *st = rt_run_tick(q->r, i);
    }
    return n_dense;
}

/* ---- a step ---- */

/* Moves all elements to the front of the pool, in the order in which they were made. */
static enum rt_status compact(struct quotient *q, const int32_t *order, int32_t n_done)
{
    enum rt_status st = RT_OK;

    q->used = 0;
    for (int32_t k = 0; k < n_done && !st; k++) {
        const int32_t e = order[k];
        memmove(q->pool + q->used, q->pool + q->at[e], (size_t)q->size[e] * sizeof *q->pool);
        q->at[e] = q->used;
        q->used += q->size[e];
        st = rt_run_spend(q->r, &q->r->left, q->size[e]);
    }
    return st;
}

/* Adds the variables of a list that are not in the newest element yet. */
static void add_variables(struct quotient *q, const int32_t *list, int32_t n, int32_t step)
{
    for (int32_t k = 0; k < n; k++) {
        const int32_t i = list[k];
        if (q->degree[i] >= 0 && q->mark[i] != step) {
            q->mark[i] = step;
            q->pool[q->used++] = i;
        }
    }
}

/* Turns variable p, which is order[step], into an element that absorbs p's elements. */
static enum rt_status make_element(struct quotient *q, int32_t p, const int32_t *order,
                                   int32_t step)
{
    const int32_t *elements = q->slots + q->start[p + 1] - q->n_elements[p];
    int64_t most = q->n_variables[p];
    enum rt_status st = RT_OK;

    for (int32_t k = 0; k < q->n_elements[p]; k++)
        most += q->size[elements[k]];
    if (most > q->capacity - q->used)
        st = compact(q, order, step);
    if (st)
        return st;
    q->degree[p] = -1;
    q->at[p] = q->used;
    add_variables(q, q->slots + q->start[p], q->n_variables[p], step);
    for (int32_t k = 0; k < q->n_elements[p]; k++) {
        const int32_t e = elements[k];
        add_variables(q, q->pool + q->at[e], q->size[e], step);
        q->size[e] = 0;
    }
    q->size[p] = (int32_t)(q->used - q->at[p]);
    return rt_run_spend(q->r, &q->r->left, 4 * most);
}

/* Counts, for every element of a variable of the newest element, how many of its variables are
 * outside the newest element. */
static enum rt_status count_outside(struct quotient *q, int32_t p, int32_t step)
{
    const int32_t *variables = q->pool + q->at[p];
    enum rt_status st = RT_OK;

    for (int32_t k = 0; k < q->size[p] && !st; k++) {
        const int32_t i = variables[k];
        const int32_t *elements = q->slots + q->start[i + 1] - q->n_elements[i];
        for (int32_t x = 0; x < q->n_elements[i]; x++) {
            const int32_t e = elements[x];
            if (q->counted[e] != step) {
                q->counted[e] = step;
                q->outside[e] = q->size[e];
            }
            q->outside[e]--;
        }
        st = rt_run_spend(q->r, &q->r->left, 8 * (int64_t)q->n_elements[i]);
    }
    return st;
}

/* Prunes the lists of variable i, a variable of the newest element p, and adds p to them. Returns
 * the new degree, an upper bound of the number of neighbours. There is room for p, because it
 * replaces itself among the variables, or an element that it has absorbed. */
static int32_t prune(struct quotient *q, int32_t i, int32_t p, int32_t step)
{
    int32_t *variables = q->slots + q->start[i], *end = q->slots + q->start[i + 1];
    const int32_t n_others = q->size[p] - 1, n_left = q->n - step - 1;
    int64_t degree = n_others;
    int32_t n = 0;

    for (int32_t k = 0; k < q->n_variables[i]; k++) {
        const int32_t j = variables[k];
        if (q->degree[j] >= 0 && q->mark[j] != step)
            variables[n++] = j;
    }
    q->n_variables[i] = n;
    degree += n;
    n = 0;
    for (int32_t k = 1; k <= q->n_elements[i]; k++) {
        const int32_t e = end[-k];
        if (q->outside[e] == 0)
            q->size[e] = 0;
        if (q->size[e] == 0)
            continue;
        degree += q->outside[e];
        end[-++n] = e;
    }
    end[-++n] = p;
    q->n_elements[i] = n;
    if (degree > (int64_t)q->degree[i] + n_others)
        degree = q->degree[i] + n_others;
    return (int32_t)(degree < n_left - 1 ? degree : n_left - 1);
}

static enum rt_status update_degrees(struct quotient *q, int32_t p, int32_t step)
{
    const int32_t *variables = q->pool + q->at[p];
    enum rt_status st = count_outside(q, p, step);

    /* Of variables with the same degree, the last one that is linked is eliminated first. */
    for (int32_t k = q->size[p] - 1; k >= 0 && !st; k--) {
        const int32_t i = variables[k];
        const int64_t work = (int64_t)q->n_variables[i] + q->n_elements[i];
        unlink_variable(q, i);
        link_variable(q, i, prune(q, i, p, step));
        st = rt_run_spend(q->r, &q->r->left, 8 * work + 8);
    }
    return st;
}

static enum rt_status order_matrix(struct quotient *q, const struct kn_csr *m, int64_t b,
                                   int32_t *order)
{
    enum rt_status st = make_graph(q, m, b);
    const int32_t n_dense = st ? 0 : link_variables(q, order, &st);

    for (int32_t step = 0; step < q->n - n_dense && !st; step++) {
        while (q->first[q->least] < 0)
            q->least++;
        const int32_t p = q->first[q->least];
        unlink_variable(q, p);
        order[step] = p;
        st = make_element(q, p, order, step);
        if (!st)
            st = update_degrees(q, p, step);
    }
    return st;
}

/* Makes memory for the graph of a matrix with at most n_edges elements below the diagonal. */
static enum rt_status reserve(struct quotient *q, int64_t n_edges, char **memory)
{
    const size_t n = (size_t)q->n, n_slots = 2 * (size_t)n_edges;
    /* The live elements need no more room than the slots, and making one no more again, so each
     * compaction frees at least n + n_slots. */
    const size_t n_pool = 3 * n_slots + n;

    *memory = rt_run_alloc(q->r, 2 * (n + 1) * sizeof(int64_t) +
                                     (10 * n + n_slots + n_pool) * sizeof(int32_t));
    if (!*memory)
        return q->r->err->code;
    q->start = (int64_t *)(void *)*memory;
    q->at = q->start + n + 1;
    int32_t *v = (int32_t *)(void *)(q->at + n + 1);
    int32_t **const vectors[] = {&q->n_variables, &q->n_elements, &q->size,   &q->first,
                                 &q->next,        &q->previous,   &q->degree, &q->mark,
                                 &q->outside,     &q->counted};
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
        *vectors[k] = v + k * n;
    q->slots = v + 10 * n;
    q->pool = q->slots + n_slots;
    q->capacity = (int64_t)n_pool;
    return RT_OK;
}

static enum rt_status order_run(struct rt_run *r)
{
    const struct kn_csr *m = kn_csr_input(r, 0);
    int64_t n_edges = 0, dim[2];
    char *memory = NULL;

    if (!m)
        return r->err->code;
    if (m->n_rows != m->n_columns)
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "sparse matrix must be square; got: %lld != %lld", (long long)m->n_rows,
                       (long long)m->n_columns);
    for (int64_t b = 0; b < m->n_batch; b++)
        if (n_edges < kn_csr_start(m, b + 1) - kn_csr_start(m, b))
            n_edges = kn_csr_start(m, b + 1) - kn_csr_start(m, b);
    dim[0] = m->n_batch;
    dim[m->rank - 2] = m->n_rows;
    struct quotient q = {.r = r, .n = (int32_t)m->n_rows};
    int32_t *order = rt_out(r, 0, m->rank - 1, dim);
    enum rt_status st = order ? reserve(&q, n_edges, &memory) : r->err->code;
    for (int64_t b = 0; b < m->n_batch && !st; b++) {
        st = order_matrix(&q, m, b, order + b * m->n_rows);
        if (!st)
            st = rt_run_spend(r, &r->left, KN_CSR_WORK);
    }
    rt_pool_free(memory);
    return st;
}

KN_CSR_OP(sparse_matrix_ordering_amd, "SparseMatrixOrderingAMD", NULL, NULL, order_run)

/* Makes the edges of a graph after all of its nodes have been made, and searches for cycles. */
#include "runtime/files/import.h"

#include <string.h>

#include "runtime/base/bytes.h"

/* Parses a string of decimal digits. Returns -1 if the string is empty or has other characters, or
 * if the number is near or above INT32_MAX. */
static int parse_index(const char *s)
{
    int v = 0;
    if (!*s)
        return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || v > INT32_MAX / 10 - 1)
            return -1;
        v = v * 10 + (*s - '0');
    }
    return v;
}

/* Resolves the name of an input in the main graph: "name" or "name:k". */
static bool resolve_main(struct im_build *b, const char *text, struct im_run *r)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const struct rt_node *node = rt_map_getn(b->names, text, n);
    int out = colon ? parse_index(colon + 1) : 0;
    if (!node || out < 0)
        return false;
    *r = (struct im_run){node->id, out, 1, false};
    return true;
}

/* Finds the output with this name. Returns the number of its tensors, and sets *first to the index
 * of the first tensor. Returns -1 if there is no such output. */
static int find_output(const struct im_pending *p, const struct rt_node *node, const char *name,
                       size_t len, int *first)
{
    int low = 0, high = p->n_outputs;
    /* Finds the first output whose name is not less than `name`, by binary search. */
    while (p->output && low < high) {
        const int at = low + (high - low) / 2;
        const int before = strncmp(p->output[at].name, name, len);
        if (before < 0)
            low = at + 1;
        else
            high = at;
    }
    if (p->output) {
        if (low == p->n_outputs || strncmp(p->output[low].name, name, len) != 0 ||
            p->output[low].name[len])
            return -1;
        *first = p->output[low].first;
        return p->output[low].n;
    }
    for (int k = 0; k < node->schema->n_out; k++) {
        const char *own = node->schema->out[k].name;
        if (strlen(own) != len || memcmp(own, name, len) != 0)
            continue;
        *first = node->out_first[k];
        return node->out_first[k + 1] - node->out_first[k];
    }
    return -1;
}

/* Resolves the name of an input in a function's body: "arg", "arg:k", "node:output" or
 * "node:output:k". */
static bool resolve_body(struct im_build *b, const char *text, struct im_run *r)
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    const struct im_arg *arg = rt_map_getn(&b->args, text, n);
    int index = colon ? parse_index(colon + 1) : -1;
    if (arg && (!colon || index >= 0)) {
        if (index >= arg->n)
            return false;
        *r = (struct im_run){arg->first + (index < 0 ? 0 : index), 0, index < 0 ? arg->n : 1, true};
        return true;
    }
    const struct rt_node *node = rt_map_getn(b->names, text, n);
    if (!node || !colon)
        return false;
    const char *output = colon + 1, *last = strchr(output, ':');
    size_t len = last ? (size_t)(last - output) : strlen(output);
    index = last ? parse_index(last + 1) : -1;
    if (last && index < 0)
        return false;
    if (b->pending[node->id].is_stranger) {
        *r = (struct im_run){node->id, index < 0 ? 0 : index, 1, false};
        return true;
    }
    int first = 0;
    const int count = find_output(&b->pending[node->id], node, output, len, &first);
    if (count < 0 || index >= count)
        return false;
    *r = (struct im_run){node->id, first + (index < 0 ? 0 : index), index < 0 ? count : 1, false};
    return true;
}

bool im_resolve(struct im_build *b, const char *text, struct im_run *r)
{
    return b->function ? resolve_body(b, text, r) : resolve_main(b, text, r);
}

struct rt_edge im_run_at(const struct im_run *r, int i)
{
    return r->over_nodes ? (struct rt_edge){r->node + i, 0} : (struct rt_edge){r->node, r->out + i};
}

static enum rt_status wrong_count(struct im_build *b, const struct rt_node *n, int given,
                                  struct rt_error *err)
{
    struct rt_bytes t;
    rt_bytes_init(&t, 16 << 10);
    for (int i = 0; i < n->n_in; i++)
        rt_bytes_addf(&t, "%s%s%s", i ? ", " : "", rt_dtype_name((enum rt_dtype)n->in_dtype[i]),
                      i < 64 && n->in_ref >> i & 1 ? "_ref" : "");
    rt_fail(err, RT_INVALID_ARGUMENT,
            "NodeDef expected inputs '%s' do not match %d inputs specified; Op<name=%s>",
            t.p ? t.p : "", given, n->schema->name);
    rt_bytes_clear(&t);
    return im_name_node(b, n->name, NULL, err);
}

/* Checks that output `e` exists and has the type of input k of node n. */
static enum rt_status check_edge(struct im_build *b, const struct rt_node *n, int k,
                                 struct rt_edge e, struct rt_error *err)
{
    struct rt_node *from = &b->node[e.node];
    if (b->pending[e.node].is_stranger) {
        if (e.out >= IM_MAX_ARGS)
            return im_fail_node(b, n->name, err,
                                "Connecting to invalid output %d of source node %s", e.out,
                                from->name);
        if (from->n_out <= e.out)
            from->n_out = e.out + 1;
        return RT_OK;
    }
    if (e.out >= from->n_out)
        return im_fail_node(
            b, n->name, err,
            "Connecting to invalid output %d of source node %s which has %d outputs.", e.out,
            from->name, from->n_out);
    if (b->pending[n->id].is_stranger)
        return RT_OK;
    enum rt_dtype got = (enum rt_dtype)from->out_dtype[e.out];
    enum rt_dtype want = (enum rt_dtype)n->in_dtype[k];
    bool got_ref = e.out < 64 && from->out_ref >> e.out & 1;
    bool want_ref = k < 64 && n->in_ref >> k & 1;
    if (got == want && (got_ref || !want_ref))
        return RT_OK;
    enum rt_status st =
        rt_fail(err, RT_INVALID_ARGUMENT,
                "Input %d of node %s was passed %s%s from %s:%d incompatible with expected %s%s.",
                k, n->name, rt_dtype_name(got), got_ref ? "_ref" : "", from->name, e.out,
                rt_dtype_name(want), want_ref ? "_ref" : "");
    if (b->function)
        rt_fail_prefix(err, "Function '%s': ", b->function);
    return st;
}

static enum rt_status connect_node(struct im_build *b, struct rt_node *n, struct rt_error *err)
{
    struct im_pending *p = &b->pending[n->id];
    struct rt_edge *in = rt_arena_array(b->l->arena, (size_t)n->n_in, sizeof *in);
    int *ctrl = rt_arena_array(b->l->arena, (size_t)n->n_ctrl, sizeof *ctrl);
    if (!in || !ctrl)
        return im_no_memory(err);
    n->in = in;
    n->ctrl = ctrl;
    int n_data = p->n_input - n->n_ctrl, n_in = 0;
    for (int i = 0; i < p->n_input; i++) {
        const char *text = p->input[i];
        const enum rt_status ended = im_step(b, err);
        if (ended)
            return ended;
        if (i >= n_data) {
            const struct rt_node *from = rt_map_get(b->names, text + 1);
            if (!from)
                return im_fail_node(b, n->name, err, "Unknown input node '%s'", text);
            ctrl[i - n_data] = from->id;
            continue;
        }
        struct im_run r;
        if (!im_resolve(b, text, &r))
            return im_fail_node(b, n->name, err, "Unknown input node '%s'", text);
        if (p->is_stranger)
            r.n = r.n < 1 ? 0 : 1;
        for (int k = 0; k < r.n; k++, n_in++) {
            if (n_in >= n->n_in)
                return wrong_count(b, n, n_data > n_in ? n_data : n_in + r.n - k, err);
            in[n_in] = im_run_at(&r, k);
            enum rt_status st = check_edge(b, n, n_in, in[n_in], err);
            if (st)
                return st;
        }
    }
    if (p->is_stranger)
        n->n_in = n_in;
    return n_in == n->n_in ? RT_OK : wrong_count(b, n, n_in, err);
}

enum rt_status im_connect(struct im_build *b, struct rt_error *err)
{
    enum rt_status st = RT_OK;
    for (int i = 0; i < b->n && !st; i++) {
        st = im_step(b, err);
        if (!st)
            st = connect_node(b, &b->node[i], err);
    }
    return st;
}

/* ---- cycles ---- */

static bool is_op(const struct rt_node *n, const char *a, const char *b)
{
    return strcmp(n->schema->name, a) == 0 || strcmp(n->schema->name, b) == 0;
}

/* Returns whether input k of n is the back edge of a loop. Only a back edge may close a cycle. */
static bool is_back_edge(const struct im_build *b, const struct rt_node *n, int k)
{
    return is_op(n, "Merge", "RefMerge") &&
           is_op(&b->node[n->in[k].node], "NextIteration", "RefNextIteration");
}

/* Returns a node on a cycle. Starting at `i`, follows inputs to nodes that the topological sort has
 * not reached. `waits[x]` is the number of unsorted inputs of x. It is above 0 if x is on a cycle
 * or depends on a node on a cycle. */
static int node_on_cycle(const struct im_build *b, const int *waits, int i)
{
    for (int steps = 0; steps < b->n; steps++) {
        const struct rt_node *n = &b->node[i];
        int before = -1;
        for (int k = 0; k < n->n_in && before < 0; k++)
            if (waits[n->in[k].node] > 0 && !is_back_edge(b, n, k))
                before = n->in[k].node;
        for (int k = 0; k < n->n_ctrl && before < 0; k++)
            if (waits[n->ctrl[k]] > 0)
                before = n->ctrl[k];
        if (before < 0)
            break;
        i = before;
    }
    return i;
}

/* The maximum nesting depth of loops. Some steps of the import and of the compiler process one
 * frame at a time, so their time is quadratic in the depth. A graph with 40,000 nested Enter nodes
 * took 15 s. */
enum { MAX_FRAMES = 64 };

static int frames_behind(const struct rt_node *n, int before)
{
    return before + is_op(n, "Enter", "RefEnter") - (is_op(n, "Exit", "RefExit") && before > 0);
}

enum rt_status im_check_cycles(struct im_build *b, struct rt_error *err)
{
    size_t n_edges = 0;
    for (int i = 0; i < b->n; i++)
        n_edges += (size_t)b->node[i].n_in + (size_t)b->node[i].n_ctrl;
    int *waits = rt_arena_array(b->temp, (size_t)b->n, sizeof *waits);
    int *ready = rt_arena_array(b->temp, (size_t)b->n, sizeof *ready);
    size_t *first = rt_arena_array(b->temp, (size_t)b->n + 2, sizeof *first);
    int *to = rt_arena_array(b->temp, n_edges, sizeof *to);
    /* number of frames that enclose each node */
    int *frames = rt_arena_array(b->temp, (size_t)b->n, sizeof *frames);
    if (!waits || !ready || !first || !to || !frames)
        return im_no_memory(err);

    /* The consumers of node i are `to[first[i]]` to `to[first[i + 1] - 1]`. The first pass counts
     * the consumers in first[i + 2]. After summation, first[i + 1] is the start of node i's range.
     * The second pass fills in `to` and advances first[i + 1] to the end of the range. */
    enum rt_status st;
    for (int fill = 0; fill < 2; fill++) {
        for (int i = 0; i < b->n; i++) {
            const struct rt_node *n = &b->node[i];
            for (int k = 0; k < n->n_in + n->n_ctrl; k++) {
                bool data = k < n->n_in;
                if (data && is_back_edge(b, n, k))
                    continue;
                int from = data ? n->in[k].node : n->ctrl[k - n->n_in];
                st = im_step(b, err);
                if (st)
                    return st;
                if (fill) {
                    to[first[from + 1]++] = i;
                } else {
                    first[from + 2]++;
                    waits[i]++;
                }
            }
        }
        for (int i = 0; !fill && i < b->n; i++)
            first[i + 2] += first[i + 1];
    }
    int n_ready = 0;
    for (int i = 0; i < b->n; i++)
        if (!waits[i])
            ready[n_ready++] = i;
    for (int at = 0; at < n_ready; at++) {
        const int behind = frames_behind(&b->node[ready[at]], frames[ready[at]]);
        if (behind > MAX_FRAMES)
            return im_fail_node(b, b->node[ready[at]].name, err,
                                "loops are nested more than %d deep", MAX_FRAMES);
        if ((st = im_step(b, err)))
            return st;
        for (size_t e = first[ready[at]]; e < first[ready[at] + 1]; e++) {
            if ((st = im_step(b, err)))
                return st;
            frames[to[e]] = behind > frames[to[e]] ? behind : frames[to[e]];
            if (--waits[to[e]] == 0)
                ready[n_ready++] = to[e];
        }
    }
    if (n_ready == b->n)
        return RT_OK;
    for (int i = 0; i < b->n; i++)
        if (waits[i] > 0) {
            st = rt_fail(err, RT_INVALID_ARGUMENT, "%d nodes in a cycle, '%s' is one of them",
                         b->n - n_ready, b->node[node_on_cycle(b, waits, i)].name);
            if (b->function)
                rt_fail_prefix(err, "Function '%s': ", b->function);
            return st;
        }
    return RT_OK;
}

/* Finds the ops that a request needs and that cannot be run. Includes the ops in the functions that
 * the request's nodes call. */
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/passes.h"

static enum rt_status add(struct rt_session *s, struct rt_missing_list *list,
                          const struct rt_node *n, struct rt_error *err)
{
    struct rt_error why = {.arena = list->arena};
    if (n->op && n->op->slot_kind)
        return RT_OK;
    if (rt_registry_can_run(s->options.registry, n, "CPU", &why) == RT_OK)
        return RT_OK;
    const char *op = n->schema ? n->schema->name : "?";
    char *key = rt_arena_printf(list->arena, "%s\n%s", op, rt_error_text(&why));
    if (!key)
        return rt_fail_memory(err, "a report", 0);
    if (rt_map_get(&list->seen, key))
        return RT_OK;
    if (list->n == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 16;
        struct rt_missing *items = rt_arena_array(list->arena, (size_t)capacity, sizeof *items);
        if (!items)
            return rt_fail_memory(err, "a report", 0);
        if (list->n)
            memcpy(items, list->items, (size_t)list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    struct rt_missing *m = &list->items[list->n];
    m->node = rt_arena_strdup(list->arena, n->name);
    m->op = rt_arena_strdup(list->arena, op);
    m->reason = rt_arena_strdup(list->arena, rt_error_text(&why));
    if (!m->node || !m->op || !m->reason || !rt_map_put(&list->seen, key, list))
        return rt_fail_memory(err, "a report", 0);
    list->n++;
    return RT_OK;
}

/* A function body, in a linked list of the bodies that have not been examined yet. */
struct missing_body {
    const struct rt_graph *graph;
    struct missing_body *next;
};

/* Adds the body of `f` to the list, unless it has been added before. */
static enum rt_status note_body(struct rt_session *s, const struct rt_func_ref *f,
                                struct rt_missing_list *list, struct missing_body **todo,
                                struct rt_error *err)
{
    const struct rt_graph *body;
    enum rt_status st = rt_library_instantiate(s->library, f, &body, err);
    if (st)
        return st;
    if (rt_map_getn(&list->seen, (const char *)&body, sizeof body))
        return RT_OK;
    struct missing_body *b = rt_arena_alloc(list->arena, sizeof *b);
    if (!b || !rt_map_putn(&list->seen, (const char *)&body, sizeof body, list))
        return rt_fail_memory(err, "a report", 0);
    *b = (struct missing_body){body, *todo};
    *todo = b;
    return RT_OK;
}

/* Adds the bodies of the functions that node n runs. Only the runtime's own calls, branches and
 * loops run functions. */
static enum rt_status note_bodies(struct rt_session *s, const struct rt_node *n,
                                  struct rt_missing_list *list, struct missing_body **todo,
                                  struct rt_error *err)
{
    static const char *const names[] = {"f", "then_branch", "else_branch", "cond", "body"};
    enum rt_status st = RT_OK;
    for (size_t k = 0; k < sizeof names / sizeof *names && !st; k++) {
        const struct rt_attr *a = rt_attr(n, names[k]);
        if (a && a->type == RT_ATTR_FUNC && a->v.func)
            st = note_body(s, a->v.func, list, todo, err);
    }
    const struct rt_attr *a = rt_attr(n, "branches");
    for (size_t k = 0; a && a->type == (RT_ATTR_LIST | RT_ATTR_FUNC) && k < a->n && !st; k++)
        st = note_body(s, &a->v.funcs[k], list, todo, err);
    return st;
}

static enum rt_status look_through(struct rt_session *s, const struct pl_request *q,
                                   struct rt_missing_list *list, struct missing_body **todo,
                                   struct rt_error *err)
{
    struct pl_graph g = {.session = s, .arena = rt_arena_new((size_t)1 << 30)};
    if (!g.arena)
        return rt_fail_memory(err, "a report", 0);
    enum rt_status st = pl_extract(&g, q, err);
    for (int i = 0; i < g.n && !st; i++) {
        const struct rt_node *n = g.node[i].def;
        if (g.node[i].kind != PL_OP)
            continue;
        st = add(s, list, n, err);
        if (!st && n->op)
            st = note_bodies(s, n, list, todo, err);
    }
    pl_graph_clear(&g);
    return st;
}

static enum rt_status look_through_body(struct rt_session *s, const struct rt_graph *body,
                                        struct rt_missing_list *list, struct missing_body **todo,
                                        struct rt_error *err)
{
    struct rt_edge *feeds = calloc((size_t)body->n_args + 1, sizeof *feeds);
    if (!feeds)
        return rt_fail_memory(err, "a report", 0);
    for (int i = 0; i < body->n_args; i++)
        feeds[i] = (struct rt_edge){body->arg[i], 0};
    struct pl_request q = {.graph = body,
                           .feeds = feeds,
                           .n_feeds = body->n_args,
                           .fetches = body->ret,
                           .n_fetches = body->n_rets,
                           .targets = body->ctrl_ret,
                           .n_targets = body->n_ctrl_rets,
                           .is_body = true};
    enum rt_status st = look_through(s, &q, list, todo, err);
    free(feeds);
    return st;
}

/* Lists the missing ops. Functions may call each other to any depth, so the bodies that have not
 * been examined yet are kept in a list, not on the stack. The number of bodies is at most the
 * number of functions in the library. */
enum rt_status rt_missing_find(struct rt_session *s, const struct pl_request *q,
                               struct rt_missing_list *list, struct rt_error *err)
{
    struct missing_body *todo = NULL;
    enum rt_status st = look_through(s, q, list, &todo, err);
    while (todo && !st) {
        const struct rt_graph *body = todo->graph;
        todo = todo->next;
        st = rt_session_check(s, err);
        if (!st)
            st = look_through_body(s, body, list, &todo, err);
    }
    return st;
}

/* ---- recursive functions ---- */

/* Returns whether `body` calls itself, directly or through other functions. Also returns false if
 * memory runs out. */
static bool calls_itself(struct rt_session *s, const struct rt_graph *body)
{
    struct rt_missing_list list = {.arena = rt_arena_new((size_t)1 << 28)};
    struct missing_body first = {body, NULL}, *todo = &first;
    struct rt_error ignored = {0};
    enum rt_status st = list.arena ? RT_OK : RT_RESOURCE_EXHAUSTED;
    bool found = false;
    while (todo && !st && !found) {
        const struct rt_graph *at = todo->graph;
        todo = todo->next;
        st = rt_session_check(s, &ignored);
        for (int i = 0; i < at->n_nodes && !st; i++)
            if (at->node[i].op)
                st = note_bodies(s, &at->node[i], &list, &todo, &ignored);
        found = rt_map_getn(&list.seen, (const char *)&body, sizeof body) != NULL;
    }
    rt_map_clear(&list.seen);
    if (list.arena)
        rt_arena_free(list.arena);
    return found;
}

enum rt_status pl_fail_too_deep(struct rt_session *s, const struct rt_graph *body, const char *node,
                                int most, struct rt_error *err)
{
    if (!body)
        return rt_fail(err, RT_INVALID_ARGUMENT,
                       "'%.200s': branches and loops are nested more than %d deep", node, most);
    return rt_fail(err, RT_INVALID_ARGUMENT,
                   "Function '%.200s' %s: calls, branches and loops are nested more than %d deep",
                   body->name, calls_itself(s, body) ? "calls itself" : "is called too deep", most);
}

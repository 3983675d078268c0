/*
 * Stacks of TensorFlow 1. In every run, a node creates a new stack.
 *
 * Control edges define the order of the ops on a stack. The effect RT_RANDOM does not order these
 * ops: it only prevents nodes from being folded or merged. A loop may run several ops on one stack
 * concurrently, so each stack has its own lock.
 */
#include "kernels/array/array.h"
#include "kernels/list/list.h"
#include "kernels/entry.h"
#include "runtime/base/thread.h"

struct stack {
    struct rt_object o;
    struct rt_mutex mu;
    int64_t max;
    const char *name;    /* the node's name, which outlives the run */
    enum rt_dtype dtype; /* type of the tensors that may be pushed onto the stack */
    /* mu guards all members from here on */
    bool closed;
    int64_t n, capacity;
    struct rt_tensor *item;
    struct rt_buffer *memory; /* memory that holds the array `item` */
};

static void stack_free(struct rt_object *o)
{
    struct stack *s = (struct stack *)o;

    for (int64_t i = 0; i < s->n; i++)
        rt_tensor_clear(&s->item[i]);
    rt_buffer_unref(s->memory);
    rt_mutex_clear(&s->mu);
    rt_pool_free(s);
}

static const struct rt_object_type stack_type = {"stack", stack_free};

static enum rt_status stack_make(struct rt_run *r)
{
    int64_t max = -1; /* a stack with a ref handle has no maximum size */
    if (r->n_in && !kn_scalar(&r->in[0], &max))
        return rt_fail(r->err, RT_INVALID_ARGUMENT,
                       "Stack size must be a scalar, but had shape: %s", KN_TEXT(&r->in[0]));
    struct stack *s = rt_run_alloc(r, sizeof *s);
    if (!s)
        return r->err->code;
    rt_object_init(&s->o, &stack_type);
    rt_mutex_init(&s->mu);
    s->name = r->node->name;
    s->max = max;
    s->dtype = rt_attr_dtype(r->node, "elem_type");
    return rt_out_object(r, 0, &s->o);
}

static struct stack *stack_begin(struct rt_run *r) RT_NO_ANALYSIS
{
    struct rt_object *o = rt_tensor_count(&r->in[0]) == 1 ? rt_tensor_handle(&r->in[0]) : NULL;
    struct stack *s = (struct stack *)o;

    if (!o || o->type != &stack_type) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "%s: input 0 is not a stack", r->node->schema->name);
        return NULL;
    }
    rt_mutex_lock(&s->mu);
    if (s->closed) {
        rt_fail(r->err, RT_INVALID_ARGUMENT, "Stack[%s] has already been closed.", s->name);
        rt_mutex_unlock(&s->mu);
        return NULL;
    }
    return s;
}

static enum rt_status stack_end(struct stack *s, enum rt_status st) RT_NO_ANALYSIS
{
    rt_mutex_unlock(&s->mu);
    return st;
}

static enum rt_status stack_push(struct rt_run *r)
{
    struct stack *s = stack_begin(r);

    if (!s)
        return r->err->code;
    if (kn_dtype(&r->in[1]) != s->dtype)
        return stack_end(s, rt_fail(r->err, RT_INVALID_ARGUMENT, "Must have type %d but got %d",
                                    (int)s->dtype, (int)kn_dtype(&r->in[1])));
    if (s->max >= 0 && s->n >= s->max)
        return stack_end(s, rt_fail(r->err, RT_INVALID_ARGUMENT,
                                    "Stack[%s] overflowed its max_size (%lld)", s->name,
                                    (long long)s->max));
    if (!kn_items_check(kn_dtype(&r->in[1]), "a stack", r->err) ||
        !kn_items_grow(r, &s->memory, &s->capacity, s->n + 1, sizeof *s->item, "a stack"))
        return stack_end(s, r->err->code);
    s->item = kn_items_at(s->memory);
    enum rt_status st = kn_keep(r, &s->item[s->n], &r->in[1]);
    if (!st)
        s->n++;
    stack_end(s, st);
    if (!st)
        rt_out_tensor(r, 0, &r->in[1]);
    return st;
}

static enum rt_status stack_pop(struct rt_run *r)
{
    struct stack *s = stack_begin(r);

    if (!s)
        return r->err->code;
    if (s->n == 0)
        return stack_end(s, rt_fail(r->err, RT_INVALID_ARGUMENT,
                                    "Stack[%s] is empty when calling Pop().", s->name));
    struct rt_tensor *t = &s->item[--s->n];
    rt_out_tensor(r, 0, t);
    rt_tensor_clear(t);
    return stack_end(s, RT_OK);
}

static enum rt_status stack_close(struct rt_run *r)
{
    struct stack *s = stack_begin(r);

    if (!s)
        return r->err->code;
    s->closed = true;
    return stack_end(s, RT_OK);
}

#define STACK_OP(symbol, op_, run_)                                                                \
    const struct kn_entry kn_##symbol = {                                                          \
        .op = {.name = (op_), .effect = RT_RANDOM},                                                \
        .kernels = KN_CPU(op_, #symbol, 0, NULL, run_),                                            \
    };
STACK_OP(stack, "Stack", stack_make)
STACK_OP(stack_push, "StackPush", stack_push)
STACK_OP(stack_pop, "StackPop", stack_pop)
STACK_OP(stack_close, "StackClose", stack_close)
STACK_OP(stack_v2, "StackV2", stack_make)
STACK_OP(stack_push_v2, "StackPushV2", stack_push)
STACK_OP(stack_pop_v2, "StackPopV2", stack_pop)
STACK_OP(stack_close_v2, "StackCloseV2", stack_close)

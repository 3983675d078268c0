/*
 * Loops that are recurrent layers, between the passes that find them: fuse_loop.c (While) and
 * fuse_frame.c (Enter, Merge, Switch, NextIteration, Exit).
 */
#ifndef RT_LOOP_H
#define RT_LOOP_H

#include "runtime/cell.h"

enum { PL_LOOP_VARIABLES = 32 };

/* What an iteration does with a loop variable. */
enum pl_role {
    ROLE_NONE,    /* nothing that is understood */
    ROLE_KEPT,    /* hands it on */
    ROLE_COUNTER, /* adds 1; it began at 0 */
    ROLE_LIST,    /* writes the new state into it */
    ROLE_H,
    ROLE_C,
    ROLE_OUTPUT, /* what was written last: a step that is masked writes it again */
};

struct pl_loop {
    struct pl_graph *g;                      /* of the loop; the new node is node `at` of it */
    int at, n;                               /* n variables */
    bool is_frame;                           /* reads and writes TensorArrays instead of lists */
    struct pl_edge start[PL_LOOP_VARIABLES]; /* what they are before the first step */
    struct pl_graph
        body; /* its first n nodes are the variables, its fetches what becomes of them */
    enum pl_role role[PL_LOOP_VARIABLES];
    int h, c, list;        /* variables; -1: none. `list` is written */
    int output;            /* the same; there is one where steps are masked */
    struct pl_edge is_on;  /* in the body: what masks a step, node -1: nothing */
    struct pl_edge masks;  /* the tensor whose rows those are */
    bool each;             /* at every step another element, not always the first */
    struct pl_edge items;  /* the tensor whose rows are read */
    struct pl_edge arrays; /* of a frame: the TensorArray that is read, before it is filled */
    struct pl_edge limit[2];
    int n_limits;
    struct pl_cell cell;
};

/* Finds every variable's role, the cell and the items. False: not understood. */
bool pl_loop_find(struct pl_loop *l);
/* The loop's bounds in its condition `g`, whose first nodes are the variables too. */
bool pl_loop_limits(struct pl_loop *l, const struct pl_graph *g, struct pl_edge e);
/* Whether `e` is the length of `items`: StridedSlice(Shape(items), [0], [1], [1]), one value. */
bool pl_is_length(const struct pl_graph *g, struct pl_edge e, struct pl_edge items);
struct pl_edge pl_no_limit(struct pl_loop *l, struct rt_error *err); /* node -1: no memory */

enum { PL_KEEP_EACH, PL_KEEP_LAST }; /* which element of the list a step writes */
struct pl_loop_put {
    struct pl_edge items, length;
    bool by_time, y_by_time; /* [time, batch], not [batch, time] */
    bool is_read;            /* the list is; one that is not may still be too short */
    int keep;
};
/* Makes node l->at the layer. */
enum rt_status pl_loop_put(struct pl_loop *l, const struct pl_loop_put *p, struct rt_error *err);

/* *changed: a loop of a frame is gone. */
enum rt_status pl_fuse_frames(struct pl_graph *g, bool *changed, struct rt_error *err);

#endif

/*
 * Intrusive doubly linked lists. Each element contains a link. The head of a list is a link that
 * points to itself while the list is empty. A link is in at most one list at a time. The members of
 * a link that is in no list are NULL.
 *
 * Threads: these functions acquire no lock.
 */
#ifndef SRV_LIST_H
#define SRV_LIST_H

#include <stddef.h>

struct srv_link {
    struct srv_link *prev, *next;
};

static inline void srv_list_init(struct srv_link *head)
{
    head->prev = head->next = head;
}

static inline void srv_list_remove(struct srv_link *l)
{
    if (!l->next)
        return;
    l->prev->next = l->next;
    l->next->prev = l->prev;
    l->prev = l->next = NULL;
}

static inline void srv_list_append(struct srv_link *head, struct srv_link *l)
{
    srv_list_remove(l);
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

#endif

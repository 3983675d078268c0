/*
 * The linker gives all calls of recv and gnutls_record_recv in the program, those of
 * libmicrohttpd's static library included, to this module (--wrap in CMakeLists.txt). A thread that
 * sets the hook reads by it; the calls of all others, and peeks, go through.
 */
#ifndef SRV_RECV_HOOK_H
#define SRV_RECV_HOOK_H

#include <sys/types.h>

/* As recv without flags, or, with a gnutls_session_t that is not NULL, as gnutls_record_recv. */
typedef ssize_t srv_recv_hook_fn(int fd, void *session, void *p, size_t n);
extern _Thread_local srv_recv_hook_fn *srv_recv_hook;
/* The same without the hook. */
srv_recv_hook_fn srv_recv_unhooked;

#endif

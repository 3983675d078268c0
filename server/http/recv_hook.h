/*
 * The linker redirects all calls of recv and gnutls_record_recv in the program, those in
 * libmicrohttpd's static library included, to this module (--wrap in CMakeLists.txt). A thread
 * that sets the hook reads by it. The calls of other threads, and peeks, go to the real functions.
 */
#ifndef SRV_RECV_HOOK_H
#define SRV_RECV_HOOK_H

#include <sys/types.h>

/* Reads like recv without flags or, if `session`, a gnutls_session_t, is not NULL, like
 * gnutls_record_recv. */
typedef ssize_t srv_recv_hook_fn(int fd, void *session, void *p, size_t n);
extern _Thread_local srv_recv_hook_fn *srv_recv_hook;
/* Reads without the hook. */
srv_recv_hook_fn srv_recv_unhooked;

#endif

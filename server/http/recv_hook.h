/*
 * The linker redirects all calls of recv and gnutls_record_recv in the program, including those in
 * libmicrohttpd's static library, to this module (--wrap in CMakeLists.txt). A thread that sets the
 * hook reads through the hook. The calls of other threads, and calls with MSG_PEEK, go to the real
 * functions.
 */
#ifndef SRV_RECV_HOOK_H
#define SRV_RECV_HOOK_H

#include <sys/types.h>

/* Reads like gnutls_record_recv if `session`, a gnutls_session_t, is not NULL; otherwise reads
 * like recv without flags. */
typedef ssize_t srv_recv_hook_fn(int fd, void *session, void *p, size_t n);
extern _Thread_local srv_recv_hook_fn *srv_recv_hook;
/* Reads directly from the connection, without calling the hook. */
srv_recv_hook_fn srv_recv_unhooked;

#endif

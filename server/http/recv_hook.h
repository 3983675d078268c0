/*
 * The linker option --wrap (CMakeLists.txt) redirects all calls of recv, gnutls_record_recv and
 * gnutls_handshake in the program to this module, including those in libmicrohttpd's static
 * library. If a thread has set the hooks, its calls go to the hooks. Calls of other threads, and
 * calls of recv with MSG_PEEK, go to the real functions.
 */
#ifndef SRV_RECV_HOOK_H
#define SRV_RECV_HOOK_H

#include <sys/types.h>

/* Reads like gnutls_record_recv if `session`, a gnutls_session_t, is not NULL. Otherwise reads like
 * recv without flags. */
typedef ssize_t srv_recv_hook_fn(int fd, void *session, void *p, size_t n);
extern _Thread_local srv_recv_hook_fn *srv_recv_hook;
/* Calls the real gnutls_record_recv or recv, not the hook. */
srv_recv_hook_fn srv_recv_unhooked;

/* Performs a step of a TLS handshake. Returns 0 or a GnuTLS error code, as gnutls_handshake does.
 * `session` is a gnutls_session_t, and `fd` is the session's socket. */
typedef int srv_handshake_hook_fn(int fd, void *session);
extern _Thread_local srv_handshake_hook_fn *srv_handshake_hook;
/* Calls the real gnutls_handshake, not the hook. */
srv_handshake_hook_fn srv_handshake_unhooked;

#endif

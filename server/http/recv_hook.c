#include "server/http/recv_hook.h"

#include <gnutls/gnutls.h>
#include <sys/socket.h>

/* The linker option --wrap redirects calls of a function NAME to __wrap_NAME, and makes the real
 * function available as __real_NAME. */
ssize_t __real_recv(int fd, void *p, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *p, size_t n, int flags);
ssize_t __real_gnutls_record_recv(gnutls_session_t session, void *p, size_t n);
ssize_t __wrap_gnutls_record_recv(gnutls_session_t session, void *p, size_t n);
int __real_gnutls_handshake(gnutls_session_t session);
int __wrap_gnutls_handshake(gnutls_session_t session);

_Thread_local srv_recv_hook_fn *srv_recv_hook;
_Thread_local srv_handshake_hook_fn *srv_handshake_hook;

ssize_t srv_recv_unhooked(int fd, void *session, void *p, size_t n)
{
    return session ? __real_gnutls_record_recv(session, p, n) : __real_recv(fd, p, n, 0);
}

ssize_t __wrap_recv(int fd, void *p, size_t n, int flags)
{
    return srv_recv_hook && !(flags & MSG_PEEK) ? srv_recv_hook(fd, NULL, p, n)
                                                : __real_recv(fd, p, n, flags);
}

ssize_t __wrap_gnutls_record_recv(gnutls_session_t session, void *p, size_t n)
{
    return srv_recv_hook ? srv_recv_hook(gnutls_transport_get_int(session), session, p, n)
                         : __real_gnutls_record_recv(session, p, n);
}

int srv_handshake_unhooked(int fd, void *session)
{
    (void)fd;
    return __real_gnutls_handshake(session);
}

int __wrap_gnutls_handshake(gnutls_session_t session)
{
    return srv_handshake_hook ? srv_handshake_hook(gnutls_transport_get_int(session), session)
                              : __real_gnutls_handshake(session);
}

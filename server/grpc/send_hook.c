#include "server/grpc/send_hook.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/sanitizer.h"
#include "server/base/send_group.h"
#include "server/grpc/grpc_frames.h"

enum { MAX_FD = 1 << 17 };

/* The sanitizer's interceptor of sendmsg is not called, because this program defines sendmsg
 * itself. This definition must therefore call the interceptor. */
#if RT_HAS_SANITIZER
ssize_t __interceptor_sendmsg(int fd, const struct msghdr *message, int flags);
#define REAL_SENDMSG(fd, message, flags) __interceptor_sendmsg(fd, message, flags)
#else
#define REAL_SENDMSG(fd, message, flags) syscall(SYS_sendmsg, fd, message, flags)
#endif

/* The array takes 1 MB of address space, but only used pages take memory. */
static _Atomic uint64_t sent[MAX_FD];

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t n = REAL_SENDMSG(fd, message, flags | srv_send_group_flags(fd));

    if (n > 0)
        srv_grpc_frames_sent(fd, message, (size_t)n);
    if (n > 0 && fd < MAX_FD)
        atomic_fetch_add_explicit(&sent[fd], (uint64_t)n, memory_order_relaxed);
    return n;
}

bool srv_socket_sent(int fd, uint64_t *bytes)
{
    if (fd < 0 || fd >= MAX_FD)
        return false;
    *bytes = atomic_load_explicit(&sent[fd], memory_order_relaxed);
    return true;
}

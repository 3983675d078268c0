"""A TLS 1.3 client that updates its keys through OpenSSL's library, because Python's ssl module cannot do so."""
import ctypes
import socket

try:
    LIBRARY = ctypes.CDLL("libssl.so.3")
except OSError:
    LIBRARY = None
else:
    for name, result, arguments in (
            ("TLS_client_method", ctypes.c_void_p, ()),
            ("SSL_CTX_new", ctypes.c_void_p, (ctypes.c_void_p,)),
            ("SSL_CTX_free", None, (ctypes.c_void_p,)),
            ("SSL_new", ctypes.c_void_p, (ctypes.c_void_p,)),
            ("SSL_free", None, (ctypes.c_void_p,)),
            ("SSL_set_fd", ctypes.c_int, (ctypes.c_void_p, ctypes.c_int)),
            ("SSL_set_alpn_protos", ctypes.c_int,
             (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint)),
            ("SSL_connect", ctypes.c_int, (ctypes.c_void_p,)),
            ("SSL_do_handshake", ctypes.c_int, (ctypes.c_void_p,)),
            ("SSL_key_update", ctypes.c_int, (ctypes.c_void_p, ctypes.c_int)),
            ("SSL_read", ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)),
            ("SSL_write", ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int))):
        function = getattr(LIBRARY, name)
        function.restype, function.argtypes = result, arguments


class Connection:
    """A TLS connection that trusts any certificate."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(True)
        self.context = LIBRARY.SSL_CTX_new(LIBRARY.TLS_client_method())
        self.tls = LIBRARY.SSL_new(self.context)
        self.rekeyed = 0
        LIBRARY.SSL_set_alpn_protos(self.tls, b"\2h2", 3)
        LIBRARY.SSL_set_fd(self.tls, self.socket.fileno())
        if LIBRARY.SSL_connect(self.tls) != 1:
            raise OSError("no handshake")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        LIBRARY.SSL_free(self.tls)
        LIBRARY.SSL_CTX_free(self.context)
        self.socket.close()

    def send(self, data):
        if LIBRARY.SSL_write(self.tls, data, len(data)) != len(data):
            raise OSError("not sent")

    def receive(self, size):
        """Returns at most `size` bytes, or none if the peer has closed the connection."""
        data = ctypes.create_string_buffer(size)
        n = LIBRARY.SSL_read(self.tls, data, size)
        return data.raw[:max(0, n)]

    def rekey(self, n, both=False):
        """Updates the client's keys n times, or until the peer has closed the connection. Requests that the peer update
        its keys too if `both` is set."""
        for _ in range(n):
            if (LIBRARY.SSL_key_update(self.tls, int(both)) != 1 or
                    LIBRARY.SSL_do_handshake(self.tls) != 1):
                break
            self.rekeyed += 1

"""A TLS client that sends its data in records of any size, and sends many records at once."""
import contextlib
import socket
import ssl


class Connection:
    """A connection after its TLS handshake, whose records a test encrypts and sends separately."""

    def __init__(self, port, context):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.socket = socket.create_connection(("127.0.0.1", port))
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(self.outgoing.read())
                self.incoming.write(self.socket.recv(65536))
        self.socket.sendall(self.outgoing.read())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def records(self, data, size=1):
        """Encrypts `data` in records of at most `size` bytes. Returns the records."""
        for at in range(0, len(data), size):
            self.tls.write(data[at:at + size])
        return self.outgoing.read()

    def read_until(self, end):
        """Returns the bytes that arrive up to and including `end`, or all bytes if the peer closes the connection."""
        data = b""
        while end not in data:
            received = self.socket.recv(65536)
            if not received:
                break
            self.incoming.write(received)
            with contextlib.suppress(ssl.SSLWantReadError):
                while part := self.tls.read():  # empty after the end of the TLS session
                    data += part
        return data

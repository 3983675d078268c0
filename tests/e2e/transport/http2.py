"""A small HTTP/2 client for gRPC that writes its frames itself, so that a test can send half a request, grant no
flow-control window, or leave out frames. It uses one connection, sends only what a test requests, and acknowledges
pings and settings while it reads."""
import socket
import ssl
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 3, 4
STATIC_NAMES = 61  # number of rows in HPACK's static table


def integer(value, bits, flags=0):
    most = (1 << bits) - 1
    if value < most:
        return bytes([flags | value])
    out = [flags | most]
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


def field(name, value):
    name, value = name.encode(), value.encode()
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


class Block:
    """Reads a header block sent by a peer that uses a dynamic table of size 0 and no Huffman codes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def integer(self, bits):
        most = (1 << bits) - 1
        value = self.data[self.at] & most
        self.at += 1
        shift = 0
        while value >= most:
            byte = self.data[self.at]
            self.at += 1
            value += (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        return value

    def text(self):
        huffman = self.data[self.at] & 128
        n = self.integer(7)
        self.at += n
        return "?" if huffman else self.data[self.at - n:self.at].decode("latin-1")

    def fields(self):
        """Returns {name: value} for the headers whose values are not in HPACK's static table."""
        found = {}
        while self.at < len(self.data):
            first = self.data[self.at]
            if first & 0x80:
                self.integer(7)
            elif first & 0xe0 == 0x20:
                self.integer(5)
            else:
                index = self.integer(6 if first & 0x40 else 4)
                name = self.text() if not index else f"static-{index}"
                found[name] = self.text()
        return found


def message(body):
    """Frames a message as gRPC does, without compression."""
    return struct.pack(">BI", 0, len(body)) + body


def client_hello():
    """Returns the first bytes of a TLS handshake, to which gRPC core responds with a signature."""
    context = ssl.create_default_context()
    # gRPC core accepts only a key share for prime256v1. It responds to any other key share with a request for a new key
    # share.
    context.set_ecdh_curve("prime256v1")
    context.set_alpn_protocols(["h2"])
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


class Connection:
    def __init__(self, where, window=65535, tls=None):
        """Connects to `where`, which is a port of this machine or the path of a UNIX socket. `tls` is an SSLContext."""
        if isinstance(where, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(30)
            self.socket.connect(where)
        else:
            self.socket = socket.create_connection(("127.0.0.1", where), timeout=30)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.next_stream, self.unread = 1, b""
        self.bodies, self.trailers, self.reset = {}, {}, {}
        self.settings = {}  # the server's settings
        self.gone = False
        settings = struct.pack(">HIHI", HEADER_TABLE_SIZE, 0, INITIAL_WINDOW_SIZE, window)
        self.socket.sendall(PREFACE + self.frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    @staticmethod
    def frame(kind, flags, stream, body=b""):
        return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body

    def headers_of(self, path, stream, flags=END_HEADERS, more=()):
        block = b"".join(field(*f) for f in (
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "t"),
            ("content-type", "application/grpc"), ("te", "trailers"), *more))
        return self.frame(HEADERS, flags, stream, block)

    def data_of(self, stream, body, end=True):
        pieces = [body[i:i + 16384] for i in range(0, len(body), 16384)] or [b""]
        return b"".join(self.frame(DATA, END_STREAM if end and i == len(pieces) - 1 else 0, stream, p)
                        for i, p in enumerate(pieces))

    def send(self, data):
        self.socket.sendall(data)

    def begin(self, path, body=b"", end=False, headers=()):
        """Opens a stream. Sends `headers` in addition to the usual headers, and `body`, which may be a part of the
        request. Returns the stream id."""
        stream = self.next_stream
        self.next_stream += 2
        self.send(self.headers_of(path, stream, more=headers) + (self.data_of(stream, body, end)
                                                   if body or end else b""))
        return stream

    def ask(self, path, body):
        """Sends a complete request and returns the stream id."""
        return self.begin(path, message(body), end=True)

    def read(self, seconds, until=None):
        """Handles arriving frames for `seconds` seconds, or until the stream `until` has ended or the connection is
        closed. Returns whether the connection is still open."""
        end = time.monotonic() + seconds
        while not self.gone and not (until and self.is_over(until)):
            left = end - time.monotonic()
            if left <= 0:
                break
            self.socket.settimeout(left)
            try:
                piece = self.socket.recv(1 << 16)
            except TimeoutError:
                break
            except ConnectionError:
                piece = b""
            self.gone = not piece
            self.unread += piece
            while len(self.unread) >= 9:
                n = int.from_bytes(self.unread[:3], "big")
                if len(self.unread) < 9 + n:
                    break
                kind, flags, stream = struct.unpack(">BBI", self.unread[3:9])
                body, self.unread = self.unread[9:9 + n], self.unread[9 + n:]
                self.on_frame(kind, flags, stream & 0x7fffffff, body)
        self.socket.settimeout(30)
        return not self.gone

    def on_frame(self, kind, flags, stream, body):
        if kind == DATA:
            self.bodies[stream] = self.bodies.get(stream, b"") + body
        elif kind == HEADERS:
            fields = Block(body).fields()
            if flags & END_STREAM:
                self.trailers[stream] = fields
        elif kind == RST_STREAM:
            self.reset[stream] = int.from_bytes(body, "big")
        elif kind == PING and not flags & ACK:
            self.send(self.frame(PING, ACK, 0, body))
        elif kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.iter_unpack(">HI", body))
            self.send(self.frame(SETTINGS, ACK, 0))

    def is_over(self, stream):
        return stream in self.trailers or stream in self.reset or self.gone

    def status(self, stream, seconds):
        """Returns the gRPC status of a stream as a number, or None if the stream ended without a status or did not end
        within `seconds`."""
        self.read(seconds, until=stream)
        status = self.trailers.get(stream, {}).get("grpc-status")
        return None if status is None else int(status)


class Paced(Connection):
    """Sends DATA only as far as the server's flow-control windows permit."""

    def __init__(self, *args, **kw):
        self.window, self.initial, self.windows = 65535, 65535, {}
        super().__init__(*args, **kw)

    def on_frame(self, kind, flags, stream, body):
        if kind == WINDOW_UPDATE:
            more, = struct.unpack(">I", body)
            if stream:
                self.windows[stream] = self.windows.get(stream, self.initial) + more
            else:
                self.window += more
        elif kind == SETTINGS and not flags & ACK:
            for key, value in struct.iter_unpack(">HI", body):
                if key == INITIAL_WINDOW_SIZE:
                    self.windows = {s: w + value - self.initial for s, w in self.windows.items()}
                    self.initial = value
        super().on_frame(kind, flags, stream, body)

    def put(self, stream, data, seconds, end=False):
        """Sends a part of a body, and stops early if the stream ends. Raises AssertionError if sending takes more than
        `seconds`."""
        self.windows.setdefault(stream, self.initial)
        until = time.monotonic() + seconds
        while data and not self.is_over(stream):
            room = min(self.window, self.windows[stream], 16384)
            if room > 0:
                piece, data = data[:room], data[room:]
                self.send(self.frame(DATA, END_STREAM if end and not data else 0, stream, piece))
                self.window -= len(piece)
                self.windows[stream] -= len(piece)
            self.read(0.0001 if room > 0 else 0.05)
            if time.monotonic() > until:
                raise AssertionError("no window")

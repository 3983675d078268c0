"""Shared helpers of the end-to-end tests of gRPC: a client, a test case that starts servers, hand-written HTTP/2, and
certificates."""
import json
import os
import socket
import ssl
import struct
import subprocess

import grpc
from grpc.health.v1 import health_pb2_grpc
from support import SLOW, Case, Server
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc)

CODE = grpc.StatusCode
WAIT = 20 * SLOW


class Client:
    """The stubs of all gRPC services on one channel."""

    def __init__(self, target, credentials=None, options=()):
        # With the global subchannel pool, a new channel would share the connection of an old one to the same address.
        options = (("grpc.use_local_subchannel_pool", 1), *options)
        self.channel = grpc.secure_channel(target, credentials, options) if credentials \
            else grpc.insecure_channel(target, options)
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def predict_request(self, values=(2.0,), model="half_plus_two"):
        r = predict_pb2.PredictRequest()
        r.model_spec.name = model
        t = r.inputs["x"]
        t.dtype = types_pb2.DT_FLOAT
        t.tensor_shape.dim.add(size=len(values))
        t.float_val.extend(values)
        return r

    def predict(self, values=(2.0,), model="half_plus_two", **kw):
        kw.setdefault("timeout", WAIT)
        return list(self.prediction.Predict(self.predict_request(values, model), **kw).outputs["y"].float_val)


class GrpcCase(Case):
    def serve(self, *flags, **kw):
        server = Server(*flags, **kw)
        self.addCleanup(self.end, server)
        return server

    def end(self, server):
        code = server.stop()
        self.assertNotIn("Sanitizer", server.log())
        self.assertEqual(code, 0)

    def client(self, server_or_target, *args, **kw):
        target = server_or_target if isinstance(server_or_target, str) \
            else f"127.0.0.1:{server_or_target.grpc_port}"
        client = Client(target, *args, **kw)
        self.addCleanup(client.channel.close)
        return client

    def fails(self, code, words, call, *args, **kw):
        kw.setdefault("timeout", WAIT)
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **kw)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(words, caught.exception.details())
        return caught.exception.details()


class Frames:
    """HTTP/2 frames written by hand, because no client library sends a message that never ends."""

    DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.windows, self.initial, self.ended = b"", {0: 65535}, 65535, set()
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.send(self.SETTINGS, 0, b"")

    def send(self, kind, stream, payload, flags=0):
        self.socket.sendall(struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
                            + struct.pack(">I", stream) + payload)

    def call(self, stream, path):
        fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()),
                  (b":authority", b"x"), (b"content-type", b"application/grpc"),
                  (b"te", b"trailers"))
        block = b"".join(b"\0" + bytes((len(k),)) + k + bytes((len(v),)) + v for k, v in fields)
        self.windows[stream] = self.initial
        self.send(self.HEADERS, stream, block, 4)

    def listen(self, seconds):
        """Reads the bytes that arrive within the next `seconds` seconds."""
        self.socket.settimeout(seconds)
        try:
            got = self.socket.recv(1 << 16)
            if not got:
                raise ConnectionError
            self.buffer += got
        except TimeoutError:
            pass
        self.socket.settimeout(WAIT)
        while len(self.buffer) >= 9:
            n, kind, flags = int.from_bytes(self.buffer[:3], "big"), *self.buffer[3:5]
            if len(self.buffer) < 9 + n:
                break
            stream = int.from_bytes(self.buffer[5:9], "big") & 0x7fffffff
            body, self.buffer = self.buffer[9:9 + n], self.buffer[9 + n:]
            if kind == self.WINDOW:
                self.windows[stream] = self.windows.get(stream, 0) + int.from_bytes(body, "big")
            elif kind == self.PING and not flags:
                self.send(self.PING, 0, body, 1)
            elif kind == self.SETTINGS and not flags:
                for i in range(0, n, 6):
                    key, value = struct.unpack(">HI", body[i:i + 6])
                    if key == 4:
                        for k in self.windows:
                            self.windows[k] += value - self.initial if k else 0
                        self.initial = value
                self.send(self.SETTINGS, 0, b"", 1)
            elif kind in (self.RESET, self.GOAWAY):
                self.ended.add(stream)


def certificate(folder, name, issuer=None, bits=2048):
    """Uses openssl to make a key and a certificate for localhost. The certificate is signed by `issuer`, or self-signed if
    `issuer` is None."""
    at = lambda what: os.path.join(folder, f"{name}.{what}")
    run = lambda *args: subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    if issuer is None:
        run("req", "-x509", "-newkey", f"rsa:{bits}", "-nodes", "-days", "2", *subject,
            "-keyout", at("key"), "-out", at("crt"))
    else:
        run("req", "-newkey", f"rsa:{bits}", "-nodes", *subject, "-keyout", at("key"),
            "-out", at("csr"))
        run("x509", "-req", "-in", at("csr"), "-days", "2", "-CAcreateserial", "-copy_extensions",
            "copy", "-CA", os.path.join(folder, f"{issuer}.crt"),
            "-CAkey", os.path.join(folder, f"{issuer}.key"), "-out", at("crt"))


def by_tls(folder, bits=2048):
    """Returns the flag that enables TLS on a server's gRPC port, and an SSLContext for its clients. `bits` is the size
    of the server's key."""
    certificate(folder, "server", bits=bits)
    files = {name: os.path.join(folder, "server." + name) for name in ("key", "crt")}
    lines = []
    for field, name in (("server_key", "key"), ("server_cert", "crt")):
        with open(files[name], encoding="ascii") as file:
            lines.append(f"{field}: {json.dumps(file.read())}")
    config = os.path.join(folder, "ssl")
    with open(config, "w", encoding="ascii") as file:
        file.write("\n".join(lines))
    context = ssl.create_default_context(cafile=files["crt"])
    context.set_alpn_protocols(["h2"])
    return f"--ssl_config_file={config}", context

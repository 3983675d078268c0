"""A small OpenTelemetry collector for tests, which needs no packages."""
import http.server
import threading


class Collector:
    """An OpenTelemetry collector that keeps the requests it receives. `answer` is called with the handler of each request
    and may send any response; None answers with an empty ExportTraceServiceResponse. `tls` is an ssl.SSLContext."""

    def __init__(self, answer=None, tls=None):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.lock:
                    outer.requests.append((self.path, dict(self.headers), body))
                (outer.answer or Handler.accept)(self)

            def accept(self, body=b"", status=200):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.answer, self.requests, self.lock = answer, [], threading.Lock()
        self.listener = Listener(("127.0.0.1", 0), Handler)
        if tls:
            self.listener.socket = tls.wrap_socket(self.listener.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()

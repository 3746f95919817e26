"""Stands in for a server of models: real ones take minutes and GPUs. It does to order what servers get wrong.

standin_server.py HOST PORT [HOW]...
"""

import http.server
import json
import os
import subprocess
import sys
import time

host, port, how = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
key = os.environ["API_KEY"] if "API_KEY" in os.environ else os.environ.get("VLLM_API_KEY", "")
print("settings:", {"api_key": key}, flush=True)
if "fails" in how:
    print("the model is not there", flush=True)
    sys.exit(3)
if "waits" in how:
    time.sleep(600)
if "everywhere" in how:
    host = "0.0.0.0"  # noqa: S104 - what is tested
if "child" in how:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"child of the server at {port}"])


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /health to everybody, and the rest to who has the key."""

    def answer(self, status: int, content: object, **headers: str) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def do_GET(self) -> None:
        """Answer."""
        if self.path == "/health" and "redirects" in how:
            self.answer(307, None, Location="http://elsewhere/")
        elif self.path == "/health" and "has none" in how:
            self.answer(404, None)
        elif self.path == "/health" and "is busy" in how:
            self.send_response(503)
            while True:
                self.send_header("Wait", "longer")
                self.flush_headers()
        elif self.path == "/v1/models" and "is silent" in how:
            pass
        elif self.path == "/ends":
            print("a line\n" * 6000 + "the last line", flush=True)
            os._exit(3)
        elif self.path == "/health":
            self.answer(200, "ok")
        elif self.headers["Authorization"] == f"Bearer {key}" or "open" in how:
            self.answer(200, {"data": [{"id": "model"}]})
        else:
            self.answer(401, None)

    def do_POST(self) -> None:
        """Answer with what was asked."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {key}" or "bad" in body:
            self.answer(401, None)
        elif "ends" in body:
            os._exit(3)
        elif "cut" in body:
            self.answer(200, None, **{"Content-Length": "1000"})
        else:
            self.answer(200, {"asked": body})


class Server(http.server.ThreadingHTTPServer):
    """A port that is taken is refused, as servers do."""

    allow_reuse_address = True


Server((host, port), Handler).serve_forever()

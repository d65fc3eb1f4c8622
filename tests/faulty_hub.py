"""A Hub of one small checkpoint on this machine, whose connection breaks in the middle of the weights."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
from types import TracebackType
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def small_checkpoint() -> dict[str, bytes]:
    import numpy
    from safetensors.numpy import save

    weights = save({"w": numpy.arange(200_000, dtype="float32")})
    return {"config.json": b'{"model_type": "gpt2"}', "model.safetensors": weights}


class Hub:
    """`fault` is what befalls whoever asks for the weights: `cut`, `stall`, `lie`, `portal` (a hotel's), or nothing."""

    def __init__(self, fault: str | None) -> None:
        self.fault, self.files = fault, small_checkpoint()
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_GET(self) -> None:
                hub.answer(self, body=True)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request: Any, body: bool) -> None:
        path = request.path.partition("?")[0]
        if path.startswith("/api/models/somebody/small/tree/"):
            files = [{"type": "file", "path": name, "size": len(self.files[name]), "oid": name} for name in self.files]
            said = {"welcome": "to this hotel"} if self.fault == "portal" else files
            return self.send(request, json.dumps(said).encode(), body)
        if path.startswith("/api/models/somebody/small"):
            said = {"id": "somebody/small", "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.files]}
            return self.send(request, json.dumps(said).encode(), body)
        name = path.rpartition("/")[2]
        if name not in self.files:
            request.send_error(404)
            return None
        return self.send(request, self.files[name], body, self.fault if name.endswith(".safetensors") else None)

    def send(self, request: Any, content: bytes, body: bool, fault: str | None = None) -> None:
        first = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        request.send_response(206 if first else 200)
        request.send_header("Content-Length", str(len(content) - first))
        if first:
            request.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        request.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        request.send_header("X-Repo-Commit", COMMIT)
        request.end_headers()
        if not body:
            return
        rest = content[first:]
        if fault is None:
            request.wfile.write(rest)
            return
        request.wfile.write(rest[: len(rest) // 2])
        request.wfile.flush()
        if fault == "stall":
            time.sleep(3)
        if fault == "lie":  # another file's bytes, fewer than were promised
            request.wfile.write(b"\0" * 10)
        request.close_connection = True

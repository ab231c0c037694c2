"""The model behind LitServe, one server and one inference process, asked over loopback as the paper did."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from time import perf_counter
from typing import Any

from speedbump.measure.failure import FaultError
from speedbump.measure.tree import descendants, kill

SERVER = Path(__file__).with_name("server.py")
START_LIMIT_S = 600.0


class ServedSession:
    """As ``LocalSession``, with the latency of the client: HTTP, queues and serialisation included."""

    def __init__(self, cell: dict[str, Any], model: dict[str, Any], port: int | None = None) -> None:
        """Start the server and wait until it is ready. Raises FaultError when it does not start."""
        self._port = port or _free_port()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        self._passed_on_bytes = 0
        self._server = subprocess.Popen(
            [sys.executable, str(SERVER), str(self._port), json.dumps({"cell": cell, "model": model})],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )
        try:
            self._wait_until_ready()
            self.attention_ran: str | None = self._ask(ask="attention_ran")
        except BaseException:
            self.close()
            raise

    def time_sentinels(self) -> dict[str, float]:
        """Seconds of the fixed workloads, run where the model is."""
        return dict(self._ask(ask="sentinels"))

    def empty_cache(self) -> None:
        """Give the device's unused buffers back."""
        self._ask(ask="empty_cache")

    def answer(self, n_gen: int, phase: str = "measured") -> dict[str, Any]:
        """One request. What HTTP and LitServe add counts to the first token: E2E - TTFT is decoding alone."""
        start_s = perf_counter()
        inside = self._ask(ask="run", n_gen=n_gen)
        e2e_s = perf_counter() - start_s
        inspected = self._ask(ask="inspect")
        self._pass_on_output()
        return {
            **inside,
            **inspected,
            "start_s": start_s,
            "end_s": start_s + e2e_s,
            "ttft_s": e2e_s - (inside["e2e_s"] - inside["ttft_s"]),
            "e2e_s": e2e_s,
            "inside_e2e_s": inside["e2e_s"],
        }

    def close(self) -> None:
        """Kill the server and all it has started, and wait until they are gone."""
        started = descendants(self._server.pid)
        self._server.kill()
        self._server.wait()
        kill(started)
        self._output.close()

    def _wait_until_ready(self) -> None:
        until_s = time.monotonic() + START_LIMIT_S
        while time.monotonic() < until_s:
            if self._server.poll() is not None:
                raise FaultError("failed", f"the server did not start: {self._last_line()}")
            try:
                if self._send("GET", "/health", limit_s=1.0).status == http.client.OK:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise FaultError("timed_out", f"the server was not ready within {START_LIMIT_S:g} s")

    def _ask(self, **question: Any) -> Any:
        try:
            response = self._send("POST", "/predict", json.dumps(question))
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise FaultError("killed", f"the server died ({type(error).__name__})") from error
        if response.status != http.client.OK:
            raise FaultError("failed", f"the server answered {response.status}: {text[:200].decode(errors='replace')}")
        reply = json.loads(text)
        if "status" in reply:
            raise FaultError(reply["status"], reply["message"])
        return reply["value"]

    def _send(
        self, method: str, path: str, body: str | None = None, limit_s: float | None = None
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=limit_s)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse()

    def _pass_on_output(self) -> None:
        """What the server printed becomes the worker's: the supervisor looks there for what Metal says of a fault."""
        size = os.fstat(self._output.fileno()).st_size
        new = os.pread(self._output.fileno(), size - self._passed_on_bytes, self._passed_on_bytes)
        self._passed_on_bytes += len(new)
        os.write(sys.stderr.fileno(), new)

    def _last_line(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), size, 0).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

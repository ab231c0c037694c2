"""The LitServe server: run as a file, with its port and its task as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])

import litserve  # noqa: E402  (the path must come first)

from speedbump.measure.failure import FaultError, describe, status_of  # noqa: E402


class ModelApi(litserve.LitAPI):  # type: ignore[misc]
    """One local session. What fails is answered with its status, because LitServe would answer 500 to anything."""

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__()
        self.task = task

    def setup(self, device: str) -> None:
        """Build the model, in the inference process."""
        self.fault: FaultError | None = None
        try:
            from speedbump.measure.session import LocalSession

            self.session = LocalSession(self.task["cell"], self.task["model"])
        except BaseException as error:
            self.fault = FaultError(status_of(error), describe(error))

    def predict(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one of the session's questions with its value, or with what went wrong."""
        try:
            if self.fault:
                raise self.fault
            return {"value": self._value(question)}
        except Exception as error:
            return {"status": status_of(error), "message": describe(error)}

    def _value(self, question: dict[str, Any]) -> Any:
        match question["ask"]:
            case "attention_ran":
                return self.session.attention_ran
            case "sentinels":
                return self.session.time_sentinels()
            case "empty_cache":
                return self.session.empty_cache()
            case "run":
                return self.session.run(question["n_gen"])
            case _:
                return self.session.inspect()


def main() -> None:
    port, task = int(sys.argv[1]), json.loads(sys.argv[2])
    # LitServe gives a request up after 30 seconds unless told otherwise; the supervisor keeps the time here.
    server = litserve.LitServer(
        ModelApi(task), accelerator=task["cell"]["device"], devices=1, workers_per_device=1, timeout=False
    )
    server.run(host="127.0.0.1", port=port, num_api_servers=1, generate_client_file=False, log_level="warning")


if __name__ == "__main__":
    main()

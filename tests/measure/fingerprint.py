"""Fingerprint of the measuring code, comments and docstrings apart.

    python tests/measure/fingerprint.py "why measurements stay the same"

records it anew: after PROTOCOL was raised, or with the reason why the change cannot change a measurement.
"""

import ast
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).parent / "data" / "fingerprint.json"

sys.path.insert(0, str(ROOT / "scripts"))

from speedbump.grid.protocol import PROTOCOL  # noqa: E402  (the path must come first)

MODULES = tuple(
    f"speedbump/measure/{name}.py"
    for name in (
        *("accelerator", "cache", "decode", "generation", "instrument", "memory", "mps", "network", "plan"),
        *("prompt", "sentinel", "served", "server", "session", "worker"),
    )
)
"""What runs while a cell is measured, or decides what does. The supervisor's side only watches and writes."""


def fingerprint() -> str:
    """16 hex digits over the modules' syntax trees."""
    digest = hashlib.sha256()
    for name in MODULES:
        digest.update(name.encode() + without_docstrings((ROOT / "scripts" / name).read_text()).encode())
    return digest.hexdigest()[:16]


def without_docstrings(source: str) -> str:
    """The syntax tree as text; a comment, a docstring or a line's length leaves no trace in it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    history = json.loads(RECORD.read_text()) if RECORD.exists() else []
    history.append({"protocol": PROTOCOL, "fingerprint": fingerprint(), "reason": sys.argv[1]})
    RECORD.write_text(json.dumps(history, indent=1) + "\n")


if __name__ == "__main__":
    main()

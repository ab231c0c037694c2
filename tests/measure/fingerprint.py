"""Fingerprint of the measuring code, comments and docstrings apart.

    python tests/measure/fingerprint.py "why measurements stay the same"

records it anew: after PROTOCOL was raised, or with the reason why the change cannot change a measurement.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).parent / "data" / "fingerprint.json"

sys.path.insert(0, str(ROOT / "scripts"))

from speedbump.grid.protocol import PROTOCOL  # noqa: E402  (the path must come first)

PROGRAMS = ("worker.py", "server.py")
"""What is started to measure. The supervisor's side only watches and writes."""


def measuring_modules(scripts: Path = ROOT / "scripts") -> list[Path]:
    """What runs while a cell is measured, or decides what does: the programs, and all that they may import."""
    return closure([scripts / "speedbump" / "measure" / program for program in PROGRAMS], scripts)


def closure(files: Iterable[Path], scripts: Path = ROOT / "scripts") -> list[Path]:
    """The files and all modules of the package that they import, anywhere in them, in order."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += (module for name in imports(file) if (module := _file_of(name, scripts)))
    return sorted(found)


def imports(file: Path) -> Iterator[str]:
    """Names of the modules that a file imports, and of what it takes from them, which may be modules too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{file}: a relative import, which this does not follow"
            assert not node.level, f"{file}: a relative import, which this does not follow"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file_of(name: str, scripts: Path) -> Path | None:
    """The file of a module of the package; None for other names. The package's own holds its version alone."""
    place = scripts.joinpath(*name.split("."))
    files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((file for file in files if name.startswith("speedbump.") and file.exists()), None)


def fingerprint(scripts: Path = ROOT / "scripts") -> str:
    """16 hex digits over the syntax trees of the measuring modules."""
    digest = hashlib.sha256()
    for file in measuring_modules(scripts):
        name = file.relative_to(scripts).as_posix()
        digest.update(name.encode() + without_docstrings(file.read_text()).encode())
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

"""Nothing that is written names a user, a host or a folder."""

import re
from pathlib import Path

_PATH = re.compile(r"(?<![\w.:/])(?:~|/|[A-Za-z]:\\)[^\s'\"`,;:()<>\[\]]*[/\\]([^\s'\"`,;:()<>\[\]/\\]*)")


def without_paths(text: str) -> str:
    """The text with every absolute path, and every path that begins at a home, cut down to its last part."""
    home = str(Path.home())
    if len(home) > 1:
        text = text.replace(home, "~")
    return _PATH.sub(lambda match: match[1] or "(a folder)", text)

"""What a folder holds: the one way to list it, without the files that macOS puts beside a user's."""

from pathlib import Path


def visible(folder: Path, pattern: str = "*") -> list[Path]:
    """What the pattern matches in the folder, sorted, without hidden files and folders: names that begin with a dot.

    On volumes that are not its own (exFAT, SMB, NFS) macOS writes ``._gpt2.yaml`` beside ``gpt2.yaml``, and Finder
    leaves a ``.DS_Store`` in every folder it opens; pathlib's ``glob`` finds both. pattern: as of ``Path.glob``.
    """
    return sorted(path for path in folder.glob(pattern) if not is_hidden(path.relative_to(folder)))


def is_hidden(path: Path) -> bool:
    """Whether a part of a relative path begins with a dot."""
    return any(part.startswith(".") for part in path.parts)

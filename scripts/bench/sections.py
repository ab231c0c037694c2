"""Pages of benchmarks that hold a section for each machine that they ran on."""

from pathlib import Path


def with_section(page: Path, introduction: str, section: str, last: str = "") -> str:
    """The page's text with the section in place of its own of the same heading; others stay, all in order.

    section: empty where none is new.  last: a section that comes after all others, also in place of its own.
    """
    parts = page.read_text().split("\n## ")[1:] if page.exists() else []
    made = {new.partition("\n")[0] for new in (section, last)}
    kept = [part for part in (f"## {part}".strip() for part in parts) if part.partition("\n")[0] not in made]
    return "\n\n".join(filter(None, [introduction.strip(), *sorted([*kept, section]), last])) + "\n"

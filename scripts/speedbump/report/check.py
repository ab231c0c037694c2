"""What would be wrong with publishing a site."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import polars as pl

from speedbump.grid.listing import is_hidden
from speedbump.report.privacy import HOMES, MACHINE, identities

LOADING = {"src", "srcset", "poster", "background", "data", "action", "formaction", "manifest"}
"""Attributes whose address a browser fetches or sends to; href is one on these elements alone:"""
LOADING_LINKS = {"link", "image", "use", "script", "base"}
ADDRESS = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")
CODE = re.compile(r'<style>.*?</style>|<script(?: type="text/plain" id="vega")?>.*?</script>', re.DOTALL)
"""Parts of the page that are the same for everybody."""
FILES = ("index.html", "summary.json")


def defects(site: Path) -> list[str]:
    """One line for each reason not to publish; empty when there is none."""
    found = [f"{name}: missing" for name in FILES if not (site / name).is_file()]
    if (site / "index.html").is_file():
        found += _page_defects(site, (site / "index.html").read_text(encoding="utf-8"))
    if (site / "summary.json").is_file():
        found += _summary_defects((site / "summary.json").read_text(encoding="utf-8"))
    for path in sorted(path for path in site.glob("**/*") if path.is_file()):
        if is_hidden(path.relative_to(site)):
            found.append(f"{path.relative_to(site)}: is hidden and no part of the site: delete it")
            continue
        found += [f"{path.relative_to(site)}: {leak}" for leak in leaks(readable(path))]
    return found


def readable(path: Path) -> bytes:
    """The file's bytes; of a Parquet file also its text, which is compressed there."""
    if path.suffix != ".parquet":
        return path.read_bytes()
    texts = pl.read_parquet(path).select(pl.col(pl.String))
    return path.read_bytes() + texts.write_csv().encode()


def leaks(content: bytes, names: frozenset[str] | None = None) -> list[str]:
    """What in the file names its maker: home folders, user and host name."""
    text = content.decode("utf-8", errors="replace")
    text = CODE.sub("", text)
    found = [f"names a home folder, {match}" for match in sorted({match[0] for match in HOMES.finditer(text)})[:3]]
    words = sorted(identities() if names is None else names)
    text = MACHINE.sub("", text)
    present = [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    return found + [f"names its user, host or home, {word}" for word in present]


class _References(HTMLParser):
    """What the page would load, what it links to, and its policy."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.add(values.get("id", ""))
        if tag == "meta" and values.get("http-equiv", "").lower() == "content-security-policy":
            self.policy = values.get("content", "")
        for name, value in values.items():
            if name in LOADING or (name in ("href", "xlink:href") and tag in LOADING_LINKS):
                self.loads.append(value)
            elif name == "href":
                self.links.append(value)
            elif name == "style":
                self.loads += [a or b for a, b in ADDRESS.findall(value)]


def _page_defects(site: Path, page: str) -> Iterator[str]:
    references = _References()
    references.feed(page)
    style = "".join(re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL))
    loads = references.loads + [a or b for a, b in ADDRESS.findall(style)]
    for address in loads:
        if not address.startswith(("data:", "#")):
            yield f"index.html: loads {address[:80]}"
    if not references.policy.startswith("default-src 'none'"):
        yield "index.html: has no content security policy that begins with default-src 'none'"
    for link in references.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        if parts.path and not (site / unquote(parts.path)).is_file():
            yield f"index.html: links to {parts.path}, which is missing"
        elif not parts.path and parts.fragment and parts.fragment not in references.ids:
            yield f"index.html: links to #{parts.fragment}, which is missing"


def _summary_defects(text: str) -> list[str]:
    try:
        verdict = json.loads(text).get("verdict")
    except (ValueError, AttributeError):
        return ["summary.json: is not a JSON object"]
    return [] if isinstance(verdict, str) and verdict else ["summary.json: has no verdict"]

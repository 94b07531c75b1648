"""The documentation as a static site: `python docs/build.py [DIRECTORY]` (or `make docs`), by default into `site/`.

Pages are the markdown files of this folder, rendered by markdown-it (which rich brings along); the reference is made
from the docstrings of the public names. Links between pages are rewritten; pictures, tables and `style.css` are
copied. No scripts, no network.
"""

from __future__ import annotations

import html
import inspect
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

import conrl

DOCS = Path(__file__).parent
ROOT = DOCS.parent
COPIED = (".css", ".csv", ".png", ".svg")  # files that the site has as they are
# What stands in the menu, in groups; every page of the folder must be in it.
MENU = {
    "Start": ("index", "tutorial", "methods"),
    "How to": (
        "how-to/own-environment",
        "how-to/spreadsheets",
        "how-to/gymnasium",
        "how-to/storm",
        "how-to/plug-ins",
        "how-to/hours",
        "how-to/discounting",
        "how-to/logged-data",
        "how-to/running-systems",
        "how-to/safe-learning",
        "how-to/hard-budgets",
        "how-to/single-episodes",
        "how-to/fleets",
        "how-to/fairness",
        "how-to/certificates",
        "how-to/one-policy",
        "how-to/notebooks",
        "how-to/explore",
        "studies",
        "how-to/trackers",
    ),
    "Stories": ("stories/pricing", "stories/advertising", "stories/fleet", "stories/ward", "stories/rover"),
    "Understand": ("mathematics", "paper", "results", "environments", "architecture", "reliability"),
    "Look up": ("reference", "benchmarks", "changelog", "contributing"),
}
# Pages whose source stands elsewhere.
ELSEWHERE = {
    "index": ROOT / "README.md",
    "benchmarks": ROOT / "benchmarks" / "README.md",
    "changelog": ROOT / "CHANGELOG.md",
    "contributing": ROOT / "CONTRIBUTING.md",
}


@dataclass(frozen=True)
class Page:
    """A page of the site: its name (the path without suffix), title and text."""

    name: str
    title: str
    text: str
    source: Path  # what its links are relative to


def pages() -> list[Page]:
    """In the order of the menu."""
    listed = []
    for name in (name for group in MENU.values() for name in group):
        source = ELSEWHERE.get(name, DOCS / f"{name}.md")
        text = reference() if name == "reference" else source.read_text(encoding="utf-8")
        heading = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
        listed.append(Page(name, heading[1] if heading else name, text, source))
    return listed


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def render(page: Page, known: dict[Path, str]) -> str:
    """The body of a page."""
    reader = MarkdownIt("commonmark").enable("table")
    tokens = reader.parse(page.text)
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(re.sub(r"[`*]", "", tokens[i + 1].content)))
        if token.type == "fence":
            token.info = token.info.split(" ")[0]  # a file name may follow the language
        for inner in token.children or []:
            _relink(inner, page, known)
    body: str = reader.renderer.render(tokens, reader.options, {})
    return body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")


def _relink(token: Token, page: Page, known: dict[Path, str]) -> None:
    for attribute in ("href", "src"):
        link = token.attrGet(attribute)
        if not isinstance(link, str) or re.match(r"[a-z]+:|#", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.source.parent / path).resolve()
        up = "../" * page.name.count("/")
        if target in known:
            token.attrSet(attribute, f"{up}{known[target]}.html{'#' + anchor if anchor else ''}")
        elif attribute == "src" or target.suffix in COPIED:
            token.attrSet(attribute, f"{up}{target.relative_to(DOCS)}")
        elif target.exists():  # a file of the repository that is no page: its name is enough
            token.attrSet(attribute, f"{up}repository.html")
        else:
            raise SystemExit(f"{page.source}: nothing at {link}")


def reference() -> str:
    """Every public name: signature and docstring."""
    parts = ["# Reference", "Made from the docstrings. The command line says the same of itself with `--help`."]
    for name in sorted(conrl.__all__, key=str.lower):
        thing = getattr(conrl, name)
        if inspect.ismodule(thing):
            parts += [f"## conrl.{name}", _doc(thing), *_members(name, thing)]
        elif inspect.isclass(thing) or inspect.isfunction(thing):
            parts += [f"## {name}", _signature(name, thing), _doc(thing)]
            if inspect.isclass(thing):
                parts += _methods(name, thing)
    return "\n\n".join(part for part in parts if part)


def _members(module: str, thing: Any) -> list[str]:
    parts = []
    for name in vars(thing).get("__all__", [n for n in vars(thing) if not n.startswith("_")]):
        member = getattr(thing, name)
        if (inspect.isclass(member) or inspect.isfunction(member)) and member.__module__.startswith("conrl"):
            parts += [f"### {module}.{name}", _signature(f"{module}.{name}", member), _doc(member)]
    return parts


def _methods(owner: str, kind: Any) -> list[str]:
    rows = []
    for name, member in inspect.getmembers(kind):
        home = next((k for k in kind.__mro__ if name in vars(k)), None)
        if name.startswith("_") or home is None or not home.__module__.startswith("conrl"):
            continue
        first = (inspect.getdoc(member) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        if first and (callable(member) or isinstance(member, (property, cached_property))):
            rows.append(f"| `{owner}.{name}` | {html.escape(first)} |")
    return ["\n".join(["| member | what |", "| --- | --- |", *rows])] if rows else []


def _signature(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    if inspect.isclass(thing):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = _plain(f"{name}{signature}")
    if len(text) > 90:  # a line each
        lines, starred = [], False
        for parameter in signature.parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                lines.append("    *,")
            starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
            lines.append(f"    {_plain(str(parameter))},")
        text = "\n".join([f"{name}(", *lines, ")" + text.rpartition(")")[2]])
    return f"```python\n{text}\n```"


def _plain(text: str) -> str:
    """Without memory addresses, and without quotes around annotations."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _doc(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    text = re.sub(r"^(Args|Raises|Returns):$", r"**\1**\n", text, flags=re.MULTILINE)
    return re.sub(r"^    (\w[\w, ]*):", r"- `\1`:", text, flags=re.MULTILINE)


def menu(current: str, titles: dict[str, str]) -> str:
    up = "../" * current.count("/")
    parts = ["<nav aria-label='Pages'>"]
    for group, names in MENU.items():
        parts.append(f"<h2>{group}</h2><ul>")
        for name in names:
            here = " aria-current='page'" if name == current else ""
            parts.append(f"<li><a href='{up}{name}.html'{here}>{html.escape(titles[name])}</a></li>")
        parts.append("</ul>")
    return "".join([*parts, "</nav>"])


def build(out: Path) -> list[Path]:
    """Write the site; returns its pages."""
    listed = pages()
    missing = {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md")} - {p.name for p in listed}
    if missing:
        raise SystemExit(f"not in the menu: {', '.join(sorted(missing))}")
    known = {page.source.resolve(): page.name for page in listed}
    titles = {page.name: "conrl" if page.name == "index" else page.title for page in listed}
    note = "This file is in the repository, beside the documentation."
    extra = Page("repository", "In the repository", f"# In the repository\n\n{note}", DOCS / "repository.md")
    wrote = []
    for page in (*listed, extra):
        up = "../" * page.name.count("/")
        text = (
            "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{html.escape(page.title)}</title><link rel='stylesheet' href='{up}style.css'></head><body>"
            f"{menu(page.name, titles)}<main>{render(page, known)}</main></body></html>\n"
        )
        path = out / f"{page.name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        wrote.append(path)
    for file in (path for suffix in COPIED for path in DOCS.rglob(f"*{suffix}")):
        target = out / file.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return wrote


if __name__ == "__main__":
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    sys.stdout.write(f"wrote {len(build(directory))} pages into {directory}\n")

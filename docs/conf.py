"""The documentation as a site: `make docs` runs Sphinx on the markdown files of the whole repository, into `site/`.

Pages link to each other as files, so that the same text works on a code host. The first page is the README; the menu
is appended to it here and names every page.
"""

from __future__ import annotations

import html
import re
import shutil
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.inspect import TypeAliasForwardRef
from sphinx.util.typing import ExtensionMetadata

import conrl

ROOT = Path(__file__).parents[1]
MENU = {
    "Start": ["docs/tutorial", "docs/methods"],
    "How to": [
        "docs/how-to/own-environment",
        "docs/how-to/spreadsheets",
        "docs/how-to/gymnasium",
        "docs/how-to/storm",
        "docs/how-to/plug-ins",
        "docs/how-to/hours",
        "docs/how-to/large-models",
        "docs/how-to/discounting",
        "docs/how-to/single-episodes",
        "docs/how-to/fleets",
        "docs/how-to/fairness",
        "docs/how-to/one-policy",
        "docs/how-to/hard-budgets",
        "docs/how-to/safe-learning",
        "docs/how-to/logged-data",
        "docs/how-to/running-systems",
        "docs/how-to/certificates",
        "docs/how-to/notebooks",
        "docs/how-to/explore",
        "docs/how-to/trackers",
        "docs/studies",
    ],
    "Stories": [f"docs/stories/{path.stem}" for path in sorted((ROOT / "docs" / "stories").glob("*.md"))],
    "Understand": [
        "docs/mathematics",
        "docs/wider-world",
        "docs/paper",
        "docs/results",
        "docs/environments",
        "docs/architecture",
        "docs/reliability",
    ],
    "Reference": [
        *("docs/reference/models", "docs/reference/planning", "docs/reference/policies", "docs/reference/fleets"),
        *("docs/reference/learning", "docs/reference/logs", "docs/reference/studies", "docs/reference/theory"),
        *("docs/reference/errors", "docs/reference/command-line"),
    ],
    "Project": ["benchmarks/README", "CHANGELOG", "CONTRIBUTING"],
}
TYPES = (
    *("ArrayLike", "Array", "Bool", "Float", "Index", "Int"),
    *("Bonus", "CostFunction", "Criterion", "Limits", "PathLike", "Problem"),
)

project = "conrl"
author = "the authors of conrl"
version = release = conrl.__version__
root_doc = "README"
include_patterns = ["*.md", "benchmarks/*.md", "docs/*.md", "docs/**/*.md"]
exclude_patterns = [".*", "out", "site", "src", "tests"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]

myst_heading_anchors = 4
smartquotes = False  # an option is --json
highlight_language = "none"
default_role = "py:obj"  # `plan.gap` in a docstring: a link where there is such a name, and code where not
add_module_names = False
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_inherit_docstrings = False  # of Gymnasium and others
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in TYPES}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"conrl {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False  # the license says whose it is
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def read_docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: what is indented after an empty line is a formula, and a bar elsewhere is a bar."""
    made, formula = list[str](), False
    for before, line in pairwise(["-", *lines]):
        if not before and line.startswith("    ") and not formula:
            made += ["::", ""]
            formula = True
        formula = formula and (not line or line.startswith("    "))
        made.append(line if formula else line.replace("|", "\\|"))
    lines[:] = GoogleDocstring(made).lines()


def read_examples(app: Sphinx, context: object, lines: list[str]) -> None:
    """Commands below the options, which stand there line by line, are code."""
    made = list[str]()
    for before, line in pairwise(["", *lines]):
        code = line.startswith("|  ")
        made += ["", "::", ""] if code and not before.startswith("|  ") else []
        made.append(f"    {line[1:].strip()}" if code else line.removeprefix("| "))
    lines[:] = made


def add_menu(app: Sphinx, name: str, source: list[str]) -> None:
    """The menu, below the README."""
    if name == root_doc:
        for caption, pages in MENU.items():
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def break_names(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Long names in tables may be broken behind an underscore or a dot; what is copied has no such breaks."""
    for cell in tree.findall(nodes.entry):
        for code in cell.findall(nodes.literal):
            text = re.sub(r"(?<=[a-z])([._])(?=[a-zA-Z])", r"\1<wbr>", html.escape(code.astext()))
            code.children = [nodes.raw("", text, format="html")]


def name_start(app: Sphinx, error: Exception | None) -> None:
    """A server shows index.html."""
    if error is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> ExtensionMetadata:
    # Sphinx 9.0 shows its own object where one of TYPES is in a union.
    TypeAliasForwardRef.__repr__ = lambda self: self.name  # type: ignore[method-assign]
    for language in ("csv", "drn"):
        app.add_lexer(language, TextLexer)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("sphinx-click-process-epilog", read_examples)
    app.connect("source-read", add_menu)
    app.connect("doctree-resolved", break_names)
    app.connect("build-finished", name_start)
    return {"parallel_read_safe": True}

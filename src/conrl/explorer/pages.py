"""Pages: one HTML file that needs nothing else, and nobody's network.

A page is a template with its style, its scripts and its numbers put in. Names go in as JSON and are shown as text,
never as HTML; a policy in the page's head (CSP) names the scripts by their hashes, so that no other would run and no
request could leave.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any

STYLE = "page.css"
FRAME = "frame.js"
SCRIPTS = ("program.js", "pictures.js", "policy.js", "explorer.js")  # of the explorer


def asset(name: str, package: str = "conrl.explorer") -> str:
    """A file of a page, as text."""
    return (resources.files(package) / "page" / name).read_text(encoding="utf-8")


def fill(template: str, data: dict[str, Any], scripts: dict[str, str]) -> str:
    """The template with everything put in its place; `scripts` by the names that it has for them."""
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts.values())
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    parts = {
        **scripts,
        "style": asset(STYLE),
        "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:",
        "title": html.escape(str(data["title"])),
        # Within a script element "</script" and "<!--" would mean something; as \u003c they are JSON all the same.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one pass: what is put in is not searched again. A lone surrogate in a name cannot be written.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    return page.encode("utf-8", errors="replace").decode()

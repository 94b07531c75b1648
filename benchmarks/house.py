"""The house in numbers: how much code there is, how it is cut, and how many functions one episode crosses.

    .venv/bin/python benchmarks/house.py

Lines of code are those that hold a token: no blank lines, comments or docstrings. A function is crossed if it is called
during an episode of `conrl.learn` on Mars rover, of which 20 are looked at; comprehensions and lambdas do not count.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import conrl
from conrl.running.loop import make_world, play_episode

SOURCE = Path(conrl.__file__).parent
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
Documented = (ast.Module, ast.ClassDef, ast.FunctionDef)


def docstrings(tree: ast.Module) -> Iterator[range]:
    """The lines of each docstring."""
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node) is not None:
            text = node.body[0]
            yield range(text.lineno, (text.end_lineno or text.lineno) + 1)


def lines_of(text: str) -> tuple[int, int]:
    """Lines of code, and lines of comments and docstrings."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    code = {line for t in tokens if t.type not in SILENT for line in range(t.start[0], t.end[0] + 1)}
    words = {line for lines in docstrings(ast.parse(text)) for line in lines}
    comments = {t.start[0] for t in tokens if t.type == tokenize.COMMENT}
    return len(code - words), len(words | comments)


def crossed(before: int = 50, episodes: int = 20) -> list[int]:
    """How many functions of conrl each of some episodes calls, after others that warm it up."""
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    learner = conrl.ConRL(rover.task, seed=0)
    conrl.learn(rover, learner, before, 0)
    world, _ = make_world(rover, learner, "outcome", None)
    play_episode(world, learner, 0)
    names: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            names.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    counts = []
    for _ in range(episodes):
        names.clear()
        sys.setprofile(look)
        play_episode(world, learner, 0)
        sys.setprofile(None)
        counts.append(sum(not name.endswith(("comp>", "genexpr>", "lambda>")) for _, name in names))
    return counts


def middle_and_most(sizes: list[int]) -> str:
    """The median, and what nine of ten do not exceed."""
    return f"{statistics.median(sizes):.0f} / {statistics.quantiles(sizes, n=10)[-1]:.0f}"


def main() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))]
    code, words = (sum(column) for column in zip(*map(lines_of, texts), strict=True))
    nodes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    sizes = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes]
    asked = sum(len(re.findall(r"\b(?:hasattr|getattr)\(", text)) for text in texts)
    silent = sum(size >= 20 and ast.get_docstring(node) is None for node, size in zip(nodes, sizes, strict=True))
    print(f"modules                                  {len(texts)}")
    print(f"lines of code                            {code:,}")
    print(f"lines of a module, median / 90%          {middle_and_most([text.count(chr(10)) for text in texts])}")
    print(f"lines of a function, median / 90%        {middle_and_most(sizes)}")
    print(f"docstring and comment lines per code     {words / code:.2f}")
    print(f"functions of 20 lines without docstring  {silent}")
    print(f"hasattr and getattr                      {asked}")
    print(f"functions crossed, median / 90%          {middle_and_most(crossed())}")


if __name__ == "__main__":
    main()

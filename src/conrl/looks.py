"""Names that look alike: case, blanks, invisible characters and ways to write a number do not count."""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"([+-]?)0*(\d+)(?:[.,](\d*?)0*)?")
_VARIANTS = re.compile("[\ufe00-\ufe0f]")  # ask for a picture of the character before; no characters of their own


def visible(name: str) -> str:
    """A name without characters that cannot be seen, such as a zero-width space.

    >>> visible("a\\u200bb")
    'ab'
    """
    if name.isascii():
        return name
    return "".join(c for c in _VARIANTS.sub("", name) if unicodedata.category(c) != "Cf")


def one_look(name: str) -> str:
    """What names that look alike have in common: case, blanks and ways to write a character do not count.

    >>> one_look(" Run  Fast") == one_look("run fast")
    True
    """
    text = name if name.isascii() else unicodedata.normalize("NFKC", visible(name))
    return " ".join(text.casefold().split())


def look(name: str) -> str:
    """The same where leading zeros, a plus sign and decimals that are 0 do not count either.

    A spreadsheet makes `1` of the code `01`, and a program `1.0` of 1, and not in every row.

    >>> look("007"), look("+7.0"), look("0"), look("0A"), look("1,50")
    ('7', '7', '0', '0a', '1.5')
    """
    text = one_look(name)
    if (found := _NUMBER.fullmatch(text)) is None:
        return text
    sign, whole, decimals = found.groups()
    return ("-" if sign == "-" else "") + whole + (f".{decimals}" if decimals else "")


def difference(one: str, two: str) -> str:
    """In what two names differ that look alike, in words."""
    if visible(one) == visible(two):
        return "characters that cannot be seen"
    if one_look(one) == one_look(two):
        return "case or blanks"
    return "leading zeros" if one_look(one).isdecimal() and one_look(two).isdecimal() else "how a number is written"

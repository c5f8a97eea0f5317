"""What the editor's page asks for, in UTF-16 units."""

from typing import Any

import pytest

from api.editing.service import laid_out, suggestions

HEAD = """name: cards  # 🂡
stream:
  time: ts
  type: kind
  types: {Reset: , Payment: }
  attributes: {amount: float, place: string}
queries:
  - |
    QUERY q
    PATTERN SEQ(Reset r, Payment pay)
"""


def asked(end: str, **more: Any) -> tuple[list[str], str]:
    """The words for a text that ends so, and what they take the place of."""
    units = (HEAD + end).encode("utf-16-le")
    found = suggestions(HEAD + end, len(units) // 2, **more)
    return [word["written"] for word in found["words"]], units[2 * found["start"] :].decode(
        "utf-16-le"
    )


@pytest.mark.parametrize(
    ("end", "words", "replaced"),
    [
        ("    WHERE pay.am", ["amount"], "am"),
        ("    WHERE pay.", ["amount", "place"], ""),
        ("    WHERE p", ["pay", "place", "PARTITION", "PATTERN", "PREV", "Payment"], "p"),
        ("    WHERE pay.amount", [], "amount"),
        ("    WHERE pay.place = 'am", [], "am"),
        ("    -- am", [], "am"),
        ("    WITHIN 10 mi", ["min"], "mi"),
        ("limits: 3 # stre", [], "stre"),
        ("sug", [], "sug"),
        ("supp", ["suppress: "], "supp"),
    ],
)
def test_words_go_on_with_what_was_begun(end: str, words: list[str], replaced: str) -> None:
    found, begun = asked(end)
    assert set(words) <= set(found)
    assert all(word.strip('"').casefold().startswith(replaced.casefold()) for word in found)
    assert words or not found
    assert begun == replaced


def test_a_layout_says_what_to_replace_where() -> None:
    text = HEAD.replace(
        "PATTERN SEQ(Reset r, Payment pay)\n", "PATTERN Reset RETURN * WITHIN 1 s\n"
    )
    (change,) = laid_out(text)["changes"]
    units = text.encode("utf-16-le")
    old = units[2 * change["start"] : 2 * change["end"]].decode("utf-16-le")
    assert old == "QUERY q\n    PATTERN Reset RETURN * WITHIN 1 s"
    assert change["text"].split() == old.split()
    assert "\n    RETURN *\n    WITHIN 1 s" in change["text"]

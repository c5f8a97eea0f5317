"""Scripts, styles and pictures of the pages.

Their addresses have a digest of them all in it, so that a browser keeps them for good and asks for
new ones when any has changed.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from api.http.problems import ProblemError

router = APIRouter()

FOLDER = Path(__file__).with_name("static")
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def contents() -> dict[str, bytes]:
    """What there is, by name."""
    return {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}


@cache
def digest() -> str:
    found = hashlib.sha256()
    for name, content in contents().items():
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()[:12]


def address(name: str) -> str:
    """Where a page finds one of them."""
    if name not in contents():
        raise KeyError(name)
    return f"/static/{digest()}/{name}"


@router.get("/static/{version}/{name}")
def get_asset(version: str, name: str) -> Response:
    content = contents().get(name)
    if content is None:
        raise ProblemError("not-found", f"there is no '{name}'")
    keep = "public, max-age=31536000, immutable" if version == digest() else "no-cache"
    return Response(
        content, media_type=MEDIA_TYPES[Path(name).suffix], headers={"cache-control": keep}
    )

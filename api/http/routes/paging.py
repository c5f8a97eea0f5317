"""Lists in pages: `limit`, `cursor`, and the address of the next page in the Link header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar
from typing import Literal as OneOf

from fastapi import Query, Request, Response
from pydantic import BaseModel

from api.store import Page

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=1000, description="Of a page.")]
Cursor = Annotated[
    str | None, Query(max_length=40, description="From the Link header of the page before.")
]

Order = Annotated[
    OneOf["asc", "desc"], Query(description="`desc`: the newest first; `asc`: as they came.")
]

LINK: dict[str, Any] = {
    "headers": {
        "link": {
            "description": 'The next page, if there is one: `</v1/…?cursor=…>; rel="next"`.',
            "schema": {"type": "string"},
        }
    }
}


def listed(request: Request, page: Page[T], view: Callable[[T], BaseModel]) -> Response:
    """The items of a page as they are shown, with the next page in the answer's headers."""
    headers = {}
    if page.next is not None:
        following = request.url.include_query_params(cursor=page.next)
        headers["link"] = f'<{following.path}?{following.query}>; rel="next"'
    shown = b",".join(view(item).model_dump_json(by_alias=True).encode() for item in page.items)
    return Response(b"[" + shown + b"]", headers=headers, media_type="application/json")

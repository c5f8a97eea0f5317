"""Lists in pages: `limit`, `cursor`, and the address of the next page in the Link header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request, Response

from api.store import Page

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=1000, description="Of a page.")]
Cursor = Annotated[
    str | None, Query(max_length=40, description="From the Link header of the page before.")
]

LINK: dict[str, Any] = {
    "headers": {
        "link": {
            "description": 'The next page, if there is one: `</v1/…?cursor=…>; rel="next"`.',
            "schema": {"type": "string"},
        }
    }
}


def linked(request: Request, response: Response, page: Page[T]) -> Sequence[T]:
    """The items of a page, with the next page in the answer's headers."""
    if page.next is not None:
        following = request.url.include_query_params(cursor=page.next)
        response.headers["link"] = f'<{following.path}?{following.query}>; rel="next"'
    return page.items

"""Pages from templates, with the headers that keep them safe, and errors as pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from api.http.pages import assets
from api.http.problems import PROBLEMS, ProblemError
from api.store import UnknownIdError
from optimizer.explain.glossary import BY_ID
from optimizer.explain.text import cpu
from workloads.errors import SheafError

# Nothing from elsewhere, and no script or style within the page: a text that a query or an event
# brings along can do nothing even where it was not escaped.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

NANOSECONDS = "nanoseconds per second of stream"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """A number as people read it: with separators, and a power of ten where it is very large."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    if abs(value) >= 1e7 or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        shown = f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPT)}"
    elif value == int(value):
        shown = f"{int(value):,}"
    else:
        shown = f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return shown.replace("-", "−")


def cost(value: float, unit: str) -> str:
    """A cost as people read it: times in the unit that suits them."""
    return cpu(value).replace("-", "−") if unit == NANOSECONDS else number(value)


def cost_unit(unit: str) -> str:
    """What costs are in, beside numbers that have gone through `cost`."""
    return "of CPU for each second of stream" if unit == NANOSECONDS else unit


def moment(value: datetime | None) -> Markup:
    """A time, which a script shows in the reader's own zone."""
    if value is None:
        return Markup("–")
    at = value if value.tzinfo else value.replace(tzinfo=UTC)
    shown = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), shown)


def term(id: str, text: str | None = None) -> Markup:
    """A word that leads to its meaning; a script shows this as a tooltip."""
    link = '<a class="term" href="/glossary#{}" data-term="{}">{}</a>'
    return Markup(link).format(id, id, text or BY_ID[id].name)


def counted(many: int, one: str, several: str | None = None) -> str:
    """A number with its noun: 1 query, 1,200 queries."""
    return f"{many:,} {one if many == 1 else several or one + 's'}"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "moment": moment, "cost": cost, "cost_unit": cost_unit}
    made.globals |= {"asset": assets.address, "counted": counted, "escape": escape, "term": term}
    return made


ENVIRONMENT = _environment()


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page; the templates also know who is signed in, and where."""
    subject = request.scope.get("state", {}).get("subject")
    text = ENVIRONMENT.get_template(template).render(
        **context, subject=subject, path=request.url.path
    )
    return HTMLResponse(text, status_code=status, headers=HEADERS)


class PageRoute(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except UnknownIdError as error:
                return error_page(request, "not-found", str(error))
            except ProblemError as error:
                return error_page(request, error.kind, error.detail)
            except SheafError as error:
                return error_page(request, "failed", str(error))

        return shown


def error_page(request: Request, kind: str, detail: str) -> HTMLResponse:
    status, title = PROBLEMS[kind]
    return page(request, "error.html", status, title=title, detail=detail)

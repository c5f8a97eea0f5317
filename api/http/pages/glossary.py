"""`/glossary`: the words of plans and reports, and the same as JSON for tooltips."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from api.http.pages.render import PageRoute, page
from optimizer.explain.glossary import TERMS, Term

router = APIRouter(route_class=PageRoute)


@router.get("/glossary")
def glossary_page(request: Request) -> Response:
    sections: dict[str, list[Term]] = {}
    for term in TERMS:
        sections.setdefault(term.section, []).append(term)
    return page(request, "glossary.html", sections=sections)


@router.get("/pages/glossary")
def glossary() -> list[dict[str, Any]]:
    """Every term with its meaning, and the phrases by which sentences name it."""
    return [
        {
            "id": term.id,
            "name": term.name,
            "meaning": term.meaning,
            "phrases": [*term.name.split(", "), *term.phrases],
        }
        for term in TERMS
    ]

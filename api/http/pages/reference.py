"""`/docs`: every call with its parameters, an example of what goes in, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from api.http.pages.render import PageRoute, page

router = APIRouter(route_class=PageRoute)

METHODS = ("get", "post", "put", "delete", "patch")


@router.get("/docs")
def reference_page(request: Request) -> Response:
    document = request.app.openapi()
    found: dict[str, list[dict[str, Any]]] = {}
    for call in calls(document):
        found.setdefault(call["tag"], []).append(call)
    return page(request, "reference.html", api=document["info"], sections=found)


def calls(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls of an OpenAPI document, in its order, as the page shows them."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if operation := item.get(method):
                yield {
                    "anchor": f"{method}-{path.strip('/')}".replace("/", "-").translate(_NO_BRACES),
                    "method": method.upper(),
                    "path": path,
                    "tag": (operation.get("tags") or ["other"])[0],
                    "about": operation.get("description") or operation.get("summary", ""),
                    "parameters": [
                        _parameter(p, document) for p in operation.get("parameters", ())
                    ],
                    "bodies": list(_contents(operation.get("requestBody", {}), document)),
                    "answers": [
                        {
                            "status": status,
                            "about": answer.get("description", ""),
                            "contents": list(_contents(answer, document)),
                        }
                        for status, answer in sorted(operation.get("responses", {}).items())
                    ],
                }


_NO_BRACES = str.maketrans({"{": None, "}": None})


def _parameter(parameter: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    schema = parameter.get("schema", {})
    return {
        "name": parameter["name"],
        "place": parameter["in"],
        "required": parameter.get("required", False),
        "kind": kind_of(schema, document),
        "usual": schema.get("default"),
        "about": parameter.get("description") or schema.get("description", ""),
    }


def _contents(holder: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The media types of a body, each with an example where there is one."""
    for media, content in holder.get("content", {}).items():
        schema = content.get("schema", {})
        example = content.get("example", example_of(schema, document))
        if example is not None and not isinstance(example, str):
            example = json.dumps(example, indent=2, ensure_ascii=False)
        yield {"media": media, "kind": kind_of(schema, document), "example": example}


def resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference leads to."""
    if "$ref" not in schema:
        return schema
    found: Any = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return resolved(found, document)


def example_of(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """The example that a schema, or what it refers to, gives."""
    whole = resolved(schema, document)
    if "example" in whole:
        return whole["example"]
    if whole.get("examples"):
        return whole["examples"][0]
    for choice in whole.get("anyOf", ()):
        if (found := example_of(choice, document)) is not None:
            return found
    if whole.get("type") == "array":
        inner = example_of(whole.get("items", {}), document)
        return None if inner is None else [inner]
    return None


def kind_of(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        whole = resolved(schema, document)
        return kind_of(whole, document) if "enum" in whole else schema["$ref"].rsplit("/", 1)[-1]
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if choices := schema.get("anyOf"):
        return " | ".join(
            dict.fromkeys(kind_of(c, document) for c in choices if c.get("type") != "null")
        )
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}), document)}"
    return str(schema.get("type", ""))

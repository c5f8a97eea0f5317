"""Workloads as YAML: the text that was posted, or one written from the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from api.store import StoredWorkload


def text_of(stored: StoredWorkload) -> str:
    """A version of a workload as YAML: as it was posted, unless that was JSON."""
    return as_yaml(stored.document) if stored.text is None else stored.text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style="|" if "\n" in value else None
    )


def _nothing(dumper: yaml.SafeDumper, value: None) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "")


_Dumper.add_representer(str, _text)
_Dumper.add_representer(type(None), _nothing)


def as_yaml(document: Mapping[str, Any]) -> str:
    """A workload's document as people write it."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)

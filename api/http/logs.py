"""The service's log: a line of JSON each, with the request's id, or plain text on a terminal."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from typing import Literal as OneOf

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# What every record has; all else was given with `extra`.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (id := request_id.get()) is not None:
            line["request"] = id
        line |= {k: v for k, v in vars(record).items() if k not in _USUAL}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class Plain(logging.Formatter):
    """Lines of a log for people, with what was given besides at the end."""

    def format(self, record: logging.LogRecord) -> str:
        given = {k: v for k, v in vars(record).items() if k not in _USUAL and v is not None}
        text = super().format(record)
        return " ".join([text, *(f"{k}={v}" for k, v in given.items())])


def set_up(kind: OneOf["json", "text", "auto"]) -> None:
    """Send what this process logs to standard error; `auto` is text on a terminal alone."""
    handler = logging.StreamHandler()
    as_text = kind == "text" or (kind == "auto" and sys.stderr.isatty())
    handler.setFormatter(Plain("%(levelname)-7s %(message)s") if as_text else JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)

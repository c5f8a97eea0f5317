"""What people type to run this: `./sheaf` in a checkout, `sheaf` where a wheel was installed."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).parents[3]  # or the package's folder in a wheel


def in_checkout() -> bool:
    """Whether the documents and the wrapper lie beside this code."""
    return (CHECKOUT / "sheaf").is_file() and (CHECKOUT / "docs").is_dir()


def command_name() -> str:
    """How examples call the command."""
    return "./sheaf" if in_checkout() else "sheaf"

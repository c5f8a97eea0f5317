"""`sheaf devices`: what can compute here."""

from __future__ import annotations

import typer


def devices() -> None:
    """List the processor and the OpenCL devices; --device auto takes a GPU if there is one."""
    from engines.devices import choose, list_devices, opencl_devices

    chosen = choose("auto")
    for number, info in enumerate(list_devices()):
        # OpenCL devices come with GPUs first, and the first of them is the one that is used.
        mark = "  (auto)" if info.kind == chosen and number <= 1 else ""
        typer.echo(f"{info.kind:<8} {info.name}, {info.detail}{mark}")
    found, why = opencl_devices()
    if not found:
        typer.echo(f"opencl   none: {why}")

"""`sheaf devices`: what can compute here."""

from __future__ import annotations

import typer

from api.cli.terminal.json_output import Json, echo_json


def devices(as_json: Json = False) -> None:
    """List the processor and the OpenCL devices.

    `--device auto` takes a GPU if there is one.
    """
    from engines.devices import choose, list_devices, opencl_devices

    chosen = choose("auto")
    # OpenCL devices come with GPUs first, and the first of them is the one that is used.
    listed = [
        (info, info.kind == chosen and number <= 1) for number, info in enumerate(list_devices())
    ]
    found, why = opencl_devices()
    if as_json:
        shown = ("kind", "name", "detail", "is_gpu")
        echo_json(
            [
                {**{name: getattr(info, name) for name in shown}, "auto": is_auto}
                for info, is_auto in listed
            ]
        )
        return
    for info, is_auto in listed:
        typer.echo(f"{info.kind:<8} {info.name}, {info.detail}{'  (auto)' if is_auto else ''}")
    if not found:
        typer.echo(f"opencl   none: {why}")

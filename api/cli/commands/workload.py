"""`sheaf workload`: the workloads that a service keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from api.cli.commands.service import Server, connected, moment, print_json, print_rows
from api.cli.completion import WorkloadName
from api.cli.terminal.json_output import Json
from api.cli.workload_files import find_workload, open_workload

if TYPE_CHECKING:
    from api.http.schemas import WorkloadOut

workload = typer.Typer(no_args_is_help=True, help="Workloads that a service keeps.")

Id = Annotated[str, typer.Argument(metavar="WORKLOAD", help="The id that the service gave it.")]
Version = Annotated[int | None, typer.Option(min=1, help="By default the latest.")]


@workload.command("post")
def post(
    given: WorkloadName,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Check a workload and keep it.

    A changed one of the same name is a new version.
    """
    open_workload(given)  # its errors are said with their places in the file
    with connected(server) as client:
        kept = client.post_workload(find_workload(given))
    _show(kept, as_json)


@workload.command("list")
def list_all(server: Server = None, as_json: Json = False) -> None:
    """All workloads, the newest first."""
    with connected(server) as client:
        found = list(client.workloads())
    if as_json:
        print_json(found)
        return
    print_rows(
        f"{len(found)} workloads",
        ("id", "name", "version", "queries", "changed"),
        ((one.id, one.name, one.version, one.queries, moment(one.changed)) for one in found),
    )


@workload.command("show")
def show(id: Id, version: Version = None, server: Server = None, as_json: Json = False) -> None:
    """One workload: its queries with their patterns."""
    with connected(server) as client:
        found = client.workload(id, version)
    _show(found, as_json)


@workload.command("text")
def text(id: Id, version: Version = None, server: Server = None) -> None:
    """A workload as YAML, comments and all.

    As it was posted, unless that was JSON.
    """
    with connected(server) as client:
        typer.echo(client.workload_text(id, version), nl=False)


@workload.command("delete")
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="WORKLOAD...", help="Ids of workloads.")],
    server: Server = None,
) -> None:
    """Delete workloads and their plans.

    All versions go. Refused while jobs need them, also those that are over.
    """
    with connected(server) as client:
        for id in ids:
            client.delete_workload(id)


@workload.command("delete-plan")
def delete_plan(
    ids: Annotated[list[str], typer.Argument(metavar="PLAN...", help="Ids of plans.")],
    server: Server = None,
) -> None:
    """Delete plans.

    Refused while jobs need them, also those that are over.
    """
    with connected(server) as client:
        for id in ids:
            client.delete_plan(id)


@workload.command("versions")
def versions(id: Id, server: Server = None, as_json: Json = False) -> None:
    """The versions of a workload, the latest first."""
    with connected(server) as client:
        found = client.versions(id)
    if as_json:
        print_json(found)
        return
    print_rows(
        f"{len(found)} versions of {id}",
        ("version", "queries", "changed"),
        ((one.version, one.queries, moment(one.changed)) for one in found),
    )


@workload.command("explain")
def explain(id: Id, version: Version = None, server: Server = None, as_json: Json = False) -> None:
    """Show what the optimizer sees.

    Normal forms, candidates, and what keeps queries from sharing.
    """
    with connected(server) as client:
        found = client.explain(id, version)
    if as_json:
        print_json(found)
        return
    print_rows(
        f"{len(found.queries)} queries in normal form",
        ("query", "form", "normalized"),
        ((query.name, query.form, query.normalized) for query in found.queries),
    )
    print_rows(
        f"{len(found.candidates)} pieces that queries have in common",
        ("piece", "kind", "queries"),
        ((", ".join(c.pattern), c.kind, ", ".join(c.queries)) for c in found.candidates),
    )
    for obstacle in found.obstacles:
        typer.echo(f"  {obstacle}")


@workload.command("plans")
def plans(
    id: Annotated[str | None, typer.Argument(metavar="[WORKLOAD]", help="Only its plans.")] = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Plans, the newest first.

    `sheaf plan PLAN --server URL` shows one.
    """
    with connected(server) as client:
        found = list(client.plans(id))
    if as_json:
        print_json(found)
        return
    print_rows(
        f"{len(found)} plans",
        ("id", "workload", "version", "solver", "model", "status", "queries", "created"),
        (
            (p.id, p.workload, p.workload_version, p.solver, p.model, p.status, p.queries,
             moment(p.created))
            for p in found
        ),
    )  # fmt: skip


def _show(found: WorkloadOut, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_rows(
        f"{found.id}: {found.name}, version {found.version} of {found.latest}",
        ("query", "kind", "window", "key", "pattern"),
        ((q.name, q.kind, q.window, ", ".join(q.key), q.pattern) for q in found.queries),
    )

"""Help with its options in sections, for commands that have many."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

ARGUMENTS, OPTIONS = "Arguments", "Options"


class SectionedCommand(TyperCommand):
    """A command whose options are listed under the panels that they name, those of none first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write each section, in the order in which its first option comes."""
        sections: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            panel = getattr(parameter, "rich_help_panel", None) or OPTIONS
            sections.setdefault(ARGUMENTS if is_argument else panel, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

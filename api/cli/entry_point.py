"""The installed `sheaf` command, which can be interrupted before the rest of it is loaded."""

from api.cli.interruption import interruptible
from api.cli.quick_start import collect_seldom, leave, share_one_allocator


def main() -> None:
    """Run the command given on the command line."""
    collect_seldom()
    share_one_allocator()
    try:
        with interruptible():
            from api.cli.main import main as run

            run()
    except SystemExit as ending:
        if isinstance(ending.code, int):
            leave(ending.code)
        raise

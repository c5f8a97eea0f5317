"""The installed `sheaf` command, which can be interrupted before the rest of it is loaded."""

from api.cli.interruption import interruptible


def main() -> None:
    """Run the command given on the command line."""
    with interruptible():
        from api.cli.main import main as run

        run()

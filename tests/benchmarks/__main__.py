"""`python -m tests.benchmarks bench NAME`: what `sheaf bench NAME` calls."""

from tests.benchmarks.command import app

app(prog_name="sheaf")

"""Running the tests of a workload, and reporting what came of them."""

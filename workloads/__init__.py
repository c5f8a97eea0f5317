"""The query language, stream and workload models, bundled workloads and event generators."""

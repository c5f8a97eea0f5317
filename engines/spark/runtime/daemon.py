"""Spark's daemon of Python workers, with what they need loaded before they are forked from it.

Each worker would load it again otherwise, some seconds of a core each time. Nothing may be called
here that starts threads: a fork leaves them behind.
"""

from __future__ import annotations

import gc

import pandas as pd
from pyspark import daemon

from engines.live import bucket
from engines.spark.stream import bucket_queries, sink
from kernels.kept import cpu as kept
from kernels.panes import cpu as panes
from kernels.product import cpu as product
from kernels.reversible import cpu as reversible

LOADED = (pd, bucket, bucket_queries, sink, kept, panes, product, reversible)

if __name__ == "__main__":
    # Spark has each worker collect garbage after each task, which would go through all that is
    # loaded here, and so copy it: a twentieth of a second of a core, and more.
    gc.collect()
    gc.freeze()
    daemon.manager()

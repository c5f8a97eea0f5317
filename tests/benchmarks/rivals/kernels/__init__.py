"""How others find matches, on the same columns: to measure what trees of joins are worth.

`stacks.py` is the automaton with stacks of SASE, `configurations.py` the one with configurations
of the Odense thesis, `nested.py` NEEL's iterative nested execution. All take what `given.py` says,
and `reference.py` is all of them as plain Python.
"""

"""What queries that construct their matches build once.

A *node* is a fragment of a pattern that several of them have. A *reader* is what has a tree: each
OR-free reading of a query, and each node that is built. `nodes` finds both, `improve` betters a
choice step by step, `cpsat` and `exhaustive` find the best one, `bound` is what none can undercut,
`choice` calls them, and `plan` makes groups and candidates of the answer.
"""

"""What queries that construct their matches make once.

A *node* is a piece of pattern that several of them have (`optimizer.trees.pieces`). A *reader* is
what has a tree: each OR-free reading of a query, and each node that is made. A plan is a set of
nodes to make; every reader then has its best tree over them. `problem` finds nodes and readers,
`benefit` and `conflicts` rate single nodes, `finder` improves a choice step by step, `joint` and
`exhaustive` find the best one, `bound` says what none can undercut, and `choose` puts it together.
"""

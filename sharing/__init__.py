"""Finding and choosing what a workload's queries can compute once.

`choose.choose` does it all: queries as steps (`steps`), candidates by Apriori (`candidates`), what
each is worth (`benefit`), conflicts among them (`conflicts`), and the choice, either of whole
candidates (`solve`) or of the places that each serves (`serve`). `grouping` chops the queries by a
choice; `obstacles` says what could not be shared. That is for queries that are counted; `detection`
is for those that construct their matches, and `planner` makes one plan of both.
"""

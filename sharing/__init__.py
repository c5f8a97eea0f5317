"""What a workload's queries can compute once, and the plan that comes of it.

`planner` makes the plan. `counting` is for queries that are counted: candidates, benefits, groups.
`matching` is for queries whose matches are constructed: fragments that trees of joins have in
common. `solvers` choose among candidates, whole (`candidates`) or position by position
(`placements`).
"""

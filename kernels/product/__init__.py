"""The sliding product of matrices, in two stacks."""

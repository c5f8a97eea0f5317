"""Products of panes, for windows of several lengths."""

"""The sliding product of each key of a live stream, which goes on from batch to batch."""

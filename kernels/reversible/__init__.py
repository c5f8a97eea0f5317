"""The sliding product where each event can be taken back."""

"""Which of many conditions events satisfy."""

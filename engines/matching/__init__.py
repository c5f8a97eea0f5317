"""Engines that construct matches."""

"""Collecting experience."""

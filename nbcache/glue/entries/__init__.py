"""Compile results as entries, and back."""

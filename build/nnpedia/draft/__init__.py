"""Drafting: a family worked out by looking at a live model, each part proven or left open with the reason."""

"""Translating to other libraries: what their places hold, checked where they are installed."""

"""Benchmarks: ratios measured side by side, and reproductions of published figures."""

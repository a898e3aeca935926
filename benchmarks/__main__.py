"""Print every benchmark as a table of ratios measured side by side.

Run with ``make bench``, or ``python -m benchmarks`` from the root of the repository.
"""

from benchmarks import accuracy, links, memory, report, sketch, solvers, valuation


def main() -> None:
    """Run the benchmarks one after the other."""
    solvers.main()
    memory.main()
    valuation.main()
    report.main()
    sketch.main()
    links.main()
    accuracy.main()


if __name__ == "__main__":
    main()

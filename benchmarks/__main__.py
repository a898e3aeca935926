"""Print every benchmark as a table of ratios measured side by side.

Run with ``make bench``, or ``python -m benchmarks [NAME...]`` from the root of the repository.
"""

import sys

from benchmarks import accuracy, distillation, links, memory, report, sketch, solvers, valuation

ALL = {
    "solvers": solvers.main,
    "memory": memory.main,
    "valuation": valuation.main,
    "report": report.main,
    "sketch": sketch.main,
    "links": links.main,
    "accuracy": accuracy.main,
    "distillation": distillation.main,
}


def main() -> None:
    """Run the benchmarks one after the other, or those that are named."""
    unknown = sorted(set(sys.argv[1:]) - set(ALL))
    if unknown:
        sys.exit(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(ALL)}")
    for name in sys.argv[1:] or ALL:
        ALL[name]()


if __name__ == "__main__":
    main()

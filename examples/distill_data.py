"""Made-up reviews for ``silot train distill``: hotels, films and meals, each with stars of its own.

``python -m examples.distill_data FOLDER`` writes the files that ``distill.yml`` names, and
``distill.yml`` itself. Nobody wrote these reviews: words are drawn by chance, so the same folder
comes out every time.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

# Words of one to five stars that every kind of review has.
COMMON = (
    "awful terrible useless disgusting worst horrible",
    "poor weak disappointing dull bad tired",
    "average ordinary acceptable middling usual plain",
    "good pleasant solid nice enjoyable friendly",
    "superb wonderful perfect brilliant outstanding best",
)
# Words that mean something in one kind of review only.
OWN = {
    "hotel": ("bedbugs filthy", "noisy cramped", "clean functional", "quiet comfy", "luxury views"),
    "film": (
        "unwatchable walkout",
        "slow wooden",
        "watchable long",
        "witty tense",
        "gripping oscar",
    ),
    "meal": ("inedible rotten", "cold greasy", "filling simple", "fresh tasty", "divine melting"),
}
TOPICS = {
    "hotel": "room lobby bed staff breakfast bathroom stay pool",
    "film": "plot actor scene script ending camera music story",
    "meal": "soup waiter steak wine table dessert menu sauce",
}
FILLER = "the a was and we it very this with had there really for so quite some"
# What a teacher's reviewers give: nobody knows all stars well.
STARS = {
    "hotel": (0.30, 0.26, 0.22, 0.14, 0.08),
    "film": (0.12, 0.24, 0.28, 0.24, 0.12),
    "meal": (0.08, 0.14, 0.22, 0.26, 0.30),
}
EVEN = (0.2,) * 5


def reviews(
    kinds: Sequence[str], stars: Sequence[float], count: int, rng: np.random.Generator
) -> list[tuple[str, int]]:
    """Texts and stars from 1; a fifth of what is said is said of one star more or less."""
    found: list[tuple[str, int]] = []
    for _ in range(count):
        kind = str(rng.choice(kinds))
        star = int(rng.choice(5, p=np.array(stars) / sum(stars)))
        words = [str(rng.choice(TOPICS[kind].split())) for _ in range(2)]
        words += [str(rng.choice(FILLER.split())) for _ in range(int(rng.integers(4, 9)))]
        for _ in range(int(rng.integers(1, 4))):
            said = int(np.clip(star + rng.choice((-1, 0, 1), p=(0.1, 0.8, 0.1)), 0, 4))
            known = OWN[kind][said] if rng.random() < 0.5 else COMMON[said]
            words.append(str(rng.choice(known.split())))
        found.append((" ".join(str(word) for word in rng.permutation(words)), star + 1))
    return found


def write(path: Path, rows: Sequence[tuple[str, int]], *, stars: bool = True) -> None:
    """Write a table; without stars there are texts alone."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["review", "stars"] if stars else ["review"])
        table.writerows(rows if stars else [(text,) for text, _ in rows])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all files to a folder."""
    parser = argparse.ArgumentParser(prog="python -m examples.distill_data")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    kinds = tuple(TOPICS)
    write(folder / "public.csv", reviews(kinds, EVEN, 60, rng))
    for kind in kinds:
        write(folder / f"{kind}.csv", reviews((kind,), STARS[kind], 600, rng))
    write(folder / "transfer.csv", reviews(kinds, EVEN, 1000, rng), stars=False)
    write(folder / "everything.csv", reviews(kinds, EVEN, 600, rng))
    for kind in kinds:
        write(folder / f"{kind}-test.csv", reviews((kind,), STARS[kind], 300, rng))
    shutil.copyfile(Path(__file__).with_name("distill.yml"), folder / "distill.yml")
    print(f"{len(list(folder.iterdir()))} files in {folder}")


if __name__ == "__main__":
    main()

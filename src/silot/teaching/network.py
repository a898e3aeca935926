"""A network as users write it down: devices, divergences, rates; and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from ..data.documents import complaint, read_fields
from ..errors import InputError, MismatchError, SilotError
from .costs import Array, LinkCosts

Rows = tuple[tuple[float, ...], ...]
Constants = Literal["none", "natural", "log10"]


class Checked(BaseModel):
    """A model whose errors are silot's, and name the field and the device."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    def __init__(self, /, **fields: Any) -> None:
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in fields.items()}
        try:
            super().__init__(**plain)
        except ValidationError as error:
            raise _translated(error, fields, type(self).model_fields) from None


def _translated(
    error: ValidationError, fields: Mapping[str, Any], names: Collection[str]
) -> InputError:
    fault, name = complaint(error, fields, names), fields.get("name")
    whose = f"device {name!r}, " if isinstance(name, str) and len(name) < 80 else ""
    code = {"unknown": "network-unknown-field", "missing": "network-missing-field"}
    text = f"{whose}{'.'.join(fault.place)}: {fault.message}"
    return InputError(text, code=code.get(fault.kind, "network-field"))


class Device(Checked):
    """One device.

    Attributes
    ----------
    name
        Its name, different from all others.
    labelled, unlabelled
        Numbers of records with and without a label.
    error
        Share of its labelled records that its own model gets wrong, in [0, 1], best on records
        it was not trained on; ``None`` without labels.
    power_dbm
        Power of its transmitter.

    Examples
    --------
    >>> Device(name="north", labelled=80, unlabelled=20, error=0.25).records
    100
    """

    name: str = Field(min_length=1, max_length=200)
    labelled: int = Field(ge=0)
    unlabelled: int = Field(default=0, ge=0)
    error: float | None = None
    power_dbm: float = Field(default=24.0, ge=-200, le=200)

    def __init__(self, /, **fields: Any) -> None:
        for field in ("labelled", "unlabelled", "error", "power_dbm"):
            if isinstance(fields.get(field), bool | np.bool_):
                raise InputError(
                    f"device {str(fields.get('name'))[:80]!r}, {field}: a number is needed.",
                    code="network-field",
                )
        super().__init__(**fields)
        has_error = self.error is not None
        for is_wrong, what, code in (
            (self.records == 0, "has no record", "device-records"),
            (
                self.labelled > 0 and not has_error,
                "has labels and no error. Give the share of its labelled records its model gets "
                "wrong",
                "error-missing",
            ),
            (
                has_error and not self.labelled,
                "has an error and no labels. Leave the error out",
                "labels-absent",
            ),
            (
                not 0 <= (self.error or 0.0) <= 1,
                "has an error that is no share in [0, 1]",
                "error-range",
            ),
        ):
            if is_wrong:
                raise InputError(f"device {self.name!r} {what}.", code=code)

    @property
    def records(self) -> int:
        """Records, labelled or not."""
        return self.labelled + self.unlabelled


class Network(Checked):
    r"""Devices and what is known about each pair of them.

    Every matrix is a list of rows (row = source, column = target, in the order of the devices),
    or a mapping of names to mappings of names to numbers.

    Attributes
    ----------
    devices
        Two or more.
    divergence
        :math:`\hat d_H` between the records of each pair, in [0, 2]: symmetric.
    rates_mbit
        Mbit/s from each device to each other, or one number for all; 0 bars a link.
    model_bits
        Size M of a model in bits.
    delta
        One minus the confidence of the bounds behind the costs.
    constants
        ``"none"`` leaves the Rademacher constants :math:`2\sqrt{2 \log 2}` and
        :math:`10\sqrt{2 \log 2}` out: they are the same for all devices and far above any
        error, so they drown what differs. ``"natural"`` has them as printed; ``"log10"`` takes
        all logarithms to base 10, as the published runs do.
    phi
        Scales of source errors, of target errors, and of energy.
    unlabelled_error
        What an unlabelled record counts as in a device's own error. 1: as wrong (the paper's
        eq. 3). ``None``: not at all; then its labelled records alone count as its sample.
    minimum_labelled
        Fewest labelled records of a source.
    disagreement
        Share of j's records on which the models of i and j differ,
        :math:`\hat\varepsilon_j(h_j, h_i)`; ``None`` leaves the term out, as the published runs
        do.

    Raises
    ------
    InputError
        Values out of range, fields that do not exist; the message names field and device.
    MismatchError
        Fewer than two devices, doubled names, matrices of other sizes.

    Examples
    --------
    >>> network = Network(
    ...     devices=[
    ...         {"name": "north", "labelled": 800, "unlabelled": 200, "error": 0.1},
    ...         {"name": "south", "labelled": 0, "unlabelled": 500},
    ...     ],
    ...     divergence=[[0, 0.6], [0.6, 0]],
    ... )
    >>> costs = network.costs()
    >>> costs.eligible.tolist(), round(float(costs.energy[0, 1]), 3)
    ([True, False], 3.394)
    """

    devices: tuple[Device, ...]
    divergence: Rows
    rates_mbit: Rows | float = 74.0
    model_bits: float = Field(default=1e9, gt=0, allow_inf_nan=False)
    delta: float = Field(default=0.1, gt=0, lt=1)
    constants: Constants = "none"
    phi: tuple[float, float, float] = (1.0, 5.0, 1.0)
    unlabelled_error: float | None = Field(default=1.0, ge=0, le=1)
    minimum_labelled: int = Field(default=1, ge=1)
    disagreement: Rows | None = None

    def __init__(self, /, **fields: Any) -> None:
        names = _names(fields.get("devices"))
        for field in ("divergence", "rates_mbit", "disagreement"):
            if fields.get(field) is not None:
                fields[field] = as_rows(fields[field], field, names)
        super().__init__(**fields)
        n = len(self.devices)
        if n < 2:
            raise MismatchError(
                f"the network has {n} device(s); two or more are needed.", code="network-size"
            )
        if len(set(self.names)) < n:
            doubled = next(name for name in self.names if self.names.count(name) > 1)
            raise MismatchError(
                f"two devices are called {doubled[:80]!r}. Rename one.", code="device-names"
            )
        check_pairs(self.divergence, "divergence", self.names, 0.0, 2.0, symmetric=True)
        if not isinstance(self.rates_mbit, float | int):
            check_pairs(self.rates_mbit, "rates_mbit", self.names, 0.0, np.inf)
        elif not (np.isfinite(self.rates_mbit) and self.rates_mbit > 0):
            raise InputError("rates_mbit: a rate above 0 is needed.", code="pair-range")
        if self.disagreement is not None:
            check_pairs(self.disagreement, "disagreement", self.names, 0.0, 1.0)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a network from a ``.json``, ``.yml`` or ``.yaml`` file of the fields of this class.

        Raises
        ------
        FileError
            A file that is missing, of another kind, not readable, or no mapping.
        InputError, MismatchError
            As the class; the message begins with the name of the file.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "network.yml"
        >>> text = '''
        ... devices:
        ...   - {name: north, labelled: 800, unlabelled: 200, error: 0.1}
        ...   - {name: south, labelled: 0, unlabelled: 500}
        ... divergence: {north: {south: 0.6}}
        ... '''
        >>> _ = file.write_text(text)
        >>> Network.load(file).names
        ('north', 'south')
        """
        file = Path(path)
        fields = read_fields(file)
        try:
            return cls(**fields)
        except SilotError as error:
            raise type(error)(f"{file.name}: {error.message}", code=error.code) from None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the devices."""
        return tuple(device.name for device in self.devices)

    def costs(self) -> LinkCosts:
        r"""Costs of training, transfer and energy, all errors in [0, 1].

        .. math::

            S_i &= \hat\varepsilon_i + 2 \sqrt{2 \log 2} + 3 q_i,
            \qquad q_i = \sqrt{\log(2 / \delta) / (2 D_i)} \\
            T_{ij} &= \hat\varepsilon_i + 10 \sqrt{2 \log 2} + \tfrac12 \hat d_H(j, i)
                + \hat\varepsilon_j(h_j, h_i) + 6 (q_i + q_j) \\
            K_{ij} &= M P_i / R_{ij}

        Energy is in joule. A device with fewer labels than ``minimum_labelled`` is not eligible.

        Notes
        -----
        ST-LF, eq. 17 and 18. The difference of labelling functions is left out there too, for
        it needs labels at the target. The published runs add divergences in percent to errors
        in [0, 1]; here half a divergence and an error have the same unit.

        Examples
        --------
        >>> devices = [Device(name=name, labelled=200, error=0.1) for name in "ab"]
        >>> costs = Network(devices=devices, divergence=[[0, 1], [1, 0]]).costs()
        >>> costs.source.round(4).tolist(), costs.transfer[0, 1].round(4).tolist()
        ([0.3596, 0.3596], 1.6385)
        """
        log = np.log10 if self.constants == "log10" else np.log
        rademacher = 0.0 if self.constants == "none" else float(np.sqrt(2 * log(2)))
        labelled = np.array([device.labelled for device in self.devices], dtype=np.float64)
        records = np.array([device.records for device in self.devices], dtype=np.float64)
        errors = np.array([1.0 if d.error is None else d.error for d in self.devices])
        own = records
        if self.unlabelled_error is None:
            own = np.where(labelled > 0, labelled, records)
        else:
            wrong = labelled * errors + (records - labelled) * self.unlabelled_error
            errors = wrong / records
        at_source = np.sqrt(log(2 / self.delta) / (2 * own))
        at_target = np.sqrt(log(2 / self.delta) / (2 * records))
        transfer = (
            errors[:, None]
            + 10 * rademacher
            + 0.5 * np.array(self.divergence)
            + 6 * (at_source[:, None] + at_target)
        )
        if self.disagreement is not None:
            transfer = transfer + np.array(self.disagreement)
        return LinkCosts(
            source=errors + 2 * rademacher + 3 * at_source,
            transfer=transfer,
            energy=self._energy(),
            phi=self.phi,
            eligible=labelled >= self.minimum_labelled,
            names=self.names,
        )

    def _energy(self) -> Array:
        n = len(self.devices)
        watts = 10 ** ((np.array([device.power_dbm for device in self.devices]) - 30) / 10)
        rates = np.broadcast_to(np.array(self.rates_mbit, dtype=np.float64) * 1e6, (n, n))
        energy = np.full((n, n), np.inf)
        np.divide(self.model_bits * watts[:, None], rates, out=energy, where=rates > 0)
        return energy


class Energy(Checked):
    """What sending costs: fields of a network's file that a run does not find out itself."""

    rates_mbit: Rows | FiniteFloat = 0.0
    power_dbm: dict[str, FiniteFloat] | FiniteFloat = 0.0
    model_bits: FiniteFloat = 0.0

    @classmethod
    def load(cls, path: Path, names: Sequence[str]) -> Self:
        """Read a file about devices of these names."""
        body = read_fields(path)
        try:
            if "rates_mbit" in body:
                body["rates_mbit"] = as_rows(body["rates_mbit"], "rates_mbit", names)
            energy = cls(**body)
        except SilotError as error:
            raise type(error)(f"{path.name}, {error.message}", code=error.code) from None
        powers = energy.power_dbm if isinstance(energy.power_dbm, dict) else {}
        if powers and (strange := sorted(set(powers) ^ set(names))):
            raise InputError(
                f"{path.name}, power_dbm: a number, or one for each device by name; "
                f"{strange[0][:40]!r} is not in both lists.",
                code="network-field",
            )
        return energy

    @property
    def options(self) -> dict[str, Any]:
        """The fields that the file has, as options of ``adapt``."""
        names = {"rates_mbit": "rates", "power_dbm": "powers"}
        return {names.get(name, name): getattr(self, name) for name in self.model_fields_set}


def _names(devices: Any) -> tuple[str, ...] | None:
    """Return names before any check, or ``None`` where devices are of a wrong kind."""
    if not isinstance(devices, list | tuple):
        return None
    if not all(isinstance(device, Device | Mapping) for device in devices):
        return None
    if not all(isinstance(field, str) for k in devices if isinstance(k, Mapping) for field in k):
        # Python takes no other keyword.
        raise InputError(
            "devices: a field of a device has a name that is not a text. Check its spelling.",
            code="network-unknown-field",
        )
    return tuple(str(k.name if isinstance(k, Device) else k.get("name")) for k in devices)


def as_rows(value: Any, field: str, names: Sequence[str] | None) -> Any:
    """Turn arrays and mappings of names into rows; leave all else for pydantic to judge.

    A pair of a mapping that stands in one direction only holds for both.
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not isinstance(value, Mapping) or names is None:
        return value
    pairs: dict[tuple[str, str], Any] = {}
    for name, row in value.items():
        if not isinstance(row, Mapping):
            raise InputError(
                f"{field}, {str(name)[:80]!r}: a mapping of names to numbers is needed.",
                code="network-field",
            )
        for device in map(str, (name, *row)):
            if device not in names:
                raise MismatchError(
                    f"{field}: there is no device {device[:80]!r}.", code="device-unknown"
                )
        pairs |= {(str(name), str(other)): entry for other, entry in row.items()}

    def find(a: str, b: str) -> Any:
        if (a, b) not in pairs and (b, a) not in pairs:
            raise MismatchError(
                f"{field}: the pair {a[:80]!r}, {b[:80]!r} is missing.", code="pair-missing"
            )
        return pairs[(a, b) if (a, b) in pairs else (b, a)]

    return [[0.0 if a == b else find(a, b) for b in names] for a in names]


def check_pairs(
    rows: Rows, field: str, names: Sequence[str], least: float, most: float, *,
    symmetric: bool = False,
) -> None:  # fmt: skip
    """Raise where a matrix has another size, NaN, entries out of range, or is not symmetric."""
    n = len(names)
    if len(rows) != n or any(len(row) != n for row in rows):
        raise MismatchError(
            f"{field} has {len(rows)} rows of {sorted({len(row) for row in rows})} entries; "
            f"{n} of {n} are needed.",
            code="network-shape",
        )
    pairs = np.array(rows, dtype=np.float64)
    np.fill_diagonal(pairs, max(least, 0.0))
    for wrong, what, code in (
        (~np.isfinite(pairs), "is not a finite number", "pair-nan"),
        ((pairs < least) | (pairs > most), f"is outside [{least:g}, {most:g}]", "pair-range"),
        (
            symmetric & ~np.isclose(pairs, pairs.T, rtol=0, atol=1e-9),
            "differs between the two directions; it must be symmetric",
            "pair-asymmetric",
        ),
    ):
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            pair = f"{names[i][:80]!r} and {names[j][:80]!r}"
            raise InputError(f"{field} of {pair} {what}.", code=code)

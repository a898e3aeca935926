"""What a process loads: no torch, where nothing of torch is used."""

import subprocess
import sys

import pytest

CALLS = """
import sys

import numpy as np

import silot

rng = np.random.default_rng(0)
x, y, z = rng.normal(size=(24, 2)), rng.normal(size=(18, 2)) + 1, rng.normal(size=(21, 2))
many = rng.normal(size=(3000, 2))


def labelled(points):
    return silot.Measure(points, labels=np.arange(len(points)) % 2)


def no_torch(what):
    assert "torch" not in sys.modules, what


for method in ("direct", "fedwad", "trianglewad"):
    run = silot.distance(x, y, method=method, seed=0)
    no_torch(method)
silot.distance(labelled(x), labelled(y), labels=True)
silot.distance_matrix([x, y, z], method="trianglewad")
no_torch("matrix")
silot.pooled_distance({"a": x, "b": y}, z)
silot.pooled_distance({"a": x, "b": y}, z, hidden=True)
no_torch("pooled")
silot.barycenter([labelled(x), labelled(y)], labels=True)
no_torch("barycenter")
silot.coreset([labelled(x), labelled(y)], 4, labels=True, test=labelled(z))
no_torch("coreset")
silot.compare([labelled(x), labelled(y)], labelled(z), labels=True)
no_torch("compare")
silot.value_holders([x, y, z])
silot.value_holders([labelled(x), labelled(y)], labelled(z), labels=True)
no_torch("value")
silot.value_records(labelled(x), labelled(z), labels=True, fdr=0)
no_torch("records")
silot.audit(run.transcript, truth={"x": x, "y": y})
no_torch("audit")
silot.adapt({"a": labelled(x), "b": y}, model="mlp")
no_torch("adapt")
silot.audits.audit_policy(silot.Policy(), silot.Measure(x), draws=50)
no_torch("audit of a policy")
silot.transport.sinkhorn_divergence(x, y)
no_torch("transport")
halves = {"a": many[:1500], "b": many[1500:]}
found = silot.api.sketches(halves, x, public=rng.normal(size=(300, 2)))
found.matrix(), found.values(), found.barycenter()
no_torch("sketches")
assert "ot" not in sys.modules
"""


@pytest.mark.slow
def test_no_public_function_loads_torch_for_arrays() -> None:
    pytest.importorskip("opendp")
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]

"""What tests of the engine need: without it they are skipped, with a line that says so."""

import importlib.util

import pytest

needs_spu = pytest.mark.skipif(
    importlib.util.find_spec("spu") is None, reason="spu is not installed (silot[secure])"
)
needs_noise = pytest.mark.skipif(
    importlib.util.find_spec("opendp") is None, reason="opendp is not installed (silot[privacy])"
)
needs_keys = pytest.mark.skipif(
    importlib.util.find_spec("cryptography") is None or importlib.util.find_spec("yaml") is None,
    reason="cryptography or PyYAML is not installed (silot[secure])",
)

"""Transport of tensors with gradients: ``silot_transport.torch`` by its name in silot."""

from silot_transport.torch import *  # noqa: F403
from silot_transport.torch import __all__ as __all__

"""Transport of tensors with gradients: ``silot_transport.torch`` by its name in silot."""

from silot_transport.torch import *  # noqa: F403

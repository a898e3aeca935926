"""What holders are asked of their labels, their columns, and models that they train."""

from .columns import Spread
from .models import CountLabelled, TrainModel
from .rounds import TrainAlone, TrainRound

__all__ = ["CountLabelled", "Spread", "TrainAlone", "TrainModel", "TrainRound"]

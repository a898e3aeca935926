"""ST-LF: who sends its model to whom."""

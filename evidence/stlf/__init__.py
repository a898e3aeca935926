"""ST-LF (paper 003): who sends its model to whom."""

"""What to do with each site's data: the evidence, and the decision that follows from it."""

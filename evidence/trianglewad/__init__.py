"""TriangleWad (paper 001): distances by interpolants, and what they give away."""

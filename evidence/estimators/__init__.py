"""Estimators of scikit-learn: cleaning before a classifier, and tests of a shift."""

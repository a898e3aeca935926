"""Estimators of scikit-learn: cleaning before a classifier, tests of a shift, adaptation."""

"""No test measures time, for a busy machine must not fail one; the same examples every time."""

from hypothesis import settings

settings.register_profile("silot", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("silot")

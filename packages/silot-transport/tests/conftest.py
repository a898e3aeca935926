"""No test measures time, for a busy machine must not fail one; the same examples every time."""

from hypothesis import settings

# Where the tests of all packages run together, the profile of the suite holds.
if settings.get_current_profile_name() == "default":
    settings.register_profile("silot-transport", deadline=None, derandomize=True, max_examples=40)
    settings.load_profile("silot-transport")

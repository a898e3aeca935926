"""No test measures time: a busy machine must not fail one."""

from hypothesis import settings

settings.register_profile("silot", deadline=None)
settings.load_profile("silot")

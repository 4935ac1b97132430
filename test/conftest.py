"""What all tests share: where the models lie that `requirements-models.txt` installs, and how examples are drawn."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from hypothesis import settings

_SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])

if (_SITE_PACKAGES / "silero_vad").is_dir():
    os.environ.setdefault("STEPWELL_TEST_MODELS", str(_SITE_PACKAGES))

# The same examples every time: whether a change is taken must not hang on chance. `explore` looks further.
settings.register_profile("stepwell", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "stepwell"))

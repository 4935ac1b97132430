"""What all tests share: where the models lie that `requirements-models.txt` installs."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

_SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])

if (_SITE_PACKAGES / "silero_vad").is_dir():
    os.environ.setdefault("STEPWELL_TEST_MODELS", str(_SITE_PACKAGES))

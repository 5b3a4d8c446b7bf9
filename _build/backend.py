"""Build backend: hatchling, plus node and the lab builder only when the prebuilt extension is missing."""
from __future__ import annotations

from typing import Any

import frontend
from hatchling import build as hatchling_build
from hatchling.build import *  # noqa: F403 - the optional hooks that need no change


def _requirements() -> list[str]:
    return [] if frontend.built_from() else [frontend.NODE, frontend.BUILDER]


def _ensure_built() -> None:
    if not frontend.built_from():
        frontend.build()


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return hatchling_build.get_requires_for_build_wheel(config_settings) + _requirements()


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return hatchling_build.get_requires_for_build_sdist(config_settings) + _requirements()


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return hatchling_build.get_requires_for_build_editable(config_settings) + _requirements()


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    _ensure_built()
    return hatchling_build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    _ensure_built()
    return hatchling_build.build_sdist(sdist_directory, config_settings)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    _ensure_built()
    return hatchling_build.build_editable(wheel_directory, config_settings, metadata_directory)
